//! Parses a reviewing agent's text: the verdict, the findings, and the judgments of earlier
//! findings; and a fixing agent's answers.
//!
//! Pure: text in, values out. It must never turn text that it does not understand into an approval.

mod answers;
mod contract_lines;
mod earlier_findings;
mod html;
mod json;
mod json_block;
mod judge;
mod key_value;
mod markdown;
mod progress;
mod prose;
mod raw_finding;
mod suspicious_lines;
mod verdict;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::closed_enum::closed_enum;
use crate::finding::{Category, Finding, Outcome, Severity, Verdict};

pub(crate) use crate::intent::Stance;
pub(crate) use answers::{FindingAnswer, read_answers};
pub(crate) use earlier_findings::{Earlier, Entry, PathState, PromptPresence, settle};
pub(crate) use progress::{Cycle, stuck};

use json_block::Sheet;
use judge::{BlockState, Evidence};
use markdown::{BlockKind, Document};
use raw_finding::{Draft, Notes};
use verdict::Claim;

/// Maximum number of findings, more than any review has. The rest is still in the text of the
/// review, which is part of the fix prompt too.
const MAX_FINDINGS: usize = 2_000;

closed_enum! {
    /// Known way of writing a verdict, as used by the review.
    "dialect" Dialect {
        /// `REVIEW_RESULT: approved`, the form that remand's prompt asks for.
        Contract = "contract",
        /// `**Verdict: APPROVED**`
        VerdictLine = "verdict_line",
        /// `**[APPROVED]**`
        Bracket = "bracket",
        /// `{"verdict": "pass", "issues": []}`
        Json = "json",
        None = "none",
    }
}

/// Result of parsing a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Reading {
    /// Verdict after the cross-check with the findings.
    pub(crate) verdict: Verdict,
    /// Verdict stated by the text itself; `None` if it states none, or two.
    pub(crate) raw_verdict: Option<Verdict>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) judged: Vec<Judgment>,
    pub(crate) summary: Option<String>,
    pub(crate) dialect: Dialect,
    /// Set if the review uses remand's JSON form, which asks for a judgment of each open finding.
    #[serde(skip)]
    pub(crate) judges_each: bool,
    /// The worst severity that it states apart from its findings.
    #[serde(skip)]
    pub(crate) severity: Option<Severity>,
    /// Reason for the verdict, for a person.
    pub(crate) reason: String,
    /// If unclear: what to ask for in a second attempt.
    pub(crate) missing: Vec<String>,
}

impl Reading {
    /// Turns the summary into a finding, if the review is a rejection without findings, or an
    /// approval that counts blocking findings without listing one.
    fn with_summary_as_finding(mut self, threshold: Severity) -> Self {
        let lists_reason = match self.raw_verdict {
            Some(Verdict::Approved) => self
                .findings
                .iter()
                .any(|finding| finding.severity.blocks_at(threshold)),
            Some(_) | None => !self.findings.is_empty(),
        };
        let summary = self
            .summary
            .as_ref()
            .filter(|text| !raw_finding::is_nothing(text));
        if self.verdict != Verdict::ChangesRequested || lists_reason {
            return self;
        }
        if let Some(text) = summary {
            self.findings.push(Finding {
                severity: self
                    .severity
                    .unwrap_or_else(|| Severity::Medium.min(threshold)),
                category: Category::Logic,
                text: text.clone(),
                ..Finding::default()
            });
        }
        self
    }
}

/// Judgment of an earlier finding: `Resolved` or `Open`, nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Judgment {
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
}

/// Parses a review. Findings at or above `threshold` prevent an approval.
///
/// An approval next to an earlier finding judged open is left to the caller, who knows the severity
/// of that finding.
pub(crate) fn read(text: &str, threshold: Severity) -> Reading {
    read_without(text, threshold, &HashSet::new())
}

