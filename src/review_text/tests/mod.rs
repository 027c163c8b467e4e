mod cross_check;
mod findings;
mod fixtures;
mod properties;
mod verdicts;

use super::{Reading, read};
use crate::finding::{Severity, Verdict};

const APPROVED: Verdict = Verdict::Approved;
const CHANGES: Verdict = Verdict::ChangesRequested;
const DISCUSS: Verdict = Verdict::NeedsDiscussion;
const UNCLEAR: Verdict = Verdict::Unclear;

fn medium(text: &str) -> Reading {
    read(text, Severity::Medium)
}

/// Asserts that each text has its verdict. Prose is added, so that a request for changes asks for
/// something.
#[track_caller]
fn all(cases: &[(&str, Verdict)]) {
    for (text, verdict) in cases {
        let whole = format!("{text}\n\nThe loop in the parser ends too early.\n");
        let reading = medium(&whole);
        assert_eq!(reading.verdict, *verdict, "{text:?}: {}", reading.reason);
    }
}

fn contract(verdict: &str, count: usize, severity: &str, findings: &str) -> String {
    format!(
        "REVIEW_RESULT: {verdict}\nFINDINGS_COUNT: {count}\nSEVERITY: {severity}\nSUMMARY: Two words.\n\n\
         ```json\n{{\"findings\":[{findings}]}}\n```\n"
    )
}

fn finding(severity: &str) -> String {
    format!(
        "{{\"severity\":\"{severity}\",\"category\":\"logic\",\"path\":\"a.rs\",\"line\":3,\"text\":\"Wrong.\"}}"
    )
}
