//! `remand wait`: follows changes until they are ready or need a person.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::narration;
use crate::blackboard::{self as bb, Conn, Db};
use crate::change::{Change, ChangeId, HoldKind, State};
use crate::cli::frame::{CommandContext, ExitCode, Format, Line, TextStyle, Ui};
use crate::config::Loaded;
use crate::daemon;
use crate::explain::{Around, ChangeView, Daemon, Explanation};
use crate::work::RejectionState;

/// Interval between two checks for new events.
const LOOK: Duration = Duration::from_millis(250);

/// Wait for changes until they are ready, and print each step
#[derive(Debug, Args)]
#[command(
    after_help = "Without a daemon, this command does the work itself, like `remand tick`, as often as needed.\n\n\
Exit codes: 0 if all changes are ready, approved or merged; 5 if one needs a person or is held; 1 if one was closed.\n\n\
Examples:\n  remand wait c3\n  remand wait c3 c4 ada/website#42"
)]
pub(crate) struct WaitArgs {
    /// Changes: id (c1), branch, worktree path, or PR (owner/repo#42, URL, or 42)
    #[arg(value_name = "CHANGE", required = true)]
    changes: Vec<String>,
}

pub(crate) fn wait(args: &WaitArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let mut ids = Vec::new();
    for name in &args.changes {
        ids.push(ctx.change(name)?.change_id);
    }
    follow(ctx, &Waiting::of(ids))
}

/// Changes that are waited for.
pub(crate) struct Waiting {
    ids: BTreeSet<ChangeId>,
}

impl Waiting {
    pub(crate) fn of(ids: impl IntoIterator<Item = ChangeId>) -> Self {
        Self {
            ids: ids.into_iter().collect(),
        }
    }
}

/// End of a wait for one change.
#[derive(Debug, Clone, Serialize)]
struct Ended {
    change_id: ChangeId,
    state: State,
    why: Explanation,
    #[serde(skip)]
    code: Code,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Code {
    Ready,
    Closed,
    NeedsPerson,
}

/// Follows changes to their end. Prints their steps, and does the work if no daemon is running.
pub(crate) fn follow(ctx: &mut CommandContext, waiting: &Waiting) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    let around = ctx.around()?;
    let first: Vec<(ChangeId, i64)> = ctx.read(|conn| {
        let newest = bb::newest_event(conn)?;
        let begins = waiting.ids.iter().map(|id| (id.clone(), newest));
        Ok(begins.collect())
    })?;
    let seen = first.first().map_or(0, |(_, newest)| *newest);
    let mut follower = Follower {
        ids: waiting.ids.clone(),
        seen,
        around,
        out: Ui::new(if ctx.out.is_json() {
            Format::Json
        } else {
            Format::Text
        }),
    };
    let ended = match around.daemon {
        Daemon::Runs => by_daemon(&settings, &mut follower)?,
        Daemon::None => alone(&settings, &mut follower)?,
    };
    close(ctx, &ended)
}

/// Prints the closing lines, and returns the exit code of the worst end.
fn close(ctx: &mut CommandContext, ended: &[Ended]) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(&ended)?;
    } else {
        for one in ended {
            let style = match one.code {
                Code::Ready => TextStyle::Good,
                Code::Closed | Code::NeedsPerson => TextStyle::Bad,
            };
            let head = Line::new().strong(&one.change_id).plain(" ");
            ctx.out.hanging(head, 2, style, &one.why.answer())?;
            for command in &one.why.commands {
                if !one.why.is_in_sentence(command) {
                    ctx.out.line(Line::new().plain("    ").command(command))?;
                }
            }
        }
    }
    let worst = ended.iter().map(|one| one.code).max();
    Ok(match worst {
        Some(Code::NeedsPerson) => ExitCode::NeedsPerson,
        Some(Code::Closed) => ExitCode::Failed,
        Some(Code::Ready) | None => ExitCode::Done,
    })
}

struct Follower {
    ids: BTreeSet<ChangeId>,
    /// Newest event that was printed.
    seen: i64,
    around: Around,
    out: Ui,
}

