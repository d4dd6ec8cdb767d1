use super::*;
use crate::words::testing::{AT, View};

#[test]
fn the_headline_says_the_worst_first() {
    let lag = |view: View| (0..view.partitions.len()).fold(view, |view, n| view.lag(n, 0));
    let six = || View::at(AT).held(&["w-0", "w-0", "w-1", "w-2", "w-3", "w-0"]);
    for (view, text) in [
        (lag(six()), "All 6 partitions are held; nothing is waiting."),
        (lag(six()).lag(2, 2_000), "All 6 partitions are held; 2,000 jobs are waiting."),
        (lag(View::at(AT).held(&["w-0"])).lag(0, 1), "The only partition is held; 1 job is waiting."),
        (six(), "All 6 partitions are held; how many jobs wait is not known."),
        (six().lag(0, 0), "All 6 partitions are held; how many jobs wait is not known."),
        (lag(six()).draining(2), "All 6 partitions have a working owner; 1 is being handed over."),
        (
            six()
                .draining(2)
                .expired(3, "w-2", 0)
                .silent("w-3", 20_400)
                .contested(5, &["w-0", "w-1"], 3_000)
                .lag(5, 12),
            "3 of 6 partitions have a working owner. 1 is contested, 1 is expired, 1 is unknown. w-3 is silent. At least 12 jobs \
             are waiting.",
        ),
        (
            View::at(AT).held(&["w-0"; 12]).silent("w-0", 40_000),
            "We have not heard from any worker for 40 s. The picture below is from 14:01:51 UTC.",
        ),
        (View::at(AT), "We have not heard from any worker yet. Nothing can be said about who holds what."),
    ] {
        assert_eq!(headline(&view.snapshot()), text);
    }
}
