//! A file is looked at whole before anything is sent.

use super::{progress::Progress, source::Source};
use crate::{
    exit::{Code, Failure},
    input::{Fault, Items, Recipe, Rule, field_names},
    output::counted,
};

/// How many bad lines are shown.
const SHOWN: usize = 20;

/// # Errors
/// Names the first bad lines and how many there are.
pub(super) fn whole(source: &Source, recipe: &Recipe, progress: &mut Progress) -> Result<(), Failure> {
    let unreadable = |error| source.unreadable(&error);
    let mut items = Items::begin(source.reader()?, recipe.clone()).map_err(unreadable)?;
    let mut found = Findings::default();
    while let Some(item) = items.next().map_err(unreadable)? {
        match item.job {
            Ok(_) => found.jobs += 1,
            Err(fault) => found.add(item.line, item.raw, fault),
        }
        progress.at(items.tape().bytes(), found.jobs);
        if source.stop().is_asked() {
            return Err(Failure::new(
                Code::Interrupted,
                format!("interrupted while checking {source}: nothing was sent"),
            ));
        }
    }
    progress.end();
    found.verdict(source)
}

#[derive(Default)]
struct Findings {
    jobs: u64,
    bad: u64,
    shown: Vec<(u64, Fault)>,
    /// Lines without a value where the key should be: if it is all of them, the pointer is wrong, not the lines.
    without_key: u64,
    /// The fields of the first such line.
    fields: Vec<String>,
}

impl Findings {
    fn add(&mut self, line: u64, raw: &[u8], fault: Fault) {
        self.bad += 1;
        if fault.rule == Rule::KeyMissing {
            self.without_key += 1;
            if self.without_key == 1 {
                self.fields = std::str::from_utf8(raw).map(|text| field_names(text, 12)).unwrap_or_default();
            }
        }
        if self.shown.len() < SHOWN {
            self.shown.push((line, fault));
        }
    }

    fn verdict(self, source: &Source) -> Result<(), Failure> {
        let Some((_, first)) = self.shown.first() else { return Ok(()) };
        let all = counted(self.jobs + self.bad, "line");
        if self.without_key == self.jobs + self.bad {
            let remedy = if self.fields.is_empty() {
                first.remedy.to_owned()
            } else {
                format!("point --key at the right field: the first line has {}", self.fields.join(", "))
            };
            let failure =
                Failure::new(Code::BadInput, format!("none of {all} in {source} has a key: nothing was sent"));
            return Err(failure.cause(first.to_string()).remedy(remedy));
        }
        let remedy = format!("{}; or send the others with --skip-invalid", first.remedy);
        let what = format!("{} of {all} in {source} cannot be jobs: nothing was sent", self.bad);
        let mut failure = Failure::new(Code::BadInput, what).remedy(remedy);
        for (line, fault) in &self.shown {
            failure = failure.cause(format!("line {line}: {fault}"));
        }
        let more = self.bad - self.shown.len() as u64;
        Err(if more > 0 { failure.cause(format!("and {}", counted(more, "more line"))) } else { failure })
    }
}
