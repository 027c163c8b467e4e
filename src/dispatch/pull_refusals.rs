//! Reasons why the branch of a task is not pushed or its pull request is not opened: each with a code for programs and
//! the step that a person can take.

use super::interrupt::Interrupt;
use super::task::Task;
use crate::github::{GithubError, PullRefusal, RefusalCause};
use crate::proposal::{Decision, Escalation, Refusal, decision};
use crate::remote::Rule;
use crate::text::short_sha;

impl Task {
    fn refused_as(
        refusal: Refusal,
        reason: impl Into<String>,
        decision: impl Into<Decision>,
    ) -> Interrupt {
        Escalation::new(reason, decision).refused(refusal).into()
    }

    fn retry(&self) -> Decision {
        Decision::retry(&self.change.change_id)
    }

    fn cancel(&self) -> Decision {
        Decision::cancel(&self.change.change_id)
    }

    pub(super) fn branch_moved(&self, reviewed: &str, head: &str) -> Interrupt {
        Self::refused_as(
            Refusal::BranchMoved,
            format!(
                "{} moved from {} to {} after its review",
                self.change.branch,
                short_sha(reviewed),
                short_sha(head)
            ),
            decision!(
                "check {worktree}; to have the new commits reviewed, {submit}",
                worktree = self.change.worktree.as_str().into(),
                submit = self.change.submit_advice(),
            ),
        )
    }

    pub(super) fn nothing_to_merge(&self) -> Interrupt {
        Self::refused_as(
            Refusal::NothingToMerge,
            format!(
                "there is nothing between {} and {}: the work may have been merged by somebody else",
                self.change.base, self.change.branch
            ),
            decision!("close it ({cancel})", cancel = self.cancel()),
        )
    }

    pub(super) fn is_base_branch(&self) -> Interrupt {
        Self::refused_as(
            Refusal::BaseBranch,
            format!(
                "refusing to push to {}: work is merged into it",
                self.change.branch
            ),
            decision!(
                "put the work on another branch, and close this change ({cancel})",
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn against_push_rules(&self, reason: String) -> Interrupt {
        let id = &self.change.change_id;
        Self::refused_as(
            Refusal::PushRules,
            reason,
            decision!(
                "have it changed ({refine}), or push the branch yourself and open its PR",
                refine = Decision::refine(id),
            ),
        )
    }

    pub(super) fn branch_taken(&self, theirs: &str) -> Interrupt {
        Self::refused_as(
            Refusal::BranchTaken,
            format!(
                "{} is at {} on the remote, with commits that are not in the worktree",
                self.change.branch,
                short_sha(theirs)
            ),
            decision!(
                "merge them in {worktree} and {submit}, or delete the branch on the remote; then {retry}, or close it ({cancel})",
                worktree = self.change.worktree.as_str().into(),
                submit = self.change.submit_advice(),
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn no_room_for_branch(&self, other: &str) -> Interrupt {
        Self::refused_as(
            Refusal::NameConflict,
            format!(
                "the remote has a branch {other}, which leaves no room for {}",
                self.change.branch
            ),
            decision!(
                "delete or rename it there, then {retry}; or close this change ({cancel}) and add the task again with another `--branch`",
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn declined_branch(&self, rule: Rule, message: &str) -> Interrupt {
        let branch = &self.change.branch;
        let (refusal, by, what) = match rule {
            Rule::ProtectedBranch => (
                Refusal::ProtectedBranch,
                "a branch protection rule",
                "let your account create the branch",
            ),
            Rule::Ruleset => (
                Refusal::Ruleset,
                "a ruleset of the repository",
                "change the ruleset that the message names",
            ),
            Rule::BranchName => (
                Refusal::BranchName,
                "a rule for names of branches",
                "change the rule",
            ),
            Rule::Other => (
                Refusal::PushDeclined,
                "a rule of the remote",
                "fix what the message describes",
            ),
        };
        Self::refused_as(
            refusal,
            format!("the remote refused the branch {branch}, by {by}: {message}"),
            decision!(
                "{what}, then {retry}; or close this change ({cancel}) and add the task again with another `--branch`",
                what = what.into(),
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn branch_deleted(&self) -> Interrupt {
        Self::refused_as(
            Refusal::BranchGone,
            format!(
                "the branch {} was deleted on the remote after it was pushed",
                self.change.branch
            ),
            decision!(
                "push it again ({retry}), or close the change ({cancel})",
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn secret_in_description(&self) -> Interrupt {
        Self::refused_as(
            Refusal::Secret,
            "the description of the pull request would contain a secret",
            decision!(
                "remove it from the task and from the messages of the commits, then {retry}; or close the change ({cancel})",
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn pull_is_merged(&self, repo: &str, number: i64) -> Interrupt {
        Self::refused_as(
            Refusal::AlreadyMerged,
            format!("{repo}#{number} is about the same commit and was merged"),
            decision!("close the change ({cancel})", cancel = self.cancel()),
        )
    }

    pub(super) fn pull_is_closed(&self, repo: &str, number: i64) -> Interrupt {
        Self::refused_as(
            Refusal::PullClosed,
            format!("{repo}#{number} is about the same commit and was closed"),
            decision!(
                "reopen it on GitHub, then {retry}; or close this change too ({cancel})",
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }

    pub(super) fn refused_pull(&self, repo: &str, refusal: &PullRefusal) -> Interrupt {
        let (base, branch) = (&self.change.base, &self.change.branch);
        let message = &refusal.message;
        match refusal.cause {
            RefusalCause::NoBase => Self::refused_as(
                Refusal::BaseGone,
                format!("{repo} has no branch {base} to merge into"),
                decision!(
                    "restore it there, then {retry}; or close the change ({cancel})",
                    retry = self.retry(),
                    cancel = self.cancel(),
                ),
            ),
            RefusalCause::NoHead => Interrupt::hold(format!(
                "GitHub does not show the branch {branch} of {repo} yet"
            )),
            RefusalCause::MaybeDraft => Self::refused_as(
                Refusal::Draft,
                format!("GitHub refused a draft in {repo}: {message}"),
                decision!(
                    "if drafts are not available there, open it as a normal PR ({edit}), then {retry}",
                    edit = Decision::command(format!(
                        "remand item edit {} --no-draft",
                        self.item.item_id
                    )),
                    retry = self.retry(),
                ),
            ),
            RefusalCause::Other => self.unopened(format!("GitHub refused the PR: {message}")),
        }
    }

    /// An error of the forge. Only a refusal of this request needs a person; everything else may pass.
    pub(super) fn forge_error(&self, error: GithubError) -> Interrupt {
        if matches!(
            error,
            GithubError::NotFound { .. } | GithubError::Refused { .. }
        ) {
            return self.unopened(format!("{error} ({})", error.hint()));
        }
        error.into()
    }

    fn unopened(&self, reason: String) -> Interrupt {
        Self::refused_as(
            Refusal::PullRefused,
            reason,
            decision!(
                "fix what the message describes, then {retry}; or close the change ({cancel})",
                retry = self.retry(),
                cancel = self.cancel(),
            ),
        )
    }
}
