//! `remand man`: the manual, generated from the help texts.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use serde::Serialize;
use serde_json::json;

use super::Cli;
use crate::cli::frame::{CommandContext, CommandError, ExitCode};
use crate::diagnostic::nearest;

/// Print a manual page, or write all pages to a directory
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  remand man | man -l -\n  remand man item add | man -l -\n  \
remand man --dir ~/.local/share/man/man1     then: man remand, man remand-status"
)]
pub(crate) struct ManArgs {
    /// Command, such as `status` or `item add` [default: remand itself]
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,

    /// Write all pages (remand.1, remand-status.1, …) to DIR, creating it if needed
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

#[derive(Serialize)]
struct ManPage {
    /// File name, such as `remand-status.1`.
    name: String,
    text: String,
}

pub(crate) fn man(args: &ManArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let mut root = Cli::command();
    // Sets the full names of the subcommands and adds the global options.
    root.build();
    match &args.dir {
        Some(dir) => write_all(&root, dir, ctx),
        None => {
            let page = page(named(&root, &args.command)?)?;
            ctx.show(&page, |ctx, page| Ok(ctx.out.raw(&page.text)?))
        }
    }
}

/// Finds a command by its path of subcommand names.
pub(crate) fn named<'a>(root: &'a Command, words: &[String]) -> Result<&'a Command> {
    let mut found = root;
    for word in words {
        found = shown(found)
            .find(|command| command.get_name() == word)
            .ok_or_else(|| {
                let fail =
                    CommandError::usage(format!("no such command: `remand {}`", words.join(" ")));
                match nearest(word, shown(found).map(Command::get_name)) {
                    Some(near) => fail.hint(format!("did you mean `{near}`?")),
                    None => fail.hint("`remand --help` lists all commands"),
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
    pages.sort_by(|one, other| one.name.cmp(&other.name));
    for page in &pages {
        let path = dir.join(&page.name);
        // Manual pages are world-readable, unlike all other files that remand writes.
        let written = fs::write(&path, &page.text)
            .and_then(|()| fs::set_permissions(&path, Permissions::from_mode(0o644)));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    let files: Vec<String> = pages.into_iter().map(|page| page.name).collect();
    let value = json!({ "dir": dir.to_string_lossy(), "files": files });
    ctx.show(&value, |ctx, _| {
        let line = format!("wrote {} pages to {}", files.len(), dir.display());
        Ok(ctx.out.line(line)?)
    })
}

/// Creates one directory but not its parents, so that a typo does not leave a chain of them.
fn make(dir: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o755).create(dir) {
        Ok(()) => fs::set_permissions(dir, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot create directory {}", dir.display()))
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
    let text = String::from_utf8(text)?;
    // A long list of alternatives is one word, which must be able to break.
    let mut text = text.replace(r"\fR|\fB", r"\fR | \fB");
    if let Some(after) = command
        .get_after_long_help()
        .or_else(|| command.get_after_help())
    {
        text.push_str(".SH NOTES\n");
        text.push_str(&notes(&after.to_string()));
    }
    Ok(ManPage {
        name: man.get_filename(),
        text: in_ascii(&text),
    })
}

/// Escapes non-ASCII characters by number, so that no reader has to guess the encoding.
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

/// Formats the text below the help: indented lines (examples) are kept, the rest is filled.
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

/// Escapes a line for roff: a leading dot or quote would be a request.
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
