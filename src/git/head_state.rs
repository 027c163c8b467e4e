//! HEAD, its branch and the changes of a worktree, read by as few processes as possible.
//!
//! An agent can name branches and refs so that a short answer of git has two meanings. Such an
//! answer is not used: git is then asked again, one question per process.

use std::collections::BTreeSet;
use std::path::Path;

use super::command::GitCommand;
use super::history::check_sha;
use super::status::{Entry, Snapshot, Status};
use super::{Git, Place, Result, Worktree};
use crate::files::{self, SMALL};

/// Asks for the commit of HEAD and its full name. The marker is an option that git does not know
/// and therefore prints: an agent can name refs so that git prints nothing for HEAD. Refs after it
/// are printed as they are named.
const ASK: &str = "rev-parse HEAD^{commit} --symbolic-full-name HEAD --remand-refs --symbolic";
const MARKER: &str = "--remand-refs";

/// HEAD as git reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// Full name of the ref that HEAD points to, through all symbolic refs; `None` if detached.
    pub(super) name: Option<String>,
    pub(super) commit: Option<String>,
}

/// Changes of a worktree that are not committed, including those that nobody wants to see: caches
/// and paths that are passed over.
#[derive(Debug, Clone)]
pub(crate) struct Uncommitted {
    pub(super) entries: Vec<Entry>,
}

impl Git {
    /// Reads HEAD and the operation in progress. Fails if HEAD itself is broken.
    pub(crate) async fn look(&self, place: &Place) -> Result<Worktree> {
        Ok(worktree(place, self.head_state(place).await?))
    }

    pub(super) async fn head_state(&self, place: &Place) -> Result<Head> {
        match self.head_and(place, GitCommand::at(place, ASK)).await? {
            Some((head, _)) => Ok(head),
            None => self.head_by_parts(place).await,
        }
    }

    /// Reads HEAD with one process per question: one without a commit, or whose name is ambiguous.
    pub(super) async fn head_by_parts(&self, place: &Place) -> Result<Head> {
        let name = GitCommand::at(place, "symbolic-ref -q HEAD");
        Ok(Head {
            name: self.maybe_line(name).await?,
            commit: self.resolve(place, "HEAD").await?,
        })
    }

    /// Reads HEAD, refs that match these patterns, and the index, which must be readable. `None` if
    /// git fails or if its answer has two meanings.
    pub(super) async fn head_and_refs(
        &self,
        place: &Place,
        patterns: &[&str],
    ) -> Result<Option<(Head, BTreeSet<String>)>> {
        let mut call = GitCommand::at(place, ASK);
        for pattern in patterns {
            call = call.arg(format!("--glob={pattern}"));
        }
        // The cheapest question for which git must read the index.
        self.head_and(place, call.arg("--shared-index-path")).await
    }

    async fn head_and(
        &self,
        place: &Place,
        call: GitCommand,
    ) -> Result<Option<(Head, BTreeSet<String>)>> {
        let answer = self.answer(call).await?;
        let read = answer.as_deref().and_then(read_head);
        Ok(read.filter(|(head, _)| is_in_file(place, head)))
    }

    /// Like [`Git::look`] and [`Git::status`], at one moment and by one process.
    pub(crate) async fn look_and_status(&self, place: &Place) -> Result<(Worktree, Status)> {
        let (now, left) = self.look_and_uncommitted(place).await?;
        Ok((now, self.shown(left)))
    }

    /// Like [`Git::look_and_status`], with everything that git reports.
    pub(crate) async fn look_and_uncommitted(
        &self,
        place: &Place,
    ) -> Result<(Worktree, Uncommitted)> {
        self.look_by(place, None).await
    }

    /// Like [`Git::look_and_uncommitted`], by an index (that of the worktree, if none is given).
    pub(super) async fn look_by(
        &self,
        place: &Place,
        index: Option<&Path>,
    ) -> Result<(Worktree, Uncommitted)> {
        let (head, left) = self.head_and_uncommitted(place, index).await?;
        Ok((worktree(place, head), left))
    }

