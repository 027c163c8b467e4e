//! The machine-readable part of a review: JSON blocks with findings, and with judgments of earlier findings. The keys of
//! other programs' reviews are understood too.

use serde_json::{Map, Value};

use super::Judgment;
use super::draft::{Draft, first_number};
use super::page::{Block, Page, clean};
use super::verdict::{self, Said};
use crate::finding::Outcome;

/// What the JSON blocks of a review say together.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// Of the last block with findings; `None` when no block has any list of them.
    pub(super) drafts: Option<Vec<Draft>>,
    /// Of the blocks before that one, which may be quotations.
    pub(super) earlier: Vec<Draft>,
    pub(super) verdict: Option<Said>,
    pub(super) summary: Option<String>,
    pub(super) judged: Vec<Judgment>,
    /// Statuses of earlier findings that are no word of ours, read as open.
    pub(super) odd_statuses: usize,
    /// The last block that should hold findings is no JSON, or was cut.
    pub(super) is_broken: bool,
}

impl Sheet {
    pub(super) fn gather(page: &Page<'_>) -> Self {
        let mut sheet = Self::default();
        for block in page.blocks.iter().filter(|block| may_be_json(block)) {
            match parse(block) {
                Some(value) => sheet.add(&value),
                None if block.text.contains("\"findings\"") || block.text.contains("\"issues\"") => {
                    sheet.is_broken = true;
                }
                // Cut before its first key: nobody knows what it would have said.
                None => sheet.is_broken |= !block.closed,
            }
        }
        sheet
    }

    fn add(&mut self, value: &Value) {
        if let Some(items) = findings(value) {
            self.earlier.extend(self.drafts.take().unwrap_or_default());
            self.drafts = Some(items.iter().filter_map(draft).collect());
            self.verdict = text_of(value, &["verdict", "review_result"]).and_then(|word| verdict::of_word(&word));
            self.summary = text_of(value, &["summary"]);
            self.is_broken = false;
        }
        if let Some(previous) = first_of(value, &["previous", "previous_findings", "previousFindings"]) {
            self.judged.clear();
            self.odd_statuses = 0;
            for (id, status) in statuses(previous) {
                self.judge(id, &status);
            }
        }
    }

    /// An id judged twice is open if either says so.
    fn judge(&mut self, id: String, status: &str) {
        let outcome = match squashed(status).as_str() {
            "resolved" | "fixed" | "addressed" | "closed" | "done" | "withdrawn" => Outcome::Resolved,
            "open" | "unresolved" | "stillopen" | "notresolved" | "notfixed" => Outcome::Open,
            _ => {
                self.odd_statuses += 1;
                Outcome::Open
            }
        };
        if let Some(known) = self.judged.iter_mut().find(|judgment| judgment.id == id) {
            if outcome == Outcome::Open {
                known.outcome = outcome;
            }
        } else if self.judged.len() < super::MAX_FINDINGS {
            self.judged.push(Judgment { id, outcome });
        }
    }
}

pub(super) fn may_be_json(block: &Block) -> bool {
    let info = block.info.split(|c: char| !c.is_alphanumeric()).find(|word| !word.is_empty()).unwrap_or_default();
    info.starts_with("json") || (info.is_empty() && block.text.trim_start().starts_with(['{', '[']))
}

pub(super) fn parse(block: &Block) -> Option<Value> {
    let exact = serde_json::from_str(&block.text);
    exact.or_else(|_| serde_json::from_str(&clean(&block.text))).ok()
}

/// The first of the keys that the object has.
pub(super) fn first_of<'a>(value: &'a Value, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().find_map(|key| value.get(key)).filter(|value| !value.is_null())
}

/// The first of the keys that holds some text.
pub(super) fn text_of(value: &Value, keys: &[&str]) -> Option<String> {
    let texts = keys.iter().filter_map(|key| value.get(key)).filter_map(as_text);
    texts.map(|text| text.trim().to_owned()).find(|text| !text.is_empty())
}

/// `f3`, however it was written.
pub(super) fn id_of(value: &Value) -> Option<String> {
    let text = as_text(value)?;
    let id = text.trim().trim_matches(['`', '#', '[', ']']).to_lowercase();
    if id.chars().all(|c| c.is_ascii_digit()) && !id.is_empty() {
        return Some(format!("f{id}"));
    }
    (!id.is_empty() && id.len() <= 64).then_some(id)
}

pub(super) fn squashed(word: &str) -> String {
    word.chars().filter(|c| c.is_alphanumeric()).take(40).flat_map(char::to_lowercase).collect()
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn findings(value: &Value) -> Option<&Vec<Value>> {
    let is_finding = |item: &Value| item.get("severity").is_some() && text_of(item, TEXT).is_some();
    match value {
        Value::Object(_) => first_of(value, &["findings", "issues"])?.as_array(),
        Value::Array(items) => (!items.is_empty() && items.iter().all(is_finding)).then_some(items),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

const TEXT: &[&str] = &["text", "description", "message", "body", "comment", "title"];

fn draft(item: &Value) -> Option<Draft> {
    let Value::Object(fields) = item else {
        return as_text(item).map(|text| Draft { text, ..Draft::default() });
    };
    let text = text_of(item, TEXT).unwrap_or_else(|| leftover(fields));
    let title = text_of(item, &["title"]).filter(|title| !text.contains(title.as_str()));
    Some(Draft {
        severity: text_of(item, &["severity", "level"]).unwrap_or_default(),
        category: text_of(item, &["category", "type"]).unwrap_or_default(),
        path: text_of(item, &["path", "file", "filename", "file_path", "filePath"]).unwrap_or_default(),
        line: first_of(item, &["line", "lineStart", "line_start", "startLine", "start_line", "lines"]).and_then(line),
        text: title.map_or(text.clone(), |title| format!("{title}: {text}")),
        suggestion: text_of(item, &["suggestion", "suggestedFix", "suggested_fix", "fix"]).unwrap_or_default(),
    })
}

/// A finding without a text is still a finding: it is shown as it came.
fn leftover(fields: &Map<String, Value>) -> String {
    serde_json::to_string(fields).unwrap_or_default()
}

fn line(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => number.as_u64().and_then(|line| u32::try_from(line).ok()),
        Value::String(text) => first_number(text),
        Value::Array(lines) => lines.first().and_then(Value::as_u64).and_then(|line| u32::try_from(line).ok()),
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    }
}

/// `[{"id": "f3", "status": "open"}]` or `{"f3": "open"}`.
fn statuses(previous: &Value) -> Vec<(String, String)> {
    match previous {
        Value::Array(items) => {
            let status = |item: &Value| text_of(item, &["status", "outcome", "state"]).unwrap_or_default();
            items.iter().filter_map(|item| Some((id_of(item.get("id")?)?, status(item)))).collect()
        }
        Value::Object(fields) => fields
            .iter()
            .filter_map(|(id, status)| Some((id_of(&Value::String(id.clone()))?, as_text(status).unwrap_or_default())))
            .collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}
