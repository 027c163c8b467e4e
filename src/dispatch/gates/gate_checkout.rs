//! Gates in a managed checkout of exactly the commit that will be pushed. The commit is fetched into the bare clone
//! first, and everything comes from there: the agent's worktree, index and repository have no influence.
//!
//! Checkouts are kept, so that the set-up need not run each time: `<state>/gates/PROJECT/N`. A gate run uses the first
//! free one and creates another when all are in use, so that no gate waits for a slow one; there are never more than
//! concurrent gate runs. Only the unchanged result of the set-up stays in a checkout from one gate run to the next, if
//! it was made from a base branch or from the same change: everything else that is not in the commit is removed,
//! ignored files included.

use std::path::{Path, PathBuf};

use super::gate_run::{OUTPUT_TAIL, Red, file_name, gate_folder, output_end};
use super::project_commands::ProjectCommands;
use super::setup::{SetUp, SetUpFailure, SetUpPlace};
use crate::change::ChangeId;
use crate::dispatch::commit::Span;
use crate::dispatch::interrupt::{Interrupt, Result, file_trouble};
use crate::dispatch::run::launch::{CommandSite, make_folder, write};
use crate::dispatch::run::recover::git_mark;
use crate::dispatch::run::worktree_lock::WorktreeLock;
use crate::dispatch::task::Task;
use crate::dispatch::worktree::preflight::named;
use crate::failpoint::crash_point;
use crate::files;
use crate::fingerprint::fingerprint;
use crate::git::{Checkout, GateView, Git, Kept, Place, Product};
use crate::process::{self, SETTLE};
use crate::remote::Remote;
use crate::text::{shell_line, short_sha};
use crate::work::GateResult;

/// A checkout that is reserved until this is dropped.
struct Slot {
    root: PathBuf,
    checkout: Checkout,
    git: Git,
    _lock: WorktreeLock,
}

/// A commit that gates are run on.
pub(crate) struct Tested<'a> {
    pub(crate) view: &'a GateView<'a>,
    pub(crate) tree: &'a str,
    pub(crate) made_from: MadeFrom<'a>,
    /// The run that led to the commit: its directory has the output. None: a directory beside the runs.
    pub(crate) fix: Option<Span<'a>>,
}

/// The branch that a set-up was run on. Its result may contain anything that is committed there, such as the work of a
/// script that the package manager ran: commits of an agent must not influence the gates of another change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MadeFrom<'a> {
    /// A base branch: every change may use it.
    Base,
    /// The branch of a change, which alone may use it.
    Change(&'a ChangeId),
}

impl MadeFrom<'_> {
    /// Stored with the result of the set-up.
    fn key(self, inputs: &str) -> String {
        match self {
            Self::Base => format!("base {inputs}"),
            // Never equal to `base`: the ids of changes are `c` and a number.
            Self::Change(id) => format!("{id} {inputs}"),
        }
    }

    fn may_use(self, key: &str, inputs: &str) -> bool {
        key == self.key(inputs) || key == Self::Base.key(inputs)
    }
}

impl Slot {
    /// File that records the result of the set-up and its input.
    fn product_file(&self) -> PathBuf {
        self.root.join("setup")
    }

    /// Directory of the last job that ran here: the next user of the checkout waits for its end.
    fn job_file(&self) -> PathBuf {
        self.root.join("job")
    }

    fn is_used_by(&self, job: &Path) -> Result<()> {
        write(&self.job_file(), job.as_os_str().as_encoded_bytes())
    }
}

impl Task {
    /// Runs the gates on exactly this commit; returns the first that is red.
    pub(crate) async fn gates_in_checkout(
        &self,
        span: Span<'_>,
        head: &str,
    ) -> Result<Option<Red>> {
        let place = self.place()?;
        self.settle_gates(span.run).await?;
        self.untouched(&place, span, head).await?;
        if self.rules.gates.is_empty() {
            return Ok(None);
        }
        let tree = self.git.tree_of(&place, head).await?;
        self.gates_on_head(&place, head, &tree, Some(span)).await
    }

    /// Runs the gates on the head of the change, which has this tree; returns the first that is red.
    pub(crate) async fn gates_on_head(
        &self,
        place: &Place,
        head: &str,
        tree: &str,
        fix: Option<Span<'_>>,
    ) -> Result<Option<Red>> {
        let repository = self.own_repository();
        repository.ready().await?;
        repository.take(place, &self.change.branch, head).await?;
        let view = self.gate_view(place, &repository, head).await?;
        let tested = Tested {
            view: &view,
            tree,
            made_from: MadeFrom::Change(&self.change.change_id),
            fix,
        };
        self.bench().gates_on(repository.path(), &tested).await
    }

