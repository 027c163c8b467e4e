//! One read of a watched pull request: the pull request itself, then all comments, each page only if it changed. New
//! comments get a trust decision, and everything is stored in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::checks::{CheckMarks, Ends};
use super::read_failure::{Kind, REFUSALS, ReadFailure, SLOW_READS, too_slow, trouble};
use super::remote_head::ForgeHead;
use super::trust::{Known, Written, by_permission, known};
use super::{Intake, IntakeError, Result, Settings, waits};
use crate::blackboard::{self as bb, BoardError, Conn, FailedRead, Project};
use crate::change::{AdoptedBy, Change, ChangeId, State};
use crate::clock::{self, Time};
use crate::github::{Answer, CommentList, Fetch, Github, GithubError, KeptPages, Marks};
use crate::proposal::{Bound, Decision, Escalation, decision};
use crate::pull_request::{
    Author, Comment, CommentKind, Permission, Pull, PullRow, PullState, Trust, TrustDecision,
};

/// Interval and total time of reads of a closed pull request, which may be reopened.
pub(super) const CLOSED_EVERY: Duration = Duration::from_secs(15 * 60);
const CLOSED_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// Time for which a comment waits for its review after it was first seen. Its own date does not help: it may have been
/// a draft for hours.
const REVIEW_LAG: Duration = Duration::from_secs(10 * 60);

/// ETags of the pages of each list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ListMarks {
    reviews: Marks,
    review_comments: Marks,
    issue_comments: Marks,
    checks: CheckMarks,
    /// Comments that wait for their review, by number, with the time when each was first seen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    early: BTreeMap<i64, String>,
}

/// The forge's response.
struct Fetched {
    /// None: unchanged.
    pull: Option<(Pull, Option<String>)>,
    comments: Vec<Comment>,
    marks: ListMarks,
}

/// State before the forge was asked.
pub(super) struct Before {
    pub(super) change: Change,
    pub(super) project: Project,
    pub(super) repo: String,
    /// Known comments by key, with the time of their last update.
    known_comments: BTreeMap<String, String>,
    /// The newest event.
    newest: i64,
}

impl Intake {
    /// Reads a pull request and stores the result. Returns the number of new comments.
    pub(super) async fn read_pull(&self, row: &PullRow) -> Result<usize> {
        let Some(change_id) = row.change_id.clone() else {
            return Ok(0);
        };
        let begun = clock::now();
        let id = change_id.clone();
        let load = self.db.read(move |conn| {
            let change = bb::change(conn, &id)?;
            let project = bb::project(conn, &change.project_id)?;
            Ok(Before {
                known_comments: bb::known_comments(conn, &id)?,
                newest: bb::newest_event(conn)?,
                // A project without one has no pull requests to read; the forge would refuse the empty name.
                repo: project.repo.clone().unwrap_or_default(),
                change,
                project,
            })
        });
        let before = load.await?;
        let kept = serde_json::from_value(row.kept_pages.clone()).unwrap_or_default();
        let mut fetch = Github::begin_fetch(self.settings.fetch_limit, kept);
        let mut fetched = match self.fetch(&mut fetch, &before.repo, row).await {
            Ok(fetched) => fetched,
            Err(_) if fetch.is_over() => {
                self.keep_for_next_fetch(row, fetch).await?;
                return Ok(0);
            }
            Err(error) => return Err(error.into()),
        };
        let marks = marks(row);
        fetched.marks.early = keep_for_their_review(
            &mut fetched.comments,
            &before.known_comments,
            &marks.early,
            begun,
        );
        if !fetched.marks.early.is_empty() {
            fetched.marks.review_comments = marks.review_comments;
        }
        let comments = self.taken(&before, fetched.comments).await?;
        let pull = fetched.pull.as_ref().map(|(pull, _)| pull);
        let purpose = self.purpose(&fetch, &before.repo, pull, &row.purpose);
        let purpose = purpose.await?;
        let (state, shown) = match pull {
            Some(pull) => (pull.state, pull.head_sha.as_str()),
            None => (row.state, row.head_sha.as_str()),
        };
        let forge = ForgeHead {
            state,
            head: shown,
            new: &comments,
        };
        let head = self.actual_head(&before, row, &forge).await?;
        let is_open = state == PullState::Open && !before.change.state.is_over();
        let checks = if is_open {
            let ends = Ends {
                repo: &before.repo,
                head: &head,
                base: pull.map_or(row.base_ref.as_str(), |pull| pull.base_ref.as_str()),
            };
            let known = &fetched.marks.checks;
            // With its own time: looking up permissions is no part of it.
            let mut own = Github::begin_fetch(self.settings.fetch_limit, KeptPages::default());
            let read = Box::pin(self.checks(&mut own, &before, &ends, known)).await;
            match read {
                Ok((checks, marks)) => {
                    fetched.marks.checks = marks;
                    checks
                }
                Err(IntakeError::Github(_)) if own.is_over() => {
                    self.keep_for_next_fetch(row, fetch).await?;
                    return Ok(0);
                }
                Err(error) => return Err(error),
            }
        } else {
            None
        };
        let head_since = self.head_since(&before.repo, row, &head, &comments).await?;
        let read = bb::Read {
            change_id,
            passed_over: self.passed_over(&before.change, row, pull),
            pull: fetched.pull,
            purpose,
            head,
            comments,
            checks,
            head_since: head_since.map(|date| date.min(begun)),
            marks: serde_json::to_value(&fetched.marks).map_err(BoardError::from)?,
            begun,
            after: before.newest,
            next_read: self.settings.read_again(&before.change, row, state, begun),
            row: row.clone(),
            known_head: before.change.head,
        };
        let take_in = move |conn: &Conn| bb::take_in_pull(conn, &read, clock::now());
        Ok(self.db.write("read", take_in).await?)
    }

