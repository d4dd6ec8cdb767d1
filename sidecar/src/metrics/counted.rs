//! What a worker counts, as it leaves the process: a file beside its snapshot.
//!
//! 1. It is held to the catalogue: no metric, label or word that `metrics.toml` does not give to a worker, no series twice, no
//!    name that the contract does not allow, no number that is not finite or below zero. What breaks that is refused whole.
//! 2. It holds counts, durations and times of this process, and no number of a group, a store or a job.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

use super::{Kind, Metric, catalogue};
use crate::snapshot::{Word, is_name};

/// The value of [`Counted::schema`].
pub const SCHEMA: Word = "keylane.metrics-file/v1";

/// As many as a snapshot has.
const MOST_PARTITIONS: u32 = 4_096;

/// What the file holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counted {
    /// Always [`SCHEMA`].
    #[serde(deserialize_with = "schema")]
    pub schema: Word,
    /// When it was written, in milliseconds since the machine started, sleep included.
    pub written_boot_ms: u64,
    families: Vec<Family>,
}

/// All series of one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Family {
    metric: String,
    series: Vec<Series>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    /// In the order of the catalogue.
    labels: Vec<String>,
    is: Number,
}

/// What a series says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Number {
    /// Of a counter or a gauge.
    One(f64),
    /// Of a histogram.
    Many(Distribution),
}

/// A histogram as it is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Of each bucket of the catalogue how many were in it and in no smaller one.
    pub buckets: Vec<u64>,
    /// Of all how many.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
}

impl Counted {
    /// Nothing counted yet, at that moment.
    pub fn at(written_boot_ms: u64) -> Self {
        Self { schema: SCHEMA, written_boot_ms, families: Vec::new() }
    }

    /// One series of a counter or a gauge. All series of a metric are added one after another.
    pub fn add(&mut self, metric: &Metric, labels: &[&str], value: f64) {
        self.push(metric, labels, Number::One(value));
    }

    /// One series of a histogram.
    pub fn add_distribution(&mut self, metric: &Metric, labels: &[&str], distribution: Distribution) {
        self.push(metric, labels, Number::Many(distribution));
    }

    fn push(&mut self, metric: &Metric, labels: &[&str], is: Number) {
        if self.families.last().is_none_or(|family| family.metric != metric.name) {
            self.families.push(Family { metric: metric.name.to_owned(), series: Vec::new() });
        }
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        self.families.last_mut().expect("it was just made").series.push(Series { labels, is });
    }

    /// Each series of a metric that the catalogue knows, with the values of its labels.
    pub fn series(&self) -> impl Iterator<Item = (&'static Metric, Vec<&str>, &Number)> {
        self.families.iter().filter_map(|family| Some((of_worker(&family.metric)?, family))).flat_map(
            |(metric, family)| {
                family.series.iter().map(move |s| (metric, s.labels.iter().map(String::as_str).collect(), &s.is))
            },
        )
    }

    /// Whether it has only what the catalogue gives to a worker.
    pub fn keeps_the_catalogue(&self) -> bool {
        let mut metrics = HashSet::new();
        self.families.iter().all(|family| {
            metrics.insert(&family.metric) && of_worker(&family.metric).is_some_and(|metric| keeps_to(metric, family))
        })
    }
}

fn of_worker(name: &str) -> Option<&'static Metric> {
    catalogue::ALL.iter().find(|metric| metric.name == name && metric.source.contains(&"worker"))
}

fn keeps_to(metric: &Metric, family: &Family) -> bool {
    let mut seen = HashSet::new();
    family.series.iter().all(|series| {
        let labels = metric.labels.iter().zip(metric.words).zip(&series.labels);
        let is = match &series.is {
            Number::One(value) => metric.kind != Kind::Histogram && is_amount(*value),
            Number::Many(many) => metric.kind == Kind::Histogram && is_distribution(metric, many),
        };
        is && series.labels.len() == metric.labels.len()
            && labels.into_iter().all(|((label, words), value)| is_value(label, words, value))
            && seen.insert(&series.labels)
    })
}

fn is_value(label: &str, words: &[&str], value: &str) -> bool {
    match label {
        "partition" => value.parse().is_ok_and(|n: u32| n < MOST_PARTITIONS && n.to_string() == value),
        _ if words.is_empty() => is_name(value),
        _ => words.contains(&value),
    }
}

