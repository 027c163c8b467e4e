//! One read of a watched pull request: the pull request itself, then all that is said on it, each page only if it
//! changed. What is new gets its trust, and everything is stored in one step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::read_failure::{Kind, REFUSALS, ReadFailure, SLOW_READS, too_slow, trouble};
use super::remote_head::ForgeHead;
use super::trust::{Decision, Known, Written, by_permission, known};
use super::{Intake, IntakeError, waits};
use crate::blackboard::{self as bb, BoardError, Conn, FailedRead, NewFeedback, Project};
use crate::change::{AdoptedBy, Change, ChangeId, State};
use crate::clock::{self, Time};
use crate::github::{Answer, Fetch, Github, GithubError, KnownPull, Marks};
use crate::proposal::{self, Bound, Escalation, decision};
use crate::pull_request::{Author, Comment, Permission, Pull, PullRow, PullState, SaidKind, Trust};

/// A pull request that was closed may be opened again: it is read this often, for so long.
pub(super) const CLOSED_EVERY: Duration = Duration::from_secs(15 * 60);
const CLOSED_FOR: Duration = Duration::from_secs(14 * 24 * 60 * 60);

/// For so long after it was first seen a comment waits for the review that it came with. When it was typed says nothing:
/// it may have been a draft for hours.
const REVIEW_LAG: Duration = Duration::from_secs(10 * 60);

/// What is known of the pages of each list.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct ListMarks {
    reviews: Marks,
    review_comments: Marks,
    issue_comments: Marks,
    /// Comments that wait for their review, by number, and when each was first seen.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    early: BTreeMap<i64, String>,
}

/// What the forge answered.
struct Fetched {
    /// None: as it was.
    pull: Option<(Pull, Option<String>)>,
    said: Vec<Comment>,
    marks: ListMarks,
}

/// What was known before the forge was asked.
pub(super) struct Before {
    pub(super) change: Change,
    pub(super) project: Project,
    repo: String,
    /// What was said, by its key, and when it was last updated.
    said: BTreeMap<String, String>,
    /// The newest event.
    newest: i64,
}

impl Intake {
    /// Reads and stores; how many things that were said are new, or why it could not be read.
    pub(super) async fn read_pull(&self, row: &PullRow) -> Result<usize, IntakeError> {
        let Some(change_id) = row.change_id.clone() else {
            return Ok(0);
        };
        let begun = clock::now();
        let id = change_id.clone();
        let before = self.db.read(move |conn| before(conn, &id)).await?;
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
        fetched.marks.early =
            keep_for_their_review(&mut fetched.said, &before.said, &marks.early, begun);
        if !fetched.marks.early.is_empty() {
            fetched.marks.review_comments = marks.review_comments;
        }
        let said = self.taken(&before, fetched.said).await?;
        let pull = fetched.pull.as_ref().map(|(pull, _)| pull);
        let purpose = self
            .purpose(&fetch, &before.repo, pull, &row.purpose)
            .await?;
        let (state, shown) = match &fetched.pull {
            Some((pull, _)) => (pull.state, pull.head_sha.as_str()),
            None => (row.state, row.head_sha.as_str()),
        };
        let head = self
            .actual_head(
                &before,
                row,
                &ForgeHead {
                    state,
                    head: shown,
                    new: &said,
                },
            )
            .await?;
        let head_since = self.head_since(&before.repo, row, &head, &said).await?;
        let head_since = head_since.map(|date| date.min(begun));
        let next = self.settings.next_read(begun);
        let is_reopened = state == PullState::Open && row.acted_on == Some(PullState::Closed);
        let read = bb::Read {
            project_id: row.project_id.clone(),
            number: row.number,
            change_id,
            passed_over: self.passed_over(
                &before.change,
                row,
                fetched.pull.as_ref().map(|(pull, _)| pull),
            ),
            pull: fetched.pull,
            purpose,
            head,
            said,
            head_since,
            marks: serde_json::to_value(&fetched.marks).map_err(BoardError::from)?,
            begun,
            after: before.newest,
            next_read: if is_reopened {
                Some(next)
            } else {
                next_read(&before.change, state, next, begun)
            },
        };
        let (row, known_head) = (row.clone(), before.change.head);
        let stored = self
            .db
            .write("read", move |conn| {
                store(conn, &row, &known_head, read, clock::now())
            })
            .await?;
        Ok(stored)
    }

    async fn fetch(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        row: &PullRow,
    ) -> Result<Fetched, GithubError> {
        let ListMarks {
            reviews,
            review_comments,
            issue_comments,
            ..
        } = marks(row);
        let known = KnownPull {
            etag: row.etag.as_deref(),
            reviews,
            review_comments,
            issue_comments,
        };
        let read = self
            .github
            .feedback(fetch, repo, row.number, &known)
            .await?;
        let pull = match read.pull {
            Answer::New { value, etag } => Some((value, etag)),
            Answer::Unchanged => None,
        };
        let mut said = read.reviews.items;
        said.extend(read.review_comments.items);
        said.extend(read.issue_comments.items);
        let marks = ListMarks {
            reviews: read.reviews.marks,
            review_comments: read.review_comments.marks,
            issue_comments: read.issue_comments.marks,
            early: BTreeMap::new(),
        };
        Ok(Fetched { pull, said, marks })
    }

