//! Handing over to one place: at each change, and on a timer.

use std::time::Duration;

use keylane_sidecar::publish::Following;
use serde::Serialize;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::place::{NotTaken, Place};

/// Changes that come faster go as one.
const PAUSE: Duration = Duration::from_secs(1);

/// How it went with one place.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) to: String,
    pub(super) handed_over: u64,
    pub(super) failed: u64,
    #[serde(skip)]
    failing: bool,
}

impl Report {
    pub(super) fn of(place: &Place) -> Self {
        Self { to: place.to_string(), handed_over: 0, failed: 0, failing: false }
    }

    /// Counts; tells of the first failure and of the end of failing.
    pub(super) fn count(&mut self, result: Option<Result<(), NotTaken>>) {
        match result {
            None => {}
            Some(Ok(())) => {
                self.handed_over += 1;
                if self.failing {
                    tracing::warn!(to = self.to, failed = self.failed, "it is handed over again");
                }
                self.failing = false;
            }
            Some(Err(why)) => {
                self.failed += 1;
                let cause = std::error::Error::source(&why).map(ToString::to_string).unwrap_or_default();
                if self.failing {
                    tracing::debug!(to = self.to, failed = self.failed, %why, cause, "not handed over");
                } else {
                    tracing::warn!(to = self.to, failed = self.failed, %why, cause, "not handed over");
                }
                self.failing = true;
            }
        }
    }
}

/// What may be said now, to this place; `None` before there is anything to say.
pub(super) async fn hand_over(
    place: &mut Place,
    following: &Following,
    within: Duration,
) -> Option<Result<(), NotTaken>> {
    let snapshot = following.told()?;
    Some(place.take(&snapshot, within).await)
}

/// Until nobody tells of turns any more; what the last one told of is handed over.
pub(super) async fn carry(
    mut place: Place,
    following: Following,
    mut turns: watch::Receiver<u64>,
    every: Duration,
    within: Duration,
) -> Report {
    let mut report = Report::of(&place);
    let mut seen = 0;
    loop {
        // Late: the timer.
        match timeout(every, turns.wait_for(|turn| *turn != seen)).await {
            Ok(Ok(turn)) => seen = *turn,
            Ok(Err(_)) => return report,
            Err(_) => {}
        }
        report.count(hand_over(&mut place, &following, within).await);
        if turns.has_changed().is_ok() {
            sleep(PAUSE).await;
        }
    }
}
