//! Processes that outlive their parents, and other writers in a worktree: none of it gets into the
//! work of a run.

use std::fs::{self, OpenOptions};
use std::process::Stdio;

use crate::evaluators::evaluator;
use crate::support::play::{FIXES, Play, Script};

fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// Hides a process, kills the shim that watches it, and dies; the next run gives the hidden one
/// time to write.
const HIDES: &str = r#"
cat >/dev/null
if [ ! -e "$PROMPTS/hidden" ]; then
    env -i PATH="$PATH" setsid setsid sh -c '
        echo $$ >"$0/hidden.new"; mv "$0/hidden.new" "$0/hidden"
        until [ -e "$0/again" ]; do sleep 0.02; done
        echo evil >>work.txt
        echo wrote >"$0/wrote"' "$PROMPTS" >/dev/null 2>&1 &
    until [ -e "$PROMPTS/hidden" ]; do sleep 0.02; done
    kill -9 $PPID
    sleep 60
fi
kill -0 "$(cat "$PROMPTS/hidden")" 2>/dev/null && echo overlap >>"$PROMPTS/overlap"
: >"$PROMPTS/again"
sleep 0.5
echo fixed >>work.txt
"#;

fn hidden_process_is_ended(act: impl FnOnce(&Play)) {
    let play = Play::new(&Script {
        fixer: HIDES,
        ..Script::default()
    });
    act(&play);
    assert_eq!(
        play.noted("overlap"),
        "",
        "it was there when the next run began"
    );
    assert_eq!(play.noted("wrote"), "");
    assert!(!is_alive(&play.noted("hidden")));
    play.is_ready(1);
    assert_eq!(
        play.world.git(&play.repo, &["show", "feature:work.txt"]),
        "work\nfixed"
    );
}

/// LOST-4: without a sandbox, under the daemon.
#[cfg(target_os = "linux")]
#[test]
fn a_hidden_process_is_gone_before_the_next_run_of_a_daemon() {
    hidden_process_is_ended(|play| {
        let daemon = play.daemon();
        play.wait_for_state("ready_for_human_review");
        assert!(daemon.stop().success());
    });
}

/// LOST-4: and in a tick.
#[cfg(target_os = "linux")]
#[test]
fn a_hidden_process_is_gone_before_the_next_run_of_a_tick() {
    hidden_process_is_ended(|play| drop(play.tick().report()));
}

/// Processes that an evaluator starts in their own session end with it; those that git or ssh keep
/// for remand's next call do not.
#[cfg(target_os = "linux")]
#[test]
fn what_an_evaluator_leaves_behind_is_ended() {
    let play = Play::without_change(&Script::default());
    let root = play.world.root().display().to_string();
    let leaves = format!(
        "env -i PATH=\"$PATH\" setsid setsid sh -c 'echo $$ >{root}/left; exec sleep 300' >/dev/null 2>&1 &\n\
         until [ -s {root}/left ]; do sleep 0.02; done"
    );
    let kept = format!(
        "REMAND_RUN_DIR=remote:cache setsid setsid sh -c 'echo $$ >{root}/kept; exec sleep 300' >/dev/null 2>&1 &\n\
         until [ -s {root}/kept ]; do sleep 0.02; done"
    );
    play.sh(play.world.root(), &kept);
    evaluator(&play.world, "leaves", "schedule = \"@yearly\"", &leaves);
    let pid = |name: &str| fs::read_to_string(play.world.root().join(name)).unwrap_or_default();
    let daemon = play.daemon();
    play.until("it has run", || !pid("left").is_empty());
    play.until("what it left is ended", || !is_alive(&pid("left")));
    assert!(is_alive(&pid("kept")));
    assert!(daemon.stop().success());
    assert!(is_alive(&pid("kept")), "nor when the daemon stops");
    play.sh(play.world.root(), &format!("kill -9 {}", pid("kept")));
}

/// A person's shell may have the worktree as its directory. A process with one of its files open
/// for writing is waited for.
#[cfg(target_os = "linux")]
#[test]
fn somebody_who_writes_in_the_worktree_is_waited_for() {
    let play = Play::new(&Script {
        fixer: FIXES,
        ..Script::default()
    });
    let mut shell = play
        .world
        .command("sleep")
        .arg("300")
        .current_dir(&play.worktree)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let file = OpenOptions::new()
        .append(true)
        .open(play.worktree.join("work.txt"))
        .unwrap();
    let mut writer = play
        .world
        .command("sleep")
        .arg("300")
        .stdout(file)
        .spawn()
        .unwrap();
    play.tick().report();
    play.is_held(&format!(
        "work.txt is open for writing in process {} (sleep)",
        writer.id()
    ));
    assert_eq!(play.count("runs"), 0, "nobody was started beside it");
    writer.kill().unwrap();
    writer.wait().unwrap();
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(shell.try_wait().unwrap(), None, "the shell is left alone");
    shell.kill().unwrap();
    shell.wait().unwrap();
}

/// A log that git ignores is not work.
#[cfg(target_os = "linux")]
#[test]
fn somebody_who_writes_what_git_ignores_is_not_waited_for() {
    let play = Play::new(&Script {
        fixer: FIXES,
        ..Script::default()
    });
    fs::write(play.repo.join(".git/info/exclude"), "*.log\n").unwrap();
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(play.worktree.join("dev.log"))
        .unwrap();
    let mut writer = play
        .world
        .command("sleep")
        .arg("300")
        .stdout(file)
        .spawn()
        .unwrap();
    play.tick().report();
    play.is_ready(1);
    writer.kill().unwrap();
    writer.wait().unwrap();
}
