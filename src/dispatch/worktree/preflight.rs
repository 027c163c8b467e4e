//! Checks before a run: is everything as recorded on the blackboard? A mismatch is reported with a step that a person
//! can take; a failed check never proves anything.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::blackboard as bb;
use crate::change::{Change, HoldKind};
use crate::clock;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::settings::DayBound;
use crate::dispatch::task::Task;
use crate::git::{GitError, HeadAt, Place, RestorePoint, Status, Worktree};
use crate::proposal::{Decision, Escalation, Refusal, decision};
use crate::text::{self, dollars, short_sha};
use crate::work::{LoopStep, Run};

/// Maximum number of paths listed before "and N more".
const NAMED: usize = 5;

impl Task {
    /// Checks the worktree: it exists, inside a root, belongs to this project, is on the branch, has no unfinished
    /// operation, and is clean.
    pub(crate) async fn look(&self) -> Result<Worktree> {
        self.check_cancelled()?;
        let change = self.change_now().await?;
        if self.waits(&change) {
            return Err(Interrupt::Paused);
        }
        // To open a pull request costs nothing.
        if self.item.step() != Some(LoopStep::OpenPull) {
            budget_left(&change)?;
            self.day_left().await?;
        }
        self.writable()?;
        let path = self.worktree();
        let (worktree, status) = match self.look_at(path).await {
            Ok(looked) => looked,
            Err(GitError::NotThere { path }) => {
                return Err(Interrupt::fail(gone(&path), self.bring_back()));
            }
            Err(GitError::NotARepository { path } | GitError::NotThisWorktree { path, .. }) => {
                return Err(Interrupt::fail(
                    format!(
                        "{} is no longer a worktree of {}",
                        path.display(),
                        self.project.project_id
                    ),
                    "restore the worktree, then retry",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        if worktree.place.common_dir != Path::new(&self.project.common_dir) {
            return Err(Interrupt::fail(
                format!(
                    "{} does not belong to the repository {}",
                    path.display(),
                    self.project.path
                ),
                "restore the worktree, then retry",
            ));
        }
        self.inside_a_root(&worktree)?;
        if worktree.index_lock {
            let reason = format!(
                "{} exists: another git process is running in the worktree, or one was killed (in that case, remove the file)",
                worktree.place.git_dir.join("index.lock").display()
            );
            return Err(Interrupt::hold_by(HoldKind::GitLock, reason));
        }
        if let Some(operation) = worktree.operation {
            return Err(Interrupt::fail(
                format!("unfinished {operation} in {}", path.display()),
                "finish or abort it there, then retry",
            ));
        }
        let worktree = self.detached_again(worktree, &status).await?;
        let is_own_branch = worktree.branch.as_deref() == Some(self.change.branch.as_str());
        // On a branch although it should be detached: then it has uncommitted work, which is reported below.
        if !(self.head_at().fits(worktree.branch.as_deref())
            || self.change.detached && is_own_branch)
        {
            let found = worktree
                .branch
                .as_deref()
                .unwrap_or("no branch (detached HEAD)");
            let expected = self.head_at().expected();
            let (at, way) = match self.head_at() {
                HeadAt::Branch(branch) => ("switch it back", typed(Path::new(branch))),
                HeadAt::Detached(_) => ("detach it", "--detach".to_owned()),
            };
            return Err(Interrupt::fail(
                format!("{} is on {found}, not on {expected}", path.display()),
                format!("{at} (`git -C {} switch {way}`), then retry", typed(path)),
            ));
        }
        if worktree.head.is_none() {
            return Err(self.no_branch());
        }
        if !status.is_clean() {
            let paths: Vec<String> = status.changed.into_iter().chain(status.untracked).collect();
            return Err(Interrupt::fail(
                format!(
                    "{} has uncommitted changes: {}",
                    path.display(),
                    named(&paths)
                ),
                "commit or stash them, then retry",
            ));
        }
        Ok(worktree)
    }

    /// Reads the worktree. Git searches for its repository only if the files do not lead there and back.
    async fn look_at(&self, path: &Path) -> Result<(Worktree, Status), GitError> {
        let common_dir = Path::new(&self.project.common_dir);
        let place = match Place::find_both_ways(common_dir, path) {
            Some(place) => place,
            None => {
                let found = self.git.worktree_at(path).await?;
                if found.place.common_dir != common_dir {
                    // Refused by the caller: no file of it is read.
                    return Ok((found, Status::default()));
                }
                found.place
            }
        };
        self.git.look_and_status(&place).await
    }

    /// Returns the amount that may still be spent today, on this project and in total; `None` if there is no limit. If it
    /// is used up, the item is held until tomorrow.
    pub(crate) async fn day_left(&self) -> Result<Option<i64>> {
        let DayBound { most_micros, zone } = self.dispatch.settings.day;
        let today = clock::day(clock::now(), zone);
        let start = today.start;
        let hold = |spent: i64, on: String, key: &str, most: i64| Interrupt::Hold {
            kind: HoldKind::Environment,
            reason: format!(
                "agents spent {}{on} today, and `{key}` allows {}; after raising the limit, `remand resume {}` continues immediately",
                dollars(spent),
                dollars(most),
                self.change.change_id
            ),
            until: Some(today.end),
        };
        let mut left = None;
        if let Some(most) = most_micros {
            let spent = self.read(move |conn| bb::spent_since(conn, start)).await?;
            if spent >= most {
                return Err(hold(
                    spent,
                    String::new(),
                    "loop.max_cost_usd_per_day",
                    most,
                ));
            }
            left = Some(most - spent);
        }
        if let Some(own) = &self.rules.max_day {
            let project = self.change.project_id.clone();
            let spent = self
                .read(move |conn| bb::spent_on_project_since(conn, &project, start))
                .await?;
            if spent >= own.most_micros {
                return Err(hold(
                    spent,
                    format!(" on {}", self.change.project_id),
                    &own.key,
                    own.most_micros,
                ));
            }
            left = left.into_iter().chain([own.most_micros - spent]).min();
        }
        Ok(left)
    }

    /// Returns the branch or detached state that HEAD of the worktree belongs to.
    pub(crate) fn head_at(&self) -> HeadAt<'_> {
        head_at(&self.change)
    }

    /// Returns the state to restore the worktree to; changes found there are kept under the run's name.
    pub(crate) fn restore_point<'a>(&'a self, head: &'a str, run: &'a Run) -> RestorePoint<'a> {
        RestorePoint::new(self.head_at(), head, run.run_id.as_str())
    }

    /// Detaches a managed worktree that is on its change's branch although it should be detached, unless it has
    /// uncommitted work.
    async fn detached_again(&self, worktree: Worktree, status: &Status) -> Result<Worktree> {
        let is_on_branch = worktree.branch.as_deref() == Some(self.change.branch.as_str());
        if !self.change.detached || !is_on_branch || !status.is_clean() {
            return Ok(worktree);
        }
        self.git.detach(&worktree.place, self.head_at()).await?;
        Ok(self.git.look(&worktree.place).await?)
    }

    /// Refuses a repository that cannot be written before an agent starts: its work could not be kept. A service may
    /// see the repository read-only or, in a home directory, not at all.
    pub(crate) fn writable(&self) -> Result<()> {
        let (repository, worktree) = (Path::new(&self.project.common_dir), self.worktree());
        let remedy = &self.dispatch.settings.write_remedy;
        let denied = |path: &Path, error: Errno| {
            Interrupt::hold(format!(
                "the daemon cannot write to {}: {error}; {remedy}",
                path.display()
            ))
        };
        access(repository, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| denied(repository, error))?;
        // Anything else at its path is reported by the following check.
        if !worktree.is_dir() {
            return Ok(());
        }
        match access(worktree, Access::WRITE_OK | Access::EXEC_OK) {
            // A missing one is judged with the repository's list of worktrees.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            Err(error) => Err(denied(worktree, error)),
        }
    }

    /// The branch was deleted under the worktree. Every file looks new then, and must not be committed.
    pub(crate) fn no_branch(&self) -> Interrupt {
        let branch = &self.change.branch;
        Interrupt::fail(
            format!("the branch {branch} has no commits"),
            format!(
                "restore it (`git -C {} update-ref {} {}`), then retry",
                typed(Path::new(&self.project.path)),
                typed(Path::new(&format!("refs/heads/{branch}"))),
                self.change.head
            ),
        )
    }

    /// The base branch was deleted.
    pub(crate) fn no_base(&self) -> Interrupt {
        let (base, id) = (&self.change.base, &self.change.change_id);
        Escalation::new(
            format!("the base branch {base} no longer exists"),
            decision!(
                "restore it, then {retry}; or close the change ({cancel})",
                retry = Decision::retry(id),
                cancel = Decision::cancel(id),
            ),
        )
        .refused(Refusal::BaseGone)
        .into()
    }

    /// Returns the command that restores a missing worktree. It needs `--force`, since the repository still lists the
    /// worktree.
    pub(crate) fn bring_back(&self) -> String {
        let (repository, path) = (Path::new(&self.project.path), self.worktree());
        let first = if path.symlink_metadata().is_ok() {
            "move what is there out of the way, then "
        } else {
            ""
        };
        format!(
            "{first}restore the worktree with `git -C {} worktree add --force {} {}`, then retry",
            typed(repository),
            typed(path),
            typed(Path::new(&self.change.branch)),
        )
    }

    /// The current change: a run of this item may have used up its budget since the claim, and a person may have paused
    /// it.
    pub(crate) async fn change_now(&self) -> Result<Change> {
        Ok(self.read_of(&self.change.change_id, bb::change).await?)
    }

    fn inside_a_root(&self, worktree: &Worktree) -> Result<()> {
        let mut roots = allowed_roots(&self.rules.worktree_roots, Path::new(&self.project.path));
        if self.change.own_worktree {
            let own = &self.rules.own_worktrees;
            roots.push(own.canonicalize().unwrap_or_else(|_| own.clone()));
        }
        let path = &worktree.place.path;
        if roots.iter().any(|root| path.starts_with(root)) {
            return Ok(());
        }
        Err(Interrupt::fail(
            format!(
                "{} is outside the allowed directories for worktrees ({})",
                path.display(),
                text::list(roots.iter().map(|root| root.display()))
            ),
            "add its directory to `worktree_roots` in the configuration, then retry",
        ))
    }

    /// Returns the head of the branch, and records it if somebody moved it. Commits on top of the known head are
    /// somebody's work and enter the loop; a rewritten branch needs a person.
    pub(crate) async fn head_as_known(&self, worktree: &Worktree) -> Result<String> {
        let head = worktree.head.clone().ok_or_else(|| self.no_branch())?;
        let expected = self.change_now().await?.head;
        if head == expected {
            return Ok(head);
        }
        let known = self.git.resolve(&worktree.place, &expected).await?;
        let grew = match known {
            Some(known) => self.git.is_ancestor(&worktree.place, &known, &head).await?,
            None => false,
        };
        if !grew {
            return Err(Interrupt::fail(
                format!(
                    "the branch {} was rewritten: {} does not contain {}",
                    self.change.branch,
                    short_sha(&head),
                    short_sha(&expected)
                ),
                decision!(
                    "check it in {worktree}, then {submit}",
                    worktree = self.change.worktree.as_str().into(),
                    submit = self.change.submit_advice(),
                ),
            ));
        }
        self.note_head(&head).await?;
        Ok(head)
    }

    /// Records that the branch is at another commit.
    pub(crate) async fn note_head(&self, head: &str) -> Result<()> {
        let (id, to) = (self.change.change_id.clone(), head.to_owned());
        self.write("move_head", move |conn| {
            bb::move_head(conn, &id, &to, clock::now())
        })
        .await?;
        Ok(())
    }

    /// Returns the merge base of the branch: reviews and fixes cover everything since.
    pub(crate) async fn base_of(&self, worktree: &Worktree, head: &str) -> Result<String> {
        let base = self.base_head(&worktree.place).await?;
        self.merge_base(&worktree.place, base, head).await
    }

    /// Returns the merge base of the branch, and the tree of its head.
    pub(crate) async fn base_and_tree(
        &self,
        place: &Place,
        head: &str,
    ) -> Result<(String, String)> {
        let (base, tree) = if self.follows_remote() {
            let tree = self.git.tree_of(place, head).await?;
            (self.base_head(place).await?, tree)
        } else {
            let branch = &self.change.base;
            self.git.base_head_and_tree(place, branch, head).await?
        };
        Ok((self.merge_base(place, base, head).await?, tree))
    }

    async fn merge_base(&self, place: &Place, base: Option<String>, head: &str) -> Result<String> {
        let base = base.ok_or_else(|| self.no_base())?;
        let merge_base = self.git.merge_base(place, &base, head).await?;
        merge_base.ok_or_else(|| {
            Interrupt::fail(
                format!(
                    "{} and {} have no common ancestor",
                    self.change.branch, self.change.base
                ),
                "check the branch, then retry",
            )
        })
    }

    /// True if the change has a pull request or will get one.
    pub(crate) fn follows_remote(&self) -> bool {
        self.change.has_pr() || self.change.opens_pr
    }

    /// The base of a pull request is the branch on the remote: the local one may be old, missing, or changed by an
    /// agent.
    pub(crate) async fn base_head(&self, place: &Place) -> Result<Option<String>> {
        let base = &self.change.base;
        if !self.follows_remote() {
            return Ok(self.git.base_head(place, base).await?);
        }
        let remote = self.remote().await?;
        remote.ready().await?;
        let Some(sha) = remote.fetch(base).await? else {
            return Ok(None);
        };
        self.git.bring_in(place, remote.path(), &sha).await?;
        Ok(Some(sha))
    }
}

/// Returns the branch or detached state that HEAD of a change's worktree belongs to.
pub(crate) fn head_at(change: &Change) -> HeadAt<'_> {
    if change.detached {
        HeadAt::Detached(change.change_id.as_str())
    } else {
        HeadAt::Branch(&change.branch)
    }
}

