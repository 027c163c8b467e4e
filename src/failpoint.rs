//! Named lines at which a test can kill the program. Without the feature `failpoints` none of this
//! is compiled, and no decision may ever depend on it.
//!
//! - `REMAND_CRASH_AT=name` kills a process when it crosses `name` for the first time, `name#3` for
//!   the third time. Several names are separated by commas.
//! - `REMAND_CRASH_ONCE=file` kills only the process that can create that file (`file.1` for the
//!   second name, and so on): once across all processes and restarts. Crossings are counted across
//!   all of them too, since for example the third shim is a different process from the first.
//! - `REMAND_CRASH_LIST=file` receives a line for each crossing.
//! - `REMAND_CLOCK=file` contains the milliseconds that the clock is ahead, or behind if negative.
//!   It is read whenever the clock is read, so that a test can move the clock of a running program.
//! - `REMAND_SCRAMBLE_PROSE=1` makes the blackboard store random words in place of sentences.

#[cfg(all(feature = "failpoints", not(debug_assertions)))]
compile_error!("the feature `failpoints` is for tests: it must not be in a release build");

#[cfg(feature = "failpoints")]
macro_rules! crash_point {
    ($($name:tt)+) => {
        $crate::failpoint::cross(&format!($($name)+))
    };
}

#[cfg(not(feature = "failpoints"))]
macro_rules! crash_point {
    // Type-checked like the other variant, so that a name with a variable compiles in both; never
    // evaluated.
    ($($name:tt)+) => {
        if false {
            drop(format!($($name)+));
        }
    };
}

pub(crate) use crash_point;

#[cfg(feature = "failpoints")]
pub(crate) use armed::{clock_offset_ms, cross, scrambles_prose, variables};

/// Returns the milliseconds by which a test has moved the clock.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn clock_offset_ms() -> i64 {
    0
}

/// Returns the variables that a child process of remand needs to crash as well. Agents never get
/// them.
#[cfg(not(feature = "failpoints"))]
pub(crate) fn variables() -> Vec<(&'static str, std::ffi::OsString)> {
    Vec::new()
}

#[cfg(feature = "failpoints")]
mod armed {
    use std::ffi::OsString;
    use std::fs::OpenOptions;
    use std::io::{self, Seek as _, Write as _};
    use std::sync::atomic::{AtomicU64, Ordering};

    const AT: &str = "REMAND_CRASH_AT";
    const ONCE: &str = "REMAND_CRASH_ONCE";
    const LIST: &str = "REMAND_CRASH_LIST";
    const CLOCK: &str = "REMAND_CLOCK";
    const SCRAMBLE_PROSE: &str = "REMAND_SCRAMBLE_PROSE";

    /// Number of crossings of the armed name in this process. If several names are armed, only
    /// `ONCE` counts crossings.
    static CROSSED: AtomicU64 = AtomicU64::new(0);

    pub(crate) fn cross(name: &str) {
        if let Some(list) = variable(LIST)
            && let Err(error) = append(&list, name)
        {
            tracing::error!(name, %error, "cannot list the crossing of a crash point");
        }
        let Some(at) = variable(AT) else { return };
        for (number, at) in at.to_string_lossy().split(',').enumerate() {
            let (armed, nth) = at
                .split_once('#')
                .map_or((at, Ok(1)), |(armed, nth)| (armed, nth.parse::<u64>()));
            if armed == name && Ok(crossings(number)) == nth && is_first(number) {
                die(name);
            }
        }
    }

    fn die(name: &str) {
        if let Err(error) =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        {
            tracing::error!(name, %error, "cannot kill this process at a crash point");
        }
        std::process::abort();
    }

    /// Returns the milliseconds by which a test has moved the clock.
    pub(crate) fn clock_offset_ms() -> i64 {
        let text = variable(CLOCK).and_then(|file| std::fs::read_to_string(file).ok());
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    /// True if sentences are stored as random words.
    pub(crate) fn scrambles_prose() -> bool {
        variable(SCRAMBLE_PROSE).is_some()
    }

    pub(crate) fn variables() -> Vec<(&'static str, OsString)> {
        [AT, ONCE, LIST, CLOCK]
            .into_iter()
            .filter_map(|name| variable(name).map(|value| (name, value)))
            .collect()
    }

    /// Appends a short line in one write, so that lines of concurrent processes do not mix.
    fn append(list: &OsString, name: &str) -> io::Result<()> {
        OpenOptions::new()
            .append(true)
            .create(true)
            .open(list)?
            .write_all(format!("{name}\n").as_bytes())
    }

    /// Returns the number of crossings of the armed name, including this one.
    fn crossings(number: usize) -> u64 {
        let here = CROSSED.fetch_add(1, Ordering::SeqCst) + 1;
        let Some(mut file) = once(number) else {
            return here;
        };
        file.push(".count");
        // Each crossing appends a byte, and the resulting offset is its number: no two get the
        // same.
        let count = || {
            let mut file = OpenOptions::new().append(true).create(true).open(&file)?;
            file.write_all(b".")?;
            file.stream_position()
        };
        count().unwrap_or_else(|error: io::Error| {
            tracing::error!(%error, "cannot count the crossings of a crash point");
            here
        })
    }

    fn is_first(number: usize) -> bool {
        once(number).is_none_or(|file| {
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(file)
                .is_ok()
        })
    }

    fn once(number: usize) -> Option<OsString> {
        let mut file = variable(ONCE)?;
        if number > 0 {
            file.push(format!(".{number}"));
        }
        Some(file)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "for tests only, not part of the configuration"
    )]
    fn variable(name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
}
