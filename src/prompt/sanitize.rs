//! Sanitizes untrusted text for an agent: characters that a person cannot see are removed, and text
//! that is too long is cut. It never interprets the text.

use crate::text::joined;

/// Sanitized text, and what it lost, in bytes of UTF-8.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cleaned {
    pub(super) text: String,
    /// Bytes of invisible characters and hidden comments that were removed.
    pub(super) stripped: usize,
    /// Bytes that were cut because the text was too long.
    pub(super) left_out: usize,
}

/// End of an overlong text to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Head,
    Tail,
}

const LINE_CAP: usize = 512;

/// Sanitizes a title, branch or path: one short line.
pub(super) fn line(raw: &str) -> Cleaned {
    let visible = visible(raw);
    let text = joined(visible.text.split_whitespace(), " ");
    cut(Cleaned { text, ..visible }, LINE_CAP, Keep::Head)
}

/// Sanitizes a text of many lines, such as a diff or the output of a program.
pub(super) fn block(raw: &str, cap: usize, keep: Keep) -> Cleaned {
    cut(visible(raw), cap, keep)
}

/// Sanitizes a comment from a forge, where HTML comments are not shown to people.
pub(super) fn comment(raw: &str, cap: usize) -> Cleaned {
    let mut cleaned = visible(raw);
    let text = without_html_comments(&cleaned.text);
    cleaned.stripped += cleaned.text.len() - text.len();
    cleaned.text = text;
    cut(cleaned, cap, Keep::Head)
}

fn visible(raw: &str) -> Cleaned {
    let mut cleaned = Cleaned::default();
    let text = &mut cleaned.text;
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // Converting line ends is not a loss: forges send CRLF for every comment.
            '\r' => {
                if chars.peek() != Some(&'\n') {
                    text.push('\n');
                }
            }
            '\u{2028}' | '\u{2029}' => text.push('\n'),
            c if is_hidden(c) => cleaned.stripped += c.len_utf8(),
            c => text.push(c),
        }
    }
    cleaned
}

/// True for characters that are invisible, reorder displayed text, or control a terminal.
fn is_hidden(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        c if c.is_control() => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{feff}' => true,
        // Letters without a glyph.
        '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' => true,
        // Zero width and direction.
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        // Variation selectors, with which bytes can be hidden behind one letter.
        '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Tags, the other variation selectors, and the unassigned rest of the first block of their
        // plane.
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// Removes HTML comments. Also checks the end of the text kept so far, so that removing a comment
/// from the middle of `<!--` cannot create a new one.
fn without_html_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        kept.push(c);
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        if kept.ends_with("<!--") {
            kept.truncate(kept.len() - "<!--".len());
            // A forge hides everything after an unclosed comment. So do we.
            rest = rest.split_once("-->").map_or("", |(_, after)| after);
        }
    }
    kept
}

fn cut(mut cleaned: Cleaned, cap: usize, keep: Keep) -> Cleaned {
    let text = &mut cleaned.text;
    let before = text.len();
    if before > cap {
        match keep {
            Keep::Head => text.truncate(text.floor_char_boundary(cap)),
            Keep::Tail => drop(text.drain(..text.ceil_char_boundary(before - cap))),
        }
    }
    cleaned.left_out += before - text.len();
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_people_cannot_see_is_taken_out() {
        for (raw, text, stripped) in [
            ("plain\ttext\n", "plain\ttext\n", 0),
            ("a\r\nb\rc\u{2028}d", "a\nb\nc\nd", 0),
            ("a\u{0}b\u{1b}[31mc\u{7f}", "ab[31mc", 3),
            ("a\u{9b}31mb", "a31mb", 2),
            ("pass\u{200b}word\u{feff}", "password", 6),
            ("\u{202e}txt.exe\u{202c}", "txt.exe", 6),
            ("hi\u{e0041}\u{e0042}\u{e007f}", "hi", 12),
            ("a\u{fe0f}b\u{e0100}", "ab", 7),
            ("a\u{2062}b\u{206f}", "ab", 6),
            ("Grüße, 你好, 👍", "Grüße, 你好, 👍", 0),
        ] {
            let cleaned = block(raw, 1000, Keep::Head);
            assert_eq!(
                (cleaned.text.as_str(), cleaned.stripped),
                (text, stripped),
                "{raw:?}"
            );
        }
    }

    #[test]
    fn hidden_comments_are_taken_out_of_comments_only() {
        for (raw, text) in [
            ("a<!-- b -->c", "ac"),
            ("a<!-- b\nc -->\nd", "a\nd"),
            ("a<!-->b", "a"),
            ("a<!-- b", "a"),
            ("<!<!-- x -->-- y -->z", "z"),
            ("a<!\u{200b}-- b -->c", "ac"),
            ("a --> b", "a --> b"),
        ] {
            assert_eq!(comment(raw, 1000).text, text, "{raw:?}");
        }
        assert_eq!(
            block("+<!-- nav -->", 1000, Keep::Head).text,
            "+<!-- nav -->"
        );
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(
            block("äöü", 3, Keep::Head),
            Cleaned {
                text: "ä".into(),
                stripped: 0,
                left_out: 4
            }
        );
        assert_eq!(
            block("äöü", 3, Keep::Tail),
            Cleaned {
                text: "ü".into(),
                stripped: 0,
                left_out: 4
            }
        );
        let mib = comment(&"x".repeat(1 << 20), 16 << 10);
        assert_eq!(
            (mib.text.len(), mib.left_out),
            (16 << 10, (1 << 20) - (16 << 10))
        );
    }

    #[test]
    fn a_line_is_one_line() {
        assert_eq!(
            line(" fix\n\n## New task\tnow ").text,
            "fix ## New task now"
        );
        assert_eq!(line(&"é".repeat(1000)).text.len(), LINE_CAP);
    }

    #[test]
    fn a_mebibyte_of_nested_comments_takes_no_quadratic_time() {
        assert_eq!(comment(&"<!".repeat(1 << 19), 10).text, "<!<!<!<!<!");
        assert_eq!(comment(&"<!--".repeat(1 << 18), 10).text, "");
        assert_eq!(comment(&"<!---->".repeat(1 << 17), 10).text, "");
    }

    proptest! {
        #[test]
        fn cleaning_is_done_once(raw in any::<String>(), cap in 0usize..200) {
            let once = comment(&raw, cap);
            prop_assert!(once.text.len() <= cap);
            prop_assert!(!once.text.chars().any(is_hidden));
            prop_assert!(!once.text.contains("<!--"));
            let twice = comment(&once.text, cap);
            prop_assert_eq!((twice.text, twice.stripped, twice.left_out), (once.text, 0, 0));
        }
    }
}
