//! Reads the tips of many branches in one call.

use std::collections::BTreeMap;

use super::check_branch_name;
use super::command::GitCommand;
use super::{Git, Place, Result};

impl Git {
    /// Returns the commit of each branch; branches that do not exist are left out.
    pub(crate) async fn branch_tips(
        &self,
        repository: &Place,
        branches: &[&str],
    ) -> Result<BTreeMap<String, String>> {
        let mut call =
            GitCommand::at(repository, "for-each-ref").arg("--format=%(objectname) %(refname)");
        for branch in branches {
            check_branch_name(branch)?;
            call = call.arg(format!("refs/heads/{branch}"));
        }
        let listed = self.text(call).await?;
        let tips = listed
            .lines()
            .filter_map(|line| line.split_once(" refs/heads/"));
        Ok(tips
            .map(|(sha, branch)| (branch.to_owned(), sha.to_owned()))
            .collect())
    }

    /// Returns true if a branch already contains a commit, locally or as last fetched from the
    /// remote.
    pub(crate) async fn is_in_branch(
        &self,
        repository: &Place,
        sha: &str,
        branch: &str,
    ) -> Result<bool> {
        check_branch_name(branch)?;
        let call = GitCommand::at(repository, "for-each-ref --format=%(refname)")
            .arg(format!("--contains={sha}"))
            .arg(format!("refs/heads/{branch}"))
            .arg(format!("refs/remotes/origin/{branch}"));
        Ok(!self.bytes(call).await?.is_empty())
    }
}
