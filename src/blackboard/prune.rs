//! The only place that deletes. A change that is over goes whole, with all that hangs on it, in one transaction that
//! leaves one `pruned` event; what is to be removed from the disk after it is written down in the same one.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Result, changes};
use crate::blackboard::sql::{self, Connection, Row, params};
use crate::change::{Change, ChangeId, ProjectId};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::event::body;
use crate::event::{EventType, NewEvent, TargetType};

/// Tables with rows of a change: their names, how many rows there are, how they go. In this order: what refers to
/// another comes before it.
pub(super) const OWNED: &[(&str, &str, &str)] = &[
    (
        "findings",
        "SELECT count(*) FROM findings WHERE change_id = :id",
        "DELETE FROM findings WHERE change_id = :id",
    ),
    (
        "feedback",
        "SELECT count(*) FROM feedback WHERE change_id = :id",
        "DELETE FROM feedback WHERE change_id = :id",
    ),
    (
        "reviews",
        "SELECT count(*) FROM reviews WHERE change_id = :id",
        "DELETE FROM reviews WHERE change_id = :id",
    ),
    (
        "shadow_reviews",
        "SELECT count(*) FROM shadow_reviews WHERE change_id = :id",
        "DELETE FROM shadow_reviews WHERE change_id = :id",
    ),
    (
        "shadows",
        "SELECT count(*) FROM shadows WHERE change_id = :id",
        "DELETE FROM shadows WHERE change_id = :id",
    ),
    (
        "run_feedback",
        "SELECT count(*) FROM run_feedback WHERE run_id IN (SELECT run_id FROM runs WHERE change_id = :id)",
        "DELETE FROM run_feedback WHERE run_id IN (SELECT run_id FROM runs WHERE change_id = :id)",
    ),
    (
        "runs",
        "SELECT count(*) FROM runs WHERE change_id = :id",
        "DELETE FROM runs WHERE change_id = :id",
    ),
    (
        "rejections",
        "SELECT count(*) FROM rejections WHERE change_id = :id",
        "DELETE FROM rejections WHERE change_id = :id",
    ),
    (
        "intents",
        "SELECT count(*) FROM intents WHERE change_id = :id",
        "DELETE FROM intents WHERE change_id = :id",
    ),
    (
        "messages",
        "SELECT count(*) FROM messages WHERE change_id = :id",
        "DELETE FROM messages WHERE change_id = :id",
    ),
    (
        "notifications",
        "SELECT count(*) FROM notifications WHERE change_id = :id",
        "DELETE FROM notifications WHERE change_id = :id",
    ),
    (
        "work_items",
        "SELECT count(*) FROM work_items WHERE change_id = :id",
        "DELETE FROM work_items WHERE change_id = :id",
    ),
];

/// What a change is on the blackboard, counted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Weight {
    pub(crate) events: usize,
    pub(crate) items: i64,
    pub(crate) rejections: i64,
    pub(crate) reviews: i64,
    pub(crate) findings: i64,
    pub(crate) feedback: i64,
    pub(crate) intents: i64,
    pub(crate) messages: i64,
    pub(crate) notifications: i64,
    /// The ids of its runs.
    pub(crate) runs: Vec<String>,
    /// The folders of its runs, and the prompts that were made for it in shadow.
    #[serde(skip)]
    pub(crate) remnants: Vec<Remnant>,
    /// The commits that keep what its runs left, as its events have them.
    #[serde(skip)]
    pub(crate) wips: BTreeSet<String>,
}

closed_enum! {
    /// Where something is that goes after its change.
    "kind" Where {
        Run = "run",
        Prompt = "prompt",
        Worktree = "worktree",
        Ref = "ref",
    }
}

/// Something outside of the blackboard that goes after its change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remnant {
    pub(crate) kind: Where,
    /// Of a ref its name.
    pub(crate) path: String,
    /// Of a worktree or a ref; else empty.
    pub(crate) repository: String,
    /// That it is the change's: its file name; of a worktree the branch, of a ref the commit.
    pub(crate) proof: String,
}

impl Remnant {
    /// In a folder of ours, where it has a name that only its run or item can have.
    pub(crate) fn named(kind: Where, path: String, proof: String) -> Self {
        Self {
            kind,
            path,
            repository: String::new(),
            proof,
        }
    }

    fn from_row(row: &Row<'_>) -> sql::Result<Self> {
        Ok(Self {
            kind: row.get("kind")?,
            path: row.get("path")?,
            repository: row.get("repository")?,
            proof: row.get("proof")?,
        })
    }
}

