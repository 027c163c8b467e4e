//! Pull requests as they were last read, adopted or not. Only what the forge showed is written here; what comes of it
//! is an evaluator's to propose.

use serde::Serialize;
use serde_json::Value;

use super::feedback::NewFeedback;
use super::{feedback, pull_request_text};
use crate::blackboard::BoardError;
use crate::blackboard::Result;
use crate::blackboard::sql::{self, Connection, Json, Row, params};
use crate::blackboard::work::hold::{Hold, hold_change};
use crate::change::{ChangeId, HoldKind, ProjectId};
use crate::clock::Time;
use crate::event::NewEvent;
use crate::event::TargetType;
use crate::event::body;
use crate::pull_request::ReadTrouble;
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
    pub(crate) kind: ReadTrouble,
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
    conn.execute(
        "INSERT INTO pulls (project_id, number, title, state, draft, author, head_ref, head_sha, base_ref, labels, url, opened_at, passed_over, author_id)
         VALUES (:project_id, :number, :title, :state, :draft, :author, :head_ref, :head_sha, :base_ref, :labels, :url, :opened_at, :passed_over, :author_id)
         ON CONFLICT (project_id, number) DO UPDATE SET title = :title, state = :state, draft = :draft, author = :author, author_id = :author_id,
             head_since = CASE WHEN head_sha = :head_sha THEN head_since END,
             head_ref = :head_ref, head_sha = :head_sha, base_ref = :base_ref, labels = :labels, url = :url, opened_at = :opened_at,
             passed_over = :passed_over, is_judged = is_judged AND change_id IS NULL",
        params! {
            ":project_id": project_id,
            ":number": pull.number,
            ":title": pull.title,
            ":state": pull.state,
            ":draft": pull.draft,
            ":author": pull.author.as_ref().map(|author| author.login.as_str()),
            ":author_id": pull.author.as_ref().map(|author| author.id),
            ":head_ref": pull.head_ref,
            ":head_sha": pull.head_sha,
            ":base_ref": pull.base_ref,
            ":labels": Json(&pull.labels),
            ":url": pull.url,
            ":opened_at": Time::parse(&pull.opened_at).ok(),
            ":passed_over": passed_over,
        },
    )?;
    pull_row(conn, project_id, pull.number)?
        .ok_or_else(|| BoardError::not_found("pull request", &format!("#{}", pull.number)))
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
        conn.execute(
            "UPDATE pulls SET etag = :etag WHERE project_id = :project_id AND number = :number",
            params! { ":etag": etag, ":project_id": read.project_id, ":number": read.number },
        )?;
    }
    pull_request_text::set_purpose(conn, &read.change_id, &read.purpose, now)?;
    let mut new = 0;
    for taken in &read.said {
        new += usize::from(feedback::take_in_said(conn, &read.change_id, taken, now)?);
    }
    conn.execute(
        "UPDATE pulls SET marks = :marks, read_at = :begun, read_after = :after, next_read = :next_read, failures = 0,
             slow_reads = 0, kept_pages = '{}', trouble = NULL, trouble_kind = NULL, passed_over = :passed_over, head_sha = :head,
             head_since = coalesce(:head_since, CASE WHEN head_sha = :head THEN head_since END),
             etag = CASE WHEN head_sha = :head THEN etag END,
             is_judged = CASE WHEN :new > 0 OR (passed_over IS NULL) <> (:passed_over IS NULL) OR head_sha <> :head THEN 0 ELSE is_judged END
         WHERE project_id = :project_id AND number = :number",
        params! {
            ":marks": read.marks,
            ":begun": read.begun,
            ":after": read.after,
            ":passed_over": read.passed_over,
            ":head": read.head,
            ":head_since": read.head_since,
            ":next_read": read.next_read,
            ":new": i64::try_from(new).unwrap_or(i64::MAX),
            ":project_id": read.project_id,
            ":number": read.number,
        },
    )?;
    Ok(new)
}

