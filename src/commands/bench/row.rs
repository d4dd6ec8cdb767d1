//! One line of the answer.

use serde::Serialize;

use super::measure::{Pair, Spread};
use crate::output::{Table, grouped};

/// A measurement: ours, and what it is compared with.
#[derive(Serialize)]
pub(super) struct Row {
    figure: &'static str,
    what: String,
    unit: &'static str,
    ours: Option<Spread>,
    /// What the other side is.
    against: Option<&'static str>,
    theirs: Option<Spread>,
    /// Ours by theirs.
    ratio: Option<Spread>,
    aim: Option<Aim>,
    met: Option<bool>,
    /// Why there is no number.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_measured: Option<&'static str>,
}

/// What is aimed at.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Aim {
    /// Of the ratio's median.
    RatioAtLeast(f64),
    /// Of the most that was seen of ours.
    OursBelow(f64),
}

impl Row {
    /// A number that is compared with nothing.
    pub(super) fn alone(figure: &'static str, what: impl Into<String>, unit: &'static str, ours: Spread) -> Self {
        let (what, ours) = (what.into(), Some(ours));
        let (theirs, ratio, aim) = (None, None, None);
        Self { figure, what, unit, ours, against: None, theirs, ratio, aim, met: None, not_measured: None }
    }

    /// Two sides that were not run, and why.
    pub(super) fn unmeasured(
        figure: &'static str,
        what: &'static str,
        unit: &'static str,
        against: &'static str,
        why: &'static str,
    ) -> Self {
        let nothing = Spread { median: 0.0, min: 0.0, max: 0.0 };
        let row = Self::alone(figure, what, unit, nothing);
        Self { ours: None, against: Some(against), not_measured: Some(why), ..row }
    }

    /// Two sides of the same rounds.
    pub(super) fn pair(
        figure: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        against: &'static str,
        pair: Pair,
    ) -> Self {
        let Pair { ours, theirs, ratio } = pair;
        let (theirs, ratio) = (Some(theirs), Some(ratio));
        Self { against: Some(against), theirs, ratio, ..Self::alone(figure, what, unit, ours) }
    }

    /// With what is aimed at.
    #[must_use]
    pub(super) fn aiming(mut self, aim: Aim) -> Self {
        self.met = match aim {
            Aim::RatioAtLeast(least) => self.ratio.map(|ratio| ratio.median >= least),
            Aim::OursBelow(limit) => self.ours.map(|ours| ours.median < limit),
        };
        self.aim = Some(aim);
        self
    }

    /// Under [`header`].
    pub(super) fn print(&self, table: &mut Table) {
        let unit = self.unit;
        let theirs = match (self.against, self.theirs) {
            (Some(against), Some(theirs)) => format!("{} {unit}, {against}", spread(theirs)),
            (Some(against), None) => against.to_owned(),
            (None, _) => "-".to_owned(),
        };
        let aim = match self.aim {
            None => "-".to_owned(),
            Some(Aim::RatioAtLeast(least)) => format!("ratio at least {}", number(least)),
            Some(Aim::OursBelow(limit)) => format!("below {} {unit}", number(limit)),
        };
        let met = match self.met {
            None => "-",
            Some(true) => "met",
            Some(false) => "missed",
        };
        let ratio = self.ratio.map_or_else(|| "-".to_owned(), spread);
        let ours = match (self.ours, self.not_measured) {
            (Some(ours), _) => format!("{} {unit}", spread(ours)),
            (None, why) => format!("not measured: {}", why.unwrap_or("-")),
        };
        table.row(&[&self.figure, &self.what, &ours, &theirs, &ratio, &aim, &met]);
    }
}

/// The table that rows are printed in.
pub(super) fn header() -> Table {
    Table::new(&["FIGURE", "WHAT", "OURS (MIN TO MAX)", "THEIRS", "RATIO", "AIM", "MET"])
}

fn spread(spread: Spread) -> String {
    let Spread { median, min, max } = spread;
    if min == max { number(median) } else { format!("{} ({} to {})", number(median), number(min), number(max)) }
}

/// With as many digits as mean something.
fn number(number: f64) -> String {
    match number.abs() {
        // A count, far below 2^63.
        100.0.. => grouped(number.round() as u64),
        10.0.. => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(ours: f64, theirs: f64) -> Row {
        Row::pair("f", "w", "jobs/s", "bare", Pair::of(&[(ours, theirs)]))
    }

    #[test]
    fn an_aim_is_met_or_missed() {
        assert_eq!(row(50.0, 100.0).aiming(Aim::RatioAtLeast(0.5)).met, Some(true));
        assert_eq!(row(49.0, 100.0).aiming(Aim::RatioAtLeast(0.5)).met, Some(false));
        assert_eq!(row(49.0, 100.0).aiming(Aim::OursBelow(49.0)).met, Some(false));
        assert_eq!(row(48.0, 100.0).aiming(Aim::OursBelow(49.0)).met, Some(true));
    }

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        assert_eq!([0.512, 27.44, 123_456.7].map(number), ["0.51", "27.4", "123,457"]);
    }
}
