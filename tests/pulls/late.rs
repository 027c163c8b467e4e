//! Feedback that is read in another order, or at another time, than it was written.

use crate::support::forge::Review;
use crate::support::pull_play::{PullPlay, is_fenced, quiet};

const INLINE: &[(&str, i64, &str)] = &[
    ("work.txt", 1, "write fixed into this"),
    ("work.txt", 1, "mind the last byte"),
];

/// The forge dates the comments of a review by when they were typed, which may be hours before it
/// is submitted.
#[test]
fn comments_that_were_drafted_long_before_wait_for_their_review() {
    let stage = PullPlay::new(&quiet());
    stage.tick();
    let review = stage.forge.comments_before_review(1, "bob", INLINE);
    stage.tick();
    assert_eq!(
        stage.play.count("feedback WHERE author = 'bob'"),
        0,
        "{:#?}",
        stage.play.events()
    );
    stage.forge.review_after_comments(1, review, "bob");
    stage.tick();
    stage.is_ready(1);
    for (_, _, text) in INLINE {
        is_fenced(&stage.fix_prompt(), text);
    }
    assert_eq!(
        stage
            .play
            .count("feedback WHERE author = 'bob' AND outcome = 'rejected'"),
        3
    );
    stage.tick();
    stage.is_ready(1);
}

#[test]
fn a_review_that_comes_after_its_comments_were_judged_alone_still_has_them() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    let review = stage.forge.comments_before_review(1, "bob", INLINE);
    stage.tick();
    play.world
        .sqlite("UPDATE pulls SET marks = replace(marks, strftime('%Y-', 'now'), '2020-')");
    stage.tick();
    assert_eq!(
        play.count("feedback WHERE author = 'bob' AND outcome = 'context'"),
        2,
        "{:#?}",
        play.events()
    );
    stage.forge.review_after_comments(1, review, "bob");
    stage.tick();
    stage.is_ready(1);
    let prompt = stage.fix_prompt();
    for (_, _, text) in INLINE {
        is_fenced(&prompt, text);
    }
    assert_eq!(
        prompt.matches(INLINE[1].2).count(),
        1,
        "it is told once: {prompt}"
    );
    assert_eq!(
        play.count("feedback WHERE author = 'bob' AND outcome = 'rejected'"),
        3
    );
    assert!(
        !stage.passed_over().contains("does not say which"),
        "{}",
        stage.passed_over()
    );
}

#[test]
fn a_review_without_words_waits_for_its_comments_but_not_for_ever() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    let review = stage.review("bob", "CHANGES_REQUESTED", "", &[]);
    stage.tick();
    stage.is_ready(0);
    assert_eq!(stage.passed_over(), "");
    stage.forge.comments_of_review(1, review, "bob", INLINE);
    stage.tick();
    stage.is_ready(1);
    is_fenced(&stage.fix_prompt(), INLINE[1].2);

    stage.review("carol", "CHANGES_REQUESTED", "", &[]);
    stage.tick();
    play.world
        .sqlite("UPDATE feedback SET taken_in = '2020-01-01T00:00:00.000Z' WHERE author = 'carol'");
    stage.tick();
    stage.is_ready(1);
    assert!(
        stage
            .passed_over()
            .contains("it requests changes but does not say which"),
        "{}",
        stage.passed_over()
    );
}

const VERDICT: &str =
    "REVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 1\nSEVERITY: high\nSUMMARY: say fixed";

