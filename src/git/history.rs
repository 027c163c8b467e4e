//! Reads commits. Names from outside are full ids or full refs, never anything that git would have
//! to guess.

use super::agent_config_paths::{TreeFile, read_tree};
use super::bytes::lossy;
use super::command::GitCommand;
use super::{Git, GitError, Place, Result, check_branch_name};

/// Commit of a range, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) sha: String,
    /// `Name <email>`.
    pub(crate) author: String,
    pub(crate) subject: String,
    pub(crate) body: String,
    pub(crate) trailers: Vec<(String, String)>,
}

/// Maximum number of bytes read from one file of a commit.
const FILE_CAP: usize = 16 * 1024 * 1024;

impl Git {
    /// Resolves `HEAD`, a full ref (`refs/…`) or a full id to a commit; `None` if it does not
    /// exist.
    pub(crate) async fn resolve(&self, place: &Place, name: &str) -> Result<Option<String>> {
        let full = name == "HEAD" || is_full_ref(name) || check_sha(name).is_ok();
        if !full {
            return Err(GitError::not_a_ref(name));
        }
        let call = GitCommand::at(place, "rev-parse --verify --quiet --end-of-options");
        self.maybe_line(call.arg(format!("{name}^{{commit}}")))
            .await
    }

    /// Returns the head of the branch into which work is merged: as last fetched from the remote,
    /// otherwise the local one.
    pub(crate) async fn base_head(&self, place: &Place, branch: &str) -> Result<Option<String>> {
        Ok(self.base_head_and(place, branch, &[]).await?.0)
    }

    /// Returns the head of the base branch and the tree of a commit, by one process.
    pub(crate) async fn base_head_and_tree(
        &self,
        place: &Place,
        branch: &str,
        commit: &str,
    ) -> Result<(Option<String>, String)> {
        check_sha(commit)?;
        let tree = format!("{commit}^{{tree}}");
        let (base, found) = self.base_head_and(place, branch, &[&tree]).await?;
        let found = found.into_iter().next().flatten();
        Ok((base, found.ok_or_else(|| GitError::not_a_commit(commit))?))
    }

    async fn base_head_and(
        &self,
        place: &Place,
        branch: &str,
        others: &[&str],
    ) -> Result<(Option<String>, Vec<Option<String>>)> {
        check_branch_name(branch)?;
        let fetched = format!("refs/remotes/origin/{branch}^{{commit}}");
        let local = format!("refs/heads/{branch}^{{commit}}");
        let names = [&[fetched.as_str(), &local], others].concat();
        let mut found = self.objects(place, &names).await?;
        let others = found.split_off(2);
        Ok((found.into_iter().flatten().next(), others))
    }

    /// Returns the id of each object, in the order given. The names are full and have no spaces.
    pub(super) async fn objects(
        &self,
        place: &Place,
        names: &[&str],
    ) -> Result<Vec<Option<String>>> {
        let lines = names.iter().map(|name| format!("{name}\n"));
        let call = GitCommand::at(place, "cat-file --batch-check=%(objectname)");
        let output = self
            .text(call.stdin(lines.collect::<String>().into_bytes()))
            .await?;
        let object = |(name, line): (&&str, &str)| match line.strip_prefix(name) {
            Some(" missing") => Some(None),
            Some(_) | None => check_sha(line).ok().map(|()| Some(line.to_owned())),
        };
        let found: Option<Vec<_>> = names.iter().zip(output.lines()).map(object).collect();
        found
            .filter(|found| found.len() == names.len())
            .ok_or_else(|| GitError::output("cat-file --batch-check", output.as_bytes()))
    }

    /// Returns the merge base; `None` if the two have no common history.
    pub(crate) async fn merge_base(
        &self,
        place: &Place,
        a: &str,
        b: &str,
    ) -> Result<Option<String>> {
        check_shas([a, b])?;
        self.maybe_line(GitCommand::at(place, "merge-base --end-of-options").args([a, b]))
            .await
    }

    pub(crate) async fn is_ancestor(&self, place: &Place, a: &str, b: &str) -> Result<bool> {
        check_shas([a, b])?;
        self.yes(GitCommand::at(place, "merge-base --is-ancestor --end-of-options").args([a, b]))
            .await
    }

