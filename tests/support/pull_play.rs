//! The loop in a test environment with a forge: a bare remote, a project that was cloned from it,
//! and a pull request whose branch is in a worktree.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::World;
use super::forge::{Forge, Review};
use super::play::{Play, REVIEWER, REVIEWS_FIXED, Script, ignore_unless_set, open_unless_set};

/// `owner/name` of the test's repository.
pub(crate) const REPO: &str = "ada/calc";

pub(crate) struct PullPlay {
    pub(crate) play: Play,
    pub(crate) forge: Forge,
    pub(crate) remote: PathBuf,
    /// Clone of another person, to push from.
    pub(crate) elsewhere: PathBuf,
    pub(crate) number: i64,
}

impl PullPlay {
    /// Creates the pull request #1 of `feature` into `main`, by `carol`, who may write; its branch
    /// is in the test's worktree. remand is logged in as `ada`, the owner. Nothing is watched yet.
    pub(crate) fn unwatched(script: &Script<'_>) -> Self {
        let world = World::new();
        let prompts = world.root().join("prompts-seen");
        std::fs::create_dir(&prompts).unwrap();
        let intro = format!("PROMPTS='{}'\n", prompts.display());
        let reviewer = world.script(
            "reviewer",
            &format!("{intro}{REVIEWER}\n{}", script.reviewer),
        );
        let fixer = world.script("fixer", &format!("{intro}{}", script.fixer));
        let remote = world.root().join("remote.git");
        let repo = world.repo("calc");
        let root = world.root().to_owned();
        world.git(
            &root,
            &[
                "clone",
                "--quiet",
                "--bare",
                repo.to_str().unwrap(),
                remote.to_str().unwrap(),
            ],
        );
        world.git(
            &repo,
            &["remote", "add", "origin", remote.to_str().unwrap()],
        );
        let worktree = world.worktree(&repo, "feature");
        world.git(&worktree, &["push", "--quiet", "origin", "feature"]);
        // From here on the remote records who moved what.
        world.git(&remote, &["config", "core.logAllRefUpdates", "always"]);
        let elsewhere = world.root().join("elsewhere");
        world.git(
            &root,
            &[
                "clone",
                "--quiet",
                remote.to_str().unwrap(),
                elsewhere.to_str().unwrap(),
            ],
        );
        let forge = Forge::new(world.root(), REPO, &remote);
        forge.add_user("carol", "write");
        let number = forge.open_pull("feature", "main", "carol");
        world.config(&config(&reviewer, &fixer, script, &forge));
        let path = repo.to_str().unwrap();
        world
            .remand(&[
                "project",
                "add",
                path,
                "--repo",
                REPO,
                "--url",
                remote.to_str().unwrap(),
            ])
            .ok();
        Self {
            play: Play {
                world,
                repo,
                worktree,
            },
            forge,
            remote,
            elsewhere,
            number,
        }
    }

    /// Like `unwatched`, but watched: the change c1, with its first review queued.
    pub(crate) fn new(script: &Script<'_>) -> Self {
        let stage = Self::unwatched(script);
        stage.watch();
        stage
    }

    #[track_caller]
    pub(crate) fn watch(&self) {
        self.play
            .world
            .remand(&["watch", &format!("{REPO}#{}", self.number)])
            .ok();
    }

    /// Reads the pull request whatever the schedule says, and does everything that is due.
    #[track_caller]
    pub(crate) fn tick(&self) {
        self.due();
        self.play.tick().report();
    }

    /// Makes the next read and everything that was postponed due, and starts a new hour of the rate
    /// limit.
    pub(crate) fn due(&self) {
        let past = "2020-01-01T00:00:00.000Z";
        self.play.world.sqlite(&format!(
            "UPDATE pulls SET next_read = '{past}' WHERE next_read IS NOT NULL;
             UPDATE discoveries SET next_read = '{past}';
             UPDATE intents SET not_before = '{past}' WHERE not_before IS NOT NULL;
             UPDATE rate SET resets_at = '{past}';
             UPDATE changes SET held_until = '{past}' WHERE held_until IS NOT NULL"
        ));
    }

    /// Returns the remote's head of a branch; empty if it is gone.
    pub(crate) fn remote_head(&self, branch: &str) -> String {
        let listed = self.play.world.git(
            &self.remote,
            &[
                "for-each-ref",
                "--format=%(objectname)",
                &format!("refs/heads/{branch}"),
            ],
        );
        listed.trim().to_owned()
    }

    /// Commits to the branch as another person and pushes; returns the commit.
    pub(crate) fn push_from_elsewhere(&self, branch: &str, file: &str, text: &str) -> String {
        let world = &self.play.world;
        world.git(&self.elsewhere, &["fetch", "--quiet", "origin"]);
        world.git(
            &self.elsewhere,
            &[
                "checkout",
                "--quiet",
                "-B",
                branch,
                &format!("origin/{branch}"),
            ],
        );
        let sha = world.commit(&self.elsewhere, file, text, &format!("Write {file}"));
        world.git(&self.elsewhere, &["push", "--quiet", "origin", branch]);
        sha
    }

