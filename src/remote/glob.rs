//! Patterns of paths, as in `.gitignore`, but never narrower than they look: matched in any case of letters, and what
//! stands in the place of a folder that a pattern names is matched too.

/// `*` and `?` stay within a name, `**` crosses folders, a pattern without a slash is a name in any folder, one that ends
/// with a slash or with `/**` is the folder itself and all below it.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (segments(pattern), path.to_lowercase());
    let path: Vec<&str> = path.split('/').collect();
    let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
    matches_from(&pattern, &path)
}

/// Whether a path is a folder above something that the pattern matches: a symlink there would stand for it.
pub(super) fn is_above(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (segments(pattern), path.to_lowercase());
    let path: Vec<&str> = path.split('/').collect();
    let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
    // A pattern that begins anywhere would be below every folder.
    let is_anchored = pattern.first() != Some(&"**");
    is_anchored
        && (1..pattern.len()).any(|end| {
            pattern
                .get(..end)
                .is_some_and(|start| matches_from(start, &path))
        })
}

fn segments(pattern: &str) -> Vec<String> {
    let lower = pattern.to_lowercase();
    let (anchored, below) = (
        lower.trim_end_matches('/').contains('/'),
        lower.ends_with('/'),
    );
    let mut segments: Vec<String> = lower
        .split('/')
        .filter(|s| !s.is_empty())
        .map(str::to_owned)
        .collect();
    if !anchored && !segments.is_empty() {
        segments.insert(0, "**".to_owned());
    }
    if below && !segments.is_empty() {
        segments.push("**".to_owned());
    }
    segments
}

fn matches_from(pattern: &[&str], path: &[&str]) -> bool {
    // For each end of a part of the pattern, which starts of the path it matches: no backtracking, however many `**`.
    let mut reached = vec![false; path.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for part in pattern {
        let mut next = vec![false; path.len() + 1];
        for (at, _) in reached.iter().enumerate().filter(|(_, is)| **is) {
            if *part == "**" {
                next.iter_mut().skip(at).for_each(|slot| *slot = true);
            } else if path.get(at).is_some_and(|name| name_matches(part, name))
                && let Some(slot) = next.get_mut(at + 1)
            {
                *slot = true;
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

fn name_matches(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let mut reached = vec![false; name.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for c in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        for (at, _) in reached.iter().enumerate().filter(|(_, is)| **is) {
            if c == '*' {
                next.iter_mut().skip(at).for_each(|slot| *slot = true);
            } else if name.get(at).is_some_and(|found| c == '?' || c == *found)
                && let Some(slot) = next.get_mut(at + 1)
            {
                *slot = true;
            }
        }
        reached = next;
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_matches() {
        for (pattern, path) in [
            (".github/workflows/**", ".github/workflows/ci.yml"),
            (".github/workflows/**", ".github/workflows/a/b.yml"),
            (".github/workflows/**", ".GitHub/Workflows/CI.yml"),
            (".github/workflows/**", ".github/workflows"),
            (".github/workflows/", ".github/workflows/ci.yml"),
            ("CODEOWNERS", "CODEOWNERS"),
            ("CODEOWNERS", "docs/codeowners"),
            ("/CODEOWNERS", "CODEOWNERS"),
            ("*.pem", "a/b/key.PEM"),
            (".aider*", ".aider.conf.yml"),
            ("**/secret/*", "secret/x"),
            ("**/secret/*", "a/b/secret/x"),
            ("a/**/b", "a/b"),
            ("a/**/b", "a/x/y/b"),
            ("a?c", "abc"),
            ("größe", "GRÖSSE/Größe"),
            ("**", "anything/at/all"),
        ] {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn what_does_not_match() {
        for (pattern, path) in [
            (".github/workflows/**", ".github/workflows.md"),
            (".github/workflows/**", "docs/.github/workflows/ci.yml"),
            ("/CODEOWNERS", "docs/CODEOWNERS"),
            ("CODEOWNERS", "CODEOWNERS.md"),
            ("*.pem", "key.pem.txt"),
            ("a/*", "a/b/c"),
            ("a?c", "a/c"),
            ("a?c", "ac"),
            ("", "a"),
        ] {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn folders_above() {
        assert!(is_above(".github/workflows/**", ".GITHUB"));
        assert!(is_above(".github/workflows/**", ".github/workflows"));
        assert!(!is_above(".github/workflows/**", "src"));
        assert!(!is_above("CODEOWNERS", "src"));
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!matches(&"**/a*".repeat(40), &"aaaaaaaa/".repeat(40)));
        assert!(!matches(&"*a".repeat(60), &"a".repeat(59)));
    }
}
