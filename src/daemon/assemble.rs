//! Builds the loops from the configuration: everything is loaded and checked before anything runs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::{Daemon, Lasting, program};
use crate::agent::{Agent, Claude, Protocol};
use crate::agent_kind::AgentKind;
use crate::blackboard::{Db, Latest};
use crate::change::{FixBound, ProjectId};
use crate::clock;
use crate::config::settings;
use crate::config::{self, Loaded};
use crate::dispatch::{
    Configuration, DayBound, Dispatch, ForgeSettings, Limits, Settings, Upkeep, forge_mark,
};
use crate::evaluator::definition::{self, Need};
use crate::evaluator::{Config, Definition};
use crate::git::Git;
use crate::github::Github;
use crate::heartbeat::command::Kit;
use crate::intake::{self, Intake};
use crate::process::{self, ProcessId};
use crate::prompt::Prompts;
use crate::remote::{NetworkAccess, Remote};
use crate::sandbox::Sandbox;

/// Values that depend on how this process was started, not on the settings.
pub(super) struct Host {
    /// Program that shims are started from.
    pub(super) program: PathBuf,
    /// Advice for a project that cannot be written.
    pub(super) write_remedy: String,
}

/// Advice if no service restricts what can be written.
pub(super) const WRITE_REMEDY: &str = "make it writable by the user that remand runs as";

impl Host {
    /// Returns the values for this program, started by a person.
    fn of_this_process() -> anyhow::Result<Self> {
        Ok(Self {
            program: program::running()?,
            write_remedy: WRITE_REMEDY.to_owned(),
        })
    }
}

impl Daemon {
    pub(crate) fn assemble(loaded: &Loaded) -> anyhow::Result<Self> {
        Self::assemble_with(loaded, Host::of_this_process()?)
    }

    pub(super) fn assemble_with(loaded: &Loaded, host: Host) -> anyhow::Result<Self> {
        let parts = Parts::load(loaded, ProcessId::own()?.to_string(), host)?;
        let lasting = Lasting {
            db: Db::open(&loaded.blackboard, clock::now())?,
            wake_intake: Arc::new(Notify::new()),
            wake_heartbeat: Arc::new(Notify::new()),
            wake_dispatch: Arc::new(Notify::new()),
            wake_commands: Arc::new(Notify::new()),
            wake_upkeep: Arc::new(Notify::new()),
            wake_configuration: Arc::new(Notify::new()),
            latest: Arc::new(watch::channel(Arc::clone(&parts.settings)).0),
            beats: Arc::new(watch::channel(0).0),
        };
        Ok(parts.put_together(loaded, lasting))
    }

    /// Builds a daemon like this one with other settings. Either all of them are loaded and
    /// checked, or it fails.
    pub(super) fn again(&self, loaded: &Loaded) -> anyhow::Result<Self> {
        let now = &self.dispatch.settings;
        let host = Host {
            program: now.program.clone(),
            write_remedy: now.write_remedy.clone(),
        };
        let parts = Parts::load(loaded, self.dispatch.holder.clone(), host)?;
        Ok(parts.put_together(loaded, self.lasting.clone()))
    }
}

/// Parts that are loaded before a blackboard is opened.
struct Parts {
    definitions: Vec<Definition>,
    settings: Arc<Settings>,
    holder: String,
}

impl Parts {
    fn load(loaded: &Loaded, holder: String, host: Host) -> anyhow::Result<Self> {
        let definitions = definition::load(loaded.evaluators.as_deref(), clock::now())?;
        Ok(Self {
            definitions,
            settings: Arc::new(settings(loaded, &holder, host)?),
            holder,
        })
    }

