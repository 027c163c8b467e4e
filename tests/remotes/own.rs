//! Worktrees of remand: created, set up, recreated; and those that are not used.

use std::path::{Path, PathBuf};

use super::{FIXES, Remotes};
use crate::support::play::{REVIEWS_FIXED, Script};
use crate::support::pull_play::rejecting;
use crate::support::run;

const SETUP: &str = "setup = [\"prepare\"]\n";
/// Records where it ran, and everything that it can see.
const PREPARE: &str = "echo \"$PWD $(git rev-parse --abbrev-ref HEAD) $(git rev-parse HEAD)\" >>\"$HOME/prepared\"\nenv >>\"$HOME/env\"\n";
const LOCK: &str = "[projects.calc]\nsetup_again_on = [\"package-lock.json\"]\n";

/// Creates a pull request whose branch is in no worktree, and not in the repository.
fn without_worktree(script: &Script<'_>) -> Remotes {
    let mut stage = Remotes::unwatched(script);
    let (repo, worktree) = (stage.play.repo.clone(), stage.play.worktree.clone());
    stage
        .play
        .world
        .git(&repo, &["worktree", "remove", worktree.to_str().unwrap()]);
    stage
        .play
        .world
        .git(&repo, &["branch", "--quiet", "-D", "feature"]);
    stage.play.world.script("prepare", PREPARE);
    stage.pull.play.worktree = stage
        .play
        .world
        .root()
        .join("state/remand/worktrees/calc/pr-1");
    stage
}

fn prepared(stage: &Remotes) -> Vec<String> {
    let text =
        std::fs::read_to_string(stage.play.world.root().join("home/prepared")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn remove(path: &Path) {
    std::fs::remove_dir_all(path).unwrap();
}

#[test]
fn a_worktree_is_made_and_set_up_before_the_first_agent_and_again_when_a_lock_file_changes() {
    let reviewer = format!("wc -l <\"$HOME/prepared\" >>\"$PROMPTS/before\"\n{REVIEWS_FIXED}");
    let fixer = format!("{FIXES}mkdir -p web; echo 2 >web/package-lock.json\n");
    let stage = without_worktree(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        settings: SETUP,
        tables: LOCK,
        ..Script::default()
    });
    let head = stage.remote_head("feature");
    stage.watch();
    stage.tick_with_token("canary-of-the-forge-0123");
    stage.is_ready();
    let path = stage.play.worktree.display();
    let set_up = |head: &str| format!("{path} HEAD {head}");
    assert_eq!(
        prepared(&stage),
        [set_up(&head), set_up(&stage.remote_head("feature"))]
    );
    assert_eq!(
        stage.play.noted("before"),
        "1\n2\n",
        "each reviewer began after it"
    );
    let env = std::fs::read_to_string(stage.play.world.root().join("home/env")).unwrap();
    assert!(
        env.contains("REMAND_PHASE=setup") && !env.contains("canary"),
        "{env}"
    );
    // Another fix, which changes no lock file.
    stage.play.fixer(FIXES);
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!((prepared(&stage).len(), stage.runs()), (2, 2));
    // It vanishes, and with it the output of the set-up.
    remove(&stage.play.worktree);
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "and again"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!((prepared(&stage).len(), stage.runs()), (3, 3));
    // NFR-4
    let events = |sql: &str| stage.play.world.sqlite(sql);
    let made = "SELECT group_concat(summary || ' ' || (metadata ->> '$.restored'), '; ') FROM events WHERE event_type = 'worktree_made'";
    assert_eq!(
        events(made),
        format!("created the worktree {path} 0; restored the worktree {path} 1")
    );
    let set_up = "SELECT count(*) FROM events WHERE event_type = 'setup_run' AND metadata ->> '$.place' = 'worktree'
                  AND metadata ->> '$.result' = 'done' AND metadata ->> '$.elapsed_ms' >= 0";
    assert_eq!(events(set_up), "3");
}

#[test]
fn gates_see_what_is_set_up_for_the_commit_that_they_test() {
    let settings = format!("{SETUP}gates = [[\"gate\"]]\n");
    let fixer = format!("{FIXES}echo 2 >package-lock.json\n");
    let stage = without_worktree(&Script {
        fixer: &fixer,
        settings: &settings,
        tables: LOCK,
        ..rejecting()
    });
    stage.play.world.script(
        "gate",
        "tail -n 1 \"$HOME/prepared\" | grep -q \"$(git rev-parse HEAD)\"\n",
    );
    stage.watch();
    stage.tick();
    stage.is_ready();
    // In the worktree, in the checkout of the fix, and in the worktree again since the fix changed
    // the lock file.
    assert_eq!(
        (prepared(&stage).len(), stage.runs()),
        (3, 1),
        "{:#?}",
        stage.play.events()
    );
    let made = "SELECT group_concat(metadata ->> '$.restored') FROM events WHERE event_type = 'worktree_made'";
    assert_eq!(stage.play.world.sqlite(made), "0");
}

#[test]
fn a_set_up_that_fails_holds_the_change_until_it_works() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        settings: SETUP,
        ..rejecting()
    });
    stage
        .play
        .world
        .script("prepare", "echo 'no such registry' >&2\nexit 3\n");
    stage.watch();
    stage.tick();
    stage
        .play
        .is_held("the setup `prepare` failed (status 3): no such registry");
    assert_eq!(stage.play.count("runs"), 0, "nobody ran");
    stage
        .play
        .world
        .script("prepare", &format!("{PREPARE}echo left >left.txt\n"));
    stage.tick();
    stage
        .play
        .is_held("neither committed nor ignored: left.txt");
    // The files that it leaves behind are not work: they are saved, and removed before the next
    // attempt.
    stage.play.world.script(
        "prepare",
        "test ! -e left.txt || exit 4\necho 1 >half.txt\necho '}' >>work.txt\nexit 5\n",
    );
    stage.tick();
    stage.play.is_held("the setup `prepare` failed (status 5)");
    stage.play.world.script("prepare", PREPARE);
    stage.tick();
    stage.is_ready();
    assert_eq!(prepared(&stage).len(), 2);
    let kept = stage.play.world.git(
        &stage.play.repo,
        &[
            "log",
            "--format=",
            "--name-only",
            "refs/remand/wip/setup-c1",
        ],
    );
    assert!(
        kept.contains("left.txt") && kept.contains("half.txt"),
        "{kept}"
    );
}

