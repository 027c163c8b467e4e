//! The only module that deletes rows.
//!
//! A change that has ended is removed in one transaction that leaves one `pruned` event. Its events
//! and files are removed afterwards, and recorded in the same transaction: from then on, the change
//! does not exist.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{Result, changes};
use crate::blackboard::sql::{Connection, Json, impl_from_row, params};
use crate::change::{Change, ChangeId, ProjectId};
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::event::{EventType, NewEvent, TargetType, body};

/// Statements for tables with rows of a change: one to count the rows, one to delete them.
macro_rules! owned {
    ($($table:literal: $which:literal),* $(,)?) => {
        &[$((
            $table,
            concat!("SELECT count(*) FROM ", $table, " WHERE ", $which),
            concat!("DELETE FROM ", $table, " WHERE ", $which),
        )),*]
    };
}

/// Tables in order of deletion: a table that refers to another comes before it.
pub(super) const OWNED: &[(&str, &str, &str)] = owned! {
    "findings": "change_id = :id",
    "feedback": "change_id = :id",
    "reviews": "change_id = :id",
    "shadow_reviews": "change_id = :id",
    "shadows": "change_id = :id",
    "run_feedback": "run_id IN (SELECT run_id FROM runs WHERE change_id = :id)",
    "runs": "change_id = :id",
    "rejections": "change_id = :id",
    "intents": "change_id = :id",
    "messages": "change_id = :id",
    "notifications": "change_id = :id",
    "work_items": "change_id = :id",
    "tasks": "change_id = :id",
    "checks": "change_id = :id",
};

/// Number of events that one statement deletes: the clock is read after each.
const SLICE: usize = 64;

/// Counts of the rows of a change.
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
    /// Ids of its runs.
    pub(crate) runs: Vec<String>,
    /// Directories of its runs, and the prompts that were rendered for it in shadow mode.
    #[serde(skip)]
    pub(crate) remnants: Vec<Remnant>,
    /// Ids of its events, as JSON.
    #[serde(skip)]
    ids: String,
}

closed_enum! {
    /// Kind of an object that is removed after its change.
    "kind" Where {
        Run = "run",
        Prompt = "prompt",
        /// File of a review.
        Review = "review",
        Worktree = "worktree",
        Ref = "ref",
    }
}

/// Object outside of the blackboard that is removed after its change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remnant {
    pub(crate) kind: Where,
    /// Path, or the name of a ref.
    pub(crate) path: String,
    /// Repository of a worktree or a ref; otherwise empty.
    pub(crate) repository: String,
    /// Proof that it belongs to the change: its file name, the branch of a worktree, or the commit
    /// of a ref.
    pub(crate) proof: String,
}

impl Remnant {
    /// Creates a remnant in one of our directories, where its name can only belong to its run or
    /// item.
    pub(crate) fn named(kind: Where, path: String, proof: String) -> Self {
        Self {
            kind,
            path,
            repository: String::new(),
            proof,
        }
    }
}

impl_from_row! { row => Remnant { kind, path, repository, proof } }

/// Returns the changes that have ended and were not touched since, oldest first. `in_the_way`
/// decides whether each may be pruned.
pub(crate) fn over_since(conn: &Connection, before: Time) -> Result<Vec<ChangeId>> {
    conn.list(
        "SELECT change_id FROM changes WHERE state IN ('merged', 'closed') AND updated_at < :before
         ORDER BY updated_at, change_id",
        params! { before },
    )
}

/// Returns the reason why a change may not be pruned; `None` if it may.
pub(crate) fn in_the_way(
    conn: &Connection,
    change: &Change,
    weight: &Weight,
    before: Time,
) -> Result<Option<String>> {
    Ok(match rows_in_the_way(conn, change)? {
        None => events_in_the_way(conn, &weight.ids, before)?,
        reason => reason,
    })
}

