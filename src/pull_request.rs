//! Pull requests and what is said on them, as the forge tells it. Nothing in here is trusted by being here: who may make
//! work is decided when it is taken in.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::change::{ChangeId, ProjectId};
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
    /// What kind of account wrote something. Names prove nothing: a user may be called `github-actions`.
    "author kind" AuthorKind {
        User = "user",
        Bot = "bot",
        /// An organization, or something that the forge has not had before.
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
    /// How a review of ours is put on a pull request.
    "way of posting reviews" PostReviews {
        RequestChanges = "request_changes",
        Comment = "comment",
        Off = "off",
    }
}

closed_enum! {
    /// Where on a pull request something was said.
    "feedback kind" SaidKind {
        Review = "review",
        ReviewComment = "review_comment",
        IssueComment = "issue_comment",
    }
}

closed_enum! {
    /// What somebody may do to a repository, as the forge says.
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
    /// The outcome of a piece of feedback.
    "feedback outcome" FeedbackOutcome {
        Rejected = "rejected",
        Approved = "approved",
        /// It is given to the next fix.
        Context = "context",
        Ours = "ours",
        /// It came with more than a fix can be given.
        LeftOut = "left_out",
        /// An approval that does not count while somebody else requests changes.
        ObjectionStands = "objection_stands",
        /// It is about a commit that is not the head any more.
        OtherHead = "other_head",
        Dismissed = "dismissed",
        SaysNothing = "says_nothing",
        /// It came with a review that made no work.
        NoWork = "no_work",
        /// The pull request or the change is over.
        PrOver = "pr_over",
        /// Its author may not make work.
        NotTrusted = "not_trusted",
    }
}

closed_enum! {
    /// The reason why a pull request could not be read.
    "trouble kind" ReadTrouble {
        Limited = "limited",
        NoGh = "no_gh",
        /// Not logged in, or the login is not accepted.
        LoggedOut = "logged_out",
        NotFound = "not_found",
        Refused = "refused",
        Transient = "transient",
        Broken = "broken",
        TooSlow = "too_slow",
        /// It was read, and could not be stored.
        NotStored = "not_stored",
    }
}

closed_enum! {
    /// What may come of something that was said.
    "trust" Trust {
        MayMakeWork = "may_make_work",
        /// For people to read, never for an agent.
        ShownOnly = "shown_only",
        Ours = "ours",
    }
}

/// An account of the forge. The number is the account; the name may be given to somebody else tomorrow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Author {
    pub(crate) id: i64,
    pub(crate) login: String,
    pub(crate) kind: AuthorKind,
}

/// A pull request at the moment of the look.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Pull {
    pub(crate) number: i64,
    pub(crate) title: String,
    /// The author's description.
    #[serde(skip)]
    pub(crate) body: Option<String>,
    pub(crate) state: PullState,
    pub(crate) draft: bool,
    /// None: the account is gone.
    pub(crate) author: Option<Author>,
    pub(crate) head_ref: String,
    pub(crate) head_sha: String,
    /// `owner/name` of the repository that the branch is in; none when it was deleted.
    pub(crate) head_repo: Option<String>,
    /// `owner/name` of the repository that it goes into, as the forge has it now.
    pub(crate) base_repo: String,
    /// That of the repository, as the forge has it now. Nothing is ever pushed there.
    pub(crate) default_branch: String,
    pub(crate) base_ref: String,
    pub(crate) labels: Vec<String>,
    pub(crate) opened_at: String,
    pub(crate) updated_at: String,
    pub(crate) url: String,
}

/// One thing that somebody said on a pull request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Comment {
    pub(crate) kind: SaidKind,
    /// Unique within its kind.
    pub(crate) forge_id: i64,
    /// None: the account is gone.
    pub(crate) author: Option<Author>,
    pub(crate) body: String,
    /// Of a review.
    pub(crate) state: Option<ReviewState>,
    /// The commit that a review or an inline comment is about.
    pub(crate) commit: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<i64>,
    /// The lines of the diff that an inline comment stands under.
    pub(crate) hunk: Option<String>,
    /// The review that an inline comment came with.
    pub(crate) review: Option<i64>,
    /// The inline comment that this one answers.
    pub(crate) in_reply_to: Option<i64>,
    pub(crate) created_at: String,
    pub(crate) updated_at: String,
    pub(crate) url: String,
}

/// A pull request that was seen, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PullRow {
    pub(crate) project_id: ProjectId,
    pub(crate) number: i64,
    pub(crate) change_id: Option<ChangeId>,
    pub(crate) title: String,
    pub(crate) state: PullState,
    /// The state that its change was last moved by.
    pub(crate) acted_on: Option<PullState>,
    pub(crate) draft: bool,
    pub(crate) author: Option<String>,
    /// None: the account is gone, or the pull request was not read since this is stored.
    #[serde(skip)]
    pub(crate) author_id: Option<i64>,
    pub(crate) head_ref: String,
    pub(crate) head_sha: String,
    /// The date of its commit; none: it was not asked for.
    pub(crate) head_since: Option<Time>,
    /// None: the forge did not say it in a way that can be read.
    pub(crate) opened_at: Option<Time>,
    pub(crate) base_ref: String,
    pub(crate) labels: Vec<String>,
    pub(crate) url: String,
    /// Why the project's rules do not take it.
    pub(crate) passed_over: Option<String>,
    #[serde(skip)]
    pub(crate) etag: Option<String>,
    #[serde(skip)]
    pub(crate) marks: Value,
    pub(crate) read_at: Option<Time>,
    /// The newest event when the last read began: what it brought is newer than that.
    #[serde(skip)]
    pub(crate) read_after: i64,
    pub(crate) next_read: Option<Time>,
    pub(crate) failures: i64,
    pub(crate) trouble: Option<String>,
    #[serde(skip)]
    pub(crate) trouble_kind: Option<ReadTrouble>,
    /// Fetches in a row that ran out of time.
    #[serde(skip)]
    pub(crate) slow_reads: i64,
    /// What such a fetch had read.
    #[serde(skip)]
    pub(crate) kept_pages: Value,
    #[serde(skip)]
    pub(crate) purpose: Purpose,
}

