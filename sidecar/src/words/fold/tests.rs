use super::*;
use crate::words::event::fresh_id;

const AT: i64 = 1_764_597_739_000;

fn acquired(worker: &str, partitions: &[u32]) -> Happening {
    let before = Before::Handed { from: "c".into(), gap: None };
    Happening::Acquired { worker: worker.into(), partitions: partitions.to_vec(), before, lag: Some(0) }
}

fn stopped() -> Happening {
    Happening::WorkerStopped { worker: "c".into(), ended: Ended::Clean }
}

fn episode(after_ms: &[i64], happenings: Vec<Happening>) -> Vec<Event> {
    let id = fresh_id(AT);
    let at = after_ms.iter().map(|after| AT + after);
    at.zip(happenings).map(|(at, happening)| Event::new("board", id, at, at, happening)).collect()
}

#[test]
fn one_episode_is_one_sentence_and_its_parts_stay() {
    let events = episode(&[0, 500, 1_800], vec![stopped(), acquired("a", &[0, 1]), acquired("b", &[2])]);
    let folded = fold(&events);
    assert_eq!(folded.len(), 1);
    assert_eq!(folded[0].text, "14:02:19 UTC: Rebalance: 3 partitions moved in 1.8 s. c left; a and b took over.");
    assert_eq!(folded[0].parts.len(), 3);
}

#[test]
fn what_is_ten_seconds_later_or_of_another_episode_is_told_for_itself() {
    let mut events = episode(&[0, 10_001], vec![stopped(), acquired("a", &[0])]);
    assert_eq!(fold(&events).len(), 2);
    events = episode(&[0], vec![stopped()]);
    events.extend(episode(&[1], vec![acquired("a", &[0])]));
    assert_eq!(fold(&events).len(), 2);
}

#[test]
fn what_is_critical_is_not_hidden_in_a_sum() {
    let expired = Happening::Expired { worker: "c".into(), partitions: vec![4] };
    let events = episode(&[0, 100, 200], vec![acquired("a", &[0]), expired, acquired("b", &[2])]);
    let folded = fold(&events);
    assert_eq!(folded[0].severity, Severity::Critical);
    assert!(
        folded[0].text.starts_with("14:02:19 UTC: c let its session on partition 4 run out."),
        "{}",
        folded[0].text
    );
    assert!(folded[0].text.ends_with("(And 2 more.)"), "{}", folded[0].text);
}
