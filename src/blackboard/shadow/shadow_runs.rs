//! Shadow mode: everything is observed and nothing is done.
//!
//! A change in shadow mode waits like a paused one. A run that would have started is recorded once,
//! with its prompt and its estimated cost.

use serde::Serialize;

use crate::blackboard::operator::operator_actions::instruct;
use crate::blackboard::operator::pause;
use crate::blackboard::sql::{Connection, columns, impl_from_row, params};
use crate::blackboard::work::hold;
use crate::blackboard::work::items::about_item;
use crate::blackboard::{BoardError, Result, changes};
use crate::change::{Change, ChangeId, ProjectId, Shadow, ShadowMode};
use crate::clock::Time;
use crate::event::{NewEvent, body};
use crate::text::dollars;
use crate::work::{Item, ItemId, Source};

/// Run that would have started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Shadowed {
    pub(crate) item_id: ItemId,
    pub(crate) change_id: ChangeId,
    /// `None` if no agent is configured.
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) worktree: String,
    /// File with the prompt; `None` if it could not be rendered, in which case `trouble` has the
    /// reason.
    pub(crate) prompt: Option<String>,
    pub(crate) prompt_bytes: Option<i64>,
    pub(crate) trouble: Option<String>,
    #[serde(flatten)]
    pub(crate) estimate: Estimate,
}

/// Estimated cost of a run; `None` for values that cannot be estimated.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Estimate {
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
    pub(crate) run_ms: Option<i64>,
    /// Description of the data behind the estimate.
    pub(crate) basis: String,
}

/// Cost of a run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PastRun {
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
    pub(crate) run_ms: i64,
}

/// Sum of what would have been done for a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct ShadowSum {
    /// `None` for the total.
    pub(crate) project_id: Option<ProjectId>,
    /// Number of changes currently in shadow mode.
    pub(crate) changes: i64,
    pub(crate) reviews: i64,
    /// Number of reviews that were made in shadow mode. `rejected` is the number of those that did
    /// not approve.
    pub(crate) reviewed: i64,
    pub(crate) rejected: i64,
    pub(crate) fixes: i64,
    pub(crate) pushes: i64,
    pub(crate) posts: i64,
    pub(crate) tokens: i64,
    pub(crate) cost_micros: i64,
    pub(crate) run_ms: i64,
    /// Number of items that could not be estimated completely.
    pub(crate) not_estimated: i64,
}

/// Sets the configured shadow mode of a project. It applies to changes without their own setting.
pub(crate) fn set_project_shadow(
    conn: &Connection,
    project: &ProjectId,
    shadow: Shadow,
    now: Time,
) -> Result<bool> {
    conn.execute(
        "UPDATE projects SET shadow_mode = :mode WHERE project_id = :id AND shadow_mode IS NOT :mode",
        params! { mode: shadow, id: project },
    )?;
    let turned = conn.execute(
        "UPDATE projects SET shadow = :shadow WHERE project_id = :id AND shadow <> :shadow",
        params! { shadow: shadow.is_some(), id: project },
    )?;
    if turned == 0 {
        return Ok(false);
    }
    for change in mark(conn)? {
        if !change.state.is_over() {
            let setting = if change.shadow { "on" } else { "off" };
            let summary = format!("shadow mode is {setting}, as configured for {project}");
            let instructed = body::Instructed::new(body::Action::Shadow, setting, "configuration");
            let event = NewEvent::about(&change.change_id, instructed, summary);
            crate::blackboard::append(conn, &event, now)?;
        }
    }
    Ok(true)
}

/// Returns the shadow mode of a project.
pub(crate) fn project_shadow(conn: &Connection, project: &ProjectId) -> Result<Shadow> {
    let found = conn.optional(
        "SELECT CASE WHEN shadow THEN coalesce(shadow_mode, 'dry') END AS mode FROM projects WHERE project_id = :id",
        params! { id: project },
        |row| row.get("mode"),
    )?;
    found.ok_or_else(|| BoardError::not_found("project", project))
}

/// Returns the shadow mode of a change.
pub(crate) fn change_shadow(conn: &Connection, change: &Change) -> Result<Shadow> {
    match (change.shadow, change.shadow_word) {
        (false, _) => Ok(None),
        (true, Some(_)) => Ok(Some(change.shadow_mode.unwrap_or(ShadowMode::Dry))),
        (true, None) => project_shadow(conn, &change.project_id),
    }
}

/// Sets a person's decision for one change, which takes precedence over the project's setting.
/// Setting "review" again retries failed reviews.
pub(crate) fn set_shadow(
    conn: &Connection,
    id: &ChangeId,
    shadow: Shadow,
    actor: &str,
    now: Time,
) -> Result<Change> {
    let change = crate::blackboard::change(conn, id)?;
    changes::refuse_if_over(&change, "shadow mode has no effect on it")?;
    if shadow == Some(ShadowMode::Review) {
        conn.execute(
            "DELETE FROM shadow_reviews WHERE change_id = :id AND trouble IS NOT NULL",
            params! { id },
        )?;
    }
    if change.shadow_word != Some(shadow.is_some()) || change.shadow_mode != shadow {
        conn.execute(
            "UPDATE changes SET shadow_word = :shadow, shadow_mode = :mode, updated_at = :now WHERE change_id = :id",
            params! { shadow: shadow.is_some(), mode: shadow, now, id },
        )?;
        instruct(
            conn,
            id,
            body::Action::Shadow,
            shadow.map_or("off", ShadowMode::as_str),
            actor,
            now,
        )?;
        mark(conn)?;
    }
    crate::blackboard::change(conn, id)
}

