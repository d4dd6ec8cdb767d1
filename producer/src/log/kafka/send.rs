//! Appending: each record's fate is what the broker said about it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rdkafka::{
    bindings as native,
    client::Client,
    error::{KafkaError, RDKafkaError, RDKafkaErrorCode},
    message::{DeliveryResult, Message},
    metadata::MetadataPartition,
    producer::{BaseProducer, BaseRecord, Producer, ProducerContext, PurgeConfig},
};

use super::{LARGEST_BATCH, LOOK, PATIENCE, number, patiently};
use crate::{
    enqueue::Receipt,
    error::{Detail, Error},
    kafka::{KafkaContext, KafkaSettings, message},
    log::AppendError,
    partition::{Offset, Partition},
    queue::QueueIdentity,
    record::Record,
};

/// How many things that have come are served at once: reports, and errors that name a reason.
const SERVED: usize = 32;

/// While there is nothing else to do than to wait for reports.
const TURN: Duration = Duration::from_millis(1);

/// Before it knows the broker, the client takes a record's framing for larger than it is. How large a record may be is
/// decided before it is given to the client.
const MARGIN: usize = 64 << 10;

/// What is batched together stays below what brokers take; a record alone may be larger than this.
const BATCH: usize = 1_000_000;

/// Requests on their way to a broker. A broker that does not know a producer yet takes its first batch whatever its number
/// (KAFKA-15591). Were two on their way when it became the leader, it could refuse the first and take the second, and the client
/// would count the first as written: the job would be lost although it was acknowledged (`docs/decisions/0010`).
const IN_FLIGHT: u8 = 1;

/// What a producer is for.
#[derive(Clone, Copy)]
pub(super) enum Kind<'a> {
    /// It asks about topics and sends nothing, so it needs no right to write.
    Asking,
    /// A broken connection doubles and reorders nothing.
    Idempotent,
    /// The same, in transactions of this id.
    Transactional(&'a str),
}

/// One producer.
pub(super) struct Sender {
    producer: BaseProducer<KafkaContext>,
    transactional: bool,
    /// Its transactions can begin: those of an earlier sender of this id are ended.
    ready: bool,
    /// The last administrative question failed.
    out_of_reach: AtomicBool,
}

impl Sender {
    pub(super) fn open(settings: &KafkaSettings, kind: Kind<'_>) -> Result<Self, Error> {
        Self::with(settings, kind, IN_FLIGHT)
    }

    fn with(settings: &KafkaSettings, kind: Kind<'_>, in_flight: u8) -> Result<Self, Error> {
        let mut config = settings.config();
        config.set("max.in.flight", in_flight.to_string());
        config.set("acks", "all");
        config.set("enable.idempotence", if matches!(kind, Kind::Asking) { "false" } else { "true" });
        config.set("message.max.bytes", (LARGEST_BATCH + MARGIN).to_string());
        let batch = settings.get("batch.size").and_then(|size| size.parse().ok()).unwrap_or(BATCH);
        config.set("batch.size", batch.min(BATCH).to_string());
        for (name, default) in [("message.timeout.ms", PATIENCE.as_millis().to_string()), ("linger.ms", "0".into())] {
            if settings.get(name).is_none() {
                config.set(name, default);
            }
        }
        if let Kind::Transactional(id) = kind {
            config.set("transactional.id", id);
        }
        let context = KafkaContext::new(settings.clone());
        let producer = config
            .create_with_context(context)
            .map_err(|error| KafkaContext::new(settings.clone()).explain("cannot make a Kafka producer", &error))?;
        Ok(Self {
            producer,
            transactional: matches!(kind, Kind::Transactional(_)),
            ready: false,
            out_of_reach: AtomicBool::new(false),
        })
    }

    pub(super) fn client(&self) -> &Client<KafkaContext> {
        self.producer.client()
    }

    pub(super) fn context(&self) -> &KafkaContext {
        self.producer.client().context()
    }

    /// Asks the client until it answers.
    pub(super) fn ask<T>(
        &self,
        what: &str,
        ask: impl FnMut(&Client<KafkaContext>) -> Result<T, KafkaError>,
    ) -> Result<T, Error> {
        self.ask_for(PATIENCE, what, ask)
    }

