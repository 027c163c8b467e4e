//! Checks of the environment for `remand doctor`: settings, blackboard, programs, logins, projects,
//! disk.
//!
//! It reports what is missing and what to do about it, and changes nothing: no blackboard is
//! created, no clone made, nothing is fixed.
//!
//! All checks run concurrently and each has a limit, so that a network that hangs costs a few
//! seconds once.

mod agents;
mod blackboard;
mod forge;
mod machine;
mod projects;
mod settings;

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::task::JoinSet;

use crate::blackboard::Project;
use crate::clock::Time;
use crate::closed_enum::closed_enum;
use crate::config::{ConfigError, ConfigLocation, Loaded};

/// Time limit of one call of another program: most that hang end here.
const CALL: Duration = Duration::from_secs(5);
/// Time limit of one check, however many calls it makes on a slow machine.
const LIMIT: Duration = Duration::from_secs(12);

closed_enum! {
    /// Result of one check.
    "state of a check" State {
        Ok = "ok",
        Warn = "warn",
        Fail = "fail",
    }
}

/// Result of one check, with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) check: String,
    pub(crate) state: State,
    pub(crate) says: String,
    /// Set only if there is something to do.
    pub(crate) r#do: Option<String>,
}

/// Permission to use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Ask,
    LeaveAlone,
}

/// Input of the checks.
pub(crate) struct Surroundings {
    loaded: Loaded,
    network: Network,
    now: Time,
    projects: Vec<Project>,
}

/// Results of all checks.
pub(crate) struct Seen {
    pub(crate) checks: Vec<Check>,
    /// Set if the settings could not be read: the rest was checked with the defaults.
    pub(crate) bad_settings: Option<ConfigError>,
}

/// Runs all checks. `waits_for` gets the names of the unfinished ones, whenever they change.
pub(crate) async fn look(
    place: &ConfigLocation,
    network: Network,
    now: Time,
    waits_for: impl FnMut(&[&str]),
) -> Result<Seen, ConfigError> {
    let (loaded, bad_settings) = settings::load(place)?;
    let onlook = blackboard::onlook(&loaded, now).await;
    let around = Surroundings {
        loaded,
        network,
        now,
        projects: onlook.projects.clone(),
    };
    let mut checks = settings::checks(&around, bad_settings.as_ref());
    checks.extend(onlook.checks);
    let around = Arc::new(around);
    let mut looks = Checks::default();
    looks.add("blackboard", blackboard::integrity(Arc::clone(&around)));
    let daemon = blackboard::daemon(&around, onlook.last_beat);
    looks.add("daemon", std::future::ready(vec![daemon]));
    looks.add("git", machine::git(Arc::clone(&around)));
    looks.add("gh", forge::gh(Arc::clone(&around)));
    looks.add("sandbox", machine::sandbox(Arc::clone(&around)));
    looks.add("disk", machine::disk(Arc::clone(&around)));
    for name in around.loaded.config.agents.keys() {
        let look = agents::agent(Arc::clone(&around), name.clone());
        looks.add(&format!("agent {name}"), look);
    }
    for project in &around.projects {
        let look = projects::project(Arc::clone(&around), project.clone());
        looks.add(&format!("project {}", project.project_id), look);
    }
    checks.extend(looks.take(LIMIT, waits_for).await);
    let usable = Some(&around.loaded).filter(|_| bad_settings.is_none());
    let (path, configuration) = (&around.loaded.blackboard, onlook.configuration.as_ref());
    let in_force = blackboard::in_force(usable, path, configuration);
    add_after_daemon(&mut checks, in_force);
    // Unreadable settings provide no information about it.
    if bad_settings.is_none() {
        checks.extend(blackboard::shadow(&around.loaded, &onlook.shadows));
    }
    checks.extend(onlook.standing);
    Ok(Seen {
        checks,
        bad_settings,
    })
}

/// Inserts checks after those of the daemon, which they are about.
pub(crate) fn add_after_daemon(checks: &mut Vec<Check>, more: impl IntoIterator<Item = Check>) {
    let is_daemon = |check: &Check| check.check == "daemon";
    let after = checks
        .iter()
        .rposition(is_daemon)
        .map_or(checks.len(), |at| at + 1);
    checks.splice(after..after, more);
}

impl Check {
    pub(crate) fn ok(check: &str, says: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            state: State::Ok,
            says: says.into(),
            r#do: None,
        }
    }

    pub(crate) fn warn(check: &str, says: impl Into<String>, r#do: impl Into<String>) -> Self {
        Self {
            state: State::Warn,
            r#do: Some(r#do.into()),
            ..Self::ok(check, says)
        }
    }

    fn fail(check: &str, says: impl Into<String>, r#do: impl Into<String>) -> Self {
        Self {
            state: State::Fail,
            ..Self::warn(check, says, r#do)
        }
    }
}

impl Surroundings {
    fn asks_network(&self) -> bool {
        self.network == Network::Ask
    }
}

type Look = Pin<Box<dyn Future<Output = Vec<Check>> + Send>>;

/// Checks that run concurrently.
#[derive(Default)]
struct Checks {
    all: Vec<(String, Look)>,
}

impl Checks {
    fn add(&mut self, name: &str, look: impl Future<Output = Vec<Check>> + Send + 'static) {
        self.all.push((name.to_owned(), Box::pin(look)));
    }

    /// Returns their results, in the order in which they were added.
    async fn take(self, limit: Duration, mut waits_for: impl FnMut(&[&str])) -> Vec<Check> {
        let mut waiting = BTreeMap::new();
        let mut seen = BTreeMap::new();
        let mut set = JoinSet::new();
        for (at, (name, look)) in self.all.into_iter().enumerate() {
            set.spawn(async move { (at, tokio::time::timeout(limit, look).await) });
            waiting.insert(at, name);
        }
        loop {
            waits_for(&waiting.values().map(String::as_str).collect::<Vec<_>>());
            let Some(done) = set.join_next().await else {
                break;
            };
            // One that panicked stays among the unfinished ones.
            let Ok((at, checks)) = done else { continue };
            let name = waiting.remove(&at).unwrap_or_default();
            let late = |_| {
                let says = format!("no answer within {limit:?}");
                vec![Check::fail(
                    &name,
                    says,
                    "find out what is hanging, then try again",
                )]
            };
            seen.insert(at, checks.unwrap_or_else(late));
        }
        for (at, name) in waiting {
            let r#do = "this is a bug in remand: please report it";
            let failed = Check::fail(&name, "the check itself failed", r#do);
            seen.insert(at, vec![failed]);
        }
        seen.into_values().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_hangs_is_told_and_keeps_nobody_else() {
        let mut looks = Checks::default();
        looks.add("hangs", std::future::pending());
        looks.add("panics", async { panic!("a bug") });
        looks.add("answers", async { vec![Check::ok("answers", "yes")] });
        let mut waits = Vec::new();
        let seen = looks
            .take(Duration::from_millis(20), |waiting| {
                waits.push(waiting.len());
            })
            .await;
        let lines: Vec<String> = seen
            .iter()
            .map(|check| format!("{} {}: {}", check.state, check.check, check.says))
            .collect();
        assert_eq!(
            lines,
            [
                "fail hangs: no answer within 20ms",
                "fail panics: the check itself failed",
                "ok answers: yes"
            ]
        );
        assert_eq!(waits.first(), Some(&3));
    }
}
