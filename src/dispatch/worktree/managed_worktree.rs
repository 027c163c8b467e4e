//! Managed worktrees: created when they are missing, and set up before anything runs in them. A user's own worktree is
//! never created or set up.

use std::path::Path;

use crate::blackboard as bb;
use crate::clock;
use crate::dispatch::gates::setup::{SetUp, SetUpPlace};
use crate::dispatch::interrupt::{Interrupt, Result, chain};
use crate::dispatch::run::launch::{CommandSite, make_folder};
use crate::dispatch::task::Task;
use crate::event::{EventType, NewEvent, body};
use crate::failpoint::crash_point;
use crate::fingerprint::fingerprint;
use crate::git::{HeadAt, Made, Place, RestorePoint, Worktree};

/// Stored instead of the set-up key while a set-up is running.
const BEGUN: &str = "begun";

/// Stored there as well, from the creation of the worktree until that is recorded.
const MAKING: &str = "making";

/// Free space below which a failure is attributed to a full disk, in bytes.
const HARDLY_ANY: u64 = 1 << 20;

/// True if the disk with this path has hardly any space left.
fn is_full(path: &Path) -> bool {
    let there = path.ancestors().find(|path| path.is_dir());
    let disk = there.and_then(|path| rustix::fs::statvfs(path).ok());
    disk.is_some_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < HARDLY_ANY)
}

impl Task {
    /// Prepares the worktree for the next run: existing, at the remote's head, set up.
    pub(crate) async fn ready_worktree(&self) -> Result<Worktree> {
        self.look_at_pull().await?;
        self.writable()?;
        self.make_own_worktree().await?;
        if self.change.has_pr()
            && let Ok(place) = self.place()
        {
            self.git.end_cut_move(&place, self.head_at()).await?;
            self.end_cut_setup(&place).await?;
        }
        let worktree = self.look().await?;
        // The ref of an earlier change of the same pull request has another name.
        self.git.keep_head(&worktree.place, self.head_at()).await?;
        let worktree = self.sync(worktree).await?;
        self.set_up(&worktree.place).await?;
        Ok(worktree)
    }

    /// Creates a managed worktree if it is missing or incomplete.
    async fn make_own_worktree(&self) -> Result<()> {
        if !self.change.own_worktree {
            return Ok(());
        }
        self.check_cancelled()?;
        let project = self.project_of_git();
        let head = match self.git.made_so_far(&project, self.worktree()).await? {
            Made::Whole => return self.worktree_is_made().await,
            Made::Empty { head } => head,
            Made::Not if self.change.is_task() => self.first_commit().await?,
            Made::Not => {
                let remote = self.remote().await?;
                let head = self.remote_head(&remote).await?;
                self.git
                    .bring_in(&project.repository(), remote.path(), &head)
                    .await?;
                head
            }
        };
        if let Some(folder) = self.worktree().parent() {
            make_folder(folder)?;
        }
        let id = self.change.change_id.clone();
        // Earlier set-up results were removed with the directory.
        self.write("worktree_making", move |conn| {
            bb::set_up_for(conn, &id, MAKING)
        })
        .await?;
        let was_there = self.branch_is_there().await?;
        crash_point!("git.worktree.before");
        let added = self
            .git
            .add_worktree(&project, self.worktree(), self.head_at(), &head);
        if let Err(error) = added.await {
            let is_full = is_full(self.worktree());
            // What is left of it would only use up the disk that may be full.
            let branch = (!was_there).then_some(head.as_str());
            let path = self.worktree();
            if let Err(error) = self
                .git
                .undo_worktree(&project, path, self.head_at(), branch)
                .await
            {
                tracing::warn!(path = %path.display(), error = %chain(&error), "cannot remove an incomplete worktree");
            }
            // Git does not always name the reason.
            return Err(match is_full {
                true => Interrupt::hold(format!(
                    "no space left on the disk for the worktree {}: {}",
                    self.change.worktree,
                    chain(&error)
                )),
                false => error.into(),
            });
        }
        crash_point!("git.worktree.after");
        self.worktree_is_made().await
    }

