//! Process table of Linux, from `/proc`.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, Signal};

use super::Entry;

/// A descendant whose parent died becomes a child of the shim.
pub(in crate::process) const ORPHANS_COME_TO_US: bool = true;

/// Makes orphaned descendants children of this process.
pub(in crate::process) fn become_reaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// Restricts this process's `/proc` entries to root, except those open to everyone (`stat`,
/// `status`).
///
/// This also keeps an agent from holding a shim's descriptors open through `/proc`, which would
/// keep the daemon's end of the pipe alive.
pub(in crate::process) fn close_to_others() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        DumpableBehavior::NotDumpable,
    )?)
}

pub(in crate::process) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

pub(in crate::process) fn scan() -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for dir in fs::read_dir("/proc")? {
        let Some(pid) = dir?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        entries.extend(look(pid)?);
    }
    Ok(entries)
}

pub(in crate::process) fn look(pid: i32) -> io::Result<Option<Entry>> {
    match fs::read(format!("/proc/{pid}/stat")) {
        Ok(stat) => parse_stat(&stat)
            .map(Some)
            .ok_or_else(|| io::Error::from(ErrorKind::InvalidData)),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns true if the process was started with `mark` (`NAME=value`) in its environment. A process
/// whose environment is not readable does not belong to remand.
pub(in crate::process) fn carries(pid: i32, mark: &OsStr) -> bool {
    fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|env| env.split(|b| *b == 0).any(|v| v == mark.as_bytes()))
}

/// Returns the rest of the environment entry that starts with this prefix of a `NAME=value`.
pub(in crate::process) fn mark_that_begins(pid: i32, begins: &str) -> Option<String> {
    let env = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let rest = env
        .split(|b| *b == 0)
        .find_map(|value| value.strip_prefix(begins.as_bytes()))?;
    String::from_utf8(rest.to_vec()).ok()
}

/// Sends a signal to the process that was seen, never to one that has reused its pid.
pub(in crate::process) fn signal(to: &Entry, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(to.pid) else {
        return Ok(());
    };
    let sent = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        // The descriptor refers to the process that has the pid now; the start time shows whether
        // it is the right one.
        Ok(held) => match look(to.pid)? {
            Some(now) if now.key() == to.key() => rustix::process::pidfd_send_signal(held, signal),
            Some(_) | None => Ok(()),
        },
        Err(Errno::NOSYS) => match look(to.pid)? {
            Some(now) if now.key() == to.key() => rustix::process::kill_process(pid, signal),
            Some(_) | None => Ok(()),
        },
        Err(error) => Err(error),
    };
    match sent {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Parses `/proc/PID/stat`: the name in parentheses may contain anything, so fields are counted
/// from the last `)`.
fn parse_stat(stat: &[u8]) -> Option<Entry> {
    let open = stat.iter().position(|b| *b == b'(')?;
    let close = stat.iter().rposition(|b| *b == b')')?;
    let pid = str::from_utf8(stat.get(..open)?)
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let fields: Vec<&str> = str::from_utf8(stat.get(close + 1..)?)
        .ok()?
        .split_ascii_whitespace()
        .collect();
    let field = |nth: usize| fields.get(nth - 3).copied();
    let threads: u32 = field(20)?.parse().ok()?;
    Some(Entry {
        pid,
        parent: field(4)?.parse().ok()?,
        group: field(5)?.parse().ok()?,
        session: field(6)?.parse().ok()?,
        start_time: field(22)?.parse().ok()?,
        // A process whose first thread ended appears as a zombie while its other threads continue.
        is_dead: matches!(field(3)?, "Z" | "X" | "x") && threads <= 1,
    })
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_hold_parentheses_spaces_and_any_byte() {
        let stat =
            b"77 (a) S (\xff 1 2) S 3 4 5 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3\n";
        let expected = Entry {
            pid: 77,
            parent: 3,
            group: 4,
            session: 5,
            start_time: 987_654,
            is_dead: false,
        };
        assert_eq!(parse_stat(stat), Some(expected));
    }

    #[test]
    fn a_zombie_with_threads_is_alive() {
        let stat = |state: &str, threads: u32| {
            parse_stat(
                format!("7 (x) {state} 3 4 5 0 -1 0 1 2 3 4 5 6 7 8 20 0 {threads} 0 9 1")
                    .as_bytes(),
            )
            .unwrap()
        };
        assert!(stat("Z", 1).is_dead);
        assert!(!stat("Z", 2).is_dead);
        assert!(!stat("T", 1).is_dead);
    }

    #[test]
    fn garbage_is_no_process() {
        for stat in ["", "7", "7 (x", "7 (x) S", "x (x) S 1 2 3"] {
            assert_eq!(parse_stat(stat.as_bytes()), None, "{stat}");
        }
    }
}
