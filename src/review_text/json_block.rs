//! The machine-readable part of a review: JSON blocks with findings and with judgments of earlier
//! findings.
//!
//! Keys used by other programs' reviews are understood too. Anything that could be a finding is
//! considered, wherever it is.

use super::Judgment;
use super::json::{self, Node, squashed};
use super::markdown::{Block, BlockKind, Document, Origin, clean};
use super::raw_finding::{self, Draft, Lines};
use super::verdict::{self, ClaimedVerdict};
use crate::finding::{Outcome, Severity, Verdict};

/// All JSON blocks of a review combined.
#[derive(Debug, Default)]
pub(super) struct Sheet {
    /// Findings of the last block with findings; `None` if no block has a list of them.
    pub(super) drafts: Option<Vec<Draft>>,
    /// Findings of the blocks before that one, which may be quotations.
    pub(super) earlier: Vec<Draft>,
    /// Objects that look like a finding in blocks without a list of findings.
    pub(super) loose: Vec<Draft>,
    /// Severities in JSON that cannot be parsed.
    pub(super) unparsed: Vec<Severity>,
    /// Verdict of the last block with findings.
    pub(super) verdict: Option<ClaimedVerdict>,
    /// Every verdict in every block, at any depth.
    pub(super) verdicts: Vec<ClaimedVerdict>,
    pub(super) summary: Option<String>,
    /// The largest count of findings next to a verdict or a list.
    pub(super) count: Option<usize>,
    /// The worst severity next to a verdict or a list.
    pub(super) severity: Option<Severity>,
    pub(super) judged: Vec<Judgment>,
    /// Set if a block has the keys of remand's form, which asks for a judgment of each open
    /// finding.
    pub(super) is_own_form: bool,
    /// Number of earlier findings with an unknown status, which is read as open.
    pub(super) odd_statuses: usize,
    /// Set if the last block that should have findings is not JSON, or was cut.
    pub(super) is_broken: bool,
}

/// Keys under which reviews list findings, with the severity that the key itself states.
const LISTS: &[(&str, &str)] = &[
    ("findings", ""),
    ("issues", ""),
    ("problems", ""),
    ("bugs", ""),
    ("defects", ""),
    ("vulnerabilities", ""),
    ("actionableissues", ""),
    ("blockers", "critical"),
    ("blocking", "high"),
    ("blockingissues", "high"),
    ("blockingfindings", "high"),
    ("criticalissues", "critical"),
    ("criticalfindings", "critical"),
    ("mustfix", "high"),
    ("requiredchanges", "high"),
];
/// Keys that a review must have for its JSON to be an answer.
const ANSWER_LISTS: &[&str] = &["findings", "issues"];
const PREVIOUS: &[&str] = &["previous", "previousfindings"];
const VERDICTS: &[&str] = &["verdict", "reviewresult"];
/// Other keys for a verdict; under them only a plain rejection counts.
const DECISIONS: &[&str] = &[
    "decision",
    "conclusion",
    "recommendation",
    "result",
    "status",
    "outcome",
    "finaldecision",
    "finalverdict",
    "overallverdict",
    "reviewverdict",
    "reviewdecision",
    "approvaldecision",
];
const FLAGS: &[&str] = &["approved", "approve", "lgtm", "pass", "passed"];
const SEVERITY: &[&str] = &["severity"];
const LEVEL: &[&str] = &["level"];
const STATUS: &[&str] = &["status", "outcome", "state"];
const TEXT: &[&str] = &["text", "description", "message", "body", "comment", "title"];
const PATH: &[&str] = &["path", "file", "filename", "filepath"];
const LINE: &[&str] = &["line", "linestart", "startline", "lines"];
const LINE_END: &[&str] = &["lineend", "endline"];
const FAILURE: &[&str] = &["failure", "failurescenario"];

impl Sheet {
    pub(super) fn gather(page: &Document<'_>) -> Self {
        let mut sheet = Self {
            is_broken: page.gave_up,
            ..Self::default()
        };
        let blocks = page.blocks.iter();
        for block in blocks.filter(|block| block.origin != Origin::Quoted) {
            match (may_be_json(block), parse(block)) {
                (true, Some(values)) => sheet.add(&values, block.origin),
                (true, None) => sheet.add_broken(block),
                (false, _) if is_plain(block) => sheet.add_pieces(&block.text),
                (false, _) => {}
            }
        }
        let is_open = |place| {
            matches!(
                place,
                BlockKind::Body | BlockKind::Code | BlockKind::Folded | BlockKind::Html
            )
        };
        for line in page.lines.iter().filter(|line| is_open(line.place)) {
            sheet.unparsed.extend(severities_in(&line.text));
        }
        sheet
    }

