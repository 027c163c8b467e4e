//! `remand service`: has systemd or launchd run the daemon.

mod ask;
mod found;
mod site;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::desk::Desk;
use super::fail::{Code, Fail};
use super::out::{Line, Look};
use super::picture::field;
use super::running_daemon::RunningDaemon;
use crate::config::{self, ConfigError};
use crate::daemon;
use crate::doctor::Check;
use crate::unit;
use ask::{Manager, Said};
use site::Site;

pub(crate) use found::{Elsewhere, FoundUnit, Owner};

/// Have systemd or launchd run the daemon
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    Install(InstallArgs),
    Uninstall(UninstallArgs),
    Status(StatusArgs),
    Print(PrintArgs),
}

/// The user that a unit of the machine runs as, where nobody else is named.
const RUN_AS: &str = "remand";

/// For whom, and by whom it is kept running
#[derive(Debug, Default, Args)]
struct Which {
    /// For yourself, while you are logged in [default]
    #[arg(long, conflicts_with = "system")]
    user: bool,

    /// For the machine, from its start on
    #[arg(long)]
    system: bool,

    /// For systemd [default: everywhere but on macOS]
    #[arg(long, conflicts_with = "launchd")]
    systemd: bool,

    /// For launchd [default: on macOS]
    #[arg(long)]
    launchd: bool,

    /// With --system: the user that it runs as [default: that of the installed unit, or `remand`]
    #[arg(long, value_name = "USER", requires = "system")]
    run_as: Option<String>,

    /// With --system: below DIR, which is another machine's file system
    #[arg(long, value_name = "DIR", requires = "system")]
    root: Option<PathBuf>,
}

/// Write the unit (systemd) or property list (launchd), enable and start it
#[derive(Debug, Args)]
#[command(
    after_help = "Do it again after the settings or projects have changed: `remand service status` says when. --config and --db \
are written into it; what the daemon needs to log in to the forge is not.\n\n\
Examples:\n  remand service install                 for yourself\n  sudo remand service install --system   for the machine, as the user `remand`"
)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    which: Which,

    /// Write over a file that remand did not write
    #[arg(long)]
    force: bool,

    /// Only write the file
    #[arg(long)]
    no_start: bool,
}

/// Stop and disable it, and remove the file
///
/// The file stays if the daemon can't be stopped.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    which: Which,

    /// Remove a file that remand did not write, and one whose daemon can't be stopped
    #[arg(long)]
    force: bool,
}

/// Say whether it is installed, up to date and running, and what to do
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    which: Which,
}

/// Print what would be written
#[derive(Debug, Args)]
pub(crate) struct PrintArgs {
    #[command(flatten)]
    which: Which,
}

pub(crate) fn service(command: &ServiceCommand, desk: &mut Desk) -> Result<Code> {
    match command {
        ServiceCommand::Install(args) => install(args, desk),
        ServiceCommand::Uninstall(args) => uninstall(args, desk),
        ServiceCommand::Status(args) => status(args, desk),
        ServiceCommand::Print(args) => print(args, desk),
    }
}

/// What a person and a program are told.
#[derive(Serialize)]
struct Told {
    file: PathBuf,
    installed: bool,
    /// Written by us; null when there is none.
    ours: Option<bool>,
    /// Whether `install` would write something else; null when there is none, or when it can't be told here.
    differs: Option<bool>,
    /// What systemd says of it (`is-enabled`, `is-active`); null where it can't be asked.
    enabled: Option<String>,
    active: Option<String>,
    blackboard: PathBuf,
    /// What is wrong with the settings, or null.
    problem: Option<String>,
    /// The daemon that works on this blackboard, however it was started.
    pid: Option<String>,
    /// What is left to type.
    commands: Vec<String>,
}

fn install(args: &InstallArgs, desk: &mut Desk) -> Result<Code> {
    let mut site = Site::find(&args.which, desk)?;
    if let Some(problem) = site.problem.take() {
        return Err(problem.into());
    }
    site.may_install()?;
    let text = site.text()?;
    let before = read(&site.file)?;
    if before.as_deref().is_some_and(|before| !unit::is_ours(before)) && !args.force {
        return Err(not_ours(&site.file, "write over it"));
    }
    let is_new = before.as_deref() != Some(&text);
    if is_new {
        write(&site.file, &text)?;
    }
    let manager = Manager::of(&site);
    let was_active = manager.active().is_some_and(|active| active == "active");
    let mut left = Vec::new();
    let mut failed = None;
    for step in manager.install_steps(args.no_start) {
        // What can't be done here is left to be typed, with all that would have followed.
        match if left.is_empty() { manager.run(&step) } else { Said::NotThere } {
            Said::Well => {}
            Said::NotThere => left.push(step.join(" ")),
            Said::Badly(why) => {
                failed = Some(why);
                left.push(step.join(" "));
            }
        }
    }
    if is_new && was_active && left.is_empty() {
        left.extend(manager.restart().map(|step| step.join(" ")));
    }
    if desk.out.is_json() {
        let told = look(&site, &manager, left)?;
        desk.out.json(&told)?;
    } else {
        let what = if is_new { "is written" } else { "is there already, as it would be written now" };
        desk.out.line(Line::default().strong(site.file.display().to_string()).plain(format!(" {what}")))?;
        print_what_holds(&site, desk)?;
        for command in &left {
            desk.out.line(Line::default().plain("  left to type: ").command(command))?;
        }
        if let Some(hint) = site.hint() {
            desk.out.note(hint)?;
        }
    }
    match failed {
        Some(why) => Err(Fail::new(format!("it could not be started: {why}"))
            .hint("the file is written; type what is left once that is mended")
            .into()),
        None => Ok(Code::Done),
    }
}

