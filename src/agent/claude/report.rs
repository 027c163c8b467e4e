//! Summary of a complete stream, and the outcome of the run.

use std::collections::BTreeMap;

use serde_json::Value;

use super::line::{Block, StreamLine, call, text_of, time_of};
use crate::agent::outcome::{End, last_words};
use crate::agent::{micros, sensible_tokens};
use crate::clock::Time;

/// Exit statuses of a process that was killed by a signal, as reported by claude and shells: HUP,
/// INT, KILL, TERM.
const BY_SIGNAL: [i32; 4] = [129, 130, 137, 143];

/// Everything in a stream that counts once the run has ended.
#[derive(Default)]
pub(super) struct Report {
    cwd: Option<String>,
    /// Descriptions of its calls, by id.
    calls: BTreeMap<String, String>,
    /// Ids of calls that were not allowed.
    refused: Vec<String>,
    /// Text of its last message.
    last_text: String,
    /// Kind of the API error that ended it, in claude's terms.
    api_error: Option<String>,
    /// Time at which the usage limit that it hit is reset.
    resets_at: Option<Time>,
    /// Tokens of all messages so far: for a run without a result.
    tokens_seen: i64,
    last_message: String,
    result: Option<Value>,
}

impl Report {
    pub(super) fn read(stdout: &str) -> Self {
        let mut report = Self::default();
        for line in stdout.lines().filter_map(StreamLine::read) {
            report.take(line);
        }
        report
    }

    fn take(&mut self, line: StreamLine) {
        match line.kind().as_str() {
            "system/init" => self.cwd = Some(line.text("cwd").to_owned()),
            "system/permission_denied" => self.refused.push(line.text("tool_use_id").to_owned()),
            "rate_limit_event" => self.note_limit(line.at_path("/rate_limit_info")),
            "assistant" => {
                self.note_message(&line);
                self.note_limit(line.at_path("/api_error_params/rate_limit_info"));
                self.api_error =
                    Some(line.text("error").to_owned()).filter(|error| !error.is_empty());
            }
            // The last one counts: with background agents there can be several.
            "result" => self.result = Some(line.into_value()),
            _ => {}
        }
    }

    fn note_message(&mut self, line: &StreamLine) {
        for block in line.blocks() {
            match block {
                Block::Text(text) => text.clone_into(&mut self.last_text),
                Block::Call { id, name, input } => {
                    self.calls
                        .insert(id.to_owned(), call(name, input, self.cwd.as_deref()));
                }
                Block::Answer { .. } => {}
            }
        }
        // One message comes in several lines, each with the same figures.
        let id = line.at_path("/message/id").and_then(Value::as_str);
        let id = id.unwrap_or_default();
        if id != self.last_message {
            id.clone_into(&mut self.last_message);
            let tokens = used(line.at_path("/message/usage")).unwrap_or(0);
            self.tokens_seen = self.tokens_seen.saturating_add(tokens);
        }
    }

    fn note_limit(&mut self, info: Option<&Value>) {
        if let Some(info) = info.filter(|info| text_of(info, "status") == "rejected") {
            let seconds = info.get("resetsAt").and_then(Value::as_i64);
            self.resets_at = seconds.map(time_of);
        }
    }

