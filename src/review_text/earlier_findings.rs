//! Effect of a review on the findings of earlier reviews. Pure: it decides, the blackboard stores.

use super::{Judgment, Reading};
use crate::finding::{Finding, Outcome, Resolution, Severity, Verdict};

/// Finding of an earlier review that is not settled yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Earlier<'a> {
    pub(crate) id: &'a str,
    pub(crate) finding: &'a Finding,
    pub(crate) outcome: Outcome,
    /// Presence of the finding in the reviewer's prompt.
    pub(crate) prompt: PromptPresence,
    /// State of its path since it was last raised.
    pub(crate) path: PathState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptPresence {
    InPrompt,
    LeftOut,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathState {
    /// Also used if the finding has no path.
    Changed,
    Untouched,
}

/// Outcome of one earlier finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
    /// Reason of a resolution; `None` for any other outcome.
    pub(crate) resolution: Option<Resolution>,
}

/// Applies a review to the earlier findings; returns the adjusted review and the outcomes. Findings
/// without an entry stay as they are.
///
/// An approval that omits a required judgment is unclear: it names what to ask for.
pub(crate) fn settle(
    reading: Reading,
    earlier: &[Earlier<'_>],
    threshold: Severity,
) -> (Reading, Vec<Entry>) {
    let mut reading = with_open_findings(reading, earlier, threshold);
    let mut entries: Vec<Entry> = Vec::new();
    let mut unjudged: Vec<&str> = Vec::new();
    let is_clear = matches!(
        reading.verdict,
        Verdict::Approved | Verdict::ChangesRequested
    );
    let is_left = |open: &&Earlier<'_>| is_clear && !is_raised(&reading, open.finding);
    for open in earlier.iter().filter(is_left) {
        let mut judgments = reading.judged.iter();
        if let Some(judgment) = judgments.find(|judgment| judgment.id == open.id) {
            entries.push(judged(judgment));
        } else if reading.verdict == Verdict::Approved
            && open.finding.severity.blocks_at(threshold)
            && (reading.judges_each || !can_be_dropped(open))
        {
            unjudged.push(open.id);
        } else if can_be_dropped(open)
            && (reading.verdict == Verdict::Approved || !reading.judges_each)
        {
            let resolution = Some(Resolution::NotRaisedAgain);
            entries.push(Entry {
                id: open.id.to_owned(),
                outcome: Outcome::Resolved,
                resolution,
            });
        }
    }
    if !unjudged.is_empty() {
        let unjudged = unjudged.join(", ");
        reading.verdict = Verdict::Unclear;
        reading.reason = format!(
            "It approves but does not say whether these findings of earlier reviews are resolved: {unjudged}."
        );
        reading.missing = vec![format!(
            "in `previous`: a status, resolved or open, for {unjudged}"
        )];
        return (reading, Vec::new());
    }
    let dropped: Vec<&str> = entries
        .iter()
        .filter(|entry| entry.resolution == Some(Resolution::NotRaisedAgain))
        .map(|entry| entry.id.as_str())
        .collect();
    if !dropped.is_empty() {
        reading.reason = format!(
            "{} Not raised again, so resolved: {}.",
            reading.reason,
            dropped.join(", ")
        );
    }
    (reading, entries)
}

/// Returns true if a review may settle the finding by not mentioning it. A finding that the fixer
/// disputes, whose path is unchanged, or that was not in the prompt needs an explicit judgment.
fn can_be_dropped(open: &Earlier<'_>) -> bool {
    open.outcome != Outcome::Disputed
        && open.path == PathState::Changed
        && open.prompt == PromptPresence::InPrompt
}

fn is_raised(reading: &Reading, finding: &Finding) -> bool {
    let mut raised = reading.findings.iter();
    raised.any(|new| new.fingerprint() == finding.fingerprint())
}

fn judged(judgment: &Judgment) -> Entry {
    let resolution = (judgment.outcome == Outcome::Resolved).then_some(Resolution::Judged);
    Entry {
        id: judgment.id.clone(),
        outcome: judgment.outcome,
        resolution,
    }
}

/// Adds open findings to an approval, which then does not hold: blocking findings that the reviewer
/// itself judges to be still open, and those that had no room in its prompt.
fn with_open_findings(
    mut reading: Reading,
    earlier: &[Earlier<'_>],
    threshold: Severity,
) -> Reading {
    let is_judged = |open: &Earlier<'_>, outcome: Option<Outcome>| {
        reading
            .judged
            .iter()
            .any(|j| j.id == open.id && outcome.is_none_or(|outcome| j.outcome == outcome))
    };
    let still_open: Vec<Finding> = earlier
        .iter()
        .filter(|open| {
            open.finding.severity.blocks_at(threshold) && !is_raised(&reading, open.finding)
        })
        .filter(|open| {
            let is_unknown =
                open.prompt == PromptPresence::LeftOut && reading.verdict == Verdict::Approved;
            is_judged(open, Some(Outcome::Open)) || (is_unknown && !is_judged(open, None))
        })
        .map(|open| open.finding.clone())
        .collect();
    if reading.verdict == Verdict::Approved && !still_open.is_empty() {
        reading.verdict = Verdict::ChangesRequested;
        reading.reason = format!(
            "{} However, {} earlier findings are still open or were not in the prompt.",
            reading.reason,
            still_open.len()
        );
    }
    reading.findings.extend(still_open);
    reading.with_summary_as_finding(threshold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Category;
    use crate::review_text::read;

    const FOUR_LINES: &str =
        "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: fine\n";
    const OWN_FORM: &str = "REVIEW_RESULT: approved\nSUMMARY: fine\n\n```json\n{\"findings\": [], \"previous\": []}\n```\n";
    const AUTOMAKER: &str = "{\"verdict\": \"pass\", \"issues\": [], \"summary\": \"fine\"}\n";

    fn finding(severity: Severity) -> Finding {
        Finding {
            severity,
            category: Category::Security,
            path: Some("a.rs".into()),
            line: None,
            text: "the key is in the log".into(),
            ..Finding::default()
        }
    }

    fn earlier(finding: &Finding) -> Earlier<'_> {
        Earlier {
            id: "f1",
            finding,
            outcome: Outcome::Addressed,
            prompt: PromptPresence::InPrompt,
            path: PathState::Changed,
        }
    }

    fn with_status(status: &str) -> String {
        OWN_FORM.replace(
            "[]}",
            &format!("[{{\"id\": \"f1\", \"status\": \"{status}\"}}]}}"),
        )
    }

    #[track_caller]
    fn settled(text: &str, open: Earlier<'_>) -> (Verdict, Option<(Outcome, Option<Resolution>)>) {
        let (reading, entries) = settle(read(text, Severity::Medium), &[open], Severity::Medium);
        assert_eq!(
            reading.verdict == Verdict::Unclear,
            !reading.missing.is_empty()
        );
        (
            reading.verdict,
            entries
                .first()
                .map(|entry| (entry.outcome, entry.resolution)),
        )
    }

    const DROPPED: Option<(Outcome, Option<Resolution>)> =
        Some((Outcome::Resolved, Some(Resolution::NotRaisedAgain)));
    const RESOLVED: Option<(Outcome, Option<Resolution>)> =
        Some((Outcome::Resolved, Some(Resolution::Judged)));

    #[test]
    fn an_approval_that_cannot_judge_closes_what_it_was_shown() {
        let high = finding(Severity::High);
        for text in [
            FOUR_LINES,
            "**Verdict: APPROVED**\n",
            "**[APPROVED]**\n",
            AUTOMAKER,
        ] {
            assert_eq!(
                settled(text, earlier(&high)),
                (Verdict::Approved, DROPPED),
                "{text}"
            );
        }
        assert_eq!(
            settled(OWN_FORM, earlier(&high)),
            (Verdict::Unclear, None),
            "our own form asks for each"
        );
        assert_eq!(
            settled(&with_status("resolved"), earlier(&high)),
            (Verdict::Approved, RESOLVED)
        );
    }

    #[test]
    fn what_is_disputed_untouched_or_unseen_needs_a_word() {
        let high = finding(Severity::High);
        let disputed = Earlier {
            outcome: Outcome::Disputed,
            ..earlier(&high)
        };
        let untouched = Earlier {
            path: PathState::Untouched,
            ..earlier(&high)
        };
        for open in [disputed, untouched] {
            for text in [FOUR_LINES, "**[APPROVED]**\n", AUTOMAKER, OWN_FORM] {
                assert_eq!(settled(text, open), (Verdict::Unclear, None), "{text}");
            }
            assert_eq!(
                settled(&with_status("resolved"), open),
                (Verdict::Approved, RESOLVED)
            );
        }
        let unseen = Earlier {
            prompt: PromptPresence::LeftOut,
            ..earlier(&high)
        };
        assert_eq!(
            settled(FOUR_LINES, unseen),
            (Verdict::ChangesRequested, None),
            "it is raised again"
        );
        assert_eq!(
            settled(&with_status("resolved"), unseen),
            (Verdict::Approved, RESOLVED)
        );
    }

    #[test]
    fn approved_while_an_earlier_finding_is_judged_open_is_not_approved() {
        let (high, low) = (finding(Severity::High), finding(Severity::Low));
        let (reading, entries) = settle(
            read(&with_status("open"), Severity::Medium),
            &[earlier(&high)],
            Severity::Medium,
        );
        assert_eq!(
            (reading.verdict, reading.raw_verdict),
            (Verdict::ChangesRequested, Some(Verdict::Approved))
        );
        assert_eq!((reading.findings, entries), (vec![high], Vec::new()));
        let open = Some((Outcome::Open, None));
        assert_eq!(
            settled(&with_status("open"), earlier(&low)),
            (Verdict::Approved, open),
            "it does not block"
        );
    }

    #[test]
    fn a_rejection_closes_nothing_that_it_should_have_judged() {
        let high = finding(Severity::High);
        let other = "- [HIGH] b.rs:1 - another\n\nREVIEW_RESULT: changes_requested\n";
        assert_eq!(
            settled(other, earlier(&high)),
            (Verdict::ChangesRequested, DROPPED)
        );
        let disputed = Earlier {
            outcome: Outcome::Disputed,
            ..earlier(&high)
        };
        assert_eq!(settled(other, disputed), (Verdict::ChangesRequested, None));
        let own = format!(
            "{other}\n```json\n{{\"findings\": [{{\"severity\": \"high\", \"text\": \"another\"}}]}}\n```\n"
        );
        assert_eq!(
            settled(&own, earlier(&high)),
            (Verdict::ChangesRequested, None)
        );
        assert_eq!(settled("Hm.\n", earlier(&high)).1, None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let high = finding(Severity::High);
        let (reading, _) = settle(
            read(OWN_FORM, Severity::Medium),
            &[earlier(&high)],
            Severity::Medium,
        );
        insta::assert_snapshot!(reading.reason, @"It approves but does not say whether these findings of earlier reviews are resolved: f1.");
        insta::assert_snapshot!(reading.missing[0], @"in `previous`: a status, resolved or open, for f1");
    }
}
