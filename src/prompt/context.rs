//! Inputs of a prompt, and their conversion to the values that a template sees: sanitized,
//! truncated and marked.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use minijinja::{Value, context};

use crate::finding::{Finding, FindingId};
use crate::prompt::fence;
use crate::prompt::portion::{Rank, Waiting, portion};
use crate::prompt::sanitize::{self, Cleaned, Keep};
use crate::task::TaskIssue;
use crate::work::{PromptCut, Rejection, Section, Unit};

const PLAN_CAP: usize = 64 << 10;
const DIFF_CAP: usize = 200 << 10;
const DESCRIPTION_CAP: usize = 16 << 10;
const GATE_CAP: usize = 2 << 10;
const OUTPUT_CAP: usize = 16 << 10;
const FILES_CAP: usize = 500;
const CLOSED_CAP: usize = 40;

/// Input of a reviewer's prompt. All texts are raw; they are sanitized here.
#[derive(Debug, Clone)]
pub(crate) struct ReviewContext {
    pub(crate) title: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    /// Spec, plan and tasks, if there are any.
    pub(crate) plan: Option<String>,
    /// Description of the pull request by its author.
    pub(crate) description: Option<String>,
    pub(crate) issue: Option<IssueText>,
    pub(crate) files: Vec<String>,
    pub(crate) diff: String,
    /// Open findings, each with its id.
    pub(crate) open_findings: Vec<Finding>,
    /// Findings that a person has waived, one line each.
    pub(crate) waived: Vec<String>,
    /// Maximum number of bytes of open findings in the prompt.
    pub(crate) feedback_limit: usize,
    /// Number of fixes made so far: 0 at the first review.
    pub(crate) cycle: i64,
    pub(crate) max_cycles: i64,
    pub(crate) environment: AgentEnvironment,
    /// Fresh and random for each prompt.
    pub(crate) nonce: u128,
}

/// Input of the prompt for fixing a rejected change.
#[derive(Debug, Clone)]
pub(crate) struct FixContext {
    pub(crate) title: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    pub(crate) pr_number: Option<i64>,
    /// Set if HEAD of the worktree is detached.
    pub(crate) detached: bool,
    /// Number of the cycle, from 1.
    pub(crate) cycle: i64,
    pub(crate) max_cycles: i64,
    pub(crate) environment: AgentEnvironment,
    pub(crate) plan: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) issue: Option<IssueText>,
    /// Commands that must pass before anything is pushed, in shell syntax.
    pub(crate) gates: Vec<String>,
    /// Rejections to fix. Each finding has the id that the agent uses in its answer.
    pub(crate) rejections: Vec<Rejection>,
    /// Comments by people for this fix, oldest first.
    pub(crate) guidance: Vec<GuidanceText>,
    /// Maximum number of bytes of feedback in the prompt. The rest is left for another run.
    pub(crate) feedback_limit: usize,
    /// Number of bytes of each piece of feedback that earlier runs of this fix were given, by key.
    pub(crate) told: BTreeMap<String, usize>,
    /// Number of this run of the fix, from 1.
    pub(crate) part: usize,
    /// Closed findings, one line each, newest first.
    pub(crate) closed: Vec<String>,
    pub(crate) last_run_tail: Option<String>,
    /// Set if a gate failed after an earlier run of the same item.
    pub(crate) gate_output: Option<String>,
    pub(crate) nonce: u128,
}

/// Input of the prompt for implementing a task.
#[derive(Debug, Clone)]
pub(crate) struct ImplementContext {
    pub(crate) title: String,
    pub(crate) branch: String,
    pub(crate) base: String,
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    /// Description of the task, in addition to its title.
    pub(crate) task: Option<String>,
    pub(crate) plan: Option<String>,
    pub(crate) issue: Option<IssueText>,
    /// Commands that must pass before the pull request is opened, in shell syntax.
    pub(crate) gates: Vec<String>,
    /// Output of an earlier run that failed.
    pub(crate) last_run_tail: Option<String>,
    pub(crate) environment: AgentEnvironment,
    pub(crate) nonce: u128,
}

/// The environment that an agent runs in, as far as its prompt describes it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AgentEnvironment {
    /// Time limit of the run.
    pub(crate) time_limit: Duration,
    /// True if the agent is confined, by bubblewrap or by the user's wrapper.
    pub(crate) sandboxed: bool,
}

