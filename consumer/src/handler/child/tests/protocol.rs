//! What a child may say, and what becomes of one that says something else.

use super::{super::*, fixture::*};

fn handler(script: &str) -> ChildHandler {
    ChildHandler::new(settings(script)).unwrap()
}

#[tokio::test]
async fn each_outcome_reaches_the_worker() {
    let script = r#"while read -r line; do case "$line" in
        *'"payload":"a"'*) echo '{"outcome":"done"}' ;;
        *'"payload":"b"'*) echo '{"outcome":"done","result":{"n": 1.0}}' ;;
        *'"payload":"c"'*) echo '{"outcome":"retry","reason":"busy","after_ms":1500,"id":"j-1"}' ;;
        *) echo '{"outcome":"reject","reason":"never"}' ;;
    esac; done"#;
    let handler = handler(script);
    for (payload, expected) in
        [("a", "done"), ("b", r#"done {"n": 1.0}"#), ("c", "retry busy Some(1.5s)"), ("d", "reject never")]
    {
        assert_eq!(said(&run(&handler, payload.as_bytes()).await), expected);
    }
}

#[tokio::test]
async fn a_child_is_asked_one_job_after_another() {
    let marks = Marks::new();
    let handler = ChildHandler::new(marks.settings(&format!("echo $$ >> $DIR/started\n{ANSWER_ALL}"))).unwrap();
    handler.check().unwrap();
    for _ in 0..5 {
        assert_eq!(said(&run(&handler, b"x").await), "done");
    }
    assert_eq!(marks.lines("started").len(), 1, "the checked child served all");
}

#[tokio::test]
async fn as_many_children_run_as_jobs_run_at_once() {
    let marks = Marks::new();
    // Each waits until three have been asked, so fewer children than jobs would wait for ever.
    let script = r#"while read -r line; do
        echo $$ >> $DIR/asked
        while [ "$(wc -l < $DIR/asked)" -lt 3 ]; do sleep 0.01; done
        echo '{"outcome":"done"}'
    done"#;
    let handler = ChildHandler::new(marks.settings(script)).unwrap();
    let all = tokio::join!(run(&handler, b"1"), run(&handler, b"2"), run(&handler, b"3"));
    assert_eq!([said(&all.0), said(&all.1), said(&all.2)], ["done"; 3]);
    assert_eq!(said(&run(&handler, b"4").await), "done");
    let mut asked = marks.lines("asked");
    asked.sort();
    asked.dedup();
    assert_eq!(asked.len(), 3, "the fourth job was given to one that waited");
}

/// A misstep of the first child fails one attempt, names the rule, and the next job gets a new child.
async fn fails_once(misstep: &str, rule: &str) {
    let marks = Marks::new();
    let script = format!("if mkdir $DIR/first 2>/dev/null; then {misstep}\nfi\n{ANSWER_ALL}");
    let handler = ChildHandler::new(ChildSettings { answer_cap: 1_000, ..marks.settings(&script) }).unwrap();
    let reason = failure(&handler).await;
    assert!(reason.contains(rule), "{misstep}: {reason}");
    assert_eq!(said(&run(&handler, b"x").await), "done", "{misstep}");
}

#[tokio::test]
async fn a_misstep_fails_the_attempt_and_the_child_is_replaced() {
    let deep = "read -r line; head -c 900 /dev/zero | tr '\\0' '['; echo; read -r line";
    for (misstep, rule) in [
        ("read -r line; echo hello; read -r line", "handler wrote `hello`: an answer is one JSON object"),
        (r#"read -r line; echo '{"outcome":"maybe"}'; read -r line"#, "unknown variant `maybe`"),
        (r#"read -r line; echo '{"outcome":"done","id":"j-0"}'; read -r line"#, "the job is j-1"),
        (r"read -r line; printf '{\377}\n'; read -r line", "an answer is UTF-8"),
        (r#"read -r line; printf '{"outcome":"done"}'; exit 0"#, "an answer ends with a newline"),
        (r#"read -r line; printf '{"outcome":"done"}\n{"outcome":"done"}\n'; read -r line"#, "until the next job"),
        ("read -r line; head -c 1001 /dev/zero; read -r line", "at most 1000 bytes"),
        ("head -c 2000000 /dev/zero", "at most 1000 bytes"),
        (deep, "one JSON object"),
        ("read -r line; exec >&-; read -r line", "the output stays open"),
        ("read -r line; exit 3", "handler exited with status 3"),
        ("read -r line; printf '{'; exit 3", "handler exited with status 3"),
        ("read -r line; kill -9 $$", "handler was killed by signal 9"),
        ("read -r line; sleep 1000 & exit 4", "handler exited with status 4"),
    ] {
        fails_once(misstep, rule).await;
    }
}

#[tokio::test]
async fn output_between_two_jobs_is_out_of_step() {
    let marks = Marks::new();
    let script = r#"read -r line; echo '{"outcome":"done"}'
        while ! rm $DIR/go 2>/dev/null; do sleep 0.01; done
        echo '{"outcome":"done"}'; touch $DIR/said; read -r line"#;
    let handler = ChildHandler::new(marks.settings(script)).unwrap();
    assert_eq!(said(&run(&handler, b"x").await), "done");
    std::fs::write(marks.path("go"), "").unwrap();
    until(|| marks.path("said").exists()).await;
    let reason = failure(&handler).await;
    assert_eq!(reason, r#"handler wrote `{"outcome":"done"}\n`: nothing is written while no job is running"#);
    assert_eq!(said(&run(&handler, b"x").await), "done", "a new child answers");
}

#[tokio::test]
async fn an_idle_child_that_ended_costs_no_attempt() {
    let marks = Marks::new();
    let script = r#"echo $$ >> $DIR/started; read -r line; echo '{"outcome":"done"}'"#;
    let handler = ChildHandler::new(marks.settings(script)).unwrap();
    for count in 1..4 {
        assert_eq!(said(&run(&handler, b"x").await), "done");
        let pid = marks.pids("started", count).await[count - 1];
        until(|| is_dead(pid)).await;
    }
}

/// Larger than any pipe, so that writing it needs a reader.
const LARGE: usize = 900 * 1024;

#[tokio::test]
async fn a_large_job_and_a_large_result_pass() {
    // The answer is long before the line is read to its end: both directions are full at once.
    let script = r#"while read -r line; do
        printf '{"outcome":"done","result":"'; head -c 900000 /dev/zero | tr '\0' x; echo '"}'
    done"#;
    let handler = handler(script);
    for _ in 0..2 {
        assert_eq!(said(&run(&handler, &vec![b'y'; LARGE]).await).len(), 900_000 + "done \"\"".len());
    }
}

#[tokio::test]
async fn a_child_that_answers_before_it_has_read_all_is_heard_and_replaced() {
    let marks = Marks::new();
    let script = r#"echo $$ >> $DIR/started; head -c 10 >/dev/null; echo '{"outcome":"done"}'; exec sleep 1000"#;
    let handler = ChildHandler::new(marks.settings(script)).unwrap();
    for _ in 0..2 {
        assert_eq!(said(&run(&handler, &vec![b'y'; LARGE]).await), "done");
    }
    for pid in marks.pids("started", 2).await {
        until(|| is_gone(pid)).await;
    }
}

#[tokio::test]
async fn a_child_that_closed_its_input_is_heard_and_replaced() {
    let script =
        r#"head -c 10 >/dev/null; exec <&-; sleep 0.05; echo '{"outcome":"reject","reason":"no"}'; exec sleep 1000"#;
    let handler = handler(script);
    for _ in 0..2 {
        assert_eq!(said(&run(&handler, &vec![b'y'; LARGE]).await), "reject no");
    }
}

#[tokio::test]
async fn the_time_limit_holds_for_a_child_that_never_reads_or_never_answers() {
    for (script, payload, expected) in [
        ("exec sleep 1000", LARGE, "retry no answer within 200 ms None"),
        ("while read -r line; do :; done", 1, "retry no answer within 200 ms None"),
        ("read -r l; printf '{'; exec sleep 1000", 1, "retry no answer within 200 ms; `{` came without a newline None"),
    ] {
        let limit = Duration::from_millis(200);
        let handler = ChildHandler::new(ChildSettings { limit, ..settings(script) }).unwrap();
        assert_eq!(said(&run(&handler, &vec![b'y'; payload]).await), expected);
    }
}

#[tokio::test]
async fn whole_seconds_are_named_as_such() {
    assert_eq!(Failure::timed_out(Duration::from_secs(30), b"").to_string(), "no answer within 30 s");
}

#[test]
fn a_command_that_cannot_run_is_found_before_any_job() {
    let check = |command: &[&str]| {
        let command = command.iter().map(OsString::from).collect();
        let settings = ChildSettings { command, ..settings("") };
        let error = ChildHandler::new(settings).and_then(|handler| handler.check()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error:?}");
        (error.to_string(), error.detail().remedy_text().unwrap().to_owned())
    };
    let (what, remedy) = check(&["keylane-no-such-command"]);
    assert!(what.contains("'keylane-no-such-command' was not found"), "{what}");
    assert!(remedy.contains("sh -c"), "{remedy}");
    let (what, remedy) = check(&["/dev/null"]);
    assert!(what.contains("'/dev/null' is not executable"), "{what}");
    assert!(remedy.contains("chmod +x"), "{remedy}");
    assert!(check(&[]).0.contains("empty"));
    assert!(check(&[""]).0.contains("empty"));
}

#[test]
fn a_program_that_does_not_know_the_guard_runs_no_child() {
    let settings = ChildSettings { guard: vec!["true".into()], ..settings(ANSWER_ALL) };
    let error = ChildHandler::new(settings).unwrap().check().unwrap_err();
    assert!(matches!(error, Error::Refused(_)), "{error:?}");
    assert!(error.detail().remedy_text().unwrap().contains("serve_if_asked"));
}

#[tokio::test]
async fn a_command_that_always_ends_at_once_is_not_started_in_a_spin() {
    let marks = Marks::new();
    let handler = ChildHandler::new(marks.settings("echo $$ >> $DIR/started; exit 7")).unwrap();
    let clock = crate::clock::Clock::boot();
    let begun = clock.now();
    for _ in 0..4 {
        assert_eq!(failure(&handler).await, "handler exited with status 7");
    }
    // The waits double from 100 ms, and a wait is never shorter than it says.
    assert!(clock.now().since(begun) >= Duration::from_millis(100 + 200 + 400));
    assert_eq!(marks.lines("started").len(), 4);
}
