//! The forge and the remote of a change with a pull request: checks before anything is spent, and the worktree at the
//! remote's head.

use crate::blackboard::{self as bb, Project, SettingsVerdict};
use crate::change::{AdoptedBy, HoldKind, ProjectId};
use crate::clock;
use crate::dispatch::interrupt::{Interrupt, Result, Reverted, chain};
use crate::dispatch::run::recover::git_mark;
use crate::dispatch::task::Task;
use crate::dispatch::worktree::preflight::named;
use crate::event::{NewEvent, body};
use crate::failpoint::crash_point;
use crate::git::{Place, RestorePoint, Worktree};
use crate::github::{Answer, Github, GithubError};
use crate::intent::IntentResult;
use crate::proposal::{Decision, decision};
use crate::pull_request::{PostReviews, Pull, PullState};
use crate::remote::{Ours, Remote, RemoteError, Undone};
use crate::secret::Secret;
use crate::text::short_sha;

/// Reason for ending a fix that was running when a person reverted an earlier one.
pub(crate) const REVERTED_REASON: &str =
    "a person reverted a fix; automatic fixes are off until a person resumes them";

/// Function that returns the bare clone of a project.
pub(crate) type RepositoryOf = Box<dyn Fn(&Project) -> Remote + Send + Sync>;

/// Returns the reason if the rules of a project do not accept a pull request.
pub(crate) type PassesOver = Box<dyn Fn(&ProjectId, &Pull) -> Option<String> + Send + Sync>;

/// Access to the forge, built from the configuration.
pub(crate) struct ForgeSettings {
    pub(crate) github: Github,
    /// A project without a URL has one too, for its gates.
    pub(crate) repository: RepositoryOf,
    pub(crate) passes_over: PassesOver,
    pub(crate) reviews: PostReviews,
    /// Secrets that must never be pushed or posted.
    pub(crate) secrets: Vec<Secret>,
}

impl ForgeSettings {
    /// None: the project has no URL to push to.
    pub(crate) fn remote(&self, project: &Project) -> Option<Remote> {
        project
            .remote_url
            .is_some()
            .then(|| (self.repository)(project))
    }
}

impl Task {
    /// `owner/name` and number, for a change that has a pull request.
    pub(crate) fn pull_name(&self) -> Option<(String, i64)> {
        self.project.repo.clone().zip(self.change.pr_number)
    }

    /// Checks that the pull request is open, else ends the change; that the rules that adopted it still accept it, else
    /// pauses the change; and that its branch is not GitHub's default branch by now.
    pub(crate) async fn look_at_pull(&self) -> Result<()> {
        let Some((repo, number)) = self.pull_name() else {
            return Ok(());
        };
        let forge = &self.dispatch.settings.forge;
        let pull = match forge.github.pull(&repo, number, None).await? {
            Answer::New { value, .. } => value,
            // No ETag was sent.
            Answer::Unchanged => return Ok(()),
        };
        if pull.state == PullState::Open && pull.default_branch == self.change.branch {
            return Err(Interrupt::fail(
                format!(
                    "{} is the default branch of {repo}; remand never pushes to it",
                    self.change.branch
                ),
                "make another branch the default there, or open the PR from a separate branch",
            ));
        }
        let id = self.change.change_id.clone();
        if pull.state == PullState::Open {
            let is_theirs = self.change.adopted_by == Some(AdoptedBy::Discovery);
            let why = (forge.passes_over)(&self.project.project_id, &pull);
            let Some(reason) = why.filter(|_| is_theirs) else {
                return Ok(());
            };
            self.write("unwanted", move |conn| {
                bb::unwanted(conn, &id, &pull, &reason, clock::now())
            })
            .await?;
            return Err(Interrupt::Paused);
        }
        self.write("pull_over", move |conn| {
            let change = bb::change(conn, &id)?;
            bb::over(conn, &change, pull.state, clock::now()).map(drop)
        })
        .await?;
        Err(Interrupt::Fenced)
    }

    /// Returns the remote, if the settings that git would use with its credentials are trusted.
    pub(crate) async fn remote(&self) -> Result<Remote> {
        let remote = self.pinned_remote()?;
        remote.ready().await?;
        self.with_trusted_settings(&remote).await?;
        Ok(remote)
    }