impl AgentEnvironment {
    /// The time limit in whole minutes, at least 1.
    fn minutes(self) -> u64 {
        (self.time_limit.as_secs() / 60).max(1)
    }
}

/// Text of the issue that a pull request closes.
#[derive(Debug, Clone)]
pub(crate) struct IssueText {
    pub(crate) number: i64,
    pub(crate) title: String,
    pub(crate) body: String,
}

impl IssueText {
    /// Returns the issue of a task, with the comments that were accepted with it.
    pub(crate) fn of_task(issue: &TaskIssue) -> Self {
        let mut body = issue.body.clone();
        let most = DESCRIPTION_CAP / 2;
        // The comments are by people with write permission: a long text by somebody else must not push them out.
        if !issue.comments.is_empty() && body.len() > most {
            let left_out = body.len() - most;
            body.truncate(body.floor_char_boundary(most));
            body.push_str(&format!("\n\n[{left_out} bytes are omitted]"));
        }
        for one in &issue.comments {
            body.push_str(&format!("\n\nComment by {}:\n\n{}", one.author, one.body));
        }
        Self {
            number: issue.number,
            title: issue.title.clone(),
            body,
        }
    }
}

/// Input of the prompt for a reviewer whose answer could not be parsed.
#[derive(Debug, Clone)]
pub(crate) struct AgainContext {
    pub(crate) base_sha: String,
    pub(crate) head_sha: String,
    /// Missing parts of the answer, one line each.
    pub(crate) missing: Vec<String>,
    /// Text of the reviewer, for an agent that cannot resume its session.
    pub(crate) answer: Option<String>,
    /// Open findings, each with its id.
    pub(crate) open_findings: Vec<Finding>,
    pub(crate) feedback_limit: usize,
    pub(crate) nonce: u128,
}

/// Comment by one person, with the key that answers it.
#[derive(Debug, Clone)]
pub(crate) struct GuidanceText {
    pub(crate) key: String,
    pub(crate) text: String,
}

/// Part of one piece of feedback that a prompt contains: `start..end`, in bytes of its sanitized
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) key: String,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) total: usize,
}

impl ReviewContext {
    pub(super) fn values(&self) -> (Value, Tally) {
        let mut tally = Tally::default();
        let open = tally.open_findings(&self.open_findings, self.feedback_limit);
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
            waived => tally.lines(Section::Closed, &self.waived, CLOSED_CAP),
            cycle => self.cycle,
            max_cycles => self.max_cycles,
            time_limit_min => self.environment.minutes(),
            sandboxed => self.environment.sandboxed,
            nonce => fence::nonce_text(self.nonce),
        };
        (values, tally)
    }
}

impl FixContext {
    pub(super) fn values(&self) -> (Value, Tally) {
        let mut tally = Tally::default();
        let mut pieces = Pieces::default();
        for (at, comment) in self.guidance.iter().enumerate() {
            pieces.guidance(at, comment);
        }
        for (at, rejection) in self.rejections.iter().enumerate() {
            pieces.rejection(at, rejection);
        }
        let rejections = self.rejections.iter();
        let total: usize = rejections
            .map(|rejection| rejection.rejected.findings.len())
            .sum();
        let Chosen {
            guidance,
            feedback,
            findings,
        } = pieces.choose(self.feedback_limit, &self.told, &mut tally);
        let later = tally.incomplete();
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
            time_limit_min => self.environment.minutes(),
            sandboxed => self.environment.sandboxed,
            plan => self.plan.as_deref().map(|plan| tally.block(Section::Plan, plan, PLAN_CAP, Keep::Head)),
            description => self.description.as_deref().map(|text| tally.description(text)),
            issue => self.issue.as_ref().map(|issue| tally.issue(issue)),
            gates => commands(&self.gates),
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
        (values, tally)
    }
}

