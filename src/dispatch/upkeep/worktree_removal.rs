//! Removal of remand's worktrees: of ended changes after `worktree_ttl_days`, and of those that a
//! person names.
//!
//! The intent is committed first, and the result with its event afterwards. The lock of the worktree
//! is held in between, so that no run starts there; a reopened change creates it again.

use std::path::Path;
use std::time::Duration;

use super::{OwnWorktree, Upkeep};
use crate::blackboard as bb;
use crate::change::{Change, ChangeId, ProjectId};
use crate::clock;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::dispatch::worktree::preflight::head_at;
use crate::event::body::{self, RemovalCause};
use crate::event::{NewEvent, TargetType};
use crate::failpoint::crash_point;
use crate::git::{Git, Project, Sweep};
use crate::human_time::span;
use crate::sanitize::chain;

const DAY: Duration = Duration::from_hours(24);

/// Result of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Removal {
    Removed,
    /// It did not exist.
    Gone,
    Kept(String),
}

/// Actor and reason of the removal of a worktree.
struct Order<'a> {
    why: RemovalCause,
    actor: &'a str,
}

const BY_AGE: Order<'_> = Order {
    why: RemovalCause::Ended,
    actor: "remand",
};

impl Upkeep {
    /// Removes the worktrees of changes that ended longer ago than the settings say.
    pub(crate) async fn remove_ended_worktrees(&self) -> bb::Result<()> {
        let now = clock::now();
        for change in self.db.read(bb::ended_worktrees).await? {
            let is_begun = change.setup_done.as_deref() == Some(bb::REMOVING);
            let ended = change.completed_at.unwrap_or(now);
            let is_old = match (self.settings.rules)(&change.project_id).worktree_ttl_days {
                0 => false,
                days => now.since(ended) >= DAY.saturating_mul(days),
            };
            if !(is_begun || is_old) || change.stopped || self.is_out_of_date(&change).await? {
                continue;
            }
            if let Removal::Kept(why) = self.remove_of_change(&change, &BY_AGE).await? {
                let (id, worktree) = (&change.change_id, &change.worktree);
                tracing::debug!(change = %id, %worktree, %why, "a worktree is kept");
            }
        }
        Ok(())
    }

    /// Removes a worktree because a person requested it.
    pub(crate) async fn remove(&self, one: &OwnWorktree, actor: &str) -> bb::Result<Removal> {
        let order = Order {
            why: RemovalCause::Requested,
            actor,
        };
        match &one.change {
            Some(change) => self.remove_of_change(change, &order).await,
            None => {
                let path = one.path.display().to_string();
                self.remove_orphan(&one.project_id, &path, &order).await
            }
        }
    }

    /// Removes what git and the blackboard still know of the worktree of an ended change, if it is gone.
    pub(crate) async fn forget(&self, change: &Change, actor: &str) -> bb::Result<()> {
        let order = Order {
            why: RemovalCause::Requested,
            actor,
        };
        if let Removal::Kept(_) = self.remove_of_change(change, &order).await? {
            return Ok(());
        }
        let (git, project) = self.git_of(&change.project_id, &change.worktree).await?;
        let path = Path::new(&change.worktree);
        if let Err(error) = git.forget_worktree(&project, path).await {
            tracing::warn!(worktree = %change.worktree, error = %chain(&error), "git still lists a worktree that is gone");
        }
        Ok(())
    }

    /// True if a later change has the same worktree.
    async fn is_out_of_date(&self, change: &Change) -> bb::Result<bool> {
        let all = self
            .db
            .read_of(&change.worktree, |conn, path| bb::changes_at(conn, path));
        let all = all.await?;
        Ok(all.first().map(|first| &first.change_id) != Some(&change.change_id))
    }

    /// Removes the worktree of an ended change, if everything in it is kept elsewhere.
    async fn remove_of_change(&self, change: &Change, order: &Order<'_>) -> bb::Result<Removal> {
        let path = Path::new(&change.worktree);
        if change.taken_over {
            return Ok(Removal::Kept("a person took the change over".into()));
        }
        let lock = WorktreeLock::try_take(&self.settings.locks_dir, &change.worktree);
        let _lock = match lock {
            Ok(Some(lock)) => lock,
            Ok(None) => return Ok(Removal::Kept("a run is using it".into())),
            Err(error) => return Ok(Removal::Kept(format!("it cannot be locked: {error}"))),
        };
        let (git, project) = self.git_of(&change.project_id, &change.worktree).await?;
        let is_begun = change.setup_done.as_deref() == Some(bb::REMOVING);
        let sweep = git.sweepable(&project, path, head_at(change)).await;
        match sweep.unwrap_or_else(|error| Sweep::Stays(chain(&error))) {
            Sweep::Gone if is_begun => {}
            Sweep::Gone => {
                let path = change.worktree.clone();
                let gone =
                    move |conn: &bb::Conn| bb::worktree_removed(conn, &path, None, clock::now());
                self.db.write("worktree_gone", gone).await?;
                return Ok(Removal::Gone);
            }
            Sweep::Stays(why) => return self.keep(change, why).await,
            Sweep::Clean => {
                if let Some(why) = self.outside(change) {
                    return self.keep(change, why).await;
                }
                let known = change.clone();
                let begin = move |conn: &bb::Conn| bb::begin_removal(conn, &known);
                if !self.db.write("worktree_removing", begin).await? {
                    return Ok(Removal::Kept("a change is using it".into()));
                }
                crash_point!("upkeep.worktree.before");
                match git.remove_worktree(&project, path).await {
                    Ok(Sweep::Gone | Sweep::Clean) => {}
                    Ok(Sweep::Stays(why)) => return self.keep(change, why).await,
                    Err(error) => return Ok(Removal::Kept(chain(&error))),
                }
                crash_point!("upkeep.worktree.after");
            }
        }
        let kept_on = head_at(change).ref_name().ok();
        let head = match &kept_on {
            Some(name) => git
                .resolve(&project.repository(), name)
                .await
                .ok()
                .flatten(),
            None => None,
        };
        let event = removed_event(change, kept_on.as_deref(), head, order);
        let path = change.worktree.clone();
        let removed =
            move |conn: &bb::Conn| bb::worktree_removed(conn, &path, Some(&event), clock::now());
        self.db.write("worktree_removed", removed).await?;
        Ok(Removal::Removed)
    }

