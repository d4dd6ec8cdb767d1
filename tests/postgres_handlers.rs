//! The examples of handlers that write their own tables, on a real Postgres with a real stale owner: a worker that is frozen
//! while its handler works, and another one that takes its partition over.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use keylane_testing::{clients, postgres::shared};
use rustix::process::Pid;

use process::{Place, wait_until, worker::freeze_outside_of_transactions};

/// One of the examples.
#[derive(Clone, Copy)]
struct Example {
    file: &'static str,
    program: &'static str,
}

const PYTHON: Example = Example { file: "python/handler.py", program: "python3" };
const JAVASCRIPT: Example = Example { file: "javascript/handler.cjs", program: "node" };
const PSQL: Example = Example { file: "psql/handler.sh", program: "sh" };

impl Example {
    fn text(self) -> String {
        fs::read_to_string(folder().join(self.file)).unwrap()
    }

    /// The same without the line that asks the fence.
    fn without_admit(self) -> String {
        let text = self.text();
        let with =
            text.lines().filter(|line| line.contains("keylane.admit(") && !line.trim_start().starts_with(['#', '/']));
        assert_eq!(with.count(), 1, "one line asks the fence");
        text.lines().filter(|line| !line.contains("keylane.admit(")).map(|line| format!("{line}\n")).collect()
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/postgres")
}

/// A queue with one job, and a database with the examples' table.
struct Shop {
    place: Place,
    database: String,
    handler: PathBuf,
    example: Example,
}

/// A worker of the shop; it ends with the test.
struct Worker(Child);

impl Shop {
    fn open(example: Example, handler: &str) -> Self {
        let place = Place::new();
        place.run(&["queue", "create", "jobs", "--partitions", "1"]).expect(0);
        place.run(&["enqueue", "--one", "ann", "--body", r#"{"amount": 12, "note": "it's"}"#]).expect(0);
        let database = shared().database().unwrap();
        shared().sql(&database, &fs::read_to_string(folder().join("schema.sql")).unwrap()).unwrap();
        let handler = place.write(Path::new(example.file).file_name().unwrap().to_str().unwrap(), handler);
        Self { place, database, handler, example }
    }

    /// A command whose handlers find what the example needs.
    fn command(&self, flags: &[&str], exec: &[&str]) -> Command {
        let store = shared().url(&self.database);
        let mut command = self
            .place
            .command(&[&["work", "--store", &store, "--fence-to-handler"], flags, &["--exec"], exec].concat());
        command.envs([("DATABASE_URL", store.as_str()), ("PGCONNECT_TIMEOUT", "30")]);
        for variable in ["PATH", "HOME"] {
            command.env(variable, std::env::var_os(variable).unwrap_or_default());
        }
        match self.example.program {
            "python3" => command.env("PYTHONPATH", clients::psycopg().unwrap()),
            "node" => command.env("NODE_PATH", clients::node_postgres().unwrap()),
            _ => &mut command,
        };
        command
    }

    /// A worker whose handler has the job in hand and goes on when the file `go` is there.
    fn slow_worker(&self) -> Worker {
        let script = format!(
            "while IFS= read -r line; do : > got; while [ ! -e go ]; do sleep 0.02; done; printf '%s\\n' \"$line\"; done | {} {}",
            self.example.program,
            self.handler.display()
        );
        let mut command = self.command(&["--name", "slow", "--session-timeout", "2s"], &["sh", "-c", &script]);
        command.stdout(Stdio::null()).stderr(File::create(self.place.path().join("slow.log")).unwrap());
        Worker(command.spawn().unwrap())
    }

    fn works_to_the_end(&self, more: &[&str]) -> process::Ended {
        let flags = [&["--name", "quick", "--until-empty", "--session-timeout", "2s"], more].concat();
        let handler = self.handler.to_str().unwrap();
        process::Ended::of(self.command(&flags, &[self.example.program, handler]).spawn().unwrap())
    }

    fn said(&self) -> String {
        fs::read_to_string(self.place.path().join("slow.log")).unwrap()
    }

    fn payments(&self) -> String {
        shared().sql(&self.database, "SELECT count(*) FROM payment").unwrap()
    }
}

impl Worker {
    fn freeze(&self, place: &Place) {
        freeze_outside_of_transactions(Pid::from_child(&self.0), &place.path().join("keylane.db"));
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The first owner is frozen while its handler works; its successor does the job; then the first one's handler comes to its
/// transaction. It is no process of the worker that is asked there, but the database.
fn a_stale_owner_pays(example: Example, handler: &str) -> (Shop, Worker) {
    let shop = Shop::open(example, handler);
    let slow = shop.slow_worker();
    wait_until("the first owner's handler has the job", || shop.place.path().join("got").exists());
    slow.freeze(&shop.place);
    shop.works_to_the_end(&[]).expect(0);
    assert_eq!(shop.payments(), "1", "the new owner's");
    shop.place.write("go", "");
    (shop, slow)
}

fn is_refused(example: Example) {
    let (shop, _slow) = a_stale_owner_pays(example, &example.text());
    wait_until("the stale handler was refused", || shop.said().contains("KL001"));
    assert_eq!(shop.payments(), "1", "{}", shop.said());
}

fn lands_without(example: Example) {
    let (shop, _slow) = a_stale_owner_pays(example, &example.without_admit());
    wait_until("the stale payment lands", || shop.payments() == "2");
}

/// A handler that dies between its COMMIT and its answer: the next try finds the job done, and does nothing twice.
fn does_nothing_twice(example: Example) {
    let shop = Shop::open(example, &example.text());
    let script = format!(
        "{} {} | if [ -e died ]; then cat; else read -r _; : > died; kill -9 0; fi",
        example.program,
        shop.handler.display()
    );
    let flags = ["--until-empty", "--retry-first", "10ms"];
    let ended = process::Ended::of(shop.command(&flags, &["sh", "-c", &script]).spawn().unwrap()).expect(0);
    assert!(ended.stderr.contains("signal 9"), "it was tried again: {}", ended.stderr);
    assert_eq!(shop.payments(), "1");
    let rows = "SELECT (SELECT count(*) FROM keylane.admitted), (SELECT string_agg(first || '-' || last, ',') FROM keylane.marker)";
    assert_eq!(shared().sql(&shop.database, rows).unwrap(), "0|0-0", "joined to the markers");
}

#[test]
fn a_stale_owner_s_python_handler_is_refused_by_the_database() {
    is_refused(PYTHON);
}

#[test]
fn without_admit_a_stale_owner_s_python_handler_pays_again() {
    lands_without(PYTHON);
}

#[test]
fn a_stale_owner_s_javascript_handler_is_refused_by_the_database() {
    is_refused(JAVASCRIPT);
}

#[test]
fn without_admit_a_stale_owner_s_javascript_handler_pays_again() {
    lands_without(JAVASCRIPT);
}

#[test]
fn a_stale_owner_s_psql_handler_is_refused_by_the_database() {
    is_refused(PSQL);
}

#[test]
fn without_admit_a_stale_owner_s_psql_handler_pays_again() {
    lands_without(PSQL);
}

#[test]
fn a_python_handler_that_dies_before_its_answer_pays_once() {
    does_nothing_twice(PYTHON);
}

#[test]
fn a_javascript_handler_that_dies_before_its_answer_pays_once() {
    does_nothing_twice(JAVASCRIPT);
}

#[test]
fn a_psql_handler_that_dies_before_its_answer_pays_once() {
    does_nothing_twice(PSQL);
}

/// The handler notes its own arguments and environment, and then tells the fence to whoever may not hear it.
const TELLTALE: &str = r#"
while IFS= read -r line; do
    printf '%s' "$line" > heard
    tr '\0' '\n' < /proc/$$/environ > environment
    tr '\0' '\n' < /proc/$$/cmdline > arguments
    fence=${line##*\"sensitive_fence\":\"}; fence=${fence%%\"*}
    if [ ! -e echoed ]; then : > echoed; printf '%s\n' "$line"
    elif [ ! -e cut ]; then : > cut; printf '%s' "${line##*time_limit_ms}"; exit 4
    elif [ ! -e stored ]; then : > stored; printf '{"outcome":"done","result":"%s"}\n' "$fence"
    elif [ ! -e again ]; then : > again; printf '{"outcome":"retry","reason":"because of %s"}\n' "$fence"
    else printf '{"outcome":"reject","reason":"it is %s, I will not"}\n' "$fence"; fi
done
"#;

#[test]
fn the_fence_of_a_handler_is_in_no_word_of_the_program() {
    let shop = Shop::open(PSQL, TELLTALE);
    let store = shared().url(&shop.database);
    let mut told = String::new();
    for log in ["text", "json"] {
        let flags = ["--until-empty", "--retry-first", "10ms", "--attempts", "9", "-vvv", "--log-format", log];
        let handler = shop.handler.to_str().unwrap();
        let ended = process::Ended::of(shop.command(&flags, &["sh", handler]).spawn().unwrap()).expect(1);
        told += &(ended.stdout + &ended.stderr);
        for args in [&["status"][..], &["status", "-o", "json"], &["results"], &["fence", "show"], &["retry", "ann"]] {
            let ended = shop.place.run(&[args, &["-vvv", "--store", &store]].concat()).expect(0);
            told += &(ended.stdout + &ended.stderr);
        }
    }
    told += &shared().sql(&shop.database, "SELECT reason FROM keylane.stopped").unwrap();
    let heard = fs::read_to_string(shop.place.path().join("heard")).unwrap();
    let fence = heard.rsplit("\"sensitive_fence\":\"").next().unwrap().trim_end_matches("\"}");
    assert!(fence.starts_with("keylane-fence-v1:") && fence.len() == 81, "{heard}");
    for name in ["environment", "arguments"] {
        told += &fs::read_to_string(shop.place.path().join(name)).unwrap();
    }
    for words in ["because of [fence]", "it is [fence], I will not", "a result never holds the fence"] {
        assert!(told.contains(words), "'{words}' is missing: the search below would find less in {told}");
    }
    let digest = &fence[fence.len() - 36..];
    for part in (0..=24).map(|at| &digest[at..at + 12]) {
        assert!(!told.contains(part), "'{part}' of {fence} is in {told}");
    }
}

#[test]
fn the_fence_goes_to_a_program_only_and_from_postgres_only() {
    let place = Place::with_queue();
    let work = |args: &[&str]| place.run(&[&["work", "--fence-to-handler"], args].concat()).expect(2);
    work(&["--exec", "cat"]).says(&["needs a Postgres store", "--store postgres://"]);
    work(&["--builtin", "discard", "--store", "postgres://nobody@127.0.0.1/none"]);
}
