//! The work of an agent on a task: which worktree it gets, and what becomes of its result.

use std::fs;

use crate::support::play::{Play, Script};
use crate::support::pull_play::is_fenced;

fn play(fixer: &str) -> Play {
    Play::without_change(&Script {
        fixer,
        ..Script::default()
    })
}

fn add(play: &Play, more: &[&str]) {
    let mut args = vec!["add", "Add a work file", "--no-review", "--local"];
    args.extend(more);
    play.world.remand_in(&play.repo, &args).ok();
}

/// DESIGN 4.11: whatever the agent leaves is committed, with the title of the task and remand's trailers.
#[test]
fn uncommitted_work_is_committed_with_the_title_and_trailers() {
    let play = play(
        "cat >/dev/null\necho a >own.txt\ngit add own.txt\ngit commit -qm 'My commit'\necho b >rest.txt\n",
    );
    add(&play, &[]);
    play.tick().ok();
    let branch = "remand/add-a-work-file";
    let log = play.world.git(
        &play.repo,
        &["log", "--format=%B", &format!("main..{branch}")],
    );
    let (first, rest) = log.split_once("My commit").unwrap();
    assert!(first.starts_with("Add a work file\n"), "{log}");
    for trailer in ["Remand-Change: c1", "Remand-Item: w1"] {
        assert!(first.contains(trailer), "{log}");
        assert!(
            !rest.contains(trailer),
            "the agent's own commit is as it was: {log}"
        );
    }
    let files = play.world.git(
        &play.repo,
        &["diff", "--name-only", &format!("main..{branch}")],
    );
    assert_eq!(files, "own.txt\nrest.txt");
    play.check();
}

/// S1-75: a worktree that is on the branch already is used, also for the branch's earlier commits; the default branch
/// and the main checkout never are.
#[test]
fn the_worktree_of_an_existing_branch_is_used() {
    let play = play("cat >/dev/null\npwd >\"$PROMPTS/pwd\"\necho more >>work.txt\n");
    let before = play.head();
    add(&play, &["--branch", "feature"]);
    play.tick().ok();
    assert_eq!(play.noted("pwd").trim(), play.worktree.to_str().unwrap());
    assert_eq!(play.count("events WHERE event_type = 'worktree_made'"), 0);
    let parent = play.world.git(&play.repo, &["rev-parse", "feature^"]);
    assert_eq!(parent, before, "one commit on top");
    let main = play.world.git(&play.repo, &["log", "--format=%s", "main"]);
    assert_eq!(main, "first");
    play.is_ready(0);
    // A branch without a worktree is continued in a new one.
    play.world.git(&play.repo, &["branch", "old", "feature"]);
    add(&play, &["--branch", "old"]);
    play.tick().ok();
    assert!(
        play.noted("pwd").trim().ends_with("worktrees/calc/old"),
        "{}",
        play.noted("pwd")
    );
    let log = play
        .world
        .git(&play.repo, &["log", "--format=%s", "feature..old"]);
    assert_eq!(log, "Add a work file");
}

/// FR-4.6, S1-75: an agent that changes nothing has failed, and its explanation is shown. The command that is offered
/// works: the task is edited, retried and implemented.
#[test]
fn no_change_is_a_failure_and_the_offered_edit_works() {
    let play = play("cat >/dev/null\necho 'Which file? The task does not say.'\n");
    add(&play, &[]);
    play.tick().held();
    play.is_escalated("the agent changed nothing; its answer: Which file? The task does not say.");
    assert!(!play.why().contains('⏎'), "{}", play.why());
    let offered = play.world.why("c1")["commands"].to_string();
    assert!(
        offered.contains("remand item edit c1 --body …"),
        "{offered}"
    );
    std::os::unix::fs::symlink(
        env!("CARGO_BIN_EXE_remand"),
        play.world.root().join("bin/remand"),
    )
    .unwrap();
    play.sh(
        &play.repo,
        "remand item edit c1 --body 'The file is work.txt.'",
    );
    play.fixer("cat >\"$PROMPTS/prompt\"\necho a >work.txt\n");
    play.sh(&play.repo, "remand retry c1");
    play.tick().ok();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    is_fenced(&play.noted("prompt"), "The file is work.txt.");
    play.check();
}

/// GZ-14, S0-1: a feature in `.specify/` is one of its own source; what the agents get is the text of the moment when
/// the task was added, and the reviewer compares with it.
#[test]
fn a_specification_is_read_once_and_given_to_all_agents() {
    let play = Play::without_change(&Script {
        reviewer: "says approved \"as specified\"\n",
        fixer: "cat >\"$PROMPTS/prompt\"\necho a >work.txt\n",
        ..Script::default()
    });
    let feature = play.repo.join(".specify/specs/001-work");
    fs::create_dir_all(&feature).unwrap();
    fs::write(feature.join("plan.md"), "Use one file.\n").unwrap();
    fs::write(feature.join("spec.md"), "It says please.\n").unwrap();
    let outside = play.world.root().join("src/notes.md");
    fs::write(&outside, "Outside of the repository.\n").unwrap();
    for (title, spec) in [
        ("First", ".specify/specs/001-work"),
        ("Second", "../notes.md"),
    ] {
        let args = ["add", title, "-a", "--local", "--spec", spec];
        play.world.remand_in(&play.repo, &args).ok();
    }
    let sources = "SELECT group_concat(source) FROM work_items";
    assert_eq!(play.world.sqlite(sources), "specflow,manual");
    fs::write(feature.join("spec.md"), "It says nothing.\n").unwrap();
    let mut prompts = Vec::new();
    for _ in 0..2 {
        play.tick().report();
    }
    for run in play
        .world
        .sqlite("SELECT run_id FROM runs ORDER BY length(run_id), run_id")
        .lines()
    {
        prompts.push(play.prompt_of_run(run));
    }
    assert_eq!(prompts.len(), 4, "{:#?}", play.events());
    let with = |text: &str| {
        prompts
            .iter()
            .filter(|prompt| prompt.contains(text))
            .count()
    };
    assert_eq!(
        with("It says please."),
        2,
        "the implementer and the reviewer"
    );
    assert_eq!(with("Outside of the repository."), 2);
    assert_eq!(with("It says nothing."), 0);
    let first = prompts
        .iter()
        .find(|prompt| prompt.contains("Use one file."))
        .unwrap();
    is_fenced(first, "It says please.");
    assert!(
        first.find("It says please.") < first.find("Use one file."),
        "the spec comes first"
    );
}

/// S1-3: tasks with the same title that are added at the same time get branches of their own.
#[test]
fn tasks_that_are_added_at_once_get_branches_of_their_own() {
    let play = play("true");
    std::thread::scope(|scope| {
        let adds: Vec<_> = (0..6).map(|_| scope.spawn(|| add(&play, &[]))).collect();
        for added in adds {
            added.join().unwrap();
        }
    });
    assert_eq!(play.count("changes"), 6);
    assert_eq!(
        play.world.sqlite(
            "SELECT count(DISTINCT branch) || ' ' || count(DISTINCT worktree) FROM changes"
        ),
        "6 6"
    );
    play.check();
}
