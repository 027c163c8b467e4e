//! `remand service`: has systemd or launchd run the daemon.

mod installed;
mod logins;
mod manager;
mod program;
mod status;
mod target;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};

use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::frame::ui::Line;
use crate::cli::view::print_change::field;
use crate::diagnostic::title;
use crate::service_unit;
use crate::{config, daemon};
use manager::{Manager, StepResult};
use target::InstallTarget;

pub(crate) use installed::{Elsewhere, FoundUnit, Owner, outside_of_unit, write_remedy};
pub(crate) use status::checks;
use status::{look, status};

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
are written into it; what agents and gh need to log in is not, unless you say --with-logins.\n\n\
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

    /// Write the login variables of agents that are set in this shell to a file that the unit reads (mode 600)
    #[arg(long)]
    with_logins: bool,
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

pub(crate) fn service(command: &ServiceCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    match command {
        ServiceCommand::Install(args) => install(args, ctx),
        ServiceCommand::Uninstall(args) => uninstall(args, ctx),
        ServiceCommand::Status(args) => status(args, ctx),
        ServiceCommand::Print(args) => print(args, ctx),
    }
}

/// `sudo` without `--system` would install it for root.
fn refuse_for_root(which: &Which) -> Result<()> {
    if let Some(user) = config::sudo_user().filter(|_| !which.system && !which.user) {
        return Err(CommandError::usage("with sudo this would install it for root alone")
            .hint(format!("for the machine: add --system; for {user}: without sudo; really for root: add --user"))
            .into());
    }
    Ok(())
}

fn install(args: &InstallArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    refuse_for_root(&args.which)?;
    let mut site = InstallTarget::find(&args.which, ctx)?;
    if let Some(problem) = site.problem.take() {
        return Err(problem.into());
    }
    site.may_install()?;
    let text = site.text()?;
    let before = read(&site.file)?;
    if before
        .as_deref()
        .is_some_and(|before| !service_unit::is_ours(before))
        && !args.force
    {
        return Err(not_ours(&site.file, "write over it"));
    }
    let logins = if args.with_logins {
        Some(site.write_logins()?)
    } else {
        None
    };
    let is_new = before.as_deref() != Some(&text);
    if is_new {
        write(&site.file, &text, 0o644)?;
    }
    let manager = Manager::of(&site);
    let was_active = manager.active().is_some_and(|active| active == "active");
    // Two daemons on one blackboard are refused, and systemd would not start this one again.
    let is_to_start = site.root.is_none() && !args.no_start && !was_active;
    let other = daemon::holder(&site.blackboard).filter(|_| is_to_start);
    let mut left = Vec::new();
    let mut failed = None;
    for step in manager.install_steps(args.no_start || other.is_some()) {
        // What can't be done here is left to be typed, with all that would have followed.
        match if left.is_empty() {
            manager.run(&step)
        } else {
            StepResult::NotThere
        } {
            StepResult::Well => {}
            StepResult::NotThere => left.push(step.join(" ")),
            StepResult::Badly(why) => {
                failed = Some(why);
                left.push(step.join(" "));
            }
        }
    }
    if (is_new || logins.is_some()) && was_active && left.is_empty() {
        left.extend(manager.restart().map(|step| step.join(" ")));
    }
    if ctx.out.is_json() {
        let told = look(&site, &manager, left)?;
        ctx.out.json(&told)?;
    } else {
        let what = if is_new {
            "is written"
        } else {
            "is there already, as it would be written now"
        };
        ctx.out.line(
            Line::default()
                .strong(site.file.display().to_string())
                .plain(format!(" {what}")),
        )?;
        print_what_holds(&site, ctx)?;
        if let Some(file) = &logins {
            field(ctx, "logins", file.display().to_string())?;
        }
        for command in &left {
            ctx.out
                .line(Line::default().plain("  left to type: ").command(command))?;
        }
        for hint in site.hints(args.with_logins) {
            ctx.out.note(hint)?;
        }
    }
    if let (Some(pid), Some(start)) = (other, manager.start_step()) {
        let what = format!(
            "a daemon with pid {pid} already uses {}",
            site.blackboard.display()
        );
        let hint = format!(
            "the file is written; stop that daemon with `kill {pid}`, then `{}`",
            start.join(" ")
        );
        return Err(CommandError::new(what).hint(hint).into());
    }
    match failed {
        Some(why) => Err(CommandError::new(format!("it could not be started: {why}"))
            .hint("the file is written; type what is left once that is mended")
            .into()),
        None => Ok(ExitCode::Done),
    }
}

