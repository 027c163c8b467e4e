//! A review, step by step: a read-only run on the head, whose verdict is bound to the head and base that it was given.

use std::path::PathBuf;

use super::launch::Launch;
use super::portions::was_told;
use super::stop::Stop;
use super::task::Task;
use crate::agent::{self, Phase};
use crate::blackboard::{self as bb, OpenFinding, ReviewDone};
use crate::clock;
use crate::finding::{Finding, Outcome, Severity, Verdict};
use crate::git::Worktree;
use crate::review::{Judgment, Reading, read};
use crate::work::{Ended, Run};

/// What a prompt shows of a diff is capped there; this is what is fetched.
pub(super) const DIFF_CAP: usize = 1024 * 1024;

impl Task {
    pub(super) async fn review(&self) -> Result<(), Stop> {
        loop {
            match self.runs().await?.last() {
                Some(run) if run.ended.is_none() => self.conclude(run, Phase::Review).await?,
                Some(run) if run.ended == Some(Ended::Agent) => {
                    if self.read_verdict(run).await? == Turn::Done {
                        return Ok(());
                    }
                }
                Some(_) | None => self.run_reviewer().await?,
            }
        }
    }

    async fn run_reviewer(&self) -> Result<(), Stop> {
        let agent = self.agent(Phase::Review)?;
        let worktree = self.ready_worktree().await?;
        let head = self.head_to_review(&worktree).await?;
        let base = self.base_of(&worktree, &head).await?;
        let diff = self.git.diff(&worktree.place, &base, &head, DIFF_CAP).await?;
        if diff.files.is_empty() {
            return Err(Stop::fail(
                format!(
                    "there is nothing to review: {} has no change against {}",
                    self.change.branch, self.change.base
                ),
                "an empty diff is no approval: commit the work, then retry",
            ));
        }
        let again = if self.item_now().await?.asked_again { Some(self.unclear(&agent).await?) } else { None };
        let session = agent.session(again.as_ref().and_then(|unclear| unclear.session.clone()));
        let prompt = self.review_prompt(&base, &head, &diff, again).await?;
        self.launch(Launch {
            phase: Phase::Review,
            agent: &agent,
            session,
            worktree: &worktree,
            base: &base,
            head: &head,
            prompt,
        })
        .await
    }

    /// Whatever the branch is at now is what is reviewed; a verdict on an older head would be worth nothing.
    async fn head_to_review(&self, worktree: &Worktree) -> Result<String, Stop> {
        let head = worktree.head.clone().ok_or_else(|| self.no_branch())?;
        if head != self.change.head {
            let (id, to) = (self.change.change_id.clone(), head.clone());
            self.write("move_head", move |conn| bb::move_head(conn, &id, &to, clock::now())).await?;
        }
        Ok(head)
    }

    async fn read_verdict(&self, run: &Run) -> Result<Turn, Stop> {
        self.go_on()?;
        let text = agent::answer(&PathBuf::from(&run.dir))?;
        let (change_id, run_id) = (self.change.change_id.clone(), run.run_id.clone());
        let (open, coverage) = self
            .read(move |conn| Ok((bb::open_findings(conn, &change_id)?, bb::coverage_of_run(conn, &run_id)?)))
            .await?;
        let threshold = self.rules.severity_threshold;
        let reading = with_open_findings(read(&text, threshold), &open, threshold);
        let (shown, unshown): (Vec<_>, Vec<_>) =
            open.into_iter().partition(|open| was_told(&coverage, open.finding_id.as_str()));
        let reading = keep_unshown(all_judged(reading, &shown, threshold), &unshown, threshold);
        let claim = self.claim.clone();
        if reading.verdict == Verdict::Unclear && !self.item_now().await?.asked_again {
            let unclear = bb::Unclear { run_id: run.run_id.clone(), reason: reading.reason, missing: reading.missing };
            self.write("ask_again", move |conn| {
                bb::discard_run(conn, &unclear.run_id)?;
                bb::ask_again(conn, &claim, &unclear, clock::now())
            })
            .await?;
            return Ok(Turn::Again);
        }
        let done = self.receipt(run, reading, text).await?;
        let change =
            self.write("finish_review", move |conn| bb::finish_review(conn, &claim, &done, clock::now())).await?;
        tracing::info!(item = %self.item.item_id, change = %change.change_id, state = %change.state, "review finished");
        Ok(Turn::Done)
    }

