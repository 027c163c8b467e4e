//! The worktree is not at the remote's head when a fix starts.

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::rejecting;

fn stage() -> Remotes {
    Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    })
}

#[test]
fn commits_that_are_only_in_the_worktree_are_a_person_s_to_push() {
    let stage = stage();
    let theirs = stage.remote_head("feature");
    let here = stage
        .play
        .world
        .commit(&stage.play.worktree, "mine.txt", "mine\n", "Mine");
    stage.tick();
    stage.is_escalated("has commits that are not on the remote");
    assert_eq!(stage.remote_head("feature"), theirs);
    assert_eq!(stage.moves("feature").len(), 0);
    stage.play.worktree_is_at(&here);
    assert_eq!(stage.runs(), 0);
    // Once the person has pushed it, the change continues.
    stage
        .play
        .sh(&stage.play.worktree, "git push --quiet origin feature");
    stage.retry();
    stage.is_ready();
    assert_eq!(stage.moves("feature").len(), 2);
}

#[test]
fn a_worktree_and_a_remote_that_went_apart_are_a_person_s_to_join() {
    let stage = stage();
    stage.person(
        "echo theirs >theirs.txt; git add -A; git commit --quiet -m Theirs; git push --quiet",
    );
    let here = stage
        .play
        .world
        .commit(&stage.play.worktree, "mine.txt", "mine\n", "Mine");
    stage.tick();
    stage.is_escalated("neither contains the other");
    assert_eq!(stage.moves("feature").len(), 1);
    stage.play.worktree_is_at(&here);
    assert_eq!(stage.runs(), 0);
}

/// A user's worktree without local work follows the branch, too, and none of their files is lost.
#[test]
fn a_worktree_at_what_the_remote_had_follows_a_rewritten_branch() {
    let stage = stage();
    let worktree = &stage.play.worktree;
    stage
        .play
        .sh(worktree, "echo 'secret.env' >>\"$(git rev-parse --git-common-dir)/info/exclude\"; echo mine >secret.env");
    stage.person("git commit --quiet --amend -m Again; git push --quiet --force");
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.escalations(), 0, "{:#?}", stage.play.events());
    assert_eq!(
        std::fs::read_to_string(worktree.join("secret.env")).unwrap(),
        "mine\n"
    );
    stage.person(
        "echo public >secret.env; git add -f secret.env; git commit --quiet --amend -m Env; git push --quiet --force",
    );
    stage.tick();
    stage.is_escalated("secret.env");
    assert_eq!(
        std::fs::read_to_string(worktree.join("secret.env")).unwrap(),
        "mine\n"
    );
}

#[test]
fn a_worktree_behind_the_remote_goes_forward_and_loses_no_file() {
    let stage = stage();
    let worktree = &stage.play.worktree;
    stage
        .play
        .sh(worktree, "echo 'secret.env' >>\"$(git rev-parse --git-common-dir)/info/exclude\"; echo mine >secret.env");
    stage.person(
        "echo theirs >theirs.txt; git add -A; git commit --quiet -m Theirs; git push --quiet",
    );
    stage.tick();
    stage.is_ready();
    assert_eq!(
        std::fs::read_to_string(worktree.join("secret.env")).unwrap(),
        "mine\n"
    );
    assert_eq!(
        std::fs::read_to_string(worktree.join("theirs.txt")).unwrap(),
        "theirs\n"
    );
    // A file of the person, hidden from git, is at a path that the commit must write.
    stage.person("echo public >secret.env; git add -f secret.env; git commit --quiet -m Env; git push --quiet");
    let before = stage.moves("feature").len();
    stage.tick();
    stage.is_escalated("secret.env");
    assert_eq!(
        std::fs::read_to_string(worktree.join("secret.env")).unwrap(),
        "mine\n"
    );
    assert_eq!(stage.moves("feature").len(), before);
}

#[test]
fn changes_that_are_not_committed_are_not_run_over() {
    let stage = stage();
    stage.person(
        "echo theirs >theirs.txt; git add -A; git commit --quiet -m Theirs; git push --quiet",
    );
    std::fs::write(stage.play.worktree.join("work.txt"), "half done\n").unwrap();
    stage.tick();
    stage.is_escalated("has uncommitted changes: work.txt");
    assert_eq!(
        std::fs::read_to_string(stage.play.worktree.join("work.txt")).unwrap(),
        "half done\n"
    );
    assert_eq!(stage.runs(), 0);
}