    /// Asks the forge for the pull request and all its lists, within the time of one fetch.
    async fn fetch(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        row: &PullRow,
    ) -> Result<Fetched, GithubError> {
        let (github, number, known) = (&self.github, row.number, marks(row));
        let etag = row.etag.as_deref();
        let pull = match github.pull_in(fetch, repo, number, etag).await? {
            Answer::New { value, etag } => Some((value, etag)),
            Answer::Unchanged => None,
        };
        // Reviews first: the comments of a review that is listed are listed too.
        let at = (repo, number);
        let (list, marks) = (CommentList::Reviews, &known.reviews);
        let reviews = github.comments_in(fetch, list, at, marks).await?;
        let (list, marks) = (CommentList::ReviewComments, &known.review_comments);
        let review_comments = github.comments_in(fetch, list, at, marks).await?;
        let (list, marks) = (CommentList::IssueComments, &known.issue_comments);
        let issue_comments = github.comments_in(fetch, list, at, marks).await?;
        let mut comments = reviews.items;
        comments.extend(review_comments.items);
        comments.extend(issue_comments.items);
        let marks = ListMarks {
            reviews: reviews.marks,
            review_comments: review_comments.marks,
            issue_comments: issue_comments.marks,
            checks: known.checks,
            early: BTreeMap::new(),
        };
        Ok(Fetched {
            pull,
            comments,
            marks,
        })
    }

    /// The forge was too slow: keeps the pages that were read, and the next fetch continues from there.
    async fn keep_for_next_fetch(&self, row: &PullRow, fetch: Fetch) -> bb::Result<()> {
        let kept = fetch.into_kept();
        let settings = &self.settings;
        let slow = too_slow(
            settings.fetch_limit,
            kept.len(),
            row.failures,
            settings.backoff(),
            clock::now(),
        );
        tracing::warn!(
            change = row.change_id.as_ref().map(ChangeId::as_str),
            number = row.number,
            pages = kept.len(),
            again_at = %slow.next_read,
            "pull request not read in time"
        );
        let (row, kept) = (row.clone(), serde_json::to_value(&kept)?);
        let keep = move |conn: &Conn| {
            if bb::unread_since(conn, &row)?.is_some() {
                bb::keep_pages(conn, &row, &kept)?;
            }
            put_off(conn, &row, &slow, clock::now())
        };
        self.db.write("put_off", keep).await
    }

