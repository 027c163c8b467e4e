//! Discovery of pull requests that match a project's rules. Every open one is stored with the reason if it is not
//! adopted; matching ones are adopted, oldest first.

use std::collections::BTreeMap;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::adopt::{Ask, refusal};
use super::read_failure::{ReadFailure, is_everywhere, not_kept, trouble};
use super::{Intake, IntakeError, Passed, Result};
use crate::blackboard::{self as bb, Conn, Project};
use crate::change::{AdoptedBy, ChangeId, ProjectId};
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

impl Intake {
    /// Projects with discovery rules that are due.
    pub(super) async fn looking(&self) -> bb::Result<Vec<Project>> {
        let all = self
            .db
            .read(|conn| {
                let with_row =
                    |project: Project| Ok((bb::discovery(conn, &project.project_id)?, project));
                bb::list_projects(conn)?
                    .into_iter()
                    .map(with_row)
                    .collect::<bb::Result<Vec<_>>>()
            })
            .await?;
        let now = clock::now();
        let mut looking = Vec::new();
        for (row, project) in all {
            let has_place = project.repo.is_some() && project.remote_url.is_some();
            if has_place
                && (self.settings.rules)(&project.project_id)
                    .discover
                    .is_some()
            {
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
        let failures = self
            .db
            .read_of(&project.project_id, bb::discovery)
            .await?
            .failures;
        let backoff = (self.settings.backoff_first, self.settings.backoff_max);
        let trouble = trouble(error, failures, backoff, clock::now());
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
        let known = self
            .db
            .read_of(&project.project_id, bb::discovery)
            .await?
            .marks;
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
        let pulls: BTreeMap<i64, Pull> = listed
            .items
            .into_iter()
            .map(|pull| (pull.number, pull))
            .collect();
        let mut waits = false;
        let (seen_of, looked) = (project.clone(), rules.clone());
        let fitting = self
            .db
            .write("discover", move |conn| {
                see_all(conn, &seen_of, &looked, &pulls, clock::now())
            })
            .await?;
        for pull in fitting {
            match self.take_or_pass_over(project, rules, &pull).await {
                Ok(is_new) => passed.adopted += usize::from(is_new),
                Err(error @ IntakeError::Github(_)) => return Err(error),
                Err(IntakeError::Board(error)) if error.is_everywhere() => return Err(error.into()),
                Err(IntakeError::Board(error)) => {
                    waits = true;
                    self.pass_over(project, &pull, sanitize::chain(&error))
                        .await?;
                }
                Err(IntakeError::Refused { what, .. }) => {
                    waits = true;
                    self.pass_over(project, &pull, what).await?;
                }
                Err(IntakeError::Git(error)) => {
                    waits = true;
                    self.pass_over(project, &pull, error.to_string()).await?;
                }
            }
        }
        Ok((!waits).then(|| settled(&listed.marks)))
    }

    async fn take_or_pass_over(
        &self,
        project: &Project,
        rules: &Discover,
        pull: &Pull,
    ) -> Result<bool> {
        let open = self
            .db
            .read_of(&project.project_id, bb::open_adoptions)
            .await?;
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
        let why = PassedOver {
            reason,
            was_wanted: true,
        };
        self.db
            .write("pass_over", move |conn| {
                see(conn, &project, &pull, Some(&why), clock::now()).map(drop)
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
        let had_its_turn =
            bb::pruned_pull(conn, &project.project_id, pull.number)?.map(|reason| PassedOver {
                reason,
                was_wanted: true,
            });
        let why = by_rules.or(had_its_turn).or_else(|| {
            refusal(pull, project).map(|refused| PassedOver {
                reason: refused.to_string(),
                was_wanted: true,
            })
        });
        let is_fitting = why.is_none();
        // A matching one keeps its reason until it is adopted or gets another reason.
        if !is_fitting {
            see(conn, project, pull, why.as_ref(), now)?;
        } else {
            fitting.push(pull.clone());
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
fn see(
    conn: &Conn,
    project: &Project,
    pull: &Pull,
    why: Option<&PassedOver>,
    now: Time,
) -> bb::Result<PullRow> {
    let before = bb::pull_row(conn, &project.project_id, pull.number)?;
    let row = bb::see_pull(
        conn,
        &project.project_id,
        pull,
        why.map(|why| why.reason.as_str()),
    )?;
    if let Some(why) = why
        && before
            .as_ref()
            .map_or(why.was_wanted, |before| before.passed_over.is_none())
    {
        bb::append(
            conn,
            &not_taken(
                &project.project_id,
                project.repo.as_deref(),
                pull,
                &why.reason,
            ),
            now,
        )?;
    }
    Ok(row)
}

fn not_taken(project_id: &ProjectId, repo: Option<&str>, pull: &Pull, reason: &str) -> NewEvent {
    let name = format!("{}#{}", repo.unwrap_or_default(), pull.number);
    let summary = format!("{name} is not adopted: {reason}");
    let skipped = body::Skipped {
        pull: Some(name),
        ..body::Skipped::because(body::SkipCode::NotTakenOver, reason)
    };
    NewEvent::new(skipped, summary).on(TargetType::Project, project_id)
}
