//! `remand service status`, and the same for `doctor`: checks that the service is installed, up to
//! date and running.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;

use super::installed::Elsewhere;
use super::manager::Manager;
use super::target::InstallTarget;
use super::{Which, read};
use crate::cli::frame::running_daemon::RunningDaemon;
use crate::cli::frame::{CommandContext, ExitCode, Line, TextStyle};
use crate::clock::Time;
use crate::config;
use crate::daemon;
use crate::diagnostic::title;
use crate::doctor::Check;
use crate::service_unit;
use crate::text::{joined, list};

/// State of the service, for people and as JSON.
#[derive(Serialize)]
pub(super) struct ServiceStatus {
    file: PathBuf,
    installed: bool,
    /// True if remand wrote the file; null if there is none.
    ours: Option<bool>,
    /// True if `install` would write a different file; null if there is none, or if unknown.
    differs: Option<bool>,
    /// Answer of systemd (`is-enabled`, `is-active`); null if it cannot be queried.
    enabled: Option<String>,
    active: Option<String>,
    blackboard: PathBuf,
    /// Error in the settings, or null.
    problem: Option<String>,
    /// Daemon running on this blackboard, however it was started.
    pid: Option<String>,
    /// Reason why that daemon is not the one that the file would start now; null if it is, or if
    /// none is running.
    outdated: Option<String>,
    /// Commands left to run.
    commands: Vec<String>,
}

pub(super) fn status(which: &Which, ctx: &mut CommandContext) -> Result<ExitCode> {
    let site = InstallTarget::find(which, ctx)?;
    let mut told = look(&site, &Manager::of(&site), Vec::new())?;
    told.commands = advice(&site, &told);
    ctx.show(&told, print)
}

fn print(ctx: &mut CommandContext, told: &ServiceStatus) -> Result<()> {
    let file = told.file.display();
    let (what, style) = match (told.ours, told.differs) {
        (None, _) => (format!("no: {file} does not exist"), TextStyle::Notice),
        (Some(false), _) => (format!("{file}, not written by remand"), TextStyle::Notice),
        (Some(true), Some(true)) => (format!("{file}, out of date"), TextStyle::Notice),
        (Some(true), Some(false) | None) => (file.to_string(), TextStyle::Good),
    };
    ctx.out.line(Line::label("installed").piece(style, what))?;
    if let Some(problem) = &told.problem {
        let line = Line::label("settings").piece(TextStyle::Bad, problem);
        ctx.out
            .line(line.plain("; ").command("remand config check"))?;
    }
    let state = list(told.enabled.iter().chain(&told.active));
    let unknown = "unknown: systemd or launchd cannot be queried here";
    ctx.field("state", if state.is_empty() { unknown } else { &state })?;
    let daemon = match (&told.pid, &told.outdated) {
        (None, _) => "not running".to_owned(),
        (Some(pid), Some(why)) => format!("running with pid {pid}: {why}"),
        (Some(pid), None) if told.differs == Some(false) => {
            format!("running with pid {pid}, up to date")
        }
        (Some(pid), None) => format!("running with pid {pid}"),
    };
    ctx.field("daemon", daemon)?;
    ctx.field("blackboard", told.blackboard.display())?;
    for command in &told.commands {
        ctx.out.line(Line::new().plain("    ").command(command))?;
    }
    Ok(())
}

pub(super) fn look(
    site: &InstallTarget,
    manager: &Manager,
    commands: Vec<String>,
) -> Result<ServiceStatus> {
    let there = read(&site.file)?;
    // If the text cannot be rendered, there is no difference to report; `install` reports the
    // error.
    let wanted = site.text().ok();
    let problem = site.problem.as_ref();
    Ok(ServiceStatus {
        file: site.file.clone(),
        installed: there.is_some(),
        ours: there.as_deref().map(service_unit::is_ours),
        differs: there
            .as_deref()
            .filter(|_| site.is_whole())
            .zip(wanted)
            .map(|(there, wanted)| !service_unit::is_same(there, &wanted)),
        enabled: manager.enabled(),
        active: manager.active(),
        blackboard: site.blackboard.clone(),
        problem: problem.map(|problem| title(&problem.to_string()).to_owned()),
        pid: daemon::holder(&site.blackboard),
        outdated: there
            .as_ref()
            .and_then(|_| outdated(site, manager.main_pid()))
            .map(|why| why.to_string()),
        commands,
    })
}

