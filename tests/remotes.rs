//! Effects of a remote, of the people who push to it and of an agent on a fix of a pull request,
//! through the binary, with a real bare remote.

mod cut;
mod exact;
mod forbidden;
mod git_settings;
mod killed;
mod moved;
mod own;
mod poisoned;
mod secrets;
mod troubled;
mod undone;
mod worktree;

use std::ops::Deref;

use crate::support::play::Script;
use crate::support::pull_play::PullPlay;
use crate::support::run;

/// Records that it ran, then fixes.
const FIXES: &str = "cat >/dev/null\necho fix >>\"$PROMPTS/ran\"\necho fixed >>work.txt\n";

/// A pull request whose remote records every move of a branch.
struct Remotes {
    pull: PullPlay,
}

impl Deref for Remotes {
    type Target = PullPlay;

    fn deref(&self) -> &PullPlay {
        &self.pull
    }
}

impl Remotes {
    /// Creates a watched pull request with its first review queued.
    fn new(script: &Script<'_>) -> Self {
        let stage = Self::unwatched(script);
        stage.watch();
        stage
    }

    fn unwatched(script: &Script<'_>) -> Self {
        let stage = Self {
            pull: PullPlay::unwatched(script),
        };
        stage.hook("post-receive", "cat >>moves\n");
        stage
    }

    /// Installs a hook in the remote. It is written by a child, like every script of a test.
    fn hook(&self, name: &str, text: &str) {
        let world = &self.play.world;
        let script = world.script("hook", text);
        let hook = self.remote.join("hooks").join(name);
        std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
        std::fs::rename(script, hook).unwrap();
    }

    fn unhook(&self, name: &str) {
        std::fs::remove_file(self.remote.join("hooks").join(name)).unwrap();
    }

    /// Returns the commits to which a branch of the remote was moved, in order.
    fn moves(&self, branch: &str) -> Vec<String> {
        let moves = std::fs::read_to_string(self.remote.join("moves")).unwrap_or_default();
        let name = format!("refs/heads/{branch}");
        let of_branch = moves.lines().filter_map(|line| {
            let mut words = line.split(' ');
            let (_, new, moved) = (words.next()?, words.next()?, words.next()?);
            (moved == name).then(|| new.to_owned())
        });
        of_branch.collect()
    }

    /// Number of runs of the fixer.
    fn runs(&self) -> usize {
        self.play.noted("ran").lines().count()
    }

    /// Runs a line of shell as the person with another clone, who has just fetched the branch.
    #[track_caller]
    fn person(&self, line: &str) -> String {
        self.play
            .sh(&self.elsewhere, &format!("set -e\n{TAKES}\n{line}"))
    }

    /// The same, as part of a fixer's script: it happens during the fix.
    fn by_person(&self, line: &str) -> String {
        format!(
            "(set -e; cd '{}'; {TAKES}; {line}) || exit 1\n",
            self.elsewhere.display()
        )
    }

    /// Asserts that another tick changes nothing.
    #[track_caller]
    fn stays(&self) {
        let before = (
            self.play.state(),
            self.escalations(),
            self.moves("feature").len(),
            self.runs(),
        );
        self.tick();
        let after = (
            self.play.state(),
            self.escalations(),
            self.moves("feature").len(),
            self.runs(),
        );
        assert_eq!(before, after, "{:#?}", self.play.events());
    }

    fn escalations(&self) -> i64 {
        self.play.count("events WHERE event_type = 'escalated'")
    }

    /// Asserts that the change needs a person, once, for this reason.
    #[track_caller]
    fn is_escalated(&self, reason: &str) {
        self.play.is_escalated(reason);
        self.stays();
        self.play.is_escalated(reason);
    }

    /// Asserts that remand's review approves the remote's head, and that the worktree is there too.
    #[track_caller]
    fn is_ready(&self) {
        assert_eq!(
            self.play.state(),
            "ready_for_human_review",
            "{}\n{:#?}",
            self.play.why(),
            self.play.events()
        );
        self.play.worktree_is_at(&self.remote_head("feature"));
        assert_eq!(
            self.play.world.sqlite("SELECT head FROM changes"),
            self.remote_head("feature")
        );
        self.play.check();
    }

    /// Returns a file from the saved work of the last fix.
    #[track_caller]
    fn kept(&self, path: &str) -> String {
        let run = self
            .play
            .world
            .sqlite("SELECT run_id FROM runs WHERE agent = 'fixer' ORDER BY rowid DESC LIMIT 1");
        self.play.kept(&run, path)
    }

    /// Runs one heartbeat with the forge's token in the environment.
    #[track_caller]
    fn tick_with_token(&self, token: &str) {
        self.due();
        run(self
            .play
            .world
            .remand_command(&["tick"])
            .env("GH_TOKEN", token))
        .report();
    }

    #[track_caller]
    fn retry(&self) {
        self.play.world.remand(&["retry", "c1"]).ok();
        self.tick();
    }
}

/// Checks out the branch as it is on the remote.
const TAKES: &str = "git fetch --quiet origin; git checkout --quiet -B feature origin/feature";
