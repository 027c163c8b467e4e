//! Detects reverts of pushed fixes.

use super::{Remote, Result};
use crate::sanitize;

/// Pushed fix: the branch before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ours {
    pub(crate) before: String,
    pub(crate) after: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Undone {
    /// Commit that reverted it; if commits were removed from the branch, its current head.
    pub(crate) commit: String,
    /// The reverted commit of remand.
    pub(crate) ours: String,
    /// Head of the branch after the fix that it belongs to.
    pub(crate) after: String,
    /// Name of the author; `None` if commits were removed from the branch, which leaves no name.
    pub(crate) by: Option<String>,
}

impl Remote {
    /// Checks whether one of remand's commits was reverted between two heads of the branch.
    ///
    /// A revert is a commit whose message says so, one that restores the files as they were before
    /// a fix, or the removal of remand's commits from the branch. Commits by remand do not count.
    pub(crate) async fn undone(
        &self,
        from: &str,
        to: &str,
        ours: &[Ours],
    ) -> Result<Option<Undone>> {
        self.have(to).await?;
        // A recreated clone has only what is on the remote: nothing is known about other commits.
        if self.git.resolve(&self.place, from).await?.is_none() {
            return Ok(None);
        }
        let mut fixes = Vec::new();
        for fix in ours {
            // A fix that was never fetched or imported cannot have been reverted by name here; its
            // tree is unknown too.
            if self.have(&fix.before).await.is_err() || self.have(&fix.after).await.is_err() {
                continue;
            }
            let commits = self.git.log(&self.place, &fix.before, &fix.after).await?;
            let shas: Vec<String> = commits.into_iter().map(|commit| commit.sha).collect();
            let tree = self.git.tree_of(&self.place, &fix.before).await?;
            fixes.push((fix, shas, tree));
        }
        for commit in self.git.log(&self.place, from, to).await? {
            if fixes.iter().any(|(_, shas, _)| shas.contains(&commit.sha)) {
                continue;
            }
            let tree = self.git.tree_of(&self.place, &commit.sha).await?;
            let named = reverted(&commit.body);
            for (fix, shas, before) in &fixes {
                let is_named = |sha: &&String| named.iter().any(|name| sha.starts_with(name));
                let by_name = shas.iter().find(is_named);
                let is_back = *before == tree && self.contains(&commit.sha, &fix.after).await?;
                if let Some(sha) = by_name.or(is_back.then_some(&fix.after)) {
                    let author = commit.author.as_str();
                    let author = author.rsplit_once(" <").map_or(author, |(name, _)| name);
                    return Ok(Some(Undone {
                        ours: sha.clone(),
                        after: fix.after.clone(),
                        by: Some(sanitize::line(author).chars().take(100).collect()),
                        commit: commit.sha,
                    }));
                }
            }
        }
        let tree = self.git.tree_of(&self.place, to).await?;
        for (fix, _, before) in &fixes {
            let was_there = self.contains(from, &fix.after).await?;
            if was_there && (*before == tree || self.contains(&fix.before, to).await?) {
                return Ok(Some(Undone {
                    commit: to.to_owned(),
                    ours: fix.after.clone(),
                    after: fix.after.clone(),
                    by: None,
                }));
            }
        }
        Ok(None)
    }
}

/// Returns the ids that a message claims to revert; `git revert --reference` abbreviates them.
fn reverted(message: &str) -> Vec<&str> {
    let id = |rest: &'_ str| rest.bytes().take_while(u8::is_ascii_hexdigit).count();
    let named = message.split("This reverts commit ").skip(1);
    let named = named.filter_map(|rest| rest.get(..id(rest)));
    named.filter(|name| name.len() >= 7).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_in_a_message() {
        assert_eq!(
            reverted("x\n\nThis reverts commit 0123456789abcdef.\n"),
            ["0123456789abcdef"]
        );
        assert_eq!(
            reverted("This reverts commit abcdef0 (Fix, 2026-11-16), This reverts commit 1234567."),
            ["abcdef0", "1234567"]
        );
        assert!(reverted("This reverts commit abc. This reverts commit").is_empty());
    }
}