/// Changes that are over and were not touched since, the oldest first. Whether each may go is asked by `in_the_way`.
pub(crate) fn over_since(conn: &Connection, before: Time) -> Result<Vec<ChangeId>> {
    conn.all(
        "SELECT change_id FROM changes WHERE state IN ('merged', 'closed') AND updated_at < :before
         ORDER BY updated_at, change_id",
        params! { ":before": before },
        |row| row.get(0),
    )
}

/// Why a change may not go; none when it may.
pub(crate) fn in_the_way(
    conn: &Connection,
    change: &Change,
    before: Time,
) -> Result<Option<String>> {
    if !change.state.is_over() {
        return Ok(Some(format!("it is {} again", change.state)));
    }
    let ids = ids_of(conn, &change.change_id)?;
    let newest: Option<String> = conn.one(
        "SELECT max(events.timestamp) FROM json_each(:ids) CROSS JOIN events ON events.id = json_each.value",
        params! { ":ids": ids },
        |row| row.get(0),
    )?;
    if let Some(newest) = newest.filter(|newest| *newest >= before.to_string()) {
        return Ok(Some(format!("something was still said of it at {newest}")));
    }
    let waits = conn.exists(
        "SELECT 1 FROM json_each(:ids) CROSS JOIN events ON events.id = json_each.value
         WHERE events.event_type = 'work_rejected'
             AND events.id > (SELECT coalesce(max(cursor), 0) FROM evaluators WHERE name = 'review_feedback')
             AND NOT EXISTS (SELECT 1 FROM rejections WHERE rejections.event_id = events.id)",
        params! { ":ids": ids },
    )?;
    if waits {
        return Ok(Some(
            "a rejection of it was not looked at yet (`remand tick` does)".into(),
        ));
    }
    let open: [(&str, &str); 3] = [
        (
            "a run of it has no end yet",
            "SELECT 1 FROM runs WHERE change_id = :id AND ended_at IS NULL",
        ),
        (
            "an item of it is still open",
            "SELECT 1 FROM work_items WHERE change_id = :id AND status IN ('available', 'claimed', 'blocked')",
        ),
        (
            "something of it is still to be pushed or posted",
            "SELECT 1 FROM intents WHERE change_id = :id AND done_at IS NULL",
        ),
    ];
    for (why, sql) in open {
        if conn.exists(sql, params! { ":id": change.change_id })? {
            return Ok(Some(why.to_owned()));
        }
    }
    Ok(None)
}

