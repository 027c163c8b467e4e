//! Title and description of a pull request that remand opens. Quoted text by others mentions nobody and closes
//! nothing.

use super::post_text::{APART, open_fence, place, quiet, without_calls};
use crate::change::ChangeId;
use crate::finding::{FindingId, Outcome, Severity, Verdict};
use crate::pull_request::marker_line;
use crate::sanitize::{markdown_line, posted};
use crate::secret_scan;
use crate::text::{count, prefixed, short_sha, truncate};

/// Maximum number of bytes of a description, and so of characters. Limit of the forge: 65,536 characters.
const MOST: usize = 60_000;
/// Maximum number of bytes of a template.
const TEMPLATE: usize = 30_000;
/// Maximum number of characters of the task.
const ASKED: usize = 4_000;
/// Maximum number of columns of the title, and of a line about a commit or a finding.
const TITLE: usize = 120;
const LINE: usize = 300;
/// Maximum number of characters of the title. Limit of the forge: 256.
const TITLE_CHARACTERS: usize = 250;

const SHORTENED: &str = "\n\n(shortened; the full text is on the blackboard)";

/// Everything that the description of a pull request reports.
#[derive(Debug, Clone)]
pub(crate) struct PullRequestStory {
    pub(crate) change_id: ChangeId,
    /// Text of the task, by a person.
    pub(crate) asked: String,
    /// Issue that is closed when the pull request is merged.
    pub(crate) issue: Option<i64>,
    /// Subjects of the commits, oldest first.
    pub(crate) commits: Vec<String>,
    pub(crate) files: usize,
    pub(crate) reviews: Vec<ReviewStory>,
    pub(crate) findings: Vec<FindingStory>,
    /// Commands of the gates.
    pub(crate) gates: Vec<String>,
    pub(crate) gates_passed: bool,
    /// Reason why a person must look at it before it is merged.
    pub(crate) human_review: Option<String>,
    /// The repository's template for pull requests.
    pub(crate) template: Option<String>,
    /// Directories of this machine, whose names are removed from all texts.
    pub(crate) local_paths: Vec<String>,
}

/// One review by an agent.
#[derive(Debug, Clone)]
pub(crate) struct ReviewStory {
    pub(crate) number: usize,
    pub(crate) verdict: Verdict,
    /// Number of findings.
    pub(crate) findings: usize,
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    /// Reviewed commit.
    pub(crate) head: String,
}

#[derive(Debug, Clone)]
pub(crate) struct FindingStory {
    pub(crate) id: FindingId,
    pub(crate) severity: Severity,
    pub(crate) text: String,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<u32>,
    pub(crate) outcome: Outcome,
    pub(crate) note: Option<String>,
}

impl PullRequestStory {
    /// Returns the title: the first line of the task.
    pub(crate) fn title(&self) -> String {
        let lines = self
            .asked
            .lines()
            .chain(self.commits.iter().map(String::as_str));
        let mut lines = lines.map(|line| line.trim_start_matches('#').trim());
        match lines.find(|line| !line.is_empty()) {
            Some(line) => {
                let title = truncate(&self.title_line(line), TITLE);
                // Characters without a width count too.
                title.chars().take(TITLE_CHARACTERS).collect()
            }
            None => format!("Change {}", self.change_id),
        }
    }

    /// Returns the description. Its last line is the marker, by which the pull request is found again.
    pub(crate) fn body(&self, marker: &str) -> String {
        let start = self.start();
        let mut parts = vec![
            self.asked(),
            self.changed(),
            self.reviewed(),
            self.found(),
            self.checked(),
        ];
        let end = format!("{}\n\n{}", self.next(), marker_line(marker));
        // Each part is followed by an empty line.
        let fixed = start.len() + end.len() + 2 * parts.len();
        shorten(&mut parts, MOST.saturating_sub(fixed));
        parts.retain(|part| !part.is_empty());
        parts.push(end);
        format!("{start}{}", parts.join("\n\n"))
    }

    /// The template, and the reason why a person is needed.
    fn start(&self) -> String {
        let mut text = String::new();
        match self.template.as_deref().map(str::trim_end) {
            None | Some("") => {}
            Some(template) if template.len() > TEMPLATE => {
                text.push_str("The repository's template for pull requests is too long to be included here.\n\n");
            }
            Some(template) => text.push_str(&format!("{template}{}\n\n---\n\n", closed(template))),
        }
        if let Some(reason) = &self.human_review {
            text.push_str(&format!(
                "> **A person must review this**: {}\n\n",
                self.line(reason)
            ));
        }
        text
    }

