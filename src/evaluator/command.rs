//! Evaluators that are the user's own programs: their input, and the parser of their output. Nothing is run here;
//! `docs/evaluators.md` describes every field.

use serde::{Deserialize, Serialize};

use crate::change::{Change, ChangeId, ProjectId, State};
use crate::clock::Time;
use crate::closed_enum::FromText;
use crate::event::Event;
use crate::proposal::{EvaluatorRequest, RequestKind};
use crate::pull_request::PullRow;
use crate::sanitize;
use crate::secret_scan;
use crate::work::{Item, ItemId, Priority, Source, Status};

/// Incremented when a field changes its meaning or is removed; new fields do not change it.
pub(crate) const VERSION: u32 = 1;

/// Maximum length of each list.
pub(crate) const MOST_EVENTS: i64 = 200;
pub(crate) const MOST_ROWS: i64 = 1000;

/// Maximum output of a pass. If it is exceeded, nothing of the pass is used.
pub(crate) const MOST_PROPOSALS: usize = 100;
pub(crate) const MOST_BYTES: u64 = 1024 * 1024;

const MOST_KEY: usize = 200;
const MOST_TITLE: usize = 200;
const MOST_TEXT: usize = 20_000;

/// The blackboard as an evaluator sees it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Snapshot {
    pub(crate) version: u32,
    pub(crate) now: Time,
    pub(crate) evaluator: String,
    pub(crate) events: Vec<Event>,
    /// Set if there are newer ones, for which it is run again immediately.
    pub(crate) more_events: bool,
    pub(crate) projects: Vec<ShownProject>,
    pub(crate) changes: Vec<ShownChange>,
    pub(crate) items: Vec<ShownItem>,
    pub(crate) pulls: Vec<ShownPull>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct ShownProject {
    pub(crate) project_id: ProjectId,
    pub(crate) path: String,
    pub(crate) repo: Option<String>,
    pub(crate) default_branch: String,
    pub(crate) stopped: bool,
}

/// Declares rows as an evaluator sees them. A field without a value has that of the stored row.
macro_rules! shown {
    (@ $row:ident $field:ident) => { $row.$field };
    (@ $row:ident $field:ident $value:expr) => { $value };
    ($($name:ident($row:ident: $stored:ty $(, $given:ident: $given_type:ty)*) {
        $($field:ident: $type:ty $(= $value:expr)?),+ $(,)?
    })+) => {
        $(
            #[derive(Debug, Clone, Serialize)]
            pub(crate) struct $name {
                $($field: $type),+
            }

            impl $name {
                pub(crate) fn new($row: $stored $(, $given: $given_type)*) -> Self {
                    Self { $($field: shown!(@ $row $field $($value)?)),+ }
                }
            }
        )+
    };
}

shown! {
    ShownChange(change: Change, url: Option<String>, now: Time) {
        change_id: ChangeId,
        project_id: ProjectId,
        title: String,
        branch: String,
        base: String,
        head: String,
        worktree: String,
        state: State,
        pr_number: Option<i64>,
        url: Option<String> = url,
        fix_cycle: i64 = change.budget.fix_cycle,
        max_fix_cycles: i64 = change.budget.max_fix_cycles,
        total_fixes: i64 = change.budget.total_fixes,
        paused: bool,
        stopped: bool,
        shadow: bool,
        held_until: Option<Time>,
        hold_reason: Option<String>,
        human_review_required: bool,
        decision: Option<String>,
        created_at: Time,
        updated_at: Time,
        age_s: u64 = now.since(change.created_at).as_secs(),
    }
    ShownItem(item: Item, now: Time) {
        item_id: ItemId,
        project_id: ProjectId,
        change_id: Option<ChangeId>,
        source: Source,
        status: Status,
        priority: Priority,
        title: String,
        created_at: Time,
        age_s: u64 = now.since(item.created_at).as_secs(),
    }
    ShownPull(pull: PullRow, repo: Option<String>, now: Time) {
        project_id: ProjectId,
        repo: Option<String> = repo,
        number: i64,
        change_id: Option<ChangeId>,
        title: String,
        draft: bool,
        author: Option<String>,
        head_ref: String,
        head_sha: String,
        base_ref: String,
        labels: Vec<String>,
        url: String,
        passed_over: Option<String>,
        opened_at: Option<Time>,
        age_s: Option<u64> = pull.opened_at.map(|opened| now.since(opened).as_secs()),
        read_at: Option<Time>,
        trouble: Option<String>,
    }
}