/// How much would go.
pub(crate) fn weigh(conn: &Connection, id: &ChangeId) -> Result<Weight> {
    let count = |table: &str| -> Result<i64> {
        let Some((_, sql, _)) = OWNED.iter().find(|(name, _, _)| *name == table) else {
            return Ok(0);
        };
        conn.one(sql, params! { ":id": id }, |row| row.get(0))
    };
    let runs: Vec<(String, String)> = conn.all(
        "SELECT run_id, dir FROM runs WHERE change_id = :id ORDER BY rowid",
        params! { ":id": id },
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let prompts: Vec<(String, String)> = conn.all(
        "SELECT item_id, prompt FROM shadows WHERE change_id = :id AND prompt IS NOT NULL ORDER BY item_id",
        params! { ":id": id },
        |row| {
            Ok((row.get(0)?, row.get(1)?))
        },
    )?;
    let ids = ids_of(conn, id)?;
    let events: Vec<i64> = serde_json::from_str(&ids)?;
    let of_runs = runs
        .iter()
        .map(|(run, dir)| Remnant::named(Where::Run, dir.clone(), run.clone()));
    let of_items = prompts
        .into_iter()
        .map(|(item, prompt)| Remnant::named(Where::Prompt, prompt, format!("{item}.md")));
    Ok(Weight {
        events: events.len(),
        items: count("work_items")?,
        rejections: count("rejections")?,
        reviews: count("reviews")?,
        findings: count("findings")?,
        feedback: count("feedback")?,
        intents: count("intents")?,
        messages: count("messages")?,
        notifications: count("notifications")?,
        remnants: of_runs.chain(of_items).collect(),
        wips: wips(conn, &ids)?,
        runs: runs.into_iter().map(|(run, _)| run).collect(),
    })
}

fn wips(conn: &Connection, ids: &str) -> Result<BTreeSet<String>> {
    let found = conn.all(
        "SELECT events.metadata ->> '$.wip' FROM json_each(:ids) CROSS JOIN events ON events.id = json_each.value
         WHERE json_type(events.metadata, '$.wip') = 'text'",
        params! { ":ids": ids },
        |row| row.get(0),
    )?;
    Ok(found.into_iter().collect())
}

/// Removes a change that is over with all its rows. `beside` goes after it, on top of what the rows name: until
/// [`swept`] it is remembered.
pub(crate) fn prune(
    conn: &Connection,
    change: &Change,
    beside: &[Remnant],
    actor: &str,
    now: Time,
) -> Result<Weight> {
    let id = &change.change_id;
    let weight = weigh(conn, id)?;
    let events = ids_of(conn, id)?;
    conn.execute(
        "INSERT INTO counters (name, value) VALUES ('pruning', 1)",
        &[],
    )?;
    forget_proposals(conn, id)?;
    for (_, _, delete) in OWNED {
        conn.execute(delete, params! { ":id": id })?;
    }
    forget_pull(conn, change, now)?;
    conn.execute(
        "DELETE FROM events WHERE id IN (SELECT value FROM json_each(:ids))",
        params! { ":ids": events },
    )?;
    conn.execute(
        "DELETE FROM changes WHERE change_id = :id",
        params! { ":id": id },
    )?;
    conn.execute("DELETE FROM counters WHERE name = 'pruning'", &[])?;
    for remnant in weight.remnants.iter().chain(beside) {
        conn.execute(
            "INSERT INTO sweeps (kind, path, repository, proof, change_id, created_at)
             VALUES (:kind, :path, :repository, :proof, :id, :now) ON CONFLICT DO NOTHING",
            params! {
                ":kind": remnant.kind,
                ":path": remnant.path,
                ":repository": remnant.repository,
                ":proof": remnant.proof,
                ":id": id,
                ":now": now,
            },
        )?;
    }
    let summary = format!(
        "{id} pruned: {} ({}), {} events",
        change.title, change.state, weight.events
    );
    let (runs, more) = body::listed(weight.runs.clone());
    let pruned = body::Pruned {
        changes: vec![id.clone()],
        title: change.title.clone(),
        branch: change.branch.clone(),
        project_id: Some(change.project_id.clone()),
        pr_number: change.pr_number,
        state: Some(change.state),
        head: change.head.clone(),
        ended_at: Some(change.updated_at),
        events: weight.events,
        items: weight.items,
        rejections: weight.rejections,
        reviews: weight.reviews,
        findings: weight.findings,
        feedback: weight.feedback,
        intents: weight.intents,
        messages: weight.messages,
        notifications: weight.notifications,
        runs,
        more,
    };
    // Of no change: it does not exist any more.
    let event = NewEvent::new(pruned, summary)
        .by(actor)
        .on(TargetType::Change, id);
    super::append(conn, &event, now)?;
    Ok(weight)
}

/// Those whose item goes: proposed again they are refused, since their change is not there. What was done otherwise (a
/// comment, a rejection) has nothing but its row to say so, which stays.
fn forget_proposals(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "DELETE FROM proposals WHERE (evaluator, key) IN (
             SELECT w.metadata ->> '$.evaluator', substr(w.idempotency_key, length(w.metadata ->> '$.evaluator') + 2)
             FROM work_items w WHERE w.change_id = :id AND json_type(w.metadata, '$.evaluator') = 'text')",
        params! { ":id": id },
    )
}

/// What was not done and only told, so long ago: should it be proposed once more, it is told once more.
pub(crate) fn forget_told(conn: &Connection, before: Time) -> Result<()> {
    conn.run(
        "DELETE FROM proposals WHERE outcome <> 'done' AND made_at < :before",
        params! { ":before": before },
    )
}

/// Its pull request stays known, as one that had its turn: the project's rules must not take it over anew.
fn forget_pull(conn: &Connection, change: &Change, now: Time) -> Result<()> {
    let id = change.change_id.as_str();
    conn.execute(
        "INSERT INTO pruned_pulls (project_id, number, change_id, pruned_at)
         SELECT project_id, number, change_id, :now FROM pulls WHERE change_id = :id
         ON CONFLICT (project_id, number) DO UPDATE SET change_id = excluded.change_id, pruned_at = excluded.pruned_at",
        params! { ":id": id, ":now": now },
    )?;
    conn.run(
        "UPDATE pulls SET change_id = NULL, is_judged = 1, next_read = NULL, etag = NULL, marks = '{}', failures = 0,
             description = NULL, issue = NULL,
             trouble = NULL, trouble_kind = NULL, slow_reads = 0, kept_pages = '{}', passed_over = :passed_over
         WHERE change_id = :id",
        params! { ":id": id, ":passed_over": had_its_turn(id) },
    )
}

