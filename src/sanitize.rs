//! Text that others wrote, made harmless for a terminal and for JSON: nothing in it can move the cursor, set a
//! title, write to the clipboard or turn the line around. Pure; whoever prints uses it, nobody else needs it.

/// For a place that is one line: what would end it or move in it is made visible.
pub(crate) fn line(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push('⏎'),
            '\t' => shown.push(' '),
            _ => push(&mut shown, c),
        }
    }
    shown
}

/// The first `most` characters of a text; a mark says how many are left out.
pub(crate) fn cap(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            format!("{kept}… ({} more characters)", rest.chars().count())
        }
    }
}

/// An error with what lies under it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut under = error.source();
    while let Some(cause) = under {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        under = cause.source();
    }
    text
}

/// For a place of many lines: the lines stay, everything else is as in `line`.
pub(crate) fn block(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            _ => push(&mut shown, c),
        }
    }
    shown
}

/// For text that is posted where others read it: lines and tabs stay, and so do the joiners of emoji; control characters
/// and what turns the direction of text around are made visible.
pub(crate) fn posted(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(c),
            _ if c.is_control() || turns_text(c) => push(&mut shown, c),
            _ => shown.push(c),
        }
    }
    shown
}

/// JSON that was written already. What JSON leaves as it is and a terminal obeys becomes an escape: the same string
/// to whoever parses it. Outside of strings JSON has only ASCII, so this never touches its structure.
pub(crate) fn json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || (!c.is_control() && !is_deceptive(c) && !is_joiner(c)) {
            safe.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    safe
}

fn push(shown: &mut String, c: char) {
    match c {
        // Unicode has a picture of each of them, one column wide.
        '\u{0}'..='\u{1f}' => {
            shown.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'));
        }
        '\u{7f}' => shown.push('␡'),
        _ if c.is_control() || is_deceptive(c) => {
            shown.push_str(&format!("<U+{:04X}>", u32::from(c)));
        }
        // They belong to emoji and to some scripts; alone they show nothing.
        _ if is_joiner(c) => {}
        _ => shown.push(c),
    }
}

/// Bidirectional controls: with them a line reads other than it is.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Characters that change how others are read and are not seen themselves.
fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &[&str] = &[
        "\u{1b}[31mred",
        "\u{1b}]0;title\u{7}",
        "\u{1b}]8;;https://evil.example\u{1b}\\click\u{1b}]8;;\u{1b}\\",
        "\u{1b}]52;c;ZXZpbA==\u{7}",
        "\u{1b}P+q\u{1b}\\",
        "\u{9b}2J",
        "\u{9d}0;x\u{9c}",
        "a\rb",
        "a\u{8}b",
        "\u{202e}txt.exe",
        "\u{2066}x\u{2069}",
        "a\u{200b}b",
        "\u{2028}x\u{2029}",
        "\u{e0041}\u{e0042}",
        "\u{7f}",
        "\u{0}",
        "x\u{fe0f}\u{200d}y",
    ];

    fn is_harmless(c: char) -> bool {
        !c.is_control() && !is_deceptive(c) && !is_joiner(c)
    }

    #[test]
    fn nothing_of_the_corpus_reaches_a_terminal() {
        for text in HOSTILE {
            assert!(line(text).chars().all(is_harmless), "{text:?}");
            assert!(block(text).chars().all(is_harmless), "{text:?}");
            assert!(
                json(&serde_json::to_string(text).unwrap())
                    .chars()
                    .all(is_harmless),
                "{text:?}"
            );
        }
    }

    #[test]
    fn it_is_seen_and_not_lost() {
        assert_eq!(line("a\r\nb\nc\td"), "a⏎b⏎c d");
        assert_eq!(block("a\r\nb\n\tc"), "a\nb\n\tc");
        assert_eq!(line("\u{1b}[31m\u{9b}\u{202e}"), "␛[31m<U+009B><U+202E>");
        assert_eq!(line("größe 日本 👩\u{200d}💻"), "größe 日本 👩💻");
    }

    #[test]
    fn what_is_posted_turns_nothing_around_and_keeps_the_rest() {
        for text in HOSTILE {
            let posted = posted(text);
            assert!(
                !posted
                    .chars()
                    .any(|c| (c.is_control() && c != '\n' && c != '\t') || turns_text(c)),
                "{text:?}"
            );
        }
        assert_eq!(
            posted("a\u{1b}[31m\u{7}\u{202e}b\r\n\tc"),
            "a␛[31m␇<U+202E>b\n\tc"
        );
        assert_eq!(
            posted("größe 👩\u{200d}💻 a\u{200b}b"),
            "größe 👩\u{200d}💻 a\u{200b}b"
        );
        assert_eq!(
            (cap("größe", 5), cap("größe", 2)),
            ("größe".to_owned(), "gr… (3 more characters)".to_owned())
        );
    }

    #[test]
    fn json_says_the_same_to_a_parser() {
        for text in HOSTILE.iter().chain(&["größe\n日本 \"quoted\" \\ 👍"]) {
            let written = json(&serde_json::to_string_pretty(text).unwrap());
            assert_eq!(serde_json::from_str::<String>(&written).unwrap(), **text);
        }
    }
}
