//! Worktrees that differ from the blackboard, before a review and before a fix: nothing of a person
//! is touched, the text of `why` is enough to act on, and after that the loop succeeds.

use std::fs;
use std::path::PathBuf;

use crate::support::play::{FIXES, Play, Script};

/// When the problem occurs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Review,
    Fix,
}

/// Creates a change whose next step is a review, or a fix.
fn play(before: Before) -> Play {
    let play = Play::new(&Script::default());
    if before == Before::Fix {
        // The review runs, and its rejection is not processed yet.
        play.world.remand(&["work"]).report();
        assert_eq!(play.state(), "self_review_failed");
    }
    play
}

/// Tests a problem, its message, and a person's reaction; for a review and for a fix.
#[track_caller]
fn for_a_person(trouble: impl Fn(&Play), reason: &str, mend: impl Fn(&Play)) {
    for before in [Before::Review, Before::Fix] {
        let play = play(before);
        let head = play.head();
        trouble(&play);
        let runs = play.count("runs");
        play.tick().report();
        play.is_escalated(reason);
        assert_eq!(
            play.count("runs"),
            runs,
            "an agent was started there, {before:?}"
        );
        mend(&play);
        assert_eq!(play.head(), head, "{before:?}");
        play.world.remand(&["retry", "c1"]).ok();
        play.tick().report();
        play.is_ready(1);
    }
}

fn git_dir(play: &Play) -> PathBuf {
    play.repo.join(".git/worktrees/calc-feature")
}

/// FR-7
#[test]
fn gone() {
    for_a_person(
        |play| fs::remove_dir_all(&play.worktree).unwrap(),
        "no longer exists",
        Play::do_what_it_says,
    );
}

#[test]
fn a_file_stands_in_its_place() {
    let trouble = |play: &Play| {
        fs::remove_dir_all(&play.worktree).unwrap();
        fs::write(&play.worktree, "a person's notes\n").unwrap();
    };
    for_a_person(
        trouble,
        "no longer exists: a file is in its place",
        |play| {
            assert_eq!(
                fs::read_to_string(&play.worktree).unwrap(),
                "a person's notes\n"
            );
            assert!(
                play.answer().contains("move what is there out of the way"),
                "{}",
                play.answer()
            );
            fs::rename(&play.worktree, play.world.root().join("notes")).unwrap();
            play.do_what_it_says();
        },
    );
}

#[test]
fn a_symlink_stands_in_its_place() {
    let elsewhere = |play: &Play| play.world.root().join("elsewhere");
    let trouble = |play: &Play| {
        fs::rename(&play.worktree, elsewhere(play)).unwrap();
        std::os::unix::fs::symlink(elsewhere(play), &play.worktree).unwrap();
    };
    for_a_person(
        trouble,
        "no longer exists: a symlink is in its place",
        |play| {
            fs::remove_file(&play.worktree).unwrap();
            fs::rename(elsewhere(play), &play.worktree).unwrap();
        },
    );
}

/// LOST-7
#[test]
fn dirty_with_a_persons_edits() {
    let trouble = |play: &Play| {
        fs::write(play.worktree.join("work.txt"), b"work\nmine \xff\n").unwrap();
        fs::write(play.worktree.join("README.md"), "staged\n").unwrap();
        play.world.git(&play.worktree, &["add", "README.md"]);
        fs::write(play.worktree.join("README.md"), "staged and more\n").unwrap();
    };
    for_a_person(
        trouble,
        "has uncommitted changes: README.md, work.txt",
        |play| {
            assert_eq!(
                fs::read(play.worktree.join("work.txt")).unwrap(),
                b"work\nmine \xff\n"
            );
            assert_eq!(
                fs::read_to_string(play.worktree.join("README.md")).unwrap(),
                "staged and more\n"
            );
            assert_eq!(
                play.world.git(&play.worktree, &["show", ":README.md"]),
                "staged"
            );
            assert_eq!(
                play.world
                    .git(&play.repo, &["for-each-ref", "refs/remand/wip"]),
                "",
                "nothing had to be kept"
            );
            play.world.git(&play.worktree, &["stash", "-q"]);
        },
    );
}

/// LOST-7
#[test]
fn a_person_left_a_new_file() {
    let trouble = |play: &Play| fs::write(play.worktree.join("notes.txt"), "mine\n").unwrap();
    for_a_person(trouble, "has uncommitted changes: notes.txt", |play| {
        assert_eq!(
            fs::read_to_string(play.worktree.join("notes.txt")).unwrap(),
            "mine\n"
        );
        play.world.git(&play.worktree, &["stash", "-q", "-u"]);
    });
}

#[test]
fn on_another_branch() {
    let trouble = |play: &Play| drop(play.world.git(&play.worktree, &["switch", "-qc", "other"]));
    for_a_person(
        trouble,
        "is on other, not on feature",
        Play::do_what_it_says,
    );
}

