//! Topics as queues.

use std::{
    ffi::{CStr, CString},
    ptr,
    time::Duration,
};

use futures_executor::block_on;
use rdkafka::{
    admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication},
    bindings as native,
    client::Client,
    error::{KafkaError, RDKafkaErrorCode},
    metadata::MetadataTopic,
    types::{RDKafka, RDKafkaRespErr},
};

use super::{LOOK, PATIENCE, checkpoints, send::Sender};
use crate::{
    error::{Detail, Error},
    kafka::{self, KafkaContext, KafkaSettings, token},
    log::QueueDescription,
    queue::{
        GroupName, Incarnation, KeyHash, QueueIdentity, QueueName, QueueSpec, Replication, Retention, already_there,
        not_there,
    },
};

/// Copies of a queue, unless it is said otherwise: one broker may die and one more be away, and nothing is lost.
const COPIES: u16 = 3;

/// Brokers hear of a new topic one after another: one that does not know it is asked again for this long.
const NEWS: Duration = Duration::from_secs(1);

/// Longest that Kafka can be told.
const FOR_EVER: &str = "-1";

/// A topic as the brokers know it.
struct Topic {
    /// Given at its making, never again: base64 of 16 bytes.
    id: Box<str>,
    partitions: u32,
}

pub(super) fn create(
    sender: &Sender,
    settings: &KafkaSettings,
    cluster: &str,
    spec: &QueueSpec,
) -> Result<QueueIdentity, Error> {
    spec.partitions.check()?;
    let name = spec.name.as_str();
    if name.starts_with("__") || name == checkpoints::TOPIC {
        return Err(Error::Invalid(
            Detail::new(format!("'{name}' is a name of Kafka's or Keylane's own")).remedy("choose another name"),
        ));
    }
    let copies = replication(sender, spec)?;
    let age = spec.retention.age.map_or(FOR_EVER.to_owned(), |age| age.as_millis().to_string());
    let bytes = spec.retention.bytes.map_or(FOR_EVER.to_owned(), |bytes| bytes.to_string());
    let in_sync = copies.min_in_sync.to_string();
    let topic =
        NewTopic::new(name, spec.partitions.0.get().cast_signed(), TopicReplication::Fixed(i32::from(copies.factor)))
            .set("cleanup.policy", "delete")
            .set("message.timestamp.type", "CreateTime")
            .set("min.insync.replicas", &in_sync)
            .set("unclean.leader.election.enable", "false")
            .set("retention.ms", &age)
            .set("retention.bytes", &bytes);
    // A job whose clock is ahead is a job. Brokers before 3.6 have no such limit.
    let unlimited = i64::MAX.to_string();
    let unlimited = topic_with(&topic, "message.timestamp.after.max.ms", &unlimited);
    let made = match make(sender, settings, &unlimited)? {
        Some(RDKafkaErrorCode::InvalidConfig) => make(sender, settings, &topic)?,
        made => made,
    };
    match made {
        None => {}
        Some(RDKafkaErrorCode::TopicAlreadyExists) => {
            let has = identity(sender, cluster, &spec.name)?.map_or(spec.partitions, |identity| identity.partitions);
            return Err(already_there(&spec.name, has, spec.partitions));
        }
        Some(code) => {
            let detail = Detail::new(format!("the brokers do not make queue '{name}'")).because(code.to_string());
            return Err(match code {
                RDKafkaErrorCode::TopicAuthorizationFailed | RDKafkaErrorCode::ClusterAuthorizationFailed => {
                    Error::Refused(detail.remedy("let an administrator make the topic, or allow this user to"))
                }
                RDKafkaErrorCode::InvalidReplicationFactor => {
                    Error::Invalid(detail.remedy("ask for no more copies than there are brokers: --replication"))
                }
                _ => Error::Invalid(detail),
            });
        }
    }
    let made = sender.ask_admin(&format!("queue '{name}' was made and does not show up"), |client| {
        match find(client, name)? {
            Some(topic) if topic.partitions == spec.partitions.0.get() => Ok(topic),
            // Brokers hear of it one after another.
            _ => {
                std::thread::park_timeout(Duration::from_millis(50));
                Err(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))
            }
        }
    })?;
    for partition in 0..spec.partitions.0.get().cast_signed() {
        // A leader that has not heard of it yet could refuse the first batch of a producer and take the second.
        let what = format!("queue '{name}' was made and its partition {partition} does not answer");
        sender.ask(&what, |client| client.fetch_watermarks(name, partition, LOOK))?;
    }
    Ok(QueueIdentity {
        cluster: cluster.into(),
        name: spec.name.clone(),
        incarnation: Incarnation(made.id),
        partitions: spec.partitions,
        hash: KeyHash::Murmur2,
    })
}

