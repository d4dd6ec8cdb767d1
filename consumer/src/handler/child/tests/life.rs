//! Whatever ends, nothing of a child is left.

use std::process::Command;

use super::{super::*, fixture::*};

/// Leaves the ids of itself and of a grandchild that closes nothing and heeds no signal but SIGKILL.
const STUBBORN: &str = r#"trap '' TERM INT HUP; sleep 1000 & echo $! >> $DIR/pids; echo $$ >> $DIR/pids"#;

#[tokio::test]
async fn the_time_limit_kills_the_whole_group() {
    let marks = Marks::new();
    let settings = marks.settings(&format!("{STUBBORN}; exec sleep 1000"));
    let handler = ChildHandler::new(ChildSettings { limit: Duration::from_millis(500), ..settings }).unwrap();
    assert_eq!(failure(&handler).await, "no answer within 500 ms");
    for pid in marks.pids("pids", 2).await {
        until(|| is_dead(pid)).await;
    }
}

#[tokio::test]
async fn a_job_that_is_given_up_kills_the_whole_group() {
    let marks = Marks::new();
    let handler = ChildHandler::new(marks.settings(&format!("{STUBBORN}; exec sleep 1000"))).unwrap();
    let mut job = Box::pin(run(&handler, b"x"));
    let pids = tokio::select! {
        _ = &mut job => unreachable!("it never answers"),
        pids = marks.pids("pids", 2) => pids,
    };
    assert!(pids.iter().all(|&pid| !is_dead(pid)));
    drop(job);
    for pid in pids {
        until(|| is_dead(pid)).await;
    }
}

#[tokio::test]
async fn a_child_that_ended_leaves_no_grandchild_and_no_zombie() {
    let marks = Marks::new();
    let handler = ChildHandler::new(marks.settings(&format!("{STUBBORN}; read -r line; exit 3"))).unwrap();
    assert_eq!(failure(&handler).await, "handler exited with status 3");
    let pids = marks.pids("pids", 2).await;
    until(|| is_dead(pids[0]) && is_gone(pids[1])).await;
}

#[tokio::test]
async fn a_handler_that_is_dropped_lets_its_children_end_by_themselves() {
    let marks = Marks::new();
    let script = format!("echo $$ >> $DIR/pids; {ANSWER_ALL}; echo ended > $DIR/ended");
    let handler = ChildHandler::new(ChildSettings { end_grace: PATIENCE, ..marks.settings(&script) }).unwrap();
    assert_eq!(said(&run(&handler, b"x").await), "done");
    let guard = handler.pool.guard().process_id().unwrap();
    let pids = marks.pids("pids", 1).await;
    drop(handler);
    assert_eq!(marks.lines("ended"), ["ended"]);
    until(|| is_gone(pids[0]) && is_gone(guard)).await;
}

#[tokio::test]
async fn a_handler_that_is_dropped_kills_children_that_stay() {
    let marks = Marks::new();
    let script = format!("{STUBBORN}; {ANSWER_ALL}; exec sleep 1000");
    let end_grace = Duration::from_millis(50);
    let handler = ChildHandler::new(ChildSettings { end_grace, ..marks.settings(&script) }).unwrap();
    assert_eq!(said(&run(&handler, b"x").await), "done");
    drop(handler);
    let pids = marks.pids("pids", 2).await;
    until(|| is_dead(pids[0]) && is_gone(pids[1])).await;
}

#[tokio::test]
async fn nothing_outlives_a_worker_that_is_killed() {
    let marks = Marks::new();
    let mut worker = WorkerProcess::start(&marks.script(&format!("{STUBBORN}; {ANSWER_ALL}; exec sleep 1000")));
    let guard = worker.run_job();
    let pids = marks.pids("pids", 2).await;
    assert!(pids.iter().all(|&pid| !is_dead(pid)));
    worker.kill();
    for pid in pids.into_iter().chain([guard]) {
        until(|| is_dead(pid)).await;
    }
}

/// The twin of [`nothing_outlives_a_worker_that_is_killed`].
#[tokio::test]
async fn without_the_guard_a_grandchild_outlives_a_worker_that_is_killed() {
    let marks = Marks::new();
    let mut worker = WorkerProcess::start(&marks.script(&format!("{STUBBORN}; {ANSWER_ALL}; exec sleep 1000")));
    let guard = worker.run_job();
    let pids = marks.pids("pids", 2).await;
    kill(guard);
    until(|| is_dead(guard)).await;
    worker.kill();
    assert!(pids.iter().all(|&pid| !is_dead(pid)));
    pids.into_iter().for_each(kill);
}