    /// As [`Sender::ask`], for an administrative question. While no broker can be reached, one that is under way makes
    /// librdkafka try to connect without a pause, which takes more than a processor (seen with 2.12.1: each change of a
    /// broker's state starts the next try). So after one that failed the brokers must answer a plain one first.
    pub(super) fn ask_admin<T>(
        &self,
        what: &str,
        ask: impl FnMut(&Client<KafkaContext>) -> Result<T, KafkaError>,
    ) -> Result<T, Error> {
        self.ask_admin_for(PATIENCE, what, ask)
    }

    fn ask_admin_for<T>(
        &self,
        limit: Duration,
        what: &str,
        mut ask: impl FnMut(&Client<KafkaContext>) -> Result<T, KafkaError>,
    ) -> Result<T, Error> {
        self.ask_for(limit, what, |client| {
            if self.out_of_reach.load(Ordering::Relaxed) {
                client.fetch_metadata(None, LOOK)?;
            }
            let answer = ask(client);
            self.out_of_reach.store(answer.is_err(), Ordering::Relaxed);
            answer
        })
    }

    /// As [`Sender::ask`], with another limit.
    pub(super) fn ask_for<T>(
        &self,
        limit: Duration,
        what: &str,
        mut ask: impl FnMut(&Client<KafkaContext>) -> Result<T, KafkaError>,
    ) -> Result<T, Error> {
        patiently(limit, self.context(), what, || self.turn(), || ask(self.client()))
    }

    /// Serves what has come, and waits a moment.
    fn turn(&self) {
        self.serve();
        std::thread::park_timeout(TURN);
    }

    /// The same while reports are awaited: waits only if none came.
    fn await_report(&self, reports: &Reports) {
        let pending = reports.lock().pending;
        self.serve();
        if reports.lock().pending == pending {
            std::thread::park_timeout(TURN);
        }
    }

    /// A poll without a limit serves one thing at most, and does not tell whether it did. (One with a limit is no better:
    /// rust-rdkafka rounds what is left of it down to whole milliseconds, so it spins all through the last one, and takes a
    /// processor from whom it waits for.)
    fn serve(&self) {
        (0..SERVED).for_each(|_| self.producer.poll(Duration::ZERO));
    }

    /// Sends, and waits for the broker's word on each.
    pub(super) fn send(
        &self,
        queue: &QueueIdentity,
        records: &[(Partition, Record)],
    ) -> Result<Vec<Receipt>, AppendError> {
        let topic = queue.name.as_str();
        let reports = self.produce(records.iter().map(|(partition, record)| (topic, *partition, record)));
        self.judge(queue, records, &reports)
    }

    /// Sends records and one more record in a transaction: all of them can be read, or none.
    pub(super) fn send_in_transaction(
        &mut self,
        queue: &QueueIdentity,
        records: &[(Partition, Record)],
        (topic, more): (&str, Record),
    ) -> Result<Vec<Receipt>, AppendError> {
        debug_assert!(self.transactional);
        let what = format!("cannot append to queue '{}' in a transaction", queue.name);
        let failed = |cause, rest_is_absent| AppendError { sent: vec![None; records.len()], rest_is_absent, cause };
        if !self.ready {
            self.retry(&what, || self.producer.init_transactions(super::LOOK)).map_err(|e| failed(e, true))?;
            self.ready = true;
        }
        self.producer.begin_transaction().map_err(|e| failed(self.context().explain(what.as_str(), &e), true))?;
        let of_queue = records.iter().map(|(partition, record)| (queue.name.as_str(), *partition, record));
        let mut reports = self.produce(of_queue.chain([(topic, Partition(0), &more)]));
        let of_more = reports.pop().flatten();
        let receipts = self.judge(queue, records, &reports).and_then(|receipts| match of_more {
            Some(Report::Written(_)) => Ok(receipts),
            _ => Err(failed(self.unanswered(queue, of_more.as_ref()), true)),
        });
        match receipts {
            Ok(receipts) => match self.retry(&what, || self.producer.commit_transaction(super::LOOK)) {
                Ok(()) => Ok(receipts),
                // It may have landed; whoever opens the next transaction of this id finds out what the last one did.
                Err(cause) => Err(failed(cause, false)),
            },
            Err(error) => {
                let aborted = self.retry(&what, || self.producer.abort_transaction(super::LOOK));
                // What cannot be aborted now is by the next sender of this id: it was not committed in any case.
                Err(failed(aborted.err().unwrap_or(error.cause), true))
            }
        }
    }