/// Checks the installed units for `doctor`, without calling systemd or launchd.
pub(crate) fn checks(ctx: &CommandContext) -> Vec<Check> {
    let which = |system| Which {
        system,
        ..Which::default()
    };
    let found = [false, true].map(|system| check(&which(system), ctx).ok().flatten());
    let mut found: Vec<Check> = found.into_iter().flatten().collect();
    if found.is_empty() {
        let says = "not installed; `remand service install` installs it";
        found.push(Check::ok("service", says));
    }
    found.splice(0..0, replaced_program(ctx));
    let board = config::blackboard_despite(ctx.place());
    if let Some(other) = board.and_then(|board| Elsewhere::than(&board)) {
        found.push(Check::warn("service", other.sentence(), other.remedy()));
    }
    found
}

fn replaced_program(ctx: &CommandContext) -> Option<Check> {
    let blackboard = config::blackboard_despite(ctx.place())?;
    let (what, what_to_do) = RunningDaemon::of(&blackboard)?.replaced_sentence()?;
    let says = format!("daemon: {what}");
    Some(Check::warn("program", says, what_to_do))
}

fn check(which: &Which, ctx: &CommandContext) -> Result<Option<Check>> {
    let site = InstallTarget::find(which, ctx)?;
    let Some(there) = read(&site.file)? else {
        return Ok(None);
    };
    let file = site.file.display();
    let install = format!("remand service install{}", site.flags());
    let is_same = !site.is_whole() || service_unit::is_same(&there, &site.text()?);
    let (says, remedy) = if !service_unit::is_ours(&there) {
        (
            format!("{file} was not written by remand"),
            format!("run `{install} --force` to overwrite it"),
        )
    } else if !is_same {
        let says = format!("{file} is out of date");
        (says, format!("run `{install}`"))
    } else if let Some(why) = outdated(&site, None) {
        let commands = replace_step(&site, &why);
        let commands = commands.iter().map(|command| format!("`{command}`"));
        (
            format!("{file}, but the running daemon is out of date: {why}"),
            joined(commands, ", then "),
        )
    } else {
        let up_to_date = format!("{file}, up to date");
        return Ok(Some(Check::ok("service", up_to_date)));
    };
    Ok(Some(Check::warn("service", says, remedy)))
}

/// Reason why the running daemon is not the one that the installed file would start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Outdated {
    #[error("it was not started by this service")]
    Foreign { pid: Option<u32> },
    #[error("{0}")]
    Replaced(String),
    #[error("it was started before {} was written", .0.display())]
    Older(PathBuf),
}

/// Compares the running daemon with the unit. `main_pid` is the process of the unit, if systemd
/// returned it.
fn outdated(site: &InstallTarget, main_pid: Option<u32>) -> Option<Outdated> {
    let daemon = RunningDaemon::of(&site.blackboard).filter(|_| site.root.is_none())?;
    // A daemon of an older version records no start time.
    let started_at = daemon.started_at?;
    if !daemon.supervised || main_pid.is_some_and(|main| Some(main) != daemon.pid) {
        return Some(Outdated::Foreign { pid: daemon.pid });
    }
    if let Some((what, _)) = daemon.replaced_sentence() {
        return Some(Outdated::Replaced(what));
    }
    (written_at(&site.file)? > started_at).then(|| Outdated::Older(site.file.clone()))
}

fn written_at(file: &Path) -> Option<Time> {
    let meta = fs::metadata(file).ok()?;
    let seconds_ms = meta.mtime().saturating_mul(1000);
    Some(Time::from_millis(
        seconds_ms.saturating_add(meta.mtime_nsec() / 1_000_000),
    ))
}

/// Commands that replace the running daemon with that of the unit.
fn replace_step(site: &InstallTarget, why: &Outdated) -> Vec<String> {
    let manager = Manager::of(site);
    let step = |step: Option<Vec<String>>| step.map(|words| words.join(" "));
    match why {
        Outdated::Foreign { pid } => {
            let kill = pid.map(|pid| format!("kill {pid}"));
            kill.into_iter().chain(step(manager.start_step())).collect()
        }
        Outdated::Replaced(_) | Outdated::Older(_) => step(manager.restart()).into_iter().collect(),
    }
}

/// Commands that fix the service.
fn advice(site: &InstallTarget, told: &ServiceStatus) -> Vec<String> {
    let install = format!("remand service install{}", site.flags());
    match (told.ours, told.differs) {
        (None | Some(true), None | Some(true)) => vec![install],
        (Some(false), _) => vec![format!("{install} --force")],
        (None | Some(true), Some(false)) if told.pid.is_none() => {
            let start = Manager::of(site).start_step();
            start.iter().map(|step| step.join(" ")).collect()
        }
        (None | Some(true), Some(false)) => {
            let why = outdated(site, Manager::of(site).main_pid());
            why.map_or_else(Vec::new, |why| replace_step(site, &why))
        }
    }
}
