//! The pools aliases are taken from, in priority order: letters, digits, both, and pairs of both.

use std::ops::Range;
use std::sync::LazyLock;

const CHARACTERS: &[u8; 36] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const LETTERS: usize = 26;

static SINGLES: LazyLock<Vec<String>> =
    LazyLock::new(|| CHARACTERS.iter().map(|&c| char::from(c).to_string()).collect());
static PAIRS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let all = || CHARACTERS.iter().copied().map(char::from);
    all().flat_map(|a| all().map(move |b| String::from_iter([a, b]))).collect()
});

/// `A`–`Z`, then `0`–`9`.
#[must_use]
pub fn singles() -> &'static [String] {
    &SINGLES
}

/// The 1,296 codes of two such characters, the first one major.
#[must_use]
pub fn pairs() -> &'static [String] {
    &PAIRS
}

/// The single-character pools, as ranges of [`singles`]: letters, digits, all.
pub(super) fn single_character_ranges() -> [Range<usize>; 3] {
    [0..LETTERS, LETTERS..CHARACTERS.len(), 0..CHARACTERS.len()]
}
