//! Text from a person: an argument, a file, stdin or an editor.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Args;

use super::context::{CommandContext, read_text, refuse_agents, said};
use super::error::CommandError;
use crate::{config, process};

/// Text below this line of an edited file is ignored.
const SCISSORS: &str = "# ------------------------ >8 ------------------------";

/// A text from exactly one source.
#[derive(Debug, Clone, Args)]
#[group(id = "text_source", multiple = false)]
pub(crate) struct TextArgs {
    /// Text [default: opens $VISUAL or $EDITOR, if run in a terminal]
    #[arg(value_name = "TEXT", allow_hyphen_values = true)]
    argument: Option<String>,

    /// Text, given as an option; `-` reads it from stdin
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    /// File to read the text from; `-` reads it from stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl TextArgs {
    /// Returns the text, which must not be empty. `question` is shown in the editor.
    pub(crate) fn required(&self, ctx: &CommandContext, question: &str) -> Result<String> {
        match self.given()? {
            Some(text) => Ok(text),
            None => match edited(ctx, question)? {
                Some(text) if text.is_empty() => {
                    CommandError::new("aborted: the text is empty").fail()
                }
                Some(text) => Ok(text),
                None => CommandError::usage("no text given").fail_with_hint(
                    "pass it as TEXT, --text TEXT or --file FILE (`-` means stdin); \
                         on a terminal, $VISUAL or $EDITOR is opened instead",
                ),
            },
        }
    }

    /// Like `required`, for a command that works without text.
    pub(crate) fn optional(&self, ctx: &CommandContext, question: &str) -> Result<Option<String>> {
        match self.given()? {
            Some(text) => Ok(Some(text)),
            None => Ok(edited(ctx, question)?.filter(|text| !text.is_empty())),
        }
    }

    fn given(&self) -> Result<Option<String>> {
        if let Some(file) = &self.file {
            let text = read_text(file)?;
            return said_in(&text).map(Some);
        }
        let text = self.argument.as_deref().or(self.text.as_deref());
        text.map(said).transpose()
    }
}

fn said_in(text: &str) -> Result<String> {
    if text.trim().is_empty() {
        return CommandError::usage("the text is empty")
            .fail_with_hint("describe what should be done");
    }
    Ok(text.to_owned())
}

/// Returns the text written in the user's editor; `None` without a terminal or an editor.
fn edited(ctx: &CommandContext, question: &str) -> Result<Option<String>> {
    let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let Some(editor) = config::editor().filter(|_| is_terminal && !ctx.out.is_json()) else {
        return Ok(None);
    };
    refuse_agents()?;
    let file = TemporaryFile::draft(question)?;
    let (args, env) = ([OsString::from(&file.0)], config::terminal_environment());
    let status = process::foreground(&editor, &args, env, None)
        .with_context(|| format!("cannot start the editor `{editor}`"))?;
    if status != Some(0) {
        return CommandError::new(format!("the editor `{editor}` failed; nothing was done")).fail();
    }
    let text = read_text(&file.0)?;
    let text = text.split(SCISSORS).next().unwrap_or_default();
    Ok(Some(text.trim().to_owned()))
}

/// Temporary file, removed on drop unless it was renamed.
pub(crate) struct TemporaryFile(pub(crate) PathBuf);

impl TemporaryFile {
    /// Writes the file that is edited.
    fn draft(question: &str) -> Result<Self> {
        let name = format!("remand-{}.md", uuid::Uuid::new_v4().simple());
        let draft = Self(std::env::temp_dir().join(name));
        let lines: Vec<String> = question.lines().map(|line| format!("# {line}")).collect();
        let text = format!(
            "\n{SCISSORS}\n{}\n# Text below the line above is ignored.\n",
            lines.join("\n")
        );
        // Only the user may read it: the directory is shared.
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options
            .open(&draft.0)
            .and_then(|mut file| file.write_all(text.as_bytes()));
        written.with_context(|| format!("cannot write {}", draft.0.display()))?;
        Ok(draft)
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // Usually it has been renamed; a draft that cannot be removed is harmless.
        drop(fs::remove_file(&self.0));
    }
}
