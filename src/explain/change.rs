//! Explains why a change is where it is.

use super::because::Because;
use super::checks::waits_for_checks;
use super::explanation::Explanation;
use super::facts::{Daemon, Facts, Holder, Situation};
use super::note::{Note, not_in_force_command, stop_command, stop_sentence};
use super::ready::ready;
use super::shadow::in_shadow;
use crate::change::State;
use crate::evaluator::review_feedback::{starts_fix, takes_fixes};
use crate::event::body::{self, Action, Cause, PullChange};
use crate::event::{Event, EventType};
use crate::human_time::{ago, ahead};
use crate::proposal::Bound;
use crate::text::{prefixed, short_sha};
use crate::work::{Item, Run, Status};

/// Explains a change.
pub(crate) fn explain(facts: &Facts) -> Explanation {
    let explanation = match Situation::of(&facts.row) {
        Situation::Over => return overlooked(facts, over(facts)),
        Situation::TakenOver => taken_over(facts).notes(Note::not_read(facts)),
        Situation::Escalated => escalated(facts)
            .notes(Note::not_posted(facts))
            .notes(Note::stopped(facts))
            .notes(Note::in_shadow(facts)),
        Situation::Paused => paused(facts)
            .notes(Note::stopped(facts))
            .notes(Note::in_shadow(facts)),
        Situation::Held => held(facts).notes(Note::stopped(facts)),
        Situation::Stopped => stopped(facts),
        Situation::Shadow => in_shadow(facts),
        Situation::Open(item) => {
            and_trouble(facts, open(facts, item).notes(Note::wait_after(facts)))
        }
        Situation::Idle => and_trouble(facts, idle(facts).notes(Note::for_person(facts))),
    };
    let mut explanation = explanation.notes(Note::clock_set_back(facts));
    if facts.row.change.shadow {
        explanation.short = format!("shadow: {}", explanation.short);
    }
    explanation
}

/// Adds notes about problems of a change that otherwise makes progress.
fn and_trouble(facts: &Facts, explanation: Explanation) -> Explanation {
    overlooked(facts, explanation)
        .notes(Note::not_read(facts))
        .notes(Note::no_checks(facts))
        .notes(Note::not_posted(facts))
        .notes(Note::stopped(facts))
        .notes(Note::in_shadow(facts))
}

/// Makes the board show problems that nobody would look for, in place of normal progress.
fn overlooked(facts: &Facts, explanation: Explanation) -> Explanation {
    let trouble = facts.pull.as_ref().and_then(|pull| pull.trouble.as_ref());
    let item = facts.row.open_item.as_ref();
    if let Some(post) = facts.refused.first() {
        let why = post.trouble.as_deref().unwrap_or("no reason recorded");
        explanation.short(format!("a post was refused: {why}"))
    } else if let Some(trouble) = trouble {
        explanation.short(format!("cannot read its PR: {trouble}"))
    } else if let Some(item) = item.filter(|item| item.is_for_person()) {
        explanation.short(format!("{} is for you: {}", item.item_id, item.title))
    } else {
        explanation
    }
}

/// Describes the item that was running when the change was paused or stopped.
pub(super) fn may_finish(facts: &Facts, is_ended: bool) -> Option<String> {
    let item = facts.row.open_item.as_ref();
    let item = item.filter(|_| facts.holder == Holder::Alive)?;
    let what = format!("{} {}", item.source, item.item_id);
    Some(if is_ended {
        format!("{what} is being stopped and will run again when the stop ends")
    } else {
        format!("{what} may still finish, but nothing else will start")
    })
}

/// Run of an ended change without an end. A daemon cleans up after it by itself.
fn unended_run(facts: &Facts) -> Option<&Run> {
    let run = facts.unended.as_ref();
    run.filter(|_| facts.daemon == Daemon::None)
}

fn over(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let (because, cancelled) = if change.state == State::Merged {
        (Because::Merged, None)
    } else {
        let cancel = facts.newest_action(Action::Cancel);
        (Because::Closed, cancel)
    };
    let why = prefixed(": ", cancelled.map(|event| &event.summary));
    let explanation = Explanation::new(because, "it is ", change.state.as_str())
        .and(&format!("; no more work is done on it{why}"))
        .since(facts.in_state_since());
    match unended_run(facts) {
        None => explanation,
        Some(run) => explanation
            .and(&format!(
                "; the run {} has not ended: if its process was killed, `remand tick` cleans up after it",
                run.run_id
            ))
            .commands_in_sentence(["remand tick".to_owned()]),
    }
}

