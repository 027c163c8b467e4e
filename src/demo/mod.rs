//! Environment of `remand demo`: a temporary remote with three pull requests on a fake GitHub, a
//! clone of it, a task, scripted agents, a scripted person, and a configuration. The code that runs
//! in it is the daemon's own.

mod command;
mod git;
mod github_users;
mod scripted_person;
mod transcript;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::json;

use crate::blackboard::{self as bb, Project, SyncDb};
use crate::change::{Change, ProjectId, State};
use crate::clock;
use crate::config::{self, ConfigLocation, Loaded};
use git::Git;
use github_users::GithubUsers;

pub(crate) use scripted_person::Grace;
pub(crate) use transcript::Remark;

/// Repository on the fake GitHub, as `owner/name`.
pub(crate) const REPO: &str = "ada/calc";
/// User that is logged in there: remand posts under this name.
pub(crate) const ME: &str = "ada";
/// Author of the pull requests.
const AUTHOR: &str = "coder";

/// Pull request of the demo, with its expected end.
pub(crate) struct Part {
    /// Number that it has, or will have.
    pub(crate) number: i64,
    pub(crate) branch: &'static str,
    pub(crate) title: &'static str,
    pub(crate) ends: Ends,
    /// Files on its branch: names and contents. None for a task.
    files: &'static [(&'static str, &'static str)],
}

/// Expected end of a pull request, with the number of its fixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// remand's own review passed.
    Passed(i64),
    /// A person approved it.
    Approved(i64),
    /// It was escalated to a person.
    Escalated(i64),
    /// It began as a task, and its pull request was opened after the self-review.
    Opened(i64),
}

pub(crate) const PARTS: [Part; 4] = [
    Part {
        number: 1,
        branch: "leap-years",
        title: "Detect leap years",
        ends: Ends::Passed(1),
        files: &[
            ("leap.sh", include_str!("leap.sh")),
            ("test.sh", include_str!("leap_test.sh")),
        ],
    },
    Part {
        number: 2,
        branch: "greeting",
        title: "Greet by name",
        ends: Ends::Approved(1),
        files: &[
            ("greet.sh", "greet() { echo \"Hello, $1!\"; }\n"),
            (
                "test.sh",
                ". ./greet.sh\n[ \"$(greet Ada)\" = \"Hello, Ada!\" ] || exit 1\n",
            ),
        ],
    },
    Part {
        number: 3,
        branch: "banner",
        title: "Add a banner",
        ends: Ends::Escalated(2),
        files: &[
            ("banner.txt", "remand\n"),
            ("test.sh", "grep -q remand banner.txt\n"),
        ],
    },
    Part {
        number: 4,
        branch: "remand/count-words",
        title: "Count words",
        ends: Ends::Opened(1),
        files: &[],
    },
];

/// Description of the task.
pub(crate) const TASK: &str = "`count_words TEXT` in words.sh prints the number of words.";

impl Part {
    /// True if it begins as a task, which remand implements.
    pub(crate) fn is_task(&self) -> bool {
        matches!(self.ends, Ends::Opened(_))
    }

    /// Returns `None` until a change has ended, then whether it ended as expected.
    pub(crate) fn ended(&self, change: &Change) -> Option<bool> {
        let fixes = change.budget.total_fixes;
        match (change.state, self.ends) {
            (State::Escalated, ends) => Some(ends == Ends::Escalated(fixes)),
            (State::Approved, ends) => Some(ends == Ends::Approved(fixes)),
            // With `Ends::Approved`, the review by Grace is still to come.
            (state, Ends::Passed(n)) if state.is_approved() => Some(fixes == n),
            (state, Ends::Opened(n)) if state.is_approved() => {
                Some(fixes == n && change.pr_number == Some(self.number))
            }
            (_, _) => None,
        }
    }
}

/// Environment of the demo, ready to run.
pub(crate) struct Stage {
    pub(crate) loaded: Loaded,
    pub(crate) project: Project,
    /// Bare repository that is pushed to.
    pub(crate) remote: PathBuf,
    /// Commit of `main`.
    pub(crate) main: String,
    github_users: GithubUsers,
    git: Git,
}

impl Stage {
    /// Creates the environment in an empty directory.
    pub(crate) async fn set(folder: &Path) -> anyhow::Result<Self> {
        let (checkout, remote, forge) = (
            folder.join("calc"),
            folder.join("remote.git"),
            folder.join("forge.json"),
        );
        let git = Git {
            home: folder.join("home"),
        };
        let program =
            std::env::current_exe().context("cannot determine the path of this program")?;
        let (agents, evaluators) = (folder.join("agents"), folder.join("evaluators"));
        for made in [&git.home, &checkout, &remote, &agents, &evaluators] {
            fs::create_dir_all(made)
                .with_context(|| format!("cannot create {}", made.display()))?;
        }
        write(&agents.join("reviewer.sh"), include_str!("reviewer.sh"))?;
        write(&agents.join("fixer.sh"), include_str!("fixer.sh"))?;
        write(
            &evaluators.join("pr_feedback.toml"),
            include_str!("pr_feedback.toml"),
        )?;
        write(
            &folder.join("config.toml"),
            &configuration(&program, &agents, &forge),
        )?;
        let heads = plant(&git, &checkout, &remote).await?;
        write(&forge, &open_pulls(&remote, &heads).to_string())?;
        let place = ConfigLocation {
            config: Some(folder.join("config.toml")),
            db: Some(folder.join("blackboard.db")),
        };
        let loaded = config::load(&place)?;
        let project = enter(&loaded, &checkout, &remote)?;
        Ok(Self {
            loaded,
            project,
            remote,
            main: heads.into_iter().next().unwrap_or_default(),
            github_users: GithubUsers::new(program, forge),
            git,
        })
    }

