//! Runs: one row a process, with what it started from, how it ended and what it left. A step whose result is in
//! here is not done again after a crash.

use super::claim::fenced;
use super::{coverage, hold};
use crate::blackboard::BoardError;
use crate::blackboard::Coverage;
use crate::blackboard::Result;
use crate::blackboard::from_row;
use crate::blackboard::sql::{Connection, params};
use crate::change::Change;
use crate::clock::Time;
use crate::event::body;
use crate::event::{NewEvent, TargetType};
use crate::work::{
    Claim, Ended, GateResult, ItemId, PlanReason, PlanSource, PromptCut, Run, RunId,
};

/// A run that is about to begin.
#[derive(Debug, Clone)]
pub(crate) struct NewRun {
    pub(crate) agent: String,
    pub(crate) model: Option<String>,
    /// Known before it starts: what a crash cuts is found again by it.
    pub(crate) session: Option<String>,
    pub(crate) head_before: String,
    /// The folder under which each run has its own, by its id.
    pub(crate) runs_dir: String,
    /// Which run of its item it is, from 1.
    pub(crate) part: usize,
    /// The feedback that waits to be told, with how much of it is in its prompt.
    pub(crate) feedback: Vec<Coverage>,
    /// What is left out of its prompt otherwise.
    pub(crate) cuts: Vec<PromptCut>,
    /// Where the plan in its prompt comes from; none where there are no plans.
    pub(crate) plan: Option<PlanSource>,
}

/// How a run ended.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunEnd {
    pub(crate) ended: Option<Ended>,
    pub(crate) exit_status: Option<i64>,
    pub(crate) signal: Option<i64>,
    pub(crate) elapsed_ms: i64,
    pub(crate) session: Option<String>,
    pub(crate) tokens: Option<i64>,
    pub(crate) cost_micros: Option<i64>,
    /// Where its work is kept, when it was taken off the branch.
    pub(crate) wip: Option<String>,
    /// What is said of it, where its end alone says too little.
    pub(crate) note: Option<String>,
}

