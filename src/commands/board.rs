//! `keylane board`: shows what all sidecars say. It reads, and nothing else.

use keylane_sidecar::{
    Observer,
    board::{http::Board, merge::Settings},
};
use signal_hook::consts::SIGTERM;
use tokio::{net::TcpListener, runtime};

use crate::{
    cli::{BoardArgs, Global},
    ending::asked_to_end,
    exit::{Code, Failure},
    output::Output,
};

/// Shown where this machine's name is not to be had.
const NAMELESS: &str = "keylane-board";

pub(crate) fn run(args: &BoardArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    check(args)?;
    let asked_to_end = asked_to_end()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Code::Unavailable, "cannot start").because(&error))?;
    runtime.block_on(async {
        let cannot_listen = |error: std::io::Error| {
            Failure::new(Code::Unavailable, format!("cannot listen on {}", args.listen))
                .because(&error)
                .remedy("name another address with --listen")
        };
        let listener = TcpListener::bind(args.listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        if output.is_json() {
            output.json(&serde_json::json!({ "board": format!("http://{address}") }))?;
        } else {
            output.line(&format!("board of {} / {}: http://{address}", global.queue, global.group))?;
        }
        output.flush()?;
        let serving = Board::serve(listener, args.sidecar.clone(), args.every, settings(args, global));
        tokio::select! {
            () = serving => Ok(Code::Done),
            signal = asked_to_end => Ok(if signal == Ok(SIGTERM) { Code::Done } else { Code::Interrupted }),
        }
    })
}

/// What of this `run` would refuse before it listens.
pub(crate) fn check(args: &BoardArgs) -> Result<(), Failure> {
    if args.lost_after < args.stale_after {
        return Err(Failure::new(Code::Usage, "--lost-after is shorter than --stale-after")
            .remedy("a worker is silent before it may be gone: give --lost-after the longer time"));
    }
    Ok(())
}

fn settings(args: &BoardArgs, global: &Global) -> Settings {
    let millis = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let is_name = !host.is_empty() && host.bytes().all(fits);
    Settings {
        queue: global.queue.to_string(),
        group: global.group.to_string(),
        observer: Observer {
            name: if is_name { host } else { NAMELESS.to_owned() },
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        stale_after_ms: millis(args.stale_after),
        lost_after_ms: millis(args.lost_after),
    }
}
