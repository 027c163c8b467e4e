//! Path and contents of a unit.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::installed::{self, Owner};
use super::logins::write_logins;
use super::program::Program;
use super::{RUN_AS, Which};
use crate::blackboard::{self as bb, Project, ReadOnlyDb};
use crate::cli::frame::{CommandContext, CommandError};
use crate::config::settings::Agent;
use crate::config::{self, ConfigError, ConfigLocation, Loaded, Origin, SettingsOwner};
use crate::service_unit::{self, Kind, Scope, UnitSpec, seen_from};

/// System-wide settings, if they exist.
const SETTINGS: &str = "etc/remand/config.toml";
/// System-wide blackboard, unless the settings name another one.
const BLACKBOARD: &str = "/var/lib/remand/blackboard.db";
/// Home of a user that does not exist yet, and state directory of the system daemon.
pub(super) const STATE: &str = "/var/lib/remand";
/// Directories that `PrivateTmp=yes` hides.
const PRIVATE: [&str; 2] = ["/tmp", "/var/tmp"];
/// Time for restoring worktrees and recording it, after the grace period of the agents.
const MOMENT_S: u64 = 35;

pub(super) struct InstallTarget {
    pub(super) kind: Kind,
    pub(super) file: PathBuf,
    pub(super) root: Option<PathBuf>,
    pub(super) blackboard: PathBuf,
    pub(super) settings: Option<PathBuf>,
    /// Error in the settings; the rest is based on the defaults.
    pub(super) problem: Option<ConfigError>,
    /// Projects of the blackboard; `None` if it cannot be read here.
    pub(super) projects: Option<Vec<Project>>,
    wish: UnitSpec,
    is_program_missing: bool,
    is_user_known: bool,
    /// Login variables of the agents that are set here, with their values.
    logins: Vec<(String, String)>,
}

impl InstallTarget {
    pub(super) fn find(which: &Which, ctx: &CommandContext) -> Result<Self> {
        let is_launchd = which.launchd || (cfg!(target_os = "macos") && !which.systemd);
        let kind = if is_launchd {
            Kind::Launchd
        } else {
            Kind::Systemd
        };
        let root = which
            .root
            .as_ref()
            .map(std::path::absolute)
            .transpose()
            .context("--root")?;
        let owner = if which.system {
            Owner::Machine
        } else {
            Owner::User
        };
        let no_home = || {
            CommandError::new(
                "cannot determine the directory for your service files: HOME is not set",
            )
        };
        let file = installed::file(kind, owner, root.as_deref()).ok_or_else(no_home)?;
        let scope = if which.system {
            Scope::System {
                run_as: run_as(which, kind, &file),
            }
        } else {
            Scope::User
        };
        let home = match &scope {
            Scope::User => config::home(),
            Scope::System { run_as } => home_of(run_as, root.as_deref()),
        };
        let is_user_known = scope == Scope::User || home.is_some();
        // A user that does not exist yet has nothing in a home directory.
        let home_or_state = home.clone().unwrap_or_else(|| STATE.into());
        let whose = if which.system {
            SettingsOwner::User {
                home: &home_or_state,
            }
        } else {
            SettingsOwner::Caller
        };
        let place = if which.system {
            machine_place(whose, root.as_deref(), ctx.place())
        } else {
            ctx.place().clone()
        };
        let (loaded, problem) = match whose.load(&place) {
            Ok(loaded) => (loaded, None),
            Err(error) => (whose.load_despite(&place)?, Some(error)),
        };
        let projects = projects(&inside(root.as_deref(), &loaded.blackboard));
        let logins = config::set_variables(&login_names(&loaded));
        let program = Program::find(root.as_deref())?;
        let runner = Runner {
            scope,
            home,
            program: program.path,
        };
        let mut wish = wish(runner, &loaded, projects.as_deref().unwrap_or_default());
        let (mut settings, blackboard) = (loaded.file, loaded.blackboard);
        if let Some(root) = &root {
            wish.seen_from(root);
            settings = settings.map(|file| seen_from(root, &file));
        }
        Ok(Self {
            kind,
            file,
            root,
            blackboard,
            settings,
            problem,
            projects,
            wish,
            is_program_missing: program.is_missing,
            is_user_known,
            logins,
        })
    }

    /// True if the text is complete. A user unit does not restrict writes, so it needs no projects.
    pub(super) fn is_whole(&self) -> bool {
        self.problem.is_none() && (self.wish.scope == Scope::User || self.projects.is_some())
    }

