//! What a prompt is made from, and how it becomes the values that a template sees: cleaned, capped and marked.

use minijinja::{Value, context};

use crate::finding::{Finding, FindingId};
use crate::prompt::clean::{self, Cleaned, Keep};
use crate::prompt::fence;

const COMMENT_CAP: usize = 16 << 10;
const FEEDBACK_CAP: usize = 64 << 10;
const PLAN_CAP: usize = 64 << 10;
const DIFF_CAP: usize = 200 << 10;
const OUTPUT_CAP: usize = 16 << 10;
const FILES_CAP: usize = 500;
const CLOSED_CAP: usize = 40;
/// What the fence and the heading of one finding or comment cost beside its text.
const FRAME: usize = 256;

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
    pub(crate) files: Vec<String>,
    pub(crate) diff: String,
    pub(crate) open_findings: Vec<OpenFinding>,
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
    /// From 1.
    pub(crate) cycle: i64,
    pub(crate) max_cycles: i64,
    pub(crate) plan: Option<String>,
    pub(crate) feedback: Vec<Feedback>,
    /// A person's comments for this fix.
    pub(crate) guidance: Vec<String>,
    /// Findings that are settled, one line each, newest first.
    pub(crate) closed: Vec<String>,
    pub(crate) last_run_tail: Option<String>,
    /// Set when a gate was red after an earlier run of the same item.
    pub(crate) gate_output: Option<String>,
    pub(crate) nonce: u128,
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
    pub(crate) nonce: u128,
}

/// One review, or one person's comments.
#[derive(Debug, Clone)]
pub(crate) struct Feedback {
    pub(crate) from: String,
    pub(crate) body: String,
    pub(crate) findings: Vec<OpenFinding>,
}

/// A finding of the ledger with the id by which the agent answers.
#[derive(Debug, Clone)]
pub(crate) struct OpenFinding {
    pub(crate) id: FindingId,
    pub(crate) finding: Finding,
}

/// The values of a template, and what the texts in them lost.
pub(super) struct Values {
    pub(super) values: Value,
    pub(super) stripped: usize,
    pub(super) left_out: usize,
}

impl ReviewContext {
    pub(super) fn values(&self) -> Values {
        let mut tally = Tally::default();
        let open = tally.findings(self.open_findings.iter().map(|open| ("", open)), &mut Room(FEEDBACK_CAP));
        let values = context! {
            title => tally.line(&self.title),
            branch => tally.line(&self.branch),
            base => tally.line(&self.base),
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            plan => self.plan.as_deref().map(|plan| tally.block(plan, PLAN_CAP, Keep::Head)),
            files => tally.lines(&self.files, FILES_CAP),
            files_left_out => self.files.len().saturating_sub(FILES_CAP),
            diff => tally.block(&self.diff, DIFF_CAP, Keep::Head),
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
        // In the order of what hurts most when it is missing: a person's word, the findings, the prose around them.
        let mut room = Room(FEEDBACK_CAP);
        let guidance: Vec<Value> = self.guidance.iter().map(|text| tally.comment(text, &mut room)).collect();
        let all = self.feedback.iter().flat_map(|f| f.findings.iter().map(|open| (f.from.as_str(), open)));
        let total = all.clone().count();
        let findings = tally.findings(all, &mut room);
        let feedback: Vec<Value> = self.feedback.iter().map(|f| tally.feedback(f, &mut room)).collect();
        let values = context! {
            title => tally.line(&self.title),
            branch => tally.line(&self.branch),
            base => tally.line(&self.base),
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            pr_number => self.pr_number,
            cycle => self.cycle,
            max_cycles => self.max_cycles,
            plan => self.plan.as_deref().map(|plan| tally.block(plan, PLAN_CAP, Keep::Head)),
            guidance,
            feedback,
            findings_left_out => total - findings.len(),
            findings,
            closed => tally.lines(&self.closed, CLOSED_CAP),
            closed_left_out => self.closed.len().saturating_sub(CLOSED_CAP),
            last_run => self.last_run_tail.as_deref().map(|tail| tally.block(tail, OUTPUT_CAP, Keep::Tail)),
            gate_output => self.gate_output.as_deref().map(|output| tally.block(output, OUTPUT_CAP, Keep::Tail)),
            nonce => fence::nonce_text(self.nonce),
        };
        tally.with(values)
    }
}

impl AgainContext {
    pub(super) fn values(&self) -> Values {
        let mut tally = Tally::default();
        let open = tally.findings(self.open_findings.iter().map(|open| ("", open)), &mut Room(FEEDBACK_CAP));
        let values = context! {
            base_sha => hex(&self.base_sha),
            head_sha => hex(&self.head_sha),
            missing => tally.lines(&self.missing, CLOSED_CAP),
            answer => self.answer.as_deref().map(|answer| tally.block(answer, OUTPUT_CAP, Keep::Tail)),
            open_findings_left_out => self.open_findings.len() - open.len(),
            open_findings => open,
            nonce => fence::nonce_text(self.nonce),
        };
        tally.with(values)
    }
}

/// What is left of a cap that several texts share.
struct Room(usize);

impl Room {
    fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes);
    }
}

