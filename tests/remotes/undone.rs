//! A person reverts a pushed fix: no more fixes are made automatically.

use super::{FIXES, Remotes};
use crate::support::forge::Review;
use crate::support::play::Script;
use crate::support::pull_play::rejecting;

/// Creates a change that was fixed, pushed and reviewed; then the person does this.
fn taken_back(line: &str) -> Remotes {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.runs(), 1);
    stage.person(line);
    // Long after the push: until then the forge may just be slow.
    stage
        .play
        .world
        .sqlite("UPDATE intents SET done_at = '2020-01-01T00:00:00.000Z' WHERE kind = 'push'");
    stage.tick();
    stage
}

fn auto_fix(stage: &Remotes) -> bool {
    stage.play.world.sqlite("SELECT auto_fix FROM changes") == "1"
}

fn short(sha: &str) -> &str {
    &sha[..10]
}

/// Asserts that fixes stay off until a person resumes them, whatever remand's reviewer finds.
#[track_caller]
fn is_off(stage: &Remotes, who: &str) {
    let ours = stage.moves("feature")[0].clone();
    stage.is_escalated(&format!(
        "{who} reverted fix {} with {}",
        short(&ours),
        short(&stage.remote_head("feature"))
    ));
    assert!(!auto_fix(stage));
    assert_eq!(stage.escalations(), 1);
    stage.person("echo more >more.txt; git add -A; git commit --quiet -m More; git push --quiet");
    stage.tick();
    stage.is_escalated("a fix of PR #1 was reverted");
    assert_eq!(stage.runs(), 1, "{:#?}", stage.play.events());
}

#[test]
fn a_fix_that_is_reverted_is_not_made_again_until_a_person_asks_for_it() {
    let stage = taken_back("git revert --no-edit HEAD >/dev/null; git push --quiet");
    is_off(&stage, "Ada");
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "do it after all"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert!(auto_fix(&stage));
    assert_eq!(stage.runs(), 2);
}

#[test]
fn a_fix_that_is_taken_off_the_branch_is_not_made_again_until_a_person_asks_for_it() {
    let stage = taken_back("git push --quiet --force origin HEAD~1:feature");
    let ours = stage.moves("feature")[0].clone();
    stage.is_escalated(&format!("someone reverted fix {}", short(&ours)));
    assert!(!auto_fix(&stage));
    assert_eq!(stage.escalations(), 1);
    assert_eq!(stage.runs(), 1);
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "do it otherwise"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.runs(), 2);
    assert_eq!(
        stage.subjects(),
        ["add work.txt", "Address review feedback (cycle 2)"]
    );
    let kept = stage.play.world.git(
        &stage.play.repo,
        &["for-each-ref", "--contains", &ours, "refs/remand/wip/"],
    );
    assert!(
        kept.contains("refs/remand/wip/"),
        "what was taken off is kept here"
    );
}

#[test]
fn a_tree_that_is_put_back_by_hand_turns_fixes_off_and_a_request_on_the_pull_request_on_again() {
    let stage = taken_back(
        "git checkout --quiet HEAD~1 -- .; git commit --quiet -m 'Not like this'; git push --quiet",
    );
    is_off(&stage, "Ada");
    let head = stage.remote_head("feature");
    let review = Review {
        by: "bob",
        state: "CHANGES_REQUESTED",
        commit: Some(&head),
        body: "say fixed",
        inline: &[],
    };
    stage.forge.review(stage.number, &review);
    stage.tick();
    stage.is_ready();
    assert!(auto_fix(&stage));
    assert_eq!(stage.runs(), 2);
}

/// After a retry it does not repeat the message: the person has seen it.
#[test]
fn a_person_who_retries_after_a_revert_gets_the_review_of_it() {
    let stage = taken_back("git revert --no-edit HEAD >/dev/null; git push --quiet");
    stage.is_escalated("reverted fix");
    stage.retry();
    stage.is_ready();
    assert_eq!(stage.runs(), 2);
}

#[test]
fn a_revert_during_the_next_fix_keeps_it_from_being_pushed() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.tick();
    stage.is_ready();
    let review = Review {
        by: "bob",
        body: "say it twice",
        ..Review::default()
    };
    stage.forge.review(stage.number, &review);
    let revert = stage.by_person("git revert --no-edit HEAD >/dev/null; git push --quiet");
    stage
        .play
        .fixer(&format!("{revert}echo more >other.txt\n{FIXES}"));
    stage.tick();
    stage.is_escalated("Ada reverted fix");
    assert!(!auto_fix(&stage));
    assert_eq!(stage.moves("feature").len(), 2, "ours, and the revert");
    assert_eq!(stage.kept("other.txt"), "more");
}

/// The branch is then at a commit that remand once pushed.
#[test]
fn the_last_of_two_fixes_is_taken_off_the_branch() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.tick();
    stage.is_ready();
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_ready();
    stage.person("git push --quiet --force origin HEAD~1:feature");
    stage.tick();
    let ours = stage.moves("feature")[1].clone();
    stage.is_escalated(&format!(
        "someone reverted fix {} with {}",
        short(&ours),
        short(&stage.remote_head("feature"))
    ));
    assert_eq!(stage.runs(), 2);
}