    /// The branch, the base and the remote, for gates that read them.
    pub(crate) async fn gate_view<'a>(
        &'a self,
        place: &Place,
        repository: &Remote,
        head: &'a str,
    ) -> Result<GateView<'a>> {
        let base = &self.change.base;
        let mut refs = Vec::new();
        if self.change.has_pr() {
            for branch in [base, &self.change.branch] {
                let known = repository.fetched_head(branch).await?;
                refs.extend(known.map(|sha| (format!("refs/remotes/origin/{branch}"), sha)));
            }
        } else if let Some(sha) = self.git.base_head(place, base).await? {
            repository.take(place, &self.change.branch, &sha).await?;
            refs.push((format!("refs/heads/{base}"), sha));
        }
        let url = Some(repository.shown_url()).filter(|url| !url.is_empty());
        Ok(GateView {
            branch: &self.change.branch,
            commit: head,
            refs,
            url,
        })
    }
}

impl ProjectCommands<'_> {
    /// Runs set-up, where it is needed, and the gates on exactly one commit; returns the first that is red.
    pub(crate) async fn gates_on(
        &self,
        repository: &Path,
        tested: &Tested<'_>,
    ) -> Result<Option<Red>> {
        let slot = self.take_slot(repository).await?;
        if let Some(failure) = self.fill(&slot, tested).await? {
            let red = self.fault_of_fix(&slot, tested, failure).await?;
            return Ok(Some(self.as_in_worktree(red, &slot, tested.view.commit)));
        }
        let seen = slot.checkout.seen_by_gates();
        let site = CommandSite {
            place: &seen,
            read: Some(slot.checkout.objects()),
        };
        let head = tested.view.commit;
        for (number, command) in self.rules.gates.iter().enumerate() {
            self.check_cancelled().await?;
            let dir = match tested.fix {
                Some(Span { run, .. }) => gate_folder(run, number)?,
                None => {
                    self.made_job_folder(&format!("{}-gate", self.slot_name(&slot)))
                        .await?
                }
            };
            slot.is_used_by(&dir)?;
            let mut red = self.gate(site, &dir, command).await?;
            if red.is_none() {
                let changed = slot.git.differing(&slot.checkout, head).await?;
                red = (!changed.is_empty()).then(|| Red {
                    command: shell_line(command),
                    status: Some(0),
                    output: format!("the gate changed committed files: {}", named(&changed)),
                });
            }
            if let Some(red) = red {
                self.remember_result(tested.tree, GateResult::Red).await?;
                return Ok(Some(self.as_in_worktree(red, &slot, head)));
            }
        }
        self.remember_result(tested.tree, GateResult::Green).await?;
        Ok(None)
    }

    /// Paths as the agent knows them, and those that did not exist.
    fn as_in_worktree(&self, red: Red, slot: &Slot, head: &str) -> Red {
        let tree = slot.checkout.tree().display().to_string();
        let there = self
            .task
            .map_or(&self.project.path, |task| &task.change.worktree);
        let mut output = red.output.replace(&tree, there);
        if output.trim().is_empty() {
            output = match red.status {
                Some(status) => format!("no output, exit status {status}"),
                None => "no output".to_owned(),
            };
        }
        let note = format!(
            "[run in a clean checkout of {}, which has only committed files and the results of `setup`]",
            short_sha(head)
        );
        Red {
            output: format!("{note}\n{output}"),
            ..red
        }
    }

    /// The first free checkout of the project, with no process left in it.
    async fn take_slot(&self, repository: &Path) -> Result<Slot> {
        let settings = self.settings;
        let all = settings.gates_dir.join(self.project.project_id.as_str());
        for number in 0_u32.. {
            let root = all.join(number.to_string());
            let mark = git_mark(&root.display().to_string());
            let lock = WorktreeLock::try_take(&settings.locks_dir, &root.display().to_string())
                .map_err(file_trouble("lock", &root))?;
            let Some(lock) = lock else { continue };
            make_folder(&root)?;
            process::end_marked(mark.as_ref()).await?;
            let mut env = settings.env.clone();
            env.insert(process::MARK.into(), mark);
            let git = Git::for_own_clone(&env, settings.limits.git, &settings.sandbox);
            let slot = Slot {
                checkout: Checkout::new(&root, repository),
                root,
                git,
                _lock: lock,
            };
            if let Ok(job) = files::read_text(&slot.job_file(), files::SMALL)
                && !job.is_empty()
            {
                process::settle(Path::new(&job), SETTLE).await?;
            }
            return Ok(slot);
        }
        Err(Interrupt::hold("too many checkouts of the project"))
    }

    /// Decides if a failed set-up is the fault of the fix, which is reported like a red gate, or of the environment.
    ///
    /// A fix broke the set-up if it changed a file that the set-up depends on and the set-up works now, on the same
    /// machine, for the commit before the fix. This is not stored: after a crash it is determined again.
    async fn fault_of_fix(
        &self,
        slot: &Slot,
        tested: &Tested<'_>,
        failure: SetUpFailure,
    ) -> Result<Red> {
        let Some(Span { first, .. }) = tested.fix else {
            return Err(failure.hold());
        };
        let with_fix = self.set_up_inputs(slot).await?;
        slot.git
            .check_out(&slot.checkout, first, &Product::default())
            .await?;
        if self.set_up_inputs(slot).await? == with_fix {
            return Err(failure.hold());
        }
        self.check_cancelled().await?;
        let view = GateView {
            commit: first,
            ..tested.view.clone()
        };
        let before = Tested {
            view: &view,
            fix: None,
            ..*tested
        };
        if self.fill(slot, &before).await?.is_some() {
            return Err(failure.hold());
        }
        let SetUpFailure {
            what,
            status,
            output,
        } = failure;
        let output = format!(
            "{what}; it passes on {}, the commit before the fix\n{}",
            short_sha(first),
            output_end(output.as_deref().unwrap_or_default(), OUTPUT_TAIL)
        );
        Ok(Red {
            command: self.rules.setup.join(" "),
            status,
            output,
        })
    }

    /// The files of the commit, the result of the set-up, and the repository that a gate sees.
    async fn fill(&self, slot: &Slot, tested: &Tested<'_>) -> Result<Option<SetUpFailure>> {
        let view = tested.view;
        let Slot { checkout, git, .. } = slot;
        let file = slot.product_file();
        if self.rules.setup.is_empty() {
            Product::forget(&file)?;
            git.check_out(checkout, view.commit, &Product::default())
                .await?;
            git.show_to_gates(checkout, view).await?;
            return Ok(None);
        }
        let (key, product) = Product::load(&file).unwrap_or_default();
        let kept = git.check_out(checkout, view.commit, &product).await?;
        let inputs = self.set_up_inputs(slot).await?;
        if kept == Kept::Stale || !tested.made_from.may_use(&key, &inputs) {
            // After a crash from here until it is stored again, the set-up starts from the beginning.
            Product::forget(&file)?;
            crash_point!("checkout.setup.before");
            checkout.clear().await?;
            git.check_out(checkout, view.commit, &Product::default())
                .await?;
            git.show_to_gates(checkout, view).await?;
            if let Some(failure) = self.set_up_checkout(slot).await? {
                return Ok(Some(failure));
            }
            let changed = git.differing(checkout, view.commit).await?;
            if !changed.is_empty() {
                let what = format!("the setup changed committed files: {}", named(&changed));
                return Ok(Some(SetUpFailure {
                    what,
                    status: Some(0),
                    output: None,
                }));
            }
            checkout
                .product(git, view.commit)
                .await?
                .store(&file, &tested.made_from.key(&inputs))?;
            crash_point!("checkout.setup.after");
        }
        git.show_to_gates(checkout, view).await?;
        Ok(None)
    }

    async fn set_up_checkout(&self, slot: &Slot) -> Result<Option<SetUpFailure>> {
        let name = self.slot_name(slot);
        let dir = self.job_folder(&name).await?;
        slot.is_used_by(&dir)?;
        let seen = slot.checkout.seen_by_gates();
        let site = CommandSite {
            place: &seen,
            read: Some(slot.checkout.objects()),
        };
        self.run_set_up(SetUp {
            place: SetUpPlace::Checkout,
            site,
            dir,
            run_id: format!("{name}.setup"),
        })
        .await
    }

    fn slot_name(&self, slot: &Slot) -> String {
        let number = file_name(&slot.root);
        format!("gates-{}-{number}", self.project.project_id)
    }

    /// Key of a set-up: the command and the committed files that it depends on.
    async fn set_up_inputs(&self, slot: &Slot) -> Result<String> {
        let files = slot
            .git
            .checked_out_files(&slot.checkout, &self.rules.setup_again_on)
            .await?;
        Ok(fingerprint(&self.rules.setup, &files))
    }
}