    fn put_together(self, loaded: &Loaded, lasting: Lasting) -> Daemon {
        let (db, wake) = (&lasting.db, &lasting.wake_heartbeat);
        let intake = assemble_intake(loaded, &self.definitions, db, wake);
        let kit = kit(loaded, self.holder.clone(), self.settings.program.clone());
        let dispatch = Dispatch {
            db: lasting.db.clone(),
            settings: self.settings,
            latest: lasting.latest.subscribe(),
            holder: self.holder,
            after: Arc::clone(&lasting.wake_heartbeat),
        };
        let known = loaded.clone();
        Daemon {
            shadow: Box::new(move |project| known.project(project.as_str()).shadow),
            most_fixes: Box::new(most_fixes(loaded, &self.definitions)),
            definitions: self.definitions.into(),
            kit: Arc::new(kit),
            intake: Arc::new(intake),
            dispatch: Arc::new(dispatch),
            lasting,
            git: git(loaded),
            look_every: Duration::from_secs(loaded.config.heartbeat.look_s),
        }
    }
}

/// Returns the parameters for running command evaluators.
pub(crate) fn kit(loaded: &Loaded, holder: String, program: PathBuf) -> Kit {
    let dispatch = &loaded.config.dispatch;
    Kit {
        program,
        env: config::agent_environment(&[]),
        dir: loaded.state_folder().join("evaluators"),
        holder,
        grace: Duration::from_secs(loaded.config.limits.grace_s),
        backoff_first: Duration::from_secs(dispatch.backoff_first_s),
        backoff_max: Duration::from_secs(dispatch.backoff_max_s),
    }
}

/// Returns only the settings of dispatch, for `remand init`.
pub(crate) fn dispatch_settings(loaded: &Loaded) -> anyhow::Result<Settings> {
    let holder = ProcessId::own()?.to_string();
    settings(loaded, &holder, Host::of_this_process()?)
}

/// Builds only intake, for `remand watch`.
pub(crate) fn intake(loaded: &Loaded) -> anyhow::Result<Intake> {
    let now = clock::now();
    let definitions = definition::load(loaded.evaluators.as_deref(), now)?;
    let db = Db::open(&loaded.blackboard, now)?;
    let after = Arc::new(Notify::new());
    Ok(assemble_intake(loaded, &definitions, &db, &after))
}

/// Builds only the upkeep, for `remand worktrees`.
pub(crate) fn upkeep(loaded: &Loaded) -> anyhow::Result<Upkeep> {
    Ok(Upkeep {
        db: Db::open(&loaded.blackboard, clock::now())?,
        settings: Arc::new(dispatch_settings(loaded)?),
    })
}

/// Returns the latest moments that can have been stored by now under these settings.
pub(crate) fn latest(loaded: &Loaded, now: clock::Time) -> anyhow::Result<Latest> {
    let definitions = definition::load(loaded.evaluators.as_deref(), now)?;
    Ok(intake_settings(loaded, &definitions).latest(now))
}

/// Returns a function for the maximum number of fixes per round in a project.
fn most_fixes(
    loaded: &Loaded,
    definitions: &[Definition],
) -> impl Fn(&ProjectId) -> FixBound + use<> {
    let evaluator =
        definition::max_fix_cycles(definitions).map(|(most, name)| (most, name.to_owned()));
    let known = loaded.clone();
    move |project| {
        let evaluator = evaluator.as_ref();
        let evaluator = evaluator.map(|(most, name)| (*most, name.as_str()));
        known.max_fix_cycles(project.as_str(), evaluator)
    }
}

fn intake_settings(loaded: &Loaded, definitions: &[Definition]) -> intake::Settings {
    let (github, dispatch) = (loaded.github(), &loaded.config.dispatch);
    let needs_it = |one: &&Definition| one.needs.contains(&Need::PrFeedback);
    let reader = definitions
        .iter()
        .find(|one| one.config == Config::PrFeedback);
    let reader = reader.or_else(|| definitions.iter().find(needs_it));
    let most_fixes = most_fixes(loaded, definitions);
    let known = loaded.clone();
    intake::Settings {
        reserve: i64::try_from(github.reserve).unwrap_or(i64::MAX),
        permission_holds: github.permission,
        fetch_limit: github.fetch_limit,
        bots: github.bots.clone(),
        every: reader.and_then(|definition| definition.schedule.clone()),
        backoff_first: Duration::from_secs(dispatch.backoff_first_s),
        backoff_max: Duration::from_secs(dispatch.backoff_max_s),
        rules: Box::new(move |project| {
            let mut own = known.project(project.as_str());
            own.bounds.max_fix_cycles = most_fixes(project).most;
            own
        }),
        host: host(),
        log_dir: loaded.state_folder(),
        log_env: config::agent_environment(&[]),
        secrets: config::forge_secrets(),
    }
}

