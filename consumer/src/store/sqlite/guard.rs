//! What an effect may not do on the store's connection, and how it is held.
//!
//! It shares the connection, so three things stand between a careless effect and the fence:
//!
//! 1. **The authorizer** denies, while an effect runs: ending or beginning a transaction, other files, pragmas that
//!    change something, any change of `keylane_*`, and reading the numbers of the token. It is asked when a statement
//!    is prepared, not when it runs, so
//! 2. **our own statements carry a salt** of this connection ([`Ours`]): `prepare_cached` with the same SQL as ours
//!    finds no statement of ours, that was prepared while nothing was denied;
//! 3. **the commit hook** turns every commit into a rollback while an effect runs. `INSERT OR ROLLBACK` ends the
//!    transaction without asking the authorizer, and what came after it would else be committed at once, unfenced.
//!
//! This holds off mistakes. Code that wants to do harm in this process can, by `unsafe` if by nothing else.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rusqlite::{
    CachedStatement, Connection,
    hooks::{AuthAction, AuthContext, Authorization},
};

/// The savepoint that an effect runs in; the authorizer lets no effect name it.
pub(super) const SAVEPOINT: &str = "keylane_effect";

/// Set once for a connection; on only while an effect runs.
#[derive(Clone, Default)]
pub(super) struct Guard {
    on: Arc<AtomicBool>,
    denied: Arc<Mutex<Option<&'static str>>>,
}

impl Guard {
    pub(super) fn install(connection: &mut Connection) -> rusqlite::Result<Self> {
        let guard = Self::default();
        let (asked, committing) = (guard.clone(), guard.clone());
        connection.authorizer(Some(move |context: AuthContext<'_>| asked.answer(&context)))?;
        connection.commit_hook(Some(move || committing.on.load(Ordering::Relaxed)))?;
        Ok(guard)
    }

    /// Runs an effect with the guard on, and takes it off also if the effect panics.
    pub(super) fn watch<R>(&self, effect: impl FnOnce() -> R) -> thread::Result<R> {
        self.take_denied();
        self.on.store(true, Ordering::Relaxed);
        let outcome = catch_unwind(AssertUnwindSafe(effect));
        self.on.store(false, Ordering::Relaxed);
        outcome
    }

    /// What the last effect was denied, in words.
    pub(super) fn take_denied(&self) -> Option<&'static str> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn answer(&self, context: &AuthContext<'_>) -> Authorization {
        if !self.on.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        match denied(context.action) {
            None => Authorization::Allow,
            Some(rule) => {
                *self.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(rule);
                Authorization::Deny
            }
        }
    }
}

/// The rule that the action breaks, if it breaks one.
fn denied(action: AuthAction<'_>) -> Option<&'static str> {
    use AuthAction as A;
    const OURS: &str = "an effect may not change Keylane's tables";
    let (rule, breaks) = match action {
        A::Transaction { .. } => ("an effect may not begin or end a transaction", true),
        A::Attach { .. } | A::Detach { .. } => ("an effect may not attach or detach a file", true),
        A::Pragma { pragma_name, pragma_value } => (
            "an effect may not use a pragma that changes the connection or the file",
            !harmless(pragma_name, pragma_value),
        ),
        A::Savepoint { savepoint_name, .. } => {
            ("an effect may not touch the savepoint it runs in", ours(savepoint_name))
        }
        A::Read { table_name, column_name } => {
            ("an effect may not read the fence token", token(table_name, column_name))
        }
        A::Function { function_name } => {
            ("an effect may not load an extension", function_name.eq_ignore_ascii_case("load_extension"))
        }
        A::Insert { table_name }
        | A::Delete { table_name }
        | A::Update { table_name, .. }
        | A::AlterTable { table_name, .. }
        | A::CreateTable { table_name }
        | A::CreateTempTable { table_name }
        | A::DropTable { table_name }
        | A::DropTempTable { table_name }
        | A::CreateVtable { table_name, .. }
        | A::DropVtable { table_name, .. } => (OURS, ours(table_name)),
        A::CreateView { view_name }
        | A::CreateTempView { view_name }
        | A::DropView { view_name }
        | A::DropTempView { view_name } => (OURS, ours(view_name)),
        A::CreateIndex { index_name, table_name }
        | A::CreateTempIndex { index_name, table_name }
        | A::DropIndex { index_name, table_name }
        | A::DropTempIndex { index_name, table_name } => (OURS, ours(index_name) || ours(table_name)),
        A::CreateTrigger { trigger_name, table_name }
        | A::CreateTempTrigger { trigger_name, table_name }
        | A::DropTrigger { trigger_name, table_name }
        | A::DropTempTrigger { trigger_name, table_name } => (OURS, ours(trigger_name) || ours(table_name)),
        _ => return None,
    };
    breaks.then_some(rule)
}

fn ours(name: &str) -> bool {
    name.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("keylane_"))
}

/// The numbers that make a token, wherever they stand.
fn token(table: &str, column: &str) -> bool {
    match table {
        "keylane_fence" => matches!(column, "epoch" | "gen" | "claim" | "owner"),
        "keylane_scope" => column == "epoch",
        "keylane_suspect" => column == "started",
        _ => false,
    }
}

/// Pragmas that only look, or that end with the transaction.
fn harmless(name: &str, value: Option<&str>) -> bool {
    match name.to_ascii_lowercase().as_str() {
        "table_info" | "table_xinfo" | "table_list" | "index_list" | "index_info" | "index_xinfo"
        | "foreign_key_list" | "foreign_key_check" | "function_list" | "collation_list" | "compile_options"
        | "integrity_check" | "quick_check" | "data_version" | "defer_foreign_keys" => true,
        "foreign_keys" | "user_version" | "application_id" | "page_count" | "page_size" | "encoding" => value.is_none(),
        _ => false,
    }
}

/// Prepares our own statements, under names that no effect can guess.
pub(super) struct Ours(String);

impl Ours {
    pub(super) fn salted() -> Self {
        Self(format!("/* {} */ ", ulid::Ulid::generate()))
    }

    pub(super) fn prepare<'c>(&self, connection: &'c Connection, sql: &str) -> rusqlite::Result<CachedStatement<'c>> {
        connection.prepare_cached(&[&self.0, sql].concat())
    }
}
