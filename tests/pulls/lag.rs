//! A forge that shows an old head for longer than anyone would wait, and heads that really went
//! back.

use crate::support::forge::Review;
use crate::support::pull_play::{PullPlay, quiet, rejecting};

/// Makes all of remand's pushes look old.
fn age_pushes(stage: &PullPlay) {
    stage
        .play
        .world
        .sqlite("UPDATE intents SET done_at = '2020-01-01T00:00:00.000Z' WHERE kind = 'push'");
}

fn moves(stage: &PullPlay) -> i64 {
    stage.play.count("events WHERE event_type = 'head_moved'")
}

/// The forge shows the head from before remand's push for several polls: one review of the fix, one
/// post.
#[test]
fn a_forge_that_lags_for_several_polls_gets_one_review_and_one_post() {
    let stage = PullPlay::new(&rejecting());
    let old = stage.remote_head("feature");
    stage.forge.show_head(1, Some(&old));
    stage.tick();
    stage.is_ready(1);
    let (runs, writes, moved) = (
        stage.play.count("runs"),
        stage.forge.writes().len(),
        moves(&stage),
    );
    assert_ne!(stage.remote_head("feature"), old);
    for poll in 0..3 {
        age_pushes(&stage);
        stage.tick();
        stage.is_ready(1);
        assert_eq!(
            stage.play.count("runs"),
            runs,
            "poll {poll}: {:#?}",
            stage.play.events()
        );
        assert_eq!(
            stage.forge.writes().len(),
            writes,
            "poll {poll}: {:?}",
            stage.forge.writes()
        );
    }
    stage.forge.show_head(1, None);
    stage.tick();
    stage.is_ready(1);
    assert_eq!(
        (stage.play.count("runs"), stage.forge.writes().len()),
        (runs, writes),
        "{:#?}",
        stage.play.events()
    );
    assert_eq!(moves(&stage), moved, "{:#?}", stage.play.events());
}

/// The same for the push of a person: the forge keeps showing the head before it, and the one
/// before that.
#[test]
fn a_lag_behind_the_push_of_a_person_is_no_move() {
    let stage = PullPlay::new(&quiet());
    let first = stage.remote_head("feature");
    stage.tick();
    stage.push_from_elsewhere("feature", "more.txt", "more\n");
    stage.tick();
    stage.is_ready(0);
    let runs = stage.play.count("runs");
    for _ in 0..3 {
        stage.forge.show_head(1, Some(&first));
        stage.tick();
        stage.is_ready(0);
        stage.forge.show_head(1, None);
        stage.tick();
        stage.is_ready(0);
    }
    assert_eq!(stage.play.count("runs"), runs, "{:#?}", stage.play.events());
}

/// The position of the branch is unknown: a head that is known to be older is treated as lag.
#[test]
fn without_the_remote_an_older_head_is_no_move() {
    let stage = PullPlay::new(&rejecting());
    let old = stage.remote_head("feature");
    stage.tick();
    stage.is_ready(1);
    let (runs, moved) = (stage.play.count("runs"), moves(&stage));
    let url = stage.play.world.sqlite("SELECT remote_url FROM projects");
    stage
        .play
        .world
        .sqlite("UPDATE projects SET remote_url = '/nowhere/at-all.git'");
    stage.forge.show_head(1, Some(&old));
    age_pushes(&stage);
    stage.tick();
    assert_eq!(
        (stage.play.count("runs"), moves(&stage)),
        (runs, moved),
        "{:#?}",
        stage.play.events()
    );
    stage
        .play
        .world
        .sqlite(&format!("UPDATE projects SET remote_url = '{url}'"));
    stage.tick();
    stage.is_ready(1);
    assert_eq!(
        (stage.play.count("runs"), moves(&stage)),
        (runs, moved),
        "{:#?}",
        stage.play.events()
    );
}

/// A person resets the branch to a known commit: the remote confirms it, so it is a move,
/// immediately.
#[test]
fn a_branch_that_a_person_took_back_has_moved() {
    let stage = PullPlay::new(&quiet());
    let first = stage.remote_head("feature");
    stage.tick();
    let second = stage.push_from_elsewhere("feature", "more.txt", "more\n");
    stage.tick();
    stage.is_ready(0);
    let world = &stage.play.world;
    world.git(
        &stage.elsewhere,
        &[
            "push",
            "--quiet",
            "--force",
            "origin",
            &format!("{first}:refs/heads/feature"),
        ],
    );
    // The forge lags: it still shows the previous head.
    stage.forge.show_head(1, Some(&second));
    stage.tick();
    stage.forge.show_head(1, None);
    stage.tick();
    let to = format!("events WHERE event_type = 'head_moved' AND metadata ->> 'to' = '{first}'");
    assert_eq!(stage.play.count(&to), 1, "{:#?}", stage.play.events());
    assert_eq!(
        world.sqlite("SELECT head FROM changes"),
        first,
        "{:#?}",
        stage.play.events()
    );
}

/// A review of the old head and the push that replaced that head are read together.
#[test]
fn a_review_that_is_read_with_the_push_that_made_it_stale_makes_no_fix() {
    let stage = PullPlay::new(&quiet());
    stage.tick();
    stage.is_ready(0);
    let old = stage.remote_head("feature");
    let body = "this line is wrong";
    stage.forge.review(
        1,
        &Review {
            commit: Some(&old),
            body,
            ..Review::default()
        },
    );
    let new = stage.push_from_elsewhere("feature", "more.txt", "more\n");
    stage.tick();
    stage.is_ready(0);
    let stale = format!(
        "it is about {}, but the head is now {}; bob is asked to review again",
        &old[..10],
        &new[..10]
    );
    assert!(
        stage.passed_over().contains(&stale),
        "{}",
        stage.passed_over()
    );
    assert_eq!(stage.play.count("rejections"), 0);
}

/// The forge shows the old head with a review of the new one: the remote decides which is right.
#[test]
fn a_review_of_a_head_that_the_forge_does_not_show_yet_makes_a_fix() {
    let stage = PullPlay::new(&quiet());
    stage.tick();
    stage.is_ready(0);
    let old = stage.remote_head("feature");
    let new = stage.push_from_elsewhere("feature", "more.txt", "more\n");
    stage.forge.show_head(1, Some(&old));
    stage.forge.review(
        1,
        &Review {
            commit: Some(&new),
            body: "write fixed into work.txt",
            ..Review::default()
        },
    );
    stage.tick();
    stage.is_ready(1);
    assert_eq!(
        stage.play.count("rejections WHERE by_person"),
        1,
        "{:#?}",
        stage.play.events()
    );
}

/// Between the read that sees a new head and the heartbeat that withdraws the verdict.
#[test]
fn a_verdict_on_an_older_head_is_not_shown() {
    let stage = PullPlay::new(&quiet());
    let world = &stage.play.world;
    stage.tick();
    stage.is_ready(0);
    let new = "1234567890".repeat(4);
    for state in ["ready_for_human_review", "approved"] {
        world.sqlite(&format!(
            "UPDATE changes SET state = '{state}'; UPDATE pulls SET head_sha = '{new}'"
        ));
        let why = world.why("c1");
        assert_eq!(why["because"], "waits_for_heartbeat", "{state}: {why}");
        let answer = why["answer"].as_str().unwrap();
        assert!(
            answer.starts_with("a new head (1234567890) is being read"),
            "{answer}"
        );
        let board = world.remand(&["list"]).ok().stdout;
        assert!(board.contains("a new head (1234567890)"), "{board}");
    }
}
