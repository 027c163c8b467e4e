//! `remand service`: runs the daemon under systemd or launchd.

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

use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line};
use crate::diagnostic::title;
use crate::service_unit;
use crate::text::list;
use crate::{config, daemon};
use manager::{Manager, StepResult};
use target::InstallTarget;

pub(crate) use installed::{Elsewhere, FoundUnit, Owner, outside_of_unit, write_remedy};
pub(crate) use status::checks;
use status::{look, status};

/// Run the daemon under systemd or launchd
#[derive(Debug, Subcommand)]
pub(crate) enum ServiceCommand {
    Install(InstallArgs),
    Uninstall(UninstallArgs),
    /// Show whether the service is installed, up to date and running
    Status(Which),
    /// Print the unit or property list that `install` would write
    Print(Which),
}

/// Default user of a system unit.
const RUN_AS: &str = "remand";

/// Selects the unit: its scope and its service manager.
#[derive(Debug, Default, Args)]
pub(crate) struct Which {
    /// Service of your user, running while you are logged in [default]
    #[arg(long, conflicts_with = "system")]
    user: bool,

    /// System service, started at boot
    #[arg(long)]
    system: bool,

    /// Use systemd [default except on macOS]
    #[arg(long, conflicts_with = "launchd")]
    systemd: bool,

    /// Use launchd [default on macOS]
    #[arg(long)]
    launchd: bool,

    /// With --system: user to run as [default: that of the installed unit, or `remand`]
    #[arg(long, value_name = "USER", requires = "system")]
    run_as: Option<String>,

    /// With --system: root directory of another file system to install into
    #[arg(long, value_name = "DIR", requires = "system")]
    root: Option<PathBuf>,
}

/// Install, enable and start the service
#[derive(Debug, Args)]
#[command(
    after_help = "Writes a unit (systemd) or a property list (launchd). Run it again after the settings or projects have changed: \
`remand service status` reports when that is needed. --config and --db are written into the file; credentials of agents and gh \
are not, unless --with-logins is given.\n\n\
Examples:\n  remand service install                 for your user\n  sudo remand service install --system   system-wide, as the user `remand`"
)]
pub(crate) struct InstallArgs {
    #[command(flatten)]
    which: Which,

    /// Overwrite a file that was not written by remand
    #[arg(long)]
    force: bool,

    /// Write the file, but do not enable or start the service
    #[arg(long)]
    no_start: bool,

    /// Save the login variables of agents from this shell in a private file that the unit reads
    #[arg(long)]
    with_logins: bool,
}

/// Stop, disable and remove the service
///
/// If the daemon cannot be stopped, the file is kept.
#[derive(Debug, Args)]
pub(crate) struct UninstallArgs {
    #[command(flatten)]
    which: Which,

    /// Remove the file even if it was not written by remand or the daemon cannot be stopped
    #[arg(long)]
    force: bool,
}

pub(crate) fn service(command: &ServiceCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    match command {
        ServiceCommand::Install(args) => install(args, ctx),
        ServiceCommand::Uninstall(args) => uninstall(args, ctx),
        ServiceCommand::Status(which) => status(which, ctx),
        ServiceCommand::Print(which) => print(which, ctx),
    }
}