#[test]
fn a_set_up_that_is_killed_with_the_daemon_is_begun_again() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        settings: SETUP,
        ..rejecting()
    });
    let began = stage.play.seen("began").display().to_string();
    stage.play.world.script(
        "prepare",
        &format!("echo half >left.txt\n: >'{began}'\nsleep 60\n"),
    );
    stage.watch();
    let daemon = stage.play.daemon();
    stage
        .play
        .until("the set-up begins", || stage.play.seen("began").exists());
    daemon.kill();
    stage.play.world.script("prepare", PREPARE);
    stage.tick();
    stage.is_ready();
    assert!(!stage.play.worktree.join("left.txt").exists());
}

/// The author rebases: everything in the worktree is or was on the remote, so it follows the
/// branch.
#[test]
fn a_branch_that_its_author_rewrites_is_followed() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.watch();
    stage.tick();
    stage.is_ready();
    let before = stage.remote_head("feature");
    stage.person(
        "git checkout --quiet main; echo base >base.txt; git add -A; git commit --quiet -m Base; git push --quiet origin main
         git checkout --quiet feature; git rebase --quiet main; git push --quiet --force origin feature",
    );
    stage.tick();
    stage.is_ready();
    assert_eq!(
        stage.play.count("events WHERE event_type = 'escalated'"),
        0,
        "{:#?}",
        stage.play.events()
    );
    let kept = stage.play.world.git(
        &stage.play.repo,
        &["rev-parse", &format!("refs/remand/wip/rewritten-{before}")],
    );
    assert_eq!(kept, before);
    let reviewed = stage
        .play
        .world
        .sqlite("SELECT head FROM reviews ORDER BY rowid DESC LIMIT 1");
    assert_eq!(reviewed, stage.remote_head("feature"));
    // A fix continues from there.
    stage.person("git commit --quiet --amend -m Again; git push --quiet --force origin feature");
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!(
        stage.subjects().last().unwrap(),
        "Address review feedback (cycle 2)"
    );
}

