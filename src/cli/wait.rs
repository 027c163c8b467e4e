//! `remand wait`: follows changes until they are ready or need a person.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::narration;
use super::run::waits_for;
use crate::blackboard::{self as bb, Conn, Db};
use crate::change::{Change, ChangeId, FinalVerdict, HoldKind, State};
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Format, Line, TextStyle, Ui};
use crate::cli::view::print_change::print_answer;
use crate::clock::{self, Time};
use crate::daemon;
use crate::explain::{Around, Because, ChangeView, Daemon, Explanation};
use crate::human_time::span;
use crate::proposal::Bound;
use crate::text::{count, list, prefixed};
use crate::work::RejectionState;

/// Interval between two checks for new events.
const LOOK: Duration = Duration::from_millis(250);

/// Wait for changes until they are ready, and print each step
#[derive(Debug, Args)]
#[command(
    after_help = "While no daemon is running, this command does the work itself, like `remand tick`, as often as needed. Ctrl-C ends the wait.\n\n\
Exit codes: 0 if all changes are ready, approved or merged, are implemented and wait for you to start their review, or have used \
all fixes and have a PR; 5 if one needs a person or is held; 1 if one was closed.\n\n\
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
    verdict: Option<FinalVerdict>,
    /// Numbers since the change was added.
    fixes: i64,
    reviews: usize,
    pr: Option<String>,
    url: Option<String>,
    why: Explanation,
    #[serde(skip)]
    code: Code,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Code {
    Ready,
    /// Implemented, and the next step is a person's.
    Implemented,
    /// A limit was reached, and its pull request is left for a person.
    LimitReached,
    Closed,
    NeedsPerson,
}

impl Ended {
    /// Formats the closing line: `ready: verdict APPROVED, 1 fix, 2 reviews, https://…`.
    fn closing(&self) -> String {
        let end = match self.code {
            Code::Ready => self.state.as_str().replace('_', " "),
            Code::Implemented => "implemented".to_owned(),
            Code::LimitReached => "limit reached, pull request open".to_owned(),
            Code::Closed => "closed".to_owned(),
            Code::NeedsPerson => "needs you".to_owned(),
        };
        let verdict = self.verdict.map_or("none", FinalVerdict::as_str);
        let fixes = count(usize::try_from(self.fixes).unwrap_or_default(), "fix");
        let reviews = count(self.reviews, "review");
        let place = prefixed(", ", self.url.as_ref().or(self.pr.as_ref()));
        format!("{end}: verdict {verdict}, {fixes}, {reviews}{place}")
    }
}

/// Follows changes to their end. Prints their steps, and does the work if no daemon is running.
pub(crate) fn follow(ctx: &mut CommandContext, waiting: &Waiting) -> Result<ExitCode> {
    let settings = ctx.settings()?;
    let mut follower = Follower {
        ids: waiting.ids.clone(),
        seen: ctx.read(bb::newest_event)?,
        around: ctx.around()?,
        blackboard: settings.blackboard.clone(),
        out: Ui::new(if ctx.out.is_json() {
            Format::Json
        } else {
            Format::Text
        }),
    };
    loop {
        let followed = match follower.around.daemon {
            Daemon::Runs => {
                daemon::follow_until(&settings, async |db| follower.until_daemon_ends(db).await)?
            }
            Daemon::None => {
                let ended = daemon::tick_until(&settings, async |db| follower.until_end(db).await);
                ended?.map(Some)
            }
        };
        follower.out.erase_live()?;
        match followed {
            Some(Some(ended)) => return close(ctx, &ended),
            Some(None) => follower.around.daemon = Daemon::None,
            None => return interrupted(ctx, &follower),
        }
    }
}

/// Reports that a signal ended the wait.
fn interrupted(ctx: &mut CommandContext, follower: &Follower) -> Result<ExitCode> {
    ctx.out.return_to_left()?;
    let names = list(&follower.ids);
    let hint = match follower.around.daemon {
        Daemon::Runs => format!("the daemon goes on with {names}"),
        Daemon::None => format!("`remand run` goes on with {names}"),
    };
    let again: Vec<&str> = follower.ids.iter().map(ChangeId::as_str).collect();
    let again = again.join(" ");
    CommandError::new(format!("interrupted before {names} came to an end"))
        .fail_with_hint(format!("{hint}; `remand wait {again}` follows again"))
}

/// Prints the closing lines, and returns the exit code of the worst end.
fn close(ctx: &mut CommandContext, ended: &[Ended]) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(&ended)?;
    } else {
        for one in ended {
            let style = match one.code {
                Code::Ready | Code::Implemented => TextStyle::Good,
                Code::LimitReached => TextStyle::Notice,
                Code::Closed | Code::NeedsPerson => TextStyle::Bad,
            };
            let head = Line::new().strong(&one.change_id).plain(" ");
            ctx.out.hanging(head, 2, style, &one.closing())?;
            print_answer(ctx, &one.why)?;
        }
    }
    let worst = ended.iter().map(|one| one.code).max();
    Ok(match worst {
        Some(Code::NeedsPerson) => ExitCode::NeedsPerson,
        Some(Code::Closed) => ExitCode::Failed,
        Some(Code::Ready | Code::Implemented | Code::LimitReached) | None => ExitCode::Done,
    })
}

