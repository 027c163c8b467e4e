//! The stage of `remand demo`: a throw-away repository with three worktrees, scripted agents, and a configuration.
//! What plays on it is the daemon's own code.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::blackboard::{self as bb, Board, NewChange, Project};
use crate::change::{Change, ChangeId, OnMaxCycles, ProjectId, State};
use crate::clock;
use crate::config::{self, Loaded, Place};
use crate::process::{Short, short};

/// A change of the demo, and how it has to end.
pub(crate) struct Part {
    pub(crate) branch: &'static str,
    pub(crate) title: &'static str,
    pub(crate) ends: Ends,
    /// What is planted on its branch.
    files: &'static [(&'static str, &'static str)],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Rejected, fixed this often, approved.
    ApprovedAfter(i64),
    /// Handed to a person after this many fixes.
    EscalatedAfter(i64),
}

pub(crate) const PARTS: [Part; 3] = [
    Part {
        branch: "leap-years",
        title: "Tell leap years",
        ends: Ends::ApprovedAfter(1),
        files: &[("leap.sh", include_str!("leap.sh")), ("test.sh", include_str!("leap_test.sh"))],
    },
    Part {
        branch: "greeting",
        title: "Greet by name",
        ends: Ends::ApprovedAfter(0),
        files: &[
            ("greet.sh", "greet() { echo \"Hello, ${1:-you}!\"; }\n"),
            ("test.sh", ". ./greet.sh\n[ \"$(greet Ada)\" = \"Hello, Ada!\" ] && [ \"$(greet)\" = \"Hello, you!\" ]\n"),
        ],
    },
    Part {
        branch: "banner",
        title: "Add a banner",
        ends: Ends::EscalatedAfter(2),
        files: &[("banner.txt", "remand\n"), ("test.sh", "grep -q remand banner.txt\n")],
    },
];

impl Part {
    /// Whether a change ended, and if so, whether as it should.
    pub(crate) fn ended(&self, change: &Change) -> Option<bool> {
        let fixes = change.budget.total_fixes;
        if change.state == State::Escalated {
            Some(self.ends == Ends::EscalatedAfter(fixes))
        } else if change.state.is_approved() {
            Some(self.ends == Ends::ApprovedAfter(fixes))
        } else {
            None
        }
    }
}

/// The stage, set.
pub(crate) struct Stage {
    pub(crate) loaded: Loaded,
    pub(crate) repository: PathBuf,
    /// In the order of `PARTS`.
    pub(crate) changes: Vec<ChangeId>,
}

/// Sets the stage in an empty folder.
pub(crate) async fn set(folder: &Path) -> anyhow::Result<Stage> {
    let home = folder.join("home");
    let repository = folder.join("calc");
    let agents = folder.join("agents");
    for made in [&home, &repository, &agents] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    write(&agents.join("reviewer.sh"), include_str!("reviewer.sh"))?;
    write(&agents.join("fixer.sh"), include_str!("fixer.sh"))?;
    write(&folder.join("config.toml"), &configuration(&agents))?;
    let git = Git { home };
    git.call(&repository, &["init", "--quiet", "--initial-branch=main"]).await?;
    write(&repository.join("README"), "A small calculator.\n")?;
    write(&repository.join("test.sh"), "true\n")?;
    git.commit(&repository, "Begin").await?;
    for part in &PARTS {
        plant(&git, &repository, part).await?;
    }
    let place = Place { config: Some(folder.join("config.toml")), db: Some(folder.join("blackboard.db")) };
    let loaded = config::load(&place)?;
    let changes = enter(&loaded, &repository, &git).await?;
    Ok(Stage { loaded, repository, changes })
}

/// Where the worktree of a branch stands.
fn worktree_of(repository: &Path, branch: &str) -> PathBuf {
    let name = format!("{}-{branch}", repository.file_name().unwrap_or_default().to_string_lossy());
    repository.with_file_name(name)
}