/// The same topic with one more setting.
fn topic_with<'a>(topic: &NewTopic<'a>, name: &'a str, value: &'a str) -> NewTopic<'a> {
    let TopicReplication::Fixed(copies) = topic.replication else { unreachable!("ours have a fixed number") };
    let same = NewTopic::new(topic.name, topic.num_partitions, TopicReplication::Fixed(copies));
    topic.config.iter().fold(same, |topic, (name, value)| topic.set(name, value)).set(name, value)
}

/// What was asked for, or what is safe, or why there is no such thing.
fn replication(sender: &Sender, spec: &QueueSpec) -> Result<Replication, Error> {
    let metadata = sender.ask("cannot look at the brokers", |client| client.fetch_metadata(None, LOOK))?;
    let brokers = u16::try_from(metadata.brokers().len()).unwrap_or(u16::MAX);
    let chosen = spec.replication.unwrap_or(Replication { factor: COPIES, min_in_sync: COPIES - 1, unsafe_too: false });
    let remedy = "ask for them by number: --replication and --min-in-sync, with --unsafe if jobs may be lost";
    let refuse = |what: String| Err(Error::Invalid(Detail::new(what).remedy(remedy)));
    let Replication { factor, min_in_sync, unsafe_too } = chosen;
    if factor > brokers {
        return refuse(format!(
            "queue '{}' would have {factor} copies, and there are {brokers} brokers: a copy is on a broker of its own",
            spec.name
        ));
    }
    if min_in_sync == 0 || min_in_sync > factor {
        return refuse(format!("of {factor} copies {min_in_sync} cannot be in sync: 1 to {factor}"));
    }
    if min_in_sync < 2 && !unsafe_too {
        return refuse("with fewer than 2 copies in sync the death of one disk loses jobs that have a receipt".into());
    }
    if min_in_sync == factor && factor > 1 && !unsafe_too {
        return refuse(format!(
            "with {min_in_sync} of {factor} copies in sync every restart of a broker stops all who enqueue"
        ));
    }
    Ok(chosen)
}

pub(super) fn describe(
    sender: &Sender,
    settings: &KafkaSettings,
    cluster: &str,
    queue: &QueueName,
) -> Result<QueueDescription, Error> {
    let Some(identity) = identity(sender, cluster, queue)? else {
        return Err(not_there(queue, &queues(sender)?));
    };
    let (retention, min_in_sync) = configured(sender, settings, queue)?;
    let what = format!("cannot look at queue '{queue}'");
    let metadata = sender.ask(&what, |client| client.fetch_metadata(Some(queue.as_str()), LOOK))?;
    let partitions = metadata.topics().iter().flat_map(MetadataTopic::partitions);
    let copies = partitions.map(|partition| partition.replicas().len()).min();
    let replication = copies.map(|copies| {
        let factor = u16::try_from(copies).unwrap_or(u16::MAX);
        Replication { factor, min_in_sync, unsafe_too: min_in_sync < 2 || min_in_sync == factor }
    });
    Ok(QueueDescription { retention, replication, identity })
}

pub(super) fn identity(sender: &Sender, cluster: &str, queue: &QueueName) -> Result<Option<QueueIdentity>, Error> {
    let asked = kafka::now();
    let topic = loop {
        match sender.ask_admin(&format!("cannot look at queue '{queue}'"), |client| find(client, queue.as_str()))? {
            Some(topic) => break topic,
            None if asked.elapsed() >= NEWS => return Ok(None),
            None => std::thread::park_timeout(NEWS / 10),
        }
    };
    if topic.id.is_empty() || topic.id.bytes().all(|b| b == b'A' || b == b'=') {
        return Err(Error::Refused(
            Detail::new(
                "these brokers give topics no ids: a queue that was made anew could not be told from the old one",
            )
            .remedy("Keylane needs Apache Kafka 2.8 or later"),
        ));
    }
    Ok(Some(QueueIdentity {
        cluster: cluster.into(),
        name: queue.clone(),
        incarnation: Incarnation(topic.id),
        partitions: topic.partitions.to_string().parse()?,
        hash: KeyHash::Murmur2,
    }))
}

