//! Metrics as Prometheus reads them. `metrics.toml` declares every one; nothing else can be shown.
//!
//! 1. A page is made anew for each scrape, out of what is known at that moment: there is no registry in which a series could
//!    stay behind when its partition has gone.
//! 2. What is not known has no series; it is never 0.
//! 3. Label values are words of this program or names that the contract allows, never data of jobs.

pub mod catalogue;
mod ownership;
mod process;
mod traffic;

use std::fmt::Write;

pub(crate) use ownership::ownership;
pub(crate) use process::OwnProcess;
pub(crate) use traffic::Traffic;

/// What the catalogue says of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// As it is shown.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// The programs that show it.
    pub source: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
    /// Upper bounds of a histogram's buckets.
    pub buckets: &'static [f64],
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It is what it is now.
    Gauge,
    /// How many were at most so large.
    Histogram,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One scrape.
#[derive(Debug, Default)]
pub(crate) struct Page {
    text: String,
    family: &'static str,
}

impl Page {
    /// One series. All series of a metric are added one after another.
    pub(crate) fn add(&mut self, metric: &Metric, values: &[&str], value: f64) {
        self.begin(metric);
        self.series(metric.name, "", metric.labels, values, value);
    }

    /// A histogram: of each bucket how many were in it and in no smaller one, of all how many, and their sum.
    pub(crate) fn add_histogram(&mut self, metric: &Metric, values: &[&str], buckets: &[u64], count: u64, sum: f64) {
        self.begin(metric);
        let labels = [metric.labels, &["le"]].concat();
        let mut so_far = 0;
        for (bound, in_bucket) in metric.buckets.iter().zip(buckets) {
            so_far += in_bucket;
            self.series(metric.name, "_bucket", &labels, &[values, &[&bound.to_string()]].concat(), so_far as f64);
        }
        self.series(metric.name, "_bucket", &labels, &[values, &["+Inf"]].concat(), count as f64);
        self.series(metric.name, "_sum", metric.labels, values, sum);
        self.series(metric.name, "_count", metric.labels, values, count as f64);
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn begin(&mut self, metric: &Metric) {
        if self.family == metric.name {
            return;
        }
        self.family = metric.name;
        let (name, kind) = (metric.name, metric.kind.as_str());
        let _ = write!(self.text, "# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
    }

    fn series(&mut self, name: &str, part: &str, labels: &[&str], values: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), values.len(), "{name}");
        let _ = write!(self.text, "{name}{part}");
        for (at, (label, value)) in labels.iter().zip(values).enumerate() {
            let _ = write!(self.text, "{}{label}=\"{}\"", if at == 0 { '{' } else { ',' }, escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.text, "{end} {value}");
    }
}

/// Names that the contract allows need none of it; the type does not say so.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Which program this is and of what version.
pub(crate) fn build(page: &mut Page) {
    let revision = option_env!("KEYLANE_REVISION").unwrap_or("unknown");
    page.add(&catalogue::KEYLANE_BUILD_INFO, &[env!("CARGO_PKG_VERSION"), revision], 1.0);
}

#[cfg(test)]
mod tests;