impl ImplementContext {
    pub(super) fn values(&self) -> (Value, Tally) {
        let mut tally = Tally::default();
        let values = context! {
            title => tally.line(&self.title),
            branch => tally.line(&self.branch),
            base => tally.line(&self.base),
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            task => self.task.as_deref().map(|task| tally.block(Section::Task, task, PLAN_CAP, Keep::Head)),
            plan => self.plan.as_deref().map(|plan| tally.block(Section::Plan, plan, PLAN_CAP, Keep::Head)),
            issue => self.issue.as_ref().map(|issue| tally.issue(issue)),
            gates => commands(&self.gates),
            last_run => self.last_run_tail.as_deref().map(|tail| tally.tail(tail)),
            time_limit_min => self.environment.minutes(),
            sandboxed => self.environment.sandboxed,
            nonce => fence::nonce_text(self.nonce),
        };
        (values, tally)
    }
}

fn commands(gates: &[String]) -> Vec<String> {
    let text = |gate: &String| sanitize::block(gate, GATE_CAP, Keep::Head).text;
    gates.iter().map(text).collect()
}

impl AgainContext {
    pub(super) fn values(&self) -> (Value, Tally) {
        let mut tally = Tally::default();
        let open = tally.open_findings(&self.open_findings, self.feedback_limit);
        let values = context! {
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            missing => tally.lines(Section::Missing, &self.missing, CLOSED_CAP),
            answer => self.answer.as_deref().map(|answer| tally.tail(answer)),
            open_findings_left_out => self.open_findings.len() - open.len(),
            open_findings => open,
            nonce => fence::nonce_text(self.nonce),
        };
        (values, tally)
    }
}

/// All pieces of feedback, sanitized.
#[derive(Default)]
struct Pieces<'a> {
    all: Vec<Piece<'a>>,
}

struct Piece<'a> {
    key: String,
    rank: Rank,
    /// Sanitized text, followed by the failure and the suggestion of a finding.
    parts: [Cleaned; 3],
    from: &'static str,
    finding: Option<&'a Finding>,
}

/// Pieces that a prompt contains.
#[derive(Default)]
struct Chosen {
    guidance: Vec<Value>,
    feedback: Vec<Value>,
    /// Findings, worst first.
    findings: Vec<Value>,
}

impl<'a> Pieces<'a> {
    fn guidance(&mut self, at: usize, comment: &GuidanceText) {
        let rank = Rank::Guidance(Reverse(at));
        self.text(comment.key.clone(), rank, "", &comment.text);
    }

    /// Adds the text of a rejection and its findings: `j1`, `j1.1`, `j1.2`…
    fn rejection(&mut self, at: usize, rejection: &'a Rejection) {
        let (key, from) = (rejection.rejection_id.to_string(), rejection.source());
        let rank = Rank::Body(Reverse(at));
        self.text(key.clone(), rank, from, rejection.text());
        for (n, finding) in rejection.rejected.findings.iter().enumerate() {
            self.finding(format!("{key}.{}", n + 1), (at, n), from, finding);
        }
    }

    fn text(&mut self, key: String, rank: Rank, from: &'static str, text: &str) {
        self.all.push(Piece {
            key,
            rank,
            parts: [whole(text), Cleaned::default(), Cleaned::default()],
            from,
            finding: None,
        });
    }

    fn finding(
        &mut self,
        key: String,
        (at, n): (usize, usize),
        from: &'static str,
        finding: &'a Finding,
    ) {
        let parts = [
            Some(&finding.text),
            finding.failure.as_ref(),
            finding.suggestion.as_ref(),
        ];
        self.all.push(Piece {
            key,
            rank: Rank::Finding(finding.severity, Reverse(at), n),
            parts: parts.map(|raw| raw.map_or_else(Cleaned::default, |raw| whole(raw))),
            from,
            finding: Some(finding),
        });
    }

