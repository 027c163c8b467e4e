//! The commands that a person watches on a terminal, and what is different where there is none.

use std::fs::File;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{FIXER, Site};
use crate::support::{feed, skip, wait_for};

/// Enters and leaves the alternate screen.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

struct Shown {
    text: String,
    status: i64,
    echoes: bool,
}

/// Runs remand on a terminal, or None where there is no way to.
fn on_terminal(site: &Site, args: &[&str], steps: &Value) -> Option<Shown> {
    if site
        .world
        .command("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        skip("terminal", "there is no python3");
        return None;
    }
    let mut python = site.world.command("python3");
    python
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/cli/terminal.py"
        ))
        .arg(env!("CARGO_BIN_EXE_remand"))
        .args(args)
        .env("TERM", "xterm");
    let output = feed(python, &steps.to_string()).ok();
    let shown: Value = serde_json::from_str(&output.stdout).unwrap();
    Some(Shown {
        text: shown["shown"].as_str().unwrap().to_owned(),
        status: shown["status"].as_i64().unwrap(),
        echoes: shown["echoes"].as_bool().unwrap(),
    })
}

/// A change whose fixer fails.
fn escalated() -> Site {
    let site = Site::with_agents("exit 3\n");
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "escalated");
    site
}

#[test]
fn the_daemon_narrates_on_a_terminal() {
    let site = Site::with_agents(FIXER);
    let steps = json!([
        ["reviewer starts the review (r1)", "", ""],
        ["changes requested, 1", "", ""],
        ["finding: high work.txt:1", "", ""],
        ["fixer starts the fix (r2)", "", ""],
        ["fix 1 committed", "", ""],
        ["reviewer starts the review (r3)", "", ""],
        ["reviewer: approved: all is well", "", ""],
        ["ready for you:", "type", "\u{3}"],
    ]);
    let Some(shown) = on_terminal(&site, &["run"], &steps) else {
        return;
    };
    assert_eq!(shown.status, 0, "{}", shown.text);
    let text = &shown.text;
    assert!(text.contains("stopping"), "{text}");
    assert!(!text.contains("INFO"), "the log needs -v: {text}");
    // A time of day, the change and its title, in colour.
    let line = text
        .lines()
        .find(|line| line.contains("starts the fix"))
        .unwrap();
    assert!(line.contains("\u{1b}[1mc1 "), "{line:?}");
    assert!(line.contains(':') && line.contains("\u{1b}[2m"), "{line:?}");
}

#[test]
fn ctrl_c_names_what_it_waits_for_and_the_log_needs_v() {
    let site = Site::with_agents("trap '' TERM\nsleep 2\n");
    let steps = json!([["fixer starts the fix (r2)", "type", "\u{3}"]]);
    let Some(shown) = on_terminal(&site, &["run", "-v"], &steps) else {
        return;
    };
    let text = shown.text.replace('\n', " ");
    assert!(
        text.contains("stopping: waiting up to 10 s for r2 (fixer, fix of c1)"),
        "{text}"
    );
    assert!(text.contains("Ctrl-C again"), "{text}");
    assert!(text.contains("INFO"), "{text}");
}

#[test]
fn a_stop_in_a_pipe_logs_what_it_waits_for() {
    let site = Site::with_agents("trap '' TERM\nsleep 2\n");
    let path = site.world.root().join("log");
    let mut daemon = site
        .world
        .remand_command(&["run"])
        .stdout(Stdio::null())
        .stderr(File::create(&path).unwrap())
        .spawn()
        .unwrap();
    wait_for("the fix runs", || {
        let running = "SELECT count(*) FROM runs WHERE run_id = 'r2' AND pid IS NOT NULL";
        site.world.db().exists() && site.world.sqlite(running) == "1"
    });
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    let log = std::fs::read_to_string(&path).unwrap();
    let waits = log
        .lines()
        .filter(|line| line.contains("waiting up to 10 s for r2 (fixer, fix of c1)"));
    assert_eq!(waits.count(), 1, "{log}");
}

#[test]
fn a_warning_has_the_form_of_the_narration() {
    let site = Site::under_review();
    let steps = json!([["no agent is set", "", ""], ["held until", "type", "\u{3}"]]);
    let Some(shown) = on_terminal(&site, &["run"], &steps) else {
        return;
    };
    let text = &shown.text;
    let line = text
        .lines()
        .find(|line| line.contains("no agent is set"))
        .unwrap();
    assert!(
        line.contains(":") && line.contains("  warning: no agent"),
        "{line:?}"
    );
    assert!(!text.contains("WARN"), "{text}");
}

#[test]
fn an_escalation_is_narrated_with_the_one_thing_to_decide() {
    let site = Site::with_agents("exit 3\n");
    let steps = json!([["needs you: ", "", ""], ["decide: ", "type", "\u{3}"]]);
    let Some(shown) = on_terminal(&site, &["run"], &steps) else {
        return;
    };
    assert!(!shown.text.contains("ERROR"), "once: {}", shown.text);
}

