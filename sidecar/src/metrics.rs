//! Metrics as Prometheus reads them. `metrics.toml` declares every one; nothing else can be shown.
//!
//! 1. A page is made anew for each scrape, out of what is known at that moment: there is no registry in which a series could
//!    stay behind when its partition has gone.
//! 2. What is not known has no series; it is never 0.
//! 3. Label values are words of this program or names that the contract allows, never data of jobs.
//!
//! - [`catalogue`]: all of them; [`counted`]: what a worker counts, and how that leaves it
//! - the rest is of those that show them: `Page` is one scrape

pub mod catalogue;
pub mod counted;
#[cfg(any(feature = "board", feature = "publish"))]
mod ownership;
#[cfg(any(feature = "board", feature = "publish"))]
mod page;
#[cfg(any(feature = "board", feature = "publish"))]
mod process;
#[cfg(any(feature = "board", feature = "publish"))]
mod traffic;

#[cfg(any(feature = "board", feature = "publish"))]
pub(crate) use {
    ownership::ownership,
    page::{Page, build},
    process::OwnProcess,
    traffic::Traffic,
};

/// What the catalogue says of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// As it is shown.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// Names of its labels.
    pub labels: &'static [&'static str],
    /// For each label the words that it takes; none: it takes names.
    pub words: &'static [&'static [&'static str]],
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

#[cfg(test)]
#[cfg(any(feature = "board", feature = "publish"))]
mod tests;