/// Retention, and how many copies must be in sync.
fn configured(sender: &Sender, settings: &KafkaSettings, queue: &QueueName) -> Result<(Retention, u16), Error> {
    let admin = admin(settings)?;
    let entries = sender.ask(&format!("cannot look at the settings of queue '{queue}'"), |_| {
        let asked = [ResourceSpecifier::Topic(queue.as_str())];
        let answers = block_on(admin.describe_configs(&asked, &options()))?;
        answers.into_iter().next().unwrap_or(Err(RDKafkaErrorCode::Unknown)).map_err(KafkaError::AdminOp)
    })?;
    let number = |name: &str| entries.get(name).and_then(|entry| entry.value.as_ref()).and_then(|v| v.parse().ok());
    let retention =
        Retention { age: number("retention.ms").map(Duration::from_millis), bytes: number("retention.bytes") };
    Ok((retention, number("min.insync.replicas").and_then(|n| u16::try_from(n).ok()).unwrap_or(1)))
}

pub(super) fn queues(sender: &Sender) -> Result<Vec<QueueName>, Error> {
    let metadata = sender.ask("cannot list the queues", |client| client.fetch_metadata(None, LOOK))?;
    let names = metadata.topics().iter().map(MetadataTopic::name);
    let ours = names.filter(|name| !name.starts_with("__") && *name != checkpoints::TOPIC);
    let mut queues: Vec<QueueName> = ours.filter_map(|name| name.parse().ok()).collect();
    queues.sort();
    Ok(queues)
}

pub(super) fn exists(sender: &Sender, topic: &str) -> Result<bool, Error> {
    sender.ask_admin(&format!("cannot look at the topic '{topic}'"), |client| Ok(find(client, topic)?.is_some()))
}

/// Makes the topic of checkpoints, if it is not there.
pub(super) fn create_checkpoints(sender: &Sender, settings: &KafkaSettings) -> Result<(), Error> {
    if exists(sender, checkpoints::TOPIC)? {
        return Ok(());
    }
    // As many copies as the brokers give by default.
    let topic = NewTopic::new(checkpoints::TOPIC, 1, TopicReplication::Fixed(-1)).set("cleanup.policy", "compact");
    match make(sender, settings, &topic)? {
        None | Some(RDKafkaErrorCode::TopicAlreadyExists) => {}
        Some(code) => {
            return Err(Error::Refused(
                Detail::new(format!("the brokers do not make the topic '{}'", checkpoints::TOPIC))
                    .because(code.to_string())
                    .remedy("let an administrator make it, with one partition and cleanup.policy=compact"),
            ));
        }
    }
    sender.ask_admin("the topic of checkpoints was made and does not show up", |client| {
        match find(client, checkpoints::TOPIC)? {
            Some(_) => Ok(()),
            None => {
                std::thread::park_timeout(Duration::from_millis(50));
                Err(KafkaError::MetadataFetch(RDKafkaErrorCode::UnknownTopicOrPartition))
            }
        }
    })
}

/// `None`: made.
fn make(sender: &Sender, settings: &KafkaSettings, topic: &NewTopic<'_>) -> Result<Option<RDKafkaErrorCode>, Error> {
    let admin = admin(settings)?;
    let what = format!("cannot make the topic '{}'", topic.name);
    let answers = sender.ask(&what, |_| block_on(admin.create_topics([topic], &options())))?;
    Ok(answers.into_iter().find_map(|answer| answer.err().map(|(_, code)| code)))
}

pub(super) fn delete(
    sender: &Sender,
    settings: &KafkaSettings,
    queue: &QueueName,
    group: &GroupName,
) -> Result<(), Error> {
    let admin = admin(settings)?;
    let what = format!("cannot delete queue '{queue}'");
    let answers = sender.ask(&what, |_| block_on(admin.delete_topics(&[queue.as_str()], &options())))?;
    let failed = answers.into_iter().find_map(|answer| answer.err().map(|(_, code)| code));
    // A group that has members or never was: its offsets of a topic that is gone mean nothing, and expire.
    let _ = block_on(admin.delete_groups(&[group.as_str()], &options()));
    match failed {
        None => Ok(()),
        Some(RDKafkaErrorCode::UnknownTopicOrPartition) => Err(not_there(queue, &queues(sender)?)),
        Some(code) => Err(sender.context().explain(what, &KafkaError::AdminOp(code))),
    }
}

