//! `remand wait` and `remand add --wait`: the lines, the ends and their exit codes, with and without a daemon.

use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::support::play::{NEVER_SATISFIED, Play, REVIEWS_FIXED, Script, WAITS_AND_FIXES};
use crate::support::pull_play::PullPlay;
use crate::support::{Output, feed};

const IMPLEMENTS: &str = r#"
cat >/dev/null
if [ "$REMAND_PHASE" = implement ]; then echo begun >work.txt; else echo fixed >>work.txt; fi
"#;

fn script() -> Script<'static> {
    Script {
        reviewer: REVIEWS_FIXED,
        fixer: IMPLEMENTS,
        ..Script::default()
    }
}

fn run(play: &Play, args: &[&str]) -> Output {
    play.world.remand_in(&play.repo, args)
}

/// Starts a command whose output is read at its end.
fn start(play: &Play, args: &[&str]) -> Child {
    let mut command = play.world.remand_command(args);
    command.current_dir(&play.repo);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn end(child: Child) -> Output {
    let output = child.wait_with_output().unwrap();
    Output {
        status: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Asserts that the parts are in the text, in this order.
#[track_caller]
fn in_order(text: &str, parts: &[&str]) {
    let mut rest = text;
    for part in parts {
        let Some((_, after)) = rest.split_once(part) else {
            panic!("{part:?} is not there, or too early, in:\n{text}");
        };
        rest = after;
    }
}

/// GZ-2, GZ-4, S0-52: one command runs everything; it counts the reviews and fixes of the round, quotes the first finding,
/// and closes with verdict, numbers and the URL of the pull request.
#[test]
fn one_command_shows_the_way_from_the_task_to_its_pull_request() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    let waited = run(play, &["add", "Add a work file", "-a", "--wait"]).ok();
    in_order(
        &waited.stdout,
        &[
            "Running implementation…",
            "implemented: 1 file in 1 commit",
            "[1/3] Running review…",
            "changes requested, 1 finding: high work.txt:1 say fixed here",
            "[1/2] Running fix…",
            "[2/3] Running review…",
            "it is fixed now",
            "opened at",
            "/ada/calc/pull/2",
            "c1 ready for human review: verdict APPROVED, 1 fix, 2 reviews, ",
            "/ada/calc/pull/2",
            "remand approve c1",
        ],
    );
    assert!(
        !waited.stdout.contains('\u{1b}') && !waited.stdout.contains('\r'),
        "{}",
        waited.stdout
    );
    // What has ended already is reported at once, to programs too.
    let json = run(play, &["wait", "c1", "--json"]).ok().json();
    let one = &json[0];
    assert_eq!(one["state"], "ready_for_human_review");
    assert_eq!(
        (&one["verdict"], &one["fixes"], &one["reviews"]),
        (&"APPROVED".into(), &1.into(), &2.into())
    );
    assert!(
        one["url"].as_str().unwrap().ends_with("/ada/calc/pull/2"),
        "{one}"
    );
    assert_eq!(one["pr"], "ada/calc#2");
    play.check();
}

/// GZ-3: without `-a`, the wait ends when the task is implemented, and names the commands that are next.
#[test]
fn in_manual_mode_the_wait_ends_with_the_implementation() {
    let play = Play::without_change(&script());
    let waited = run(&play, &["add", "Add a work file", "--local", "--wait"]).ok();
    in_order(
        &waited.stdout,
        &[
            "Running implementation…",
            "c1 implemented: verdict none, 0 fixes, 0 reviews",
            "remand review c1",
            "remand refine c1",
        ],
    );
    assert_eq!(play.state(), "pending_self_review");
    run(&play, &["review", "c1"]).ok();
    let rejected = run(&play, &["wait", "c1"]).held();
    in_order(
        &rejected.stdout,
        &[
            "[1/3] Running review…",
            "c1 needs you: verdict",
            "remand refine c1",
        ],
    );
    run(&play, &["refine", "c1"]).ok();
    let fixed = run(&play, &["wait", "c1"]).ok();
    in_order(
        &fixed.stdout,
        &["Running fix…", "c1 implemented", "remand review c1"],
    );
}

/// GZ-16: the bound is not a failure if a pull request is left for a person; a change that needs a decision is 5, and one
/// that was closed is 1.
#[test]
fn the_exit_code_tells_the_end() {
    let never = Script {
        reviewer: NEVER_SATISFIED,
        fixer: "cat >/dev/null\necho \"$REMAND_RUN\" >>work.txt\n",
        tables: "[loop]\nmax_fix_cycles = 1\n",
        ..Script::default()
    };
    let stage = PullPlay::new(&never);
    let limit = run(&stage.play, &["wait", "c1"]).ok();
    in_order(
        &limit.stdout,
        &[
            "c1 limit reached, pull request open: verdict",
            "/ada/calc/pull/1",
            "remand approve c1",
        ],
    );
    assert_eq!(stage.play.state(), "escalated");

    let anyway = Script {
        tables: "[loop]\nmax_fix_cycles = 1\non_max_cycles = \"pr_anyway\"\n",
        ..never
    };
    let stage = PullPlay::unwatched(&anyway);
    let opened = run(&stage.play, &["add", "Work", "-a", "--wait"]).ok();
    in_order(
        &opened.stdout,
        &["c1 limit reached, pull request open: verdict MAX_CYCLES_REACHED, 1 fix, 2 reviews"],
    );

    let fails = Script {
        fixer: "cat >/dev/null\nexit 3\n",
        ..Script::default()
    };
    let play = Play::without_change(&fails);
    let failed = run(&play, &["add", "Work", "-a", "--wait"]).held();
    in_order(&failed.stdout, &["needs you", "c1 needs you: verdict none"]);
    run(&play, &["cancel", "c1"]).ok();
    let closed = run(&play, &["wait", "c1"]);
    assert_eq!(closed.status, 1, "{closed:?}");
    assert!(
        closed.stdout.contains("c1 closed: verdict none"),
        "{closed:?}"
    );
}

/// S1-62: a daemon that is stopped during the wait is replaced by the command itself, and one that starts takes over.
#[test]
fn a_wait_goes_on_when_daemons_end_and_start() {
    let play = Play::without_change(&Script {
        fixer: WAITS_AND_FIXES,
        ..script()
    });
    run(&play, &["add", "Work", "-a", "--local"]).ok();
    let daemon = play.daemon();
    let waiting = start(&play, &["wait", "c1"]);
    play.until("the daemon runs the task", || {
        play.noted("began").lines().count() == 1
    });
    daemon.kill();
    // The wait does the work itself now; then another daemon starts beside it.
    play.until("the wait runs it", || {
        play.noted("began").lines().count() == 2
    });
    let _daemon = play.daemon();
    play.let_go("go");
    let waited = end(waiting).ok();
    in_order(
        &waited.stdout,
        &[
            "implemented",
            "c1 ready for human review: verdict APPROVED, 0 fixes, 1 review",
        ],
    );
    play.check();
}

/// Ctrl-C ends the wait, not the change: the command that goes on is named, and works.
#[test]
fn an_interrupted_wait_names_the_command_that_goes_on() {
    let play = Play::without_change(&Script {
        fixer: WAITS_AND_FIXES,
        settings: "[dispatch]\nstop_grace_s = 1\n",
        ..script()
    });
    run(&play, &["add", "Work", "-a", "--local"]).ok();
    let waiting = start(&play, &["wait", "c1"]);
    play.until("the agent has begun", || {
        play.noted("began").lines().count() == 1
    });
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = end(waiting);
    assert_eq!(ended.status, 1, "{ended:?}");
    in_order(
        &ended.stderr,
        &[
            "interrupted before c1 came to an end",
            "`remand run` goes on with c1",
            "`remand wait c1`",
        ],
    );
    play.check();
    let daemon = play.daemon();
    let waiting = start(&play, &["wait", "c1"]);
    play.until("the daemon has begun", || {
        play.noted("began").lines().count() == 2
    });
    let pid = rustix::process::Pid::from_child(&waiting);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = end(waiting);
    assert_eq!(ended.status, 1, "{ended:?}");
    in_order(&ended.stderr, &["the daemon goes on with c1"]);
    play.let_go("go");
    play.wait_for_state("ready_for_human_review");
    drop(daemon);
}

/// GZ-2: on a terminal, the work under way is on the last line, with its time, and the steps above it stay.
#[test]
fn a_terminal_shows_the_work_under_way() {
    let play = Play::without_change(&Script {
        fixer: WAITS_AND_FIXES,
        ..script()
    });
    run(&play, &["add", "Work", "-a", "--local"]).ok();
    let python = play.world.command("python3").arg("--version").output();
    if !python.is_ok_and(|said| said.status.success()) {
        return crate::support::skip(
            "a_terminal_shows_the_work_under_way",
            "python3 is not installed",
        );
    }
    let line = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/terminal.py");
    let mut python = play.world.command("python3");
    python
        .args([line, env!("CARGO_BIN_EXE_remand"), "wait", "c1"])
        .env("TERM", "xterm");
    let steps = json!([
        ["c1 Running implementation… 1 s", "", ""],
        ["c1 Running implementation… 2 s", "", ""],
        ["ready for human review", "", ""],
    ]);
    let old = "SELECT unixepoch('now') - unixepoch(started_at) > 3 FROM runs";
    let output = std::thread::scope(|scope| {
        scope.spawn(|| {
            play.wait_for(old, "1");
            play.let_go("go");
        });
        feed(python, &steps.to_string()).ok()
    });
    let shown: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(shown["status"], 0, "{shown}");
    let text = shown["shown"].as_str().unwrap();
    // The line is replaced, not repeated.
    assert!(text.contains("\u{1b}[1A\u{1b}[J"), "{text:?}");
    in_order(
        text,
        &[
            "[1/3] Running review…",
            "ready for human review: verdict APPROVED",
        ],
    );
}