    /// Returns the commits of a pull request on the remote, newest first.
    pub(crate) async fn pushed(&self, part: &Part) -> anyhow::Result<Vec<String>> {
        let range = format!("main..{}", part.branch);
        let log = self
            .git
            .call(&self.remote, &["log", "--oneline", &range])
            .await?;
        Ok(log.lines().map(str::to_owned).collect())
    }
}

/// Creates the remote with a branch for each part, and a clone of it on `main`. Returns the heads
/// of the branches, `main` first.
async fn plant(git: &Git, checkout: &Path, remote: &Path) -> anyhow::Result<Vec<String>> {
    let url = remote.display().to_string();
    git.call(
        remote,
        &["init", "--quiet", "--bare", "--initial-branch=main"],
    )
    .await?;
    git.call(checkout, &["init", "--quiet", "--initial-branch=main"])
        .await?;
    git.call(checkout, &["remote", "add", "origin", &url])
        .await?;
    write(&checkout.join("README"), "A small calculator.\n")?;
    write(&checkout.join("test.sh"), "true\n")?;
    git.commit(checkout, "Begin").await?;
    git.call(checkout, &["push", "--quiet", "origin", "main"])
        .await?;
    let mut heads = vec![git.call(checkout, &["rev-parse", "HEAD"]).await?];
    for part in PARTS.iter().filter(|part| !part.is_task()) {
        git.call(checkout, &["checkout", "--quiet", "--detach", "main"])
            .await?;
        for (name, text) in part.files {
            write(&checkout.join(name), text)?;
        }
        git.commit(checkout, part.title).await?;
        git.call(
            checkout,
            &[
                "push",
                "--quiet",
                "origin",
                &format!("HEAD:refs/heads/{}", part.branch),
            ],
        )
        .await?;
        heads.push(git.call(checkout, &["rev-parse", "HEAD"]).await?);
    }
    git.call(checkout, &["checkout", "--quiet", "main"]).await?;
    Ok(heads)
}

/// Returns the state file of the fake GitHub: see `crates/fake-github/src/state.rs`.
fn open_pulls(remote: &Path, heads: &[String]) -> serde_json::Value {
    let (main, heads) = heads
        .split_first()
        .map(|(main, heads)| (main.as_str(), heads))
        .unwrap_or_default();
    let now = clock::now().utc().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let pulls: BTreeMap<String, serde_json::Value> = PARTS
        .iter()
        .zip(heads)
        .map(|(part, head)| {
            let pull = json!({
                "id": 100 + part.number, "title": part.title, "author": AUTHOR,
                "head_ref": part.branch, "head_repo": REPO, "head_sha": head, "base_ref": "main", "base_sha": main,
                "created_at": now, "updated_at": now,
            });
            (part.number.to_string(), pull)
        })
        .collect();
    json!({
        "me": ME,
        "users": { ME: { "id": 11 }, AUTHOR: { "id": 12 }, scripted_person::LOGIN: { "id": 13 } },
        "repos": { REPO: {
            "id": 1, "git_dir": remote, "default_branch": "main", "pulls": pulls,
            "permissions": { ME: "admin", AUTHOR: "write", scripted_person::LOGIN: "write" },
        } },
    })
}

/// Adds the project, with the same row that `remand project add` writes.
fn enter(loaded: &Loaded, checkout: &Path, remote: &Path) -> anyhow::Result<Project> {
    let checkout = checkout.canonicalize()?;
    let now = clock::now();
    let project = Project {
        project_id: ProjectId::new("calc"),
        path: checkout.display().to_string(),
        common_dir: checkout.join(".git").display().to_string(),
        repo: Some(REPO.into()),
        remote_url: Some(remote.display().to_string()),
        default_branch: "main".into(),
        created_at: now,
    };
    Ok(SyncDb::open(&loaded.blackboard, now)?
        .write("demo", |conn| bb::insert_project(conn, &project))?)
}

fn configuration(program: &Path, agents: &Path, forge: &Path) -> String {
    let text = |path: &Path| toml::Value::from(path.display().to_string()).to_string();
    format!(
        "agent = \"fixer\"\nreview_agent = \"reviewer\"\ngates = [[\"sh\", \"test.sh\"]]\nred_base = \"ignore\"\n\n\
         [github]\n# A local fake instead of GitHub, so that nothing leaves this machine.\n\
         gh = [{}, \"__gh\", {}]\n\n\
         [dispatch]\nslots = 4\nstop_grace_s = 1\n\n\
         [sandbox]\n# The agents of the demo are trusted scripts.\nkind = \"off\"\n\n\
         [agents.fixer]\nkind = \"command\"\ncommand = [\"sh\", {}]\n\n\
         [agents.reviewer]\nkind = \"command\"\ncommand = [\"sh\", {}]\n",
        text(program),
        text(forge),
        text(&agents.join("fixer.sh")),
        text(&agents.join("reviewer.sh")),
    )
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
