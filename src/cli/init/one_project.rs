//! Settings of one more project for `remand project add`: asked for or detected as in `remand
//! init`, and appended to the config file.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use clap::Args;

use super::ask::{self, Ask};
use super::choice::{ProjectChoice, words};
use super::{InitArgs, project_gates, project_setup, write};
use crate::cli::frame::{CommandContext, CommandError};
use crate::config::Loaded;

#[derive(Debug, Default, Args)]
pub(crate) struct ProjectFlags {
    /// Command that prepares a fresh worktree, such as 'npm ci' ('' for none) [default: detected]
    #[arg(long, value_name = "COMMAND")]
    setup: Option<String>,

    /// Command that must pass before a fix is pushed (repeatable; '' for none) [default: detected]
    #[arg(long = "gate", value_name = "COMMAND")]
    gates: Vec<String>,

    /// Automatically take over open PRs with this label
    #[arg(long, value_name = "LABEL")]
    label: Option<String>,

    /// Start in shadow mode: agents review, but nothing is fixed, pushed or posted
    #[arg(long)]
    shadow: bool,

    /// Do not ask questions
    #[arg(long, short)]
    yes: bool,
}

impl ProjectFlags {
    pub(crate) fn is_given(&self) -> bool {
        self.setup.is_some() || !self.gates.is_empty() || self.label.is_some() || self.shadow
    }
}

/// Returns the arguments with which `remand init` would add this repository, if there is no config
/// file yet and a person can answer its questions.
pub(crate) fn first_file(
    flags: &ProjectFlags,
    new: &NewProject<'_>,
    ctx: &CommandContext,
) -> Result<Option<InitArgs>> {
    let can_ask = Ask::new(flags.yes || ctx.out.is_json()).is_asking();
    // `init` does not have the options for another remote.
    if !can_ask || new.repo.is_some() || ctx.settings()?.file.is_some() {
        return Ok(None);
    }
    Ok(Some(InitArgs {
        agent: None,
        review_agent: None,
        gates: flags.gates.clone(),
        setup: flags.setup.clone(),
        no_try: false,
        projects: vec![new.path.to_owned()],
        name: new.name.map(str::to_owned),
        label: flags.label.clone(),
        shadow: flags.shadow,
        yes: false,
        force: false,
    }))
}

/// A repository as named on the command line.
pub(crate) struct NewProject<'a> {
    pub(crate) path: &'a Path,
    pub(crate) name: Option<&'a str>,
    /// Its name on the forge, if given.
    pub(crate) repo: Option<&'a str>,
}

/// Appends `[projects.NAME]` to the config file, if there is something to write. Existing settings
/// of a project are not changed.
pub(crate) fn write_settings(
    flags: &ProjectFlags,
    new: &NewProject<'_>,
    ctx: &mut CommandContext,
) -> Result<()> {
    let settings = ctx.settings()?;
    let Some(file) = settings.file.clone() else {
        if flags.is_given() {
            let what =
                "cannot save --setup, --gate, --label and --shadow: there is no config file yet";
            return CommandError::config(what)
                .fail_with_hint("`remand init` accepts the same options and writes one");
        }
        return Ok(());
    };
    let mut project = match ProjectChoice::at_with(new.path, new.name, &settings, ctx) {
        Ok(project) => project,
        // Other options may make it fit; if not, adding it reports the error.
        Err(_) if !flags.is_given() => return Ok(()),
        Err(error) => return Err(error),
    };
    project.repo = new.repo.map(str::to_owned).or(project.repo);
    if project.known.is_some() {
        return Ok(());
    }
    if settings.config.projects.contains_key(&project.name) {
        if flags.is_given() {
            let what = format!(
                "[projects.{}] already exists in {}",
                project.name,
                file.display()
            );
            return CommandError::usage(what).fail_with_hint("edit the settings there");
        }
        return Ok(());
    }
    let mut ask = Ask::new(flags.yes || ctx.out.is_json());
    let (label, shadow) = choose(flags, &mut project, &settings, ctx, &mut ask)?;
    let mut table = write::project_tables(&project, label.as_deref(), shadow);
    if table.is_empty() {
        return Ok(());
    }
    table = table.trim_start().to_owned();
    if ask.is_asking() {
        ctx.out.blank()?;
        ctx.out.block(&table, 2)?;
        ctx.out.blank()?;
        let question = format!("Add this to {}?", file.display());
        if !ask.agrees(&mut ctx.out, &question)? {
            return ask::stopped().fail();
        }
    }
    let old =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let copy = write::put(
        ctx.place(),
        &file,
        &format!("{}\n\n{table}", old.trim_end()),
    )?;
    let copy = copy.map(|copy| format!(" (previous version: {})", copy.display()));
    ctx.out.note(format!(
        "note: the settings of {} were added to {}{}",
        project.name,
        file.display(),
        copy.unwrap_or_default()
    ))?;
    Ok(())
}

/// Fills in the commands of the project; returns the label, and true for shadow.
fn choose(
    flags: &ProjectFlags,
    project: &mut ProjectChoice,
    settings: &Loaded,
    ctx: &mut CommandContext,
    ask: &mut Ask,
) -> Result<(Option<String>, bool)> {
    let common = settings.project(&project.name);
    // Common settings also apply to this project, unless the user overrides them.
    if flags.setup.is_some() || ask.is_asking() || common.setup.is_empty() {
        project.setup = project_setup(flags.setup.as_deref(), project, ctx, ask)?;
    }
    if !flags.gates.is_empty() {
        let gates = flags.gates.iter().map(|gate| words(gate, "--gate"));
        let gates: Vec<Vec<String>> = gates.collect::<Result<_>>()?;
        project.gates = gates.into_iter().filter(|gate| !gate.is_empty()).collect();
    } else if ask.is_asking() || common.gates.is_empty() {
        project.gates = project_gates(project, ctx, ask)?;
    }
    let label = match &flags.label {
        Some(_) if project.repo.is_none() => {
            return CommandError::usage("--label needs a repository on GitHub")
                .fail_with_hint("use --repo OWNER/NAME, or omit --label");
        }
        Some(label) => Some(label.clone()),
        None if ask.is_asking() && project.repo.is_some() => super::ask_label(ctx, ask)?,
        None => None,
    };
    let shadow = flags.shadow
        || (ask.is_asking() && common.shadow.is_none() && super::ask_shadow(ctx, ask)?);
    Ok((label, shadow))
}
