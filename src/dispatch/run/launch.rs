//! Starts an agent and waits for it. Its starting point is committed before anything starts; its end is read from its
//! directory afterwards by `conclude`, in the same way after a crash.

use std::path::{Path, PathBuf};

use super::moved_branches::note_branches;
use crate::agent::{self, Agent, Phase, RunSpec, Session};
use crate::blackboard::{self as bb, NewRun, RunEnd};
use crate::change::HoldKind;
use crate::clock;
use crate::dispatch::interrupt::{Interrupt, Result, file_trouble};
use crate::dispatch::prompts::prompt_context::AgentPrompt;
use crate::dispatch::settings::Settings;
use crate::dispatch::task::Task;
use crate::failpoint::crash_point;
use crate::files;
use crate::git::{CheckoutFingerprint, Place, Worktree};
use crate::process::{self, SETTLE, Writer};
use crate::sandbox::WritablePaths;
use crate::work::{Ended, Run};

/// Parameters of a run.
pub(crate) struct Launch<'a> {
    pub(crate) phase: Phase,
    pub(crate) agent: &'a Agent,
    pub(crate) session: Session,
    pub(crate) worktree: &'a Worktree,
    pub(crate) base: &'a str,
    pub(crate) head: &'a str,
    pub(crate) prompt: AgentPrompt,
}

/// Place where a command runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CommandSite<'a> {
    pub(crate) place: &'a Place,
    /// A directory elsewhere that its git reads.
    pub(crate) read: Option<&'a Path>,
}

impl<'a> CommandSite<'a> {
    /// In a worktree.
    pub(crate) fn of(place: &'a Place) -> Self {
        Self { place, read: None }
    }
}

impl Task {
    pub(crate) fn agent(&self, phase: Phase) -> Result<Agent> {
        let name = match phase {
            Phase::Review => &self.rules.review_agent,
            Phase::Implement | Phase::Fix => &self.rules.agent,
        };
        let agent = name.as_deref().and_then(&self.dispatch.settings.agent);
        // The model of a task is one of its agent: another reviewer does not know it.
        let model = self.task.as_ref().and_then(|task| task.model.clone());
        let model = model.filter(|_| *name == self.rules.agent);
        let agent = agent.map(|agent| Agent {
            model: model.or(agent.model),
            ..agent
        });
        agent.ok_or_else(|| {
            let work = match phase {
                Phase::Implement => "an implementation",
                Phase::Review => "a review",
                Phase::Fix => "a fix",
            };
            let reason = format!(
                "no agent is configured for {work}: add [agents.NAME] with its command to the configuration and \
                 set agent = \"NAME\" (a running daemon loads it automatically, or immediately with `remand reload`)"
            );
            Interrupt::hold_by(HoldKind::NoAgent, reason)
        })
    }

    /// Runs an agent until its end. The run's row stays open: `conclude` ends it.
    pub(crate) async fn launch(&self, launch: Launch<'_>) -> Result<()> {
        self.check_cancelled()?;
        self.be_alone(&launch.worktree.place).await?;
        let mark = self.mark_of_checkout().await?;
        let (claim, change) = (self.claim.clone(), self.change.clone());
        let new = NewRun {
            agent: launch.agent.name.clone(),
            model: launch.agent.model.clone(),
            session: launch.session.id().map(str::to_owned),
            head_before: launch.head.to_owned(),
            runs_dir: self.dispatch.settings.runs_dir.display().to_string(),
            part: launch.prompt.part,
            feedback: launch.prompt.coverage.clone(),
            cuts: launch.prompt.cuts.clone(),
            plan: launch.prompt.plan.clone(),
        };
        let run = self
            .write("start_run", move |conn| {
                bb::start_run(conn, &claim, &change, &new, clock::now())
            })
            .await?;
        let start = async {
            let job = self.prepare(&launch, &run, mark).await?;
            crash_point!("spawn.before");
            let program = &self.dispatch.settings.program;
            Ok::<_, Interrupt>(process::start(program, &job).await?)
        };
        let mut running = match start.await {
            Ok(running) => running,
            Err(stop) => {
                let place = &launch.worktree.place;
                return Err(self.never_started(place, &run, stop).await?);
            }
        };
        crash_point!("spawn.after");
        let (id, shim) = (run.run_id.clone(), running.shim().clone());
        let start_time = i64::try_from(shim.start_time).unwrap_or(0);
        self.write("record_shim", move |conn| {
            bb::record_shim(conn, &id, shim.pid.into(), start_time, &shim.boot_id)
        })
        .await?;
        self.signs
            .wait(&mut running, self.dispatch.settings.stop_grace)
            .await?;
        crash_point!("exit.seen");
        Ok(())
    }

    /// Makes sure that nobody else writes in the worktree: such changes would be attributed to the agent.
    ///
    /// Orphans of earlier runs are ended. If another process, such as a person's editor, has a file open for writing that
    /// git does not ignore, the item is held; a process that only has its working directory there does no harm.
    async fn be_alone(&self, place: &Place) -> Result<()> {
        process::end_adopted().await?;
        let mut writers = files::aside(|| process::writers(&place.path));
        writers.retain(|writer| !writer.path.starts_with(".git"));
        let paths: Vec<&Path> = writers.iter().map(|writer| writer.path.as_path()).collect();
        let ignored = self.git.ignored(place, &paths).await?;
        let is_seen = |writer: &&Writer| !ignored.contains(&writer.path);
        match writers.iter().find(is_seen) {
            None => Ok(()),
            Some(Writer { pid, name, path }) => Err(Interrupt::hold(format!(
                "{} is open for writing in process {pid} ({name}); the agent will start when it is closed",
                path.display()
            ))),
        }
    }