/// Marks exactly the changes that are in shadow mode now, and updates their queued items.
fn mark(conn: &Connection) -> Result<Vec<Change>> {
    let turned: Vec<ChangeId> = conn.list(
        "UPDATE changes SET shadow = NOT shadow
         WHERE shadow <> coalesce(shadow_word, (SELECT p.shadow FROM projects p WHERE p.project_id = changes.project_id))
         RETURNING change_id",
        &[],
    )?;
    let mut changes = Vec::new();
    for id in turned {
        if crate::blackboard::change(conn, &id)?.shadow {
            hold::block(conn, &id)?;
        } else {
            pause::unblock_if_free(conn, &id)?;
        }
        changes.push(crate::blackboard::change(conn, &id)?);
    }
    Ok(changes)
}

/// Returns the items that would run now if their change were not in shadow mode, and that have not
/// been recorded yet. Reviews made in shadow mode are not included.
pub(crate) fn unshadowed(conn: &Connection, now: Time) -> Result<Vec<Item>> {
    conn.list(
        "SELECT w.* FROM changes c INDEXED BY changes_shadow CROSS JOIN work_items w ON w.change_id = c.change_id
         WHERE c.shadow AND NOT c.paused_by_person AND NOT c.paused_by_rules AND NOT c.stopped AND NOT c.taken_over AND c.held_until IS NULL
             AND w.status = 'blocked' AND w.source IN ('code_review', 'review_fix')
             AND NOT (w.source = 'code_review' AND 'review' IS CASE WHEN c.shadow_word IS NULL
                 THEN (SELECT projects.shadow_mode FROM projects WHERE projects.project_id = c.project_id) ELSE c.shadow_mode END)
             AND (w.not_before IS NULL OR w.not_before <= :now)
             AND NOT EXISTS (SELECT 1 FROM shadows s WHERE s.item_id = w.item_id)
             AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.item_id = w.item_id)
         ORDER BY w.priority, w.created_at, length(w.item_id), w.item_id",
        params! { now })
}

/// Postpones the recording of an item whose prompt cannot be rendered at the moment.
pub(crate) fn put_off_shadow(conn: &Connection, id: &ItemId, until: Time) -> Result<()> {
    conn.run(
        "UPDATE work_items SET not_before = :until WHERE item_id = :id AND status = 'blocked'",
        params! { until, id },
    )
}

/// Records, once, the run that would have started.
pub(crate) fn record_shadow(
    conn: &Connection,
    item: &Item,
    shadowed: &Shadowed,
    now: Time,
) -> Result<bool> {
    let inserted = conn.execute(
        "INSERT INTO shadows (item_id, change_id, agent, model, worktree, prompt, prompt_bytes, trouble, tokens,
             cost_micros, run_ms, basis, made_at)
         VALUES (:item_id, :change_id, :agent, :model, :worktree, :prompt, :prompt_bytes, :trouble, :tokens,
             :cost_micros, :run_ms, :basis, :now)
         ON CONFLICT (item_id) DO NOTHING",
        params! {
            now,
            tokens: shadowed.estimate.tokens,
            cost_micros: shadowed.estimate.cost_micros,
            run_ms: shadowed.estimate.run_ms,
            basis: shadowed.estimate.basis;
            shadowed.{ item_id, change_id, agent, model, worktree, prompt, prompt_bytes, trouble }
        },
    )?;
    if inserted == 0 {
        return Ok(false);
    }
    let summary = format!("not run because of shadow mode: {}", told(item, shadowed));
    let body = body::Shadowed {
        item_id: Some(shadowed.item_id.clone()),
        source: Some(item.source),
        change_id: Some(shadowed.change_id.clone()),
        agent: shadowed.agent.clone(),
        model: shadowed.model.clone(),
        trouble: shadowed.trouble.clone(),
        worktree: Some(shadowed.worktree.clone()),
        prompt: shadowed.prompt.clone(),
        prompt_bytes: shadowed.prompt_bytes,
        tokens: shadowed.estimate.tokens,
        cost_micros: shadowed.estimate.cost_micros,
        run_ms: shadowed.estimate.run_ms,
        basis: Some(shadowed.estimate.basis.clone()),
        ..Default::default()
    };
    let event = about_item(item, body, summary);
    crate::blackboard::append(conn, &event, now)?;
    Ok(true)
}

