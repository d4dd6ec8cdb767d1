//! Reading partitions without being a member of a group.

use std::{ffi::CString, time::Duration};

use rdkafka::{
    TopicPartitionList,
    consumer::Consumer,
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{LOOK, PATIENCE, number, patiently};
use crate::{
    error::{Detail, Error},
    kafka::{self, KafkaContext, KafkaSettings, consumer::PolledConsumer, events::Event, token},
    log::{Bounds, Page, ReadLimit},
    partition::{Offset, Partition},
    record::StoredRecord,
};

/// The client library asks for a group's name before it lets anybody read. Nothing is ever joined or committed.
const GROUP: &str = "keylane-reader";

const COMMITTED: &str = "read_committed";
const UNCOMMITTED: &str = "read_uncommitted";

/// A transaction whose writer died is ended by the brokers after a minute, and they look every ten seconds.
const UNDECIDED: Duration = Duration::from_secs(90);

/// Between two looks whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Records between two that are wanted which are cheaper to read over than to ask for the second one anew.
const READ_OVER: u64 = 256;

/// With something to read there is an answer long before.
const SILENCE: Duration = Duration::from_secs(3);

/// One wait for a message.
const TURN: Duration = Duration::from_millis(100);

/// One consumer, which stands somewhere.
///
/// **A gap is believed only of a consumer that was never sent elsewhere.** What one was told that was, might be a late word
/// about where it stood before; then another one is asked.
pub(super) struct Reader {
    settings: KafkaSettings,
    consumer: PolledConsumer,
    stands: Option<Stand>,
    moved: bool,
}

fn connect(settings: &KafkaSettings, isolation: &str) -> Result<PolledConsumer, Error> {
    let mut config = settings.config();
    for (name, value) in [
        ("group.id", GROUP),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("auto.offset.reset", "earliest"),
        ("isolation.level", isolation),
        ("enable.partition.eof", "true"),
        ("fetch.wait.max.ms", "10"),
        ("queued.max.messages.kbytes", "4096"),
    ] {
        config.set(name, value);
    }
    let consumer = PolledConsumer::open(&config, KafkaContext::new(settings.clone()))
        .map_err(|error| KafkaContext::new(settings.clone()).explain("cannot make a Kafka consumer", &error))?;
    token::give_if_wanted(consumer.client());
    Ok(consumer)
}

#[derive(PartialEq, Eq)]
struct Stand {
    topic: Box<str>,
    partition: Partition,
    next: Offset,
}

impl Reader {
    pub(super) fn open(settings: &KafkaSettings) -> Result<Self, Error> {
        let consumer = connect(settings, COMMITTED)?;
        Ok(Self { settings: settings.clone(), consumer, stands: None, moved: false })
    }

    /// Waits until every transaction is decided that wrote to the partition so far. A commit is answered before what it
    /// committed can be read: the brokers tell each partition afterwards.
    pub(super) fn await_decided(&self, topic: &str, partition: Partition) -> Result<(), Error> {
        let all = Self {
            settings: self.settings.clone(),
            consumer: connect(&self.settings, UNCOMMITTED)?,
            stands: None,
            moved: false,
        };
        let written = all.bounds(topic, partition)?.end;
        let started = kafka::now();
        while self.bounds(topic, partition)?.end < written {
            if started.elapsed() >= UNDECIDED {
                return Err(Error::Unavailable(
                    Detail::new(format!("a transaction on the topic '{topic}' does not end"))
                        .remedy("see who writes there: what it says so far cannot be known before"),
                ));
            }
            std::thread::park_timeout(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Where the partition begins, and where what is committed ends.
    pub(super) fn bounds(&self, topic: &str, partition: Partition) -> Result<Bounds, Error> {
        let what = format!("cannot read partition {partition} of queue '{topic}'");
        let ask = || self.consumer.fetch_watermarks(topic, number(partition), LOOK);
        let (start, end) =
            patiently(PATIENCE, self.consumer.context(), &what, || token::give_if_wanted(self.consumer.client()), ask)
                .map_err(|error| self.missing(topic, error))?;
        let (start, end) = (Offset(start.unsigned_abs()), Offset(end.unsigned_abs()));
        Ok(Bounds { start: start.min(end), end })
    }

    pub(super) fn read(
        &mut self,
        topic: &str,
        partition: Partition,
        from: Offset,
        limit: ReadLimit,
    ) -> Result<Page, Error> {
        let bounds = self.bounds(topic, partition)?;
        self.read_to(topic, partition, from, bounds, limit)
    }

    pub(super) fn read_at(
        &mut self,
        topic: &str,
        partition: Partition,
        offsets: &[Offset],
    ) -> Result<Vec<StoredRecord>, Error> {
        let mut found = Vec::with_capacity(offsets.len());
        if offsets.is_empty() {
            return Ok(found);
        }
        let bounds = self.bounds(topic, partition)?;
        for run in offsets.chunk_by(|a, b| b.0 - a.0 <= READ_OVER) {
            let (mut from, last) = (run[0], run[run.len() - 1]);
            while from <= last && from < bounds.end {
                let limit = ReadLimit { records: (last.0 - from.0 + 1) as usize, bytes: usize::MAX };
                let page = self.read_to(topic, partition, from, bounds, limit)?;
                from = page.next;
                found.extend(page.records.into_iter().filter(|record| run.binary_search(&record.offset).is_ok()));
            }
        }
        Ok(found)
    }

    /// Reads below an end that is known: nothing that ends later is waited for.
    fn read_to(
        &mut self,
        topic: &str,
        partition: Partition,
        from: Offset,
        bounds: Bounds,
        limit: ReadLimit,
    ) -> Result<Page, Error> {
        let mut page = Page { records: Vec::new(), next: from.max(bounds.start) };
        let mut bytes = 0;
        let mut heard = kafka::now();
        let mut sent_again = 0;
        let what = format!("cannot read partition {partition} of queue '{topic}'");
        let name = CString::new(topic).map_err(|_| Error::Invalid(Detail::new("a topic's name has no zero byte")))?;
        while page.next < bounds.end {
            let here = Stand { topic: topic.into(), partition, next: page.next };
            if self.stands.as_ref() != Some(&here) {
                self.stand(here, &what)?;
            }
            match self.consumer.poll_topic(&name, TURN) {
                Some(Event::Record(p, record)) if p == partition && record.offset >= page.next => {
                    if record.offset > page.next && self.doubt()? {
                        continue;
                    }
                    heard = kafka::now();
                    page.next = record.offset.next();
                    self.stands = Some(Stand { topic: topic.into(), partition, next: page.next });
                    bytes += record.record.size();
                    page.records.push(record);
                    if page.records.len() >= limit.records || bytes >= limit.bytes {
                        return Ok(page);
                    }
                }
                // Nothing up to there: markers of transactions, or what compaction took.
                Some(Event::End(p, end)) if p == partition && end > page.next => {
                    if self.doubt()? {
                        continue;
                    }
                    page.next = end.min(bounds.end);
                    self.stands = Some(Stand { topic: topic.into(), partition, next: end });
                }
                Some(Event::Error(code, ..)) => {
                    let error = KafkaError::MessageConsumption(code);
                    let error = self.missing(topic, self.consumer.context().explain(what.as_str(), &error));
                    if !error.is_transient() || heard.elapsed() > PATIENCE {
                        return Err(error);
                    }
                }
                _ if heard.elapsed() > PATIENCE => {
                    let error = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
                    return Err(self.consumer.context().explain(what, &error));
                }
                // One that was sent from one partition to another was seen to stay silent.
                None if heard.elapsed() > SILENCE * (1 + sent_again) => {
                    sent_again += 1;
                    self.renew()?;
                }
                _ => {}
            }
        }
        Ok(page)
    }

    /// Whether another consumer must be asked about a gap; it stands nowhere yet.
    fn doubt(&mut self) -> Result<bool, Error> {
        if self.moved {
            self.renew()?;
            return Ok(true);
        }
        Ok(false)
    }

    fn renew(&mut self) -> Result<(), Error> {
        self.consumer = connect(&self.settings, COMMITTED)?;
        (self.stands, self.moved) = (None, false);
        Ok(())
    }

    fn stand(&mut self, here: Stand, what: &str) -> Result<(), Error> {
        let mut list = TopicPartitionList::new();
        let offset = rdkafka::Offset::Offset(here.next.0.cast_signed());
        let assigned = list
            .add_partition_offset(&here.topic, number(here.partition), offset)
            .and_then(|()| self.consumer.assign(&list));
        assigned.map_err(|error| self.consumer.context().explain(what, &error))?;
        self.moved |= self.stands.is_some();
        self.stands = Some(here);
        Ok(())
    }

    /// A topic that is not there is no time-out.
    fn missing(&self, topic: &str, error: Error) -> Error {
        let text = error.detail().chain();
        if text.contains("Unknown topic") || text.contains("Unknown partition") {
            return Error::NotFound(Detail::new(format!("queue '{topic}' is not there (any more)")).because(text));
        }
        error
    }
}
