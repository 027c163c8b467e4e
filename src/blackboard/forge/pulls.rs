//! Pull requests as they were last read, adopted or not. Only what the forge showed is written here; what comes of it
//! is an evaluator's to propose.

use rusqlite::{Connection, OptionalExtension as _, Row, named_params};
use serde::Serialize;
use serde_json::Value;

use super::feedback::NewFeedback;
use super::{feedback, pull_request_text};
use crate::blackboard::Result;
use crate::blackboard::from_row;
use crate::blackboard::work::hold::{Hold, hold_change, stored_reason};
use crate::change::{ChangeId, HoldKind, ProjectId};
use crate::clock::Time;
use crate::event::NewEvent;
use crate::event::TargetType;
use crate::event::body;
use crate::pull_request::{Pull, PullRow, Purpose};

/// One read of an adopted pull request with all that is said on it.
#[derive(Debug, Clone)]
pub(crate) struct Read {
    pub(crate) project_id: ProjectId,
    pub(crate) number: i64,
    pub(crate) change_id: ChangeId,
    /// None: as it was.
    pub(crate) pull: Option<(Pull, Option<String>)>,
    pub(crate) purpose: Purpose,
    /// Where the branch is. Another commit than that of `pull` while the forge lags.
    pub(crate) head: String,
    pub(crate) passed_over: Option<String>,
    pub(crate) said: Vec<NewFeedback>,
    /// The date of the head's commit, where it was asked for.
    pub(crate) head_since: Option<Time>,
    pub(crate) marks: Value,
    /// When the forge was first asked: what was said later may not be in it.
    pub(crate) begun: Time,
    /// The newest event at that moment. Times of events may come from another clock, and ours may be set back.
    pub(crate) after: i64,
    pub(crate) next_read: Option<Time>,
}

/// A read that failed.
#[derive(Debug, Clone)]
pub(crate) struct FailedRead {
    pub(crate) reason: String,
    pub(crate) next_read: Time,
    /// Whether the change can't go on without it.
    pub(crate) holds: bool,
}

/// Writes down a pull request that was seen, and why it is not adopted if it is not.
pub(crate) fn see_pull(
    conn: &Connection,
    project_id: &ProjectId,
    pull: &Pull,
    passed_over: Option<&str>,
) -> Result<PullRow> {
    let labels = serde_json::to_string(&pull.labels)?;
    conn.prepare_cached(
        "INSERT INTO pulls (project_id, number, title, state, draft, author, head_ref, head_sha, base_ref, labels, url, opened_at, passed_over, author_id)
         VALUES (:project_id, :number, :title, :state, :draft, :author, :head_ref, :head_sha, :base_ref, :labels, :url, :opened_at, :passed_over, :author_id)
         ON CONFLICT (project_id, number) DO UPDATE SET title = :title, state = :state, draft = :draft, author = :author, author_id = :author_id,
             head_since = CASE WHEN head_sha = :head_sha THEN head_since END,
             head_ref = :head_ref, head_sha = :head_sha, base_ref = :base_ref, labels = :labels, url = :url, opened_at = :opened_at,
             passed_over = :passed_over, is_judged = is_judged AND change_id IS NULL",
    )?
    .execute(named_params! {
        ":project_id": project_id.as_str(),
        ":number": pull.number,
        ":title": pull.title,
        ":state": pull.state.as_str(),
        ":draft": pull.draft,
        ":author": pull.author.as_ref().map(|author| author.login.as_str()),
        ":author_id": pull.author.as_ref().map(|author| author.id),
        ":head_ref": pull.head_ref,
        ":head_sha": pull.head_sha,
        ":base_ref": pull.base_ref,
        ":labels": labels,
        ":url": pull.url,
        ":opened_at": Time::parse(&pull.opened_at).ok().map(|moment| moment.to_string()),
        ":passed_over": passed_over,
    })?;
    pull_row(conn, project_id, pull.number)?.ok_or_else(|| {
        crate::blackboard::BoardError::NotFound {
            kind: "pull request",
            id: format!("#{}", pull.number),
        }
    })
}

