//! Gates: the project's own commands, run on the commit of a fix, in a managed checkout (see `gate_checkout`) or in the
//! worktree. A red result is returned to the agent a limited number of times; a gate that cannot start is the
//! environment's fault, not the code's.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use super::gate_summary::gate_summary;
use super::project_commands::{ProjectCommand, ProjectCommands};
use crate::blackboard as bb;
use crate::change::HoldKind;
use crate::clock;
use crate::dispatch::commit::Span;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::run::launch::{CommandSite, make_folder};
use crate::dispatch::task::Task;
use crate::dispatch::worktree::preflight::named;
use crate::event::{NewEvent, TargetType, body};
use crate::failpoint::crash_point;
use crate::files;
use crate::git::{HeadAt, Place, RestorePoint};
use crate::process::{self, CommandEnd, SETTLE};
use crate::project_settings::GateIn;
use crate::proposal::decision;
use crate::text;
use crate::work::{Ended, GateResult, Run};

/// Maximum bytes of a red gate's output that the agent and the event get.
pub(crate) const OUTPUT_TAIL: usize = 8 * 1024;

/// The time by which gates of an earlier attempt had certainly ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cut {
    /// There were none.
    Never,
    /// By this second.
    Before(u64),
    JustNow,
}

/// A gate that was red.
pub(crate) struct Red {
    pub(crate) command: String,
    pub(crate) status: Option<i32>,
    pub(crate) output: String,
}

impl Task {
    /// Runs the gates on the commit of a run, and records the result.
    pub(crate) async fn gates(&self, span: Span<'_>, head: &str) -> Result<()> {
        let red = match self.rules.gate_in {
            GateIn::Checkout => self.gates_in_checkout(span, head).await?,
            GateIn::Worktree => self.gates_in_worktree(span, head).await?,
        };
        let (id, change_id) = (span.run.run_id.clone(), span.run.change_id.clone());
        self.record("gates", move |conn, claim| {
            let Some(red) = red else {
                return bb::record_gates(conn, claim, &id, GateResult::Green, "").map(drop);
            };
            let output = format!("$ {}\n{}", red.command, red.output);
            let round = bb::record_gates(conn, claim, &id, GateResult::Red, &output)?;
            let summary = format!(
                "gate failed: {}: {}",
                red.command,
                gate_summary(&red.output)
            );
            let failed = body::GateFailed {
                run_id: Some(id.clone()),
                command: red.command,
                status: red.status,
                round,
                output: red.output,
            };
            let event = NewEvent::about(&change_id, failed, summary).on(TargetType::Run, &id);
            bb::append(conn, &event, clock::now()).map(drop)
        })
        .await
    }

    /// Runs the gates where the agent worked: files that git does not see there, or is told to ignore, can influence
    /// them.
    pub(super) async fn gates_in_worktree(
        &self,
        span: Span<'_>,
        head: &str,
    ) -> Result<Option<Red>> {
        let place = self.place()?;
        let run = span.run;
        let to = self.restore_point(head, run);
        let cut = self.settle_gates(run).await?;
        self.end_cut_setup(&place).await?;
        self.as_committed(&place, to, cut).await?;
        if !self.rules.gates.is_empty() {
            // The fix may need things that were not there before it.
            self.set_up(&place).await?;
        }
        let mut red = None;
        for (number, command) in self.rules.gates.iter().enumerate() {
            self.check_cancelled()?;
            self.not_stopped().await?;
            let dir = gate_folder(run, number)?;
            let site = CommandSite::of(&place);
            red = self.bench().gate(site, &dir, command).await?;
            if red.is_some() {
                break;
            }
        }
        if red.is_none() {
            red = self.left_behind(&place, to).await?;
        }
        if red.is_some() {
            self.git.put_back(&place, to).await?;
        }
        Ok(red)
    }