fn is_amount(value: f64) -> bool {
    value.is_finite() && value >= 0.0
}

fn is_distribution(metric: &Metric, many: &Distribution) -> bool {
    let within = many.buckets.iter().try_fold(0_u64, |sum, &bucket| sum.checked_add(bucket));
    many.buckets.len() == metric.buckets.len() && within.is_some_and(|sum| sum <= many.count) && is_amount(many.sum)
}

fn schema<'de, D: Deserializer<'de>>(from: D) -> Result<Word, D::Error> {
    let said = String::deserialize(from)?;
    if said == SCHEMA { Ok(SCHEMA) } else { Err(D::Error::custom("not a metrics file of this version")) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn counted() -> Counted {
        let mut counted = Counted::at(500_000);
        counted.add(&catalogue::KEYLANE_JOBS_FINISHED_TOTAL, &["jobs", "completed"], 7.0);
        counted.add(&catalogue::KEYLANE_JOBS_FINISHED_TOTAL, &["jobs", "parked"], 0.0);
        counted.add(&catalogue::KEYLANE_PARTITION_OLDEST_WAITING_TIMESTAMP_SECONDS, &["jobs", "3"], 1.5);
        let waits = Distribution { buckets: vec![1; 12], count: 13, sum: 2.5 };
        counted.add_distribution(&catalogue::KEYLANE_JOB_WAIT_SECONDS, &["jobs"], waits);
        counted
    }

    fn is_kept(change: impl FnOnce(&mut Value)) -> bool {
        let mut file = serde_json::to_value(counted()).unwrap();
        change(&mut file);
        serde_json::from_value::<Counted>(file).is_ok_and(|counted| counted.keeps_the_catalogue())
    }

    #[test]
    fn what_a_worker_counts_is_read_as_it_was_written() {
        let text = serde_json::to_string(&counted()).unwrap();
        assert_eq!(serde_json::from_str::<Counted>(&text).unwrap(), counted());
        assert!(is_kept(|_| ()));
    }

    #[test]
    fn what_the_catalogue_does_not_give_to_a_worker_is_refused_whole() {
        type Change = fn(&mut Value);
        let changes: [(&str, Change); 18] = [
            ("a metric of nobody", |f| f["families"][0]["metric"] = json!("keylane_generation")),
            ("a metric of the board's", |f| f["families"][0]["metric"] = json!("keylane_board_stream_clients")),
            ("a metric twice", |f| f["families"][1] = f["families"][0].clone()),
            ("a series twice", |f| f["families"][0]["series"][1] = f["families"][0]["series"][0].clone()),
            ("a word of nobody", |f| f["families"][0]["series"][0]["labels"][1] = json!("918273645")),
            ("markup in a name", |f| f["families"][0]["series"][0]["labels"][0] = json!("<b>")),
            ("a label too few", |f| f["families"][0]["series"][0]["labels"] = json!(["jobs"])),
            ("a label too many", |f| f["families"][0]["series"][0]["labels"] = json!(["jobs", "completed", "k"])),
            ("a partition that is none", |f| f["families"][1]["series"][0]["labels"][1] = json!("03")),
            ("a partition beyond the bound", |f| f["families"][1]["series"][0]["labels"][1] = json!("4096")),
            ("a number below zero", |f| f["families"][0]["series"][0]["is"] = json!(-1)),
            ("no number", |f| f["families"][0]["series"][0]["is"] = json!(null)),
            ("text for a number", |f| f["families"][0]["series"][0]["is"] = json!("7")),
            ("a histogram for a counter", |f| {
                f["families"][0]["series"][0]["is"] = f["families"][2]["series"][0]["is"].clone();
            }),
            ("a bucket too few", |f| f["families"][2]["series"][0]["is"]["buckets"] = json!([1])),
            ("more in buckets than there are", |f| f["families"][2]["series"][0]["is"]["count"] = json!(11)),
            ("a field of nobody", |f| f["families"][2]["series"][0]["is"]["token"] = json!(918_273_645)),
            ("another version", |f| f["schema"] = json!("keylane.metrics-file/v2")),
        ];
        for (what, change) in changes {
            assert!(!is_kept(change), "{what} was read");
        }
        let infinite = serde_json::to_string(&counted()).unwrap().replace("\"is\":7.0", "\"is\":1e999");
        assert!(infinite.contains("1e999") && serde_json::from_str::<Counted>(&infinite).is_err(), "no finite number");
    }
}
