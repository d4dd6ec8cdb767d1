//! The words: a line an event for people, an object an event for programs.

use std::{collections::BTreeMap, path::Path};

use keylane_consumer::clock::{BootTime, Clock};
use serde::Serialize;
use serde_json::{Value, json};

use super::{actors::Role, verdict::Verdict};
use crate::{
    cli::Global,
    exit::Failure,
    output::{Output, counted, grouped, printable},
    time,
};

/// What there is to tell.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    /// The queue is full.
    Enqueued { jobs: u64, aircraft: u64, partitions: u32, fence: bool },
    /// Where a page shows who holds what.
    Page { url: &'a str },
    /// There is none, and why.
    NoPage { why: String },
    /// The page stays until the user ends it.
    PageStays { url: &'a str },
    /// The workers run, with these process numbers.
    Started { workers: &'a BTreeMap<Role, u32>, jobs: u64 },
    /// Whom the fence rows name, by partition.
    Owners { owners: &'a [Option<Role>] },
    /// A quarter more is applied.
    Progress { applied: u64, jobs: u64 },
    /// A worker was stopped where it stood.
    Frozen { worker: Role, partitions: &'a [u32] },
    /// A worker was killed.
    Killed { worker: Role, partitions: &'a [u32] },
    /// A frozen worker goes on.
    Thawed { worker: Role },
    /// The store refused a late write.
    Refused { worker: &'a str, jobs: u64, partitions: &'a [u32] },
    /// A late write landed.
    Landed { worker: &'a str, jobs: u64, partitions: &'a [u32] },
    /// The group has committed every partition to its end.
    Finished { jobs: u64 },
    /// All of it, checked anew.
    Verdict {
        #[serde(flatten)]
        verdict: &'a Verdict,
        #[serde(rename = "folder")]
        kept: Option<&'a Path>,
    },
}

/// Tells the story on standard output.
pub(super) struct Story<'a> {
    output: &'a mut Output,
    quiet: bool,
    paint: Paint,
    clock: Clock,
    began: BootTime,
    jobs: u64,
}

impl<'a> Story<'a> {
    pub(super) fn begin(global: &Global, output: &'a mut Output) -> Self {
        let clock = Clock::boot();
        let began = clock.now();
        let paint = Paint { on: global.color.applies_to(&std::io::stdout()) };
        Self { output, quiet: global.quiet, paint, clock, began, jobs: 0 }
    }

    /// How many events there are.
    pub(super) fn jobs(&self) -> u64 {
        self.jobs
    }

    pub(super) fn tell(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        if let Event::Enqueued { jobs, .. } = event {
            self.jobs = *jobs;
        }
        if self.quiet && !matches!(event, Event::Verdict { .. }) {
            return Ok(());
        }
        let since = self.clock.now().since(self.began);
        if self.output.is_json() {
            let mut object = json!(event);
            object["at_ms"] = Value::from(u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
            self.output.json(&object)?;
            return self.output.flush();
        }
        let text = match event {
            Event::Enqueued { jobs, aircraft, partitions, fence } => {
                self.opening(*jobs, *aircraft, *partitions, *fence)
            }
            Event::Verdict { verdict, kept } => self.verdict(verdict, *kept, since.as_secs_f64()),
            _ => {
                let mut at = format!("{:>6.1} s", since.as_secs_f64());
                let mut text = String::new();
                for line in self.lines(event) {
                    text.push_str(&format!("{}  {line}\n", self.paint.dim(&at)));
                    at = " ".repeat(8);
                }
                text
            }
        };
        self.output.raw(text.as_bytes())?;
        self.output.flush()
    }

    fn opening(&self, jobs: u64, aircraft: u64, partitions: u32, fence: bool) -> String {
        let paint = self.paint;
        let (jobs, aircraft) = (grouped(jobs), grouped(aircraft));
        let mut text = format!(
            "\n{}\n\n  {jobs} departures of {aircraft} aircraft are on a queue of {partitions} partitions, by tail number. Three\n  \
             workers keep a ledger for each aircraft. One will be frozen and one killed.\n\n  \
             The workers' own clocks and manners are switched off, as in a machine that was paused:\n  ",
            paint.bold("  keylane demo")
        );
        if fence {
            text.push_str("only the fence row beside the ledger stands between a stale worker and the data.\n\n");
        } else {
            text.push_str(&paint.bad("and --no-fence takes the store's check away too. Nothing stands guard now."));
            text.push_str("\n\n");
        }
        text
    }

    fn lines(&self, event: &Event<'_>) -> Vec<String> {
        let paint = self.paint;
        match event {
            Event::Started { workers, .. } => {
                let names = workers.iter().map(|(&role, pid)| format!("{} ({pid})", paint.role(role)));
                vec![format!("started {}", names.collect::<Vec<_>>().join(", "))]
            }
            Event::Owners { owners } => {
                let numbers = (0..owners.len()).map(|p| format!("{p:>2}")).collect::<Vec<_>>().join(" ");
                let who = owners.iter().map(|owner| paint.digit(*owner)).collect::<Vec<_>>().join(" ");
                vec![paint.dim(&format!("partition  {numbers}")), format!("worker     {who}")]
            }
            Event::Progress { applied, jobs } => {
                vec![paint.dim(&format!("{} of {} events in the ledger", grouped(*applied), grouped(*jobs)))]
            }
            Event::Frozen { worker, partitions } => vec![format!(
                "{}  {} in the middle of its work, holding {}",
                paint.bold("FROZEN "),
                paint.role(*worker),
                list(partitions)
            )],
            Event::Killed { worker, partitions } => vec![format!(
                "{}  {} with SIGKILL, holding {}",
                paint.bold("KILLED "),
                paint.role(*worker),
                list(partitions)
            )],
            Event::Thawed { worker } => vec![format!(
                "{}  {} goes on where it stood, and does not know what it lost",
                paint.bold("THAWED "),
                paint.role(*worker)
            )],
            Event::Refused { worker, jobs, partitions } => vec![format!(
                "{}  {} of {} to {}",
                paint.good("REFUSED"),
                counted(*jobs, "late write"),
                paint.name(worker),
                list(partitions)
            )],
            Event::Landed { worker, jobs, partitions } => vec![format!(
                "{}  {} of {} to {}, which another worker owns",
                paint.bad("LANDED "),
                counted(*jobs, "late write"),
                paint.name(worker),
                list(partitions)
            )],
            Event::Finished { jobs } => {
                vec![format!("{} of {} events in the ledger, all workers end", grouped(*jobs), grouped(self.jobs))]
            }
            Event::Page { url } => vec![format!("who holds what, live: {}", paint.bold(url))],
            Event::NoPage { why } => vec![paint.dim(&format!("no page: {}", printable(why)))],
            Event::PageStays { url } => vec![format!("the page stays at {} until Ctrl-C", paint.bold(url))],
            Event::Enqueued { .. } | Event::Verdict { .. } => Vec::new(),
        }
    }

    fn verdict(&self, verdict: &Verdict, kept: Option<&Path>, seconds: f64) -> String {
        let paint = self.paint;
        let count = |wrong: bool, count: u64| {
            let text = format!("{:>7}", grouped(count));
            if wrong { paint.bad(&text) } else { text }
        };
        let must_be_none = |found: u64| count(found > 0, found);
        let head = if verdict.holds() { paint.good("  VERDICT: held") } else { paint.bad("  VERDICT: broken") };
        let mut text =
            format!("\n{head}  {}\n\n", paint.dim(&format!("log and ledger read anew, {seconds:.0} s in all")));
        let rows = [
            (count(verdict.applied_once != verdict.jobs, verdict.applied_once), {
                format!("of {} events applied exactly once", grouped(verdict.jobs))
            }),
            (must_be_none(verdict.lost), "lost".into()),
            (must_be_none(verdict.applied_twice), "applied twice".into()),
            (must_be_none(verdict.out_of_order), "out of their aircraft's order".into()),
            (
                must_be_none(verdict.wrong_totals),
                format!("of {} aircraft with wrong totals", grouped(verdict.aircraft)),
            ),
            (must_be_none(verdict.stale_landed), "stale writes that landed".into()),
            (count(verdict.fence && verdict.stale_refused == 0, verdict.stale_refused), "stale writes refused".into()),
        ];
        for (number, what) in rows {
            text.push_str(&format!("  {number}  {what}\n"));
        }
        if verdict.unknown > 0 {
            text.push_str(&format!("  {}  rows that are no event\n", must_be_none(verdict.unknown)));
        }
        if !verdict.fence {
            let landed = counted(verdict.stale_landed, "stale write");
            let loud = format!("  THE FENCE WAS TAKEN AWAY (--no-fence): {landed} landed in the ledger.");
            text.push_str(&format!(
                "\n{}\n  Same workers, same faults; the one difference is the store's look at the fence row in the\n  \
                 transaction of the write. That look is what holds.\n",
                paint.bad(&loud)
            ));
        }
        text.push('\n');
        self.next(verdict, kept, &mut text);
        text
    }

    /// Three lines of what to try next.
    fn next(&self, verdict: &Verdict, kept: Option<&Path>, text: &mut String) {
        let (other, why) = if verdict.fence {
            ("keylane demo --no-fence", "the same without the store's check")
        } else {
            ("keylane demo", "the same with the store's check")
        };
        let mut row = |what: &str, why: &str| text.push_str(&format!("  {what:<26}{}\n", self.paint.dim(why)));
        row(other, why);
        row("keylane work --help", "run jobs of your own");
        match kept {
            None => row("keylane demo --keep", "keep the folder, to look at the ledger yourself"),
            Some(folder) => {
                let file = folder.join("ledger.db").display().to_string();
                text.push_str(&format!(
                    "  sqlite3 '{}' 'SELECT * FROM journal WHERE worker <> owner_then'\n",
                    printable(&file)
                ));
            }
        }
        if self.quiet {
            // Only the verdict was asked for; where the folder is belongs to it.
            let end = text.find("\n\n  keylane").map_or(text.len(), |at| at + 1);
            let path = kept.map(|folder| format!("  {}\n", printable(&folder.display().to_string())));
            text.truncate(end);
            text.push_str(path.as_deref().unwrap_or_default());
        }
    }
}

/// "partition 3", "partitions 0-2, 7".
fn list(partitions: &[u32]) -> String {
    format!("partition{} {}", if partitions.len() == 1 { "" } else { "s" }, time::ranges(partitions))
}

/// Colour, on a terminal that wants it. It never says anything that the words do not.
#[derive(Clone, Copy)]
struct Paint {
    on: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    fn good(self, text: &str) -> String {
        self.with("1;32", text)
    }

    fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    /// Each worker has its colour: cyan, magenta, yellow.
    fn of(role: Role) -> &'static str {
        match role.0 {
            1 => "36",
            2 => "35",
            _ => "33",
        }
    }

    fn role(self, role: Role) -> String {
        self.with(Self::of(role), &role.to_string())
    }

    /// A worker by the name that the store noted.
    fn name(self, worker: &str) -> String {
        Role::named(worker).map_or_else(|| printable(worker).into_owned(), |role| self.role(role))
    }

    fn digit(self, owner: Option<Role>) -> String {
        owner.map_or_else(|| " -".into(), |role| self.with(Self::of(role), &format!("{:>2}", role.0)))
    }
}
