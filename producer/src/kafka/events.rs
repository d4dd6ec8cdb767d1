//! What a consumer has to tell, read from librdkafka's own events: rust-rdkafka's poll leaves out where a partition ends,
//! header names that are not UTF-8, and that a rebalance may be answered later.

use std::{ffi::CStr, ptr, time::Duration};

use rdkafka::{
    ClientContext, TopicPartitionList, bindings as native,
    client::Client,
    config::RDKafkaLogLevel,
    error::{KafkaError, KafkaResult, RDKafkaErrorCode},
    types::RDKafkaRespErr,
};

use super::{KafkaContext, message, token};
use crate::{
    partition::{Offset, Partition},
    record::StoredRecord,
};

/// What the client has to tell.
#[derive(Debug)]
pub enum Event {
    /// A record of a partition.
    Record(Partition, StoredRecord),
    /// All below this offset was told or does not exist, and there is nothing above it yet.
    End(Partition, Offset),
    /// The group gave these.
    Assign(Vec<Partition>),
    /// The group wants these back.
    Revoke(Vec<Partition>),
    /// Something failed; the context has heard it.
    Error(RDKafkaErrorCode, Option<Partition>, String),
    /// Nothing that matters to the group.
    Other,
}

/// A handle to a queue of a client's events. It must be gone before its client is destroyed.
pub struct Queue(*mut native::rd_kafka_queue_t);

#[expect(unsafe_code, reason = "librdkafka's queues may be used from every thread")]
// SAFETY: so says its manual; the handle is destroyed once.
unsafe impl Send for Queue {}
#[expect(unsafe_code, reason = "librdkafka's queues may be used from every thread")]
// SAFETY: as above.
unsafe impl Sync for Queue {}

impl Queue {
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    fn new(client: &Client<KafkaContext>) -> Self {
        // SAFETY: the client lives.
        Self(unsafe { native::rd_kafka_queue_new(client.native_ptr()) })
    }

    /// Where a consumer's events come: records, ends, rebalances, errors, its log.
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    pub fn of_consumer(client: &Client<KafkaContext>) -> Self {
        // SAFETY: the client lives; it is a consumer with a group's name.
        Self(unsafe { native::rd_kafka_queue_get_consumer(client.native_ptr()) })
    }

    /// Where the records of one partition come before they go on to where the consumer's events come; `None` for one that the
    /// client can know nothing of.
    #[expect(unsafe_code, reason = "rust-rdkafka forwards it nowhere for good")]
    pub fn of_partition(client: &Client<KafkaContext>, topic: &CStr, partition: Partition) -> Option<Self> {
        let number = i32::try_from(partition.0).ok()?;
        // SAFETY: the client lives, and the name is a C string.
        let queue = unsafe { native::rd_kafka_queue_get_partition(client.native_ptr(), topic.as_ptr(), number) };
        (!queue.is_null()).then_some(Self(queue))
    }

    /// What comes here goes there from now on, and what has come goes first; without a `there` it stays here.
    #[expect(unsafe_code, reason = "rust-rdkafka forwards it nowhere for good")]
    pub fn forward(&self, there: Option<&Self>) {
        // SAFETY: both queues live.
        unsafe { native::rd_kafka_queue_forward(self.0, there.map_or(ptr::null_mut(), |there| there.0)) }
    }

    /// Ends a [`Queue::poll`] that waits.
    #[expect(unsafe_code, reason = "rust-rdkafka has no way to wake a poll")]
    pub fn wake(&self) {
        // SAFETY: the queue lives.
        unsafe { native::rd_kafka_queue_yield(self.0) }
    }

    /// Waits for something to tell. Records and ends of other topics are nothing.
    #[expect(unsafe_code, reason = "rust-rdkafka's poll leaves out where a partition ends")]
    pub fn poll(&self, client: &Client<KafkaContext>, topic: &CStr, limit: Duration) -> Option<Event> {
        // SAFETY: the queue lives; the event is ours until it is destroyed.
        let event = unsafe { native::rd_kafka_queue_poll(self.0, millis(limit)) };
        if event.is_null() {
            return None;
        }
        let event = Told(event);
        // SAFETY: as above; each reader below is for this type of event.
        let told = unsafe {
            match native::rd_kafka_event_type(event.0) {
                native::RD_KAFKA_EVENT_FETCH => read_record(topic, &event),
                native::RD_KAFKA_EVENT_REBALANCE => read_rebalance(&event),
                native::RD_KAFKA_EVENT_ERROR => read_error(client.context(), topic, &event),
                native::RD_KAFKA_EVENT_LOG => {
                    read_log(client.context(), &event);
                    Event::Other
                }
                native::RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH => {
                    token::give(client);
                    Event::Other
                }
                _ => Event::Other,
            }
        };
        Some(told)
    }

