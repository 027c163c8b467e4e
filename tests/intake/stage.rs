//! A project whose repository is on the forge, without agents: the tests check what is read, not
//! what follows from it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::World;
use crate::support::forge::Forge;

pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) forge: Forge,
    pub(crate) repo: PathBuf,
}

impl Stage {
    /// Creates the project `engine` (`ada/engine`), whose branch `feature` is pushed and in a
    /// worktree.
    pub(crate) fn new() -> Self {
        Self::with("")
    }

    /// Creates it with these tables in the settings.
    pub(crate) fn with(tables: &str) -> Self {
        let world = World::new();
        let repo = world.repo("engine");
        let bare = world.root().join("engine.git");
        world.git(
            &repo,
            &["clone", "-q", "--bare", ".", bare.to_str().unwrap()],
        );
        world.git(&repo, &["remote", "add", "origin", bare.to_str().unwrap()]);
        let forge = Forge::new(world.root(), "ada/engine", &bare);
        let stage = Self { world, forge, repo };
        // Nothing becomes due by itself during a test.
        stage.every("0 0 1 1 *");
        stage.settings(tables);
        stage.world.worktree(&stage.repo, "feature");
        stage.push("feature");
        stage
            .world
            .remand(&[
                "project",
                "add",
                stage.repo.to_str().unwrap(),
                "--repo",
                "ada/engine",
            ])
            .ok();
        stage
    }

    pub(crate) fn settings(&self, tables: &str) {
        let argv: Vec<String> = self
            .forge
            .gh_argv()
            .iter()
            .map(|word| format!("{word:?}"))
            .collect();
        // A table of this name among the others has the rest of it.
        let (github, rest) = tables
            .split_once("[github]\n")
            .map_or(("", tables), |(before, own)| (own, before));
        self.world.config(&format!(
            "{rest}\n[github]\ngh = [{}]\n{github}",
            argv.join(", ")
        ));
    }

    /// Sets when pull requests are read.
    pub(crate) fn every(&self, schedule: &str) {
        let folder = self.world.root().join("config/remand/evaluators");
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "kind = \"pr_feedback\"\nneeds = [\"pr_feedback\"]\nschedule = \"{schedule}\"\n"
        );
        std::fs::write(folder.join("pr_feedback.toml"), text).unwrap();
    }

    /// Creates a branch with its own commit, on the forge only.
    pub(crate) fn branch(&self, name: &str) {
        let worktree = self.world.worktree(&self.repo, name);
        self.push(name);
        self.world.git(
            &self.repo,
            &["worktree", "remove", worktree.to_str().unwrap()],
        );
        self.world.git(&self.repo, &["branch", "-q", "-D", name]);
    }

    fn push(&self, name: &str) {
        self.world.git(&self.repo, &["push", "-q", "origin", name]);
    }

    /// Creates a pull request of `feature`, watched, and paused so that nobody works on it.
    pub(crate) fn watched(&self) -> i64 {
        let number = self.forge.open_pull("feature", "main", "ada");
        self.world
            .remand(&["watch", &format!("ada/engine#{number}")])
            .ok();
        self.world.remand(&["pause", "c1"]).ok();
        number
    }

    /// Makes everything on the forge due, and reads it.
    #[track_caller]
    pub(crate) fn read(&self) -> String {
        self.due();
        self.world.remand(&["tick"]).report().stderr
    }

    pub(crate) fn due(&self) {
        let past = "2020-01-01T00:00:00.000Z";
        self.world.sqlite(&format!(
            "UPDATE pulls SET next_read = '{past}' WHERE change_id IS NOT NULL"
        ));
        self.world
            .sqlite(&format!("UPDATE discoveries SET next_read = '{past}'"));
    }

    pub(crate) fn count(&self, from_where: &str) -> i64 {
        self.world
            .sqlite(&format!("SELECT count(*) FROM {from_where}"))
            .parse()
            .unwrap()
    }

    pub(crate) fn why(&self, id: &str) -> Value {
        self.world.why(id)
    }

    /// Returns the explanation of `why`.
    pub(crate) fn answer(&self, id: &str) -> String {
        self.why(id)["answer"].as_str().unwrap().to_owned()
    }

    /// Returns the new requests to the forge: `200 repos/…`.
    pub(crate) fn asked(&self) -> Vec<String> {
        let log = self.forge.log();
        self.forge.clear_log();
        let status = |line: &crate::support::forge::Logged| {
            line.status.map_or("-".to_owned(), |s| s.to_string())
        };
        log.iter()
            .map(|line| format!("{} {}", status(line), line.path))
            .collect()
    }

    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        Path::new(self.world.root()).join(name)
    }
}
