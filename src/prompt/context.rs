//! What a prompt is made from, and how it becomes the values that a template sees: cleaned, capped and marked.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use minijinja::{Value, context};

use crate::finding::{Finding, FindingId};
use crate::prompt::fence;
use crate::prompt::portion::{Rank, Waiting, portion};
use crate::prompt::sanitize::{self, Cleaned, Keep};
use crate::work::{PromptCut, Section, Unit};

pub(super) const PLAN_CAP: usize = 64 << 10;
pub(super) const DIFF_CAP: usize = 200 << 10;
pub(super) const DESCRIPTION_CAP: usize = 16 << 10;
const GATE_CAP: usize = 2 << 10;
pub(super) const OUTPUT_CAP: usize = 16 << 10;
const FILES_CAP: usize = 500;
const CLOSED_CAP: usize = 40;

/// What a reviewer is told. All texts are as they came; they are cleaned here.
#[derive(Debug, Clone)]
pub(crate) struct ReviewContext {
    pub(crate) title: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    /// Spec, plan and tasks, where there are any.
    pub(crate) plan: Option<String>,
    /// What the author of the pull request wrote about it.
    pub(crate) description: Option<String>,
    pub(crate) issue: Option<Issue>,
    pub(crate) files: Vec<String>,
    pub(crate) diff: String,
    pub(crate) open_findings: Vec<OpenFinding>,
    /// How many bytes of open findings the prompt holds.
    pub(crate) feedback_limit: usize,
    /// Fixes made so far: 0 at the first review.
    pub(crate) cycle: i64,
    pub(crate) max_cycles: i64,
    /// Fresh and random for each prompt.
    pub(crate) nonce: u128,
}

/// What the agent is told that repairs a rejected change.
#[derive(Debug, Clone)]
pub(crate) struct FixContext {
    pub(crate) title: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    pub(crate) pr_number: Option<i64>,
    /// HEAD of the worktree is on no branch.
    pub(crate) detached: bool,
    /// From 1.
    pub(crate) cycle: i64,
    pub(crate) max_cycles: i64,
    pub(crate) plan: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) issue: Option<Issue>,
    /// The commands that must pass before anything is pushed, as they are typed in a shell.
    pub(crate) gates: Vec<String>,
    pub(crate) feedback: Vec<Feedback>,
    /// A person's comments for this fix, oldest first.
    pub(crate) guidance: Vec<Comment>,
    /// How many bytes of feedback the prompt holds; the rest is for another run.
    pub(crate) feedback_limit: usize,
    /// How much of each piece of feedback earlier runs of this fix were told, by its key, in bytes.
    pub(crate) told: BTreeMap<String, usize>,
    /// Which run of this fix it is, from 1.
    pub(crate) part: usize,
    /// Findings that are settled, one line each, newest first.
    pub(crate) closed: Vec<String>,
    pub(crate) last_run_tail: Option<String>,
    /// Set when a gate was red after an earlier run of the same item.
    pub(crate) gate_output: Option<String>,
    pub(crate) nonce: u128,
}

/// The issue that a pull request closes.
#[derive(Debug, Clone)]
pub(crate) struct Issue {
    pub(crate) number: i64,
    pub(crate) title: String,
    pub(crate) body: String,
}

/// What a reviewer is told whose answer could not be read.
#[derive(Debug, Clone)]
pub(crate) struct AgainContext {
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    /// What was missing, one line each.
    pub(crate) missing: Vec<String>,
    /// What the reviewer wrote, for an agent that cannot resume its session.
    pub(crate) answer: Option<String>,
    pub(crate) open_findings: Vec<OpenFinding>,
    pub(crate) feedback_limit: usize,
    pub(crate) nonce: u128,
}

/// One review, or one person's comments.
#[derive(Debug, Clone)]
pub(crate) struct Feedback {
    /// Names its text among all pieces of feedback.
    pub(crate) key: String,
    pub(crate) from: String,
    pub(crate) body: String,
    pub(crate) findings: Vec<OpenFinding>,
}

/// One person's comment.
#[derive(Debug, Clone)]
pub(crate) struct Comment {
    pub(crate) key: String,
    pub(crate) text: String,
}

/// A finding with the id by which the agent answers.
#[derive(Debug, Clone)]
pub(crate) struct OpenFinding {
    /// Names it among all pieces of feedback.
    pub(crate) key: String,
    pub(crate) id: FindingId,
    pub(crate) finding: Finding,
}

