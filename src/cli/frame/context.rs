//! Context of a command: settings, blackboard, git, time and output.

use std::cell::Cell;
use std::fmt::Display;
use std::future::Future;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

use super::error::{CommandError, ExitCode};
use super::pr_ref::{PrRef, project_here};
use super::ui::{Line, Ui};
use crate::blackboard::{self as bb, BoardError, Conn, SyncDb};
use crate::change::{Change, ChangeId};
use crate::clock::{self, Time, Zone};
use crate::config::{self, ConfigLocation, Loaded, Origin};
use crate::diagnostic::nearest;
use crate::evaluator::Definition;
use crate::evaluator::definition;
use crate::explain::{Around, Daemon, pr_name};
use crate::git::Git;
use crate::sanitize::cap;
use crate::{daemon, heartbeat, wake};

/// Maximum number of bytes read from a file or stdin: far larger than a review, far smaller than
/// memory.
const TEXT_CAP: u64 = 4 * 1024 * 1024;

/// Maximum number of characters of one field: outside text may be megabytes, and JSON has all of
/// it.
pub(crate) const FIELD_CAP: usize = 4_000;

pub(crate) struct CommandContext {
    pub(crate) out: Ui,
    pub(crate) now: Time,
    /// Number of times `-v` was given.
    pub(crate) verbose: u8,
    place: ConfigLocation,
    missing: Missing,
    /// Set if no project is known yet, which is reported at the end.
    knows_nothing: Cell<bool>,
}

/// Behaviour if there is no blackboard yet. Only a command that writes to it creates one: the
/// result of a mistyped path must not be an empty board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Refuse,
    Make,
}

impl CommandContext {
    pub(crate) fn new(out: Ui, place: ConfigLocation, verbose: u8) -> Self {
        Self {
            out,
            now: clock::now(),
            verbose,
            place,
            missing: Missing::Refuse,
            knows_nothing: Cell::new(false),
        }
    }

    /// Config file and blackboard named on the command line.
    pub(crate) fn place(&self) -> &ConfigLocation {
        &self.place
    }

    /// Switches to another config file or blackboard.
    pub(crate) fn move_to(&mut self, place: ConfigLocation) {
        self.place = place;
        self.now = clock::now();
    }

    pub(crate) fn settings(&self) -> Result<Loaded> {
        Ok(config::load(&self.place)?)
    }

    /// Prints a result: as JSON for programs, with `print` for people.
    pub(crate) fn show<T: Serialize>(
        &mut self,
        value: &T,
        print: impl FnOnce(&mut Self, &T) -> Result<()>,
    ) -> Result<ExitCode> {
        if self.out.is_json() {
            self.out.json(value)?;
        } else {
            print(self, value)?;
        }
        Ok(ExitCode::Done)
    }

    /// Prints a label and its value in the column layout of `status` and `show`; nothing if it is
    /// empty.
    pub(crate) fn field(&mut self, label: &str, value: impl Display) -> Result<()> {
        let value = value.to_string();
        if !value.is_empty() {
            let label = Line::label(label);
            self.out.wrapped(label, 11, &cap(&value, FIELD_CAP))?;
        }
        Ok(())
    }

    /// Like `field`, for an optional value.
    pub(crate) fn field_if(&mut self, label: &str, value: Option<impl Display>) -> Result<()> {
        value.map_or(Ok(()), |value| self.field(label, value))
    }

    /// Loads the evaluators in effect.
    pub(crate) fn evaluators(&self, settings: &Loaded) -> Result<Vec<Definition>> {
        Ok(definition::load(settings.evaluators.as_deref(), self.now)?)
    }

    /// Allows this command to create the blackboard.
    pub(crate) fn may_begin(&mut self) {
        self.missing = Missing::Make;
    }

    /// Records that no project is known yet: the first thing to fix, whatever the command was.
    pub(crate) fn note_nothing_known(&self) {
        self.knows_nothing.set(true);
    }

    pub(crate) fn knows_nothing(&self) -> bool {
        self.knows_nothing.get()
    }

    /// Opens the blackboard for reading. A missing one is an empty one in memory, unless it was
    /// named explicitly.
    pub(crate) fn board(&self) -> Result<SyncDb> {
        let settings = self.settings()?;
        if let Some(board) = self.board_there(&settings)? {
            return Ok(board);
        }
        if self.missing == Missing::Refuse && is_named(&settings) {
            return not_there(&settings).fail();
        }
        if self.missing == Missing::Refuse {
            self.note_nothing_known();
        }
        Ok(SyncDb::empty(self.now)?)
    }

