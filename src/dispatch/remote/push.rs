//! The push of a fix: checked in our own clone and recorded before it is made; the remote is read before and after.

use super::remote_sync::{REVERTED_REASON, branch_gone, objected};
use crate::blackboard::{self as bb, Intent, NewIntent};
use crate::change::ChangeId;
use crate::clock;
use crate::dispatch::Dispatch;
use crate::dispatch::commit::Span;
use crate::dispatch::interrupt::{Interrupt, Result, Reverted};
use crate::dispatch::run::recover::git_mark;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::dispatch::task::Task;
use crate::dispatch::worktree::preflight::named;
use crate::event::{NewEvent, body};
use crate::failpoint::crash_point;
use crate::git::{Rebase, Rebased, is_agent_config};
use crate::intent::{IntentResult, Payload};
use crate::process;
use crate::remote::{Expected, Push, Pushed, Remote};
use crate::text::short_sha;

impl Dispatch {
    /// Finds the result of pushes that nobody continues: the program died during one, and its item was cancelled then.
    /// A result that cannot be found now is looked up at the next start.
    pub(crate) async fn settle_pushes(&self) -> bb::Result<()> {
        for push in self.db.read(bb::orphaned_pushes).await? {
            if let Err(stop) = self.settle_push(&push).await {
                tracing::warn!(key = %push.key, why = ?stop, "result of a push still unknown");
            }
        }
        Ok(())
    }

    /// Checks the settings as for an active change, but asks nobody: the next run of the change asks.
    async fn has_trusted_settings(&self, id: &ChangeId, remote: &Remote) -> Result<()> {
        let settings = remote.push_settings().await?;
        let may = move |conn: &bb::Conn| bb::may_use_git_settings(conn, &settings.fingerprint);
        if self.db.read(may).await? {
            return Ok(());
        }
        let reason = format!("git settings that affect pushes have changed ({id})");
        Err(Interrupt::hold(reason))
    }

    async fn settle_push(&self, push: &Intent) -> Result<()> {
        let read = self.db.read_of(&push.change_id, bb::change_and_project);
        let (change, project) = read.await?;
        // The holder may be in the middle of that push.
        let Ok(Some(_lock)) = WorktreeLock::try_take(&self.settings.locks_dir, &change.worktree)
        else {
            return Ok(());
        };
        process::end_marked(git_mark(&change.worktree).as_ref()).await?;
        let Some(remote) = self.settings.forge.remote(&project) else {
            return Ok(());
        };
        let sha = push.payload.push().map(|push| push.to.clone());
        let sha = sha.unwrap_or_default();
        let remote = remote.marked(&git_mark(&change.worktree));
        remote.ready().await?;
        self.has_trusted_settings(&change.change_id, &remote)
            .await?;
        let there = match remote.fetch(&change.branch).await? {
            Some(head) => head == sha || remote.contains(&head, &sha).await?,
            None => false,
        };
        let (result, became) = if there {
            (IntentResult::Done, "reached the remote")
        } else {
            (IntentResult::GivenUp, "did not reach the remote")
        };
        let summary = format!("the abandoned push of {} {became}", short_sha(&sha));
        let skipped = body::Skipped {
            key: Some(push.key.clone()),
            result: Some(result),
            ..body::Skipped::because(body::SkipCode::PushSettled, "its item had ended")
        };
        let event = NewEvent::about(&change.change_id, skipped, summary);
        let key = push.key.clone();
        self.db
            .write("settle_push", move |conn| {
                if bb::end_intent(conn, &key, result, None, clock::now())? {
                    bb::append(conn, &event, clock::now())?;
                }
                Ok(())
            })
            .await?;
        Ok(())
    }
}

impl Task {
    /// True if the commit is known to be on the remote.
    pub(crate) async fn is_pushed(&self, head: &str) -> Result<bool> {
        let key = self.push_key(head);
        let intent = self.read(move |conn| bb::intent(conn, &key)).await?;
        Ok(intent.is_some_and(|intent| intent.result == Some(IntentResult::Done)))
    }

