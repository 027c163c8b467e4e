//! Pull requests and the comments on them, as the forge reports them. None of this is trusted: the
//! intake decides who may create work.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{ChangeId, ProjectId};
use crate::check::ChecksSummary;
use crate::clock::Time;
use crate::closed_enum::closed_enum;

closed_enum! {
    "pull request state" PullState {
        Open = "open",
        Closed = "closed",
        Merged = "merged",
    }
}

closed_enum! {
    /// Kind of account that wrote a comment. Names prove nothing: a user may be called
    /// `github-actions`.
    "author kind" AuthorKind {
        User = "user",
        Bot = "bot",
        /// An organization, or a kind unknown to remand.
        Other = "other",
    }
}

closed_enum! {
    "review state" ReviewState {
        Approved = "APPROVED",
        ChangesRequested = "CHANGES_REQUESTED",
        Commented = "COMMENTED",
        Dismissed = "DISMISSED",
        Pending = "PENDING",
    }
}

closed_enum! {
    /// Form in which our reviews are posted on a pull request.
    "review posting mode" PostReviews {
        RequestChanges = "request_changes",
        Comment = "comment",
        Off = "off",
    }
}

closed_enum! {
    /// Place on a pull request where a comment was made.
    "feedback kind" CommentKind {
        Review = "review",
        ReviewComment = "review_comment",
        IssueComment = "issue_comment",
        /// Guidance by the operator, not on a pull request.
        Person = "person",
    }
}

closed_enum! {
    /// Permission of an account on a repository, as reported by the forge.
    "permission" Permission {
        Admin = "admin",
        Maintain = "maintain",
        Write = "write",
        Triage = "triage",
        Read = "read",
        None = "none",
    }
}

closed_enum! {
    /// Outcome of a piece of feedback.
    "feedback outcome" FeedbackOutcome {
        Rejected = "rejected",
        Approved = "approved",
        /// Given to the next fix as context.
        Context = "context",
        Ours = "ours",
        /// Part of more feedback than a fix can be given.
        LeftOut = "left_out",
        /// An approval that does not count while another person requests changes.
        ObjectionStands = "objection_stands",
        /// Feedback about a commit that is no longer the head.
        OtherHead = "other_head",
        Dismissed = "dismissed",
        SaysNothing = "says_nothing",
        /// Part of a review that created no work.
        NoWork = "no_work",
        /// The pull request or the change has ended.
        PrOver = "pr_over",
        /// The author may not create work.
        NotTrusted = "not_trusted",
    }
}

closed_enum! {
    /// Reason for a failed read of a pull request.
    "read failure" ReadTrouble {
        Limited = "limited",
        NoGh = "no_gh",
        /// Not logged in, or the login is not accepted.
        LoggedOut = "logged_out",
        NotFound = "not_found",
        Refused = "refused",
        Transient = "transient",
        Broken = "broken",
        TooSlow = "too_slow",
        /// Read, but could not be stored.
        NotStored = "not_stored",
    }
}

closed_enum! {
    /// Permitted use of a comment.
    "trust" Trust {
        MayMakeWork = "may_make_work",
        /// Shown to people, never to an agent.
        ShownOnly = "shown_only",
        Ours = "ours",
    }
}

/// Permitted use of a comment, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TrustDecision {
    pub(crate) trust: Trust,
    pub(crate) reason: String,
    /// Set for a person, not for a bot. A person's feedback starts a new round of fixes.
    pub(crate) is_person: bool,
}

/// Account on the forge. The number identifies it; the name may belong to somebody else tomorrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Author {
    pub(crate) id: i64,
    pub(crate) login: String,
    pub(crate) kind: AuthorKind,
}

/// Pull request at the time it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pull {
    pub(crate) number: i64,
    pub(crate) title: String,
    /// Description by the author.
    #[serde(skip)]
    pub(crate) body: Option<String>,
    pub(crate) state: PullState,
    pub(crate) draft: bool,
    /// `None` if the account was deleted.
    pub(crate) author: Option<Author>,
    pub(crate) head_ref: String,
    pub(crate) head_sha: String,
    /// `owner/name` of the repository that contains the branch; `None` if it was deleted.
    pub(crate) head_repo: Option<String>,
    /// `owner/name` of the target repository, as the forge currently reports it.
    pub(crate) base_repo: String,
    /// Default branch of the repository, as the forge currently reports it. Nothing is ever pushed
    /// there.
    pub(crate) default_branch: String,
    pub(crate) base_ref: String,
    pub(crate) labels: Vec<String>,
    pub(crate) opened_at: String,
    pub(crate) updated_at: String,
    pub(crate) url: String,
}

