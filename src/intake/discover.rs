//! Discovery of pull requests that match a project's rules. Every open one is stored with the reason if it is not
//! adopted; matching ones are adopted, oldest first.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::adopt::{Ask, refusal};
use super::read_failure::{ReadFailure, is_everywhere, not_kept, trouble};
use super::{Intake, IntakeError, Passed, Result};
use crate::blackboard::{self as bb, Conn, Project};
use crate::change::{AdoptedBy, ChangeId};
use crate::clock::{self, Time};
use crate::discover::Discover;
use crate::event::{NewEvent, TargetType, body};
use crate::github::{GithubError, Marks};
use crate::pull_request::{Pull, PullRow, PullState};
use crate::sanitize;

/// Reason why a pull request is not adopted.
struct PassedOver {
    reason: String,
    /// The rules accepted it: somebody may be waiting for it and is informed.
    was_wanted: bool,
}

impl PassedOver {
    fn although_wanted(reason: String) -> Self {
        let was_wanted = true;
        Self { reason, was_wanted }
    }
}

impl Intake {
    /// Projects with discovery rules that are due.
    pub(super) async fn looking(&self) -> bb::Result<Vec<Project>> {
        let all = self.db.read(|conn| {
            let with_row =
                |project: Project| Ok((bb::discovery(conn, &project.project_id)?, project));
            let projects = bb::list_projects(conn)?.into_iter();
            projects.map(with_row).collect::<bb::Result<Vec<_>>>()
        });
        let now = clock::now();
        let mut looking = Vec::new();
        for (row, project) in all.await? {
            let has_place = project.repo.is_some() && project.remote_url.is_some();
            let rules = (self.settings.rules)(&project.project_id).discover;
            if has_place && rules.is_some() {
                if row.next_read.is_none_or(|next| next <= now) {
                    looking.push(project);
                }
            } else if row.next_read.is_some() {
                // It was checked before its settings changed.
                self.db
                    .write("end_discovery", move |conn| {
                        bb::end_discovery(conn, &project.project_id)
                    })
                    .await?;
            }
        }
        Ok(looking)
    }

    pub(super) async fn discover_or_put_off(
        &self,
        project: &Project,
        in_the_way: &mut Option<GithubError>,
    ) -> bb::Result<Passed> {
        let Some(rules) = (self.settings.rules)(&project.project_id).discover else {
            return Ok(Passed::default());
        };
        let mut passed = Passed {
            reads: 1,
            ..Passed::default()
        };
        let (trouble, marks) = match self.spent().await? {
            Some(spent) => (Some(spent), None),
            None => {
                let looked = match in_the_way {
                    Some(error) => Err(error.clone().into()),
                    None => self.discover(project, &rules, &mut passed).await,
                };
                *in_the_way = match &looked {
                    Err(IntakeError::Github(error)) => Some(error.clone()).filter(is_everywhere),
                    Ok(_) | Err(_) => None,
                };
                match looked {
                    Ok(marks) => (None, marks),
                    Err(IntakeError::Github(error)) => {
                        (Some(self.not_had(project, &error).await?), None)
                    }
                    Err(IntakeError::Board(error)) if error.is_everywhere() => return Err(error),
                    // An error that concerns one project must not skip those after it.
                    Err(error) => (Some(self.not_kept(project, &error)), None),
                }
            }
        };
        let id = project.project_id.clone();
        let next = self.settings.next_read(clock::now());
        self.db
            .write("discovery", move |conn| {
                let looked = bb::Looked {
                    trouble: trouble
                        .as_ref()
                        .map(|trouble| (trouble.code, trouble.reason.as_str())),
                    next_read: trouble.as_ref().map_or(next, |trouble| trouble.next_read),
                    marks: marks.as_ref(),
                };
                bb::set_discovery(conn, &id, &looked, clock::now())
            })
            .await?;
        Ok(passed)
    }

    fn not_kept(&self, project: &Project, error: &IntakeError) -> ReadFailure {
        let trouble = not_kept(error, self.settings.next_read(clock::now()));
        let (project, again_at) = (project.project_id.as_str(), trouble.next_read);
        tracing::error!(project, %again_at, ?error, "cannot store discovered pull requests");
        trouble
    }

    async fn not_had(&self, project: &Project, error: &GithubError) -> bb::Result<ReadFailure> {
        let known = self.db.read_of(&project.project_id, bb::discovery).await?;
        let trouble = trouble(error, known.failures, self.settings.backoff(), clock::now());
        let (project, again_at) = (project.project_id.as_str(), trouble.next_read);
        tracing::warn!(project, %again_at, %error, "cannot discover pull requests");
        Ok(trouble)
    }

