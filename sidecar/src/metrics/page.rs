//! One scrape, in Prometheus' words.

use std::fmt::Write;

use super::{
    Kind, Metric, catalogue,
    counted::{Counted, Number},
};

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

    /// Of what a worker counts the series that are to be shown.
    pub(crate) fn add_counted(&mut self, counted: &Counted, is_shown: impl Fn(&Metric, &[&str]) -> bool) {
        for (metric, values, number) in counted.series() {
            if !is_shown(metric, &values) {
                continue;
            }
            match number {
                Number::One(value) => self.add(metric, &values, *value),
                Number::Many(h) => self.add_histogram(metric, &values, &h.buckets, h.count, h.sum),
            }
        }
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn begin(&mut self, metric: &Metric) {
        if self.family == metric.name {
            return;
        }
        self.family = metric.name;
        let (name, kind) = (metric.name, word(metric.kind));
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

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}