fn assemble_intake(
    loaded: &Loaded,
    definitions: &[Definition],
    db: &Db,
    after: &Arc<Notify>,
) -> Intake {
    let github = loaded.github();
    let state = loaded.state_folder();
    Intake {
        db: db.clone(),
        github: Github::new(github.gh, config::forge_environment(), github.call, state),
        git: git(loaded),
        repository: repository_of(loaded, &Arc::new(sandbox(loaded))),
        settings: intake_settings(loaded, definitions),
        looks: intake::Looks::default(),
        after: Arc::clone(after),
    }
}

fn settings(loaded: &Loaded, holder: &str, host: Host) -> anyhow::Result<Settings> {
    let prompts = Prompts::load(loaded.prompts.as_deref())?;
    let seconds = Duration::from_secs;
    let (dispatch, limits) = (&loaded.config.dispatch, &loaded.config.limits);
    let state = loaded.state_folder();
    let (known, configured) = (loaded.clone(), loaded.clone());
    let sandbox = Arc::new(sandbox(loaded));
    Ok(Settings {
        slots: dispatch.slots,
        lease: seconds(dispatch.lease_s),
        max_lost_runs: dispatch.max_lost_runs,
        backoff_first: seconds(dispatch.backoff_first_s),
        backoff_max: seconds(dispatch.backoff_max_s),
        stop_grace: seconds(dispatch.stop_grace_s),
        limits: Limits {
            implement: seconds(limits.implement_s),
            review: seconds(limits.review_s),
            fix: seconds(limits.fix_s),
            idle: seconds(limits.idle_s),
            gate: seconds(limits.gate_s),
            setup: seconds(limits.setup_s),
            git: seconds(limits.git_s),
            grace: seconds(limits.grace_s),
            feedback: limits.feedback_kb.saturating_mul(1000),
        },
        day: DayBound {
            most_micros: loaded.max_day_micros(),
            zone: loaded.timezone(),
        },
        program: host.program,
        write_remedy: host.write_remedy,
        runs_dir: state.join("runs"),
        shadow_dir: state.join("shadow"),
        reviews_dir: state.join("reviews"),
        gates_dir: state.join("gates"),
        locks_dir: state.join("locks"),
        env: config::agent_environment(&[]),
        forge: forge(loaded, &state, holder, &sandbox),
        sandbox,
        prompts,
        configuration: configuration(loaded),
        rules: Box::new(move |project| known.project(project.as_str())),
        agent: Box::new(move |name| agent(&configured, name)),
    })
}

fn configuration(loaded: &Loaded) -> Configuration {
    let (watched, known) = (loaded.watched.clone(), loaded.sources.clone());
    Configuration {
        file: loaded.file_text(),
        fingerprint: loaded.sources.fingerprint(),
        changed: Arc::new(move || watched.read().changed_since(&known)),
    }
}

/// Returns the name of this machine.
pub(crate) fn host() -> String {
    let names = rustix::system::uname();
    names.nodename().to_string_lossy().into_owned()
}

/// Returns the sandbox that confines agents, as configured.
pub(crate) fn sandbox(loaded: &Loaded) -> Sandbox {
    Sandbox::new(loaded.sandbox(), config::agent_environment(&[]))
}