/// Wherever it dies, the next one gets to the same result.
#[test]
fn a_worktree_that_is_cut_while_it_follows_a_rewritten_branch_gets_there() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.watch();
    stage.tick();
    stage.is_ready();
    let points = [
        "commit.rewritten.before",
        "commit.rewritten.after",
        "call.reset.before",
        "call.reset.after",
        "git.follow.after",
    ];
    for point in points {
        stage.person(&format!(
            "git commit --quiet --amend -m 'At {point}'; git push --quiet --force origin feature"
        ));
        stage.due();
        let cut = run(stage
            .play
            .world
            .remand_command(&["tick"])
            .env("REMAND_CRASH_AT", point));
        assert_ne!(
            cut.status,
            0,
            "{point} is not crossed: {:#?}",
            stage.play.events()
        );
        stage.tick();
        stage.is_ready();
        assert_eq!(
            stage.escalations(),
            0,
            "{point}: {:#?}",
            stage.play.events()
        );
    }
}

/// A file in the place of the worktree is not used, and not touched.
#[test]
fn a_link_or_a_file_in_the_place_of_a_worktree_is_not_used() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.watch();
    stage.tick();
    stage.is_ready();
    let (path, aside) = (
        stage.play.worktree.clone(),
        stage.play.world.root().join("aside"),
    );
    std::fs::rename(&path, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &path).unwrap();
    let before = std::fs::read_to_string(aside.join("work.txt")).unwrap();
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_escalated("a symlink is in its place");
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "a file\n").unwrap();
    stage.retry();
    stage.is_escalated("a file is in its place");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file\n");
    assert_eq!(
        std::fs::read_to_string(aside.join("work.txt")).unwrap(),
        before
    );
    assert_eq!(stage.runs(), 1);
    // With nothing in its place it is created again.
    std::fs::remove_file(&path).unwrap();
    stage.retry();
    stage.is_ready();
    assert_eq!(stage.runs(), 2);
}

#[test]
fn a_worktree_of_the_user_s_own_is_never_made_again() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        settings: SETUP,
        ..rejecting()
    });
    stage.play.world.script("prepare", PREPARE);
    remove(&stage.play.worktree);
    stage.tick();
    stage.is_escalated("no longer exists");
    assert!(!stage.play.worktree.exists());
    stage.play.do_what_it_says();
    stage.retry();
    stage.is_ready();
    assert_eq!(prepared(&stage).len(), 0, "and never set up");
}

/// Returns HEAD of a checkout, as a branch or as `HEAD` if it is detached, and its commit.
fn head_of(stage: &Remotes, folder: &Path) -> (String, String) {
    let ask = |args: &[&str]| stage.play.world.git(folder, args);
    (
        ask(&["rev-parse", "--abbrev-ref", "HEAD"]),
        ask(&["rev-parse", "HEAD"]),
    )
}

/// Asserts that the worktree is detached at the remote's head, and a ref keeps its commits.
#[track_caller]
fn is_detached(stage: &Remotes) {
    let head = stage.remote_head("feature");
    assert_eq!(
        head_of(stage, &stage.play.worktree),
        ("HEAD".to_owned(), head.clone())
    );
    assert_eq!(
        stage
            .play
            .world
            .git(&stage.play.repo, &["rev-parse", "refs/remand/change/c1"]),
        head
    );
}

/// After opening a pull request a person is on its branch: it is still worked on, and the checkout
/// is not touched.
#[test]
fn a_branch_in_the_main_checkout_is_worked_on_beside_it() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let repo: PathBuf = stage.play.repo.clone();
    stage.play.sh(
        &repo,
        "git fetch --quiet origin && git switch --quiet feature",
    );
    let before = head_of(&stage, &repo);
    stage.watch();
    stage.tick();
    stage.is_ready();
    is_detached(&stage);
    assert_eq!(head_of(&stage, &repo), before, "the checkout is the user's");
    stage
        .play
        .sh(&repo, "git pull --quiet --ff-only origin feature");
    assert_eq!(head_of(&stage, &repo).1, stage.remote_head("feature"));
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_ready();
    is_detached(&stage);
}