    /// Prepares the run's directory, its prompt, and the base's agent configuration in the worktree.
    async fn prepare(
        &self,
        launch: &Launch<'_>,
        run: &Run,
        mark: Option<CheckoutFingerprint>,
    ) -> Result<process::Job> {
        let dir = PathBuf::from(&run.dir);
        process::claim_folder(&dir, SETTLE).await?;
        write(&agent::prompt_file(&dir), launch.prompt.text.as_bytes())?;
        let (note, text) = launch.agent.note(&dir, &launch.session);
        write(&note, &text)?;
        if let Some(mark) = mark {
            let text = serde_json::to_vec(&mark).unwrap_or_default();
            write(&mark_file(&dir), &text)?;
        }
        note_branches(&self.git, &launch.worktree.place, &run.head_before, &dir).await?;
        crash_point!("git.swap.before");
        let swapped = self
            .git
            .swap_in_base_config(
                &launch.worktree.place,
                launch.base,
                &swap_record(&dir),
                self.clean_since_look().then_some(launch.head),
            )
            .await?;
        crash_point!("git.swap.after");
        let limits = self.dispatch.settings.limits;
        let budget = self.change_now().await?.budget;
        let change_left = budget
            .max_cost_micros
            .map(|most| most.saturating_sub(budget.cost_micros));
        let day_left = self.day_left().await?;
        let errand = RunSpec {
            run_id: run.run_id.as_str(),
            phase: launch.phase,
            change_id: self.change.change_id.as_str(),
            item_id: self.item.item_id.as_str(),
            cycle: self.item.fix_cycle,
            base: launch.base,
            head: launch.head,
            branch: &self.change.branch,
            worktree: &launch.worktree.place.path,
            dir: &dir,
            limits: process::Limits {
                idle: limits.idle,
                total: match launch.phase {
                    Phase::Implement => limits.implement,
                    Phase::Review => limits.review,
                    Phase::Fix => limits.fix,
                },
                grace: limits.grace,
            },
            session: &launch.session,
            money_left: [change_left, day_left].into_iter().flatten().min(),
            extra_env: swapped.env,
        };
        make_folder(&agent::answers(&dir))?;
        let job = launch.agent.job(&errand);
        let own = launch.agent.own_folder();
        let site = CommandSite::of(&launch.worktree.place);
        confine(&self.dispatch.settings, job, site, own.as_deref()).await
    }

    /// True if nothing can have run since the worktree was found clean, in the same step: neither gates nor a set-up, nor
    /// git to move it to the remote's head.
    fn clean_since_look(&self) -> bool {
        self.rules.gates.is_empty() && self.rules.setup.is_empty() && !self.change.has_pr()
    }

    /// No shim could be started: nothing ran, so nothing has to be kept.
    async fn never_started(&self, place: &Place, run: &Run, stop: Interrupt) -> Result<Interrupt> {
        self.git
            .put_back_config(place, &swap_record(Path::new(&run.dir)), None)
            .await?;
        let id = run.run_id.clone();
        let end = RunEnd {
            ended: Some(Ended::NotStarted),
            note: stop.reason(),
            ..RunEnd::default()
        };
        self.write("end_run", move |conn| {
            bb::end_run(conn, &id, &end, clock::now())?;
            bb::discard_run(conn, &id)
        })
        .await?;
        Ok(stop)
    }

    async fn mark_of_checkout(&self) -> Result<Option<CheckoutFingerprint>> {
        if self.change.worktree == self.project.path {
            return Ok(None);
        }
        Ok(Some(self.git.checkout_mark(&self.project_of_git()).await?))
    }
}

/// Confines a job as far as this machine supports it: everything that runs for a project is confined.
pub(crate) async fn confine(
    settings: &Settings,
    job: process::Job,
    site: CommandSite<'_>,
    own: Option<&Path>,
) -> Result<process::Job> {
    let answers = agent::answers(&job.dir);
    let reach = WritablePaths {
        worktree: &site.place.path,
        repository: &site.place.common_dir,
        answers: Some(answers.as_path()).filter(|answers| answers.is_dir()),
        own,
        read: site.read,
    };
    let confined = settings.sandbox.confine(job, reach).await;
    confined.map_err(|why| Interrupt::hold(format!("refusing to run without a sandbox: {why}")))
}

/// File with the fingerprint of the main checkout from before the run.
pub(crate) fn mark_file(dir: &Path) -> PathBuf {
    dir.join("checkout.json")
}

pub(crate) fn swap_record(dir: &Path) -> PathBuf {
    dir.join("swap.json")
}

pub(crate) fn make_folder(dir: &Path) -> Result<()> {
    files::make_private_dir(dir).map_err(file_trouble("make", dir))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    files::replace(path, bytes).map_err(file_trouble("write", path))
}
