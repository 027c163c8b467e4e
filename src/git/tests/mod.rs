//! Real git in a temporary directory: a repository with a commit on `main`, and a worktree on
//! `fix/a`.

mod checkouts;
mod commits;
mod looks;
mod moves;
mod poison;
mod pull_templates;
mod put_back;
mod swap;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{Git, GitError, HeadAt, Place, RestorePoint};
use crate::process::{Short, short, write_script as script};
use crate::sandbox::for_tests;

struct Bed {
    _dir: TempDir,
    root: PathBuf,
    env: BTreeMap<String, String>,
    git: Git,
    repo: PathBuf,
    place: Place,
    /// Commit at which the worktree starts.
    start: String,
}

impl Bed {
    async fn new() -> Self {
        Self::with(&[
            ("a", "one\n"),
            ("d/x", "x\n"),
            (".gitignore", "ignored/\n*.log\n"),
        ])
        .await
    }

    async fn with(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let env = environment(&root);
        let git = Git::new(&env, Duration::from_secs(60), &for_tests(&env));
        let repo = root.join("repo");
        let wt = root.join("wt");
        fs::create_dir(&repo).unwrap();
        let place = Place {
            path: wt.clone(),
            git_dir: wt.clone(),
            common_dir: wt.clone(),
        };
        let mut bed = Self {
            _dir: dir,
            root,
            env,
            git,
            repo: repo.clone(),
            place,
            start: String::new(),
        };
        bed.raw(&repo, ["init", "-q", "-b", "main"]).await;
        for (path, text) in files {
            write(&repo.join(path), text);
        }
        bed.raw(&repo, ["add", "-A"]).await;
        bed.raw(&repo, ["commit", "-q", "--allow-empty", "-m", "start"])
            .await;
        bed.raw(
            &repo,
            ["worktree", "add", "-q", "-b", "fix/a", wt.to_str().unwrap()],
        )
        .await;
        bed.place = Place::find(&repo.join(".git"), &wt).unwrap();
        bed.start = bed.said(["rev-parse", "HEAD"]).await;
        bed
    }

    /// Runs git as an agent does: with discovery, hooks and everything.
    async fn try_raw<const N: usize>(&self, cwd: &Path, args: [&str; N]) -> (Option<i32>, String) {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let limit = Duration::from_secs(60);
        let env = self
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let short_call = Short {
            program: "git".into(),
            args,
            cwd: cwd.to_owned(),
            env,
            stdin: None,
            limit,
            cap: 1 << 24,
            is_wrapped: false,
        };
        let output = short(&short_call).await.unwrap();
        (
            output.status,
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat())
                .trim_end()
                .to_owned(),
        )
    }

    async fn raw<const N: usize>(&self, cwd: &Path, args: [&str; N]) -> String {
        let (status, output) = self.try_raw(cwd, args).await;
        assert_eq!(status, Some(0), "git {args:?}: {output}");
        output
    }

    /// Returns git's output in the worktree.
    async fn said<const N: usize>(&self, args: [&str; N]) -> String {
        self.raw(&self.place.path, args).await
    }

    fn wt(&self, path: &str) -> PathBuf {
        self.place.path.join(path)
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.wt(path), text);
    }

    async fn commit(&self, path: &str, text: &str) -> String {
        self.write(path, text);
        self.said(["add", "-f", "--", path]).await;
        self.said(["commit", "-q", "-m", "by the agent"]).await;
        self.said(["rev-parse", "HEAD"]).await
    }

    fn to(&self) -> RestorePoint<'_> {
        RestorePoint {
            head_at: "fix/a".into(),
            head_before: &self.start,
            run: "r1",
        }
    }

    async fn is_put_back(&self) {
        let now = self.git.worktree_at(&self.place.path).await.unwrap();
        assert_eq!(
            (now.branch.as_deref(), now.head.as_deref()),
            (Some("fix/a"), Some(self.start.as_str()))
        );
        assert_eq!((now.operation, now.index_lock), (None, false));
        assert!(self.git.status(&self.place).await.unwrap().is_clean());
        assert_eq!(fs::read_to_string(self.wt("a")).unwrap(), "one\n");
    }
}

/// Uses the real PATH, so that the tests run with whichever git comes first on it.
#[expect(
    clippy::disallowed_methods,
    reason = "tests use the git of the PATH that they are run with"
)]
fn environment(root: &Path) -> BTreeMap<String, String> {
    let home = root.to_str().unwrap().to_owned();
    write(
        &root.join("gitconfig"),
        "[user]\n\tname = A Person\n\temail = person@example.com\n[commit]\n\tgpgSign = false\n",
    );
    BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), home.clone()),
        ("GIT_CONFIG_GLOBAL".to_owned(), format!("{home}/gitconfig")),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
        ("GIT_EDITOR".to_owned(), "true".to_owned()),
    ])
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

impl Git {
    /// Commits everything that is uncommitted and returns the commit; `None` if there was nothing.
    async fn commit_rest(
        &self,
        place: &Place,
        head_at: impl Into<HeadAt<'_>>,
        message: &str,
    ) -> Result<Option<String>, GitError> {
        let (now, left) = self.look_and_uncommitted(place).await?;
        let head_at = head_at.into();
        if self.commit_left(head_at, &now, left, message).await? {
            self.resolve(place, "HEAD").await
        } else {
            Ok(None)
        }
    }
}
