//! A remote that does not accept a push: refused, silent, disconnected, gone, no access.

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::rejecting;

fn stage(tables: &str) -> Remotes {
    Remotes::new(&Script {
        fixer: FIXES,
        tables,
        ..rejecting()
    })
}

fn committed(stage: &Remotes) -> String {
    stage
        .play
        .world
        .git(&stage.play.worktree, &["rev-parse", "HEAD"])
}

/// Redirects git from the pinned URL, as a user's configuration can; during the fix, and a person
/// accepts it.
fn led_to(url: &str) -> Remotes {
    let stage = stage("");
    let gitconfig = stage.play.world.root().join("home/.gitconfig");
    let (remote, to) = (
        stage.remote.display(),
        url.replace("WORLD", stage.play.world.root().to_str().unwrap()),
    );
    let lead = format!(
        "git config --file '{}' 'url.{to}.insteadOf' '{remote}'\n",
        gitconfig.display()
    );
    stage.play.fixer(&format!("{FIXES}{lead}"));
    stage.tick();
    stage
        .play
        .world
        .remand(&["retry", "c1", "--accept-git-settings"])
        .ok();
    stage.tick();
    stage
}

/// Restores the configuration.
fn led_back(stage: &Remotes) {
    stage.play.sh(
        stage.play.world.root(),
        "sed -i '/^\\[url/,$d' home/.gitconfig",
    );
}

#[test]
fn a_push_that_the_remote_declines_is_for_a_person_and_is_tried_again_without_the_agent() {
    let stage = stage("");
    stage.hook("pre-receive", "echo 'no pushes on Fridays' >&2\nexit 1\n");
    let before = stage.remote_head("feature");
    stage.tick();
    stage.is_escalated("no pushes on Fridays");
    assert_eq!(stage.remote_head("feature"), before);
    let ours = committed(&stage);
    assert_ne!(ours, before, "it is committed");
    stage.retry();
    stage.is_escalated("no pushes on Fridays");
    stage.unhook("pre-receive");
    stage.retry();
    stage.is_ready();
    assert_eq!((stage.moves("feature"), stage.runs()), (vec![ours], 1));
}

#[test]
fn a_remote_that_hangs_holds_the_change_which_then_goes_on_by_itself() {
    let stage = stage("[limits]\ngit_s = 2\ngrace_s = 1\n");
    stage.hook(
        "pre-receive",
        "echo 1 >>begun\nuntil [ -e go ]; do sleep 0.05; done\n",
    );
    stage.tick();
    stage.play.is_held("did not answer within 2s");
    let ours = committed(&stage);
    std::fs::write(stage.remote.join("go"), "").unwrap();
    stage.tick();
    stage.is_ready();
    assert_eq!((stage.moves("feature"), stage.runs()), (vec![ours], 1));
}

#[test]
fn a_remote_whose_branch_is_locked_holds_the_change_which_then_goes_on_by_itself() {
    let stage = stage("");
    let lock = stage.remote.join("refs/heads/feature.lock");
    std::fs::write(&lock, "").unwrap();
    stage.tick();
    stage.play.is_held("cannot accept the push now");
    assert!(
        stage.play.why().contains("feature.lock"),
        "{}",
        stage.play.why()
    );
    let ours = committed(&stage);
    std::fs::remove_file(lock).unwrap();
    stage.tick();
    stage.is_ready();
    assert_eq!(
        (stage.moves("feature"), stage.runs(), stage.escalations()),
        (vec![ours], 1, 0)
    );
}

#[test]
fn a_connection_that_is_cut_after_the_remote_took_the_commit_is_no_second_push() {
    let stage = stage("");
    stage.hook("post-receive", "cat >>moves\nkill -9 $PPID\n");
    stage.tick();
    stage.is_ready();
    assert_eq!((stage.moves("feature").len(), stage.runs()), (1, 1));
    assert_eq!(stage.escalations(), 0);
}

#[test]
fn a_remote_that_does_not_let_us_in_holds_the_change_which_then_goes_on_by_itself() {
    let stage = led_to("ssh://git@forge.test/calc.git");
    let denied = "echo 'git@forge.test: Permission denied (publickey).' >&2\nexit 255\n";
    stage.play.world.script("ssh", denied);
    stage.tick();
    stage.play.is_held("remote.git denied");
    assert!(
        stage.play.why().contains("Permission denied"),
        "{}",
        stage.play.why()
    );
    assert_eq!(stage.moves("feature").len(), 0);
    led_back(&stage);
    stage.tick();
    stage.is_ready();
    assert_eq!((stage.moves("feature").len(), stage.runs()), (1, 1));
}

#[test]
fn a_repository_that_is_gone_is_for_a_person_and_retry_pushes_the_same_commit() {
    let stage = led_to("WORLD/nowhere.git");
    stage.is_escalated("no repository at");
    let ours = committed(&stage);
    led_back(&stage);
    stage.retry();
    stage.is_ready();
    assert_eq!((stage.moves("feature"), stage.runs()), (vec![ours], 1));
}