/// What a read brought, in one step: the pull request, what was said, and the marks that keep it from being asked for
/// again.
pub(crate) fn take_in_pull(conn: &Connection, read: &Read, now: Time) -> Result<usize> {
    if let Some((pull, etag)) = &read.pull {
        // A page that shows an old head is asked for again until it shows the right one.
        let etag = etag.as_ref().filter(|_| pull.head_sha == read.head);
        let pull = &Pull {
            head_sha: read.head.clone(),
            ..pull.clone()
        };
        see_pull(conn, &read.project_id, pull, read.passed_over.as_deref())?;
        conn.prepare_cached(
            "UPDATE pulls SET etag = :etag WHERE project_id = :project_id AND number = :number",
        )?
        .execute(named_params! {
            ":etag": etag,
            ":project_id": read.project_id.as_str(),
            ":number": read.number,
        })?;
    }
    pull_request_text::set_purpose(conn, &read.change_id, &read.purpose, now)?;
    let mut new = 0;
    for taken in &read.said {
        new += usize::from(feedback::take_in_said(conn, &read.change_id, taken, now)?);
    }
    conn.prepare_cached(
        "UPDATE pulls SET marks = :marks, read_at = :begun, read_after = :after, next_read = :next_read, failures = 0,
             slow_reads = 0, kept_pages = '{}', trouble = NULL, passed_over = :passed_over, head_sha = :head,
             head_since = coalesce(:head_since, CASE WHEN head_sha = :head THEN head_since END),
             etag = CASE WHEN head_sha = :head THEN etag END,
             is_judged = CASE WHEN :new > 0 OR passed_over IS NOT :passed_over OR head_sha <> :head THEN 0 ELSE is_judged END
         WHERE project_id = :project_id AND number = :number",
    )?
    .execute(named_params! {
        ":marks": read.marks.to_string(),
        ":begun": read.begun.to_string(),
        ":after": read.after,
        ":passed_over": read.passed_over,
        ":head": read.head,
        ":head_since": read.head_since.map(|moment| moment.to_string()),
        ":next_read": read.next_read.map(|moment| moment.to_string()),
        ":new": i64::try_from(new).unwrap_or(i64::MAX),
        ":project_id": read.project_id.as_str(),
        ":number": read.number,
    })?;
    Ok(new)
}

/// A read failed: again later, and the change waits if it needs it.
pub(crate) fn fail_read(
    conn: &Connection,
    row: &PullRow,
    failed: &FailedRead,
    now: Time,
) -> Result<()> {
    conn.prepare_cached(
        "UPDATE pulls SET failures = failures + 1, trouble = :trouble, next_read = :next_read
         WHERE project_id = :project_id AND number = :number",
    )?
    .execute(named_params! {
        ":trouble": failed.reason,
        ":next_read": failed.next_read.to_string(),
        ":project_id": row.project_id.as_str(),
        ":number": row.number,
    })?;
    let Some(change_id) = row.change_id.as_ref().filter(|_| failed.holds) else {
        return Ok(());
    };
    let change = crate::blackboard::change(conn, change_id)?;
    let is_known = change.hold_reason == Some(stored_reason(&failed.reason))
        && change
            .held_until
            .is_some_and(|until| until >= failed.next_read);
    if change.state.is_over() || change.state == crate::change::State::Escalated || is_known {
        return Ok(());
    }
    let hold = Hold {
        kind: HoldKind::Environment,
        reason: failed.reason.clone(),
        until: failed.next_read,
    };
    hold_change(conn, change_id, &hold, now)
}

/// A fetch ran out of time: keeps the pages that it had read, and counts it.
pub(crate) fn keep_pages(conn: &Connection, row: &PullRow, pages: &Value) -> Result<()> {
    conn.prepare_cached(
        "UPDATE pulls SET slow_reads = slow_reads + 1, kept_pages = :pages
         WHERE project_id = :project_id AND number = :number",
    )?
    .execute(named_params! {
        ":pages": pages.to_string(),
        ":project_id": row.project_id.as_str(),
        ":number": row.number,
    })?;
    Ok(())
}

/// Asks for a read as soon as possible: an evaluator needs to know.
pub(crate) fn want_read(conn: &Connection, change_id: &ChangeId, now: Time) -> Result<bool> {
    let wanted = conn
        .prepare_cached(
            "UPDATE pulls SET next_read = :now WHERE change_id = :id AND failures = 0 AND (next_read IS NULL OR next_read > :now)",
        )?
        .execute(named_params! { ":now": now.to_string(), ":id": change_id.as_str() })?;
    Ok(wanted > 0)
}