async fn plant(git: &Git, repository: &Path, part: &Part) -> anyhow::Result<()> {
    let worktree = worktree_of(repository, part.branch);
    let path = worktree.display().to_string();
    git.call(repository, &["worktree", "add", "--quiet", "-b", part.branch, &path, "main"]).await?;
    for (name, text) in part.files {
        write(&worktree.join(name), text)?;
    }
    git.commit(&worktree, part.title).await
}

/// What `remand project add` and three times `remand review` write.
async fn enter(loaded: &Loaded, repository: &Path, git: &Git) -> anyhow::Result<Vec<ChangeId>> {
    let mut heads = Vec::new();
    for part in &PARTS {
        heads.push(git.call(&worktree_of(repository, part.branch), &["rev-parse", "HEAD"]).await?);
    }
    let repository = repository.canonicalize()?;
    let now = clock::now();
    let mut board = Board::open(&loaded.blackboard, now)?;
    let project = Project {
        project_id: ProjectId::new("calc"),
        path: repository.display().to_string(),
        common_dir: repository.join(".git").display().to_string(),
        repo: None,
        default_branch: "main".into(),
        created_at: now,
    };
    let settings = loaded.project("calc");
    let changes = board.write("demo", |conn| {
        bb::insert_project(conn, &project)?;
        PARTS
            .iter()
            .zip(&heads)
            .map(|(part, head)| {
                let new = NewChange {
                    project_id: project.project_id.clone(),
                    title: part.title.into(),
                    branch: part.branch.into(),
                    base: "main".into(),
                    head: head.clone(),
                    worktree: worktree_of(&repository, part.branch).display().to_string(),
                    host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
                    state: State::PendingSelfReview,
                    on_max_cycles: OnMaxCycles::Escalate,
                    max_fix_cycles: settings.max_fix_cycles,
                    max_total_fixes: settings.max_total_fixes,
                    max_run_ms: settings.max_run_ms,
                    max_tokens: settings.max_tokens,
                    max_cost_micros: settings.max_cost_micros,
                    actor: "demo".into(),
                };
                let change = bb::insert_change(conn, &new, now)?;
                let key = format!("code_review:{}:{head}", change.change_id);
                bb::insert_item(conn, &change, &bb::review_item(&change, key, "demo"), now)?;
                Ok(change.change_id)
            })
            .collect()
    })?;
    Ok(changes)
}

fn configuration(agents: &Path) -> String {
    let script = |name: &str| format!("[\"sh\", {}]", toml_text(&agents.join(name).display().to_string()));
    format!(
        "agent = \"fixer\"\nreview_agent = \"reviewer\"\ngates = [[\"sh\", \"test.sh\"]]\n\n\
         [dispatch]\nslots = 3\nstop_grace_s = 1\n\n\
         [agents.fixer]\nkind = \"command\"\ncommand = {}\n\n\
         [agents.reviewer]\nkind = \"command\"\ncommand = {}\n",
        script("fixer.sh"),
        script("reviewer.sh"),
    )
}

fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Git for setting the stage: nobody's configuration, a made-up author.
struct Git {
    home: PathBuf,
}

impl Git {
    async fn commit(&self, at: &Path, message: &str) -> anyhow::Result<()> {
        self.call(at, &["add", "-A"]).await?;
        self.call(at, &["commit", "--quiet", "--no-verify", "-m", message]).await.map(drop)
    }

    async fn call(&self, at: &Path, args: &[&str]) -> anyhow::Result<String> {
        let mut env: BTreeMap<OsString, OsString> =
            config::agent_environment(&[]).into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        env.insert("HOME".into(), self.home.clone().into());
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "Ada"),
            ("GIT_AUTHOR_EMAIL", "ada@example.org"),
            ("GIT_COMMITTER_NAME", "Ada"),
            ("GIT_COMMITTER_EMAIL", "ada@example.org"),
        ] {
            env.insert(name.into(), value.into());
        }
        let command = Short {
            program: "git".into(),
            args: args.iter().map(OsString::from).collect(),
            cwd: at.to_owned(),
            env,
            stdin: None,
            limit: Duration::from_secs(30),
            cap: 64 * 1024,
        };
        let output = short(&command).await.context("git can't be run; the demo needs it")?;
        if output.status != Some(0) {
            bail!("git {} failed: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