/// How much of one piece of feedback a prompt holds, in bytes of its cleaned text. `start..end` is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) key: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) total: usize,
}

/// The values of a template, and what the texts in them lost.
pub(super) struct Values {
    pub(super) values: Value,
    pub(super) stripped: usize,
    pub(super) left_out: usize,
    /// All pieces of feedback, also those that have no room.
    pub(super) extents: Vec<Extent>,
    pub(super) cuts: Vec<PromptCut>,
}

impl ReviewContext {
    pub(super) fn values(&self) -> Values {
        let mut tally = Tally::default();
        let mut pieces = Pieces::default();
        pieces.findings(0, "", &self.open_findings);
        let open = pieces
            .choose(self.feedback_limit, &BTreeMap::new(), &mut tally)
            .findings;
        let incomplete = tally
            .extents
            .iter()
            .filter(|extent| extent.end < extent.total)
            .count();
        tally.cut(Section::OpenFindings, incomplete, Unit::Findings);
        let values = context! {
            title => tally.line(&self.title),
            branch => tally.line(&self.branch),
            base => tally.line(&self.base),
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            plan => self.plan.as_deref().map(|plan| tally.block(Section::Plan, plan, PLAN_CAP, Keep::Head)),
            description => self.description.as_deref().map(|text| tally.description(text)),
            issue => self.issue.as_ref().map(|issue| tally.issue(issue)),
            files => tally.lines(Section::Files, &self.files, FILES_CAP),
            files_left_out => self.files.len().saturating_sub(FILES_CAP),
            diff => tally.block(Section::Diff, &self.diff, DIFF_CAP, Keep::Head),
            open_findings_left_out => self.open_findings.len() - open.len(),
            open_findings => open,
            cycle => self.cycle,
            max_cycles => self.max_cycles,
            nonce => fence::nonce_text(self.nonce),
        };
        tally.with(values)
    }
}

impl FixContext {
    pub(super) fn values(&self) -> Values {
        let mut tally = Tally::default();
        let mut pieces = Pieces::default();
        for (at, comment) in self.guidance.iter().enumerate() {
            pieces.guidance(at, comment);
        }
        for (at, feedback) in self.feedback.iter().enumerate() {
            pieces.body(at, feedback);
            pieces.findings(at, &feedback.from, &feedback.findings);
        }
        let total: usize = self
            .feedback
            .iter()
            .map(|feedback| feedback.findings.len())
            .sum();
        let Chosen {
            guidance,
            feedback,
            findings,
        } = pieces.choose(self.feedback_limit, &self.told, &mut tally);
        let later = tally
            .extents
            .iter()
            .filter(|extent| extent.end < extent.total)
            .count();
        let values = context! {
            title => tally.line(&self.title),
            branch => tally.line(&self.branch),
            base => tally.line(&self.base),
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            pr_number => self.pr_number,
            detached => self.detached,
            cycle => self.cycle,
            max_cycles => self.max_cycles,
            plan => self.plan.as_deref().map(|plan| tally.block(Section::Plan, plan, PLAN_CAP, Keep::Head)),
            description => self.description.as_deref().map(|text| tally.description(text)),
            issue => self.issue.as_ref().map(|issue| tally.issue(issue)),
            gates => self.gates.iter().map(|gate| sanitize::block(gate, GATE_CAP, Keep::Head).text).collect::<Vec<_>>(),
            guidance,
            feedback,
            findings_left_out => total - findings.len(),
            findings,
            part => self.part,
            later,
            closed => tally.lines(Section::Closed, &self.closed, CLOSED_CAP),
            closed_left_out => self.closed.len().saturating_sub(CLOSED_CAP),
            last_run => self.last_run_tail.as_deref().map(|tail| tally.tail(tail)),
            gate_output => self.gate_output.as_deref().map(|output| tally.tail(output)),
            nonce => fence::nonce_text(self.nonce),
        };
        tally.with(values)
    }
}

impl AgainContext {
    pub(super) fn values(&self) -> Values {
        let mut tally = Tally::default();
        let mut pieces = Pieces::default();
        pieces.findings(0, "", &self.open_findings);
        let open = pieces
            .choose(self.feedback_limit, &BTreeMap::new(), &mut tally)
            .findings;
        let incomplete = tally
            .extents
            .iter()
            .filter(|extent| extent.end < extent.total)
            .count();
        tally.cut(Section::OpenFindings, incomplete, Unit::Findings);
        let values = context! {
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            missing => tally.lines(Section::Missing, &self.missing, CLOSED_CAP),
            answer => self.answer.as_deref().map(|answer| tally.tail(answer)),
            open_findings_left_out => self.open_findings.len() - open.len(),
            open_findings => open,
            nonce => fence::nonce_text(self.nonce),
        };
        tally.with(values)
    }
}