fn admin(settings: &KafkaSettings) -> Result<AdminClient<KafkaContext>, Error> {
    let context = KafkaContext::new(settings.clone());
    let failed = |error| KafkaContext::new(settings.clone()).explain("cannot make a Kafka client", &error);
    let admin: AdminClient<KafkaContext> = settings.config().create_with_context(context).map_err(failed)?;
    token::give_if_wanted(admin.inner());
    Ok(admin)
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(PATIENCE / 2)).operation_timeout(Some(PATIENCE / 2))
}

/// The topic of this name.
fn find(client: &Client<KafkaContext>, name: &str) -> Result<Option<Topic>, KafkaError> {
    let name = CString::new(name)?;
    // SAFETY: the client lives during the call.
    #[expect(unsafe_code, reason = "rust-rdkafka does not ask for a topic's id")]
    unsafe {
        describe_natively(client.native_ptr(), &name)
    }
}

/// # Safety
/// `client` is a client that lives during the call.
#[expect(unsafe_code, reason = "as `find`")]
unsafe fn describe_natively(client: *mut RDKafka, name: &CStr) -> Result<Option<Topic>, KafkaError> {
    let wait = i32::try_from(LOOK.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: each object is used only while what owns it lives: the answer's parts while the event does, which is
    // destroyed last; queue, options and names until then too.
    unsafe {
        let queue = native::rd_kafka_queue_new(client);
        let options =
            native::rd_kafka_AdminOptions_new(client, native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS);
        // Else it goes on for a minute behind our back.
        let mut why = [0; 256];
        let _ = native::rd_kafka_AdminOptions_set_request_timeout(options, wait, why.as_mut_ptr(), why.len());
        let mut names = [name.as_ptr()];
        let topics = native::rd_kafka_TopicCollection_of_topic_names(names.as_mut_ptr(), 1);
        native::rd_kafka_DescribeTopics(client, topics, options, queue);
        let event = native::rd_kafka_queue_poll(queue, wait);
        let answer = if event.is_null() {
            Err(KafkaError::AdminOp(RDKafkaErrorCode::OperationTimedOut))
        } else {
            read_description(event)
        };
        if !event.is_null() {
            native::rd_kafka_event_destroy(event);
        }
        native::rd_kafka_TopicCollection_destroy(topics);
        native::rd_kafka_AdminOptions_destroy(options);
        native::rd_kafka_queue_destroy(queue);
        answer
    }
}

/// # Safety
/// `event` lives during the call.
#[expect(unsafe_code, reason = "as `find`")]
unsafe fn read_description(event: *mut native::rd_kafka_event_t) -> Result<Option<Topic>, KafkaError> {
    // SAFETY: what is read here belongs to the event.
    unsafe {
        let failed = native::rd_kafka_event_error(event);
        if failed != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return Err(KafkaError::AdminOp(failed.into()));
        }
        let result = native::rd_kafka_event_DescribeTopics_result(event);
        let mut count = 0;
        let topics = native::rd_kafka_DescribeTopics_result_topics(result, &raw mut count);
        if result.is_null() || topics.is_null() || count == 0 {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::Unknown));
        }
        let topic = *topics;
        let error = native::rd_kafka_error_code(native::rd_kafka_TopicDescription_error(topic));
        match error {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR => {}
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART
            | RDKafkaRespErr::RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC => return Ok(None),
            other => return Err(KafkaError::AdminOp(other.into())),
        }
        let mut partitions = 0;
        native::rd_kafka_TopicDescription_partitions(topic, &raw mut partitions);
        let id = native::rd_kafka_TopicDescription_topic_id(topic);
        let text = if id.is_null() { ptr::null() } else { native::rd_kafka_Uuid_base64str(id) };
        let id = if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() };
        Ok(Some(Topic { id: id.into(), partitions: u32::try_from(partitions).unwrap_or(u32::MAX) }))
    }
}
