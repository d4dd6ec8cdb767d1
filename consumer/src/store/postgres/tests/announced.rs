//! A claim that announced itself, and whose claimant died before it took the row.

use std::thread;

use super::{BaseRig, locks::Holder};
use crate::{
    fence::Fenced,
    store::{
        ClaimError, ClaimRefused, StoreSession,
        conformance::{P0, Place, candidate, letters, refused},
    },
};

#[test]
fn a_claim_behind_a_newer_announced_one_is_refused_though_that_never_took_the_row() {
    let rig = BaseRig::new();
    let mut owner = rig.claim("owner", 3, P0);
    let row = Holder::of(&rig.place, "SELECT FROM keylane.fence WHERE part = 0 FOR UPDATE");
    let mut dies = rig.session();
    thread::scope(|scope| {
        let claim = scope.spawn(move || dies.claim(&candidate("dies", 5, P0)));
        rig.place.until_one_waits();
        rig.place.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        let answer = claim.join().unwrap();
        assert!(matches!(&answer, Err(ClaimError::Failed(error)) if error.is_transient()), "{answer:?}");
    });
    drop(row);
    assert_eq!(rig.place.sql("SELECT gen FROM keylane.fence WHERE part = 0"), "3", "it never had it");
    assert_eq!(owner.write(vec![rig.job("k", 0)]).unwrap_err(), Fenced::NewerClaim);
    assert_eq!(refused(rig.try_claim(&candidate("between", 4, P0))), ClaimRefused::RowAhead);
    let mut next = rig.claim("next", 5, P0);
    assert_eq!(letters(&next.write(vec![rig.job("k", 0)]).unwrap()), "a");
    assert_eq!(rig.place.told(), ["k:0"]);
}
