//! Claude Code (`claude -p`): a stream of JSON lines, one for each action, and one with the result
//! at the end.
//!
//! The outcome is read from that, never from its exit status alone: it exits with 0 when it was
//! interrupted, and reports an API error as a "success".

mod line;
mod report;
mod show;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Agent, End, Outcome, Phase, RunSpec, Session};
use crate::process::Exit;
use report::Report;

pub(super) use show::{Shown, doing};

/// Variable that names the directory with its settings, its login and its sessions.
pub(super) const OWN_FOLDER: &str = "CLAUDE_CONFIG_DIR";

/// Variables for its login, its directory, and the route to its API. Other providers' variables
/// have to be named in the configuration.
pub(super) const VARIABLES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "CLAUDE_CODE_OAUTH_TOKEN",
    OWN_FOLDER,
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "https_proxy",
    "http_proxy",
    "no_proxy",
    "NODE_EXTRA_CA_CERTS",
];

/// All tools that a reviewer may use.
///
/// With `dontAsk`, Bash is limited to commands that claude itself recognizes as read-only (`git
/// diff`, `grep`): a rule such as `Bash(git diff *)` would let `git diff --output=FILE` write.
const READING_TOOLS: &str = "Bash,Read,Grep,Glob";

/// Settings of an agent of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claude {
    /// Maximum number of turns; `None` means unlimited.
    pub(crate) max_turns: Option<u32>,
    /// Maximum cost of one run, in millionths of a dollar.
    pub(crate) max_cost_micros: Option<i64>,
    /// Maximum number of its own retries of a request; by default it keeps retrying for minutes.
    pub(crate) max_retries: u32,
    /// Time that it waits for a response of the API. Shorter than the idle limit: a silent API is
    /// not the agent's failure.
    pub(crate) api_timeout: Duration,
    /// Actions that a fix may take without permission, besides editing, in claude's notation.
    pub(crate) allow: Vec<String>,
}

impl Claude {
    pub(super) fn dress(
        &self,
        agent: &Agent,
        errand: &RunSpec<'_>,
        env: &mut BTreeMap<String, String>,
    ) -> Vec<String> {
        for (name, value) in [
            ("CLAUDE_CODE_MAX_RETRIES", self.max_retries.to_string()),
            ("API_TIMEOUT_MS", self.api_timeout.as_millis().to_string()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ] {
            env.insert(name.to_owned(), value);
        }
        let mut argv = agent.command.clone();
        let mut add = |words: &[&str]| argv.extend(words.iter().map(|word| (*word).to_owned()));
        add(&["-p", "--output-format", "stream-json", "--verbose"]);
        match errand.phase {
            Phase::Review => add(&["--permission-mode", "dontAsk", "--tools", READING_TOOLS]),
            Phase::Implement | Phase::Fix => {
                add(&["--permission-mode", "acceptEdits"]);
                if !self.allow.is_empty() {
                    add(&["--allowedTools", &self.allow.join(",")]);
                }
            }
        }
        match errand.session {
            Session::None => {}
            Session::New(id) => add(&["--session-id", id]),
            Session::Resumed(id) => add(&["--resume", id]),
        }
        if let Some(model) = &agent.model {
            add(&["--model", model]);
        }
        if let Some(turns) = self.max_turns {
            add(&["--max-turns", &turns.to_string()]);
        }
        // The limit applies to this process, even if it resumes an older session.
        if let Some(micros) = [self.max_cost_micros, errand.money_left]
            .into_iter()
            .flatten()
            .min()
        {
            add(&["--max-budget-usd", &dollars(micros)]);
        }
        argv
    }
}

fn dollars(micros: i64) -> String {
    // It refuses 0; the first response costs more than this anyway.
    let micros = micros.max(1);
    format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000)
}

pub(super) fn outcome(stdout: &str, exit: Option<&Exit>, stderr: &str, resumed: bool) -> Outcome {
    let report = Report::read(stdout);
    Outcome {
        end: exit.map_or(End::Lost, |exit| report.judge(exit.status, stderr, resumed)),
        session: None,
        tokens: report.tokens(resumed),
        cost_micros: report.cost_micros(),
        is_sum_of_session: resumed,
        denied: report.denied(),
        odd: None,
    }
}

/// Returns its final message.
pub(super) fn answer(stdout: &str) -> String {
    Report::read(stdout).answer()
}

pub(super) fn denied(stdout: &str) -> Vec<String> {
    Report::read(stdout).denied()
}

#[cfg(test)]
mod tests;
