//! Pull requests as they were last read, adopted or not. Only data from the forge is stored here;
//! evaluators propose what to do about it.

use serde::Serialize;
use serde_json::Value;

use super::checks::{ReadChecks, take_in_checks};
use super::{feedback, pull_request_text, reopen};
use crate::blackboard::sql::{Connection, Json, impl_from_row, params};
use crate::blackboard::work::hold::{Hold, hold_change};
use crate::blackboard::{BoardError, Result};
use crate::change::{ChangeId, HoldKind, ProjectId};
use crate::clock::Time;
use crate::event::{NewEvent, TargetType, body};
use crate::pull_request::{Comment, Pull, PullRow, Purpose, ReadTrouble, TrustDecision};

/// Result of reading an adopted pull request with all feedback on it.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    /// The row and the change's head that the read started from.
    pub(crate) row: PullRow,
    pub(crate) known_head: String,
    pub(crate) change_id: ChangeId,
    /// `None` if unchanged.
    pub(crate) pull: Option<(Pull, Option<String>)>,
    pub(crate) purpose: Purpose,
    /// Commit of the branch. Differs from that in `pull` while the forge lags.
    pub(crate) head: String,
    pub(crate) passed_over: Option<String>,
    /// New or changed comments, each with its trust decision.
    pub(crate) comments: Vec<(Comment, TrustDecision)>,
    /// Date of the head commit, if it was requested.
    pub(crate) head_since: Option<Time>,
    /// `None` if they were not asked for: the pull request or its change has ended.
    pub(crate) checks: Option<ReadChecks>,
    pub(crate) marks: Value,
    /// Time of the first request: the read may lack later comments.
    pub(crate) begun: Time,
    /// Id of the newest event at that time. Times of events may come from another clock, and ours
    /// may be set back.
    pub(crate) after: i64,
    pub(crate) next_read: Option<Time>,
}

/// Failed read.
#[derive(Debug, Clone)]
pub(crate) struct FailedRead {
    pub(crate) reason: String,
    pub(crate) kind: ReadTrouble,
    pub(crate) next_read: Time,
    /// Set if the change cannot continue without the read.
    pub(crate) holds: bool,
}

/// Records a pull request that was seen, and why it is not adopted if it is not.
pub(crate) fn see_pull(
    conn: &Connection,
    project_id: &ProjectId,
    pull: &Pull,
    passed_over: Option<&str>,
) -> Result<PullRow> {
    conn.execute(
        "INSERT INTO pulls (project_id, number, title, state, draft, author, head_ref, head_sha, base_ref, labels, url, opened_at, passed_over, author_id)
         VALUES (:project_id, :number, :title, :state, :draft, :author, :head_ref, :head_sha, :base_ref, :labels, :url, :opened_at, :passed_over, :author_id)
         ON CONFLICT (project_id, number) DO UPDATE SET title = :title, state = :state, draft = :draft, author = :author, author_id = :author_id,
             head_since = CASE WHEN head_sha = :head_sha THEN head_since END,
             head_ref = :head_ref, head_sha = :head_sha, base_ref = :base_ref, labels = :labels, url = :url, opened_at = :opened_at,
             passed_over = :passed_over, is_judged = is_judged AND change_id IS NULL",
        params! {
            project_id, passed_over,
            author: pull.author.as_ref().map(|author| author.login.as_str()),
            author_id: pull.author.as_ref().map(|author| author.id),
            labels: Json(&pull.labels),
            opened_at: Time::parse(&pull.opened_at).ok();
            pull.{ number, title, state, draft, head_ref, head_sha, base_ref, url }
        },
    )?;
    pull_row(conn, project_id, pull.number)?
        .ok_or_else(|| BoardError::not_found("pull request", &format!("#{}", pull.number)))
}

/// Returns the stored row of a pull request, unless another process has read it since `row` was loaded and knows more.
pub(crate) fn unread_since(conn: &Connection, row: &PullRow) -> Result<Option<PullRow>> {
    let stored = pull_row(conn, &row.project_id, row.number)?;
    Ok(stored.filter(|stored| stored.read_at == row.read_at && stored.change_id == row.change_id))
}

