//! Parses an installed unit or property list.

use std::path::PathBuf;

use super::{Kind, is_ours};

/// Settings of the daemon in an installed file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    pub(crate) is_ours: bool,
    /// User of a system unit.
    pub(crate) user: Option<String>,
    pub(crate) program: Option<PathBuf>,
    /// The value of `--config`.
    pub(crate) config: Option<PathBuf>,
    /// The value of `--db`.
    pub(crate) db: Option<PathBuf>,
    /// Writable paths of a unit that restricts them.
    pub(crate) writable: Vec<PathBuf>,
}

pub(crate) fn installed(kind: Kind, text: &str) -> Installed {
    let (words, user) = match kind {
        Kind::Systemd => {
            let value = |key: &str| text.lines().rev().find_map(|line| line.strip_prefix(key));
            let words = |key| value(key).map(systemd_words).unwrap_or_default();
            (words("ExecStart="), words("User="))
        }
        Kind::Launchd => {
            let after = |key: &str| Some(text.split_once(&format!("<key>{key}</key>"))?.1);
            let list = after("ProgramArguments").and_then(|rest| rest.split_once("</array>"));
            let words = list.map_or_else(Vec::new, |(list, _)| plist_strings(list));
            (
                words,
                after("UserName").map_or_else(Vec::new, plist_strings),
            )
        }
    };
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).map(PathBuf::from)
    };
    Installed {
        is_ours: is_ours(text),
        user: user.into_iter().next(),
        program: words.first().map(PathBuf::from),
        config: option("--config"),
        db: option("--db"),
        writable: match kind {
            Kind::Systemd => writable(text),
            Kind::Launchd => Vec::new(),
        },
    }
}

fn writable(text: &str) -> Vec<PathBuf> {
    let values = text.lines().filter_map(|line| {
        let bound = line
            .strip_prefix("BindPaths=")
            .map(|value| value.replace("\\:", ":"));
        bound.or_else(|| line.strip_prefix("ReadWritePaths=").map(str::to_owned))
    });
    let words = values.flat_map(|value| systemd_words(&value));
    words
        .map(|word| PathBuf::from(word.strip_prefix('-').unwrap_or(&word)))
        .collect()
}

/// Splits a value into words, as `quoted` writes them.
fn systemd_words(value: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted, mut has_word) =
        (Vec::new(), String::new(), false, false);
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => (is_quoted, has_word) = (!is_quoted, true),
            '\\' => word.extend(chars.next()),
            '%' | '$' if chars.peek() == Some(&c) => word.extend(chars.next()),
            c if c.is_whitespace() && !is_quoted => {
                if !word.is_empty() || has_word {
                    words.push(std::mem::take(&mut word));
                }
                has_word = false;
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() || has_word {
        words.push(word);
    }
    words
}

fn plist_strings(list: &str) -> Vec<String> {
    let plain = |text: &str| {
        text.replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    };
    let parts = list.split("<string>").skip(1);
    let strings = parts.filter_map(|rest| rest.split_once("</string>"));
    strings.map(|(text, _)| plain(text)).collect()
}