    /// Command line of remand on the blackboard of this unit, as the user of the unit.
    pub(super) fn remand(&self, words: &str) -> String {
        match &self.wish.scope {
            Scope::User => format!("remand {words}"),
            Scope::System { run_as } => on_blackboard(run_as, &self.blackboard, words),
        }
    }

    pub(super) fn text(&self) -> Result<String> {
        Ok(service_unit::text(self.kind, &self.wish)?)
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.wish.scope
    }

    /// Checks the permissions and the user before anything is written.
    pub(super) fn may_install(&self) -> Result<()> {
        let Scope::System { run_as } = &self.wish.scope else {
            return Ok(());
        };
        if self.root.is_none() && !rustix::process::geteuid().is_root() {
            return CommandError::new("only root can install a system service").fail_with_hint(
                format!(
                    "run `{}`, or install it for your user with `remand service install --user`",
                    self.with_sudo("install")
                ),
            );
        }
        if !self.is_user_known {
            let make = format!(
                "useradd --system --create-home --home-dir /var/lib/{run_as} --shell /usr/sbin/nologin {run_as}"
            );
            return CommandError::not_found(format!(
                "there is no user `{run_as}` to run the service as"
            ))
            .fail_with_hint(format!(
                "create it with `{make}`, or choose another user with --run-as"
            ));
        }
        Ok(())
    }

    /// Options of `remand service install` that select this unit.
    pub(super) fn flags(&self) -> String {
        let mut flags = match &self.wish.scope {
            Scope::User => String::new(),
            Scope::System { run_as } if run_as == "remand" => " --system".to_owned(),
            Scope::System { run_as } => format!(" --system --run-as {run_as}"),
        };
        if (self.kind == Kind::Launchd) != cfg!(target_os = "macos") {
            flags.push_str(if self.kind == Kind::Launchd {
                " --launchd"
            } else {
                " --systemd"
            });
        }
        flags
    }

    /// Command line that installs this unit again, with one more option.
    fn install_again(&self, option: &str) -> String {
        match &self.wish.scope {
            Scope::User => format!("remand service install{} {option}", self.flags()),
            Scope::System { .. } => format!("{} {option}", self.with_sudo("install")),
        }
    }

    /// Command line with sudo. Programs in a home directory are often not in the PATH of sudo.
    fn with_sudo(&self, command: &str) -> String {
        let sudo_path = [
            "/usr/local/sbin",
            "/usr/local/bin",
            "/usr/sbin",
            "/usr/bin",
            "/sbin",
            "/bin",
        ];
        let folder = self.wish.program.parent();
        let is_found = sudo_path
            .iter()
            .any(|known| folder == Some(Path::new(known)));
        let program = if is_found {
            "remand".to_owned()
        } else {
            self.wish.program.display().to_string()
        };
        format!("sudo {program} service {command}{}", self.flags())
    }

    /// Writes the login variables of this shell to the file that the unit reads; returns its path.
    pub(super) fn write_logins(&self) -> Result<PathBuf> {
        let names: Vec<String> = self.logins.iter().map(|(name, _)| name.clone()).collect();
        if self.kind == Kind::Launchd {
            return CommandError::usage(
                "--with-logins needs systemd: launchd does not read environment files",
            )
            .fail();
        }
        if names.is_empty() {
            return CommandError::new("no login variable for an agent or gh is set in this shell")
                .fail_with_hint("export it first (with sudo: `sudo --preserve-env=NAME …`), or install without --with-logins");
        }
        let file = inside(self.root.as_deref(), &self.wish.environment);
        write_logins(&file, &self.logins)?;
        Ok(file)
    }

