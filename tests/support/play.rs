//! The loop in a test environment: one project, one change in its worktree, and scripts as reviewer
//! and fixer.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Output, World};

/// Functions for scripted reviewers: `says VERDICT SUMMARY [FINDING JSON]`. One that approves
/// judges all open findings to be resolved, unless `PASSES_OVER` is set.
pub(crate) const REVIEWER: &str = r#"
prompt="$PROMPTS/$REMAND_ITEM.$REMAND_PHASE.$REMAND_CYCLE.prompt"
cat >"$prompt" 2>/dev/null || cat >/dev/null
says() {
    count=0; severity=none
    if [ -n "$3" ]; then count=1; severity=high; fi
    previous=
    if [ "$1$PASSES_OVER" = approved ]; then
        previous=$(sed -nE 's/^(f[0-9]+) \([a-z]+, [a-z]+\)$/{"id": "\1", "status": "resolved"}/p' "$prompt" | sort -u | paste -sd, -)
    fi
    printf 'REVIEW_RESULT: %s\nFINDINGS_COUNT: %s\nSEVERITY: %s\nSUMMARY: %s\n\n```json\n{"findings": [%s], "previous": [%s]}\n```\n' "$1" "$count" "$severity" "$2" "$3" "$previous"
}
finding() { printf '{"severity": "high", "category": "logic", "path": "%s", "line": %s, "text": "%s"}' "$1" "$2" "$3"; }
"#;

/// Approves once `work.txt` contains "fixed".
pub(crate) const REVIEWS_FIXED: &str = r#"
if grep -q fixed work.txt; then says approved "it is fixed now"; else says changes_requested "work.txt is not fixed" "$(finding work.txt 1 'say fixed here')"; fi
"#;

/// Never satisfied, and never with the same words.
pub(crate) const NEVER_SATISFIED: &str = r#"
says changes_requested "still not good" "$(finding work.txt 1 "make it better, for the time after $(git rev-parse --short HEAD | tr 0-9 g-p)")"
"#;

/// Fixes by writing "fixed" into `work.txt`.
pub(crate) const FIXES: &str = "cat >/dev/null\necho fixed >>work.txt\necho done\n";

/// Fixes only after the test calls `let_go("go")`; writes `began` when it starts.
pub(crate) const WAITS_AND_FIXES: &str = r#"
cat >/dev/null
echo "$REMAND_ITEM" >>"$PROMPTS/began"
until [ -e "$PROMPTS/go" ]; do sleep 0.02; done
echo "fixed $REMAND_ITEM" >>work.txt
"#;

/// Maximum time that a test waits for a condition before it fails with what it waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Play {
    pub(crate) world: World,
    pub(crate) repo: PathBuf,
    pub(crate) worktree: PathBuf,
}

/// Initial settings of a test.
pub(crate) struct Script<'a> {
    /// Appended to the functions of `REVIEWER`.
    pub(crate) reviewer: &'a str,
    pub(crate) fixer: &'a str,
    /// Top-level settings.
    pub(crate) settings: &'a str,
    /// Tables, after everything else.
    pub(crate) tables: &'a str,
    /// Lines of the table `[github]`, for tests with a forge.
    pub(crate) github: &'a str,
}

impl Default for Script<'_> {
    fn default() -> Self {
        Self {
            reviewer: REVIEWS_FIXED,
            fixer: FIXES,
            settings: "",
            tables: "",
            github: "",
        }
    }
}

impl Play {
    /// Creates an environment with the project `calc`, a worktree on the branch `feature`, and its
    /// change c1 waiting for review.
    pub(crate) fn new(script: &Script<'_>) -> Self {
        let play = Self::without_change(script);
        play.world
            .remand_in(&play.worktree, &["review", "--title", "Feature"])
            .ok();
        play
    }

    pub(crate) fn without_change(script: &Script<'_>) -> Self {
        let world = World::new();
        let prompts = world.root().join("prompts-seen");
        std::fs::create_dir(&prompts).unwrap();
        let reviewer = world.script(
            "reviewer",
            &format!(
                "PROMPTS='{}'\n{REVIEWER}\n{}",
                prompts.display(),
                script.reviewer
            ),
        );
        let fixer = world.script(
            "fixer",
            &format!("PROMPTS='{}'\n{}", prompts.display(), script.fixer),
        );
        world.config(&config(&reviewer, &fixer, script));
        let repo = world.repo("calc");
        let worktree = world.worktree(&repo, "feature");
        world
            .remand(&["project", "add", repo.to_str().unwrap()])
            .ok();
        Self {
            world,
            repo,
            worktree,
        }
    }

