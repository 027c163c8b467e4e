//! Records the statements that a process executes in a file, if its parent requests it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::sync::{LazyLock, Mutex};

/// Variable with the name of the file.
pub(super) const VARIABLE: &str = "REMAND_TEST_EXECUTED";

/// Terminator of each statement in the file.
pub(super) const END: char = '\0';

static WRITTEN: LazyLock<Option<Mutex<Written>>> = LazyLock::new(|| {
    #[expect(clippy::disallowed_methods, reason = "a variable for tests only")]
    let path = std::env::var_os(VARIABLE)?;
    let file = File::create(path).unwrap();
    let known = BTreeSet::new();
    Some(Mutex::new(Written { file, known }))
});

struct Written {
    file: File,
    known: BTreeSet<&'static str>,
}

pub(in crate::blackboard) fn note(sql: &'static str) {
    let Some(written) = &*WRITTEN else { return };
    // A case that panics elsewhere does not affect the others.
    let mut written = written.lock().unwrap_or_else(|error| error.into_inner());
    if written.known.insert(sql) {
        write!(written.file, "{sql}{END}").unwrap();
    }
}
