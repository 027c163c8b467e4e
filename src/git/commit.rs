//! Commits changes that an agent left uncommitted.

use std::path::Path;

use super::command::GitCommand;
use super::status::nested;
use super::{Git, GitError, HeadAt, Place, Result, Uncommitted, Worktree};

impl Git {
    /// Commits everything that is uncommitted: `left`, which was just read together with HEAD.
    /// Returns true if there was anything.
    ///
    /// Refused if HEAD is not at the expected place or an operation is unfinished: a half-done
    /// rebase or a merge with conflict markers is not work to publish. Repositories inside the
    /// worktree are left out (git would store a bare link to a commit that nobody else has); they
    /// stay untracked, so the worktree is not clean afterwards. Untracked caches are left out as
    /// well; they do not count.
    pub(crate) async fn commit_left(
        &self,
        head_at: HeadAt<'_>,
        now: &Worktree,
        left: Uncommitted,
        message: &str,
    ) -> Result<bool> {
        let place = &now.place;
        head_at.ref_name()?;
        head_at.check(now.branch.as_deref())?;
        if let Some(operation) = now.operation {
            return Err(GitError::Unfinished { operation });
        }
        let mut left_out = self.untracked_passed_over(&left);
        if left.has_caches() {
            left_out.extend(self.untracked_caches(place, None).await?);
        }
        let entries = self.shown_entries(left);
        let nested = nested(&entries);
        if entries.len() == nested.len() {
            return Ok(false);
        }
        left_out.extend(nested);
        self.bytes(add_all(place, &left_out)).await?;
        let call = "commit --quiet --no-verify --no-gpg-sign --cleanup=whitespace -F -";
        let call = GitCommand::at(place, call).stdin(message.as_bytes().to_vec());
        let identity = self.identity(place).await?;
        let committed = self.run(call.env(&identity)).await;
        if let Err(GitError::Failed { .. }) = committed {
            // What git reported as changed may be the same once it is added.
            let call = "diff-index --cached --quiet --ignore-submodules=none HEAD --";
            if self.yes(GitCommand::at(place, call)).await? {
                return Ok(false);
            }
        }
        committed.map(|()| true)
    }

    /// Returns true if git's configuration has a name and an email address for commits made here.
    pub(crate) async fn knows_who(&self, folder: &Path) -> Result<bool> {
        for key in ["user.name", "user.email"] {
            let call = GitCommand::anywhere(folder, "config --get").arg(key);
            let set = self.maybe_line(call).await?;
            if !set.is_some_and(|text| is_set(&text)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Identity for remand's commits: the user's, as configured for this worktree, otherwise
    /// remand's.
    ///
    /// An incomplete identity (a name without an email address or the reverse) is not used.
    pub(super) async fn identity(&self, place: &Place) -> Result<[(&'static str, String); 4]> {
        let call = GitCommand::at(place, "config -z --get-regexp").arg("^user\\.(name|email)$");
        let listed = self.maybe_line(call).await?.unwrap_or_default();
        // The last value of each counts.
        let last = |key: &str| {
            let values = listed.split('\0').rev();
            let mut values = values.filter_map(|entry| entry.split_once('\n'));
            let (_, value) = values.find(|(found, _)| *found == key)?;
            Some(value.to_owned()).filter(|value| is_set(value))
        };
        let (name, address) = match (last("user.name"), last("user.email")) {
            (Some(name), Some(address)) => (name, address),
            _ => ("remand".to_owned(), "remand@localhost".to_owned()),
        };
        Ok([
            ("GIT_AUTHOR_NAME", name.clone()),
            ("GIT_AUTHOR_EMAIL", address.clone()),
            ("GIT_COMMITTER_NAME", name),
            ("GIT_COMMITTER_EMAIL", address),
        ])
    }
}

fn is_set(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric) && !text.contains(['<', '>', '\n'])
}

/// Builds `add -A` for the whole worktree without some paths, such as nested repositories: one
/// without a commit would make it fail.
pub(super) fn add_all(place: &Place, left_out: &[Vec<u8>]) -> GitCommand {
    let mut paths = b":/\0".to_vec();
    for path in left_out {
        paths.extend_from_slice(b":(top,exclude,literal)");
        paths.extend_from_slice(path);
        paths.push(0);
    }
    GitCommand::at(place, "add -A --pathspec-from-file=- --pathspec-file-nul").stdin(paths)
}
