//! The database disappears while it is in use; and a stop while git or gh hangs.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::support::play::{Daemon, FIXES, PATIENCE, Play, Script, WAITS_AND_FIXES};

fn wal(play: &Play) -> PathBuf {
    play.world.db().with_extension("db-wal")
}

/// Returns how the daemon ended by itself.
fn ended(mut daemon: Daemon, within: Duration) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = daemon.child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < within, "it goes on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts a fixer; then does something to the database.
fn after(deed: impl Fn(&Play)) -> Play {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        tables: "[dispatch]\nstop_grace_s = 30\n[limits]\ngrace_s = 30\n",
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    deed(&play);
    let status = ended(daemon, PATIENCE / 3);
    assert_eq!(status.code(), Some(5), "{}", play.log());
    assert!(
        play.log().contains("while in use; stopping"),
        "{}",
        play.log()
    );
    play.until("its agents are ended", || play.alive().is_empty());
    play.let_go("go");
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "--oneline", "main..feature"])
            .lines()
            .count(),
        1,
        "no commit"
    );
    play
}

#[test]
fn a_database_that_is_removed_ends_the_daemon_and_its_agents() {
    let play = after(|play| fs::remove_file(play.world.db()).unwrap());
    assert!(play.log().contains("was removed"), "{}", play.log());
    assert!(!play.world.db().exists(), "nobody made a new one");
}

#[test]
fn a_database_that_is_replaced_ends_the_daemon_and_its_agents() {
    let play = after(|play| {
        let copy = play.world.db().with_extension("copy");
        fs::copy(play.world.db(), &copy).unwrap();
        fs::rename(&copy, play.world.db()).unwrap();
    });
    assert!(play.log().contains("was replaced"), "{}", play.log());
}

/// Committed data is in the database when the daemon has gone, so that nothing is done twice.
#[test]
fn a_wal_that_is_removed_ends_the_daemon_and_nothing_committed_is_lost() {
    let play = after(|play| {
        assert_eq!(play.count("runs"), 2);
        fs::remove_file(wal(play)).unwrap();
    });
    assert_eq!(play.count("runs"), 2, "what was committed is there");
    let daemon = play.daemon();
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    assert_eq!(play.count("events WHERE event_type = 'fix_committed'"), 1);
    play.check();
}

#[test]
fn a_tick_writes_nothing_into_a_database_that_is_gone() {
    let fixer =
        "rm \"$PROMPTS/../state/remand/blackboard.db\"\ncat >/dev/null\necho fixed >>work.txt\n";
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    let before = play.head();
    let told = play.tick();
    assert_eq!(told.status, 5, "{}", told.stderr);
    assert!(told.stderr.contains("was removed"), "{}", told.stderr);
    assert_eq!(play.head(), before, "nothing was committed for it");
}

/// Installs a git that hangs wherever it is called from now on.
fn slow_git(play: &Play) {
    let real = play
        .sh(play.world.root(), "command -v git")
        .trim()
        .to_owned();
    let started = play.seen("started");
    play.world.script(
        "git",
        &format!(
            "if [ -e '{}' ]; then echo $$ >>'{}'; exec sleep 300; fi\nexec {real} \"$@\"\n",
            play.seen("slow").display(),
            started.display()
        ),
    );
}

fn is_there(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// NFR-3: gone within `stop_grace_s` and five seconds, and its git with it.
#[test]
fn a_stop_does_not_wait_for_a_git_that_does_not_answer() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        tables: "[dispatch]\nstop_grace_s = 1\n[limits]\ngrace_s = 30\n",
        ..Script::default()
    });
    slow_git(&play);
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    play.let_go("slow");
    play.let_go("go");
    play.until("a git is slow", || !play.noted("started").is_empty());
    let told = Instant::now();
    assert!(daemon.stop().success(), "{}", play.log());
    assert!(
        told.elapsed() < Duration::from_secs(6),
        "{:?}",
        told.elapsed()
    );
    for pid in play.noted("started").lines() {
        assert!(!is_there(pid), "git {pid} lives on");
    }
    fs::remove_file(play.seen("slow")).unwrap();
    play.tick().report();
    play.is_ready(1);
}

/// An agent that ignores signals has `stop_grace_s` to finish, and no more than a moment after it.
#[test]
fn a_stop_does_not_wait_for_an_agent_that_does_not_listen() {
    let fixer = "trap '' TERM\ncat >/dev/null\necho begun >>\"$PROMPTS/began\"\nwhile :; do sleep 0.1; done\n";
    let play = Play::new(&Script {
        fixer,
        tables: "[dispatch]\nstop_grace_s = 1\n[limits]\ngrace_s = 60\n",
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    let told = Instant::now();
    assert!(daemon.stop().success(), "{}", play.log());
    assert!(
        told.elapsed() < Duration::from_secs(6),
        "{:?}",
        told.elapsed()
    );
    play.until("its agents are ended", || play.alive().is_empty());
    // Returned, or taken from a dead holder: it continues either way.
    play.fixer(FIXES);
    play.tick().report();
    play.is_ready(1);
}