    pub(super) async fn head_and_uncommitted(
        &self,
        place: &Place,
        index: Option<&Path>,
    ) -> Result<(Head, Uncommitted)> {
        let Snapshot {
            commit,
            branch,
            entries,
        } = self.snapshot(place, index).await?;
        let head = match branch.as_deref().and_then(|name| head_name(place, name)) {
            Some(name) => Head { name, commit },
            None => self.head_by_parts(place).await?,
        };
        Ok((head, Uncommitted { entries }))
    }
}

pub(super) fn worktree(place: &Place, head: Head) -> Worktree {
    let branch = head.name.as_deref();
    Worktree {
        place: place.clone(),
        branch: branch
            .and_then(|name| name.strip_prefix("refs/heads/"))
            .map(str::to_owned),
        head: head.commit,
        operation: place.operation(),
        index_lock: place.index_lock().symlink_metadata().is_ok(),
    }
}

/// Returns the ref of HEAD that `git status` means; `None` if it could mean another one.
///
/// Status prints a branch without `refs/heads/`, any other ref in full, and a detached HEAD in the
/// form of a valid branch name.
fn head_name(place: &Place, shown: &str) -> Option<Option<String>> {
    if shown == "(detached)" {
        return is_detached(place).then_some(None);
    }
    let is_clear = !shown.is_empty() && !shown.starts_with("refs/") && !shown.starts_with('(');
    is_clear.then(|| Some(format!("refs/heads/{shown}")))
}

/// Returns true if the file HEAD has a commit in it.
fn is_detached(place: &Place) -> bool {
    head_file(place).is_some_and(|text| check_sha(&text).is_ok())
}

/// Returns true if the file HEAD says the same. Git searches for another ref of that name if HEAD
/// leads nowhere.
fn is_in_file(place: &Place, head: &Head) -> bool {
    let text = match (&head.name, &head.commit) {
        (Some(name), _) => format!("ref: {name}"),
        (None, Some(commit)) => commit.clone(),
        (None, None) => return false,
    };
    head_file(place) == Some(text)
}

fn head_file(place: &Place) -> Option<String> {
    let file = place.git_dir.join("HEAD");
    let bytes = files::aside(|| files::read(&file, SMALL)).ok()?;
    String::from_utf8(bytes.trim_ascii_end().to_vec()).ok()
}

/// Parses the commit of HEAD, its full name, and names of refs. Other lines are not looked at.
fn read_head(output: &[u8]) -> Option<(Head, BTreeSet<String>)> {
    let text = String::from_utf8_lossy(output);
    let mut lines = text.lines();
    let commit = lines.next().filter(|line| check_sha(line).is_ok())?;
    let name = match lines.next()? {
        "HEAD" => None,
        name if name.starts_with("refs/") => Some(name.to_owned()),
        _ => return None,
    };
    lines.next().filter(|line| *line == MARKER)?;
    let head = Head {
        name,
        commit: Some(commit.to_owned()),
    };
    let refs = lines.filter(|line| line.starts_with("refs/"));
    Some((head, refs.map(str::to_owned).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_with_two_meanings_is_not_used() {
        let sha = "a".repeat(40);
        let read = |text: &str| read_head(text.replace("SHA", &sha).as_bytes());
        let (head, refs) =
            read("SHA\nrefs/heads/a\n--remand-refs\nrefs/bisect/bad\n/x/index\n").unwrap();
        assert_eq!(head.name.as_deref(), Some("refs/heads/a"));
        assert_eq!(refs.into_iter().collect::<Vec<_>>(), ["refs/bisect/bad"]);
        assert_eq!(read("SHA\nHEAD\n--remand-refs\n").unwrap().0.name, None);
        for text in [
            "",
            "SHA\n",
            "SHA\nrefs/heads/a\n",
            "SHA\n--remand-refs\nrefs/bisect/bad\n",
            "HEAD\nSHA\n--remand-refs\n",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let place = Place::bare("/nonexistent".into());
        assert_eq!(head_name(&place, "a"), Some(Some("refs/heads/a".into())));
        for shown in ["(detached)", "(x)", "refs/x", ""] {
            assert_eq!(head_name(&place, shown), None, "{shown}");
        }
    }
}