/// Adopted pull requests whose time to be read has come, the longest waiting first.
pub(crate) fn due_pulls(conn: &Connection, now: Time) -> Result<Vec<PullRow>> {
    let mut statement = conn.prepare_cached(
        "SELECT * FROM pulls INDEXED BY pulls_due WHERE next_read IS NOT NULL AND next_read <= :now AND change_id IS NOT NULL
         ORDER BY next_read",
    )?;
    let found = statement
        .query_map(named_params! { ":now": now.to_string() }, from_row)?
        .collect::<std::result::Result<_, _>>()?;
    Ok(found)
}

/// The next moment at which something of the forge is due to be read.
pub(crate) fn next_read(conn: &Connection) -> Result<Option<Time>> {
    let text: Option<String> = conn
        .prepare_cached(
            "SELECT min(moment) FROM (
                 SELECT min(next_read) AS moment FROM pulls WHERE next_read IS NOT NULL
                 UNION ALL
                 SELECT min(next_read) FROM discoveries)",
        )?
        .query_row([], |row| row.get(0))?;
    Ok(text.and_then(|text| Time::parse(&text).ok()))
}

/// Changes whose pull request an evaluator has yet to look at. Only their ids: one row that can't be read must not hide
/// the others.
pub(crate) fn unjudged_pulls(conn: &Connection) -> Result<Vec<ChangeId>> {
    let mut statement = conn.prepare_cached(
        "SELECT change_id FROM pulls INDEXED BY pulls_unjudged
         WHERE is_judged = 0 AND change_id IS NOT NULL ORDER BY change_id",
    )?;
    let found = statement
        .query_map([], |row| row.get::<_, String>(0).map(ChangeId::new))?
        .collect::<std::result::Result<_, _>>()?;
    Ok(found)
}

/// What is said on it is looked at again: a person goes on with its change.
pub(crate) fn judge_again(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.prepare_cached("UPDATE pulls SET is_judged = 0 WHERE change_id = :id")?
        .execute(named_params! { ":id": change_id.as_str() })?;
    Ok(())
}

/// We pushed: this is where the pull request is, whenever it is read next.
pub(crate) fn set_head(conn: &Connection, change_id: &ChangeId, head: &str) -> Result<()> {
    conn.prepare_cached("UPDATE pulls SET head_sha = :head WHERE change_id = :id")?
        .execute(named_params! { ":head": head, ":id": change_id.as_str() })?;
    Ok(())
}

pub(crate) fn set_judged(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.prepare_cached("UPDATE pulls SET is_judged = 1 WHERE change_id = :id AND is_judged = 0")?
        .execute(named_params! { ":id": change_id.as_str() })?;
    Ok(())
}

pub(crate) fn pull_row(
    conn: &Connection,
    project_id: &ProjectId,
    number: i64,
) -> Result<Option<PullRow>> {
    Ok(conn
        .prepare_cached("SELECT * FROM pulls WHERE project_id = :project_id AND number = :number")?
        .query_row(
            named_params! { ":project_id": project_id.as_str(), ":number": number },
            from_row,
        )
        .optional()?)
}

pub(crate) fn pull_of_change(conn: &Connection, change_id: &ChangeId) -> Result<Option<PullRow>> {
    Ok(conn
        .prepare_cached("SELECT * FROM pulls WHERE change_id = :id")?
        .query_row(named_params! { ":id": change_id.as_str() }, from_row)
        .optional()?)
}

/// How many open changes of a project were adopted by its rules.
pub(crate) fn open_adoptions(conn: &Connection, project_id: &ProjectId) -> Result<i64> {
    Ok(conn
        .prepare_cached(
            "SELECT count(*) FROM changes INDEXED BY changes_one_live_per_pull
             WHERE project_id = :id AND pr_number IS NOT NULL AND state NOT IN ('merged', 'closed') AND adopted_by = 'discovery'",
        )?
        .query_row(named_params! { ":id": project_id.as_str() }, |row| row.get(0))?)
}

/// Those that were seen open, were not taken over and are not among `open` any more.
pub(crate) fn end_unadopted(
    conn: &Connection,
    project_id: &ProjectId,
    open: &[i64],
) -> Result<usize> {
    Ok(conn
        .prepare_cached(
            "UPDATE pulls SET state = 'closed', passed_over = 'it is not open any more'
             WHERE project_id = :id AND change_id IS NULL AND state = 'open'
                 AND number NOT IN (SELECT value FROM json_each(:open))",
        )?
        .execute(
            named_params! { ":id": project_id.as_str(), ":open": serde_json::to_string(open)? },
        )?)
}

