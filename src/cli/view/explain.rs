//! What a change waits for, or why it stopped, in one sentence with what to type: for `why`, `status` and the board.
//! Facts are gathered from the blackboard first; the sentence is made from them alone.

use serde::Serialize;

use super::facts::{Daemon, Facts, Holder, word};
use crate::blackboard::{self as bb};
use crate::change::State;
use crate::cli::reload;
use crate::cli::shadow;
use crate::cli::stop;
use crate::clock::Time;
use crate::evaluator::review_feedback::takes_fixes;
use crate::event::EventType;
use crate::human_time::{ago, ahead};
use crate::work::{Item, Rejection, Source, Status};

/// The sentence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Explanation {
    /// One word for programs.
    pub(crate) because: &'static str,
    pub(crate) answer: String,
    pub(crate) since: Option<Time>,
    pub(crate) until: Option<Time>,
    /// What a person can type, the likeliest first.
    pub(crate) commands: Vec<String>,
}

/// Why the change is where it is.
pub(crate) fn answer(facts: &Facts) -> Explanation {
    if facts.row.change.state.is_over() {
        return over(facts);
    }
    and_clock_set_back(answer_by_clock(facts), facts)
}

/// Times of what was done that lie in the future explain waits that nobody would expect.
fn and_clock_set_back(told: Explanation, facts: &Facts) -> Explanation {
    let done = [
        Some(facts.row.change.updated_at),
        facts.pull.as_ref().and_then(|pull| pull.read_at),
    ];
    let Some(done) = done
        .into_iter()
        .flatten()
        .max()
        .filter(|done| bb::is_ahead(*done, facts.now))
    else {
        return told;
    };
    let answer = format!(
        "{}; the clock was set back: something was done for it at {done}, and it is {} now. What the wrong clock put off \
         is tried again at the next look",
        told.answer, facts.now
    );
    Explanation { answer, ..told }
}

fn answer_by_clock(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    if change.state == State::Escalated {
        return shadow::and_in_shadow(
            stop::and_stopped(and_not_posted(escalated(facts), facts), facts),
            facts,
        );
    }
    if change.paused_by_person || change.paused_by_rules {
        return shadow::and_in_shadow(stop::and_stopped(paused(facts), facts), facts);
    }
    if change.held_until.is_some() {
        return stop::and_stopped(reload::and_not_in_force(held(facts), facts), facts);
    }
    if change.stopped && (facts.row.open_item.is_some() || !facts.pending.is_empty()) {
        return stop::stopped(facts);
    }
    if change.shadow && (facts.row.open_item.is_some() || !facts.pending.is_empty()) {
        return shadow::shadowed(facts);
    }
    let told = match &facts.row.open_item {
        // What an evaluator wants a person to do is in nobody's way.
        Some(item) if item.metadata.get("evaluator").is_some() => {
            let told = idle(facts);
            Explanation {
                answer: format!(
                    "{}; {} is for a person: {}",
                    told.answer, item.item_id, item.title
                ),
                ..told
            }
        }
        Some(item) => and_after(open(facts, item), &facts.pending),
        None => idle(facts),
    };
    let told = and_not_posted(and_not_read(told, facts), facts);
    shadow::and_in_shadow(stop::and_stopped(told, facts), facts)
}

/// What was under way when it was paused or stopped.
pub(crate) fn may_finish(facts: &Facts, is_ended: bool) -> Option<String> {
    let item = facts
        .row
        .open_item
        .as_ref()
        .filter(|_| facts.holder == Holder::Alive)?;
    let what = format!("{} {}", item.source, item.item_id);
    Some(if is_ended {
        format!("{what} is being ended, and runs again after that")
    } else {
        format!("{what} may still finish, nothing follows from it until then")
    })
}

/// What is not on the pull request is not seen there.
fn and_not_posted(mut told: Explanation, facts: &Facts) -> Explanation {
    let first = |posts: &[bb::Intent]| {
        let first = posts.first()?.clone();
        let more = if posts.len() > 1 {
            format!(" and {} more", posts.len() - 1)
        } else {
            String::new()
        };
        Some((
            format!("{}{more}", first.key),
            first.trouble.unwrap_or_default(),
            first.not_before,
        ))
    };
    if let Some((what, trouble, next)) = first(&facts.unposted) {
        let again = next
            .map(|next| format!(", tried again {}", ahead(next, facts.now)))
            .unwrap_or_default();
        told.answer
            .push_str(&format!("; {what} could not be posted{again}: {trouble}"));
    }
    if let Some((what, trouble, _)) = first(&facts.refused) {
        let command = format!("remand post {}", facts.row.change.change_id);
        told.answer.push_str(&format!(
            "; {what} was refused: {trouble}. Post it after all with `{command}`"
        ));
        told.commands.push(command);
    }
    told
}

