//! Checks of a commit: check runs and commit statuses, as the forge reports them, and what is known about each. None of
//! their text is trusted.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{self, Time};
use crate::closed_enum::closed_enum;

/// App that runs GitHub Actions.
const ACTIONS: &str = "github-actions";

/// Time after a rerun was requested during which the forge may still show the old result.
const RERUN_LAG: Duration = Duration::from_secs(10 * 60);

closed_enum! {
    /// Origin of a check.
    "check kind" CheckKind {
        /// Check run of an app.
        Run = "run",
        /// Commit status.
        Status = "status",
        /// Required check that nothing has reported for this commit.
        Missing = "missing",
    }
}

closed_enum! {
    /// Present result of a check.
    "check state" CheckState {
        Passing = "passing",
        Pending = "pending",
        Failing = "failing",
        /// Ended without a result: cancelled, or given up by the forge.
        Stopped = "stopped",
    }
}

closed_enum! {
    /// Result of all checks that count.
    "checks" ChecksSummary {
        /// The commit has no checks, and none are required.
        None = "none",
        Pending = "pending",
        Passing = "passing",
        Failing = "failing",
    }
}

closed_enum! {
    /// Request to run a check again.
    "rerun" Rerun {
        /// Not made yet.
        Open = "open",
        Done = "done",
        /// The forge does not allow it.
        Refused = "refused",
    }
}

closed_enum! {
    /// Evidence about a failing check: its result on the merge base, and its log.
    "evidence" Evidence {
        Wanted = "wanted",
        Read = "read",
    }
}

closed_enum! {
    /// Consequence that was drawn from a check of this commit.
    "check answer" CheckAnswer {
        /// It is part of a rejection.
        Rejected = "rejected",
        /// It fails on the merge base as well.
        NotOurs = "not_ours",
        /// A person was told that it does not appear, or has no result.
        Reported = "reported",
    }
}

closed_enum! {
    /// Treatment of checks that are not required.
    "optional_checks" OptionalChecks {
        Show = "show",
        Fix = "fix",
    }
}

/// Settings for the checks of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CheckSettings {
    /// Names of required checks, in addition to those that the forge reports.
    pub(crate) required: Vec<String>,
    pub(crate) optional: OptionalChecks,
    pub(crate) rerun_red: bool,
    /// Program and arguments that print the log of a check that is not a job of GitHub Actions; empty if there is none.
    pub(crate) log_command: Vec<String>,
}

/// Check as the forge reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReportedCheck {
    pub(crate) kind: CheckKind,
    pub(crate) name: String,
    /// Slug of the app; empty for a commit status.
    pub(crate) app: String,
    pub(crate) forge_id: i64,
    pub(crate) state: CheckState,
    /// Result or phase in the forge's own word.
    pub(crate) detail: String,
    pub(crate) url: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) completed_at: Option<String>,
}

/// Check of the head of a pull request, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) kind: CheckKind,
    pub(crate) name: String,
    pub(crate) app: String,
    /// Commit that it is about.
    pub(crate) head: String,
    #[serde(skip)]
    pub(crate) forge_id: Option<i64>,
    pub(crate) required: bool,
    /// Set if its result matters: it is required, or the settings make all checks matter.
    #[serde(skip)]
    pub(crate) counts: bool,
    pub(crate) state: CheckState,
    /// Result or phase in the forge's own word.
    pub(crate) detail: String,
    pub(crate) url: Option<String>,
    pub(crate) started_at: Option<String>,
    pub(crate) completed_at: Option<String>,
    /// Time when it was first seen for this commit, or first missed.
    pub(crate) seen_at: Time,
    /// Time since when it is failing or stopped.
    pub(crate) red_since: Option<Time>,
    /// Set if the settings allow a rerun.
    #[serde(skip)]
    pub(crate) may_rerun: bool,
    pub(crate) rerun: Option<Rerun>,
    #[serde(skip)]
    pub(crate) rerun_at: Option<Time>,
    /// Number of the check run that was run again.
    #[serde(skip)]
    pub(crate) reran_id: Option<i64>,
    #[serde(skip)]
    pub(crate) evidence: Option<Evidence>,
    /// Its result on the merge base; `None` if unknown.
    pub(crate) on_base: Option<CheckState>,
    /// End of the log of its failing step.
    #[serde(skip)]
    pub(crate) log: Option<String>,
    /// Reason why there is no log.
    #[serde(skip)]
    pub(crate) log_trouble: Option<String>,
    pub(crate) answer: Option<CheckAnswer>,
}

