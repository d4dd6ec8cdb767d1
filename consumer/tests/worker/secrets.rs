//! R48: a process that panics with all it knows of broker and database in its words, and with a backtrace, says no secret.

use std::{env, fs, path::Path, process::Command};

use keylane_consumer::{
    FencedStore,
    store::{
        StoreSession as _,
        postgres::{PostgresAddress, PostgresStore},
    },
};
use keylane_producer::{
    kafka::{KafkaSettings, PropertySource},
    log::kafka::KafkaLog,
};

/// Tells a process of this test binary that it is the one that panics: with files of secrets in which folder.
const FOLDER: &str = "KEYLANE_TEST_PANICS_FOLDER";
/// And that it is the twin, which has a secret in its words.
const SAYS_IT: &str = "KEYLANE_TEST_PANICS_SAYS_IT";
const MARKER: &str = "MARKER-hunter2-MARKER";

/// Settings of which each could be told, all secrets at the marker; brokers and database are nobody.
fn settings(folder: &Path) -> (KafkaSettings, PostgresAddress) {
    let mut kafka = KafkaSettings::new("127.0.0.1:1".parse().unwrap());
    let file = folder.join("secret");
    for property in ["sasl.password", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.config"] {
        kafka.set(&format!("{property}=file:{}", file.display()), PropertySource::Flag).unwrap();
    }
    kafka.set("sasl.username=alice", PropertySource::Flag).unwrap();
    let postgres = format!("postgres://alice@127.0.0.1:1/jobs?password=file:{}", file.display());
    (kafka, postgres.parse().unwrap())
}

/// Of the process that panics.
fn said(more: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("secret"), MARKER).unwrap();
    let output = Command::new(env::current_exe().unwrap())
        .args(["secrets::panics", "--exact", "--nocapture"])
        .envs([(FOLDER, folder.path().to_str().unwrap()), ("RUST_BACKTRACE", "full"), ("PGPASSWORD", MARKER)])
        .envs(more.iter().copied())
        .output()
        .unwrap();
    assert!(!output.status.success(), "it did not panic");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("sasl.password") && text.contains("alice@127.0.0.1"),
        "it does not say what it knows: {text}"
    );
    text
}

#[test]
fn a_panic_with_all_settings_and_errors_in_its_words_tells_no_secret() {
    let text = said(&[]);
    assert!(!text.contains(MARKER), "{text}");
}

#[test]
fn twin_a_secret_in_the_words_of_a_panic_is_found() {
    assert!(said(&[(SAYS_IT, "1")]).contains(MARKER));
}

/// Not a test: the process.
#[test]
fn panics() {
    let Ok(folder) = env::var(FOLDER) else { return };
    let (kafka, postgres) = settings(Path::new(&folder));
    let log = KafkaLog::open(kafka.clone()).map(drop).unwrap_err();
    let store = PostgresStore::new(postgres.clone());
    let queue = super::rig::Rig::new(1).identity();
    let opened = store.open(&queue, &"workers".parse().unwrap()).and_then(|mut session| session.overview().map(drop));
    let secret = if env::var_os(SAYS_IT).is_some() {
        kafka.config().get("sasl.password").unwrap().to_owned()
    } else {
        String::new()
    };
    panic!("{kafka:?} {kafka:#?} {postgres:?} {postgres:#?} {store:?} {log:?} {log} {opened:?} {secret}");
}
