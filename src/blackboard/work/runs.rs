//! Runs: one row per process, with its starting point, its end and its results. A step whose result
//! is recorded here is not repeated after a crash.

use super::claim::fenced;
use super::{coverage, hold};
use crate::blackboard::sql::{Connection, params};
use crate::blackboard::{BoardError, Coverage, Result, from_row};
use crate::change::Change;
use crate::clock::Time;
use crate::event::{NewEvent, TargetType, body};
use crate::text;
use crate::work::{
    Claim, Ended, GateResult, ItemId, PlanReason, PlanSource, PromptCut, Run, RunId,
};

/// Run that is about to start.
#[derive(Debug, Clone)]
pub(crate) struct NewRun {
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    /// Session id, known before the run starts, so that a run interrupted by a crash can be found
    /// again.
    pub(crate) session: Option<String>,
    pub(crate) head_before: String,
    /// Parent directory of the run directories, which are named by run id.
    pub(crate) runs_dir: String,
    /// Number of this run within its item, from 1.
    pub(crate) part: usize,
    /// Pending feedback, with the part of it that is in the prompt.
    pub(crate) feedback: Vec<Coverage>,
    /// Other content omitted from the prompt.
    pub(crate) cuts: Vec<PromptCut>,
    /// Origin of the plan in the prompt; `None` if there are no plans.
    pub(crate) plan: Option<PlanSource>,
}

/// End of a run.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunEnd {
    pub(crate) ended: Option<Ended>,
    pub(crate) exit_status: Option<i64>,
    pub(crate) signal: Option<i64>,
    pub(crate) elapsed_ms: i64,
    pub(crate) session: Option<String>,
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
    /// Ref that keeps its work, if it was removed from the branch.
    pub(crate) wip: Option<String>,
    /// Additional information, if the kind of end alone is not enough.
    pub(crate) note: Option<String>,
}

/// Commits the starting point of a run, before anything is started.
pub(crate) fn start_run(
    conn: &Connection,
    claim: &Claim,
    change: &Change,
    new: &NewRun,
    now: Time,
) -> Result<Run> {
    fenced(conn, claim)?;
    let run_id = RunId::new(from_row::next_id(conn, "r")?);
    conn.execute(
        "INSERT INTO runs (run_id, item_id, change_id, worktree, epoch, agent, model, session, dir, head_before, started_at)
         VALUES (:run_id, :item_id, :change_id, :worktree, :epoch, :agent, :model, :session, :dir, :head_before, :now)",
        params! {
            run_id, now,
            dir: format!("{}/{run_id}", new.runs_dir);
            claim.{ item_id, epoch };
            change.{ change_id, worktree };
            new.{ agent, model, session, head_before }
        },
    )?;
    coverage::record(conn, &run_id, &new.feedback)?;
    let in_prompt = new.feedback.iter().filter(|piece| piece.end > piece.start);
    let is_guidance =
        |piece: &&Coverage| piece.rejection_id.is_none() && piece.finding_id.is_none();
    let guidance = in_prompt.clone().filter(is_guidance);
    let later = new.feedback.iter().filter(|piece| !piece.is_complete());
    let started = body::RunStarted {
        run_id: Some(run_id.clone()),
        item_id: Some(claim.item_id.clone()),
        epoch: claim.epoch,
        agent: new.agent.clone(),
        session: new.session.clone(),
        head_before: new.head_before.clone(),
        guidance: guidance.map(|piece| piece.piece.clone()).collect(),
        part: new.part,
        plan: new.plan.clone(),
        feedback: body::PromptFeedback {
            in_prompt: in_prompt.count(),
            later: later.count(),
        },
    };
    let event = NewEvent::about(
        &change.change_id,
        started,
        format!("{run_id} of {} started", claim.item_id),
    )
    .on(TargetType::Run, &run_id);
    crate::blackboard::append(conn, &event, now)?;
    if let Some(plan) = &new.plan {
        note_plan(conn, change, &run_id, plan, now)?;
    }
    if !new.cuts.is_empty() {
        let summary = format!(
            "the prompt of {run_id} was too long; omitted: {}",
            names_of(&new.cuts)
        );
        let cuts = new.cuts.iter().copied().map(body::LeftOutPart::Section);
        let skipped = body::Skipped {
            run_id: Some(run_id.clone()),
            left_out: cuts.collect(),
            ..body::Skipped::because(body::SkipCode::PromptCut, "too long for one prompt")
        };
        let event =
            NewEvent::about(&change.change_id, skipped, summary).on(TargetType::Run, &run_id);
        crate::blackboard::append(conn, &event, now)?;
    }
    run(conn, &run_id)
}