/// The settings, the blackboard and the projects of the daemon: those of a unit of the machine are often not the ones
/// that the person who installs it works with.
fn print_what_holds(site: &Site, desk: &mut Desk) -> Result<()> {
    let settings = site.settings.as_ref().map(|file| file.display().to_string());
    field(desk, "settings", settings.as_deref().unwrap_or("none, the defaults hold"))?;
    field(desk, "blackboard", site.blackboard.display().to_string())?;
    let projects = match &site.projects {
        None => "not known: the blackboard can't be read here".to_owned(),
        Some(none) if none.is_empty() => format!("none yet: `{}`", site.remand("project add PATH")),
        Some(some) => some.iter().map(|project| project.project_id.as_str()).collect::<Vec<_>>().join(", "),
    };
    field(desk, "projects", projects)
}

fn uninstall(args: &UninstallArgs, desk: &mut Desk) -> Result<Code> {
    let site = Site::find(&args.which, desk)?;
    let before = read(&site.file)?;
    let Some(before) = before else {
        if desk.out.is_json() {
            let told = look(&site, &Manager::of(&site), Vec::new())?;
            desk.out.json(&told)?;
        } else {
            desk.out.line(format!("nothing to do: there is no {}", site.file.display()))?;
        }
        return Ok(Code::Done);
    };
    if !unit::is_ours(&before) && !args.force {
        return Err(not_ours(&site.file, "remove it"));
    }
    let manager = Manager::of(&site);
    let mut left = Vec::new();
    if let Some(step) = manager.stop_step() {
        match manager.run(&step) {
            Said::Well => {}
            Said::Badly(why) if !args.force => {
                return Err(Fail::new(format!("it could not be stopped, and {} is kept: {why}", site.file.display()))
                    .hint(format!(
                        "once that is mended, `remand service uninstall{}` again; --force removes the file all the same",
                        site.flags()
                    ))
                    .into());
            }
            // By now it may run without its file.
            Said::Badly(why) => left.extend(manager.late_stop_step().map(|step| (step, why))),
            Said::NotThere => left.extend(manager.late_stop_step().map(|late| (late, not_there(&step)))),
        }
    }
    fs::remove_file(&site.file).with_context(|| format!("cannot remove {}", site.file.display()))?;
    if let Some(step) = manager.reload_step() {
        match manager.run(&step) {
            Said::Well => {}
            Said::Badly(why) => left.push((step, why)),
            Said::NotThere => left.push((step.clone(), not_there(&step))),
        }
    }
    if desk.out.is_json() {
        let told = look(&site, &manager, left.into_iter().map(|(step, _)| step.join(" ")).collect())?;
        desk.out.json(&told)?;
        return Ok(Code::Done);
    }
    desk.out
        .line(format!("{} is removed; blackboard, settings and worktrees stay as they are", site.file.display()))?;
    for (step, why) in left {
        desk.out.note(Line::default().plain(format!("{why}; left to type: ")).command(step.join(" ")))?;
    }
    if let Some(pid) = daemon::holder(&site.blackboard) {
        desk.out.note(format!("a daemon still runs on {}, with pid {pid}", site.blackboard.display()))?;
    }
    Ok(Code::Done)
}

fn not_there(step: &[String]) -> String {
    format!("{} is not there", step.first().map_or("", String::as_str))
}

fn status(args: &StatusArgs, desk: &mut Desk) -> Result<Code> {
    let site = Site::find(&args.which, desk)?;
    let mut told = look(&site, &Manager::of(&site), Vec::new())?;
    told.commands = advice(&site, &told);
    if desk.out.is_json() {
        desk.out.json(&told)?;
        return Ok(Code::Done);
    }
    let file = told.file.display();
    let (what, looks) = match (told.ours, told.differs) {
        (None, _) => (format!("no: there is no {file}"), Look::Notice),
        (Some(false), _) => (format!("{file}, which remand did not write"), Look::Notice),
        (Some(true), Some(true)) => (format!("{file}, which is not as it would be written now"), Look::Notice),
        (Some(true), Some(false)) => (format!("{file}, up to date"), Look::Good),
        (Some(true), None) => (format!("{file}"), Look::Good),
    };
    desk.out.line(Line::default().faint(format!("{:<11}", "installed")).piece(looks, what))?;
    if let Some(problem) = &told.problem {
        let line = Line::default().faint(format!("{:<11}", "settings")).piece(Look::Bad, problem);
        desk.out.line(line.plain("; ").command("remand config check"))?;
    }
    let state: Vec<String> = told.enabled.iter().chain(&told.active).cloned().collect();
    field(
        desk,
        "state",
        if state.is_empty() { "systemd or launchd can't be asked here".into() } else { state.join(", ") },
    )?;
    let daemon = told.pid.as_ref().map_or("none runs".to_owned(), |pid| format!("runs with pid {pid}"));
    field(desk, "daemon", format!("{daemon}, on {}", told.blackboard.display()))?;
    for command in &told.commands {
        desk.out.line(Line::default().plain("    ").command(command))?;
    }
    Ok(Code::Done)
}