    /// Pushes one commit. If the remote had moved, only that is recorded, and the next step of the fix continues from
    /// there.
    pub(crate) async fn push(&self, span: Span<'_>, head: &str) -> Result<()> {
        self.check_cancelled()?;
        let change = self.change_now().await?;
        if change.paused || change.held_until.is_some() {
            return Err(Interrupt::Paused);
        }
        if !change.auto_fix {
            return self.refuse(span, REVERTED_REASON.to_owned()).await;
        }
        if change.branch == self.project.default_branch {
            let reason = format!("{} is the project's default branch", change.branch);
            return self.refuse(span, reason).await;
        }
        let remote = self.remote().await?;
        remote.ready().await?;
        remote.take(&self.place()?, &change.branch, head).await?;
        let files = self
            .git
            .changed_files(&self.place()?, span.first, head)
            .await?;
        let config: Vec<String> = files
            .into_iter()
            .flat_map(|file| std::iter::once(file.path).chain(file.old_path))
            .filter(|path| is_agent_config(path))
            .collect();
        if !config.is_empty() {
            let reason = format!(
                "the fix must not be pushed: it changes files with instructions for agents ({})",
                named(&config)
            );
            return self.refuse(span, reason).await;
        }
        let known = &self.dispatch.settings.forge.secrets;
        let objections = remote
            .objections(span.first, head, &self.rules.push, known)
            .await?;
        if !objections.is_empty() {
            return self.refuse(span, objected(&objections)).await;
        }
        self.look_at_pull().await?;
        let push = Push {
            branch: change.branch,
            expected: Expected::At(span.first.to_owned()),
            to: head.to_owned(),
        };
        // The last check: those above took time, and used these settings.
        self.configuration_in_force().await?;
        self.with_trusted_settings(&remote).await?;
        self.intend(&push, span.first).await?;
        self.dispatch.db.check()?;
        match remote.push(&push).await? {
            Pushed::Done | Pushed::Ahead(_) => {
                let key = self.push_key(head);
                // Not fenced: the next claim of the item must know that the commit is there.
                self.write("pushed", move |conn| {
                    if bb::end_intent(conn, &key, IntentResult::Done, None, clock::now())? {
                        return Ok(());
                    }
                    // The remote had been elsewhere when it was last tried.
                    bb::change_result(conn, &key, IntentResult::Done)
                })
                .await?;
                Ok(())
            }
            Pushed::Moved(Some(_)) => self.replay(span, head, &remote).await,
            Pushed::Moved(None) => Err(branch_gone(&push.branch)),
            Pushed::Conflict(other) => Err(Interrupt::fail(
                format!(
                    "the remote has a branch {other}, so it cannot have {}",
                    push.branch
                ),
                "delete or rename one of the two, then retry",
            )),
            Pushed::Refused { message, .. } => Err(Interrupt::fail(
                format!(
                    "the remote refused the push of {}: {message}",
                    short_sha(head)
                ),
                "the fix is committed in the worktree; make the remote accept it, then retry",
            )),
        }
    }

    async fn intend(&self, push: &Push, from: &str) -> Result<()> {
        let intent = NewIntent {
            key: self.push_key(&push.to),
            change_id: self.change.change_id.clone(),
            payload: Payload::Push(crate::intent::Push {
                item_id: Some(self.item.item_id.clone()),
                branch: push.branch.clone(),
                from: from.to_owned(),
                to: push.to.clone(),
            }),
            epoch: self.claim.epoch,
        };
        let claim = self.claim.clone();
        let may = self
            .write("intend_push", move |conn| {
                bb::intend_push(conn, &claim, &intent, clock::now())
            })
            .await?;
        if may { Ok(()) } else { Err(Interrupt::Paused) }
    }

    /// Somebody pushed during the fix: it is replayed on top if that is clean, and its gates run again.
    async fn replay(&self, span: Span<'_>, head: &str, remote: &Remote) -> Result<()> {
        let theirs = self.remote_head(remote).await?;
        let key = self.push_key(head);
        if !remote.contains(&theirs, span.first).await? {
            self.give_up_push(key, &theirs).await?;
            let reason = format!(
                "{} was rewritten on the remote while the fix was in progress: {} does not contain {}",
                self.change.branch,
                short_sha(&theirs),
                short_sha(span.first)
            );
            return self.refuse(span, reason).await;
        }
        match self.check_not_reverted(remote, &theirs).await {
            Err(Interrupt::Reverted(taken)) => {
                return self.refuse_reverted(span, key, taken).await;
            }
            looked => looked?,
        }
        let place = self.place()?;
        self.git.bring_in(&place, remote.path(), &theirs).await?;
        let rebase = Rebase {
            head_at: self.head_at(),
            first: span.first,
            head,
            onto: &theirs,
            run: span.run.run_id.as_str(),
        };
        crash_point!("git.rebase.before");
        let rebased = self.git.rebase_onto(&place, rebase).await?;
        crash_point!("git.rebase.after");
        match rebased {
            Rebased::Clean(new) => {
                let (run_id, id) = (span.run.run_id.clone(), self.change.change_id.clone());
                self.record("rebased", move |conn, claim| {
                    bb::record_rebase(conn, claim, &run_id, &theirs, &new)?;
                    bb::end_intent(conn, &key, IntentResult::Moved, None, clock::now())?;
                    bb::move_head(conn, &id, &theirs, clock::now()).map(drop)
                })
                .await
            }
            Rebased::Conflict(paths) => {
                self.give_up_push(key, &theirs).await?;
                let reason = format!(
                    "{} was pushed while the fix was in progress and conflicts with it in {}",
                    short_sha(&theirs),
                    named(&paths)
                );
                self.refuse(span, reason).await
            }
        }
    }

    async fn refuse_reverted(&self, span: Span<'_>, key: String, taken: Reverted) -> Result<()> {
        let (run_id, id) = (span.run.run_id.clone(), self.change.change_id.clone());
        self.record("taken_back", move |conn, claim| {
            bb::end_intent(conn, &key, IntentResult::Moved, None, clock::now())?;
            bb::refuse_run(conn, claim, &run_id, &taken.reason)?;
            taken.write(conn, &id)
        })
        .await
    }

    /// Records the remote's head too: if it were found later, it would look like a person's answer to the escalation
    /// that follows.
    async fn give_up_push(&self, key: String, theirs: &str) -> Result<()> {
        let (id, theirs) = (self.change.change_id.clone(), theirs.to_owned());
        self.write("push_moved", move |conn| {
            bb::end_intent(conn, &key, IntentResult::Moved, None, clock::now())?;
            bb::move_head(conn, &id, &theirs, clock::now()).map(drop)
        })
        .await?;
        Ok(())
    }

    pub(crate) fn push_key(&self, head: &str) -> String {
        format!("push:{}:{head}", self.item.item_id)
    }
}