/// Records a plan that exists but is not used, which a person should look at.
fn note_plan(
    conn: &Connection,
    change: &Change,
    run_id: &RunId,
    plan: &PlanSource,
    now: Time,
) -> Result<()> {
    let why = match plan.reason {
        PlanReason::Tie => "several directories match the branch equally well",
        PlanReason::NoMatch => "no directory matches the branch",
        PlanReason::Unreadable => "its files cannot be read",
        PlanReason::EqualNumber
        | PlanReason::WholeName
        | PlanReason::SharedWords
        | PlanReason::OnlyFolder
        | PlanReason::TopLevel
        | PlanReason::Named => {
            if plan.unread.is_empty() {
                return Ok(());
            }
            "some of its files cannot be read"
        }
    };
    let given = if plan.folder.is_some() {
        "an incomplete plan"
    } else {
        "no plan"
    };
    let summary = format!("{run_id} runs with {given}: {why} ({})", change.branch);
    let skipped = body::Skipped {
        run_id: Some(run_id.clone()),
        plan: Some(plan.clone()),
        ..body::Skipped::because(body::SkipCode::PlanUnused, why)
    };
    let event = NewEvent::about(&change.change_id, skipped, summary).on(TargetType::Run, run_id);
    crate::blackboard::append(conn, &event, now).map(drop)
}

fn names_of(cuts: &[PromptCut]) -> String {
    let one = |cut: &PromptCut| format!("{} {} of {}", cut.left_out, cut.unit, cut.what);
    text::list(cuts.iter().map(one))
}

/// Records the process that supervises the run, with enough data to prove its death later.
pub(crate) fn record_shim(
    conn: &Connection,
    id: &RunId,
    pid: i64,
    start_time: i64,
    boot_id: &str,
) -> Result<()> {
    conn.run(
        "UPDATE runs SET pid = :pid, start_time = :start_time, boot_id = :boot_id WHERE run_id = :id",
        params! { pid, start_time, boot_id, id },
    )
}

/// Maximum of a counter, for a run and for a change: values from an agent or a clock must never
/// overflow a sum.
const MOST: i64 = 1_000_000_000_000_000;

/// Records the end of a run once, and adds its spending to its change in the same step.
pub(crate) fn end_run(conn: &Connection, id: &RunId, end: &RunEnd, now: Time) -> Result<()> {
    let Some(ended) = end.ended else {
        return Ok(());
    };
    let counted = |reported: Option<i64>| reported.filter(|n| *n >= 0).map(|n| n.min(MOST));
    let (tokens, cost) = (counted(end.tokens), counted(end.cost_micros));
    let ms = counted(Some(end.elapsed_ms)).unwrap_or(0);
    let moved = conn.execute(
        "UPDATE runs SET ended = :ended, ended_at = :now, exit_status = :status, signal = :signal,
             session = coalesce(:session, session), tokens = :tokens, cost_micros = :cost
         WHERE run_id = :id AND ended IS NULL",
        params! { ended, now, tokens, cost, id, status: end.exit_status; end.{ signal, session } },
    )?;
    if moved == 0 {
        return Ok(());
    }
    let ended_run = run(conn, id)?;
    if ended == Ended::Agent {
        // Only consecutive lost runs show that something ends them.
        conn.execute(
            "UPDATE work_items SET lost_runs = 0 WHERE item_id = :id",
            params! { id: ended_run.item_id },
        )?;
    }
    conn.execute(
        "UPDATE changes SET run_ms = min(run_ms + :ms, :most), tokens = min(tokens + :tokens, :most),
             cost_micros = min(cost_micros + :cost, :most)
         WHERE change_id = :id",
        params! {
            ms,
            tokens: tokens.unwrap_or(0),
            cost: cost.unwrap_or(0),
            most: MOST,
            id: ended_run.change_id,
        },
    )?;
    let note = text::prefixed(": ", end.note.as_ref());
    let event = NewEvent::about(
        &ended_run.change_id,
        body::RunFinished {
            run_id: Some(id.clone()),
            ended: Some(ended),
            status: end.exit_status,
            signal: end.signal,
            elapsed_ms: ms,
            wip: end.wip.clone(),
        },
        format!("{id} ended ({ended}){note}"),
    )
    .on(TargetType::Run, id);
    crate::blackboard::append(conn, &event, now).map(drop)
}

