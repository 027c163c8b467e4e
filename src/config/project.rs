//! Effective settings of one project.

use std::path::PathBuf;

use super::{Loaded, location};
use crate::change::{Bounds, FixBound, ReviewRules, ReviewStage};
use crate::check::CheckSettings;
use crate::clock::Zone;
use crate::diagnostic::nearest;
use crate::project_settings::{NotificationChannel, ProjectDayBound, ProjectSettings};
use crate::toml_path::KeyPath;

/// Table for an unknown project: a typo, or a project that has not been added yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stray {
    pub(crate) what: String,
    pub(crate) hint: String,
}

impl Loaded {
    /// Returns the tables `[projects.NAME]` whose name is not among the known projects.
    pub(crate) fn strays(&self, known: &[String]) -> Vec<Stray> {
        let names = self
            .config
            .projects
            .keys()
            .filter(|name| !known.contains(name));
        names.map(|name| self.stray(name, known)).collect()
    }

    fn stray(&self, name: &str, known: &[String]) -> Stray {
        let table = KeyPath::dotted("projects").key(name).to_string();
        let inside = format!("{table}.");
        let line = self
            .lines
            .iter()
            .filter(|(key, _)| key.starts_with(&inside))
            .map(|(_, line)| *line)
            .min();
        let near = line.map_or_else(String::new, |line| format!(" (near line {line})"));
        let (all, add) = (
            known.join(", "),
            format!("`remand project add PATH --name {name}` adds it"),
        );
        let hint = match nearest(name, known.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`? Known projects: {all}"),
            None if known.is_empty() => format!("there are no projects yet: {add}"),
            None => format!("known projects: {all}; {add}"),
        };
        let what = format!("[{table}]{near} is not a known project");
        Stray { what, hint }
    }

    /// Returns the maximum number of fixes per round, for a change without its own limit.
    ///
    /// The project's setting takes precedence over the evaluator's, and that over the global one.
    pub(crate) fn max_fix_cycles(&self, project: &str, evaluator: Option<(i64, &str)>) -> FixBound {
        let own = self.config.projects.get(project);
        let (most, from) = match (own.and_then(|own| own.max_fix_cycles), evaluator) {
            (Some(most), _) => (most, self.named(&own_key(project, "max_fix_cycles"))),
            (None, Some((most, evaluator))) => {
                let from = format!("`max_fix_cycles` of the evaluator {evaluator}");
                (most, from)
            }
            (None, None) => {
                let from = self.named("loop.max_fix_cycles");
                (self.config.r#loop.max_fix_cycles, from)
            }
        };
        FixBound { most, from }
    }

    /// Describes a setting and its origin: `` `loop.max_fix_cycles` (default)``.
    fn named(&self, key: &str) -> String {
        format!("`{key}` ({})", self.origin_of(key))
    }

    /// Returns the settings for a project; the global ones if it has no table.
    pub(crate) fn project(&self, name: &str) -> ProjectSettings {
        let config = &self.config;
        let common = &config.r#loop;
        let own = config.projects.get(name).cloned().unwrap_or_default();
        let named = |own: Option<String>, common: &String| {
            let name = own.unwrap_or_else(|| common.clone());
            Some(name).filter(|name| !name.is_empty())
        };
        let agent = named(own.agent, &config.agent);
        let review_agent = named(own.review_agent, &config.review_agent);
        let roots = own.worktree_roots.as_ref();
        let roots = roots.unwrap_or(&config.worktree_roots).iter();
        let gates = own.gates.as_ref().unwrap_or(&config.gates);
        let own_worktrees = own.own_worktrees.as_ref().unwrap_or(&config.own_worktrees);
        ProjectSettings {
            review_agent: review_agent.or_else(|| agent.clone()),
            agent,
            gates: gates.iter().map(|gate| gate.words().to_vec()).collect(),
            gate_in: own.gate_in.unwrap_or(config.gate_in),
            red_base: own.red_base.unwrap_or(config.red_base),
            worktree_roots: roots.map(|text| self.resolve(text)).collect(),
            bounds: Bounds {
                on_max_cycles: own.on_max_cycles.unwrap_or(common.on_max_cycles),
                max_fix_cycles: own.max_fix_cycles.unwrap_or(common.max_fix_cycles),
                max_total_fixes: own.max_total_fixes.unwrap_or(common.max_total_fixes),
                max_run_ms: common.max_run_s.saturating_mul(1000),
                max_tokens: Some(common.max_tokens).filter(|tokens| *tokens > 0),
                max_cost_micros: micros(common.max_cost_usd),
            },
            max_day: own
                .max_cost_usd_per_day
                .and_then(micros)
                .map(|most_micros| {
                    let key = own_key(name, "max_cost_usd_per_day");
                    ProjectDayBound { most_micros, key }
                }),
            severity_threshold: own.severity_threshold.unwrap_or(common.severity_threshold),
            max_gate_rounds: own.max_gate_rounds.unwrap_or(common.max_gate_rounds),
            main_checkout: own.main_checkout.unwrap_or(common.main_checkout),
            setup: own.setup.unwrap_or_else(|| config.setup.clone()),
            setup_again_on: own
                .setup_again_on
                .unwrap_or_else(|| config.setup_again_on.clone()),
            own_worktrees: self.own_worktrees(own_worktrees),
            worktree_ttl_days: own.worktree_ttl_days.unwrap_or(config.worktree_ttl_days),
            shadow: own.shadow.unwrap_or(config.shadow),
            push: config.push.with(own.push.unwrap_or_default()),
            discover: own.discover,
            review: ReviewRules {
                stage: review_stage(
                    own.enabled.unwrap_or(common.enabled),
                    own.self_review_before_pr
                        .unwrap_or(common.self_review_before_pr),
                ),
                auto_address: own
                    .auto_address_review_comments
                    .unwrap_or(common.auto_address_review_comments),
                skip_tests: own.skip_tests.unwrap_or(common.skip_tests),
                notify_ready: own.notify_on_ready.unwrap_or(common.notify_on_ready)
                    && own
                        .notification_channels
                        .as_ref()
                        .unwrap_or(&common.notification_channels)
                        .contains(&NotificationChannel::Github),
            },
            checks: CheckSettings {
                required: own
                    .required_checks
                    .unwrap_or_else(|| config.github.required_checks.clone()),
                optional: own.optional_checks.unwrap_or(config.github.optional_checks),
                rerun_red: own.rerun_red.unwrap_or(config.github.rerun_red),
                log_command: own
                    .log_command
                    .unwrap_or_else(|| config.github.log_command.clone()),
            },
            implement: config.implement.with(own.implement.unwrap_or_default()),
        }
    }

    /// Returns the directory for remand's worktrees: the one set as `own_worktrees`, otherwise
    /// `worktrees` next to the blackboard.
    pub(super) fn own_worktrees(&self, set: &str) -> PathBuf {
        if set.is_empty() {
            return self.blackboard.with_file_name("worktrees");
        }
        self.resolve(set)
    }

    /// Resolves a path from the config file.
    pub(super) fn resolve(&self, text: &str) -> PathBuf {
        location::resolve(text, self.file.as_deref(), self.home.as_deref())
    }
}

impl Loaded {
    /// Maximum amount that all agents together may spend per day; `None` means unlimited. A project
    /// may have its own limit in addition.
    pub(crate) fn max_day_micros(&self) -> Option<i64> {
        micros(self.config.r#loop.max_cost_usd_per_day)
    }

    /// Time zone in which a day starts at midnight.
    pub(crate) fn timezone(&self) -> Zone {
        self.config.r#loop.timezone
    }
}

fn review_stage(enabled: bool, before_pr: bool) -> ReviewStage {
    match (enabled, before_pr) {
        (false, _) => ReviewStage::Off,
        (true, false) => ReviewStage::OnPr,
        (true, true) => ReviewStage::BeforePr,
    }
}

/// Returns a limit; 0 means none. Rounds up, so that a limit that is set never becomes 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "at most a million dollars, which was checked when it was loaded"
)]
fn micros(dollars: f64) -> Option<i64> {
    Some((dollars * 1_000_000.0).ceil() as i64).filter(|micros| *micros > 0)
}

/// Dotted key of a setting in the table of a project.
fn own_key(project: &str, key: &str) -> String {
    KeyPath::dotted("projects")
        .key(project)
        .key(key)
        .to_string()
}