    /// An agent that is not confined can write the user's git configuration: credentials are used only with settings that
    /// no agent can have changed, or that a person accepted.
    pub(crate) async fn with_trusted_settings(&self, remote: &Remote) -> Result<()> {
        let settings = remote.push_settings().await?;
        let id = self.change.change_id.clone();
        let judged = self.write("git_settings", move |conn| {
            let settings = bb::GitSettings {
                fingerprint: &settings.fingerprint,
                keys: &settings.keys,
            };
            bb::judge_git_settings(conn, &id, settings, clock::now())
        });
        match judged.await? {
            SettingsVerdict::Trusted => Ok(()),
            SettingsVerdict::AskedAt(other) => Err(Interrupt::hold(format!(
                "git settings that affect pushes have changed; see {other} for the decision"
            ))),
            SettingsVerdict::Ask { keys } => {
                let which = match keys.as_slice() {
                    [] => String::new(),
                    keys => format!(" ({})", named(keys)),
                };
                Err(Interrupt::fail(
                    format!(
                        "git settings that affect pushes changed while an agent was running{which}: nothing is pushed"
                    ),
                    decision!(
                        "if you made these changes, run {accept}; if not, remove them from your git configuration",
                        accept = Decision::command(format!(
                            "remand retry {} --accept-git-settings",
                            self.change.change_id
                        )),
                    ),
                ))
            }
        }
    }

    /// After a run, settings that are still the trusted ones were not changed by it, so a later change is the user's.
    /// If the check fails, the question is left until credentials are needed.
    pub(crate) async fn see_settings(&self) -> Result<()> {
        let remote = self.dispatch.settings.forge.remote(&self.project);
        let Some(remote) = remote.filter(|_| self.follows_remote()) else {
            return Ok(());
        };
        let remote = remote.marked(&git_mark(&self.change.worktree));
        let Ok(settings) = remote.push_settings().await else {
            return Ok(());
        };
        Ok(self
            .write("see_settings", move |conn| {
                bb::see_git_settings(conn, &settings.fingerprint, clock::now())
            })
            .await?)
    }

    fn pinned_remote(&self) -> Result<Remote> {
        let remote = self.dispatch.settings.forge.remote(&self.project);
        let remote = remote.ok_or_else(|| {
            let id = &self.project.project_id;
            Interrupt::fail(
                format!("the project {id} has no URL to push to"),
                "set one with `remand project add PATH --url URL`",
            )
        })?;
        // Its processes that a killed daemon left are ended with its git in the worktree, before anything is done
        // there.
        Ok(remote.marked(&git_mark(&self.change.worktree)))
    }

    /// Returns the bare clone, for steps that need no URL.
    pub(crate) fn own_repository(&self) -> Remote {
        (self.dispatch.settings.forge.repository)(&self.project)
            .marked(&git_mark(&self.change.worktree))
    }

    /// Fetches the branch into the bare clone and returns its head.
    pub(crate) async fn remote_head(&self, remote: &Remote) -> Result<String> {
        remote.ready().await?;
        let branch = &self.change.branch;
        let head = remote.fetch(branch).await?;
        head.ok_or_else(|| branch_gone(branch))
    }

    /// Brings the worktree to the remote's head: commits pushed by others are brought in; commits that are only local
    /// have to be pushed by a person.
    pub(crate) async fn sync(&self, worktree: Worktree) -> Result<Worktree> {
        if !self.change.has_pr() {
            return Ok(worktree);
        }
        let remote = self.remote().await?;
        let theirs = self.remote_head(&remote).await?;
        let place = &worktree.place;
        let here = worktree.head.clone().ok_or_else(|| self.no_branch())?;
        if theirs == here {
            return Ok(worktree);
        }
        self.git.bring_in(place, remote.path(), &theirs).await?;
        self.check_not_reverted(&remote, &theirs).await?;
        let branch = &self.change.branch;
        if self.git.is_ancestor(place, &here, &theirs).await? {
            self.git
                .forward(place, self.head_at(), &here, &theirs)
                .await?;
        } else if !self.git.is_ancestor(place, &theirs, &here).await? {
            if self.was_on_remote(place, &here).await? {
                self.follow(place, &here, &theirs).await?;
                return Ok(self.git.look(place).await?);
            }
            return Err(Interrupt::fail(
                format!(
                    "{branch} is at {} on the remote and at {} in the worktree, and neither contains the other",
                    short_sha(&theirs),
                    short_sha(&here)
                ),
                format!(
                    "merge or rebase in {}, push, then retry",
                    self.change.worktree
                ),
            ));
        } else if self.was_taken_off(&theirs, &here).await? {
            self.go_back(place, &theirs, &here).await?;
        } else {
            return Err(Interrupt::fail(
                format!(
                    "{} has commits that are not on the remote ({})",
                    self.change.worktree,
                    short_sha(&here)
                ),
                "push them, or remove them from the branch, then retry",
            ));
        }
        Ok(self.git.look(place).await?)
    }

