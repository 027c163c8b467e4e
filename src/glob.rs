//! Patterns for paths and branches, as used in `push.forbidden` and `discover.branches`.
//!
//! `*` matches any part of a name, `?` one character, `**` any number of whole names separated by
//! `/`. Nothing else is special and nothing can be escaped.

/// Returns the reason why a text is not a valid pattern.
pub(crate) fn syntax_error(pattern: &str) -> Option<&'static str> {
    if pattern.contains(['\\', '[', ']', '{', '}', '!']) {
        return Some("only `*`, `?` and `**` are wildcards, and they cannot be escaped");
    }
    let is_misplaced = |part: &str| part.contains("**") && part != "**";
    pattern
        .split('/')
        .any(is_misplaced)
        .then_some("`**` matches whole directories and must be a complete path component")
}

/// Matches a path in a repository.
///
/// A pattern is never narrower than it looks: case is ignored, a pattern without a slash matches a
/// name in any directory, and one that ends with `/` or `/**` also matches the directory itself.
pub(crate) fn matches_path(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.to_lowercase(), path.to_lowercase());
    names_match(&path_parts(&pattern), &names(&path))
}

/// True if a path is a parent directory of something that the pattern matches: a symlink there
/// would redirect it.
pub(crate) fn is_above_path(pattern: &str, path: &str) -> bool {
    let (pattern, path) = (pattern.to_lowercase(), path.to_lowercase());
    let (parts, path) = (path_parts(&pattern), names(&path));
    // An unanchored pattern would be below every directory.
    let is_anchored = parts.first() != Some(&"**");
    let is_folder = |end| {
        parts
            .get(..end)
            .is_some_and(|start| names_match(start, &path))
    };
    is_anchored && (1..parts.len()).any(is_folder)
}

/// Matches the whole name of a branch. Case-sensitive; `agent/**` does not match `agent`.
pub(crate) fn matches_branch(pattern: &str, branch: &str) -> bool {
    let mut parts = names(pattern);
    if parts.last() == Some(&"**") {
        parts.push("*");
    }
    names_match(&parts, &names(branch))
}

fn names(text: &str) -> Vec<&str> {
    text.split('/').collect()
}

fn path_parts(pattern: &str) -> Vec<&str> {
    let given = pattern.split('/').filter(|part| !part.is_empty());
    let is_anchored = pattern.trim_end_matches('/').contains('/');
    let before = (!is_anchored && !pattern.is_empty()).then_some("**");
    let below = pattern.ends_with('/').then_some("**");
    before.into_iter().chain(given).chain(below).collect()
}

fn names_match(parts: &[&str], names: &[&str]) -> bool {
    sequence_matches(parts, names, &"**", |part, name| {
        let (part, name): (Vec<char>, Vec<char>) = (part.chars().collect(), name.chars().collect());
        sequence_matches(&part, &name, &'*', |c, found| *c == '?' || c == found)
    })
}

/// True if the parts match all items in order. The part `any` matches any number of items.
///
/// Tracks which prefixes of the items are matched so far instead of backtracking, so that many
/// stars take no more time.
fn sequence_matches<T: PartialEq>(
    parts: &[T],
    items: &[T],
    any: &T,
    fits: impl Fn(&T, &T) -> bool,
) -> bool {
    let mut reached: Vec<bool> = (0..=items.len()).map(|length| length == 0).collect();
    for part in parts {
        if part == any {
            let shortest = reached.iter().position(|is| *is).unwrap_or(reached.len());
            reached.iter_mut().skip(shortest).for_each(|is| *is = true);
        } else {
            let one_more = reached.iter().zip(items);
            let longer = one_more.map(|(is, item)| *is && fits(part, item));
            reached = std::iter::once(false).chain(longer).collect();
        }
    }
    reached.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_match() {
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
            assert!(matches_path(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn paths_that_do_not_match() {
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
            assert!(!matches_path(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn folders_above() {
        assert!(is_above_path(".github/workflows/**", ".GITHUB"));
        assert!(is_above_path(".github/workflows/**", ".github/workflows"));
        assert!(!is_above_path(".github/workflows/**", "src"));
        assert!(!is_above_path("CODEOWNERS", "src"));
    }

    #[test]
    fn branches_that_match() {
        for (pattern, branch, expected) in [
            ("agent/**", "agent/login", true),
            ("agent/**", "agent/a/b", true),
            ("agent/**", "agent", false),
            ("agent/**", "agents/a", false),
            ("agent/*", "agent/login", true),
            ("agent/*", "agent/a/b", false),
            ("**", "x", true),
            ("**/fix", "fix", true),
            ("**/fix", "a/b/fix", true),
            ("**/fix", "a/b", false),
            ("fix-?", "fix-1", true),
            ("fix-?", "fix-", false),
            ("fix-*-x", "fix-a-b-x", true),
            ("main", "main", true),
            ("main", "Main", false),
        ] {
            assert_eq!(
                matches_branch(pattern, branch),
                expected,
                "{pattern} {branch}"
            );
        }
    }

    #[test]
    fn many_stars_take_no_time() {
        assert!(!matches_path(&"**/a*".repeat(40), &"aaaaaaaa/".repeat(40)));
        assert!(!matches_path(&"*a".repeat(60), &"a".repeat(59)));
    }
}