struct Follower {
    ids: BTreeSet<ChangeId>,
    /// Newest event that was printed.
    seen: i64,
    around: Around,
    blackboard: PathBuf,
    out: Ui,
}

/// One look at the blackboard: new steps, and the ends of all changes once all have ended.
struct Look {
    steps: Vec<narration::Step>,
    seen: i64,
    /// Work under way on these changes, with its start.
    running: Vec<(String, Time)>,
    /// Work under way on other changes.
    others: Vec<String>,
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
        let mut running = Vec::new();
        for run in bb::open_runs(conn)? {
            if ids.contains(&run.change_id) {
                let item = bb::item(conn, &run.item_id)?;
                let what = narration::running(conn, &item)?;
                running.push((format!("{} {what}", run.change_id), run.started_at));
            }
        }
        let others = match (&ended, around.daemon) {
            (Some(_), Daemon::None) => waits_for(conn)?,
            (Some(_), Daemon::Runs) | (None, _) => Vec::new(),
        };
        Ok(Look {
            steps,
            seen,
            running,
            others,
            ended,
        })
    }

    fn print(&mut self, look: Look) -> Result<Option<Vec<Ended>>> {
        self.seen = look.seen;
        if self.out.is_json() {
            return Ok(look.ended);
        }
        self.out.erase_live()?;
        for step in &look.steps {
            step.print(&mut self.out, &step.at.local_time())?;
        }
        let now = self.around.now;
        let running = look.running.iter();
        let lines = running.map(|(what, since)| {
            let time = Some(now.since(*since)).filter(|time| time.as_secs() > 0);
            Line::new().plain(format!("{what}{}", prefixed(" ", time.map(span))))
        });
        if look.ended.is_none() {
            self.out.live(&lines.collect::<Vec<_>>())?;
        }
        if !look.others.is_empty() {
            let others = list(look.others);
            self.out.note(format!(
                "waiting for the end of other work that this command started: {others}; Ctrl-C stops and requeues it"
            ))?;
        }
        Ok(look.ended)
    }

    async fn look_in(&mut self, db: &Db) -> Result<Option<Vec<Ended>>> {
        self.around.now = clock::now();
        let (ids, seen, around) = (self.ids.clone(), self.seen, self.around);
        let look = db
            .read(move |conn| Self::look(conn, &ids, seen, around))
            .await?;
        tokio::task::block_in_place(|| self.print(look))
    }

    async fn until_end(&mut self, db: &Db) -> Result<Vec<Ended>> {
        loop {
            if let Some(ended) = self.look_in(db).await? {
                return Ok(ended);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns `None` if the daemon has ended first.
    async fn until_daemon_ends(&mut self, db: &Db) -> Result<Option<Vec<Ended>>> {
        loop {
            if let Some(ended) = self.look_in(db).await? {
                return Ok(Some(ended));
            }
            if daemon::holder(&self.blackboard).is_none() {
                return Ok(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Returns the end of the wait for a change; `None` if it goes on.
fn end_of(conn: &Conn, id: &ChangeId, around: Around) -> bb::Result<Option<Ended>> {
    let change = bb::change(conn, id)?;
    let view = ChangeView::of(conn, id, around)?;
    let waits_for_start = view.why.because == Because::WaitsForStart;
    let is_manual = waits_for_start || is_manual(conn, &change)?;
    if !has_settled(&change) && !is_manual && !needs_help(&change) {
        return Ok(None);
    }
    // A rejection that arrived meanwhile takes it back to work.
    if change.state == State::ReadyForHumanReview && has_pending(conn, id)? {
        return Ok(None);
    }
    let is_used_up = change.final_verdict == Some(FinalVerdict::MaxCyclesReached);
    let code = if change.state == State::ReadyForHumanReview && change.has_pr() && is_used_up {
        Code::LimitReached
    } else if change.state.is_approved() {
        Code::Ready
    } else if waits_for_start && !has_pending(conn, id)? {
        Code::Implemented
    } else if change.state == State::Closed {
        Code::Closed
    } else if change.has_pr() && is_at_limit(conn, &change)? {
        Code::LimitReached
    } else {
        Code::NeedsPerson
    };
    Ok(Some(Ended {
        change_id: id.clone(),
        state: change.state,
        verdict: change.final_verdict,
        fixes: change.budget.total_fixes,
        reviews: bb::reviews_of(conn, id)?.len(),
        url: view.pull.as_ref().map(|pull| pull.url.clone()),
        pr: view.pr,
        why: view.why,
        code,
    }))
}

/// True if a change waits for a person because it has used the fixes that it may have.
fn is_at_limit(conn: &Conn, change: &Change) -> bb::Result<bool> {
    if change.state != State::Escalated {
        return Ok(false);
    }
    let last = bb::last_escalation(conn, &change.change_id)?;
    let bound = last.as_ref().and_then(Bound::of);
    Ok(matches!(bound, Some(Bound::Cycles | Bound::TotalFixes)))
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
