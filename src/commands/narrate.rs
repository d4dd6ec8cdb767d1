//! `keylane narrate`: a snapshot in plain words, and which report says otherwise than another.

mod advice;

use std::{fs::File, io::Read, path::Path};

use keylane_sidecar::{
    Snapshot,
    intake::{self, LARGEST_ANSWER},
    spool::Spooled,
    words,
};

use self::advice::{Advice, Model};
use super::timeline::fetch;
use crate::{
    cli::NarrateArgs,
    exit::{Code, Failure},
    output::Output,
};

pub(crate) fn run(args: &NarrateArgs, output: &mut Output) -> Result<Code, Failure> {
    let model = Model::of(&args.model)?;
    let (name, snapshot) = match &args.file {
        Some(file) => (file.display().to_string(), bytes(file)?),
        None => (args.board().to_string(), fetch(&args.board(), "/v1/snapshot")?.into_bytes()),
    };
    let snapshot = intake::read(&bare(snapshot)?).map_err(|error| {
        Failure::new(Code::BadInput, format!("cannot tell what is in '{name}'"))
            .because(&error)
            .remedy("give it a snapshot as a board serves it at /v1/snapshot, or a worker's --snapshot-file")
    })?;
    let (headline, against) = (words::headline(&snapshot), words::contradictions(&snapshot));
    // Without an answer of the model the rest is told all the same, and then why there is none.
    if !output.is_json() {
        print(&snapshot, &headline, &against, output)?;
        output.flush()?;
    }
    let advice = model.map(|model| model.ask(&snapshot));
    if output.is_json() {
        let notices: Vec<&str> = snapshot.notices.iter().map(|n| n.text.as_str()).collect();
        let mut told = serde_json::json!({
            "observed_at": snapshot.observed_at, "headline": headline, "notices": notices, "contradictions": against,
        });
        if let Some(Ok(advice)) = &advice {
            told["advice"] = serde_json::json!(advice);
        }
        output.json(&told)?;
        output.flush()?;
    }
    match advice.transpose()? {
        Some(advice) if !output.is_json() => print_advice(&advice, output)?,
        _ => {}
    }
    Ok(Code::Done)
}

/// What of this `run` would refuse before it asks anybody.
pub(crate) fn check(args: &NarrateArgs) -> Result<(), Failure> {
    Model::of(&args.model).map(drop)
}

/// Each line of it marked, so that none of it can be taken for ours.
fn print_advice(advice: &Advice, output: &mut Output) -> Result<(), Failure> {
    let Advice { from, model, .. } = advice;
    output.line(&format!("Advice of the model {model} at {from}. Nobody checked it, and nothing acts on it:"))?;
    for line in advice.text.lines() {
        output.line(&format!("  | {line}"))?;
    }
    if advice.cut {
        output.line("  (it said more)")?;
    }
    Ok(())
}

/// Out of the file that a worker writes, or as it is.
fn bare(answer: Vec<u8>) -> Result<Vec<u8>, Failure> {
    match serde_json::from_slice::<Spooled>(&answer) {
        Ok(spooled) => serde_json::to_vec(&spooled.snapshot)
            .map_err(|error| Failure::new(Code::Bug, "a snapshot cannot be written").because(&error)),
        Err(_) => Ok(answer),
    }
}

fn print(snapshot: &Snapshot, headline: &str, against: &[String], output: &mut Output) -> Result<(), Failure> {
    let queue = &snapshot.queue;
    let seen = format!("{} / {} on {}, seen {}", queue.topic, queue.group, queue.cluster, snapshot.observed_at);
    output.line(&seen)?;
    output.line(headline)?;
    for notice in &snapshot.notices {
        output.line(&notice.text)?;
    }
    output.line(match against {
        [] => "The reports do not contradict each other.",
        [_] => "One contradiction:",
        _ => "Contradictions:",
    })?;
    for contradiction in against {
        output.line(&format!("  {contradiction}"))?;
    }
    Ok(())
}

/// At most as much as a snapshot may have.
fn bytes(file: &Path) -> Result<Vec<u8>, Failure> {
    let read = |from: &mut dyn Read| {
        let mut bytes = Vec::new();
        from.take(LARGEST_ANSWER as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let read = if file == Path::new("-") {
        read(&mut std::io::stdin().lock())
    } else {
        File::open(file).and_then(|mut file| read(&mut file))
    };
    read.map_err(|error| {
        let code = if error.kind() == std::io::ErrorKind::NotFound { Code::NotFound } else { Code::BadInput };
        Failure::new(code, format!("cannot read '{}'", file.display())).because(&error)
    })
}