    /// Marks the pieces that fit, starting after the part that earlier prompts contained.
    fn choose(self, limit: usize, told: &BTreeMap<String, usize>, tally: &mut Tally) -> Chosen {
        let waiting: Vec<Waiting> = self.all.iter().map(|piece| piece.waiting(told)).collect();
        let ends = portion(&waiting, limit);
        let mut chosen = Chosen::default();
        let mut findings: Vec<(Rank, Value)> = Vec::new();
        for ((piece, waiting), end) in self.all.iter().zip(&waiting).zip(ends) {
            let end = piece.boundary(end);
            let (start, total) = (piece.boundary(waiting.start), waiting.total);
            tally.extents.push(Extent {
                key: piece.key.clone(),
                start,
                end,
                total,
            });
            // A text that is empty after sanitizing is included once, as the empty text that people
            // see.
            let is_new_and_empty = total == 0 && !told.contains_key(&piece.key);
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
        let total = self.len();
        let start = told.get(&self.key).copied().unwrap_or(0).min(total);
        Waiting {
            rank: self.rank,
            start,
            total,
        }
    }

    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.text.len()).sum()
    }

    /// Returns the nearest character boundary at or before `at`.
    fn boundary(&self, at: usize) -> usize {
        let mut before = 0;
        for Cleaned { text, .. } in &self.parts {
            if at <= before + text.len() {
                return before + text.floor_char_boundary(at - before);
            }
            before += text.len();
        }
        before
    }

    /// Returns the part of each text between two offsets of the whole.
    fn slices(&self, start: usize, end: usize) -> [Cleaned; 3] {
        let mut before = 0;
        self.parts.each_ref().map(|part| {
            let len = part.text.len();
            let from = start.saturating_sub(before).min(len);
            let to = end.saturating_sub(before).min(len);
            before += len;
            Cleaned {
                text: part.text.get(from..to).unwrap_or_default().to_owned(),
                stripped: if from == 0 { part.stripped } else { 0 },
                left_out: 0,
            }
        })
    }

    fn value(&self, start: usize, end: usize, tally: &mut Tally) -> Value {
        let [text, failure, suggestion] = self.slices(start, end);
        let some = |part: Cleaned| (!part.text.is_empty()).then_some(part);
        let (earlier, left_out) = (start, self.len() - end);
        tally.left_out += left_out;
        match (self.rank, self.finding) {
            (Rank::Finding(..), Some(finding)) => context! {
                id => finding.id.as_ref().map(FindingId::as_str),
                severity => finding.severity.as_str(),
                category => finding.category.as_str(),
                from => tally.line(self.from),
                path => finding.path.as_deref().map(|path| tally.line(path)),
                line => finding.line,
                line_end => finding.line_end,
                title => finding.title.as_deref().map(|title| tally.line(title)),
                earlier,
                left_out,
                text => tally.mark(&text),
                failure => some(failure).map(|failure| tally.mark(&failure)),
                suggestion => some(suggestion).map(|suggestion| tally.mark(&suggestion)),
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

/// Sanitizes a comment without cutting it.
fn whole(raw: &str) -> Cleaned {
    sanitize::comment(raw, usize::MAX)
}

/// Sanitizes and marks texts, and counts what they lose.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) stripped: usize,
    pub(super) left_out: usize,
    /// All pieces of feedback, including those that did not fit.
    pub(super) extents: Vec<Extent>,
    pub(super) cuts: Vec<PromptCut>,
}

impl Tally {
    /// Returns the findings left open by earlier reviews, as far as they fit.
    fn open_findings(&mut self, findings: &[Finding], limit: usize) -> Vec<Value> {
        let mut pieces = Pieces::default();
        for (n, finding) in findings.iter().enumerate() {
            let key = finding.id.as_ref().map(ToString::to_string);
            pieces.finding(key.unwrap_or_default(), (0, n), "", finding);
        }
        let open = pieces.choose(limit, &BTreeMap::new(), self).findings;
        self.cut(Section::OpenFindings, self.incomplete(), Unit::Findings);
        open
    }

    /// Returns the number of pieces of feedback that do not end in this prompt.
    fn incomplete(&self) -> usize {
        let extents = self.extents.iter();
        extents.filter(|extent| extent.end < extent.total).count()
    }

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

    fn issue(&mut self, issue: &IssueText) -> Value {
        let cleaned = sanitize::comment(&issue.body, DESCRIPTION_CAP);
        self.cut(Section::Issue, cleaned.left_out, Unit::Bytes);
        let (number, title) = (issue.number, self.line(&issue.title));
        context! { number, title, text => self.mark(&cleaned), left_out => cleaned.left_out }
    }

    /// Returns the end of a program's output. Its start is never meant to be in a prompt, so
    /// omitting it does not count as a cut.
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
}

/// Returns a commit id and nothing else: it is used in our own sentences.
fn hex(sha: &str) -> String {
    let digits = sha.chars().filter(char::is_ascii_hexdigit);
    digits.take(64).collect()
}
