//! Where branches of a repository are, asked once for many.

use std::collections::BTreeMap;

use super::branch::check_branch_name;
use super::command::{GitCommand, text};
use super::{Git, GitError, Place};

impl Git {
    /// The commit that each of these branches is at; one that is not there is left out.
    pub(crate) async fn branch_tips(
        &self,
        repository: &Place,
        branches: &[&str],
    ) -> Result<BTreeMap<String, String>, GitError> {
        let mut call = GitCommand::at(
            repository,
            ["for-each-ref", "--format=%(objectname) %(refname)"],
        );
        for branch in branches {
            check_branch_name(branch)?;
            call = call.arg(format!("refs/heads/{branch}"));
        }
        let listed = text("for-each-ref", self.bytes(call).await?)?;
        let tips = listed
            .lines()
            .filter_map(|line| line.split_once(" refs/heads/"));
        Ok(tips
            .map(|(sha, branch)| (branch.to_owned(), sha.to_owned()))
            .collect())
    }

    /// Whether a commit is in a branch already, here or as the remote was when it was last fetched.
    pub(crate) async fn is_in_branch(
        &self,
        repository: &Place,
        sha: &str,
        branch: &str,
    ) -> Result<bool, GitError> {
        check_branch_name(branch)?;
        let call = GitCommand::at(repository, ["for-each-ref", "--format=%(refname)"])
            .arg(format!("--contains={sha}"))
            .arg(format!("refs/heads/{branch}"))
            .arg(format!("refs/remotes/origin/{branch}"));
        Ok(!self.bytes(call).await?.is_empty())
    }
}