/// Comment or review on a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Comment {
    pub(crate) kind: CommentKind,
    /// Number on the forge, unique within its kind.
    pub(crate) forge_id: i64,
    /// `None` if the account was deleted.
    pub(crate) author: Option<Author>,
    pub(crate) body: String,
    /// State of a review; `None` for comments.
    pub(crate) state: Option<ReviewState>,
    /// Commit that a review or an inline comment is about.
    pub(crate) commit: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<i64>,
    /// Lines of the diff above an inline comment.
    pub(crate) hunk: Option<String>,
    /// Review that an inline comment belongs to.
    pub(crate) review: Option<i64>,
    /// Inline comment that this one replies to.
    pub(crate) in_reply_to: Option<i64>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) url: String,
}

/// Pull request as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PullRow {
    pub(crate) project_id: ProjectId,
    pub(crate) number: i64,
    pub(crate) change_id: Option<ChangeId>,
    pub(crate) title: String,
    pub(crate) state: PullState,
    /// State that the change was last moved for.
    pub(crate) acted_on: Option<PullState>,
    pub(crate) draft: bool,
    pub(crate) author: Option<String>,
    /// `None` if the account was deleted, or if the pull request has not been read since this
    /// column exists.
    #[serde(skip)]
    pub(crate) author_id: Option<i64>,
    pub(crate) head_ref: String,
    pub(crate) head_sha: String,
    /// Date of the head commit; `None` if it was not requested.
    pub(crate) head_since: Option<Time>,
    /// `None` if the forge did not report it in a readable form.
    pub(crate) opened_at: Option<Time>,
    pub(crate) base_ref: String,
    pub(crate) labels: Vec<String>,
    pub(crate) url: String,
    /// Reason why the project's rules do not select it.
    pub(crate) passed_over: Option<String>,
    #[serde(skip)]
    pub(crate) etag: Option<String>,
    #[serde(skip)]
    pub(crate) marks: Value,
    pub(crate) read_at: Option<Time>,
    /// Id of the newest event when the last read started. Everything from that read is newer.
    #[serde(skip)]
    pub(crate) read_after: i64,
    pub(crate) next_read: Option<Time>,
    pub(crate) failures: i64,
    pub(crate) trouble: Option<String>,
    #[serde(skip)]
    pub(crate) trouble_kind: Option<ReadTrouble>,
    /// Number of consecutive fetches that timed out.
    #[serde(skip)]
    pub(crate) slow_reads: i64,
    /// Pages that such a fetch had read.
    #[serde(skip)]
    pub(crate) kept_pages: Value,
    #[serde(skip)]
    pub(crate) purpose: Purpose,
    /// Result of the checks of its head.
    pub(crate) checks: ChecksSummary,
    /// Reason why its checks cannot be read.
    pub(crate) checks_trouble: Option<String>,
}

/// Purpose of a pull request, as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// `None` if the pull request has no description.
    pub(crate) description: Option<Description>,
    /// Issue that the pull request claims to close.
    pub(crate) issue: Option<LinkedIssue>,
}

/// Description of a pull request by its author. Agents get it if its author may create work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) text: String,
    pub(crate) trust: Trust,
    /// Reason why it is trusted or not.
    pub(crate) reason: String,
}

/// Issue that a pull request closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum LinkedIssue {
    /// An issue that was read. Agents get it if its author may create work.
    Read {
        number: i64,
        title: String,
        body: String,
        trust: Trust,
        reason: String,
        etag: Option<String>,
    },
    Unread {
        number: i64,
        reason: String,
        /// Set if the issue is not requested again until the pull request changes.
        is_lasting: bool,
    },
}

/// Issue at the time it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) title: String,
    pub(crate) body: String,
    /// `None` if the account was deleted.
    pub(crate) author: Option<Author>,
    /// Set for a pull request, which the forge also treats as an issue.
    pub(crate) is_pull: bool,
    pub(crate) is_open: bool,
}

impl LinkedIssue {
    pub(crate) fn number(&self) -> i64 {
        match self {
            Self::Read { number, .. } | Self::Unread { number, .. } => *number,
        }
    }

    pub(crate) fn etag(&self) -> Option<&str> {
        match self {
            Self::Read { etag, .. } => etag.as_deref(),
            Self::Unread { .. } => None,
        }
    }

    /// True if the last attempt failed in a way that may be temporary.
    pub(crate) fn is_to_be_read(&self) -> bool {
        match self {
            Self::Read { .. } => false,
            Self::Unread { is_lasting, .. } => !is_lasting,
        }
    }
}

