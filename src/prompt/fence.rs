//! Keeps untrusted text inside its fence.
//!
//! An untrusted value carries marks that no sanitized text can contain, and the `fence` filter
//! removes them. A mark that remains after rendering means that untrusted text is outside of all
//! fences.

use minijinja::{Error, ErrorKind, State};

use super::sanitize::Cleaned;

const OPEN: char = '\u{2}';
const CLOSE: char = '\u{3}';

/// Marks a sanitized text as untrusted.
pub(super) fn mark(cleaned: &Cleaned) -> String {
    format!("{OPEN}{}{CLOSE}", cleaned.text)
}

/// Returns the first untrusted text that is not inside a fence.
pub(super) fn unfenced(rendered: &str) -> Option<String> {
    let (_, after) = rendered.split_once([OPEN, CLOSE])?;
    let inside = after.split([OPEN, CLOSE]).next();
    Some(inside.unwrap_or_default().to_owned())
}

/// Formats the nonce for a prompt.
pub(super) fn nonce_text(nonce: u128) -> String {
    format!("{nonce:032x}")
}

/// Template filter: `{% filter fence("diff") %}…{% endfilter %}`.
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
    // The marks are control characters, so this also keeps untrusted text out of the label.
    if label.contains(char::is_control) {
        return Err(Error::new(
            ErrorKind::InvalidOperation,
            "the label of a fence must be a literal in the template",
        ));
    }
    let inside = without(content.replace([OPEN, CLOSE], ""), &nonce);
    Ok(format!(
        "begin {nonce} {label}\n{}\nend {nonce}\n",
        inside.trim_matches('\n')
    ))
}

/// Removes the nonce from a text. The author could not know it, but if it occurs anyway, it is
/// removed until it is gone.
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