/// While an agent works, when it has finished, and when the change has ended.
#[test]
fn the_branch_of_a_pull_request_can_be_checked_out_at_any_time() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let repo: PathBuf = stage.play.repo.clone();
    let check_out = format!(
        "{FIXES}git -C '{0}' checkout --quiet -B feature \"$(git rev-parse HEAD)\" && git -C '{0}' checkout --quiet main\n",
        repo.display()
    );
    stage.play.fixer(&check_out);
    stage.watch();
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.runs(), 1);
    stage.play.sh(
        &repo,
        "git checkout --quiet feature && git checkout --quiet main",
    );
    stage.play.world.remand(&["cancel", "c1"]).ok();
    stage.play.sh(
        &repo,
        "git checkout --quiet feature && git checkout --quiet main",
    );
    // If watched again, it is worked on in the same worktree.
    stage.watch();
    stage
        .play
        .world
        .remand(&["refine", "c2", "--text", "once more"])
        .ok();
    stage.tick();
    assert_eq!(
        stage
            .play
            .world
            .sqlite("SELECT DISTINCT worktree FROM changes"),
        stage.play.worktree.to_str().unwrap()
    );
    let head = stage.remote_head("feature");
    assert_eq!(
        head_of(&stage, &stage.play.worktree),
        ("HEAD".to_owned(), head.clone())
    );
    assert_eq!(
        stage
            .play
            .world
            .git(&repo, &["rev-parse", "refs/remand/change/c2"]),
        head
    );
    stage.play.sh(&repo, "git checkout --quiet feature");
}

/// A worktree as created by an earlier version. One with work in it is left alone.
#[test]
fn a_worktree_that_is_on_a_branch_is_detached_when_nobody_is_at_work_in_it() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let (repo, own) = (stage.play.repo.clone(), stage.play.worktree.clone());
    stage.watch();
    stage.tick();
    stage.is_ready();
    for state in ["live", "cancelled"] {
        if state == "cancelled" {
            stage.play.world.remand(&["cancel", "c1"]).ok();
        }
        stage.play.sh(&own, "git checkout --quiet -B feature");
        stage
            .play
            .sh(&repo, "git update-ref -d refs/remand/change/c1");
        stage.play.world.sqlite("UPDATE changes SET detached = 0");
        std::fs::write(own.join("mine.txt"), "mine\n").unwrap();
        stage.tick();
        assert_eq!(
            head_of(&stage, &own).0,
            "feature",
            "{state}: there is work in it"
        );
        std::fs::remove_file(own.join("mine.txt")).unwrap();
        stage.tick();
        is_detached(&stage);
        assert_eq!(
            stage.play.world.sqlite("SELECT detached FROM changes"),
            "1",
            "{state}"
        );
        stage.play.sh(
            &repo,
            "git checkout --quiet feature && git checkout --quiet main",
        );
    }
}

/// Between the commit of a fix and the move of the ref that keeps it.
#[test]
fn a_fix_whose_ref_has_not_moved_yet_is_not_lost() {
    for point in ["git.commit.after", "git.keep.after"] {
        let stage = without_worktree(&Script {
            fixer: FIXES,
            ..rejecting()
        });
        stage.watch();
        let cut = run(stage
            .play
            .world
            .remand_command(&["tick"])
            .env("REMAND_CRASH_AT", point));
        assert_ne!(
            cut.status,
            0,
            "{point} is not crossed: {:#?}",
            stage.play.events()
        );
        let committed = head_of(&stage, &stage.play.worktree).1;
        assert_ne!(committed, stage.remote_head("feature"), "{point}");
        stage
            .play
            .sh(&stage.play.repo, "git gc --quiet --prune=now");
        stage.tick();
        stage.is_ready();
        is_detached(&stage);
        assert_eq!(
            (stage.remote_head("feature"), stage.runs()),
            (committed, 1),
            "{point}: the same commit"
        );
    }
}

/// Commits of an agent on a branch that it switched to are saved but not used; its worktree is
/// detached again.
#[test]
fn an_agent_that_switches_to_a_branch_is_put_back() {
    let fixer = format!("{FIXES}git checkout --quiet -b mine && git commit --quiet -am mine\n");
    let stage = without_worktree(&Script {
        fixer: &fixer,
        ..rejecting()
    });
    stage.watch();
    stage.tick();
    stage.is_escalated("the agent switched to the branch mine");
    is_detached(&stage);
    let kept = stage.play.world.git(
        &stage.play.repo,
        &["log", "--format=%s", "refs/remand/wip/r2"],
    );
    assert!(kept.contains("mine"), "{kept}");
    let answer = stage.play.answer();
    assert!(
        answer.contains("and its work (refs/remand/wip/r2)"),
        "{answer}"
    );
}

fn outside(stage: &Remotes) -> String {
    stage
        .play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'checkout_changed'")
}

