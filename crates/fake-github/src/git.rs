//! Commits, diffs and branches of the bare repositories behind the pull requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::FakeGithubError;
use crate::state::GithubState;

pub(crate) struct Git {
    /// The complete environment of git.
    pub(crate) env: BTreeMap<String, String>,
}

pub(crate) struct Commit {
    pub(crate) sha: String,
    pub(crate) tree: String,
    pub(crate) parents: Vec<String>,
    /// Name, email address and date.
    pub(crate) author: [String; 3],
    pub(crate) committer: [String; 3],
    pub(crate) message: String,
}

impl Git {
    /// Returns `None` if there is no such commit.
    pub(crate) fn commit(
        &self,
        git_dir: &Path,
        sha: &str,
    ) -> Result<Option<Commit>, FakeGithubError> {
        let format = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B";
        // In UTC, because `call` sets TZ.
        let args = [
            "show",
            "--no-patch",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
            format,
            "--end-of-options",
            sha,
        ];
        let text = match self.call(git_dir, &args) {
            Ok(text) => text,
            Err(FakeGithubError::GitFailed { stderr, .. }) if stderr.contains("bad object") => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut parts = text.splitn(10, '\0').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        let (sha, tree, parents) = (next(), next(), next());
        Ok(Some(Commit {
            sha,
            tree,
            parents: parents.split_whitespace().map(str::to_owned).collect(),
            author: [next(), next(), next()],
            committer: [next(), next(), next()],
            message: next().trim_end().to_owned(),
        }))
    }

    /// Lists the commits of a pull request.
    pub(crate) fn commits(
        &self,
        git_dir: &Path,
        base: &str,
        head: &str,
    ) -> Result<Vec<String>, FakeGithubError> {
        let range = format!("{base}..{head}");
        let text = self.call(git_dir, &["rev-list", "--end-of-options", &range, "--"])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Returns the diff from the merge base to the head, as a pull request shows it.
    pub(crate) fn diff(
        &self,
        git_dir: &Path,
        base: &str,
        head: &str,
    ) -> Result<String, FakeGithubError> {
        let range = format!("{base}...{head}");
        let options = [
            "diff",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--no-renames",
            "-U3",
        ];
        let args: Vec<&str> = options
            .into_iter()
            .chain(["--end-of-options", &range, "--"])
            .collect();
        self.call(git_dir, &args)
    }

    /// Returns `None` if the commits have no common ancestor, or one of them does not exist.
    pub(crate) fn merge_base(
        &self,
        git_dir: &Path,
        one: &str,
        other: &str,
    ) -> Result<Option<String>, FakeGithubError> {
        match self.call(git_dir, &["merge-base", "--end-of-options", one, other]) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(FakeGithubError::GitFailed { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn call(&self, git_dir: &Path, args: &[&str]) -> Result<String, FakeGithubError> {
        #[expect(
            clippy::disallowed_methods,
            reason = "the only place in this crate that starts a process"
        )]
        let mut command = Command::new("git");
        command
            .args(["-c", "core.quotePath=false"])
            .args(args)
            .current_dir(git_dir)
            .env_clear()
            .envs(&self.env)
            .env("GIT_DIR", git_dir)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        let output = command.output().map_err(FakeGithubError::Git)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(FakeGithubError::GitFailed {
            args: args.join(" "),
            git_dir: git_dir.to_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}

/// Updates the open pull requests of a repository to the current commits of their branches.
///
/// A pull request whose branch was deleted stays as it was. One whose head moved gets a new `updated_at`.
pub(crate) fn update_branches(github: &mut GithubState, repo: &str) -> Result<(), FakeGithubError> {
    let mut moved = Vec::new();
    let Some(home) = github.repos.get(repo) else {
        return Ok(());
    };
    for (number, pull) in home.pulls.iter().filter(|(_, pull)| pull.is_open()) {
        let head_home = pull
            .head_repo
            .as_ref()
            .and_then(|name| github.repos.get(name));
        let head = match head_home {
            Some(head_home) => branch(&head_home.git_dir, &pull.head_ref)?,
            None => None,
        };
        let head = head.unwrap_or_else(|| pull.head_sha.clone());
        let base = branch(&home.git_dir, &pull.base_ref)?.unwrap_or_else(|| pull.base_sha.clone());
        if head != pull.head_sha || base != pull.base_sha {
            moved.push((*number, head, base));
        }
    }
    for (number, head, base) in moved {
        let at = github.timestamp()?;
        if let Some(pull) = github
            .repos
            .get_mut(repo)
            .and_then(|home| home.pulls.get_mut(&number))
        {
            if pull.head_sha != head {
                pull.updated_at = at;
            }
            (pull.head_sha, pull.base_sha) = (head, base);
        }
    }
    Ok(())
}

/// Reads the commit of a branch from the files of the repository.
///
/// Starting git for every branch at every request would take longer than all other work.
pub(crate) fn branch(git_dir: &Path, name: &str) -> Result<Option<String>, FakeGithubError> {
    let full = format!("refs/heads/{name}");
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FakeGithubError::file("read", path)(error)),
    };
    if let Some(text) = read(&git_dir.join(&full))? {
        return Ok(Some(text.trim().to_owned()));
    }
    let packed = read(&git_dir.join("packed-refs"))?.unwrap_or_default();
    let found = packed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(_, known)| *known == full);
    Ok(found.map(|(sha, _)| sha.to_owned()))
}