    pub(crate) async fn tree_of(&self, place: &Place, commit: &str) -> Result<String> {
        check_sha(commit)?;
        let call = GitCommand::at(place, "rev-parse --verify --end-of-options");
        self.line(call.arg(format!("{commit}^{{tree}}"))).await
    }

    pub(crate) async fn is_empty_tree(&self, place: &Place, commit: &str) -> Result<bool> {
        check_sha(commit)?;
        Ok(self
            .bytes(GitCommand::at(place, "ls-tree --full-tree --end-of-options").arg(commit))
            .await?
            .is_empty())
    }

    /// Reads a regular file from a commit; `None` if the path is missing, a directory, a symlink or
    /// a submodule.
    pub(crate) async fn show_file(
        &self,
        place: &Place,
        commit: &str,
        path: &str,
    ) -> Result<Option<Vec<u8>>> {
        check_sha(commit)?;
        let call = GitCommand::at(place, "ls-tree -z --full-tree --end-of-options")
            .args([commit, "--", path]);
        let files = read_tree(&self.bytes(call).await?)?;
        let is_it = |file: &&TreeFile| file.path == path.as_bytes() && file.blob.is_file();
        match files.iter().find(is_it) {
            Some(file) => self.blob(place, &file.blob.sha).await.map(Some),
            None => Ok(None),
        }
    }

    pub(super) async fn blob(&self, place: &Place, sha: &str) -> Result<Vec<u8>> {
        check_sha(sha)?;
        let call = GitCommand::at(place, "cat-file blob").arg(sha);
        self.bytes(call.cap(FILE_CAP)).await
    }

    /// Lists commits that `to` has and `from` does not, newest first.
    pub(crate) async fn log(&self, place: &Place, from: &str, to: &str) -> Result<Vec<Commit>> {
        check_shas([from, to])?;
        let call = "log -z --no-show-signature --no-notes --no-color --encoding=UTF-8";
        let call = GitCommand::at(place, call)
            .arg("--format=%H%x00%an <%ae>%x00%s%x00%b%x00%(trailers:only=true,unfold=true)")
            .arg("--end-of-options")
            .arg(format!("{from}..{to}"));
        let text = lossy(&self.bytes(call).await?);
        read_log(&text).ok_or_else(|| GitError::output("log", text.as_bytes()))
    }

    /// Lists commits that `to` has and `from` does not, committed at this second or later.
    pub(crate) async fn committed_since(
        &self,
        place: &Place,
        from: &str,
        to: &str,
        seconds: u64,
    ) -> Result<Vec<String>> {
        check_shas([from, to])?;
        let call = GitCommand::at(place, "rev-list")
            .arg(format!("--max-age={seconds}"))
            .arg("--end-of-options")
            .arg(format!("{from}..{to}"));
        self.lines(call).await
    }
}

/// Parses the log. With `-z`, records and fields have the same separator, so five fields are a
/// commit.
fn read_log(text: &str) -> Option<Vec<Commit>> {
    let text = text.strip_suffix('\0').unwrap_or(text);
    if text.is_empty() {
        return Some(Vec::new());
    }
    let fields: Vec<&str> = text.split('\0').collect();
    let commit = |fields: &[&str]| {
        let [sha, author, subject, body, trailers] = fields else {
            return None;
        };
        check_sha(sha).ok()?;
        let trailers = trailers.lines().filter_map(|line| line.split_once(": "));
        Some(Commit {
            sha: (*sha).to_owned(),
            author: (*author).to_owned(),
            subject: (*subject).to_owned(),
            body: body.trim_end().to_owned(),
            trailers: trailers
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
        })
    };
    fields.chunks(5).map(commit).collect()
}

pub(super) fn check_shas<const N: usize>(texts: [&str; N]) -> Result<()> {
    texts.into_iter().try_for_each(check_sha)
}

/// Checks for a full id in lower case, SHA-1 or SHA-256: it cannot be an option, a path or an
/// abbreviation.
pub(crate) fn check_sha(text: &str) -> Result<()> {
    let hex = text
        .bytes()
        .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if hex && (text.len() == 40 || text.len() == 64) {
        return Ok(());
    }
    Err(GitError::not_a_commit(text))
}

fn is_full_ref(name: &str) -> bool {
    name.strip_prefix("refs/")
        .is_some_and(|rest| check_branch_name(rest).is_ok())
}
