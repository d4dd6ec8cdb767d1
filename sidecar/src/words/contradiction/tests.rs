use super::*;
use crate::words::testing::{AT, View};

#[test]
fn reports_that_agree_contradict_nothing() {
    let view = View::at(AT).held(&["a", "b", "b"]).draining(2);
    assert_eq!(contradictions(&view.snapshot()), Vec::<String>::new());
}

#[test]
fn each_contradiction_names_who_says_what() {
    let view = View::at(AT).held(&["a", "b", "b"]).contested(0, &["a", "b"], 0);
    assert_eq!(contradictions(&view.snapshot()), ["a and b both say they hold partition 0."]);

    let mut seen = View::at(AT).held(&["a", "b"]).snapshot();
    seen.workers[0].state = WorkerState::Stopped;
    assert_eq!(contradictions(&seen), ["a says it stopped, and that it holds partition 0."]);

    let mut seen = View::at(AT).held(&["a", "b"]).snapshot();
    seen.workers[1].freshness = Freshness::Lost;
    assert_eq!(contradictions(&seen), ["b is silent, yet partition 1 is shown as its own."]);

    let mut seen = View::at(AT).held(&["a", "b"]).snapshot();
    seen.workers[0].partitions_held = Some(2);
    assert_eq!(contradictions(&seen), ["a says it holds 2 partitions; the list of partitions gives it 1 partition."]);

    let mut seen = View::at(AT).held(&["a", "b"]).snapshot();
    seen.workers[0].session.remaining_ms = Some(0);
    assert_eq!(contradictions(&seen), ["The session of a should have run out, and it says it holds partition 0."]);

    let mut seen = View::at(AT).held(&["a", "b"]).snapshot();
    seen.totals.held = 1;
    assert_eq!(contradictions(&seen), ["The counts by state do not agree with the list of partitions."]);
}
