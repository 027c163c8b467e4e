//! `remand man`: the manual, made from the same words as the help.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use serde::Serialize;

use super::Cli;
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::error::{CommandError, ExitCode};
use crate::cli::frame::ui::Line;
use crate::diagnostic::nearest;

/// Print a page of the manual, or write all pages into a folder
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand man | man -l -\n  remand man item add | man -l -\n  \
remand man --dir ~/.local/share/man/man1     from then on: man remand, man remand-status"
)]
pub(crate) struct ManArgs {
    /// The command whose page it is (`status`, `item add`); without one the page of remand itself
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write every page into DIR (remand.1, remand-status.1, …), which is made if it is not there
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct ManReport {
    name: String,
    text: String,
}

#[derive(Serialize)]
struct Written {
    dir: PathBuf,
    files: Vec<String>,
}

struct ManPage {
    /// `remand-status.1`
    file: String,
    text: String,
}

pub(crate) fn man(args: &ManArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let mut root = Cli::command();
    // Gives the subcommands their full names and what holds everywhere.
    root.build();
    match &args.dir {
        Some(dir) => write_all(&root, dir, ctx),
        None => print_one(named(&root, &args.command)?, ctx),
    }
}

fn print_one(command: &Command, ctx: &mut CommandContext) -> Result<ExitCode> {
    let page = page(command)?;
    if ctx.out.is_json() {
        ctx.out.json(&ManReport {
            name: page.file,
            text: page.text,
        })?;
    } else {
        ctx.out.raw(&page.text)?;
    }
    Ok(ExitCode::Done)
}

/// The command that the words name, one below the other.
fn named<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command> {
    let mut found = root;
    for word in words {
        found = shown(found)
            .find(|command| command.get_name() == word)
            .ok_or_else(|| {
                let fail = CommandError::usage(format!(
                    "there is no command `remand {}`",
                    words.join(" ")
                ));
                match nearest(word, shown(found).map(Command::get_name)) {
                    Some(near) => fail.hint(format!("did you mean `{near}`?")),
                    None => fail.hint("`remand --help` lists them"),
                }
            })?;
    }
    Ok(found)
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
}

fn write_all(root: &Command, dir: &Path, ctx: &mut CommandContext) -> Result<ExitCode> {
    make(dir)?;
    let mut pages = Vec::new();
    let mut left = vec![root];
    while let Some(command) = left.pop() {
        pages.push(page(command)?);
        left.extend(shown(command));
    }
    pages.sort_by(|one, other| one.file.cmp(&other.file));
    for page in &pages {
        let path = dir.join(&page.file);
        // Everybody may read a manual, unlike all else that remand writes.
        let written = fs::write(&path, &page.text)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let files: Vec<String> = pages.into_iter().map(|page| page.file).collect();
    if ctx.out.is_json() {
        ctx.out.json(&Written {
            dir: dir.to_owned(),
            files,
        })?;
    } else {
        ctx.out.line(Line::default().plain(format!(
            "{} pages in {}",
            files.len(),
            dir.display()
        )))?;
    }
    Ok(ExitCode::Done)
}

/// One folder, and not those above it: a slip of the pen should not leave a row of them.
fn make(dir: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot make the folder {}", dir.display()))
}

fn page(command: &Command) -> Result<ManPage> {
    let man = Man::new(command.clone().disable_help_subcommand(true))
        .source(concat!("remand ", env!("CARGO_PKG_VERSION")))
        .manual("remand");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    if command
        .get_arguments()
        .any(|argument| !argument.is_hide_set())
    {
        man.render_options_section(&mut text)?;
    }
    if shown(command).next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    let mut text = String::from_utf8(text)?;
    if let Some(after) = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
    {
        text.push_str(".SH NOTES\n");
        text.push_str(&notes(&after.to_string()));
    }
    Ok(ManPage {
        file: man.get_filename(),
        text: in_ascii(&text),
    })
}

/// What is not ASCII by its number, so that no reader of the page has to guess how it is encoded.
fn in_ascii(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            ascii.push_str(&format!("\\[u{:04X}]", u32::from(c)));
        }
    }
    ascii
}

/// What stands below the help: lines that are set in (examples) stay as they are, the rest flows.
fn notes(text: &str) -> String {
    let mut roff = String::new();
    let mut is_set_in = false;
    for line in text.lines() {
        let set_in = line.starts_with(' ');
        match (is_set_in, set_in) {
            (false, true) => roff.push_str(".nf\n"),
            (true, false) => roff.push_str(".fi\n"),
            (true, true) | (false, false) => {}
        }
        is_set_in = set_in;
        if line.trim().is_empty() {
            roff.push_str(".PP\n");
        } else {
            roff.push_str(&escaped(line));
            roff.push('\n');
        }
    }
    if is_set_in {
        roff.push_str(".fi\n");
    }
    roff
}

/// A line of text as roff reads it: a dot or a quote at its beginning would be a request.
fn escaped(line: &str) -> String {
    let text = line
        .replace('\\', "\\e")
        .replace('-', "\\-")
        .replace('\'', "\\(aq")
        .replace('`', "\\(ga");
    if text.starts_with('.') {
        format!("\\&{text}")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines_and_nothing_is_a_request_by_accident() {
        let text = "A sentence…\n\nExamples:\n  remand x --y 'z'\n  .hidden\n.dot \\ end";
        insta::assert_snapshot!(in_ascii(&notes(text)), @r"
        A sentence\[u2026]
        .PP
        Examples:
        .nf
          remand x \-\-y \(aqz\(aq
          .hidden
        .fi
        \&.dot \e end
        ");
    }
}
