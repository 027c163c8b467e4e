//! Terminates everything below the shim: SIGTERM to each process once, SIGKILL to all of them after
//! the grace period, repeatedly until nothing is left.
//!
//! A process that forks on SIGTERM only makes more work and does not escape. After an agent that
//! ended by itself, processes that are already ending are waited for first: a wrapper's inner
//! process ends after the wrapper.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::time::Instant;

use super::children::own;
use super::table::{self, Entry, Key};

/// Delay between two snapshots of the process table.
const PAUSE: Duration = Duration::from_millis(25);
/// Time after which a process that survived SIGKILL is another user's or stuck in the kernel:
/// waiting longer would not help.
const GIVE_UP: Duration = Duration::from_secs(30);

pub(super) struct Ending {
    /// Not sent SIGTERM: it would exit immediately and take the process that it wraps with it.
    spared: Option<Pid>,
    /// Nobody is signalled or counted before this time.
    ask_at: Instant,
    kill_at: Instant,
    next_pass: Instant,
    signalled: BTreeSet<Key>,
    groups: BTreeSet<i32>,
    leftovers: BTreeSet<Key>,
    alive: Option<usize>,
}

/// State of the agent, a direct child: running, or known to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Agent {
    Alive,
    Gone,
}

impl Ending {
    /// Starts terminating after `wait` from now.
    pub(super) fn begin(
        now: Instant,
        wait: Duration,
        grace: Duration,
        spared: Option<Pid>,
    ) -> Self {
        let ask_at = later(now, wait);
        Self {
            spared,
            ask_at,
            kill_at: later(ask_at, grace),
            next_pass: now,
            signalled: BTreeSet::new(),
            groups: BTreeSet::new(),
            leftovers: BTreeSet::new(),
            alive: None,
        }
    }

    /// Shortens the grace period.
    pub(super) fn hasten(&mut self, now: Instant, grace: Duration) {
        self.ask_at = self.ask_at.min(now);
        self.kill_at = self.kill_at.min(later(now, grace));
        self.next_pass = now;
    }

    pub(super) fn next_pass(&self) -> Instant {
        self.next_pass
    }

    pub(super) fn leftovers(&self) -> u32 {
        count(self.leftovers.len())
    }

    /// Returns the number of processes that could not be terminated, once nothing more can be done.
    ///
    /// Where orphans are adopted, a process without children has no descendants; elsewhere the last
    /// snapshot must agree.
    pub(super) fn survivors(&self, now: Instant, children: Children) -> Option<u32> {
        if children == Children::None && (table::ORPHANS_COME_TO_US || self.alive == Some(0)) {
            return Some(0);
        }
        (now >= later(self.kill_at, GIVE_UP)).then(|| count(self.alive.unwrap_or(0)))
    }

    /// Signals all remaining processes. A failed snapshot proves nothing: the next one is due soon.
    pub(super) fn pass(&mut self, now: Instant, agent: Agent) {
        self.next_pass = now + PAUSE;
        let Ok(entries) = table::scan() else { return };
        let own = own();
        let mut found = table::descendants(&entries, [own]);
        if !table::ORPHANS_COME_TO_US {
            found.extend(entries.iter().filter(|e| self.groups.contains(&e.group)));
        }
        found.retain(|entry| !entry.is_dead);
        self.groups.extend(groups(&found, own));
        self.alive = Some(found.iter().map(Entry::key).collect::<BTreeSet<_>>().len());
        if now < self.ask_at {
            return;
        }
        if now >= self.kill_at {
            kill(&found, own);
        } else {
            let spared = self.spared.map(|pid| pid.as_raw_nonzero().get());
            for entry in found.iter().filter(|entry| Some(entry.pid) != spared) {
                if !self.signalled.contains(&entry.key()) {
                    ask(entry);
                }
            }
        }
        self.signalled.extend(found.iter().map(Entry::key));
        if agent == Agent::Gone {
            self.leftovers.extend(found.iter().map(Entry::key));
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Children {
    None,
    Some,
}

/// Reaps every child that ended, including adopted ones, and returns how `agent` ended.
pub(super) fn reap(agent: Pid) -> (Option<WaitStatus>, Children) {
    let mut ended = None;
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) if pid == agent => ended = Some(status),
            Ok(Some(_)) => {}
            Ok(None) => return (ended, Children::Some),
            Err(rustix::io::Errno::CHILD) => return (ended, Children::None),
            // Interrupted; no other error is possible with these arguments.
            Err(_) => {}
        }
    }
}

/// Sends SIGTERM and SIGCONT: a stopped process must be resumed to receive it.
pub(super) fn ask(entry: &Entry) {
    for signal in [Signal::TERM, Signal::CONT] {
        // A process that could not be signalled appears in the next pass.
        table::signal(entry, signal).ok();
    }
}

/// Kills by group first: the kernel does that atomically, so that no member can fork out of it.
fn kill(found: &[Entry], own: i32) {
    let groups: BTreeSet<i32> = groups(found, own).collect();
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        // Its members follow one by one.
        rustix::process::kill_process_group(group, Signal::KILL).ok();
    }
    for entry in found {
        // A process that could not be killed appears in the next pass.
        table::signal(entry, Signal::KILL).ok();
    }
}

/// Returns the groups of processes except that of the shim.
fn groups(found: &[Entry], own: i32) -> impl Iterator<Item = i32> {
    let groups = found.iter().map(|entry| entry.group);
    groups.filter(move |group| *group != own)
}

pub(super) fn later(now: Instant, wait: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(365 * 24 * 3600);
    now + wait.min(FAR)
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