/// A pull request that can't be read says nothing new, and nobody would notice.
fn and_not_read(told: Explanation, facts: &Facts) -> Explanation {
    let Some((pull, trouble)) = facts
        .pull
        .as_ref()
        .and_then(|pull| Some((pull, pull.trouble.as_ref()?)))
    else {
        return told;
    };
    let again = pull
        .next_read
        .map(|next| format!(", tried again {}", ahead(next, facts.now)))
        .unwrap_or_default();
    Explanation {
        answer: format!(
            "{}; its PR could not be read{again}: {trouble}",
            told.answer
        ),
        ..told
    }
}

pub(crate) fn say(
    because: &'static str,
    answer: impl Into<String>,
    since: Option<Time>,
    commands: &[String],
) -> Explanation {
    Explanation {
        because,
        answer: answer.into(),
        since,
        until: None,
        commands: commands.to_vec(),
    }
}

fn over(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let told = facts
        .newest(|event| word(event, "action") == Some("cancel"))
        .map(|event| event.summary.clone());
    let told = told
        .filter(|_| change.state == State::Closed)
        .map(|told| format!(": {told}"))
        .unwrap_or_default();
    let since = facts.in_state_since();
    say(
        change.state.as_str(),
        format!("it is {}; nothing more is done for it{told}", change.state),
        since,
        &[],
    )
}

fn escalated(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let id = &change.change_id;
    let event = facts.newest_of(EventType::Escalated);
    let reason = event.map_or("the reason is not recorded", |event| event.summary.as_str());
    let answer = match &change.decision {
        Some(decision) => format!("it needs you: {reason}. Decide: {decision}"),
        None => format!("it needs you: {reason}"),
    };
    let mut commands: Vec<String> = change
        .decision
        .as_deref()
        .map(quoted_commands)
        .unwrap_or_default();
    let is_raised = event.and_then(|event| word(event, "bound")) == Some("cycles")
        && change.budget.fix_cycle < change.budget.max_fix_cycles;
    let answer = if is_raised {
        commands.insert(0, format!("remand retry {id}"));
        format!(
            "{answer}. Since then the bound was raised to {}: `remand retry {id}` goes on",
            change.budget.max_fix_cycles
        )
    } else {
        answer
    };
    if commands.is_empty() {
        commands = vec![
            format!("remand approve {id}"),
            format!("remand refine {id} --text …"),
            format!("remand cancel {id}"),
        ];
    }
    say(
        "needs_you",
        answer,
        event.map(|event| event.timestamp),
        &commands,
    )
}

/// The commands that stand between backticks.
fn quoted_commands(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .filter(|piece| piece.starts_with("remand "))
        .map(str::to_owned)
        .collect()
}

fn paused(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let (mut said, mut since, mut commands) = (Vec::new(), None, Vec::new());
    if change.paused_by_rules {
        let reason = facts
            .pull
            .as_ref()
            .and_then(|pull| pull.passed_over.as_deref());
        let reason = reason
            .map(|reason| format!(": {reason}"))
            .unwrap_or_default();
        said.push(format!(
            "it is paused while the project's rules do not take its PR{reason}"
        ));
        since = facts
            .newest(|event| word(event, "what") == Some("unwanted"))
            .map(|event| event.timestamp);
    }
    if change.paused_by_person {
        let event = facts.newest(|event| word(event, "action") == Some("pause"));
        let by = event.map_or("somebody", |event| event.actor_id.as_str());
        let why = event
            .and_then(|event| word(event, "text"))
            .filter(|text| !text.is_empty());
        said.insert(
            0,
            format!(
                "it was paused by {by}{}",
                why.map(|why| format!(": {why}")).unwrap_or_default()
            ),
        );
        since = event.map(|event| event.timestamp);
        commands.push(format!("remand resume {}", change.change_id));
    }
    said.extend(may_finish(facts, false));
    say("paused", said.join("; "), since, &commands)
}

