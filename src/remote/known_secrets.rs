//! Searches for known secrets, in all forms in which they could leak.

use crate::secret::Secret;
use crate::secret_scan::position;

/// Minimum length; a shorter secret would be found in ordinary text.
const SHORTEST: usize = 8;

/// All forms of the secrets to search for.
pub(super) struct KnownSecrets {
    needles: Vec<Vec<u8>>,
}

impl KnownSecrets {
    pub(super) fn new(secrets: &[Secret]) -> Self {
        let long = secrets
            .iter()
            .map(|secret| secret.reveal().trim().as_bytes())
            .filter(|bytes| bytes.len() >= SHORTEST);
        let mut needles = Vec::new();
        for bytes in long {
            needles.push(bytes.to_vec());
            needles.push(bytes.iter().rev().copied().collect());
            let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            needles.push(hex.into_bytes());
            for shift in 0..3 {
                let coded = base64_inside(bytes, shift);
                let url_safe = |b: &u8| match b {
                    b'+' => b'-',
                    b'/' => b'_',
                    other => *other,
                };
                needles.push(coded.iter().map(url_safe).collect());
                needles.push(coded);
            }
        }
        needles.sort();
        needles.dedup();
        Self { needles }
    }

    /// Returns the position of a secret in `new` that `old` does not have in the same form.
    pub(super) fn find_new(&self, new: &[u8], old: &[u8]) -> Option<usize> {
        self.needles.iter().find_map(|needle| {
            let at = position(new, needle)?;
            position(old, needle).is_none().then_some(at)
        })
    }
}

/// Returns the Base64 of a text that starts `shift` bytes into the encoded data, without the
/// characters that depend on adjacent bytes.
fn base64_inside(bytes: &[u8], shift: usize) -> Vec<u8> {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bytes = [&[0].repeat(shift), bytes].concat();
    let bits = |byte: &u8| [7, 6, 5, 4, 3, 2, 1, 0].map(|bit| byte >> bit & 1);
    let bits: Vec<u8> = bytes.iter().flat_map(bits).collect();
    let letter = |six: &[u8]| {
        let index = six
            .iter()
            .fold(0, |index, bit| index * 2 + usize::from(*bit));
        LETTERS.get(index).copied().unwrap_or(b'A')
    };
    // A character stands for six bits of the text; the first ones contain bits of the preceding
    // bytes.
    bits.chunks_exact(6)
        .skip((shift * 8).div_ceil(6))
        .map(letter)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_found() {
        let canaries =
            KnownSecrets::new(&[Secret::new("canary-0123456789?>"), Secret::new("short")]);
        for text in [
            "x canary-0123456789?> y",
            // "canary-…", "xcanary-…", "xycanary-…" with more after it.
            "Y2FuYXJ5LTAxMjM0NTY3ODk/Pg==",
            "eGNhbmFyeS0wMTIzNDU2Nzg5Pz4=",
            "eHljYW5hcnktMDEyMzQ1Njc4OT8+",
            "eHljYW5hcnktMDEyMzQ1Njc4OT8-",
            "63616e6172792d303132333435363738393f3e",
        ] {
            assert!(canaries.find_new(text.as_bytes(), b"").is_some(), "{text}");
        }
        assert!(
            canaries
                .find_new(
                    b"canary-0123456789?> Y2FuYXJ5LTAxMjM0NTY3ODk/Pg==",
                    b"canary-0123456789?>"
                )
                .is_some(),
            "a form that is new beside one that is not"
        );
        for text in ["canary-0123456789", "short", ""] {
            assert!(canaries.find_new(text.as_bytes(), b"").is_none(), "{text}");
        }
    }
}
