//! Opening, owning and checking the database file: threads, transactions, migrations, backups.

pub(super) mod backup;
pub(super) mod db_thread;
pub(super) mod identity;
pub(super) mod invariants;
pub(super) mod migrate;
pub(super) mod open;
pub(super) mod read_only;
pub(super) mod savepoint;
pub(super) mod sync_db;
