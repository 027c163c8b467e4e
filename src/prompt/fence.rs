//! Keeps outside text inside its fence. A value from outside carries marks that cleaning lets no text contain; the
//! `fence` filter takes them off. A mark that is left after rendering is outside text among our own words.

use minijinja::{Error, ErrorKind, State};

use super::sanitize::Cleaned;

const OPEN: char = '\u{2}';
const CLOSE: char = '\u{3}';

/// Marks a cleaned text as not ours.
pub(super) fn mark(cleaned: &Cleaned) -> String {
    format!("{OPEN}{}{CLOSE}", cleaned.text)
}

/// The first text from outside that stands outside of every fence.
pub(super) fn unfenced(rendered: &str) -> Option<String> {
    let (_, after) = rendered.split_once([OPEN, CLOSE])?;
    Some(
        after
            .split([OPEN, CLOSE])
            .next()
            .unwrap_or_default()
            .to_string(),
    )
}

/// How the nonce is written in a prompt.
pub(super) fn nonce_text(nonce: u128) -> String {
    format!("{nonce:032x}")
}

/// The filter: `{% filter fence("diff") %}…{% endfilter %}`.
pub(super) fn fence(state: &State, content: &str, label: &str) -> Result<String, Error> {
    let nonce = state
        .lookup("nonce")
        .map(|value| value.to_string())
        .unwrap_or_default();
    if nonce.is_empty() {
        return Err(Error::new(
            ErrorKind::UndefinedError,
            "a fence needs the variable `nonce`",
        ));
    }
    // The marks are control characters, so this also keeps outside text out of the label.
    if label.contains(char::is_control) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the label of a fence is a word of the template's own",
        ));
    }
    let inside = without(content.replace([OPEN, CLOSE], ""), &nonce);
    Ok(format!(
        "begin {nonce} {label}\n{}\nend {nonce}\n",
        inside.trim_matches('\n')
    ))
}

/// Whoever wrote the text could not know the nonce. Should it be there all the same, it is taken out until it is gone.
fn without(mut text: String, nonce: &str) -> String {
    while let Some(at) = text.to_ascii_lowercase().find(nonce) {
        text.replace_range(at..at + nonce.len(), "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nonce_does_not_come_back_when_it_is_taken_out() {
        let nonce = nonce_text(0xabc);
        let (left, right) = nonce.split_at(10);
        assert_eq!(
            without(
                format!("x{left}{nonce}{right}y{}z", nonce.to_uppercase()),
                &nonce
            ),
            "xyz"
        );
    }

    #[test]
    fn what_is_left_outside_is_named() {
        let text = mark(&Cleaned {
            text: "title".into(),
            ..Cleaned::default()
        });
        assert_eq!(unfenced(&format!("Fix {text} now")), Some("title".into()));
        assert_eq!(unfenced("Fix it now"), None);
    }
}
