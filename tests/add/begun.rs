//! Worktree and branch of a task: made at its start, once, or not at all.

use std::collections::BTreeSet;
use std::fs;

use crate::support::play::{Play, Script};

const IMPLEMENTS: &str = "cat >/dev/null\necho \"by $REMAND_CHANGE\" >work.txt\n";

fn script() -> Script<'static> {
    Script {
        fixer: IMPLEMENTS,
        ..Script::default()
    }
}

fn add(play: &Play) {
    play.world
        .remand_in(
            &play.repo,
            &["add", "Add a work file", "--no-review", "--local"],
        )
        .ok();
}

/// One branch with one commit by remand, in one worktree.
#[track_caller]
fn is_implemented_once(play: &Play) {
    let told = || format!("{:#?}", play.events());
    assert_eq!(play.state(), "ready_for_human_review", "{}", told());
    let git = |args: &[&str]| play.world.git(&play.repo, args);
    let branch = "remand/add-a-work-file";
    let log = git(&["log", "--format=%s", &format!("main..{branch}")]);
    assert_eq!(log, "Add a work file", "{}", told());
    let branches = git(&["for-each-ref", "--format=%(refname:short)", "refs/heads"]);
    assert_eq!(branches, format!("feature\nmain\n{branch}"));
    let worktrees = git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 3, "{worktrees}");
    assert_eq!(
        play.count("events WHERE event_type = 'worktree_made'"),
        1,
        "{}",
        told()
    );
    assert_eq!(
        play.count("events WHERE event_type = 'implemented'"),
        1,
        "{}",
        told()
    );
    play.check();
}

/// S1-75, DESIGN 6: killed at each line on the way to the branch and its commit, the next call ends as if nothing had
/// happened.
#[test]
fn a_task_that_is_killed_anywhere_makes_one_branch_in_one_worktree() {
    let play = Play::without_change(&script());
    add(&play);
    let list = play.world.root().join("crossed");
    fs::write(&list, "").unwrap();
    let mut tick = play.world.remand_command(&["tick"]);
    tick.env("REMAND_CRASH_LIST", &list);
    crate::support::run(&mut tick).ok();
    is_implemented_once(&play);
    let crossed = fs::read_to_string(&list).unwrap();
    // The shim and the swap of agent configuration have their own tests.
    let elsewhere = ["shim", "swap", "exit", "config_back", "start_", "wait_shim"];
    let names: BTreeSet<&str> = crossed
        .lines()
        .filter(|name| !elsewhere.iter().any(|part| name.contains(part)))
        .collect();
    for name in [
        "git.worktree.before",
        "git.worktree.after",
        "git.commit.after",
    ] {
        assert!(names.contains(name), "{name} is not crossed: {names:?}");
    }
    for name in names {
        let play = Play::without_change(&script());
        add(&play);
        let mut tick = play.world.remand_command(&["tick"]);
        tick.env("REMAND_CRASH_AT", name);
        let killed = crate::support::run(&mut tick);
        assert_eq!(
            killed.status, -1,
            "{name} was not crossed: {}",
            killed.stderr
        );
        play.until(name, || {
            play.tick().report();
            play.state() == "ready_for_human_review"
        });
        is_implemented_once(&play);
    }
}

/// S1-75: a disk that is full while the files are written. The task is held, with the reason, and what was made of the
/// worktree is removed; it continues when there is room.
#[test]
fn a_disk_that_is_full_leaves_no_worktree_and_no_branch() {
    let play = Play::without_change(&script());
    let mut can = play.world.command("unshare");
    let mounts = "mount -t tmpfs none /mnt";
    if !can
        .args(["-rm", "sh", "-c", mounts])
        .output()
        .is_ok_and(|said| said.status.success())
    {
        return crate::support::skip(
            "a_disk_that_is_full_leaves_no_worktree_and_no_branch",
            "no mount name spaces here",
        );
    }
    let large: String = (0..400_000).map(|number| format!("{number}\n")).collect();
    play.world
        .commit(&play.repo, "large.txt", &large, "a large file");
    add(&play);
    let before = play.world.git(&play.repo, &["for-each-ref", "refs/heads"]);
    let folder = play.world.root().join("state/remand/worktrees");
    fs::create_dir_all(&folder).unwrap();
    let line = "mount -t tmpfs -o size=512k none \"$1\" && { \"$0\" tick; test -z \"$(ls -A \"$1/calc\")\" && echo nothing is left; }";
    let mut command = play.world.command("unshare");
    command.args(["-rm", "sh", "-c", line, env!("CARGO_BIN_EXE_remand")]);
    let full = crate::support::run(command.arg(&folder));
    assert!(full.stdout.contains("1 item"), "{full:?}");
    assert!(full.stdout.contains("nothing is left"), "{full:?}");
    play.is_held("no space left on the disk for the worktree");
    let git = |args: &[&str]| play.world.git(&play.repo, args);
    assert_eq!(git(&["for-each-ref", "refs/heads"]), before);
    let worktrees = git(&["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 2, "{worktrees}");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().ok();
    is_implemented_once(&play);
}

/// DESIGN 4.18: a set-up that fails is not the fault of the task. It is held, and continues when the set-up works.
#[test]
fn a_set_up_that_fails_in_a_new_worktree_holds_the_task() {
    let play = Play::without_change(&Script {
        settings: "setup = [\"sh\", \"-c\", \"touch made; echo no such registry >&2; test -e ../../../../../ready\"]\n",
        ..script()
    });
    add(&play);
    play.tick().held();
    play.is_held("no such registry");
    assert_eq!(play.count("runs"), 0, "no agent ran");
    fs::write(play.world.root().join("ready"), "").unwrap();
    play.world
        .git(&play.repo, &["config", "core.excludesFile", "/dev/null"]);
    let exclude = play.repo.join(".git/info/exclude");
    fs::write(exclude, "made\n").unwrap();
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().ok();
    is_implemented_once(&play);
}
