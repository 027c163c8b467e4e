//! The look at the surroundings for `remand doctor`: settings, blackboard, programs, logins, projects, disk. It says what
//! is missing and what to do about it, and changes nothing: no blackboard is begun, no clone made, nothing is repaired.
//!
//! All looks are taken at the same time and each has a limit, so that a network that hangs costs a few seconds once.

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

/// For one question to another program: what hangs mostly ends here.
const CALL: Duration = Duration::from_secs(5);
/// For one look, however many questions it asks on a machine that is slow.
const LIMIT: Duration = Duration::from_secs(12);

closed_enum! {
    /// How it stands with one thing.
    "state of a check" State {
        Ok = "ok",
        Warn = "warn",
        Fail = "fail",
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    pub(crate) check: String,
    pub(crate) state: State,
    pub(crate) says: String,
    /// Only where something is to be done.
    pub(crate) r#do: Option<String>,
}

/// Whether the network is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    Ask,
    LeaveAlone,
}

/// What is looked at, and from where.
pub(crate) struct Surroundings {
    loaded: Loaded,
    network: Network,
    now: Time,
    projects: Vec<Project>,
}

/// All that was seen.
pub(crate) struct Seen {
    pub(crate) checks: Vec<Check>,
    /// The settings could not be read: the rest was looked at with the defaults.
    pub(crate) bad_settings: Option<ConfigError>,
}

/// Looks at everything. `waits_for` is told what has not answered yet, whenever that changes.
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
    looks.add(
        "daemon",
        std::future::ready(vec![blackboard::daemon(&around, onlook.last_beat)]),
    );
    looks.add("git", machine::git(Arc::clone(&around)));
    looks.add("gh", forge::gh(Arc::clone(&around)));
    looks.add("sandbox", machine::sandbox(Arc::clone(&around)));
    looks.add("disk", machine::disk(Arc::clone(&around)));
    for name in around.loaded.config.agents.keys() {
        looks.add(
            &format!("agent {name}"),
            agents::agent(Arc::clone(&around), name.clone()),
        );
    }
    for project in &around.projects {
        looks.add(
            &format!("project {}", project.project_id),
            projects::project(Arc::clone(&around), project.clone()),
        );
    }
    checks.extend(looks.take(LIMIT, waits_for).await);
    let usable = Some(&around.loaded).filter(|_| bad_settings.is_none());
    let in_force = blackboard::in_force(
        usable,
        &around.loaded.blackboard,
        onlook.configuration.as_ref(),
    );
    let after = checks
        .iter()
        .rposition(|check| check.check == "daemon")
        .map_or(checks.len(), |at| at + 1);
    checks.splice(after..after, in_force);
    // Settings that can't be read say nothing of it.
    if bad_settings.is_none() {
        checks.extend(blackboard::shadow(&around.loaded, &onlook.shadows));
    }
    checks.extend(onlook.standing);
    Ok(Seen {
        checks,
        bad_settings,
    })
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

/// Looks that are taken at the same time.
#[derive(Default)]
struct Checks {
    all: Vec<(String, Look)>,
}

impl Checks {
    fn add(&mut self, name: &str, look: impl Future<Output = Vec<Check>> + Send + 'static) {
        self.all.push((name.to_owned(), Box::pin(look)));
    }

    /// What they saw, in the order in which they were added.
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
            // One that panicked stays among those that are waited for.
            let Ok((at, checks)) = done else { continue };
            let name = waiting.remove(&at).unwrap_or_default();
            let late = |_| {
                vec![Check::fail(
                    &name,
                    format!("no answer within {limit:?}"),
                    "see what hangs, and try again",
                )]
            };
            seen.insert(at, checks.unwrap_or_else(late));
        }
        for (at, name) in waiting {
            seen.insert(
                at,
                vec![Check::fail(
                    &name,
                    "the look itself failed",
                    "please report this as a bug of remand",
                )],
            );
        }
        seen.into_values().flatten().collect()
    }
}

/// `1.5 MiB`
fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1024 {
        return format!("{n} bytes");
    }
    let mut tenths = n.saturating_mul(10) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = UNITS.get(unit).copied().unwrap_or_default();
    if tenths >= 100 {
        format!("{} {name}", tenths / 10)
    } else {
        format!("{}.{} {name}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_say_them() {
        let said: Vec<String> = [0, 1023, 1024, 1536, 20_480, 1_572_864, u64::MAX]
            .into_iter()
            .map(bytes)
            .collect();
        assert_eq!(
            said,
            [
                "0 bytes",
                "1023 bytes",
                "1.0 KiB",
                "1.5 KiB",
                "20 KiB",
                "1.5 MiB",
                "1638 PiB"
            ]
        );
    }

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
        let said: Vec<String> = seen
            .iter()
            .map(|check| format!("{} {}: {}", check.state, check.check, check.says))
            .collect();
        assert_eq!(
            said,
            [
                "fail hangs: no answer within 20ms",
                "fail panics: the look itself failed",
                "ok answers: yes"
            ]
        );
        assert_eq!(waits.first(), Some(&3));
    }
}