    /// Opens the blackboard if it exists.
    pub(crate) fn board_there(&self, settings: &Loaded) -> Result<Option<SyncDb>> {
        // If it is not accessible, opening it gives a better error. A blackboard that is just being
        // created is empty.
        let is_there = settings.blackboard.metadata().map_or_else(
            |error| is_hidden(&error),
            |meta| meta.is_dir() || meta.len() > 0,
        );
        Ok(if is_there {
            Some(SyncDb::open(&settings.blackboard, self.now)?)
        } else {
            None
        })
    }

    /// Reads from the blackboard if it exists; otherwise the result is empty.
    pub(crate) fn read_there<T: Default>(
        &self,
        settings: &Loaded,
        look: impl FnOnce(&Conn) -> bb::Result<T>,
    ) -> Result<T> {
        match self.board_there(settings)? {
            Some(mut board) => Ok(board.read(look)?),
            None => Ok(T::default()),
        }
    }

    /// Reads from the blackboard.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Conn) -> bb::Result<T>) -> Result<T> {
        Ok(self.board()?.read(look)?)
    }

    /// Runs one transaction and wakes the daemon.
    pub(crate) fn write<T>(
        &self,
        name: &str,
        step: impl FnOnce(&Conn, &Step) -> bb::Result<T>,
    ) -> Result<T> {
        refuse_agents()?;
        let with = Step {
            actor: config::user_name(),
            now: self.now,
        };
        let settings = self.settings()?;
        let mut board = match (self.board_there(&settings)?, self.missing) {
            (Some(board), _) => board,
            (None, Missing::Make) => SyncDb::open(&settings.blackboard, self.now)?,
            (None, Missing::Refuse) => return not_there(&settings).fail(),
        };
        let value = board.write(name, |conn| step(conn, &with))?;
        wake::poke(board.path());
        Ok(value)
    }

    /// Like `write`, with one pass of the evaluators in the same transaction, so that the
    /// consequences of a decision are visible immediately. An evaluator that cannot be read only
    /// blocks decisions that create work.
    pub(crate) fn write_and_judge(
        &self,
        name: &str,
        step: impl FnOnce(&Conn, &Step) -> bb::Result<()>,
    ) -> Result<()> {
        refuse_agents()?;
        let evaluators = self.evaluators(&self.settings()?)?;
        self.write(name, |conn, with| {
            step(conn, with)?;
            heartbeat::beat(conn, &evaluators, with.now).map(|_| ())
        })
    }

    /// Facts shared by all changes that are shown now.
    pub(crate) fn around(&self) -> Result<Around> {
        let settings = self.settings()?;
        let daemon = match daemon::holder(&settings.blackboard) {
            Some(_) => Daemon::Runs,
            None => Daemon::None,
        };
        Ok(Around {
            slots: settings.config.dispatch.slots,
            daemon,
            now: self.now,
            zone: match self.out.is_json() {
                true => Zone::Utc,
                false => Zone::Local,
            },
        })
    }

    pub(crate) fn git(&self, settings: &Loaded) -> Git {
        daemon::git(settings)
    }

    /// Finds a change by id, branch, worktree path or pull request.
    pub(crate) fn change(&self, text: &str) -> Result<Change> {
        let name = self.pull_name(text)?;
        let found = self.read(|conn| find_change(conn, name.as_deref().unwrap_or(text)))?;
        if let Some(change) = found {
            return Ok(change);
        }
        let near = self.read(|conn| similar_changes(conn, text))?;
        let pruned = self.pruned(text)?;
        Err(pruned.unwrap_or_else(|| no_such(text, &near)).into())
    }

    /// Returns the error for a pruned change, if there was a change with this id.
    pub(crate) fn pruned(&self, id: &str) -> Result<Option<CommandError>> {
        let at = self.read(|conn| bb::pruned_at(conn, id))?;
        Ok(at.map(|at| CommandError::not_found(format!("{id} was pruned at {}", at.local()))))
    }

    /// Canonical name of a pull request that was named by its URL or by its number alone.
    ///
    /// A number without `#` names a pull request only if the project of the current directory has
    /// one with that number.
    pub(crate) fn pull_name(&self, text: &str) -> Result<Option<String>> {
        if let Some(name) = PrRef::bare(text) {
            let Some(project) = project_here(self)? else {
                return Ok(None);
            };
            let pull = self.read(|conn| bb::pull_row(conn, &project.project_id, name.number))?;
            return Ok(pull.map(|_| pr_name(&project, name.number)));
        }
        let Some(name) =
            PrRef::parse(text).filter(|name| name.repo.is_none() || text.contains("://"))
        else {
            return Ok(None);
        };
        Ok(Some(pr_name(&name.project(self)?, name.number)))
    }
}

/// Refuses commands started inside a run: an agent that approves its own work has not been
/// reviewed. This is a convention, not a security boundary: an agent can clear its environment.
pub(crate) fn refuse_agents() -> Result<()> {
    if config::is_inside_a_run() {
        return CommandError::new(
            "refused inside a run: agents and gates cannot use commands that change anything",
        )
        .fail_with_hint("an agent answers on stdout");
    }
    Ok(())
}

