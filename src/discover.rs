//! Selects the open pull requests of a project that are taken over without being named. Who may make work on them is
//! another question, and not answered here. Pure.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bounded::whole;
use crate::pull_request::{Pull, PullRow};

/// `[projects.NAME.discover]`, key for key: the pull requests that are taken over. All keys may be left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(crate) struct Discover {
    /// None, in settings the empty text: with any label or without.
    #[serde(deserialize_with = "text_or_none", serialize_with = "none_as_empty")]
    pub(crate) label: Option<String>,
    /// Login names. Empty: by anybody.
    pub(crate) authors: Vec<String>,
    /// Patterns. Empty: from any branch.
    pub(crate) branches: Vec<String>,
    /// Drafts too.
    pub(crate) drafts: bool,
    /// No more are taken over while so many are open.
    #[serde(deserialize_with = "whole::<_, _, 1, 100>")]
    pub(crate) max_open: usize,
}

impl Default for Discover {
    /// A label that somebody must put there: nothing is taken over only because it is open.
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

/// What the rules look at.
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
    /// The first rule that does not fit, in words; none when all do. Labels and logins are the same to GitHub in capital
    /// and small letters.
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
            return Some(format!("its author {author} is not among the authors"));
        }
        if !self.branches.is_empty()
            && !self
                .branches
                .iter()
                .any(|pattern| fits(pattern, pull.branch))
        {
            return Some(format!(
                "its branch {} matches none of {}",
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

/// `*` is any part of a name, `?` one character, `**` any names with `/` between.
fn fits(pattern: &str, branch: &str) -> bool {
    let (pattern, branch): (Vec<&str>, Vec<&str>) =
        (pattern.split('/').collect(), branch.split('/').collect());
    all_fit(&pattern, &branch)
}

fn all_fit(pattern: &[&str], names: &[&str]) -> bool {
    match (pattern.split_first(), names.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((&"**", rest)), _) => {
            // Whatever is left of the names may begin the rest of the pattern; at least one name is behind a last `**`.
            let most = if rest.is_empty() {
                names.len().saturating_sub(1)
            } else {
                names.len()
            };
            !names.is_empty()
                && (0..=most).any(|skip| rest_fits(rest, names.get(skip..).unwrap_or_default()))
        }
        (Some(_), None) => false,
        (Some((part, rest)), Some((name, names))) => {
            let (part, name): (Vec<char>, Vec<char>) =
                (part.chars().collect(), name.chars().collect());
            name_fits(&part, &name) && all_fit(rest, names)
        }
    }
}

fn rest_fits(rest: &[&str], names: &[&str]) -> bool {
    rest.is_empty() || all_fit(rest, names)
}

fn name_fits(pattern: &[char], name: &[char]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some(('*', rest)), _) => {
            (0..=name.len()).any(|skip| name_fits(rest, name.get(skip..).unwrap_or_default()))
        }
        (Some(('?', rest)), Some((_, name))) => name_fits(rest, name),
        (Some((c, rest)), Some((d, name))) => c == d && name_fits(rest, name),
        (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_branch_fits() {
        for (pattern, branch, expected) in [
            ("agent/**", "agent/login", true),
            ("agent/**", "agent/a/b", true),
            ("agent/**", "agent", false),
            ("agent/**", "agents/a", false),
            ("agent/*", "agent/login", true),
            ("agent/*", "agent/a/b", false),
            ("**", "x", true),
            ("**/fix", "fix", true),
            ("**/fix", "a/b/fix", true),
            ("**/fix", "a/b", false),
            ("fix-?", "fix-1", true),
            ("fix-?", "fix-", false),
            ("fix-*-x", "fix-a-b-x", true),
            ("main", "main", true),
            ("main", "Main", false),
        ] {
            assert_eq!(fits(pattern, branch), expected, "{pattern} {branch}");
        }
    }

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
            Some("its author eve is not among the authors")
        );
        let ghost = Traits {
            author: None,
            ..fitting
        };
        assert_eq!(
            why(ghost).as_deref(),
            Some("its author ghost is not among the authors")
        );
        let branch = Traits {
            branch: "main",
            ..fitting
        };
        assert_eq!(
            why(branch).as_deref(),
            Some("its branch main matches none of agent/**, fix-*")
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