/// All pieces of feedback, cleaned.
#[derive(Default)]
struct Pieces<'a> {
    all: Vec<Piece<'a>>,
}

struct Piece<'a> {
    key: &'a str,
    rank: Rank,
    /// Of a finding: its text, then its suggestion.
    text: Cleaned,
    suggestion: Option<Cleaned>,
    from: &'a str,
    finding: Option<&'a OpenFinding>,
}

/// What a prompt holds of them.
struct Chosen {
    guidance: Vec<Value>,
    feedback: Vec<Value>,
    /// Worst first.
    findings: Vec<Value>,
}

impl<'a> Pieces<'a> {
    fn guidance(&mut self, at: usize, comment: &'a Comment) {
        let text = sanitize::comment(&comment.text, usize::MAX);
        let rank = Rank::Guidance(Reverse(at));
        self.all.push(Piece {
            key: &comment.key,
            rank,
            text,
            suggestion: None,
            from: "",
            finding: None,
        });
    }

    fn body(&mut self, at: usize, feedback: &'a Feedback) {
        let text = sanitize::comment(&feedback.body, usize::MAX);
        let rank = Rank::Body(Reverse(at));
        self.all.push(Piece {
            key: &feedback.key,
            rank,
            text,
            suggestion: None,
            from: &feedback.from,
            finding: None,
        });
    }

    fn findings(&mut self, at: usize, from: &'a str, findings: &'a [OpenFinding]) {
        for (n, open) in findings.iter().enumerate() {
            self.all.push(Piece {
                key: &open.key,
                rank: Rank::Finding(open.finding.severity, Reverse(at), n),
                text: sanitize::comment(&open.finding.text, usize::MAX),
                suggestion: open
                    .finding
                    .suggestion
                    .as_deref()
                    .map(|raw| sanitize::comment(raw, usize::MAX)),
                from,
                finding: Some(open),
            });
        }
    }

    /// Marks what has room, after what earlier prompts held of it.
    fn choose(self, limit: usize, told: &BTreeMap<String, usize>, tally: &mut Tally) -> Chosen {
        let waiting: Vec<Waiting> = self.all.iter().map(|piece| piece.waiting(told)).collect();
        let ends = portion(&waiting, limit);
        let mut chosen = Chosen {
            guidance: Vec::new(),
            feedback: Vec::new(),
            findings: Vec::new(),
        };
        let mut findings: Vec<(Rank, Value)> = Vec::new();
        for ((piece, waiting), end) in self.all.iter().zip(&waiting).zip(ends) {
            let end = piece.boundary(end);
            let (start, total) = (piece.boundary(waiting.start), waiting.total);
            tally.extents.push(Extent {
                key: piece.key.to_owned(),
                start,
                end,
                total,
            });
            // A text of which nothing is left after cleaning is shown once, as the empty text that people see.
            let is_new_and_empty = total == 0 && !told.contains_key(piece.key);
            if start == end && !is_new_and_empty {
                tally.left_out += total - end;
                continue;
            }
            let value = piece.value(start, end, tally);
            match piece.rank {
                Rank::Guidance(_) => chosen.guidance.push(value),
                Rank::Body(_) => chosen.feedback.push(value),
                Rank::Finding(..) => findings.push((piece.rank, value)),
            }
        }
        findings.sort_by_key(|(rank, _)| *rank);
        chosen.findings = findings.into_iter().map(|(_, value)| value).collect();
        chosen
    }
}