#[tokio::test]
async fn a_guard_that_was_killed_is_replaced_and_told_of_the_living() {
    let marks = Marks::new();
    let handler = ChildHandler::new(marks.settings(&format!("{STUBBORN}; exec sleep 1000"))).unwrap();
    let first = handler.pool.take().await.unwrap();
    let killed = handler.pool.guard().process_id().unwrap();
    kill(killed);
    until(|| is_dead(killed)).await;
    let second = handler.pool.take().await.unwrap();
    assert_ne!(handler.pool.guard().process_id().unwrap(), killed);
    let pids = marks.pids("pids", 4).await;
    handler.pool.guard().as_if_the_worker_died();
    for pid in pids {
        until(|| is_dead(pid)).await;
    }
    drop((first, second));
}

/// What a fork elsewhere in this process does until its exec: it holds the dead guard's end of the socket.
#[tokio::test]
async fn a_dead_guard_whose_socket_still_takes_words_is_replaced() {
    let marks = Marks::new();
    let handler = ChildHandler::new(marks.settings("exec sleep 1000")).unwrap();
    let first = handler.pool.take().await.unwrap();
    let killed = handler.pool.guard().process_id().unwrap();
    let pid = rustix::process::Pid::from_raw(killed.cast_signed()).unwrap();
    let process = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    let held = rustix::process::pidfd_getfd(&process, 0, rustix::process::PidfdGetfdFlags::empty()).unwrap();
    kill(killed);
    until(|| is_dead(killed)).await;
    let second = handler.pool.take().await.unwrap();
    assert_ne!(handler.pool.guard().process_id().unwrap(), killed);
    drop((first, second, held));
}

#[tokio::test]
async fn a_child_that_kills_the_worker_dies_with_it() {
    let marks = Marks::new();
    let mut worker =
        WorkerProcess::start(&marks.script(&format!("{STUBBORN}; read -r l; kill -9 $PPID; exec sleep 1000")));
    worker.begin_job();
    let pids = marks.pids("pids", 2).await;
    let status = worker.wait();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
    for pid in pids {
        until(|| is_dead(pid)).await;
    }
}

#[tokio::test]
async fn a_signal_to_the_worker_s_group_reaches_neither_child_nor_guard() {
    let marks = Marks::new();
    let script = format!("echo $$ >> $DIR/pids; {ANSWER_ALL}");
    let mut worker = WorkerProcess::start(&marks.script(&script));
    let guard = worker.run_job();
    let child = marks.pids("pids", 1).await[0];
    assert_ne!(group(child), group(worker.id()));
    assert_ne!(session(guard), session(worker.id()));
    let group = rustix::process::Pid::from_raw(group(guard)).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::TERM).unwrap();
    assert_eq!(worker.run_job(), guard, "the guard ignores what ends a worker in order");
    worker.end();
    until(|| is_dead(child) && is_dead(guard)).await;
}

fn sleep() -> Command {
    let mut command = Command::new("sleep");
    command.arg("1000");
    command
}

/// There is no moment between a child's start and its being guarded: the worker tells the guard nothing.
#[tokio::test]
async fn a_child_enlists_itself_before_its_program_runs() {
    let guard = Guard::new(settings("").guard);
    let child = guard.spawn(sleep).unwrap();
    guard.as_if_the_worker_died();
    until(|| is_dead(child.id())).await;
    guard::reap(child);
}

/// The twin of [`a_child_enlists_itself_before_its_program_runs`], and the reason to strike off before reaping.
#[tokio::test]
async fn a_group_that_is_not_on_the_list_is_not_killed() {
    let guard = Guard::new(settings("").guard);
    let mut other = sleep().spawn().unwrap();
    let struck = guard.spawn(sleep).unwrap();
    guard.strike(&struck);
    let process = guard.process_id().unwrap();
    guard.as_if_the_worker_died();
    until(|| is_dead(process)).await;
    assert!(!is_dead(other.id()) && !is_dead(struck.id()));
    other.kill().unwrap();
    other.wait().unwrap();
    guard.end(&struck);
    guard::reap(struck);
}