fn print(args: &PrintArgs, desk: &mut Desk) -> Result<Code> {
    let site = Site::find(&args.which, desk)?;
    let text = site.text()?;
    if desk.out.is_json() {
        desk.out.json(&serde_json::json!({ "file": site.file, "text": text }))?;
    } else {
        desk.out.raw(&text)?;
    }
    if let Some(problem) = &site.problem {
        desk.out.note(format!("note: this uses the defaults: {}", first_line(problem)))?;
    }
    Ok(Code::Done)
}

fn look(site: &Site, manager: &Manager, commands: Vec<String>) -> Result<Told> {
    let there = read(&site.file)?;
    // One that can't be written differs from nothing; `install` says why.
    let wanted = site.text().ok();
    Ok(Told {
        file: site.file.clone(),
        installed: there.is_some(),
        ours: there.as_deref().map(unit::is_ours),
        differs: there
            .as_deref()
            .filter(|_| site.is_whole())
            .zip(wanted)
            .map(|(there, wanted)| !unit::is_same(there, &wanted)),
        enabled: manager.enabled(),
        active: manager.active(),
        blackboard: site.blackboard.clone(),
        problem: site.problem.as_ref().map(first_line),
        pid: daemon::holder(&site.blackboard),
        commands,
    })
}

/// For `doctor`: how it stands with the units that are there. systemd and launchd are not asked.
pub(crate) fn checks(desk: &Desk) -> Vec<Check> {
    let which = |system| Which { system, ..Which::default() };
    let found = [false, true].map(|system| check(&which(system), desk).ok().flatten());
    let mut found: Vec<Check> = found.into_iter().flatten().collect();
    if found.is_empty() {
        found.push(Check::ok("service", "not installed; `remand service install` would keep the daemon running"));
    }
    found.splice(0..0, replaced_program(desk));
    if let Some(elsewhere) = config::blackboard_despite(desk.place()).and_then(|board| Elsewhere::than(&board)) {
        found.push(Check::warn("service", elsewhere.sentence(), elsewhere.remedy()));
    }
    found
}

fn replaced_program(desk: &Desk) -> Option<Check> {
    let blackboard = config::blackboard_despite(desk.place())?;
    let (what, what_to_do) = RunningDaemon::of(&blackboard)?.replaced_sentence()?;
    Some(Check::warn("program", format!("of the daemon: {what}"), what_to_do))
}

fn check(which: &Which, desk: &Desk) -> Result<Option<Check>> {
    let site = Site::find(which, desk)?;
    let Some(there) = read(&site.file)? else { return Ok(None) };
    let (file, install) = (site.file.display(), format!("remand service install{}", site.flags()));
    let is_same = !site.is_whole() || unit::is_same(&there, &site.text()?);
    Ok(Some(if !unit::is_ours(&there) {
        let says = format!("{file} was not written by remand");
        Check::warn("service", says, format!("`{install} --force` writes over it, if that is wanted"))
    } else if is_same {
        Check::ok("service", format!("{file}, up to date"))
    } else {
        Check::warn("service", format!("{file} is not as it would be written now"), format!("`{install}`"))
    }))
}

/// The title of a report about the settings.
fn first_line(problem: &ConfigError) -> String {
    let text = problem.to_string();
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

/// What would make it as it should be.
fn advice(site: &Site, told: &Told) -> Vec<String> {
    let install = format!("remand service install{}", site.flags());
    match (told.ours, told.differs) {
        (None | Some(true), None | Some(true)) => vec![install],
        (Some(false), _) => vec![format!("{install} --force")],
        (None | Some(true), Some(false)) if told.pid.is_none() => {
            Manager::of(site).start_step().map(|step| step.join(" ")).into_iter().collect()
        }
        (None | Some(true), Some(false)) => Vec::new(),
    }
}

fn not_ours(file: &Path, what: &str) -> anyhow::Error {
    Fail::new(format!("{} was not written by remand", file.display())).hint(format!("--force has remand {what}")).into()
}

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// The whole file or none of it, for anybody to read.
fn write(file: &Path, text: &str) -> Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).with_context(cannot)?;
    let aside = file.with_extension(format!("new-{}", std::process::id()));
    let written = (|| {
        let mut new = fs::File::create(&aside)?;
        new.write_all(text.as_bytes())?;
        new.set_permissions(fs::Permissions::from_mode(0o644))?;
        new.sync_all()?;
        fs::rename(&aside, file)
    })();
    if written.is_err() {
        // It may not be there at all.
        drop(fs::remove_file(&aside));
    }
    written.with_context(cannot)
}
