//! Errors of commands: an exit code for programs, and for people one line with the error and one
//! with a hint.

use std::io;

use super::journal;
use super::ui::Ui;
use crate::blackboard::BoardError;
use crate::change::{Change, State};
use crate::config::ConfigError;
use crate::diagnostic::Colour;
use crate::evaluator::definition::DefinitionError;
use crate::explain::Because;
use crate::git::GitError;
use crate::github::GithubError;
use crate::intake::IntakeError;
use crate::prompt::PromptError;

/// Exit codes, for programs that call remand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExitCode {
    Done,
    Failed,
    Usage,
    Config,
    NotFound,
    /// Held, or a person has to decide.
    NeedsPerson,
}

/// An error with a message and an optional hint.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct CommandError {
    pub(crate) code: ExitCode,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::with_code(ExitCode::Failed, what)
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self::with_code(ExitCode::Usage, what)
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::with_code(ExitCode::NotFound, what)
    }

    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self::with_code(ExitCode::Config, what)
    }

    pub(crate) fn needs_person(what: impl Into<String>) -> Self {
        Self::with_code(ExitCode::NeedsPerson, what)
    }

    fn with_code(code: ExitCode, what: impl Into<String>) -> Self {
        let (what, hint) = (what.into(), None);
        Self { code, what, hint }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Returns the error as the result of a command or a part of it.
    pub(crate) fn fail<T>(self) -> anyhow::Result<T> {
        Err(self.into())
    }

    /// Like `fail`, with a hint.
    pub(crate) fn fail_with_hint<T>(self, hint: impl Into<String>) -> anyhow::Result<T> {
        self.hint(hint).fail()
    }
}

/// Changes the exit code of a refused command to 5 if its change is held or waits for a person.
pub(crate) fn refused_for<T>(change: &Change, result: anyhow::Result<T>) -> anyhow::Result<T> {
    let waits = change.state == State::Escalated || change.held_until.is_some();
    result.map_err(|error| match error.downcast_ref() {
        Some(BoardError::Refused { what, hint }) if waits => {
            let (what, hint) = (what.clone(), hint.clone());
            let code = ExitCode::NeedsPerson;
            CommandError { code, what, hint }.into()
        }
        Some(_) | None => error,
    })
}

impl ExitCode {
    /// Exit code of a report on one change.
    pub(crate) fn of_change(because: Because) -> Self {
        if because.needs_person() {
            Self::NeedsPerson
        } else {
            Self::Done
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(match code {
            ExitCode::Done => 0,
            ExitCode::Failed => 1,
            ExitCode::Usage => 2,
            ExitCode::Config => 3,
            ExitCode::NotFound => 4,
            ExitCode::NeedsPerson => 5,
        })
    }
}

/// Prints an error for people and returns the exit code for programs.
pub(crate) fn report(out: &mut Ui, error: &anyhow::Error) -> ExitCode {
    // The reader of the output has exited (`| head`), which is not a failure.
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(is_broken_pipe)
    {
        return ExitCode::Done;
    }
    let (code, told) = if journal::is_journal() {
        tell_journal(out, error)
    } else {
        tell(out, error)
    };
    match told {
        // If stderr is closed too, the error cannot be reported.
        Ok(()) | Err(_) => code,
    }
}

fn tell_journal(out: &mut Ui, error: &anyhow::Error) -> (ExitCode, io::Result<()>) {
    let code = if error.is::<ConfigError>() {
        ExitCode::Config
    } else {
        judge(error).0
    };
    let text = crate::sanitize::block(&words(error));
    (
        code,
        out.report(&journal::with_priority(&text, journal::ERROR)),
    )
}

fn tell(out: &mut Ui, error: &anyhow::Error) -> (ExitCode, io::Result<()>) {
    if let Some(error) = error.downcast_ref::<ConfigError>() {
        let told = match error {
            ConfigError::Syntax(report) | ConfigError::Invalid(report) => {
                out.snippet(|colour| report.render(colour))
            }
            ConfigError::NotFound { .. } | ConfigError::Unreadable { .. } | ConfigError::NoHome => {
                out.report(&error.to_string())
            }
        };
        return (ExitCode::Config, told);
    }
    if let Some(report) = report_of(error) {
        return (ExitCode::Config, out.report(report));
    }
    let (code, hint) = judge(error);
    (code, two_lines(out, &chain(error), hint.as_deref()))
}

/// Formats an error for the log: message, location and hint.
pub(crate) fn words(error: &anyhow::Error) -> String {
    if let Some(ConfigError::Syntax(report) | ConfigError::Invalid(report)) = error.downcast_ref() {
        return report.render(Colour::Plain);
    }
    if let Some(report) = report_of(error) {
        return report.to_owned();
    }
    let (what, (_, hint)) = (chain(error), judge(error));
    hint.map_or(what.clone(), |hint| format!("{what} ({hint})"))
}

/// Multi-line report of an error that has a location in a file.
fn report_of(error: &anyhow::Error) -> Option<&str> {
    if let Some(DefinitionError::Fault { report, .. }) = error.downcast_ref() {
        return Some(report);
    }
    match error.downcast_ref() {
        Some(PromptError::Template { report, .. }) => Some(report),
        Some(_) | None => None,
    }
}

fn two_lines(out: &mut Ui, what: &str, hint: Option<&str>) -> io::Result<()> {
    out.error(what)?;
    hint.map_or(Ok(()), |hint| out.hint(hint))
}

/// Joins an error and its causes on one line.
fn chain(error: &anyhow::Error) -> String {
    let mut texts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !texts.last().is_some_and(|last| last.contains(&text)) {
            texts.push(text);
        }
    }
    texts.join(": ")
}

