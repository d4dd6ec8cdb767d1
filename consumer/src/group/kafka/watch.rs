//! Looking at a group on Kafka. The brokers tell who is a member and what it was given; the generation is not part of
//! it, nor is how long a session still lasts.

use std::{collections::BTreeMap, time::Duration};

use keylane_producer::{
    GroupName, Partition, QueueIdentity,
    kafka::{
        KafkaContext, KafkaSettings,
        rdkafka::{
            error::{KafkaError, RDKafkaErrorCode},
            groups::{GroupInfo, GroupList},
        },
    },
};

use super::client::Client;
use crate::{
    clock::Clock,
    error::{Detail, Error},
    group::{GroupWatch, MemberOverview, Overview},
};

/// How long a look may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Between two tries.
const AGAIN: Duration = Duration::from_millis(100);

/// A client that never joins.
pub struct KafkaGroupReader {
    client: Client,
    queue: QueueIdentity,
    group: GroupName,
}

impl KafkaGroupReader {
    /// For a queue that exists; the group need not.
    ///
    /// # Errors
    /// [`Error::Invalid`] if a property does not fit.
    pub fn open(settings: &KafkaSettings, queue: &QueueIdentity, group: &GroupName) -> Result<Self, Error> {
        let mut config = settings.config();
        config.set("group.id", group.as_str()).set("enable.auto.commit", "false");
        let context = KafkaContext::new(settings.clone());
        let client = Client::open(&config, context, queue.name.as_str(), true)
            .map_err(|e| KafkaContext::new(settings.clone()).explain("cannot make a Kafka client", &e))?;
        Ok(Self { client, queue: queue.clone(), group: group.clone() })
    }

    /// A coordinator that is being chosen or reads its log is asked again.
    fn group_list(&self) -> Result<GroupList, KafkaError> {
        use RDKafkaErrorCode as Code;
        let clock = Clock::boot();
        let until = clock.now().plus(LIMIT);
        loop {
            match self.client.groups(self.group.as_str(), LIMIT) {
                Err(error)
                    if clock.now() < until
                        && matches!(
                            error.rdkafka_error_code(),
                            Some(
                                Code::NotCoordinator | Code::CoordinatorNotAvailable | Code::CoordinatorLoadInProgress
                            )
                        ) =>
                {
                    std::thread::park_timeout(AGAIN);
                }
                answer => return answer,
            }
        }
    }

    fn members(&self) -> Result<Vec<MemberOverview>, KafkaError> {
        let told = self.group_list()?;
        let mut members = Vec::new();
        let ours = told.groups().iter().filter(|group| group.name() == self.group.as_str());
        for member in ours.flat_map(GroupInfo::members) {
            let given = member.assignment().and_then(|bytes| partitions(bytes, self.queue.name.as_str()));
            let mut partitions = given.unwrap_or_default();
            partitions.sort_unstable();
            members.push(MemberOverview {
                worker: member.client_id().into(),
                member_for: None,
                expired: false,
                session_left: None,
                session: None,
                // Its coordinator has just called it a member.
                silent_for: Duration::ZERO,
                partitions,
                revoking: Vec::new(),
            });
        }
        Ok(members)
    }
}

impl GroupWatch for KafkaGroupReader {
    fn overview(&mut self) -> Result<Overview, Error> {
        let what = format!("cannot look at group '{}'", self.group);
        // What the client has heard meanwhile: the reasons of errors.
        while self.client.poll(Duration::ZERO).is_some() {}
        let failed = |error: KafkaError| self.client.context().explain(what.as_str(), &error);
        let members = self.members().map_err(failed)?;
        let all: Vec<Partition> = self.queue.partitions.all().collect();
        let committed: BTreeMap<_, _> = self.client.committed(&all, LIMIT).map_err(failed)?.into_iter().collect();
        if committed.len() != all.len() {
            return Err(Error::Unavailable(Detail::new(what).because("the coordinator left partitions out")));
        }
        Ok(Overview { members, committed })
    }
}

/// The partitions of a topic in an assignment of the consumer protocol
/// (<https://kafka.apache.org/protocol>, `ConsumerProtocolAssignment`: version, then topics with their partitions).
fn partitions(assignment: &[u8], topic: &str) -> Option<Vec<Partition>> {
    let mut bytes = assignment;
    let version = i16::from_be_bytes(take(&mut bytes)?);
    let topics = i32::from_be_bytes(take(&mut bytes)?);
    if version < 0 {
        return None;
    }
    let mut found = Vec::new();
    for _ in 0..topics {
        let length = usize::try_from(i16::from_be_bytes(take(&mut bytes)?)).ok()?;
        let (name, rest) = bytes.split_at_checked(length)?;
        bytes = rest;
        for _ in 0..i32::from_be_bytes(take(&mut bytes)?) {
            let partition = i32::from_be_bytes(take(&mut bytes)?);
            if name == topic.as_bytes() {
                found.push(Partition(u32::try_from(partition).ok()?));
            }
        }
    }
    Some(found)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_tells_the_partitions_of_its_topics() {
        let bytes = [&[0, 1, 0, 0, 0, 2][..], &[0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 9], &[0, 2, b'j', b's', 0, 0, 0, 2]];
        let bytes = [&bytes.concat()[..], &[0, 0, 0, 3, 0, 0, 1, 0], &[255, 255, 255, 255]].concat();
        assert_eq!(partitions(&bytes, "js"), Some(vec![Partition(3), Partition(256)]));
        assert_eq!(partitions(&bytes, "a"), Some(vec![Partition(9)]));
        assert_eq!(partitions(&bytes, "b"), Some(vec![]));
    }

    #[test]
    fn what_is_cut_off_is_no_assignment() {
        let whole = [0, 0, 0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 1, 0, 0, 0, 9];
        assert_eq!(partitions(&whole, "a"), Some(vec![Partition(9)]));
        for length in 0..whole.len() {
            assert_eq!(partitions(&whole[..length], "a"), None, "{length} bytes");
        }
    }
}
