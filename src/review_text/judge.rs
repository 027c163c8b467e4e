//! Decides what a review counts for, from its claims and its findings.
//!
//! An approval must pass every check; anything inconsistent is unclear, with the reason and with
//! what to ask for.

use super::Dialect;
use super::contract_lines::Fields;
use super::verdict::{Claim, ClaimedVerdict};
use crate::finding::{Finding, Severity, Verdict};

pub(super) struct Evidence<'a> {
    /// Verdicts in the reviewer's own lines.
    pub(super) claims: &'a [Claim],
    /// Verdicts in lines that do not claim one.
    pub(super) bystanders: &'a [(usize, Verdict)],
    /// Verdict in the last JSON block with findings.
    pub(super) json: Option<&'a ClaimedVerdict>,
    /// Verdicts in all JSON, at any depth.
    pub(super) json_verdicts: &'a [ClaimedVerdict],
    pub(super) findings: &'a [Finding],
    pub(super) fields: &'a Fields,
    pub(super) block: BlockState,
    /// Findings outside of the last list: in earlier JSON blocks, in JSON without a list, in prose
    /// next to a list.
    pub(super) left_out: &'a [Finding],
    /// Severities in JSON that cannot be parsed.
    pub(super) unparsed: &'a [Severity],
    /// Line that looks like a blocking finding and could not be parsed as one.
    pub(super) suspect: Option<String>,
    /// Number of judgments of earlier findings that were read as open because their status is
    /// unknown.
    pub(super) odd_statuses: usize,
    /// Set if there is any text besides findings that instructs a fixer.
    pub(super) has_text: bool,
    pub(super) has_summary: bool,
    pub(super) stands_elsewhere: bool,
    pub(super) threshold: Severity,
}

/// State of the JSON block with the findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockState {
    None,
    Read,
    Broken,
}

pub(super) struct Judged {
    pub(super) verdict: Verdict,
    pub(super) raw: Option<Verdict>,
    pub(super) dialect: Dialect,
    pub(super) reason: String,
    pub(super) missing: Vec<String>,
}

impl Judged {
    /// Returns the verdict of a review that requests changes and lists only findings that a person
    /// has waived.
    pub(super) fn without_waived(self, is_complete: bool) -> Self {
        if is_complete {
            let reason = "The review requests changes only because of findings that a person has waived: that counts as approved.";
            return Self {
                verdict: Verdict::Approved,
                reason: reason.to_owned(),
                ..self
            };
        }
        let reason =
            "The review requests changes, but lists only findings that a person has waived."
                .to_owned();
        let missing = "what else to change, as findings in the json block; or, if there is nothing else, the verdict `approved`";
        unclear(self.raw, self.dialect, reason, missing)
    }
}

const ONE_VERDICT: &str = "one line `REVIEW_RESULT: approved`, `REVIEW_RESULT: changes_requested` or \
                           `REVIEW_RESULT: needs_discussion`, alone, outside code fences and quotations";
const THE_BLOCK: &str =
    "one fenced json block with every finding under `findings`, as many as FINDINGS_COUNT says";

pub(super) fn judge(evidence: &Evidence<'_>) -> Judged {
    let readable: Vec<(Verdict, Dialect)> = evidence.claims.iter().filter_map(readable).collect();
    let Some((raw, dialect)) = readable
        .last()
        .copied()
        .or_else(|| Some((evidence.json_verdict()?, Dialect::Json)))
    else {
        return evidence.no_verdict();
    };
    let mut others = readable
        .iter()
        .map(|(verdict, _)| verdict)
        .chain(evidence.bystanders.iter().map(|(_, verdict)| verdict));
    if let Some(other) = others.find(|verdict| **verdict != raw) {
        let reason = format!("The review says both {other} and {raw}.");
        return unclear(None, dialect, reason, ONE_VERDICT);
    }
    let differs = |other: &&ClaimedVerdict| **other != ClaimedVerdict::Verdict(raw);
    let other = evidence.json_verdicts.iter().find(differs);
    if let Some(other) = other.filter(|_| dialect == Dialect::Json) {
        let other = other.as_str();
        let reason = format!("The review says both {other} and {raw} in its JSON.");
        return unclear(None, dialect, reason, ONE_VERDICT);
    }
    match raw {
        Verdict::Approved => evidence.approval(dialect),
        Verdict::ChangesRequested if !evidence.has_feedback() => {
            let reason = "The review requests changes but names none.".into();
            let missing = "what to change: for each change, a finding with a `text`";
            unclear(Some(raw), dialect, reason, missing)
        }
        Verdict::ChangesRequested | Verdict::NeedsDiscussion | Verdict::Unclear => {
            clear(raw, raw, dialect, format!("The review says {raw}."))
        }
    }
}