/// Result of asking for evidence about one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundEvidence {
    pub(crate) forge_id: i64,
    pub(crate) kind: CheckKind,
    pub(crate) on_base: Option<CheckState>,
    pub(crate) log: Option<String>,
    pub(crate) log_trouble: Option<String>,
}

/// Request of the forge to run checks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "number", rename_all = "snake_case")]
pub(crate) enum RerunCall {
    /// A check run, by its app.
    CheckRun(i64),
    /// One job of GitHub Actions.
    Job(i64),
    /// All failed jobs of one workflow run. The forge refuses a second job of a run that is under way.
    FailedJobs(i64),
}

/// Job of GitHub Actions and the workflow run that it is part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) id: i64,
    pub(crate) workflow_run: i64,
}

impl Check {
    /// Returns the job that the check run stands for: `…/actions/runs/7/job/8`.
    pub(crate) fn job(&self) -> Option<Job> {
        if self.app != ACTIONS || self.kind != CheckKind::Run {
            return None;
        }
        let (_, rest) = self.url.as_deref()?.split_once("/actions/runs/")?;
        let (run, job) = rest.split_once("/job/")?;
        let digits = job.split(|c: char| !c.is_ascii_digit()).next()?;
        Some(Job {
            id: digits.parse().ok()?,
            workflow_run: run.parse().ok()?,
        })
    }

    /// True while its result may be replaced by that of a rerun that was requested.
    pub(crate) fn is_rerunning(&self, now: Time) -> bool {
        match self.rerun {
            None | Some(Rerun::Refused) => false,
            Some(Rerun::Open) => true,
            Some(Rerun::Done) => {
                let is_old = self.forge_id == self.reran_id;
                let lag_ends = self.rerun_at.map(|at| at.plus(RERUN_LAG));
                is_old && lag_ends.is_some_and(|ends| !clock::is_due(ends, now, RERUN_LAG))
            }
        }
    }

    /// True if a result is still to come.
    pub(crate) fn is_open(&self, now: Time) -> bool {
        self.state == CheckState::Pending || (self.is_red() && self.is_rerunning(now))
    }

    /// True if it is failing, or has stopped without a result.
    pub(crate) fn is_red(&self) -> bool {
        self.state.is_red()
    }

    /// Describes it in one line: name, origin and state.
    pub(crate) fn line(&self) -> String {
        let by = match (self.kind, self.app.as_str()) {
            (CheckKind::Run, app) if !app.is_empty() => format!(" ({app})"),
            (CheckKind::Run | CheckKind::Status | CheckKind::Missing, _) => String::new(),
        };
        let need = if self.required {
            "required"
        } else {
            "optional"
        };
        let state = match (self.kind, self.state, self.rerun) {
            (CheckKind::Missing, _, _) => "not reported yet".to_owned(),
            (_, state, Some(Rerun::Open)) => format!("{state}, {}, to be rerun", self.detail),
            (_, state, Some(Rerun::Done)) => format!("{state}, {}, rerun once", self.detail),
            (_, state, None | Some(Rerun::Refused)) if state.as_str() == self.detail => {
                self.detail.clone()
            }
            (_, state, None | Some(Rerun::Refused)) => format!("{state}, {}", self.detail),
        };
        let not_ours = match self.answer {
            Some(CheckAnswer::NotOurs) => "; it fails on the merge base too",
            Some(CheckAnswer::Rejected | CheckAnswer::Reported) | None => "",
        };
        format!("{}{by}: {state}, {need}{not_ours}", self.name)
    }
}

/// Returns the state for the conclusion of a completed check run. A word that is not known yet is no result.
pub(crate) fn state_of_conclusion(conclusion: &str) -> CheckState {
    match conclusion {
        "success" | "neutral" | "skipped" => CheckState::Passing,
        "failure" | "timed_out" | "action_required" | "startup_failure" => CheckState::Failing,
        _ => CheckState::Stopped,
    }
}