/// Cleans and marks texts, and counts what they lose.
#[derive(Default)]
struct Tally {
    stripped: usize,
    left_out: usize,
}

impl Tally {
    fn mark(&mut self, cleaned: &Cleaned) -> String {
        self.stripped += cleaned.stripped;
        self.left_out += cleaned.left_out;
        fence::mark(cleaned)
    }

    fn line(&mut self, raw: &str) -> String {
        self.mark(&clean::line(raw))
    }

    fn lines(&mut self, raw: &[String], cap: usize) -> Vec<String> {
        raw.iter().take(cap).map(|raw| self.line(raw)).collect()
    }

    fn block(&mut self, raw: &str, cap: usize, keep: Keep) -> Value {
        let cleaned = clean::block(raw, cap, keep);
        context! { text => self.mark(&cleaned), left_out => cleaned.left_out, stripped => cleaned.stripped }
    }

    fn comment(&mut self, raw: &str, room: &mut Room) -> Value {
        let cleaned = clean::comment(raw, COMMENT_CAP.min(room.0));
        room.spend(cleaned.text.len() + FRAME);
        context! { text => self.mark(&cleaned), left_out => cleaned.left_out }
    }

    fn feedback(&mut self, feedback: &Feedback, room: &mut Room) -> Value {
        let body = clean::comment(&feedback.body, COMMENT_CAP.min(room.0));
        room.spend(body.text.len() + FRAME);
        context! { from => self.line(&feedback.from), body => self.mark(&body), left_out => body.left_out }
    }

    /// Worst first, as many as there is room for.
    fn findings<'a>(&mut self, all: impl Iterator<Item = (&'a str, &'a OpenFinding)>, room: &mut Room) -> Vec<Value> {
        let mut sorted: Vec<_> = all.collect();
        sorted.sort_by_key(|(_, open)| open.finding.severity);
        let mut shown = Vec::new();
        for (from, OpenFinding { id, finding }) in sorted {
            if room.0 < FRAME {
                break;
            }
            room.spend(FRAME);
            let text = clean::comment(&finding.text, COMMENT_CAP.min(room.0));
            room.spend(text.text.len());
            let suggestion = finding.suggestion.as_deref().map(|raw| clean::comment(raw, COMMENT_CAP.min(room.0)));
            room.spend(suggestion.as_ref().map_or(0, |suggestion| suggestion.text.len()));
            let path = finding.path.as_deref().map(clean::line);
            room.spend(path.as_ref().map_or(0, |path| path.text.len()));
            shown.push(context! {
                id => id.as_str(),
                severity => finding.severity.as_str(),
                category => finding.category.as_str(),
                from => self.line(from),
                path => path.map(|path| self.mark(&path)),
                line => finding.line,
                left_out => text.left_out + suggestion.as_ref().map_or(0, |suggestion| suggestion.left_out),
                text => self.mark(&text),
                suggestion => suggestion.map(|suggestion| self.mark(&suggestion)),
            });
        }
        shown
    }

    fn with(self, values: Value) -> Values {
        Values { values, stripped: self.stripped, left_out: self.left_out }
    }
}

/// A commit's name and nothing else: it stands in our own sentences.
fn hex(sha: &str) -> String {
    sha.chars().filter(char::is_ascii_hexdigit).take(64).collect()
}