/// Commits what the run starts from, before anything is started.
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
            ":run_id": run_id,
            ":item_id": claim.item_id,
            ":change_id": change.change_id,
            ":worktree": change.worktree,
            ":epoch": claim.epoch,
            ":agent": new.agent,
            ":model": new.model,
            ":session": new.session,
            ":dir": format!("{}/{run_id}", new.runs_dir),
            ":head_before": new.head_before,
            ":now": now,
        },
    )?;
    coverage::record(conn, &run_id, &new.feedback)?;
    let in_prompt = |piece: &&Coverage| piece.end > piece.start;
    let guidance: Vec<String> = new
        .feedback
        .iter()
        .filter(in_prompt)
        .filter(|piece| piece.rejection_id.is_none() && piece.finding_id.is_none())
        .map(|piece| piece.piece.clone())
        .collect();
    let started = body::RunStarted {
        run_id: Some(run_id.clone()),
        item_id: Some(claim.item_id.clone()),
        epoch: claim.epoch,
        agent: new.agent.clone(),
        session: new.session.clone(),
        head_before: new.head_before.clone(),
        guidance,
        part: new.part,
        plan: new.plan.clone(),
        feedback: body::PromptFeedback {
            in_prompt: new.feedback.iter().filter(in_prompt).count(),
            later: new
                .feedback
                .iter()
                .filter(|piece| !piece.is_complete())
                .count(),
        },
    };
    let event = NewEvent::about(
        &change.change_id,
        started,
        format!("{run_id} of {} begins", claim.item_id),
    )
    .on(TargetType::Run, &run_id);
    crate::blackboard::append(conn, &event, now)?;
    if let Some(plan) = &new.plan {
        note_plan(conn, change, &run_id, plan, now)?;
    }
    if !new.cuts.is_empty() {
        let summary = format!(
            "too long for the prompt of {run_id}, left out: {}",
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

/// A plan that is there and not used is worth a look by a person.
fn note_plan(
    conn: &Connection,
    change: &Change,
    run_id: &RunId,
    plan: &PlanSource,
    now: Time,
) -> Result<()> {
    let why = match plan.reason {
        PlanReason::Tie => "several folders match the branch equally well",
        PlanReason::NoMatch => "no folder matches the branch",
        PlanReason::Unreadable => "its files cannot be read",
        PlanReason::EqualNumber
        | PlanReason::WholeName
        | PlanReason::SharedWords
        | PlanReason::OnlyFolder
        | PlanReason::TopLevel
            if plan.unread.is_empty() =>
        {
            return Ok(());
        }
        PlanReason::EqualNumber
        | PlanReason::WholeName
        | PlanReason::SharedWords
        | PlanReason::OnlyFolder
        | PlanReason::TopLevel => "some of its files cannot be read",
    };
    let given = if plan.folder.is_some() {
        "not all of its plan"
    } else {
        "no plan"
    };
    let summary = format!("{run_id} is given {given}: {why} ({})", change.branch);
    let skipped = body::Skipped {
        run_id: Some(run_id.clone()),
        plan: Some(plan.clone()),
        ..body::Skipped::because(body::SkipCode::PlanUnused, why)
    };
    let event = NewEvent::about(&change.change_id, skipped, summary).on(TargetType::Run, run_id);
    crate::blackboard::append(conn, &event, now)?;
    Ok(())
}

fn names_of(cuts: &[PromptCut]) -> String {
    let one = |cut: &PromptCut| format!("{} {} of {}", cut.left_out, cut.unit, cut.what);
    cuts.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Who watches over the run: enough to prove its death later.
pub(crate) fn record_shim(
    conn: &Connection,
    id: &RunId,
    pid: i64,
    start_time: i64,
    boot_id: &str,
) -> Result<()> {
    conn.run(
        "UPDATE runs SET pid = :pid, start_time = :start_time, boot_id = :boot_id WHERE run_id = :id",
        params! { ":pid": pid, ":start_time": start_time, ":boot_id": boot_id, ":id": id },
    )
}

/// The most that is counted, of a run and of a change: what an agent or a clock says must never overflow a sum.
const MOST: i64 = 1_000_000_000_000_000;

/// Records the end of a run once; what it spent goes to its change in the same breath.
pub(crate) fn end_run(conn: &Connection, id: &RunId, end: &RunEnd, now: Time) -> Result<()> {
    let Some(ended) = end.ended else {
        return Ok(());
    };
    let counted = |told: Option<i64>| told.filter(|n| *n >= 0).map(|n| n.min(MOST));
    let (tokens, cost, ms) = (
        counted(end.tokens),
        counted(end.cost_micros),
        counted(Some(end.elapsed_ms)).unwrap_or(0),
    );
    let moved = conn.execute(
        "UPDATE runs SET ended = :ended, ended_at = :now, exit_status = :status, signal = :signal,
             session = coalesce(:session, session), tokens = :tokens, cost_micros = :cost
         WHERE run_id = :id AND ended IS NULL",
        params! {
            ":ended": ended,
            ":now": now,
            ":status": end.exit_status,
            ":signal": end.signal,
            ":session": end.session,
            ":tokens": tokens,
            ":cost": cost,
            ":id": id,
        },
    )?;
    if moved == 0 {
        return Ok(());
    }
    let ended_run = run(conn, id)?;
    if ended == Ended::Agent {
        // Only runs that vanish one after the other show that something ends them.
        conn.execute(
            "UPDATE work_items SET lost_runs = 0 WHERE item_id = :id",
            params! { ":id": ended_run.item_id },
        )?;
    }
    conn.execute(
        "UPDATE changes SET run_ms = min(run_ms + :ms, :most), tokens = min(tokens + :tokens, :most),
             cost_micros = min(cost_micros + :cost, :most)
         WHERE change_id = :id",
        params! {
            ":ms": ms,
            ":tokens": tokens.unwrap_or(0),
            ":cost": cost.unwrap_or(0),
            ":most": MOST,
            ":id": ended_run.change_id,
        },
    )?;
    let note = end
        .note
        .as_ref()
        .map(|note| format!(": {note}"))
        .unwrap_or_default();
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
    crate::blackboard::append(conn, &event, now)?;
    Ok(())
}

/// What the other runs of an item in a session cost, as far as they told: an agent that goes on with a session tells
/// the sum.
pub(crate) fn counted_in_session(conn: &Connection, ended: &Run) -> Result<i64> {
    conn.one(
        "SELECT coalesce(sum(cost_micros), 0) FROM runs
         WHERE item_id = :item AND session = :session AND run_id <> :run",
        params! { ":item": ended.item_id, ":session": ended.session, ":run": ended.run_id },
        |row| row.get(0),
    )
}

/// The commit that a good run led to.
pub(crate) fn record_head_after(
    conn: &Connection,
    claim: &Claim,
    id: &RunId,
    head: &str,
) -> Result<()> {
    fenced(conn, claim)?;
    let moved = conn.execute(
        "UPDATE runs SET head_after = :head WHERE run_id = :id AND item_id = :item AND ended = 'agent'",
        params! { ":head": head, ":id": id, ":item": claim.item_id },
    )?;
    one_of(moved, claim, id)?;
    hold::forget_repeats(conn, &run(conn, id)?.change_id)
}

/// The remote had moved: the commits of a run were replayed there, and its gates have to pass again.
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
        params! { ":head": head, ":onto": onto, ":id": id, ":item": claim.item_id },
    )?;
    one_of(moved, claim, id)
}

/// A result that no row took would be done again after a crash.
fn one_of(moved: usize, claim: &Claim, id: &RunId) -> Result<()> {
    if moved == 1 {
        return Ok(());
    }
    Err(BoardError::Refused {
        what: format!(
            "{id} is no run of {} that ended by itself: nothing can be recorded for it",
            claim.item_id
        ),
        hint: None,
    })
}

/// What the gates said of a run's commit; red counts a round on the item.
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
        params! { ":gates": result, ":output": output, ":id": id, ":item": claim.item_id },
    )?;
    one_of(moved, claim, id)?;
    hold::forget_repeats(conn, &run(conn, id)?.change_id)?;
    let red = i64::from(result == GateResult::Red);
    conn.one(
        "UPDATE work_items SET gate_rounds = gate_rounds + :red WHERE item_id = :id RETURNING gate_rounds",
        params! { ":red": red, ":id": claim.item_id },
        |row| row.get(0),
    )
}