/// Refuses `sudo` without `--system`, which would install the service for root.
fn refuse_for_root(which: &Which) -> Result<()> {
    if let Some(user) = config::sudo_user().filter(|_| !which.system && !which.user) {
        return CommandError::usage("with sudo, this would install the service for root")
            .fail_with_hint(format!("add --system for a system service, omit sudo to install it for {user}, or add --user to install it for root"));
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
    let is_foreign = |before: &String| !service_unit::is_ours(before);
    if before.as_ref().is_some_and(is_foreign) && !args.force {
        return not_ours(&site.file, "overwrite it");
    }
    let logins = args.with_logins.then(|| site.write_logins());
    let logins = logins.transpose()?;
    let is_new = before.as_deref() != Some(&text);
    if is_new {
        write(&site.file, &text, 0o644)?;
    }
    let manager = Manager::of(&site);
    let was_active = manager.active().is_some_and(|active| active == "active");
    // Two daemons on one blackboard are refused, and systemd would not restart this one.
    let is_to_start = site.root.is_none() && !args.no_start && !was_active;
    let other = daemon::holder(&site.blackboard).filter(|_| is_to_start);
    let mut left = Vec::new();
    let mut failed = None;
    for step in manager.install_steps(args.no_start || other.is_some()) {
        // A step that cannot be run here is printed for the user, with all steps after it.
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
        let what = match is_new {
            true => "was written",
            false => "is up to date",
        };
        let line = Line::new().strong(site.file.display());
        ctx.out.line(line.plain(format!(" {what}")))?;
        print_what_holds(&site, ctx)?;
        ctx.field_if("logins", logins.as_ref().map(|file| file.display()))?;
        for command in &left {
            ctx.out
                .line(Line::new().plain("  run this yourself: ").command(command))?;
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
            "the file was written; stop that daemon with `kill {pid}`, then run `{}`",
            start.join(" ")
        );
        return CommandError::new(what).fail_with_hint(hint);
    }
    match failed {
        Some(why) => CommandError::new(format!("cannot start the service: {why}"))
            .fail_with_hint("the file was written; fix the error, then run the remaining commands"),
        None => Ok(ExitCode::Done),
    }
}

/// Prints the settings, blackboard and projects of the daemon: those of a system unit are often not
/// the ones of the person who installs it.
fn print_what_holds(site: &InstallTarget, ctx: &mut CommandContext) -> Result<()> {
    let settings = site.settings.as_ref();
    let settings = settings.map(|file| file.display().to_string());
    let settings = settings.as_deref().unwrap_or("none: using the defaults");
    ctx.field("settings", settings)?;
    ctx.field("blackboard", site.blackboard.display())?;
    let projects = match &site.projects {
        None => "unknown: the blackboard cannot be read here".to_owned(),
        Some(none) if none.is_empty() => format!("none yet: `{}`", site.remand("project add PATH")),
        Some(some) => list(some.iter().map(|project| &project.project_id)),
    };
    ctx.field("projects", projects)
}

fn uninstall(args: &UninstallArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let site = InstallTarget::find(&args.which, ctx)?;
    let Some(before) = read(&site.file)? else {
        let told = look(&site, &Manager::of(&site), Vec::new())?;
        return ctx.show(&told, |ctx, _| {
            let line = format!("nothing to do: {} does not exist", site.file.display());
            Ok(ctx.out.line(line)?)
        });
    };
    if !service_unit::is_ours(&before) && !args.force {
        return not_ours(&site.file, "remove it");
    }
    let manager = Manager::of(&site);
    let mut left = Vec::new();
    if let Some(step) = manager.stop_step() {
        match manager.run(&step) {
            StepResult::Well => {}
            StepResult::Badly(why) if !args.force => {
                return CommandError::new(format!("cannot stop the service, so {} was kept: {why}", site.file.display()))
                    .fail_with_hint(format!(
                        "fix the error and run `remand service uninstall{}` again, or use --force to remove the file anyway",
                        site.flags()
                    ));
            }
            // It may now be running without its file.
            StepResult::Badly(why) => left.extend(manager.late_stop_step().map(|step| (step, why))),
            StepResult::NotThere => {
                let late = manager.late_stop_step();
                left.extend(late.map(|late| (late, not_there(&step))));
            }
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
        let left = left.into_iter().map(|(step, _)| step.join(" ")).collect();
        ctx.out.json(&look(&site, &manager, left)?)?;
        return Ok(ExitCode::Done);
    }
    let (file, blackboard) = (site.file.display(), site.blackboard.display());
    ctx.out.line(format!(
        "{file} was removed; the blackboard, the settings and the worktrees were kept"
    ))?;
    for (step, why) in left {
        let line = Line::new().plain(format!("{why}; run this yourself: "));
        ctx.out.note(line.command(step.join(" ")))?;
    }
    if let Some(pid) = daemon::holder(&site.blackboard) {
        let what = format!("a daemon is still running on {blackboard}, with pid {pid}");
        ctx.out.note(what)?;
    }
    Ok(ExitCode::Done)
}

fn not_there(step: &[String]) -> String {
    let program = step.first().map_or("", String::as_str);
    format!("{program} is not installed")
}

fn print(which: &Which, ctx: &mut CommandContext) -> Result<ExitCode> {
    let site = InstallTarget::find(which, ctx)?;
    let text = site.text()?;
    let value = serde_json::json!({ "file": site.file.to_string_lossy(), "text": text });
    ctx.show(&value, |ctx, _| Ok(ctx.out.raw(&text)?))?;
    for warning in site.warnings() {
        ctx.out.note(warning)?;
    }
    if let Some(problem) = &site.problem {
        let problem = problem.to_string();
        let note = format!(
            "note: the settings cannot be loaded, so the defaults are used: {}",
            title(&problem)
        );
        ctx.out.note(note)?;
    }
    Ok(ExitCode::Done)
}

fn not_ours(file: &Path, what: &str) -> Result<ExitCode> {
    CommandError::new(format!("{} was not written by remand", file.display()))
        .fail_with_hint(format!("use --force to {what}"))
}

fn read(file: &Path) -> Result<Option<String>> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

/// Writes a file atomically.
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
        // It may not exist.
        drop(fs::remove_file(&aside));
    }
    written.with_context(cannot)
}
