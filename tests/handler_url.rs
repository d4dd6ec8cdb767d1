//! `keylane work --url`: jobs that a server on this machine runs.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{net::TcpListener, time::Duration};

use keylane_testing::postgres::shared;

use process::{
    Ended, Place,
    server::{Server, answer, says},
    wait_until,
};

const DONE: &str = r#"{"outcome":"done"}"#;

fn enqueued(place: &Place, keys: &[&str]) {
    for key in keys {
        place.run(&["enqueue", "--one", key, "--body", r#"{"amount": 12}"#]).expect(0);
    }
}

fn works(place: &Place, server: &Server, flags: &[&str]) -> Ended {
    place.run(&[&["work", "--until-empty", "--retry-first", "10ms", "--url", &server.url], flags].concat())
}

#[test]
fn each_job_is_a_post_to_the_server_and_its_answer_counts() {
    let place = Place::with_queue();
    enqueued(&place, &["ann", "ann", "bob", "no"]);
    let server = Server::that(|asked, _| match asked.body["key"].as_str().unwrap() {
        "no" => answer(422, "", "it has no amount"),
        "bob" => answer(204, "", ""),
        _ => says(r#"{"outcome":"done","result":{"paid":12}}"#),
    });
    // One at a time, so that one connection does for all.
    let ended = works(&place, &server, &["--concurrency", "1"]).expect(1);
    let asked = server.asked();
    assert_eq!(asked.len(), 4);
    for one in &asked {
        assert!(one.head.starts_with("POST /jobs?shop=1 HTTP/1.1\n"), "{}", one.head);
        assert_eq!(one.header("content-type"), Some("application/json"));
        assert_eq!(one.header("idempotency-key").unwrap(), format!("\"{}\"", one.body["id"].as_str().unwrap()));
        assert_eq!((one.header("keylane-attempt"), one.header("keylane-timeout-ms")), (Some("1"), Some("30000")));
        assert_eq!(one.body["payload"], r#"{"amount": 12}"#);
        assert!(one.header("keylane-sensitive-fence").is_none() && one.body.get("sensitive_fence").is_none());
        assert_eq!(one.connection, 0, "it is kept");
    }
    let results = place.run(&["results", "-o", "json"]).expect(0).stdout;
    assert_eq!(results.matches(r#""paid":12"#).count(), 2, "{results}");
    assert!(ended.stdout.contains("3 jobs applied"), "{}", ended.stdout);
    let parked = place.run(&["parked", "list", "-o", "json"]).expect(0).stdout;
    assert!(
        parked.contains(r#""key":"no""#) && parked.contains("422: it cannot be done; it said `it has no amount`"),
        "{parked}"
    );
}

#[test]
fn a_job_is_tried_again_no_sooner_than_the_server_says() {
    let place = Place::with_queue();
    enqueued(&place, &["ann"]);
    let server = Server::that(|_, n| if n == 1 { answer(503, "retry-after: 1\r\n", "") } else { says(DONE) });
    works(&place, &server, &[]).expect(0);
    let asked = server.asked();
    assert_eq!(asked.iter().map(|one| one.header("keylane-attempt").unwrap()).collect::<Vec<_>>(), ["1", "2"]);
    let waited = asked[1].at.since(asked[0].at);
    assert!(waited >= Duration::from_millis(950), "{waited:?}");
    // Without that word the second try comes at once: the wait above was the server's.
    let place = Place::with_queue();
    enqueued(&place, &["ann"]);
    let server = Server::that(|_, n| if n == 1 { answer(503, "", "") } else { says(DONE) });
    works(&place, &server, &[]).expect(0);
    let asked = server.asked();
    assert!(asked[1].at.since(asked[0].at) < waited, "10 ms were asked for");
}

#[test]
fn while_nobody_listens_a_job_waits_and_its_tries_are_not_used_up() {
    let place = Place::with_queue();
    enqueued(&place, &["ann"]);
    // A port that was free a moment ago: whoever connects is refused.
    let port = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let url = format!("http://localhost:{port}/jobs");
    let worker = place.command(&["work", "--until-empty", "--attempts", "1", "--url", &url, "-vv"]).spawn().unwrap();
    wait_until("it holds its partitions", || {
        place.run(&["status", "-o", "json"]).expect(0).json()["snapshot"]["totals"]["held"].as_u64() > Some(0)
    });
    let server = Server::on(TcpListener::bind(("127.0.0.1", port)).unwrap(), |_, _| says(DONE));
    Ended::of(worker).expect(0);
    assert_eq!(server.asked().len(), 1);
}

#[test]
fn an_answer_that_does_not_come_costs_a_try_and_its_connection() {
    let place = Place::with_queue();
    enqueued(&place, &["ann", "ann"]);
    let server = Server::that(|_, n| if n == 1 { None } else { says(DONE) });
    let ended = works(&place, &server, &["--job-timeout", "500ms", "-o", "json"]).expect(0);
    assert_eq!(ended.stdout.matches(r#""retried":1"#).count(), 1, "{}", ended.stdout);
    let asked = server.asked();
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].body["id"], asked[1].body["id"], "the same job, under the same name");
    assert_ne!(asked[0].connection, asked[1].connection);
    wait_until("the connection of the late one has ended", || server.left() >= 1);
}

#[test]
fn a_handler_is_on_this_machine_or_is_refused() {
    let place = Place::with_queue();
    for url in [
        "http://10.0.0.1/x",
        "http://host.example/x?secret=MARKER",
        "http://127.0.0.1.host.example/x",
        "http://me:MARKER@localhost/x",
        "https://localhost/x",
        "https://host.example/x",
        "ftp://localhost/x",
        "localhost:80",
    ] {
        let ended = place.run(&["work", "--until-empty", "--url", url]).expect(2);
        assert!(!ended.stderr.contains("MARKER"), "{}", ended.stderr);
        assert!(ended.stderr.contains("this machine"), "{url}: {}", ended.stderr);
    }
    place.run(&["work", "--url", "http://localhost:1/", "--builtin", "print"]).expect(2);
    place
        .run(&["work", "--fence-to-handler", "--url", "http://localhost:1/"])
        .expect(2)
        .says(&["needs a Postgres store"]);
}

/// A database with a table of payments, and a queue with a job.
fn shop() -> (Place, String) {
    let place = Place::new();
    place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
    enqueued(&place, &["ann"]);
    let database = shared().database().unwrap();
    shared().sql(&database, "CREATE TABLE payment (line text)").unwrap();
    (place, database)
}

/// A server that pays in a transaction of its own, as a stale owner's: another worker has done the job meanwhile.
fn a_stale_owner_pays(admits: bool) -> (String, String) {
    let (place, database) = shop();
    let (at, store) = (database.clone(), shared().url(&database));
    let (go_on, waits) = std::sync::mpsc::channel::<()>();
    let (waits, tells) = (std::sync::Mutex::new(waits), std::sync::Arc::new(std::sync::Mutex::new(String::new())));
    let told = std::sync::Arc::clone(&tells);
    let server = Server::that(move |asked, _| {
        let fence = asked.header("keylane-sensitive-fence").unwrap();
        waits.lock().unwrap().recv().unwrap();
        let admit = if admits { format!("SELECT keylane.admit('{fence}');") } else { String::new() };
        let paid = shared().sql(&at, &format!("BEGIN; {admit} INSERT INTO payment VALUES ('stale'); COMMIT"));
        *told.lock().unwrap() = paid.map_or_else(|error| format!("{error:?}"), |_| "paid".into());
        says(DONE)
    });
    let mut slow = place
        .command(&[
            "work",
            "--name",
            "slow",
            "--store",
            &store,
            "--fence-to-handler",
            "--session-timeout",
            "2s",
            "--url",
            &server.url,
        ])
        .spawn()
        .unwrap();
    wait_until("the server has the job", || server.asked().len() == 1);
    process::worker::freeze_outside_of_transactions(
        rustix::process::Pid::from_child(&slow),
        &place.path().join("keylane.db"),
    );
    let quick = ["work", "--name", "quick", "--store", &store, "--until-empty", "--session-timeout", "2s"];
    place.run(&[&quick[..], &["--builtin", "discard"]].concat()).expect(0);
    go_on.send(()).unwrap();
    wait_until("the stale owner's server came to its transaction", || !tells.lock().unwrap().is_empty());
    slow.kill().unwrap();
    slow.wait().unwrap();
    let said = tells.lock().unwrap().clone();
    (said, shared().sql(&database, "SELECT count(*) FROM payment").unwrap())
}

#[test]
fn a_stale_owner_s_server_is_refused_by_the_database() {
    let (said, payments) = a_stale_owner_pays(true);
    assert!(said.contains("a newer owner has claimed"), "{said}");
    assert_eq!(payments, "0");
}

#[test]
fn without_admit_a_stale_owner_s_server_pays_again() {
    assert_eq!(a_stale_owner_pays(false), ("paid".into(), "1".into()));
}

/// It goes in one header, to who asked for it; whoever repeats it is not repeated.
#[test]
fn the_fence_of_a_server_goes_in_its_header_alone_and_is_in_no_word_of_the_program() {
    let (place, database) = shop();
    let store = shared().url(&database);
    let server = Server::that(|asked, n| {
        let fence = asked.header("keylane-sensitive-fence").unwrap_or("none");
        match n {
            1 => answer(500, "", &format!("{}{fence}", "x".repeat(150))),
            2 => answer(
                200,
                "content-type: application/json\r\n",
                &format!(r#"{{"outcome":"done","result":"{fence}"}}"#),
            ),
            3 => says(&format!(r#"{{"outcome":"retry","reason":"because of {fence}"}}"#)),
            4 => answer(200, &format!("content-type: application/json\r\nx-{fence}: 1\r\n"), "{"),
            _ => answer(422, "", &format!("it is {fence}, I will not")),
        }
    });
    let flags = ["--fence-to-handler", "--store", &store, "--attempts", "9", "-vvv", "--log-format", "json"];
    let ended = works(&place, &server, &flags).expect(1);
    let mut told = ended.stdout + &ended.stderr;
    told += &shared().sql(&database, "SELECT reason FROM keylane.stopped").unwrap();
    let asked = server.asked();
    assert_eq!(asked.len(), 5);
    let fence = asked[0].header("keylane-sensitive-fence").unwrap();
    assert!(fence.starts_with("keylane-fence-v1:") && fence.len() == 81, "{fence}");
    for words in ["because of [fence]", "it is [fence], I will not", "a result never holds the fence"] {
        assert!(told.contains(words), "'{words}' is missing: the search below would find less in {told}");
    }
    told += &asked.iter().map(|one| one.body.to_string()).collect::<String>();
    let digest = &fence[fence.len() - 36..];
    for part in (0..=24).map(|at| &digest[at..at + 12]) {
        assert!(!told.contains(part), "'{part}' of {fence} is in {told}");
    }
    // Who did not ask for it does not get it.
    let (place, database) = shop();
    let server = Server::that(|_, _| says(DONE));
    works(&place, &server, &["--store", &shared().url(&database)]).expect(0);
    assert!(server.asked()[0].header("keylane-sensitive-fence").is_none());
}
