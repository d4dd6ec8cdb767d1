//! `keylane push`: hands what one worker holds to places that outlive its host.
//!
//! 1. A process of its own: the sidecar stays one that can connect nowhere, and the worker knows of neither.
//! 2. What is handed over is what the sidecar would serve at that moment: held to the contract, and a silent worker holds nothing.
//! 3. Each place has its own task: one that hangs holds up no other, and is given up after `--within`.
//! 4. Nothing that comes back is acted on: its status is counted and told, and no more of it is read.

mod place;
mod task;

use std::{path::Path, time::Duration};

use keylane_sidecar::{
    publish::{Following, Gist},
    spool::{events_beside, metrics_beside},
};
use signal_hook::consts::SIGTERM;
use tokio::{runtime, sync::watch, task::JoinSet, time::timeout};

use self::{
    place::Place,
    task::{Report, carry},
};
use crate::{
    cli::PushArgs,
    ending::asked_to_end,
    exit::{Code, Failure},
    output::{Output, counted},
    remote::{Remote, Secret},
};

/// How often the file is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// The variable with the secret, if no file is named.
const BEARER: &str = "KEYLANE_PUSH_BEARER";

pub(crate) fn run(args: &PushArgs, output: &mut Output) -> Result<Code, Failure> {
    let places = check(args)?;
    let asked_to_end = asked_to_end()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Unavailable, "cannot start").because(&error))?;
    let following = Following::new(&args.snapshot_file);
    let ended = runtime.block_on(async {
        if args.once {
            return once(&following, places, args, output).await;
        }
        let (tell, turns) = watch::channel(0);
        let mut carrying = JoinSet::new();
        for place in places {
            carrying.spawn(carry(place, following.clone(), turns.clone(), args.every, args.within));
        }
        let signal = tokio::select! {
            () = look(&following, &tell) => unreachable!("it looks for ever"),
            signal = asked_to_end => signal,
        };
        // The worker's last word, if it ended before us.
        look_once(&following, args.within).await;
        tell.send_modify(|turn| *turn += 1);
        drop(tell);
        while let Some(Ok(report)) = carrying.join_next().await {
            print(&report, output)?;
        }
        Ok(if signal == Ok(SIGTERM) { Code::Done } else { Code::Interrupted })
    });
    // A disk that hangs keeps its thread, and nobody waits for it.
    runtime.shutdown_background();
    ended
}

/// What `run` would refuse before it connects anywhere; answers the places.
pub(crate) fn check(args: &PushArgs) -> Result<Vec<Place>, Failure> {
    let mut places = Vec::new();
    if let Some(given) = &args.to {
        let to = given.address("--to")?;
        // Read anew each time; once now, to say at once what is wrong with it.
        Secret::from(args.bearer_file.as_deref(), BEARER)?;
        let remote = Remote::trusting(args.ca_file.as_deref())?;
        places.push(Place::host(remote, to, args.bearer_file.clone(), BEARER));
    }
    if let Some(file) = &args.to_file {
        is_not_the_workers(file, &args.snapshot_file, "--to-file")?;
        places.push(Place::file(file.clone()));
    }
    if let Some(file) = &args.to_note {
        is_not_the_workers(file, &args.snapshot_file, "--to-note")?;
        if args.to_file.as_ref().is_some_and(|other| is_same(file, other)) {
            return Err(Failure::new(Code::Usage, "--to-note and --to-file are the same file"));
        }
        places.push(Place::note(file.clone()));
    }
    Ok(places)
}

/// A worker's own files are the worker's to write.
fn is_not_the_workers(file: &Path, snapshot: &Path, flag: &str) -> Result<(), Failure> {
    let own = [snapshot.to_owned(), metrics_beside(snapshot), events_beside(snapshot)];
    if own.iter().any(|own| is_same(own, file)) {
        return Err(Failure::new(Code::Usage, format!("{flag} is one of the worker's own files"))
            .remedy("name another file: the worker writes this one"));
    }
    Ok(())
}

fn is_same(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        folder.canonicalize().ok().map(|folder| (folder, path.file_name().map(ToOwned::to_owned)))
    };
    a == b || real(a).is_some_and(|a| Some(a) == real(b))
}

async fn look_once(following: &Following, within: Duration) {
    let looking = following.clone();
    let _ = timeout(within, tokio::task::spawn_blocking(move || looking.look())).await;
}

/// Looks for ever. Each change of what may be said is a turn.
async fn look(following: &Following, tell: &watch::Sender<u64>) {
    let mut due = tokio::time::interval(LOOK);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut last = None;
    loop {
        due.tick().await;
        let looking = following.clone();
        let _ = tokio::task::spawn_blocking(move || looking.look()).await;
        let gist = following.told().as_ref().map(Gist::of);
        if gist != last {
            last = gist;
            tell.send_modify(|turn| *turn += 1);
        }
    }
}

async fn once(
    following: &Following,
    places: Vec<Place>,
    args: &PushArgs,
    output: &mut Output,
) -> Result<Code, Failure> {
    look_once(following, args.within).await;
    if following.told().is_none() {
        return Err(Failure::new(
            Code::NotFound,
            format!("no snapshot of a worker in '{}'", args.snapshot_file.display()),
        )
        .remedy("name the file that keylane work --snapshot-file writes"));
    }
    let mut failed = 0;
    for mut place in places {
        let mut report = Report::of(&place);
        report.count(task::hand_over(&mut place, following, args.within).await);
        failed += report.failed;
        print(&report, output)?;
    }
    if failed > 0 {
        return Err(Failure::new(Code::Unavailable, format!("{} did not take it", counted(failed, "place"))));
    }
    Ok(Code::Done)
}

fn print(report: &Report, output: &mut Output) -> Result<(), Failure> {
    if output.is_json() {
        return output.json(report);
    }
    let failed = if report.failed == 0 { String::new() } else { format!(", {} failed", report.failed) };
    output.line(&format!("{}: handed over {}{failed}", report.to, counted(report.handed_over, "time")))
}
