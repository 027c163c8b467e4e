//! Safeguards that a changed configuration would remove.
//!
//! Such a change is applied only if a person confirms it: a file that was truncated by a full disk,
//! or rewritten by a program, looks the same.

use std::fmt;

use super::Loaded;
use crate::project_settings::GateIn;
use crate::sandbox_settings::SandboxKind;
use crate::text::prefixed;

/// A removed safeguard. `project` is `None` if it applied to all projects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Weaker {
    safeguard: Safeguard,
    project: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Safeguard {
    /// Settings of a file that is empty now.
    File(String),
    Gate(String),
    Forbidden(String),
    Secrets,
    /// Gates check the agent's worktree instead of the commit that is pushed.
    GateIn,
    Sandbox,
}

impl fmt::Display for Weaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = prefixed(" of ", self.project.as_ref());
        match &self.safeguard {
            Safeguard::File(file) => write!(f, "{file} is empty"),
            Safeguard::Gate(command) => write!(f, "the gate `{command}`{of} was removed"),
            Safeguard::Forbidden(pattern) => {
                write!(f, "the forbidden path `{pattern}`{of} was removed")
            }
            Safeguard::Secrets => write!(f, "secret scanning{of} is off"),
            Safeguard::GateIn => {
                write!(
                    f,
                    "gates{of} run in the agent's worktree instead of a checkout of the commit (gate_in)"
                )
            }
            Safeguard::Sandbox => f.write_str("agents are no longer confined (sandbox.kind)"),
        }
    }
}

/// Returns the safeguards that `new` lacks, for these projects and those that `old` names.
pub(crate) fn weaker(old: &Loaded, new: &Loaded, projects: &[String]) -> Vec<Weaker> {
    let emptied = new.sources.emptied_since(&old.sources).into_iter();
    let mut common: Vec<Safeguard> = emptied.map(Safeguard::File).collect();
    if !old.lines.is_empty() && new.lines.is_empty() && common.is_empty() {
        common.push(Safeguard::File(new.file_text().unwrap_or_default()));
    }
    if rank(new.config.sandbox.kind) < rank(old.config.sandbox.kind) {
        common.push(Safeguard::Sandbox);
    }
    let of_all = |safeguard| Weaker {
        safeguard,
        project: None,
    };
    let mut found: Vec<Weaker> = common.into_iter().map(of_all).collect();
    let mut names: Vec<&String> = projects.iter().chain(old.config.projects.keys()).collect();
    names.sort();
    names.dedup();
    let for_all = of_project(old, new, "");
    for name in names {
        let of_one = of_project(old, new, name).into_iter();
        // Reported once if all projects lose it.
        let only_here = of_one.filter(|safeguard| !for_all.contains(safeguard));
        found.extend(only_here.map(|safeguard| Weaker {
            safeguard,
            project: Some(name.clone()),
        }));
    }
    found.extend(for_all.into_iter().map(of_all));
    found
}

/// Returns the safeguards that one project loses; without a name, those of every project that has
/// no table.
fn of_project(old: &Loaded, new: &Loaded, name: &str) -> Vec<Safeguard> {
    let (before, after) = (old.project(name), new.project(name));
    let gates = before.gates.iter();
    let gates = gates.filter(|gate| !after.gates.contains(gate));
    let patterns = before.push.forbidden.iter();
    let patterns = patterns.filter(|pattern| !after.push.forbidden.contains(pattern));
    let mut found: Vec<Safeguard> = gates.map(|gate| Safeguard::Gate(gate.join(" "))).collect();
    found.extend(patterns.cloned().map(Safeguard::Forbidden));
    if before.push.secrets && !after.push.secrets {
        found.push(Safeguard::Secrets);
    }
    if before.gate_in == GateIn::Checkout && after.gate_in == GateIn::Worktree {
        found.push(Safeguard::GateIn);
    }
    found
}

/// Ranks how reliably agents are confined: "auto" runs them without a sandbox if none works.
fn rank(kind: SandboxKind) -> u8 {
    match kind {
        SandboxKind::Off => 0,
        SandboxKind::Auto => 1,
        SandboxKind::Bubblewrap | SandboxKind::Wrapper => 2,
    }
}
