//! What the reader wants to see: it lives in the address, so a link shows the same and no script is needed.

use serde::Deserialize;

use crate::snapshot::PartitionState;

/// The query of the page. Values that are not known are as if they were not there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "Raw")]
pub struct Asked {
    /// Only partitions in this state.
    pub state: Option<PartitionState>,
    /// How far back the lanes go, in minutes.
    pub minutes: u32,
    /// Details of this partition.
    pub partition: Option<u32>,
    /// Every lane, also those where nothing changed.
    pub all_lanes: bool,
}

/// Ranges to choose from, in minutes, with their names.
pub(super) const RANGES: [(u32, &str); 4] = [(1, "1m"), (15, "15m"), (60, "60m"), (360, "6h")];

#[derive(Deserialize)]
struct Raw {
    state: Option<String>,
    since: Option<String>,
    partition: Option<String>,
    lanes: Option<String>,
}

impl From<Raw> for Asked {
    fn from(raw: Raw) -> Self {
        let known = super::STATES.iter().find(|(state, ..)| raw.state.as_deref() == Some(state.as_str()));
        let range = RANGES.iter().find(|(_, name)| raw.since.as_deref() == Some(name));
        Self {
            state: known.map(|(state, ..)| *state),
            minutes: range.map_or(0, |(minutes, _)| *minutes),
            partition: raw.partition.and_then(|p| p.parse().ok()),
            all_lanes: raw.lanes.as_deref() == Some("all"),
        }
    }
}

impl Asked {
    /// How far back the lanes go; an hour if nothing was chosen.
    pub(super) fn range(&self) -> u32 {
        if self.minutes == 0 { 60 } else { self.minutes }
    }

    pub(super) fn with_state(&self, state: Option<PartitionState>) -> String {
        Self { state, ..self.clone() }.link("")
    }

    pub(super) fn with_minutes(&self, minutes: u32) -> String {
        Self { minutes, ..self.clone() }.link("#lanes")
    }

    pub(super) fn with_partition(&self, partition: Option<u32>) -> String {
        Self { partition, ..self.clone() }.link("#details")
    }

    pub(super) fn with_all_lanes(&self, all_lanes: bool) -> String {
        Self { all_lanes, ..self.clone() }.link("#lanes")
    }

    /// Our own words and numbers only: nothing in it needs to be escaped.
    fn link(&self, part: &str) -> String {
        let state = self.state.map(|s| format!("state={}", s.as_str()));
        let since =
            RANGES.iter().find(|(minutes, _)| *minutes == self.minutes).map(|(_, name)| format!("since={name}"));
        let partition = self.partition.map(|p| format!("partition={p}"));
        let lanes = self.all_lanes.then(|| "lanes=all".to_owned());
        let query: Vec<String> = [state, since, partition, lanes].into_iter().flatten().collect();
        format!("/?{}{part}", query.join("&amp;"))
    }
}
