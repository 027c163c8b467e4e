//! Events of the blackboard for people who follow them: one line per step, for `remand run` on a
//! terminal and for the demo. It reads typed metadata, never the wording of a text.

use std::collections::{BTreeSet, HashMap};
use std::io;

use crate::blackboard::{self as bb, Conn};
use crate::change::{ChangeId, State};
use crate::cli::frame::{Line, TextStyle, Ui, found};
use crate::clock::Time;
use crate::event::body::{self, PullChange, SetUpResult, SkipCode};
use crate::event::{Event, EventType};
use crate::explain::pr_name;
use crate::finding::Finding;
use crate::intent::IntentKind;
use crate::text::{columns, count, prefixed, truncate};
use crate::work::{Ended, Item, LoopStep, RejectionState};

/// Maximum number of events per read.
const BATCH: i64 = 500;

/// Width of the title of a change.
const TITLE: usize = 20;

/// Maximum number of characters quoted from a finding or from feedback.
const QUOTE: usize = 200;

/// An event that is shown, as one line.
pub(crate) struct Step {
    pub(crate) at: Time,
    /// Change that the event is about, if any.
    subject: Option<Subject>,
    style: TextStyle,
    text: String,
    /// Decision that a person has to make.
    decide: Option<String>,
}

#[derive(Debug, Clone)]
struct Subject {
    /// `website#42`, or `c2` without a pull request.
    name: String,
    title: String,
}

/// Returns the events after `seen` as steps, and the id of the newest event read.
pub(crate) fn read(conn: &Conn, seen: i64) -> bb::Result<(Vec<Step>, i64)> {
    read_where(conn, seen, |_| true, run_started)
}

/// Like [`read`], for events about these changes; runs are counted within their round.
pub(crate) fn read_of(
    conn: &Conn,
    seen: i64,
    ids: &BTreeSet<ChangeId>,
) -> bb::Result<(Vec<Step>, i64)> {
    let is_about = |event: &Event| event.change_id.as_ref().is_some_and(|id| ids.contains(id));
    read_where(conn, seen, is_about, |conn, event| {
        let started = event.body::<body::RunStarted>().unwrap_or_default();
        let item = match started.item_id {
            Some(id) => found(bb::item(conn, &id))?,
            None => None,
        };
        let (agent, run) = (started.agent, &event.target_id);
        match item {
            Some(item) => Ok(format!("{} ({agent}, {run})", running(conn, &item)?)),
            None => Ok(format!("{agent} starts a run ({run})")),
        }
    })
}

/// Describes running work: `[2/3] Running review…` is the second of at most three reviews of the round.
pub(crate) fn running(conn: &Conn, item: &Item) -> bb::Result<String> {
    let change = match &item.change_id {
        Some(id) => found(bb::change(conn, id))?,
        None => None,
    };
    let most = change.map_or(0, |change| change.budget.max_fix_cycles);
    let number = item.fix_cycle + 1;
    Ok(match item.step() {
        Some(LoopStep::Implement) => "Running implementation…".to_owned(),
        Some(LoopStep::Review) => format!("[{number}/{}] Running review…", number.max(most + 1)),
        Some(LoopStep::Fix) => format!("[{number}/{}] Running fix…", number.max(most)),
        Some(LoopStep::OpenPull) => "Opening the pull request…".to_owned(),
        None => format!("Running {}…", item.item_id),
    })
}

fn read_where(
    conn: &Conn,
    mut seen: i64,
    is_wanted: impl Fn(&Event) -> bool,
    run_started: impl Fn(&Conn, &Event) -> bb::Result<String>,
) -> bb::Result<(Vec<Step>, i64)> {
    let mut subjects = HashMap::new();
    let mut steps = Vec::new();
    loop {
        let events = bb::events_since(conn, seen, BATCH)?;
        let Some(last) = events.last() else {
            return Ok((steps, seen));
        };
        seen = last.id;
        for event in events.into_iter().filter(&is_wanted) {
            let told = if event.event_type == EventType::RunStarted {
                Some((TextStyle::Plain, run_started(conn, &event)?))
            } else {
                words(conn, &event)?
            };
            let Some((style, text)) = told else {
                continue;
            };
            let subject = match &event.change_id {
                Some(id) => subject(conn, id, &mut subjects)?,
                None => None,
            };
            let decide = event
                .body::<body::Escalated>()
                .map(|escalated| escalated.decide)
                .filter(|decide| !decide.is_empty());
            steps.push(Step {
                at: event.timestamp,
                subject,
                style,
                text,
                decide,
            });
        }
    }
}

impl Step {
    /// Prints the step; `when` is the time of day or the time since the start.
    pub(crate) fn print(&self, out: &mut Ui, when: &str) -> io::Result<()> {
        let head = match &self.subject {
            Some(subject) => {
                let title = truncate(&subject.title, TITLE);
                let gap = " ".repeat(TITLE.saturating_sub(columns(&title)) + 2);
                Line::new()
                    .faint(format!("{when}  "))
                    .strong(format!("{:<10}  ", subject.name))
                    .faint(format!("{title}{gap}"))
            }
            None => Line::new().faint(format!("{when}  ")),
        };
        let indent = when.chars().count() + 2;
        out.hanging(head, indent, self.style, &self.text)?;
        if let Some(decide) = &self.decide {
            let head = Line::new().strong(format!("{:indent$}decide: ", ""));
            out.hanging(head, indent, TextStyle::Plain, decide)?;
        }
        Ok(())
    }
}