    /// True if the branch of the worktree exists, or the worktree has none.
    async fn branch_is_there(&self) -> Result<bool> {
        let HeadAt::Branch(branch) = self.head_at() else {
            return Ok(true);
        };
        let repository = self.project_of_git().repository();
        let name = format!("refs/heads/{branch}");
        Ok(self.git.resolve(&repository, &name).await?.is_some())
    }

    /// Appends the event for a worktree that this process, or one that died since, has created.
    async fn worktree_is_made(&self) -> Result<()> {
        if self.change_now().await?.setup_done.as_deref() != Some(MAKING) {
            return Ok(());
        }
        let (id, path, branch) = (
            self.change.change_id.clone(),
            self.change.worktree.clone(),
            &self.change.branch,
        );
        let place = self.place()?;
        // The marker of a move is removed last.
        self.git.end_cut_move(&place, self.head_at()).await?;
        let head = self.git.look(&place).await?.head;
        let (is_there, branch) = (self.change.change_id.clone(), branch.clone());
        self.write("worktree_made", move |conn| {
            let is_restored = bb::has_event(conn, &is_there, EventType::WorktreeMade)?;
            let verb = if is_restored { "restored" } else { "created" };
            let event = NewEvent::about(
                &id,
                body::WorktreeMade {
                    path: path.clone(),
                    branch,
                    head,
                    restored: is_restored,
                },
                format!("{verb} the worktree {path}"),
            );
            bb::append(conn, &event, clock::now())?;
            bb::set_up_for(conn, &id, "")
        })
        .await?;
        Ok(())
    }

    /// Runs the project's set-up in a managed worktree, if it has not been run for these lock files.
    pub(crate) async fn set_up(&self, place: &Place) -> Result<()> {
        if !self.change.own_worktree || self.rules.setup.is_empty() {
            return Ok(());
        }
        let wanted = self.setup_key(place).await?;
        if self.change_now().await?.setup_done.as_deref() == Some(&wanted) {
            return Ok(());
        }
        self.check_cancelled()?;
        self.end_cut_setup(place).await?;
        let name = self.setup_name();
        let dir = self.bench().job_folder(&name).await?;
        let id = self.change.change_id.clone();
        self.write("setup_begun", move |conn| bb::set_up_for(conn, &id, BEGUN))
            .await?;
        let run_id = format!("{}.setup", self.change.change_id);
        let set_up = SetUp {
            place: SetUpPlace::Worktree,
            site: CommandSite::of(place),
            dir,
            run_id,
        };
        if let Some(failure) = self.bench().run_set_up(set_up).await? {
            return Err(failure.hold());
        }
        let status = self.git.status(place).await?;
        if !status.changed.is_empty() || !status.untracked.is_empty() {
            let paths: Vec<String> = status.changed.into_iter().chain(status.untracked).collect();
            return Err(Interrupt::hold(format!(
                "the setup command left files that are neither committed nor ignored: {}",
                super::preflight::named(&paths)
            )));
        }
        let id = self.change.change_id.clone();
        self.write("set_up", move |conn| bb::set_up_for(conn, &id, &wanted))
            .await?;
        Ok(())
    }

    fn setup_name(&self) -> String {
        format!("setup-{}", self.change.change_id)
    }

    /// Removes files that a failed or interrupted set-up left in a managed worktree, and keeps them aside: they are
    /// nobody's work, and nothing else can run there before the set-up has.
    pub(crate) async fn end_cut_setup(&self, place: &Place) -> Result<()> {
        if !self.change.own_worktree
            || self.change_now().await?.setup_done.as_deref() != Some(BEGUN)
        {
            return Ok(());
        }
        // Processes that a killed daemon left must not continue to write.
        self.bench().job_folder(&self.setup_name()).await?;
        let now = self.git.look(place).await?;
        if let Some(head) = now
            .head
            .filter(|_| self.head_at().fits(now.branch.as_deref()))
        {
            let run = format!("setup-{}", self.change.change_id);
            let back = RestorePoint::new(self.head_at(), &head, &run);
            self.git.put_back(place, back).await?;
        }
        Ok(())
    }

    /// Key of a set-up: the command and the committed files that it depends on. Ignored files that it creates do not
    /// count.
    async fn setup_key(&self, place: &Place) -> Result<String> {
        let files = self
            .git
            .listed_files(place, &self.rules.setup_again_on)
            .await?;
        Ok(fingerprint(&self.rules.setup, &files))
    }
}
