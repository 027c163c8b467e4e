//! Defaults of tasks, for all projects and for one.

use serde::{Deserialize, Serialize};

use super::check::Complaint;
use crate::branch_name::{SLUG, check_branch_name};
use crate::project_settings::ImplementSettings;
use crate::toml_path::KeyPath;
use crate::work::Priority;

/// `[projects.NAME.implement]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct ImplementOverrides {
    auto_review: Option<bool>,
    open_pr: Option<bool>,
    draft: Option<bool>,
    branch: Option<String>,
    priority: Option<Priority>,
}

impl ImplementSettings {
    pub(super) fn with(&self, own: ImplementOverrides) -> Self {
        Self {
            auto_review: own.auto_review.unwrap_or(self.auto_review),
            open_pr: own.open_pr.unwrap_or(self.open_pr),
            draft: own.draft.unwrap_or(self.draft),
            branch: own.branch.unwrap_or_else(|| self.branch.clone()),
            priority: own.priority.unwrap_or(self.priority),
        }
    }

    pub(super) fn complaints(&self, at: &KeyPath) -> Option<Complaint> {
        bad_branch(at, &self.branch)
    }
}

impl ImplementOverrides {
    pub(super) fn complaints(&self, at: &KeyPath) -> Option<Complaint> {
        bad_branch(at, self.branch.as_deref()?)
    }
}

/// Checks a template for branch names with a sample. Without the words of the title, all tasks
/// would have the same branch.
fn bad_branch(at: &KeyPath, template: &str) -> Option<Complaint> {
    let why = if template.contains(SLUG) {
        check_branch_name(&template.replace(SLUG, "a")).err()?.why
    } else {
        "it does not contain {slug}"
    };
    Some(Complaint {
        keys: vec![at.key("branch")],
        title: format!("`{template}` is not a template for branch names: {why}"),
        help: "{slug} stands for the words of a task's title, such as \"remand/{slug}\"".into(),
    })
}
