//! The config file: its text, and writing it without overwriting another file by accident.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use toml::Value;

use super::choice::{AgentChoice, Choices, ProjectChoice};
use crate::cli::frame::{CommandError, TemporaryFile};
use crate::config::{self, ConfigLocation};
use crate::text;

/// Renders only the settings that differ from the defaults, with comments.
pub(super) fn render(choices: &Choices) -> String {
    let mut text = String::from(
        "# Settings of remand that differ from the defaults. `remand config defaults` documents all settings,\n\
         # `remand config check` checks this file, and `remand config show` prints the settings in effect.\n\n",
    );
    let (agent, review_agent) = (&choices.agent, &choices.review_agent);
    let review_name = review_name(choices);
    let and_reviews = match agent == review_agent {
        true => " and reviews",
        false => "",
    };
    let name = quoted(&agent.name);
    text.push_str(&format!(
        "# Agent that fixes{and_reviews}.\nagent = {name}\n"
    ));
    if agent != review_agent {
        text.push_str(&format!(
            "\n# Agent that reviews.\nreview_agent = {}\n",
            quoted(&review_name)
        ));
    }
    if !choices.gates.is_empty() {
        text.push_str(&format!(
            "\n# Commands that must pass before a fix is pushed.\ngates = {}\n",
            commands(&choices.gates)
        ));
    }
    if choices.shadow {
        text.push_str(
            "\n# Shadow mode: agents review, but nothing is fixed, pushed or posted; `remand stats --shadow` prints a summary.\n\
             # \"dry\" runs no agents. Remove this line to fix, push and post.\nshadow = \"review\"\n",
        );
    }
    text.push_str(
        "\n[loop]\n# Limit on the cost of one change in US dollars; when it is reached, a person has to decide.\nmax_cost_usd = 10.0\n\
         # Limit on the cost of all changes per day; when it is reached, work waits for the next day.\n\
         max_cost_usd_per_day = 50.0\n",
    );
    let gates: Vec<&Vec<String>> = choices
        .gates
        .iter()
        .chain(choices.projects.iter().flat_map(|p| &p.gates))
        .collect();
    text.push_str(&table(agent, &agent.name, &gates));
    if agent != review_agent {
        text.push_str(&table(review_agent, &review_name, &[]));
    }
    for project in &choices.projects {
        text.push_str(&project_tables(project, choices.label.as_deref(), false));
    }
    text
}

/// Renders the tables of one project; empty if it has only common settings.
pub(super) fn project_tables(project: &ProjectChoice, label: Option<&str>, shadow: bool) -> String {
    let name = key(&project.name);
    let mut text = String::new();
    if project.setup.is_some() || !project.gates.is_empty() || shadow {
        text.push_str(&format!("\n[projects.{name}]\n"));
    }
    if let Some(setup) = &project.setup {
        let command = list(&setup.command);
        text.push_str(&format!(
            "# Prepares a fresh worktree before agents and gates run in it.\nsetup = {command}\n"
        ));
        if !setup.again_on.is_empty() {
            let names = list(&setup.again_on);
            text.push_str(&format!(
                "# The set-up runs again when one of these files changes.\nsetup_again_on = {names}\n"
            ));
        }
    }
    if !project.gates.is_empty() {
        let gates = commands(&project.gates);
        text.push_str(&format!(
            "# Commands that must pass before a fix is pushed.\ngates = {gates}\n"
        ));
    }
    if shadow {
        text.push_str(
            "# Shadow mode: agents review, but nothing is fixed, pushed or posted.\nshadow = \"review\"\n",
        );
    }
    if let (Some(label), true) = (label, project.repo.is_some()) {
        text.push_str(&format!("\n# Open pull requests with this label are taken over automatically.\n[projects.{name}.discover]\nlabel = {}\n", quoted(label)));
    }
    text
}

/// Returns the name of the review agent: two commands of one program are two agents.
fn review_name(choices: &Choices) -> String {
    let name = &choices.review_agent.name;
    if *name == choices.agent.name {
        format!("{name}-review")
    } else {
        name.clone()
    }
}

fn table(agent: &AgentChoice, name: &str, gates: &[&Vec<String>]) -> String {
    let mut text = format!("\n[agents.{}]\n", key(name));
    if agent.is_claude {
        text.push_str("kind = \"claude\"\n");
        if agent.command != ["claude"] {
            text.push_str(&format!("command = {}\n", list(&agent.command)));
        }
        // The syntax of the allow list cannot express these characters.
        let fits =
            |gate: &&&Vec<String>| !gate.iter().any(|word| word.contains(['(', ')', ',', ' ']));
        let mut allow: Vec<String> = gates
            .iter()
            .filter(fits)
            .map(|gate| format!("Bash({} *)", gate.join(" ")))
            .collect();
        allow.dedup();
        if !allow.is_empty() {
            text.push_str(&format!(
                "# Commands that it can run without asking, in addition to editing files.\nallow = {}\n",
                list(&allow)
            ));
        }
    } else {
        text.push_str(&format!(
            "kind = \"command\"\ncommand = {}\n",
            list(&agent.command)
        ));
    }
    text
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Quotes a part of a table name if needed.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn list(words: &[String]) -> String {
    format!("[{}]", text::list(words.iter().map(|word| quoted(word))))
}

fn commands(commands: &[Vec<String>]) -> String {
    format!("[{}]", text::list(commands.iter().map(|words| list(words))))
}

/// Writes the config file and returns the path of the copy of the previous one. The new file is
/// loaded before it is put in place, so that an invalid one is never left behind.
pub(super) fn put(place: &ConfigLocation, file: &Path, text: &str) -> Result<Option<PathBuf>> {
    // A symlink to a file elsewhere stays a symlink.
    let led = file.canonicalize();
    let file = led.as_deref().unwrap_or(file);
    let folder = file.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let new = TemporaryFile(file.with_extension(format!("new-{}", uuid::Uuid::new_v4().simple())));
    let written = fs::File::create_new(&new.0).and_then(|mut made| {
        made.write_all(text.as_bytes())?;
        made.sync_all()
    });
    written.with_context(|| format!("cannot write {}", new.0.display()))?;
    config::load(&ConfigLocation {
        config: Some(new.0.clone()),
        ..place.clone()
    })?;
    if !file.exists() {
        // Fails if the file was created in the meantime.
        fs::hard_link(&new.0, file).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(None);
    }
    let copy = free_name(file)?;
    fs::copy(file, &copy)
        .with_context(|| format!("cannot copy {} to {}", file.display(), copy.display()))?;
    fs::rename(&new.0, file).with_context(|| format!("cannot replace {}", file.display()))?;
    Ok(Some(copy))
}

/// Returns an unused name for the copy, so that no copy is overwritten.
fn free_name(file: &Path) -> Result<PathBuf> {
    let name = |n: u32| {
        let mut name = file.as_os_str().to_owned();
        name.push(match n {
            1 => ".bak".to_owned(),
            n => format!(".bak{n}"),
        });
        PathBuf::from(name)
    };
    let is_free = |path: &PathBuf| path.symlink_metadata().is_err();
    match (1..1000).map(name).find(is_free) {
        Some(free) => Ok(free),
        None => CommandError::new(format!(
            "there are too many backup copies of {}",
            file.display()
        ))
        .fail(),
    }
}
