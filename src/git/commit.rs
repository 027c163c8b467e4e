//! Commits changes that an agent left uncommitted.

use std::path::Path;

use super::command::GitCommand;
use super::{Git, GitError, HeadAt, Place};

impl Git {
    /// Commits everything that is uncommitted and returns the commit; `None` if there was nothing.
    ///
    /// Refused if HEAD is not at the expected place or an operation is unfinished: a half-done
    /// rebase or a merge with conflict markers is not work to publish. Repositories inside the
    /// worktree are left out (git would store a bare link to a commit that nobody else has); they
    /// stay untracked, so the worktree is not clean afterwards. Untracked caches are left out as
    /// well; they do not count.
    pub(crate) async fn commit_rest(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
        message: &str,
    ) -> Result<Option<String>, GitError> {
        let head_at = head_at.into();
        head_at.ref_name()?;
        let now = self.look(place).await?;
        if !head_at.fits(now.branch.as_deref()) {
            return Err(GitError::NotOnBranch {
                expected: head_at.expected(),
                found: now.branch,
            });
        }
        if let Some(operation) = now.operation {
            return Err(GitError::Unfinished { operation });
        }
        let mut left_out = self.nested_repositories(place).await?;
        left_out.extend(self.untracked_passed_over(place).await?);
        left_out.extend(self.untracked_caches(place, None).await?);
        self.bytes(add_all(place, &left_out)).await?;
        if self
            .yes(GitCommand::at(
                place,
                "diff-index --cached --quiet --ignore-submodules=none HEAD --",
            ))
            .await?
        {
            return Ok(None);
        }
        let call = GitCommand::at(
            place,
            "commit --quiet --no-verify --no-gpg-sign --cleanup=whitespace -F -",
        );
        let identity = self.identity(place).await?;
        self.bytes(call.stdin(message.as_bytes().to_vec()).env(&identity))
            .await?;
        self.resolve(place, "HEAD").await
    }

    /// Returns true if git's configuration has a name and an email address for commits made here.
    pub(crate) async fn knows_who(&self, folder: &Path) -> Result<bool, GitError> {
        for key in ["user.name", "user.email"] {
            let set = self
                .maybe_line(GitCommand::anywhere(folder, "config --get").arg(key))
                .await?;
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
    pub(super) async fn identity(
        &self,
        place: &Place,
    ) -> Result<[(&'static str, String); 4], GitError> {
        let mut found = [const { None::<String> }; 2];
        for (slot, key) in found.iter_mut().zip(["user.name", "user.email"]) {
            *slot = self
                .maybe_line(GitCommand::at(place, "config --get").arg(key))
                .await?;
        }
        let (name, address) = match found {
            [Some(name), Some(address)] if is_set(&name) && is_set(&address) => (name, address),
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