    /// Adds a review of the current head.
    pub(crate) fn review(
        &self,
        by: &str,
        state: &str,
        body: &str,
        inline: &[(&str, i64, &str)],
    ) -> i64 {
        let head = self.remote_head("feature");
        self.forge.review(
            self.number,
            &Review {
                by,
                state,
                commit: Some(&head),
                body,
                inline,
            },
        )
    }

    /// Returns the bodies of completed requests of a kind.
    pub(crate) fn posted(&self, method: &str, part: &str) -> Vec<Value> {
        let taken = self.forge.log().into_iter().filter(|one| {
            one.method == method
                && one.path.contains(part)
                && one.status.is_some_and(|status| status < 300)
        });
        taken.map(|one| one.body).collect()
    }

    /// Counts how often the remote's branch was moved.
    pub(crate) fn pushes(&self) -> usize {
        self.play
            .world
            .git(&self.remote, &["reflog", "show", "refs/heads/feature"])
            .lines()
            .count()
    }

    /// Returns the number of started fixes, and of those on the remote.
    pub(crate) fn fixes(&self) -> (i64, i64) {
        let begun = self
            .play
            .count("runs JOIN work_items USING (item_id) WHERE source = 'review_fix'");
        (
            begun,
            self.play.count("events WHERE event_type = 'fix_pushed'"),
        )
    }

    /// Returns the prompt of the last fix.
    pub(crate) fn fix_prompt(&self) -> String {
        let last =
            "SELECT run_id FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix'
                    ORDER BY runs.rowid DESC LIMIT 1";
        self.play.prompt_of_run(&self.play.world.sqlite(last))
    }

    /// Asserts that the change is ready for a person, with this many fixes made and pushed.
    #[track_caller]
    pub(crate) fn is_ready(&self, fixes: i64) {
        let told = || format!("{}\n{}", self.play.why(), self.play.events().join("\n"));
        assert_eq!(self.play.state(), "ready_for_human_review", "{}", told());
        assert_eq!(self.fixes(), (fixes, fixes), "{}", told());
        let head = self
            .play
            .world
            .sqlite("SELECT head FROM changes WHERE change_id = 'c1'");
        assert_eq!(self.remote_head("feature"), head, "{}", told());
        self.play.worktree_is_at(&head);
        self.play.check();
    }

    /// Returns the reasons for all feedback that made no work.
    pub(crate) fn passed_over(&self) -> String {
        self.play
            .world
            .sqlite("SELECT summary FROM events WHERE event_type = 'skipped' ORDER BY id")
    }

    /// Returns the bodies that remand posted on the pull request in this way.
    pub(crate) fn bodies(&self, part: &str) -> Vec<String> {
        self.posted("POST", part)
            .iter()
            .map(|body| body["body"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Returns the subjects of the commits of the remote's branch since `main`, oldest first.
    pub(crate) fn subjects(&self) -> Vec<String> {
        let log = self.play.world.git(
            &self.remote,
            &["log", "--reverse", "--format=%s", "main..feature"],
        );
        log.lines().map(str::to_owned).collect()
    }
}

fn config(reviewer: &Path, fixer: &Path, script: &Script<'_>, forge: &Forge) -> String {
    format!(
        "agent = \"fixer\"\nreview_agent = \"reviewer\"\n{}{}\n\n[github]\ngh = {}\n{}\n\n\
         [agents.reviewer]\nkind = \"command\"\ncommand = [\"{}\"]\n\n\
         [agents.fixer]\nkind = \"command\"\ncommand = [\"{}\"]\n\n{}\n{}",
        ignore_unless_set(script.settings),
        script.settings,
        json!(forge.gh_argv()),
        script.github,
        reviewer.display(),
        fixer.display(),
        script.tables,
        open_unless_set(script.tables),
    )
}

/// Approves immediately.
pub(crate) const APPROVES: &str = "says approved \"nothing to object to\"\n";

/// Settings for most tests on pull requests: remand's own review does not interfere with people's
/// feedback.
pub(crate) fn quiet() -> Script<'static> {
    Script {
        reviewer: APPROVES,
        ..Script::default()
    }
}

/// Asserts that a part of a prompt is between the lines of a fence, and nowhere else.
#[track_caller]
pub(crate) fn is_fenced(prompt: &str, part: &str) {
    let nonce = prompt
        .lines()
        .find_map(|line| line.strip_prefix("begin "))
        .unwrap();
    let nonce = nonce.split(' ').next().unwrap();
    let (mut inside, mut outside, mut is_open) = (String::new(), String::new(), false);
    for line in prompt.lines() {
        if line.starts_with(&format!("begin {nonce}")) {
            is_open = true;
        } else if line == format!("end {nonce}") {
            is_open = false;
        } else {
            let text = if is_open { &mut inside } else { &mut outside };
            text.push_str(line);
            text.push('\n');
        }
    }
    assert!(
        inside.contains(part),
        "{part:?} is in no fence of\n{prompt}"
    );
    assert!(
        !outside.contains(part),
        "{part:?} is outside of the fences of\n{prompt}"
    );
}

/// Rejects until `work.txt` contains "fixed".
pub(crate) fn rejecting() -> Script<'static> {
    Script {
        reviewer: REVIEWS_FIXED,
        ..Script::default()
    }
}