/// A comment names no commit: one written before the head arrived is about another one.
#[test]
fn a_verdict_in_a_comment_from_before_the_head_is_asked_about_once() {
    let stage = PullPlay::unwatched(&quiet());
    let play = &stage.play;
    let old = stage.remote_head("feature");
    for n in 0..2 {
        stage.forge.issue_comment(1, "bob", VERDICT);
        stage.forge.issue_comment(1, "carol", VERDICT);
        stage.push_from_elsewhere("feature", "more.txt", &format!("{n}\n"));
    }
    stage.forge.review(
        1,
        &Review {
            commit: Some(&old),
            body: "the old code is wrong",
            ..Review::default()
        },
    );
    stage.watch();
    stage.tick();
    stage.is_ready(0);
    let head = stage.remote_head("feature");
    let told = stage.passed_over();
    let before = format!("it was written before {} was pushed", &head[..10]);
    assert_eq!(told.matches(&before).count(), 4, "{told}");
    // The author of a pull request cannot be asked to review it.
    assert_eq!(
        stage.forge.pull(1)["requested_reviewers"],
        serde_json::json!(["bob"]),
        "{told}"
    );
    assert_eq!(stage.forge.writes_to("requested_reviewers"), 1);
    assert!(!told.contains("was not posted"), "{told}");

    // The same for a head that arrives later, though both are read together.
    stage.forge.issue_comment(1, "bob", VERDICT);
    let head = stage.push_from_elsewhere("feature", "more.txt", "2\n");
    stage.tick();
    stage.is_ready(0);
    let told = stage.passed_over();
    assert!(
        told.contains(&format!(
            "it was written before {} was pushed; bob is asked to review again",
            &head[..10]
        )),
        "{told}"
    );
    assert_eq!(stage.forge.writes_to("requested_reviewers"), 2);
    play.check();
}

#[test]
fn a_verdict_in_a_comment_from_before_it_was_watched_counts_if_it_is_newer_than_the_head() {
    let stage = PullPlay::unwatched(&quiet());
    let play = &stage.play;
    let mut amend = play.world.command("git");
    amend
        .args(["commit", "--quiet", "--amend", "--no-edit"])
        .current_dir(&play.worktree);
    crate::support::run(amend.env("GIT_COMMITTER_DATE", "2026-11-15T08:00:00Z")).ok();
    play.world.git(
        &play.worktree,
        &["push", "--quiet", "--force", "origin", "feature"],
    );
    stage.forge.issue_comment(1, "bob", VERDICT);
    stage.watch();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(play.count("rejections WHERE by_person"), 1);
}

#[test]
fn an_approval_that_is_dismissed_holds_no_longer() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.forge.add_user("dora", "write");
    stage.tick();
    stage.is_ready(0);
    let approve = |by: &str| stage.review(by, "APPROVED", "", &[]);
    let (bobs, doras) = (approve("bob"), approve("dora"));
    stage.tick();
    assert_eq!(play.state(), "approved");
    stage.forge.dismiss(1, bobs);
    stage.tick();
    assert_eq!(
        play.state(),
        "approved",
        "dora's stands: {:#?}",
        play.events()
    );
    stage.forge.dismiss(1, doras);
    stage.tick();
    // remand's review of this head still holds: it is not reviewed again.
    stage.is_ready(0);
    assert_eq!(play.count("runs"), 1, "{:#?}", play.events());
    assert!(play.why().contains("dora's approval"), "{}", play.why());
    assert!(
        !play.answer().contains("dora approved"),
        "{}",
        play.answer()
    );
    approve("dora");
    stage.tick();
    assert_eq!(play.state(), "approved");

    // A dismissal on the pull request does not withdraw a decision that was made here.
    let head = stage.push_from_elsewhere("feature", "more.txt", "more\n");
    stage.tick();
    stage.is_ready(0);
    play.worktree_is_at(&head);
    play.world.remand(&["approve", "c1"]).ok();
    let bobs = approve("bob");
    stage.tick();
    stage.forge.dismiss(1, bobs);
    stage.tick();
    assert_eq!(play.state(), "approved", "{:#?}", play.events());
    play.check();
}

/// It was adopted as approved, so it has not been reviewed here.
#[test]
fn a_head_that_is_left_without_any_approval_is_reviewed() {
    let stage = PullPlay::unwatched(&quiet());
    let play = &stage.play;
    let bobs = stage.review("bob", "APPROVED", "", &[]);
    stage.watch();
    stage.tick();
    assert_eq!((play.state().as_str(), play.count("runs")), ("approved", 0));
    stage.forge.dismiss(1, bobs);
    stage.tick();
    stage.is_ready(0);
    assert_eq!(play.count("runs"), 1, "{:#?}", play.events());
}