/// A read failed: again later, and the change waits if it needs it.
pub(crate) fn fail_read(
    conn: &Connection,
    row: &PullRow,
    failed: &FailedRead,
    now: Time,
) -> Result<()> {
    conn.execute(
        "UPDATE pulls SET failures = failures + 1, trouble = :trouble, trouble_kind = :kind, next_read = :next_read
         WHERE project_id = :project_id AND number = :number",
        params! {
            ":trouble": failed.reason,
            ":kind": failed.kind,
            ":next_read": failed.next_read,
            ":project_id": row.project_id,
            ":number": row.number,
        },
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

/// A fetch ran out of time: keeps the pages that it had read, and counts it.
pub(crate) fn keep_pages(conn: &Connection, row: &PullRow, pages: &Value) -> Result<()> {
    conn.run(
        "UPDATE pulls SET slow_reads = slow_reads + 1, kept_pages = :pages
         WHERE project_id = :project_id AND number = :number",
        params! { ":pages": pages, ":project_id": row.project_id, ":number": row.number },
    )
}

/// Asks for a read as soon as possible: an evaluator needs to know.
pub(crate) fn want_read(conn: &Connection, change_id: &ChangeId, now: Time) -> Result<bool> {
    let wanted = conn.execute(
        "UPDATE pulls SET next_read = :now WHERE change_id = :id AND failures = 0 AND (next_read IS NULL OR next_read > :now)",
        params! { ":now": now, ":id": change_id },
    )?;
    Ok(wanted > 0)
}

/// Adopted pull requests whose time to be read has come, the longest waiting first.
pub(crate) fn due_pulls(conn: &Connection, now: Time) -> Result<Vec<PullRow>> {
    conn.all(
        "SELECT * FROM pulls INDEXED BY pulls_due WHERE next_read IS NOT NULL AND next_read <= :now AND change_id IS NOT NULL
         ORDER BY next_read",
        params! { ":now": now },
        from_row,
    )
}

/// The next moment at which something of the forge is due to be read.
pub(crate) fn next_read(conn: &Connection) -> Result<Option<Time>> {
    let text: Option<String> = conn.one(
        "SELECT min(moment) FROM (
             SELECT min(next_read) AS moment FROM pulls WHERE next_read IS NOT NULL
             UNION ALL
             SELECT min(next_read) FROM discoveries)",
        &[],
        |row| row.get(0),
    )?;
    Ok(text.and_then(|text| Time::parse(&text).ok()))
}

/// Changes whose pull request an evaluator has yet to look at. Only their ids: one row that can't be read must not hide
/// the others.
pub(crate) fn unjudged_pulls(conn: &Connection) -> Result<Vec<ChangeId>> {
    conn.all(
        "SELECT change_id FROM pulls INDEXED BY pulls_unjudged
         WHERE is_judged = 0 AND change_id IS NOT NULL ORDER BY change_id",
        &[],
        |row| row.get(0),
    )
}

/// The same, each with all that its judgement depends on: as long as that is as it was, judging again changes nothing.
pub(crate) fn unjudged_as_seen(conn: &Connection) -> Result<Vec<(ChangeId, String)>> {
    conn.all(
        "SELECT change_id, json_array(state, acted_on, head_sha, base_ref, passed_over, read_at,
             (SELECT max(id) FROM events WHERE events.change_id = pulls.change_id),
             (SELECT max(done_at) FROM intents WHERE intents.change_id = pulls.change_id AND kind = 'push')) AS seen
         FROM pulls INDEXED BY pulls_unjudged
         WHERE is_judged = 0 AND change_id IS NOT NULL ORDER BY change_id",
        &[],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}

/// What is said on it is looked at again: a person goes on with its change.
pub(crate) fn judge_again(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE pulls SET is_judged = 0 WHERE change_id = :id",
        params! { ":id": change_id },
    )
}

/// We pushed: this is where the pull request is, whenever it is read next.
pub(crate) fn set_head(conn: &Connection, change_id: &ChangeId, head: &str) -> Result<()> {
    conn.run(
        "UPDATE pulls SET head_sha = :head WHERE change_id = :id",
        params! { ":head": head, ":id": change_id },
    )
}

pub(crate) fn set_judged(conn: &Connection, change_id: &ChangeId) -> Result<()> {
    conn.run(
        "UPDATE pulls SET is_judged = 1 WHERE change_id = :id AND is_judged = 0",
        params! { ":id": change_id },
    )
}

pub(crate) fn pull_row(
    conn: &Connection,
    project_id: &ProjectId,
    number: i64,
) -> Result<Option<PullRow>> {
    conn.optional(
        "SELECT * FROM pulls WHERE project_id = :project_id AND number = :number",
        params! { ":project_id": project_id, ":number": number },
        from_row,
    )
}

pub(crate) fn pull_of_change(conn: &Connection, change_id: &ChangeId) -> Result<Option<PullRow>> {
    conn.optional(
        "SELECT * FROM pulls WHERE change_id = :id",
        params! { ":id": change_id },
        from_row,
    )
}

/// How many open changes of a project were adopted by its rules.
pub(crate) fn open_adoptions(conn: &Connection, project_id: &ProjectId) -> Result<i64> {
    conn.one(
        "SELECT count(*) FROM changes INDEXED BY changes_one_live_per_pull
         WHERE project_id = :id AND pr_number IS NOT NULL AND state NOT IN ('merged', 'closed') AND adopted_by = 'discovery'",
        params! { ":id": project_id },
        |row| row.get(0),
    )
}

