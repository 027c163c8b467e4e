//! Gates that are red, that make a mess, that hang, that are not there.

use crate::support::play::{Play, Script};

/// A project whose gate is the script `gate`.
fn gated(gate: &str, fixer: &str, tables: &str) -> Play {
    let play = Play::without_change(&Script { fixer, tables, ..Script::default() });
    let path = set_gate(&play, gate);
    let config = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("gates = [[\"{}\"]]\n{text}", path.display())).unwrap();
    play.world.remand_in(&play.worktree, &["review", "--title", "Feature"]).ok();
    play
}

fn set_gate(play: &Play, gate: &str) -> std::path::PathBuf {
    play.world.script("gate", &format!("SEEN='{}'\n{gate}", play.seen("").display()))
}

const FIXES_MORE: &str = "cat >/dev/null\necho fixed >>work.txt\n";

#[track_caller]
fn red_for_ever(gate: &str, tables: &str, reason: &str) -> Play {
    let play = gated(gate, FIXES_MORE, tables);
    let before = play.head();
    play.tick().ok();
    play.is_escalated("the gates are red");
    assert!(play.answer().contains("remand show r"), "{}", play.answer());
    let output =
        play.world.sqlite("SELECT metadata ->> '$.output' FROM events WHERE event_type = 'gate_failed' LIMIT 1");
    assert!(output.contains(reason), "{output}");
    play.worktree_is_at(&before);
    assert_eq!(play.count("work_items WHERE source = 'code_review'"), 1);
    play
}

#[test]
fn red_once_and_then_green() {
    let gate = "grep -c fixed work.txt | grep -qx 2 && exit 0\necho 'test_of_two FAILED: wants it twice'\nexit 1\n";
    let play = gated(gate, FIXES_MORE, "");
    play.tick().ok();
    play.is_ready(1);
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 1);
    assert!(play.prompt_of_run("r3").contains("test_of_two FAILED: wants it twice"));
    assert_eq!(play.world.sqlite("SELECT fix_cycle FROM changes"), "1", "a red gate is no cycle");
    assert_eq!(play.world.sqlite("SELECT group_concat(gates) FROM runs WHERE gates IS NOT NULL"), "red,green");
}

#[test]
fn red_for_ever_is_for_a_person() {
    let play = red_for_ever("echo 'never satisfied'\nexit 1\n", "[loop]\nmax_gate_rounds = 1\n", "never satisfied");
    assert_eq!(play.count("runs"), 3, "one review, the fix, and one more");
    assert!(play.answer().contains("also after the agent was sent back once: $ "), "{}", play.answer());
    assert!(play.answer().contains(": never satisfied. Decide"), "{}", play.answer());
    assert_eq!(play.kept("r3", "work.txt"), "work\nfixed\nfixed");
    set_gate(&play, "exit 0\n");
    play.retry_finishes();
    assert_eq!(std::fs::read_to_string(play.worktree.join("work.txt")).unwrap(), "work\nfixed\n");
}

#[test]
fn dirties_the_tree() {
    red_for_ever(
        "echo x >report.xml\necho y >>work.txt\n",
        "[loop]\nmax_gate_rounds = 0\n",
        "a gate left files behind that are neither committed nor ignored: work.txt, report.xml",
    );
}

#[test]
fn leaves_only_ignored_files() {
    let play = Play::without_change(&Script::default());
    play.world.commit(&play.worktree, ".gitignore", "target/\n", "ignore");
    let gate = play.world.script("gate", "mkdir -p target\necho built >target/x\n");
    let config = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("gates = [[\"{}\"]]\n{text}", gate.display())).unwrap();
    play.world.remand_in(&play.worktree, &["review", "--title", "Feature"]).ok();
    play.tick().ok();
    play.is_ready(1);
    assert!(play.worktree.join("target/x").exists());
}

#[test]
fn moves_head() {
    red_for_ever(
        "git reset -q --hard HEAD~1\n",
        "[loop]\nmax_gate_rounds = 0\n",
        "a gate moved HEAD away from the commit that it was to test",
    );
}

#[test]
fn switches_branch() {
    let play =
        red_for_ever("git switch -qc elsewhere\n", "[loop]\nmax_gate_rounds = 0\n", "a gate left the branch feature");
    assert!(play.kept("r2", "work.txt").contains("fixed"));
}

#[test]
fn hangs() {
    let limits = "[loop]\nmax_gate_rounds = 0\n[limits]\ngate_s = 2\ngrace_s = 1\n";
    red_for_ever(
        "echo 'waiting for a server'\ntrap '' TERM\nsleep 1000 &\nwhile :; do sleep 1; done\n",
        limits,
        "it was ended after 2 s",
    );
}

#[test]
fn leaves_children() {
    let play = gated("setsid sleep 1000 &\nsleep 1000 &\nexit 0\n", FIXES_MORE, "[limits]\ngrace_s = 1\n");
    play.tick().ok();
    play.is_ready(1);
}

#[test]
fn is_not_there() {
    let play = gated("exit 0\n", FIXES_MORE, "");
    let gate = play.world.root().join("bin/gate");
    std::fs::remove_file(&gate).unwrap();
    play.tick().ok();
    play.is_held("can't be started");
    assert!(play.answer().contains("bin/gate"), "{}", play.answer());
    assert_eq!(play.count("runs"), 2);
    set_gate(&play, "exit 0\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().ok();
    play.is_ready(1);
    assert_eq!(play.count("runs"), 3, "the fix was not made again: one fix, two reviews");
}

#[test]
fn crashes() {
    let play =
        red_for_ever("echo 'about to crash'\nkill -SEGV $$\n", "[loop]\nmax_gate_rounds = 0\n", "about to crash");
    assert!(play.world.remand(&["show", "r2"]).ok().stdout.contains("it crashed (signal 11)"));
}

#[test]
fn is_killed_by_somebody() {
    let play = gated("kill -9 $$\n", FIXES_MORE, "");
    play.tick().ok();
    play.is_held("was killed");
    set_gate(&play, "exit 0\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().ok();
    play.is_ready(1);
}

#[test]
fn no_gate_configured_is_no_gate() {
    let play = Play::new(&Script::default());
    play.tick().ok();
    play.is_ready(1);
    assert_eq!(play.world.sqlite("SELECT gates FROM runs WHERE run_id = 'r2'"), "green");
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 0);
}