fn events_in_the_way(conn: &Connection, ids: &str, before: Time) -> Result<Option<String>> {
    let newest: Option<String> = conn.value(
        "SELECT max(events.timestamp) FROM json_each(:ids) CROSS JOIN events ON events.id = json_each.value",
        params! { ids },
    )?;
    if let Some(newest) = newest.filter(|newest| *newest >= before.to_string()) {
        return Ok(Some(format!("its latest event is from {newest}")));
    }
    let waits = conn.exists(
        "SELECT 1 FROM json_each(:ids) CROSS JOIN events ON events.id = json_each.value
         WHERE events.event_type = 'work_rejected'
             AND events.id > (SELECT coalesce(max(cursor), 0) FROM evaluators WHERE name = 'review_feedback')
             AND NOT EXISTS (SELECT 1 FROM rejections WHERE rejections.event_id = events.id)",
        params! { ids },
    )?;
    if waits {
        return Ok(Some(
            "it has an unprocessed rejection (run `remand tick`)".into(),
        ));
    }
    Ok(None)
}

fn rows_in_the_way(conn: &Connection, change: &Change) -> Result<Option<String>> {
    if !change.state.is_over() {
        return Ok(Some(format!("it is {} again", change.state)));
    }
    let open: [(&str, &str); 3] = [
        (
            "it has an unfinished run",
            "SELECT 1 FROM runs WHERE change_id = :id AND ended_at IS NULL",
        ),
        (
            "it has an open item",
            "SELECT 1 FROM work_items WHERE change_id = :id AND status IN ('available', 'claimed', 'blocked')",
        ),
        (
            "it has a pending push or post",
            "SELECT 1 FROM intents WHERE change_id = :id AND done_at IS NULL",
        ),
    ];
    for (why, sql) in open {
        if conn.exists(sql, params! { id: change.change_id })? {
            return Ok(Some(why.to_owned()));
        }
    }
    Ok(None)
}

/// Returns how much would be removed.
pub(crate) fn weigh(conn: &Connection, id: &ChangeId) -> Result<Weight> {
    let count = |table: &str| -> Result<i64> {
        let Some((_, sql, _)) = OWNED.iter().find(|(name, _, _)| *name == table) else {
            return Ok(0);
        };
        conn.value(sql, params! { id })
    };
    let runs: Vec<(String, String)> = conn.list(
        "SELECT run_id, dir FROM runs WHERE change_id = :id ORDER BY rowid",
        params! { id },
    )?;
    let prompts: Vec<(String, String)> = conn.list(
        "SELECT item_id, prompt FROM shadows WHERE change_id = :id AND prompt IS NOT NULL ORDER BY item_id",
        params! { id })?;
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
        runs: runs.into_iter().map(|(run, _)| run).collect(),
        ids,
    })
}

/// Returns the commits that keep the work of its runs, according to its events.
pub(crate) fn wips(conn: &Connection, weight: &Weight) -> Result<BTreeSet<String>> {
    let found = conn.list(
        "SELECT events.metadata ->> '$.wip' FROM json_each(:ids) CROSS JOIN events ON events.id = json_each.value
         WHERE json_type(events.metadata, '$.wip') = 'text'",
        params! { ids: weight.ids },
    )?;
    Ok(found.into_iter().collect())
}

/// A change to remove, if nothing is [`in_the_way`].
pub(crate) struct Prunable<'a> {
    pub(crate) id: &'a ChangeId,
    /// Its rows when it was last examined: its events of then are not examined again.
    pub(crate) seen: &'a Weight,
    pub(crate) before: Time,
    /// Removed afterwards, in addition to what its rows name, and recorded until [`swept`].
    pub(crate) beside: &'a [Remnant],
    pub(crate) actor: &'a str,
}

/// Result of a prune of one change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Pruning {
    Removed(Weight),
    Kept { reason: String },
}

