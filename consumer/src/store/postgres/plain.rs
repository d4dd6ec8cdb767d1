//! A connection for a program's own tables, outside of any fence: to make them, to read them.

use super::{
    PostgresStore,
    effect::PostgresTx,
    fault::{SqlError, cannot},
    wire::Wire,
};
use crate::error::Error;

/// See [`PostgresStore::connection`].
pub struct PostgresConnection(Wire);

impl PostgresStore {
    /// A connection to the store's database, made when it is first used.
    pub fn connection(&self) -> PostgresConnection {
        PostgresConnection(self.wire())
    }
}

impl PostgresConnection {
    /// Runs `act` in a transaction of its own. No fence is looked at, and no marker written.
    ///
    /// # Errors
    /// [`Error::Unavailable`], [`Error::Refused`], and [`Error::Corrupt`] for a statement that does not fit the tables.
    pub fn transaction<T>(&mut self, act: impl FnOnce(&mut PostgresTx<'_>) -> Result<T, SqlError>) -> Result<T, Error> {
        let sql = cannot("cannot use the database");
        let mut tx = self.0.begin("cannot use the database")?;
        let answer = act(&mut PostgresTx::in_transaction(&mut tx)).map_err(&sql)?;
        tx.commit().map_err(&sql)?;
        Ok(answer)
    }
}