    fn asked(&self) -> String {
        let asked = self.asked.trim();
        let first: String = asked.chars().take(ASKED).collect();
        let is_cut = first.len() < asked.len();
        let mut text = format!("## Task\n\n{}", quoted(&self.foreign(&first)));
        if is_cut {
            text.push_str(SHORTENED);
        }
        if let Some(issue) = self.issue {
            text.push_str(&format!("\n\nCloses #{issue}"));
        }
        text
    }

    fn changed(&self) -> String {
        let commits = count(self.commits.len(), "commit");
        let files = count(self.files, "file");
        let subjects = self.commits.iter();
        let subjects: String = subjects
            .map(|subject| format!("\n- {}", self.line(subject)))
            .collect();
        format!("## Changes\n\n{commits}, {files} changed:\n{subjects}")
    }

    fn reviewed(&self) -> String {
        if self.reviews.is_empty() {
            return "## Reviews\n\nNo agent has reviewed this.".to_owned();
        }
        let reviews = self.reviews.iter();
        let reviews: String = reviews
            .map(|review| format!("\n- {}", self.review(review)))
            .collect();
        format!("## Reviews\n\nBy agents:\n{reviews}")
    }

    fn review(&self, review: &ReviewStory) -> String {
        let result = match review.verdict {
            Verdict::Approved => "no objections",
            Verdict::ChangesRequested => "requests changes",
            Verdict::NeedsDiscussion => "asks for a discussion",
            Verdict::Unclear => "no clear verdict",
        };
        let model = review.model.as_deref().map(|model| self.line(model));
        format!(
            "Review {} of {} by {}{}: {result}, {}",
            review.number,
            short_sha(&review.head),
            self.line(&review.agent),
            model.map(|model| format!(" ({model})")).unwrap_or_default(),
            count(review.findings, "finding"),
        )
    }

    /// The findings, those first that a person has to judge.
    fn found(&self) -> String {
        let listed = |wanted: fn(Outcome) -> bool, heading: &str| {
            let findings = self.findings.iter();
            let findings = findings.filter(|finding| wanted(finding.outcome));
            let items: String = findings
                .map(|finding| format!("\n- {}", self.finding(finding)))
                .collect();
            if items.is_empty() {
                return items;
            }
            format!("\n\n{heading}:\n{items}")
        };
        let open = listed(is_open, "Open");
        let closed = listed(|outcome| !is_open(outcome), "Closed");
        if open.is_empty() && closed.is_empty() {
            return String::new();
        }
        format!("## Findings{open}{closed}")
    }

    fn finding(&self, finding: &FindingStory) -> String {
        let outcome = match finding.outcome {
            Outcome::Open => "open",
            Outcome::Addressed => "addressed, not yet judged by a review",
            Outcome::Disputed => "disputed by the agent that should fix it",
            Outcome::Waived => "waived by a person",
            Outcome::Resolved => "resolved",
        };
        let path = finding.path.as_deref();
        let path = path.map(|path| one_line(&secret_scan::hide(&self.without_local_paths(path))));
        let place = place(path.as_deref(), finding.line);
        let label = format!("**{}** {place}", finding.severity);
        let text = self.line(finding.text.trim().lines().next().unwrap_or_default());
        let note = finding.note.as_deref().map(|note| self.line(note));
        let note = note.filter(|note| !note.is_empty());
        format!(
            "{}: {text} ({}: {outcome}{})",
            label.trim_end(),
            finding.id,
            prefixed(": ", note)
        )
    }

    fn checked(&self) -> String {
        if self.gates.is_empty() {
            return "## Checks\n\nNo checks are configured.".to_owned();
        }
        let result = if self.gates_passed {
            "These commands pass on the last commit:"
        } else {
            "At least one of these commands does not pass on the last commit:"
        };
        let gates = self.gates.iter();
        let gates: String = gates
            .map(|gate| {
                let gate = secret_scan::hide(&self.without_local_paths(gate));
                format!("\n- {}", code(&truncate(&one_line(&gate), LINE)))
            })
            .collect();
        format!("## Checks\n\n{result}\n{gates}")
    }

    fn next(&self) -> String {
        let id = &self.change_id;
        format!(
            "## How to continue\n\nAn agent wrote this, and **remand** opened the pull request. To have something \
             changed, request changes or comment with a review. Reviews by people with write permission are heard: an \
             agent then makes a fix and pushes it here. This is not an approval; approving and merging are up to a \
             person. The operator can see more with `remand why {id}`."
        )
    }

    /// Text by others on one line, shown as it is written.
    fn line(&self, text: &str) -> String {
        let text = truncate(&one_line(&self.public(text)), LINE);
        let start = if begins_item(&text) {
            APART.to_string()
        } else {
            String::new()
        };
        let text = without_calls(&markdown_line(&text));
        format!("{start}{}", without_keywords(&text))
    }