/// What a pull request is for, as it was stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// None: it has none.
    pub(crate) description: Option<Description>,
    /// The issue that it says it closes.
    pub(crate) issue: Option<LinkedIssue>,
}

/// What the author of a pull request wrote about it. Agents are given it if it may make work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Description {
    pub(crate) text: String,
    pub(crate) trust: Trust,
    /// Why it is trusted or not.
    pub(crate) reason: String,
}

/// An issue that a pull request closes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub(crate) enum LinkedIssue {
    /// Agents are given it if it may make work.
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
        /// Not asked for again before the pull request changes.
        is_lasting: bool,
    },
}

/// An issue at the moment of the look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issue {
    pub(crate) title: String,
    pub(crate) body: String,
    /// None: the account is gone.
    pub(crate) author: Option<Author>,
    /// Pull requests are issues to the forge.
    pub(crate) is_pull: bool,
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

    /// The last try failed in a way that may pass.
    pub(crate) fn is_to_be_read(&self) -> bool {
        match self {
            Self::Read { .. } => false,
            Self::Unread { is_lasting, .. } => !is_lasting,
        }
    }
}

/// Something that was said, as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Feedback {
    pub(crate) feedback_id: String,
    pub(crate) change_id: ChangeId,
    /// `review:77`
    pub(crate) forge_id: String,
    pub(crate) author: String,
    pub(crate) author_id: Option<i64>,
    pub(crate) trust: Trust,
    pub(crate) trust_reason: Option<String>,
    pub(crate) is_person: bool,
    pub(crate) kind: SaidKind,
    pub(crate) state: Option<ReviewState>,
    pub(crate) commit: Option<String>,
    pub(crate) path: Option<String>,
    pub(crate) line: Option<i64>,
    pub(crate) hunk: Option<String>,
    /// The review that it came with, by the forge's number.
    pub(crate) review: Option<i64>,
    pub(crate) in_reply_to: Option<i64>,
    pub(crate) url: Option<String>,
    pub(crate) body: String,
    pub(crate) created_at: Option<String>,
    pub(crate) taken_in: Time,
    pub(crate) outcome: Option<FeedbackOutcome>,
    /// The outcome in words, where there is more to say.
    pub(crate) outcome_reason: Option<String>,
    pub(crate) event_id: Option<i64>,
}

/// An inline comment is about the last of the lines that it stands under.
const HUNK_LINES: usize = 12;

/// A longer one is data or was made by a program.
const HUNK_LINE_CHARS: usize = 300;

/// What of a hunk belongs to the comment under it: the forge sends all of it, of any size.
pub(crate) fn last_lines(hunk: &str) -> String {
    let lines: Vec<&str> = hunk.lines().rev().take(HUNK_LINES).collect();
    let short = |line: &&str| match line.char_indices().nth(HUNK_LINE_CHARS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => (*line).to_owned(),
    };
    lines.iter().rev().map(short).collect::<Vec<_>>().join("\n")
}

impl Feedback {
    /// The forge's own number.
    pub(crate) fn number(&self) -> Option<i64> {
        self.forge_id.split_once(':')?.1.parse().ok()
    }
}

impl Pull {
    /// Its branch is in another repository, or nowhere: nothing can be pushed there.
    pub(crate) fn is_fork(&self) -> bool {
        self.head_repo
            .as_ref()
            .is_none_or(|head| !head.eq_ignore_ascii_case(&self.base_repo))
    }
}

impl Comment {
    /// The same in every table and event: `review:77`.
    pub(crate) fn key(&self) -> String {
        format!("{}:{}", self.kind, self.forge_id)
    }
}

/// What all that a remand posts ends with: not shown by the forge, and found there again.
pub(crate) fn marker_line(marker: &str) -> String {
    format!("{MARKER_OPENS}{marker}{MARKER_CLOSES}")
}

/// The marker of a text that a remand posted: its last line, as it was put there. Whoever quotes such a text writes words
/// of his own after it, or has it behind a `>`.
pub(crate) fn marker_of(body: &str) -> Option<&str> {
    let last = body.trim_end().lines().next_back()?;
    last.strip_prefix(MARKER_OPENS)?.strip_suffix(MARKER_CLOSES)
}

/// Whether a text was posted by a remand, this one or another: every marker is 32 hexadecimal digits.
pub(crate) fn is_by_a_remand(body: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    marker_of(body).is_some_and(|marker| marker.len() == 32 && marker.chars().all(is_digit))
}

const MARKER_OPENS: &str = "<!-- remand:";
const MARKER_CLOSES: &str = " -->";

impl Permission {
    /// The one of two permissions that allows less.
    pub(crate) fn lesser(self, other: Self) -> Self {
        // Declared from the most to the least.
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
