//! Environment for scenarios with pull requests. People act when their condition holds on the
//! blackboard; pushes are read from the remote's own log of its branches.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::Value;

use super::pull_scene::{Scene, Worktree};
use super::stage::{ALONE, Show, Stage, check, number, without_numbers};
use crate::support::play::{Play, Script};
use crate::support::pull_play::{PullPlay, REPO};

/// Title of the first task.
const TASK_TITLE: &str = "Add a file";

/// Running scenario.
pub(crate) struct PullStage {
    pub(crate) pull: PullPlay,
    pub(crate) scene: Scene,
    /// Number of completed actions for each pull request.
    acted: RefCell<BTreeMap<i64, usize>>,
    /// Variables that direct the program to another forge than the fake's command.
    variables: Vec<(&'static str, String)>,
}

impl Scene {
    /// Creates the environment with the pull request watched as c1.
    pub(crate) fn stage(self) -> PullStage {
        let stage = self.unwatched("max_lost_runs = 50\n");
        stage.enter();
        stage
    }

    pub(crate) fn unwatched(self, dispatch: &str) -> PullStage {
        let mut pull = PullPlay::unwatched(&Script {
            reviewer: &format!("{ALONE}{}", self.reviewer),
            fixer: &format!("{ALONE}{}", self.fixer),
            settings: self.settings,
            tables: &format!(
                "[dispatch]\nbackoff_first_s = 1\nbackoff_max_s = 1\nstop_grace_s = 1\n{dispatch}[limits]\ngrace_s = 1\n"
            ),
            ..Script::default()
        });
        let world = &pull.play.world;
        let theirs = pull.push_from_elsewhere("feature", "theirs.txt", "theirs\n");
        world.git(&pull.remote, &["update-ref", "refs/hidden/theirs", &theirs]);
        world.git(
            &pull.remote,
            &["update-ref", "refs/hidden/start", "refs/hidden/theirs^"],
        );
        world.git(
            &pull.remote,
            &["update-ref", "refs/heads/feature", "refs/hidden/start"],
        );
        world.git(
            &pull.remote,
            &["update-ref", "refs/hidden/main", "refs/heads/main"],
        );
        // The scenario starts here. Not by a hook, which is not run when the pushing process is
        // gone.
        std::fs::write(pull.remote.join("logs/refs/heads/feature"), "").unwrap();
        if self.worktree != Worktree::Persons {
            std::fs::write(pull.play.repo.join(".git/info/exclude"), ".ready\n").unwrap();
        }
        if self.worktree == Worktree::Own {
            world.git(
                &pull.play.repo,
                &["worktree", "remove", pull.play.worktree.to_str().unwrap()],
            );
            world.git(&pull.play.repo, &["branch", "-q", "-D", "feature"]);
            pull.play.worktree = world.root().join("state/remand/worktrees/calc/pr-1");
        }
        PullStage {
            pull,
            scene: self,
            acted: RefCell::default(),
            variables: Vec::new(),
        }
    }
}

impl PullStage {
    /// Creates the change c1.
    pub(crate) fn enter(&self) {
        match self.scene.worktree {
            Worktree::Task => self.add(TASK_TITLE),
            Worktree::Persons | Worktree::Own => self.pull.watch(),
        }
    }

    /// Adds another watched pull request of the same kind, with this branch name, or a task with this
    /// title.
    pub(crate) fn add(&self, branch: &str) {
        let PullPlay { play, forge, .. } = &self.pull;
        if self.scene.worktree == Worktree::Task {
            play.world
                .remand_in(&play.repo, &["add", branch, "-a"])
                .ok();
            return;
        }
        let worktree = play.world.worktree(&play.repo, branch);
        // Two branches that start in the same second would have the same commit, and merging one of
        // them would leave nothing to review on the other.
        let subject = format!("add work.txt on {branch}");
        play.world
            .git(&worktree, &["commit", "-q", "--amend", "-m", &subject]);
        play.world
            .git(&worktree, &["push", "--quiet", "origin", branch]);
        let number = forge.open_pull(branch, "main", "carol");
        play.world
            .remand(&["watch", &format!("{REPO}#{number}")])
            .ok();
    }

