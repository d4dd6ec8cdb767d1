//! `keylane skip`: leaves one job out by name. Without `--execute` it says which job would be left out.

use keylane_consumer::store::{Line, Skipping, SteerOrder};
use keylane_producer::{JobId, JobKey, Offset, Partition};
use serde::Serialize;

use super::{
    fence::whoever,
    status::picture::Eye,
    why::{
        backlog::{self, Backlog, Place},
        found, partition_in,
    },
};
use crate::{
    cli::{Global, SkipArgs},
    exit::{Code, Failure},
    output::Output,
    store::Store,
};

/// The answer, as `-o json` shows it.
#[derive(Serialize)]
struct Answer {
    key: String,
    partition: u32,
    offset: u64,
    job: Option<String>,
    outcome: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Fate {
    /// Without `--execute`.
    WouldBeSkipped,
    /// Its owner leaves it out when its turn comes.
    Ordered,
    OrderedBefore,
    /// It is a dead letter now.
    Skipped,
    /// It was done, or left, before. Nothing was changed.
    Done,
}

impl From<Skipping> for Fate {
    fn from(skipping: Skipping) -> Self {
        match skipping {
            Skipping::Ordered => Self::Ordered,
            Skipping::OrderedBefore => Self::OrderedBefore,
            Skipping::Buried => Self::Skipped,
            Skipping::Done => Self::Done,
        }
    }
}

/// How many jobs are read at once to find one by its id.
const AT_ONCE: usize = 200;

pub(crate) fn run(args: &SkipArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut eye = Eye::open(global)?;
    let picture = eye.look()?;
    let partition = partition_in(&picture, &args.key, &eye);
    let backlog = backlog::of(&mut eye, partition, &args.key)?;
    let found = found(&picture, &args.key, partition, &backlog)?;
    let line = match found.line {
        Some(_) => Store::named(global)?.lines(&eye.queue, &global.group)?.line(partition, &args.key)?,
        None => Line::default(),
    };
    if args.execute && args.offset.is_none() && args.job.is_none() {
        let what = "--execute without a job: which one was meant may have changed since it was shown";
        return Err(Failure::new(Code::Usage, what).remedy("name it: --offset N, or --job ID"));
    }
    let mut looked = Looked { eye: &mut eye, partition, key: &args.key, line: &line, backlog: &backlog, global };
    let (offset, job) = match (&args.job, args.offset) {
        (Some(id), _) => looked.by_id(id)?,
        (None, Some(offset)) => (offset, looked.id_of(offset)?),
        (None, None) => looked.first()?,
    };
    let place = backlog::place(&mut eye, &found, &args.key, offset, global)?;
    let outcome = match place {
        Place::Done { .. } => Fate::Done,
        _ if !args.execute => Fate::WouldBeSkipped,
        _ => {
            let (who, why) = (args.by.who.clone().unwrap_or_else(whoever), args.by.why.clone());
            let order = SteerOrder { partition, key: args.key.clone(), who, why };
            Store::named(global)?.steer(&eye.queue, &global.group)?.skip(&order, Offset(offset))?.into()
        }
    };
    let answer = Answer { key: args.key.to_string(), partition: partition.0, offset, job, outcome };
    if output.is_json() {
        output.json(&answer)?;
    } else if !global.quiet || outcome == Fate::Done {
        output.line(&sentence(&answer, picture.is_worked_on(partition)))?;
    }
    Ok(if outcome == Fate::Done { Code::Failed } else { Code::Done })
}

fn sentence(answer: &Answer, worker_runs: bool) -> String {
    let job = answer.job.as_ref().map_or_else(|| "the job".to_owned(), |job| format!("job {job}"));
    let job = format!("{job} of {} at offset {}", answer.key, answer.offset);
    match answer.outcome {
        Fate::WouldBeSkipped => format!(
            "would leave out {job}. Nothing was changed: the same with --offset {} --execute does it",
            answer.offset
        ),
        Fate::Ordered if worker_runs => {
            format!("{job} is left out when its turn comes: its worker sees it within a second")
        }
        Fate::Ordered => format!("{job} is left out when its turn comes: no worker has it now"),
        Fate::OrderedBefore => format!("{job} is left out already, when its turn comes"),
        Fate::Skipped => format!("left out {job}: it is a dead letter now, see keylane dead list"),
        Fate::Done => format!("left {job} alone: it was dealt with before"),
    }
}

/// Where the key's jobs were found.
struct Looked<'a> {
    eye: &'a mut Eye,
    partition: Partition,
    key: &'a JobKey,
    line: &'a Line,
    backlog: &'a Backlog,
    global: &'a Global,
}

impl Looked<'_> {
    /// The job that the others wait for.
    fn first(&mut self) -> Result<(u64, Option<String>), Failure> {
        if let Some((offset, _)) = self.line.jobs.first() {
            return Ok((offset.0, self.id_of(offset.0)?));
        }
        let first = self.backlog.first.as_ref();
        first.map(|first| (first.offset, Some(first.job.clone()))).ok_or_else(|| self.none("no job of it waits"))
    }

    fn id_of(&mut self, offset: u64) -> Result<Option<String>, Failure> {
        Ok(self.ids(&[Offset(offset)])?.into_iter().next().map(|(_, id)| id.to_string()))
    }

    fn by_id(&mut self, id: &str) -> Result<(u64, Option<String>), Failure> {
        let in_line = self.line.jobs.iter().map(|(offset, _)| *offset);
        let all: Vec<Offset> = in_line.chain(self.backlog.offsets.iter().copied().map(Offset)).collect();
        for some in all.chunks(AT_ONCE) {
            if let Some((offset, id)) = self.ids(some)?.into_iter().find(|(_, found)| found.as_str() == id) {
                return Ok((offset.0, Some(id.to_string())));
            }
        }
        Err(self.none(&format!("none that waits has the id '{id}'")))
    }

    /// From the line if they are there, or else from the log.
    fn ids(&mut self, offsets: &[Offset]) -> Result<Vec<(Offset, JobId)>, Failure> {
        let mut found = Vec::new();
        if !self.line.jobs.is_empty() {
            let mut lines = Store::named(self.global)?.lines(&self.eye.queue, &self.global.group)?;
            let jobs = lines.jobs(self.partition, self.key, offsets)?;
            found.extend(jobs.into_iter().map(|job| (job.stored.offset, job.id)));
        }
        let rest: Vec<Offset> =
            offsets.iter().copied().filter(|offset| !found.iter().any(|(known, _)| known == offset)).collect();
        for stored in self.eye.log.read_at(&self.eye.queue, self.partition, &rest)? {
            let job = stored.record.into_job(self.partition, stored.offset);
            found.extend(job.ok().filter(|job| job.key == *self.key).map(|job| (stored.offset, job.id)));
        }
        Ok(found)
    }

    fn none(&self, why: &str) -> Failure {
        let what = format!("key '{}' of queue '{}' has no such job: {why}", self.key, self.global.queue);
        Failure::new(Code::NotFound, what).remedy("'keylane why KEY' and 'keylane peek KEY' show what waits")
    }
}
