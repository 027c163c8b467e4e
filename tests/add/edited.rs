//! Edits of tasks: everything while they are queued, afterwards what still has an effect.

use serde_json::Value;

use crate::support::Output;
use crate::support::play::{Play, Script};
use crate::support::pull_play::{APPROVES, PullPlay};

fn run(play: &Play, args: &[&str]) -> Output {
    play.world.remand_in(&play.repo, args)
}

fn edit(play: &Play, args: &[&str]) -> Output {
    let mut all = vec!["item", "edit"];
    all.extend(args);
    run(play, &all)
}

fn script() -> Script<'static> {
    Script {
        reviewer: APPROVES,
        fixer: "cat >\"$PROMPTS/prompt\"\npwd >\"$PROMPTS/pwd\"\necho a >work.txt\n",
        ..Script::default()
    }
}

/// S1-76, DESIGN 9: all parts of a queued task, by its item or its change; one event says what changed from what to what.
#[test]
fn a_queued_task_is_edited_in_all_its_parts() {
    let play = Play::without_change(&script());
    play.world.git(&play.repo, &["branch", "next"]);
    std::fs::write(play.repo.join("spec.md"), "It says please.\n").unwrap();
    run(
        &play,
        &["add", "First", "-a", "--local", "--body", "old text"],
    )
    .ok();
    let same = edit(&play, &["c1", "--title", "First"]).ok();
    assert!(same.stdout.contains("nothing to change"), "{}", same.stdout);
    let edited = run(
        &play,
        &[
            "item",
            "edit",
            "w1",
            "--title",
            "Another title",
            "--body",
            "new text",
            "--spec",
            "spec.md",
            "--agent",
            "reviewer",
            "--review-agent",
            "fixer",
            "--model",
            "m",
            "--priority",
            "P1",
            "--max-cycles",
            "5",
            "--base",
            "next",
            "--branch",
            "mine",
            "--draft",
            "--json",
        ],
    );
    let edited = edited.ok().json();
    assert_eq!(
        (&edited["title"], &edited["branch"], &edited["base"]),
        (&"Another title".into(), &"mine".into(), &"next".into())
    );
    let metadata =
        "SELECT metadata FROM events WHERE event_type = 'instructed' ORDER BY id DESC LIMIT 1";
    let event: Value = serde_json::from_str(&play.world.sqlite(metadata)).unwrap();
    assert_eq!(event["action"], "edit");
    let changed = event["changed"].as_array().unwrap();
    let one = |field: &str| changed.iter().find(|one| one["field"] == field).unwrap();
    assert_eq!(
        (&one("body")["from"], &one("body")["to"]),
        (&"old text".into(), &"new text".into())
    );
    assert_eq!(
        (&one("agent")["from"], &one("agent")["to"]),
        (&Value::Null, &"reviewer".into())
    );
    assert_eq!(changed.len(), 11, "{event:#}");
    let shown = run(&play, &["item", "show", "w1"]).ok().stdout;
    for part in ["new text", "spec.md", "reviewer", "P1"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    edit(
        &play,
        &[
            "c1",
            "--agent",
            "fixer",
            "--review-agent",
            "reviewer",
            "--spec",
            "none",
        ],
    )
    .ok();
    play.check();
    play.tick().ok();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert!(
        play.noted("pwd").trim().ends_with("worktrees/calc/mine"),
        "{}",
        play.noted("pwd")
    );
    let prompt = play.noted("prompt");
    assert!(
        prompt.contains("Another title")
            && prompt.contains("new text")
            && !prompt.contains("please"),
        "{prompt}"
    );
    let log = play
        .world
        .git(&play.repo, &["log", "--format=%s", "next..mine"]);
    assert_eq!(log, "Another title");
}

/// S1-76: an edit is checked like a new task, and refused as a whole.
#[test]
fn an_edit_that_is_wrong_changes_nothing() {
    let play = Play::new(&script());
    run(&play, &["add", "First", "-a"]).ok();
    run(&play, &["add", "Second", "-a"]).ok();
    let all = "SELECT (SELECT group_concat(title || branch || coalesce(waits_for, '')) FROM changes), (SELECT count(*) FROM events)";
    let cases: &[(&[&str], i32, &str)] = &[
        (&["c2"], 2, "required"),
        (
            &["c2", "--title", " ", "--priority", "P1"],
            2,
            "the title is empty",
        ),
        (
            &["c2", "--agent", "nosuch"],
            4,
            "no agent is named `nosuch`",
        ),
        (
            &["c2", "--base", "nosuch"],
            4,
            "the base branch nosuch does not exist",
        ),
        (
            &["c2", "--branch", "main"],
            2,
            "is a branch that work is merged into",
        ),
        (
            &["c2", "--branch", "remand/second"],
            1,
            "already belongs to c3",
        ),
        (&["c2", "--branch", "-x"], 2, "invalid branch name"),
        (&["c2", "--spec", "nosuch"], 4, "no such file"),
        (
            &["c2", "--issue", "x"],
            2,
            "the number of an issue, or none",
        ),
        (&["c2", "--after", "c9"], 4, "c9"),
        (&["c2", "--draft", "--no-draft"], 2, "cannot be used with"),
        (
            &["w1", "--title", "x"],
            2,
            "w1 is a code_review, not a task",
        ),
        (&["c1", "--title", "x"], 1, "c1 was not made from a task"),
        (&["w99", "--title", "x"], 4, "w99"),
    ];
    for (args, status, text) in cases {
        let before = play.world.sqlite(all);
        edit(&play, args).fails(*status, text);
        assert_eq!(play.world.sqlite(all), before, "{args:?}");
    }
}

/// S1-76: what nothing reads any more is refused, with the reason.
#[test]
fn an_implemented_task_is_edited_where_it_has_an_effect() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    run(play, &["add", "First"]).ok();
    stage.tick();
    assert_eq!(play.state(), "pending_self_review", "{:#?}", play.events());
    for (args, text) in [
        (
            ["c1", "--branch", "mine"],
            "cannot change the branch of c1 (pending_self_review): its branch exists already",
        ),
        (["c1", "--base", "feature"], "cannot change the base of c1"),
        (["c1", "--after", "none"], ""),
    ] {
        let edited = edit(play, &args);
        match text {
            "" => assert!(edited.ok().stdout.contains("nothing to change")),
            text => drop(edited.fails(1, text)),
        }
    }
    edit(
        play,
        &[
            "c1",
            "--title",
            "A better title",
            "--draft",
            "--body",
            "More.",
            "--review-agent",
            "reviewer",
        ],
    )
    .ok();
    run(play, &["review", "c1"]).ok();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let number: i64 = play
        .world
        .sqlite("SELECT pr_number FROM changes WHERE change_id = 'c1'")
        .parse()
        .unwrap();
    let pull = stage.forge.pull(number);
    assert_eq!(
        (&pull["title"], &pull["draft"]),
        (&"A better title".into(), &true.into())
    );
    edit(play, &["c1", "--no-draft"]).fails(
        1,
        "its pull request is open or being opened; edit it on GitHub",
    );
    run(play, &["cancel", "c1"]).ok();
    edit(play, &["c1", "--priority", "P1"]).fails(1, "c1 is closed");
    play.check();
}