/// Comment or review as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Feedback {
    pub(crate) feedback_id: String,
    pub(crate) change_id: ChangeId,
    /// Kind and number on the forge, such as `review:77`.
    pub(crate) forge_id: String,
    pub(crate) author: String,
    pub(crate) author_id: Option<i64>,
    pub(crate) trust: Trust,
    pub(crate) trust_reason: Option<String>,
    pub(crate) is_person: bool,
    pub(crate) kind: CommentKind,
    pub(crate) state: Option<ReviewState>,
    pub(crate) commit: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<i64>,
    pub(crate) hunk: Option<String>,
    /// Number on the forge of the review that it belongs to.
    pub(crate) review: Option<i64>,
    pub(crate) in_reply_to: Option<i64>,
    pub(crate) url: Option<String>,
    pub(crate) body: String,
    pub(crate) created_at: Option<String>,
    pub(crate) taken_in: Time,
    pub(crate) outcome: Option<FeedbackOutcome>,
    /// Explanation of the outcome, if there is more to say.
    pub(crate) outcome_reason: Option<String>,
    pub(crate) event_id: Option<i64>,
}

/// Number of lines kept of a hunk. An inline comment is about the last of the lines above it.
const HUNK_LINES: usize = 12;

/// Maximum length of a line. A longer one is data or generated.
const HUNK_LINE_CHARS: usize = 300;

/// Returns the end of a hunk, which is the part that the comment below it is about. The forge sends
/// the whole hunk, of any size.
pub(crate) fn last_lines(hunk: &str) -> String {
    let lines: Vec<&str> = hunk.lines().rev().take(HUNK_LINES).collect();
    let short = |line: &&str| match line.char_indices().nth(HUNK_LINE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => (*line).to_owned(),
    };
    lines.iter().rev().map(short).collect::<Vec<_>>().join("\n")
}

impl Feedback {
    /// Returns the number on the forge.
    pub(crate) fn number(&self) -> Option<i64> {
        self.forge_id.split_once(':')?.1.parse().ok()
    }
}

impl Pull {
    /// True if the branch is in another repository, or deleted: nothing can be pushed there.
    pub(crate) fn is_fork(&self) -> bool {
        self.head_repo
            .as_ref()
            .is_none_or(|head| !head.eq_ignore_ascii_case(&self.base_repo))
    }
}

impl Comment {
    /// Returns the key used in every table and event: `review:77`.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.kind, self.forge_id)
    }
}

/// Returns the last line of every text that remand posts. The forge does not show it, but it can be
/// found there again.
pub(crate) fn marker_line(marker: &str) -> String {
    format!("{MARKER_OPENS}{marker}{MARKER_CLOSES}")
}

/// Returns the marker of a text posted by remand: its last line, exactly as posted. A person who
/// quotes such a text adds their own words after it, or has it behind a `>`.
pub(crate) fn marker_of(body: &str) -> Option<&str> {
    let last = body.trim_end().lines().next_back()?;
    last.strip_prefix(MARKER_OPENS)?.strip_suffix(MARKER_CLOSES)
}

/// True if a text was posted by this or another remand. Every marker has 32 hexadecimal digits.
pub(crate) fn is_by_a_remand(body: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    marker_of(body).is_some_and(|marker| marker.len() == 32 && marker.chars().all(is_digit))
}

const MARKER_OPENS: &str = "<!-- remand:";
const MARKER_CLOSES: &str = " -->";

impl Permission {
    /// Returns the weaker of two permissions.
    pub(crate) fn lesser(self, other: Self) -> Self {
        // Declared from the strongest to the weakest.
        self.max(other)
    }

    pub(crate) fn may_write(self) -> bool {
        match self {
            Self::Admin | Self::Maintain | Self::Write => true,
            Self::Triage | Self::Read | Self::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_hunk_the_last_lines_are_kept_and_long_ones_cut() {
        assert_eq!(last_lines("@@ -1 +1 @@\n+a\n"), "@@ -1 +1 @@\n+a");
        let numbered: Vec<String> = (1..=9000).map(|n| format!("+{n}")).collect();
        assert_eq!(
            last_lines(&numbered.join("\n")),
            numbered[8988..].join("\n")
        );
        let long = last_lines(&format!("+{}\n+end", "ü".repeat(500_000)));
        assert_eq!(long, format!("+{}…\n+end", "ü".repeat(299)));
    }

    #[test]
    fn a_marker_counts_only_where_a_remand_puts_it() {
        let marker = "0123456789abcdef0123456789abcdef";
        let line = marker_line(marker);
        for (body, expected) in [
            (format!("no\n\n{line}"), true),
            (format!("no\r\n\r\n{line}\r\n"), true),
            (line.clone(), true),
            (format!("> no\n>\n> {line}"), false),
            (format!("I agree\n\n> no\n>\n> {line}\n"), false),
            (format!("no\n\n{line}\n\nI say so too"), false),
            (format!("as in `{line}`"), false),
            (format!("    {line}"), false),
            (format!("```\n{line}\n```"), false),
            (line.replace('f', "F"), false),
            (line.replace('f', ""), false),
            (String::new(), false),
        ] {
            assert_eq!(is_by_a_remand(&body), expected, "{body:?}");
        }
        assert_eq!(marker_of(&format!("x\n{line}")), Some(marker));
    }
}
