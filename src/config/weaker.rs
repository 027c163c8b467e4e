//! Safeguards that a changed configuration would take away. Such a change is applied only on a person's word: a file that
//! was cut off by a full disk, or that a program rewrote, looks the same.

use std::fmt;

use super::Loaded;
use crate::project_settings::GateIn;
use crate::sandbox_settings::SandboxKind;

/// One safeguard that is gone. `project` is none where it held for all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Weaker {
    Empty {
        file: String,
    },
    Gate {
        project: Option<String>,
        command: String,
    },
    Forbidden {
        project: Option<String>,
        pattern: String,
    },
    Secrets {
        project: Option<String>,
    },
    /// Gates judge the agent's worktree instead of the commit that is pushed.
    GateIn {
        project: Option<String>,
    },
    Sandbox,
}

impl fmt::Display for Weaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |project: &Option<String>| {
            project
                .as_ref()
                .map(|name| format!(" of {name}"))
                .unwrap_or_default()
        };
        match self {
            Self::Empty { file } => write!(f, "{file} is empty"),
            Self::Gate { project, command } => {
                write!(f, "the gate `{command}`{} is dropped", of(project))
            }
            Self::Forbidden { project, pattern } => {
                write!(
                    f,
                    "the forbidden path `{pattern}`{} is dropped",
                    of(project)
                )
            }
            Self::Secrets { project } => write!(f, "the search for secrets{} is off", of(project)),
            Self::GateIn { project } => {
                write!(
                    f,
                    "gates{} run in the agent's worktree instead of the commit (gate_in)",
                    of(project)
                )
            }
            Self::Sandbox => f.write_str("agents are no longer confined (sandbox.kind)"),
        }
    }
}

/// The safeguards that `new` lacks, for these projects and those that `old` names.
pub(crate) fn weaker(old: &Loaded, new: &Loaded, projects: &[String]) -> Vec<Weaker> {
    let mut found: Vec<Weaker> = new
        .sources
        .emptied_since(&old.sources)
        .into_iter()
        .map(|file| Weaker::Empty { file })
        .collect();
    if !old.lines.is_empty() && new.lines.is_empty() && found.is_empty() {
        let file = new
            .file
            .as_ref()
            .map(|file| file.display().to_string())
            .unwrap_or_default();
        found.push(Weaker::Empty { file });
    }
    if rank(new.config.sandbox.kind) < rank(old.config.sandbox.kind) {
        found.push(Weaker::Sandbox);
    }
    let mut names: Vec<&String> = projects.iter().chain(old.config.projects.keys()).collect();
    names.sort();
    names.dedup();
    let for_all = of_project(old, new, None);
    for name in names {
        let of_one = of_project(old, new, Some(name));
        // Said once where all projects lose it.
        found.extend(
            of_one
                .into_iter()
                .filter(|one| !for_all.iter().any(|all| one.is_same_as(all))),
        );
    }
    found.extend(for_all);
    found
}

fn of_project(old: &Loaded, new: &Loaded, project: Option<&String>) -> Vec<Weaker> {
    let name = project.map_or("", String::as_str);
    let (before, after) = (old.project(name), new.project(name));
    let project = project.cloned();
    let mut found = Vec::new();
    for gate in before
        .gates
        .iter()
        .filter(|gate| !after.gates.contains(gate))
    {
        found.push(Weaker::Gate {
            project: project.clone(),
            command: gate.join(" "),
        });
    }
    for pattern in before
        .push
        .forbidden
        .iter()
        .filter(|pattern| !after.push.forbidden.contains(pattern))
    {
        found.push(Weaker::Forbidden {
            project: project.clone(),
            pattern: pattern.clone(),
        });
    }
    if before.push.secrets && !after.push.secrets {
        found.push(Weaker::Secrets {
            project: project.clone(),
        });
    }
    if before.gate_in == GateIn::Checkout && after.gate_in == GateIn::Worktree {
        found.push(Weaker::GateIn { project });
    }
    found
}

impl Weaker {
    /// Whatever project it is of.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Gate { command, .. },
                Self::Gate {
                    command: theirs, ..
                },
            ) => command == theirs,
            (
                Self::Forbidden { pattern, .. },
                Self::Forbidden {
                    pattern: theirs, ..
                },
            ) => pattern == theirs,
            (Self::Secrets { .. }, Self::Secrets { .. })
            | (Self::GateIn { .. }, Self::GateIn { .. }) => true,
            (Self::Empty { .. }, _) | (Self::Gate { .. }, _) | (Self::Forbidden { .. }, _) => false,
            (Self::Secrets { .. }, _) | (Self::GateIn { .. }, _) | (Self::Sandbox, _) => false,
        }
    }
}

/// How sure it is that agents are confined: "auto" runs them without a sandbox where none works.
fn rank(kind: SandboxKind) -> u8 {
    match kind {
        SandboxKind::Off => 0,
        SandboxKind::Auto => 1,
        SandboxKind::Bubblewrap | SandboxKind::Wrapper => 2,
    }
}