fn escalated(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let id = &change.change_id;
    let event = facts.newest_of(EventType::Escalated);
    let reason = event.map_or("no reason recorded", |event| event.summary.as_str());
    let mut explanation =
        Explanation::new(Because::NeedsYou, "it ", format!("needs you: {reason}"))
            .since(event.map(|event| event.timestamp));
    if let Some(decision) = &change.decision {
        explanation = explanation.and(&format!(". Decide: {decision}"));
    }
    let mut commands = change.decision_commands.clone();
    let is_raised = event.and_then(Bound::of) == Some(Bound::Cycles)
        && change.budget.fix_cycle < change.budget.max_fix_cycles;
    if is_raised {
        commands.insert(0, format!("remand retry {id}"));
        explanation = explanation.and(&format!(
            ". The limit has since been raised to {}: `remand retry {id}` continues",
            change.budget.max_fix_cycles
        ));
    }
    if commands.is_empty() {
        let skip = change.lacks_pr().then(|| format!("remand skip {id}"));
        return explanation
            .commands([format!("remand approve {id}")])
            .commands(skip)
            .commands([
                format!("remand refine {id} --text …"),
                format!("remand cancel {id}"),
            ]);
    }
    explanation.commands_in_sentence(commands)
}

fn taken_over(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let (id, worktree) = (&change.change_id, &change.worktree);
    let event = facts.newest_action(Action::Takeover);
    let by = event.map_or("somebody", |event| event.actor_id.as_str());
    let instructed = event.and_then(Event::body::<body::Instructed>);
    let instructed = instructed.unwrap_or_default();
    let why = prefixed(": ", Some(instructed.text).filter(|text| !text.is_empty()));
    let clause = format!("taken over by {by}{why}");
    let run = facts.row.last_run.as_ref();
    let ending = run
        .filter(|run| run.ended.is_none())
        .map(|run| format!("; {} of {} has not ended yet", run.run_id, run.agent));
    Explanation::new(Because::TakenOver, "it was ", clause)
        .and(&format!(
            "; continue in {worktree}, and give it back with `remand handback {id}`{}",
            ending.unwrap_or_default()
        ))
        .since(event.map(|event| event.timestamp))
        .commands(instructed.command)
        .commands_in_sentence([format!("remand handback {id}")])
}

fn paused(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let by_rules = change.paused_by_rules.then(|| {
        let pull = facts.pull.as_ref();
        let reason = prefixed(": ", pull.and_then(|pull| pull.passed_over.as_deref()));
        format!("paused while its PR does not match the project's rules{reason}")
    });
    let mut explanation = if change.paused_by_person {
        let event = facts.newest_action(Action::Pause);
        let by = event.map_or("somebody", |event| event.actor_id.as_str());
        let why = event
            .and_then(|event| event.body::<body::Instructed>())
            .map(|instructed| instructed.text)
            .filter(|text| !text.is_empty());
        let why = prefixed(": ", why);
        let rules = prefixed("; it is ", by_rules);
        Explanation::new(Because::Paused, "it was ", format!("paused by {by}{why}"))
            .and(&rules)
            .since(event.map(|event| event.timestamp))
            .commands([format!("remand resume {}", change.change_id)])
    } else {
        let event = facts.newest(|event| {
            event
                .body::<body::PrChanged>()
                .is_some_and(|changed| changed.what == Some(PullChange::Unwanted))
        });
        Explanation::new(Because::Paused, "it is ", by_rules.unwrap_or_default())
            .since(event.map(|event| event.timestamp))
    };
    if let Some(under_way) = may_finish(facts, false) {
        explanation = explanation.and(&format!("; {under_way}"));
    }
    explanation
}

