//! The pull request of a change that passed its review: gates, push, and the request itself. The claim of the item is
//! the committed intent; before each effect, the remote and the forge are asked whether it was made already.

use super::interrupt::{Interrupt, Result};
use super::task::Task;
use crate::blackboard::{self as bb, NewIntent, OpenedPull};
use crate::change::{FinalVerdict, ReviewStage};
use crate::clock;
use crate::dispatch::remote::pull_request_body::{FindingStory, PullRequestStory, ReviewStory};
use crate::dispatch::remote::remote_sync::objected;
use crate::dispatch::worktree::preflight::named;
use crate::failpoint::crash_point;
use crate::finding::Outcome;
use crate::git::{Worktree, is_agent_config};
use crate::github::{NewPull, Opened, RefusalCause};
use crate::intent::{IntentResult, Payload};
use crate::pull_request::{Pull, PullState};
use crate::remote::{Expected, Push, Pushed, Remote, tells_a_secret};
use crate::text::count;

/// The commit that the pull request is about, and the commit that it branched off.
struct Range<'a> {
    base: &'a str,
    head: &'a str,
}

impl Task {
    pub(super) async fn open_pull(&self) -> Result<()> {
        let repo = self.project.repo.clone().ok_or_else(|| {
            Interrupt::fail(
                format!(
                    "the project {} has no repository on GitHub",
                    self.project.project_id
                ),
                "set one with `remand project add PATH --repo OWNER/NAME --url URL`, then retry",
            )
        })?;
        let worktree = self.ready_worktree().await?;
        let head = self.reviewed_head(&worktree).await?;
        let base = self.base_of(&worktree, &head).await?;
        let range = Range {
            base: &base,
            head: &head,
        };
        self.has_changes(&worktree, &range).await?;
        if let Some(red) = self.red_before_pull(&worktree, &base, &head).await? {
            self.check_cancelled()?;
            return self
                .record("reject_by_gate", move |conn, claim| {
                    bb::reject_by_gate(conn, claim, &red, clock::now()).map(drop)
                })
                .await;
        }
        self.push_branch(&worktree, &range).await?;
        let (pull, found) = self.pull_of_branch(&repo, &worktree, &range).await?;
        let opened = OpenedPull {
            repo,
            pull,
            head,
            found,
        };
        self.record("finish_pull", move |conn, claim| {
            bb::finish_pull(conn, claim, &opened, clock::now()).map(drop)
        })
        .await
    }

    /// Returns the head, which must be the one that was reviewed.
    async fn reviewed_head(&self, worktree: &Worktree) -> Result<String> {
        let head = worktree.head.clone().ok_or_else(|| self.no_branch())?;
        let reviewed = self.change_now().await?.head;
        if head == reviewed {
            return Ok(head);
        }
        Err(self.branch_moved(&reviewed, &head))
    }

    async fn has_changes(&self, worktree: &Worktree, range: &Range<'_>) -> Result<()> {
        let files = self
            .git
            .changed_files(&worktree.place, range.base, range.head);
        if files.await?.is_empty() {
            return Err(self.nothing_to_merge());
        }
        Ok(())
    }

    /// Pushes the branch, checked in our own clone and recorded before.
    async fn push_branch(&self, worktree: &Worktree, range: &Range<'_>) -> Result<()> {
        self.check_cancelled()?;
        if self.is_pushed(range.head).await? {
            return Ok(());
        }
        let branch = &self.change.branch;
        if *branch == self.project.default_branch || *branch == self.change.base {
            return Err(self.is_base_branch());
        }
        let remote = self.remote().await?;
        remote.take(&worktree.place, branch, range.head).await?;
        self.may_be_pushed(worktree, range, &remote).await?;
        let expected = self.expected_on_remote(range, &remote).await?;
        let change = self.change_now().await?;
        if change.paused || change.held_until.is_some() {
            return Err(Interrupt::Paused);
        }
        self.configuration_in_force().await?;
        self.with_trusted_settings(&remote).await?;
        self.intend_branch(range).await?;
        self.dispatch.db.check()?;
        let push = Push {
            branch: branch.clone(),
            expected,
            to: range.head.to_owned(),
        };
        match remote.push(&push).await? {
            Pushed::Done => self.branch_is_pushed(range.head).await,
            Pushed::Ahead(theirs) | Pushed::Moved(Some(theirs)) => Err(self.branch_taken(&theirs)),
            Pushed::Moved(None) => Err(Interrupt::hold(format!(
                "the branch {branch} was deleted on the remote during the push"
            ))),
            Pushed::Conflict(other) => Err(self.no_room_for_branch(&other)),
            Pushed::Refused { rule, message } => Err(self.declined_branch(rule, &message)),
        }
    }

