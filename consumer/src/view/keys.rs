//! As much of a key as may be shown.
//!
//! 1. Text is the key's one lossless form ([`JobKey`]'s `Display`), which has nothing that acts on a terminal or turns a line
//!    around. A long one is cut, and then ends with a mark.
//! 2. A hash has no secret in it: who knows a key finds it, and so does who can guess keys. It hides keys from a glance,
//!    not from somebody who tries.

use data_encoding::HEXLOWER;
use keylane_producer::JobKey;
use keylane_sidecar::{KeyView, snapshot::LONGEST_KEY};
use openssl::sha::sha256;

use crate::worker::{ShowKeys, glance::Marked};

/// Digits of a hash.
const DIGITS: usize = 12;
const CUT: char = '\u{2026}';

/// Parked ones first, each kind in the order of what is shown.
pub(super) fn shown(show: ShowKeys, marked: &[Marked]) -> Vec<KeyView> {
    let form: fn(&JobKey) -> String = match show {
        ShowKeys::None => return Vec::new(),
        ShowKeys::Hash => hash,
        ShowKeys::Text => text,
    };
    let view = |key: &Marked| KeyView { shown: form(&key.key), parked: key.parked, waiting: key.waiting };
    let mut keys: Vec<KeyView> = marked.iter().map(view).collect();
    keys.sort_by(|a, b| b.parked.cmp(&a.parked).then(b.waiting.cmp(&a.waiting)).then_with(|| a.shown.cmp(&b.shown)));
    keys
}

fn hash(key: &JobKey) -> String {
    format!("#{}", &HEXLOWER.encode(&sha256(key.as_bytes()))[..DIGITS])
}

fn text(key: &JobKey) -> String {
    let text = key.to_string();
    if text.chars().count() <= LONGEST_KEY {
        return text;
    }
    text.chars().take(LONGEST_KEY - 1).chain([CUT]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> JobKey {
        JobKey::try_from(bytes).unwrap()
    }

    #[test]
    fn a_key_is_shown_as_the_text_that_reads_back_and_a_long_one_is_cut_with_a_mark() {
        let hostile: [&[u8]; 7] = [
            b"customer-42",
            b"a\x1b[2J\nb",
            "\u{202e}abc".as_bytes(),
            b"<script>alert(1)</script>",
            &[0, 255, 254],
            b"hex:00",
            " \u{200b}".as_bytes(),
        ];
        for bytes in hostile {
            let shown = text(&key(bytes));
            assert_eq!(shown.parse::<JobKey>().unwrap().as_bytes(), bytes, "{shown}");
            assert!(!shown.chars().any(|c| c.is_control() || c == '\u{202e}' || c == '\u{200b}'), "{shown}");
        }
        let longest = "\u{e9}".repeat(LONGEST_KEY);
        assert_eq!(text(&key(longest.as_bytes())), longest);
        let cut = text(&key("\u{e9}".repeat(LONGEST_KEY + 1).as_bytes()));
        assert_eq!((cut.chars().count(), cut.chars().last()), (LONGEST_KEY, Some(CUT)));
        assert_eq!(text(&key(&[7; 1_024])).chars().count(), LONGEST_KEY);
    }

    #[test]
    fn a_hash_is_of_the_bytes_and_whoever_knows_the_key_can_make_it() {
        // printf %s customer-42 | sha256sum
        assert_eq!(hash(&key(b"customer-42")), "#a045eb33f879");
        assert_ne!(hash(&key(b"hex:00")), hash(&key(&[0])));
    }

    #[test]
    fn nothing_is_shown_unless_it_may_be_and_parked_ones_come_first() {
        let marked = |bytes, parked, waiting| Marked { key: key(bytes), parked, waiting };
        let all = [marked(b"a", false, Some(2)), marked(b"b", false, Some(9)), marked(b"z", true, None)];
        assert_eq!(shown(ShowKeys::None, &all), []);
        let order: Vec<_> = shown(ShowKeys::Text, &all).into_iter().map(|key| key.shown).collect();
        assert_eq!(order, ["z", "b", "a"]);
    }
}