fn had_its_turn(change_id: &str) -> String {
    format!("it was {change_id}, which is over and was pruned")
}

/// Why the rules do not take a pull request over again, when it was that of a change that was pruned.
pub(crate) fn pruned_pull(
    conn: &Connection,
    project_id: &ProjectId,
    number: i64,
) -> Result<Option<String>> {
    let pruned = conn.optional(
        "SELECT change_id FROM pruned_pulls WHERE project_id = :project_id AND number = :number",
        params! { ":project_id": project_id, ":number": number },
        |row| row.get::<String>(0),
    )?;
    Ok(pruned.map(|id| had_its_turn(&id)))
}

/// When a change of this id was pruned.
pub(crate) fn pruned_at(conn: &Connection, id: &str) -> Result<Option<Time>> {
    let about = super::events_about(conn, TargetType::Change, id, 10)?;
    Ok(about
        .into_iter()
        .rev()
        .find(|event| event.event_type == EventType::Pruned)
        .map(|event| event.timestamp))
}

/// What pruned changes may still have outside of the blackboard.
pub(crate) fn sweeps(conn: &Connection) -> Result<Vec<Remnant>> {
    conn.all(
        "SELECT * FROM sweeps ORDER BY created_at, kind, path",
        &[],
        Remnant::from_row,
    )
}

/// They are gone, or not ours to remove.
pub(crate) fn swept(conn: &Connection, remnants: &[Remnant]) -> Result<()> {
    for Remnant {
        kind,
        path,
        repository,
        proof: _,
    } in remnants
    {
        conn.execute(
            "DELETE FROM sweeps WHERE kind = :kind AND path = :path AND repository = :repository",
            params! { ":kind": kind, ":path": path, ":repository": repository },
        )?;
    }
    Ok(())
}

/// Whether any change has this worktree.
pub(crate) fn worktree_is_used(conn: &Connection, worktree: &str) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE worktree = :worktree",
        params! { ":worktree": worktree },
    )
}

/// Whether another change, live or only not to be pruned yet, has this worktree too.
pub(crate) fn worktree_is_shared(conn: &Connection, change: &Change) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE worktree = :worktree AND change_id <> :id",
        params! { ":worktree": change.worktree, ":id": change.change_id },
    )
}

/// The ids of its events as JSON: also of those that were appended by hand about it, its items and its runs without
/// naming it, and of what was said about them.
fn ids_of(conn: &Connection, id: &ChangeId) -> Result<String> {
    let ids: String = conn.one(
        "SELECT coalesce(json_group_array(id), '[]') FROM (
             SELECT id FROM events WHERE change_id = :id
             UNION
             SELECT event_id FROM rejections WHERE change_id = :id
             UNION
             SELECT id FROM events WHERE target_type = 'change' AND target_id = :id AND change_id IS NULL
                 AND event_type <> 'pruned'
             UNION
             SELECT events.id FROM work_items CROSS JOIN events
                 ON events.target_type = 'work_item' AND events.target_id = work_items.item_id
             WHERE work_items.change_id = :id AND events.change_id IS NULL
             UNION
             SELECT events.id FROM runs CROSS JOIN events
                 ON events.target_type = 'run' AND events.target_id = runs.run_id
             WHERE runs.change_id = :id AND events.change_id IS NULL)",
        params! { ":id": id },
        |row| row.get(0),
    )?;
    conn.one(
        "SELECT json_group_array(id) FROM (
             SELECT value AS id FROM json_each(:ids)
             UNION
             SELECT events.id FROM json_each(:ids) CROSS JOIN events
                 ON events.target_type = 'event' AND events.target_id = CAST(json_each.value AS TEXT)
             WHERE events.change_id IS NULL)",
        params! { ":ids": ids },
        |row| row.get(0),
    )
}

/// The change, if it is still there.
pub(crate) fn still_there(conn: &Connection, id: &ChangeId) -> Result<Option<Change>> {
    match changes::change(conn, id) {
        Err(super::BoardError::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
}