    /// Makes the program reach the forge through the real `gh` from now on.
    pub(crate) fn by_gh(&mut self, gh: &str, variables: Vec<(&'static str, String)>) {
        let file = self.play().world.root().join("config/remand/config.toml");
        let ours = Value::from(self.pull.forge.gh_argv()).to_string();
        let config = std::fs::read_to_string(&file).unwrap();
        assert!(config.contains(&ours), "{config}");
        std::fs::write(
            file,
            config.replace(&ours, &Value::from(vec![gh]).to_string()),
        )
        .unwrap();
        self.variables = variables;
    }

    /// Lets all people act whose condition holds. Returns true when all have, and nothing is left
    /// to do.
    fn is_over(&self, board: &Connection) -> bool {
        let mut acted = self.acted.borrow_mut();
        let mut anybody = false;
        for (at, act) in self.scene.acts.iter().enumerate() {
            for pull in quiet(board, act.when) {
                let seen = acted.entry(pull).or_default();
                if *seen == at {
                    *seen += 1;
                    anybody = true;
                    (act.does)(&self.pull.forge, pull);
                }
            }
        }
        if anybody {
            let due = "UPDATE pulls SET next_read = '2020-01-01T00:00:00.000Z' WHERE next_read IS NOT NULL";
            board.execute(due, []).unwrap();
        }
        let ended = quiet(board, &format!("state = '{}'", self.scene.end));
        let all = usize::try_from(number(board, "SELECT count(*) FROM changes")).unwrap();
        let is_done = |pull: &i64| acted.get(pull).copied().unwrap_or(0) == self.scene.acts.len();
        ended.len() == all && ended.iter().all(is_done)
    }

    /// Returns the branch of the first change.
    fn branch(&self) -> String {
        self.of_first("branch")
    }

    /// Returns the pull request of the first change.
    fn number(&self) -> i64 {
        self.of_first("pr_number").parse().unwrap()
    }

    fn of_first(&self, column: &str) -> String {
        let sql = format!("SELECT {column} FROM changes WHERE change_id = 'c1'");
        self.play().world.sqlite(&sql)
    }

    /// Asserts one branch, one worktree and one pull request for each task, however often it was
    /// begun.
    fn check_tasks(&self) {
        if self.scene.worktree != Worktree::Task {
            return;
        }
        let PullPlay {
            play,
            forge,
            remote,
            ..
        } = &self.pull;
        let rows = play
            .world
            .sqlite("SELECT branch, worktree, pr_number FROM changes ORDER BY change_id");
        let (mut branches, mut worktrees, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows.lines() {
            let [branch, worktree, number] = row.split('|').collect::<Vec<_>>()[..] else {
                panic!("{row}")
            };
            branches.push(branch.to_owned());
            worktrees.push(worktree.to_owned());
            numbers.push(number.to_owned());
            let pull = forge.pull(number.parse().unwrap());
            assert_eq!(pull["head_ref"], branch, "{row}");
        }
        let mut found = forge.numbers();
        // The one that the environment opened for another branch.
        found.retain(|number| number != "1");
        for list in [&mut branches, &mut worktrees, &mut numbers, &mut found] {
            list.sort_unstable();
        }
        assert_eq!(found, numbers, "pull requests");
        let of_tasks = |folder: &std::path::Path| {
            let format = [
                "for-each-ref",
                "--format=%(refname:short)",
                "refs/heads/remand/",
            ];
            let listed = play.world.git(folder, &format);
            let mut listed: Vec<String> = listed.lines().map(str::to_owned).collect();
            listed.sort_unstable();
            listed
        };
        assert_eq!(of_tasks(&play.repo), branches, "local branches");
        assert_eq!(of_tasks(remote), branches, "branches of the remote");
        let listed = play
            .world
            .git(&play.repo, &["worktree", "list", "--porcelain"]);
        let mut listed: Vec<String> = listed
            .lines()
            .filter_map(|line| line.strip_prefix("worktree "))
            .filter(|path| path.contains("/worktrees/calc/"))
            .map(str::to_owned)
            .collect();
        listed.sort_unstable();
        assert_eq!(listed, worktrees, "worktrees");
    }

    /// Asserts one push for each fix, of the recorded commit, from the recorded head; and one that
    /// creates the branch of each task.
    fn check_pushes(&self) {
        let mut found = self.pushes();
        let written = self.play().world.sqlite(
            "SELECT iif(source = 'pull_request', '0000000000000000000000000000000000000000', payload ->> 'from')
                 || ' ' || (payload ->> 'to') || ' refs/heads/' || (payload ->> 'branch')
             FROM intents JOIN work_items ON item_id = payload ->> 'item_id'
             WHERE kind = 'push' AND result IN ('done', 'taken_back')",
        );
        let mut written: Vec<String> = written.lines().map(str::to_owned).collect();
        found.sort_unstable();
        written.sort_unstable();
        assert_eq!(found, written, "pushes are not as they were written down");
        let twice = "SELECT payload ->> 'item_id' FROM intents WHERE kind = 'push' AND result IN ('done', 'taken_back')
                     GROUP BY 1 HAVING count(*) > 1";
        assert_eq!(
            self.play().world.sqlite(twice),
            "",
            "fixes that were pushed twice"
        );
        let fixes = self
            .play()
            .count("events WHERE event_type IN ('fix_pushed', 'pr_created')");
        assert_eq!(found.len(), usize::try_from(fixes).unwrap());
        assert_eq!(
            self.play().count("intents WHERE done_at IS NULL"),
            0,
            "{}",
            self.intents()
        );
    }

    /// Returns `from to branch` of each push that moved a branch, as the remote logged it with the
    /// move.
    fn pushes(&self) -> Vec<String> {
        let mut found = Vec::new();
        let logs = self.pull.remote.join("logs/refs/heads");
        let branches = self.play().world.git(
            &self.pull.remote,
            &["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"],
        );
        for branch in branches.lines() {
            let file = logs.join(branch);
            for line in std::fs::read_to_string(&file).unwrap_or_default().lines() {
                let (who, does) = line.split_once('\t').unwrap_or((line, ""));
                // Branches created by the test itself start at nothing.
                let is_tests = line.starts_with("00000000") && !branch.starts_with("remand/");
                if does == "push" && !is_tests {
                    let ends: Vec<&str> = who.split(' ').take(2).collect();
                    found.push(format!("{} refs/heads/{branch}", ends.join(" ")));
                }
            }
        }
        found
    }

    /// Asserts that everything that remand posted is there once, and nothing else by remand.
    fn check_posts(&self) {
        let markers = self.play().world.sqlite(
            "SELECT pr_number, key, kind, marker, result FROM intents JOIN changes USING (change_id) WHERE marker IS NOT NULL",
        );
        let mut posts = 0;
        for line in markers.lines() {
            let [number, key, kind, marker, result] = line.split('|').collect::<Vec<_>>()[..]
            else {
                panic!("{line}")
            };
            let number = number.parse().unwrap();
            let count = |list: Vec<Value>| list.iter().filter(|said| has(said, marker)).count();
            let (reviews, comments, under) = (
                count(self.pull.forge.reviews(number)),
                count(self.pull.forge.comments(number)),
                count(self.pull.forge.issue_comments(number)),
            );
            let expected = match kind {
                "review" => (1, comments, 0),
                "answer" => (0, 1, 0),
                _ => (0, 0, 1),
            };
            assert_eq!((reviews, comments, under), expected, "{key} ({result})");
            posts += reviews + under + if kind == "answer" { comments } else { 0 };
        }
        let all = |list: Vec<Value>| list.iter().filter(|said| has(said, "")).count();
        let pulls = self.play().world.sqlite("SELECT pr_number FROM changes");
        let mut ours = 0;
        for number in pulls.lines().map(|number| number.parse().unwrap()) {
            let replies = self
                .pull
                .forge
                .comments(number)
                .into_iter()
                .filter(|said| !said["in_reply_to"].is_null());
            ours +=
                all(self.pull.forge.reviews(number)) + all(self.pull.forge.issue_comments(number));
            ours += all(replies.collect());
        }
        assert_eq!(
            ours, posts,
            "something of ours is there that nobody wrote down"
        );
        let taken = "feedback WHERE trust <> 'ours' AND body LIKE '%<!-- remand:%'";
        assert_eq!(
            self.play().count(taken),
            0,
            "our own words were taken for somebody's"
        );
    }

    fn intents(&self) -> String {
        self.play()
            .world
            .sqlite("SELECT key, result, tries, trouble FROM intents")
    }

    /// Returns all text on the first pull request, without parts that differ from run to run.
    fn said(&self) -> String {
        let (forge, number) = (&self.pull.forge, self.number());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let words = |said: &Value| {
            let body = text(&said["body"]);
            let body = body.split("<!-- remand:").next().unwrap().trim().to_owned();
            // The suggested action depends on where the program noticed.
            if body.starts_with("**remand** needs a person") {
                return body.lines().next().unwrap().to_owned();
            }
            body
        };
        let comments = forge.comments(number);
        let answered = |said: &Value| {
            comments
                .iter()
                .find(|other| other["id"] == said["in_reply_to"])
                .map(words)
        };
        let mut lines = Vec::new();
        for review in forge.reviews(number) {
            // A late objection, when remand has none any more, is only a comment.
            let state = text(&review["state"]).replace("DISMISSED", "COMMENTED");
            lines.push(format!(
                "{} {state}: {}",
                text(&review["author"]),
                words(&review)
            ));
        }
        for comment in &comments {
            let to = answered(comment).unwrap_or_default();
            lines.push(format!(
                "{} at {}: {} ({to})",
                text(&comment["author"]),
                comment["line"],
                words(comment)
            ));
        }
        for comment in forge.issue_comments(number) {
            lines.push(format!("{}: {}", text(&comment["author"]), words(&comment)));
        }
        let mut lines: Vec<String> = lines
            .iter()
            .map(|line| self.play().world.plain(line))
            .collect();
        lines.sort_unstable();
        let pull = forge.pull(number);
        let opened = match self.scene.worktree {
            Worktree::Task => format!("{}\n{}", text(&pull["title"]), words(&pull)),
            Worktree::Persons | Worktree::Own => String::new(),
        };
        format!(
            "{}\nasked: {}\n{}",
            lines.join("\n"),
            pull["requested_reviewers"],
            self.play().world.plain(&opened)
        )
    }
}

impl Stage for PullStage {
    fn play(&self) -> &Play {
        &self.pull.play
    }

    fn end(&self) -> &'static str {
        self.scene.end
    }

    fn show(&self) -> Show<'_> {
        Show::until(self.play(), |board| self.is_over(board)).with(self.variables.clone())
    }

