//! How a command ends when it does not do what was asked: an exit code for programs, one line of what and one of a
//! hint for people.

use std::io;

use super::journal;
use super::ui::{Line, TextStyle, Ui};
use crate::blackboard::BoardError;
use crate::config::ConfigError;
use crate::diagnostic::Colour;
use crate::evaluator::definition::DefinitionError;
use crate::git::GitError;
use crate::github::GithubError;
use crate::intake::IntakeError;
use crate::prompt::PromptError;

/// What a program that calls remand can tell apart.
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

/// A refusal in our own words.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub(crate) struct CommandError {
    pub(crate) code: ExitCode,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
}

impl CommandError {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self {
            code: ExitCode::Failed,
            what: what.into(),
            hint: None,
        }
    }

    pub(crate) fn usage(what: impl Into<String>) -> Self {
        Self {
            code: ExitCode::Usage,
            ..Self::new(what)
        }
    }

    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self {
            code: ExitCode::NotFound,
            ..Self::new(what)
        }
    }

    pub(crate) fn config(what: impl Into<String>) -> Self {
        Self {
            code: ExitCode::Config,
            ..Self::new(what)
        }
    }

    pub(crate) fn needs_person(what: impl Into<String>) -> Self {
        Self {
            code: ExitCode::NeedsPerson,
            ..Self::new(what)
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
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

/// Tells a person what went wrong and returns what a program is told.
pub(crate) fn report(out: &mut Ui, error: &anyhow::Error) -> ExitCode {
    // Whoever read our output has gone away (`| head`): that is no failure.
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
        // With stderr gone too there is nobody left to tell.
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
    if let Some(DefinitionError::Fault { report, .. }) = error.downcast_ref() {
        return (ExitCode::Config, out.report(report));
    }
    if let Some(PromptError::Template { report, .. }) = error.downcast_ref() {
        return (ExitCode::Config, out.report(report));
    }
    let (code, hint) = judge(error);
    (code, two_lines(out, &chain(error), hint.as_deref()))
}

/// The same for a log: what, where, and a hint.
pub(crate) fn words(error: &anyhow::Error) -> String {
    if let Some(ConfigError::Syntax(report) | ConfigError::Invalid(report)) = error.downcast_ref() {
        return report.render(Colour::Plain);
    }
    if let Some(DefinitionError::Fault { report, .. }) = error.downcast_ref() {
        return report.clone();
    }
    if let Some(PromptError::Template { report, .. }) = error.downcast_ref() {
        return report.clone();
    }
    let hint = judge(error)
        .1
        .map(|hint| format!(" ({hint})"))
        .unwrap_or_default();
    format!("{}{hint}", chain(error))
}

fn two_lines(out: &mut Ui, what: &str, hint: Option<&str>) -> io::Result<()> {
    out.note(
        Line::default()
            .piece(TextStyle::Bad, "error:")
            .plain(" ")
            .plain(what),
    )?;
    match hint {
        Some(hint) => out.note(
            Line::default()
                .piece(TextStyle::Command, "hint:")
                .plain(" ")
                .plain(hint),
        ),
        None => Ok(()),
    }
}

/// What, and why, in one line.
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
    match error {
        BoardError::NotFound { .. } => (ExitCode::NotFound, None),
        BoardError::Refused { hint, .. } => (ExitCode::Failed, hint.clone()),
        BoardError::NoSuchMove(_) => (
            ExitCode::Failed,
            Some("`remand why ID` says where the change stands and what can be typed".into()),
        ),
        BoardError::Busy(_) => (
            ExitCode::Failed,
            Some("try again; another program holds the blackboard".into()),
        ),
        BoardError::Foreign { .. } => (ExitCode::Config, None),
        BoardError::Vanished { .. } => (
            ExitCode::NeedsPerson,
            Some("put the database back, or a backup of it, then start again".into()),
        ),
        BoardError::Unusable { .. }
        | BoardError::Newer { .. }
        | BoardError::Stale { .. }
        | BoardError::Full(_)
        | BoardError::Closed
        | BoardError::Batch(_)
        | BoardError::Panicked
        | BoardError::Sqlite(_)
        | BoardError::Json(_) => (ExitCode::Failed, None),
    }
}

fn judge_git(error: &GitError) -> (ExitCode, Option<String>) {
    if matches!(error, GitError::NotThere { .. }) {
        (ExitCode::NotFound, None)
    } else if matches!(error, GitError::NotARepository { .. }) {
        (
            ExitCode::Failed,
            Some("give the path of a git repository".into()),
        )
    } else if matches!(error, GitError::NoGit) {
        (
            ExitCode::Failed,
            Some("install git, or put it on the PATH".into()),
        )
    } else {
        (ExitCode::Failed, None)
    }
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
