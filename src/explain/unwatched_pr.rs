//! Explains why a pull request is not watched, for `why` and `show`.

use serde::Serialize;

use super::because::Because;
use super::explanation::Explanation;
use super::facts::{Around, Daemon, pr_name};
use crate::blackboard::{self as bb, Conn, Discovery, Project};
use crate::discover::Discover;
use crate::human_time::{ago, ahead};
use crate::pull_request::{PullRow, PullState};

/// Pull request that is not watched, with everything known about it.
#[derive(Debug, Serialize)]
pub(crate) struct UnwatchedPr {
    /// Name of the pull request, as `owner/repo#7`.
    pub(crate) pr: String,
    pub(crate) project_id: String,
    /// `None` if it was never seen.
    pub(crate) pull: Option<PullRow>,
    pub(crate) discovery: Discovery,
    /// Rules of the project in words; `None` if it does not look for pull requests.
    pub(crate) rules: Option<String>,
    /// True if the project has no URL to push to.
    pub(crate) lacks_url: bool,
}

impl UnwatchedPr {
    pub(crate) fn gather(
        conn: &Conn,
        project: &Project,
        number: i64,
        rules: Option<&Discover>,
    ) -> bb::Result<Self> {
        Ok(Self {
            pr: pr_name(project, number),
            project_id: project.project_id.to_string(),
            pull: bb::pull_row(conn, &project.project_id, number)?,
            discovery: bb::discovery(conn, &project.project_id)?,
            rules: rules.map(in_words),
            lacks_url: project.remote_url.is_none(),
        })
    }

    pub(crate) fn explain(&self, around: Around) -> Explanation {
        let project = &self.project_id;
        let not_looked_for = |why: String| {
            let clause = format!("it is not discovered automatically: {why}");
            Explanation::new(Because::NotLookedFor, "", clause)
        };
        let explanation = match (&self.rules, &self.pull) {
            (None, _) => not_looked_for(format!("[projects.{project}.discover] is not set")),
            (Some(_), _) if self.lacks_url => {
                not_looked_for(format!("`{project}` has no push URL"))
            }
            (Some(rules), Some(pull)) => {
                let clause = format!("not watched: {}", why(pull));
                let passed_over = Explanation::new(Because::PassedOver, "it is ", clause);
                self.and_looks(passed_over, rules, around)
            }
            (Some(rules), None) => {
                let not_seen = Explanation::new(Because::NotSeen, "it was ", "never seen open");
                self.and_looks(not_seen, rules, around)
            }
        };
        let is_over = self
            .pull
            .as_ref()
            .is_some_and(|pull| pull.state != PullState::Open);
        let command = match (is_over, self.lacks_url) {
            (true, _) => None,
            (false, true) => Some("remand project add PATH --url URL".to_owned()),
            (false, false) => Some(format!("remand watch {}", self.pr)),
        };
        explanation.since(self.discovery.read_at).commands(command)
    }

    /// Adds the rules of the project, and when it is checked again.
    fn and_looks(&self, explanation: Explanation, rules: &str, around: Around) -> Explanation {
        explanation
            .and(&format!(
                "; the project takes over {rules}; {}",
                self.looks(around)
            ))
            .until(self.discovery.next_read)
    }

    /// Describes when the project was checked, when it is checked again, and what failed.
    fn looks(&self, around: Around) -> String {
        let now = around.now;
        let last = match (&self.discovery.trouble, self.discovery.read_at) {
            (Some(trouble), _) => format!("the last check failed: {trouble}"),
            (None, Some(read_at)) => format!("last checked {}", ago(read_at, now)),
            (None, None) => "not checked yet".to_owned(),
        };
        match (around.daemon, self.discovery.next_read) {
            (Daemon::None, _) => format!("{last}, and no daemon is running"),
            (_, Some(next)) => format!("{last}, next check {}", ahead(next, now)),
            (_, None) => last,
        }
    }
}

fn why(pull: &PullRow) -> String {
    pull.passed_over
        .clone()
        .unwrap_or_else(|| "it will be taken over at the next check".to_owned())
}

fn in_words(rules: &Discover) -> String {
    let label = rules.label.as_ref();
    let label = label.map(|label| format!("with the label `{label}`"));
    let mut said = Vec::from_iter(label);
    if !rules.authors.is_empty() {
        said.push(format!("by {}", rules.authors.join(" or ")));
    }
    if !rules.branches.is_empty() {
        said.push(format!("from {}", rules.branches.join(" or ")));
    }
    let drafts = if rules.drafts {
        "including"
    } else {
        "excluding"
    };
    said.push(format!("{drafts} drafts"));
    said.push(format!("at most {} at a time", rules.max_open));
    format!("PRs {}", said.join(", "))
}