/// Result of parsing one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Request(EvaluatorRequest),
    Unread(Unread),
}

/// A line that is not a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Counted from 1.
    pub(crate) number: usize,
    /// Start of the line.
    pub(crate) text: String,
    pub(crate) reason: String,
}

/// Error for a program that printed more than the limit.
#[derive(Debug, thiserror::Error)]
#[error("it printed {found} proposals; the limit is {MOST_PROPOSALS} per pass")]
pub(crate) struct Flood {
    found: usize,
}

/// Parses the output of a program, one proposal per line. A bad line does not affect the others.
pub(crate) fn read(printed: &[u8]) -> Result<Vec<Line>, Flood> {
    let printed = String::from_utf8_lossy(printed);
    let lines: Vec<(usize, &str)> = printed
        .lines()
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
        .collect();
    if lines.len() > MOST_PROPOSALS {
        return Err(Flood { found: lines.len() });
    }
    let read = |(number, line): (usize, &str)| match read_line(line) {
        Ok(request) => Line::Request(request),
        Err(reason) => Line::Unread(Unread {
            number,
            text: sanitize::line(
                &secret_scan::hide(line)
                    .chars()
                    .take(160)
                    .collect::<String>(),
            ),
            reason: secret_scan::hide(&reason),
        }),
    };
    Ok(lines.into_iter().map(read).collect())
}

#[derive(Deserialize)]
#[serde(tag = "propose", rename_all = "snake_case", deny_unknown_fields)]
enum Raw {
    Item {
        key: String,
        change: Option<String>,
        project: Option<String>,
        title: String,
        #[serde(default)]
        description: String,
        source: Option<String>,
        priority: Option<String>,
    },
    Reject {
        key: String,
        change: String,
        text: String,
    },
    Escalate {
        key: String,
        change: String,
        reason: String,
        decide: Option<String>,
    },
    Comment {
        key: String,
        change: String,
        text: String,
    },
}

fn read_line(line: &str) -> Result<EvaluatorRequest, String> {
    let raw: Raw = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let (key, what) = match raw {
        Raw::Item {
            key,
            change,
            project,
            title,
            description,
            source,
            priority,
        } => {
            let (change_id, project_id) = (change.map(ChangeId::new), project.map(ProjectId::new));
            if change_id.is_none() && project_id.is_none() {
                return Err("an item needs a `change` or a `project`".into());
            }
            let source = word(source)?.unwrap_or(Source::Manual);
            if matches!(source, Source::CodeReview | Source::ReviewFix) {
                return Err(format!(
                    "`{source}` items are created only by remand: propose `reject` instead"
                ));
            }
            let priority = word(priority)?.unwrap_or(Priority::P3);
            let item = RequestKind::Item {
                change_id,
                project_id,
                source,
                priority,
                title: fit("title", &title, MOST_TITLE)?,
                description: at_most("description", &description, MOST_TEXT)?,
            };
            (key, item)
        }
        Raw::Reject { key, change, text } => (
            key,
            RequestKind::Reject {
                change_id: ChangeId::new(change),
                text: fit("text", &text, MOST_TEXT)?,
            },
        ),
        Raw::Escalate {
            key,
            change,
            reason,
            decide,
        } => {
            let decide = decide.map(|decide| fit("decide", &decide, MOST_TEXT));
            let escalate = RequestKind::Escalate {
                change_id: ChangeId::new(change),
                decide: decide.transpose()?,
                reason: fit("reason", &reason, MOST_TEXT)?,
            };
            (key, escalate)
        }
        Raw::Comment { key, change, text } => (
            key,
            RequestKind::Comment {
                change_id: ChangeId::new(change),
                text: fit("text", &text, MOST_TEXT)?,
            },
        ),
    };
    Ok(EvaluatorRequest {
        key: fit("key", &key, MOST_KEY)?,
        what,
    })
}

