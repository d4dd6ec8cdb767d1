//! `keylane sidecar`: one worker's snapshot over HTTP, by a process that cannot connect anywhere.

use std::{io, net::TcpListener, path::Path};

use keylane_sidecar::{
    Notice,
    publish::{
        Settings,
        confine::{Confinement, confine},
        serve,
    },
};
use signal_hook::consts::SIGTERM;
use tokio::runtime;

use crate::{
    cli::SidecarArgs,
    ending::asked_to_end,
    exit::{Code, Failure},
    output::Output,
};

pub(crate) fn run(args: &SidecarArgs, output: &mut Output) -> Result<Code, Failure> {
    if args.end_with_parent {
        #[cfg(target_os = "linux")]
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
            .map_err(|error| Failure::new(Code::Bug, "cannot tie its life to its parent's").because(&error))?;
    }
    let cannot_listen = |error: io::Error| {
        Failure::new(Code::Unavailable, format!("cannot listen on {}", args.listen))
            .because(&error)
            .remedy("name another address with --listen")
    };
    let listener = TcpListener::bind(args.listen).map_err(cannot_listen)?;
    listener.set_nonblocking(true).map_err(cannot_listen)?;
    let address = listener.local_addr().map_err(cannot_listen)?;
    // The socket is the last one that this process opens. Before there is a second thread, and before anybody is answered.
    let confinement = confine(folder(&args.snapshot_file)).accepted(args.allow_unconfined).map_err(|error| {
        Failure::new(Code::Refused, "cannot start without confinement")
            .because(&error)
            .remedy("run it where seccomp is allowed, or give --allow-unconfined: every snapshot then says so")
    })?;
    if !confinement.landlock {
        tracing::info!("this kernel has no Landlock: files that this user may read stay readable");
    }
    let asked_to_end = asked_to_end()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .map_err(|error| Failure::new(Code::Unavailable, "cannot start").because(&error))?;
    let ended = runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).map_err(cannot_listen)?;
        if output.is_json() {
            let said = serde_json::json!({ "sidecar": format!("http://{address}"), "landlock": confinement.landlock });
            output.json(&said)?;
        } else {
            output.line(&format!("sidecar of {}: http://{address}", args.snapshot_file.display()))?;
        }
        output.flush()?;
        let settings = Settings { file: args.snapshot_file.clone(), notice: notice(confinement) };
        tokio::select! {
            () = serve(listener, settings) => Ok(Code::Done),
            signal = asked_to_end => Ok(if signal == Ok(SIGTERM) { Code::Done } else { Code::Interrupted }),
        }
    });
    // A disk that hangs has the reading thread, and nobody waits for it.
    runtime.shutdown_background();
    ended
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn notice(confinement: Confinement) -> Option<Notice> {
    (!confinement.seccomp).then(|| Notice {
        code: "sidecar_unconfined".to_owned(),
        text: "The sidecar could not give up its right to connect to others, and was told to go on.".to_owned(),
    })
}