/// A branch that an agent moves is moved back, wherever HEAD is at the end; its commits are kept.
#[test]
fn an_agent_that_moves_another_branch_is_reported_and_undone() {
    const MOVES: &str = "git checkout --quiet other && git commit --quiet --allow-empty -m stray";
    let ends = [
        ("&& git checkout --quiet --detach \"$here\"", true),
        ("", false),
    ];
    for (end, is_good) in ends {
        let fixer = format!(
            "{FIXES}here=$(git rev-parse HEAD); git stash --quiet; {MOVES} {end}; git stash pop --quiet || true\n"
        );
        let stage = without_worktree(&Script {
            fixer: &fixer,
            ..rejecting()
        });
        stage.play.world.git(&stage.play.repo, &["branch", "other"]);
        let before = stage
            .play
            .world
            .git(&stage.play.repo, &["rev-parse", "refs/heads/other"]);
        stage.watch();
        stage.tick();
        if is_good {
            stage.is_ready();
        } else {
            stage.is_escalated("the agent switched to the branch other");
        }
        is_detached(&stage);
        assert_eq!(
            stage
                .play
                .world
                .git(&stage.play.repo, &["rev-parse", "refs/heads/other"]),
            before,
            "{end}"
        );
        let kept = stage.play.world.git(
            &stage.play.repo,
            &[
                "for-each-ref",
                "--format=%(contents:subject)",
                "refs/remand/wip/branch-*",
            ],
        );
        assert_eq!(kept, "stray", "{end}");
        let told = outside(&stage);
        assert!(told.contains("the branch other was moved"), "{told}");
        assert!(told.contains("and restored"), "{told}");
        assert_eq!(told.contains("after r2 was reverted"), !is_good, "{told}");
    }
}

/// A person may have moved it while the agent was at work.
#[test]
fn a_branch_that_moves_during_a_run_by_another_hand_is_reported_and_left() {
    let person = "cd \"$(dirname \"$(git rev-parse --path-format=absolute --git-common-dir)\")\"\n\
        git branch --quiet -f other \"$(git commit-tree -p HEAD -m theirs \"HEAD^{tree}\")\"; git branch --quiet -D gone \"x;y\"\n";
    let fixer = format!("{FIXES}{person}");
    let stage = without_worktree(&Script {
        fixer: &fixer,
        ..rejecting()
    });
    for name in ["other", "gone", "x;y"] {
        stage.play.world.git(&stage.play.repo, &["branch", name]);
    }
    stage.watch();
    stage.tick();
    stage.is_ready();
    let subject = stage.play.world.git(
        &stage.play.repo,
        &["log", "-1", "--format=%s", "refs/heads/other"],
    );
    assert_eq!(subject, "theirs");
    let told = outside(&stage);
    assert!(
        told.contains("the branch other moved from")
            && told.contains("the branch gone was deleted"),
        "{told}"
    );
    assert!(
        told.contains("`git branch gone ")
            && told.contains("the branch x;y was deleted; it was at"),
        "no command is offered with a name that a shell would split: {told}"
    );
}

#[test]
fn a_branch_behind_a_lock_that_an_agent_left_does_not_keep_its_run_from_ending() {
    let fixer = format!(
        "{FIXES}here=$(git rev-parse HEAD); git stash --quiet\n\
         git checkout --quiet other && git commit --quiet --allow-empty -m stray\n\
         git checkout --quiet --detach \"$here\"; git stash pop --quiet\n\
         touch \"$(git rev-parse --path-format=absolute --git-common-dir)/refs/heads/other.lock\"\n"
    );
    let stage = without_worktree(&Script {
        fixer: &fixer,
        ..rejecting()
    });
    stage.play.world.git(&stage.play.repo, &["branch", "other"]);
    stage.watch();
    stage.tick();
    stage.is_ready();
    let told = outside(&stage);
    assert!(
        told.contains("the branch other was moved") && !told.contains("restored"),
        "{told}"
    );
}

#[test]
fn a_local_branch_of_that_name_that_is_elsewhere_is_left_alone() {
    let stage = without_worktree(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let repo: PathBuf = stage.play.repo.clone();
    stage.play.sh(
        &repo,
        "git switch --quiet -c feature && git commit --quiet --allow-empty -m Other && git switch --quiet main",
    );
    let other = stage
        .play
        .world
        .git(&repo, &["rev-parse", "refs/heads/feature"]);
    stage.watch();
    stage.tick();
    stage.is_ready();
    is_detached(&stage);
    assert_eq!(
        stage
            .play
            .world
            .git(&repo, &["rev-parse", "refs/heads/feature"]),
        other
    );
}
