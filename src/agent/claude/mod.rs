//! Claude Code (`claude -p`): a stream of JSON lines, one for each thing that it does, and one with the result at the
//! end. How it ended is read there, never from its status alone: it ends with 0 when it was interrupted, and calls an
//! error of the API a "success".

mod line;
mod report;
mod show;

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Agent, End, Outcome, Phase, RunSpec, Session};
use crate::process::Exit;
use report::Report;

pub(super) use show::{Shown, doing};

/// Names the folder with its settings, its login and its sessions.
pub(super) const OWN_FOLDER: &str = "CLAUDE_CONFIG_DIR";

/// Its login, its own folder, and the way to its API. Other providers' variables are for the configuration to name.
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

/// All that a reviewer may use. With `dontAsk`, of Bash only what claude itself knows to be reading goes through (`git
/// diff`, `grep`): a rule such as `Bash(git diff *)` would let `git diff --output=FILE` write.
const READING_TOOLS: &str = "Bash,Read,Grep,Glob";

/// The settings of an agent of this kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Claude {
    /// None: as many as it likes.
    pub(crate) max_turns: Option<u32>,
    /// For one run, in millionths of a dollar.
    pub(crate) max_cost_micros: Option<i64>,
    /// How often it tries a request again by itself; left to itself it goes on for minutes.
    pub(crate) max_retries: u32,
    /// How long it waits for an answer of the API. Shorter than the idle limit: a silent API is nobody's failure.
    pub(crate) api_timeout: Duration,
    /// What a fix may do without being asked, besides editing, in claude's own notation.
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
            Phase::Fix => {
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
        // It counts what this process spends, also where it goes on with an older session.
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
    // It refuses 0; less than this is spent by the first word anyway.
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

/// Its last word.
pub(super) fn answer(stdout: &str) -> String {
    Report::read(stdout).answer()
}

pub(super) fn denied(stdout: &str) -> Vec<String> {
    Report::read(stdout).denied()
}

#[cfg(test)]
mod tests;
