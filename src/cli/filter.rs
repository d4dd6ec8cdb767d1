//! Which of the jobs that failed are meant: by rule, key, partition, age.

use std::time::Duration;

use clap::{Args, ValueEnum};
use keylane_consumer::store::StopRule;
use keylane_producer::{JobKey, Partition, Timestamp};

use super::units::duration;

/// A rule that stops keys or makes jobs leave, by the word that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Rule {
    /// All tries were used up
    OutOfAttempts,
    /// It failed for longer than --give-up-after
    OutOfTime,
    /// The handler rejected the job
    Rejected,
    /// Workers died while it ran
    WorkerDied,
    /// A person paused the key
    Paused,
    /// A person had the job skipped
    Skipped,
}

impl From<Rule> for StopRule {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::OutOfAttempts => Self::OutOfAttempts,
            Rule::OutOfTime => Self::OutOfTime,
            Rule::Rejected => Self::Rejected,
            Rule::WorkerDied => Self::WorkerDied,
            Rule::Paused => Self::Paused,
            Rule::Skipped => Self::Skipped,
        }
    }
}

/// All that are given must fit.
#[derive(Debug, Default, Args)]
pub(crate) struct FilterArgs {
    /// Only by this rule
    #[arg(long, env = "KEYLANE_FILTER_REASON", hide_env_values = true, value_enum, value_name = "RULE")]
    pub(crate) reason: Option<Rule>,

    /// Only keys that begin with this text
    #[arg(long, env = "KEYLANE_FILTER_PREFIX", hide_env_values = true, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,

    /// Only of this partition
    #[arg(long, env = "KEYLANE_FILTER_PARTITION", hide_env_values = true, value_name = "N")]
    pub(crate) partition: Option<u32>,

    /// Only since longer ago than this
    #[arg(long, env = "KEYLANE_FILTER_OLDER_THAN", hide_env_values = true, value_name = "TIME", value_parser = duration)]
    pub(crate) older_than: Option<Duration>,
}

impl FilterArgs {
    pub(crate) fn is_empty(&self) -> bool {
        self.reason.is_none() && self.prefix.is_none() && self.partition.is_none() && self.older_than.is_none()
    }

    /// Whether something of this key fits.
    pub(crate) fn fits(
        &self,
        partition: Partition,
        key: &JobKey,
        rule: StopRule,
        since: Timestamp,
        now: Timestamp,
    ) -> bool {
        let age = u128::try_from(now.0.saturating_sub(since.0)).unwrap_or(0);
        self.reason.is_none_or(|reason| StopRule::from(reason) == rule)
            && self.prefix.as_ref().is_none_or(|prefix| key.as_bytes().starts_with(prefix.as_bytes()))
            && self.partition.is_none_or(|only| Partition(only) == partition)
            && self.older_than.is_none_or(|least| age > least.as_millis())
    }
}

/// Who acts, and why: it is written down.
#[derive(Debug, Args)]
pub(crate) struct ByArgs {
    /// The reason, for those who look later
    #[arg(long, env = "KEYLANE_WHY", hide_env_values = true, value_name = "TEXT")]
    pub(crate) why: String,

    /// Who does it; else the user at this host
    #[arg(long, env = "KEYLANE_WHO", hide_env_values = true, value_name = "NAME")]
    pub(crate) who: Option<String>,
}

/// How fast many are acted on.
pub(crate) fn pace(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "a whole number a second, from 1".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_given_must_fit() {
        let (key, now) = (JobKey::try_from("customer-42").unwrap(), Timestamp(1_000_000));
        let fits = |filter: &FilterArgs| filter.fits(Partition(3), &key, StopRule::Rejected, Timestamp(900_000), now);
        let filter = |change: fn(&mut FilterArgs)| {
            let mut filter = FilterArgs {
                reason: Some(Rule::Rejected),
                prefix: Some("customer-".to_owned()),
                partition: Some(3),
                older_than: Some(Duration::from_secs(99)),
            };
            change(&mut filter);
            filter
        };
        assert!(fits(&FilterArgs::default()) && FilterArgs::default().is_empty());
        assert!(fits(&filter(|_| ())) && !filter(|_| ()).is_empty());
        assert!(!fits(&filter(|f| f.reason = Some(Rule::WorkerDied))));
        assert!(!fits(&filter(|f| f.prefix = Some("ustomer".to_owned()))));
        assert!(!fits(&filter(|f| f.partition = Some(2))));
        assert!(!fits(&filter(|f| f.older_than = Some(Duration::from_secs(100)))));
    }
}
