//! Where a unit goes, and what stands in it.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use super::Which;
use crate::blackboard::{self as bb, Onlook, Project};
use crate::cli::desk::Desk;
use crate::cli::fail::Fail;
use crate::config::{self, Loaded, Origin, Place};
use crate::unit::{self, Kind, Scope, Wish};

/// The settings of the machine, where there are any.
const SETTINGS: &str = "etc/remand/config.toml";
/// The blackboard of the machine, where the settings do not say otherwise.
const BLACKBOARD: &str = "/var/lib/remand/blackboard.db";
/// For putting worktrees back and writing it down, after agents had their grace.
const MOMENT_S: u64 = 35;

pub(super) struct Site {
    pub(super) kind: Kind,
    pub(super) file: PathBuf,
    pub(super) root: Option<PathBuf>,
    pub(super) blackboard: PathBuf,
    wish: Wish,
    is_user_known: bool,
    /// All that stands in the text could be looked up.
    pub(super) is_whole: bool,
}

impl Site {
    pub(super) fn find(which: &Which, desk: &Desk) -> Result<Self> {
        let is_launchd = which.launchd || (cfg!(target_os = "macos") && !which.systemd);
        let kind = if is_launchd { Kind::Launchd } else { Kind::Systemd };
        let scope = if which.system { Scope::System { run_as: which.run_as.clone() } } else { Scope::User };
        let root = which.root.as_ref().map(std::path::absolute).transpose().context("--root")?;
        let file = file(kind, &scope, root.as_deref())?;
        let place = place(&scope, root.as_deref(), desk.place().clone());
        let loaded = config::load(&place)?;
        let home = match &scope {
            Scope::User => config::home(),
            Scope::System { run_as } => home_of(run_as, root.as_deref()),
        };
        let is_user_known = scope == Scope::User || home.is_some();
        let (projects, is_whole) = match &scope {
            // What it may write is not bounded there.
            Scope::User => (Vec::new(), true),
            Scope::System { .. } => projects(&inside(root.as_deref(), &loaded.blackboard)),
        };
        let mut wish = wish(scope, &loaded, home, &projects)?;
        if let Some(root) = &root {
            wish.seen_from(root);
        }
        Ok(Self { kind, file, root, blackboard: loaded.blackboard, wish, is_user_known, is_whole })
    }

    pub(super) fn text(&self) -> Result<String> {
        Ok(unit::text(self.kind, &self.wish)?)
    }

    pub(super) fn scope(&self) -> &Scope {
        &self.wish.scope
    }

    /// Better said before anything is written.
    pub(super) fn may_install(&self) -> Result<()> {
        let Scope::System { run_as } = &self.wish.scope else { return Ok(()) };
        if self.root.is_none() && !rustix::process::geteuid().is_root() {
            return Err(Fail::new("only root may install it for the machine")
                .hint("with sudo, or for yourself: `remand service install --user`")
                .into());
        }
        if !self.is_user_known {
            let make = format!(
                "useradd --system --create-home --home-dir /var/lib/{run_as} --shell /usr/sbin/nologin {run_as}"
            );
            return Err(Fail::not_found(format!("there is no user `{run_as}` that it could run as"))
                .hint(format!("`{make}`, or name another one with --run-as"))
                .into());
        }
        Ok(())
    }

    /// The words after `remand service install` that mean this one.
    pub(super) fn flags(&self) -> String {
        let mut flags = match &self.wish.scope {
            Scope::User => String::new(),
            Scope::System { run_as } if run_as == "remand" => " --system".to_owned(),
            Scope::System { run_as } => format!(" --system --run-as {run_as}"),
        };
        if (self.kind == Kind::Launchd) != cfg!(target_os = "macos") {
            flags.push_str(if self.kind == Kind::Launchd { " --launchd" } else { " --systemd" });
        }
        flags
    }

    pub(super) fn hint(&self) -> Option<&'static str> {
        let is_for_user = self.kind == Kind::Systemd && self.wish.scope == Scope::User;
        is_for_user.then_some("hint: `loginctl enable-linger` has it run while you are not logged in, too")
    }
}

fn file(kind: Kind, scope: &Scope, root: Option<&Path>) -> Result<PathBuf> {
    let no_home = || Fail::new("HOME is not set: where your units are is not known");
    let below = |path: &str| root.unwrap_or(Path::new("/")).join(path);
    Ok(match (kind, scope) {
        (Kind::Systemd, Scope::User) => config::config_home().ok_or_else(no_home)?.join("systemd/user/remand.service"),
        (Kind::Systemd, Scope::System { .. }) => below("etc/systemd/system/remand.service"),
        (Kind::Launchd, Scope::User) => config::home().ok_or_else(no_home)?.join("Library/LaunchAgents/remand.plist"),
        (Kind::Launchd, Scope::System { .. }) => below("Library/LaunchDaemons/remand.plist"),
    })
}

