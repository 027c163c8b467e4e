//! Imports commits from another repository on this machine, by its path.

use std::ffi::OsStr;
use std::path::Path;

use super::command::{GitCommand, utf8};
use super::history::check_sha;
use super::{ConfigOwner, Git, GitError, Place, Result};
use crate::process::Short;
use crate::sandbox::GitReach;
use crate::text::{joined, shell_quoted};

/// Fetch command. The other side runs `git-upload-pack` with the closed environment, whatever the
/// configuration of this repository says.
const FETCH: &str = "fetch --quiet --force --no-tags --no-write-fetch-head --no-recurse-submodules \
    --upload-pack=git-upload-pack --refmap= --no-prune";

const CONFIG: &[&str] = &[
    // Protocol version 2 serves any commit by its id, even one that no branch contains.
    "protocol.version=2",
    // Each of these would start a command or reach out if the repository that is fetched into says
    // so.
    "core.alternateRefsCommand=true",
    "fetch.bundleURI=",
    "fetch.negotiationAlgorithm=default",
    "fetch.writeCommitGraph=false",
    "submodule.fetchJobs=1",
];

/// Prefix of the refs that keep commits imported from the remote.
const BROUGHT: &str = "refs/remand/remote/";

impl Git {
    /// Imports a commit from remand's bare clone and keeps it on `refs/remand/remote/SHA`.
    ///
    /// Refs of earlier imports that this commit contains are deleted, so that a branch that moves
    /// forward has one ref and not a thousand.
    pub(crate) async fn bring_in(&self, place: &Place, bare: &Path, sha: &str) -> Result<()> {
        check_sha(sha)?;
        let name = format!("{BROUGHT}{sha}");
        self.fetch_commit(place, bare, sha, &name).await?;
        let call = GitCommand::at(place, "for-each-ref --format=%(refname)");
        let older = call.arg(format!("--merged={sha}")).arg(BROUGHT);
        for older in self.lines(older).await? {
            if older != name {
                self.forget_ref(place, &older).await?;
            }
        }
        Ok(())
    }

    /// Returns true if a commit is kept as imported from the remote.
    pub(crate) async fn was_brought_in(&self, place: &Place, sha: &str) -> Result<bool> {
        check_sha(sha)?;
        let kept = self.resolve(place, &format!("{BROUGHT}{sha}")).await?;
        Ok(kept.is_some())
    }

    /// Lists the full names of refs below a prefix that ends with a slash.
    pub(crate) async fn refs_below(&self, place: &Place, name: &str) -> Result<Vec<String>> {
        let call = GitCommand::at(place, "for-each-ref --format=%(refname) --");
        self.lines(call.arg(name)).await
    }

    /// Deletes a ref. Only refs of remand are accepted.
    pub(crate) async fn forget_ref(&self, place: &Place, name: &str) -> Result<()> {
        self.run(forget(place, name)?).await
    }

    /// Deletes a ref if it is still at this commit.
    pub(crate) async fn forget_ref_at(&self, place: &Place, name: &str, sha: &str) -> Result<()> {
        check_sha(sha)?;
        self.run(forget(place, name)?.arg(sha)).await
    }

    /// Confines the other side of a fetch into remand's clone.
    ///
    /// Only the git on the other side runs in the agent's repository, so only that one is confined:
    /// nothing planted there can then write to the clone. Where the whole fetch is confined, so is
    /// its other side.
    async fn confine_other_side(&self, call: GitCommand, from: &Path) -> Result<GitCommand> {
        if self.whose == ConfigOwner::Agents {
            return Ok(call);
        }
        let other = GitCommand::anywhere(from, "upload-pack").short(self, &[])?;
        let other = Short {
            args: vec!["upload-pack".into()],
            ..other
        };
        let reach = GitReach {
            worktree: from.to_owned(),
            repository: from.to_owned(),
            write: Vec::new(),
            read: vec![from.to_owned()],
        };
        let confined = self
            .sandbox
            .confine_git(other, &reach)
            .await
            .map_err(|why| GitError::Sandbox { why })?;
        if !confined.is_wrapped {
            return Ok(call);
        }
        let words = [confined.program].into_iter().chain(confined.args);
        let words = words.map(|word| shell_quoted(&word.to_string_lossy()));
        let variable = |name: &'static str| {
            let value = confined.env.get(OsStr::new(name))?;
            Some((name, value.to_string_lossy().into_owned()))
        };
        let names = ["REMAND_WORKTREE", "REMAND_REPOSITORY", "REMAND_PHASE"];
        let variables: Vec<_> = names.into_iter().filter_map(variable).collect();
        let upload_pack = format!("--upload-pack={}", joined(words, " "));
        Ok(call.env(&variables).arg(upload_pack))
    }

    /// Fetches one commit and its history from the repository at a path, and keeps it on a ref.
    ///
    /// For this call alone, git may read a repository by its path; every other transport stays
    /// refused.
    pub(crate) async fn fetch_commit(
        &self,
        place: &Place,
        from: &Path,
        sha: &str,
        name: &str,
    ) -> Result<()> {
        check_sha(sha)?;
        if self.resolve(place, name).await?.as_deref() == Some(sha) {
            return Ok(());
        }
        let is_folder =
            from.is_absolute() && from.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if !is_folder {
            return Err(GitError::not_there(from));
        }
        let call = GitCommand::at(place, FETCH)
            .config(CONFIG)
            .env(&[("GIT_ALLOW_PROTOCOL", "file".to_owned())])
            .reads(from);
        let call = self
            .confine_other_side(call, from)
            .await?
            .arg("--")
            .arg(utf8(from)?)
            .arg(format!("{sha}:{name}"));
        self.bytes(call).await?;
        match self.resolve(place, name).await? {
            Some(found) if found == sha => Ok(()),
            found => Err(GitError::elsewhere(name.to_owned(), sha, found)),
        }
    }
}

fn forget(place: &Place, name: &str) -> Result<GitCommand> {
    if !name.starts_with("refs/remand/") {
        return Err(GitError::not_a_ref(name));
    }
    Ok(GitCommand::at(place, "update-ref --no-deref -d").arg(name))
}