fn held(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let event = facts.newest_of(EventType::Held);
    let reason = change
        .hold_reason
        .as_deref()
        .unwrap_or("no reason recorded");
    let until = change.held_until;
    let when = match until {
        Some(until) if until > facts.now => {
            let (at, ahead) = (until.text(facts.zone), ahead(until, facts.now));
            format!("it is held until {at} ({ahead})")
        }
        Some(_) | None => {
            "its hold has ended, and `remand run` or `remand tick` will continue it".to_owned()
        }
    };
    let configuration = facts.configuration.as_ref();
    Explanation::new(Because::Held, "", format!("{when}: {reason}"))
        .short(format!("held: {reason}"))
        .since(event.map(|event| event.timestamp))
        .until(until)
        .commands(configuration.map(|changed| not_in_force_command(changed).to_owned()))
        .commands([format!("remand resume {}", change.change_id)])
        .notes(configuration.cloned().map(Note::NotInForce))
}

/// Explains a change with waiting work that would run if it were not stopped.
fn stopped(facts: &Facts) -> Explanation {
    let is_ended = facts.stops.iter().any(|stop| stop.at_once);
    let clauses: Vec<String> = facts
        .stops
        .iter()
        .map(stop_sentence)
        .chain(may_finish(facts, is_ended))
        .collect();
    Explanation::new(Because::Stopped, "", clauses.join("; "))
        .short("stopped")
        .since(facts.stops.first().map(|stop| stop.stopped_at))
        .commands(facts.stops.iter().map(stop_command))
}

fn open(facts: &Facts, item: &Item) -> Explanation {
    match item.status {
        Status::Claimed => claimed(facts, item),
        Status::Blocked if facts.row.change.waits_for.is_some() => waits_for_change(facts, item),
        Status::Blocked => {
            let (source, id) = (item.source, &item.item_id);
            let clause =
                format!("{source} {id} is blocked, although the change is neither paused nor held");
            Explanation::new(Because::Blocked, "", clause)
                .since(Some(item.created_at))
                .commands([format!("remand resume {}", facts.row.change.change_id)])
        }
        Status::Available | Status::Completed | Status::Failed | Status::Cancelled => {
            available(facts, item)
        }
    }
}

/// Explains a task that starts when another change is merged.
fn waits_for_change(facts: &Facts, item: &Item) -> Explanation {
    let first = facts.row.change.waits_for.as_ref();
    let first = first.map(ToString::to_string).unwrap_or_default();
    let clause = format!("it starts when {first} is merged");
    Explanation::new(Because::WaitsForChange, "", clause)
        .since(Some(item.created_at))
        .commands([format!("remand why {first}")])
}

fn claimed(facts: &Facts, item: &Item) -> Explanation {
    let what = format!("{} {}", item.source, item.item_id);
    let show = format!("remand item show {}", item.item_id);
    let run = facts
        .row
        .last_run
        .as_ref()
        .filter(|run| run.item_id == item.item_id && run.epoch == item.epoch);
    let since = run.map(|run| run.started_at).or_else(|| {
        let claim = facts.newest(|event| {
            event.event_type == EventType::WorkClaimed && event.target_id == item.item_id.as_str()
        });
        claim.map(|event| event.timestamp)
    });
    let ran_out = item
        .lease_expires_at
        .is_some_and(|lease| lease <= facts.now);
    let explanation = match facts.holder {
        Holder::Alive if ran_out => {
            let clause = format!(
                "{what} is being run by a process that is alive but has not renewed its lease (was the machine asleep?)"
            );
            Explanation::new(Because::Running, "", clause).commands([show])
        }
        Holder::Alive => {
            let by = run.map(|run| format!("{} ({})", run.agent, run.run_id));
            let by = prefixed(" by ", by);
            Explanation::new(Because::Running, "", format!("{what} is being run{by}"))
                .commands(run.map(|run| format!("remand log {} -f", run.run_id)))
        }
        Holder::Dead | Holder::Nobody => {
            let clause = format!("the process that ran {what} is dead");
            let (then, commands) = next_look(facts);
            Explanation::new(Because::HolderDied, "", clause)
                .and(&format!("; {then}"))
                .commands(commands)
        }
        Holder::Unknown => {
            let by = item.claimed_by.as_deref().unwrap_or("");
            let clause = format!(
                "{what} is claimed by `{by}`, and this machine cannot tell whether that process is alive"
            );
            Explanation::new(Because::Running, "", clause).commands([show])
        }
    };
    explanation.since(since)
}