    /// Repeats a step of a transaction as long as the client says that it can be repeated.
    fn retry(&self, what: &str, step: impl Fn() -> Result<(), KafkaError>) -> Result<(), Error> {
        let repeatable = |error: &KafkaError| match error {
            KafkaError::Transaction(error) => error.is_retriable(),
            _ => false,
        };
        let last = std::cell::Cell::new(None::<RDKafkaError>);
        let attempt = || match step() {
            Err(error) if !repeatable(&error) => {
                if let KafkaError::Transaction(error) = error {
                    last.set(Some(error));
                }
                Ok(false)
            }
            other => other.map(|()| true),
        };
        if patiently(PATIENCE, self.context(), what, || self.turn(), attempt)? {
            return Ok(());
        }
        let error = last.take().map_or(KafkaError::Canceled, KafkaError::Transaction);
        Err(self.context().explain(what, &error))
    }

    /// A report for each record, once all have one; `None` for those that were not sent because an earlier one failed.
    fn produce<'r>(&self, records: impl Iterator<Item = (&'r str, Partition, &'r Record)>) -> Vec<Option<Report>> {
        let reports = Arc::new(Reports::default());
        for (index, (topic, partition, record)) in records.enumerate() {
            reports.lock().answers.push(None);
            if reports.lock().failed {
                continue;
            }
            let mut message = BaseRecord::with_opaque_to(topic, Box::new(Pending { index, reports: reports.clone() }))
                .partition(number(partition))
                .timestamp(record.timestamp.0);
            message.key = record.key.as_deref();
            message.payload = record.value.as_deref();
            message.headers = message::write_headers(&record.headers);
            reports.lock().pending += 1;
            while let Err((error, back)) = self.producer.send(message) {
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
                    // It has room again when reports come; each comes within `message.timeout.ms`.
                    self.await_report(&reports);
                    message = back;
                } else {
                    let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
                    reports.enter(index, Report::Failed { code, absent: true });
                    break;
                }
            }
        }
        let mut purged = false;
        while reports.lock().pending > 0 {
            self.await_report(&reports);
            if reports.lock().failed && !purged {
                // Followers of a record that failed: the fewer of them land, the better is the order when all are sent again.
                self.producer.purge(PurgeConfig::default().queue());
                purged = true;
            }
        }
        std::mem::take(&mut reports.lock().answers)
    }

    fn judge(
        &self,
        queue: &QueueIdentity,
        records: &[(Partition, Record)],
        reports: &[Option<Report>],
    ) -> Result<Vec<Receipt>, AppendError> {
        let receipt = |(report, (partition, _)): (&Option<Report>, &(Partition, Record))| match report {
            Some(Report::Written(offset)) => Some(Receipt { partition: *partition, offset: *offset }),
            _ => None,
        };
        let sent: Vec<Option<Receipt>> = reports.iter().zip(records).map(receipt).collect();
        if sent.iter().all(Option::is_some) {
            return Ok(sent.into_iter().flatten().collect());
        }
        let uncertain = |report: &Option<Report>| matches!(report, Some(Report::Failed { absent: false, .. }));
        // The purge is what we did about the failure, not the failure.
        let is_cause = |r: &&Report| matches!(r, Report::Failed { code, .. } if *code != RDKafkaErrorCode::PurgeQueue);
        let cause = reports.iter().flatten().find(is_cause);
        Err(AppendError { sent, rest_is_absent: !reports.iter().any(uncertain), cause: self.unanswered(queue, cause) })
    }

    /// Why a record has no receipt.
    fn unanswered(&self, queue: &QueueIdentity, report: Option<&Report>) -> Error {
        let what = format!("cannot append to queue '{}'", queue.name);
        let code = match report {
            Some(Report::Failed { code, .. }) => *code,
            _ => RDKafkaErrorCode::Unknown,
        };
        let error = KafkaError::MessageProduction(code);
        match code {
            RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition => Error::NotFound(
                Detail::new(what).because(error).remedy("see whether it is still there: keylane queue describe"),
            ),
            RDKafkaErrorCode::MessageSizeTooLarge | RDKafkaErrorCode::InvalidMessageSize => Error::Invalid(
                Detail::new(what).because(error).remedy("the topic's max.message.bytes is smaller than this record"),
            ),
            RDKafkaErrorCode::InvalidTimestamp => Error::Invalid(Detail::new(what).because(error).remedy(
                "the time of a job is too far from the broker's: set the clocks, or the topic's \
                 message.timestamp.after.max.ms and message.timestamp.before.max.ms",
            )),
            RDKafkaErrorCode::NotEnoughReplicas | RDKafkaErrorCode::NotEnoughReplicasAfterAppend => Error::Unavailable(
                Detail::new(what)
                    .because(error)
                    .remedy("fewer copies are in sync than min.insync.replicas asks for: bring the brokers back"),
            ),
            // The client tries again what lacks copies until its time is over, and tells only of the time.
            RDKafkaErrorCode::MessageTimedOut => match self.lacking(queue) {
                Some(lacking) => Error::Unavailable(
                    Detail::new(what)
                        .because(format!("{error}: {lacking}"))
                        .remedy("bring the brokers back: fewer copies than min.insync.replicas take nothing"),
                ),
                None => self.context().explain(what, &error),
            },
            _ => self.context().explain(what, &error),
        }
    }

    /// Which partitions have no leader, or copies that are not in sync.
    fn lacking(&self, queue: &QueueIdentity) -> Option<String> {
        let metadata = self.client().fetch_metadata(Some(queue.name.as_str()), super::LOOK).ok()?;
        let topic = metadata.topics().first()?;
        let partition = |p: &MetadataPartition| match (p.leader(), p.isr().len(), p.replicas().len()) {
            (..0, ..) => Some(format!("partition {} has no leader", p.id())),
            (_, in_sync, all) if in_sync < all => {
                Some(format!("partition {} has {in_sync} of {all} copies in sync", p.id()))
            }
            _ => None,
        };
        let mut lacking = topic.partitions().iter().filter_map(partition);
        let first = lacking.next()?;
        let more = lacking.count();
        Some(if more == 0 { first } else { format!("{first}, and so lack {more} more") })
    }
}