/// Like [`read`], without the findings that a person has waived, given by their fingerprints: they do
/// not prevent an approval. A review that requests changes only because of them approves, if its list of
/// findings is complete; otherwise it is unclear.
pub(crate) fn read_without(text: &str, threshold: Severity, waived: &HashSet<String>) -> Reading {
    let page = Document::cut(text);
    let claims = verdict::claims(&page);
    let bystanders = verdict::bystanders(&page);
    let mut sheet = Sheet::gather(&page);
    let mut fields =
        contract_lines::fields(&page, claims.last().map(|claim| claim.at)).with(&sheet);
    let mut notes = Notes::default();
    let block = match (&sheet.drafts, sheet.is_broken) {
        (_, true) => BlockState::Broken,
        (Some(_), false) => BlockState::Read,
        (None, false) => BlockState::None,
    };
    let mut prose = prose::drafts(&page);
    let drafts = match sheet.drafts.take() {
        Some(drafts) => {
            prose.retain(|draft| !prose::is_settled(draft));
            drafts
        }
        None => std::mem::take(&mut prose),
    };
    let mut findings = finish(drafts, threshold, &mut notes);
    let mut elsewhere = std::mem::take(&mut sheet.earlier);
    elsewhere.append(&mut sheet.loose);
    let finished = |drafts| finish(drafts, threshold, &mut Notes::default());
    let mut left_out = not_in(&findings, finished(elsewhere));
    let in_json = left_out.len();
    left_out.extend(not_in(&findings, finished(prose)));
    let is_waived = |finding: &Finding| waived.contains(&finding.fingerprint());
    let listed = findings.len();
    findings.retain(|finding| !is_waived(finding));
    left_out.retain(|finding| !is_waived(finding));
    let dropped = listed - findings.len();
    if dropped > 0 {
        fields.count = fields.count.map(|count| count.saturating_sub(dropped));
        if fields.count.is_none_or(|count| count <= findings.len()) {
            fields.severity = findings.iter().map(|finding| finding.severity).min();
        }
    }
    let summary = fields.summary.clone().or(sheet.summary.take());
    // A review that judges an earlier finding to be open has stated what to do.
    let says_open = sheet.judged.iter().any(|j| j.outcome == Outcome::Open);
    let evidence = Evidence {
        claims: &claims,
        bystanders: &bystanders,
        json: sheet.verdict.as_ref(),
        json_verdicts: &sheet.verdicts,
        findings: &findings,
        fields: &fields,
        block,
        left_out: &left_out,
        unparsed: &sheet.unparsed,
        suspect: suspicious_lines::first(&page, threshold),
        odd_statuses: sheet.odd_statuses,
        has_text: says_open || has_text(&page, &claims),
        has_summary: summary
            .as_deref()
            .is_some_and(|text| !raw_finding::is_nothing(text)),
        stands_elsewhere: verdict::stands_elsewhere(&page),
        threshold,
    };
    let mut judged = judge::judge(&evidence);
    let is_empty = findings.is_empty() && left_out.is_empty() && !says_open;
    if judged.verdict == Verdict::ChangesRequested && dropped > 0 && is_empty {
        // Only a list that is known to be complete shows that nothing else was found.
        let is_all = sheet.is_own_form
            && block == BlockState::Read
            && fields.count.unwrap_or(0) == 0
            && sheet.unparsed.is_empty();
        judged = judged.without_waived(is_all);
    }
    let mut reason = evidence.remarks();
    reason.insert(0, judged.reason);
    if judged.verdict == Verdict::ChangesRequested {
        // Prose next to a list repeats the list in other words.
        left_out.truncate(in_json);
        findings.append(&mut left_out);
    }
    let found = findings.len();
    if found > MAX_FINDINGS {
        findings.sort_by_key(|finding| finding.severity);
        findings.truncate(MAX_FINDINGS);
        reason.push(format!(
            "Only the {MAX_FINDINGS} most severe of {found} findings were kept."
        ));
    }
    let summary = summary.map(|text| raw_finding::capped(&text, &mut notes));
    reason.extend(notes.sentences());
    let reading = Reading {
        verdict: judged.verdict,
        raw_verdict: judged.raw,
        findings,
        judged: sheet.judged,
        summary,
        dialect: judged.dialect,
        judges_each: sheet.is_own_form,
        severity: fields.severity,
        reason: reason.join(" "),
        missing: judged.missing,
    };
    if says_open {
        reading
    } else {
        reading.with_summary_as_finding(threshold)
    }
}

fn finish(drafts: Vec<Draft>, threshold: Severity, notes: &mut Notes) -> Vec<Finding> {
    drafts
        .into_iter()
        .map(|draft| draft.finish(threshold, notes))
        .collect()
}

fn not_in(listed: &[Finding], elsewhere: Vec<Finding>) -> Vec<Finding> {
    if elsewhere.is_empty() {
        return elsewhere;
    }
    let mut known: HashSet<String> = listed.iter().map(Finding::fingerprint).collect();
    elsewhere
        .into_iter()
        .filter(|finding| known.insert(finding.fingerprint()))
        .collect()
}

/// Returns true if there is any text besides contract lines, headings and JSON.
fn has_text(page: &Document<'_>, claims: &[Claim]) -> bool {
    let claimed: HashSet<usize> = claims.iter().map(|claim| claim.at).collect();
    let blocks: HashMap<usize, bool> = page
        .blocks
        .iter()
        .map(|block| (block.at, json_block::may_be_json(block)))
        .collect();
    let mut in_json = false;
    page.lines.iter().enumerate().any(|(at, line)| {
        in_json = blocks
            .get(&at)
            .copied()
            .unwrap_or(in_json && line.place == BlockKind::Fence);
        let text = line.text.trim_start();
        let is_mark = text.starts_with('#') || text.starts_with("```") || text.starts_with("~~~");
        let is_own = matches!(
            line.place,
            BlockKind::Body | BlockKind::Fence | BlockKind::Code | BlockKind::Folded
        ) && !in_json;
        is_own
            && !is_mark
            && !claimed.contains(&at)
            && key_value::keyed(text).is_none()
            && !verdict::is_verdict_like(text)
            && text.contains(char::is_alphanumeric)
    })
}
