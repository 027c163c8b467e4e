//! Worktrees of remand's own: made when they are not there, and set up before anything runs in them. A user's own worktree
//! is never made and never set up.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use serde_json::json;

use super::launch::{Site, make_folder, write};
use super::recover::SETTLE;
use super::stop::Stop;
use super::task::Task;
use crate::blackboard as bb;
use crate::clock;
use crate::crash::crash_point;
use crate::event::{EventType, NewEvent};
use crate::git::{Made, Place, PutBack, Worktree};
use crate::process::{self, Exit, Job, Stream};
use crate::words::words;
use crate::work::Ended;

/// In the place of what a set-up was done for, from when it begins.
const BEGUN: &str = "begun";

/// In the same place, from when the worktree is made until that is recorded.
const MAKING: &str = "making";

/// How much of a failed set-up's output a hold tells.
const OUTPUT_TAIL: usize = 1_500;

words! {
    /// Where a set-up runs.
    "place" SetUpPlace {
        Worktree = "worktree",
        Checkout = "checkout",
    }
}

words! {
    /// How a set-up ended.
    "result" SetUpResult {
        Done = "done",
        Failed = "failed",
        TimedOut = "timed_out",
        NotStarted = "not_started",
    }
}

/// A set-up that is about to run.
pub(super) struct SetUp<'a> {
    pub(super) place: SetUpPlace,
    pub(super) site: Site<'a>,
    pub(super) dir: PathBuf,
    pub(super) run_id: String,
}

impl Task {
    /// The worktree as the next run has to find it: there, as the remote has it, set up.
    pub(super) async fn ready_worktree(&self) -> Result<Worktree, Stop> {
        self.look_at_pull().await?;
        self.writable()?;
        self.make_own_worktree().await?;
        if self.change.has_pr()
            && let Ok(place) = self.place()
        {
            self.git.end_cut_move(&place, &self.change.branch).await?;
            self.end_cut_setup(&place).await?;
        }
        let worktree = self.sync(self.look().await?).await?;
        self.set_up(&worktree.place).await?;
        Ok(worktree)
    }

    /// Makes the worktree if it is one of ours and is not there, or not whole.
    async fn make_own_worktree(&self) -> Result<(), Stop> {
        if !self.change.own_worktree {
            return Ok(());
        }
        self.go_on()?;
        let project = self.project_of_git();
        let head = match self.git.made_so_far(&project, self.worktree()).await? {
            Made::Whole => return self.worktree_is_made().await,
            Made::Empty { head } => head,
            Made::Not => {
                let remote = self.remote().await?;
                let head = self.remote_head(&remote).await?;
                self.git.bring_in(&project.repository(), remote.path(), &head).await?;
                head
            }
        };
        if let Some(folder) = self.worktree().parent() {
            make_folder(folder)?;
        }
        let id = self.change.change_id.clone();
        // Whatever was set up before went with the folder.
        self.write("worktree_making", move |conn| bb::set_up_for(conn, &id, MAKING)).await?;
        crash_point!("git.worktree.before");
        self.git.add_worktree(&project, self.worktree(), &self.change.branch, &head).await?;
        crash_point!("git.worktree.after");
        self.worktree_is_made().await
    }

    /// Appends the event for a worktree whose making was begun, by us or by a process that died since.
    async fn worktree_is_made(&self) -> Result<(), Stop> {
        if self.change_now().await?.setup_done.as_deref() != Some(MAKING) {
            return Ok(());
        }
        let (id, path, branch) = (self.change.change_id.clone(), self.change.worktree.clone(), &self.change.branch);
        let head = self.git.look(&self.place()?).await?.head;
        let (is_there, branch) = (self.change.change_id.clone(), branch.clone());
        self.write("worktree_made", move |conn| {
            let is_restored = bb::has_event(conn, &is_there, EventType::WorktreeMade)?;
            let verb = if is_restored { "restored" } else { "made" };
            let event = NewEvent::about(&id, EventType::WorktreeMade, format!("{verb} the worktree {path}"))
                .with(json!({ "path": path, "branch": branch, "head": head, "restored": is_restored }));
            bb::append(conn, &event, clock::now())?;
            bb::set_up_for(conn, &id, "")
        })
        .await?;
        Ok(())
    }

