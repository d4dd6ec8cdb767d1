//! `keylane health`: whether a worker is well, by its file alone.

use keylane_sidecar::health::{Check, Question, Verdict, ask, is_well};
use serde_json::{Value, json};

use crate::{
    cli::{Global, HealthArgs, Probe},
    exit::{Code, Failure},
    output::Output,
};

pub(crate) fn run(args: &HealthArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let question = match args.probe {
        Probe::Live => Question::Live,
        Probe::Ready => Question::Ready,
        Probe::Startup => Question::Startup,
    };
    let checks = ask(question, &args.snapshot_file, args.within);
    let well = is_well(&checks);
    if output.is_json() {
        output.json(&json!({ "ok": well, "checks": checks.iter().map(as_json).collect::<Vec<_>>() }))?;
    } else {
        for check in checks.iter().filter(|check| global.verbose > 0 || check.verdict == Verdict::Bad) {
            output.line(&check.to_string())?;
        }
    }
    Ok(if well { Code::Done } else { Code::Failed })
}

fn as_json(check: &Check) -> Value {
    let verdict = match check.verdict {
        Verdict::Good => "good",
        Verdict::Passing => "passing",
        Verdict::Bad => "bad",
    };
    json!({ "check": check.name, "is": verdict, "words": check.words })
}