fn word<T: FromText>(text: Option<String>) -> Result<Option<T>, String> {
    let word = text.map(|text| T::from_text(&text)).transpose();
    word.map_err(|error| error.to_string())
}

fn fit(what: &str, text: &str, most: usize) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err(format!("`{what}` is empty"));
    }
    at_most(what, text, most)
}

fn at_most(what: &str, text: &str, most: usize) -> Result<String, String> {
    match text.chars().count() {
        length if length > most => Err(format!(
            "`{what}` has {length} characters; the limit is {most}"
        )),
        // It is stored, and may be shown to an agent or posted.
        _ => Ok(secret_scan::hide(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(printed: &str) -> Vec<String> {
        let told = |line: Line| match line {
            Line::Request(request) => format!("{}: ok", request.key),
            Line::Unread(unread) => format!("{}: {}", unread.number, unread.reason),
        };
        read(printed.as_bytes())
            .unwrap()
            .into_iter()
            .map(told)
            .collect()
    }

    #[test]
    fn an_item_has_defaults_that_disturb_nobody() {
        let line =
            r#"{"propose": "item", "key": "k", "project": "website", "title": "Look at it"}"#;
        let request = EvaluatorRequest {
            key: "k".into(),
            what: RequestKind::Item {
                change_id: None,
                project_id: Some(ProjectId::new("website")),
                source: Source::Manual,
                priority: Priority::P3,
                title: "Look at it".into(),
                description: String::new(),
            },
        };
        assert_eq!(read(line.as_bytes()).unwrap(), [Line::Request(request)]);
    }

    #[test]
    fn each_line_is_read_by_itself() {
        let long = "x".repeat(20_001);
        let printed = format!(
            "\n{}\r\nhello\n{}\n{}\n{}\n{}\n{}\n{}\n{}\n{}",
            r#"{"propose": "comment", "key": "1", "change": "c1", "text": "mind the tests"}"#,
            r#"{"propose": "merge", "key": "2", "change": "c1"}"#,
            r#"{"propose": "reject", "change": "c1", "text": "no"}"#,
            r#"{"propose": "reject", "key": "4", "change": "c1", "text": " "}"#,
            r#"{"propose": "item", "key": "5", "title": "t"}"#,
            r#"{"propose": "item", "key": "6", "change": "c1", "title": "t", "source": "code_review"}"#,
            r#"{"propose": "item", "key": "7", "change": "c1", "title": "t", "priority": "P0"}"#,
            r#"{"propose": "escalate", "key": "8", "change": "c1", "reason": "r", "text": "t"}"#,
            format_args!(
                r#"{{"propose": "reject", "key": "9", "change": "c1", "text": "{long}"}}"#
            ),
        );
        insta::assert_snapshot!(reasons(&printed).join("\n"), @"
        1: ok
        3: expected value at line 1 column 1
        4: unknown variant `merge`, expected one of `item`, `reject`, `escalate`, `comment` at line 1 column 19
        5: missing field `key`
        6: `text` is empty
        7: an item needs a `change` or a `project`
        8: `code_review` items are created only by remand: propose `reject` instead
        9: unknown priority `P0`; allowed: P1, P2, P3
        10: unknown field `text`, expected one of `key`, `change`, `reason`, `decide`
        11: `text` has 20001 characters; the limit is 20000
        ");
    }

    #[test]
    fn more_than_anybody_reads_is_a_flood() {
        let line =
            "{\"propose\": \"comment\", \"key\": \"k\", \"change\": \"c1\", \"text\": \"t\"}\n";
        assert_eq!(
            read(line.repeat(MOST_PROPOSALS).as_bytes()).unwrap().len(),
            MOST_PROPOSALS
        );
        let flood = read(line.repeat(MOST_PROPOSALS + 1).as_bytes()).unwrap_err();
        assert_eq!(
            flood.to_string(),
            "it printed 101 proposals; the limit is 100 per pass"
        );
    }
}