    /// Runs the project's set-up in a worktree of ours, if it has not been run for these lock files.
    pub(super) async fn set_up(&self, place: &Place) -> Result<(), Stop> {
        if !self.change.own_worktree || self.rules.setup.is_empty() {
            return Ok(());
        }
        let wanted = self.setup_key(place).await?;
        if self.change_now().await?.setup_done.as_deref() == Some(&wanted) {
            return Ok(());
        }
        self.go_on()?;
        self.end_cut_setup(place).await?;
        let name = self.setup_name();
        let dir = self.setup_folder(&name).await?;
        let id = self.change.change_id.clone();
        self.write("setup_begun", move |conn| bb::set_up_for(conn, &id, BEGUN)).await?;
        let run_id = format!("{}.setup", self.change.change_id);
        self.run_set_up(SetUp { place: SetUpPlace::Worktree, site: Site::of(place), dir, run_id }).await?;
        let status = self.git.status(place).await?;
        if !status.changed.is_empty() || !status.untracked.is_empty() {
            let paths: Vec<String> = status.changed.into_iter().chain(status.untracked).collect();
            return Err(Stop::hold(format!(
                "the set-up left files behind that are neither committed nor ignored: {}",
                super::look::named(&paths)
            )));
        }
        let id = self.change.change_id.clone();
        self.write("set_up", move |conn| bb::set_up_for(conn, &id, &wanted)).await?;
        Ok(())
    }

    /// Runs the project's set-up command to its end, and appends what came of it.
    pub(super) async fn run_set_up(&self, set_up: SetUp<'_>) -> Result<(), Stop> {
        let SetUp { place, site, dir, run_id } = set_up;
        make_folder(&dir)?;
        let stdin = dir.join("no-input");
        write(&stdin, b"")?;
        let limits = self.dispatch.settings.limits;
        let mut env = self.dispatch.settings.env.clone();
        env.insert("REMAND_PHASE".into(), "setup".into());
        let job = Job {
            run_id,
            argv: self.rules.setup.clone(),
            cwd: site.place.path.clone(),
            env,
            stdin,
            dir: dir.clone(),
            limits: process::Limits { idle: limits.setup, total: limits.setup, grace: limits.grace },
            is_wrapped: false,
        };
        let job = self.confine(job, site).await?;
        crash_point!("setup.before");
        let mut running = process::start(&self.dispatch.settings.program, &job).await?;
        self.wait(&mut running).await?;
        crash_point!("setup.after");
        if process::read_exit(&dir)?.is_none() {
            process::settle(&dir, SETTLE).await?;
        }
        self.record_set_up(place, &site.place.path, process::read_exit(&dir)?).await?;
        self.judge_setup(&dir)
    }

    /// A set-up that somebody stopped is not one that ran.
    async fn record_set_up(&self, place: SetUpPlace, path: &Path, exit: Option<Exit>) -> Result<(), Stop> {
        let result = match exit.as_ref().map(|exit| (exit.ended, exit.status)) {
            Some((Ended::Stopped, _)) => return Ok(()),
            Some((Ended::Agent, Some(0))) => SetUpResult::Done,
            Some((Ended::IdleLimit | Ended::TotalLimit, _)) => SetUpResult::TimedOut,
            Some((Ended::NotStarted, _)) => SetUpResult::NotStarted,
            Some((Ended::Agent | Ended::DaemonGone | Ended::Lost, _)) | None => SetUpResult::Failed,
        };
        let elapsed_ms = exit.as_ref().map_or(0, |exit| exit.elapsed_ms);
        let summary = format!("set-up of the {place} {}: {result} after {elapsed_ms} ms", path.display());
        let event = NewEvent::about(&self.change.change_id, EventType::SetupRun, summary).with(json!({
            "place": place, "path": path, "command": self.rules.setup, "result": result,
            "status": exit.and_then(|exit| exit.status), "elapsed_ms": elapsed_ms,
        }));
        self.write("setup_run", move |conn| bb::append(conn, &event, clock::now()).map(drop)).await?;
        Ok(())
    }

