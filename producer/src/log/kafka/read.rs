//! Reading partitions without being a member of a group.

use std::time::Duration;

use rdkafka::{
    TopicPartitionList,
    consumer::{BaseConsumer, Consumer},
    error::{KafkaError, RDKafkaErrorCode},
};

use super::{LOOK, PATIENCE, number, patiently};
use crate::{
    error::{Detail, Error},
    kafka::{self, KafkaContext, KafkaSettings, message, token},
    log::{Bounds, Page, ReadLimit},
    partition::{Offset, Partition},
    record::StoredRecord,
};

/// The client library asks for a group's name before it lets anybody read. Nothing is ever joined or committed.
const GROUP: &str = "keylane-reader";

/// Records between two that are wanted which are cheaper to read over than to ask for the second one anew.
const READ_OVER: u64 = 256;

/// With something to read there is an answer long before.
const SILENCE: Duration = Duration::from_secs(3);

/// One wait for a message.
const TURN: Duration = Duration::from_millis(100);

/// One consumer, which stands somewhere.
pub(super) struct Reader {
    consumer: BaseConsumer<KafkaContext>,
    stands: Option<Stand>,
}

#[derive(PartialEq, Eq)]
struct Stand {
    topic: Box<str>,
    partition: Partition,
    next: Offset,
}

impl Reader {
    pub(super) fn open(settings: &KafkaSettings) -> Result<Self, Error> {
        let mut config = settings.config();
        for (name, value) in [
            ("group.id", GROUP),
            ("enable.auto.commit", "false"),
            ("enable.auto.offset.store", "false"),
            ("auto.offset.reset", "earliest"),
            ("isolation.level", "read_committed"),
            ("enable.partition.eof", "true"),
            ("fetch.wait.max.ms", "10"),
            ("queued.max.messages.kbytes", "4096"),
        ] {
            config.set(name, value);
        }
        let context = KafkaContext::new(settings.clone());
        let consumer: BaseConsumer<KafkaContext> = config
            .create_with_context(context)
            .map_err(|error| KafkaContext::new(settings.clone()).explain("cannot make a Kafka consumer", &error))?;
        token::give_if_wanted(consumer.client());
        Ok(Self { consumer, stands: None })
    }

    /// Where the partition begins, and where what is committed ends.
    pub(super) fn bounds(&self, topic: &str, partition: Partition) -> Result<Bounds, Error> {
        let what = format!("cannot read partition {partition} of queue '{topic}'");
        let ask = || self.consumer.fetch_watermarks(topic, number(partition), LOOK);
        let (start, end) =
            patiently(PATIENCE, self.context(), &what, || token::give_if_wanted(self.consumer.client()), ask)
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
        // An end that the client tells of is one it came to after it was asked to stand there.
        let mut asked_anew = false;
        let mut heard = kafka::now();
        let mut sent_again = 0;
        let what = format!("cannot read partition {partition} of queue '{topic}'");
        while page.next < bounds.end {
            let here = Stand { topic: topic.into(), partition, next: page.next };
            if self.stands.as_ref() != Some(&here) {
                self.stand(here, &what)?;
                asked_anew = true;
            }
            match self.consumer.poll(TURN) {
                Some(Ok(borrowed)) => {
                    // SAFETY: it is a message without an error, and `borrowed` keeps it alive.
                    #[expect(unsafe_code, reason = "as `message::read`")]
                    let record = unsafe { message::read(borrowed.ptr()) };
                    heard = kafka::now();
                    page.next = record.offset.next();
                    self.stands = Some(Stand { topic: topic.into(), partition, next: page.next });
                    bytes += record.record.size();
                    page.records.push(record);
                    if page.records.len() >= limit.records || bytes >= limit.bytes {
                        return Ok(page);
                    }
                }
                // Nothing below the end that was known before: markers of transactions, or what compaction took.
                Some(Err(KafkaError::PartitionEOF(_))) if asked_anew => page.next = bounds.end,
                Some(Err(KafkaError::PartitionEOF(_))) => self.stands = None,
                Some(Err(error)) => {
                    let error = self.missing(topic, self.context().explain(what.as_str(), &error));
                    if !error.is_transient() || heard.elapsed() > PATIENCE {
                        return Err(error);
                    }
                }
                None if heard.elapsed() > PATIENCE => {
                    let error = KafkaError::MessageConsumption(RDKafkaErrorCode::OperationTimedOut);
                    return Err(self.context().explain(what, &error));
                }
                // A consumer that was sent from one partition to another was seen to stay silent: it is sent again.
                None if heard.elapsed() > SILENCE * (1 + sent_again) => {
                    sent_again += 1;
                    self.stands = None;
                }
                None => {}
            }
        }
        Ok(page)
    }

    fn stand(&mut self, here: Stand, what: &str) -> Result<(), Error> {
        let mut list = TopicPartitionList::new();
        let offset = rdkafka::Offset::Offset(here.next.0.cast_signed());
        let assigned = list
            .add_partition_offset(&here.topic, number(here.partition), offset)
            .and_then(|()| self.consumer.assign(&list));
        assigned.map_err(|error| self.context().explain(what, &error))?;
        self.stands = Some(here);
        Ok(())
    }

    fn context(&self) -> &KafkaContext {
        self.consumer.client().context()
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
