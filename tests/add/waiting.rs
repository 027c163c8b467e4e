//! Tasks that wait for other changes.

use crate::support::Output;
use crate::support::play::{Play, Script};
use crate::support::pull_play::{APPROVES, PullPlay};

fn script() -> Script<'static> {
    Script {
        reviewer: APPROVES,
        fixer: "cat >/dev/null\nif [ -e \"$PROMPTS/fails.$REMAND_CHANGE\" ]; then exit 3; fi\necho a >\"$REMAND_CHANGE.txt\"\n",
        ..Script::default()
    }
}

fn run(play: &Play, args: &[&str]) -> Output {
    play.world.remand_in(&play.repo, args)
}

fn state(play: &Play, id: &str) -> String {
    let sql = format!("SELECT state FROM changes WHERE change_id = '{id}'");
    play.world.sqlite(&sql)
}

/// A chain of three tasks, each after the one before.
fn chain(play: &Play) {
    run(play, &["add", "First", "--no-review"]).ok();
    run(play, &["add", "Second", "--no-review", "--after", "c1"]).ok();
    run(play, &["add", "Third", "--no-review", "--after", "c2"]).ok();
}

fn merge(stage: &PullPlay, id: &str) {
    let sql = format!("SELECT pr_number FROM changes WHERE change_id = '{id}'");
    stage
        .forge
        .merge(stage.play.world.sqlite(&sql).parse().unwrap(), "ada");
    stage.tick();
}

/// S1-76: each of three starts when the one before it is merged, and all views name what it waits for.
#[test]
fn a_chain_of_three_starts_one_after_the_other() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    chain(play);
    stage.tick();
    let waiting = "it starts when c1 is merged";
    for command in [&["list"][..], &["status", "c2"], &["why", "c2"]] {
        let words = run(play, command).report().words();
        assert!(words.contains(waiting), "{command:?}: {words}");
    }
    let items = run(play, &["item", "list"]).ok().words();
    assert!(items.contains("blocked (after c1)"), "{items}");
    for (id, next) in [("c1", "c2"), ("c2", "c3")] {
        assert_eq!(
            state(play, id),
            "ready_for_human_review",
            "{:#?}",
            play.events()
        );
        assert_eq!(state(play, next), "queued");
        merge(&stage, id);
    }
    assert_eq!(
        state(play, "c3"),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    // The second starts from a base that has the work of the first.
    let files = play
        .world
        .git(&stage.remote, &["ls-tree", "--name-only", "remand/third"]);
    assert!(
        files.contains("c1.txt") && files.contains("c2.txt"),
        "{files}"
    );
    play.check();
}

/// S1-76: a circle of tasks would wait forever, and so would one that waits for a change without a pull request.
#[test]
fn what_would_wait_forever_is_refused() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    chain(play);
    run(play, &["add", "Local", "--no-review", "--local"]).ok();
    for (id, after, text) in [
        ("c1", "c1", "c1 cannot wait for c1"),
        (
            "c1",
            "c2",
            "each would wait for the other (c1 after c2 after c1)",
        ),
        ("c1", "c3", "c1 after c3 after c2 after c1"),
        (
            "c1",
            "c4",
            "cannot wait for c4: it has no pull request whose merge remand would see",
        ),
    ] {
        run(play, &["item", "edit", id, "--after", after]).fails(1, text);
    }
    run(play, &["add", "Fifth", "--after", "c4"]).fails(1, "use `--base remand/local`");
    run(play, &["item", "edit", "c2", "--after", "none"]).ok();
    run(play, &["item", "edit", "c1", "--after", "c2"]).ok();
    stage.tick();
    assert_eq!(
        [state(play, "c1"), state(play, "c2"), state(play, "c3")],
        ["queued", "ready_for_human_review", "queued"]
    );
    play.check();
}

/// S1-76: if the first one needs a person, so do all that wait for it. They wait again when that person continues it, and
/// start at once when they are retried themselves.
#[test]
fn what_waits_needs_a_person_with_the_first_and_waits_again_with_it() {
    let stage = PullPlay::unwatched(&script());
    let play = &stage.play;
    chain(play);
    play.let_go("fails.c1");
    stage.tick();
    for id in ["c1", "c2", "c3"] {
        assert_eq!(state(play, id), "escalated", "{id}: {:#?}", play.events());
    }
    let why = run(play, &["why", "c2"]).held().words();
    assert!(
        why.contains("it was to start after c1, which is escalated"),
        "{why}"
    );
    std::fs::remove_file(play.seen("fails.c1")).unwrap();
    run(play, &["retry", "c1"]).ok();
    assert_eq!([state(play, "c2"), state(play, "c3")], ["queued", "queued"]);
    assert!(
        run(play, &["why", "c2"])
            .ok()
            .words()
            .contains("it starts when c1 is merged")
    );
    play.check();
    stage.tick();
    assert_eq!(
        [state(play, "c1"), state(play, "c2")],
        ["ready_for_human_review", "queued"]
    );
    // Closed: the second needs a person, who starts it without the first. The third waits for the second only.
    run(play, &["cancel", "c1"]).ok();
    assert_eq!(
        [state(play, "c2"), state(play, "c3")],
        ["escalated", "escalated"]
    );
    run(play, &["retry", "c2"]).ok();
    stage.tick();
    assert_eq!(
        [state(play, "c2"), state(play, "c3")],
        ["ready_for_human_review", "queued"],
        "{:#?}",
        play.events()
    );
    merge(&stage, "c2");
    assert_eq!(
        state(play, "c3"),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    play.check();
}
