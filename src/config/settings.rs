//! The settings as types, key for key as in `config.toml`, which documents them and has their
//! defaults: there are none here.
//!
//! Allowed values are defined at each field; relations between values are in `check`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize, de};

use super::github::Github;
use super::implement::ImplementOverrides;
use super::push::PushOverrides;
use super::sandbox::SandboxTable;
use crate::agent_kind::AgentKind;
use crate::bounded::{dollars, dollars_or_none, whole, whole_or_none};
use crate::change::{OnMaxCycles, Shadow, ShadowMode};
use crate::check::OptionalChecks;
use crate::clock::Zone;
use crate::closed_enum::closed_enum;
use crate::discover::Discover;
use crate::finding::Severity;
use crate::project_settings::{
    GateIn, ImplementSettings, MainCheckout, NotificationChannel, PushLimits, RedBase,
};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// Path as written; `Loaded::blackboard` has the resolved one.
    pub(super) blackboard: String,
    /// Path as written; `Loaded::evaluators` has the resolved one.
    pub(super) evaluators: String,
    /// Path as written; `Loaded::prompts` has the resolved one.
    pub(super) prompts: String,
    // The fields from here to `loop`, and `push`, are read through `Loaded::project`, which applies
    // a project's overrides.
    pub(super) agent: String,
    pub(super) review_agent: String,
    pub(super) gates: Vec<Argv>,
    pub(super) gate_in: GateIn,
    pub(super) red_base: RedBase,
    pub(super) worktree_roots: Vec<String>,
    #[serde(deserialize_with = "command_or_nothing")]
    pub(super) setup: Vec<String>,
    pub(super) setup_again_on: Vec<String>,
    pub(super) own_worktrees: String,
    #[serde(deserialize_with = "whole::<_, _, 0, 3_650>")]
    pub(super) worktree_ttl_days: u32,
    #[serde(deserialize_with = "shadow", serialize_with = "shadow_as_written")]
    pub(super) shadow: Shadow,
    pub(super) r#loop: Loop,
    pub(super) implement: ImplementSettings,
    pub(crate) heartbeat: Heartbeat,
    pub(crate) dispatch: Dispatch,
    pub(crate) limits: Limits,
    /// Read through `Loaded::github`.
    pub(super) github: Github,
    pub(super) push: PushLimits,
    /// Read through `Loaded::sandbox`.
    pub(super) sandbox: SandboxTable,
    pub(crate) log: Log,
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) projects: BTreeMap<String, ProjectOverrides>,
}

impl Config {
    /// Replaces `~/` at the start of every program with the home directory. Arguments and
    /// everything else stay unchanged.
    pub(super) fn expand_programs(&mut self, home: &Path) {
        let commands = self
            .agents
            .values_mut()
            .filter_map(|agent| agent.command.as_mut())
            .chain(&mut self.gates);
        let own_gates = self
            .projects
            .values_mut()
            .filter_map(|project| project.gates.as_mut())
            .flatten();
        for command in commands.chain(own_gates).chain([self.github.gh_mut()]) {
            expand(&mut command.0, home);
        }
        let own_commands = self
            .projects
            .values_mut()
            .flat_map(|project| [project.setup.as_mut(), project.log_command.as_mut()])
            .flatten();
        let common = [
            &mut self.setup,
            &mut self.sandbox.wrapper,
            &mut self.github.log_command,
        ];
        for words in own_commands.chain(common) {
            expand(words, home);
        }
    }
}