/// A daemon of the machine has no business with the settings of whoever installs it.
fn place(scope: &Scope, root: Option<&Path>, given: Place) -> Place {
    if *scope == Scope::User {
        return given;
    }
    let usual = root.unwrap_or(Path::new("/")).join(SETTINGS);
    let config = given.config.or_else(|| Some(usual).filter(|file| file.exists()));
    let without_db = Place { config: config.clone(), db: None };
    // Read here only for this; what is wrong with it is said by whoever reads it next.
    let says_where = config.is_some()
        && config::load(&without_db).is_ok_and(|loaded| matches!(loaded.blackboard_from, Origin::File { .. }));
    let db = given.db.or_else(|| (!says_where).then(|| BLACKBOARD.into()));
    Place { config, db }
}

fn wish(scope: Scope, loaded: &Loaded, home: Option<PathBuf>, projects: &[Project]) -> Result<Wish> {
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let mut args = Vec::new();
    // Named even where they are the usual ones: the daemon's environment is not that of this shell.
    if let Some(file) = &loaded.file {
        args.extend(["--config".to_owned(), file.to_string_lossy().into_owned()]);
    }
    if !matches!(loaded.blackboard_from, Origin::File { .. }) {
        args.extend(["--db".to_owned(), loaded.blackboard.to_string_lossy().into_owned()]);
    }
    args.push("run".to_owned());
    let state = loaded.blackboard.parent().map(PathBuf::from).unwrap_or_default();
    let path = match &scope {
        Scope::User => config::search_path().unwrap_or_default(),
        Scope::System { .. } => machine_path(home.as_deref()),
    };
    let (mut named, mut writable) = (loaded.sandbox().write, vec![state.clone()]);
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
        named = at_home(named, home.as_deref());
        named.extend(home);
    }
    writable.extend(named);
    let readable = [program.parent(), loaded.file.as_deref(), loaded.evaluators.as_deref(), loaded.prompts.as_deref()];
    let readable = readable.into_iter().flatten().map(PathBuf::from).collect();
    let stop_s = loaded.config.dispatch.stop_grace_s + loaded.config.limits.grace_s + MOMENT_S;
    Ok(Wish { scope, program, args, path, state, writable, readable, stop_s })
}

/// Folders whose folders hold more than one project: a home, a mounted disk, a part of the system.
const HOLD_BROAD_FOLDERS: [&str; 9] = ["home", "media", "mnt", "private", "run", "usr", "var", "Users", "Volumes"];

/// The folder in which worktrees of a project are expected: the one that the project is in, unless that is too broad to
/// be opened for one project.
fn beside_project(project: &Path) -> PathBuf {
    let is_broad = |folder: &Path| {
        let names: Vec<&str> = folder.iter().skip(1).filter_map(|name| name.to_str()).collect();
        match names.as_slice() {
            [] | [_] => true,
            [first, _] => HOLD_BROAD_FOLDERS.contains(first),
            [..] => false,
        }
    };
    let parent = project.parent().filter(|parent| !is_broad(parent));
    parent.unwrap_or(project).to_owned()
}

/// What the settings name below a home was found below that of whoever installs it, and is meant below its own.
fn at_home(paths: Vec<PathBuf>, own: Option<&Path>) -> Vec<PathBuf> {
    let Some(installers) = config::home().filter(|home| home != Path::new("/")) else { return paths };
    let moved = |path: PathBuf| match path.strip_prefix(&installers) {
        Ok(rest) => own.map(|own| own.join(rest)),
        Err(_) => Some(path),
    };
    paths.into_iter().filter_map(moved).collect()
}

/// The projects of a blackboard, and whether they could be looked up.
fn projects(blackboard: &Path) -> (Vec<Project>, bool) {
    match blackboard.try_exists() {
        Ok(false) => (Vec::new(), true),
        Ok(true) => match Onlook::open(blackboard).and_then(|mut onlook| onlook.read(bb::list_projects)) {
            Ok(projects) => (projects, true),
            Err(_) => (Vec::new(), false),
        },
        Err(_) => (Vec::new(), false),
    }
}

/// A path of another machine's file system.
fn inside(root: Option<&Path>, path: &Path) -> PathBuf {
    root.map_or_else(|| path.to_owned(), |root| root.join(path.strip_prefix("/").unwrap_or(path)))
}

fn machine_path(home: Option<&Path>) -> String {
    let usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    // Where agents install themselves.
    home.map_or(usual.to_owned(), |home| format!("{}:{usual}", home.join(".local/bin").display()))
}

/// The home of a user of the machine. One that only a directory service knows is not found here.
fn home_of(user: &str, root: Option<&Path>) -> Option<PathBuf> {
    let list = std::fs::read_to_string(root.unwrap_or(Path::new("/")).join("etc/passwd")).ok()?;
    let line = list.lines().find(|line| line.split(':').next() == Some(user))?;
    line.split(':').nth(5).filter(|home| home.starts_with('/') && *home != "/").map(PathBuf::from)
}
