//! Selects the open pull requests of a project that are adopted without being named. Pure.
//!
//! This module does not decide who may create work on them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded::whole;
use crate::glob;
use crate::pull_request::{Pull, PullRow};

/// Table `[projects.NAME.discover]`: rules for the pull requests to adopt. All keys are optional.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Discover {
    /// Required label. `None`, written as an empty string in the settings, accepts any pull
    /// request.
    #[serde(deserialize_with = "text_or_none", serialize_with = "none_as_empty")]
    pub(crate) label: Option<String>,
    /// Accepted login names of the author. Empty accepts anyone.
    pub(crate) authors: Vec<String>,
    /// Accepted branch patterns (see [`glob`]). Empty accepts any branch.
    pub(crate) branches: Vec<String>,
    /// Includes drafts.
    pub(crate) drafts: bool,
    /// Maximum number of open pull requests. No more are adopted while this many are open.
    #[serde(deserialize_with = "whole::<_, _, 1, 100>")]
    pub(crate) max_open: usize,
}

impl Default for Discover {
    /// Requires a label that somebody has to add: a pull request is never adopted only because it
    /// is open.
    fn default() -> Self {
        Self {
            label: Some("remand".to_owned()),
            authors: Vec::new(),
            branches: Vec::new(),
            drafts: false,
            max_open: 5,
        }
    }
}

/// Properties of a pull request that the rules examine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traits<'a> {
    labels: &'a [String],
    draft: bool,
    author: Option<&'a str>,
    branch: &'a str,
}

impl<'a> From<&'a Pull> for Traits<'a> {
    fn from(pull: &'a Pull) -> Self {
        let author = pull.author.as_ref().map(|author| author.login.as_str());
        Self {
            labels: &pull.labels,
            draft: pull.draft,
            author,
            branch: &pull.head_ref,
        }
    }
}

impl<'a> From<&'a PullRow> for Traits<'a> {
    fn from(pull: &'a PullRow) -> Self {
        Self {
            labels: &pull.labels,
            draft: pull.draft,
            author: pull.author.as_deref(),
            branch: &pull.head_ref,
        }
    }
}

impl Discover {
    /// Describes the first rule that does not match; `None` if all match. Labels and logins are
    /// compared without case, as on GitHub.
    pub(crate) fn passes_over<'a>(&self, pull: impl Into<Traits<'a>>) -> Option<String> {
        let pull = pull.into();
        if let Some(label) = &self.label
            && !pull
                .labels
                .iter()
                .any(|has| has.eq_ignore_ascii_case(label))
        {
            return Some(format!("it has no label `{label}`"));
        }
        if pull.draft && !self.drafts {
            return Some("it is a draft".to_owned());
        }
        let author = pull.author.unwrap_or("ghost");
        if !self.authors.is_empty()
            && !self
                .authors
                .iter()
                .any(|login| login.eq_ignore_ascii_case(author))
        {
            return Some(format!("its author {author} is not in `authors`"));
        }
        if !self.branches.is_empty()
            && !self
                .branches
                .iter()
                .any(|pattern| glob::matches_branch(pattern, pull.branch))
        {
            return Some(format!(
                "its branch {} does not match {}",
                pull.branch,
                self.branches.join(", ")
            ));
        }
        None
    }
}

fn text_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Ok(Some(String::deserialize(deserializer)?).filter(|text| !text.is_empty()))
}

fn none_as_empty<S: Serializer>(text: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_does_not_fit_says_why() {
        let rules = Discover {
            label: Some("remand".into()),
            authors: vec!["ada".into(), "dependabot[bot]".into()],
            branches: vec!["agent/**".into(), "fix-*".into()],
            drafts: false,
            max_open: 5,
        };
        let labels = vec!["bug".to_owned(), "Remand".to_owned()];
        let fitting = Traits {
            labels: &labels,
            draft: false,
            author: Some("Ada"),
            branch: "agent/login",
        };
        let why = |traits: Traits<'_>| rules.passes_over(traits);
        assert_eq!(why(fitting), None);
        assert_eq!(
            why(Traits {
                labels: &[],
                ..fitting
            })
            .as_deref(),
            Some("it has no label `remand`")
        );
        assert_eq!(
            why(Traits {
                draft: true,
                ..fitting
            })
            .as_deref(),
            Some("it is a draft")
        );
        let eve = Traits {
            author: Some("eve"),
            ..fitting
        };
        assert_eq!(
            why(eve).as_deref(),
            Some("its author eve is not in `authors`")
        );
        let ghost = Traits {
            author: None,
            ..fitting
        };
        assert_eq!(
            why(ghost).as_deref(),
            Some("its author ghost is not in `authors`")
        );
        let branch = Traits {
            branch: "main",
            ..fitting
        };
        assert_eq!(
            why(branch).as_deref(),
            Some("its branch main does not match agent/**, fix-*")
        );
        let open = Discover {
            label: None,
            authors: vec![],
            branches: vec![],
            drafts: true,
            max_open: 5,
        };
        assert_eq!(
            open.passes_over(Traits {
                labels: &[],
                draft: true,
                author: None,
                branch: "x"
            }),
            None
        );
    }
}