/// Stores a read in one step: the pull request, the new comments, and the marks that keep unchanged pages from being
/// requested again. Returns the number of new comments.
///
/// A read that is out of date is dropped, and the pull request stays due.
pub(crate) fn take_in_pull(conn: &Connection, read: &Read, now: Time) -> Result<usize> {
    let (project_id, number) = (&read.row.project_id, read.row.number);
    let Some(stored) = unread_since(conn, &read.row)? else {
        return Ok(0);
    };
    // Dispatch moved the head during the read, which may show an older state.
    if crate::blackboard::change(conn, &read.change_id)?.head != read.known_head {
        return Ok(0);
    }
    // Another read was requested while this one was running, which may have started too early for that request.
    let next_read = if stored.next_read == read.row.next_read || read.next_read.is_none() {
        read.next_read
    } else {
        read.next_read.min(stored.next_read)
    };
    if let Some((pull, etag)) = &read.pull {
        // A page that shows an old head is requested again until it shows the right one.
        let etag = etag.as_ref().filter(|_| pull.head_sha == read.head);
        let pull = &Pull {
            head_sha: read.head.clone(),
            ..pull.clone()
        };
        see_pull(conn, project_id, pull, read.passed_over.as_deref())?;
        conn.execute(
            "UPDATE pulls SET etag = :etag WHERE project_id = :project_id AND number = :number",
            params! { etag, project_id, number },
        )?;
    }
    pull_request_text::set_purpose(conn, &read.change_id, &read.purpose, now)?;
    let mut new = 0;
    for (comment, decision) in &read.comments {
        let is_new = feedback::take_in_comment(conn, &read.change_id, comment, decision, now)?;
        new += usize::from(is_new);
    }
    conn.execute(
        "UPDATE pulls SET marks = :marks, read_at = :begun, read_after = :after, next_read = :next_read, failures = 0,
             slow_reads = 0, kept_pages = '{}', trouble = NULL, trouble_kind = NULL, passed_over = :passed_over, head_sha = :head,
             head_since = coalesce(:head_since, CASE WHEN head_sha = :head THEN head_since END),
             etag = CASE WHEN head_sha = :head THEN etag END,
             is_judged = CASE WHEN :new > 0 OR (passed_over IS NULL) <> (:passed_over IS NULL) OR head_sha <> :head THEN 0 ELSE is_judged END
         WHERE project_id = :project_id AND number = :number",
        params! {
            project_id, number, next_read,
            new: i64::try_from(new).unwrap_or(i64::MAX);
            read.{ marks, begun, after, passed_over, head, head_since }
        },
    )?;
    if let Some(checks) = &read.checks {
        take_in_checks(conn, &read.change_id, checks, now)?;
    }
    if stored.trouble.is_some() {
        crate::blackboard::end_read_hold(conn, &read.change_id, now)?;
        reopen::seen_again(conn, &read.change_id, "github", now)?;
    }
    Ok(new)
}

/// Records a failed read: it is retried later, and the change is held if it needs it.
pub(crate) fn fail_read(
    conn: &Connection,
    row: &PullRow,
    failed: &FailedRead,
    now: Time,
) -> Result<()> {
    conn.execute(
        "UPDATE pulls SET failures = failures + 1, trouble = :trouble, trouble_kind = :kind, next_read = :next_read
         WHERE project_id = :project_id AND number = :number",
        params! { trouble: failed.reason; failed.{ kind, next_read }; row.{ project_id, number } },
    )?;
    let Some(change_id) = row.change_id.as_ref().filter(|_| failed.holds) else {
        return Ok(());
    };
    let change = crate::blackboard::change(conn, change_id)?;
    let is_known = change.hold_kind == Some(HoldKind::PrUnreadable)
        && change
            .held_until
            .is_some_and(|until| until >= failed.next_read);
    if change.state.is_over() || change.state == crate::change::State::Escalated || is_known {
        return Ok(());
    }
    let hold = Hold {
        kind: HoldKind::PrUnreadable,
        reason: failed.reason.clone(),
        until: failed.next_read,
    };
    hold_change(conn, change_id, &hold, now)
}

