//! Checks the blackboard, its daemon, and the state of its changes.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::{CALL, Check, Surroundings};
use crate::blackboard::{self as bb, Project, Quick, ReadOnlyDb, Show};
use crate::change::{Change, ProjectId, Shadow, ShadowMode, State};
use crate::clock::Time;
use crate::config::{Loaded, Origin};
use crate::daemon::{self, InForce};
use crate::text::{bytes, count, prefixed};

const NAME: &str = "blackboard";

/// Information that is read before the other checks.
#[derive(Default)]
pub(super) struct Known {
    pub(super) checks: Vec<Check>,
    pub(super) projects: Vec<Project>,
    pub(super) last_beat: Option<Time>,
    /// Effective shadow mode of each project.
    pub(super) shadows: Vec<(ProjectId, Shadow)>,
    pub(super) standing: Vec<Check>,
    /// Configuration that the daemon uses.
    pub(super) configuration: Option<bb::Configuration>,
}

impl Known {
    fn only(check: Check) -> Self {
        Self {
            checks: vec![check],
            ..Self::default()
        }
    }
}

pub(super) async fn onlook(loaded: &Loaded, now: Time) -> Known {
    let path = loaded.blackboard.clone();
    match path.metadata() {
        Ok(meta) if meta.is_dir() || meta.len() > 0 => {}
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {}
        Ok(_) | Err(_) => return Known::only(missing(loaded)),
    }
    // Unreadable settings are reported elsewhere.
    let latest = daemon::latest(loaded, now).ok();
    let looked = tokio::task::spawn_blocking(move || look(&path, latest, now)).await;
    match looked {
        Ok(Ok(known)) => known,
        Ok(Err(error)) => Known::only(unreadable(&error)),
        Err(error) => {
            let what_to_do = "this is a bug in remand: please report it";
            Known::only(Check::fail(NAME, error.to_string(), what_to_do))
        }
    }
}

fn missing(loaded: &Loaded) -> Check {
    let path = loaded.blackboard.display();
    match &loaded.blackboard_from {
        Origin::Flag(name) | Origin::Variable(name) => Check::fail(
            NAME,
            format!("no file at {path}, which {name} refers to"),
            "check the path; `remand project add PATH` creates a new blackboard there",
        ),
        Origin::Default | Origin::File { .. } => Check::warn(
            NAME,
            format!("no file at {path} yet"),
            "`remand project add PATH` creates it",
        ),
    }
}

fn unreadable(error: &bb::BoardError) -> Check {
    let r#do = if matches!(error, bb::BoardError::Newer { .. }) {
        "install the latest version of remand"
    } else if matches!(error, bb::BoardError::Foreign { .. }) {
        "choose another file with --db, REMAND_DB, or `blackboard` in the settings"
    } else {
        "check the file and its directory, or restore a backup"
    };
    Check::fail(NAME, error.to_string(), r#do)
}

fn look(path: &Path, latest: Option<bb::Latest>, now: Time) -> bb::Result<Known> {
    let mut onlook = ReadOnlyDb::open(path)?;
    onlook.read(|conn| {
        let projects = bb::list_projects(conn)?;
        let shadow = |id: &ProjectId| Ok((id.clone(), bb::project_shadow(conn, id)?));
        Ok(Known {
            checks: modes(path).into_iter().chain(unwritable(path)).collect(),
            shadows: projects
                .iter()
                .map(|project| shadow(&project.project_id))
                .collect::<bb::Result<_>>()?,
            projects,
            configuration: bb::configuration(conn)?,
            last_beat: bb::evaluator_rows(conn)?
                .into_iter()
                .filter_map(|row| row.last_run)
                .max(),
            standing: bb::stops(conn)?
                .iter()
                .map(stopped)
                .chain(clock_jumps(conn, latest, now)?)
                .chain(changes(&bb::board(conn, Show::Live, i64::MAX)?, now))
                .collect(),
        })
    })
}