/// Removes a change that has ended. Foreign keys must not be checked: events of the change remain,
/// until [`delete_events`].
pub(crate) fn prune(conn: &Connection, prunable: &Prunable<'_>, now: Time) -> Result<Pruning> {
    let Prunable {
        id,
        seen,
        before,
        beside,
        actor,
    } = *prunable;
    let change = &changes::change(conn, id)?;
    let weight = weigh(conn, id)?;
    // Events never change: those that were read before are not read again.
    let reason = if weight.ids == seen.ids {
        rows_in_the_way(conn, change)?
    } else {
        in_the_way(conn, change, &weight, before)?
    };
    if let Some(reason) = reason {
        return Ok(Pruning::Kept { reason });
    }
    forget_proposals(conn, id)?;
    for (_, _, delete) in OWNED {
        conn.execute(delete, params! { id })?;
    }
    forget_pull(conn, change, now)?;
    // Those that do not name it could not be found again.
    let elsewhere: Vec<i64> = conn.list(
        "SELECT value FROM json_each(:ids) EXCEPT SELECT id FROM events WHERE change_id = :id",
        params! { id, ids: weight.ids },
    )?;
    delete_events(conn, &elsewhere, || false)?;
    conn.execute(
        "INSERT INTO pruned_changes (change_id) VALUES (:id)",
        params! { id },
    )?;
    conn.execute("DELETE FROM changes WHERE change_id = :id", params! { id })?;
    for remnant in weight.remnants.iter().chain(beside) {
        conn.execute(
            "INSERT INTO sweeps (kind, path, repository, proof, change_id, created_at)
             VALUES (:kind, :path, :repository, :proof, :id, :now) ON CONFLICT DO NOTHING",
            params! { id, now; remnant.{ kind, path, repository, proof } },
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
    // Assigned to no change, since it no longer exists.
    let event = NewEvent::new(pruned, summary)
        .by(actor)
        .on(TargetType::Change, id);
    super::append(conn, &event, now)?;
    Ok(Pruning::Removed(weight))
}

/// Returns the ids of events of pruned changes, in their order in the file: neighbours share pages.
pub(crate) fn events_of_pruned(conn: &Connection) -> Result<Vec<i64>> {
    conn.list(
        "SELECT events.id FROM pruned_changes CROSS JOIN events ON events.change_id = pruned_changes.change_id
         ORDER BY events.id",
        &[],
    )
}

/// Deletes events of pruned changes until the time is over, and returns how many.
pub(crate) fn delete_events(
    conn: &Connection,
    ids: &[i64],
    is_time_over: impl Fn() -> bool,
) -> Result<usize> {
    conn.execute(
        "INSERT INTO counters (name, value) VALUES ('pruning', 1)",
        &[],
    )?;
    let mut deleted = 0;
    for slice in ids.chunks(SLICE) {
        conn.run(
            "DELETE FROM events WHERE id IN (SELECT value FROM json_each(:slice))",
            params! { slice: Json(slice) },
        )?;
        deleted += slice.len();
        if is_time_over() {
            break;
        }
    }
    conn.execute("DELETE FROM counters WHERE name = 'pruning'", &[])?;
    Ok(deleted)
}

/// Forgets pruned changes that have no events left.
pub(crate) fn forget_pruned(conn: &Connection) -> Result<()> {
    conn.run(
        "DELETE FROM pruned_changes
         WHERE NOT EXISTS (SELECT 1 FROM events WHERE events.change_id = pruned_changes.change_id)",
        &[],
    )
}

/// Returns tables that somebody added and that refer to rows of changes.
pub(crate) fn unknown_tables(conn: &Connection) -> Result<Vec<String>> {
    let known = OWNED.iter().map(|(name, _, _)| *name);
    let deleted: Vec<&str> = known.chain(["changes", "events"]).collect();
    conn.list(
        "SELECT DISTINCT sqlite_schema.name FROM sqlite_schema JOIN pragma_foreign_key_list(sqlite_schema.name) AS link
         WHERE sqlite_schema.type = 'table' AND lower(link.[table]) IN (SELECT value FROM json_each(:deleted))
             AND sqlite_schema.name NOT IN (SELECT value FROM json_each(:deleted) UNION SELECT 'pulls')
         ORDER BY sqlite_schema.name",
        params! { deleted: Json(&deleted) },
    )
}

/// Removes proposals whose item is deleted: if proposed again they are refused, since their change
/// does not exist.
///
/// For other results (a comment, a rejection) the row is the only record, so it stays.
fn forget_proposals(conn: &Connection, id: &ChangeId) -> Result<()> {
    conn.run(
        "DELETE FROM proposals WHERE (evaluator, key) IN (
             SELECT w.metadata ->> '$.evaluator', substr(w.idempotency_key, length(w.metadata ->> '$.evaluator') + 2)
             FROM work_items w WHERE w.change_id = :id AND json_type(w.metadata, '$.evaluator') = 'text')",
        params! { id },
    )
}

/// Removes old proposals that were only reported and not applied. If one is made again, it is
/// reported again.
pub(crate) fn forget_told(conn: &Connection, before: Time) -> Result<()> {
    conn.run(
        "DELETE FROM proposals WHERE outcome <> 'done' AND made_at < :before",
        params! { before },
    )
}

/// Keeps the pull request as already handled: the project's rules must not adopt it again.
fn forget_pull(conn: &Connection, change: &Change, now: Time) -> Result<()> {
    let id = change.change_id.as_str();
    conn.execute(
        "INSERT INTO pruned_pulls (project_id, number, change_id, pruned_at)
         SELECT project_id, number, change_id, :now FROM pulls WHERE change_id = :id
         ON CONFLICT (project_id, number) DO UPDATE SET change_id = excluded.change_id, pruned_at = excluded.pruned_at",
        params! { id, now },
    )?;
    conn.run(
        "UPDATE pulls SET change_id = NULL, is_judged = 1, next_read = NULL, etag = NULL, marks = '{}', failures = 0,
             description = NULL, issue = NULL,
             trouble = NULL, trouble_kind = NULL, slow_reads = 0, kept_pages = '{}', passed_over = :passed_over
         WHERE change_id = :id",
        params! { id, passed_over: had_its_turn(id) },
    )
}

fn had_its_turn(change_id: &str) -> String {
    format!("it was {change_id}, which ended and was pruned")
}

/// Returns the reason why the rules do not adopt a pull request again, if its change was pruned.
pub(crate) fn pruned_pull(
    conn: &Connection,
    project_id: &ProjectId,
    number: i64,
) -> Result<Option<String>> {
    let pruned = conn.find::<String>(
        "SELECT change_id FROM pruned_pulls WHERE project_id = :project_id AND number = :number",
        params! { project_id, number },
    )?;
    Ok(pruned.map(|id| had_its_turn(&id)))
}

/// Returns when a change with this id was pruned.
pub(crate) fn pruned_at(conn: &Connection, id: &str) -> Result<Option<Time>> {
    let about = super::events_about(conn, TargetType::Change, id, 10)?;
    Ok(about
        .into_iter()
        .rev()
        .find(|event| event.event_type == EventType::Pruned)
        .map(|event| event.timestamp))
}

/// Returns the objects that pruned changes may still have outside of the blackboard.
pub(crate) fn sweeps(conn: &Connection) -> Result<Vec<Remnant>> {
    conn.list("SELECT * FROM sweeps ORDER BY created_at, kind, path", &[])
}

/// Forgets remnants that are gone, or are not ours to remove.
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
            params! { kind, path, repository },
        )?;
    }
    Ok(())
}