    /// Before its client is destroyed.
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    pub fn let_go(&mut self) {
        let handle = std::mem::replace(&mut self.0, ptr::null_mut());
        if !handle.is_null() {
            // SAFETY: it is ours, and this is the last use.
            unsafe { native::rd_kafka_queue_destroy(handle) }
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Commits, and waits for the answer up to `limit`.
///
/// # Errors
/// What the coordinator answered, for all or for one partition; [`RDKafkaErrorCode::OperationTimedOut`] if there was no
/// answer: it may still come to be.
#[expect(unsafe_code, reason = "rust-rdkafka's commit waits without a limit")]
pub fn commit(client: &Client<KafkaContext>, offsets: &TopicPartitionList, limit: Duration) -> KafkaResult<()> {
    let answers = Queue::new(client);
    // SAFETY: list and queue live during the calls; the event is ours until it is destroyed.
    unsafe {
        let asked = native::rd_kafka_commit_queue(client.native_ptr(), offsets.ptr(), answers.0, None, ptr::null_mut());
        if asked != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::ConsumerCommit(asked.into()));
        }
        let event = native::rd_kafka_queue_poll(answers.0, millis(limit));
        if event.is_null() {
            return Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::OperationTimedOut));
        }
        let event = Told(event);
        let error = native::rd_kafka_event_error(event.0);
        let answered = entries(native::rd_kafka_event_topic_partition_list(event.0));
        let failed = |code: &RDKafkaRespErr| *code != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
        let first = Some(error).filter(failed).or(answered.into_iter().map(|(_, code)| code).find(failed));
        first.map_or(Ok(()), |code| Err(KafkaError::ConsumerCommit(code.into())))
    }
}

/// An event until it is destroyed.
struct Told(*mut native::rd_kafka_event_t);

impl Drop for Told {
    #[expect(unsafe_code, reason = "a handle of librdkafka's")]
    fn drop(&mut self) {
        // SAFETY: it is ours, and nobody uses it after this.
        unsafe { native::rd_kafka_event_destroy(self.0) }
    }
}

/// # Safety
/// It is a fetch event.
#[expect(unsafe_code, reason = "as `Queue::poll`")]
unsafe fn read_record(topic: &CStr, event: &Told) -> Event {
    // SAFETY: by the caller's word; the message belongs to the event.
    unsafe {
        let message = native::rd_kafka_event_message_next(event.0);
        if message.is_null() || (*message).err != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Event::Other;
        }
        if CStr::from_ptr(native::rd_kafka_topic_name((*message).rkt)) != topic {
            return Event::Other;
        }
        Event::Record(Partition((*message).partition.unsigned_abs()), message::read(message))
    }
}

/// # Safety
/// It is a rebalance event.
#[expect(unsafe_code, reason = "as `Queue::poll`")]
unsafe fn read_rebalance(event: &Told) -> Event {
    // SAFETY: by the caller's word; the list belongs to the event, so it is not dropped here.
    unsafe {
        let list = native::rd_kafka_event_topic_partition_list(event.0);
        let partitions = entries(list).into_iter().map(|(partition, _)| partition).collect();
        match native::rd_kafka_event_error(event.0) {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => Event::Assign(partitions),
            _ => Event::Revoke(partitions),
        }
    }
}

/// # Safety
/// It is an error event.
#[expect(unsafe_code, reason = "as `Queue::poll`")]
unsafe fn read_error(context: &KafkaContext, topic: &CStr, event: &Told) -> Event {
    // SAFETY: by the caller's word; the partition that is told is ours until it is destroyed.
    unsafe {
        let code: RDKafkaErrorCode = native::rd_kafka_event_error(event.0).into();
        let text = CStr::from_ptr(native::rd_kafka_event_error_string(event.0)).to_string_lossy().into_owned();
        let place = native::rd_kafka_event_topic_partition(event.0);
        let place = (!place.is_null()).then(|| {
            let (partition, offset) = (Partition((*place).partition.unsigned_abs()), (*place).offset);
            let ours = CStr::from_ptr((*place).topic) == topic;
            native::rd_kafka_topic_partition_destroy(place);
            (partition, offset, ours)
        });
        if code == RDKafkaErrorCode::PartitionEOF {
            return match place {
                Some((partition, offset, true)) if offset >= 0 => Event::End(partition, Offset(offset.unsigned_abs())),
                _ => Event::Other,
            };
        }
        let fatal = native::rd_kafka_event_error_is_fatal(event.0) != 0;
        context.hear(if fatal { RDKafkaErrorCode::Fatal } else { code }, &text);
        Event::Error(if fatal { RDKafkaErrorCode::Fatal } else { code }, place.map(|(partition, ..)| partition), text)
    }
}

/// # Safety
/// It is a log event.
#[expect(unsafe_code, reason = "as `Queue::poll`")]
unsafe fn read_log(context: &KafkaContext, event: &Told) {
    let (mut facility, mut text, mut level) = (ptr::null(), ptr::null(), 0);
    // SAFETY: by the caller's word; the texts belong to the event.
    unsafe {
        if native::rd_kafka_event_log(event.0, &raw mut facility, &raw mut text, &raw mut level) == 0 {
            let level = match level {
                0..=2 => RDKafkaLogLevel::Critical,
                3 => RDKafkaLogLevel::Error,
                4 => RDKafkaLogLevel::Warning,
                _ => RDKafkaLogLevel::Debug,
            };
            let (facility, text) = (CStr::from_ptr(facility), CStr::from_ptr(text));
            context.log(level, &facility.to_string_lossy(), &text.to_string_lossy());
        }
    }
}

/// # Safety
/// `list` is null or a list that lives during the call.
#[expect(unsafe_code, reason = "rust-rdkafka keeps what turns a native list into its own to itself")]
unsafe fn entries(list: *const native::rd_kafka_topic_partition_list_t) -> Vec<(Partition, RDKafkaRespErr)> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: by the caller's word; the list says how many it has.
    let entries = unsafe {
        let count = usize::try_from((*list).cnt).unwrap_or(0);
        if count == 0 { &[] } else { std::slice::from_raw_parts((*list).elems, count) }
    };
    entries.iter().map(|entry| (Partition(entry.partition.unsigned_abs()), entry.err)).collect()
}

fn millis(limit: Duration) -> i32 {
    // Not less than asked: a poll of 0 in a loop would spin.
    i32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
}
