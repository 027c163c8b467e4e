//! Other settings without another daemon: read and checked as a whole, or refused as a whole.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::Daemon;
use crate::blackboard as bb;
use crate::change::ChangeId;
use crate::clock;
use crate::config::Loaded;
use crate::event::{EventType, NewEvent, TargetType};

/// Why it does not go on as before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hangup {
    /// Nothing was hung up: it is told to stop.
    Stop,
    /// The terminal that it was started in is gone, and with it whoever could stop it there.
    Terminal,
    Reload,
}

pub(super) struct Hangups {
    signals: Signal,
    had_terminal: bool,
}

impl Hangups {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let signals = signal(SignalKind::hangup()).context("SIGHUP can't be listened for")?;
        Ok(Self { signals, had_terminal: std::io::stdin().is_terminal() })
    }

    pub(super) async fn next(&mut self, stop: &CancellationToken) -> Hangup {
        tokio::select! {
            biased;
            () = stop.cancelled() => Hangup::Stop,
            _ = self.signals.recv() => {
                // One that was hung up is none any more.
                if self.had_terminal && !std::io::stdin().is_terminal() { Hangup::Terminal } else { Hangup::Reload }
            }
        }
    }
}

/// The daemon and the settings that it goes by from now on; none when they are refused. Either is told.
pub(super) async fn reload(
    daemon: &Daemon,
    old: &Loaded,
    load: &dyn Fn() -> anyhow::Result<Loaded>,
    words: fn(&anyhow::Error) -> String,
) -> Option<(Daemon, Loaded)> {
    let assembled = load().and_then(|mut new| {
        is_still_there(old, &new)?;
        let kept = kept(old, &new);
        new.blackboard.clone_from(&old.blackboard);
        Ok((daemon.again(&new)?, new, kept))
    });
    match assembled {
        Ok((next, new, kept)) => {
            let config = new.file.as_ref().map(|file| file.display().to_string());
            tracing::info!(config = ?config, kept = ?kept, "goes by the settings as they are now");
            let unless =
                if kept.is_empty() { String::new() } else { format!("; only a restart changes {}", kept.join(", ")) };
            let event = about(EventType::Reloaded, format!("goes by the settings as they are now{unless}"));
            tell(daemon, event.with(json!({ "config": config, "kept": kept }))).await;
            if let Err(why) = next.dispatch.settings.sandbox.way().await {
                tracing::warn!("nothing will run without its sandbox: {why}");
            }
            Some((next, new))
        }
        Err(error) => {
            let reason = words(&error);
            tracing::error!("the settings as they are now are refused, the old ones hold:\n{reason}");
            let first = reason.lines().next().unwrap_or_default();
            let event = about(EventType::Skipped, format!("settings refused, the old ones hold: {first}"));
            tell(daemon, event.with(json!({ "reason": reason }))).await;
            None
        }
    }
}

/// A file that is gone is no wish for the defaults, by which no agent, no gate and no forbidden path would be left.
fn is_still_there(old: &Loaded, new: &Loaded) -> anyhow::Result<()> {
    match (&old.file, &new.file) {
        (Some(file), None) => anyhow::bail!(
            "{} is gone: put it back, or restart the daemon if it is to go by the defaults",
            file.display()
        ),
        (Some(_) | None, Some(_)) | (None, None) => Ok(()),
    }
}

/// What differs and can't be changed while it runs.
fn kept(old: &Loaded, new: &Loaded) -> Vec<&'static str> {
    let differs = [
        ("blackboard", old.blackboard != new.blackboard),
        ("log", old.config.log != new.config.log),
        ("heartbeat.look_s", old.config.heartbeat.look_s != new.config.heartbeat.look_s),
    ];
    differs.into_iter().filter_map(|(key, differs)| differs.then_some(key)).collect()
}

fn about(event_type: EventType, summary: String) -> NewEvent {
    let mut event =
        NewEvent::about(&ChangeId::new(""), event_type, summary).on(TargetType::Blackboard, "configuration");
    event.change_id = None;
    event
}

async fn tell(daemon: &Daemon, event: NewEvent) {
    let told = daemon.door().write("reloaded", move |conn| bb::append(conn, &event, clock::now())).await;
    if let Err(error) = told {
        tracing::error!(error = ?error, "that could not be written down");
    }
}