/// Keeps the pages of a fetch that timed out, and counts it.
pub(crate) fn keep_pages(conn: &Connection, row: &PullRow, pages: &Value) -> Result<()> {
    conn.run(
        "UPDATE pulls SET slow_reads = slow_reads + 1, kept_pages = :pages
         WHERE project_id = :project_id AND number = :number",
        params! { pages, project_id: row.project_id, number: row.number },
    )
}

/// Requests a read as soon as possible, because an evaluator needs it.
pub(crate) fn want_read(conn: &Connection, change_id: &ChangeId, now: Time) -> Result<bool> {
    let wanted = conn.execute(
        "UPDATE pulls SET next_read = :now WHERE change_id = :id AND failures = 0 AND (next_read IS NULL OR next_read > :now)",
        params! { now, id: change_id },
    )?;
    Ok(wanted > 0)
}

/// Returns the adopted pull requests that are due to be read, longest waiting first.
pub(crate) fn due_pulls(conn: &Connection, now: Time) -> Result<Vec<PullRow>> {
    conn.list(
        "SELECT * FROM pulls INDEXED BY pulls_due WHERE next_read IS NOT NULL AND next_read <= :now AND change_id IS NOT NULL
         ORDER BY next_read",
        params! { now })
}

/// Returns the next time at which a read of the forge is due.
pub(crate) fn next_read(conn: &Connection) -> Result<Option<Time>> {
    conn.moment(
        "SELECT min(moment) FROM (
             SELECT min(next_read) AS moment FROM pulls WHERE next_read IS NOT NULL
             UNION ALL
             SELECT min(next_read) FROM discoveries)",
    )
}

/// Returns the changes whose pull request an evaluator has not judged yet. Only their ids: one
/// unreadable row must not hide the others.
pub(crate) fn unjudged_pulls(conn: &Connection) -> Result<Vec<ChangeId>> {
    conn.list(
        "SELECT change_id FROM pulls INDEXED BY pulls_unjudged
         WHERE is_judged = 0 AND change_id IS NOT NULL ORDER BY change_id",
        &[],
    )
}

/// Marks a pull request to be judged again, because a person continues with its change.
pub(crate) fn judge_again(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE pulls SET is_judged = 0 WHERE change_id = :id",
        params! { id: change_id },
    )
}

/// Records the head that we pushed, without waiting for the next read. If the old head had checks, the new one will have
/// some too.
pub(crate) fn set_head(conn: &Connection, change_id: &ChangeId, head: &str) -> Result<()> {
    conn.run(
        "UPDATE pulls SET checks = CASE WHEN head_sha = :head OR checks = 'none' THEN checks ELSE 'pending' END, head_sha = :head
         WHERE change_id = :id",
        params! { head, id: change_id },
    )
}

pub(crate) fn set_judged(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE pulls SET is_judged = 1 WHERE change_id = :id AND is_judged = 0",
        params! { id: change_id },
    )
}

pub(crate) fn pull_row(
    conn: &Connection,
    project_id: &ProjectId,
    number: i64,
) -> Result<Option<PullRow>> {
    conn.find(
        "SELECT * FROM pulls WHERE project_id = :project_id AND number = :number",
        params! { project_id, number },
    )
}

pub(crate) fn pull_of_change(conn: &Connection, change_id: &ChangeId) -> Result<Option<PullRow>> {
    conn.find(
        "SELECT * FROM pulls WHERE change_id = :id",
        params! { id: change_id },
    )
}

/// Returns the number of open changes of a project that were adopted by its rules.
pub(crate) fn open_adoptions(conn: &Connection, project_id: &ProjectId) -> Result<i64> {
    conn.value(
        "SELECT count(*) FROM changes INDEXED BY changes_one_live_per_pull
         WHERE project_id = :id AND pr_number IS NOT NULL AND state NOT IN ('merged', 'closed') AND adopted_by = 'discovery'",
        params! { id: project_id },
    )
}

