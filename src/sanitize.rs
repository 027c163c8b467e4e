//! Makes text that others wrote harmless for a terminal and for JSON: it cannot move the cursor,
//! set a title, write to the clipboard or reverse the line. Pure; only code that prints needs it.

/// Sanitizes text for a single line: characters that would end it or move the cursor are made
/// visible.
pub(crate) fn line(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => safe.push('⏎'),
            '\t' => safe.push(' '),
            _ => push(&mut safe, c),
        }
    }
    safe
}

/// Returns the first `most` characters of a text, followed by the number of omitted ones.
pub(crate) fn cap(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => {
            let (kept, rest) = text.split_at(end);
            format!("{kept}… ({} more characters)", rest.chars().count())
        }
    }
}

/// Formats an error with its sources on one line.
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

/// Sanitizes text for several lines: line breaks remain, everything else is as in `line`.
pub(crate) fn block(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => safe.push(c),
            _ => push(&mut safe, c),
        }
    }
    safe
}

/// Sanitizes text that is posted publicly.
///
/// Line breaks, tabs and the joiners of emoji remain. Control characters and bidirectional controls
/// are made visible.
pub(crate) fn posted(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => safe.push(c),
            _ if c.is_control() || turns_text(c) => push(&mut safe, c),
            _ => safe.push(c),
        }
    }
    safe
}

/// Sanitizes text that is published as a part of a line of Markdown: it is shown as it is written.
pub(crate) fn markdown_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for c in posted(text).chars() {
        match c {
            '\n' | '\t' => line.push(' '),
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '~' | '&' | '!' => {
                line.push('\\');
                line.push(c);
            }
            _ => line.push(c),
        }
    }
    line
}

/// Sanitizes serialized JSON.
///
/// Characters that JSON leaves as they are and a terminal obeys become escapes, so that the parsed
/// string is the same. Outside of strings JSON has only ASCII, so this never changes its structure.
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

fn push(safe: &mut String, c: char) {
    match c {
        // Unicode has a symbol for each of them, one column wide.
        '\u{0}'..='\u{1f}' => {
            safe.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'));
        }
        '\u{7f}' => safe.push('␡'),
        _ if c.is_control() || is_deceptive(c) => {
            safe.push_str(&format!("<U+{:04X}>", u32::from(c)));
        }
        // Joiners belong to emoji and to some scripts; on their own they are invisible.
        _ if is_joiner(c) => {}
        _ => safe.push(c),
    }
}

/// True for bidirectional controls, which make a line display differently from its contents.
fn turns_text(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// True for invisible characters that change how others are displayed.
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