    /// Returns new and changed comments with a trust decision for each. Our own posts are looked up after the forge was
    /// asked: any of them that it returned had been recorded before.
    async fn taken(
        &self,
        before: &Before,
        comments: Vec<Comment>,
    ) -> Result<Vec<(Comment, TrustDecision)>> {
        let id = &before.change.change_id;
        let ours = self.db.read_of(id, bb::our_posts).await?;
        let written = Written::new(ours, &comments);
        let (mut taken, mut seen) = (Vec::new(), BTreeSet::new());
        for comment in comments {
            if is_as_it_was(&comment, before) || !seen.insert(comment.key()) {
                continue;
            }
            let decision = if before.known_comments.contains_key(&comment.key()) {
                TrustDecision {
                    trust: Trust::ShownOnly,
                    reason: "decided when it was first read".to_owned(),
                    is_person: false,
                }
            } else {
                match known(&comment, &written, &self.settings.bots) {
                    Known::Decided(decision) => decision,
                    Known::Ask(author) => {
                        by_permission(self.permission(&before.repo, author).await?)
                    }
                }
            };
            taken.push((comment, decision));
        }
        Ok(taken)
    }

    /// Returns the date of the head's commit, if a new comment that names no commit needs it.
    async fn head_since(
        &self,
        repo: &str,
        row: &PullRow,
        head: &str,
        comments: &[(Comment, TrustDecision)],
    ) -> Result<Option<Time>, GithubError> {
        let is_known = row.head_since.is_some() && *head == row.head_sha;
        let is_needed = comments.iter().any(|(comment, decision)| {
            decision.trust == Trust::MayMakeWork && comment.commit.is_none()
        });
        if is_known || !is_needed {
            return Ok(None);
        }
        let date = self.github.commit_date(repo, head).await?;
        Ok(date.and_then(|date| Time::parse(&date).ok()))
    }

    /// Returns the cached permission of an account, or asks the forge.
    pub(super) async fn permission(&self, repo: &str, author: &Author) -> Result<Permission> {
        let (holds, id, name) = (self.settings.permission_holds, author.id, repo.to_owned());
        let known = move |conn: &Conn| bb::known_permission(conn, &name, id, holds, clock::now());
        if let Some(permission) = self.db.read(known).await? {
            return Ok(permission);
        }
        let asked_at = clock::now();
        let permission = self.github.permission(repo, author).await?;
        let (author, name) = (author.clone(), repo.to_owned());
        self.db
            .write("permission", move |conn| {
                bb::set_permission(conn, &name, &author, permission, asked_at)
            })
            .await?;
        Ok(permission)
    }

    /// Returns the reason if the discovery rules no longer accept the pull request. The rules do not apply to one that
    /// a person named.
    fn passed_over(&self, change: &Change, row: &PullRow, pull: Option<&Pull>) -> Option<String> {
        if change.adopted_by != Some(AdoptedBy::Discovery) {
            return None;
        }
        let discover = (self.settings.rules)(&row.project_id).discover?;
        match pull {
            Some(pull) => discover.passes_over(pull),
            None => discover.passes_over(row),
        }
    }

    pub(super) async fn fail_read(&self, row: &PullRow, error: &GithubError) -> bb::Result<()> {
        let backoff = self.settings.backoff();
        let trouble = trouble(error, row.failures, backoff, clock::now());
        tracing::warn!(
            change = row.change_id.as_ref().map(ChangeId::as_str),
            number = row.number,
            again_at = %trouble.next_read,
            error = %error,
            "cannot read a pull request"
        );
        self.put_off(row, trouble).await
    }

    pub(super) async fn put_off(&self, row: &PullRow, trouble: ReadFailure) -> bb::Result<()> {
        let row = row.clone();
        self.db
            .write("put_off", move |conn| {
                put_off(conn, &row, &trouble, clock::now())
            })
            .await
    }
}

/// The forge does not count a review's state as an update: reviews are always compared.
fn is_as_it_was(comment: &Comment, before: &Before) -> bool {
    let known = before.known_comments.get(&comment.key());
    comment.kind != CommentKind::Review
        && known.is_some_and(|updated_at| *updated_at == comment.updated_at)
}

/// Returns the stored marks. Pages whose marks cannot be parsed are fetched again.
fn marks(row: &PullRow) -> ListMarks {
    ListMarks::deserialize(&row.marks).unwrap_or_default()
}