/// Returns the state for that of a commit status.
pub(crate) fn state_of_status(state: &str) -> CheckState {
    match state {
        "success" => CheckState::Passing,
        "failure" | "error" => CheckState::Failing,
        "pending" => CheckState::Pending,
        _ => CheckState::Stopped,
    }
}

/// Returns the result of all checks together.
pub(crate) fn summary(checks: &[Check]) -> ChecksSummary {
    if checks.is_empty() {
        return ChecksSummary::None;
    }
    let mut counted = checks.iter().filter(|check| check.counts);
    if counted.clone().any(Check::is_red) {
        ChecksSummary::Failing
    } else if counted.any(|check| check.state == CheckState::Pending) {
        ChecksSummary::Pending
    } else {
        ChecksSummary::Passing
    }
}

impl CheckState {
    /// True for a result that prevents a merge.
    pub(crate) fn is_red(self) -> bool {
        matches!(self, Self::Failing | Self::Stopped)
    }
}

impl ChecksSummary {
    /// True if no check prevents a merge.
    pub(crate) fn is_green(self) -> bool {
        match self {
            Self::None | Self::Passing => true,
            Self::Pending | Self::Failing => false,
        }
    }
}

/// Maximum number of bytes that are kept of a log.
pub(crate) const LOG_BYTES: usize = 64 * 1024;

/// Finds the end of the failing step in the log of a job of GitHub Actions, as the log arrives. The steps that clean up
/// after it are not kept.
#[derive(Debug, Default)]
pub(crate) struct FailingStep {
    /// Last bytes so far.
    tail: Vec<u8>,
    /// Last bytes up to the newest error.
    at_error: Option<Vec<u8>>,
    /// Start of a line that has not ended yet.
    line: Vec<u8>,
}

/// Command by which a step reports an error, in a line of the log.
const ERROR: &[u8] = b"##[error]";

/// Maximum bytes of a line; the rest is dropped.
const LINE_BYTES: usize = 8 * 1024;

impl FailingStep {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES.saturating_sub(self.line.len());
            let kept = part.get(..part.len().min(room)).unwrap_or_default();
            self.line.extend_from_slice(kept);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        self.tail.extend_from_slice(&line);
        // Not at every line: moving the rest to the front is slow.
        if self.tail.len() > 2 * LOG_BYTES {
            keep_end(&mut self.tail);
        }
        if crate::secret_scan::position(&line, ERROR).is_some() {
            let mut until_here = self.tail.clone();
            keep_end(&mut until_here);
            self.at_error = Some(until_here);
        }
    }

    /// Returns the end of the failing step, or of the log if no step reported an error.
    pub(crate) fn end(mut self) -> Vec<u8> {
        if !self.line.is_empty() {
            self.end_line();
        }
        let mut tail = self.at_error.unwrap_or(self.tail);
        keep_end(&mut tail);
        tail
    }
}

/// Removes all but the last bytes, at the start of a line.
fn keep_end(bytes: &mut Vec<u8>) {
    let Some(over) = bytes.len().checked_sub(LOG_BYTES).filter(|over| *over > 0) else {
        return;
    };
    let rest = bytes.get(over..).unwrap_or_default();
    let to_line = rest
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    bytes.drain(..over + to_line);
}

/// Returns the last bytes of a log, from the start of a line.
pub(crate) fn end_of_log(log: &str, room: usize) -> &str {
    let over = log.len().saturating_sub(room);
    if over == 0 {
        return log;
    }
    let rest = log.get(log.ceil_char_boundary(over)..).unwrap_or_default();
    rest.split_once('\n').map_or(rest, |(_, lines)| lines)
}

