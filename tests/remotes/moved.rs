//! The remote has moved since the fix started.

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::rejecting;

/// Records the commit on which it was run.
const GATE: &str = "git rev-parse HEAD >>\"$HOME/gated\"\n";

/// Creates a fix in which the person does this before the agent writes anything.
fn during(line: &str) -> Remotes {
    let stage = Remotes::new(&Script {
        settings: "gates = [[\"gate\"]]",
        ..rejecting()
    });
    stage.play.world.script("gate", GATE);
    stage
        .play
        .fixer(&format!("{}{FIXES}", stage.by_person(line)));
    stage
}

fn gated(stage: &Remotes) -> Vec<String> {
    let gated =
        std::fs::read_to_string(stage.play.world.root().join("home/gated")).unwrap_or_default();
    gated.lines().map(str::to_owned).collect()
}

#[test]
fn a_fix_is_replayed_on_what_a_person_pushed_meanwhile_and_pushed_once() {
    let stage = during(
        "echo theirs >other.txt; git add -A; git commit --quiet -m Theirs; git push --quiet",
    );
    stage.tick();
    stage.is_ready();
    let theirs = stage.moves("feature")[0].clone();
    assert_eq!(
        stage.moves("feature"),
        [theirs.clone(), stage.remote_head("feature")]
    );
    assert_eq!(
        stage.subjects(),
        [
            "add work.txt",
            "Theirs",
            "Address review feedback (cycle 1)"
        ]
    );
    assert_eq!(stage.runs(), 1);
    let gated = gated(&stage);
    assert_eq!(gated.len(), 2, "once before the replay, once after it");
    assert_eq!(gated[1], stage.remote_head("feature"));
    assert_eq!(
        stage.kept("work.txt"),
        "work\nfixed",
        "what was replayed is kept"
    );
    stage.stays();
}

#[test]
fn a_fix_that_does_not_go_together_with_what_a_person_pushed_meanwhile_is_kept_and_a_person_asked()
{
    let stage = during("echo theirs >>work.txt; git commit --quiet -am Theirs; git push --quiet");
    let before = stage.remote_head("feature");
    stage.tick();
    let theirs = stage.remote_head("feature");
    stage
        .is_escalated("was pushed while the fix was in progress and conflicts with it in work.txt");
    assert_eq!(
        stage.moves("feature"),
        std::slice::from_ref(&theirs),
        "nothing of ours was pushed"
    );
    assert_eq!(stage.kept("work.txt"), "work\nfixed");
    stage.play.worktree_is_at(&before);
    // Started again at their commit.
    stage.play.fixer(FIXES);
    stage.retry();
    stage.is_ready();
    assert_eq!(
        stage.subjects(),
        [
            "add work.txt",
            "Theirs",
            "Address review feedback (cycle 1)"
        ]
    );
}

#[test]
fn a_branch_that_is_rewritten_during_the_fix_is_for_a_person() {
    let stage = during("git commit --quiet --amend -m Again; git push --quiet --force");
    let before = stage.remote_head("feature");
    stage.tick();
    stage.is_escalated("was rewritten on the remote while the fix was in progress");
    assert_eq!(stage.moves("feature").len(), 1);
    assert_eq!(stage.kept("work.txt"), "work\nfixed");
    stage.play.worktree_is_at(&before);
}

#[test]
fn a_branch_that_is_deleted_during_the_fix_is_not_made_again() {
    let stage = during("git push --quiet origin :feature");
    stage.tick();
    stage.is_escalated("the branch feature no longer exists on the remote");
    assert_eq!(stage.remote_head("feature"), "");
}

/// A gate that pushes, as some do: the remote is at the fix before remand pushes it.
#[test]
fn a_remote_that_has_our_commit_already_is_not_pushed_to() {
    let stage = during("true");
    stage.play.world.script(
        "gate",
        &format!("{GATE}git push --quiet origin HEAD:feature\n"),
    );
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.moves("feature"), [stage.remote_head("feature")]);
    assert_eq!(stage.runs(), 1);
}

#[test]
fn a_person_on_top_of_our_commit_is_reviewed_and_nothing_is_pushed_again() {
    let stage = during("true");
    let on_top = stage
        .by_person("echo more >more.txt; git add -A; git commit --quiet -m More; git push --quiet");
    stage.play.world.script(
        "gate",
        &format!("{GATE}git push --quiet origin HEAD:feature\n{on_top}"),
    );
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.moves("feature").len(), 2, "both are the gate's");
    let reviewed = stage
        .play
        .world
        .sqlite("SELECT head FROM reviews ORDER BY rowid DESC LIMIT 1");
    assert_eq!(reviewed, stage.remote_head("feature"));
    assert_eq!(stage.runs(), 1);
    stage.stays();
}
