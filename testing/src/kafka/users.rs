//! Users and what they may do; on a cluster that is [secured](super::Options::secured).

use anyhow::Result;
use serde_json::json;

use super::Cluster;

impl Cluster {
    /// Gives a user a SCRAM-SHA-256 password, new or another. Connections that are logged in stay so.
    pub fn set_password(&self, user: &str, password: &str) -> Result<()> {
        self.ask("set_password", json!({ "user": user, "password": password })).map(drop)
    }

    /// Removes a user's SCRAM-SHA-256 password.
    pub fn remove_user(&self, user: &str) -> Result<()> {
        self.ask("remove_user", json!({ "user": user })).map(drop)
    }

    /// Allows a user an operation (`read`, `write`, `describe`, `create`, `all`, ...) on a resource (`topic`, `group`,
    /// `transactional_id`, `cluster`) of this name; `*` is each, and the cluster's name is `kafka-cluster`.
    pub fn allow(&self, user: &str, operation: &str, resource: &str, name: &str) -> Result<()> {
        self.add_acl("allow", user, operation, resource, name)
    }

    /// Denies it, whatever else allows it.
    pub fn deny(&self, user: &str, operation: &str, resource: &str, name: &str) -> Result<()> {
        self.add_acl("deny", user, operation, resource, name)
    }

    fn add_acl(&self, permission: &str, user: &str, operation: &str, resource: &str, name: &str) -> Result<()> {
        let question = json!({
            "permission": permission, "user": user, "operation": operation, "resource": resource, "name": name,
        });
        self.ask("add_acl", question).map(drop)
    }

    /// Removes all that was allowed or denied to a user.
    pub fn remove_acls(&self, user: &str) -> Result<()> {
        self.ask("remove_acls", json!({ "user": user })).map(drop)
    }
}