/// Returns the reported cost of the other runs of an item in a session: an agent that continues a
/// session reports the sum.
pub(crate) fn counted_in_session(conn: &Connection, ended: &Run) -> Result<i64> {
    conn.value(
        "SELECT coalesce(sum(cost_micros), 0) FROM runs
         WHERE item_id = :item AND session = :session AND run_id <> :run",
        params! { item: ended.item_id, session: ended.session, run: ended.run_id },
    )
}

/// Records the commit that a successful run produced.
pub(crate) fn record_head_after(
    conn: &Connection,
    claim: &Claim,
    id: &RunId,
    head: &str,
) -> Result<()> {
    fenced(conn, claim)?;
    let moved = conn.execute(
        "UPDATE runs SET head_after = :head WHERE run_id = :id AND item_id = :item AND ended = 'agent'",
        params! { head, id, item: claim.item_id },
    )?;
    one_of(moved, claim, id)?;
    hold::forget_repeats(conn, &run(conn, id)?.change_id)
}

/// Records that the commits of a run were replayed because the remote had moved. Its gates have to
/// pass again.
pub(crate) fn record_rebase(
    conn: &Connection,
    claim: &Claim,
    id: &RunId,
    onto: &str,
    head: &str,
) -> Result<()> {
    fenced(conn, claim)?;
    let moved = conn.execute(
        "UPDATE runs SET head_after = :head, rebased_onto = :onto, gates = NULL, gate_output = NULL
         WHERE run_id = :id AND item_id = :item AND head_after IS NOT NULL",
        params! { head, onto, id, item: claim.item_id },
    )?;
    one_of(moved, claim, id)
}

/// Fails unless exactly one row was updated: an unrecorded result would be repeated after a crash.
fn one_of(moved: usize, claim: &Claim, id: &RunId) -> Result<()> {
    if moved == 1 {
        return Ok(());
    }
    let item = &claim.item_id;
    Err(BoardError::refused(format!(
        "cannot record a result: {id} is not a finished run of {item}"
    )))
}

/// Records the gate results for a run's commit. A failure counts as a gate round of the item.
pub(crate) fn record_gates(
    conn: &Connection,
    claim: &Claim,
    id: &RunId,
    result: GateResult,
    output: &str,
) -> Result<i64> {
    fenced(conn, claim)?;
    let moved = conn.execute(
        "UPDATE runs SET gates = :gates, gate_output = :output
         WHERE run_id = :id AND item_id = :item AND head_after IS NOT NULL",
        params! { gates: result, output, id, item: claim.item_id },
    )?;
    one_of(moved, claim, id)?;
    hold::forget_repeats(conn, &run(conn, id)?.change_id)?;
    let red = i64::from(result == GateResult::Red);
    conn.value(
        "UPDATE work_items SET gate_rounds = gate_rounds + :red WHERE item_id = :id RETURNING gate_rounds",
        params! { red, id: claim.item_id },
    )
}