/// True if any change uses this worktree.
pub(crate) fn worktree_is_used(conn: &Connection, worktree: &str) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE worktree = :worktree",
        params! { worktree },
    )
}

/// True if another change, live or not yet pruned, uses this worktree too.
pub(crate) fn worktree_is_shared(conn: &Connection, change: &Change) -> Result<bool> {
    conn.exists(
        "SELECT 1 FROM changes WHERE worktree = :worktree AND change_id <> :id",
        params! { worktree: change.worktree, id: change.change_id },
    )
}

/// Returns the ids of its events as JSON, including events that were appended by hand about it, its
/// items and its runs without naming it, and events about those.
fn ids_of(conn: &Connection, id: &ChangeId) -> Result<String> {
    let ids: String = conn.value(
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
        params! { id },
    )?;
    conn.value(
        "SELECT json_group_array(id) FROM (
             SELECT value AS id FROM json_each(:ids)
             UNION
             SELECT events.id FROM json_each(:ids) CROSS JOIN events
                 ON events.target_type = 'event' AND events.target_id = CAST(json_each.value AS TEXT)
             WHERE events.change_id IS NULL)",
        params! { ids },
    )
}

/// Returns the change, if it still exists.
pub(crate) fn still_there(conn: &Connection, id: &ChangeId) -> Result<Option<Change>> {
    match changes::change(conn, id) {
        Err(super::BoardError::NotFound { .. }) => Ok(None),
        found => found.map(Some),
    }
}