    /// Text by others in a title, which is no Markdown. It must not look like a marker of remand.
    fn title_line(&self, text: &str) -> String {
        let text = without_calls(&posted(&self.public(text)));
        without_keywords(&text.replace("<!--", &format!("<{APART}!--")))
    }

    /// Text by a person, with its Markdown.
    fn foreign(&self, text: &str) -> String {
        without_keywords(&quiet(&posted(&self.public(text))))
    }

    /// Text without secrets and local paths.
    fn public(&self, text: &str) -> String {
        secret_scan::hide(&self.without_local_paths(text))
    }

    fn without_local_paths(&self, text: &str) -> String {
        let mut paths: Vec<&str> = self.local_paths.iter().map(String::as_str).collect();
        paths.retain(|path| path.trim_end_matches('/').len() > 1);
        // A directory in another one is removed before it.
        paths.sort_by_key(|path| std::cmp::Reverse(path.len()));
        paths.into_iter().fold(text.to_owned(), |text, path| {
            let path = path.trim_end_matches('/');
            text.replace(&format!("{path}/"), "").replace(path, ".")
        })
    }
}

/// Keeps keywords from closing the issue whose address follows: `fixes https://github.com/ada/engine/issues/3`.
fn without_keywords(text: &str) -> String {
    const KEYWORDS: [&str; 9] = [
        "close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved",
    ];
    let lower = text.to_ascii_lowercase();
    let mut parts = Vec::new();
    let mut from = 0;
    for (at, _) in lower.match_indices("http") {
        let before = lower.get(..at).unwrap_or_default();
        let before = before.trim_end_matches(|c: char| !c.is_alphanumeric());
        let rest = before.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let keyword = before.strip_prefix(rest).unwrap_or_default();
        let is_before = before.len() < at && rest.len() >= from;
        if is_before && KEYWORDS.contains(&keyword) {
            let middle = rest.len() + 1;
            parts.push(text.get(from..middle).unwrap_or_default());
            from = middle;
        }
    }
    parts.push(text.get(from..).unwrap_or_default());
    parts.join(&APART.to_string())
}

/// True if Markdown would read the start of a line as an item of a list, a heading or a rule.
fn begins_item(line: &str) -> bool {
    let after = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = after.len() < line.len() && after.starts_with(['.', ')']);
    is_number || line.starts_with(['-', '+', '='])
}

fn is_open(outcome: Outcome) -> bool {
    match outcome {
        Outcome::Open | Outcome::Addressed | Outcome::Disputed => true,
        Outcome::Waived | Outcome::Resolved => false,
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn quoted(text: &str) -> String {
    let lines = text.lines().map(|line| format!("> {line}"));
    let lines = lines.map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

/// Formats a command as code, whatever backticks it has.
fn code(text: &str) -> String {
    let mut fence = "`".to_owned();
    while text.contains(&fence) {
        fence.push('`');
    }
    if fence.len() == 1 {
        format!("`{text}`")
    } else {
        format!("{fence} {text} {fence}")
    }
}

/// Returns what closes a comment or a block of code at the end of a template, which would swallow the rest.
fn closed(template: &str) -> String {
    let is_comment_open = match (template.rfind("<!--"), template.rfind("-->")) {
        (Some(opens), Some(closes)) => opens > closes,
        (opens, None) => opens.is_some(),
        (None, Some(_)) => false,
    };
    let fence = open_fence(template).map(|fence| format!("\n{fence}"));
    let comment = is_comment_open.then_some("\n-->");
    format!(
        "{}{}",
        fence.unwrap_or_default(),
        comment.unwrap_or_default()
    )
}

/// Shortens the longest parts to the same length, so that all of them together have at most `most` bytes.
fn shorten(parts: &mut [String], most: usize) {
    let mut lengths: Vec<usize> = parts.iter().map(String::len).collect();
    lengths.sort_unstable();
    let mut left = most;
    let mut share = usize::MAX;
    for (at, length) in lengths.iter().enumerate() {
        share = left / (lengths.len() - at);
        if *length > share {
            break;
        }
        left -= length;
        share = usize::MAX;
    }
    for part in parts.iter_mut().filter(|part| part.len() > share) {
        let end = part.floor_char_boundary(share.saturating_sub(SHORTENED.len()));
        part.truncate(end);
        // Not in the middle of a line, unless it is a long one.
        let line = part.rfind('\n').unwrap_or_default();
        if end - line < 2 * LINE {
            part.truncate(line);
        }
        part.push_str(SHORTENED);
    }
}

#[cfg(test)]
mod tests;