/// Checks that only the user can read the blackboard: it has remand's knowledge and the agents'
/// output.
fn modes(path: &Path) -> Vec<Check> {
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let open = |path: &Path, to: &str| {
        let mode = path.metadata().ok()?.permissions().mode() & 0o777;
        let says = format!(
            "{} is accessible to other users (mode {mode:03o})",
            path.display()
        );
        (mode & 0o077 != 0)
            .then(|| Check::warn(NAME, says, format!("chmod {to} {}", path.display())))
    };
    [open(path, "600"), open(&folder, "700")]
        .into_iter()
        .flatten()
        .collect()
}

/// Checks that the blackboard is writable: otherwise no command except this one can open it.
fn unwritable(path: &Path) -> Option<Check> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let written = access(path, Access::WRITE_OK)
        .and_then(|()| access(folder, Access::WRITE_OK | Access::EXEC_OK));
    let error = written.err()?;
    let says = format!("{} is not writable: {error}", path.display());
    let r#do =
        "make the file and its directory writable; if the file system is read-only, check `dmesg`";
    Some(Check::fail(NAME, says, r#do))
}

/// Checks the integrity of the file, as far as that is possible in a moment.
pub(super) async fn integrity(around: Arc<Surroundings>) -> Vec<Check> {
    let path = around.loaded.blackboard.clone();
    let size = size(&path);
    if size == 0 || !path.is_file() {
        return Vec::new();
    }
    let file = format!("{}, {}", path.display(), bytes(size));
    let looked =
        tokio::task::spawn_blocking(move || ReadOnlyDb::open(&path)?.quick_check(CALL / 2)).await;
    match looked {
        Ok(Ok(Quick::Whole)) => vec![Check::ok(NAME, format!("{file}, intact"))],
        Ok(Ok(Quick::NotInTime)) => {
            let says = format!("{file}; too large for a quick check: run `remand check`");
            vec![Check::ok(NAME, says)]
        }
        Ok(Ok(Quick::Damaged(what))) => {
            let says = format!("{file}, damaged: {what}");
            vec![Check::fail(NAME, says, "stop remand and restore a backup")]
        }
        // Already reported when it was first opened.
        Ok(Err(_)) | Err(_) => Vec::new(),
    }
}

/// Returns the size, including what has not been written into the file itself yet.
fn size(path: &Path) -> u64 {
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let files = [path, Path::new(&wal)].into_iter();
    let files = files.filter_map(|path| path.metadata().ok());
    files.map(|meta| meta.len()).sum()
}

pub(super) fn daemon(around: &Surroundings, last_beat: Option<Time>) -> Check {
    let beat = prefixed(", last heartbeat at ", last_beat);
    match daemon::holder(&around.loaded.blackboard) {
        Some(pid) => Check::ok("daemon", format!("running with pid {pid}{beat}")),
        None => Check::warn(
            "daemon",
            format!("not running{beat}"),
            "start it with `remand run` or `remand service install`, or run `remand tick` from cron",
        ),
    }
}

/// Checks that the daemon uses the current files; `loaded` is `None` if they cannot be loaded.
pub(super) fn in_force(
    loaded: Option<&Loaded>,
    blackboard: &Path,
    row: Option<&bb::Configuration>,
) -> Option<Check> {
    const NAME: &str = "configuration";
    let Some(loaded) = loaded else {
        // The files were checked before; here it only matters that the daemon continues with the
        // old ones.
        let row = row.filter(|_| daemon::holder(blackboard).is_some())?;
        let since = row.in_force_since;
        let says = format!("the daemon uses the settings it loaded at {since}; nothing is pushed");
        let r#do = "fix the file: the daemon then loads it automatically";
        return Some(Check::warn(NAME, says, r#do));
    };
    let in_force = InForce::of(loaded, row);
    match in_force.is_in_force() {
        None => None,
        Some(true) => Some(Check::ok(NAME, in_force.sentence())),
        Some(false) => {
            let other = "start the daemon with this file, or pass the daemon's file with --config";
            let command = in_force.command();
            let r#do = command.map_or(other.to_owned(), |command| format!("run `{command}`"));
            Some(Check::warn(NAME, in_force.sentence(), r#do))
        }
    }
}

/// Lists projects in shadow, and differences between the settings and what the daemon uses.
pub(super) fn shadow(loaded: &Loaded, shadows: &[(ProjectId, Shadow)]) -> Vec<Check> {
    let runs = daemon::holder(&loaded.blackboard).is_some();
    let mode = |(id, in_force): &(ProjectId, Shadow)| {
        if runs {
            *in_force
        } else {
            loaded.project(id.as_str()).shadow
        }
    };
    let mut checks = Vec::new();
    for (in_mode, what) in [
        (
            ShadowMode::Review,
            "agents review, but nothing is fixed, pushed or posted",
        ),
        (ShadowMode::Dry, "nothing is run, pushed or posted"),
    ] {
        let on: Vec<&str> = shadows
            .iter()
            .filter(|one| mode(one) == Some(in_mode))
            .map(|(id, _)| id.as_str())
            .collect();
        if !on.is_empty() {
            let on = on.join(", ");
            let says = format!("enabled for {on}: {what}; see `remand stats --shadow`");
            checks.push(Check::ok("shadow", says));
        }
    }
    checks.extend(shadows.iter().filter_map(|(id, in_force)| {
        let unread = daemon::UnreadShadow::of(loaded, id, *in_force)?;
        let says = format!("{id}: {}", unread.says());
        Some(Check::warn("shadow", says, unread.remedy()))
    }));
    checks
}

/// Reports a stop: a person set it and may have forgotten it.
fn stopped(stop: &bb::Stopped) -> Check {
    let project = stop.project_id.as_ref();
    let what = project.map_or("everything", ProjectId::as_str);
    let reason = prefixed(": ", stop.reason.as_ref());
    let (by, at) = (&stop.stopped_by, stop.stopped_at);
    let says = format!("{what}, by {by} at {at}{reason}");
    let r#do = format!("run `remand start{}` to continue", prefixed(" ", project));
    Check::warn("stopped", says, r#do)
}

/// Finds recorded times in the future, and waits that no correct clock can have stored.
fn clock_jumps(conn: &bb::Conn, latest: Option<bb::Latest>, now: Time) -> bb::Result<Vec<Check>> {
    let mut checks = Vec::new();
    if let Some(done) = bb::latest_stored(conn)?.filter(|done| bb::is_ahead(*done, now)) {
        let says = format!(
            "it was set back: the blackboard contains times up to {done}, but it is now {now}"
        );
        let r#do =
            "check the clock; work delayed because the clock was wrong is retried on the next pass";
        checks.push(Check::warn("clock", says, r#do));
    }
    let found = latest
        .map(|latest| bb::implausible(conn, &latest))
        .transpose()?
        .unwrap_or_default();
    if let Some(first) = found.first() {
        let stored = prefixed(" until ", first.stored);
        let says = format!(
            "{} too far in the future, such as the {} of {}{stored}",
            count(found.len(), "stored time"),
            first.deadline,
            first.id
        );
        let r#do = "`remand run` or `remand tick` continues immediately";
        checks.push(Check::warn("clock", says, r#do));
    }
    Ok(checks)
}

fn changes(rows: &[bb::BoardRow], now: Time) -> Option<Check> {
    if rows.is_empty() {
        return None;
    }
    let count =
        |fits: &dyn Fn(&Change) -> bool| rows.iter().filter(|row| fits(&row.change)).count();
    let needs_you = count(&|change| change.state == State::Escalated);
    let paused =
        count(&|change| change.paused_by_person || change.paused_by_rules || change.taken_over);
    let held = count(&|change| change.held_until.is_some_and(|until| until > now));
    let mut parts = vec![format!("{} in progress", rows.len() - needs_you)];
    for (n, what) in [(needs_you, "need you"), (paused, "paused"), (held, "held")] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    let says = parts.join(", ");
    Some(if needs_you + held > 0 {
        let r#do = "`remand list` lists them, and `remand why CHANGE` explains what to do";
        Check::warn("changes", says, r#do)
    } else {
        Check::ok("changes", says)
    })
}
