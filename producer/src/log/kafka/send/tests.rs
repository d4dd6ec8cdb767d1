//! What no real broker does when asked to: it refuses one batch and takes the next. And what is asked while there is none.
//!
//! The client's own broker of tests stands in. It proves nothing of what brokers check, only what the client makes of the two
//! answers, which a real leader gave when it heard of its topic between two batches (`docs/decisions/0010`).

#![allow(clippy::unwrap_used, reason = "a test fails where it unwraps")]

use std::time::Duration;

use rdkafka::{
    consumer::{BaseConsumer, Consumer as _},
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use super::*;
use crate::{
    job::Timestamp,
    kafka::PropertySource,
    queue::{Incarnation, KeyHash},
};

/// Long enough for the client to send the second before it hears of the first.
const ROUND_TRIP: Duration = Duration::from_millis(200);
const LIMIT: Duration = Duration::from_secs(30);
const JOBS: usize = 2;

/// How many jobs were acknowledged, and how many are on the log, when a broker becomes the leader between two batches.
fn acknowledged_and_written(in_flight: u8) -> (usize, usize) {
    let brokers = MockCluster::<DefaultProducerContext>::new(1).unwrap();
    brokers.create_topic("orders", 1, 1).unwrap();
    let mut settings = KafkaSettings::new(brokers.bootstrap_servers().parse().unwrap());
    settings.set("batch.num.messages=1", PropertySource::Flag).unwrap();
    let sender = Sender::with(&settings, Kind::Idempotent, in_flight).unwrap();
    let queue = QueueIdentity {
        cluster: "mock".into(),
        name: "orders".parse().unwrap(),
        incarnation: Incarnation("one".into()),
        partitions: "1".parse().unwrap(),
        hash: KeyHash::Murmur2,
    };
    sender.client().fetch_metadata(Some("orders"), LIMIT).unwrap();
    brokers.broker_round_trip_time(-1, ROUND_TRIP).unwrap();
    brokers.request_errors(
        RDKafkaApiKey::Produce,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR],
    );
    let job = |value: &'static str| {
        let record = Record {
            key: Some("k".into()),
            value: Some(value.into()),
            headers: Vec::new(),
            timestamp: Timestamp::now(),
        };
        (Partition(0), record)
    };
    let jobs = [job("first"), job("second")];
    let acknowledged = match sender.send(&queue, &jobs) {
        Ok(receipts) => receipts.len(),
        Err(error) => error.sent.iter().flatten().count(),
    };
    let reader: BaseConsumer = settings.config().create().unwrap();
    let (low, high) = reader.fetch_watermarks("orders", 0, LIMIT).unwrap();
    (acknowledged, usize::try_from(high - low).unwrap())
}

#[test]
fn what_is_acknowledged_is_written_although_a_leader_was_not_ready_for_the_first_batch() {
    assert_eq!(acknowledged_and_written(IN_FLIGHT), (JOBS, JOBS));
}

#[test]
fn twin_with_more_requests_on_their_way_an_acknowledged_job_is_lost() {
    let (acknowledged, written) = acknowledged_and_written(5);
    assert!(acknowledged > written, "{acknowledged} acknowledged, {written} written");
}

/// How often a question is asked whose broker is gone, by one of the two ways to ask.
fn asked_of_nobody(
    way: impl FnOnce(&Sender, &mut dyn FnMut(&Client<KafkaContext>) -> Result<(), KafkaError>) -> Result<(), Error>,
) -> u32 {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = KafkaSettings::new(format!("127.0.0.1:{port}").parse().unwrap());
    let sender = Sender::open(&settings, Kind::Asking).unwrap();
    let mut asked = 0;
    let answer = way(&sender, &mut |_| {
        asked += 1;
        Err(KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut))
    });
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    asked
}

#[test]
fn an_administrative_question_is_not_asked_again_before_a_broker_can_be_reached() {
    let asked = asked_of_nobody(|sender, ask| sender.ask_admin_for(2 * LOOK, "cannot look", ask));
    assert_eq!(asked, 1);
}

#[test]
fn twin_without_a_plain_question_first_it_is_asked_all_the_time() {
    let asked = asked_of_nobody(|sender, ask| sender.ask_for(2 * LOOK, "cannot look", ask));
    assert!(asked > 1, "{asked}");
}
