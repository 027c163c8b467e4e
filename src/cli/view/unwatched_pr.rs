//! A pull request that is not watched, and why: for `why` and `show`.

use anyhow::Result;
use serde::Serialize;

use super::explain::Explanation;
use super::facts::Daemon;
use crate::blackboard::{self as bb, Discovery, Project};
use crate::cli::frame::context::CommandContext;
use crate::cli::frame::pr_ref::{PrRef, whole};
use crate::clock::Time;
use crate::config::discover::Discover;
use crate::human_time::{ago, ahead};
use crate::pull_request::{PullRow, PullState};

/// All that is known of it.
#[derive(Debug, Serialize)]
pub(crate) struct UnwatchedPr {
    /// `owner/repo#7`
    pub(crate) pr: String,
    pub(crate) project_id: String,
    /// None: it was never seen.
    pub(crate) pull: Option<PullRow>,
    pub(crate) discovery: Discovery,
    /// The project's rules in words; none: it looks for no pull requests.
    pub(crate) rules: Option<String>,
    /// The project has no URL to push to.
    pub(crate) lacks_url: bool,
    #[serde(skip)]
    daemon: Daemon,
}

impl UnwatchedPr {
    pub(crate) fn look(ctx: &CommandContext, name: &PrRef) -> Result<Self> {
        let project = name.project(ctx)?;
        let settings = ctx.settings()?;
        let Project {
            project_id,
            remote_url,
            ..
        } = &project;
        let (pull, discovery) = ctx.read(|conn| {
            Ok((
                bb::pull_row(conn, project_id, name.number)?,
                bb::discovery(conn, project_id)?,
            ))
        })?;
        Ok(Self {
            pr: whole(&project, name.number),
            project_id: project_id.to_string(),
            pull,
            discovery,
            rules: settings
                .project(project_id.as_str())
                .discover
                .as_ref()
                .map(in_words),
            lacks_url: remote_url.is_none(),
            daemon: ctx.around()?.daemon,
        })
    }

    pub(crate) fn answer(&self, now: Time) -> Explanation {
        let (because, answer) = match (&self.rules, &self.pull) {
            (None, _) => {
                let project = &self.project_id;
                (
                    "not_looked_for",
                    format!("nothing looks for it: [projects.{project}.discover] is not set"),
                )
            }
            (Some(_), _) if self.lacks_url => {
                let project = &self.project_id;
                (
                    "not_looked_for",
                    format!("nothing looks for it: `{project}` has no URL that could be pushed to"),
                )
            }
            (Some(rules), Some(pull)) => (
                "passed_over",
                format!("it is not watched: {}; taken over are {rules}", why(pull)),
            ),
            (Some(rules), None) => (
                "not_seen",
                format!("it was never seen open; taken over are {rules}"),
            ),
        };
        let looks = if because == "not_looked_for" {
            String::new()
        } else {
            format!("; {}", self.looks(now))
        };
        let commands = if self
            .pull
            .as_ref()
            .is_some_and(|pull| pull.state != PullState::Open)
        {
            Vec::new()
        } else if self.lacks_url {
            vec!["remand project add PATH --url URL".to_owned()]
        } else {
            vec![format!("remand watch {}", self.pr)]
        };
        let until = if looks.is_empty() {
            None
        } else {
            self.discovery.next_read
        };
        Explanation {
            because,
            answer: format!("{answer}{looks}"),
            since: self.discovery.read_at,
            until,
            commands,
        }
    }

    /// When it was looked, when it is looked again, and what was in the way.
    fn looks(&self, now: Time) -> String {
        let last = match (&self.discovery.trouble, self.discovery.read_at) {
            (Some(trouble), _) => format!("the last look failed: {trouble}"),
            (None, Some(read_at)) => format!("looked {}", ago(read_at, now)),
            (None, None) => "not looked yet".to_owned(),
        };
        match (self.daemon, self.discovery.next_read) {
            (Daemon::None, _) => format!("{last}, and no daemon runs that would look again"),
            (_, Some(next)) => format!("{last}, again {}", ahead(next, now)),
            (_, None) => last,
        }
    }
}

fn why(pull: &PullRow) -> String {
    pull.passed_over
        .clone()
        .unwrap_or_else(|| "the next look takes it over".to_owned())
}

fn in_words(rules: &Discover) -> String {
    let mut said = Vec::new();
    said.extend(
        rules
            .label
            .as_ref()
            .map(|label| format!("with the label `{label}`")),
    );
    if !rules.authors.is_empty() {
        said.push(format!("by {}", rules.authors.join(" or ")));
    }
    if !rules.branches.is_empty() {
        said.push(format!("from {}", rules.branches.join(" or ")));
    }
    said.push(
        if rules.drafts {
            "drafts too"
        } else {
            "no drafts"
        }
        .to_owned(),
    );
    said.push(format!("at most {} at once", rules.max_open));
    format!("those {}", said.join(", "))
}