/// Records which gates are about to run on a run's commit. Their result applies to these only.
pub(crate) fn begin_gates(conn: &Connection, claim: &Claim, id: &RunId, rules: &str) -> Result<()> {
    fenced(conn, claim)?;
    conn.run(
        "UPDATE runs SET gate_rules = :rules WHERE run_id = :id AND gates IS NULL",
        params! { rules, id },
    )
}

/// Clears a gate result, because other gates than those that passed are in effect. They have to run
/// again.
pub(crate) fn forget_gates(conn: &Connection, claim: &Claim, id: &RunId) -> Result<()> {
    fenced(conn, claim)?;
    conn.run(
        "UPDATE runs SET gates = NULL, gate_output = NULL WHERE run_id = :id AND gates = 'green'",
        params! { id },
    )
}

/// Records why a run's work is not used, before it is removed from the branch.
pub(crate) fn refuse_run(conn: &Connection, claim: &Claim, id: &RunId, reason: &str) -> Result<()> {
    fenced(conn, claim)?;
    conn.run(
        "UPDATE runs SET refused = :reason WHERE run_id = :id AND refused IS NULL",
        params! { reason, id },
    )
}

/// Records that the run's work was kept elsewhere and removed from the branch: nothing continues
/// from it.
pub(crate) fn discard_run(conn: &Connection, id: &RunId) -> Result<()> {
    conn.run(
        "UPDATE runs SET discarded = 1 WHERE run_id = :id",
        params! { id },
    )
}

pub(crate) fn run(conn: &Connection, id: &RunId) -> Result<Run> {
    conn.find("SELECT * FROM runs WHERE run_id = :id", params! { id })?
        .ok_or_else(|| BoardError::not_found("run", id))
}

/// Returns all runs of an item, oldest first: by number, since a clock may go back.
pub(crate) fn runs_of(conn: &Connection, item_id: &ItemId) -> Result<Vec<Run>> {
    conn.list(
        "SELECT * FROM runs WHERE item_id = :id ORDER BY length(run_id), run_id",
        params! { id: item_id },
    )
}

pub(crate) fn last_run(conn: &Connection, item_id: &ItemId) -> Result<Option<Run>> {
    conn.find(
        "SELECT * FROM runs WHERE item_id = :id ORDER BY length(run_id) DESC, run_id DESC LIMIT 1",
        params! { id: item_id },
    )
}

/// Returns the paths that the runs of an item had edited and that were discarded.
pub(crate) fn undone_paths(conn: &Connection, item_id: &ItemId) -> Result<Vec<String>> {
    conn.list(
        "SELECT json_each.value FROM runs JOIN events ON events.target_type = 'run' AND events.target_id = runs.run_id,
             json_each(events.metadata, '$.paths')
         WHERE runs.item_id = :item_id AND events.event_type = 'edits_undone' AND json_each.type = 'text'",
        params! { item_id },
    )
}

/// Returns runs without an end: in progress, or interrupted.
pub(crate) fn open_runs(conn: &Connection) -> Result<Vec<Run>> {
    let mut open: Vec<Run> = conn.list(
        "SELECT * FROM runs INDEXED BY runs_one_open_per_worktree WHERE ended_at IS NULL",
        &[],
    )?;
    open.sort_by_key(|run| run.started_at);
    Ok(open)
}

/// Returns runs without an end that no item continues, with their change: the program died after
/// somebody had ended the item or taken the change over.
pub(crate) fn orphaned_runs(conn: &Connection) -> Result<Vec<(Run, Change)>> {
    let mut orphaned = Vec::new();
    for run in open_runs(conn)? {
        let item = crate::blackboard::item(conn, &run.item_id)?;
        let change = crate::blackboard::change(conn, &run.change_id)?;
        if !item.status.is_open() || change.taken_over {
            orphaned.push((run, change));
        }
    }
    Ok(orphaned)
}

/// Returns a run that was interrupted in this worktree, whichever item it belonged to.
pub(crate) fn open_run_at(conn: &Connection, worktree: &str) -> Result<Option<Run>> {
    conn.find(
        "SELECT * FROM runs WHERE worktree = :worktree AND ended_at IS NULL",
        params! { worktree },
    )
}
