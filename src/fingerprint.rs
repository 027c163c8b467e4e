//! A hash for comparing contents: the same in every build, so that it can be stored. It is no protection: whoever chooses
//! the contents can make two that have the same hash.

/// FNV-1a with 128 bits.
pub(crate) fn fnv(bytes: &[u8]) -> u128 {
    const START: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(START, |hash, byte| {
        (hash ^ u128::from(*byte)).wrapping_mul(PRIME)
    })
}

/// Hash of a list of words, each counted with its length, followed by `contents`.
pub(crate) fn fingerprint(words: &[String], contents: &[u8]) -> String {
    let mut all = Vec::new();
    for word in words {
        all.extend_from_slice(format!("{}:", word.len()).as_bytes());
        all.extend_from_slice(word.as_bytes());
    }
    all.push(b'\n');
    all.extend_from_slice(contents);
    format!("{:032x}", fnv(&all))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stored values are compared with those of another build.
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
