//! Checks the agents: program, version, login. Nothing is called that costs money.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::{CALL, Check, Surroundings};
use crate::agent::{Agent, Login};
use crate::daemon;
use crate::process::{self, Short};
use crate::sanitize;

pub(super) async fn agent(around: Arc<Surroundings>, name: String) -> Vec<Check> {
    let check = format!("agent {name}");
    let Some(agent) = daemon::agent(&around.loaded, &name) else {
        return Vec::new();
    };
    let program = agent.command.first().cloned().unwrap_or_default();
    let fail = |says: String, r#do: String| {
        let check = Check::fail(&check, says, r#do);
        around.judged(&name, check)
    };
    let Some(found) = found(&agent, &program) else {
        let says = format!("the program `{program}` was not found");
        let r#do =
            format!("install it, add it to PATH, or set its path as `command` in [agents.{name}]");
        return vec![fail(says, r#do)];
    };
    let version = match agent.version_words() {
        Some(words) => version(&agent, &words).await,
        None => Ok(None),
    };
    let path = found.display().to_string();
    let says = match version {
        Ok(Some(version)) => format!("{version} ({path})"),
        Ok(None) => path,
        Err(what) => {
            let says = format!("{path} does not print its version: {what}");
            let r#do = format!("run `{program} --version` yourself");
            return vec![fail(says, r#do)];
        }
    };
    vec![match agent.login() {
        Login::Found(how) => Check::ok(&check, format!("{says}, logged in by {how}")),
        Login::NotLookedAt(why) => Check::ok(&check, format!("{says}; {why}")),
        Login::Missing { r#do } => fail(format!("{says}, not logged in"), r#do.into()),
    }]
}

/// Returns the path of the program that would be started.
fn found(agent: &Agent, program: &str) -> Option<PathBuf> {
    let path = agent.env.get("PATH").map(OsString::from);
    let found = process::find(program.as_ref(), path.as_deref(), Path::new("/"))?;
    (found.is_file() && access(&found, Access::EXEC_OK).is_ok()).then_some(found)
}

/// Returns the first line of its version output.
async fn version(agent: &Agent, words: &[String]) -> Result<Option<String>, String> {
    let env = agent.env.iter();
    let short = Short {
        program: words.first().cloned().unwrap_or_default().into(),
        args: words.iter().skip(1).map(OsString::from).collect(),
        cwd: "/".into(),
        env: env
            .map(|(name, value)| (name.into(), value.into()))
            .collect(),
        stdin: None,
        limit: CALL,
        cap: 4096,
        is_wrapped: false,
    };
    let output = process::short(&short).await;
    let output = output.map_err(|error| error.to_string())?;
    let line = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        sanitize::line(text.lines().next().unwrap_or_default().trim())
    };
    match output.status {
        Some(0) => Ok(Some(line(&output.stdout)).filter(|line| !line.is_empty())),
        Some(status) => {
            let error = line(&output.stderr);
            Err(format!("it exited with status {status}: {error}"))
        }
        None => Err("it was killed by a signal".to_owned()),
    }
}

impl Surroundings {
    /// Adjusts the severity: an agent that nothing uses may be missing.
    fn judged(&self, name: &str, check: Check) -> Check {
        let of = |project: &str| {
            let set = self.loaded.project(project);
            let mut used = [set.agent, set.review_agent].into_iter().flatten();
            used.any(|used| used == name)
        };
        let mut projects = self.projects.iter();
        if of("") || projects.any(|project| of(project.project_id.as_str())) {
            return check;
        }
        let state = super::State::Warn;
        Check { state, ..check }
    }
}
