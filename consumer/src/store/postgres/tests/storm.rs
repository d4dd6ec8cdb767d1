//! Stale writers in flight while a claim comes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use super::{BaseRig, endless, part, sql, tell, until};
use crate::{
    fence::{Fence, Fenced},
    store::{
        StoreSession, Write,
        conformance::{P0, Place, job, letters},
    },
};

/// Thirty-two writers with an old token, back to back, while a claim comes: it is granted, and none of them lands after it.
#[test]
fn a_claim_is_granted_among_32_stale_writers_and_none_lands_after_it() {
    let rig = BaseRig::new();
    let fence = Fence::raise(P0, rig.claim("old", 1, P0).claimed.token, endless());
    let (running, landed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU64::new(0)));
    let zombies: Vec<_> = (0..32_u64)
        .map(|zombie| {
            let (fence, running, landed, mut session) = (fence.clone(), running.clone(), landed.clone(), rig.session());
            thread::spawn(move || {
                let mut refused = 0_u64;
                for turn in 0.. {
                    if refused > 0 && !running.load(Ordering::Relaxed) {
                        return refused;
                    }
                    let write = job("k", zombie * 1_000_000 + turn, Write::Effect(tell("zombie")));
                    match session.write(&mut [part(&fence, vec![write])]) {
                        Ok(answers) if answers[0].jobs.is_ok() => {
                            landed.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(answers) => {
                            assert_eq!(*answers[0].jobs.as_ref().unwrap_err(), Fenced::NewerClaim);
                            refused += 1;
                        }
                        Err(error) => assert!(error.is_transient(), "{error:?}"),
                    }
                }
                unreachable!("the loop has no end")
            })
        })
        .collect();
    until(|| landed.load(Ordering::Relaxed) > 100);
    let mut new = rig.claim("new", 2, P0);
    // What this transaction sees is all that ever lands of theirs.
    let count = sql("INSERT INTO told (line) SELECT 'seen ' || count(*) FROM told WHERE line = 'zombie'");
    assert_eq!(letters(&new.write(vec![job("n", 99_000_000, Write::Effect(count))]).unwrap()), "a");
    running.store(false, Ordering::Relaxed);
    let refused: u64 = zombies.into_iter().map(|zombie| zombie.join().unwrap()).sum();
    assert!(refused >= 32);
    let told = rig.place.told();
    let all = told.iter().filter(|line| *line == "zombie").count();
    assert!(told.contains(&format!("seen {all}")), "no zombie after the claim: {all} in all");
    assert_eq!(u64::try_from(all).unwrap(), landed.load(Ordering::Relaxed));
    let counted = &new.session.overview().unwrap()[0].refused[0];
    assert_eq!((&*counted.worker, counted.writes <= refused, counted.writes > 0), ("old", true, true));
}
