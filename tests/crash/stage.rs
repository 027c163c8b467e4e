//! The scenario: a change that is rejected, fixed with one failed gate, rejected again, fixed and
//! approved, by agents that commit a part themselves, touch forbidden files, and answer unclearly
//! once.
//!
//! Their actions depend only on the files and the prompt, so that a repeated run does the same.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use crate::support::play::{Play, Script};

/// Detects another agent in the worktree and records it. The status is checked, since a lock whose
/// process is killed while taking it fails too.
pub(crate) const ALONE: &str = r#"
if command -v flock >/dev/null; then
    exec 9>"$PROMPTS/../alone.$REMAND_CHANGE"
    flock -n -E 77 9
    [ $? -ne 77 ] || echo "$REMAND_RUN" >>"$PROMPTS/../overlaps"
fi
"#;

/// An agent sees the instructions of the base and none of the branch.
const INSTRUCTED: &str = r#"
grep -q base CLAUDE.md || exit 9
[ ! -e .claude ] || exit 9
"#;

const REVIEWER: &str = r#"
if ! grep -q half work.txt; then
    echo scribble >>work.txt
    echo note >note.txt
    says changes_requested "half of it is missing" "$(finding work.txt 1 'half is missing')"
elif grep -q second work.txt; then
    says approved "all is there"
elif grep -q 'answer once more' "$PROMPTS/$REMAND_ITEM.$REMAND_PHASE.$REMAND_CYCLE.prompt"; then
    says changes_requested "the second is missing" "$(finding part.txt 1 'a second part is missing')"
else
    echo "Hm. I would have to think about it."
fi
"#;

const FIXER: &str = r#"
cat >/dev/null
if ! grep -q half work.txt; then
    echo part >part.txt
    git add part.txt
    git commit -q -m "a part of it"
    echo half >>work.txt
    echo loose >loose.txt
elif ! grep -q whole work.txt; then
    echo whole >>work.txt
else
    echo second >>part.txt
    git add part.txt
    git commit -q -m "the second part"
    echo second >>work.txt
    echo mine >>CLAUDE.md
fi
echo done
"#;

/// Time after which anything counts as stuck. A lock left by a killed git is waited for for a
/// minute, and there may be several of them.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// Creates the environment, with the change c1 waiting for its review.
pub(crate) fn stage() -> Play {
    let play = Play::without_change(&Script {
        reviewer: &format!("{ALONE}{INSTRUCTED}{REVIEWER}"),
        fixer: &format!("{ALONE}{INSTRUCTED}{FIXER}"),
        settings: "gates = [[\"grep\", \"-q\", \"whole\", \"work.txt\"]]",
        tables: "[dispatch]\nbackoff_first_s = 1\nmax_lost_runs = 50\nstop_grace_s = 1\n[limits]\ngrace_s = 1\n",
        ..Script::default()
    });
    with_configuration(&play, &play.worktree);
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

/// Adds instructions for agents to the base, and others to the branch: they are swapped for each
/// run.
pub(crate) fn with_configuration(play: &Play, worktree: &Path) {
    if !play.repo.join("CLAUDE.md").exists() {
        play.world
            .commit(&play.repo, "CLAUDE.md", "base\n", "instructions");
    }
    play.world.git(worktree, &["rebase", "-q", "main"]);
    std::fs::create_dir(worktree.join(".claude")).unwrap();
    std::fs::write(worktree.join(".claude/settings.json"), "{}\n").unwrap();
    play.world
        .commit(worktree, "CLAUDE.md", "branch\n", "other instructions");
}

/// Returns everything that must be the same however often the program died.
pub(crate) fn outcome(play: &Play) -> String {
    let (world, tree) = (&play.world, &play.worktree);
    let events = world.sqlite(
        "SELECT event_type || ': ' || summary FROM events
         WHERE event_type NOT IN ('run_started', 'run_finished', 'run_lost', 'work_claimed', 'setup_run', 'gate_failed', 'held', 'resumed')
         ORDER BY id",
    );
    let parts = [
        world.git(tree, &["rev-parse", "--abbrev-ref", "HEAD"]),
        world.git(tree, &["status", "--porcelain"]),
        world.git(tree, &["ls-tree", "-r", "feature"]),
        world.git(tree, &["log", "--reverse", "--format=%B", "main..feature"]),
        world.git(tree, &["ls-files", "-v", "CLAUDE.md", ".claude"]),
        world.sqlite("SELECT state, fix_cycle, total_fixes, final_verdict, held_until FROM changes"),
        world.sqlite(
            "SELECT item_id, source, status, fix_cycle, attempt, asked_again, gate_rounds, claimed_by
             FROM work_items ORDER BY length(item_id), item_id",
        ),
        world.sqlite("SELECT rejection_id, state, item_id FROM rejections ORDER BY rejection_id"),
        world.sqlite("SELECT review_id, item_id, cycle, verdict, raw_verdict, summary FROM reviews ORDER BY review_id"),
        world.sqlite("SELECT finding_id, severity, outcome, text, first_review, last_review FROM findings ORDER BY 1"),
        without_runs(&world.plain(&events)),
    ];
    parts.join("\n--\n")
}

fn without_runs(text: &str) -> String {
    let text = without_numbers('r', text);
    let mut lines: Vec<&str> = text.lines().collect();
    // The files that the lost run had touched are reported for it too.
    lines.dedup_by(|second, first| second == first && first.starts_with("edits_undone"));
    lines.join("\n")
}

/// Removes numbers: a repeated run has another number, and so have events after additional ones.
pub(crate) fn without_numbers(kind: char, text: &str) -> String {
    let is_id = |word: &str| {
        word.strip_prefix(kind)
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let ends = |c: char| " /,;:|\n".contains(c);
    let word = |word: &str| {
        let bare = word.trim_end_matches(ends);
        if is_id(bare) {
            word.replace(bare, &format!("{kind}N"))
        } else {
            word.to_owned()
        }
    };
    text.split_inclusive(ends).map(word).collect()
}

/// Asserts that the blackboard is consistent, no process is alive, and no two agents met.
pub(crate) fn check(play: &Play) {
    play.check();
    let overlaps = std::fs::read_to_string(play.world.root().join("overlaps")).unwrap_or_default();
    assert_eq!(overlaps, "", "two agents were at work in one worktree");
    assert_eq!(
        play.count("runs WHERE ended_at IS NULL"),
        0,
        "a run has no end"
    );
}

/// Scenario, and the result that it must have however often the program dies.
pub(crate) trait Stage: Sized {
    fn play(&self) -> &Play;

    /// Final state of its changes.
    fn end(&self) -> &'static str;

    fn show(&self) -> Show<'_> {
        Show::new(self.play())
    }

    fn outcome(&self) -> String;

    fn check(&self);
}

impl Stage for Play {
    fn play(&self) -> &Play {
        self
    }

    fn end(&self) -> &'static str {
        "ready_for_human_review"
    }

    fn outcome(&self) -> String {
        outcome(self)
    }

    fn check(&self) {
        check(self);
    }
}

