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

use crate::project_settings::{GateIn, ProjectSettings};
use crate::remote::{NetworkAccess, Remote, RemoteError};

pub(super) async fn project(around: Arc<Surroundings>, project: Project) -> Vec<Check> {
    let look = ProjectCheck {
        name: format!("project {}", project.project_id),
        around: &around,
        project: &project,
        settings: around.loaded.project(project.project_id.as_str()),
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
    settings: ProjectSettings,
}

impl ProjectCheck<'_> {
    fn warn(&self, says: impl Into<String>, r#do: impl Into<String>) -> Check {
        Check::warn(&self.name, says, r#do)
    }

    fn fail(&self, says: impl Into<String>, r#do: impl Into<String>) -> Check {
        Check::fail(&self.name, says, r#do)
    }

    /// Runs all checks on this machine.
    async fn here(&self) -> Vec<Check> {
        let git = closed_git(self.around);
        let (mut checks, found) = self.repository(&git).await;
        checks.extend(self.roots());
        checks.extend(self.gates());
        checks.extend(self.setup());
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
                let other = found.common_dir.display();
                let says = format!("{path} is now a different repository ({other})");
                let r#do = format!("restore {}", self.project.common_dir);
                (vec![self.fail(says, r#do)], None)
            }
            // Each is reported by a check of its own.
            Err(GitError::NoGit | GitError::Sandbox { .. }) => (Vec::new(), None),
            Err(error) => {
                let r#do =
                    format!("restore the repository at {path}, and check that git works there");
                (vec![self.fail(error.to_string(), r#do)], None)
            }
        }
    }

    /// Checks the directories of worktrees, including those that remand creates.
    fn roots(&self) -> Vec<Check> {
        let mut roots = self.settings.worktree_roots.clone();
        if roots.is_empty() {
            roots.extend(Path::new(&self.project.path).parent().map(Path::to_owned));
        }
        let mut checks: Vec<Check> = roots.iter().filter_map(|root| self.root(root)).collect();
        // It is created when needed.
        if let Some(above) = existing(&self.settings.own_worktrees) {
            checks.extend(self.unwritable(above, "own_worktrees"));
        }
        checks
    }

    fn root(&self, root: &Path) -> Option<Check> {
        if !root.is_dir() {
            let path = root.display();
            let says = format!("the worktree directory {path} does not exist");
            let r#do = format!("run `mkdir -p {path}`, or fix `worktree_roots` in the settings");
            return Some(self.fail(says, r#do));
        }
        self.unwritable(root, "worktree_roots")
    }

    fn unwritable(&self, folder: &Path, key: &str) -> Option<Check> {
        let error = access(folder, Access::WRITE_OK | Access::EXEC_OK).err()?;
        let path = folder.display();
        let says = format!("the worktree directory {path} is not writable: {error}");
        let r#do = format!("make it writable, or set another one in `{key}`");
        Some(self.fail(says, r#do))
    }

    /// Checks the program of the set-up, if it is in the repository. A branch may have another one.
    fn setup(&self) -> Option<Check> {
        let program = self
            .settings
            .setup
            .first()
            .filter(|one| one.contains('/'))?;
        let (root, is_bare) = (
            Path::new(&self.project.path),
            self.project.path == self.project.common_dir,
        );
        if (is_bare && Path::new(program).is_relative()) || root.join(program).exists() {
            return None;
        }
        let says = format!(
            "`setup` runs `{program}`, which does not exist in {}",
            root.display()
        );
        Some(self.warn(says, "add it, or fix `setup` in the settings"))
    }

    /// Checks the programs of gates. Only a bare name can be looked up: a path belongs to the
    /// worktree.
    fn gates(&self) -> Vec<Check> {
        let set = &self.settings;
        let setup = set.setup.first().map(|program| ("setup", program.clone()));
        let gates = set
            .gates
            .iter()
            .filter_map(|gate| Some(("gates", gate.first()?.clone())));
        let missing = gates.chain(setup).filter(|(_, program)| {
            !program.contains('/') && daemon::program_for_agents(program).is_none()
        });
        missing
            .map(|(key, program)| {
                let says = format!("`{key}` runs `{program}`, which was not found");
                let r#do = format!("install `{program}`, or fix `{key}` in the settings");
                self.fail(says, r#do)
            })
            .collect()
    }

    /// Reports a setting with which gates may check something other than what is pushed.
    fn gate_in(&self) -> Option<Check> {
        let set = &self.settings;
        (set.gate_in == GateIn::Worktree && !set.gates.is_empty()).then(|| {
            let says = "gates run in the agent's worktree: uncommitted or ignored files can make them pass although they \
                        would fail in a fresh clone of the pushed commit";
            self.warn(says, "set `gate_in = \"checkout\"`, with a `setup` if the gates need one")
        })
    }

    /// Compares the pinned URL, which pushes use whatever the repository says later, with the
    /// current origin: the pinned one may be out of date.
    fn origin(&self, found: &git::Project) -> Option<Check> {
        let (pinned, origin) = (self.project.remote_url.as_ref()?, found.origin.as_ref()?);
        let hidden = |url: &str| url.contains('@') && url.contains("://");
        (pinned != origin && !hidden(origin) && !origin.starts_with('-')).then(|| {
            let says =
                format!("pushes go to {pinned}, but the repository's `origin` is now {origin}");
            let add = format!("remand project add {} --url {origin}", self.project.path);
            self.warn(says, format!("if it has moved, run `{add}`"))
        })
    }

    async fn remote(&self) -> Option<Check> {
        let Some(url) = self.project.remote_url.clone() else {
            let repo = self.project.repo.as_ref()?;
            let says = format!("cannot push to pull requests of {repo}: no push URL is set");
            let add = format!("remand project add {} --url URL", self.project.path);
            return Some(self.warn(says, format!("run `{add}`")));
        };
        if !self.around.asks_network() {
            let says = format!("{url} was not checked (--offline)");
            return Some(Check::ok(&self.name, says));
        }
        let branch = &self.project.default_branch;
        Some(match self.head(url.clone()).await {
            Ok(Some(_)) => {
                let says = format!("{url} is reachable, branch {branch} exists");
                Check::ok(&self.name, says)
            }
            Ok(None) => {
                let says = format!("{url} has no branch {branch}, the project's default branch");
                let push = format!("git -C {} push origin {branch}", self.project.path);
                self.fail(says, format!("push it with `{push}`"))
            }
            Err(error) => self.fail(error.to_string(), mend(&error, &url)),
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
        "if the repository was renamed, run `remand project add PATH --url URL --repo OWNER/NAME`"
            .to_owned()
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