/// When a project's rules look for pull requests next, and what was in the way the last time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Discovery {
    pub(crate) read_at: Option<Time>,
    pub(crate) next_read: Option<Time>,
    pub(crate) failures: i64,
    pub(crate) trouble: Option<String>,
    /// What the list was when nothing on it was left to do.
    #[serde(skip)]
    pub(crate) marks: Option<Value>,
}

pub(crate) fn discovery(conn: &Connection, project_id: &ProjectId) -> Result<Discovery> {
    Ok(conn
        .prepare_cached("SELECT * FROM discoveries WHERE project_id = :id")?
        .query_row(named_params! { ":id": project_id.as_str() }, |row| {
            Ok(Discovery {
                read_at: from_row::time_or_none(row, "read_at")?,
                next_read: from_row::time_or_none(row, "next_read")?,
                failures: row.get("failures")?,
                trouble: row.get("trouble")?,
                marks: row
                    .get::<_, Option<String>>("marks")?
                    .and_then(|text| serde_json::from_str(&text).ok()),
            })
        })
        .optional()?
        .unwrap_or_default())
}

/// What came of a look.
pub(crate) struct Looked<'a> {
    pub(crate) trouble: Option<&'a str>,
    pub(crate) next_read: Time,
    /// None: the next look is to see the whole list.
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
    let before = discovery(conn, project_id)?;
    conn.prepare_cached(
        "INSERT INTO discoveries (project_id, read_at, next_read, failures, trouble, marks)
         VALUES (:id, :read_at, :next_read, :failures, :trouble, :marks)
         ON CONFLICT (project_id) DO UPDATE SET read_at = :read_at, next_read = :next_read, failures = :failures,
             trouble = :trouble, marks = :marks",
    )?
    .execute(named_params! {
        ":id": project_id.as_str(),
        ":read_at": if trouble.is_none() { Some(now) } else { before.read_at }.map(|moment| moment.to_string()),
        ":next_read": next_read.to_string(),
        ":failures": if trouble.is_some() { before.failures + 1 } else { 0 },
        ":trouble": trouble,
        ":marks": marks.map(ToString::to_string),
    })?;
    if let Some(trouble) = trouble.filter(|trouble| before.trouble.as_deref() != Some(*trouble)) {
        let held = body::Held {
            reason: trouble.to_owned(),
            until: Some(next_read),
            kind: None,
        };
        let summary = format!("no pull requests are looked for until {next_read}: {trouble}");
        let event = NewEvent::new(held, summary).on(TargetType::Project, project_id);
        crate::blackboard::append(conn, &event, now)?;
    }
    Ok(())
}

/// A project looks for no more pull requests.
pub(crate) fn end_discovery(conn: &Connection, project_id: &ProjectId) -> Result<()> {
    conn.prepare_cached(
        "UPDATE discoveries SET next_read = NULL, failures = 0, trouble = NULL, marks = NULL WHERE project_id = :id",
    )?
    .execute(named_params! { ":id": project_id.as_str() })?;
    Ok(())
}

pub(crate) fn from_row(row: &Row<'_>) -> std::result::Result<PullRow, rusqlite::Error> {
    let labels = from_row::json(row, "labels")?;
    let labels = labels
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    Ok(PullRow {
        project_id: ProjectId::new(row.get::<_, String>("project_id")?),
        number: row.get("number")?,
        change_id: row
            .get::<_, Option<String>>("change_id")?
            .map(ChangeId::new),
        title: row.get("title")?,
        state: from_row::word(row, "state")?,
        acted_on: from_row::word_or_none(row, "acted_on")?,
        draft: row.get("draft")?,
        author: row.get("author")?,
        author_id: row.get("author_id")?,
        head_ref: row.get("head_ref")?,
        head_sha: row.get("head_sha")?,
        head_since: from_row::time_or_none(row, "head_since")?,
        opened_at: from_row::time_or_none(row, "opened_at")?,
        base_ref: row.get("base_ref")?,
        labels,
        url: row.get("url")?,
        passed_over: row.get("passed_over")?,
        etag: row.get("etag")?,
        marks: from_row::json(row, "marks")?,
        read_at: from_row::time_or_none(row, "read_at")?,
        read_after: row.get("read_after")?,
        next_read: from_row::time_or_none(row, "next_read")?,
        failures: row.get("failures")?,
        trouble: row.get("trouble")?,
        slow_reads: row.get("slow_reads")?,
        kept_pages: from_row::json(row, "kept_pages")?,
        purpose: Purpose {
            description: from_row::typed_or_none(row, "description")?,
            issue: from_row::typed_or_none(row, "issue")?,
        },
    })
}
