//! What is told between two views, and what is not.

use super::*;
use crate::words::{
    sentence::sentence,
    testing::{self, AT, View},
};

fn told(before: &View, now: &View) -> Vec<String> {
    let told = changes(Some(&before.snapshot()), &now.snapshot());
    told.iter().map(|(at, happening)| sentence(*at, happening)).collect()
}

#[test]
fn a_first_view_tells_who_holds_what_and_nothing_else() {
    let view = View::at(AT).held(&["a", "a", "b"]);
    let told: Vec<_> = changes(None, &view.snapshot()).iter().map(|(at, h)| sentence(*at, h)).collect();
    assert_eq!(
        told,
        [
            "14:02:31 UTC: a took partitions 0, 1. It is the first owner we have seen.",
            "14:02:31 UTC: b took partition 2. It is the first owner we have seen.",
        ]
    );
}

#[test]
fn nothing_happened_between_two_equal_views() {
    let before = View::at(AT).held(&["a", "a", "b"]);
    assert_eq!(told(&before, &before.clone().later(1_000)), Vec::<String>::new());
}

#[test]
fn a_take_over_names_both_owners_and_the_time_without_one() {
    let before = View::at(AT).held(&["a", "b"]).expired(1, "b", 1_800);
    let now = View::at(AT).held(&["a", "a"]).later(1_000).since(1, 0).lag(1, 311);
    assert_eq!(
        told(&before, &now),
        ["14:02:32 UTC: a took over partition 1 from b, after 2.8 s without an owner. 311 jobs were waiting."]
    );
}

#[test]
fn a_hand_over_in_order_is_released_and_acquired() {
    let before = View::at(AT).held(&["a", "b"]).draining(1);
    let now =
        View::at(AT).held(&["a", "a"]).worker("b", WorkerState::Running, Some(0)).later(1_000).since(1, 0).lag(1, 0);
    assert_eq!(
        told(&before, &now),
        [
            "14:02:32 UTC: b handed back partition 1 in 61 s.",
            "14:02:32 UTC: a took over partition 1 from b. No jobs were waiting.",
        ]
    );
}

#[test]
fn silence_is_told_with_what_is_left_of_the_session() {
    let before = View::at(AT).held(&["a", "b", "b"]);
    let now = View::at(AT).held(&["a", "b", "b"]).silent("b", 11_000).later(1_000);
    assert_eq!(
        told(&before, &now),
        [
            "14:02:32 UTC: b has not reported for 11 s. Its session may run for another 39 s, so partitions 1, 2 are shown as unknown."
        ]
    );
    let back = View::at(AT).held(&["a", "b", "b"]).later(2_000);
    assert_eq!(told(&now, &back), ["14:02:33 UTC: b is back after 12 s of silence. It still holds partitions 1, 2."]);
}

#[test]
fn an_owner_that_let_its_session_run_out_is_told_once() {
    let before = View::at(AT).held(&["a", "b"]).silent("b", 19_000);
    let now = before.clone().later(1_000).expired(1, "b", 0);
    let text = "14:02:32 UTC: b let its session on partition 1 run out. Its unfinished jobs will run again on the next owner; \
                late writes from it are refused.";
    assert_eq!(told(&before, &now), [text]);
    assert_eq!(told(&now, &now.clone().later(1_000)), Vec::<String>::new());
}

#[test]
fn absence_is_told_when_it_lasts_and_once() {
    let before = View::at(AT).held(&["a", "b"]);
    let absent = |since: i64, later| before.clone().later(later).absent(1, Some("b"), since);
    assert_eq!(told(&before, &absent(0, 1_000)), Vec::<String>::new(), "a blink is part of each handover");
    assert_eq!(
        told(&absent(4_500, 5_500), &absent(5_500, 6_500)),
        ["14:02:37 UTC: Nobody holds partition 1. How many jobs wait is not known. Last owner: b, until 14:02:32 UTC."]
    );
    assert_eq!(told(&absent(5_500, 6_500), &absent(6_500, 7_500)), Vec::<String>::new());
}

#[test]
fn two_claims_are_told_when_they_last() {
    let before = View::at(AT).held(&["a", "b"]);
    let both = |since, later| before.clone().later(later).contested(1, &["a", "b"], since);
    assert_eq!(told(&before, &both(0, 500)), Vec::<String>::new());
    assert_eq!(
        told(&both(2_500, 3_000), &both(3_000, 3_500)),
        [
            "14:02:34 UTC: a and b both say they hold partition 1. One of them has been cut off; the database will refuse its writes."
        ]
    );
}

