//! What a command has at hand: the settings, the blackboard, git, the time, and where to print.

use std::cell::Cell;
use std::future::Future;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::error::CommandError;
use super::pr_ref::PrRef;
use super::ui::Ui;
use crate::blackboard::{self as bb, BoardError, Conn, SyncDb};
use crate::change::{Change, ChangeId};
use crate::clock::{self, Time};
use crate::config::{self, ConfigLocation, Loaded, Origin};
use crate::diagnostic::nearest;
use crate::evaluator::Definition;
use crate::evaluator::definition;
use crate::explain::{Around, Daemon, pr_name};
use crate::git::Git;
use crate::{daemon, heartbeat, wake};

/// The most that is read of a file or of stdin: far more than a review, far less than the memory.
const TEXT_CAP: u64 = 4 * 1024 * 1024;

pub(crate) struct CommandContext {
    pub(crate) out: Ui,
    pub(crate) now: Time,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
    place: ConfigLocation,
    missing: Missing,
    /// Whether no project is known yet, which is to be said at the end.
    knows_nothing: Cell<bool>,
}

/// What is done where there is no blackboard yet. Only a command that puts something on it makes one: a mistyped name
/// must not be answered with an empty board.
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

    /// What the command line says about places.
    pub(crate) fn place(&self) -> &ConfigLocation {
        &self.place
    }

    /// Goes on at another blackboard.
    pub(crate) fn move_to(&mut self, place: ConfigLocation) {
        self.place = place;
        self.now = clock::now();
    }

    pub(crate) fn settings(&self) -> Result<Loaded> {
        Ok(config::load(&self.place)?)
    }

    /// The evaluators in force.
    pub(crate) fn evaluators(&self, settings: &Loaded) -> Result<Vec<Definition>> {
        Ok(definition::load(settings.evaluators.as_deref(), self.now)?)
    }

    /// What this command writes may be the first on its blackboard.
    pub(crate) fn may_begin(&mut self) {
        self.missing = Missing::Make;
    }

    /// No project is known yet: whatever was asked, that is what to begin with.
    pub(crate) fn note_nothing_known(&self) {
        self.knows_nothing.set(true);
    }

    pub(crate) fn knows_nothing(&self) -> bool {
        self.knows_nothing.get()
    }

    /// The blackboard to look at. Where there is none it is an empty one that is nowhere, unless a person named it.
    pub(crate) fn board(&self) -> Result<SyncDb> {
        let settings = self.settings()?;
        if let Some(board) = self.board_there(&settings)? {
            return Ok(board);
        }
        if self.missing == Missing::Refuse && is_named(&settings) {
            return Err(not_there(&settings).into());
        }
        if self.missing == Missing::Refuse {
            self.note_nothing_known();
        }
        Ok(SyncDb::empty(self.now)?)
    }

    /// The blackboard, if there is one by now.
    pub(crate) fn board_there(&self, settings: &Loaded) -> Result<Option<SyncDb>> {
        // Whatever keeps us from seeing it is said better by opening it. One that was only just begun has no bytes.
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

    /// One look at the blackboard.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Conn) -> bb::Result<T>) -> Result<T> {
        Ok(self.board()?.read(look)?)
    }

    /// One transaction, and the daemon is told.
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
            (None, Missing::Refuse) => return Err(not_there(&settings).into()),
        };
        let value = board.write(name, |conn| step(conn, &with))?;
        wake::poke(board.path());
        Ok(value)
    }

    /// As `write`, with one pass of the evaluators in the same transaction, so that what follows from the word is
    /// there at once. Only a word that makes work is kept waiting by an evaluator that can't be read.
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

    /// What is the same for all changes that are looked at now.
    pub(crate) fn around(&self) -> Result<Around> {
        let settings = self.settings()?;
        let daemon = if wake::is_heard(&settings.blackboard) {
            Daemon::Runs
        } else {
            Daemon::None
        };
        Ok(Around {
            slots: settings.config.dispatch.slots,
            daemon,
            now: self.now,
        })
    }

    pub(crate) fn git(&self, settings: &Loaded) -> Git {
        daemon::git(settings)
    }

    /// The change that a person means by an id, a branch, the path of a worktree or a pull request.
    pub(crate) fn change(&self, text: &str) -> Result<Change> {
        let name = self.pull_name(text)?;
        let found = self.read(|conn| find_change(conn, name.as_deref().unwrap_or(text)))?;
        match found {
            Ok(change) => Ok(change),
            Err(near) => Err(self
                .pruned(text)?
                .unwrap_or_else(|| no_such(text, &near))
                .into()),
        }
    }

    /// Says so, when there was a change of this id.
    pub(crate) fn pruned(&self, id: &str) -> Result<Option<CommandError>> {
        let at = self.read(|conn| bb::pruned_at(conn, id))?;
        Ok(at.map(|at| CommandError::not_found(format!("{id} was over, and was pruned at {at}"))))
    }

    /// A pull request as the blackboard knows it, when it was named otherwise: by its URL, or by its number alone.
    pub(crate) fn pull_name(&self, text: &str) -> Result<Option<String>> {
        let Some(name) =
            PrRef::parse(text).filter(|name| name.repo.is_none() || text.contains("://"))
        else {
            return Ok(None);
        };
        Ok(Some(pr_name(&name.project(self)?, name.number)))
    }
}