    /// Marks of the list when nothing on it is left to do: as long as the list and the rules stay the same, the next
    /// check uses none of the rate limit and changes nothing.
    async fn discover(
        &self,
        project: &Project,
        rules: &Discover,
        passed: &mut Passed,
    ) -> Result<Option<Value>> {
        let repo = project.repo.clone().unwrap_or_default();
        let row = self.db.read_of(&project.project_id, bb::discovery).await?;
        let known = row.marks;
        let settled = |marks: &Marks| json!({ "rules": rules, "project": project, "pages": marks });
        let pages = known
            .as_ref()
            .and_then(|known| Marks::deserialize(&known["pages"]).ok());
        if let Some(pages) = pages.filter(|pages| known.as_ref() == Some(&settled(pages))) {
            let listed = self.github.open_pulls(&repo, &pages).await?;
            if listed.items.is_empty() && listed.marks == pages {
                return Ok(known);
            }
        }
        // The content of a page depends on the others: a list that has changed is read completely.
        let listed = self.github.open_pulls(&repo, &Marks::default()).await?;
        // A list that changes while it is read may contain an entry twice.
        let pulls = listed.items.into_iter().map(|pull| (pull.number, pull));
        let pulls: BTreeMap<i64, Pull> = pulls.collect();
        let mut waits = false;
        let (seen_of, looked) = (project.clone(), rules.clone());
        let fitting = self.db.write("discover", move |conn| {
            see_all(conn, &seen_of, &looked, &pulls, clock::now())
        });
        for pull in fitting.await? {
            let reason = match self.take_or_pass_over(project, rules, &pull).await {
                Ok(is_new) => {
                    passed.adopted += usize::from(is_new);
                    continue;
                }
                Err(error @ IntakeError::Github(_)) => return Err(error),
                Err(IntakeError::Board(error)) if error.is_everywhere() => return Err(error.into()),
                Err(IntakeError::Board(error)) => sanitize::chain(&error),
                Err(IntakeError::Refused { what, .. }) => what,
                Err(IntakeError::Git(error)) => error.to_string(),
            };
            waits = true;
            self.pass_over(project, &pull, reason).await?;
        }
        Ok((!waits).then(|| settled(&listed.marks)))
    }

    async fn take_or_pass_over(
        &self,
        project: &Project,
        rules: &Discover,
        pull: &Pull,
    ) -> Result<bool> {
        let id = &project.project_id;
        let open = self.db.read_of(id, bb::open_adoptions).await?;
        if usize::try_from(open).is_ok_and(|open| open >= rules.max_open) {
            let what = format!("{open} are already open (max_open)");
            return Err(IntakeError::Refused { what, hint: None });
        }
        let ask = Ask {
            project: project.clone(),
            number: pull.number,
            by: AdoptedBy::Discovery,
            actor: "remand".to_owned(),
            seen: Some(pull.clone()),
            worktree: None,
            max_fix_cycles: None,
            title: None,
            shadow: None,
        };
        Ok(self.adopt(&ask).await?.is_new)
    }

    async fn pass_over(&self, project: &Project, pull: &Pull, reason: String) -> bb::Result<()> {
        let (project, pull) = (project.clone(), pull.clone());
        let why = PassedOver::although_wanted(reason);
        self.db
            .write("pass_over", move |conn| {
                see(conn, &project, &pull, &why, clock::now())
            })
            .await
    }
}

/// Stores all open pull requests and returns those that match the rules, oldest first.
fn see_all(
    conn: &Conn,
    project: &Project,
    rules: &Discover,
    pulls: &BTreeMap<i64, Pull>,
    now: Time,
) -> bb::Result<Vec<Pull>> {
    let mut fitting = Vec::new();
    for pull in pulls.values() {
        if let Some(known) = bb::pull_row(conn, &project.project_id, pull.number)?
            && let Some(change_id) = known.change_id.clone()
        {
            look_again(conn, &known, &change_id, now)?;
            continue;
        }
        let by_rules = rules.passes_over(pull).map(|reason| PassedOver {
            reason,
            was_wanted: false,
        });
        let had_its_turn = bb::pruned_pull(conn, &project.project_id, pull.number)?;
        let refused = || refusal(pull, project).map(|refused| refused.to_string());
        let otherwise = || {
            had_its_turn
                .or_else(refused)
                .map(PassedOver::although_wanted)
        };
        // A matching one keeps its reason until it is adopted or gets another reason.
        match by_rules.or_else(otherwise) {
            Some(why) => see(conn, project, pull, &why, now)?,
            None => fitting.push(pull.clone()),
        }
    }
    let numbers: Vec<i64> = pulls.keys().copied().collect();
    bb::end_unadopted(conn, &project.project_id, &numbers)?;
    Ok(fitting)
}

/// An adopted one is read by itself; if its change has ended and it is open again, it is read once more.
fn look_again(conn: &Conn, row: &PullRow, change_id: &ChangeId, now: Time) -> bb::Result<()> {
    if row.next_read.is_none() && row.state == PullState::Closed {
        bb::want_read(conn, change_id, now)?;
    }
    Ok(())
}

/// The row has the reason for every pull request that is passed over, and `why` shows it. An event is appended only if
/// the rules matched it now or before: not for hundreds of others, nor for each new reason.
fn see(conn: &Conn, project: &Project, pull: &Pull, why: &PassedOver, now: Time) -> bb::Result<()> {
    let (id, reason) = (&project.project_id, why.reason.as_str());
    let before = bb::pull_row(conn, id, pull.number)?;
    bb::see_pull(conn, id, pull, Some(reason))?;
    if !before.map_or(why.was_wanted, |before| before.passed_over.is_none()) {
        return Ok(());
    }
    let repo = project.repo.as_deref().unwrap_or_default();
    let name = format!("{repo}#{}", pull.number);
    let summary = format!("{name} is not adopted: {reason}");
    let skipped = body::Skipped {
        pull: Some(name),
        ..body::Skipped::because(body::SkipCode::NotTakenOver, reason)
    };
    let event = NewEvent::new(skipped, summary).on(TargetType::Project, id);
    bb::append(conn, &event, now).map(drop)
}
