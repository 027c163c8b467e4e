//! Watches an agent until it and all processes that it left behind are gone.
//!
//! Nothing here may return early or wait for another party: processes would remain that nobody
//! watches, or an agent would block on a full pipe.

use std::fs::File;
use std::io::Read as _;
use std::time::Duration;

use rustix::process::{Pid, WaitStatus};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use super::output::{Keeper, Stream};
use super::shim_protocol::{Order, Orders, Signals};
use super::terminate::{Agent, Children, Ending, later, reap};
use super::{Exit, Job, Limits};
use crate::failpoint::crash_point;
use crate::work::Ended;

/// Maximum grace for leftovers of an agent, or for an agent whose daemon is gone: nobody waits for
/// it.
const SHORT_GRACE: Duration = Duration::from_secs(1);
/// Time for processes to end by themselves after the agent did: one that is gone by then was not
/// left behind.
const TIME_TO_END: Duration = Duration::from_millis(500);
/// Status with which a wrapper reports that its command was killed.
const WRAPPED_KILL: i32 = 128 + 9;
/// Time to read the rest of the pipes once nobody writes to them any more.
const LAST_READ: Duration = Duration::from_secs(1);

pub(super) struct Child {
    pub(super) pid: Pid,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
}

pub(super) async fn watch(
    job: &Job,
    child: Child,
    orders: &mut Orders,
    signals: &mut Signals,
) -> Exit {
    let mut run = Watched::new(child.pid, job.limits, job.is_wrapped);
    let mut stdout = Drain::new(child.stdout, Keeper::new(&job.dir, Stream::Stdout));
    let mut stderr = Drain::new(child.stderr, Keeper::new(&job.dir, Stream::Stderr));
    let survivors = loop {
        let due = match run.look(Instant::now()) {
            Observation::Again(due) => due,
            Observation::Over { survivors } => break survivors,
        };
        tokio::select! {
            () = stdout.next() => run.heard = Instant::now(),
            () = stderr.next() => run.heard = Instant::now(),
            order = orders.next() => run.obey(order, Instant::now()),
            order = signals.next() => if let Some(order) = order { run.obey(order, Instant::now()) },
            () = tokio::time::sleep_until(due) => {}
        }
    };
    crash_point!("shim_after_ending");
    run.exit(&stdout.finish(), &stderr.finish(), survivors)
}

/// Agent, and since when and why it is being terminated.
struct Watched {
    agent: Pid,
    is_wrapped: bool,
    limits: Limits,
    started: Instant,
    heard: Instant,
    status: Option<WaitStatus>,
    ending: Option<(Ended, Ending)>,
}

enum Observation {
    Again(Instant),
    Over { survivors: u32 },
}

impl Watched {
    fn new(agent: Pid, limits: Limits, is_wrapped: bool) -> Self {
        let started = Instant::now();
        Self {
            agent,
            is_wrapped,
            limits,
            started,
            heard: started,
            status: None,
            ending: None,
        }
    }

    /// Reaps ended processes, terminates those that must end, and returns when to check again.
    fn look(&mut self, now: Instant) -> Observation {
        let (status, children) = reap(self.agent);
        if let Some(status) = status {
            crash_point!("shim_agent_exited");
            self.status = Some(status);
            let why = if self.was_killed(status) {
                Ended::Lost
            } else {
                Ended::Agent
            };
            self.end(why, SHORT_GRACE, now);
        }
        let (total, idle) = (
            later(self.started, self.limits.total),
            later(self.heard, self.limits.idle),
        );
        if self.ending.is_none() && now >= total.min(idle) {
            let why = if now >= total {
                Ended::TotalLimit
            } else {
                Ended::IdleLimit
            };
            self.end(why, self.limits.grace, now);
        }
        match &mut self.ending {
            None => Observation::Again(total.min(idle)),
            Some((_, ending)) => pass(ending, now, self.status, children),
        }
    }