fn subject(
    conn: &Conn,
    id: &ChangeId,
    known: &mut HashMap<ChangeId, Option<Subject>>,
) -> bb::Result<Option<Subject>> {
    if let Some(subject) = known.get(id) {
        return Ok(subject.clone());
    }
    // `None` if it was pruned in the meantime.
    let subject = match found(bb::change(conn, id))? {
        Some(change) => {
            let name = match change.pr_number {
                Some(number) => {
                    let name = pr_name(&bb::project(conn, &change.project_id)?, number);
                    name.rsplit('/').next().unwrap_or(&name).to_owned()
                }
                None => id.to_string(),
            };
            let title = change.title;
            Some(Subject { name, title })
        }
        None => None,
    };
    known.insert(id.clone(), subject.clone());
    Ok(subject)
}

/// Describes the event, if it is worth a line.
fn words(conn: &Conn, event: &Event) -> bb::Result<Option<(TextStyle, String)>> {
    let summary = || event.summary.clone();
    let step = match event.event_type {
        EventType::RunFinished => return Ok(run_finished(event)),
        EventType::RunLost
        | EventType::ReviewUnclear
        | EventType::EditsUndone
        | EventType::PermissionDenied
        | EventType::CheckoutChanged
        | EventType::DaemonEnded => (TextStyle::Notice, summary()),
        EventType::WorkRejected => (TextStyle::Notice, rejected(event)),
        EventType::WorkApproved => (TextStyle::Good, approved(event)),
        EventType::GateFailed => (TextStyle::Notice, gate_failed(event)),
        EventType::FixPushed
        | EventType::FixCommitted
        | EventType::Implemented => (TextStyle::Good, summary()),
        EventType::PrCreated => (TextStyle::Good, pull_opened(event)),
        EventType::ReviewPosted => (TextStyle::Faint, "posted the review".to_owned()),
        EventType::Posted => (TextStyle::Faint, posted(event)),
        EventType::Held => (TextStyle::Notice, held(event)),
        EventType::Resumed => (TextStyle::Plain, resumed(event)),
        EventType::Escalated => (TextStyle::Bad, escalated(event)),
        EventType::Instructed if event.actor_id == "remand" => return Ok(None),
        EventType::PrChanged if is_merge(event) => (TextStyle::Good, summary()),
        EventType::Instructed
        | EventType::PrAdopted
        | EventType::PrChanged
        | EventType::HeadMoved
        | EventType::Shadowed
        | EventType::Reloaded => (TextStyle::Plain, summary()),
        EventType::StateChanged => {
            return Ok(ready(conn, event)?.map(|text| (TextStyle::Good, text)));
        }
        EventType::SetupRun if is_failed_setup(event) => (TextStyle::Notice, summary()),
        EventType::Skipped if is_skip_to_show(event) => (TextStyle::Notice, summary()),
        // Its caller describes it.
        EventType::RunStarted
        | EventType::SetupRun
        | EventType::Skipped
        | EventType::WorkCreated
        | EventType::WorkClaimed
        | EventType::WorkCompleted
        // An escalation follows.
        | EventType::WorkFailed
        | EventType::WorkCancelled
        | EventType::FixCreated
        | EventType::ReviewRequeued
        | EventType::WorktreeMade
        | EventType::WorktreeRemoved
        | EventType::FeedbackReceived
        | EventType::MessageSent
        | EventType::Notified
        | EventType::Pruned => return Ok(None),
    };
    Ok(Some(step))
}

fn run_started(conn: &Conn, event: &Event) -> bb::Result<String> {
    let started = event.body::<body::RunStarted>().unwrap_or_default();
    let item = match started.item_id {
        Some(id) => found(bb::item(conn, &id))?,
        None => None,
    };
    let work = match item.and_then(|item| item.step()) {
        Some(LoopStep::Implement) => "the implementation",
        Some(LoopStep::Fix) => "the fix",
        Some(LoopStep::Review) => "the review",
        Some(LoopStep::OpenPull) | None => "a run",
    };
    let (agent, run) = (started.agent, &event.target_id);
    let part = prefixed(", part ", Some(started.part).filter(|part| *part > 1));
    Ok(format!("{agent} starts {work} ({run}{part})"))
}

/// Describes the end of a run, unless the agent exited by itself and its result follows.
fn run_finished(event: &Event) -> Option<(TextStyle, String)> {
    let ended = event.body::<body::RunFinished>()?.ended?;
    let how = match ended {
        Ended::Agent | Ended::Lost => return None,
        Ended::IdleLimit => "timed out: no output for too long",
        Ended::TotalLimit => "timed out: it took too long",
        Ended::DaemonGone => "was terminated because the daemon had exited",
        Ended::Stopped => "was stopped",
        Ended::NotStarted => "could not be started",
    };
    Some((TextStyle::Notice, format!("{} {how}", event.target_id)))
}

