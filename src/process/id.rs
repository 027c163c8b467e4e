//! Unambiguous process identity: a pid alone is reused after a while.

use std::fmt;
use std::str::FromStr;

use super::children::own;
use super::error::ProcessError;
use super::table;

/// Process, identified by boot id, pid and start time. Written `boot:pid:start`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessId {
    pub(crate) boot_id: String,
    pub(crate) pid: i32,
    /// Start time in the system's unit; only compared, never interpreted as a time.
    pub(crate) start_time: u64,
}

impl ProcessId {
    pub(crate) fn own() -> Result<Self, ProcessError> {
        Self::of(own())
    }

    pub(super) fn of(pid: i32) -> Result<Self, ProcessError> {
        let entry = table::look(pid)
            .map_err(ProcessError::system("inspect a process"))?
            .ok_or_else(|| ProcessError::System {
                action: "find an expected process",
                source: rustix::io::Errno::SRCH.into(),
            })?;
        Ok(Self {
            boot_id: boot_id()?,
            pid,
            start_time: entry.start_time,
        })
    }

    /// Returns true if the process is running. A zombie is not.
    pub(crate) fn is_alive(&self) -> Result<bool, ProcessError> {
        if self.boot_id != boot_id()? {
            return Ok(false);
        }
        let entry = table::look(self.pid).map_err(ProcessError::system("inspect a process"))?;
        Ok(entry.is_some_and(|e| e.start_time == self.start_time && !e.is_dead))
    }

    /// Returns true if the process was started since this kernel booted, so that its pid is
    /// meaningful.
    pub(super) fn is_of_this_boot(&self) -> Result<bool, ProcessError> {
        Ok(self.boot_id == boot_id()?)
    }
}

fn boot_id() -> Result<String, ProcessError> {
    table::boot_id().map_err(ProcessError::system("read the boot id"))
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.boot_id, self.pid, self.start_time)
    }
}

impl FromStr for ProcessId {
    type Err = ProcessError;

    fn from_str(text: &str) -> Result<Self, ProcessError> {
        let read = || {
            let [boot_id, pid, start] = text.split(':').collect::<Vec<_>>()[..] else {
                return None;
            };
            Some(Self {
                boot_id: Some(boot_id.to_owned()).filter(|id| !id.is_empty())?,
                pid: pid.parse().ok().filter(|pid| *pid > 0)?,
                start_time: start.parse().ok()?,
            })
        };
        read().ok_or_else(|| ProcessError::BadProcessId {
            text: text.chars().take(80).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let own = ProcessId::own().unwrap();
        assert_eq!(own.to_string().parse::<ProcessId>().unwrap(), own);
        for bad in ["", "b:1", "b:0:1", "b:-1:1", "b:1:1:1", ":1:1", "b:x:1"] {
            assert!(bad.parse::<ProcessId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn another_boot_or_start_is_another_process() {
        let own = ProcessId::own().unwrap();
        assert!(own.is_alive().unwrap());
        assert!(
            !ProcessId {
                start_time: own.start_time + 1,
                ..own.clone()
            }
            .is_alive()
            .unwrap()
        );
        assert!(
            !ProcessId {
                boot_id: "another".to_owned(),
                ..own
            }
            .is_alive()
            .unwrap()
        );
    }
}
