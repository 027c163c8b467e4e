//! Read-only commands create nothing: a blackboard is created by a command that has something to
//! store.

use std::fs;

use crate::support::{World, wait_for};

const LOOKS: &[&[&str]] = &[
    &[],
    &["list"],
    &["status"],
    &["events"],
    &["check"],
    &["project", "list"],
    &["item", "list"],
    &["evaluators", "list"],
    &["config", "check"],
    &["config", "show"],
    &["config", "path"],
];

/// Commands about something that does not exist.
const ABOUT: &[&[&str]] = &[
    &["why", "c1"],
    &["show", "c1"],
    &["status", "c1"],
    &["log", "r1"],
    &["diff", "c1"],
    &["events", "--change", "c1"],
    &["item", "show", "w1"],
    &["item", "requeue", "w1"],
    &["item", "cancel", "w1"],
    &["approve", "c1"],
    &["pause", "c1"],
    &["comment", "c1", "look again"],
];

#[test]
fn looking_at_the_usual_place_makes_nothing_and_says_how_to_begin() {
    let world = World::new();
    for args in LOOKS {
        world.remand(args).ok();
        assert!(!world.root().join("state/remand").exists(), "{args:?}");
    }
    for args in ABOUT {
        let said = world.remand(args).fails(4, "error: ").stderr;
        assert!(said.contains("remand project add PATH"), "{args:?}: {said}");
        assert!(!world.root().join("state/remand").exists(), "{args:?}");
    }
    for args in [&[][..], &["status"], &["events"], &["project", "list"]] {
        let said = world.remand(args).ok().stderr;
        assert_eq!(
            said.matches("remand project add PATH").count(),
            1,
            "{args:?}: {said}"
        );
        assert!(
            said.contains("hint: there are no projects yet: run `remand init` to get started"),
            "{args:?}: {said}"
        );
    }
    world.config("");
    let said = world.remand(&["list"]).ok().stderr;
    assert!(
        said.contains("remand project add PATH") && !said.contains("remand init"),
        "{said}"
    );
    assert_eq!(world.json(&["list"]), serde_json::json!([]));
    assert_eq!(world.json(&["status"])["projects"], 0);
}

#[test]
fn a_mistyped_name_is_not_answered_with_an_empty_board() {
    let world = World::new();
    let repo = world.repo("site");
    world
        .remand(&["project", "add", repo.to_str().unwrap()])
        .ok();
    let typo = world.root().join("state/remand/blackborad.db");
    let name = typo.to_str().unwrap();
    for args in LOOKS
        .iter()
        .chain(ABOUT)
        .filter(|args| args.first() != Some(&"config"))
    {
        let all: Vec<&str> = ["--db", name]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        let said = world.remand(&all).fails(4, "which --db refers to").stderr;
        assert!(
            said.contains(name) && said.contains("hint: check the path"),
            "{args:?}: {said}"
        );
        assert!(!typo.exists(), "{args:?}");
    }
    let mut by_variable = world.remand_command(&["list"]);
    by_variable.env("REMAND_DB", name);
    crate::support::run(&mut by_variable).fails(4, "which REMAND_DB refers to");
    // A file that another process has just created, or that `touch` made, stays unchanged.
    fs::write(&typo, "").unwrap();
    world
        .remand(&["--db", name, "list"])
        .fails(4, "which --db refers to");
    assert_eq!(fs::metadata(&typo).unwrap().len(), 0);
}

#[test]
fn what_has_something_to_write_begins_one() {
    let world = World::new();
    let repo = world.repo("site");
    let worktree = world.worktree(&repo, "feature");
    let at = |name: &str| world.root().join(name).to_str().unwrap().to_owned();
    let (added, reviewed, ticked) = (at("added.db"), at("reviewed.db"), at("ticked.db"));
    let said = world
        .remand(&["--db", &added, "project", "add", repo.to_str().unwrap()])
        .ok()
        .stderr;
    assert!(!said.contains("nothing yet"), "{said}");
    world
        .remand_in(&worktree, &["--db", &reviewed, "review"])
        .fails(1, "which is not a project yet");
    world
        .remand_in(&worktree, &["--db", &reviewed, "review", "--add-project"])
        .ok();
    world.remand(&["--db", &ticked, "tick"]).ok();
    for (db, projects) in [(&added, 1), (&reviewed, 1), (&ticked, 0)] {
        assert_eq!(
            world.json(&["--db", db, "status"])["projects"],
            projects,
            "{db}"
        );
    }
}

#[test]
fn who_follows_before_the_beginning_sees_the_beginning() {
    let world = World::new();
    let repo = world.repo("site");
    let worktree = world.worktree(&repo, "feature");
    let seen = world.root().join("seen");
    let mut follower = world.remand_command(&["events", "-f"]);
    let mut follower = follower
        .stdout(fs::File::create(&seen).unwrap())
        .spawn()
        .unwrap();
    world
        .remand_in(&worktree, &["review", "--add-project"])
        .ok();
    wait_for("the first event", || {
        fs::read_to_string(&seen).unwrap().contains("work_created")
    });
    follower.kill().unwrap();
    follower.wait().unwrap();
}

#[test]
fn settings_for_a_project_that_nobody_knows_are_warned_of() {
    let world = World::new();
    world.config("[projects.website]\nmax_fix_cycles = 1\n");
    let warned = world.remand(&["config", "check"]).ok();
    assert!(warned.stdout.starts_with("ok"), "{}", warned.stdout);
    assert!(
        warned
            .stderr
            .contains("`remand project add PATH --name website`"),
        "{}",
        warned.stderr
    );
    assert!(!world.db().exists());
    let repo = world.repo("website");
    world
        .remand(&["project", "add", repo.to_str().unwrap()])
        .ok();
    assert_eq!(
        world.json(&["config", "check"])["warnings"],
        serde_json::json!([])
    );
    world.config(
        "[projects.webiste]\nmax_fix_cycles = 1\n[projects.website]\n[projects.engine.discover]\n",
    );
    let warned = world.remand(&["config", "check"]).ok().stderr;
    insta::assert_snapshot!(world.plain(&warned), @"
    warning: [projects.engine] is not a known project
    hint: known projects: website; `remand project add PATH --name engine` adds it
    warning: [projects.webiste] (near line 2) is not a known project
    hint: did you mean `website`? Known projects: website
    ");
    assert_eq!(
        world.json(&["config", "check"])["warnings"]
            .as_array()
            .unwrap()
            .len(),
        2
    );
}
