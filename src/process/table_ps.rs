//! Process table for systems without `/proc`, from the output of `ps`.
//!
//! There is no subreaper either, so an orphan that left its group is found only by its mark, and
//! one that also cleared its environment is not found.

use std::ffi::OsStr;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::process::Stdio;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::Entry;
use crate::process::command::command;

pub(in crate::process) const ORPHANS_COME_TO_US: bool = false;

pub(in crate::process) fn become_reaper() -> io::Result<()> {
    Ok(())
}

/// Does nothing: a process that is neither root nor an authorized debugger cannot read memory, and
/// the environment is open to all processes of the same user.
pub(in crate::process) fn close_to_others() -> io::Result<()> {
    Ok(())
}

pub(in crate::process) fn boot_id() -> io::Result<String> {
    Ok(print("/usr/sbin/sysctl", &["-n", "kern.bootsessionuuid"])?
        .1
        .trim()
        .to_owned())
}

pub(in crate::process) fn scan() -> io::Result<Vec<Entry>> {
    let (ps, lines) = print("/bin/ps", &["-A", "-o", COLUMNS])?;
    Ok(lines
        .lines()
        .filter_map(parse_line)
        .filter(|entry| entry.pid.cast_unsigned() != ps)
        .collect())
}

pub(in crate::process) fn look(pid: i32) -> io::Result<Option<Entry>> {
    Ok(print("/bin/ps", &["-p", &pid.to_string(), "-o", COLUMNS])?
        .1
        .lines()
        .find_map(parse_line))
}

/// Returns true if a process carries the mark, which may contain spaces, as a path may.
pub(in crate::process) fn carries(pid: i32, mark: &OsStr) -> bool {
    let mark = format!(" {} ", mark.to_string_lossy());
    print(
        "/bin/ps",
        &["-E", "-ww", "-p", &pid.to_string(), "-o", "command="],
    )
    .is_ok_and(|(_, line)| format!(" {} ", line.trim_end()).contains(&mark))
}

/// Returns the rest of the environment entry that starts with this prefix of a `NAME=value`, up to
/// the next space.
pub(in crate::process) fn mark_that_begins(pid: i32, begins: &str) -> Option<String> {
    let (_, line) = print(
        "/bin/ps",
        &["-E", "-ww", "-p", &pid.to_string(), "-o", "command="],
    )
    .ok()?;
    let (_, rest) = line.split_once(&format!(" {begins}"))?;
    rest.split_ascii_whitespace().next().map(str::to_owned)
}

/// Sends a signal. Between the snapshot and the signal the pid could be reused; there is no
/// descriptor to hold it.
pub(in crate::process) fn signal(to: &Entry, signal: Signal) -> io::Result<()> {
    let Some(pid) = Pid::from_raw(to.pid) else {
        return Ok(());
    };
    if look(to.pid)?.is_none_or(|now| now.key() != to.key()) {
        return Ok(());
    }
    match rustix::process::kill_process(pid, signal) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

const COLUMNS: &str = "pid=,ppid=,pgid=,stat=,lstart=";

/// Parses `  501   1   501 Ss   Mon Sep 28 12:34:56 2026`. There is no column for the session: the
/// group is used instead.
fn parse_line(line: &str) -> Option<Entry> {
    let mut words = line.split_ascii_whitespace();
    let pid = words.next()?.parse().ok()?;
    let parent = words.next()?.parse().ok()?;
    let group = words.next()?.parse().ok()?;
    let is_dead = words.next()?.starts_with('Z');
    let started = words.collect::<Vec<_>>().join(" ");
    let started = chrono::NaiveDateTime::parse_from_str(&started, "%a %b %e %H:%M:%S %Y").ok()?;
    let start_time = u64::try_from(started.and_utc().timestamp()).ok()?;
    Some(Entry {
        pid,
        parent,
        group,
        session: group,
        start_time,
        is_dead,
    })
}

/// Returns the output of a program and its pid, since it appears in the table itself.
fn print(program: &str, args: &[&str]) -> io::Result<(u32, String)> {
    let child = command(Path::new(program))
        .args(args)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let pid = child.id();
    let text = String::from_utf8(child.wait_with_output()?.stdout);
    Ok((
        pid,
        text.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_ps() {
        let entry = parse_line("  501   1   500 Ss   Mon Sep 28 12:34:56 2026   ").unwrap();
        assert_eq!(
            (entry.pid, entry.parent, entry.group, entry.is_dead),
            (501, 1, 500, false)
        );
        assert_eq!(entry.start_time, 1_790_598_896);
        assert!(
            parse_line("1 0 1 Z+ Mon Sep  7 02:04:06 2026")
                .unwrap()
                .is_dead
        );
        assert_eq!(parse_line("PID PPID"), None);
    }
}
