//! `remand watch`: what it adopts, where, and what it refuses.

use super::stage::Stage;
use crate::support::forge::Review;

#[test]
fn a_pull_request_is_watched_once_however_it_is_named() {
    let stage = Stage::new();
    stage.forge.open_pull("feature", "main", "ada");
    let watched = stage
        .world
        .remand(&["watch", "ada/engine#1", "--max-cycles", "3"])
        .ok();
    assert!(
        watched
            .stdout
            .contains("c1 is ada/engine#1, which is now watched"),
        "{}",
        watched.stdout
    );
    let change = stage.world.json(&["status", "ada/engine#1"]);
    assert_eq!(change["state"], "awaiting_pr_feedback");
    assert_eq!(change["pr"], "ada/engine#1");
    assert_eq!(change["title"], "Add feature");
    assert_eq!(
        (&change["branch"], &change["base"]),
        (&"feature".into(), &"main".into())
    );
    assert_eq!(
        change["head"],
        stage.world.git(&stage.repo, &["rev-parse", "feature"])
    );
    assert_eq!(
        change["worktree"],
        stage.folder("src/engine-feature").to_str().unwrap()
    );
    assert_eq!(
        (&change["adopted_by"], &change["own_worktree"]),
        (&"watch".into(), &false.into())
    );
    assert_eq!(change["budget"]["max_fix_cycles"], 3);
    assert_eq!(change["open_item"]["source"], "code_review");
    stage.asked();
    for name in [
        "ada/engine#1",
        "Ada/Engine#1",
        "https://github.com/ada/engine/pull/1/files",
    ] {
        let again = stage.world.remand(&["watch", name]).ok();
        assert!(
            again.stdout.contains("which is already watched"),
            "{}",
            again.stdout
        );
        assert_eq!(stage.world.json(&["status", name])["change_id"], "c1");
    }
    let here = stage
        .world
        .remand_in(
            &stage.folder("src/engine-feature"),
            &["watch", "#1", "--json"],
        )
        .ok();
    assert!(
        here.stdout.contains(r#""change_id": "c1""#),
        "{}",
        here.stdout
    );
    assert_eq!(
        stage.asked(),
        [] as [&str; 0],
        "what is watched is not asked for"
    );
    let refused = stage
        .world
        .remand(&["watch", "ada/engine#1", "--max-cycles", "1"]);
    assert!(
        refused
            .stderr
            .contains("is already watched as c1: cannot change --max-cycles with this command"),
        "{}",
        refused.stderr
    );
    assert_eq!(
        stage.world.json(&["status", "c1"])["budget"]["max_fix_cycles"],
        3
    );
    assert_eq!(stage.count("changes"), 1);
    assert_eq!(stage.count("events WHERE event_type = 'pr_adopted'"), 1);
}

#[test]
fn without_a_worktree_on_its_branch_one_of_our_own_is_planned_and_not_made() {
    let stage = Stage::new();
    stage.branch("other");
    stage.forge.open_pull("other", "main", "ada");
    let change = stage
        .world
        .json(&["watch", "ada/engine#1", "--title", "Mine"]);
    let planned = stage.folder("state/remand/worktrees/engine/pr-1");
    assert_eq!(change["worktree"], planned.to_str().unwrap());
    assert_eq!(
        (&change["own_worktree"], &change["title"]),
        (&true.into(), &"Mine".into())
    );
    assert!(!planned.exists());
}

#[test]
fn a_planned_place_that_is_taken_gets_another_name() {
    let stage = Stage::new();
    stage.branch("other");
    std::fs::create_dir_all(stage.folder("state/remand/worktrees/engine/pr-1")).unwrap();
    stage.forge.open_pull("other", "main", "ada");
    let change = stage.world.json(&["watch", "ada/engine#1"]);
    assert!(
        change["worktree"]
            .as_str()
            .unwrap()
            .ends_with("/engine/pr-1-2"),
        "{}",
        change["worktree"]
    );
}

#[test]
fn what_can_not_be_watched_is_refused_with_the_reason() {
    let stage = Stage::new();
    for branch in ["merged", "closed", "forked", "gone"] {
        stage.branch(branch);
    }
    for branch in ["merged", "closed"] {
        stage.forge.open_pull(branch, "main", "ada");
    }
    stage
        .forge
        .open_pull_from(Some("mallory/engine"), "forked", "main", "mallory");
    stage.forge.open_pull_from(None, "gone", "main", "mallory");
    stage.forge.open_pull("main", "feature", "ada");
    stage.forge.merge(1, "bob");
    stage.forge.close(2);
    let watch = |name: &str| stage.world.remand(&["watch", name]);
    watch("ada/engine#1").fails(1, "cannot watch ada/engine#1: it is already merged");
    watch("ada/engine#2").fails(1, "it is already closed");
    watch("ada/engine#3").fails(1, "its branch is in a fork");
    watch("ada/engine#4").fails(1, "its branch is in a fork");
    watch("ada/engine#5").fails(1, "its branch is the project's default branch");
    watch("ada/engine#6").fails(4, "GitHub has no `repos/ada/engine/pulls/6`");
    watch("ada/other#1").fails(4, "there is no project for the repository ada/other");
    watch("#1").fails(4, "the current directory is not in a project");
    watch("ada/engine").fails(2, "is not a pull request");
    assert_eq!(stage.count("changes"), 0);
}

#[test]
fn a_worktree_that_is_not_fit_is_refused() {
    let stage = Stage::new();
    stage.forge.open_pull("feature", "main", "ada");
    let main = stage.repo.to_str().unwrap();
    let watch = |more: &[&str]| {
        stage
            .world
            .remand(&[&["watch", "ada/engine#1"], more].concat())
    };
    watch(&["--worktree", main]).fails(1, "is on main, but the branch of the PR is feature");
    let elsewhere = stage.world.repo("elsewhere");
    watch(&["--worktree", elsewhere.to_str().unwrap()]).fails(1, "is not a worktree of");
    stage.world.git(
        &stage.repo,
        &[
            "worktree",
            "remove",
            stage.folder("src/engine-feature").to_str().unwrap(),
        ],
    );
    stage.world.git(&stage.repo, &["switch", "-q", "feature"]);
    watch(&["--worktree", main])
        .fails(1, "is the project's main checkout")
        .fails(1, "without --worktree, remand creates a worktree");
    stage.world.git(&stage.repo, &["switch", "-q", "main"]);
    let far = stage.folder("far");
    stage.world.git(
        &stage.repo,
        &["worktree", "add", "-q", far.to_str().unwrap(), "feature"],
    );
    watch(&[]).fails(1, "is not in an allowed directory for worktrees");
    assert_eq!(stage.count("changes"), 0);
}

#[test]
fn a_branch_that_is_under_way_is_not_taken_twice() {
    let stage = Stage::new();
    stage.forge.open_pull("feature", "main", "ada");
    stage
        .world
        .remand_in(&stage.folder("src/engine-feature"), &["review"])
        .ok();
    let refused = stage.world.remand(&["watch", "ada/engine#1"]);
    refused
        .fails(1, "its branch feature already belongs to c1")
        .fails(1, "`remand cancel c1` closes it");
    stage.world.remand(&["cancel", "c1"]).ok();
    assert_eq!(
        stage.world.json(&["watch", "ada/engine#1"])["change_id"],
        "c2"
    );
    // A cancelled one can be adopted again.
    stage.world.remand(&["cancel", "c2"]).ok();
    assert_eq!(
        stage.world.json(&["watch", "ada/engine#1"])["change_id"],
        "c3"
    );
}

#[test]
fn one_that_is_approved_as_it_is_needs_no_review_of_ours() {
    for (reviews, expected) in [
        (&[("bob", "APPROVED")][..], "approved"),
        (&[("mallory", "APPROVED")], "awaiting_pr_feedback"),
        (
            &[("bob", "CHANGES_REQUESTED"), ("bob", "APPROVED")],
            "approved",
        ),
        (&[("bob", "APPROVED"), ("bob", "COMMENTED")], "approved"),
        (
            &[("bob", "APPROVED"), ("ada", "CHANGES_REQUESTED")],
            "awaiting_pr_feedback",
        ),
        (
            &[("bob", "APPROVED"), ("mallory", "CHANGES_REQUESTED")],
            "approved",
        ),
        (&[("bob", "DISMISSED")], "awaiting_pr_feedback"),
    ] {
        let stage = Stage::new();
        stage.forge.open_pull("feature", "main", "ada");
        for (by, state) in reviews {
            stage.forge.review(
                1,
                &Review {
                    by,
                    state,
                    ..Review::default()
                },
            );
        }
        let change = stage.world.json(&["watch", "ada/engine#1"]);
        assert_eq!(change["state"], expected, "{reviews:?}");
        assert_eq!(
            change["open_item"].is_null(),
            expected == "approved",
            "{reviews:?}"
        );
    }
}

#[test]
fn an_approval_of_an_older_head_is_none() {
    let stage = Stage::new();
    let old = stage.world.git(&stage.repo, &["rev-parse", "feature"]);
    let folder = stage.folder("src/engine-feature");
    stage.world.commit(&folder, "more.txt", "more\n", "more");
    stage
        .world
        .git(&folder, &["push", "-q", "origin", "feature"]);
    stage.forge.open_pull("feature", "main", "ada");
    stage.forge.review(
        1,
        &Review {
            state: "APPROVED",
            commit: Some(&old),
            ..Review::default()
        },
    );
    assert_eq!(
        stage.world.json(&["watch", "ada/engine#1"])["state"],
        "awaiting_pr_feedback"
    );
}

#[test]
fn without_gh_or_a_login_it_says_what_to_do() {
    let stage = Stage::new();
    stage.forge.open_pull("feature", "main", "ada");
    stage.forge.log_out();
    stage
        .world
        .remand(&["watch", "ada/engine#1"])
        .fails(1, "gh auth login");
    stage.world.config("[github]\ngh = [\"no-such-gh\"]\n");
    stage
        .world
        .remand(&["watch", "ada/engine#1"])
        .fails(1, "the program gh was not found")
        .fails(1, "install gh");
    assert_eq!(stage.count("changes"), 0);
}

#[test]
fn an_agent_has_no_say_in_what_is_watched() {
    let stage = Stage::new();
    stage.forge.open_pull("feature", "main", "ada");
    let mut command = stage.world.remand_command(&["watch", "ada/engine#1"]);
    command.env("REMAND_RUN_DIR", "x");
    crate::support::run(&mut command).fails(1, "refused inside a run");
    assert_eq!(stage.asked(), [] as [&str; 0]);
}