    fn outcome(&self) -> String {
        let world = &self.play().world;
        // Messages may be in another order, and an interrupted attempt leaves traces.
        let events = world.sqlite(
            "SELECT event_type || ': ' || summary FROM events
             WHERE event_type NOT IN ('run_started', 'run_finished', 'run_lost', 'work_claimed', 'setup_run', 'gate_failed', 'held',
                 'resumed', 'posted', 'review_posted') AND summary NOT LIKE 'the work of %'
             ORDER BY id",
        );
        // A pull request that was created by an attempt that died is found by the next one.
        let events = events.replace(" found at ", " opened at ");
        let branch = self.branch();
        let start = match self.scene.worktree {
            Worktree::Task => "main",
            Worktree::Persons | Worktree::Own => "start",
        };
        let commits = format!("refs/hidden/{start}..{branch}");
        let parts = [
            world.git(&self.pull.remote, &["ls-tree", "-r", &branch]),
            world.git(&self.pull.remote, &["log", "--reverse", "--format=%B", &commits]),
            world.sqlite("SELECT state, fix_cycle, total_fixes, final_verdict, held_until, auto_fix FROM changes"),
            world.sqlite(
                "SELECT item_id, source, status, fix_cycle, attempt, asked_again, gate_rounds, claimed_by
                 FROM work_items ORDER BY length(item_id), item_id",
            ),
            world.sqlite("SELECT rejection_id, state, item_id FROM rejections ORDER BY rejection_id"),
            world.sqlite("SELECT review_id, item_id, cycle, verdict, summary FROM reviews ORDER BY review_id"),
            world.sqlite("SELECT finding_id, severity, outcome, text, first_review, last_review FROM findings ORDER BY 1"),
            // A push that found the branch moved is only there if the agent did not have to run
            // again.
            world.sqlite(
                "SELECT CASE WHEN key LIKE 'note:escalated:%' THEN 'note:escalated' ELSE key END, kind,
                     CASE WHEN kind = 'review' AND result IN ('comment', 'dismissed') THEN 'no objection' ELSE result END,
                     claimed_by
                 FROM intents WHERE coalesce(result, '') <> 'moved' ORDER BY kind, key",
            ),
            world.sqlite(
                "SELECT author, trust, kind, state, body, outcome FROM feedback WHERE trust <> 'ours' ORDER BY forge_id",
            ),
            world.sqlite(
                "SELECT event_type, coalesce(metadata ->> 'kind', metadata ->> 'review_id'), count(*),
                     count(DISTINCT metadata ->> 'key') FROM events
                 WHERE event_type IN ('posted', 'review_posted') GROUP BY 1, 2 ORDER BY 1, 2",
            ),
            self.said(),
            without_numbers('r', &events),
        ];
        without_numbers('g', &world.plain(&parts.join("\n--\n")))
    }