/// An agent that approves its own work has not been reviewed. A habit, not a wall: it may clear its environment.
pub(crate) fn refuse_agents() -> Result<()> {
    if config::is_inside_a_run() {
        return Err(CommandError::new(
            "this was started inside a run, by an agent or a gate: only people have a word here",
        )
        .hint("an agent answers on its stdout")
        .into());
    }
    Ok(())
}

/// By the command line or the environment: the file that was meant, and no other.
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
            format!("there is no blackboard {path}, which {name} names"),
            format!(" --db {path}"),
        ),
        Origin::Variable(name) => (
            format!("there is no blackboard {path}, which {name} names"),
            String::new(),
        ),
        Origin::Default | Origin::File { .. } => {
            (format!("there is no blackboard {path} yet"), String::new())
        }
    };
    CommandError::not_found(what).hint(format!(
        "check the name; `remand project add PATH{option}` begins a new one"
    ))
}

fn is_hidden(error: &std::io::Error) -> bool {
    error.kind() != std::io::ErrorKind::NotFound
}

/// Who writes, and when.
pub(crate) struct Step {
    pub(crate) actor: String,
    pub(crate) now: Time,
}

/// The change, or names that are near to what was typed.
pub(crate) fn find_change(conn: &Conn, text: &str) -> bb::Result<Result<Change, Vec<String>>> {
    let path = Path::new(text)
        .canonicalize()
        .ok()
        .filter(|path| path.is_dir());
    for name in [Some(text), path.as_deref().and_then(Path::to_str)]
        .into_iter()
        .flatten()
    {
        match bb::find_change(conn, name) {
            Err(BoardError::NotFound { .. }) => {}
            found => return found.map(Ok),
        }
    }
    Ok(Err(near(conn, text)?))
}

/// Up to three names that are near to what was typed.
fn near(conn: &Conn, text: &str) -> bb::Result<Vec<String>> {
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
    let fail = CommandError::not_found(format!("there is no change `{text}`"));
    if near.is_empty() {
        fail.hint("a change is named by its id, its branch, the path of its worktree or its PR; `remand list --all` shows them")
    } else {
        let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
        fail.hint(format!("did you mean {}?", near.join(" or ")))
    }
}

/// The text of a file, `-` for stdin.
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
                CommandError::not_found(format!("there is no file {name}"))
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
        return Err(CommandError::new(format!(
            "{name} has more than {} MiB",
            TEXT_CAP / 1024 / 1024
        ))
        .into());
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Text given with `--text`, `-` for stdin; never empty.
pub(crate) fn said(text: &str) -> Result<String> {
    let text = if text == "-" {
        read_text(Path::new("-"))?
    } else {
        text.to_owned()
    };
    if text.trim().is_empty() {
        return Err(CommandError::usage("the text is empty")
            .hint("say what is to be done; `-` reads it from stdin")
            .into());
    }
    Ok(text)
}

/// Runs what waits for children or for time, on this thread.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?;
    Ok(runtime.block_on(work))
}

/// What a list says of a change's id, when a row has one.
pub(crate) fn id_or_dash(id: Option<&ChangeId>) -> &str {
    id.map_or("-", ChangeId::as_str)
}