/// Removes the escape sequences by which programs colour their output, and the carriage returns of progress bars.
pub(crate) fn without_ansi(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.next() {
                // A control sequence ends with a letter or one of a few signs.
                Some('[') => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                // A command to the terminal ends with a bell, or with ESC and a backslash.
                Some(']') => {
                    while let Some(c) = chars.next() {
                        if c == '\u{7}' || c == '\n' {
                            break;
                        }
                        if c == '\u{1b}' {
                            chars.next_if_eq(&'\\');
                            break;
                        }
                    }
                }
                Some(_) | None => {}
            },
            '\u{9b}' => while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
            '\r' => {}
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(state: CheckState) -> Check {
        Check {
            kind: CheckKind::Run,
            name: "test".into(),
            app: ACTIONS.into(),
            head: "aa".into(),
            forge_id: Some(7),
            required: true,
            counts: true,
            state,
            detail: state.to_string(),
            url: Some("https://github.com/o/r/actions/runs/70/job/7?pr=1".into()),
            started_at: None,
            completed_at: None,
            seen_at: Time::from_millis(0),
            red_since: None,
            may_rerun: true,
            rerun: None,
            rerun_at: None,
            reran_id: None,
            evidence: None,
            on_base: None,
            log: None,
            log_trouble: None,
            answer: None,
        }
    }

    #[test]
    fn the_words_of_the_forge() {
        for (conclusion, state) in [
            ("success", CheckState::Passing),
            ("neutral", CheckState::Passing),
            ("skipped", CheckState::Passing),
            ("failure", CheckState::Failing),
            ("timed_out", CheckState::Failing),
            ("action_required", CheckState::Failing),
            ("startup_failure", CheckState::Failing),
            ("cancelled", CheckState::Stopped),
            ("stale", CheckState::Stopped),
            ("a word of next year", CheckState::Stopped),
        ] {
            assert_eq!(state_of_conclusion(conclusion), state, "{conclusion}");
        }
        for (status, state) in [
            ("success", CheckState::Passing),
            ("pending", CheckState::Pending),
            ("failure", CheckState::Failing),
            ("error", CheckState::Failing),
        ] {
            assert_eq!(state_of_status(status), state, "{status}");
        }
    }

    #[test]
    fn only_checks_that_count_are_summed_up() {
        let optional = |state| Check {
            counts: false,
            ..of(state)
        };
        let (red, green) = (of(CheckState::Failing), of(CheckState::Passing));
        for (checks, expected) in [
            (vec![], ChecksSummary::None),
            (vec![optional(CheckState::Failing)], ChecksSummary::Passing),
            (vec![green.clone()], ChecksSummary::Passing),
            (
                vec![green.clone(), of(CheckState::Pending)],
                ChecksSummary::Pending,
            ),
            (vec![red, of(CheckState::Pending)], ChecksSummary::Failing),
            (vec![of(CheckState::Stopped), green], ChecksSummary::Failing),
        ] {
            assert_eq!(summary(&checks), expected, "{checks:?}");
        }
    }

    #[test]
    fn a_job_is_known_by_the_address_of_its_check() {
        let job = Job {
            id: 7,
            workflow_run: 70,
        };
        let check = of(CheckState::Failing);
        assert_eq!(check.job(), Some(job));
        let other = |app: &str, url: &str| Check {
            app: app.into(),
            url: Some(url.into()),
            ..of(CheckState::Failing)
        };
        assert_eq!(
            other("circleci", "https://x/actions/runs/70/job/7").job(),
            None
        );
        assert_eq!(other(ACTIONS, "https://github.com/o/r/runs/7").job(), None);
    }

    #[test]
    fn the_end_of_the_failing_step_is_kept_and_not_what_follows() {
        let mut step = FailingStep::default();
        step.push("noise\n".repeat(100_000).as_bytes());
        step.push(b"assertion fai");
        step.push(b"led\n##[error]Process completed with exit code 1.\n");
        step.push("Post job cleanup.\n".repeat(100_000).as_bytes());
        let kept = String::from_utf8(step.end()).unwrap();
        assert!(kept.len() <= LOG_BYTES, "{}", kept.len());
        let end = "noise\nassertion failed\n##[error]Process completed with exit code 1.\n";
        assert!(kept.starts_with("noise\n") && kept.ends_with(end));

        let mut endless = FailingStep::default();
        for _ in 0..1_000 {
            endless.push(&[b'x'; 1024]);
        }
        assert!(endless.end().len() <= LINE_BYTES + 1);
    }

    #[test]
    fn escape_sequences_are_removed() {
        for (text, plain) in [
            ("\u{1b}[1;31mred\u{1b}[0m\r\n", "red\n"),
            ("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\b", "ab"),
            ("50%\r100%\n", "50%100%\n"),
            ("\u{9b}2Jc\u{1b}", "c"),
        ] {
            assert_eq!(without_ansi(text), plain);
        }
    }
}
