//! Content hashes that are the same in every build, so that they can be stored.

use sha2::{Digest as _, Sha256};

/// Returns the SHA-256 in hex of a list of words, each preceded by its length, followed by
/// `contents`.
///
/// The author of a branch may control the input, lock files for example, so collisions must be
/// infeasible.
pub(crate) fn fingerprint(words: &[String], contents: &[u8]) -> String {
    let mut hash = Sha256::new();
    for word in words {
        hash.update(format!("{}:", word.len()));
        hash.update(word);
    }
    hash.update(b"\n");
    hash.update(contents);
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// FNV-1a with 128 bits, for contents that nobody has a reason to forge. It offers no protection:
/// collisions are easy to construct.
pub(crate) fn fnv(bytes: &[u8]) -> u128 {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(START, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored values are compared with those of another build, so the result must never change.
    #[test]
    fn the_hash_never_changes() {
        assert_eq!(
            format!("{:032x}", fnv(b"")),
            "6c62272e07bb014262b821756295c58d"
        );
        assert_eq!(fnv(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
        let words = |text: &[&str]| {
            text.iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        };
        // printf '2:ab\nx' | sha256sum
        assert_eq!(
            fingerprint(&words(&["ab"]), b"x"),
            "035a06ef6a41afe5ad2c9f0605eb0d49e2c7160991e50ce976784ea1cdf11231"
        );
        assert_ne!(
            fingerprint(&words(&["ab", "c"]), b""),
            fingerprint(&words(&["a", "bc"]), b"")
        );
        assert_ne!(
            fingerprint(&words(&["a"]), b"x"),
            fingerprint(&words(&["a"]), b"y")
        );
    }
}
