//! Real git and real remotes in a temporary directory: `origin.git` has `main` and `fix/a`, a
//! repository has a worktree on `fix/a`, and the daemon's environment has a canary in it that must
//! not leak.

mod judge;
mod looks;
mod poison;
mod pushes;
mod undone;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::{Expected, NetworkAccess, Push, Remote};
use crate::git::Place;
use crate::process::{Short, short, write_script as script};

const CANARY: &str = "canary-of-the-daemon-93c1";

struct Bed {
    _dir: TempDir,
    root: PathBuf,
    /// The agent's environment.
    closed: BTreeMap<String, String>,
    /// The daemon's environment.
    env: BTreeMap<String, String>,
    origin: PathBuf,
    place: Place,
    remote: Remote,
    /// Head of `fix/a` at the origin.
    start: String,
}

impl Bed {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let closed = environment(&root);
        let mut env = closed.clone();
        env.insert("CANARY".to_owned(), CANARY.to_owned());
        env.insert("GH_TOKEN".to_owned(), CANARY.to_owned());
        let origin = root.join("origin.git");
        let (repo, wt) = (root.join("repo"), root.join("wt"));
        let place = Place {
            path: wt.clone(),
            git_dir: wt.clone(),
            common_dir: wt.clone(),
        };
        let remote = remote(&root, origin.to_str().unwrap(), &env, &closed);
        let mut bed = Self {
            _dir: dir,
            root: root.clone(),
            closed,
            env,
            origin,
            place,
            remote,
            start: String::new(),
        };
        bed.raw(&root, ["init", "-q", "--bare", "-b", "main", "origin.git"])
            .await;
        bed.raw(&root, ["clone", "-q", "origin.git", "repo"]).await;
        write(&repo.join("a"), "one\n");
        write(&repo.join("d/x"), "x\n");
        bed.raw(&repo, ["add", "-A"]).await;
        bed.raw(&repo, ["commit", "-q", "-m", "start"]).await;
        bed.raw(&repo, ["push", "-q", "origin", "HEAD:main", "HEAD:fix/a"])
            .await;
        bed.raw(
            &repo,
            ["worktree", "add", "-q", "-b", "fix/a", wt.to_str().unwrap()],
        )
        .await;
        bed.place = Place::find(&repo.join(".git"), &wt).unwrap();
        bed.start = bed.raw(&wt, ["rev-parse", "HEAD"]).await;
        bed.remote.ready().await.unwrap();
        bed
    }

    /// The same clone with another URL, environment or limit.
    fn reach(&self, change: impl FnOnce(&mut NetworkAccess)) -> Remote {
        let mut reach = NetworkAccess::clone(&self.remote.reach);
        change(&mut reach);
        Remote::new(reach)
    }

    /// The same origin through a script in place of ssh; `$cmd` is the command for the other side.
    fn over_ssh(&self, body: &str) -> Remote {
        let ssh = self.root.join("ssh.sh");
        script(&ssh, &format!("for cmd; do :; done\n{body}"));
        let url = format!("ssh://git@forge.invalid{}", self.origin.display());
        self.reach(|reach| {
            reach.url = url;
            reach
                .env
                .insert("GIT_SSH_COMMAND".to_owned(), ssh.display().to_string());
            reach
                .env
                .insert("GIT_SSH_VARIANT".to_owned(), "simple".to_owned());
        })
    }

    async fn try_raw<const N: usize>(&self, cwd: &Path, args: [&str; N]) -> (Option<i32>, String) {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let limit = Duration::from_secs(60);
        let env = self
            .closed
            .iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        let call = Short {
            program: "git".into(),
            args,
            cwd: cwd.to_owned(),
            env,
            stdin: None,
            limit,
            cap: 1 << 24,
            is_wrapped: false,
        };
        let output = short(&call).await.unwrap();
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

    /// Commits as the agent in the worktree.
    async fn work(&self, path: &str, text: &str) -> String {
        write(&self.place.path.join(path), text);
        self.commit().await
    }

    async fn commit(&self) -> String {
        self.raw(&self.place.path, ["add", "-A", "-f"]).await;
        self.raw(
            &self.place.path,
            ["commit", "-q", "--allow-empty", "-m", "by the agent"],
        )
        .await;
        self.raw(&self.place.path, ["rev-parse", "HEAD"]).await
    }

    /// Commits as the agent, imports the commit and returns its push.
    async fn taken(&self, path: &str, text: &str) -> Push {
        let to = self.work(path, text).await;
        self.remote.take(&self.place, "fix/a", &to).await.unwrap();
        Push {
            branch: "fix/a".to_owned(),
            expected: Expected::At(self.start.clone()),
            to,
        }
    }

    /// Commits as the agent, imports the commit and returns the push that creates a branch.
    async fn new_branch(&self, branch: &str) -> Push {
        Push {
            branch: branch.to_owned(),
            expected: Expected::Absent,
            ..self.taken("new", "text\n").await
        }
    }

    /// Commits as a person on a branch at the origin, on top of `on`.
    async fn person(&self, on: &str, path: &str, text: &str) -> String {
        let other = self.root.join("person");
        if !other.exists() {
            self.raw(&self.root, ["clone", "-q", "origin.git", "person"])
                .await;
        }
        self.raw(&other, ["fetch", "-q", "origin"]).await;
        self.raw(&other, ["checkout", "-q", "-f", "--detach", on])
            .await;
        write(&other.join(path), text);
        self.raw(&other, ["add", "-A"]).await;
        self.raw(
            &other,
            ["commit", "-q", "--allow-empty", "-m", "by a person"],
        )
        .await;
        self.raw(&other, ["push", "-q", "-f", "origin", "HEAD:fix/a"])
            .await;
        self.raw(&other, ["rev-parse", "HEAD"]).await
    }

    /// Returns the origin's head of the branch.
    async fn at_origin(&self, branch: &str) -> Option<String> {
        let (status, output) = self
            .try_raw(
                &self.origin,
                [
                    "rev-parse",
                    "-q",
                    "--verify",
                    &format!("refs/heads/{branch}"),
                ],
            )
            .await;
        (status == Some(0)).then_some(output)
    }

    fn hook(&self, name: &str, body: &str) {
        script(&self.origin.join("hooks").join(name), body);
    }
}

fn remote(
    root: &Path,
    url: &str,
    env: &BTreeMap<String, String>,
    closed: &BTreeMap<String, String>,
) -> Remote {
    Remote::new(NetworkAccess {
        git_dir: root.join("state/repos/p.git"),
        url: url.to_owned(),
        env: env.clone(),
        closed: closed.clone(),
        sandbox: crate::sandbox::for_tests(closed),
        limit: Duration::from_secs(60),
        gh: Vec::new(),
    })
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
        "[user]\n\tname = A Person\n\temail = person@example.com\n",
    );
    BTreeMap::from([
        ("PATH".to_owned(), std::env::var("PATH").unwrap()),
        ("HOME".to_owned(), home.clone()),
        ("GIT_CONFIG_GLOBAL".to_owned(), format!("{home}/gitconfig")),
        ("GIT_CONFIG_NOSYSTEM".to_owned(), "1".to_owned()),
    ])
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}