impl Piece<'_> {
    fn waiting(&self, told: &BTreeMap<String, usize>) -> Waiting {
        let total = self.text.text.len()
            + self
                .suggestion
                .as_ref()
                .map_or(0, |suggestion| suggestion.text.len());
        let start = told.get(self.key).copied().unwrap_or(0).min(total);
        Waiting {
            rank: self.rank,
            start,
            total,
        }
    }

    /// The next place at or before `at` that is between two characters.
    fn boundary(&self, at: usize) -> usize {
        let text = self.text.text.len();
        match &self.suggestion {
            Some(suggestion) if at > text => text + suggestion.text.floor_char_boundary(at - text),
            Some(_) | None => self.text.text.floor_char_boundary(at),
        }
    }

    fn value(&self, start: usize, end: usize, tally: &mut Tally) -> Value {
        let text_len = self.text.text.len();
        let slice = |cleaned: &Cleaned, from: usize, to: usize| Cleaned {
            text: cleaned.text.get(from..to).unwrap_or_default().to_owned(),
            stripped: if from == 0 { cleaned.stripped } else { 0 },
            left_out: 0,
        };
        let text = slice(&self.text, start.min(text_len), end.min(text_len));
        let suggestion = self.suggestion.as_ref().filter(|_| end > text_len);
        let suggestion =
            suggestion.map(|all| slice(all, start.saturating_sub(text_len), end - text_len));
        let total = self.text.text.len()
            + self
                .suggestion
                .as_ref()
                .map_or(0, |suggestion| suggestion.text.len());
        let (earlier, left_out) = (start, total - end);
        tally.left_out += left_out;
        match (self.rank, self.finding) {
            (Rank::Finding(..), Some(OpenFinding { id, finding, .. })) => context! {
                id => id.as_str(),
                severity => finding.severity.as_str(),
                category => finding.category.as_str(),
                from => tally.line(self.from),
                path => finding.path.as_deref().map(|path| tally.line(path)),
                line => finding.line,
                earlier,
                left_out,
                text => tally.mark(&text),
                suggestion => suggestion.map(|suggestion| tally.mark(&suggestion)),
            },
            (Rank::Body(_), _) => {
                context! { from => tally.line(self.from), body => tally.mark(&text), earlier, left_out }
            }
            (Rank::Guidance(_) | Rank::Finding(..), _) => {
                context! { text => tally.mark(&text), earlier, left_out }
            }
        }
    }
}

/// Cleans and marks texts, and counts what they lose.
#[derive(Default)]
struct Tally {
    stripped: usize,
    left_out: usize,
    extents: Vec<Extent>,
    cuts: Vec<PromptCut>,
}

impl Tally {
    fn mark(&mut self, cleaned: &Cleaned) -> String {
        self.stripped += cleaned.stripped;
        self.left_out += cleaned.left_out;
        fence::mark(cleaned)
    }

    fn line(&mut self, raw: &str) -> String {
        self.mark(&sanitize::line(raw))
    }

    fn lines(&mut self, what: Section, raw: &[String], cap: usize) -> Vec<String> {
        self.cut(what, raw.len().saturating_sub(cap), Unit::Lines);
        raw.iter().take(cap).map(|raw| self.line(raw)).collect()
    }

    fn block(&mut self, what: Section, raw: &str, cap: usize, keep: Keep) -> Value {
        let cleaned = sanitize::block(raw, cap, keep);
        self.cut(what, cleaned.left_out, Unit::Bytes);
        self.text(&cleaned)
    }

    fn description(&mut self, raw: &str) -> Value {
        let cleaned = sanitize::comment(raw, DESCRIPTION_CAP);
        self.cut(Section::Description, cleaned.left_out, Unit::Bytes);
        self.text(&cleaned)
    }

    fn issue(&mut self, issue: &Issue) -> Value {
        let cleaned = sanitize::comment(&issue.body, DESCRIPTION_CAP);
        self.cut(Section::Issue, cleaned.left_out, Unit::Bytes);
        let (number, title) = (issue.number, self.line(&issue.title));
        context! { number, title, text => self.mark(&cleaned), left_out => cleaned.left_out }
    }

    /// The end of a program's output. Its beginning is never meant to be in a prompt, so that is no cut.
    fn tail(&mut self, raw: &str) -> Value {
        self.text(&sanitize::block(raw, OUTPUT_CAP, Keep::Tail))
    }

    fn text(&mut self, cleaned: &Cleaned) -> Value {
        context! { text => self.mark(cleaned), left_out => cleaned.left_out, stripped => cleaned.stripped }
    }

    fn cut(&mut self, what: Section, left_out: usize, unit: Unit) {
        if left_out > 0 {
            self.cuts.push(PromptCut {
                what,
                left_out,
                unit,
            });
        }
    }

    fn with(self, values: Value) -> Values {
        let Self {
            stripped,
            left_out,
            extents,
            cuts,
        } = self;
        Values {
            values,
            stripped,
            left_out,
            extents,
            cuts,
        }
    }
}

/// A commit's name and nothing else: it stands in our own sentences.
fn hex(sha: &str) -> String {
    sha.chars()
        .filter(char::is_ascii_hexdigit)
        .take(64)
        .collect()
}