fn available(facts: &Facts, item: &Item) -> Explanation {
    let what = format!("{} {}", item.source, item.item_id);
    let explanation = if item.step().is_none() {
        let clause = format!(
            "{what} is queued, but this version cannot run items with source `{}`",
            item.source
        );
        Explanation::new(Because::NotRun, "", clause)
            .commands([format!("remand item cancel {}", item.item_id)])
    } else if let Some(until) = item.not_before.filter(|until| *until > facts.now) {
        let (at, ahead) = (until.text(facts.zone), ahead(until, facts.now));
        let clause = format!("{what} is delayed until {at} ({ahead})");
        Explanation::new(Because::Delayed, "", clause).until(Some(until))
    } else if facts.running >= facts.slots {
        let clause = format!(
            "{what} is waiting for a free slot: {} of {} are in use (dispatch.slots)",
            facts.running, facts.slots
        );
        Explanation::new(Because::WaitsForSlot, "", clause)
            .commands(["remand item list --status claimed".into()])
    } else {
        let queued = Explanation::new(Because::Queued, "", format!("{what} is queued"));
        and_next_look(facts, queued)
    };
    explanation.since(Some(item.created_at))
}

/// Describes what happens next to waiting work, with commands if no daemon is running.
fn next_look(facts: &Facts) -> (&'static str, Vec<String>) {
    match facts.daemon {
        Daemon::Runs => ("the daemon will start it shortly", Vec::new()),
        Daemon::None => (
            "no daemon is running",
            vec!["remand run".into(), "remand tick".into()],
        ),
    }
}

/// Adds what happens next to waiting work; the board shows it only if no daemon is running.
fn and_next_look(facts: &Facts, mut explanation: Explanation) -> Explanation {
    let (then, commands) = next_look(facts);
    if facts.daemon == Daemon::None {
        explanation.short.push_str(", no daemon is running");
    }
    explanation.and(&format!("; {then}")).commands(commands)
}

/// Explains a change without open items: the heartbeat, a person or the forge decides what is next.
fn idle(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let id = &change.change_id;
    let is_manual = match facts.pending.as_slice() {
        [] => !change.auto_review,
        pending => !pending.iter().any(|one| starts_fix(change, one)),
    };
    let explanation = match (facts.pending.first(), change.state) {
        (None, State::ReadyForHumanReview | State::Approved) if facts.new_head().is_some() => {
            new_head_is_read(facts)
        }
        (Some(rejection), state) if takes_fixes(state) && is_manual => {
            let clause = format!(
                "rejected ({}) and waits for you to start its fix",
                rejection.rejection_id
            );
            let skip = (state == State::SelfReviewFailed).then(|| format!("remand skip {id}"));
            let on_pr = state == State::AwaitingPrFeedback;
            let instead = skip.or_else(|| on_pr.then(|| format!("remand ready {id}")));
            Explanation::new(Because::WaitsForStart, "it was ", clause)
                .commands([format!("remand refine {id}"), format!("remand show {id}")])
                .commands(instead)
                .commands([format!("remand cancel {id}")])
        }
        (None, State::PendingSelfReview) if is_manual => {
            let clause = "it is implemented and waits for you to start its review";
            Explanation::new(Because::WaitsForStart, "", clause).commands([
                format!("remand diff {id}"),
                format!("remand review {id}"),
                format!("remand skip {id}"),
                format!("remand refine {id} --text …"),
            ])
        }
        (None, State::AwaitingPrFeedback) if facts.waits_for_checks => waits_for_checks(facts),
        (None, State::AwaitingPrFeedback) if is_manual && !is_reviewed_head(facts) => {
            let done = match change.budget.total_fixes {
                0 => "its PR is open",
                _ => "its fix is pushed",
            };
            let clause =
                format!("{done}, and it waits for feedback or for you to start its review");
            Explanation::new(Because::WaitsForStart, "", clause)
                .commands([format!("remand review {id}")])
        }
        (Some(rejection), state) if takes_fixes(state) => {
            let id = &rejection.rejection_id;
            let clause = format!("the next heartbeat will create a fix for {id}");
            let waits = Explanation::new(Because::WaitsForHeartbeat, "", clause);
            and_next_look(facts, waits)
        }
        (Some(rejection), State::PendingSelfReview) if !change.auto_review => {
            let clause = format!(
                "it is implemented, and {} waits for you to start the review or the fix",
                rejection.rejection_id
            );
            Explanation::new(Because::WaitsForStart, "", clause)
                .commands([format!("remand refine {id}"), format!("remand review {id}")])
        }
        (Some(rejection), state) => {
            let id = &rejection.rejection_id;
            let clause = format!("{id} is waiting for the current work ({state}) to finish");
            Explanation::new(Because::Waits, "", clause)
        }
        (None, State::ReadyForHumanReview) => and_no_pr(facts, ready(facts)),
        (None, State::Approved) => {
            let moved = facts.newest_of(EventType::StateChanged);
            let by = match moved {
                Some(event) if has_entered(event) => "on its PR, before it was watched".to_owned(),
                Some(event) => format!("by {}", event.actor_id),
                None => "by somebody".to_owned(),
            };
            let clause = format!("approved {by}: ready to merge {}", change.branch);
            and_no_pr(
                facts,
                Explanation::new(Because::Approved, "it was ", clause),
            )
        }
        (None, State::SelfReviewFailed) => {
            let clause = "rejected, and the next heartbeat will create a fix";
            let waits = Explanation::new(Because::WaitsForHeartbeat, "it was ", clause);
            and_next_look(facts, waits)
        }
        (None, State::AwaitingPrFeedback) => waits_for_feedback(facts),
        (None, State::SelfReviewPassed | State::PrCreated) => {
            Explanation::new(Because::NextStage, "", "its review passed")
                .and("; the next stage follows")
        }
        (
            None,
            State::Queued
            | State::Implementing
            | State::PendingSelfReview
            | State::SelfReviewing
            | State::Refining
            | State::ReviewingPr
            | State::AddressingFeedback
            | State::Merged
            | State::Closed
            | State::Escalated,
        ) => {
            let state = change.state;
            let clause = format!("{state}, but there is no open work item to continue with");
            Explanation::new(Because::NothingOpen, "it is ", clause).commands([
                "remand check".into(),
                format!("remand refine {id} --text …"),
                format!("remand cancel {id}"),
            ])
        }
    };
    explanation.since(facts.in_state_since())
}