    /// Reasons why the daemon would not start, or would not see its files.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.is_program_missing {
            let (root, program) = (
                self.root.as_deref().unwrap_or(Path::new("/")),
                &self.wish.program,
            );
            warnings.push(format!(
                "warning: the unit starts {}, which is not in {}",
                program.display(),
                root.display()
            ));
            warnings.push(format!(
                "hint: install remand as {}, then run this command again",
                root.join("usr/bin/remand").display()
            ));
        }
        if self.kind == Kind::Launchd || self.wish.scope == Scope::User {
            return warnings;
        }
        for project in self.projects.iter().flatten() {
            let (id, path) = (&project.project_id, Path::new(&project.path));
            let path = self
                .root
                .as_ref()
                .map_or_else(|| path.to_owned(), |root| seen_from(root, path));
            if PRIVATE.iter().any(|folder| path.starts_with(folder)) {
                warnings.push(format!(
                    "warning: the service cannot see the project {id} in {}: its unit has a private /tmp and /var/tmp \
                     (PrivateTmp=yes)",
                    path.display()
                ));
                warnings.push(format!(
                    "hint: move the repository elsewhere, then run `{}` and `{}`",
                    self.remand(&format!("project remove {id}")),
                    self.remand("project add PATH")
                ));
            }
        }
        warnings
    }

    /// Hints after an install.
    pub(super) fn hints(&self, with_logins: bool) -> Vec<String> {
        let mut hints = self.warnings();
        if self.kind == Kind::Systemd && !self.logins.is_empty() && !with_logins {
            let names: Vec<&str> = self.logins.iter().map(|(name, _)| name.as_str()).collect();
            hints.push(format!(
                "note: the service does not inherit {} from this shell",
                names.join(", ")
            ));
            hints.push(format!(
                "hint: `{}` saves them in {}, which the unit loads and only you can read",
                self.install_again("--with-logins"),
                self.wish.environment.display()
            ));
        }
        let user = config::login_name().unwrap_or_else(|| "$USER".to_owned());
        let lingers = Path::new("/var/lib/systemd/linger").join(&user).exists();
        if self.kind == Kind::Systemd && self.wish.scope == Scope::User && !lingers {
            let linger = "loginctl enable-linger";
            hints.push(format!(
                "hint: it runs only while you are logged in; `{linger}` (if refused, `sudo {linger} {user}`) starts it at \
                 boot and keeps it running"
            ));
        }
        hints
    }
}

/// Command line for a blackboard that belongs to another user.
pub(super) fn on_blackboard(user: &str, blackboard: &Path, words: &str) -> String {
    format!(
        "sudo -u {user} remand --db {} {words}",
        blackboard.display()
    )
    .trim_end()
    .to_owned()
}

/// User of a system unit: the named one, or else that of the installed unit.
fn run_as(which: &Which, kind: Kind, file: &Path) -> String {
    let installed = || {
        Some(service_unit::installed(kind, &super::read(file).ok()??))
            .filter(|unit| unit.is_ours)?
            .user
    };
    which
        .run_as
        .clone()
        .or_else(installed)
        .unwrap_or_else(|| RUN_AS.to_owned())
}

/// Settings and blackboard of a system daemon: those named on the command line, then the
/// system-wide ones, then those of the daemon's user. Never those of the person who installs it.
fn machine_place(
    whose: SettingsOwner<'_>,
    root: Option<&Path>,
    given: &ConfigLocation,
) -> ConfigLocation {
    let is_there = |path: &PathBuf| path.exists();
    let machines = Some(root.unwrap_or(Path::new("/")).join(SETTINGS)).filter(is_there);
    let users = whose
        .usual_file()
        .map(|file| inside(root, &file))
        .filter(is_there);
    let config = given
        .config
        .clone()
        .or_else(|| machines.clone())
        .or_else(|| users.clone());
    let without_db = ConfigLocation {
        config: config.clone(),
        db: None,
    };
    // Loaded here only for this; errors are reported by the next reader.
    let says_where = config.is_some()
        && whose
            .load(&without_db)
            .is_ok_and(|loaded| matches!(loaded.blackboard_from, Origin::File { .. }));
    let users_board = whose.usual_blackboard().filter(|board| {
        given.config.is_none()
            && machines.is_none()
            && (users.is_some() || inside(root, board).exists())
    });
    let db = given
        .db
        .clone()
        .or_else(|| (!says_where).then(|| users_board.unwrap_or_else(|| BLACKBOARD.into())));
    ConfigLocation { config, db }
}

/// Scope, home directory and program of the daemon.
struct Runner {
    scope: Scope,
    home: Option<PathBuf>,
    program: PathBuf,
}

