//! Test environments whose agents are the real claude.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::model::{Asked, Model, Reply, says};
use crate::support::play::{Daemon, Play, Script};
use crate::support::pull_play::PullPlay;
use crate::support::{Output, World, run, skip, tool};

/// Returns the program; if it is missing, the test is skipped under this name.
pub(crate) fn claude(test: &str) -> Option<String> {
    let found = tool("claude/claude").map(|path| path.to_str().unwrap().to_owned());
    if found.is_none() {
        skip(test, "claude 2.1.325 is not there: see tests/run");
    }
    found
}

/// One change whose reviewer and fixer are claude.
pub(crate) struct Stage {
    pub(crate) play: Play,
    pub(crate) url: String,
}

impl Stage {
    /// Creates the environment with more lines for the table of the agent, and for the top of the
    /// settings.
    pub(crate) fn new(claude: &str, url: &str, agent: &str, settings: &str) -> Self {
        let play = Play::without_change(&Script::default());
        by_claude(&play.world, claude, agent, settings);
        play.world
            .remand_in(&play.worktree, &["review", "--title", "Feature"])
            .ok();
        Self {
            play,
            url: url.to_owned(),
        }
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        command(&self.play.world, &self.url, args)
    }

    pub(crate) fn tick(&self) -> Output {
        run(&mut self.command(&["tick"])).report()
    }

    pub(crate) fn daemon(&self) -> Daemon {
        self.play.daemon_from(self.command(&["run"]))
    }

    /// Ends the hold; then does everything that is due.
    pub(crate) fn tick_later(&self) {
        self.play
            .world
            .sqlite("UPDATE changes SET held_until = '2020-01-01T00:00:00.000Z' WHERE held_until IS NOT NULL");
        self.tick();
    }
}

/// Runs remand with a login for claude, and with variables that no agent may have.
pub(crate) fn command(world: &World, url: &str, args: &[&str]) -> Command {
    let mut command = world.remand_command(args);
    command
        .env("ANTHROPIC_BASE_URL", url)
        .env("ANTHROPIC_API_KEY", "key-of-the-test")
        .env("GH_TOKEN", "never-seen");
    command
}

/// Replaces the scripts by claude.
pub(crate) fn by_claude(world: &World, claude: &str, agent: &str, settings: &str) {
    let path = world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text
        .replace("review_agent = \"reviewer\"\n", "")
        .replace("red_base = \"ignore\"\n", "");
    // The settings may end with a table: top-level settings come before.
    let top = format!("agent = \"claude\"\nred_base = \"ignore\"\n{settings}");
    let text = text.replace("agent = \"fixer\"", &top);
    world.config(&format!(
        "{text}\n[agents.claude]\nkind = \"claude\"\ncommand = {}\nmodel = \"claude-sonnet-4-5\"\n{agent}\n",
        json!([claude])
    ));
}

/// Creates an environment with a pull request.
pub(crate) fn pull_stage(claude: &str, agent: &str) -> PullPlay {
    let stage = PullPlay::unwatched(&Script::default());
    by_claude(&stage.play.world, claude, agent, "");
    stage.watch();
    stage
}

pub(crate) fn is_review(asked: &Asked) -> bool {
    asked.tools.iter().all(|tool| tool != "Edit")
}

/// Script of a reviewer that reads the diff and wants `work.txt` to contain "fixed", and a fixer
/// that writes it.
pub(crate) fn reviews_and_fixes(asked: &Asked) -> Reply {
    if is_review(asked) {
        reviews(asked)
    } else {
        fixes(asked)
    }
}

pub(crate) fn reviews(asked: &Asked) -> Reply {
    match asked.results.as_slice() {
        [] => uses(
            "Bash",
            json!({ "command": "git diff main...HEAD", "description": "Look at the diff" }),
        ),
        [diff, ..] if diff.contains("+fixed") => {
            says(verdict("approved", &[], &open_findings(asked)))
        }
        [..] => {
            let finding = json!({ "severity": "high", "category": "logic", "path": "work.txt", "line": 1, "text": "say fixed here" });
            says(verdict("changes_requested", &[finding], &[]))
        }
    }
}

pub(crate) fn fixes(asked: &Asked) -> Reply {
    let file = format!("{}/work.txt", folder(asked));
    match asked.results.len() {
        0 => uses("Read", json!({ "file_path": file })),
        1 => uses(
            "Edit",
            json!({ "file_path": file, "old_string": "work", "new_string": "fixed" }),
        ),
        _ => says("I wrote `fixed` into work.txt."),
    }
}

pub(crate) fn uses(name: &'static str, input: Value) -> Reply {
    Reply::Uses(vec![(name, input)])
}

/// Returns the working directory that claude reports.
pub(crate) fn folder(asked: &Asked) -> String {
    let (_, rest) = asked
        .everything
        .split_once("Primary working directory: ")
        .unwrap();
    rest.lines().next().unwrap().trim().to_owned()
}

fn open_findings(asked: &Asked) -> Vec<Value> {
    let ids = asked
        .prompt
        .lines()
        .filter_map(|line| line.split_once(" (").map(|(id, _)| id));
    let mut ids: Vec<&str> = ids
        .filter(|id| {
            id.strip_prefix('f')
                .is_some_and(|n| !n.is_empty() && n.chars().all(|c| c.is_ascii_digit()))
        })
        .collect();
    ids.dedup();
    ids.into_iter()
        .map(|id| json!({ "id": id, "status": "resolved" }))
        .collect()
}

pub(crate) fn verdict(word: &str, findings: &[Value], previous: &[Value]) -> String {
    let severity = if findings.is_empty() { "none" } else { "high" };
    format!(
        "REVIEW_RESULT: {word}\nFINDINGS_COUNT: {}\nSEVERITY: {severity}\nSUMMARY: work.txt was looked at.\n\n```json\n{}\n```\n",
        findings.len(),
        json!({ "findings": findings, "previous": previous })
    )
}

/// Creates a model that reviews and fixes correctly.
pub(crate) fn good_model() -> Model {
    Model::new(reviews_and_fixes)
}
