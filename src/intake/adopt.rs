//! Adoption of an existing pull request: requests by name and matches of a project's rules take the same path.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::worktree_choice::{self, Wanted};
use super::{Intake, IntakeError, Result};
use crate::blackboard::{self as bb, Adoption, BoardError, Conn, NewChange, Project};
use crate::change::{AdoptedBy, Change, State};
use crate::clock;
use crate::git::check_branch_name;
use crate::github::{Answer, CommentList, Github, GithubError, KeptPages, Marks};
use crate::pull_request::{
    Author, AuthorKind, Comment, Pull, PullState, Purpose, ReviewState, is_by_a_remand,
};
use crate::sanitize;

/// Longer titles are cut.
const TITLE: usize = 200;

/// A request to adopt a pull request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) project: Project,
    pub(crate) number: i64,
    pub(crate) by: AdoptedBy,
    pub(crate) actor: String,
    /// The pull request as just listed; if none, it is fetched.
    pub(crate) seen: Option<Pull>,
    /// None: the worktree on its branch, or a managed one.
    pub(crate) worktree: Option<PathBuf>,
    /// None: decided by the rules.
    pub(crate) max_fix_cycles: Option<i64>,
    /// None: the base of the pull request.
    pub(crate) title: Option<String>,
    /// None: the setting of its project.
    pub(crate) shadow: Option<bool>,
}

/// Result of an adoption.
#[derive(Debug, Clone)]
pub(crate) struct Adopted {
    pub(crate) change: Change,
    /// Set if it was not watched before.
    pub(crate) is_new: bool,
}

/// Reason why a pull request cannot be adopted, independent of who requests it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it is already {0}")]
    Over(PullState),
    #[error("its branch is in a fork")]
    Fork,
    #[error("its branch is the project's default branch")]
    DefaultBranch,
    #[error("{0}")]
    BranchName(String),
}

impl Refusal {
    fn hint(&self) -> &'static str {
        match self {
            Self::Over(_) => "only open pull requests are watched",
            Self::Fork => {
                "nothing can be pushed there: push the branch to the repository itself and open a PR from it"
            }
            Self::DefaultBranch => "remand never pushes to it: open the PR from a separate branch",
            Self::BranchName(_) => {
                "open the PR from a branch whose name contains only letters, digits and . _ / -"
            }
        }
    }
}

pub(super) fn refusal(pull: &Pull, project: &Project) -> Option<Refusal> {
    if pull.state != PullState::Open {
        return Some(Refusal::Over(pull.state));
    }
    if pull.is_fork() {
        return Some(Refusal::Fork);
    }
    if [&project.default_branch, &pull.default_branch].contains(&&pull.head_ref) {
        return Some(Refusal::DefaultBranch);
    }
    let names = [&pull.head_ref, &pull.base_ref];
    names
        .iter()
        .find_map(|name| check_branch_name(name).err())
        .map(|bad| Refusal::BranchName(bad.to_string()))
}

impl Intake {
    /// Adopts a pull request; one that is already watched stays unchanged, and the forge is not asked.
    pub(crate) async fn adopt(&self, ask: &Ask) -> Result<Adopted> {
        let project = &ask.project;
        let (id, number) = (project.project_id.clone(), ask.number);
        if let Some(change) = self.db.read(move |conn| watched(conn, &id, number)).await? {
            return Ok(Adopted {
                change,
                is_new: false,
            });
        }
        let repo = repo_to_push_to(project)?;
        let pull = self.seen(ask, repo).await?;
        let name = format!("{repo}#{number}");
        if let Some(refused) = refusal(&pull, project) {
            let what = format!("cannot watch {name}: {refused}");
            return Err(IntakeError::refused(what, refused.hint()));
        }
        let (id, branch) = (project.project_id.clone(), pull.head_ref.clone());
        let refuse = self.db.read(move |conn| refuse_twin(conn, &id, &branch));
        refuse.await?;
        let rules = (self.settings.rules)(&project.project_id);
        let wanted = Wanted {
            project,
            rules: &rules,
            branch: &pull.head_ref,
            number,
        };
        let place = match &ask.worktree {
            Some(path) => worktree_choice::named(&self.git, &wanted, path).await?,
            None => worktree_choice::found_or_planned(&self.git, &wanted).await?,
        };
        let state = self.entry_state(repo, &pull).await?;
        let fetch = Github::begin_fetch(self.settings.fetch_limit, KeptPages::default());
        let purpose =
            Box::pin(self.purpose(&fetch, repo, Some(&pull), &Purpose::default())).await?;
        let change = NewChange {
            project_id: project.project_id.clone(),
            title: title(ask, &pull),
            branch: pull.head_ref.clone(),
            base: pull.base_ref.clone(),
            head: pull.head_sha.clone(),
            worktree: place.path,
            host: self.settings.host.clone(),
            state,
            bounds: rules.bounds,
            review: rules.review,
            own_max_fix_cycles: ask.max_fix_cycles,
            shadow: ask.shadow,
            actor: ask.actor.clone(),
        };
        let adoption = Adoption {
            change,
            pull,
            purpose,
            repo: repo.to_owned(),
            by: ask.by,
            own_worktree: place.is_own,
        };
        let step = move |conn: &Conn| bb::adopt(conn, &adoption, clock::now());
        let (change, is_new) = self.db.write("adopt", step).await?;
        self.after.notify_one();
        Ok(Adopted { change, is_new })
    }