/// Removes comments whose review is not listed yet: one that arrives between the two requests would be judged without
/// its review. Returns each with the time when it was first seen; while there are any, their list is requested again as
/// if it had not been read.
pub(super) fn keep_for_their_review(
    comments: &mut Vec<Comment>,
    known: &BTreeMap<String, String>,
    seen: &BTreeMap<i64, String>,
    now: Time,
) -> BTreeMap<i64, String> {
    let reviews = comments
        .iter()
        .filter(|one| one.kind == CommentKind::Review);
    let reviews: BTreeSet<String> = reviews.map(Comment::key).collect();
    let is_there = |review: i64| {
        let key = format!("{}:{review}", CommentKind::Review);
        reviews.contains(&key) || known.contains_key(&key)
    };
    let is_alone = |comment: &Comment| {
        comment.kind == CommentKind::ReviewComment
            && !known.contains_key(&comment.key())
            && comment.review.is_some_and(|review| !is_there(review))
    };
    let mut early = BTreeMap::new();
    comments.retain(|comment| {
        let first = seen
            .get(&comment.forge_id)
            .and_then(|first| Time::parse(first).ok());
        // If the clock was set back, the wait starts again.
        let first = first.filter(|first| *first <= now).unwrap_or(now);
        let is_early = is_alone(comment) && now.since(first) < REVIEW_LAG;
        if is_early {
            early.insert(comment.forge_id, first.to_string());
        }
        !is_early
    });
    early
}

impl Settings {
    /// Time of the next read, given the state that this read found.
    fn read_again(
        &self,
        change: &Change,
        row: &PullRow,
        state: PullState,
        now: Time,
    ) -> Option<Time> {
        match (state, change.state) {
            (PullState::Open, _) if row.acted_on == Some(PullState::Closed) => {
                Some(self.next_read(now))
            }
            (PullState::Merged, _) | (_, State::Merged) => None,
            (_, State::Closed) if now.since(change.updated_at) > CLOSED_FOR => None,
            (PullState::Closed, _) | (_, State::Closed) => Some(now.plus(CLOSED_EVERY)),
            (PullState::Open, _) => Some(self.next_read(now)),
        }
    }
}

fn put_off(conn: &Conn, row: &PullRow, trouble: &ReadFailure, now: Time) -> bb::Result<()> {
    let Some(found) = bb::unread_since(conn, row)? else {
        return Ok(());
    };
    let Some(change_id) = &found.change_id else {
        return Ok(());
    };
    let change = bb::change(conn, change_id)?;
    let matters = match trouble.kind {
        Kind::Holds | Kind::Refused => true,
        Kind::HoldsIfNeeded | Kind::TooSlow => waits(conn, &change)?,
    };
    let is_held_longer = change
        .held_until
        .is_some_and(|until| until > trouble.next_read);
    let failed = FailedRead {
        reason: trouble.reason.clone(),
        kind: trouble.code,
        next_read: trouble.next_read,
        holds: matters && !is_held_longer,
    };
    bb::fail_read(conn, &found, &failed, now)?;
    let is_again = found.failures + 1 >= REFUSALS && found.trouble_kind == Some(trouble.code);
    if change.state.is_over() || change.state == State::Escalated {
        return Ok(());
    }
    if trouble.kind == Kind::Refused && is_again {
        bb::escalate(conn, change_id, &refused(&change, &trouble.reason), now)?;
    }
    if trouble.kind == Kind::TooSlow && found.slow_reads >= SLOW_READS {
        let escalation = unread_in_time(&change, found.slow_reads, &trouble.reason);
        bb::escalate(conn, change_id, &escalation, now)?;
    }
    Ok(())
}

fn unread_in_time(change: &Change, times: i64, reason: &str) -> Escalation {
    let id = &change.change_id;
    Escalation::new(
        format!("the feedback on its PR could not be read in time, {times} times in a row: {reason}"),
        decision!(
            "if GitHub is slow or the PR is very long, raise `github.fetch_limit_s`; the change continues once \
             the PR is read, or immediately with {retry}; otherwise {cancel}",
            retry = Decision::retry(id),
            cancel = Decision::cancel(id),
        ),
    )
    .at_bound(Bound::Unreadable)
}

fn refused(change: &Change, reason: &str) -> Escalation {
    let id = &change.change_id;
    Escalation::new(
        format!("its PR cannot be read: {reason}"),
        decision!(
            "if it still exists, give gh's account access to it: the change continues once the PR is readable, \
             or immediately with {retry}; otherwise {cancel}",
            retry = Decision::retry(id),
            cancel = Decision::cancel(id),
        ),
    )
    .at_bound(Bound::Unreadable)
}