fn wish(runner: Runner, loaded: &Loaded, projects: &[Project]) -> UnitSpec {
    let Runner {
        scope,
        home,
        program,
    } = runner;
    let mut args = Vec::new();
    // Named even if they are the defaults: the daemon does not have the environment of this shell.
    if let Some(file) = &loaded.file {
        args.extend(["--config".to_owned(), file.to_string_lossy().into_owned()]);
    }
    if !matches!(loaded.blackboard_from, Origin::File { .. }) {
        args.extend([
            "--db".to_owned(),
            loaded.blackboard.to_string_lossy().into_owned(),
        ]);
    }
    args.push("run".to_owned());
    let state = loaded.state_folder();
    let path = match &scope {
        Scope::User => config::search_path().unwrap_or_default(),
        Scope::System { .. } => machine_path(home.as_deref()),
    };
    let (mut named, mut writable) = (loaded.sandbox().mounts.write, vec![state.clone()]);
    for project in projects {
        let settings = loaded.project(project.project_id.as_str());
        if settings.worktree_roots.is_empty() {
            writable.push(beside_project(Path::new(&project.path)));
        }
        writable.push(PathBuf::from(&project.common_dir));
        named.push(settings.own_worktrees);
        named.extend(settings.worktree_roots);
    }
    if scope != Scope::User {
        named.extend(home);
    }
    writable.extend(named);
    let readable = [
        program.parent(),
        loaded.file.as_deref(),
        loaded.evaluators.as_deref(),
        loaded.prompts.as_deref(),
    ];
    let readable = readable.into_iter().flatten().map(PathBuf::from).collect();
    let stop_s = loaded.config.dispatch.stop_grace_s + loaded.config.limits.grace_s + MOMENT_S;
    let environment = match &scope {
        Scope::User => config::usual_file()
            .unwrap_or_default()
            .with_file_name("environment"),
        Scope::System { .. } => "/etc/remand/environment".into(),
    };
    UnitSpec {
        scope,
        program,
        args,
        path,
        environment,
        state,
        writable,
        readable,
        stop_s,
    }
}

/// Directories whose subdirectories hold more than one project: homes, mounted disks, system
/// directories.
const HOLD_BROAD_FOLDERS: [&str; 9] = [
    "home", "media", "mnt", "private", "run", "usr", "var", "Users", "Volumes",
];

/// Directory in which the worktrees of a project are expected: the parent of the project, unless
/// that is too broad to be writable for one project.
fn beside_project(project: &Path) -> PathBuf {
    let is_broad = |folder: &Path| {
        let names: Vec<&str> = folder
            .iter()
            .skip(1)
            .filter_map(|name| name.to_str())
            .collect();
        match names.as_slice() {
            [] | [_] => true,
            [first, _] => HOLD_BROAD_FOLDERS.contains(first),
            [..] => false,
        }
    };
    let parent = project.parent().filter(|parent| !is_broad(parent));
    parent.unwrap_or(project).to_owned()
}

/// Names of the login variables of agents and of the forge's tools.
fn login_names(loaded: &Loaded) -> Vec<String> {
    let agents = loaded.config.agents.values().flat_map(Agent::variables);
    let is_login = |name: &String| {
        ["KEY", "TOKEN", "SECRET"]
            .iter()
            .any(|part| name.to_ascii_uppercase().contains(part))
    };
    let mut names: Vec<String> = agents
        .chain(["GH_TOKEN".to_owned(), "GITHUB_TOKEN".to_owned()])
        .filter(is_login)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// Reads the projects of a blackboard; `None` if it cannot be read.
fn projects(blackboard: &Path) -> Option<Vec<Project>> {
    match blackboard.try_exists() {
        Ok(false) => Some(Vec::new()),
        Ok(true) => ReadOnlyDb::open(blackboard)
            .and_then(|mut onlook| onlook.read(bb::list_projects))
            .ok(),
        Err(_) => None,
    }
}

/// Returns a path inside the file system of another machine.
fn inside(root: Option<&Path>, path: &Path) -> PathBuf {
    root.map_or_else(
        || path.to_owned(),
        |root| root.join(path.strip_prefix("/").unwrap_or(path)),
    )
}

fn machine_path(home: Option<&Path>) -> String {
    let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    // Usual location of installed agents.
    home.map_or(usual.to_owned(), |home| {
        format!("{}:{usual}", home.join(".local/bin").display())
    })
}

/// Home directory of a local user. Users from a directory service are not found.
pub(super) fn home_of(user: &str, root: Option<&Path>) -> Option<PathBuf> {
    let list = std::fs::read_to_string(root.unwrap_or(Path::new("/")).join("etc/passwd")).ok()?;
    let line = list
        .lines()
        .find(|line| line.split(':').next() == Some(user))?;
    line.split(':')
        .nth(5)
        .filter(|home| home.starts_with('/') && *home != "/")
        .map(PathBuf::from)
}
