//! Facts that the explanation of a change is made from, gathered from the blackboard in one read.

use crate::blackboard::{self as bb, BoardRow, Conn, Project};
use crate::change::{HoldKind, Shadow, State};
use crate::check::Check;
use crate::clock::{Time, Zone};
use crate::event::body::{self, Action};
use crate::event::{Event, EventType};
use crate::process::ProcessId;
use crate::pull_request::{PullRow, PullState};
use crate::work::{Item, Rejection, RejectionState, Run, Status};

/// Maximum number of events of a type that are searched for the one that led here.
const LOOK_BACK: i64 = 200;

/// Facts that the explanation of a change is made from.
pub(crate) struct Facts {
    pub(crate) row: BoardRow,
    /// Newest events of the types that explain its situation, oldest first.
    pub(crate) events: Vec<Event>,
    pub(crate) pending: Vec<Rejection>,
    /// Its run without an end, if it is over.
    pub(crate) unended: Option<Run>,
    pub(crate) holder: Holder,
    /// Its pull request, as last read.
    pub(crate) pull: Option<PullRow>,
    /// Name of its pull request, as `owner/repo#42`.
    pub(crate) pr: Option<String>,
    /// Checks of its pull request's head.
    pub(crate) checks: Vec<Check>,
    /// True if it waits for nothing but these.
    pub(crate) waits_for_checks: bool,
    /// Posts for the pull request that could not be made yet.
    pub(crate) unposted: Vec<bb::Intent>,
    /// Posts for the pull request that were refused.
    pub(crate) refused: Vec<bb::Intent>,
    /// Stops that apply to it.
    pub(crate) stops: Vec<bb::Stopped>,
    /// Record of what would have run, if it is in shadow.
    pub(crate) shadow: Option<bb::Shadowed>,
    /// Result of a review in shadow.
    pub(crate) shadow_review: Option<bb::ShadowReview>,
    pub(crate) shadow_mode: Shadow,
    /// Reason why a changed configuration is not in effect, if it is held for that.
    pub(crate) configuration: Option<bb::Changed>,
    /// Number of running items of all changes. Only counted if an item of this change is available.
    pub(crate) running: usize,
    /// Maximum number of items that run at the same time.
    pub(crate) slots: usize,
    pub(crate) daemon: Daemon,
    pub(crate) now: Time,
    /// Time zone of the times in the explanation.
    pub(crate) zone: Zone,
}

/// Presence of a daemon that runs queued items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Daemon {
    Runs,
    None,
}

/// Values that are the same for all changes that are shown together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Around {
    pub(crate) slots: usize,
    pub(crate) daemon: Daemon,
    pub(crate) now: Time,
    /// Local for people, UTC for programs.
    pub(crate) zone: Zone,
}

/// State of the process that claimed the open item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Nobody,
    Alive,
    Dead,
    /// Cannot be determined: the process is on another machine, or its name is not in our format.
    Unknown,
}

/// Condition that determines the explanation of a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Situation<'a> {
    Over,
    TakenOver,
    Escalated,
    Paused,
    Held,
    /// Something waits that would run if it were not stopped.
    Stopped,
    /// Something waits that would run for real if it were not in shadow.
    Shadow,
    Open(&'a Item),
    /// Nothing is open, or only an item for a person, which blocks nothing.
    Idle,
}

impl<'a> Situation<'a> {
    /// Returns the strongest condition that applies.
    pub(super) fn of(row: &'a BoardRow) -> Self {
        let change = &row.change;
        let waits = row.open_item.is_some() || row.pending_rejections > 0;
        if change.state.is_over() {
            Self::Over
        } else if change.taken_over {
            Self::TakenOver
        } else if change.state == State::Escalated {
            Self::Escalated
        } else if change.paused_by_person || change.paused_by_rules {
            Self::Paused
        } else if change.held_until.is_some() {
            Self::Held
        } else if change.stopped && waits {
            Self::Stopped
        } else if change.shadow && waits {
            Self::Shadow
        } else {
            let item = row.open_item.as_ref().filter(|item| !item.is_for_person());
            item.map_or(Self::Idle, Self::Open)
        }
    }

    /// Returns the types of the events that explain it. A board has many rows: no others are read.
    fn event_types(self, state: State) -> &'static [EventType] {
        match self {
            Self::Over => &[EventType::StateChanged, EventType::Instructed],
            Self::Escalated => &[EventType::Escalated],
            Self::Paused => &[EventType::Instructed, EventType::PrChanged],
            Self::Held => &[EventType::Held],
            Self::Stopped => &[],
            Self::Shadow | Self::TakenOver => &[EventType::Instructed],
            Self::Open(item) if item.status == Status::Claimed => &[EventType::WorkClaimed],
            Self::Open(_) => &[],
            Self::Idle if state == State::ReadyForHumanReview => &[
                EventType::StateChanged,
                EventType::WorkApproved,
                EventType::Instructed,
            ],
            Self::Idle => &[EventType::StateChanged],
        }
    }
}

