//! A person continues in a worktree while nothing watches it: the program has died, or a change is
//! held. None of their work is lost.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::support::play::{Daemon, PATIENCE, Play, Script};
use crate::support::run;

/// Edits, signals that it has, and waits to be terminated.
const WAITS: &str = "cat >/dev/null\necho half >half.txt\necho more >>work.txt\ntouch \"$PROMPTS/began\"\nwhile :; do sleep 0.1; done\n";

fn in_the_middle_of_a_fix(play: &Play) -> Daemon {
    let daemon = play.daemon();
    let begun = Instant::now();
    while !play.world.root().join("prompts-seen/began").exists() {
        assert!(
            begun.elapsed() < PATIENCE,
            "the fixer never began: {:#?}",
            play.events()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon
}

/// In the format of git's dates.
fn seconds_from_now(seconds: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    format!("@{} +0000", now.as_secs() + seconds)
}

fn nothing_runs(play: &Play) {
    let begun = Instant::now();
    while !play.alive().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "{:?}", play.alive());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn commits_of_a_person_after_the_daemon_died_were_taken_off_the_branch() {
    let play = Play::new(&Script {
        fixer: WAITS,
        ..Script::default()
    });
    in_the_middle_of_a_fix(&play).kill();
    nothing_runs(&play);
    // Commits and ends of runs are compared by whole seconds.
    let mut by_hand = play.world.command("git");
    by_hand
        .args(["commit", "--quiet", "--message", "fixed by hand"])
        .env("GIT_COMMITTER_DATE", seconds_from_now(5))
        .current_dir(&play.worktree);
    std::fs::write(play.worktree.join("mine.txt"), "by hand\n").unwrap();
    play.world.git(&play.worktree, &["add", "-A"]);
    run(&mut by_hand).ok();
    let commit = play.world.git(&play.worktree, &["rev-parse", "HEAD"]);
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert!(play.why().contains("nothing was removed"), "{}", play.why());
    assert_eq!(
        play.world.git(&play.worktree, &["rev-parse", "feature"]),
        commit
    );
    play.world.remand_in(&play.worktree, &["review"]).ok();
    assert_eq!(play.world.sqlite("SELECT head FROM changes"), commit);
    play.check();
}

#[test]
fn a_run_cut_after_its_change_was_cancelled_was_never_cleaned_up() {
    let play = Play::without_change(&Script {
        fixer: WAITS,
        ..Script::default()
    });
    play.world
        .commit(&play.repo, "CLAUDE.md", "the base's\n", "rules");
    play.world.git(&play.worktree, &["rebase", "-q", "main"]);
    play.world
        .commit(&play.worktree, "CLAUDE.md", "the branch's\n", "other rules");
    play.world.remand_in(&play.worktree, &["review"]).ok();
    let daemon = in_the_middle_of_a_fix(&play);
    let pid = rustix::process::Pid::from_child(&daemon.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    play.world.remand(&["cancel", "c1"]).ok();
    daemon.kill();
    nothing_runs(&play);
    play.tick().report();
    assert_eq!(
        play.count("runs WHERE ended IS NULL"),
        0,
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.world.git(&play.worktree, &["status", "--porcelain"]),
        ""
    );
    let rules = std::fs::read_to_string(play.worktree.join("CLAUDE.md")).unwrap();
    assert_eq!(rules, "the branch's\n");
    let kept = play
        .world
        .sqlite("SELECT run_id FROM runs ORDER BY length(run_id) DESC, run_id DESC LIMIT 1");
    let half = play.world.git(
        &play.worktree,
        &["show", &format!("refs/remand/wip/{kept}:half.txt")],
    );
    assert_eq!(half, "half");
    play.check();
}

#[test]
fn a_worktree_that_went_on_to_another_branch_was_switched_back() {
    let play = Play::new(&Script {
        fixer: WAITS,
        ..Script::default()
    });
    let daemon = in_the_middle_of_a_fix(&play);
    let pid = rustix::process::Pid::from_child(&daemon.child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    play.world.remand(&["cancel", "c1"]).ok();
    daemon.kill();
    nothing_runs(&play);
    play.world.git(&play.worktree, &["stash", "-q", "-u"]);
    play.world
        .git(&play.worktree, &["switch", "-q", "-c", "other"]);
    play.world
        .commit(&play.worktree, "work.txt", "fixed\n", "another thing");
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    assert_eq!(
        play.world
            .git(&play.worktree, &["symbolic-ref", "--short", "HEAD"]),
        "other"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT state FROM changes WHERE change_id = 'c2'"),
        "ready_for_human_review"
    );
    play.check();
}

#[test]
fn work_between_the_commit_and_its_gates_was_reset() {
    let play = Play::new(&Script {
        settings: "gates = [[\"no-such-gate\"]]",
        ..Script::default()
    });
    play.tick().report();
    assert!(play.why().contains("no-such-gate"), "{}", play.why());
    let commit = play
        .world
        .commit(&play.worktree, "evening.txt", "mine\n", "my evening");
    std::fs::write(play.worktree.join("unsaved.txt"), "not yet\n").unwrap();
    play.world.script("no-such-gate", "exit 0");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert!(play.why().contains("nothing was removed"), "{}", play.why());
    assert_eq!(
        play.world.git(&play.worktree, &["rev-parse", "feature"]),
        commit
    );
    assert_eq!(
        std::fs::read_to_string(play.worktree.join("unsaved.txt")).unwrap(),
        "not yet\n"
    );
    play.check();
}