#[test]
fn jobs_that_wait_while_none_is_finished_are_told_and_their_recovery_too() {
    let quiet = |later| View::at(AT).held(&["a"]).lag(0, 12).later(later).completed(0, AT);
    let told_stuck = told(&quiet(59_500), &quiet(60_500));
    assert_eq!(told_stuck, ["14:03:31 UTC: Partition 0 has 12 jobs waiting, but a has finished none for 60 s."]);
    let moving = View::at(AT).held(&["a"]).lag(0, 11).later(61_500).completed(0, AT + 61_000);
    assert_eq!(told(&quiet(60_500), &moving), ["14:03:32 UTC: Partition 0 is moving again after 62 s."]);
    let idle = |later| View::at(AT).held(&["a"]).lag(0, 0).later(later).completed(0, AT);
    assert_eq!(told(&idle(59_500), &idle(60_500)), Vec::<String>::new(), "an empty partition is not stuck");
}

#[test]
fn unknown_lag_makes_no_partition_stuck() {
    let unknown = |later| View::at(AT).held(&["a"]).later(later).completed(0, AT);
    assert_eq!(told(&unknown(59_500), &unknown(60_500)), Vec::<String>::new());
}

#[test]
fn what_was_not_seen_is_said_to_be_not_seen() {
    let before = View::at(AT).held(&["a"]);
    let now = before.clone().later(40_000);
    assert_eq!(
        told(&before, &now),
        ["14:03:11 UTC: We could not see workers for 40 s. What happened in that time is not in this list."]
    );
}

#[test]
fn stopping_and_starting() {
    let before = View::at(AT).held(&["a", "b"]);
    let draining = before.clone().later(1_000).worker("b", WorkerState::Draining, Some(1)).draining(1);
    assert_eq!(
        told(&before, &draining),
        ["14:02:32 UTC: b was asked to stop. It takes no new jobs on partition 1 and is finishing 1 job."]
    );
    let stopped =
        View::at(AT).held(&["a", "a"]).later(2_000).worker("b", WorkerState::Stopped, Some(0)).since(1, 0).lag(1, 1);
    assert_eq!(
        told(&draining, &stopped),
        [
            "14:02:33 UTC: b stopped. Nothing was left unfinished.",
            "14:02:33 UTC: b handed back partition 1 in 62 s.",
            "14:02:33 UTC: a took over partition 1 from b. 1 job was waiting.",
        ]
    );
    let started = before.clone().later(1_000).worker("c", WorkerState::Running, Some(0));
    assert_eq!(told(&before, &started), ["14:02:32 UTC: c started and joined workers."]);
}

#[test]
fn a_clock_that_is_off_does_not_date_an_event() {
    let before = View::at(AT).held(&["a", "b"]).expired(1, "b", 0);
    let now = View::at(AT).held(&["a", "a"]).later(1_000).since(1, 3_600_000).lag(1, 1);
    let told = told(&before, &now);
    assert!(told[0].starts_with("14:02:32 UTC: a took over"), "{told:?}");
    assert_eq!(testing::AT, AT);
}

#[test]
fn every_event_keeps_its_contract() {
    let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let snapshot = read(include_str!("../../../../docs/schemas/snapshot.schema.json"));
    let event = read(include_str!("../../../../docs/schemas/event.schema.json"));
    let registry =
        jsonschema::Registry::new().add("urn:keylane:ownership-snapshot:v1", snapshot).unwrap().prepare().unwrap();
    let contract = jsonschema::options().with_registry(&registry).build(&event).unwrap();
    let before = View::at(AT).held(&["a", "b", "b", "c"]).draining(1);
    let now = View::at(AT).held(&["a", "a", "b", "c"]).later(15_000).expired(2, "b", 0).absent(3, Some("c"), 9_000);
    let told = changes(Some(&before.snapshot()), &now.snapshot());
    assert!(told.len() >= 4, "{told:?}");
    for (at, happening) in told {
        let id = crate::words::event::fresh_id(at);
        let line = serde_json::to_value(crate::words::Event::new("board", id, at, at, happening)).unwrap();
        let errors: Vec<_> = contract.iter_errors(&line).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?} in {line}");
    }
}