    /// Runs one heartbeat and everything that is due.
    pub(crate) fn tick(&self) -> Output {
        self.world.remand(&["tick"])
    }

    pub(crate) fn state(&self) -> String {
        self.world
            .sqlite("SELECT state FROM changes WHERE change_id = 'c1'")
    }

    /// Returns types and summaries of all events, oldest first.
    pub(crate) fn events(&self) -> Vec<String> {
        self.world
            .sqlite("SELECT event_type || ': ' || summary FROM events ORDER BY id")
            .lines()
            .map(str::to_owned)
            .collect()
    }

    pub(crate) fn count(&self, from_where: &str) -> i64 {
        self.world
            .sqlite(&format!("SELECT count(*) FROM {from_where}"))
            .parse()
            .unwrap()
    }

    /// The answer of `why` without its line breaks, and the events below it.
    pub(crate) fn why(&self) -> String {
        let mut all = self.world.remand(&["why", "c1"]).report().words();
        let json = self.world.why("c1");
        for event in json["events"].as_array().unwrap() {
            all.push('\n');
            all.push_str(event["summary"].as_str().unwrap());
        }
        all
    }

    /// Creates another worktree of the project with its own branch, whose change waits for review.
    pub(crate) fn another(&self, branch: &str) -> (String, PathBuf) {
        let worktree = self.world.worktree(&self.repo, branch);
        self.world
            .remand_in(&worktree, &["review", "--title", branch])
            .ok();
        let id = self.world.sqlite(&format!(
            "SELECT change_id FROM changes WHERE branch = '{branch}'"
        ));
        (id, worktree)
    }

    /// Inserts a minimal event, as a person can do in `sqlite3`.
    pub(crate) fn insert(
        &self,
        event_type: &str,
        target_type: &str,
        target_id: &str,
        summary: &str,
    ) {
        self.world.sqlite(&format!(
            "INSERT INTO events (event_type, target_type, target_id, summary)
             VALUES ('{event_type}', '{target_type}', '{target_id}', '{summary}')"
        ));
    }

