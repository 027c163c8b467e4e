//! Reads the head of a branch, and imports commits into the bare clone from the remote and from a
//! worktree.

use super::{Remote, RemoteError, Result};
use crate::failpoint::crash_point;
use crate::git::{GitError, Place, check_branch_name, check_sha};

impl Remote {
    /// Returns the remote's head of a branch; `None` if the branch does not exist.
    pub(crate) async fn head_of(&self, branch: &str) -> Result<Option<String>> {
        check_branch_name(branch).map_err(GitError::from)?;
        let name = format!("refs/heads/{branch}");
        let args = ["ls-remote", "--quiet", "--refs", "--", "{url}", &name];
        read_refs(&self.say("ls-remote", &args).await?, &name)
    }

    /// Returns a branch of the remote that leaves no room for a new one: `a` for `a/b`, or `a/b` for
    /// `a`.
    pub(super) async fn branch_in_the_way(&self, branch: &str) -> Result<Option<String>> {
        check_branch_name(branch).map_err(GitError::from)?;
        let above = branch.match_indices('/');
        let above = above.filter_map(|(at, _)| branch.get(..at));
        let names: Vec<String> = above
            .map(|name| format!("refs/heads/{name}"))
            .chain([format!("refs/heads/{branch}/*")])
            .collect();
        let mut args = vec!["ls-remote", "--quiet", "--refs", "--", "{url}"];
        args.extend(names.iter().map(String::as_str));
        let output = self.say("ls-remote", &args).await?;
        first_in_the_way(&output, branch)
    }

    /// Fetches a branch, even a rewritten one, and returns its head; `None` if the remote no longer
    /// has it.
    pub(crate) async fn fetch(&self, branch: &str) -> Result<Option<String>> {
        let Some(head) = self.head_of(branch).await? else {
            self.forget(&[fetched(branch)]).await?;
            return Ok(None);
        };
        let name = fetched(branch);
        if self.git.resolve(&self.place, &name).await? == Some(head.clone()) {
            return Ok(Some(head));
        }
        self.make_room(branch).await?;
        crash_point!("remote.fetch.before");
        let args = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--refmap=",
            "--",
            "{url}",
            &format!("+refs/heads/{branch}:{name}"),
        ];
        let ended = self.say("fetch", &args).await;
        crash_point!("remote.fetch.after");
        let now = self.git.resolve(&self.place, &name).await?;
        // Another process may have fetched it concurrently and locked the ref.
        if now.as_ref() == Some(&head) {
            return Ok(now);
        }
        ended?;
        Ok(now)
    }

    /// Returns the head of the branch as last fetched.
    pub(crate) async fn fetched_head(&self, branch: &str) -> Result<Option<String>> {
        check_branch_name(branch).map_err(GitError::from)?;
        Ok(self.git.resolve(&self.place, &fetched(branch)).await?)
    }

    /// Imports the finished commit from a worktree's repository, by path and with the closed
    /// environment, and keeps it on `refs/remand/taken/SHA`.
    pub(crate) async fn take(&self, from: &Place, branch: &str, sha: &str) -> Result<()> {
        check_branch_name(branch).map_err(GitError::from)?;
        check_sha(sha)?;
        self.check()?;
        let (place, kept) = (&self.place, format!("refs/remand/taken/{sha}"));
        let taken = self.git.fetch_commit(place, &from.common_dir, sha, &kept);
        Ok(taken.await?)
    }

    /// Returns true if a commit is `head` or an ancestor of it. `head` must have been fetched or
    /// imported.
    pub(crate) async fn contains(&self, head: &str, commit: &str) -> Result<bool> {
        check_sha(commit)?;
        self.have(head).await?;
        // The whole history of `head` is here: a missing commit is not part of it.
        if self.git.resolve(&self.place, commit).await?.is_none() {
            return Ok(false);
        }
        Ok(self.git.is_ancestor(&self.place, commit, head).await?)
    }

    pub(super) async fn have(&self, sha: &str) -> Result<()> {
        check_sha(sha)?;
        let missing = || RemoteError::Missing {
            sha: sha.to_owned(),
            path: self.path().to_owned(),
        };
        let found = self.git.resolve(&self.place, sha).await?;
        found.map(drop).ok_or_else(missing)
    }

    /// Deletes refs that conflict with a branch: a fetched `a` leaves no room for `a/b`, and the
    /// reverse. Since the remote cannot have both, it no longer has the other one.
    async fn make_room(&self, branch: &str) -> Result<()> {
        let below = format!("{}/", fetched(branch));
        let mut names = self.git.refs_below(&self.place, &below).await?;
        for (at, _) in branch.match_indices('/') {
            names.extend(branch.get(..at).map(fetched));
        }
        self.forget(&names).await
    }

    async fn forget(&self, names: &[String]) -> Result<()> {
        for name in names {
            if self.git.resolve(&self.place, name).await?.is_some() {
                self.git.forget_ref(&self.place, name).await?;
            }
        }
        Ok(())
    }
}

fn fetched(branch: &str) -> String {
    format!("refs/remand/remote/{branch}")
}

/// Parses `ID TAB refs/heads/x` into the first branch that is above or below this one.
fn first_in_the_way(output: &str, branch: &str) -> Result<Option<String>> {
    let is_below = |name: &str, of: &str| {
        let rest = name.strip_prefix(of);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    for line in output.lines() {
        let Some((_, name)) = line.split_once('\t') else {
            return Err(RemoteError::Output { args: "ls-remote" });
        };
        // Git treats the names as patterns, which `x/refs/heads/x` matches too.
        let name = name.strip_prefix("refs/heads/").unwrap_or_default();
        if is_below(name, branch) || is_below(branch, name) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

/// Parses `ID TAB refs/heads/x`. Git treats the name as a pattern, which `x/refs/heads/x` matches
/// too.
fn read_refs(output: &str, name: &str) -> Result<Option<String>> {
    let bad = || RemoteError::Output { args: "ls-remote" };
    for line in output.lines() {
        let (sha, found) = line.split_once('\t').ok_or_else(bad)?;
        if check_sha(sha).is_err() {
            return Err(bad());
        }
        if found == name {
            return Ok(Some(sha.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_counts() {
        let sha = "a".repeat(40);
        let output = format!(
            "{}\trefs/heads/x/refs/heads/fix\n{sha}\trefs/heads/fix\n",
            "b".repeat(40)
        );
        assert_eq!(read_refs(&output, "refs/heads/fix").unwrap(), Some(sha));
        assert_eq!(read_refs("", "refs/heads/fix").unwrap(), None);
        assert!(read_refs("fatal: x\n", "refs/heads/fix").is_err());
        assert!(read_refs("abc\trefs/heads/fix\n", "refs/heads/fix").is_err());
    }
}
