//! SIGKILL at random moments, of the daemon, of shims and of agents, with several concurrent
//! changes; and of the daemon while a git that it started is running.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::stage::{
    ALONE, Dice, PATIENCE, Seen, Show, Stage, check, command_of, end, is_long, outcome, parent_of,
    stage,
};
use crate::support::play::{Play, Script};

const CHANGES: usize = 3;

/// Works for a moment, commits a part, leaves the rest.
const FIXER: &str = r#"
cat >/dev/null
cycle=$((REMAND_CYCLE + 1))
echo "part $cycle" >>part.txt
sleep 0.02
git add part.txt
git commit -q -m "part $cycle of $REMAND_ITEM" || exit 1
sleep 0.02
echo "fix $cycle" >>work.txt
sleep 0.02
echo done
"#;

const REVIEWER: &str = r#"
sleep 0.03
if grep -q 'fix 2' work.txt; then says approved "twice fixed"
else says changes_requested "not yet" "$(finding work.txt 1 "round $REMAND_CYCLE is missing")"; fi
"#;

fn crowd(batch: usize) -> Play {
    let play = Play::without_change(&Script {
        reviewer: &format!("{ALONE}{REVIEWER}"),
        fixer: &format!("{ALONE}{FIXER}"),
        settings: "gates = [[\"sh\", \"-c\", \"sleep 0.02; test -s part.txt\"]]",
        tables: "[dispatch]\nslots = 3\nbackoff_first_s = 1\nbackoff_max_s = 1\nmax_lost_runs = 1000\n[limits]\ngrace_s = 1\n",
        ..Script::default()
    });
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    add_changes(&play, 1, batch);
    play
}

fn add_changes(play: &Play, from: usize, to: usize) {
    for number in from..to {
        let worktree = play.world.worktree(&play.repo, &format!("f{number}"));
        play.world
            .remand_in(
                &worktree,
                &["review", "--title", &format!("Feature {number}")],
            )
            .ok();
    }
}

#[test]
fn killed_at_random_moments_all_changes_come_to_their_ends() {
    let seed = std::env::var("REMAND_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) ^ 0x5eed_0000);
    println!("REMAND_SEED={seed}");
    let wanted = if is_long() { 10_000 } else { 200 };
    let (mut dice, mut kills, begun) = (Dice::new(seed), Kills::default(), Instant::now());
    let play = crowd(CHANGES);
    let show = Show::new(&play);
    let mut changes = CHANGES;
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    while kills.all() < wanted {
        let waits = Duration::from_millis(u64::try_from(dice.below(300)).unwrap());
        if show.watch_for(&mut daemon, waits) == Some(Seen::AllEnded) {
            // There is always work: more arrives while the daemon runs.
            add_changes(&play, changes, changes + CHANGES);
            changes += CHANGES;
        }
        match dice.below(4) {
            0 | 1 => {
                daemon.kill().unwrap();
                daemon.wait().unwrap();
                daemon = show.start(play.world.remand_command(&["run"]));
                kills.daemons += 1;
            }
            2 => kills.shims += kill_one(&play, &mut dice, is_shim),
            _ => kills.agents += kill_one(&play, &mut dice, is_agent),
        }
    }
    let seen = show.watch(&mut daemon);
    assert_eq!(
        seen,
        Seen::AllEnded,
        "seed {seed}: the daemon is gone\n{}",
        play.log()
    );
    assert!(end(daemon).success());
    println!("{kills:?} on {changes} changes in {:?}", begun.elapsed());
    assert_eq!(
        changes,
        usize::try_from(play.count("changes WHERE state = 'ready_for_human_review'")).unwrap(),
        "seed {seed}: {}\n{}",
        play.world
            .sqlite("SELECT change_id, state, hold_reason FROM changes"),
        play.world.sqlite(
            "SELECT id, event_type, target_id, summary, metadata FROM events WHERE change_id IN
             (SELECT change_id FROM changes WHERE state = 'escalated') ORDER BY id"
        ),
    );
    check(&play);
    for number in 0..changes {
        let branch = if number == 0 {
            "feature".to_owned()
        } else {
            format!("f{number}")
        };
        let worktree = play.repo.with_file_name(format!("calc-{branch}"));
        whole(&play, &worktree, &branch, seed);
    }
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix'"),
        i64::try_from(2 * changes).unwrap(),
        "seed {seed}"
    );
    assert_eq!(
        play.count("work_items WHERE status <> 'completed'"),
        0,
        "seed {seed}"
    );
    assert_eq!(
        play.count("reviews"),
        i64::try_from(3 * changes).unwrap(),
        "seed {seed}"
    );
    assert_eq!(
        play.count("work_items WHERE attempt > 1"),
        0,
        "seed {seed}: a kill spent an attempt"
    );
}