    fn text(&self, key: &str) -> &str {
        self.field(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns a value at the top of the result.
    fn field(&self, key: &str) -> Option<&Value> {
        self.result.as_ref()?.get(key)
    }

    fn errors(&self) -> impl Iterator<Item = &str> {
        let listed = self.field("errors").and_then(Value::as_array);
        listed.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Returns the final message; without a result, the last one.
    pub(super) fn answer(&self) -> String {
        if self.text("result").is_empty() {
            self.last_text.clone()
        } else {
            self.text("result").to_owned()
        }
    }

    /// Returns uncached tokens, input and output. Cached ones are not counted: they would outnumber
    /// all others.
    pub(super) fn tokens(&self, resumed: bool) -> Option<i64> {
        let Some(result) = &self.result else {
            return sensible_tokens(Some(self.tokens_seen).filter(|tokens| *tokens > 0));
        };
        let run = used(result.get("usage"));
        // If it was cut at its cost limit, only the totals of the session are filled in.
        let of_model = |model: &Value| {
            let keys = ["inputTokens", "outputTokens", "cacheCreationInputTokens"];
            let counts = keys.into_iter().filter_map(|key| model.get(key)?.as_i64());
            counts.fold(0, i64::saturating_add)
        };
        let session = result.get("modelUsage").and_then(Value::as_object);
        let session = session.map(|models| models.values().map(of_model));
        let session = session.map(|counts| counts.fold(0, i64::saturating_add));
        sensible_tokens(run.filter(|tokens| *tokens > 0 || resumed).or(session))
    }

    /// Returns the cost of the session, including earlier runs that it resumes.
    pub(super) fn cost_micros(&self) -> Option<i64> {
        self.field("total_cost_usd")?.as_f64().and_then(micros)
    }

    /// Returns actions that it requested and that were not allowed, without duplicates.
    pub(super) fn denied(&self) -> Vec<String> {
        let listed = self.field("permission_denials").and_then(Value::as_array);
        let listed = listed.into_iter().flatten().filter_map(|denial| {
            let name = denial.get("tool_name")?.as_str()?;
            Some(call(name, denial.get("tool_input")?, self.cwd.as_deref()))
        });
        let seen = self.refused.iter().filter_map(|id| self.calls.get(id));
        let seen = seen.cloned();
        let mut denied: Vec<String> = Vec::new();
        for call in listed.chain(seen) {
            if !denied.contains(&call) {
                denied.push(call);
            }
        }
        denied
    }

    /// Returns the outcome. A run is successful only if the result says so and the exit status is
    /// 0.
    pub(super) fn judge(&self, status: Option<i32>, stderr: &str, resumed: bool) -> End {
        let by_signal = status.is_none_or(|status| BY_SIGNAL.contains(&status));
        let is_error = |result: &Value| result.get("is_error").and_then(Value::as_bool);
        match &self.result {
            _ if resumed && self.has_no_session(stderr) => End::NoSession,
            _ if by_signal => End::Lost,
            None if status == Some(0) => End::Lost,
            None => End::Failed(format!("{}{}", status_of(status), last_words(stderr))),
            Some(result)
                if is_error(result) == Some(false) && self.text("subtype") == "success" =>
            {
                match status {
                    Some(0) => End::Good,
                    status => End::Failed(format!(
                        "{}, although it reported success",
                        status_of(status)
                    )),
                }
            }
            Some(_) => self.judge_error(),
        }
    }

    /// Returns true if the session does not exist, which is reported in an error line or only on
    /// stderr.
    fn has_no_session(&self, stderr: &str) -> bool {
        const MISSING: &str = "No conversation found";
        self.errors().any(|error| error.contains(MISSING))
            || (self.result.is_none() && stderr.contains(MISSING))
    }

    fn judge_error(&self) -> End {
        let message = self.error_text();
        let hold_until = |what: &str, until| End::Hold {
            reason: format!("{what}: {message}"),
            until,
        };
        let hold = |what| hold_until(what, None);
        let limited = |what| hold_until(what, self.limit_is_over());
        let status = self.field("api_error_status").and_then(Value::as_i64);
        let kind = self.api_error.as_deref().unwrap_or_default();
        match (self.text("api_error"), kind, status) {
            ("usage_limit_reached", ..) => limited("claude's usage limit has been reached"),
            ("connection_failed", ..) => hold("claude cannot reach its API"),
            (_, "authentication_failed" | "oauth_org_not_allowed", _) | (.., Some(401 | 403)) => {
                hold("claude is not logged in, or its account is not authorized")
            }
            (_, "rate_limit", _) | (.., Some(429)) => {
                limited("claude's API rate limit has been reached")
            }
            (_, "billing_error", _) => hold("claude's account has no credit left"),
            (_, "overloaded" | "server_error", _) | (.., Some(408 | 500..=599)) => {
                hold("claude's API is unavailable")
            }
            _ if self.text("terminal_reason").starts_with("aborted") => End::Lost,
            _ => End::Failed(message),
        }
    }

    /// Returns the time at which the limit is reset: from its own field or, in older versions,
    /// after the message: `limit reached|1794877258`.
    fn limit_is_over(&self) -> Option<Time> {
        let behind = || {
            let (_, seconds) = self.text("result").rsplit_once("limit reached|")?;
            Some(time_of(seconds.trim().parse().ok()?))
        };
        self.resets_at.or_else(behind)
    }

    fn error_text(&self) -> String {
        let message = match self.text("result") {
            "" => self.errors().collect::<Vec<_>>().join("; "),
            message => message.to_owned(),
        };
        let message = if message.trim().is_empty() {
            format!("ended with `{}`", self.text("subtype"))
        } else {
            message
        };
        message.trim().chars().take(300).collect()
    }
}

fn status_of(status: Option<i32>) -> String {
    status.map_or_else(
        || "exited without a status".to_owned(),
        |status| format!("exited with status {status}"),
    )
}

/// Returns uncached tokens of a message or a run.
fn used(usage: Option<&Value>) -> Option<i64> {
    let usage = usage?;
    let keys = [
        "input_tokens",
        "output_tokens",
        "cache_creation_input_tokens",
    ];
    let counts = keys.into_iter().filter_map(|key| usage.get(key)?.as_i64());
    let counts = counts.filter(|count| *count >= 0);
    Some(counts.fold(0, i64::saturating_add))
}
