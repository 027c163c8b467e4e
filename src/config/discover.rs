//! Which open pull requests of a project are taken over without being named. Who may make work on them is another
//! question, and not answered here.

use serde::{Deserialize, Serialize};

use super::bounded::whole;
use super::check::Complaint;
use super::names;
use crate::toml_path::KeyPath;

/// `[projects.NAME.discover]`, key for key. All may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct DiscoverTable {
    label: String,
    authors: Vec<String>,
    branches: Vec<String>,
    drafts: bool,
    #[serde(deserialize_with = "whole::<_, _, 1, 100>")]
    max_open: usize,
}

/// Which pull requests are looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Discover {
    /// None: with any label or without.
    pub(crate) label: Option<String>,
    /// Login names. Empty: by anybody.
    pub(crate) authors: Vec<String>,
    /// Patterns. Empty: from any branch.
    pub(crate) branches: Vec<String>,
    /// Drafts too.
    pub(crate) drafts: bool,
    /// No more are taken over while so many are open.
    pub(crate) max_open: usize,
}

impl Default for DiscoverTable {
    /// A label that somebody must put there: nothing is taken over only because it is open.
    fn default() -> Self {
        Self {
            label: "remand".into(),
            authors: Vec::new(),
            branches: Vec::new(),
            drafts: false,
            max_open: 5,
        }
    }
}

impl From<DiscoverTable> for Discover {
    fn from(table: DiscoverTable) -> Self {
        Self {
            label: Some(table.label).filter(|label| !label.is_empty()),
            authors: table.authors,
            branches: table.branches,
            drafts: table.drafts,
            max_open: table.max_open,
        }
    }
}

impl DiscoverTable {
    pub(super) fn complaints(&self, at: &KeyPath) -> Vec<Complaint> {
        let key = |name: &str| at.clone().key(name);
        let mut complaints = names::complaints(&key("authors"), &self.authors, names::of_login);
        complaints.extend(names::complaints(
            &key("branches"),
            &self.branches,
            names::of_pattern,
        ));
        complaints.extend(
            names::of_label(&self.label)
                .map(|why| names::complaint(key("label"), &self.label, why)),
        );
        complaints
    }
}