impl Facts {
    pub(crate) fn gather(conn: &Conn, row: BoardRow, around: Around) -> bb::Result<Self> {
        let change = &row.change;
        let id = &change.change_id;
        let types = Situation::of(&row).event_types(change.state);
        let mut events = Vec::new();
        for &event_type in types {
            let limit = look_back(event_type);
            events.extend(bb::events_of_type(conn, id, event_type, limit)?);
        }
        events.sort_by_key(|event| event.id);
        let pending = match row.pending_rejections {
            0 => Vec::new(),
            _ => bb::rejections_of(conn, id, Some(RejectionState::Pending))?,
        };
        let (mut pull, mut pr, mut unposted, mut refused) = (None, None, Vec::new(), Vec::new());
        let (mut checks, mut waits_for_checks) = (Vec::new(), false);
        if let Some(number) = change.pr_number {
            pull = bb::pull_of_change(conn, id)?;
            pr = Some(pr_name(&bb::project(conn, &change.project_id)?, number));
            unposted = bb::waiting_posts(conn, id)?;
            refused = bb::refused_posts(conn, id)?;
            checks = bb::checks_of(conn, id)?;
            let is_open = |pull: &PullRow| !pull.checks.is_green();
            waits_for_checks =
                pull.as_ref().is_some_and(is_open) && bb::is_past_review(conn, change)?;
        }
        let (mut shadow, mut shadow_review) = (None, None);
        if let Some(item) = row.open_item.as_ref().filter(|_| change.shadow) {
            shadow = bb::shadow_of(conn, &item.item_id)?;
            shadow_review = bb::shadow_review_of(conn, &item.item_id)?;
        }
        let unended = match change.state.is_over() {
            true => bb::open_run_at(conn, &change.worktree)?.filter(|run| run.change_id == *id),
            false => None,
        };
        let running = match &row.open_item {
            Some(item) if item.status == Status::Available => bb::claimed_items(conn)?,
            Some(_) | None => 0,
        };
        Ok(Self {
            events,
            pending,
            unended,
            holder: row.open_item.as_ref().map_or(Holder::Nobody, holder_of),
            pull,
            pr,
            checks,
            waits_for_checks,
            unposted,
            refused,
            stops: match change.stopped {
                true => bb::stops_for(conn, &change.project_id)?,
                false => Vec::new(),
            },
            shadow,
            shadow_review,
            shadow_mode: bb::change_shadow(conn, change)?,
            configuration: match change.hold_kind == Some(HoldKind::Configuration) {
                true => bb::configuration(conn)?.and_then(|row| row.changed),
                false => None,
            },
            running,
            slots: around.slots,
            daemon: around.daemon,
            now: around.now,
            zone: around.zone,
            row,
        })
    }

    pub(crate) fn newest(&self, fits: impl Fn(&Event) -> bool) -> Option<&Event> {
        self.events.iter().rev().find(|event| fits(event))
    }

    pub(crate) fn newest_of(&self, event_type: EventType) -> Option<&Event> {
        self.newest(|event| event.event_type == event_type)
    }

    pub(crate) fn in_shadow_since(&self) -> Option<Time> {
        self.newest_action(Action::Shadow)
            .map(|event| event.timestamp)
    }

    /// Returns the newest instruction with this action.
    pub(crate) fn newest_action(&self, action: Action) -> Option<&Event> {
        self.newest(|event| {
            event
                .body::<body::Instructed>()
                .is_some_and(|instructed| instructed.action == Some(action))
        })
    }

    /// Head of its open pull request, as last read, if it is not the one that was judged.
    pub(crate) fn new_head(&self) -> Option<&str> {
        let pull = self.pull.as_ref()?;
        let is_new = pull.state == PullState::Open && pull.head_sha != self.row.change.head;
        is_new.then_some(pull.head_sha.as_str())
    }

    /// Returns the time when the current state started.
    pub(crate) fn in_state_since(&self) -> Option<Time> {
        self.newest_of(EventType::StateChanged)
            .map(|event| event.timestamp)
    }
}

/// Returns how many of the newest events of a type may be needed. Of these types it is always the
/// newest; of others, the newest may be about something else.
fn look_back(event_type: EventType) -> i64 {
    let is_newest = matches!(
        event_type,
        EventType::StateChanged | EventType::Escalated | EventType::Held
    );
    if is_newest { 1 } else { LOOK_BACK }
}

fn holder_of(item: &Item) -> Holder {
    let Some(claimed_by) = &item.claimed_by else {
        return Holder::Nobody;
    };
    let alive = claimed_by
        .parse::<ProcessId>()
        .and_then(|process| process.is_alive());
    match alive {
        Ok(true) => Holder::Alive,
        Ok(false) => Holder::Dead,
        Err(_) => Holder::Unknown,
    }
}

/// Returns the name of a pull request, as `owner/repo#42`, spelled as in the project.
pub(crate) fn pr_name(project: &Project, number: i64) -> String {
    let repo = project.repo.as_deref();
    format!("{}#{number}", repo.unwrap_or(project.project_id.as_str()))
}
