//! Tasks: what remand was asked to implement. The title, the branch and the limits are those of the
//! change.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::closed_enum::closed_enum;
use crate::work::Source;

/// Task as it is stored beside its change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct TaskRow {
    /// Description, in addition to the title.
    pub(crate) text: String,
    pub(crate) spec: Option<TaskSpec>,
    pub(crate) issue: Option<TaskIssue>,
    /// Agent for the implementation and the fixes; `None` if the configuration applies.
    pub(crate) agent: Option<String>,
    pub(crate) review_agent: Option<String>,
    /// `None` if the agent's own applies.
    pub(crate) model: Option<String>,
    /// Set if the pull request is opened as a draft.
    pub(crate) draft: bool,
}

impl TaskRow {
    /// Returns the origin of the task: an issue, a feature in `.specify/`, or a person.
    pub(crate) fn source(&self) -> Source {
        match (&self.issue, &self.spec) {
            (Some(_), _) => Source::Github,
            (None, Some(spec)) if spec.is_feature() => Source::Specflow,
            (None, _) => Source::Manual,
        }
    }
}

/// Specification of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskSpec {
    /// Path as it was given: from the top of the repository, or elsewhere.
    pub(crate) path: String,
    /// Contents at the time when the task was added.
    pub(crate) text: String,
}

impl TaskSpec {
    /// True for a directory of `.specify/`, or a file in it.
    pub(crate) fn is_feature(&self) -> bool {
        Path::new(&self.path)
            .components()
            .any(|part| part.as_os_str() == ".specify")
    }
}

/// Issue of the forge, as it was read when the task was added. Later edits do not reach an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskIssue {
    pub(crate) number: i64,
    pub(crate) title: String,
    pub(crate) body: String,
    pub(crate) url: String,
    /// Comments by people with write permission, oldest first.
    #[serde(default)]
    pub(crate) comments: Vec<IssueComment>,
}

/// Comment on an issue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IssueComment {
    pub(crate) author: String,
    pub(crate) body: String,
}

closed_enum! {
    /// Part of a task that a person can change.
    "field" TaskField {
        Title = "title",
        Body = "body",
        Spec = "spec",
        Issue = "issue",
        Agent = "agent",
        ReviewAgent = "review_agent",
        Model = "model",
        Priority = "priority",
        After = "after",
        Base = "base",
        Branch = "branch",
        MaxCycles = "max_cycles",
        Draft = "draft",
    }
}

/// Part of a task with a new value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EditedField {
    pub(crate) field: TaskField,
    /// `None` if it was not set.
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}
