//! Keeps reviewed commits on `refs/remand/reviewed/CHANGE/SHA`, so that what was reviewed can be
//! shown again after its branch was rewritten or deleted.

use std::collections::BTreeSet;

use super::command::GitCommand;
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
        let mut refs = Vec::new();
        for (change, sha) in heads {
            refs.push((reviewed_ref(change, sha)?, format!("{sha}^{{commit}}"), sha));
        }
        let names: Vec<&str> = refs
            .iter()
            .flat_map(|(name, commit, _)| [name.as_str(), commit.as_str()])
            .collect();
        let found = self.objects(repository, &names).await?;
        let missing: String = refs
            .iter()
            .zip(found.chunks(2))
            .filter(|(_, found)| matches!(found, [None, Some(_)]))
            .map(|((name, _, sha), _)| format!("update {name} {sha}\n"))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let call = GitCommand::at(repository, "update-ref --no-deref --stdin");
        self.run(call.stdin(missing.into_bytes())).await
    }
}