#[derive(Debug, Default)]
struct Kills {
    daemons: usize,
    shims: usize,
    agents: usize,
}

impl Kills {
    fn all(&self) -> usize {
        self.daemons + self.shims + self.agents
    }
}

pub(crate) fn is_shim(pid: i32) -> bool {
    command_of(pid).contains("__shim")
}

/// Returns true for the agent itself.
///
/// A forked child looks the same until it has executed another program, and killing it then is a
/// failed `git add` or `grep`: the agent continues with a different result.
pub(crate) fn is_agent(pid: i32) -> bool {
    let command = command_of(pid);
    let is_script = command.contains("/bin/reviewer") || command.contains("/bin/fixer");
    is_script && parent_of(pid).is_some_and(is_shim)
}

/// Kills one matching process of a run, as soon as there is one.
pub(crate) fn kill_one(play: &Play, dice: &mut Dice, fits: fn(i32) -> bool) -> usize {
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let pid = |line: String| line.split(' ').next().unwrap().parse().unwrap();
        let found: Vec<i32> = play
            .alive()
            .into_iter()
            .map(pid)
            .filter(|pid| fits(*pid))
            .collect();
        if found.is_empty() {
            std::thread::sleep(Duration::from_millis(2));
            continue;
        }
        std::thread::sleep(Duration::from_millis(
            u64::try_from(dice.below(40)).unwrap(),
        ));
        let pid = found[dice.below(found.len())];
        if fits(pid) && kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).is_ok() {
            return 1;
        }
    }
    0
}

/// Asserts one series of commits for each item, each once, in a clean worktree on its branch.
fn whole(play: &Play, worktree: &Path, branch: &str, seed: u64) {
    let world = &play.world;
    assert_eq!(
        world.git(worktree, &["rev-parse", "--abbrev-ref", "HEAD"]),
        branch,
        "seed {seed}"
    );
    assert_eq!(
        world.git(worktree, &["status", "--porcelain"]),
        "",
        "seed {seed}"
    );
    assert_eq!(
        std::fs::read_to_string(worktree.join("work.txt")).unwrap(),
        "work\nfix 1\nfix 2\n",
        "seed {seed}"
    );
    assert_eq!(
        std::fs::read_to_string(worktree.join("part.txt")).unwrap(),
        "part 1\npart 2\n",
        "seed {seed}"
    );
    let log = world.git(
        worktree,
        &[
            "log",
            "--reverse",
            "--format=%s",
            &format!("main..{branch}"),
        ],
    );
    let subjects: Vec<&str> = log
        .lines()
        .map(|line| line.split(" of w").next().unwrap())
        .collect();
    let expected = [
        "add work.txt",
        "part 1",
        "Address review feedback (cycle 1)",
        "part 2",
        "Address review feedback (cycle 2)",
    ];
    assert_eq!(subjects, expected, "seed {seed} {branch}");
    let items = world.git(
        worktree,
        &[
            "log",
            "--format=%(trailers:key=Remand-Item,valueonly,separator=)",
            &format!("main..{branch}"),
        ],
    );
    let mut items: Vec<&str> = items.lines().filter(|line| !line.is_empty()).collect();
    items.sort_unstable();
    items.dedup();
    assert_eq!(items.len(), 2, "seed {seed} {branch}: {items:?}");
}

/// A killed daemon leaves its git running: the next one must not start while it runs, nor fail at
/// its locks.
#[test]
fn a_daemon_killed_while_its_git_is_at_work_comes_to_the_same_end() {
    let undisturbed = stage();
    Show::new(&undisturbed).to_the_end(&["run"]);
    let expected = outcome(&undisturbed);
    let steps = [
        "commit",
        "reset",
        "update-ref",
        "update-index",
        "add",
        "clean",
        "symbolic-ref",
        "read-tree",
    ];
    kill_in_each_git(stage, &steps, &expected);
}