/// S1-76, DESIGN 9: the commands that are offered when the pull request or the base is refused work as they are printed.
#[test]
fn the_offered_edits_work() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    let link = play.world.root().join("bin/remand");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_remand"), link).unwrap();
    stage.forge.refuse_drafts();
    run(play, &["add", "First", "--no-review", "--draft"]).ok();
    play.world.git(&play.repo, &["branch", "side"]);
    run(
        play,
        &["add", "Second", "--no-review", "--base", "side", "--local"],
    )
    .ok();
    play.world.git(&play.repo, &["branch", "-D", "side"]);
    stage.tick();
    let state = |id: &str| {
        play.world.sqlite(&format!(
            "SELECT state FROM changes WHERE change_id = '{id}'"
        ))
    };
    for (id, command) in [
        ("c1", "remand item edit w3 --no-draft"),
        ("c2", "remand item edit c2 --base BRANCH"),
    ] {
        assert_eq!(state(id), "escalated", "{:#?}", play.events());
        let offered = play.world.why(id)["commands"].to_string();
        assert!(offered.contains(command), "{offered}");
        play.sh(&play.repo, &command.replace("BRANCH", "main"));
        play.sh(&play.repo, &format!("remand retry {id}"));
    }
    stage.tick();
    for id in ["c1", "c2"] {
        assert_eq!(
            state(id),
            "ready_for_human_review",
            "{id}: {:#?}",
            play.events()
        );
    }
    play.check();
}

/// S1-76: nothing of a queued task was made yet, so that its cancelled item closes it.
#[test]
fn a_queued_task_is_closed_by_cancelling_its_item() {
    let play = Play::without_change(&script());
    run(&play, &["add", "First", "-a"]).ok();
    run(&play, &["item", "cancel", "w1", "--why", "not needed"]).ok();
    assert_eq!(play.state(), "closed");
    let why = play.why();
    assert!(why.contains("cancelled by ada: not needed"), "{why}");
    let branches = play.world.git(
        &play.repo,
        &["for-each-ref", "--format=%(refname:short)", "refs/heads"],
    );
    assert_eq!(branches, "feature\nmain");
    play.check();
}