    /// Checks that the worktree is at the commit of the fix; otherwise somebody is working there, and a person decides.
    pub(crate) async fn untouched(&self, place: &Place, span: Span<'_>, head: &str) -> Result<()> {
        let to = self.restore_point(head, span.run);
        self.end_cut_setup(place).await?;
        self.as_committed(place, to, Cut::Never).await
    }

    /// Checks that the worktree is at the commit of the fix. Files that interrupted gates left are removed and kept
    /// aside; other changes are not touched.
    async fn as_committed(&self, place: &Place, to: RestorePoint<'_>, cut: Cut) -> Result<()> {
        let (now, left) = self.git.unblock_and_look(place, to).await?;
        let status = self.git.shown(left);
        let is_there = now.head.as_deref() == Some(to.head_before) && now.operation.is_none();
        if is_there && to.head_at.fits(now.branch.as_deref()) && status.is_clean() {
            return Ok(());
        }
        let theirs = match (&now.head, cut) {
            (_, Cut::Never) => true,
            (Some(head), Cut::Before(seconds)) => !self
                .git
                .committed_since(place, to.head_before, head, seconds + 1)
                .await?
                .is_empty(),
            (None, Cut::Before(_)) | (_, Cut::JustNow) => false,
        };
        if theirs {
            let paths: Vec<String> = status.changed.into_iter().chain(status.untracked).collect();
            let what = if paths.is_empty() {
                "other commits".to_owned()
            } else {
                named(&paths)
            };
            return Err(Interrupt::fail(
                format!(
                    "the worktree has changed since the fix was committed ({what}); nothing was removed"
                ),
                decision!(
                    "commit what you want to keep in {worktree}, then {submit}",
                    worktree = self.change.worktree.as_str().into(),
                    submit = self.change.submit_advice(),
                ),
            ));
        }
        crash_point!("git.gates_clean.before");
        let restored = self.git.put_back(place, to).await?;
        crash_point!("git.gates_clean.after");
        if let Some(wip) = restored.wip {
            tracing::info!(run_id = to.run, wip = %wip, "kept the leftovers of an interrupted gate");
        }
        Ok(())
    }

    /// After green gates, HEAD must be the commit and no committed file may be changed; otherwise the tested state is
    /// not the one that would be pushed. New files, such as caches, are allowed: in a managed worktree they are
    /// removed, in a user's own worktree they stay and are ignored from then on.
    async fn left_behind(&self, place: &Place, to: RestorePoint<'_>) -> Result<Option<Red>> {
        let (now, status) = self.git.look_and_status(place).await?;
        let is_on_branch = self.head_at().fits(now.branch.as_deref());
        let is_at_head =
            now.head.as_deref() == Some(to.head_before) && is_on_branch && now.operation.is_none();
        if !is_at_head || !status.changed.is_empty() {
            let output = if !status.changed.is_empty() {
                format!(
                    "the gates changed committed files: {}",
                    named(&status.changed)
                )
            } else if is_on_branch {
                "a gate moved HEAD away from the tested commit".to_owned()
            } else {
                match self.head_at() {
                    HeadAt::Branch(branch) => {
                        format!("a gate switched away from the branch {branch}")
                    }
                    HeadAt::Detached(_) => "a gate switched to a branch".to_owned(),
                }
            };
            return Ok(Some(Red {
                command: self.all_gates(),
                status: Some(0),
                output,
            }));
        }
        if status.untracked.is_empty() {
            return Ok(None);
        }
        tracing::info!(run_id = to.run, paths = %named(&status.untracked), "gates left new files");
        if self.change.own_worktree {
            self.git.put_back(place, to).await?;
        } else {
            let (id, paths) = (self.change.change_id.clone(), status.untracked.clone());
            self.write("gate_leftovers", move |conn| {
                bb::add_gate_leftovers(conn, &id, &paths)
            })
            .await?;
            self.git.pass_over(&status.untracked);
        }
        Ok(None)
    }

