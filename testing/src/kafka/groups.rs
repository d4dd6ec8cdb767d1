//! Consumer groups: their coordinator, their members, and commits in the name of any member.

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::{Cluster, tool};

/// A group as its coordinator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// `Stable`, `PreparingRebalance`, `CompletingRebalance`, `Empty`; `Dead` when there is none.
    pub state: String,
    /// The generation that was agreed last (the epoch in the newer protocol); none before the first.
    pub generation: Option<i32>,
    /// In no order.
    pub members: Vec<Member>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The id that the coordinator gave it.
    pub id: String,
    /// `client.id` of its client.
    pub client_id: String,
    /// The partitions it has, by topic.
    pub partitions: Vec<(String, i32)>,
}

/// An offset to commit, or one that was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of which topic.
    pub topic: String,
    /// Of which partition.
    pub partition: i32,
    /// The next record to read.
    pub offset: i64,
}

/// In whose name offsets are committed.
#[derive(Clone, Copy, Debug)]
pub struct Claim<'a> {
    /// The group.
    pub group: &'a str,
    /// Its generation; -1 for a commit from outside, which an empty group accepts.
    pub generation: i32,
    /// The member's id; empty for a commit from outside.
    pub member: &'a str,
}

/// What became of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is durable.
    Accepted,
    /// The broker refused it, and says why.
    Refused(String),
}

impl Cluster {
    /// The index of the broker that coordinates this group; the offsets topic is created if it is not there.
    pub fn coordinator(&self, group: &str) -> Result<usize> {
        index(&self.ask("coordinator", json!({ "group": group }))?)
    }

    /// Makes another broker the group's coordinator, and returns its index: another replica of the group's partition of
    /// `__consumer_offsets` is elected leader. When it returns, the new one has loaded the group.
    pub fn move_coordinator(&self, group: &str) -> Result<usize> {
        index(&self.ask("move_coordinator", json!({ "group": group }))?)
    }

    /// State, generation and members of a group.
    pub fn describe_group(&self, group: &str) -> Result<Group> {
        let found = self.ask("describe_group", json!({ "group": group }))?;
        Ok(Group {
            state: tool::text(&found["state"])?,
            generation: Some(tool::number(&found["generation"])?).filter(|&generation| generation >= 0),
            members: tool::list(&found["members"], member)?,
        })
    }

    /// Deletes a group that has no members.
    pub fn delete_group(&self, group: &str) -> Result<()> {
        self.ask("delete_group", json!({ "group": group })).map(drop)
    }

    /// What a group has committed.
    pub fn committed_offsets(&self, group: &str) -> Result<Vec<Committed>> {
        tool::list(&self.ask("committed_offsets", json!({ "group": group }))?, |found| {
            let (topic, partition) = place(found)?;
            Ok(Committed { topic, partition, offset: tool::number(&found["offset"])? })
        })
    }

    /// Commits offsets as this member of this generation would. A refusal is the broker's name for it, like
    /// `ILLEGAL_GENERATION`.
    pub fn commit_offsets(&self, claim: Claim<'_>, offsets: &[Committed]) -> Result<Outcome> {
        Ok(outcome(&self.ask("commit_offsets", question(claim, offsets))?))
    }

    /// Commits offsets in a transaction of its own, with Java's producer. A refusal is what that throws.
    pub fn commit_offsets_in_transaction(
        &self,
        transactional_id: &str,
        claim: Claim<'_>,
        offsets: &[Committed],
    ) -> Result<Outcome> {
        let mut question = question(claim, offsets);
        question["transactional_id"] = json!(transactional_id);
        Ok(outcome(&self.ask("commit_offsets_in_transaction", question)?))
    }
}

fn question(claim: Claim<'_>, offsets: &[Committed]) -> Value {
    let offsets: Vec<_> =
        offsets.iter().map(|o| json!({ "topic": o.topic, "partition": o.partition, "offset": o.offset })).collect();
    json!({ "group": claim.group, "generation": claim.generation, "member": claim.member, "offsets": offsets })
}

fn outcome(answer: &Value) -> Outcome {
    answer.as_str().map_or(Outcome::Accepted, |refusal| Outcome::Refused(refusal.to_owned()))
}

fn member(found: &Value) -> Result<Member> {
    let partitions = tool::list(&found["partitions"], place)?;
    Ok(Member { id: tool::text(&found["id"])?, client_id: tool::text(&found["client_id"])?, partitions })
}

fn place(found: &Value) -> Result<(String, i32)> {
    Ok((tool::text(&found["topic"])?, tool::number(&found["partition"])?))
}

/// The first node has the id 1.
fn index(id: &Value) -> Result<usize> {
    tool::number::<usize>(id)?.checked_sub(1).context("a broker's id is 1 or more")
}