#[test]
fn in_a_pipe_every_end_of_an_item_is_one_line_of_the_log() {
    let site = Site::with_agents(FIXER);
    let path = site.world.root().join("log");
    let mut daemon = site
        .world
        .remand_command(&["run"])
        .stdout(Stdio::null())
        .stderr(File::create(&path).unwrap())
        .spawn()
        .unwrap();
    wait_for("the change is ready", || {
        site.state("c1") == "ready_for_human_review"
    });
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(daemon.wait().unwrap().success());
    let log = std::fs::read_to_string(&path).unwrap();
    for item in ["w1", "w2", "w3"] {
        let ends = log
            .lines()
            .filter(|line| line.contains(&format!("item={item} ")) && line.contains(" finished "));
        assert_eq!(ends.count(), 1, "{item}: {log}");
    }
    assert!(!log.contains(" heartbeat "), "{log}");
    assert!(!log.contains("starts the fix"), "{log}");
}

#[test]
fn a_watched_status_gives_the_terminal_back_however_it_ends() {
    let site = Site::under_review();
    let ends = [
        json!([["CHANGE", "type", "q"]]),
        json!([["CHANGE", "type", "\u{3}"]]),
        json!([["CHANGE", "signal", 15]]),
    ];
    for steps in ends {
        let Some(shown) = on_terminal(&site, &["status", "--watch"], &steps) else {
            return;
        };
        let text = &shown.text;
        assert!(text.contains(ENTER) && text.ends_with(LEAVE), "{text:?}");
        assert!(shown.echoes, "{steps}");
        assert_eq!(shown.status, 0, "{steps}");
    }
    let steps = json!([["spent", "type", "q"]]);
    let shown = on_terminal(&site, &["status", "c1", "--watch"], &steps).unwrap();
    assert!(shown.text.contains("feature/login"), "{:?}", shown.text);
}

#[test]
fn a_watched_status_is_never_taller_than_the_screen() {
    let site = Site::under_review();
    let steps = json!([
        ["spent", "resize", [5, 60]],
        ["more lines", "resize", [24, 80]],
        ["spent", "type", "q"],
    ]);
    let Some(shown) = on_terminal(&site, &["status", "c1", "--watch"], &steps) else {
        return;
    };
    // Between the two sizes there is one picture of five lines.
    let small = shown
        .text
        .split("\u{1b}[2J")
        .find(|picture| picture.contains("more lines"));
    assert!(small.unwrap().matches('\n').count() <= 5, "{small:?}");
}

#[test]
fn without_a_daemon_the_first_line_says_so_while_a_change_is_live() {
    const ABSENT: &str =
        "no daemon is running: start it with `remand run` or `remand service install`";
    let looks: [&[&str]; 5] = [
        &[],
        &["list"],
        &["status"],
        &["status", "c1"],
        &["why", "c1"],
    ];
    let site = Site::under_review();
    for args in looks {
        let stdout = site.remand(args).ok().stdout;
        assert!(stdout.starts_with(ABSENT), "{args:?}: {stdout}");
        assert_eq!(
            stdout.matches("remand run").count(),
            1,
            "{args:?}: {stdout}"
        );
    }
    site.world.json(&["list"]);
    site.remand(&["pause", "c1"]).ok();
    for args in looks {
        let stdout = site.remand(args).ok().stdout;
        assert!(stdout.starts_with(ABSENT), "{args:?}: {stdout}");
    }
    site.remand(&["cancel", "c1"]).ok();
    for args in looks {
        let stdout = site.remand(args).ok().stdout;
        assert!(!stdout.contains(ABSENT), "{args:?}: {stdout}");
    }
}

#[test]
fn why_fits_80_columns_with_the_answer_first_and_each_command_once() {
    let site = escalated();
    let why = site.remand(&["why", "c1"]).stdout;
    assert!(why.lines().all(|line| line.chars().count() <= 80), "{why}");
    assert!(why.contains("install`\nc1\n  it needs you: "), "{why}");
    let commands = site.world.remand(&["why", "c1", "--json"]).stdout;
    let commands: Value = serde_json::from_str(&commands).unwrap();
    for command in commands["commands"].as_array().unwrap() {
        let command = command.as_str().unwrap();
        assert_eq!(why.matches(command).count(), 1, "{command}: {why}");
    }
}

#[test]
fn a_report_on_a_change_that_needs_a_person_or_is_held_ends_with_5() {
    let site = escalated();
    for args in [
        ["why", "c1"],
        ["status", "c1"],
        ["show", "c1"],
        ["why", "w1"],
    ] {
        assert_eq!(site.remand(&args).status, 5, "{args:?}");
    }
    site.remand(&["list"]).ok();
    site.remand(&["status"]).ok();
    site.remand(&["cancel", "c1"]).ok();
    assert_eq!(site.remand(&["why", "c1"]).status, 0);
}
