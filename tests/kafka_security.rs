//! The real program against brokers that ask who it is: each way to log in, each way to fail, rights that come and go, and
//! no secret in anything that it prints.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::disallowed_methods, reason = "no deadline of ownership hangs on it")]

#[allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]
mod process;

use std::{
    process::{Child, Command, Stdio},
    sync::OnceLock,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE64URL_NOPAD;
use keylane_testing::kafka::{Cluster, Login, Options};
use process::{Ended, Place, wait_until};
use rustix::process::{Pid, Signal, kill_process};

/// Longer, and a person thinks that it hangs.
const SOON: Duration = Duration::from_secs(15);

/// A broker that knows users; a token's connection must log in anew when the token ends.
fn secured() -> &'static Cluster {
    static ONE: OnceLock<Cluster> = OnceLock::new();
    ONE.get_or_init(|| {
        let reauth = "listener.name.client.oauthbearer.connections.max.reauth.ms";
        Cluster::start(&Options::new(1).secured().property(reauth, "8000")).unwrap()
    })
}

/// A broker that lets a user do what was allowed.
fn authorized() -> &'static Cluster {
    static ONE: OnceLock<Cluster> = OnceLock::new();
    ONE.get_or_init(|| Cluster::start(&Options::new(1).authorized()).unwrap())
}

/// The program in a folder of its own, with brokers and a file of properties.
struct Client {
    place: Place,
    broker: String,
}

impl Client {
    fn new(broker: &str, properties: &str) -> Self {
        let place = Place::new();
        place.write("kafka.properties", properties);
        Self { place, broker: format!("kafka://{broker}") }
    }

    /// As the cluster's user, by this mechanism.
    fn of(cluster: &Cluster, mechanism: &str) -> Self {
        let client = Self::new(cluster.bootstrap(), "");
        client.logs_in_by(cluster.login().unwrap(), mechanism);
        client
    }

    fn logs_in_by(&self, login: &Login, mechanism: &str) {
        let who = if mechanism == "OAUTHBEARER" {
            let path = self.place.path().join("token");
            self.write_token(Duration::from_secs(3_600));
            format!("keylane.oauthbearer.token=file:{}", path.display())
        } else {
            format!("sasl.username={}\nsasl.password={}", login.user, login.password)
        };
        let ca = login.ca.display();
        let all = format!(
            "# how we log in\nsecurity.protocol=SASL_SSL\nssl.ca.location={ca}\nsasl.mechanism={mechanism}\n{who}\n"
        );
        self.place.write("kafka.properties", all);
    }

    /// An unsecured token that lives so long from now.
    fn write_token(&self, life: Duration) {
        let ends = (SystemTime::now() + life).duration_since(UNIX_EPOCH).unwrap().as_secs();
        let part = |json: &str| BASE64URL_NOPAD.encode(json.as_bytes());
        let claims = format!(r#"{{"sub":"alice","exp":{ends}}}"#);
        let token = format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims));
        // As a rotation does it: never half a token.
        let new = self.place.write("token.new", token);
        std::fs::rename(new, self.place.path().join("token")).unwrap();
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(args);
        command.env("KEYLANE_BROKER", &self.broker).env("KEYLANE_STORE", "sqlite:store.db");
        command.env("KEYLANE_KAFKA_PROPERTIES", "kafka.properties");
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    fn run(&self, args: &[&str]) -> Ended {
        Ended::of(self.command(args).spawn().unwrap())
    }

    fn create(&self, queue: &str) {
        self.run(&["queue", "create", queue, "--partitions", "2", "--replication", "1", "--unsafe"]).expect(0);
    }

    fn enqueue(&self, queue: &str, key: &str) {
        self.run(&["enqueue", "--one", key, "--body", "1", "--queue", queue]).expect(0);
    }

    fn results(&self, queue: &str) -> usize {
        self.run(&["results", "--queue", queue]).expect(0).stdout.lines().count()
    }

    /// A worker whose news go into a file.
    fn worker(&self, queue: &str, flags: &[&str]) -> Working {
        let news = std::fs::File::create(self.place.path().join("news")).unwrap();
        let mut args = vec!["work", "--queue", queue, "-o", "json"];
        args.extend(flags);
        args.extend(["--exec", "sh", "-c", ANSWER]);
        let mut command = self.command(&args);
        command.stdout(Stdio::from(news.try_clone().unwrap())).stderr(Stdio::from(news));
        Working { child: command.spawn().unwrap(), news: self.place.path().join("news") }
    }
}