    fn setup_name(&self) -> String {
        format!("setup-{}", self.change.change_id)
    }

    /// Takes away what a set-up that failed or was cut left in a worktree of ours, and keeps it: it is nobody's work, and
    /// nothing else can run there before the set-up has.
    pub(super) async fn end_cut_setup(&self, place: &Place) -> Result<(), Stop> {
        if !self.change.own_worktree || self.change_now().await?.setup_done.as_deref() != Some(BEGUN) {
            return Ok(());
        }
        // What a killed daemon left of it must not write on.
        self.setup_folder(&self.setup_name()).await?;
        let now = self.git.look(place).await?;
        let branch = &self.change.branch;
        if let Some(head) = now.head.filter(|_| now.branch.as_ref() == Some(branch)) {
            let run = format!("setup-{}", self.change.change_id);
            self.git.put_back(place, PutBack { branch, head_before: &head, run: &run }).await?;
        }
        Ok(())
    }

    /// A folder of its own each time, not made yet; what a crash cut of the last one is ended first.
    pub(super) async fn setup_folder(&self, name: &str) -> Result<PathBuf, Stop> {
        let all = self.dispatch.settings.runs_dir.join(name);
        for number in 0_u32.. {
            let dir = all.join(number.to_string());
            if dir.exists() {
                process::settle(&dir, SETTLE).await?;
                continue;
            }
            return Ok(dir);
        }
        Err(Stop::hold("there is no number left for a set-up's folder"))
    }

    fn judge_setup(&self, dir: &Path) -> Result<(), Stop> {
        let command = self.rules.setup.join(" ");
        let Some(exit) = process::read_exit(dir)? else {
            return Err(Stop::hold(format!("the set-up `{command}` vanished without a word")));
        };
        let Exit { ended, status, .. } = exit;
        let said = || {
            let text = |stream| process::read_output(dir, stream).map(|kept| kept.text).unwrap_or_default();
            let all = format!("{}{}", text(Stream::Stdout), text(Stream::Stderr));
            let from = all.len().saturating_sub(OUTPUT_TAIL);
            let from = (from..=all.len()).find(|at| all.is_char_boundary(*at)).unwrap_or(all.len());
            all.get(from..).unwrap_or_default().trim().to_owned()
        };
        match (ended, status) {
            (Ended::Agent, Some(0)) => Ok(()),
            (Ended::Stopped, _) => Err(if self.fenced.is_cancelled() { Stop::Fenced } else { Stop::Stopping }),
            (Ended::NotStarted, _) => {
                let why = exit.detail.unwrap_or_else(|| "it is not there".into());
                Err(Stop::hold(format!("the set-up `{command}` can't be started: {why}")))
            }
            (Ended::IdleLimit | Ended::TotalLimit, _) => {
                let limit = self.dispatch.settings.limits.setup.as_secs();
                Err(Stop::hold(format!("the set-up `{command}` was ended after {limit} s: {}", said())))
            }
            (Ended::Agent | Ended::DaemonGone | Ended::Lost, _) => {
                let status = status.map(|status| format!(" (status {status})")).unwrap_or_default();
                Err(Stop::hold(format!("the set-up `{command}` failed{status}: {}", said())))
            }
        }
    }

    /// The command and the committed files that it depends on: what it leaves there itself, ignored, is none of them.
    async fn setup_key(&self, place: &Place) -> Result<String, Stop> {
        let files = self.git.listed_files(place, &self.rules.setup_again_on).await?;
        let mut hasher = DefaultHasher::new();
        (&self.rules.setup, files).hash(&mut hasher);
        Ok(format!("{:016x}", hasher.finish()))
    }
}