fn held(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let event = facts.newest_of(EventType::Held);
    let reason = change
        .hold_reason
        .as_deref()
        .unwrap_or("no reason was recorded");
    let until = change.held_until;
    let when = match until {
        Some(until) if until > facts.now => {
            format!("it is held until {until} ({})", ahead(until, facts.now))
        }
        Some(_) | None => {
            "its hold is over, and goes on with the next look of `remand run` or `remand tick`"
                .to_owned()
        }
    };
    let commands = [format!("remand resume {}", change.change_id)];
    let told = say(
        "held",
        format!("{when}: {reason}"),
        event.map(|event| event.timestamp),
        &commands,
    );
    Explanation { until, ..told }
}

/// A rejection that came meanwhile is not forgotten, and says so.
fn and_after(told: Explanation, pending: &[Rejection]) -> Explanation {
    let ids: Vec<&str> = pending
        .iter()
        .map(|rejection| rejection.rejection_id.as_str())
        .collect();
    match ids.as_slice() {
        [] => told,
        [one] => Explanation {
            answer: format!("{}; {one} waits until then", told.answer),
            ..told
        },
        [..] => Explanation {
            answer: format!("{}; {} wait until then", told.answer, ids.join(", ")),
            ..told
        },
    }
}

fn open(facts: &Facts, item: &Item) -> Explanation {
    match item.status {
        Status::Claimed => claimed(facts, item),
        Status::Blocked => say(
            "blocked",
            format!(
                "{} {} is blocked, though the change is neither paused nor held",
                item.source, item.item_id
            ),
            Some(item.created_at),
            &[format!("remand resume {}", facts.row.change.change_id)],
        ),
        Status::Available | Status::Completed | Status::Failed | Status::Cancelled => {
            available(facts, item)
        }
    }
}

fn claimed(facts: &Facts, item: &Item) -> Explanation {
    let what = format!("{} {}", item.source, item.item_id);
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
    match facts.holder {
        Holder::Alive if ran_out => say(
            "running",
            format!(
                "{what} is being run by a process that lives but has not renewed its lease (was the machine asleep?)"
            ),
            since,
            &[format!("remand item show {}", item.item_id)],
        ),
        Holder::Alive => {
            let by = run
                .map(|run| format!(" by {} ({})", run.agent, run.run_id))
                .unwrap_or_default();
            let commands: Vec<String> = run
                .map(|run| format!("remand log {} -f", run.run_id))
                .into_iter()
                .collect();
            say(
                "running",
                format!("{what} is being run{by}"),
                since,
                &commands,
            )
        }
        Holder::Dead | Holder::Nobody => say(
            "holder_died",
            format!(
                "the process that ran {what} is dead; {}",
                next_look(facts).0
            ),
            since,
            &next_look(facts).1,
        ),
        Holder::Unknown => say(
            "running",
            format!(
                "{what} is claimed by `{}`, and this machine can't tell whether that lives",
                item.claimed_by.as_deref().unwrap_or("")
            ),
            since,
            &[format!("remand item show {}", item.item_id)],
        ),
    }
}

fn available(facts: &Facts, item: &Item) -> Explanation {
    let what = format!("{} {}", item.source, item.item_id);
    let since = Some(item.created_at);
    if !matches!(item.source, Source::CodeReview | Source::ReviewFix) {
        let answer = format!(
            "{what} is queued, but this version does not run items of source `{}`",
            item.source
        );
        return say(
            "not_run",
            answer,
            since,
            &[format!("remand item cancel {}", item.item_id)],
        );
    }
    if let Some(until) = item.not_before.filter(|until| *until > facts.now) {
        let told = say(
            "delayed",
            format!("{what} waits until {until} ({})", ahead(until, facts.now)),
            since,
            &[],
        );
        return Explanation {
            until: Some(until),
            ..told
        };
    }
    if facts.running >= facts.slots {
        let answer = format!(
            "{what} waits for a free slot: {} of {} are in use (dispatch.slots)",
            facts.running, facts.slots
        );
        return say(
            "waits_for_slot",
            answer,
            since,
            &["remand item list --status claimed".into()],
        );
    }
    let (then, commands) = next_look(facts);
    say(
        "queued",
        format!("{what} is queued; {then}"),
        since,
        &commands,
    )
}

