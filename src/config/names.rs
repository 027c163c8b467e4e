//! Validation of patterns, paths, logins and labels: each function returns the reason for a
//! rejection. Pure.

use super::check::Complaint;
use crate::glob;
use crate::toml_path::KeyPath;

/// Returns one error for each invalid element of `texts`, the list at `key`.
pub(super) fn complaints(
    key: &KeyPath,
    texts: &[String],
    refusal: fn(&str) -> Option<&'static str>,
) -> Vec<Complaint> {
    let one =
        |(i, text): (usize, &String)| refusal(text).map(|why| complaint(key.index(i), text, why));
    texts.iter().enumerate().filter_map(one).collect()
}

pub(super) fn complaint(key: KeyPath, text: &str, why: &str) -> Complaint {
    Complaint {
        title: format!("`{key}` cannot be `{}`", text.escape_debug()),
        keys: vec![key],
        help: why.into(),
    }
}

/// Checks a pattern for paths from the top of a repository, or for branches.
pub(super) fn of_pattern(text: &str) -> Option<&'static str> {
    glob::syntax_error(text).or_else(|| of_path(text))
}

/// Checks a path from the top of a repository, or the name of a file.
pub(super) fn of_path(text: &str) -> Option<&'static str> {
    if text.is_empty() || text.chars().any(char::is_control) {
        return Some("a path must not be empty or contain control characters");
    }
    if text.starts_with('/')
        || text
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == "..")
    {
        return Some(
            "use a path relative to the top of the repository, without empty parts, `.` or `..`; for a whole directory, use `directory/**`",
        );
    }
    None
}

/// Checks the name of a person or a bot on GitHub.
pub(super) fn of_login(text: &str) -> Option<&'static str> {
    let name = text.strip_suffix("[bot]").unwrap_or(text);
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let is_login =
        !name.is_empty() && name.len() <= 100 && !name.starts_with('-') && name.chars().all(fits);
    (!is_login).then_some(
        "use a login name without `@`: letters, digits, `-` and `_`; a bot's name ends with `[bot]`",
    )
}

/// Checks a label. The empty string means no label.
pub(super) fn of_label(text: &str) -> Option<&'static str> {
    let fits = text.trim() == text
        && text.chars().count() <= 50
        && !text.contains(',')
        && !text.contains(char::is_control);
    (!fits).then_some("a label has at most 50 characters, no commas, and no spaces at either end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for good in [
            "CODEOWNERS",
            ".github/workflows/**",
            "**/*.lock",
            "a?b/*",
            "agent/**",
            "**",
        ] {
            assert_eq!(of_pattern(good), None, "{good}");
        }
        for bad in [
            "", "/etc", "a/", "a//b", "../x", "a/./b", "a**", "a/**b/c", "[ab]", "{a,b}", "!a",
            "a\\b", "a\nb",
        ] {
            assert!(of_pattern(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn logins_and_labels() {
        for good in ["ada", "ada-l", "ada_corp", "renovate[bot]", "7"] {
            assert_eq!(of_login(good), None, "{good}");
        }
        for bad in ["", "@ada", "-ada", "a b", "ada/x", "[bot]", "a\u{200b}"] {
            assert!(of_login(bad).is_some(), "{bad:?}");
        }
        for good in ["", "remand", "needs: fix", "🤖"] {
            assert_eq!(of_label(good), None, "{good}");
        }
        for bad in [" remand", "a,b", "a\nb", &"x".repeat(51)] {
            assert!(of_label(bad).is_some(), "{bad:?}");
        }
    }
}
