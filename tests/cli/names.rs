//! Names that people type: numbers of pull requests, ids of feedback, moments; and the groups of the help.

use std::collections::BTreeMap;

use super::Site;
use crate::support::World;
use crate::support::pull_play::{PullPlay, quiet};

#[test]
fn a_number_is_a_pull_request_of_the_project_you_are_in() {
    let stage = PullPlay::unwatched(&quiet());
    let play = &stage.play;
    let world = &play.world;
    world
        .remand(&["watch", "1"])
        .fails(4, "the current directory is not in a project");
    world
        .remand(&["watch", "https://example.org/ada/calc/pull/1"])
        .fails(2, "an https://github.com URL");
    let watched = world.remand_in(&play.repo, &["watch", "1"]).ok();
    assert!(
        watched.stdout.contains("c1 is ada/calc#1"),
        "{}",
        watched.stdout
    );
    for args in [
        &["why", "1"][..],
        &["show", "1"],
        &["status", "1"],
        &["diff", "1", "--stat"],
        &["pause", "1"],
        &["resume", "1"],
    ] {
        let here = world.remand_in(&play.worktree, args).ok().stdout;
        assert!(
            here.contains("c1") || here.contains("work.txt"),
            "{args:?}: {here}"
        );
    }
    // As `run` prints it.
    for command in ["why", "status", "show", "diff", "pause", "resume"] {
        let shown = world.remand(&[command, "calc#1"]).report().stdout;
        assert!(
            shown.contains("c1") || shown.contains("work.txt"),
            "{command}: {shown}"
        );
    }
    let again = world.remand(&["watch", "Calc#1"]).ok().stdout;
    assert!(again.contains("already watched"), "{again}");
    let unwatched = world.remand(&["why", "calc#9"]).ok().stdout;
    assert!(unwatched.contains("ada/calc#9"), "{unwatched}");
    world
        .remand(&["status", "calk#1"])
        .fails(4, "no such change: `calk#1`");
    world
        .remand(&["watch", "calk#1"])
        .fails(4, "no project or repository named calk");
    // Elsewhere, and where the project has no such PR, it is an event.
    let event = world.remand(&["show", "1"]).ok().stdout;
    assert!(event.contains("state_changed"), "{event}");
    let event = world.remand_in(&play.repo, &["show", "2"]).ok().stdout;
    assert!(event.starts_with("2  "), "{event}");
    world
        .remand_in(&play.repo, &["show", "999"])
        .fails(4, "a PR of the current project");
    for command in ["status", "diff", "pause"] {
        world.remand_in(&play.repo, &[command, "999"]).fails(
            4,
            "a number refers to a PR of the project in the current directory",
        );
        world.remand(&[command, "1"]).fails(4, "owner/repo#42");
    }
}

#[test]
fn why_without_an_id_is_about_the_worktree_you_are_in() {
    let site = Site::under_review();
    let below = site.worktree.join("docs/more");
    std::fs::create_dir_all(&below).unwrap();
    for folder in [&site.worktree, &below] {
        let json = site.world.remand_in(folder, &["why", "--json"]).ok().json();
        assert_eq!(json["id"], "c1", "{}", folder.display());
    }
    for folder in [site.world.root(), &site.repo] {
        site.world.remand_in(folder, &["why"]).fails(
            2,
            "the current directory is not in the worktree of a change",
        );
    }
}

