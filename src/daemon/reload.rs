//! Reloads the settings without a restart: they are read and checked as a whole, and applied or
//! refused as a whole.

use std::io::IsTerminal as _;
use std::time::Duration;

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::{Daemon, Files};
use crate::blackboard::{self as bb, Changed, ChangedKind};
use crate::clock;
use crate::closed_enum::closed_enum;
use crate::config::explain::differences;
use crate::config::{self, Loaded};
use crate::event::NewEvent;
use crate::event::body::{self, ChangedSetting};
use crate::sanitize::cap;
use crate::text::{joined, prefixed};

/// Interval between checks of the files, and the time for which their content must be stable.
pub(super) const LOOK: Duration = Duration::from_secs(2);

/// Maximum number of characters of a setting's value in an event.
const VALUE_CAP: usize = 300;

/// Reason why the daemon's wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Stop,
    /// The terminal that it was started in is gone, and with it the means to stop it there.
    Terminal,
    /// SIGHUP.
    Hangup,
    /// Somebody wrote to the blackboard: perhaps a reload request.
    Wake,
    /// It is time to check the files.
    Look,
}

pub(super) struct Calls {
    hangups: Signal,
    had_terminal: bool,
    looks: tokio::time::Interval,
}

impl Calls {
    pub(super) fn listen() -> anyhow::Result<Self> {
        let hangups = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Ok(Self {
            hangups,
            had_terminal: std::io::stdin().is_terminal(),
            looks,
        })
    }

    pub(super) async fn next(&mut self, wake: &Notify, stop: &CancellationToken) -> Call {
        tokio::select! {
            biased;
            () = stop.cancelled() => Call::Stop,
            _ = self.hangups.recv() => {
                // After a hangup, stdin is no longer a terminal.
                if self.had_terminal && !std::io::stdin().is_terminal() { Call::Terminal } else { Call::Hangup }
            }
            () = wake.notified() => Call::Wake,
            _ = self.looks.tick() => Call::Look,
        }
    }
}

closed_enum! {
    /// Cause of a reload.
    "cause" Cause {
        /// The files changed. Changes that remove a safeguard are not applied.
        Noticed = "noticed",
        Signal = "signal",
        Request = "request",
    }
}

/// Order to reload the files.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub(super) cause: Cause,
    /// Id of the `remand reload` event.
    pub(super) request: Option<i64>,
    /// Fingerprint of the content that was seen to be stable.
    pub(super) stable: Option<String>,
}

/// Result of a reload.
pub(super) enum Reload {
    Applied(Box<Applied>),
    /// The old settings remain in effect. Contains the fingerprint of the refused content.
    Refused(String),
    /// The files changed while they were read.
    Unstable,
}

pub(super) struct Applied {
    pub(super) daemon: Daemon,
    pub(super) loaded: Loaded,
    pub(super) event: NewEvent,
    pub(super) request: Option<i64>,
}

/// Loads and checks the files. Records a refusal; accepted settings come into force only through
/// the caller.
pub(super) async fn reload(
    daemon: &Daemon,
    old: &Loaded,
    files: &Files<'_>,
    order: Order,
) -> bb::Result<Reload> {
    let watched = old.watched.clone();
    let sources = tokio::task::spawn_blocking(move || watched.read()).await;
    let sources = sources.unwrap_or_else(|error| {
        tracing::error!(error = ?error, "cannot check the configuration files");
        old.sources.clone()
    });
    let hash = sources.fingerprint();
    let projects = daemon.db().read(bb::list_projects).await?;
    let projects: Vec<String> = projects
        .into_iter()
        .map(|project| project.project_id.to_string())
        .collect();
    let invalid = |error: &anyhow::Error| Refusal {
        kind: ChangedKind::Invalid,
        reason: (files.words)(error),
        hash: hash.clone(),
    };
    let loaded = match sources.special() {
        Some(name) => Err(anyhow::anyhow!("{name} is not a regular file")),
        None => (files.load)(),
    };
    let loaded = loaded.and_then(|new| is_still_there(old, &new).map(|()| new));
    let new = match loaded {
        Ok(new) => new,
        Err(error) => return refuse(daemon, &order, invalid(&error)).await,
    };
    let stable = order.stable.as_ref();
    if stable.is_some_and(|stable| *stable != new.sources.fingerprint()) {
        return Ok(Reload::Unstable);
    }
    let weaker = config::weaker(old, &new, &projects);
    if order.cause == Cause::Noticed && !weaker.is_empty() {
        let refusal = Refusal {
            kind: ChangedKind::NeedsReload,
            reason: format!("{}; `remand reload` applies it", joined(&weaker, "; ")),
            hash,
        };
        return refuse(daemon, &order, refusal).await;
    }
    let kept = kept(old, &new);
    let mut next = new.clone();
    next.blackboard.clone_from(&old.blackboard);
    let assembled = match daemon.again(&next) {
        Ok(assembled) => assembled,
        Err(error) => return refuse(daemon, &order, invalid(&error)).await,
    };
    let event = applied(old, &next, &kept, &weaker, &order);
    if let Err(why) = assembled.dispatch.settings.sandbox.way().await {
        tracing::warn!("nothing will run without a sandbox: {why}");
    }
    Ok(Reload::Applied(Box::new(Applied {
        daemon: assembled,
        loaded: next,
        event,
        request: order.request,
    })))
}

