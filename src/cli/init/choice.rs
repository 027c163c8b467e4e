//! The choices of the user, before anything is written.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::detect;
use super::ecosystem::{self, Proposal};
use super::top::Top;
use crate::blackboard::{self as bb, Project, SyncDb};
use crate::change::ProjectId;
use crate::cli::frame::{CommandContext, CommandError, wait};
use crate::cli::project;
use crate::config::{self, Loaded};

pub(super) struct Choices {
    pub(super) agent: AgentChoice,
    pub(super) review_agent: AgentChoice,
    /// Gates of all projects.
    pub(super) gates: Vec<Vec<String>>,
    pub(super) projects: Vec<ProjectChoice>,
    pub(super) label: Option<String>,
    pub(super) shadow: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AgentChoice {
    /// Name of its table.
    pub(super) name: String,
    pub(super) is_claude: bool,
    pub(super) command: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetupChoice {
    pub(super) command: Vec<String>,
    /// Files that trigger the set-up again; empty means the default.
    pub(super) again_on: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ProjectChoice {
    pub(super) path: PathBuf,
    pub(super) name: String,
    pub(super) repo: Option<String>,
    /// Gates of this project.
    pub(super) gates: Vec<Vec<String>>,
    /// `None` if no set-up is needed.
    pub(super) setup: Option<SetupChoice>,
    /// Commands proposed for its tracked files.
    pub(super) found: Option<Proposal>,
    /// Set if the project is already on the blackboard.
    pub(super) known: Option<ProjectId>,
}

impl AgentChoice {
    /// Reads an agent whose program must exist.
    pub(super) fn installed(text: &str) -> Result<Self> {
        let agent = Self::read(text, "the agent")?;
        match agent.missing() {
            Some(program) => CommandError::new(format!("`{program}` was not found in PATH"))
                .fail_with_hint("use a program that is installed, or its absolute path"),
            None => Ok(agent),
        }
    }

    /// Returns its program, if that is not installed.
    pub(super) fn missing(&self) -> Option<&str> {
        let program = self.command.first()?;
        (!detect::on_path(program)).then_some(program)
    }

    pub(super) fn read(text: &str, what: &str) -> Result<Self> {
        let mut command = words(text, what)?;
        for word in &mut command {
            *word = whole(word);
        }
        let Some(program) = command.first() else {
            return CommandError::usage(format!("{what} is empty"))
                .fail_with_hint("use `claude`, or a command with its arguments");
        };
        let stem = Path::new(program)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        let fits = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let name: String = stem.chars().map(fits).collect();
        let name = if name.trim_matches('-').is_empty() {
            "agent".to_owned()
        } else {
            name
        };
        Ok(Self {
            name,
            is_claude: stem == "claude" && command.len() == 1,
            command,
        })
    }
}

/// Makes a path absolute: an agent starts in a worktree, where a relative path names another file.
fn whole(word: &str) -> String {
    let begins_like_one = ["./", "../", "~/"]
        .iter()
        .any(|begin| word.starts_with(begin));
    let is_path = begins_like_one || (word.contains('/') && Path::new(word).exists());
    if !is_path {
        return word.to_owned();
    }
    let path = detect::from_home(word);
    std::path::absolute(&path)
        .unwrap_or(path)
        .display()
        .to_string()
}

impl ProjectChoice {
    /// Finds the repository of a directory; its name is the given one or that of its directory.
    pub(super) fn at(path: &Path, name: Option<&str>, ctx: &CommandContext) -> Result<Self> {
        Self::at_with(path, name, &config::without_file(ctx.place())?, ctx)
    }

    /// Like `at`, with the blackboard of these settings.
    pub(super) fn at_with(
        path: &Path,
        name: Option<&str>,
        settings: &Loaded,
        ctx: &CommandContext,
    ) -> Result<Self> {
        let git = ctx.git(settings);
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let found = wait(git.project_at(&path))??;
        let project = project::named_project(&found, name, ctx)?;
        let mut board = ctx.board_there(settings)?;
        let known = match &mut board {
            Some(board) => {
                board.read(|conn| bb::project_by_common_dir(conn, &project.common_dir))?
            }
            None => None,
        };
        match (&known, name) {
            (None, _) => refuse_taken(&project, board.as_mut())?,
            (Some(known), Some(name)) if known.project_id.as_str() != name => {
                let what = format!(
                    "{} is already the project `{}`",
                    project.path, known.project_id
                );
                return CommandError::usage(what).fail_with_hint("omit --name");
            }
            (Some(_), _) => {}
        }
        let tracked = if found.bare {
            Vec::new()
        } else {
            wait(git.tracked_files(&found.path))??
        };
        let proposal = ecosystem::detect(&Top::new(&found.path, tracked));
        let (repo, id) = known.map_or((project.repo, None), |known| {
            (known.repo, Some(known.project_id))
        });
        let name = id
            .as_ref()
            .map_or(project.project_id.to_string(), ToString::to_string);
        Ok(Self {
            path: found.path,
            name,
            repo,
            gates: Vec::new(),
            setup: None,
            found: proposal,
            known: id,
        })
    }

    /// Adds the project once, and refuses a duplicate name.
    pub(super) fn join(self, others: &mut Vec<Self>) -> Result<()> {
        if others.iter().any(|other| other.path == self.path) {
            return Ok(());
        }
        if let Some(other) = others.iter().find(|other| other.name == self.name) {
            let what = format!(
                "{} and {} would both be named `{}`",
                other.path.display(),
                self.path.display(),
                self.name
            );
            return CommandError::usage(what).fail_with_hint(
                "add one of them later with `remand project add PATH --name NAME`",
            );
        }
        others.push(self);
        Ok(())
    }
}

/// Refuses a name that is taken, before anything is written.
fn refuse_taken(project: &Project, board: Option<&mut SyncDb>) -> Result<()> {
    let Some(board) = board else { return Ok(()) };
    let taken = board
        .read(bb::list_projects)?
        .into_iter()
        .find(|other| other.project_id == project.project_id);
    match taken {
        Some(other) => CommandError::usage(format!(
            "there is already a project `{}`: {}",
            other.project_id, other.path
        ))
        .fail_with_hint("choose another name with --name NAME"),
        None => Ok(()),
    }
}

/// Splits a command into words at spaces, with `'…'` and `"…"` as quotes. No shell reads the
/// command, so shell syntax is refused.
pub(super) fn words(text: &str, what: &str) -> Result<Vec<String>> {
    let refused =
        |why: &str| CommandError::usage(format!("invalid value for {what}: {why}: {text}"));
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    for c in text.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '|' | '&' | ';' | '<' | '>' | '$' | '`' | '\\' | '*') => {
                let hint = "use a script, or a shell: sh -c '…'";
                return refused(&format!("`{c}` is shell syntax, and no shell is used"))
                    .fail_with_hint(hint);
            }
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return refused("unterminated quotation mark").fail();
    }
    words.extend(word);
    if words
        .first()
        .is_some_and(|program| program.trim().is_empty())
    {
        return refused("the program name is empty").fail();
    }
    if words.first().is_some_and(|program| program.contains('=')) {
        return refused("a variable before a command is shell syntax, and no shell is used")
            .fail_with_hint("use env NAME=value COMMAND");
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_as_one_types_them() {
        for (text, expected) in [
            ("cargo test", &["cargo", "test"][..]),
            ("  npm   run 'my test' ", &["npm", "run", "my test"]),
            ("sh -c 'a && b | c'", &["sh", "-c", "a && b | c"]),
            ("x --y=\"a b\"c ''", &["x", "--y=a bc", ""]),
            ("env X=1 a '*'", &["env", "X=1", "a", "*"]),
            ("", &[]),
        ] {
            assert_eq!(words(text, "it").unwrap(), expected, "{text}");
        }
        for text in [
            "a && b", "a | b", "a > b", "$HOME/x", "a 'b", "'' b", "X=1 a", "a\\ b", "a *.rs",
        ] {
            assert!(words(text, "it").is_err(), "{text}");
        }
    }

    #[test]
    fn agents_have_names() {
        let read = |text: &str| {
            let agent = AgentChoice::read(text, "it").unwrap();
            (agent.name, agent.is_claude)
        };
        assert_eq!(read("claude"), ("claude".to_owned(), true));
        assert_eq!(read("/opt/bin/claude"), ("claude".to_owned(), true));
        assert_eq!(read("claude --odd"), ("claude".to_owned(), false));
        assert_eq!(read("./my agent.sh"), ("my".to_owned(), false));
        assert_eq!(read("'/x/my agent.sh' -b"), ("my-agent".to_owned(), false));
        assert_eq!(read("ä"), ("agent".to_owned(), false));
        assert!(AgentChoice::read(" ", "it").is_err());
    }
}