    /// What the reviewer was given, computed from the commit that the run began at.
    async fn receipt(&self, run: &Run, reading: Reading, body: String) -> Result<ReviewDone, Stop> {
        let worktree = self.git.look(&self.place()?).await?;
        let head = run.head_before.clone();
        let base = self.base_of(&worktree, &head).await?;
        let files = self.git.changed_files(&worktree.place, &base, &head).await?;
        let lines: u64 = files.iter().map(|file| file.added + file.deleted).sum();
        Ok(ReviewDone {
            tree: self.git.tree_of(&worktree.place, &head).await?,
            files: files.into_iter().map(|file| file.path).collect(),
            lines: i64::try_from(lines).unwrap_or(i64::MAX),
            head,
            base,
            verdict: reading.verdict,
            raw_verdict: reading.raw_verdict,
            dialect: reading.dialect.to_string(),
            reason: reading.reason,
            summary: reading.summary,
            body,
            findings: reading.findings,
            judged: reading.judged.into_iter().map(|judged| (judged.id, judged.outcome)).collect(),
            threshold: self.rules.severity_threshold,
            agent: run.agent.clone(),
            model: run.model.clone(),
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Again,
    Done,
}

/// An approval does not hold against a blocking finding that the reviewer itself judges to be still open: such a
/// finding is taken into the review.
fn with_open_findings(mut reading: Reading, open: &[OpenFinding], threshold: Severity) -> Reading {
    let still_open: Vec<Finding> = open
        .iter()
        .filter(|finding| finding.finding.severity.blocks_at(threshold))
        .filter(|finding| {
            reading.judged.iter().any(|j| j.id == finding.finding_id.as_str() && j.outcome == Outcome::Open)
        })
        .map(|finding| finding.finding.clone())
        .filter(|finding| !reading.findings.iter().any(|new| new.fingerprint() == finding.fingerprint()))
        .collect();
    if still_open.is_empty() {
        return reading;
    }
    if reading.verdict == Verdict::Approved {
        reading.verdict = Verdict::ChangesRequested;
        reading.reason =
            format!("{}; but {} earlier findings are judged to be still open", reading.reason, still_open.len());
    }
    reading.findings.extend(still_open);
    reading
}

/// An approval says of each blocking finding that the prompt showed what became of it; else it is unclear.
fn all_judged(mut reading: Reading, shown: &[OpenFinding], threshold: Severity) -> Reading {
    if reading.verdict != Verdict::Approved {
        return reading;
    }
    let unjudged: Vec<&str> = shown
        .iter()
        .filter(|open| open.finding.severity.blocks_at(threshold))
        .map(|open| open.finding_id.as_str())
        .filter(|id| !reading.judged.iter().any(|judged| judged.id == *id))
        .collect();
    if unjudged.is_empty() {
        return reading;
    }
    let unjudged = unjudged.join(", ");
    reading.verdict = Verdict::Unclear;
    reading.reason = format!("It approves, but does not say whether {unjudged} of earlier reviews are resolved.");
    reading.missing = vec![format!("in `previous`: a status, resolved or open, for {unjudged}")];
    reading
}

/// Findings that did not fit into the reviewer's prompt stay as they were, and no approval holds against a blocking one.
fn keep_unshown(mut reading: Reading, unshown: &[OpenFinding], threshold: Severity) -> Reading {
    let blocking: Vec<&Finding> =
        unshown.iter().map(|open| &open.finding).filter(|finding| finding.severity.blocks_at(threshold)).collect();
    if reading.verdict == Verdict::Approved && !blocking.is_empty() {
        reading.verdict = Verdict::ChangesRequested;
        reading.reason =
            format!("{}; but {} earlier findings did not fit into its prompt", reading.reason, blocking.len());
        reading.findings.extend(blocking.into_iter().cloned());
    }
    for open in unshown {
        let id = open.finding_id.as_str();
        if !reading.judged.iter().any(|judged| judged.id == id) {
            reading.judged.push(Judgment { id: id.to_owned(), outcome: open.outcome });
        }
    }
    reading
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Category, FindingId};

    fn finding(severity: Severity) -> OpenFinding {
        OpenFinding {
            finding_id: FindingId::new("f1"),
            finding: Finding {
                severity,
                category: Category::Security,
                path: Some("a.rs".into()),
                line: None,
                text: "the key is in the log".into(),
                suggestion: None,
            },
            outcome: Outcome::Addressed,
            note: None,
        }
    }

    fn says_nothing() -> Reading {
        let reading = read("REVIEW_RESULT: approved\nSUMMARY: fine\n", Severity::Medium);
        assert_eq!(reading.verdict, Verdict::Approved, "{}", reading.reason);
        reading
    }

    fn approved(outcome: Outcome) -> Reading {
        Reading { judged: vec![Judgment { id: "f1".into(), outcome }], ..says_nothing() }
    }

    #[test]
    fn approved_while_an_earlier_finding_is_judged_open_is_not_approved() {
        let high = [finding(Severity::High)];
        let judged_open = with_open_findings(approved(Outcome::Open), &high, Severity::Medium);
        assert_eq!(judged_open.verdict, Verdict::ChangesRequested);
        assert_eq!(judged_open.findings.len(), 1);
        let judged_resolved = with_open_findings(approved(Outcome::Resolved), &high, Severity::Medium);
        assert_eq!(judged_resolved.verdict, Verdict::Approved);
        let low = with_open_findings(approved(Outcome::Open), &[finding(Severity::Low)], Severity::Medium);
        assert_eq!(low.verdict, Verdict::Approved);
    }
    #[test]
    fn an_approval_that_passes_over_a_blocking_finding_is_unclear() {
        let verdict = |reading, severity| all_judged(reading, &[finding(severity)], Severity::Medium).verdict;
        assert_eq!(verdict(says_nothing(), Severity::Medium), Verdict::Unclear);
        assert_eq!(verdict(says_nothing(), Severity::Low), Verdict::Approved);
        assert_eq!(verdict(approved(Outcome::Resolved), Severity::High), Verdict::Approved);
        let unclear = all_judged(says_nothing(), &[finding(Severity::High)], Severity::Medium);
        assert!(unclear.missing[0].contains("f1") && unclear.reason.contains("f1"), "{unclear:?}");
    }

    #[test]
    fn what_was_not_shown_keeps_its_outcome() {
        let keep = |reading, severity| keep_unshown(reading, &[finding(severity)], Severity::Medium);
        let kept = keep(says_nothing(), Severity::Low);
        assert_eq!(kept.judged, [Judgment { id: "f1".into(), outcome: Outcome::Addressed }]);
        assert_eq!(kept.verdict, Verdict::Approved);
        assert_eq!(keep(approved(Outcome::Open), Severity::High).judged.len(), 1);
        let blocked = keep(says_nothing(), Severity::High);
        assert_eq!((blocked.verdict, blocked.findings.len()), (Verdict::ChangesRequested, 1));
    }
}