fn expand(words: &mut [String], home: &Path) {
    let Some(program) = words.first_mut() else {
        return;
    };
    if let Some(rest) = program.strip_prefix("~/") {
        *program = home
            .join(rest.trim_start_matches('/'))
            .display()
            .to_string();
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Loop {
    #[serde(deserialize_with = "whole::<_, _, 0, 100>")]
    pub(crate) max_fix_cycles: i64,
    #[serde(deserialize_with = "whole::<_, _, 0, 1_000>")]
    pub(crate) max_total_fixes: i64,
    #[serde(deserialize_with = "whole::<_, _, 1, 2_592_000>")]
    pub(crate) max_run_s: i64,
    #[serde(deserialize_with = "whole::<_, _, 0, 1_000_000_000_000>")]
    pub(crate) max_tokens: i64,
    #[serde(deserialize_with = "dollars")]
    pub(crate) max_cost_usd: f64,
    #[serde(deserialize_with = "dollars")]
    pub(crate) max_cost_usd_per_day: f64,
    pub(crate) timezone: Zone,
    pub(crate) on_max_cycles: OnMaxCycles,
    pub(crate) severity_threshold: Severity,
    #[serde(deserialize_with = "whole::<_, _, 0, 100>")]
    pub(crate) max_gate_rounds: i64,
    pub(crate) main_checkout: MainCheckout,
    pub(crate) enabled: bool,
    pub(crate) self_review_before_pr: bool,
    pub(crate) auto_address_review_comments: bool,
    pub(crate) skip_tests: bool,
    pub(crate) notify_on_ready: bool,
    pub(crate) notification_channels: Vec<NotificationChannel>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Heartbeat {
    #[serde(deserialize_with = "whole::<_, _, 1, 3_600>")]
    pub(crate) look_s: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Dispatch {
    #[serde(deserialize_with = "whole::<_, _, 1, 64>")]
    pub(crate) slots: usize,
    #[serde(deserialize_with = "whole::<_, _, 3, 86_400>")]
    pub(crate) lease_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 1_000>")]
    pub(crate) max_lost_runs: i64,
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) backoff_first_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 604_800>")]
    pub(crate) backoff_max_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 0, 3_600>")]
    pub(crate) stop_grace_s: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Limits {
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) implement_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) review_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) fix_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) idle_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) gate_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 86_400>")]
    pub(crate) setup_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 1, 3_600>")]
    pub(crate) git_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 0, 3_600>")]
    pub(crate) grace_s: u64,
    #[serde(deserialize_with = "whole::<_, _, 4, 2_000>")]
    pub(crate) feedback_kb: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Log {
    pub(crate) level: LogLevel,
    pub(crate) format: LogFormat,
}

/// Settings of an agent.
///
/// Only `kind` is required, and `command` for kinds that have no default. `None` means not set:
/// some kinds do not support the setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct Agent {
    pub(crate) kind: AgentKind,
    #[serde(default)]
    pub(super) command: Option<Argv>,
    #[serde(default)]
    pub(crate) env: Vec<String>,
    #[serde(default)]
    pub(crate) model: String,
    pub(crate) allow: Option<Vec<String>>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 1, 10_000>")]
    pub(crate) max_turns: Option<u32>,
    #[serde(default, deserialize_with = "dollars_or_none")]
    pub(crate) max_cost_usd: Option<f64>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 0, 100>")]
    pub(crate) max_retries: Option<u32>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 1, 86_400>")]
    pub(crate) api_timeout_s: Option<u64>,
}

impl Agent {
    /// Returns the names of the variables that it gets besides the common ones.
    pub(crate) fn variables(&self) -> Vec<String> {
        let usual = self.kind.variables().iter().map(ToString::to_string);
        usual.chain(self.env.iter().cloned()).collect()
    }

    /// Returns the program and its arguments; empty only where `check` reported an error.
    pub(crate) fn command(&self) -> Vec<String> {
        match (&self.command, self.kind) {
            (Some(command), _) => command.words().to_vec(),
            (None, AgentKind::Claude) => vec!["claude".to_owned()],
            (None, AgentKind::Command) => Vec::new(),
        }
    }
}