/// Adds that a change which a person judged before its pull request gets none by itself.
fn and_no_pr(facts: &Facts, explanation: Explanation) -> Explanation {
    let change = &facts.row.change;
    if !change.lacks_pr() {
        return explanation;
    }
    let skip = format!("remand skip {}", change.change_id);
    explanation
        .and(&format!("; no PR is opened unless you run `{skip}`"))
        .commands_in_sentence([skip])
}

/// Explains a verdict that is about to be withdrawn: its PR has another head.
fn new_head_is_read(facts: &Facts) -> Explanation {
    let head = facts.new_head().map(short_sha).unwrap_or_default();
    let clause = format!("a new head ({head}) is being read");
    let waits = Explanation::new(Because::WaitsForHeartbeat, "", clause);
    match facts.daemon {
        Daemon::Runs => waits.and("; it will be reviewed"),
        Daemon::None => and_next_look(facts, waits),
    }
}

/// True if no fix has changed the head since it was judged before its pull request was opened.
fn is_reviewed_head(facts: &Facts) -> bool {
    let change = &facts.row.change;
    change.budget.total_fixes == 0 && change.final_verdict.is_some()
}

/// True if the change was already in this state when it became known.
fn has_entered(event: &Event) -> bool {
    event
        .body::<body::StateChanged>()
        .is_some_and(|moved| moved.on == Some(Cause::Entered))
}

fn waits_for_feedback(facts: &Facts) -> Explanation {
    let name = facts.pr.as_deref().unwrap_or("its PR");
    let (read_at, next) = facts
        .pull
        .as_ref()
        .map_or((None, None), |pull| (pull.read_at, pull.next_read));
    let explanation = Explanation::new(Because::WaitsForFeedback, "it is ", "waiting for feedback")
        .and(&format!(" on {name}"))
        .until(next);
    match (read_at, next, facts.daemon) {
        (_, _, Daemon::None) => explanation
            .and(", but no daemon is running to read it")
            .short("waiting for feedback, no daemon is running")
            .commands(next_look(facts).1),
        (Some(read), Some(next), Daemon::Runs) => explanation.and(&format!(
            ", read {}, next read {}",
            ago(read, facts.now),
            ahead(next, facts.now)
        )),
        (None, Some(next), Daemon::Runs) => {
            explanation.and(&format!(", first read {}", ahead(next, facts.now)))
        }
        (_, None, Daemon::Runs) => explanation,
    }
}