    /// Fails if a person reverted a fix of remand: it must not be made again. Each revert is reported once.
    pub(crate) async fn check_not_reverted(&self, remote: &Remote, head: &str) -> Result<()> {
        let mut pushes = self.pushes_that(IntentResult::Done).await?;
        let Some(last) = pushes.last().map(|(_, ours)| ours.after.clone()) else {
            return Ok(());
        };
        let mut told: Option<Undone> = None;
        let mut keys = Vec::new();
        loop {
            let ours: Vec<Ours> = pushes.iter().map(|(_, ours)| ours.clone()).collect();
            let Some(undone) = remote.undone(&last, head, &ours).await? else {
                break;
            };
            let is_undone = |(_, ours): &mut (String, Ours)| ours.after == undone.after;
            keys.extend(pushes.extract_if(.., is_undone).map(|(key, _)| key));
            told.get_or_insert(undone);
        }
        let Some(undone) = told else { return Ok(()) };
        let who = undone.by.unwrap_or_else(|| "someone".to_owned());
        let reason = format!(
            "{who} reverted fix {} with {}; automatic fixes are off until a person resumes them",
            short_sha(&undone.ours),
            short_sha(&undone.commit)
        );
        Err(Interrupt::Reverted(Reverted {
            reason,
            pushes: keys,
            head: head.to_owned(),
        }))
    }

    /// The pushes of this change with this result, oldest first, each with its key.
    async fn pushes_that(&self, result: IntentResult) -> Result<Vec<(String, Ours)>> {
        let id = self.change.change_id.clone();
        let pushes = self
            .read(move |conn| bb::intents_of(conn, &id, bb::IntentKind::Push))
            .await?;
        let ended = pushes.iter().filter(|push| push.result == Some(result));
        let ours = |push: &bb::Intent| {
            let pushed = push.payload.push()?.clone();
            let (before, after) = (pushed.from, pushed.to);
            Some((push.key.clone(), Ours { before, after }))
        };
        Ok(ended.filter_map(ours).collect())
    }

    /// Returns the head of the remote branch if an agent pushed it: a commit that nobody expects there and that exists
    /// in the local repository. A failed check must not keep a person waiting.
    pub(crate) async fn pushed_from_here(&self, place: &Place, expected: &str) -> Option<String> {
        if !self.change.has_pr() {
            return None;
        }
        let look = async {
            let theirs = self.remote_head(&self.remote().await?).await?;
            let is_known = theirs == expected || theirs == self.change_now().await?.head;
            let is_here = !is_known && self.git.resolve(place, &theirs).await?.is_some();
            Ok::<_, Interrupt>(is_here.then_some(theirs))
        };
        look.await.unwrap_or_else(|stop| {
            tracing::warn!(change = %self.change.change_id, why = ?stop, "cannot read the remote");
            None
        })
    }

    /// True if the worktree's commit can be left without losing work: the remote had it before somebody rewrote the
    /// branch.
    async fn was_on_remote(&self, place: &Place, sha: &str) -> Result<bool> {
        let (id, at) = (self.change.change_id.clone(), sha.to_owned());
        let is_known = self
            .read(move |conn| bb::was_on_remote(conn, &id, &at))
            .await?;
        Ok(is_known || self.git.was_brought_in(place, sha).await?)
    }