    /// The forge was too slow: the pages that were read are kept, and the next fetch goes on from there.
    async fn keep_for_next_fetch(&self, row: &PullRow, fetch: Fetch) -> bb::Result<()> {
        let kept = fetch.into_kept();
        let backoff = (self.settings.backoff_first, self.settings.backoff_max);
        let slow = too_slow(
            self.settings.fetch_limit,
            kept.len(),
            row.failures,
            backoff,
            clock::now(),
        );
        tracing::warn!(
            change = row.change_id.as_ref().map(ChangeId::as_str),
            number = row.number,
            pages = kept.len(),
            again_at = %slow.next_read,
            "a pull request could not be read in time"
        );
        let (row, kept) = (row.clone(), serde_json::to_value(&kept)?);
        let keep = move |conn: &Conn| {
            if unread(conn, &row)?.is_some() {
                bb::keep_pages(conn, &row, &kept)?;
            }
            put_off(conn, &row, &slow, clock::now())
        };
        self.db.write("put_off", keep).await
    }

    /// What is new or was changed, with what may come of it. What is ours is looked up after the forge was asked: what
    /// was there by then was written down before.
    async fn taken(
        &self,
        before: &Before,
        said: Vec<Comment>,
    ) -> Result<Vec<NewFeedback>, IntakeError> {
        let id = before.change.change_id.clone();
        let ours = self.db.read(move |conn| bb::our_posts(conn, &id)).await?;
        let written = Written::new(ours, &said);
        let (mut taken, mut seen) = (Vec::new(), BTreeSet::new());
        for said in said.into_iter().filter(|said| !is_as_it_was(said, before)) {
            if !seen.insert(said.key()) {
                continue;
            }
            let Decision {
                trust,
                reason,
                is_person,
            } = if before.said.contains_key(&said.key()) {
                let reason = "it was decided when it was taken in".to_owned();
                Decision {
                    trust: Trust::ShownOnly,
                    reason,
                    is_person: false,
                }
            } else {
                match known(&said, &written, &self.settings.bots) {
                    Known::Decided(decision) => decision,
                    Known::Ask(author) => {
                        by_permission(self.permission(&before.repo, author).await?)
                    }
                }
            };
            taken.push(NewFeedback {
                said,
                trust,
                reason,
                is_person,
            });
        }
        Ok(taken)
    }

    /// The date of the head's commit, if something new needs it that does not say which commit it is about.
    async fn head_since(
        &self,
        repo: &str,
        row: &PullRow,
        head: &str,
        said: &[NewFeedback],
    ) -> Result<Option<Time>, GithubError> {
        let is_known = row.head_since.is_some() && *head == row.head_sha;
        let needs_it =
            |taken: &NewFeedback| taken.trust == Trust::MayMakeWork && taken.said.commit.is_none();
        if is_known || !said.iter().any(needs_it) {
            return Ok(None);
        }
        let date = self.github.commit_date(repo, head).await?;
        Ok(date.and_then(|date| Time::parse(&date).ok()))
    }