impl Evidence<'_> {
    /// Returns remarks for a person, besides the reason for the verdict.
    pub(super) fn remarks(&self) -> Vec<String> {
        let (found, left, odd) = (self.findings.len(), self.left_out.len(), self.odd_statuses);
        let count = self.fields.count.filter(|count| *count != found);
        let count = count.map(|count| format!("FINDINGS_COUNT is {count}, but {found} were read."));
        let broken = (self.block == BlockState::Broken)
            .then(|| "The JSON block of findings cannot be read.".to_owned());
        let left = (left > 0)
            .then(|| format!("{left} more findings are outside the last list of findings."));
        let odd =
            (odd > 0).then(|| format!("{odd} unknown statuses of earlier findings count as open."));
        [count, broken, left, odd].into_iter().flatten().collect()
    }

    fn approval(&self, dialect: Dialect) -> Judged {
        let raw = Verdict::Approved;
        let blocking = self.blocking(self.findings);
        if blocking > 0 {
            let what = match blocking {
                1 => "a finding".into(),
                _ => format!("{blocking} findings"),
            };
            let reason = format!(
                "The review says approved but lists {what} at or above {}: that counts as changes_requested.",
                self.threshold
            );
            return clear(Verdict::ChangesRequested, raw, dialect, reason);
        }
        if self.counts_blocking() && self.has_summary {
            let reason = format!(
                "The review says approved but counts findings at or above {}: that counts as changes_requested, with its summary as the reason.",
                self.threshold
            );
            return clear(Verdict::ChangesRequested, raw, dialect, reason);
        }
        match self.objection() {
            Some((reason, missing)) => unclear(Some(raw), dialect, reason, missing),
            None => {
                let reason = "The review says approved and has no blocking finding.".into();
                clear(raw, raw, dialect, reason)
            }
        }
    }

    /// Returns the reason not to trust an approval without blocking findings.
    fn objection(&self) -> Option<(String, &'static str)> {
        if let Some(text) = self.claims.iter().find_map(unreadable) {
            let reason = format!("The review says approved and also `{text}`.");
            return Some((reason, ONE_VERDICT));
        }
        let differs =
            |other: &&ClaimedVerdict| **other != ClaimedVerdict::Verdict(Verdict::Approved);
        let mut json = self.json.into_iter().chain(self.json_verdicts);
        if let Some(other) = json.find(differs) {
            let other = other.as_str();
            let reason = format!("The review says approved, but its JSON says {other}.");
            return Some((reason, ONE_VERDICT));
        }
        if self.block == BlockState::Broken {
            let reason = "The review says approved, but its block of findings cannot be read.";
            return Some((reason.into(), THE_BLOCK));
        }
        if self.blocking(self.left_out) > 0 {
            let reason = "The review says approved but has a blocking finding that is not in its last list of findings.";
            return Some((reason.into(), THE_BLOCK));
        }
        if self.unparsed.iter().any(|s| s.blocks_at(self.threshold)) {
            let reason = "The review says approved but has a blocking severity in JSON that cannot be parsed.";
            return Some((reason.into(), THE_BLOCK));
        }
        if let Some(line) = &self.suspect {
            let reason = format!(
                "The review says approved but has a line that looks like a blocking finding: `{line}`."
            );
            return Some((reason, THE_BLOCK));
        }
        let found = self.findings.len();
        let count = self.fields.count.unwrap_or(0);
        let worst_blocks = self.worst_blocks();
        let tolerable = self.block == BlockState::None && worst_blocks == Some(false);
        if count > found && !tolerable {
            let reason = format!(
                "The review says approved and counts {count} findings, but only {found} can be read."
            );
            return Some((reason, THE_BLOCK));
        }
        // `SEVERITY: high` copied from the prompt by a review that found nothing.
        let found_nothing =
            found == 0 && (self.fields.count == Some(0) || self.block == BlockState::Read);
        if worst_blocks == Some(true) && !found_nothing {
            let reason =
                "The review says approved with a SEVERITY that blocks, but lists no such finding.";
            return Some((reason.into(), THE_BLOCK));
        }
        None
    }

    /// Returns true if FINDINGS_COUNT and SEVERITY claim a blocking finding, whatever is listed.
    fn counts_blocking(&self) -> bool {
        self.worst_blocks() == Some(true) && self.fields.count.is_some_and(|count| count > 0)
    }

    /// Returns whether SEVERITY claims a blocking finding.
    fn worst_blocks(&self) -> Option<bool> {
        let severity = self.fields.severity?;
        Some(severity.blocks_at(self.threshold))
    }

    /// Counts the findings that prevent an approval.
    fn blocking(&self, findings: &[Finding]) -> usize {
        let blocks = |finding: &&Finding| finding.severity.blocks_at(self.threshold);
        findings.iter().filter(blocks).count()
    }

    fn no_verdict(&self) -> Judged {
        let odd = self.claims.iter().find_map(unreadable).or(match self.json {
            Some(ClaimedVerdict::Unreadable(text)) => Some(text.as_str()),
            Some(ClaimedVerdict::Verdict(_)) | None => None,
        });
        let last = self.claims.last();
        let dialect = last.map_or(Dialect::None, |claim| claim.dialect);
        let reason = match odd {
            Some(text) => format!("The verdict is `{text}`, which is not an allowed value."),
            None if self.stands_elsewhere => {
                "The review has no verdict in its text: one in a code fence, a quotation or a comment does not count.".into()
            }
            None => "The review has no verdict.".into(),
        };
        unclear(None, dialect, reason, ONE_VERDICT)
    }

    /// Returns the JSON verdict. An approval stands alone only if no line claims something unreadable,
    /// which could contradict it.
    fn json_verdict(&self) -> Option<Verdict> {
        match self.json? {
            ClaimedVerdict::Verdict(Verdict::Approved)
                if self.claims.iter().any(|claim| unreadable(claim).is_some()) =>
            {
                None
            }
            ClaimedVerdict::Verdict(verdict) => Some(*verdict),
            ClaimedVerdict::Unreadable(_) => None,
        }
    }

    fn has_feedback(&self) -> bool {
        self.has_text
            || self.has_summary
            || !self.findings.is_empty()
            || self.block == BlockState::Broken
    }
}

fn readable(claim: &Claim) -> Option<(Verdict, Dialect)> {
    match claim.verdict {
        ClaimedVerdict::Verdict(verdict) => Some((verdict, claim.dialect)),
        ClaimedVerdict::Unreadable(_) => None,
    }
}

fn unreadable(claim: &Claim) -> Option<&str> {
    match &claim.verdict {
        ClaimedVerdict::Unreadable(text) => Some(text),
        ClaimedVerdict::Verdict(_) => None,
    }
}

/// Creates a review that counts as `verdict`, whatever its text says.
fn clear(verdict: Verdict, raw: Verdict, dialect: Dialect, reason: String) -> Judged {
    Judged {
        verdict,
        raw: Some(raw),
        dialect,
        reason,
        missing: Vec::new(),
    }
}

fn unclear(raw: Option<Verdict>, dialect: Dialect, reason: String, missing: &str) -> Judged {
    Judged {
        verdict: Verdict::Unclear,
        raw,
        dialect,
        reason,
        missing: vec![missing.into()],
    }
}
