//! Byte strings as git reads and prints them: paths need not be UTF-8.

/// Splits at the first byte of a kind, which neither part contains.
pub(super) fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let mut parts = bytes.splitn(2, |b| *b == at);
    Some((parts.next()?, parts.next()?))
}

/// Returns the records of an output with `-z`.
pub(super) fn records(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split(|b| *b == 0).filter(|record| !record.is_empty())
}

/// Returns an input with `-z`.
pub(super) fn nul_ended<'a>(records: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let records = records.into_iter();
    records.flat_map(|r| r.iter().copied().chain([0])).collect()
}

/// Returns a text for people. Bytes that are not UTF-8 are replaced by `�`.
pub(super) fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