    /// Checks the difference to the base, as for every push.
    async fn may_be_pushed(
        &self,
        worktree: &Worktree,
        range: &Range<'_>,
        remote: &Remote,
    ) -> Result<()> {
        let files = self
            .git
            .changed_files(&worktree.place, range.base, range.head);
        let config: Vec<String> = files
            .await?
            .into_iter()
            .flat_map(|file| std::iter::once(file.path).chain(file.old_path))
            .filter(|path| is_agent_config(path))
            .collect();
        let known = &self.dispatch.settings.forge.secrets;
        let objections = remote
            .objections(range.base, range.head, &self.rules.push, known)
            .await?;
        let reason = if !config.is_empty() {
            format!(
                "the branch must not be pushed: it changes files with instructions for agents ({})",
                named(&config)
            )
        } else if !objections.is_empty() {
            objected("the branch", &objections)
        } else {
            return Ok(());
        };
        Err(self.against_push_rules(reason))
    }

    /// Returns the state of the branch on the remote, which must be ours to move.
    async fn expected_on_remote(&self, range: &Range<'_>, remote: &Remote) -> Result<Expected> {
        let Some(theirs) = remote.fetch(&self.change.branch).await? else {
            return Ok(Expected::Absent);
        };
        if theirs == range.head || remote.contains(range.head, &theirs).await? {
            return Ok(Expected::At(theirs));
        }
        Err(self.branch_taken(&theirs))
    }

    async fn intend_branch(&self, range: &Range<'_>) -> Result<()> {
        let intent = NewIntent {
            key: self.push_key(range.head),
            change_id: self.change.change_id.clone(),
            payload: Payload::Push(crate::intent::Push {
                item_id: Some(self.item.item_id.clone()),
                branch: self.change.branch.clone(),
                from: range.base.to_owned(),
                to: range.head.to_owned(),
            }),
            epoch: self.claim.epoch,
        };
        let claim = self.claim.clone();
        let may = self.write("intend_push", move |conn| {
            bb::intend_push(conn, &claim, &intent, clock::now())
        });
        if may.await? {
            Ok(())
        } else {
            Err(Interrupt::Paused)
        }
    }

    async fn branch_is_pushed(&self, head: &str) -> Result<()> {
        let key = self.push_key(head);
        // Not fenced: the next claim of the item must know that the branch is there.
        self.write("pushed", move |conn| {
            if bb::end_intent(conn, &key, IntentResult::Done, None, clock::now())? {
                return Ok(());
            }
            bb::change_result(conn, &key, IntentResult::Done)
        })
        .await?;
        Ok(())
    }

    /// Returns the open pull request of the branch, or opens one; and whether it was there.
    async fn pull_of_branch(
        &self,
        repo: &str,
        worktree: &Worktree,
        range: &Range<'_>,
    ) -> Result<(Pull, bool)> {
        if let Some(pull) = self.known_pull(repo, range).await? {
            return Ok((pull, true));
        }
        let story = self.story(worktree, range).await?;
        let marker = uuid::Uuid::new_v4().simple().to_string();
        let (title, body) = (story.title(), story.body(&marker));
        if tells_a_secret(&body, &self.dispatch.settings.forge.secrets) {
            return Err(self.secret_in_description());
        }
        let new = NewPull {
            title,
            body,
            head: self.change.branch.clone(),
            base: self.change.base.clone(),
            draft: self.task.as_ref().is_some_and(|task| task.draft),
        };
        self.check_cancelled()?;
        crash_point!("pull.before");
        let created = self
            .dispatch
            .settings
            .forge
            .github
            .create_pull(repo, &new)
            .await;
        crash_point!("pull.after");
        match created {
            Ok(Opened::Done(pull)) => Ok((*pull, false)),
            // Somebody may have opened it in the meantime.
            Ok(Opened::Refused(refusal)) => match self.known_pull(repo, range).await? {
                Some(pull) => Ok((pull, true)),
                None if refusal.cause == RefusalCause::NoHead => {
                    self.check_still_pushed(range).await?;
                    Err(self.refused_pull(repo, &refusal))
                }
                None => Err(self.refused_pull(repo, &refusal)),
            },
            Err(error) => Err(self.forge_error(error)),
        }
    }