/// Records which gates are about to run on a run's commit: their result holds for these only.
pub(crate) fn begin_gates(conn: &Connection, claim: &Claim, id: &RunId, rules: &str) -> Result<()> {
    fenced(conn, claim)?;
    conn.run(
        "UPDATE runs SET gate_rules = :rules WHERE run_id = :id AND gates IS NULL",
        params! { ":rules": rules, ":id": id },
    )
}

/// Other gates are in force than those that passed: they have to run again.
pub(crate) fn forget_gates(conn: &Connection, claim: &Claim, id: &RunId) -> Result<()> {
    fenced(conn, claim)?;
    conn.run(
        "UPDATE runs SET gates = NULL, gate_output = NULL WHERE run_id = :id AND gates = 'green'",
        params! { ":id": id },
    )
}

/// Writes down why a run's work is not used, before it is taken off the branch.
pub(crate) fn refuse_run(conn: &Connection, claim: &Claim, id: &RunId, reason: &str) -> Result<()> {
    fenced(conn, claim)?;
    conn.run(
        "UPDATE runs SET refused = :reason WHERE run_id = :id AND refused IS NULL",
        params! { ":reason": reason, ":id": id },
    )
}

/// The run's work was kept elsewhere and taken off the branch: nothing goes on from it.
pub(crate) fn discard_run(conn: &Connection, id: &RunId) -> Result<()> {
    conn.run(
        "UPDATE runs SET discarded = 1 WHERE run_id = :id",
        params! { ":id": id },
    )
}

pub(crate) fn run(conn: &Connection, id: &RunId) -> Result<Run> {
    conn.optional(
        "SELECT * FROM runs WHERE run_id = :id",
        params! { ":id": id },
        from_row::run,
    )?
    .ok_or_else(|| BoardError::not_found("run", id))
}

/// All runs of an item, oldest first: by their numbers, since a clock may go back.
pub(crate) fn runs_of(conn: &Connection, item_id: &ItemId) -> Result<Vec<Run>> {
    conn.all(
        "SELECT * FROM runs WHERE item_id = :id ORDER BY length(run_id), run_id",
        params! { ":id": item_id },
        from_row::run,
    )
}

pub(crate) fn last_run(conn: &Connection, item_id: &ItemId) -> Result<Option<Run>> {
    Ok(runs_of(conn, item_id)?.pop())
}

/// What the runs of an item had edited and was not taken.
pub(crate) fn undone_paths(conn: &Connection, item_id: &ItemId) -> Result<Vec<String>> {
    conn.all(
        "SELECT json_each.value FROM runs JOIN events ON events.target_type = 'run' AND events.target_id = runs.run_id,
             json_each(events.metadata, '$.paths')
         WHERE runs.item_id = :item_id AND events.event_type = 'edits_undone' AND json_each.type = 'text'",
        params! { ":item_id": item_id },
        |row| row.get(0),
    )
}

/// Runs without an end: under way, or cut.
pub(crate) fn open_runs(conn: &Connection) -> Result<Vec<Run>> {
    let mut open: Vec<Run> = conn.all(
        "SELECT * FROM runs INDEXED BY runs_one_open_per_worktree WHERE ended_at IS NULL",
        &[],
        from_row::run,
    )?;
    open.sort_by_key(|run| run.started_at);
    Ok(open)
}

/// Runs without an end whose item is over, with their change: the program died after somebody had ended the item.
pub(crate) fn orphaned_runs(conn: &Connection) -> Result<Vec<(Run, Change)>> {
    let mut orphaned = Vec::new();
    for run in open_runs(conn)? {
        if !crate::blackboard::item(conn, &run.item_id)?
            .status
            .is_open()
        {
            let change = crate::blackboard::change(conn, &run.change_id)?;
            orphaned.push((run, change));
        }
    }
    Ok(orphaned)
}

/// A run that was cut in this worktree, whichever item it was of.
pub(crate) fn open_run_at(conn: &Connection, worktree: &str) -> Result<Option<Run>> {
    conn.optional(
        "SELECT * FROM runs WHERE worktree = :worktree AND ended_at IS NULL",
        params! { ":worktree": worktree },
        from_row::run,
    )
}
