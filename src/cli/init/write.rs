//! The config file: its text, and how it comes to its place without ever overwriting another by chance.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use toml::Value;

use super::choice::{AgentChoice, Choices};
use crate::cli::frame::error::CommandError;
use crate::config::{self, ConfigLocation};

/// Only what differs from the defaults, with what it means.
pub(super) fn render(choices: &Choices) -> String {
    let mut text = String::from(
        "# remand's settings, as far as they differ from the defaults. `remand config defaults` prints all of them\n\
         # with their meaning, `remand config check` checks this file, `remand config show` says what holds.\n\n",
    );
    let (agent, review_agent) = (&choices.agent, &choices.review_agent);
    let review_name = review_name(choices);
    text.push_str(&format!(
        "# Who fixes{}.\nagent = {}\n",
        if agent == review_agent {
            " and reviews"
        } else {
            ""
        },
        quoted(&agent.name)
    ));
    if agent != review_agent {
        text.push_str(&format!(
            "\n# Who reviews.\nreview_agent = {}\n",
            quoted(&review_name)
        ));
    }
    if !choices.gates.is_empty() {
        text.push_str(&format!(
            "\n# What must pass before a fix is pushed.\ngates = {}\n",
            commands(&choices.gates)
        ));
    }
    if choices.shadow {
        text.push_str(
            "\n# Agents review, and nothing is fixed, pushed or posted: `remand stats --shadow` sums up. \"dry\" runs no agent at all.\n\
             # Without this line it works for real.\nshadow = \"review\"\n",
        );
    }
    text.push_str(
        "\n[loop]\n# How much money agents may spend on one change, in US dollars; then you are asked.\nmax_cost_usd = 10.0\n\
         # How much they may spend in a day on all changes together; then work waits for the next day.\n\
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
        let name = key(&project.name);
        if project.setup.is_some() || !project.gates.is_empty() {
            text.push_str(&format!("\n[projects.{name}]\n"));
        }
        if let Some(setup) = &project.setup {
            let command = list(&setup.command);
            text.push_str(&format!(
                "# Makes a fresh worktree ready, before agents and gates run in it.\nsetup = {command}\n"
            ));
            if !setup.again_on.is_empty() {
                let names = list(&setup.again_on);
                text.push_str(&format!(
                    "# It runs again when one of these files changed.\nsetup_again_on = {names}\n"
                ));
            }
        }
        if !project.gates.is_empty() {
            let gates = commands(&project.gates);
            text.push_str(&format!(
                "# What must pass before a fix is pushed.\ngates = {gates}\n"
            ));
        }
        if let (Some(label), true) = (&choices.label, project.repo.is_some()) {
            text.push_str(&format!("\n# Open pull requests with this label are taken over by themselves.\n[projects.{name}.discover]\nlabel = {}\n", quoted(label)));
        }
    }
    text
}

/// Two commands of one program are two agents.
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
        // Its notation has no way to write these.
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
                "# What it may run by itself in a fix, besides editing files.\nallow = {}\n",
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

/// A part of a table's name.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.chars().all(is_bare) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

fn list(words: &[String]) -> String {
    format!(
        "[{}]",
        words
            .iter()
            .map(|word| quoted(word))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

fn commands(commands: &[Vec<String>]) -> String {
    format!(
        "[{}]",
        commands
            .iter()
            .map(|words| list(words))
            .collect::<Vec<_>>()
            .join(", ")
    )
}

/// Puts the text into its place, and says where a copy of what was there is. The file is read once before it counts: one
/// that remand itself would refuse is never left behind.
pub(super) fn put(place: &ConfigLocation, file: &Path, text: &str) -> Result<Option<PathBuf>> {
    // One that is kept elsewhere and linked here stays a link.
    let led = file.canonicalize();
    let file = led.as_deref().unwrap_or(file);
    let folder = file.parent().map(Path::to_owned).unwrap_or_default();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let new = Unfinished(file.with_extension(format!("new-{}", uuid::Uuid::new_v4().simple())));
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
        // Fails where another was quicker.
        fs::hard_link(&new.0, file).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(None);
    }
    let copy = free_name(file)?;
    fs::copy(file, &copy)
        .with_context(|| format!("cannot copy {} to {}", file.display(), copy.display()))?;
    fs::rename(&new.0, file).with_context(|| format!("cannot replace {}", file.display()))?;
    Ok(Some(copy))
}

/// No copy is overwritten by the next.
fn free_name(file: &Path) -> Result<PathBuf> {
    let name = |n: u32| {
        let mut name = file.as_os_str().to_owned();
        name.push(if n == 1 {
            ".bak".to_owned()
        } else {
            format!(".bak{n}")
        });
        PathBuf::from(name)
    };
    let free = (1..1000)
        .map(name)
        .find(|path| path.symlink_metadata().is_err());
    free.ok_or_else(|| {
        CommandError::new(format!(
            "there are too many copies of {} beside it",
            file.display()
        ))
        .into()
    })
}

/// Gone when it is dropped, unless it was moved to its place.
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Moved away, mostly.
        drop(fs::remove_file(&self.0));
    }
}