/// Formats a recorded run: `review_fix w2 by claude (opus) in /w/login, prompt of 4012 bytes, about
/// 61000 tokens, $0.42, 3 min`.
pub(crate) fn told(item: &Item, shadowed: &Shadowed) -> String {
    let agent = shadowed
        .agent
        .as_deref()
        .unwrap_or("no agent (none is configured)");
    let model = shadowed.model.as_ref().map(|model| format!(" ({model})"));
    let prompt = match (&shadowed.trouble, shadowed.prompt_bytes) {
        (Some(trouble), _) => format!("its prompt cannot be built: {trouble}"),
        (None, bytes) => format!("with a prompt of {} bytes", bytes.unwrap_or_default()),
    };
    let estimate = shadowed
        .estimate
        .text()
        .map(|text| format!(", about {text} ({})", shadowed.estimate.basis));
    format!(
        "{} {} by {agent}{} in {}, {prompt}{}",
        item.source,
        item.item_id,
        model.unwrap_or_default(),
        shadowed.worktree,
        estimate.unwrap_or_default()
    )
}

impl Estimate {
    /// Formats the estimate; `None` if nothing can be estimated.
    pub(crate) fn text(&self) -> Option<String> {
        let tokens = self.tokens.map(|tokens| format!("{tokens} tokens"));
        let money = self.cost_micros.map(dollars);
        let time = self.run_ms.map(|ms| format!("{} s", ms.div_euclid(1000)));
        let all: Vec<String> = [tokens, money, time].into_iter().flatten().collect();
        Some(all.join(", ")).filter(|text| !text.is_empty())
    }
}

pub(crate) fn shadow_of(conn: &Connection, id: &ItemId) -> Result<Option<Shadowed>> {
    conn.find("SELECT * FROM shadows WHERE item_id = :id", params! { id })
}

/// Returns the last successful runs of an agent for the same kind of work.
pub(crate) fn past_runs(
    conn: &Connection,
    agent: &str,
    source: Source,
    limit: i64,
) -> Result<Vec<PastRun>> {
    conn.all(
        "SELECT r.tokens, r.cost_micros,
             CAST(round((julianday(r.ended_at) - julianday(r.started_at)) * 86400000) AS INTEGER) AS run_ms
         FROM runs r INDEXED BY runs_by_agent JOIN work_items w ON w.item_id = r.item_id
         WHERE r.agent = :agent AND r.ended = 'agent' AND r.exit_status = 0 AND w.source = :source
         ORDER BY r.started_at DESC LIMIT :limit",
        params! { agent, source, limit },
        |row| Ok(columns! { row => PastRun { tokens, cost_micros, run_ms } }),
    )
}

/// Returns what would have been done, by project. A review of a pull request is posted once; a fix
/// is pushed, and posted.
pub(crate) fn shadow_sums(conn: &Connection) -> Result<Vec<ShadowSum>> {
    conn.list(
        "SELECT p.project_id,
             (SELECT count(*) FROM changes c WHERE c.project_id = p.project_id AND c.shadow
                 AND c.state NOT IN ('merged', 'closed')) AS changes,
             coalesce(sum(w.source = 'code_review'), 0) AS reviews,
             (SELECT count(*) FROM shadow_reviews v JOIN changes o ON o.change_id = v.change_id
                 WHERE o.project_id = p.project_id AND v.verdict IS NOT NULL) AS reviewed,
             (SELECT count(*) FROM shadow_reviews v JOIN changes o ON o.change_id = v.change_id
                 WHERE o.project_id = p.project_id AND v.verdict <> 'approved') AS rejected,
             coalesce(sum(w.source = 'review_fix'), 0) AS fixes,
             coalesce(sum(w.source = 'review_fix' AND c.pr_number IS NOT NULL), 0) AS pushes,
             coalesce(sum(s.item_id IS NOT NULL AND c.pr_number IS NOT NULL), 0)
                 + (SELECT count(*) FROM shadow_reviews v JOIN changes o ON o.change_id = v.change_id
                     WHERE o.project_id = p.project_id AND o.pr_number IS NOT NULL AND v.verdict IS NOT NULL) AS posts,
             coalesce(sum(s.tokens), 0) AS tokens, coalesce(sum(s.cost_micros), 0) AS cost_micros,
             coalesce(sum(s.run_ms), 0) AS run_ms,
             coalesce(sum(s.item_id IS NOT NULL AND (s.tokens IS NULL OR s.cost_micros IS NULL OR s.run_ms IS NULL)), 0)
                 AS not_estimated
         FROM projects p JOIN changes c ON c.project_id = p.project_id
             LEFT JOIN shadows s ON s.change_id = c.change_id LEFT JOIN work_items w ON w.item_id = s.item_id
         GROUP BY p.project_id HAVING changes > 0 OR reviewed > 0 OR count(s.item_id) > 0 ORDER BY p.project_id",
        &[])
}

impl_from_row! { row => ShadowSum {
    changes, reviews, reviewed, rejected, fixes, pushes, posts, tokens, cost_micros, run_ms,
    not_estimated,
    project_id: Some(row.get("project_id")?),
} }

impl_from_row! { row => Shadowed {
    item_id, change_id, agent, model, worktree, prompt, prompt_bytes, trouble,
    estimate: columns! { row => Estimate { tokens, cost_micros, run_ms, basis } },
} }