    /// Returns SQLite's error for a statement that it refuses.
    #[track_caller]
    pub(crate) fn refused(&self, sql: &str) -> String {
        let conn = rusqlite::Connection::open(self.world.db()).unwrap();
        match conn.execute_batch(sql) {
            Ok(()) => panic!("{sql} was not refused"),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn metadata(&self, item: &str) -> serde_json::Value {
        let text = self.world.sqlite(&format!(
            "SELECT metadata FROM work_items WHERE item_id = '{item}'"
        ));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{item}: {error}: {text}"))
    }

    /// Releases agents that wait for `NAME` next to their prompts.
    pub(crate) fn let_go(&self, name: &str) {
        std::fs::write(self.world.root().join("prompts-seen").join(name), "").unwrap();
    }

    /// Returns a file that agents wrote next to their prompts.
    pub(crate) fn noted(&self, name: &str) -> String {
        std::fs::read_to_string(self.world.root().join("prompts-seen").join(name))
            .unwrap_or_default()
    }

    /// Waits until a condition holds.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(
                begun.elapsed() < PATIENCE,
                "waited for: {what}; events:\n{}",
                self.events().join("\n")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until a daemon only keeps its own schedule: at most twenty wake-ups a second.
    pub(crate) fn becomes_quiet(&self, daemon: &Daemon) {
        self.until("the daemon has nothing to do", || {
            let before = daemon.wake_ups();
            std::thread::sleep(Duration::from_secs(2));
            daemon.wake_ups() - before < 40
        });
    }

    /// Returns the prompt of a run.
    pub(crate) fn prompt_of_run(&self, run: &str) -> String {
        let path = self
            .world
            .root()
            .join("state/remand/runs")
            .join(run)
            .join("prompt.md");
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Replaces the fixer.
    pub(crate) fn fixer(&self, text: &str) {
        let prompts = self.seen("");
        self.world
            .script("fixer", &format!("PROMPTS='{}'\n{text}", prompts.display()));
    }

    /// Replaces the reviewer.
    pub(crate) fn reviewer(&self, text: &str) {
        let prompts = self.seen("");
        self.world.script(
            "reviewer",
            &format!("PROMPTS='{}'\n{REVIEWER}\n{text}", prompts.display()),
        );
    }

    /// Returns the path of a file that a script left in `$PROMPTS`.
    pub(crate) fn seen(&self, name: &str) -> PathBuf {
        self.world.root().join("prompts-seen").join(name)
    }

    pub(crate) fn head(&self) -> String {
        self.world
            .git(&self.repo, &["rev-parse", "refs/heads/feature"])
    }

    /// Runs a line of shell in a directory, such as a command that `why` suggests.
    #[track_caller]
    pub(crate) fn sh(&self, folder: &Path, line: &str) -> String {
        let mut command = self.world.command("sh");
        command.arg("-c").arg(line).current_dir(folder);
        super::run(&mut command).ok().stdout
    }

    /// Returns the content of a file on the ref that keeps the work of a run.
    #[track_caller]
    pub(crate) fn kept(&self, run: &str, path: &str) -> String {
        self.world.git(
            &self.repo,
            &["show", &format!("refs/remand/wip/{run}:{path}")],
        )
    }

    /// Asserts that the worktree is on its branch, at this commit, with nothing changed, new or in
    /// progress.
    #[track_caller]
    pub(crate) fn worktree_is_at(&self, head: &str) {
        // One of remand's worktrees is on no branch.
        let branch = if self.worktree.starts_with(self.world.root().join("state")) {
            "HEAD"
        } else {
            "feature"
        };
        assert_eq!(
            self.world
                .git(&self.worktree, &["rev-parse", "--abbrev-ref", "HEAD"]),
            branch
        );
        assert_eq!(self.world.git(&self.worktree, &["rev-parse", "HEAD"]), head);
        assert_eq!(
            self.world
                .git(&self.worktree, &["status", "--porcelain=v1"]),
            ""
        );
        let git_dir = PathBuf::from(
            self.world
                .git(&self.worktree, &["rev-parse", "--absolute-git-dir"]),
        );
        for name in [
            "index.lock",
            "MERGE_HEAD",
            "rebase-merge",
            "rebase-apply",
            "CHERRY_PICK_HEAD",
        ] {
            assert!(!git_dir.join(name).exists(), "{name} is left");
        }
    }

    /// Asserts that the change needs a person, with this text and with commands to run.
    #[track_caller]
    pub(crate) fn is_escalated(&self, reason: &str) {
        assert_eq!(self.state(), "escalated", "{:#?}", self.events());
        let said = self.answer();
        assert!(
            said.contains(reason),
            "{reason:?} is not in {said}; {:#?}",
            self.events()
        );
        assert!(said.contains("`remand "), "nothing to type: {said}");
        assert!(self.why().contains("remand "), "{}", self.why());
        self.check();
    }

    /// Asserts that the change waits for its environment, with this text and a time.
    #[track_caller]
    pub(crate) fn is_held(&self, reason: &str) {
        let held = self
            .world
            .sqlite("SELECT held_until > '2026' AND holds > 0 FROM changes WHERE change_id = 'c1'");
        assert_eq!(held, "1", "not held: {:#?}", self.events());
        let said = self.answer();
        assert!(
            said.contains(reason) && said.contains("held until"),
            "{reason:?} is not in {said}"
        );
        self.check();
    }

    /// Returns the sentence of `why`.
    pub(crate) fn answer(&self) -> String {
        self.world.why("c1")["answer"].as_str().unwrap().to_owned()
    }

    /// Runs the git commands that `why` names.
    #[track_caller]
    pub(crate) fn do_what_it_says(&self) {
        let said = self.answer();
        let commands: Vec<&str> = said
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|word| word.starts_with("git "))
            .collect();
        assert!(!commands.is_empty(), "no git command is named: {said}");
        for command in commands {
            self.sh(self.world.root(), command);
        }
    }

    /// Asserts that the review passed after this many fixes.
    #[track_caller]
    pub(crate) fn is_ready(&self, fixes: i64) {
        assert_eq!(
            self.state(),
            "ready_for_human_review",
            "{:#?}",
            self.events()
        );
        assert_eq!(
            self.count("events WHERE event_type = 'fix_committed'"),
            fixes,
            "{:#?}",
            self.events()
        );
        self.worktree_is_at(
            &self
                .world
                .sqlite("SELECT head FROM changes WHERE change_id = 'c1'"),
        );
        self.check();
    }

    /// Asserts that `retry` finishes the loop with a fixer that works.
    #[track_caller]
    pub(crate) fn retry_finishes(&self) {
        self.fixer(FIXES);
        self.world.remand(&["retry", "c1"]).ok();
        self.tick().report();
        self.is_ready(1);
    }

    /// Waits until a query of the blackboard has this result.
    #[track_caller]
    pub(crate) fn wait_for(&self, sql: &str, answer: &str) {
        let begun = Instant::now();
        loop {
            let found = self.world.sqlite(sql);
            if found == answer {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "{sql} is {found:?}, not {answer:?}; events:\n{}",
                self.events().join("\n")
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, state: &str) {
        self.wait_for("SELECT state FROM changes WHERE change_id = 'c1'", state);
    }

    /// Starts the daemon and waits until it is ready.
    pub(crate) fn daemon(&self) -> Daemon {
        self.daemon_from(self.world.remand_command(&["run"]))
    }

    pub(crate) fn daemon_from(&self, mut command: Command) -> Daemon {
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.world.root().join("daemon.log"))
            .unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(
            line.starts_with("remand is ready"),
            "{line:?}; {}",
            self.log()
        );
        Daemon { child }
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.world.root().join("daemon.log")).unwrap_or_default()
    }

    /// Asserts that `remand check` finds nothing, and no process of a run is alive.
    #[track_caller]
    pub(crate) fn check(&self) {
        self.world.remand(&["check"]).ok();
        let begun = Instant::now();
        loop {
            let alive = self.alive();
            if alive.is_empty() {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "still alive: {alive:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Returns processes of runs of this environment: those that have the mark, and its root in
    /// their environment or as working directory (a shim has no variables except the mark).
    pub(crate) fn alive(&self) -> Vec<String> {
        let root = self.world.root().to_str().unwrap().to_owned();
        let mut alive = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let Ok(environment) = std::fs::read(entry.path().join("environ")) else {
                continue;
            };
            let environment = String::from_utf8_lossy(&environment);
            let is_ours = || {
                let folder = std::fs::read_link(entry.path().join("cwd"));
                environment.contains(&root) || folder.is_ok_and(|folder| folder.starts_with(&root))
            };
            if environment.contains("REMAND_RUN_DIR=") && is_ours() {
                let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let command = String::from_utf8_lossy(&command).replace('\0', " ");
                alive.push(format!("{} {command}", entry.file_name().to_string_lossy()));
            }
        }
        alive
    }
}

fn config(reviewer: &Path, fixer: &Path, script: &Script<'_>) -> String {
    format!(
        "agent = \"fixer\"\nreview_agent = \"reviewer\"\n{}{}\n\n\
         [agents.reviewer]\nkind = \"command\"\ncommand = [\"{}\"]\n\n\
         [agents.fixer]\nkind = \"command\"\ncommand = [\"{}\"]\n\n{}\n{}",
        ignore_unless_set(script.settings),
        script.settings,
        reviewer.display(),
        fixer.display(),
        script.tables,
        open_unless_set(script.tables),
    )
}

/// Returns settings that skip the gates on the base unless the test sets them, as they are mostly
/// red there.
pub(crate) fn ignore_unless_set(settings: &str) -> &'static str {
    if settings.contains("red_base") {
        ""
    } else {
        "red_base = \"ignore\"\n"
    }
}

/// Returns settings without a sandbox unless the test sets one: its agents write down what they do.
pub(crate) fn open_unless_set(tables: &str) -> &'static str {
    if tables.contains("[sandbox]") {
        ""
    } else {
        "[sandbox]\nkind = \"off\"\n"
    }
}

/// Daemon of a test, terminated on drop.
pub(crate) struct Daemon {
    pub(crate) child: Child,
}

impl Daemon {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how often its threads have waited for something.
    fn wake_ups(&self) -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let of_thread = |path: PathBuf| -> u64 {
            let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.map_or(0, |count| count.trim().parse().unwrap())
        };
        tasks
            .flatten()
            .map(|task| of_thread(task.path()))
            .sum::<u64>()
    }

    /// Sends SIGTERM, and waits for the end.
    pub(crate) fn stop(mut self) -> std::process::ExitStatus {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