    fn add(&mut self, values: &[Node], origin: Origin) {
        let mut part = Part::default();
        for value in values {
            part.walk(value, "");
        }
        if let [Node::List(items)] = values
            && !items.is_empty()
            && items.iter().all(is_finding)
        {
            part.has_list = true;
        }
        self.verdicts.append(&mut part.verdicts);
        self.count = self.count.max(part.count);
        self.severity = worse(self.severity, part.severity);
        self.is_own_form |= part.is_own_form;
        let found = part.has_list || !part.drafts.is_empty();
        if found {
            part.drafts.append(&mut part.loose);
            self.earlier.extend(self.drafts.take().unwrap_or_default());
            self.drafts = Some(part.drafts);
            self.is_broken = false;
        } else {
            self.loose.append(&mut part.loose);
        }
        if let Some(answer) = values.iter().rev().find(|value| answers(value)) {
            let word = answer
                .text(VERDICTS)
                .and_then(|word| verdict::of_word(&word));
            self.verdict = word.filter(|claimed| {
                origin == Origin::Body || *claimed != ClaimedVerdict::Verdict(Verdict::Approved)
            });
            self.summary = answer.text(&["summary"]);
        }
        if let Some(statuses) = part.statuses {
            self.judged.clear();
            self.odd_statuses = 0;
            for (id, status) in statuses {
                self.judge(id, &status);
            }
        }
    }

    /// Adds a block that is not JSON. Parts of it that are may be findings.
    fn add_broken(&mut self, block: &Block) {
        let names_list = block.text.contains("\"findings\"") || block.text.contains("\"issues\"");
        // Cut before its first key: its content is unknown.
        self.is_broken |= names_list || !block.closed;
        self.add_pieces(&block.text);
    }

    fn add_pieces(&mut self, text: &str) {
        let mut part = Part::default();
        let found = json::find(text);
        for value in &found.values {
            part.walk(&value.node, "");
        }
        self.is_broken |= found.gave_up;
        self.loose.append(&mut part.drafts);
        self.loose.append(&mut part.loose);
        self.verdicts.append(&mut part.verdicts);
        self.unparsed.extend(severities_in(text));
    }