/// Checks the total budgets before each expense.
pub(crate) fn budget_left(change: &Change) -> Result<()> {
    let Some(spent) = change.budget.spent() else {
        return Ok(());
    };
    let id = &change.change_id;
    let escalation = Escalation::new(
        format!("{id} {} — requires human review", change.budget.used(spent)),
        decision!(
            "allow more ({more}), or finish it by hand ({cancel})",
            more = change.more_command(spent),
            cancel = Decision::cancel(id),
        ),
    );
    Err(escalation.at_bound(spent).into())
}

/// Returns the directories that may contain worktrees: the configured ones, else the parent of the main checkout.
pub(crate) fn allowed_roots(configured: &[PathBuf], checkout: &Path) -> Vec<PathBuf> {
    let roots: Vec<PathBuf> = if configured.is_empty() {
        vec![checkout.parent().unwrap_or(checkout).to_owned()]
    } else {
        configured.to_vec()
    };
    roots
        .into_iter()
        .map(|root| root.canonicalize().unwrap_or(root))
        .collect()
}

/// Describes a missing worktree, and what is at its path instead.
pub(crate) fn gone(path: &Path) -> String {
    let instead = match path.symlink_metadata() {
        Ok(meta) if meta.is_symlink() => ": a symlink is in its place",
        Ok(_) => ": a file is in its place",
        Err(_) => "",
    };
    format!("the worktree {} no longer exists{instead}", path.display())
}

/// A path that can be pasted into a shell.
fn typed(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+=:@%,".contains(c);
    if text.chars().all(is_plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

pub(crate) fn named(paths: &[String]) -> String {
    let mut text = text::list(paths.iter().take(NAMED));
    if paths.len() > NAMED {
        text.push_str(&format!(" and {} more", paths.len() - NAMED));
    }
    text
}
