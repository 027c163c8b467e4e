//! Renders the stream for people: one line for each action, and the current activity.

use serde_json::Value;

use super::line::{Block, StreamLine, brief, call, text_of, time_of};
use crate::clock::Time;
use crate::text::prefixed;

/// Maximum number of bytes kept of an incomplete line.
const LONGEST: usize = 4 * 1024 * 1024;

/// Indentation of texts, so that they are aligned after the time.
const INDENT: &str = "          ";

/// Turns a stream into lines for people as it arrives.
#[derive(Default)]
pub(in crate::agent) struct Shown {
    /// Start of an incomplete line.
    rest: String,
    cwd: Option<String>,
}

impl Shown {
    /// Returns the text for the next part of the stream; a line counts once it is complete.
    pub(in crate::agent) fn more(&mut self, text: &str) -> String {
        let mut out = String::new();
        self.rest.push_str(text);
        if let Some(end) = self.rest.rfind('\n') {
            let rest = self.rest.split_off(end + 1);
            for line in std::mem::replace(&mut self.rest, rest).lines() {
                self.line(line, &mut out);
            }
        }
        if self.rest.len() > LONGEST {
            out.push_str(&format!("{INDENT}[line longer than {LONGEST} bytes]\n"));
            self.rest.clear();
        }
        out
    }

    /// Returns the rest after the last part.
    pub(in crate::agent) fn end(&mut self) -> String {
        let (rest, mut out) = (std::mem::take(&mut self.rest), String::new());
        if !rest.is_empty() {
            self.line(&rest, &mut out);
        }
        out
    }

    fn line(&mut self, text: &str, out: &mut String) {
        let Some(line) = StreamLine::read(text) else {
            // Not part of the stream: shown as it is, except half a line of the stream.
            if !text.starts_with('{') {
                out.push_str(&format!("{text}\n"));
            }
            return;
        };
        let time = line.time().map_or(INDENT.to_owned(), |time| {
            time.utc().format("%H:%M:%S  ").to_string()
        });
        for entry in self.say(&line) {
            let mut lines = entry.trim_end().lines();
            out.push_str(&format!("{time}{}\n", lines.next().unwrap_or_default()));
            for more in lines {
                out.push_str(format!("{INDENT}{more}").trim_end());
                out.push('\n');
            }
        }
    }

    fn say(&mut self, line: &StreamLine) -> Vec<String> {
        match line.kind().as_str() {
            "system/init" => {
                self.cwd = Some(line.text("cwd").to_owned());
                vec![format!(
                    "claude {} with {}",
                    line.text("claude_code_version"),
                    line.text("model")
                )]
            }
            "system/permission_denied" => {
                vec![format!("not allowed: {}", brief(line.text("message")))]
            }
            "system/api_retry" => vec![retry(line)],
            "rate_limit_event" => limit(line).into_iter().collect(),
            "assistant" | "user" => line
                .blocks()
                .iter()
                .filter_map(|block| self.block(block))
                .collect(),
            "result" => vec![result(line)],
            _ => Vec::new(),
        }
    }

    fn block(&self, block: &Block<'_>) -> Option<String> {
        match block {
            Block::Text(text) => Some((*text).to_owned()),
            Block::Call { name, input, .. } => Some(call(name, input, self.cwd.as_deref())),
            Block::Answer {
                failed: true, text, ..
            } => Some(format!("failed: {}", brief(text))),
            Block::Answer { failed: false, .. } => None,
        }
    }
}

/// Returns the current activity according to the complete output, and since when, if the line has a
/// time.
pub(in crate::agent) fn doing(stdout: &str) -> Option<(String, Option<Time>)> {
    let (mut cwd, mut doing) = (None, None);
    // Calls without a result, oldest first: several can be in progress.
    let mut calls: Vec<(String, String, Option<Time>)> = Vec::new();
    for line in stdout.lines().filter_map(StreamLine::read) {
        let time = line.time();
        match line.kind().as_str() {
            "system/init" => {
                cwd = Some(line.text("cwd").to_owned());
                doing = Some(("waiting for the model".to_owned(), time));
            }
            "system/api_retry" => doing = Some((retry(&line), time)),
            "result" => doing = Some(("ends".to_owned(), time)),
            "assistant" | "user" => {
                for block in line.blocks() {
                    doing = Some(match block {
                        Block::Text(text) => (format!("says: {}", brief(text)), time),
                        Block::Call { id, name, input } => {
                            let call = call(name, input, cwd.as_deref());
                            calls.push((id.to_owned(), call.clone(), time));
                            (call, time)
                        }
                        Block::Answer { id, .. } => answered(&mut calls, id, time),
                    });
                }
            }
            _ => {}
        }
    }
    doing
}

/// Returns the activity after a call has completed: the oldest call in progress, otherwise waiting
/// for the model.
fn answered(
    calls: &mut Vec<(String, String, Option<Time>)>,
    id: &str,
    time: Option<Time>,
) -> (String, Option<Time>) {
    let known = calls.iter().position(|(known, ..)| known == id);
    let done = known.map(|at| calls.remove(at).1);
    match (calls.first(), done) {
        (Some((_, call, since)), _) => (call.clone(), *since),
        (None, Some(call)) => (format!("waiting for the model, after {call}"), time),
        (None, None) => ("waiting for the model".to_owned(), time),
    }
}

fn retry(line: &StreamLine) -> String {
    let status = line.number("error_status");
    let status = status.map_or_else(String::new, |status| format!(" ({status})"));
    let wait = line.fraction("retry_delay_ms") / 1000.0;
    let count = |key| line.number(key).unwrap_or(0);
    let (error, attempt, most) = (line.text("error"), count("attempt"), count("max_retries"));
    format!("waiting for the API: {error}{status}, retry in {wait:.1} s ({attempt} of {most})")
}

fn limit(line: &StreamLine) -> Option<String> {
    let info = line.at_path("/rate_limit_info")?;
    if text_of(info, "status") != "rejected" {
        return None;
    }
    let until = info.get("resetsAt").and_then(Value::as_i64).map(time_of);
    let (kind, until) = (text_of(info, "rateLimitType"), prefixed(" until ", until));
    Some(format!("usage limit reached ({kind}){until}"))
}

fn result(line: &StreamLine) -> String {
    let turns = match line.number("num_turns").unwrap_or(0) {
        1 => "1 turn".to_owned(),
        n => format!("{n} turns"),
    };
    let cost = line.fraction("total_cost_usd");
    let how = match line.at_path("/is_error") {
        Some(Value::Bool(false)) => "ended",
        Some(_) | None => "ended with an error",
    };
    format!("{how} after {turns}, ${cost:.2} in this session")
}