/// The broker's word on one record.
#[derive(Clone, Debug)]
enum Report {
    Written(Offset),
    Failed {
        code: RDKafkaErrorCode,
        /// It is certainly not on the log.
        absent: bool,
    },
}

#[derive(Default)]
struct Reports(Mutex<State>);

#[derive(Default)]
struct State {
    answers: Vec<Option<Report>>,
    pending: usize,
    failed: bool,
}

impl Reports {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, index: usize, report: Report) {
        let mut state = self.lock();
        state.pending -= 1;
        state.failed |= matches!(report, Report::Failed { .. });
        state.answers[index] = Some(report);
    }
}

/// Travels with a record, and comes back with its report.
pub struct Pending {
    index: usize,
    reports: Arc<Reports>,
}

impl ProducerContext for KafkaContext {
    type DeliveryOpaque = Box<Pending>;

    #[expect(unsafe_code, reason = "rust-rdkafka does not tell whether a failed record may be on the log")]
    fn delivery(&self, result: &DeliveryResult<'_>, pending: Box<Pending>) {
        let report = match result {
            Ok(message) => Report::Written(Offset(message.offset().unsigned_abs())),
            Err((error, message)) => {
                // SAFETY: the message lives during this call.
                let status = unsafe { native::rd_kafka_message_status(message.ptr()) };
                let absent = status == native::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED;
                Report::Failed { code: error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown), absent }
            }
        };
        pending.reports.enter(pending.index, report);
    }
}

#[cfg(test)]
mod tests;