/// Overrides for one project. `Loaded::project` fills in the rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct ProjectOverrides {
    pub(super) agent: Option<String>,
    pub(super) review_agent: Option<String>,
    pub(super) gates: Option<Vec<Argv>>,
    pub(super) gate_in: Option<GateIn>,
    pub(super) red_base: Option<RedBase>,
    pub(super) worktree_roots: Option<Vec<String>>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 0, 100>")]
    pub(super) max_fix_cycles: Option<i64>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 0, 1_000>")]
    pub(super) max_total_fixes: Option<i64>,
    #[serde(default, deserialize_with = "dollars_or_none")]
    pub(super) max_cost_usd_per_day: Option<f64>,
    pub(super) on_max_cycles: Option<OnMaxCycles>,
    pub(super) severity_threshold: Option<Severity>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 0, 100>")]
    pub(super) max_gate_rounds: Option<i64>,
    pub(super) main_checkout: Option<MainCheckout>,
    pub(super) enabled: Option<bool>,
    pub(super) self_review_before_pr: Option<bool>,
    pub(super) auto_address_review_comments: Option<bool>,
    pub(super) skip_tests: Option<bool>,
    pub(super) notify_on_ready: Option<bool>,
    pub(super) notification_channels: Option<Vec<NotificationChannel>>,
    pub(super) required_checks: Option<Vec<String>>,
    pub(super) optional_checks: Option<OptionalChecks>,
    pub(super) rerun_red: Option<bool>,
    #[serde(default, deserialize_with = "command_or_nothing_if_set")]
    pub(super) log_command: Option<Vec<String>>,
    #[serde(default, deserialize_with = "command_or_nothing_if_set")]
    pub(super) setup: Option<Vec<String>>,
    pub(super) setup_again_on: Option<Vec<String>>,
    pub(super) own_worktrees: Option<String>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 0, 3_650>")]
    pub(super) worktree_ttl_days: Option<u32>,
    #[serde(
        default,
        deserialize_with = "shadow_if_set",
        serialize_with = "own_shadow_as_written",
        skip_serializing_if = "Option::is_none"
    )]
    pub(super) shadow: Option<Shadow>,
    pub(super) push: Option<PushOverrides>,
    pub(super) implement: Option<ImplementOverrides>,
    pub(super) discover: Option<Discover>,
}

/// A program and its arguments. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Argv(Vec<String>);

closed_enum! {
    "level" LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        Debug = "debug",
        Trace = "trace",
    }
}

closed_enum! {
    "format" LogFormat {
        Text = "text",
        Json = "json",
    }
}

impl Argv {
    /// Returns the program and its arguments.
    pub(crate) fn words(&self) -> &[String] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Argv {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;

        impl<'de> de::Visitor<'de> for Words {
            type Value = Argv;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(
                    "a list of words that starts with the program, such as [\"cargo\", \"test\"]",
                )
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut words: A) -> Result<Argv, A::Error> {
                let mut argv: Vec<String> = Vec::new();
                while let Some(word) = words.next_element()? {
                    argv.push(word);
                }
                if argv.is_empty() {
                    return Err(de::Error::invalid_length(0, &self));
                }
                has_program(&argv)?;
                Ok(Argv(argv))
            }
        }

        deserializer.deserialize_seq(Words)
    }
}

/// Parses `"review"`, `"dry"` or false. `true` means "dry" in older files.
fn shadow<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Shadow, D::Error> {
    struct Written;

    impl de::Visitor<'_> for Written {
        type Value = Shadow;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("\"review\", \"dry\" or false")
        }

        fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Shadow, E> {
            Ok(is_on.then_some(ShadowMode::Dry))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Shadow, E> {
            text.parse()
                .map(Some)
                .ok()
                .ok_or_else(|| E::invalid_value(de::Unexpected::Str(text), &self))
        }
    }

    deserializer.deserialize_any(Written)
}

fn shadow_if_set<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Shadow>, D::Error> {
    shadow(deserializer).map(Some)
}

fn shadow_as_written<S: serde::Serializer>(
    shadow: &Shadow,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match shadow {
        Some(mode) => serializer.serialize_str(mode.as_str()),
        None => serializer.serialize_bool(false),
    }
}

fn own_shadow_as_written<S: serde::Serializer>(
    shadow: &Option<Shadow>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    shadow_as_written(&shadow.flatten(), serializer)
}

/// Parses a command, or the empty list.
pub(super) fn command_or_nothing<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    let words = Vec::deserialize(deserializer)?;
    has_program(&words)?;
    Ok(words)
}

fn command_or_nothing_if_set<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<String>>, D::Error> {
    command_or_nothing(deserializer).map(Some)
}

fn has_program<E: de::Error>(words: &[String]) -> Result<(), E> {
    match words.first() {
        Some(program) if program.trim().is_empty() => Err(E::custom(
            "the first word, which names the program, is empty",
        )),
        Some(_) | None => Ok(()),
    }
}
