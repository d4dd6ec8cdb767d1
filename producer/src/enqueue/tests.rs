use bytes::Bytes;

use super::*;
use crate::{
    job::{JobKey, MAX_PAYLOAD_BYTES},
    log::{
        ReadLimit,
        local::{LocalLog, Open},
    },
    queue::QueueSpec,
    sqlite::Patience,
};

fn enqueuer(folder: &tempfile::TempDir) -> Enqueuer<LocalLog> {
    let path = folder.path().join("queue.db");
    let mut log = LocalLog::open(&path, Open::Create, Patience::Patient).unwrap();
    let name: QueueName = "jobs".parse().unwrap();
    let spec = QueueSpec::new(name.clone(), "12".parse().unwrap());
    log.create(&spec).unwrap();
    Enqueuer::open(log, &name).unwrap()
}

fn job(key: &str) -> Job {
    Job::new(JobKey::try_from(key).unwrap(), None).unwrap()
}

#[test]
fn a_job_goes_to_the_partition_of_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let mut enqueuer = enqueuer(&folder);
    let jobs = ["a", "order-1", "order-2", "kafka"].map(job);
    let sent = enqueuer.send(jobs.to_vec()).unwrap();
    assert_eq!(sent.iter().map(|(_, receipt)| receipt.partition.0).collect::<Vec<_>>(), [4, 10, 3, 4]);
    let queue = enqueuer.queue().clone();
    for ((id, receipt), job) in sent.into_iter().zip(jobs) {
        assert_eq!(id, job.id);
        let found = enqueuer.log().read_at(&queue, receipt.partition, &[receipt.offset]).unwrap().remove(0);
        assert_eq!(found.record.into_job(receipt.partition, receipt.offset).unwrap(), job);
    }
}

#[test]
fn a_payload_that_grew_after_the_job_was_made_is_refused_with_all_of_its_batch() {
    let folder = tempfile::tempdir().unwrap();
    let mut enqueuer = enqueuer(&folder);
    let mut large = job("a");
    large.payload = Some(Bytes::from(vec![0; MAX_PAYLOAD_BYTES + 1]));
    let error = enqueuer.send(vec![job("a"), large]).unwrap_err();
    assert!(matches!(error.cause, Error::Invalid(_)), "{error:?}");
    assert_eq!((error.sent, error.rest_is_absent), (vec![None, None], true));
    let queue = enqueuer.queue().clone();
    let limit = ReadLimit { records: 10, bytes: 10_000 };
    assert!(enqueuer.log().read(&queue, Partition(4), Offset(0), limit).unwrap().records.is_empty());
}

#[test]
fn an_enqueuer_needs_a_queue() {
    let folder = tempfile::tempdir().unwrap();
    drop(enqueuer(&folder));
    let log = LocalLog::open(&folder.path().join("queue.db"), Open::Existing, Patience::Patient).unwrap();
    let error = Enqueuer::open(log, &"job".parse().unwrap()).err().unwrap();
    assert!(matches!(error, Error::NotFound(_)));
    assert_eq!(error.detail().remedy_text(), Some("there are: jobs"));
}
