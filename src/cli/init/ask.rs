//! Questions to a person at a terminal. The end of the input (Ctrl-D) stops `init` before anything
//! is written.

use std::io::{self, BufRead as _, IsTerminal as _};

use anyhow::{Context as _, Result};

use crate::cli::frame::{CommandError, Line, TextStyle, Ui};

pub(crate) struct Ask {
    is_asking: bool,
}

impl Ask {
    /// Asks only on a terminal where a person can see the question and answer it.
    pub(crate) fn new(is_silenced: bool) -> Self {
        Self {
            is_asking: !is_silenced && io::stdin().is_terminal() && io::stdout().is_terminal(),
        }
    }

    pub(crate) fn is_asking(&self) -> bool {
        self.is_asking
    }

    /// Reads one answer; an empty one means the default. Without a default, it asks again.
    pub(super) fn line(
        &mut self,
        out: &mut Ui,
        question: &str,
        default: Option<&str>,
    ) -> Result<String> {
        let shown = default
            .map(|default| format!(" [{default}]"))
            .unwrap_or_default();
        loop {
            out.prompt(&format!("{question}{shown}: "))?;
            let mut text = String::new();
            io::stdin()
                .lock()
                .read_line(&mut text)
                .context("cannot read the answer")?;
            if !text.ends_with('\n') {
                out.blank()?;
                return stopped().fail();
            }
            match (text.trim(), default) {
                ("", Some(default)) => return Ok(default.to_owned()),
                ("", None) => {}
                (text, _) => return Ok(text.to_owned()),
            }
        }
    }

    /// Like `line`, but repeats the question until the answer is valid.
    pub(super) fn until<T>(
        &mut self,
        out: &mut Ui,
        question: &str,
        default: Option<&str>,
        read: impl Fn(&str) -> Result<T>,
    ) -> Result<T> {
        loop {
            match read(&self.line(out, question, default)?) {
                Ok(value) => return Ok(value),
                Err(error) => {
                    out.line(Line::new().piece(TextStyle::Bad, format!("  {error:#}")))?;
                }
            }
        }
    }

    pub(crate) fn agrees(&mut self, out: &mut Ui, question: &str) -> Result<bool> {
        loop {
            match self
                .line(out, question, Some("yes"))?
                .to_lowercase()
                .as_str()
            {
                "y" | "yes" => return Ok(true),
                "n" | "no" => return Ok(false),
                _ => out.line("  please answer yes or no")?,
            }
        }
    }
}

pub(super) fn stopped() -> CommandError {
    CommandError::new("aborted: nothing was written")
}
