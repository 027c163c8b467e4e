//! Text formatting shared by many modules: counts, money, sizes, lists, shortened names.

use std::fmt::Display;
use std::str::FromStr;

/// Returns the first ten digits of a commit id.
pub(crate) fn short_sha(sha: &str) -> &str {
    sha.get(..10).unwrap_or(sha)
}

/// Quotes a word for a shell.
pub(crate) fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Returns a word that can be pasted into a shell: quoted if it needs that.
pub(crate) fn typed(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        shell_quoted(word)
    }
}

/// Formats a number with its noun: `1 fix`, `2 fixes`, `0 items`.
pub(crate) fn count(n: usize, noun: &str) -> String {
    let ending = if n == 1 {
        ""
    } else if noun.ends_with(['s', 'x']) {
        "es"
    } else {
        "s"
    };
    format!("{n} {noun}{ending}")
}

/// Parses a number that consists only of digits, without a sign.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Formats an amount of money: `$5.00`.
pub(crate) fn dollars(micros: i64) -> String {
    format!(
        "${}.{:02}",
        micros.div_euclid(1_000_000),
        micros.rem_euclid(1_000_000) / 10_000
    )
}

/// Formats a number of bytes: `1.5 MiB`.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} bytes");
    }
    let mut tenths = n.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if tenths >= 100 {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

/// Returns the number of columns of a text on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    textwrap::core::display_width(text)
}

/// Returns the longest start of a text that fits into `most` columns.
pub(crate) fn fitting(text: &str, most: usize) -> &str {
    let mut left = most;
    let end = text.char_indices().find(|(at, c)| {
        let character = text.get(*at..at + c.len_utf8()).unwrap_or_default();
        let width = columns(character);
        let is_over = width > left;
        left = left.saturating_sub(width);
        is_over
    });
    end.and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

/// Shortens a text to at most `most` columns. The last one is an ellipsis if something was removed.
pub(crate) fn truncate(text: &str, most: usize) -> String {
    if columns(text) <= most {
        return text.to_owned();
    }
    format!("{}…", fitting(text, most.saturating_sub(1)).trim_end())
}

/// Formats a command as it is typed in a shell.
pub(crate) fn shell_line(words: &[String]) -> String {
    let is_plain = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "/._-+=:@%,".contains(c))
    };
    let quoted = |word: &String| {
        if is_plain(word) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Joins the items with commas.
pub(crate) fn list(items: impl IntoIterator<Item = impl Display>) -> String {
    joined(items, ", ")
}

/// Joins the items with a separator.
pub(crate) fn joined(items: impl IntoIterator<Item = impl Display>, between: &str) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    items.join(between)
}

/// Returns an optional part of a sentence: `: the reason`, or nothing if there is no value.
pub(crate) fn prefixed(prefix: &str, value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| format!("{prefix}{value}"))
}

/// Formats a position in a file with a leading space: ` src/main.rs:12`; empty if there is no file.
pub(crate) fn place(path: Option<&str>, line: Option<impl Display>) -> String {
    prefixed(
        " ",
        path.map(|path| format!("{path}{}", prefixed(":", line))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_quoted_where_the_shell_needs_it() {
        let words = ["sh", "-c", "! grep 'x' y", ""].map(str::to_owned);
        assert_eq!(shell_line(&words), r"sh -c '! grep '\''x'\'' y' ''");
    }

    #[test]
    fn counts_and_shortened_texts() {
        assert_eq!(
            [count(1, "fix"), count(2, "fix"), count(0, "item")],
            ["1 fix", "2 fixes", "0 items"]
        );
        assert_eq!(short_sha("0123456789abcdef"), "0123456789");
        assert_eq!(short_sha("abc"), "abc");
        assert_eq!(truncate("a long text", 7), "a long…");
        assert_eq!(truncate("short", 5), "short");
        assert_eq!(truncate("漢字漢字", 6), "漢字…");
        assert_eq!(columns(&truncate("漢字漢字", 6)), 5);
        assert_eq!(prefixed(": ", Some("why")), ": why");
        assert_eq!(prefixed(": ", None::<&str>), "");
        assert_eq!(list([1, 2, 3]), "1, 2, 3");
        assert_eq!(dollars(5_420_000), "$5.42");
    }

    #[test]
    fn sizes_as_people_write_them() {
        let sizes = [0, 1023, 1024, 1536, 20_480, 1_572_864, u64::MAX].map(bytes);
        insta::assert_snapshot!(list(sizes), @"0 bytes, 1023 bytes, 1.0 KiB, 1.5 KiB, 20 KiB, 1.5 MiB, 1638 PiB");
    }
}