    async fn seen(&self, ask: &Ask, repo: &str) -> Result<Pull> {
        if let Some(seen) = &ask.seen {
            return Ok(seen.clone());
        }
        match self.github.pull(repo, ask.number, None).await? {
            Answer::New { value, .. } => Ok(value),
            Answer::Unchanged => {
                let path = format!("{repo}#{}", ask.number);
                let what = "unexpected response: 304 Not Modified".to_owned();
                Err(GithubError::Broken { path, what }.into())
            }
        }
    }

    /// A pull request that a person with write permission has approved at this head, without any objection, needs no
    /// review by remand.
    async fn entry_state(&self, repo: &str, pull: &Pull) -> Result<State> {
        let none = Marks::default();
        let reviews = self
            .github
            .comments(CommentList::Reviews, repo, pull.number, &none);
        let reviews = reviews.await?.items;
        let mut is_approved = false;
        for (author, verdict) in standing(&reviews, &pull.head_sha) {
            let may_make_work = match author.kind {
                AuthorKind::User => self.permission(repo, author).await?.may_write(),
                AuthorKind::Bot => self.settings.bots.contains(&author.id),
                AuthorKind::Other => false,
            };
            match verdict {
                ReviewState::ChangesRequested if may_make_work => {
                    return Ok(State::AwaitingPrFeedback);
                }
                ReviewState::Approved if may_make_work && author.kind == AuthorKind::User => {
                    is_approved = true;
                }
                ReviewState::Approved
                | ReviewState::ChangesRequested
                | ReviewState::Commented
                | ReviewState::Dismissed
                | ReviewState::Pending => {}
            }
        }
        Ok(if is_approved {
            State::Approved
        } else {
            State::AwaitingPrFeedback
        })
    }
}

/// The latest verdict of each author on this head. Comments do not withdraw a verdict, and posts that remand made with
/// an author's account do not count.
pub(super) fn standing<'a>(reviews: &'a [Comment], head: &str) -> Vec<(&'a Author, ReviewState)> {
    let mut last: BTreeMap<i64, (&Author, ReviewState, bool)> = BTreeMap::new();
    for review in reviews
        .iter()
        .filter(|review| !is_by_a_remand(&review.body))
    {
        let (Some(author), Some(state)) = (&review.author, review.state) else {
            continue;
        };
        match state {
            ReviewState::Approved | ReviewState::ChangesRequested | ReviewState::Dismissed => {
                let is_of_head = review.commit.as_deref() == Some(head);
                last.insert(author.id, (author, state, is_of_head));
            }
            ReviewState::Commented | ReviewState::Pending => {}
        }
    }
    last.into_values()
        .filter(|(_, _, is_of_head)| *is_of_head)
        .map(|(author, state, _)| (author, state))
        .collect()
}

/// The live change of a pull request.
fn watched(conn: &Conn, id: &crate::change::ProjectId, number: i64) -> bb::Result<Option<Change>> {
    let Some(change_id) = bb::pull_row(conn, id, number)?.and_then(|row| row.change_id) else {
        return Ok(None);
    };
    Ok(Some(bb::change(conn, &change_id)?).filter(|change| !change.state.is_over()))
}

fn refuse_twin(conn: &Conn, id: &crate::change::ProjectId, branch: &str) -> bb::Result<()> {
    let Some(twin) = bb::live_change_on(conn, id, branch)? else {
        return Ok(());
    };
    let (change, worktree) = (&twin.change_id, &twin.worktree);
    Err(BoardError::Refused {
        what: format!("its branch {branch} already belongs to {change}, in {worktree}"),
        hint: Some(format!(
            "`remand status {change}` shows it; `remand cancel {change}` closes it, after which you can watch the PR"
        )),
    })
}

/// The name on the forge of a project that can be pushed to.
fn repo_to_push_to(project: &Project) -> Result<&str> {
    let (id, path) = (&project.project_id, &project.path);
    let lacks = |what: &str| format!("the project `{id}` has no {what}");
    let Some(repo) = &project.repo else {
        let hint = format!("`remand project add {path} --repo OWNER/NAME`");
        return Err(IntakeError::refused(lacks("name on GitHub"), hint));
    };
    if project.remote_url.is_none() {
        let hint = format!("`remand project add {path} --url URL` sets where its fixes are pushed");
        return Err(IntakeError::refused(lacks("URL to push fixes to"), hint));
    }
    Ok(repo)
}

fn title(ask: &Ask, pull: &Pull) -> String {
    let text = ask.title.as_deref().unwrap_or(&pull.title);
    let text: String = sanitize::line(text.trim()).chars().take(TITLE).collect();
    if text.is_empty() {
        pull.head_ref.clone()
    } else {
        text
    }
}