    /// Returns the open pull request of the branch. One that somebody opened into another base is the one that they
    /// want: a second one would be about the same commits.
    async fn known_pull(&self, repo: &str, range: &Range<'_>) -> Result<Option<Pull>> {
        let github = &self.dispatch.settings.forge.github;
        let pulls = github.pulls_of_branch(repo, &self.change.branch).await;
        let pulls = pulls.map_err(|error| self.forge_error(error))?;
        let newest = pulls.open.iter().max_by_key(|pull| pull.number);
        if let Some(open) = pulls.open_into(&self.change.base).or(newest) {
            return Ok(Some(open.clone()));
        }
        let same = pulls
            .closed
            .iter()
            .filter(|pull| pull.head_sha == range.head);
        match same.max_by_key(|pull| pull.number) {
            None => Ok(None),
            Some(pull) if pull.state == PullState::Merged => {
                Err(self.pull_is_merged(repo, pull.number))
            }
            Some(pull) => Err(self.pull_is_closed(repo, pull.number)),
        }
    }

    /// Checks that the branch is still on the remote. If somebody deleted it, it is pushed again only if a person says
    /// so.
    async fn check_still_pushed(&self, range: &Range<'_>) -> Result<()> {
        let remote = self.remote().await?;
        if remote.fetch(&self.change.branch).await?.is_some() {
            return Ok(());
        }
        let key = self.push_key(range.head);
        self.write("branch_gone", move |conn| {
            bb::change_result(conn, &key, IntentResult::Moved)
        })
        .await?;
        Err(self.branch_deleted())
    }

    /// Gathers what the description reports.
    async fn story(&self, worktree: &Worktree, range: &Range<'_>) -> Result<PullRequestStory> {
        let place = &worktree.place;
        let id = self.change.change_id.clone();
        let read = self.read(move |conn| {
            let mut reviews = Vec::new();
            for review in bb::reviews_of(conn, &id)? {
                let listed = bb::review_report(conn, &review.review_id)?.findings.len();
                reviews.push((review, listed));
            }
            Ok((reviews, bb::finding_list(conn, &id)?))
        });
        let (reviews, findings) = read.await?;
        let change = self.change_now().await?;
        let mut commits = self.git.log(place, range.base, range.head).await?;
        commits.reverse();
        let files = self
            .git
            .changed_files(place, range.base, range.head)
            .await?;
        let task = self.task.clone().unwrap_or_default();
        let asked = format!("{}\n\n{}", self.change.title, task.text);
        let is_open = |outcome: Outcome| !matches!(outcome, Outcome::Resolved | Outcome::Waived);
        let open = findings.iter().filter(|one| is_open(one.outcome)).count();
        let human_review = match change.final_verdict {
            Some(FinalVerdict::Approved) => None,
            // remand reviews it next.
            None if change.review == ReviewStage::OnPr => None,
            _ if open == 0 => Some("it was not approved by a review".to_owned()),
            _ => Some(format!(
                "the allowed fixes were used up or skipped, with {} open",
                count(open, "finding")
            )),
        };
        let reviews = reviews.into_iter().enumerate();
        let reviews = reviews.map(|(at, (review, listed))| ReviewStory {
            number: at + 1,
            verdict: review.verdict,
            findings: listed,
            agent: review.agent,
            model: review.model,
            head: review.head,
        });
        Ok(PullRequestStory {
            change_id: self.change.change_id.clone(),
            asked,
            issue: task.issue.map(|issue| issue.number),
            commits: commits.into_iter().map(|commit| commit.subject).collect(),
            files: files.len(),
            reviews: reviews.collect(),
            findings: findings
                .iter()
                .map(|one| FindingStory {
                    id: one.finding_id.clone(),
                    severity: one.finding.severity,
                    text: one.finding.titled_text(),
                    path: one.finding.path.clone(),
                    line: one.finding.line,
                    outcome: one.outcome,
                    note: one.note.clone(),
                })
                .collect(),
            gates: self.gate_lines(),
            gates_passed: true,
            human_review,
            template: self.git.pull_template(place, range.base).await?,
            local_paths: self.local_paths(),
        })
    }

    /// Returns directories of this machine that must not be published.
    fn local_paths(&self) -> Vec<String> {
        vec![
            self.change.worktree.clone(),
            self.project.path.clone(),
            self.dispatch.settings.runs_dir.display().to_string(),
        ]
    }
}
