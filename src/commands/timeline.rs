//! `keylane timeline`: what happened, in sentences, as a board saw it.

use keylane_sidecar::board::ask;

use crate::{
    cli::{BoardUrl, TimelineArgs},
    exit::{Code, Failure},
    output::Output,
};

pub(crate) fn run(args: &TimelineArgs, output: &mut Output) -> Result<Code, Failure> {
    if output.is_json() {
        let lines = fetch(&args.board, "/v1/events.ndjson")?;
        for line in lines.lines() {
            let event: serde_json::Value = serde_json::from_str(line).map_err(|_| no_board(&args.board))?;
            let concerns = |partition| event["partitions"].as_array().is_some_and(|all| all.contains(&partition));
            if args.partition.is_none_or(|partition| concerns(partition.into())) {
                output.json(&event)?;
            }
        }
        return Ok(Code::Done);
    }
    let path = args.partition.map_or("/v1/timeline.txt".to_owned(), |p| format!("/v1/timeline.txt?partition={p}"));
    for line in fetch(&args.board, &path)?.lines() {
        output.line(line)?;
    }
    Ok(Code::Done)
}

/// A board's answer.
pub(super) fn fetch(board: &BoardUrl, path: &str) -> Result<String, Failure> {
    let away = |error: &(dyn std::error::Error + 'static)| {
        Failure::new(Code::Unavailable, format!("no board answers at {board}"))
            .because(error)
            .remedy("start one with keylane board, or name its address with --board")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| away(&error))?;
    let (status, answer) = runtime.block_on(ask::get(board.host(), path)).map_err(|error| away(&error))?;
    match (status, String::from_utf8(answer.to_vec())) {
        (200, Ok(text)) => Ok(text),
        _ => Err(no_board(board)),
    }
}

fn no_board(board: &BoardUrl) -> Failure {
    Failure::new(Code::Unavailable, format!("what answers at {board} is no board of this version"))
        .remedy("name a board's address with --board")
}