fn judge(error: &anyhow::Error) -> (ExitCode, Option<String>) {
    for cause in error.chain() {
        if let Some(fail) = cause.downcast_ref::<CommandError>() {
            return (fail.code, fail.hint.clone());
        }
        if let Some(error) = cause.downcast_ref::<BoardError>() {
            return judge_board(error);
        }
        if let Some(error) = cause.downcast_ref::<GitError>() {
            return judge_git(error);
        }
        if let Some(error) = cause.downcast_ref::<GithubError>() {
            return judge_github(error);
        }
        if let Some(error) = cause.downcast_ref::<IntakeError>() {
            return judge_intake(error);
        }
        if cause.is::<DefinitionError>() || cause.is::<PromptError>() {
            return (ExitCode::Config, None);
        }
    }
    (ExitCode::Failed, None)
}

fn judge_board(error: &BoardError) -> (ExitCode, Option<String>) {
    let (code, hint) = match error {
        BoardError::Refused { hint, .. } => return (ExitCode::Failed, hint.clone()),
        BoardError::NotFound { .. } => (ExitCode::NotFound, ""),
        BoardError::Foreign { .. } => (ExitCode::Config, ""),
        BoardError::NoSuchMove { change, .. } => {
            let hint = format!("`remand why {change}` explains its state and what you can do");
            return (ExitCode::Failed, Some(hint));
        }
        BoardError::Busy(_) => (
            ExitCode::Failed,
            "another program has locked the blackboard; try again",
        ),
        BoardError::Vanished { .. } => (
            ExitCode::NeedsPerson,
            "restore the database or a backup of it, then start again",
        ),
        BoardError::Unusable { .. }
        | BoardError::Newer { .. }
        | BoardError::Stale { .. }
        | BoardError::Full(_)
        | BoardError::Closed
        | BoardError::Batch(_)
        | BoardError::Panicked
        | BoardError::Sqlite(_)
        | BoardError::Json(_) => (ExitCode::Failed, ""),
    };
    (code, Some(hint.to_owned()).filter(|hint| !hint.is_empty()))
}

fn judge_git(error: &GitError) -> (ExitCode, Option<String>) {
    if matches!(error, GitError::NotThere { .. }) {
        return (ExitCode::NotFound, None);
    }
    let hint = if matches!(error, GitError::NotARepository { .. }) {
        Some("give the path of a git repository".to_owned())
    } else if matches!(error, GitError::NoGit) {
        Some("install git, or add it to PATH".to_owned())
    } else {
        None
    };
    (ExitCode::Failed, hint)
}

fn judge_github(error: &GithubError) -> (ExitCode, Option<String>) {
    let code = if matches!(error, GithubError::NotFound { .. }) {
        ExitCode::NotFound
    } else {
        ExitCode::Failed
    };
    (code, Some(error.hint().to_owned()))
}

fn judge_intake(error: &IntakeError) -> (ExitCode, Option<String>) {
    match error {
        IntakeError::Refused { hint, .. } => (ExitCode::Failed, hint.clone()),
        IntakeError::Github(error) => judge_github(error),
        IntakeError::Git(error) => judge_git(error),
        IntakeError::Board(error) => judge_board(error),
    }
}

fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}