    pub(crate) fn all_gates(&self) -> String {
        text::joined(self.rules.gates.iter().map(|gate| gate.join(" ")), "; ")
    }

    /// Ends gates that a crash interrupted: none of their processes may be alive when the worktree is touched.
    pub(crate) async fn settle_gates(&self, run: &Run) -> Result<Cut> {
        let dir = Path::new(&run.dir);
        let Ok(names) = files::names(dir) else {
            return Ok(Cut::Never);
        };
        let gates = names
            .iter()
            .filter(|name| name.to_string_lossy().starts_with("gate"))
            .map(|name| dir.join(name));
        let cut: Vec<PathBuf> = gates
            .filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_dir()))
            .collect();
        let mut over = Cut::Never;
        for dir in cut {
            process::settle(&dir, SETTLE).await?;
            if process::read_exit(&dir)?.is_some_and(|exit| exit.ended == Ended::NotStarted) {
                continue;
            }
            over = match (over, process::ended_at(&dir)?) {
                (Cut::Never, Some(at)) => Cut::Before(at),
                (Cut::Before(before), Some(at)) => Cut::Before(before.max(at)),
                // Without a record from its shim, it may have run until just now.
                (Cut::JustNow, _) | (_, None) => Cut::JustNow,
            };
        }
        Ok(over)
    }
}

impl ProjectCommands<'_> {
    /// Runs a gate until its end; returns a red result.
    pub(crate) async fn gate(
        &self,
        site: CommandSite<'_>,
        dir: &Path,
        command: &[String],
    ) -> Result<Option<Red>> {
        let run = dir.parent().map(file_name).unwrap_or_default();
        let gate = ProjectCommand {
            run_id: format!("{run}.{}", file_name(dir)),
            phase: "gate",
            argv: command,
            site,
            dir,
            stdin: dir.with_file_name("no-input"),
            limit: self.settings.limits.gate,
        };
        let done = self.run(gate).await?;
        let command = text::shell_line(command);
        let red = |note: String| {
            let output = done.output();
            Ok(Some(Red {
                command: command.clone(),
                status: done.status,
                output: format!("{note}{}", output_end(&output, OUTPUT_TAIL)),
            }))
        };
        let hold = |kind, what: String| {
            Err(Interrupt::hold_by(
                kind,
                format!("the gate `{command}` {what}"),
            ))
        };
        match &done.end {
            CommandEnd::Passed => Ok(None),
            CommandEnd::Failed => red(String::new()),
            CommandEnd::TimedOut => red(format!(
                "stopped after {} s\n",
                self.settings.limits.gate.as_secs()
            )),
            CommandEnd::Crashed(signal) => red(format!("crashed with signal {signal}\n")),
            CommandEnd::NotStarted(why) => {
                hold(HoldKind::Environment, format!("cannot be started: {why}"))
            }
            CommandEnd::Killed => hold(HoldKind::GateEnded, "was killed".into()),
            CommandEnd::Vanished => hold(HoldKind::GateEnded, "ended without a result".into()),
        }
    }
}

pub(crate) fn file_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Creates a new directory for each attempt of a run's gate.
pub(crate) fn gate_folder(run: &Run, number: usize) -> Result<PathBuf> {
    for attempt in 0_u32.. {
        let dir = Path::new(&run.dir).join(format!("gate{number}.{attempt}"));
        if !dir.exists() {
            make_folder(&dir)?;
            return Ok(dir);
        }
    }
    Err(Interrupt::hold("too many directories for this gate"))
}

/// Returns at most this many bytes from the end of an output, starting with a whole line if possible.
pub(crate) fn output_end(text: &str, most: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(most));
    let (before, end) = text.split_at(from);
    let is_cut = from > 0 && !before.ends_with('\n');
    let whole = end
        .split_once('\n')
        .map(|(_, rest)| rest)
        .filter(|rest| is_cut && !rest.trim().is_empty());
    whole.unwrap_or(end)
}
