//! The bare repository behind the pull requests: where its branches are, what lies between two of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use super::ForgeError;
use super::state::Forge;
use crate::process::{Short, short};

pub(super) struct Git {
    /// The environment of its calls.
    pub(super) env: BTreeMap<String, String>,
}

pub(super) struct Commit {
    pub(super) sha: String,
    pub(super) tree: String,
    pub(super) parents: Vec<String>,
    /// Name, address, date.
    pub(super) author: [String; 3],
    pub(super) committer: [String; 3],
    pub(super) message: String,
}

impl Git {
    /// None: there is no such commit.
    pub(super) async fn commit(
        &self,
        git_dir: &Path,
        sha: &str,
    ) -> Result<Option<Commit>, ForgeError> {
        let format = "--format=%H%x00%T%x00%P%x00%an%x00%ae%x00%ad%x00%cn%x00%ce%x00%cd%x00%B";
        // As UTC: see `call`.
        let args = [
            "show",
            "--no-patch",
            "--date=format-local:%Y-%m-%dT%H:%M:%SZ",
            format,
            "--end-of-options",
            sha,
        ];
        let text = match self.call(git_dir, &args).await {
            Ok(text) => text,
            Err(ForgeError::GitFailed { stderr, .. }) if stderr.contains("bad object") => {
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

    /// The commits of a pull request.
    pub(super) async fn commits(
        &self,
        git_dir: &Path,
        base: &str,
        head: &str,
    ) -> Result<Vec<String>, ForgeError> {
        let range = format!("{base}..{head}");
        let text = self
            .call(git_dir, &["rev-list", "--end-of-options", &range, "--"])
            .await?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// From where the head left the base, as a pull request shows it.
    pub(super) async fn diff(
        &self,
        git_dir: &Path,
        base: &str,
        head: &str,
    ) -> Result<String, ForgeError> {
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
        self.call(git_dir, &args).await
    }

    async fn call(&self, git_dir: &Path, args: &[&str]) -> Result<String, ForgeError> {
        let mut env = self.env.clone();
        env.insert("GIT_DIR".into(), git_dir.display().to_string());
        env.insert("LC_ALL".into(), "C".into());
        env.insert("TZ".into(), "UTC".into());
        let command = Short {
            program: "git".into(),
            args: ["-c", "core.quotePath=false"]
                .iter()
                .chain(args)
                .map(Into::into)
                .collect(),
            cwd: git_dir.to_owned(),
            env: env
                .into_iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect(),
            stdin: None,
            limit: Duration::from_secs(30),
            cap: 64 * 1024 * 1024,
            is_wrapped: false,
        };
        let output = short(&command).await.map_err(ForgeError::Git)?;
        if output.status == Some(0) {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(ForgeError::GitFailed {
            args: args.join(" "),
            git_dir: git_dir.to_owned(),
            stderr,
        })
    }
}

/// Looks where the branches of open pull requests are now. A branch that is gone leaves them as they were; one that
/// moved makes its pull request newer.
pub(super) fn follow_branches(forge: &mut Forge, repo: &str) -> Result<(), ForgeError> {
    let mut moved = Vec::new();
    let Some(home) = forge.repos.get(repo) else {
        return Ok(());
    };
    for (number, pull) in home.pulls.iter().filter(|(_, pull)| pull.is_open()) {
        let head_home = pull
            .head_repo
            .as_ref()
            .and_then(|name| forge.repos.get(name));
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
        let at = forge.stamp()?;
        if let Some(pull) = forge
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

/// Read from the files: a call of git for each branch and request would cost more than all the rest.
fn branch(git_dir: &Path, name: &str) -> Result<Option<String>, ForgeError> {
    let full = format!("refs/heads/{name}");
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ForgeError::file("read", path)(error)),
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