    /// Removes a worktree that no change knows.
    async fn remove_orphan(
        &self,
        project_id: &ProjectId,
        worktree: &str,
        order: &Order<'_>,
    ) -> bb::Result<Removal> {
        let path = Path::new(worktree);
        let lock = WorktreeLock::try_take(&self.settings.locks_dir, worktree);
        let Ok(Some(_lock)) = lock else {
            return Ok(Removal::Kept("a run is using it".into()));
        };
        let text = worktree.to_owned();
        let known = self
            .db
            .read(move |conn| bb::changes_at(conn, &text))
            .await?;
        if !known.is_empty() {
            return Ok(Removal::Kept("a change is using it".into()));
        }
        let (git, project) = self.git_of(project_id, worktree).await?;
        let branch = git.worktrees(&project).await.ok().and_then(|all| {
            let its = all.into_iter().find(|one| one.path == path);
            its.map(|its| (its.branch, its.head))
        });
        match git.sweepable(&project, path, None).await {
            Ok(Sweep::Gone) => return Ok(Removal::Gone),
            Ok(Sweep::Stays(why)) => return Ok(Removal::Kept(why)),
            Err(error) => return Ok(Removal::Kept(chain(&error))),
            Ok(Sweep::Clean) => {}
        }
        match git.remove_worktree(&project, path).await {
            Ok(Sweep::Gone | Sweep::Clean) => {}
            Ok(Sweep::Stays(why)) => return Ok(Removal::Kept(why)),
            Err(error) => return Ok(Removal::Kept(chain(&error))),
        }
        let (branch, head) = branch.unwrap_or_default();
        let event = NewEvent::new(
            body::WorktreeRemoved {
                path: worktree.to_owned(),
                branch,
                head,
                why: Some(order.why),
            },
            format!("removed the worktree {worktree}, which belonged to no change"),
        )
        .by(order.actor)
        .on(TargetType::Project, project_id);
        let removed = move |conn: &bb::Conn| bb::append(conn, &event, clock::now()).map(drop);
        self.db.write("worktree_removed", removed).await?;
        Ok(Removal::Removed)
    }

    /// Records that a worktree stays, if its removal had begun.
    async fn keep(&self, change: &Change, why: String) -> bb::Result<Removal> {
        let id: ChangeId = change.change_id.clone();
        self.db
            .write("worktree_kept", move |conn| bb::end_removal(conn, &id))
            .await?;
        Ok(Removal::Kept(why))
    }

    /// Returns the reason why a worktree is not where remand creates its own.
    fn outside(&self, change: &Change) -> Option<String> {
        let own = (self.settings.rules)(&change.project_id).own_worktrees;
        let path = Path::new(&change.worktree);
        // A directory on the way that was replaced by a symlink would lead elsewhere.
        let real = |path: &Path| path.canonicalize().ok();
        let is_inside = match (path.parent().and_then(real), real(&own)) {
            (Some(parent), Some(own)) => parent.starts_with(own),
            (_, _) => false,
        };
        let own = own.display();
        (!is_inside).then(|| format!("it is not in {own}, where remand creates worktrees"))
    }

    pub(super) async fn git_of(
        &self,
        project_id: &ProjectId,
        worktree: &str,
    ) -> bb::Result<(Git, Project)> {
        let project = self.db.read_of(project_id, bb::project).await?;
        let of_git = Project {
            bare: project.path == project.common_dir,
            path: project.path.into(),
            common_dir: project.common_dir.into(),
            default_branch: Some(project.default_branch),
            origin: None,
        };
        Ok((self.settings.git_in(worktree), of_git))
    }
}

fn removed_event(
    change: &Change,
    kept_on: Option<&str>,
    head: Option<String>,
    order: &Order<'_>,
) -> NewEvent {
    let (path, state) = (&change.worktree, change.state);
    let ended = change.completed_at.unwrap_or(change.updated_at);
    let age = span(clock::now().since(ended));
    let kept_on = kept_on.unwrap_or_default();
    NewEvent::about(
        &change.change_id,
        body::WorktreeRemoved {
            path: path.clone(),
            branch: Some(change.branch.clone()),
            head,
            why: Some(order.why),
        },
        format!("removed the worktree {path}: {state} {age} ago; its commits are on {kept_on}"),
    )
    .by(order.actor)
}