/// True if the command line or the environment names the blackboard: only that file is meant.
fn is_named(settings: &Loaded) -> bool {
    match settings.blackboard_from {
        Origin::Flag(_) | Origin::Variable(_) => true,
        Origin::Default | Origin::File { .. } => false,
    }
}

fn not_there(settings: &Loaded) -> CommandError {
    let path = settings.blackboard.display();
    let (what, option) = match &settings.blackboard_from {
        Origin::Flag(name) => (
            format!("no blackboard at {path}, which {name} refers to"),
            format!(" --db {path}"),
        ),
        Origin::Variable(name) => (
            format!("no blackboard at {path}, which {name} refers to"),
            String::new(),
        ),
        Origin::Default | Origin::File { .. } => {
            (format!("no blackboard at {path} yet"), String::new())
        }
    };
    CommandError::not_found(what).hint(format!(
        "check the path; `remand project add PATH{option}` creates a new one"
    ))
}

fn is_hidden(error: &std::io::Error) -> bool {
    error.kind() != std::io::ErrorKind::NotFound
}

/// Actor and time of a write.
pub(crate) struct Step {
    pub(crate) actor: String,
    pub(crate) now: Time,
}

/// Returns `None` for a row that does not exist.
pub(crate) fn found<T>(row: bb::Result<T>) -> bb::Result<Option<T>> {
    match row {
        Err(BoardError::NotFound { .. }) => Ok(None),
        row => row.map(Some),
    }
}

/// Finds a change by id, branch, worktree path or canonical name of its pull request.
pub(crate) fn find_change(conn: &Conn, text: &str) -> bb::Result<Option<Change>> {
    let path = Path::new(text).canonicalize().ok();
    let path = path.as_deref().filter(|path| path.is_dir());
    let names = [Some(text), path.and_then(Path::to_str)];
    for name in names.into_iter().flatten() {
        if let Some(change) = found(bb::find_change(conn, name))? {
            return Ok(Some(change));
        }
    }
    Ok(None)
}

/// Returns up to three names of changes similar to `text`.
pub(crate) fn similar_changes(conn: &Conn, text: &str) -> bb::Result<Vec<String>> {
    let mut known: Vec<String> = bb::change_names(conn)?.into_iter().flatten().collect();
    let mut found = Vec::new();
    while found.len() < 3 {
        let Some(name) = nearest(text, known.iter().map(String::as_str)).map(str::to_owned) else {
            break;
        };
        known.retain(|candidate| *candidate != name);
        found.push(name);
    }
    Ok(found)
}

pub(crate) fn no_such(text: &str, near: &[String]) -> CommandError {
    let fail = CommandError::not_found(format!("no such change: `{text}`"));
    if PrRef::bare(text).is_some() {
        return fail.hint(
            "a number refers to a PR of the project in the current directory that remand has seen; elsewhere, use owner/repo#42",
        );
    }
    if near.is_empty() {
        fail.hint(
            "give the id, branch, worktree path or PR of a change; `remand list --all` lists them",
        )
    } else {
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        fail.hint(format!("did you mean {}?", near.join(" or ")))
    }
}

/// Reads the text of a file; `-` means stdin.
pub(crate) fn read_text(file: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let name = file.display();
    if file.as_os_str() == "-" {
        std::io::stdin()
            .take(TEXT_CAP + 1)
            .read_to_end(&mut bytes)
            .context("cannot read stdin")?;
    } else {
        let opened = std::fs::File::open(file).map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                CommandError::not_found(format!("no such file: {name}"))
            } else {
                CommandError::new(format!("cannot read {name}: {error}"))
            }
        })?;
        opened
            .take(TEXT_CAP + 1)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {name}"))?;
    }
    if u64::try_from(bytes.len()).is_ok_and(|length| length > TEXT_CAP) {
        return CommandError::new(format!(
            "{name} is larger than {} MiB",
            TEXT_CAP / 1024 / 1024
        ))
        .fail();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the text given with `--text`; `-` means stdin. Never empty.
pub(crate) fn said(text: &str) -> Result<String> {
    let text = if text == "-" {
        read_text(Path::new("-"))?
    } else {
        text.to_owned()
    };
    if text.trim().is_empty() {
        return CommandError::usage("the text is empty")
            .fail_with_hint("describe what should be done; `-` reads the text from stdin");
    }
    Ok(text)
}

/// Runs a future that waits for child processes or timers, on this thread.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    Ok(runtime()?.block_on(work))
}

/// Creates a runtime that works on the thread that waits for it.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")
}

/// Formats an optional change id for a list.
pub(crate) fn id_or_dash(id: Option<&ChangeId>) -> &str {
    id.map_or("-", ChangeId::as_str)
}
