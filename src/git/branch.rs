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

#[cfg(test)]
mod tests {
    use super::*;

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