const ANSWER: &str = r#"while read -r line; do echo '{"outcome":"done","result":1}'; done"#;

struct Working {
    child: Child,
    news: std::path::PathBuf,
}

impl Working {
    fn news(&self) -> String {
        std::fs::read_to_string(&self.news).unwrap()
    }

    fn told(&self, event: &str) -> usize {
        self.news().lines().filter(|line| line.contains(&format!("\"event\":\"{event}\""))).count()
    }

    fn end(&mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_way_to_log_in_runs_a_queue_from_end_to_end() {
    for mechanism in ["SCRAM-SHA-256", "PLAIN", "OAUTHBEARER"] {
        let client = Client::of(secured(), mechanism);
        let queue = mechanism.to_lowercase();
        client.create(&queue);
        let jobs: String = (0..20).map(|n| format!("{{\"key\":\"k{}\",\"n\":{n}}}\n", n % 5)).collect();
        client.place.write("jobs.ndjson", jobs);
        client.run(&["enqueue", "jobs.ndjson", "--queue", &queue]).expect(0);
        client.run(&["work", "--until-empty", "--queue", &queue, "--exec", "sh", "-c", ANSWER]).expect(0);
        assert_eq!(client.results(&queue), 20, "{mechanism}");
        let status = client.run(&["status", "-o", "json", "--queue", &queue]).expect(0).json();
        assert_eq!(status["snapshot"]["totals"]["lag_jobs"], 0, "{mechanism}: {status}");
    }
}

#[test]
fn a_worker_goes_on_by_the_token_that_was_written_since() {
    let client = Client::of(secured(), "OAUTHBEARER");
    client.create("tokens");
    let life = Duration::from_secs(12);
    client.write_token(life);
    let written = Instant::now();
    let mut worker = client.worker("tokens", &[]);
    wait_until("it holds both partitions", || worker.told("took_over") == 2);
    client.write_token(Duration::from_secs(3_600));
    wait_until("the first token is over", || written.elapsed() > life + Duration::from_secs(3));
    for key in ["a", "b", "c", "d"] {
        client.enqueue("tokens", key);
    }
    wait_until("it did the jobs", || client.results("tokens") == 4);
    // When a token ends the broker hangs up, and the client logs in anew: that it was away for a moment may be told.
    assert_eq!(worker.end(), Some(0), "{}", worker.news());
}

/// How a command ends that cannot reach the brokers, and that it does so soon.
#[track_caller]
fn fails(client: &Client, args: &[&str], code: i32, parts: &[&str]) {
    let started = Instant::now();
    let ended = client.run(args);
    let took = started.elapsed();
    let ended = ended.expect(code).says(parts);
    assert!(!ended.stderr.contains("TimedOut") && !ended.stderr.contains("timed out"), "{}", ended.stderr);
    assert!(took < SOON, "after {took:?}: {}", ended.stderr);
}

#[test]
fn a_wrong_password_is_named() {
    for mechanism in ["SCRAM-SHA-256", "PLAIN"] {
        let client = Client::of(secured(), mechanism);
        let login = Login { password: "WRONG-MARKER".into(), ..secured().login().unwrap().clone() };
        client.logs_in_by(&login, mechanism);
        fails(&client, &["queue", "list"], 4, &["uthentication", "sasl.password"]);
    }
}

#[test]
fn an_authority_that_is_not_the_brokers_is_named() {
    let client = Client::of(secured(), "PLAIN");
    let login = secured().login().unwrap().clone();
    client.logs_in_by(&Login { ca: login.other_ca.clone(), ..login }, "PLAIN");
    fails(&client, &["queue", "list"], 4, &["certificate", "ssl.ca.location"]);
}

#[test]
fn plain_text_to_a_port_that_speaks_tls_is_named() {
    let client = Client::new(secured().bootstrap(), "");
    fails(&client, &["queue", "list"], 7, &["security.protocol"]);
}

#[test]
fn a_host_that_is_unknown_is_named() {
    let client = Client::new("no-such-host.invalid:9092", "");
    fails(&client, &["queue", "list"], 7, &["no-such-host.invalid", "check the host names"]);
}

#[test]
fn a_port_where_nobody_listens_is_named() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let client = Client::new(&free.to_string(), "");
    fails(&client, &["queue", "list"], 7, &["Connection refused", "brokers are up"]);
}

#[test]
fn secrets_come_from_a_file_a_variable_or_the_properties_and_never_from_the_command_line() {
    let login = secured().login().unwrap();
    let ca = login.ca.display();
    let client = Client::new(
        secured().bootstrap(),
        &format!(
            "security.protocol=SASL_SSL\nssl.ca.location={ca}\nsasl.mechanism=PLAIN\nsasl.username={}\n",
            login.user
        ),
    );
    client.place.write("password", format!("{}\n", login.password));
    client.run(&["queue", "list", "--kafka-property", "sasl.password=file:password"]).expect(0);
    let by_variable = ["queue", "list", "--kafka-property", "sasl.password=env:SECRET"];
    Ended::of(client.command(&by_variable).env("SECRET", &login.password).spawn().unwrap()).expect(0);
    let on_the_line = format!("sasl.password={}", login.password);
    let refused = client.run(&["queue", "list", "--kafka-property", &on_the_line]).expect(3);
    let refused = refused.says(&["sasl.password", "others can read a command line", "file:PATH"]);
    assert!(!refused.stderr.contains(&login.password));
}

/// Everything that `alice` needs for one queue.
fn allow_all(cluster: &Cluster, queue: &str) {
    cluster.allow("alice", "all", "topic", queue).unwrap();
    cluster.allow("alice", "all", "group", &format!("{queue}-workers")).unwrap();
    cluster.allow("alice", "idempotent_write", "cluster", "kafka-cluster").unwrap();
}

#[test]
fn a_right_that_is_missing_is_named() {
    let cluster = authorized();
    cluster.create_topic("rights", 2, &[]).unwrap();
    cluster.set_password("bob", "bobs-own").unwrap();
    let client = Client::of(cluster, "SCRAM-SHA-256");
    let login = cluster.login().unwrap().clone();
    client.logs_in_by(&Login { user: "bob".into(), password: "bobs-own".into(), ..login }, "SCRAM-SHA-256");
    let create = ["queue", "create", "mine", "--replication", "1", "--unsafe"];
    fails(&client, &create, 4, &["uthoriz", "administrator"]);
    let enqueue = ["enqueue", "--one", "k", "--queue", "rights"];
    fails(&client, &enqueue, 4, &["uthoriz", "the queue's topic"]);
    cluster.allow("bob", "all", "topic", "rights").unwrap();
    client.run(&enqueue).expect(0);
    let started = Instant::now();
    let work = ["work", "--until-empty", "--queue", "rights", "--group", "nobodys", "--builtin", "discard"];
    client.run(&work).expect(4).says(&["uthoriz", "consumer group"]);
    assert!(started.elapsed() < 2 * SOON);
}

#[test]
fn a_right_that_is_taken_away_stops_a_worker_until_it_is_given_back() {
    let cluster = authorized();
    for queue in ["taken", "kept"] {
        cluster.create_topic(queue, 2, &[]).unwrap();
        allow_all(cluster, queue);
    }
    let client = Client::of(cluster, "SCRAM-SHA-256");
    // Whose right is not taken: what it does meanwhile, the other one could have done.
    let other = Client::of(cluster, "SCRAM-SHA-256");
    let kept = other.worker("kept", &["--group", "kept-workers"]);
    let mut worker = client.worker("taken", &["--group", "taken-workers"]);
    let results =
        || client.run(&["results", "--queue", "taken", "--group", "taken-workers"]).expect(0).stdout.lines().count();
    wait_until("it holds both partitions", || worker.told("took_over") == 2);
    client.enqueue("taken", "before");
    wait_until("it did the first job", || results() == 1);

    cluster.deny("alice", "read", "topic", "taken").unwrap();
    // Until a fetch was refused, the worker may hold jobs.
    wait_until("it says so", || worker.news().contains("uthoriz"));
    client.enqueue("taken", "meanwhile");
    for done in 1..=3 {
        other.enqueue("kept", "later");
        let of_kept = || other.run(&["results", "--queue", "kept", "--group", "kept-workers"]).expect(0);
        wait_until("the other one did a later job", || of_kept().stdout.lines().count() == done);
    }
    assert_eq!(results(), 1, "{}", worker.news());
    let lines = worker.news().lines().filter(|line| line.contains("uthoriz")).count();
    assert!((1..=2).contains(&lines), "{lines} lines: {}", worker.news());

    cluster.remove_acls("alice").unwrap();
    allow_all(cluster, "taken");
    wait_until("it goes on", || results() == 2);
    assert_eq!(worker.end(), Some(0), "{}", worker.news());
    drop(kept);
}