    fn check(&self) {
        check(self.play());
        self.check_tasks();
        self.check_pushes();
        self.check_posts();
        let world = &self.play().world;
        let ends = "SELECT target_id, count(*) FROM events
                    WHERE event_type IN ('work_completed', 'work_failed', 'work_cancelled') AND target_type = 'work_item'
                    GROUP BY 1 HAVING count(*) <> 1";
        assert_eq!(world.sqlite(ends), "", "items with more than one end");
        assert_eq!(
            self.play()
                .count("work_items WHERE status IN ('available', 'claimed', 'blocked')"),
            0
        );
        assert_eq!(
            self.play().count("work_items WHERE attempt > 1"),
            0,
            "a death spent an attempt"
        );
        for line in world.sqlite("SELECT worktree, branch FROM changes").lines() {
            let (worktree, branch) = line.split_once('|').unwrap();
            let worktree = PathBuf::from(worktree);
            let (on, head) = (
                world.git(&worktree, &["rev-parse", "--abbrev-ref", "HEAD"]),
                world.git(&worktree, &["rev-parse", "HEAD"]),
            );
            match self.scene.worktree {
                Worktree::Persons | Worktree::Task => assert_eq!(on, branch),
                Worktree::Own => {
                    assert_eq!(on, "HEAD", "it is on no branch");
                    assert_eq!(
                        world.git(&worktree, &["rev-parse", "refs/remand/change/c1"]),
                        head,
                        "kept"
                    );
                }
            }
            assert_eq!(world.git(&worktree, &["status", "--porcelain"]), "");
            if self.scene.end == "escalated" {
                // There is nothing that the remote does not have.
                world.git(
                    &self.pull.remote,
                    &["merge-base", "--is-ancestor", &head, branch],
                );
            } else {
                assert_eq!(head, self.pull.remote_head(branch), "{branch}");
            }
        }
    }
}

fn has(said: &Value, marker: &str) -> bool {
    said["body"]
        .as_str()
        .is_some_and(|body| body.contains(&format!("<!-- remand:{marker}")))
}

/// Returns the pull requests of changes that match this condition and have no open work.
fn quiet(board: &Connection, when: &str) -> Vec<i64> {
    let sql = format!(
        "SELECT coalesce(pr_number, 0) FROM changes c WHERE {when}
             AND NOT EXISTS (SELECT 1 FROM work_items w WHERE w.change_id = c.change_id
                 AND w.status IN ('available', 'claimed', 'blocked'))
             AND NOT EXISTS (SELECT 1 FROM intents i WHERE i.change_id = c.change_id AND i.done_at IS NULL)
             AND NOT EXISTS (SELECT 1 FROM rejections j WHERE j.change_id = c.change_id AND j.state = 'pending')"
    );
    let mut statement = board.prepare_cached(&sql).unwrap();
    statement
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect()
}
