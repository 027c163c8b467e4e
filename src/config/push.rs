//! Limits that a fix must meet to be pushed, for all projects and for one.

use serde::{Deserialize, Serialize};

use super::check::Complaint;
use super::names;
use crate::bounded::whole_or_none;
use crate::project_settings::PushLimits;
use crate::toml_path::KeyPath;

/// `[projects.NAME.push]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
pub(crate) struct PushOverrides {
    forbidden: Option<Vec<String>>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 1, 102_400>")]
    max_file_kb: Option<u64>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 1, 100_000>")]
    max_files: Option<usize>,
    #[serde(default, deserialize_with = "whole_or_none::<_, _, 1, 10_485_760>")]
    max_total_kb: Option<u64>,
    secrets: Option<bool>,
}

impl PushLimits {
    pub(super) fn with(&self, own: PushOverrides) -> Self {
        Self {
            forbidden: own.forbidden.unwrap_or_else(|| self.forbidden.clone()),
            max_file_kb: own.max_file_kb.unwrap_or(self.max_file_kb),
            max_files: own.max_files.unwrap_or(self.max_files),
            max_total_kb: own.max_total_kb.unwrap_or(self.max_total_kb),
            secrets: own.secrets.unwrap_or(self.secrets),
        }
    }

    pub(super) fn complaints(&self, at: &KeyPath) -> Vec<Complaint> {
        names::complaints(&at.key("forbidden"), &self.forbidden, names::of_pattern)
    }
}

impl PushOverrides {
    pub(super) fn complaints(&self, at: &KeyPath) -> Vec<Complaint> {
        let forbidden = self.forbidden.as_deref().unwrap_or_default();
        names::complaints(&at.key("forbidden"), forbidden, names::of_pattern)
    }
}