fn applied(
    old: &Loaded,
    new: &Loaded,
    kept: &[&str],
    weaker: &[config::Weaker],
    order: &Order,
) -> NewEvent {
    let file = new.file_text();
    tracing::info!(config = ?file, kept = ?kept, cause = %order.cause, "configuration reloaded");
    let kept_keys = Some(kept.join(", ")).filter(|keys| !keys.is_empty());
    let unless = prefixed("; a restart is needed to change ", kept_keys);
    let changed: Vec<ChangedSetting> = differences(&old.values(), &new.values())
        .into_iter()
        .map(|one| {
            let value = |text: Option<String>| text.map(|text| cap(&text, VALUE_CAP));
            ChangedSetting {
                key: one.key,
                from: value(one.from),
                to: value(one.to),
            }
        })
        .collect();
    let (changed, more) = body::listed(changed);
    let reloaded = body::Reloaded {
        config: file,
        kept: kept.iter().map(ToString::to_string).collect(),
        cause: order.cause.to_string(),
        request: order.request,
        changed,
        files: new.sources.changed_since(&old.sources),
        weaker: weaker.iter().map(ToString::to_string).collect(),
        more,
    };
    bb::about_configuration(reloaded, format!("configuration reloaded{unless}"))
}

struct Refusal {
    kind: ChangedKind,
    reason: String,
    hash: String,
}

/// Keeps the old settings in effect and records the refusal for everybody to see.
async fn refuse(daemon: &Daemon, order: &Order, refusal: Refusal) -> bb::Result<Reload> {
    let Refusal { kind, reason, hash } = refusal;
    tracing::error!("configuration rejected, the previous one remains in effect:\n{reason}");
    let first = reason.lines().find(|line| !line.trim().is_empty());
    let first = cap(first.unwrap_or_default(), VALUE_CAP);
    let summary = format!("configuration rejected, the previous one remains in effect: {first}");
    let skipped = body::Skipped {
        kind: Some(kind.to_string()),
        cause: Some(order.cause.to_string()),
        request: order.request,
        ..body::Skipped::because(body::SkipCode::SettingsRefused, &reason)
    };
    let event = bb::about_configuration(skipped, summary);
    let (request, refused) = (order.request, hash.clone());
    let step = move |conn: &bb::Conn| {
        let since = clock::now();
        let event = bb::append(conn, &event, since)?;
        let is_same = bb::configuration(conn)?.is_none_or(|row| row.hash == hash);
        let changed = Changed {
            hash,
            kind,
            reason,
            since,
        };
        bb::note_changed(conn, Some(&changed).filter(|_| !is_same))?;
        request.map_or(Ok(()), |request| bb::answer_reload(conn, request, event))
    };
    daemon.db().write("refuse_settings", step).await?;
    Ok(Reload::Refused(refused))
}

/// Fails if the config file is gone. That is not a request for the defaults, which would leave no
/// agent, no gate and no forbidden path.
fn is_still_there(old: &Loaded, new: &Loaded) -> anyhow::Result<()> {
    match (&old.file, &new.file) {
        (Some(file), None) => anyhow::bail!(
            "{} no longer exists: restore it, or restart the daemon to use the defaults",
            file.display()
        ),
        (Some(_) | None, Some(_)) | (None, None) => Ok(()),
    }
}

/// Returns the keys of settings that differ and cannot be changed while the daemon runs.
fn kept(old: &Loaded, new: &Loaded) -> Vec<&'static str> {
    let (before, after) = (&old.config, &new.config);
    let look_s = before.heartbeat.look_s != after.heartbeat.look_s;
    let differs = [
        ("blackboard", old.blackboard != new.blackboard),
        ("log", before.log != after.log),
        ("heartbeat.look_s", look_s),
    ];
    let differs = differs.into_iter().filter(|(_, differs)| *differs);
    differs.map(|(key, _)| key).collect()
}
