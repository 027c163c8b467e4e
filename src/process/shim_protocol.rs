//! Orders to the shim: from the daemon through its stdin, from the system through signals.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{Job, ProcessError};
use crate::work::Ended;

/// Maximum size of a job, which is arguments and an environment: the system accepts no larger ones.
const MAX_JOB: usize = 8 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Stop,
    /// The daemon cannot wait for long.
    Hurry,
    DaemonGone,
}

impl Order {
    pub(super) fn ended(self) -> Ended {
        match self {
            Self::Stop | Self::Hurry => Ended::Stopped,
            Self::DaemonGone => Ended::DaemonGone,
        }
    }
}

/// The pipe from the daemon.
pub(super) struct Orders {
    /// `None` once the daemon is gone.
    pipe: Option<pipe::Receiver>,
    read: Vec<u8>,
}

impl Orders {
    pub(super) fn open() -> io::Result<Self> {
        let stdin = rustix::stdio::stdin().try_clone_to_owned()?;
        Ok(Self {
            pipe: Some(pipe::Receiver::from_owned_fd(stdin)?),
            read: Vec::new(),
        })
    }

    /// Reads the first line; `None` if the daemon died before it was written.
    pub(super) async fn job(&mut self) -> Result<Option<Job>, ProcessError> {
        loop {
            if let Some(line) = self.line() {
                return serde_json::from_slice(&line)
                    .map(Some)
                    .map_err(ProcessError::Job);
            }
            if self.read.len() > MAX_JOB {
                return Err(ProcessError::System {
                    action: "accept a job of this size",
                    source: io::ErrorKind::FileTooLarge.into(),
                });
            }
            if !self.fill().await {
                return Ok(None);
            }
        }
    }

    /// Returns an order that has already arrived, without waiting.
    pub(super) async fn waiting(&mut self) -> Option<Order> {
        let Some(pipe) = &self.pipe else {
            return Some(Order::DaemonGone);
        };
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let is_silent =
            rustix::event::poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&now)) == Ok(0);
        if self.read.is_empty() && is_silent {
            None
        } else {
            Some(self.next().await)
        }
    }

    /// Waits for the next order. The end of the daemon is reported once.
    pub(super) async fn next(&mut self) -> Order {
        loop {
            while let Some(line) = self.line() {
                match line.as_slice() {
                    b"stop" => return Order::Stop,
                    b"hurry" => return Order::Hurry,
                    _ => {}
                }
            }
            if self.pipe.is_none() {
                std::future::pending::<()>().await;
            }
            if !self.fill().await {
                return Order::DaemonGone;
            }
        }
    }

    fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.read.iter().position(|byte| *byte == b'\n')?;
        let rest = self.read.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.read, rest);
        line.pop();
        Some(line)
    }

    /// Reads available bytes; `false` at the end. A broken pipe has no daemon at its other end
    /// either.
    async fn fill(&mut self) -> bool {
        let Some(pipe) = &mut self.pipe else {
            return false;
        };
        match pipe.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => {
                self.pipe = None;
                false
            }
            Ok(_) => true,
        }
    }
}

pub(super) struct Signals {
    child: Signal,
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until a child ends or a signal asks for the run to stop.
    pub(super) async fn next(&mut self) -> Option<Order> {
        tokio::select! {
            _ = self.child.recv() => None,
            _ = self.terminate.recv() => Some(Order::Stop),
            _ = self.interrupt.recv() => Some(Order::Stop),
            _ = self.hangup.recv() => Some(Order::Stop),
        }
    }
}