#[test]
fn detached() {
    let trouble = |play: &Play| {
        drop(
            play.world
                .git(&play.worktree, &["switch", "-q", "--detach"]),
        );
    };
    for_a_person(
        trouble,
        "is on no branch (detached HEAD), not on feature",
        Play::do_what_it_says,
    );
}

#[test]
fn outside_the_roots() {
    let config = |play: &Play| play.world.root().join("config/remand/config.toml");
    let trouble = |play: &Play| {
        let text = fs::read_to_string(config(play)).unwrap();
        let root = play.world.root().join("allowed");
        fs::write(
            config(play),
            format!("worktree_roots = [\"{}\"]\n{text}", root.display()),
        )
        .unwrap();
    };
    for_a_person(
        trouble,
        "is outside the allowed directories for worktrees",
        |play| {
            assert!(
                play.answer().contains("worktree_roots"),
                "{}",
                play.answer()
            );
            let text = fs::read_to_string(config(play)).unwrap();
            let (_, rest) = text.split_once('\n').unwrap();
            fs::write(config(play), rest).unwrap();
        },
    );
}

#[test]
fn in_the_middle_of_a_rebase() {
    let trouble = |play: &Play| {
        drop(play.sh(
            &play.worktree,
            "! git rebase -q --exec false main 2>/dev/null",
        ));
    };
    for_a_person(trouble, "unfinished rebase in", |play| {
        assert!(
            git_dir(play).join("rebase-merge").exists(),
            "it is not ours to end"
        );
        play.world.git(&play.worktree, &["rebase", "--abort"]);
    });
}

#[test]
fn in_the_middle_of_a_merge() {
    let trouble = |play: &Play| {
        play.world
            .commit(&play.repo, "other.txt", "other\n", "other");
        play.world.git(
            &play.worktree,
            &["merge", "-q", "--no-commit", "--no-ff", "main"],
        );
    };
    for_a_person(trouble, "unfinished merge in", |play| {
        assert!(
            git_dir(play).join("MERGE_HEAD").exists(),
            "it is not ours to end"
        );
        play.world.git(&play.worktree, &["merge", "--abort"]);
    });
}

/// LOST-11
#[test]
fn with_a_broken_index() {
    let trouble =
        |play: &Play| fs::write(git_dir(play).join("index"), "DIRC, but not really").unwrap();
    for_a_person(trouble, "index", |play| {
        assert_eq!(
            fs::read_to_string(git_dir(play).join("index")).unwrap(),
            "DIRC, but not really"
        );
        fs::remove_file(git_dir(play).join("index")).unwrap();
        play.world.git(&play.worktree, &["reset", "-q"]);
    });
}

#[test]
fn another_repository_is_at_that_path() {
    let aside = |play: &Play| play.world.root().join("aside");
    let trouble = |play: &Play| {
        fs::rename(&play.worktree, aside(play)).unwrap();
        fs::create_dir(&play.worktree).unwrap();
        play.world
            .git(&play.worktree, &["init", "-q", "-b", "feature"]);
        play.world
            .commit(&play.worktree, "work.txt", "another\n", "another");
    };
    for_a_person(trouble, "does not belong to the repository", |play| {
        assert_eq!(
            fs::read_to_string(play.worktree.join("work.txt")).unwrap(),
            "another\n"
        );
        fs::remove_dir_all(&play.worktree).unwrap();
        fs::rename(aside(play), &play.worktree).unwrap();
    });
}

#[test]
fn a_plain_folder_is_at_that_path() {
    let aside = |play: &Play| play.world.root().join("aside");
    let trouble = |play: &Play| {
        fs::rename(&play.worktree, aside(play)).unwrap();
        fs::create_dir(&play.worktree).unwrap();
        fs::write(play.worktree.join("notes.txt"), "mine\n").unwrap();
    };
    for_a_person(trouble, "is no longer a worktree of calc", |play| {
        assert_eq!(
            fs::read_to_string(play.worktree.join("notes.txt")).unwrap(),
            "mine\n"
        );
        fs::remove_dir_all(&play.worktree).unwrap();
        fs::rename(aside(play), &play.worktree).unwrap();
    });
}

#[test]
fn the_base_branch_is_deleted() {
    let trouble = |play: &Play| {
        drop(
            play.world
                .git(&play.repo, &["branch", "-m", "main", "trunk"]),
        );
    };
    for_a_person(trouble, "the base branch main no longer exists", |play| {
        play.world
            .git(&play.repo, &["branch", "-m", "trunk", "main"]);
    });
}

