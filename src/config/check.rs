//! Checks settings against each other: each may be valid by itself but not in combination. Pure;
//! the defaults must pass too.

use super::environment::refusal;
use super::names;
use super::settings::{Agent, Config, ProjectOverrides};
use crate::agent_kind::AgentKind;
use crate::discover::Discover;
use crate::text::list;
use crate::toml_path::KeyPath;

/// Settings that are not valid together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Complaint {
    /// Keys involved; the first one that is in the user's file is the one to show.
    pub(super) keys: Vec<KeyPath>,
    pub(super) title: String,
    /// Allowed values, or the reason for the rejection.
    pub(super) help: String,
}

pub(super) fn check(config: &Config) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let [cycles, total] = common_fixes(config);
    complaints.extend(fixes(cycles, total));
    complaints.extend(times(config));
    complaints.extend(agents(config));
    let agents = [Some(&config.agent), Some(&config.review_agent)];
    complaints.extend(named(config, &KeyPath::default(), agents));
    complaints.extend(config.push.complaints(&KeyPath::dotted("push")));
    complaints.extend(config.implement.complaints(&KeyPath::dotted("implement")));
    complaints.extend(config.sandbox.complaints(&KeyPath::dotted("sandbox")));
    let again = KeyPath::dotted("setup_again_on");
    complaints.extend(names::complaints(
        &again,
        &config.setup_again_on,
        names::of_path,
    ));
    for (name, project) in &config.projects {
        let at = KeyPath::dotted("projects").key(name);
        complaints.extend(empty_name(&at, name));
        complaints.extend(project_fixes(config, &at, project));
        let agents = [project.agent.as_ref(), project.review_agent.as_ref()];
        complaints.extend(named(config, &at, agents));
        complaints.extend(own_tables(&at, project));
    }
    complaints
}

fn own_tables(at: &KeyPath, project: &ProjectOverrides) -> Vec<Complaint> {
    let again = project.setup_again_on.as_deref().unwrap_or_default();
    let mut complaints = names::complaints(&at.key("setup_again_on"), again, names::of_path);
    let push = project.push.iter();
    complaints.extend(push.flat_map(|push| push.complaints(&at.key("push"))));
    let implement = project.implement.iter();
    complaints.extend(implement.filter_map(|one| one.complaints(&at.key("implement"))));
    let rules = project.discover.iter();
    complaints.extend(rules.flat_map(|rules| discover(&at.key("discover"), rules)));
    complaints
}

fn discover(at: &KeyPath, rules: &Discover) -> Vec<Complaint> {
    let mut complaints = names::complaints(&at.key("authors"), &rules.authors, names::of_login);
    let (branches, patterns) = (at.key("branches"), &rules.branches);
    complaints.extend(names::complaints(&branches, patterns, names::of_pattern));
    complaints.extend(rules.label.iter().filter_map(|label| {
        names::of_label(label).map(|why| names::complaint(at.key("label"), label, why))
    }));
    complaints
}

fn common_fixes(config: &Config) -> [(KeyPath, i64); 2] {
    let key = |name: &str| KeyPath::dotted("loop").key(name);
    let common = &config.r#loop;
    [
        (key("max_fix_cycles"), common.max_fix_cycles),
        (key("max_total_fixes"), common.max_total_fixes),
    ]
}

/// Checks a project only if it overrides one of the two settings: otherwise the error has already
/// been reported for all projects.
fn project_fixes(config: &Config, at: &KeyPath, project: &ProjectOverrides) -> Option<Complaint> {
    let [cycles, total] = common_fixes(config);
    let own = |key: &str, n: Option<i64>| n.map(|n| (at.key(key), n));
    let own_cycles = own("max_fix_cycles", project.max_fix_cycles);
    let own_total = own("max_total_fixes", project.max_total_fixes);
    match (own_cycles, own_total) {
        (None, None) => None,
        (Some(own), own_total) => fixes(own, own_total.unwrap_or(total)),
        (None, Some(own)) => {
            let mut complaint = fixes(cycles, own)?;
            // The project's line is the one to show, even if the file has the other too.
            complaint.keys.reverse();
            Some(complaint)
        }
    }
}

/// Checks that a round is not allowed more fixes than the change in total.
fn fixes((cycles, is): (KeyPath, i64), (total, bound): (KeyPath, i64)) -> Option<Complaint> {
    (is > bound).then(|| Complaint {
        title: format!("`{cycles}` ({is}) is more than `{total}` ({bound})"),
        keys: vec![cycles, total],
        help: "a round cannot have more fixes than the change in total".into(),
    })
}