    /// Records a judgment. An id judged twice is open if either judgment is.
    fn judge(&mut self, id: String, status: &str) {
        let outcome = match squashed(status).as_str() {
            "resolved" | "fixed" | "addressed" | "closed" | "done" | "withdrawn" => {
                Outcome::Resolved
            }
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

/// Content of one block, collected over all its depths.
#[derive(Debug, Default)]
struct Part {
    has_list: bool,
    drafts: Vec<Draft>,
    loose: Vec<Draft>,
    verdicts: Vec<ClaimedVerdict>,
    statuses: Option<Vec<(String, String)>>,
    count: Option<usize>,
    severity: Option<Severity>,
    is_own_form: bool,
}

impl Part {
    /// Visits a value and everything in it; `severity` is that of the enclosing object.
    fn walk(&mut self, node: &Node, severity: &str) {
        for item in node.items() {
            self.walk(item, severity);
        }
        let holds_lists = node.fields().iter().any(|(key, _)| list_key(key).is_some());
        let mut others = node.all(VERDICTS).chain(node.all(PREVIOUS));
        let is_answer = holds_lists || others.next().is_some();
        let own = worst(node);
        let severity = own.as_deref().unwrap_or(severity);
        if is_answer {
            let stated = own.as_deref().and_then(raw_finding::severity);
            self.severity = worse(self.severity, stated);
            let counts = node.all(&["findingscount"]).filter_map(Node::as_u32);
            let counts = counts.filter_map(|count| usize::try_from(count).ok());
            self.count = self.count.max(counts.max());
        } else if is_finding(node) {
            self.loose.extend(draft(node, severity));
        }
        for (key, value) in node.fields() {
            self.field(&squashed(key), value, severity);
        }
    }

    fn field(&mut self, key: &str, value: &Node, severity: &str) {
        if let Some(stated) = list_key(key) {
            let is_list = matches!(value, Node::List(_)) && ANSWER_LISTS.contains(&key);
            self.has_list |= is_list;
            self.is_own_form |= is_list && key == "findings";
            self.list(value, if stated.is_empty() { severity } else { stated });
        } else if PREVIOUS.contains(&key) {
            self.is_own_form = true;
            let known = self.statuses.get_or_insert_default();
            known.extend(statuses(value));
            let has_none = |item: &&Node| item.all(STATUS).next().is_none();
            for item in value.items().iter().filter(has_none) {
                self.walk(item, severity);
            }
        } else if VERDICTS.contains(&key) {
            let claimed = match value.as_text() {
                Some(word) => verdict::of_word(&word),
                None => Some(ClaimedVerdict::Unreadable(
                    value.to_string().chars().take(80).collect(),
                )),
            };
            self.verdicts
                .extend(claimed.filter(|_| *value != Node::Null));
        } else if DECISIONS.contains(&key) && value.as_text().is_some() {
            let claimed = value.as_text().and_then(|word| verdict::of_word(&word));
            self.verdicts
                .extend(claimed.filter(ClaimedVerdict::is_rejection));
        } else if FLAGS.contains(&key) && *value == Node::Bool(false) {
            self.verdicts
                .push(ClaimedVerdict::Verdict(Verdict::ChangesRequested));
        } else {
            self.walk(value, "");
        }
    }

    /// Reads findings in any shape: a list, one object, an object of lists by severity, a text.
    fn list(&mut self, value: &Node, severity: &str) {
        let blank = || Draft {
            severity: severity.into(),
            ..Draft::default()
        };
        match value {
            Node::List(items) => {
                for item in items {
                    match item {
                        Node::Object(_) => self.listed(item, severity),
                        Node::Null | Node::Bool(_) => {}
                        Node::List(_) => self.list(item, severity),
                        Node::Text(_) | Node::Number(_) => {
                            let text = item.as_text().filter(|text| !raw_finding::is_nothing(text));
                            self.drafts
                                .extend(text.map(|text| Draft { text, ..blank() }));
                        }
                    }
                }
            }
            Node::Object(fields)
                if is_entry(value) || fields.iter().all(|(_, value)| is_scalar(value)) =>
            {
                // Counts by severity that are all zero, or nothing at all.
                let says = |(_, value): &(String, Node)| !value.is_zero() && *value != Node::Null;
                if fields.iter().any(says) {
                    self.listed(value, severity);
                }
            }
            Node::Object(fields) => {
                for (key, value) in fields {
                    let stated = raw_finding::severity(key).map_or(severity, |word| word.as_str());
                    self.list(value, stated);
                }
            }
            Node::Text(text) if !raw_finding::is_nothing(text) => self.drafts.push(Draft {
                text: text.clone(),
                ..blank()
            }),
            Node::Number(count) if !value.is_zero() => {
                self.drafts.push(Draft {
                    text: format!("{count} findings, not listed"),
                    ..blank()
                });
            }
            Node::Null | Node::Bool(_) | Node::Text(_) | Node::Number(_) => {}
        }
    }

    fn listed(&mut self, item: &Node, severity: &str) {
        self.drafts.extend(draft(item, severity));
        for (key, value) in item.fields() {
            if !is_scalar(value) && !LINE.contains(&squashed(key).as_str()) {
                self.field(&squashed(key), value, severity);
            }
        }
    }
}

pub(super) fn may_be_json(block: &Block) -> bool {
    let info = language(block);
    info.starts_with("json") || (info.is_empty() && block.text.trim_start().starts_with(['{', '[']))
}

/// Returns true for a fence that may hold anything, and so also JSON; others hold code.
fn is_plain(block: &Block) -> bool {
    matches!(
        language(block),
        "" | "text"
            | "txt"
            | "plain"
            | "plaintext"
            | "markdown"
            | "md"
            | "js"
            | "javascript"
            | "ndjson"
    )
}

fn language(block: &Block) -> &str {
    block
        .info
        .split(|c: char| !c.is_alphanumeric())
        .find(|word| !word.is_empty())
        .unwrap_or_default()
}

pub(super) fn parse(block: &Block) -> Option<Vec<Node>> {
    json::whole(&block.text).or_else(|| json::whole(&clean(&block.text)))
}

/// Returns `f3`, however it was written.
pub(super) fn id_of(value: &Node) -> Option<String> {
    let text = value.as_text()?;
    let id = text
        .trim()
        .trim_matches(['`', '#', '[', ']'])
        .to_lowercase();
    if id.chars().all(|c| c.is_ascii_digit()) && !id.is_empty() {
        return Some(format!("f{id}"));
    }
    (!id.is_empty() && id.len() <= 64).then_some(id)
}

fn list_key(key: &str) -> Option<&'static str> {
    let key = squashed(key);
    let (_, severity) = LISTS.iter().find(|(known, _)| *known == key)?;
    Some(severity)
}

/// Returns true if a value is an answer by itself: an object with a list of findings.
fn answers(value: &Node) -> bool {
    let mut lists = value.all(ANSWER_LISTS);
    lists.any(|list| matches!(list, Node::List(_)))
}

/// Returns true if an object anywhere looks like a finding: a severity and at least one other text.
fn is_finding(node: &Node) -> bool {
    let is_text = |value: &Node| matches!(value, Node::Text(text) if !text.trim().is_empty());
    let texts = node
        .fields()
        .iter()
        .filter(|(key, value)| squashed(key) != "severity" && is_text(value))
        .count();
    texts > 0 && worst(node).is_some()
}

/// Returns true if an object under a key of `LISTS` is one finding, and not a group of several.
fn is_entry(node: &Node) -> bool {
    let keys: [&[&str]; 4] = [SEVERITY, LEVEL, TEXT, PATH];
    keys.iter().any(|keys| node.all(keys).any(is_scalar))
}

fn is_scalar(node: &Node) -> bool {
    !matches!(node, Node::List(_) | Node::Object(_))
}

/// Returns the worst severity that an object states, as a key may be repeated. `None` for the
/// example of a prompt.
fn worst(node: &Node) -> Option<String> {
    let rank = |word: &String| raw_finding::severity(word).unwrap_or(Severity::Medium);
    let words: Vec<String> = node.all(SEVERITY).filter_map(Node::as_text).collect();
    let levels = node.all(LEVEL).filter_map(Node::as_text);
    let levels = levels.filter(|word| raw_finding::severity(word).is_some());
    let stated = words.into_iter().chain(levels);
    let stated = stated.filter(|word| !is_template(word));
    stated.min_by_key(rank)
}

/// Returns true for `critical | high | medium | low`, copied from a prompt.
fn is_template(severity: &str) -> bool {
    let words = severity.split(|c: char| !c.is_alphabetic());
    let known = words.filter(|word| raw_finding::severity(word).is_some());
    known.count() > 2
}

fn worse(one: Option<Severity>, other: Option<Severity>) -> Option<Severity> {
    one.into_iter().chain(other).min()
}

fn draft(item: &Node, severity: &str) -> Option<Draft> {
    let mut words = item.all(SEVERITY).filter_map(Node::as_text);
    if words.any(|word| is_template(&word)) && worst(item).is_none() {
        return None;
    }
    let text = item.text(TEXT).unwrap_or_else(|| item.to_string());
    let title = item
        .text(&["title"])
        .filter(|title| !text.contains(title.as_str()));
    let (line, line_end) = item.first(LINE).and_then(lines).unzip();
    let last = item.first(LINE_END).and_then(lines);
    Some(Draft {
        severity: worst(item).unwrap_or_else(|| severity.to_owned()),
        category: item.text(&["category", "type"]).unwrap_or_default(),
        path: item.text(PATH).unwrap_or_default(),
        line,
        line_end: last.map(|(last, _)| last).or(line_end.flatten()),
        title: title.unwrap_or_default(),
        failure: item.text(FAILURE).unwrap_or_default(),
        text,
        suggestion: item
            .text(&["suggestion", "suggestedfix", "fix"])
            .unwrap_or_default(),
    })
}

fn lines(value: &Node) -> Option<Lines> {
    match value {
        Node::Number(_) => Some((value.as_u32()?, None)),
        Node::Text(text) => raw_finding::lines(text),
        Node::List(lines) => {
            let last = lines.get(1).and_then(Node::as_u32);
            Some((lines.first()?.as_u32()?, last))
        }
        Node::Null | Node::Bool(_) | Node::Object(_) => None,
    }
}

/// Parses `[{"id": "f3", "status": "open"}]` or `{"f3": "open"}`.
fn statuses(previous: &Node) -> Vec<(String, String)> {
    let of_list = previous.items().iter().filter_map(|item| {
        let status = item.text(STATUS).unwrap_or_default();
        Some((id_of(item.first(&["id"])?)?, status))
    });
    let of_object = previous.fields().iter().filter_map(|(id, status)| {
        Some((
            id_of(&Node::Text(id.clone()))?,
            status.as_text().unwrap_or_default(),
        ))
    });
    of_list.chain(of_object).collect()
}

/// Finds severities in text that is nearly JSON: `"severity": "high"`, but not the choices of a
/// template.
fn severities_in(text: &str) -> Vec<Severity> {
    let is_quote = |c: char| matches!(c, '"' | '\'' | '“' | '”');
    let lower = text.to_lowercase();
    let mut found = Vec::new();
    for (at, key) in lower.match_indices("severity") {
        let after = lower
            .get(at + key.len()..)
            .unwrap_or_default()
            .trim_start_matches(is_quote)
            .trim_start();
        let Some(value) = after
            .strip_prefix(':')
            .map(str::trim_start)
            .and_then(|v| v.strip_prefix(is_quote))
        else {
            continue;
        };
        let Some((word, behind)) = value.split_once(is_quote) else {
            continue;
        };
        if !behind.trim_start().starts_with('|') {
            found.extend(raw_finding::severity(word));
        }
    }
    found
}
