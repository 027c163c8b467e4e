//! Checks the projects: repositories, reachable remotes, and directories for worktrees.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Access, access};

use super::machine::{closed_git, existing, nameless};
use super::{CALL, Check, Surroundings};
use crate::blackboard::Project;
use crate::config;
use crate::daemon;
use crate::git::{self, Git, GitError};
use crate::process;
use crate::project_settings::GateIn;
use crate::remote::{NetworkAccess, Remote, RemoteError};

pub(super) async fn project(around: Arc<Surroundings>, project: Project) -> Vec<Check> {
    let look = ProjectCheck {
        name: format!("project {}", project.project_id),
        around: &around,
        project: &project,
    };
    let (mut checks, remote) = tokio::join!(look.here(), look.remote());
    checks.extend(remote);
    // A single line if there are no problems.
    let troubles: Vec<Check> = checks
        .iter()
        .filter(|check| check.r#do.is_some())
        .cloned()
        .collect();
    if !troubles.is_empty() {
        return troubles;
    }
    let says: Vec<String> = checks.into_iter().map(|check| check.says).collect();
    vec![Check::ok(&look.name, says.join("; "))]
}

struct ProjectCheck<'a> {
    name: String,
    around: &'a Surroundings,
    project: &'a Project,
}

impl ProjectCheck<'_> {
    /// Runs all checks on this machine.
    async fn here(&self) -> Vec<Check> {
        let git = closed_git(self.around);
        let (mut checks, found) = self.repository(&git).await;
        checks.extend(self.roots());
        checks.extend(self.gates());
        checks.extend(self.gate_in());
        if let Some(found) = found {
            checks.extend(nameless(git.knows_who(&found.path).await.ok(), &self.name));
            checks.extend(self.origin(&found));
        }
        checks
    }

    async fn repository(&self, git: &Git) -> (Vec<Check>, Option<git::Project>) {
        let path = &self.project.path;
        match git.project_at(Path::new(path)).await {
            Ok(found) if found.common_dir == Path::new(&self.project.common_dir) => {
                (vec![Check::ok(&self.name, path)], Some(found))
            }
            Ok(found) => {
                let says = format!(
                    "{path} is now a different repository ({})",
                    found.common_dir.display()
                );
                (
                    vec![Check::fail(
                        &self.name,
                        says,
                        format!("restore {}", self.project.common_dir),
                    )],
                    None,
                )
            }
            // Each is reported by a check of its own.
            Err(GitError::NoGit | GitError::Sandbox { .. }) => (Vec::new(), None),
            Err(error) => {
                let r#do =
                    format!("restore the repository at {path}, and check that git works there");
                (vec![Check::fail(&self.name, error.to_string(), r#do)], None)
            }
        }
    }

    /// Checks the directories of worktrees, including those that remand creates.
    fn roots(&self) -> Vec<Check> {
        let set = self.around.loaded.project(self.project.project_id.as_str());
        let mut roots = set.worktree_roots;
        if roots.is_empty() {
            roots.extend(Path::new(&self.project.path).parent().map(Path::to_owned));
        }
        let mut checks: Vec<Check> = roots.iter().filter_map(|root| self.root(root)).collect();
        // It is created when needed.
        if let Some(above) = existing(&set.own_worktrees) {
            checks.extend(self.unwritable(above, "own_worktrees"));
        }
        checks
    }

    fn root(&self, root: &Path) -> Option<Check> {
        if !root.is_dir() {
            let says = format!("the worktree directory {} does not exist", root.display());
            return Some(Check::fail(
                &self.name,
                says,
                format!(
                    "run `mkdir -p {}`, or fix `worktree_roots` in the settings",
                    root.display()
                ),
            ));
        }
        self.unwritable(root, "worktree_roots")
    }

    fn unwritable(&self, folder: &Path, key: &str) -> Option<Check> {
        let error = access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
        let says = format!(
            "the worktree directory {} is not writable: {error}",
            folder.display()
        );
        Some(Check::fail(
            &self.name,
            says,
            format!("make it writable, or set another one in `{key}`"),
        ))
    }

    /// Checks the programs of gates. Only a bare name can be looked up: a path belongs to the
    /// worktree.
    fn gates(&self) -> Vec<Check> {
        let set = self.around.loaded.project(self.project.project_id.as_str());
        let path = config::agent_environment(&[])
            .get("PATH")
            .map(std::ffi::OsString::from);
        let setup = set.setup.first().map(|program| ("setup", program.clone()));
        let gates = set
            .gates
            .iter()
            .filter_map(|gate| Some(("gates", gate.first()?.clone())));
        let missing = gates.chain(setup).filter(|(_, program)| {
            !program.contains('/')
                && process::find(program.as_ref(), path.as_deref(), Path::new("/")).is_none()
        });
        missing
            .map(|(key, program)| {
                let says = format!("`{key}` runs `{program}`, which was not found");
                Check::fail(
                    &self.name,
                    says,
                    format!("install `{program}`, or fix `{key}` in the settings"),
                )
            })
            .collect()
    }

    /// Reports a setting with which gates may check something other than what is pushed.
    fn gate_in(&self) -> Option<Check> {
        let set = self.around.loaded.project(self.project.project_id.as_str());
        (set.gate_in == GateIn::Worktree && !set.gates.is_empty()).then(|| {
            let says = "gates run in the agent's worktree: uncommitted or ignored files can make them pass although a fresh \
                        clone of the pushed commit would fail";
            Check::warn(&self.name, says, "set `gate_in = \"checkout\"`, with a `setup` if the gates need one")
        })
    }

    /// Compares the pinned URL, which pushes use whatever the repository says later, with the
    /// current origin: the pinned one may be out of date.
    fn origin(&self, found: &git::Project) -> Option<Check> {
        let (pinned, origin) = (self.project.remote_url.as_ref()?, found.origin.as_ref()?);
        let hidden = |url: &str| url.contains('@') && url.contains("://");
        (pinned != origin && !hidden(origin) && !origin.starts_with('-')).then(|| {
            let says = format!("pushes go to {pinned}, but its `origin` is now {origin}");
            let r#do = format!(
                "if it has moved, run `remand project add {} --url {origin}`",
                self.project.path
            );
            Check::warn(&self.name, says, r#do)
        })
    }

    async fn remote(&self) -> Option<Check> {
        let Some(url) = self.project.remote_url.clone() else {
            let repo = self.project.repo.as_ref()?;
            let says = format!("cannot push to pull requests of {repo}: no push URL is set");
            return Some(Check::warn(
                &self.name,
                says,
                format!("run `remand project add {} --url URL`", self.project.path),
            ));
        };
        if !self.around.asks_network() {
            return Some(Check::ok(
                &self.name,
                format!("{url} was not checked (--offline)"),
            ));
        }
        let branch = &self.project.default_branch;
        Some(match self.head(url.clone()).await {
            Ok(Some(_)) => Check::ok(
                &self.name,
                format!("{url} is reachable, branch {branch} exists"),
            ),
            Ok(None) => {
                let says = format!("{url} has no branch {branch}, which work is merged into");
                Check::fail(
                    &self.name,
                    says,
                    format!(
                        "push it with `git -C {} push origin {branch}`",
                        self.project.path
                    ),
                )
            }
            Err(error) => Check::fail(&self.name, error.to_string(), mend(&error, &url)),
        })
    }

    /// Reads the remote's head from a temporary, empty clone: the one in the state directory
    /// belongs to the daemon.
    async fn head(&self, url: String) -> Result<Option<String>, RemoteError> {
        let folder = Scratch::new();
        let remote = Remote::new(NetworkAccess {
            git_dir: folder.0.join("look.git"),
            url,
            env: config::forge_environment(),
            closed: config::agent_environment(&[]),
            sandbox: Arc::new(daemon::sandbox(&self.around.loaded)),
            limit: CALL,
            gh: self.around.loaded.github().gh,
        });
        remote.ready().await?;
        remote.head_of(&self.project.default_branch).await
    }
}

fn mend(error: &RemoteError, url: &str) -> String {
    let is_auth = matches!(error, RemoteError::Auth { .. });
    let is_gone = matches!(error, RemoteError::NotFound { .. });
    if is_auth && url.starts_with("https://") {
        "run `gh auth login`, or configure a git credential helper".to_owned()
    } else if is_auth {
        format!(
            "check that your key is in the SSH agent (`ssh-add -l`) and that `git ls-remote {url}` works"
        )
    } else if is_gone {
        "if it was renamed, run `remand project add PATH --url URL --repo OWNER/NAME`".to_owned()
    } else {
        format!("check the network; `git ls-remote {url}` shows the error")
    }
}

/// Temporary directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("remand-doctor-{}", uuid::Uuid::new_v4().simple())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // If it cannot be removed, it stays in the directory for temporary files.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