    /// Returns true if the agent was killed by another process or the kernel. For a wrapped agent
    /// this is known from the wrapper's status.
    fn was_killed(&self, status: WaitStatus) -> bool {
        status.signaled() || (self.is_wrapped && status.exit_status() == Some(WRAPPED_KILL))
    }

    fn obey(&mut self, order: Order, now: Instant) {
        let grace = match order {
            Order::Stop => self.limits.grace,
            Order::Hurry | Order::DaemonGone => SHORT_GRACE,
        };
        self.end(order.ended(), grace, now);
    }

    /// Starts termination. The first reason is kept; a later one can only shorten the grace period.
    fn end(&mut self, why: Ended, grace: Duration, now: Instant) {
        let grace = grace.min(self.limits.grace);
        if let Some((_, ending)) = &mut self.ending {
            ending.hasten(now, grace);
        } else {
            crash_point!("shim_before_ending");
            let spared = self.is_wrapped.then_some(self.agent);
            let wait = if self.status.is_some() {
                TIME_TO_END
            } else {
                Duration::ZERO
            };
            self.ending = Some((why, Ending::begin(now, wait, grace, spared)));
        }
    }

    fn exit(&self, stdout: &Keeper, stderr: &Keeper, survivors: u32) -> Exit {
        let trouble = stdout.trouble().or(stderr.trouble());
        Exit {
            ended: self.ending.as_ref().map_or(Ended::Lost, |(why, _)| *why),
            status: self.status.and_then(WaitStatus::exit_status),
            signal: self.status.and_then(WaitStatus::terminating_signal),
            stdout_bytes: stdout.seen(),
            stderr_bytes: stderr.seen(),
            leftovers: self
                .ending
                .as_ref()
                .map_or(0, |(_, ending)| ending.leftovers()),
            survivors,
            elapsed_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            detail: trouble.map(|error| format!("the output could not be saved: {error}")),
        }
    }
}

fn pass(
    ending: &mut Ending,
    now: Instant,
    agent: Option<WaitStatus>,
    children: Children,
) -> Observation {
    if let Some(survivors) = ending.survivors(now, children) {
        return Observation::Over { survivors };
    }
    if now >= ending.next_pass() {
        ending.pass(
            now,
            if agent.is_some() {
                Agent::Gone
            } else {
                Agent::Alive
            },
        );
    }
    Observation::Again(ending.next_pass())
}

/// One stream of the agent, read as fast as it arrives.
struct Drain {
    /// `None` once it is closed.
    pipe: Option<pipe::Receiver>,
    keeper: Keeper,
    buffer: Vec<u8>,
}

impl Drain {
    fn new(pipe: pipe::Receiver, keeper: Keeper) -> Self {
        Self {
            pipe: Some(pipe),
            keeper,
            buffer: vec![0; 64 * 1024],
        }
    }

    /// Reads the next bytes; waits forever if there will be none.
    async fn next(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return std::future::pending().await;
        };
        match pipe.read(&mut self.buffer).await {
            Ok(n) if n > 0 => self.keeper.take(self.buffer.get(..n).unwrap_or_default()),
            Ok(_) | Err(_) => self.pipe = None,
        }
    }

    /// Reads what is already in the pipe. Does not wait for its end: a process out of reach may
    /// hold it open.
    fn finish(mut self) -> Keeper {
        let until = Instant::now() + LAST_READ;
        let mut rest = self
            .pipe
            .take()
            .and_then(|pipe| pipe.into_nonblocking_fd().ok())
            .map(File::from);
        while let Some(pipe) = &mut rest
            && Instant::now() < until
        {
            match pipe.read(&mut self.buffer) {
                Ok(n) if n > 0 => self.keeper.take(self.buffer.get(..n).unwrap_or_default()),
                Ok(_) | Err(_) => rest = None,
            }
        }
        self.keeper
    }
}
