//! Keeps reviewed commits on `refs/remand/reviewed/CHANGE/SHA`, so that what was reviewed can be
//! shown again after its branch was rewritten or deleted.

use std::collections::BTreeSet;

use super::history::check_sha;
use super::{Git, GitError, Place, Result};

/// Prefix of the refs.
pub(crate) const REVIEWED: &str = "refs/remand/reviewed/";

/// Returns the ref that keeps a reviewed commit of a change.
pub(crate) fn reviewed_ref(change: &str, sha: &str) -> Result<String> {
    check_sha(sha)?;
    if change.is_empty() || !change.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Err(GitError::not_a_ref(change));
    }
    Ok(format!("{REVIEWED}{change}/{sha}"))
}

impl Git {
    /// Keeps the reviewed commits of changes. One that no longer exists is skipped.
    pub(crate) async fn keep_reviewed(
        &self,
        repository: &Place,
        heads: BTreeSet<(&str, &str)>,
    ) -> Result<()> {
        let kept = self.refs_below(repository, REVIEWED).await?;
        let kept: BTreeSet<String> = kept.into_iter().collect();
        for (change, sha) in heads {
            let name = reviewed_ref(change, sha)?;
            if !kept.contains(&name) && self.resolve(repository, sha).await?.is_some() {
                self.set_ref(repository, &name, sha).await?;
            }
        }
        Ok(())
    }
}