fn rejected(event: &Event) -> String {
    let rejected = event.body::<body::WorkRejected>().unwrap_or_default();
    if let Some(gate) = rejected.gate {
        return format!("gate `{}` fails on the head commit", gate.command);
    }
    match (&rejected.review_id, rejected.findings.as_slice()) {
        (Some(_), [first, ..]) => {
            let findings = count(rejected.findings.len(), "finding");
            format!("reviewer: changes requested, {findings}: {}", quote(first))
        }
        (Some(_), []) => format!("reviewer: {}", event.summary),
        // The summary names the author.
        (None, _) if rejected.feedback.is_some() => event.summary.clone(),
        (None, _) => {
            let text = rejected.said.as_deref().unwrap_or(&rejected.body);
            let first = text.lines().find(|line| !line.trim().is_empty());
            let text = truncate(first.unwrap_or(&event.summary), QUOTE);
            format!("{} requests changes: {text}", event.actor_id)
        }
    }
}

fn quote(finding: &Finding) -> String {
    let place = prefixed(" ", finding.place());
    let text = finding.titled_text();
    let text = text.lines().next().unwrap_or_default();
    format!("{}{place} {}", finding.severity, truncate(text, QUOTE))
}

fn approved(event: &Event) -> String {
    let approved = event.body::<body::WorkApproved>().unwrap_or_default();
    match approved.review_id {
        Some(_) => format!("reviewer: {}", event.summary),
        None => event.summary.clone(),
    }
}

fn gate_failed(event: &Event) -> String {
    let failed = event.body::<body::GateFailed>().unwrap_or_default();
    let command = failed.command;
    match failed.status {
        Some(status) => format!("gate `{command}` failed: exit status {status}"),
        None => format!("gate `{command}` failed: killed by a signal"),
    }
}

fn pull_opened(event: &Event) -> String {
    let created = event.body::<body::PrCreated>().unwrap_or_default();
    let url = Some(created.url).filter(|url| !url.is_empty());
    format!("{}{}", event.summary, prefixed(": ", url))
}

fn posted(event: &Event) -> String {
    let posted = event.body::<body::Posted>().unwrap_or_default();
    match posted.kind {
        Some(IntentKind::Answer) => "posted a reply".to_owned(),
        Some(IntentKind::Note) => "posted a comment".to_owned(),
        Some(IntentKind::Review) => "posted the review".to_owned(),
        Some(IntentKind::Push | IntentKind::Ask | IntentKind::Rerun) | None => {
            event.summary.clone()
        }
    }
}

fn held(event: &Event) -> String {
    let held = event.body::<body::Held>().unwrap_or_default();
    let until = prefixed(" until ", held.until.map(|until| until.local_time()));
    format!("held{until}: {}", held.reason)
}

fn resumed(event: &Event) -> String {
    let resumed = event.body::<body::Resumed>().unwrap_or_default();
    format!("resumed: {}", resumed.reason)
}

fn escalated(event: &Event) -> String {
    let escalated = event.body::<body::Escalated>().unwrap_or_default();
    format!("needs you: {}", escalated.reason)
}

/// Describes what a person can do with a change that passed its review, unless another rejection is
/// waiting.
fn ready(conn: &Conn, event: &Event) -> bb::Result<Option<String>> {
    let moved = event.body::<body::StateChanged>().unwrap_or_default();
    let is_ready = moved.to == Some(State::ReadyForHumanReview);
    let Some(id) = event.change_id.as_ref().filter(|_| is_ready) else {
        return Ok(None);
    };
    let pending = bb::rejections_of(conn, id, Some(RejectionState::Pending))?;
    let text = format!("ready for you: `remand diff {id}`, then `remand approve {id}`");
    Ok(pending.is_empty().then_some(text))
}

fn is_merge(event: &Event) -> bool {
    let changed = event.body::<body::PrChanged>();
    changed.is_some_and(|changed| changed.what == Some(PullChange::Merged))
}

fn is_failed_setup(event: &Event) -> bool {
    let setup = event.body::<body::SetupRun>();
    setup.is_some_and(|setup| setup.result != Some(SetUpResult::Done))
}

/// True for skips that a person may be waiting for.
fn is_skip_to_show(event: &Event) -> bool {
    let code = event.body::<body::Skipped>().and_then(|skip| skip.code);
    matches!(
        code,
        Some(
            SkipCode::NotPosted
                | SkipCode::FeedbackLeftOut
                | SkipCode::CommitsReplaced
                | SkipCode::BoundPassed
                | SkipCode::SettingsRefused
                | SkipCode::EvaluatorFailed
                | SkipCode::SetAside
                | SkipCode::ChecksNotOurs
                | SkipCode::CheckMissing
                | SkipCode::ChecksStopped
        )
    )
}