/// The program in an environment, started as often as necessary.
pub(crate) struct Show<'a> {
    pub(crate) play: &'a Play,
    board: Connection,
    /// Called repeatedly, so people act in it too.
    is_over: Box<dyn Fn(&Connection) -> bool + 'a>,
    variables: Vec<(&'static str, String)>,
}

/// Reason why waiting for the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// All changes have ended; the program may be running.
    AllEnded,
    /// The program has exited or was killed.
    Gone,
}

impl<'a> Show<'a> {
    pub(crate) fn new(play: &'a Play) -> Self {
        let sql = "SELECT count(*) FROM changes WHERE state NOT IN ('ready_for_human_review', 'escalated')";
        Self::until(play, move |board| number(board, sql) == 0)
    }

    /// Creates one that ends when this returns true.
    pub(crate) fn until(play: &'a Play, is_over: impl Fn(&Connection) -> bool + 'a) -> Self {
        let board = Connection::open(play.world.db()).unwrap();
        board.busy_timeout(Duration::from_secs(10)).unwrap();
        Self {
            play,
            board,
            is_over: Box::new(is_over),
            variables: Vec::new(),
        }
    }

    /// Adds variables to the environment of the program.
    pub(crate) fn with(self, variables: Vec<(&'static str, String)>) -> Self {
        Self { variables, ..self }
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        number(&self.board, sql)
    }

    pub(crate) fn all_ended(&self) -> bool {
        (self.is_over)(&self.board)
    }

    pub(crate) fn start(&self, mut command: Command) -> Child {
        let log = self.play.world.root().join("daemon.log");
        let log = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .unwrap();
        command
            .envs(self.variables.iter().cloned())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    pub(crate) fn watch(&self, child: &mut Child) -> Seen {
        self.watch_until(child, || false)
    }

    /// Watches until all changes have ended, the program is gone, or a condition holds.
    pub(crate) fn watch_until(&self, child: &mut Child, enough: impl Fn() -> bool) -> Seen {
        let begun = Instant::now();
        loop {
            if child.try_wait().unwrap().is_some() {
                return Seen::Gone;
            }
            if self.all_ended() || enough() {
                return Seen::AllEnded;
            }
            if begun.elapsed() > PATIENCE {
                drop(child.kill());
                panic!(
                    "stuck; {}\n{}",
                    self.play.events().join("\n"),
                    self.play.log()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Starts it (`run`, or `tick` repeatedly) until all changes have ended, and stops it.
    pub(crate) fn to_the_end(&self, args: &[&str]) {
        let begun = Instant::now();
        while !self.all_ended() {
            assert!(
                begun.elapsed() < PATIENCE,
                "stuck; {}\n{}",
                self.play.events().join("\n"),
                self.play.log()
            );
            let mut child = self.start(self.play.world.remand_command(args));
            if self.watch(&mut child) == Seen::AllEnded {
                assert!(end(child).success());
            } else {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

pub(crate) fn number(board: &Connection, sql: &str) -> i64 {
    board
        .prepare_cached(sql)
        .unwrap()
        .query_row([], |row| row.get(0))
        .unwrap()
}

/// Returns its command line; empty if it is gone.
pub(crate) fn command_of(pid: i32) -> String {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).replace('\0', " ")
}

pub(crate) fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // `pid (name) state parent`, and the name may contain anything.
    stat.rsplit(')')
        .next()?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// Sends SIGTERM, and waits.
pub(crate) fn end(mut child: Child) -> ExitStatus {
    let pid = rustix::process::Pid::from_child(&child);
    // It may have ended by itself (`tick`).
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).ok();
    child.wait().unwrap()
}

pub(crate) fn is_long() -> bool {
    std::env::var_os("REMAND_LONG").is_some_and(|value| !value.is_empty())
}

/// Pseudo-random numbers, the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(bound).unwrap()).unwrap()
    }
}