/// The settings, the blackboard and the projects of the daemon: those of a unit of the machine are often not the ones
/// that the person who installs it works with.
fn print_what_holds(site: &InstallTarget, ctx: &mut CommandContext) -> Result<()> {
    let settings = site
        .settings
        .as_ref()
        .map(|file| file.display().to_string());
    field(
        ctx,
        "settings",
        settings.as_deref().unwrap_or("none, the defaults hold"),
    )?;
    field(ctx, "blackboard", site.blackboard.display().to_string())?;
    let projects = match &site.projects {
        None => "not known: the blackboard can't be read here".to_owned(),
        Some(none) if none.is_empty() => format!("none yet: `{}`", site.remand("project add PATH")),
        Some(some) => some
            .iter()
            .map(|project| project.project_id.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    };
    field(ctx, "projects", projects)
}

fn uninstall(args: &UninstallArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let site = InstallTarget::find(&args.which, ctx)?;
    let before = read(&site.file)?;
    let Some(before) = before else {
        if ctx.out.is_json() {
            let told = look(&site, &Manager::of(&site), Vec::new())?;
            ctx.out.json(&told)?;
        } else {
            ctx.out.line(format!(
                "nothing to do: there is no {}",
                site.file.display()
            ))?;
        }
        return Ok(ExitCode::Done);
    };
    if !service_unit::is_ours(&before) && !args.force {
        return Err(not_ours(&site.file, "remove it"));
    }
    let manager = Manager::of(&site);
    let mut left = Vec::new();
    if let Some(step) = manager.stop_step() {
        match manager.run(&step) {
            StepResult::Well => {}
            StepResult::Badly(why) if !args.force => {
                return Err(CommandError::new(format!("it could not be stopped, and {} is kept: {why}", site.file.display()))
                    .hint(format!(
                        "once that is mended, `remand service uninstall{}` again; --force removes the file all the same",
                        site.flags()
                    ))
                    .into());
            }
            // By now it may run without its file.
            StepResult::Badly(why) => left.extend(manager.late_stop_step().map(|step| (step, why))),
            StepResult::NotThere => left.extend(
                manager
                    .late_stop_step()
                    .map(|late| (late, not_there(&step))),
            ),
        }
    }
    fs::remove_file(&site.file)
        .with_context(|| format!("cannot remove {}", site.file.display()))?;
    if let Some(step) = manager.reload_step() {
        match manager.run(&step) {
            StepResult::Well => {}
            StepResult::Badly(why) => left.push((step, why)),
            StepResult::NotThere => left.push((step.clone(), not_there(&step))),
        }
    }
    if ctx.out.is_json() {
        let told = look(
            &site,
            &manager,
            left.into_iter().map(|(step, _)| step.join(" ")).collect(),
        )?;
        ctx.out.json(&told)?;
        return Ok(ExitCode::Done);
    }
    ctx.out.line(format!(
        "{} is removed; blackboard, settings and worktrees stay as they are",
        site.file.display()
    ))?;
    for (step, why) in left {
        ctx.out.note(
            Line::default()
                .plain(format!("{why}; left to type: "))
                .command(step.join(" ")),
        )?;
    }
    if let Some(pid) = daemon::holder(&site.blackboard) {
        ctx.out.note(format!(
            "a daemon still runs on {}, with pid {pid}",
            site.blackboard.display()
        ))?;
    }
    Ok(ExitCode::Done)
}

fn not_there(step: &[String]) -> String {
    format!("{} is not there", step.first().map_or("", String::as_str))
}

fn print(args: &PrintArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let site = InstallTarget::find(&args.which, ctx)?;
    let text = site.text()?;
    if ctx.out.is_json() {
        ctx.out
            .json(&serde_json::json!({ "file": site.file, "text": text }))?;
    } else {
        ctx.out.raw(&text)?;
    }
    for warning in site.warnings() {
        ctx.out.note(warning)?;
    }
    if let Some(problem) = &site.problem {
        ctx.out.note(format!(
            "note: this uses the defaults: {}",
            title(&problem.to_string())
        ))?;
    }
    Ok(ExitCode::Done)
}

fn not_ours(file: &Path, what: &str) -> anyhow::Error {
    CommandError::new(format!("{} was not written by remand", file.display()))
        .hint(format!("--force has remand {what}"))
        .into()
}

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Writes the whole file or none of it.
fn write(file: &Path, text: &str, mode: u32) -> Result<()> {
    let cannot = || format!("cannot write {}", file.display());
    let folder = file.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder).with_context(cannot)?;
    let aside = file.with_extension(format!("new-{}", std::process::id()));
    let written = (|| {
        let mut new = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&aside)?;
        new.set_permissions(fs::Permissions::from_mode(mode))?;
        new.write_all(text.as_bytes())?;
        new.sync_all()?;
        fs::rename(&aside, file)
    })();
    if written.is_err() {
        // It may not be there at all.
        drop(fs::remove_file(&aside));
    }
    written.with_context(cannot)
}
