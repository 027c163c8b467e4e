//! Validation of branch names against an allow-list, since a name may come from a stranger's pull
//! request.

/// Rejected branch name, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid branch name `{}`: {why}", name.escape_debug())]
pub(crate) struct BadBranchName {
    pub(crate) name: String,
    pub(crate) why: &'static str,
}

/// Checks a branch name against rules that are narrower than `git check-ref-format`.
///
/// Allowed are letters and digits (of any script) and `._/@#+=,-`; the first character is a letter,
/// a digit or `_`. A name that passes is also a valid branch for git and never an option.
pub(crate) fn check_branch_name(name: &str) -> Result<(), BadBranchName> {
    let refused = |why| {
        Err(BadBranchName {
            name: name.chars().take(120).collect(),
            why,
        })
    };
    let Some(first) = name.chars().next() else {
        return refused("it is empty");
    };
    if name.len() > 240 {
        return refused("it is longer than 240 bytes");
    }
    if !first.is_alphanumeric() && first != '_' {
        return refused("it does not begin with a letter, a digit or `_`");
    }
    if !name
        .chars()
        .all(|c| c.is_alphanumeric() || "_./@#+=,-".contains(c))
    {
        return refused("only letters, digits and _ . / @ # + = , - are allowed");
    }
    if name == "HEAD" {
        return refused("it is reserved by git");
    }
    if name.contains("..") || name.contains("//") || name.contains("@{") {
        return refused("it contains `..`, `//` or `@{`");
    }
    let bad = |part: &str| {
        part.is_empty() || part.starts_with('.') || part.ends_with('.') || part.ends_with(".lock")
    };
    if name.split('/').any(bad) {
        return refused("a part of it is empty, begins or ends with a dot, or ends with `.lock`");
    }
    Ok(())
}

/// Placeholder in a template for branch names.
pub(crate) const SLUG: &str = "{slug}";

/// Maximum length of the words in a branch name.
const SLUG_CHARS: usize = 48;

/// Returns the words of a title as part of a branch name: `add-a-login-page`.
pub(crate) fn slug(title: &str) -> String {
    let mut slug = String::new();
    for word in title.split(|c: char| !c.is_alphanumeric()) {
        let word = word.to_lowercase();
        if word.is_empty() {
            continue;
        }
        if slug.chars().count() + 1 + word.chars().count() > SLUG_CHARS {
            if slug.is_empty() {
                slug.extend(word.chars().take(SLUG_CHARS));
            }
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&word);
    }
    if slug.is_empty() {
        slug.push_str("task");
    }
    slug
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_become_names() {
        for (title, expected) in [
            ("Add a login page", "add-a-login-page"),
            ("Größe: 100 % richtig!", "größe-100-richtig"),
            ("--output=x; rm -rf /", "output-x-rm-rf"),
            ("", "task"),
            ("日本語", "日本語"),
            ("a/../b", "a-b"),
        ] {
            assert_eq!(slug(title), expected);
            assert_eq!(check_branch_name(&slug(title)), Ok(()));
        }
        let long = slug(&"word ".repeat(900));
        assert!(long.chars().count() <= SLUG_CHARS && long.ends_with("word"));
        assert_eq!(slug(&"x".repeat(900)).chars().count(), SLUG_CHARS);
    }

    #[test]
    fn names_that_people_and_bots_use() {
        for name in [
            "main",
            "fix/login-2",
            "dependabot/npm_and_yarn/@types/node-20.1.0",
            "claude/issue#12",
            "größe",
            "_x",
        ] {
            assert_eq!(check_branch_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn names_that_are_options_paths_or_git_syntax() {
        let refused = [
            "",
            "-x",
            "--output=pwned",
            "--upload-pack=sh",
            "/a",
            "a/",
            "a//b",
            "a..b",
            "a@{1}",
            ".a",
            "a/.b",
            "a.",
            "a.lock",
            "a.lock/b",
            "a b",
            "a\nb",
            "a\0b",
            "a~1",
            "a^",
            "a:b",
            "a?",
            "a*",
            "a[b",
            "a\\b",
            "HEAD",
            "@",
            "ext::sh -c x",
            "\u{202e}main",
            "a$(x)",
            "a`x`",
            "a;b",
            "a|b",
            "a&b",
            "a'b",
            "a\"b",
            "a%b",
            "{a}",
        ];
        for name in refused {
            assert!(check_branch_name(name).is_err(), "{name:?}");
        }
        assert!(check_branch_name(&"a".repeat(241)).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_name_that_passes_can_be_an_option_or_leave_the_refs(name in "[-a-z./@{}~:\\\\ \n=]{0,24}") {
            if check_branch_name(&name).is_ok() {
                assert!(!name.starts_with('-') && !name.starts_with('/') && !name.contains(".."));
                assert!(!name.contains([' ', '\n', '~', ':', '\\', '{']));
            }
        }
    }
}