/// Runs one test for each step and kind of death.
pub(crate) fn kill_in_each_git<S: Stage>(stage: fn() -> S, steps: &[&str], expected: &str) {
    let cases: Vec<(&str, Fate)> = steps
        .iter()
        .flat_map(|step| [(*step, Fate::GoesOn), (*step, Fate::Killed)])
        .collect();
    std::thread::scope(|scope| {
        for some in cases.chunks(4) {
            scope.spawn(move || {
                some.iter()
                    .for_each(|(step, fate)| kill_in_git(&stage(), step, *fate, expected));
            });
        }
    });
}

fn kill_in_git(stage: &impl Stage, step: &str, fate: Fate, expected: &str) {
    let (play, show) = (stage.play(), stage.show());
    slow_git(play, step);
    let slow = play.world.root().join("slow");
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    show.watch_until(&mut daemon, || slow.exists());
    kill(&mut daemon);
    if fate == Fate::Killed {
        // As the kernel does when memory runs out: with its lock held, and nobody removes it.
        let pid = std::fs::read_to_string(&slow)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).ok();
        leave_locks(play, step);
    }
    show.to_the_end(&["run"]);
    assert_eq!(
        stage.outcome(),
        expected,
        "git {step}, {fate:?}\n{}",
        play.log()
    );
    stage.check();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    GoesOn,
    Killed,
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Installs a git that signals the first time remand lets it do `step`, and then takes its time.
fn slow_git(play: &Play, step: &str) {
    let real = play
        .world
        .command("sh")
        .args(["-c", "command -v git"])
        .output()
        .unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    let slow = play.world.root().join("slow");
    play.world.script(
        "git",
        &format!(
            "case \" $* \" in\n*' --no-pager '*' {step} '*) if [ ! -e {slow} ]; then echo $$ >{slow}.new; mv {slow}.new {slow}; sleep 0.3; fi;;\nesac\nexec {} \"$@\"\n",
            real.trim(),
            slow = slow.display(),
        ),
    );
}

/// Leaves the files that a git killed in the middle of this leaves behind.
fn leave_locks(play: &Play, step: &str) {
    let common = play.repo.join(".git");
    let own = common
        .join("worktrees")
        .join(play.worktree.file_name().unwrap());
    match step {
        "commit" => {
            std::fs::write(own.join("index.lock"), "").unwrap();
            std::fs::write(common.join("refs/heads/feature.lock"), "").unwrap();
        }
        "update-ref" => std::fs::write(common.join("refs/heads/feature.lock"), "").unwrap(),
        "symbolic-ref" => std::fs::write(own.join("HEAD.lock"), "").unwrap(),
        // In the bare clone, which has no index; or nothing is there yet.
        "push" | "worktree" => {}
        _ => std::fs::write(own.join("index.lock"), "").unwrap(),
    }
}

impl Show<'_> {
    /// Watches for a while; `None` if nothing happened.
    pub(crate) fn watch_for(&self, child: &mut Child, wait: Duration) -> Option<Seen> {
        let until = Instant::now() + wait.min(PATIENCE);
        while Instant::now() < until {
            if child.try_wait().unwrap().is_some() {
                panic!("the daemon ended by itself\n{}", self.play.log());
            }
            if self.all_ended() {
                return Some(Seen::AllEnded);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

/// Lost, good, lost again: never two in a row.
#[test]
fn a_run_that_ended_well_breaks_the_row_of_lost_ones() {
    let fixer = r#"
cat >/dev/null
echo >>"$PROMPTS/runs"
case $(wc -l <"$PROMPTS/runs" | tr -d ' ') in
    1 | 3) kill -KILL $$ ;;
    2) echo half >>work.txt ;;
    *) echo fixed >>work.txt ;;
esac
"#;
    let play = Play::new(&Script {
        fixer,
        settings: "gates = [[\"grep\", \"-q\", \"fixed\", \"work.txt\"]]",
        tables: "[dispatch]\nmax_lost_runs = 2\n",
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{}",
        play.events().join("\n")
    );
    assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 2);
}