/// Those that were seen open, were not taken over and are not among `open` any more.
pub(crate) fn end_unadopted(
    conn: &Connection,
    project_id: &ProjectId,
    open: &[i64],
) -> Result<usize> {
    conn.execute(
        "UPDATE pulls SET state = 'closed', passed_over = :passed_over
         WHERE project_id = :id AND change_id IS NULL AND state = 'open'
             AND number NOT IN (SELECT value FROM json_each(:open))",
        params! {
            ":id": project_id,
            ":open": Json(open),
            ":passed_over": "it is not open any more",
        },
    )
}

/// When a project's rules look for pull requests next, and what was in the way the last time.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Discovery {
    pub(crate) read_at: Option<Time>,
    pub(crate) next_read: Option<Time>,
    pub(crate) failures: i64,
    pub(crate) trouble: Option<String>,
    #[serde(skip)]
    pub(crate) trouble_kind: Option<ReadTrouble>,
    /// What the list was when nothing on it was left to do.
    #[serde(skip)]
    pub(crate) marks: Option<Value>,
}

pub(crate) fn discovery(conn: &Connection, project_id: &ProjectId) -> Result<Discovery> {
    Ok(conn
        .optional(
            "SELECT * FROM discoveries WHERE project_id = :id",
            params! { ":id": project_id },
            |row| {
                Ok(Discovery {
                    read_at: row.get("read_at")?,
                    next_read: row.get("next_read")?,
                    failures: row.get("failures")?,
                    trouble: row.get("trouble")?,
                    trouble_kind: row.get("trouble_kind")?,
                    marks: row
                        .get::<Option<String>>("marks")?
                        .and_then(|text| serde_json::from_str(&text).ok()),
                })
            },
        )?
        .unwrap_or_default())
}

/// What came of a look.
pub(crate) struct Looked<'a> {
    pub(crate) trouble: Option<(ReadTrouble, &'a str)>,
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
    let (kind, trouble) = trouble.unzip();
    let before = discovery(conn, project_id)?;
    conn.execute(
        "INSERT INTO discoveries (project_id, read_at, next_read, failures, trouble, trouble_kind, marks)
         VALUES (:id, :read_at, :next_read, :failures, :trouble, :kind, :marks)
         ON CONFLICT (project_id) DO UPDATE SET read_at = :read_at, next_read = :next_read, failures = :failures,
             trouble = :trouble, trouble_kind = :kind, marks = :marks",
        params! {
            ":id": project_id,
            ":read_at": if trouble.is_none() { Some(now) } else { before.read_at },
            ":next_read": next_read,
            ":failures": if trouble.is_some() { before.failures + 1 } else { 0 },
            ":trouble": trouble,
            ":kind": kind,
            ":marks": marks,
        },
    )?;
    if let Some(trouble) = trouble.filter(|_| before.trouble_kind != kind) {
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
    conn.run(
        "UPDATE discoveries SET next_read = NULL, failures = 0, trouble = NULL, trouble_kind = NULL, marks = NULL WHERE project_id = :id",
        params! { ":id": project_id },
    )
}

pub(crate) fn from_row(row: &Row<'_>) -> sql::Result<PullRow> {
    Ok(PullRow {
        project_id: row.get("project_id")?,
        number: row.get("number")?,
        change_id: row.get("change_id")?,
        title: row.get("title")?,
        state: row.get("state")?,
        acted_on: row.get("acted_on")?,
        draft: row.get("draft")?,
        author: row.get("author")?,
        author_id: row.get("author_id")?,
        head_ref: row.get("head_ref")?,
        head_sha: row.get("head_sha")?,
        head_since: row.get("head_since")?,
        opened_at: row.get("opened_at")?,
        base_ref: row.get("base_ref")?,
        labels: row.get::<Json<_>>("labels")?.0,
        url: row.get("url")?,
        passed_over: row.get("passed_over")?,
        etag: row.get("etag")?,
        marks: row.get("marks")?,
        read_at: row.get("read_at")?,
        read_after: row.get("read_after")?,
        next_read: row.get("next_read")?,
        failures: row.get("failures")?,
        trouble: row.get("trouble")?,
        trouble_kind: row.get("trouble_kind")?,
        slow_reads: row.get("slow_reads")?,
        kept_pages: row.get("kept_pages")?,
        purpose: Purpose {
            description: row
                .get::<Option<Json<_>>>("description")?
                .map(|json| json.0),
            issue: row.get::<Option<Json<_>>>("issue")?.map(|json| json.0),
        },
    })
}