    /// As it was last answered, if that still holds; else the forge is asked.
    pub(super) async fn permission(
        &self,
        repo: &str,
        author: &Author,
    ) -> Result<Permission, IntakeError> {
        let (holds, id, name) = (self.settings.permission_holds, author.id, repo.to_owned());
        let known = self
            .db
            .read(move |conn| bb::known_permission(conn, &name, id, holds, clock::now()))
            .await?;
        if let Some(permission) = known {
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

    /// Whether the rules that took it over still do. What a person named is not theirs to judge.
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
        let backoff = (self.settings.backoff_first, self.settings.backoff_max);
        let trouble = trouble(error, row.failures, backoff, clock::now());
        tracing::warn!(
            change = row.change_id.as_ref().map(ChangeId::as_str),
            number = row.number,
            again_at = %trouble.next_read,
            error = %error,
            "a pull request could not be read"
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

fn before(conn: &Conn, id: &ChangeId) -> bb::Result<Before> {
    let change = bb::change(conn, id)?;
    // A project without one has no pull requests to read; the forge would refuse the empty name.
    let project = bb::project(conn, &change.project_id)?;
    let repo = project.repo.clone().unwrap_or_default();
    Ok(Before {
        said: bb::known_said(conn, id)?,
        newest: bb::newest_event(conn)?,
        change,
        project,
        repo,
    })
}

/// A review's state is no update to the forge: reviews are always looked at.
fn is_as_it_was(said: &Comment, before: &Before) -> bool {
    let known = before.said.get(&said.key());
    said.kind != SaidKind::Review && known.is_some_and(|updated_at| *updated_at == said.updated_at)
}

/// What cannot be read of them is asked for again.
fn marks(row: &PullRow) -> ListMarks {
    ListMarks::deserialize(&row.marks).unwrap_or_default()
}

/// A comment that came between the two questions is there without its review, and judged alone it would be lost to it.
/// Such are left out, with when each was first seen; while there are any, their list is asked for again as if it had not
/// been read.
pub(super) fn keep_for_their_review(
    said: &mut Vec<Comment>,
    known: &BTreeMap<String, String>,
    seen: &BTreeMap<i64, String>,
    now: Time,
) -> BTreeMap<i64, String> {
    let reviews: BTreeSet<i64> = said
        .iter()
        .filter(|said| said.kind == SaidKind::Review)
        .map(|said| said.forge_id)
        .collect();
    let is_there = |review: i64| {
        reviews.contains(&review) || known.contains_key(&format!("{}:{review}", SaidKind::Review))
    };
    let is_alone = |said: &Comment| {
        said.kind == SaidKind::ReviewComment
            && !known.contains_key(&said.key())
            && said.review.is_some_and(|review| !is_there(review))
    };
    let mut early = BTreeMap::new();
    said.retain(|said| {
        let first = seen
            .get(&said.forge_id)
            .and_then(|first| Time::parse(first).ok());
        // A clock that was set back begins anew.
        let first = first.filter(|first| *first <= now).unwrap_or(now);
        let is_early = is_alone(said) && now.since(first) < REVIEW_LAG;
        if is_early {
            early.insert(said.forge_id, first.to_string());
        }
        !is_early
    });
    early
}

fn next_read(change: &Change, state: PullState, next: Time, now: Time) -> Option<Time> {
    match (state, change.state) {
        (PullState::Merged, _) | (_, State::Merged) => None,
        (_, State::Closed) if now.since(change.updated_at) > CLOSED_FOR => None,
        (PullState::Closed, _) | (_, State::Closed) => Some(now.plus(CLOSED_EVERY)),
        (PullState::Open, _) => Some(next),
    }
}

/// The row, if it is what the read began with: another process may have read it meanwhile, and knows more.
fn unread(conn: &Conn, row: &PullRow) -> bb::Result<Option<PullRow>> {
    let found = bb::pull_row(conn, &row.project_id, row.number)?;
    Ok(found.filter(|found| found.read_at == row.read_at && found.change_id == row.change_id))
}

/// `known_head` is the head that the read began with.
fn store(
    conn: &Conn,
    row: &PullRow,
    known_head: &str,
    mut read: bb::Read,
    now: Time,
) -> bb::Result<usize> {
    let Some(found) = unread(conn, row)? else {
        return Ok(0);
    };
    // Dispatch moved the head during the read: what was read may be older. It stays due, and is read again.
    if bb::change(conn, &read.change_id)?.head != known_head {
        return Ok(0);
    }
    // Somebody asked for a read while this one was under way: it may have come too early for him.
    if found.next_read != row.next_read && read.next_read.is_some() {
        read.next_read = read.next_read.min(found.next_read);
    }
    let new = bb::take_in_pull(conn, &read, now)?;
    if found.trouble.is_some() {
        bb::end_read_hold(conn, &read.change_id, now)?;
        bb::seen_again(conn, &read.change_id, "github", now)?;
    }
    Ok(new)
}

fn put_off(conn: &Conn, row: &PullRow, trouble: &ReadFailure, now: Time) -> bb::Result<()> {
    let Some(found) = unread(conn, row)? else {
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
        bb::escalate(
            conn,
            change_id,
            &unread_in_time(&change, found.slow_reads, &trouble.reason),
            now,
        )?;
    }
    Ok(())
}

fn unread_in_time(change: &Change, times: i64, reason: &str) -> Escalation {
    let id = &change.change_id;
    Escalation::new(
        format!("the feedback on its PR could not be read in time, {times} times in a row: {reason}"),
        decision!(
            "is GitHub slow, or is the PR too long? Raise `github.fetch_limit_s`; it goes on by itself when it was read, \
             or at once with {retry}; else {cancel}",
            retry = proposal::Decision::retry(id),
            cancel = proposal::Decision::cancel(id),
        ),
    )
    .at_bound(Bound::Unreadable)
}

fn refused(change: &Change, reason: &str) -> Escalation {
    let id = &change.change_id;
    Escalation::new(
        format!("its PR can't be read: {reason}"),
        decision!(
            "is it still there? Then let gh's account see it: it goes on by itself when it is read again, or at once with \
             {retry}; else {cancel}",
            retry = proposal::Decision::retry(id),
            cancel = proposal::Decision::cancel(id),
        ),
    )
    .at_bound(Bound::Unreadable)
}