/// One look at the blackboard: new steps, and the ends of all changes once all have ended.
struct Look {
    steps: Vec<narration::Step>,
    seen: i64,
    ended: Option<Vec<Ended>>,
}

impl Follower {
    fn look(conn: &Conn, ids: &BTreeSet<ChangeId>, seen: i64, around: Around) -> bb::Result<Look> {
        let (steps, seen) = narration::read_of(conn, seen, ids)?;
        let mut ended = Vec::new();
        for id in ids {
            let Some(end) = end_of(conn, id, around)? else {
                break;
            };
            ended.push(end);
        }
        let ended = (ended.len() == ids.len()).then_some(ended);
        Ok(Look { steps, seen, ended })
    }

    fn print(&mut self, look: Look) -> Result<Option<Vec<Ended>>> {
        self.seen = look.seen;
        if !self.out.is_json() {
            for step in &look.steps {
                step.print(&mut self.out, &step.at.local_time())?;
            }
        }
        Ok(look.ended)
    }

    async fn look_in(&mut self, db: &Db) -> Result<Option<Vec<Ended>>> {
        let (ids, seen, mut around) = (self.ids.clone(), self.seen, self.around);
        around.now = crate::clock::now();
        let look = db
            .read(move |conn| Self::look(conn, &ids, seen, around))
            .await?;
        tokio::task::block_in_place(|| self.print(look))
    }
}

/// Returns the end of the wait for a change; `None` if it goes on.
fn end_of(conn: &Conn, id: &ChangeId, around: Around) -> bb::Result<Option<Ended>> {
    let change = bb::change(conn, id)?;
    let is_manual = is_manual(conn, &change)?;
    if !has_settled(&change) && !is_manual && !needs_help(&change) {
        return Ok(None);
    }
    // A rejection that arrived meanwhile takes it back to work.
    if change.state == State::ReadyForHumanReview && has_pending(conn, id)? {
        return Ok(None);
    }
    let view = ChangeView::of(conn, id, around)?;
    let is_implemented = is_manual && change.state == State::PendingSelfReview;
    let code = if change.state.is_approved() || is_implemented {
        Code::Ready
    } else if change.state == State::Closed {
        Code::Closed
    } else {
        Code::NeedsPerson
    };
    Ok(Some(Ended {
        change_id: id.clone(),
        state: change.state,
        why: view.why,
        code,
    }))
}

fn has_settled(change: &Change) -> bool {
    change.state.is_approved() || change.state.is_over() || change.state == State::Escalated
}

/// Number of consecutive holds after which a person should look.
const HOLDS: i64 = 3;

/// True if the change does not continue by itself, or has not for a long time.
fn needs_help(change: &Change) -> bool {
    let is_stuck = change.held_until.is_some()
        && (change.holds >= HOLDS
            || matches!(
                change.hold_kind,
                Some(HoldKind::NoAgent | HoldKind::Configuration)
            ));
    change.paused || is_stuck
}

fn has_pending(conn: &Conn, id: &ChangeId) -> bb::Result<bool> {
    Ok(!bb::rejections_of(conn, id, Some(RejectionState::Pending))?.is_empty())
}

/// True if the change waits for a person to start its next review or fix.
fn is_manual(conn: &Conn, change: &Change) -> bb::Result<bool> {
    if change.auto_review || change.state.is_running() || change.state == State::Queued {
        return Ok(false);
    }
    let items = bb::items_of(conn, &change.change_id)?;
    Ok(!items.iter().any(|item| item.status.is_open()))
}

fn by_daemon(settings: &Loaded, follower: &mut Follower) -> Result<Vec<Ended>> {
    let db = Db::open(&settings.blackboard, crate::clock::now())?;
    let runtime = daemon::runtime()?;
    runtime.block_on(async {
        loop {
            if let Some(ended) = follower.look_in(&db).await? {
                return Ok(ended);
            }
            tokio::time::sleep(LOOK).await;
        }
    })
}

fn alone(settings: &Loaded, follower: &mut Follower) -> Result<Vec<Ended>> {
    daemon::tick_until(settings, async |db| {
        loop {
            if let Some(ended) = follower.look_in(db).await? {
                return Ok(ended);
            }
            tokio::time::sleep(LOOK).await;
        }
    })
}