#[test]
fn a_piece_of_feedback_is_shown() {
    let stage = PullPlay::unwatched(&quiet());
    let world = &stage.play.world;
    stage
        .forge
        .issue_comment(1, "carol", "is this line needed?");
    world.remand(&["watch", "ada/calc#1"]).ok();
    stage.tick();
    let shown = world.remand(&["show", "g1"]).ok().stdout;
    for part in ["g1  ", "change     c1", "trust", "outcome", "URL"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(world.json(&["show", "g1"])["feedback_id"], "g1");
    assert_eq!(world.json(&["why", "g1"])["because"], "feedback");
    world
        .remand(&["show", "g99"])
        .fails(4, "no such feedback: `g99`");
}

#[test]
fn events_have_one_layout_in_local_time() {
    let site = Site::under_review();
    for second in [3, 4] {
        site.world.sqlite(&format!(
            "INSERT INTO events (timestamp, event_type, actor_id, target_type, target_id, change_id, summary)
             VALUES ('2031-03-04T10:00:0{second}.000Z', 'skipped', 'ada', 'change', 'c1', 'c1', 'number {second}')"
        ));
    }
    let run = |args: &[&str]| {
        let mut command = site.world.remand_command(args);
        command.env("TZ", "EST5");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    insta::assert_snapshot!(run(&["events", "--since", "2"]), @"
         3  2031-03-04 05:00:03  c1    skipped            ada              number 3
         4  2031-03-04 05:00:04  c1    skipped            ada              number 4
    ");
    assert!(run(&["events", "--json"]).contains("2031-03-04T10:00:03.000Z"));
    for (since, expected) in [
        ("2031-03-04", 2),
        ("2031-03-05", 0),
        ("2031-03-04 05:00", 2),
        ("2031-03-04 05:00:04", 1),
        ("2031-03-04T10:00:04.000Z", 1),
        ("3", 1),
        ("52w", 4),
    ] {
        let shown = run(&["events", "--since", since]);
        assert_eq!(shown.lines().count(), expected, "{since}: {shown}");
    }
    for bad in ["yesterday", "2h30", "-1", "2026-13-01", "3m"] {
        site.remand(&["events", &format!("--since={bad}")])
            .fails(2, "a day (2026-11-18)");
    }
}

#[test]
fn people_read_local_times_and_programs_utc() {
    let site = Site::under_review();
    site.world.sqlite(
        "UPDATE changes SET held_until = '2031-03-04T10:00:00.000Z', hold_reason = 'no network';
         INSERT INTO events (event_type, target_type, target_id, change_id, summary, metadata)
         VALUES ('held', 'change', 'c1', 'c1', 'held until 2031-03-04T10:00:00.000Z: no network',
             '{\"reason\": \"no network\", \"until\": \"2031-03-04T10:00:00.000Z\"}')",
    );
    let run = |args: &[&str]| {
        let mut command = site.world.remand_command(args);
        command.env("TZ", "EST5");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let (local, utc) = ("2031-03-04 05:00:00", "2031-03-04T10:00:00.000Z");
    for args in [
        &["why", "c1"][..],
        &["status", "c1"],
        &["show", "3"],
        &["events"],
    ] {
        let text = run(args);
        assert!(text.contains(local), "{args:?}: {text}");
        let is_event = args == ["show", "3"];
        assert!(is_event || !text.contains(utc), "{args:?}: {text}");
        let json = run(&[args, &["--json"]].concat());
        assert!(
            json.contains(utc) && !json.contains(local),
            "{args:?}: {json}"
        );
    }
}

#[test]
fn every_command_is_once_in_the_help() {
    let world = World::new();
    let help = world.remand(&["--help"]).ok().stdout;
    assert_eq!(world.remand(&["help"]).ok().stdout, help);
    let (commands, _) = help.split_once("Options:").unwrap();
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let is_command = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    for line in commands.lines().filter(is_command) {
        *seen
            .entry(line.split_whitespace().next().unwrap())
            .or_default() += 1;
    }
    assert!(seen.len() > 40, "{seen:?}");
    assert!(seen.values().all(|count| *count == 1), "{seen:?}");
    for command in seen.keys().filter(|name| **name != "help") {
        let by_word = world.remand(&["help", command]).ok().stdout;
        assert_eq!(by_word, world.remand(&[command, "--help"]).ok().stdout);
    }
    let add = world.remand(&["help", "project", "add"]).ok().stdout;
    assert!(add.contains("Usage: remand project add"), "{add}");
    world
        .remand(&["help", "statu"])
        .fails(2, "did you mean `status`?");
    assert_eq!(world.json(&["help", "why"])["command"], "remand-why");
}
