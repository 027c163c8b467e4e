//! Named lines at which a test can kill the program. Without the feature `failpoints` nothing of this is
//! compiled, and no decision may ever depend on it.
//!
//! `REMAND_CRASH_AT=name` kills at the first crossing of `name` in a process, `name#3` at the third.
//! `REMAND_CRASH_ONCE=file` kills only who can create that file, so once over all processes and restarts.
//! `REMAND_CRASH_LIST=file` gets a line for each crossing.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("the feature `failpoints` is for tests: it must not be in a release build");

#[cfg(feature = "failpoints")]
macro_rules! crash_point {
    ($($name:tt)+) => {
        $crate::crash::cross(&format!($($name)+))
    };
}

#[cfg(not(feature = "failpoints"))]
macro_rules! crash_point {
    // Checked like the other, so that a name with a variable in it compiles in both; never evaluated.
    ($($name:tt)+) => {
        if false {
            drop(format!($($name)+));
        }
    };
}

pub(crate) use crash_point;

#[cfg(feature = "failpoints")]
pub(crate) use armed::{cross, variables};

/// What a child of ours must know to crash too; an agent never gets it.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn variables() -> Vec<(&'static str, std::ffi::OsString)> {
    Vec::new()
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::ffi::OsString;
    use std::fs::OpenOptions;
    use std::io::{self, Write as _};
    use std::sync::atomic::{AtomicU32, Ordering};

    const AT: &str = "REMAND_CRASH_AT";
    const ONCE: &str = "REMAND_CRASH_ONCE";
    const LIST: &str = "REMAND_CRASH_LIST";

    /// Crossings, in this process, of the one name that is armed.
    static CROSSED: AtomicU32 = AtomicU32::new(0);

    pub(crate) fn cross(name: &str) {
        if let Some(list) = variable(LIST)
            && let Err(error) = append(&list, name)
        {
            tracing::error!(name, %error, "cannot list the crossing of a crash point");
        }
        let Some(at) = variable(AT) else { return };
        let at = at.to_string_lossy();
        let (armed, nth) = at.split_once('#').map_or((&*at, Ok(1)), |(armed, nth)| (armed, nth.parse::<u32>()));
        if armed != name || Ok(CROSSED.fetch_add(1, Ordering::SeqCst) + 1) != nth || !is_first() {
            return;
        }
        if let Err(error) = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL) {
            tracing::error!(name, %error, "cannot kill this process at a crash point");
        }
        std::process::abort();
    }

    pub(crate) fn variables() -> Vec<(&'static str, OsString)> {
        [AT, ONCE, LIST].into_iter().filter_map(|name| variable(name).map(|value| (name, value))).collect()
    }

    /// One write of a short line: concurrent processes do not mix theirs.
    fn append(list: &OsString, name: &str) -> io::Result<()> {
        OpenOptions::new().append(true).create(true).open(list)?.write_all(format!("{name}\n").as_bytes())
    }

    fn is_first() -> bool {
        variable(ONCE).is_none_or(|file| OpenOptions::new().write(true).create_new(true).open(file).is_ok())
    }

    #[expect(clippy::disallowed_methods, reason = "these are for tests and no part of the configuration")]
    fn variable(name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