#[test]
fn another_git_is_at_work() {
    for before in [Before::Review, Before::Fix] {
        let play = play(before);
        let lock = git_dir(&play).join("index.lock");
        fs::write(&lock, "").unwrap();
        let runs = play.count("runs");
        play.tick().report();
        play.is_held(
            "index.lock exists: another git process is running in the worktree, or one was killed",
        );
        assert!(lock.exists(), "it is not ours to remove");
        assert_eq!(play.count("runs"), runs);
        fs::remove_file(&lock).unwrap();
        play.world.remand(&["resume", "c1"]).ok();
        play.tick().report();
        play.is_ready(1);
    }
}

/// A few holds within a minute prove nothing, since a stale lock goes away; after ten minutes a
/// person is asked.
#[test]
fn a_lock_that_stays_goes_to_a_person_only_after_a_while() {
    let play = play(Before::Fix);
    let lock = git_dir(&play).join("index.lock");
    fs::write(&lock, "").unwrap();
    let again = || {
        play.world.sqlite("UPDATE changes SET held_until = '2020-01-01T00:00:00.000Z' WHERE held_until IS NOT NULL");
        play.tick().report();
    };
    play.tick().report();
    for _ in 0..3 {
        again();
        play.is_held("index.lock exists");
    }
    let first = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-11 minutes')";
    play.world
        .sqlite(&format!("UPDATE changes SET first_hold_at = {first}"));
    again();
    play.is_escalated("held for the same reason too often");
    fs::remove_file(&lock).unwrap();
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn a_person_committed_on_top_before_a_fix() {
    let play = play(Before::Fix);
    let mine = play
        .world
        .commit(&play.worktree, "mine.txt", "mine\n", "mine");
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        play.world.git(&play.worktree, &["rev-parse", "HEAD^"]),
        mine,
        "the fix is on top of it"
    );
    assert_eq!(play.count("events WHERE event_type = 'head_moved'"), 1);
    assert_eq!(
        play.world
            .sqlite("SELECT head_before FROM runs WHERE run_id = 'r2'"),
        mine
    );
}

#[test]
fn a_person_committed_on_top_before_a_review() {
    let play = play(Before::Review);
    let mine = play
        .world
        .commit(&play.worktree, "work.txt", "work\nfixed\n", "mine");
    play.tick().report();
    play.is_ready(0);
    assert_eq!(
        play.world.sqlite("SELECT head FROM reviews"),
        mine,
        "what is there now is reviewed"
    );
    assert_eq!(play.count("events WHERE event_type = 'head_moved'"), 1);
}

#[test]
fn a_person_rewrote_the_branch_before_a_fix() {
    let play = play(Before::Fix);
    play.world.git(
        &play.worktree,
        &["commit", "-q", "--amend", "-m", "better said"],
    );
    let mine = play.head();
    play.tick().report();
    play.is_escalated("the branch feature was rewritten");
    play.worktree_is_at(&mine);
    assert_eq!(play.count("runs"), 1);
    // The suggested command.
    let said = play.answer();
    let command = said
        .split('`')
        .find(|word| word.starts_with("remand review "))
        .unwrap();
    let args: Vec<&str> = command.split(' ').skip(1).collect();
    play.world.remand(&args).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        play.world.git(&play.worktree, &["rev-parse", "HEAD^"]),
        mine
    );
}

#[test]
fn a_deleted_branch_was_taken_for_uncommitted_changes() {
    let trouble = |play: &Play| {
        drop(
            play.world
                .git(&play.repo, &["update-ref", "-d", "refs/heads/feature"]),
        );
    };
    for_a_person(
        trouble,
        "the branch feature has no commits",
        Play::do_what_it_says,
    );
}

/// A path that needs quotes in a shell.
#[test]
fn with_a_space_in_its_path() {
    let play = Play::without_change(&Script::default());
    let spaced = play.repo.with_file_name("my work's tree");
    play.world.git(
        &play.repo,
        &[
            "worktree",
            "move",
            play.worktree.to_str().unwrap(),
            spaced.to_str().unwrap(),
        ],
    );
    let play = Play {
        worktree: spaced,
        ..play
    };
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    fs::remove_dir_all(&play.worktree).unwrap();
    play.tick().report();
    play.is_escalated("no longer exists");
    play.do_what_it_says();
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn caches_that_an_agent_leaves_are_no_part_of_its_fix() {
    let fixer = format!("{FIXES}\nmkdir -p __pycache__\necho cache >__pycache__/x.pyc\n");
    let play = Play::new(&Script {
        fixer: &fixer,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.sh(&play.worktree, "git diff --name-only HEAD~1 HEAD")
            .trim(),
        "work.txt"
    );
    assert!(play.worktree.join("__pycache__/x.pyc").exists());
    // The next fix starts in a worktree that counts as clean.
    play.fixer(FIXES);
    play.world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(play.count("events WHERE event_type = 'fix_committed'"), 2);
    assert_eq!(play.sh(&play.worktree, "git ls-files __pycache__"), "");
}