    /// Follows a rewritten branch. Recorded first: once the worktree is there, a rewritten branch cannot be recognised
    /// any more.
    async fn follow(&self, place: &Place, here: &str, theirs: &str) -> Result<()> {
        let summary = format!(
            "{} was rewritten on the remote: the worktree moves to {}; {} is kept on refs/remand/wip/rewritten-{here}",
            self.change.branch,
            short_sha(theirs),
            short_sha(here)
        );
        let event = self.undone(here, theirs, summary);
        let (id, to) = (self.change.change_id.clone(), theirs.to_owned());
        self.write("rewritten", move |conn| {
            bb::move_head(conn, &id, &to, clock::now())?;
            bb::append(conn, &event, clock::now()).map(drop)
        })
        .await?;
        crash_point!("git.follow.before");
        self.git.follow(place, self.head_at(), here, theirs).await?;
        crash_point!("git.follow.after");
        Ok(())
    }

    /// The event for commits that are kept on a ref and are no longer in the worktree.
    fn undone(&self, wip: &str, to: &str, summary: String) -> NewEvent {
        let undone = body::EditsUndone {
            wip: Some(wip.to_owned()),
            to: Some(to.to_owned()),
            ..Default::default()
        };
        NewEvent::about(&self.change.change_id, undone, summary)
    }

    /// True if the remote lacks nothing but our own fixes that were removed from the branch there.
    async fn was_taken_off(&self, theirs: &str, here: &str) -> Result<bool> {
        let taken = self.pushes_that(IntentResult::TakenBack).await?;
        Ok(taken.iter().any(|(_, ours)| ours.after == here)
            && taken.iter().any(|(_, ours)| ours.before == theirs))
    }

    async fn go_back(&self, place: &Place, theirs: &str, here: &str) -> Result<()> {
        let run = format!("taken-back-{here}");
        let back = RestorePoint::new(self.head_at(), theirs, &run);
        self.git.put_back(place, back).await?;
        let summary = format!(
            "the worktree was reset to {}, the head on the remote; {} is kept on refs/remand/wip/{run}",
            short_sha(theirs),
            short_sha(here)
        );
        let event = self.undone(here, theirs, summary);
        self.append("went_back", event).await
    }
}

impl From<GithubError> for Interrupt {
    fn from(error: GithubError) -> Self {
        let reason = format!("{} ({})", error, error.hint());
        match error {
            GithubError::Limited { until } => Self::Hold {
                kind: HoldKind::Environment,
                reason,
                until,
            },
            GithubError::NoGh
            | GithubError::LoggedOut
            | GithubError::Auth { .. }
            | GithubError::Transient { .. }
            | GithubError::Broken { .. } => Self::hold(reason),
            GithubError::NotFound { .. } | GithubError::Refused { .. } => {
                Self::fail(reason, "check the pull request, then retry")
            }
        }
    }
}

impl From<RemoteError> for Interrupt {
    fn from(error: RemoteError) -> Self {
        match error {
            RemoteError::Git(error) => error.into(),
            RemoteError::Auth { .. }
            | RemoteError::Unreachable { .. }
            | RemoteError::TimedOut { .. }
            | RemoteError::Busy { .. }
            | RemoteError::Killed { .. }
            | RemoteError::Locked { .. }
            | RemoteError::NoSpace => Self::hold(chain(&error)),
            RemoteError::NotFound { .. }
            | RemoteError::BadUrl { .. }
            | RemoteError::Protocol { .. }
            | RemoteError::NotReady { .. }
            | RemoteError::Missing { .. }
            | RemoteError::Rewrite { .. }
            | RemoteError::Output { .. }
            | RemoteError::Failed { .. }
            | RemoteError::File { .. } => Self::fail(chain(&error), "check the remote, then retry"),
        }
    }
}

/// The branch was deleted on the remote.
pub(crate) fn branch_gone(branch: &str) -> Interrupt {
    Interrupt::fail(
        format!("the branch {branch} no longer exists on the remote"),
        "restore it there, then retry, or close the change",
    )
}

/// Describes the objections to a push of something.
pub(crate) fn objected(what: &str, objections: &[crate::remote::Objection]) -> String {
    let reasons: Vec<String> = objections.iter().map(ToString::to_string).collect();
    format!("{what} must not be pushed: {}", named(&reasons))
}