/// Returns git for worktrees and for the user's repositories, confined as agents are.
pub(crate) fn git(loaded: &Loaded) -> Git {
    let limit = Duration::from_secs(loaded.config.limits.git_s);
    let sandbox = Arc::new(sandbox(loaded));
    Git::new(&config::agent_environment(&[]), limit, &sandbox)
}

/// Returns a function for remand's own repository of each project, with the user's credentials for
/// its remote.
fn repository_of(loaded: &Loaded, sandbox: &Arc<Sandbox>) -> intake::RepositoryOf {
    let repos = loaded.state_folder().join("repos");
    let (mut env, gh) = (config::forge_environment(), loaded.github().gh);
    // Identifies processes that git and ssh leave running for their next call.
    env.insert(
        process::MARK.to_owned(),
        format!("remote:{}", loaded.blackboard.display()),
    );
    let limit = Duration::from_secs(loaded.config.limits.git_s);
    let sandbox = Arc::clone(sandbox);
    Box::new(move |project| {
        Remote::new(NetworkAccess {
            git_dir: repos.join(format!("{}.git", project.project_id)),
            // Nothing is fetched from or pushed to an empty URL.
            url: project.remote_url.clone().unwrap_or_default(),
            env: env.clone(),
            closed: config::agent_environment(&[]),
            sandbox: Arc::clone(&sandbox),
            limit,
            gh: gh.clone(),
        })
    })
}

/// Returns the settings of the forge, which is only asked if a change has a pull request.
fn forge(loaded: &Loaded, state: &Path, holder: &str, sandbox: &Arc<Sandbox>) -> ForgeSettings {
    let github = loaded.github();
    let mut env = config::forge_environment();
    env.insert(process::MARK.to_owned(), forge_mark(holder));
    let known = loaded.clone();
    ForgeSettings {
        github: Github::new(github.gh, env, github.call, state.to_owned()),
        repository: repository_of(loaded, sandbox),
        passes_over: Box::new(move |project, pull| {
            known.project(project.as_str()).discover?.passes_over(pull)
        }),
        reviews: github.reviews,
        secrets: config::forge_secrets(),
    }
}

/// Returns the path of a program that agents, gates and set-ups find by its name.
pub(crate) fn program_for_agents(name: &str) -> Option<PathBuf> {
    let env = config::agent_environment(&[]);
    let path = env.get("PATH").map(OsString::from);
    process::find(name.as_ref(), path.as_deref(), Path::new("/"))
}

/// Returns an agent with everything needed to start it.
pub(crate) fn agent(loaded: &Loaded, name: &str) -> Option<Agent> {
    let agent = loaded.agent(name)?;
    let manner = match agent.kind {
        AgentKind::Command => Protocol::Command,
        AgentKind::Claude => Protocol::Claude(claude(agent, loaded.config.limits.idle_s)),
    };

    Some(Agent {
        name: name.to_owned(),
        command: agent.command(),
        model: Some(agent.model.clone()).filter(|model| !model.is_empty()),
        env: config::agent_environment(&agent.variables()),
        manner,
    })
}

/// Default number of times that claude retries a request by itself.
const RETRIES: u32 = 3;
/// Default time that claude waits for an answer of its API. Shorter if the idle limit would not
/// leave it time to report that none came.
const API_TIMEOUT_S: u64 = 300;

fn claude(agent: &settings::Agent, idle_s: u64) -> Claude {
    let timeout = agent
        .api_timeout_s
        .unwrap_or_else(|| API_TIMEOUT_S.min(idle_s.div_ceil(2)));
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an amount from the settings, which limit it"
    )]
    let micros = |dollars: f64| (dollars * 1e6).round() as i64;
    Claude {
        max_turns: agent.max_turns,
        max_cost_micros: agent
            .max_cost_usd
            .filter(|dollars| *dollars > 0.0)
            .map(micros),
        max_retries: agent.max_retries.unwrap_or(RETRIES),
        api_timeout: Duration::from_secs(timeout),
        allow: agent.allow.clone().unwrap_or_default(),
    }
}
