//! Keys that are parked or hot, for whoever watches. What is taken here is bounded and cheap: the desk does it several times a
//! second. How much of a key is shown, and as what, is decided where nothing waits ([`view::keys`](crate::view::keys)).

use keylane_producer::JobKey;

use crate::worker::{glance::Marked, settings::ShowKeys, tenancy::Tenancy};

/// Any ten of them.
const PARKED: usize = 10;
const HOT: usize = 10;

pub(super) fn marked(show: ShowKeys, tenancy: &Tenancy) -> Vec<Marked> {
    if show == ShowKeys::None {
        return Vec::new();
    }
    let parked = tenancy.parked.iter().take(PARKED).map(|key| Marked { key: key.clone(), parked: true, waiting: None });
    let hot = tenancy.noted.iter().flat_map(|note| &note.hot);
    let hot = hot.filter_map(|hot| Some((hot.key.parse::<JobKey>().ok()?, hot.waiting)));
    let hot = hot.filter(|(key, _)| !tenancy.parked.contains(key)).take(HOT);
    parked.chain(hot.map(|(key, waiting)| Marked { key, parked: false, waiting: Some(waiting) })).collect()
}