/// Closes the pull requests that were seen open, were not adopted and are no longer in `open`.
pub(crate) fn end_unadopted(
    conn: &Connection,
    project_id: &ProjectId,
    open: &[i64],
) -> Result<usize> {
    conn.execute(
        "UPDATE pulls SET state = 'closed', passed_over = :passed_over
         WHERE project_id = :id AND change_id IS NULL AND state = 'open'
             AND number NOT IN (SELECT value FROM json_each(:open))",
        params! { id: project_id, open: Json(open), passed_over: "it is no longer open" },
    )
}

/// Next time that a project's rules look for pull requests, and the error of the last time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Discovery {
    pub(crate) read_at: Option<Time>,
    pub(crate) next_read: Option<Time>,
    pub(crate) failures: i64,
    pub(crate) trouble: Option<String>,
    #[serde(skip)]
    pub(crate) trouble_kind: Option<ReadTrouble>,
    /// Marks of the list when nothing in it was left to do.
    #[serde(skip)]
    pub(crate) marks: Option<Value>,
}

pub(crate) fn discovery(conn: &Connection, project_id: &ProjectId) -> Result<Discovery> {
    let found = conn.find(
        "SELECT * FROM discoveries WHERE project_id = :id",
        params! { id: project_id },
    )?;
    Ok(found.unwrap_or_default())
}

impl_from_row! { row => Discovery {
    read_at, next_read, failures, trouble, trouble_kind,
    marks: row
        .get::<Option<String>>("marks")?
        .and_then(|text| serde_json::from_str(&text).ok()),
} }

/// Result of one discovery.
pub(crate) struct Looked<'a> {
    pub(crate) trouble: Option<(ReadTrouble, &'a str)>,
    pub(crate) next_read: Time,
    /// `None` if the next discovery has to read the whole list.
    pub(crate) marks: Option<&'a Value>,
}

pub(crate) fn set_discovery(
    conn: &Connection,
    project_id: &ProjectId,
    looked: &Looked<'_>,
    now: Time,
) -> Result<()> {
    let Looked {
        trouble,
        next_read,
        marks,
    } = *looked;
    let (kind, trouble) = trouble.unzip();
    let before = discovery(conn, project_id)?;
    conn.execute(
        "INSERT INTO discoveries (project_id, read_at, next_read, failures, trouble, trouble_kind, marks)
         VALUES (:id, :read_at, :next_read, :failures, :trouble, :kind, :marks)
         ON CONFLICT (project_id) DO UPDATE SET read_at = :read_at, next_read = :next_read, failures = :failures,
             trouble = :trouble, trouble_kind = :kind, marks = :marks",
        params! {
            next_read, trouble, kind, marks,
            id: project_id,
            read_at: if trouble.is_none() { Some(now) } else { before.read_at },
            failures: if trouble.is_some() { before.failures + 1 } else { 0 },
        },
    )?;
    if let Some(trouble) = trouble.filter(|_| before.trouble_kind != kind) {
        let held = body::Held {
            reason: trouble.to_owned(),
            until: Some(next_read),
            kind: None,
        };
        let summary = format!("discovery of pull requests is held until {next_read}: {trouble}");
        let event = NewEvent::new(held, summary).on(TargetType::Project, project_id);
        crate::blackboard::append(conn, &event, now)?;
    }
    Ok(())
}

/// Ends the discovery of pull requests for a project.
pub(crate) fn end_discovery(conn: &Connection, project_id: &ProjectId) -> Result<()> {
    conn.run(
        "UPDATE discoveries SET next_read = NULL, failures = 0, trouble = NULL, trouble_kind = NULL, marks = NULL WHERE project_id = :id",
        params! { id: project_id },
    )
}

impl_from_row! { row => PullRow {
    project_id, number, change_id, title, state, acted_on, draft, author, author_id, head_ref,
    head_sha, head_since, opened_at, base_ref, url, passed_over, etag, marks, read_at,
    read_after, next_read, failures, trouble, trouble_kind, slow_reads, kept_pages, checks,
    checks_trouble,
    labels: row.get::<Json<_>>("labels")?.0,
    purpose: Purpose {
        description: row
            .get::<Option<Json<_>>>("description")?
            .map(|json| json.0),
        issue: row.get::<Option<Json<_>>>("issue")?.map(|json| json.0),
    },
} }
