//! `remand demo`: the first command of a new user.

use serde_json::Value;

use crate::support::World;

#[test]
fn the_demo_shows_pull_requests_and_a_task_and_their_ends() {
    let world = World::new();
    let folder = world.root().join("demo");
    let shown = world
        .remand(&["demo", "--dir", folder.to_str().unwrap()])
        .ok()
        .stdout;
    for told in [
        "ada/calc#1  Detect leap years: rejected by the reviewer, fixed, passed",
        "ada/calc#2  Greet by name: passed, sent back by a person, fixed, approved by that person",
        "ada/calc#3  Add a banner: still rejected after 2 fixes, escalated to a person",
        "ada/calc#4  Count words: from a task: implemented, rejected by the reviewer, fixed, passed, opened",
        "c4          Count words           fixer starts the implementation",
        "c4          Count words           implemented: 2 files in 1 commit",
        "calc#4      Count words           ada/calc#4 opened at ",
        "remand commented: This PR has been automatically refined and is ready for human review.",
        "grace requests changes: `greet` without a name prints `Hello, !`.",
        "requested another review from grace",
        "grace approved: Much better, thank you.",
        "remand replied at greet.sh:1: Addressed in ",
        "remand commented: needs a person: PR #3 exceeded max fix cycles (2)",
    ] {
        assert!(shown.contains(told), "{told:?} is not in:\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no escape codes in a pipe");
    assert_eq!(
        shown.matches("needs a person").count(),
        1,
        "one note:\n{shown}"
    );
    let remote = folder.join("remote.git");
    for (branch, fixes) in [
        ("leap-years", 1),
        ("greeting", 1),
        ("banner", 2),
        ("remand/count-words", 1),
    ] {
        let log = world.git(&remote, &["log", "--format=%s", &format!("main..{branch}")]);
        let pushed = log
            .lines()
            .filter(|line| line.starts_with("Address review feedback"))
            .count();
        assert_eq!(pushed, fixes, "{branch}:\n{log}");
    }
    let forge: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("forge.json")).unwrap()).unwrap();
    assert_eq!(
        forge["misuse"],
        serde_json::json!([]),
        "asked of the stand-in, which does not know it"
    );
    // The suggested commands work.
    let db = folder.join("blackboard.db");
    let at = ["--db", db.to_str().unwrap()];
    let remand = |args: &[&str]| world.remand(&[&at[..], args].concat());
    let look = |args: &[&str]| remand(args).ok().stdout;
    let why = remand(&["why", "ada/calc#3"]).held().stdout;
    assert!(why.contains("remand approve c3"), "{why}");
    assert!(
        look(&["diff", "ada/calc#2", "--cycle", "1"])
            .contains("+greet() { echo \"Hello, ${1:-you}!\"; }")
    );
    look(&["check"]);
    let again = world.remand(&["demo", "--dir", folder.to_str().unwrap()]);
    again.fails(2, "is not empty");
}
