//! From the configuration to the loops: everything is loaded and checked before anything runs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use tokio::sync::Notify;

use super::Daemon;
use crate::agent::Agent;
use crate::blackboard::Door;
use crate::change::ProjectId;
use crate::clock;
use crate::config::settings::MainCheckout;
use crate::config::{self, Loaded};
use crate::dispatch::{Dispatch, Limits, OnCheckoutChange, Rules, Settings};
use crate::evaluator::definition;
use crate::git::Git;
use crate::process::ProcessId;
use crate::prompt::Prompts;

impl Daemon {
    pub(crate) fn assemble(loaded: &Loaded) -> anyhow::Result<Self> {
        let now = clock::now();
        let definitions = definition::load(loaded.evaluators.as_deref(), now)?;
        let settings = settings(loaded)?;
        let door = Door::open(&loaded.blackboard, now)?;
        let (wake_heartbeat, wake_dispatch) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let dispatch = Dispatch {
            door: door.clone(),
            settings: Arc::new(settings),
            holder: ProcessId::own()?.to_string(),
            after: Arc::clone(&wake_heartbeat),
        };
        Ok(Self {
            door,
            definitions: definitions.into(),
            dispatch: Arc::new(dispatch),
            wake_heartbeat,
            wake_dispatch,
            git: Git::new(&config::agent_environment(&[]), Duration::from_secs(loaded.config.limits.git_s)),
            look_every: Duration::from_secs(loaded.config.heartbeat.look_s),
        })
    }
}

fn settings(loaded: &Loaded) -> anyhow::Result<Settings> {
    let prompts = Prompts::load(loaded.prompts.as_deref())?;
    let seconds = Duration::from_secs;
    let (dispatch, limits) = (&loaded.config.dispatch, &loaded.config.limits);
    let state = loaded.blackboard.parent().map(PathBuf::from).unwrap_or_default();
    let program = std::env::current_exe().context("the path of this program is not known")?;
    let known = loaded.clone();
    Ok(Settings {
        slots: dispatch.slots,
        lease: seconds(dispatch.lease_s),
        max_lost_runs: dispatch.max_lost_runs,
        backoff_first: seconds(dispatch.backoff_first_s),
        backoff_max: seconds(dispatch.backoff_max_s),
        stop_grace: seconds(dispatch.stop_grace_s),
        limits: Limits {
            review: seconds(limits.review_s),
            fix: seconds(limits.fix_s),
            idle: seconds(limits.idle_s),
            gate: seconds(limits.gate_s),
            git: seconds(limits.git_s),
            grace: seconds(limits.grace_s),
        },
        program,
        runs_dir: state.join("runs"),
        locks_dir: state.join("locks"),
        env: config::agent_environment(&[]),
        prompts,
        rules: Box::new(move |project| rules(&known, project)),
    })
}

fn rules(loaded: &Loaded, project: &ProjectId) -> Rules {
    let own = loaded.project(project.as_str());
    let agent = |name: &Option<String>| name.as_deref().and_then(|name| agent(loaded, name));
    Rules {
        agent: agent(&own.agent),
        review_agent: agent(&own.review_agent),
        gates: own.gates.iter().map(|gate| gate.words().to_vec()).collect(),
        worktree_roots: own.worktree_roots,
        severity_threshold: own.severity_threshold,
        max_gate_rounds: own.max_gate_rounds,
        on_main_checkout_change: match own.main_checkout {
            MainCheckout::Report => OnCheckoutChange::Report,
            MainCheckout::Escalate => OnCheckoutChange::Escalate,
        },
    }
}

fn agent(loaded: &Loaded, name: &str) -> Option<Agent> {
    let agent = loaded.agent(name)?;
    Some(Agent {
        name: name.to_owned(),
        command: agent.command.words().to_vec(),
        model: Some(agent.model.clone()).filter(|model| !model.is_empty()),
        env: config::agent_environment(&agent.env),
    })
}
