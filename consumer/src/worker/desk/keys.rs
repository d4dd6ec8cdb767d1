//! Keys that are parked or hot, for whoever watches: as much of them as may be shown.

use data_encoding::HEXLOWER;
use keylane_sidecar::{
    KeyView,
    snapshot::{LONGEST_KEY, MOST_KEYS},
};
use openssl::sha::sha224;

use crate::worker::{settings::ShowKeys, tenancy::Tenancy};

/// Of them that are parked; the rest are hot ones.
const MOST_PARKED: usize = 10;
/// Of more parked keys than these the ten that are shown are any: this is done several times a second.
const LOOKED_AT: usize = 1_000;
/// Digits of a hash.
const DIGITS: usize = 12;

pub(super) fn shown(show: ShowKeys, tenancy: &Tenancy) -> Vec<KeyView> {
    if show == ShowKeys::None {
        return Vec::new();
    }
    let mut parked: Vec<String> = tenancy.parked.iter().take(LOOKED_AT).map(ToString::to_string).collect();
    parked.sort_unstable();
    let hot = tenancy.noted.iter().flat_map(|note| &note.hot).filter(|hot| !parked.contains(&hot.key));
    let hot = hot.map(|hot| (&hot.key, false, Some(hot.waiting)));
    let all = parked.iter().take(MOST_PARKED).map(|key| (key, true, None)).chain(hot).take(MOST_KEYS);
    all.map(|(key, parked, waiting)| KeyView { shown: form(show, key), parked, waiting }).collect()
}

fn form(show: ShowKeys, key: &str) -> String {
    if show != ShowKeys::Text {
        return format!("#{}", &HEXLOWER.encode(&sha224(key.as_bytes()))[..DIGITS]);
    }
    // Escapes are longer than what they stand for: cut behind them.
    let plain = key.chars().flat_map(|c| {
        let is_plain = !c.is_control() && (c.is_alphanumeric() || c.is_ascii());
        if is_plain { c.to_string() } else { c.escape_unicode().to_string() }.chars().collect::<Vec<_>>()
    });
    let plain: Vec<char> = plain.collect();
    if plain.len() <= LONGEST_KEY {
        return plain.into_iter().collect();
    }
    plain[..LONGEST_KEY - 1].iter().chain(&['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_as_far_as_it_may_be() {
        assert_eq!(form(ShowKeys::Text, "customer-42"), "customer-42");
        assert_eq!(form(ShowKeys::Text, "a\u{1b}\u{202e}b"), "a\\u{1b}\\u{202e}b");
        assert_eq!(form(ShowKeys::Text, &"\u{1b}".repeat(500)).chars().count(), LONGEST_KEY);
        let hash = form(ShowKeys::Hash, "customer-42");
        assert_eq!((hash.len(), hash.contains("customer")), (DIGITS + 1, false));
    }
}