/// Who takes what waits, and what to type when nobody does.
fn next_look(facts: &Facts) -> (&'static str, Vec<String>) {
    match facts.daemon {
        Daemon::Runs => ("the daemon takes it in a moment", Vec::new()),
        Daemon::None => (
            "no daemon runs that would take it",
            vec!["remand run".into(), "remand tick".into()],
        ),
    }
}

/// Nothing is open: what happens next is up to the heartbeat, a person or the forge.
fn idle(facts: &Facts) -> Explanation {
    let change = &facts.row.change;
    let id = &change.change_id;
    let since = facts.in_state_since();
    if let Some(rejection) = facts.pending.first() {
        let id = &rejection.rejection_id;
        if !takes_fixes(change.state) {
            return say(
                "waits",
                format!(
                    "{id} waits until what is under way ({}) is over",
                    change.state
                ),
                since,
                &[],
            );
        }
        let (then, commands) = next_look(facts);
        return say(
            "waits_for_heartbeat",
            format!("the next heartbeat makes a fix of {id}; {then}"),
            since,
            &commands,
        );
    }
    match change.state {
        State::ReadyForHumanReview => say(
            "waits_for_approval",
            format!(
                "its review is done and it waits for you to approve it ({})",
                said_yes(facts)
            ),
            since,
            &[
                format!("remand diff {id}"),
                format!("remand approve {id}"),
                format!("remand reject {id} --text …"),
            ],
        ),
        State::Approved => {
            let moved = facts.newest_of(EventType::StateChanged);
            let by = match moved {
                Some(event) if word(event, "on") == Some("entered") => {
                    "on its PR, before it was watched".to_owned()
                }
                moved => format!(
                    "by {}",
                    moved.map_or("somebody", |event| event.actor_id.as_str())
                ),
            };
            say(
                "approved",
                format!(
                    "it was approved {by}: merge {} when you like",
                    change.branch
                ),
                since,
                &[],
            )
        }
        State::SelfReviewFailed => {
            let (then, commands) = next_look(facts);
            say(
                "waits_for_heartbeat",
                format!("it was rejected, and the next heartbeat makes a fix of that; {then}"),
                since,
                &commands,
            )
        }
        State::AwaitingPrFeedback => waits_for_feedback(facts),
        State::SelfReviewPassed | State::PrCreated => say(
            "next_stage",
            "its review passed; the next stage follows",
            since,
            &[],
        ),
        State::Queued
        | State::Implementing
        | State::PendingSelfReview
        | State::SelfReviewing
        | State::Refining
        | State::ReviewingPr
        | State::AddressingFeedback
        | State::Merged
        | State::Closed
        | State::Escalated => say(
            "nothing_open",
            format!(
                "it is {}, but nothing is open that would move it on",
                change.state
            ),
            since,
            &[
                "remand check".into(),
                format!("remand refine {id} --text …"),
                format!("remand cancel {id}"),
            ],
        ),
    }
}

fn waits_for_feedback(facts: &Facts) -> Explanation {
    let name = facts.pr.as_deref().unwrap_or("its PR");
    let (read_at, next) = facts
        .pull
        .as_ref()
        .map_or((None, None), |pull| (pull.read_at, pull.next_read));
    let read = match (read_at, next, facts.daemon) {
        (_, _, Daemon::None) => ", and no daemon runs that would read it".to_owned(),
        (Some(read), Some(next), _) => format!(
            ", read {}, again {}",
            ago(read, facts.now),
            ahead(next, facts.now)
        ),
        (None, Some(next), _) => format!(", first read {}", ahead(next, facts.now)),
        (_, None, _) => String::new(),
    };
    let commands = if facts.daemon == Daemon::None {
        next_look(facts).1
    } else {
        Vec::new()
    };
    let told = say(
        "waits_for_feedback",
        format!("it waits for feedback on {name}{read}"),
        facts.in_state_since(),
        &commands,
    );
    Explanation {
        until: next,
        ..told
    }
}

/// What a person said on the pull request may have been taken back since.
fn said_yes(facts: &Facts) -> String {
    let told = facts
        .newest(|event| event.event_type == EventType::WorkApproved && event.actor_id == "remand");
    told.map_or_else(
        || "no review said so".to_owned(),
        |event| format!("{}, {}", event.summary, ago(event.timestamp, facts.now)),
    )
}
