//! Commits that come in from another repository of this machine, by its path.

use std::ffi::OsStr;
use std::path::Path;

use super::command::{GitCommand, text, utf8};
use super::history::check_sha;
use super::{ConfigOwner, Git, GitError, Place};
use crate::process::Short;
use crate::sandbox::GitReach;

/// The other side runs `git-upload-pack` with our closed environment, whatever the configuration of this one says.
const FETCH: [&str; 9] = [
    "fetch",
    "--quiet",
    "--force",
    "--no-tags",
    "--no-write-fetch-head",
    "--no-recurse-submodules",
    "--upload-pack=git-upload-pack",
    "--refmap=",
    "--no-prune",
];

const CONFIG: &[&str] = &[
    // The second protocol gives any commit by its id, also one that no branch leads to.
    "protocol.version=2",
    // Each of these would start something, or reach out, on the word of the repository that is fetched into.
    "core.alternateRefsCommand=true",
    "fetch.bundleURI=",
    "fetch.negotiationAlgorithm=default",
    "fetch.writeCommitGraph=false",
    "submodule.fetchJobs=1",
];

/// Below it stand the commits that came from the remote.
const BROUGHT: &str = "refs/remand/remote/";

impl Git {
    /// Gets a commit from the bare clone of remand's own, and keeps it on `refs/remand/remote/SHA`. Of those kept
    /// before, the ones that this commit leads to are forgotten: what moves forward has one ref and not a thousand.
    pub(crate) async fn bring_in(
        &self,
        place: &Place,
        bare: &Path,
        sha: &str,
    ) -> Result<(), GitError> {
        check_sha(sha)?;
        let name = format!("{BROUGHT}{sha}");
        self.fetch_commit(place, bare, sha, &name).await?;
        let call = GitCommand::at(place, ["for-each-ref", "--format=%(refname)"]);
        let older = self
            .bytes(call.arg(format!("--merged={sha}")).arg(BROUGHT))
            .await?;
        for older in text("for-each-ref", older)?
            .lines()
            .filter(|older| *older != name)
        {
            self.forget_ref(place, older).await?;
        }
        Ok(())
    }

    /// Whether a commit is kept as one that came from the remote.
    pub(crate) async fn was_brought_in(&self, place: &Place, sha: &str) -> Result<bool, GitError> {
        check_sha(sha)?;
        Ok(self
            .resolve(place, &format!("{BROUGHT}{sha}"))
            .await?
            .is_some())
    }

    /// The full names of the refs below a full name that ends with a slash.
    pub(crate) async fn refs_below(
        &self,
        place: &Place,
        name: &str,
    ) -> Result<Vec<String>, GitError> {
        let call = GitCommand::at(place, ["for-each-ref", "--format=%(refname)", "--"]);
        let names = text("for-each-ref", self.bytes(call.arg(name)).await?)?;
        Ok(names.lines().map(str::to_owned).collect())
    }

    /// Only a ref of remand's own.
    pub(crate) async fn forget_ref(&self, place: &Place, name: &str) -> Result<(), GitError> {
        if !name.starts_with("refs/remand/") {
            return Err(GitError::NotARef {
                text: name.to_owned(),
            });
        }
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", "-d", name],
        ))
        .await
        .map(drop)
    }

    /// The same, if it is still at this commit.
    pub(crate) async fn forget_ref_at(
        &self,
        place: &Place,
        name: &str,
        sha: &str,
    ) -> Result<(), GitError> {
        check_sha(sha)?;
        if !name.starts_with("refs/remand/") {
            return Err(GitError::NotARef {
                text: name.to_owned(),
            });
        }
        self.bytes(GitCommand::at(
            place,
            ["update-ref", "--no-deref", "-d", name, sha],
        ))
        .await
        .map(drop)
    }

    /// A fetch into a clone of our own: only the git at the other side, in the agent's repository, is confined, so that
    /// nothing planted there can write our clone. Where the whole fetch is confined, its other side is, too.
    async fn confine_other_side(
        &self,
        call: GitCommand,
        from: &Path,
    ) -> Result<GitCommand, GitError> {
        if self.whose == ConfigOwner::Agents {
            return Ok(call);
        }
        let other = GitCommand::anywhere(from, ["upload-pack"]).short(self, &[])?;
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
        let words = std::iter::once(&confined.program).chain(&confined.args);
        let words: Vec<String> = words
            .map(|word| shell_quoted(&word.to_string_lossy()))
            .collect();
        let told = ["REMAND_WORKTREE", "REMAND_REPOSITORY", "REMAND_PHASE"]
            .into_iter()
            .filter_map(|name| {
                let value = confined.env.get(OsStr::new(name))?;
                Some((name, value.to_string_lossy().into_owned()))
            });
        let told: Vec<(&'static str, String)> = told.collect();
        Ok(call
            .env(&told)
            .arg(format!("--upload-pack={}", words.join(" "))))
    }

    /// Gets one commit, and all that it leads to, from the repository at a path, and keeps it on a ref. For this call
    /// alone git may read a repository by its path; every other transport stays refused.
    pub(crate) async fn fetch_commit(
        &self,
        place: &Place,
        from: &Path,
        sha: &str,
        name: &str,
    ) -> Result<(), GitError> {
        check_sha(sha)?;
        if self.resolve(place, name).await?.as_deref() == Some(sha) {
            return Ok(());
        }
        let is_folder =
            from.is_absolute() && from.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if !is_folder {
            return Err(GitError::NotThere {
                path: from.to_owned(),
            });
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
            found => Err(GitError::Elsewhere {
                branch: name.to_owned(),
                expected: sha.to_owned(),
                found,
            }),
        }
    }
}

/// One word for the shell that git starts the other side of a fetch with.
fn shell_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}