fn times(config: &Config) -> Vec<Complaint> {
    let (dispatch, limits) = (&config.dispatch, &config.limits);
    let mut complaints = Vec::new();
    let first = ("dispatch.backoff_first_s", dispatch.backoff_first_s);
    let longest = ("dispatch.backoff_max_s", dispatch.backoff_max_s);
    if first.1 > longest.1 {
        let why = "the first delay cannot be longer than the maximum";
        complaints.push(larger(first, longest, why));
    }
    let runs = [
        ("limits.review_s", limits.review_s),
        ("limits.fix_s", limits.fix_s),
    ];
    let idle = ("limits.idle_s", limits.idle_s);
    if let Some(run) = runs.into_iter().max_by_key(|(_, seconds)| *seconds)
        && idle.1 > run.1
    {
        let why = "no run can be idle for longer than its own time limit";
        complaints.push(larger(idle, run, why));
    }
    let grace = ("limits.grace_s", limits.grace_s);
    let gate = ("limits.gate_s", limits.gate_s);
    let setup = ("limits.setup_s", limits.setup_s);
    let git = ("limits.git_s", limits.git_s);
    for limit in runs.into_iter().chain([gate, setup, git]) {
        if grace.1 >= limit.1 {
            let why = "the time between SIGTERM and SIGKILL must be shorter than the limit";
            complaints.push(larger(grace, limit, why));
        }
    }
    complaints
}

fn larger((small, is): (&str, u64), (large, bound): (&str, u64), why: &str) -> Complaint {
    let relation = if is == bound {
        "is not less than"
    } else {
        "is more than"
    };
    Complaint {
        keys: vec![KeyPath::dotted(small), KeyPath::dotted(large)],
        title: format!("`{small}` ({is}) {relation} `{large}` ({bound})"),
        help: why.into(),
    }
}

fn agents(config: &Config) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for (name, agent) in &config.agents {
        let at = KeyPath::dotted("agents").key(name);
        complaints.extend(empty_name(&at, name));
        complaints.extend(of_kind(&at, name, agent, config.limits.idle_s));
        for (i, variable) in agent.env.iter().enumerate() {
            complaints.extend(refusal(variable).map(|reason| Complaint {
                keys: vec![at.key("env").index(i)],
                title: format!("cannot pass the variable `{variable}` to the agent `{name}`"),
                help: reason.into(),
            }));
        }
    }
    complaints
}

/// Checks that an agent has the settings that its kind needs, and none that it does not support.
fn of_kind(at: &KeyPath, name: &str, agent: &Agent, idle_s: u64) -> Vec<Complaint> {
    match agent.kind {
        AgentKind::Command => {
            let missing = agent.command.is_none().then(|| Complaint {
                keys: vec![at.clone()],
                title: format!("the agent `{name}` has no `command`"),
                help: "an agent of kind `command` needs one: a list with the program and its arguments".into(),
            });
            let claude = [
                ("allow", agent.allow.is_some()),
                ("max_turns", agent.max_turns.is_some()),
                ("max_cost_usd", agent.max_cost_usd.is_some()),
                ("max_retries", agent.max_retries.is_some()),
                ("api_timeout_s", agent.api_timeout_s.is_some()),
            ];
            let unknown = claude
                .into_iter()
                .filter(|(_, is_set)| *is_set)
                .map(|(key, _)| Complaint {
                    keys: vec![at.key(key)],
                    title: format!(
                        "the agent `{name}` is of kind `command`, which does not support `{key}`"
                    ),
                    help: "only agents of kind `claude` support it".into(),
                });
            missing.into_iter().chain(unknown).collect()
        }
        AgentKind::Claude => {
            let late = agent.api_timeout_s.filter(|timeout| *timeout >= idle_s);
            let late = late.map(|timeout| Complaint {
                keys: vec![at.key("api_timeout_s")],
                title: format!(
                    "`{at}.api_timeout_s` ({timeout}) is not less than `limits.idle_s` ({idle_s})"
                ),
                help:
                    "an agent whose API does not respond would be terminated before it could report that"
                        .into(),
            });
            late.into_iter().collect()
        }
    }
}

/// Checks that `agent` and `review_agent` in the table at `at` exist. The empty name means none.
fn named(config: &Config, at: &KeyPath, names: [Option<&String>; 2]) -> Vec<Complaint> {
    let complaint = |(key, name): (&str, Option<&String>)| {
        let name = name.filter(|name| !name.is_empty() && !config.agents.contains_key(*name))?;
        let help = if config.agents.is_empty() {
            format!("no agents are configured; add a table [agents.{name}]")
        } else {
            format!("agents: {}", list(config.agents.keys()))
        };
        let key = at.key(key);
        Some(Complaint {
            title: format!("`{key}` names the unknown agent `{name}`"),
            keys: vec![key],
            help,
        })
    };
    let keys = ["agent", "review_agent"].into_iter();
    keys.zip(names).filter_map(complaint).collect()
}

fn empty_name(at: &KeyPath, name: &str) -> Option<Complaint> {
    name.trim().is_empty().then(|| Complaint {
        keys: vec![at.clone()],
        title: format!("`{at}` has an empty name"),
        help: "names must not be empty".into(),
    })
}
