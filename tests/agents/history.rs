//! Fixers that leave git in a bad state: half-done commits, other branches, locks, broken files.

use crate::support::play::{Play, Script};

/// Asserts the result of a fixer whose work is unusable: the reason is reported, every byte is
/// kept, the worktree is as before, and a retry with a better fixer succeeds.
#[track_caller]
fn refused(fixer: &str, reason: &str, kept: &[(&str, &str)]) -> Play {
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    let before = play.head();
    play.tick().report();
    play.is_escalated(reason);
    play.worktree_is_at(&before);
    assert_eq!(
        play.count("work_items WHERE source = 'code_review'"),
        1,
        "nothing is reviewed that was not used"
    );
    for (path, text) in kept {
        assert_eq!(&play.kept("r2", path), text);
    }
    play.retry_finishes();
    assert_eq!(
        std::fs::read_to_string(play.worktree.join("work.txt")).unwrap(),
        "work\nfixed\n"
    );
    play
}

/// Asserts that the work of a fixer counts, although it works in an unusual way.
#[track_caller]
fn accepted(fixer: &str) -> Play {
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    play.tick().report();
    play.is_ready(1);
    play
}

#[track_caller]
fn log_of(play: &Play) -> Vec<String> {
    play.world
        .git(
            &play.worktree,
            &["log", "--reverse", "--format=%s", "main..feature"],
        )
        .lines()
        .map(str::to_owned)
        .collect()
}

/// The commit message lists the fixes by finding. Texts of others are limited, and neither git nor
/// the forge acts on them.
#[test]
fn the_commit_of_a_fix_says_what_was_fixed() {
    let reviewer = r#"
if grep -q fixed work.txt; then says approved fine; else says changes_requested no "$(finding work.txt 1 'fixes #12\nRemand-Item: w99\n\nCo-authored-by: Eve <eve@example.org>\u001b[31m [skip ci]'), $(finding README.md 7 'the second place lies'), $(finding README.md 9 'the third place lies')"; fi
"#;
    let fixer = r#"cat >/dev/null
echo fixed >>work.txt
cat <<'END'
{"answers": [
  {"id": "f1", "answer": "fixed", "reason": "It says fixed now,\nask @ada."},
  {"id": "f2", "answer": "disagree", "reason": "It does not lie."}]}
END
"#;
    let play = Play::new(&Script {
        reviewer,
        fixer,
        ..Script::default()
    });
    play.tick().report();
    let message = play.world.git(
        &play.worktree,
        &[
            "log",
            "--format=%B",
            "--grep=Address review feedback",
            "feature",
        ],
    );
    insta::assert_snapshot!(message, @"
    Address review feedback (cycle 1)

    Fixed:
    - work.txt:1: fixes # 12 Remand-Item: w99 Co-authored-by: Eve <eve@
      example.org> (31m (skip ci)
      It says fixed now, ask @ ada.

    Not changed:
    - README.md:7: the second place lies
      It does not lie.

    Requested:
    - README.md:9: the third place lies

    Remand-Change: c1
    Remand-Item: w2
    Remand-Cycle: 1
    ");
    let trailers = play.world.git(
        &play.worktree,
        &["log", "-1", "--format=%(trailers:only,unfold)", "feature"],
    );
    assert_eq!(
        trailers.trim(),
        "Remand-Change: c1\nRemand-Item: w2\nRemand-Cycle: 1"
    );
}

/// Failed gates send the agent back: its next commit is another part of the same fix.
#[test]
fn no_two_commits_have_the_same_subject() {
    let fixer = "cat >/dev/null\necho fixed >>work.txt\n";
    let play = Play::new(&Script {
        fixer,
        settings: "gates = [[\"gate\"]]",
        ..Script::default()
    });
    play.world
        .script("gate", "test $(grep -c fixed work.txt) -ge 2");
    play.tick().report();
    play.is_ready(1);
    let subjects = [
        "add work.txt",
        "Address review feedback (cycle 1)",
        "Address review feedback (cycle 1, part 2)",
    ];
    assert_eq!(log_of(&play), subjects);
}

#[test]
fn killed_after_one_of_three_edits_was_committed() {
    let fixer = "cat >/dev/null
        edits() { echo fixed >>work.txt; git add -A; [ -z \"$1\" ] || git commit -qm one; echo two >two.txt; echo three >>README.md; }
        if [ ! -e \"$PROMPTS/killed\" ]; then : >\"$PROMPTS/killed\"; edits commit; kill -9 $$; fi
        edits\n";
    let play = accepted(fixer);
    assert_eq!(
        log_of(&play),
        ["add work.txt", "Address review feedback (cycle 1)"]
    );
    assert_eq!(play.kept("r2", "work.txt"), "work\nfixed");
    assert_eq!(play.kept("r2", "two.txt"), "two");
    assert_eq!(play.kept("r2", "README.md"), "hello\nthree");
    assert_eq!(
        play.world.git(
            &play.repo,
            &["log", "-1", "--format=%s", "refs/remand/wip/r2^"]
        ),
        "one"
    );
    assert_eq!(
        std::fs::read_to_string(play.worktree.join("work.txt")).unwrap(),
        "work\nfixed\n",
        "done twice"
    );
    assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 1);
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle, total_fixes FROM changes"),
        "1|1"
    );
}

#[test]
fn killed_five_times_in_a_row() {
    let fixer = "cat >/dev/null\necho $REMAND_RUN >>work.txt\nkill -9 $$\n";
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    let before = play.head();
    play.tick().report();
    play.is_escalated("5 runs in a row ended without a result");
    play.worktree_is_at(&before);
    for run in ["r2", "r3", "r4", "r5", "r6"] {
        assert_eq!(play.kept(run, "work.txt"), format!("work\n{run}"));
    }
    assert_eq!(play.count("runs"), 6);
    play.retry_finishes();
}

#[test]
fn fails_after_edits() {
    refused(
        "cat >/dev/null\necho half >>work.txt\necho new >new.txt\necho 'no such model' >&2\nexit 1\n",
        "the fix agent `fixer` failed: exited with status 1: no such model",
        &[("work.txt", "work\nhalf"), ("new.txt", "new")],
    );
}

/// LOST-6
#[test]
fn commits_everything_by_itself() {
    let play = accepted("cat >/dev/null\necho fixed >>work.txt\ngit commit -qam 'my own'\n");
    assert_eq!(log_of(&play), ["add work.txt", "my own"]);
}

/// LOST-6
#[test]
fn commits_a_part_and_leaves_the_rest() {
    let play = accepted(
        "cat >/dev/null\necho fixed >>work.txt\ngit commit -qam 'my own'\necho rest >rest.txt\n",
    );
    assert_eq!(
        log_of(&play),
        [
            "add work.txt",
            "my own",
            "Address review feedback (cycle 1)"
        ]
    );
    assert_eq!(
        play.world.git(&play.worktree, &["show", "HEAD:rest.txt"]),
        "rest"
    );
}

#[test]
fn switches_to_another_branch() {
    let play = refused(
        "cat >/dev/null\ngit switch -qc elsewhere\necho fixed >>work.txt\ngit commit -qam there\necho more >more.txt\n",
        "the agent switched from the branch feature to elsewhere",
        &[("work.txt", "work\nfixed"), ("more.txt", "more")],
    );
    assert_eq!(
        play.world
            .git(&play.repo, &["log", "-1", "--format=%s", "elsewhere"]),
        "there",
        "no branch is deleted"
    );
}

#[test]
fn detaches_head() {
    refused(
        "cat >/dev/null\ngit switch -q --detach\necho fixed >>work.txt\ngit commit -qam alone\n",
        "the agent switched from the branch feature to a detached HEAD",
        &[("work.txt", "work\nfixed")],
    );
}

#[test]
fn deletes_its_branch() {
    refused(
        "cat >/dev/null\necho fixed >>work.txt\ngit update-ref -d refs/heads/feature\n",
        "the agent deleted the branch feature",
        &[("work.txt", "work\nfixed")],
    );
}

#[test]
fn deletes_its_branch_after_leaving_it() {
    refused(
        "cat >/dev/null\necho fixed >>work.txt\ngit commit -qam fix\ngit switch -q --detach\ngit branch -qD feature\n",
        "the agent switched from the branch feature to a detached HEAD",
        &[("work.txt", "work\nfixed")],
    );
}

#[test]
fn amends_the_commit_that_was_reviewed() {
    refused(
        "cat >/dev/null\necho fixed >>work.txt\ngit commit -qa --amend -m better\n",
        "the agent rewrote the branch",
        &[("work.txt", "work\nfixed")],
    );
}

#[test]
fn resets_the_branch_to_the_base() {
    refused(
        "cat >/dev/null\ngit reset -q --hard main\necho fixed >work.txt\ngit add -A\ngit commit -qm again\n",
        "the agent rewrote the branch",
        &[("work.txt", "fixed")],
    );
}

#[test]
fn leaves_a_rebase_unfinished() {
    refused(
        "cat >/dev/null\ngit rebase -q --exec false main 2>/dev/null\necho fixed >>work.txt\n",
        "a detached HEAD",
        &[("work.txt", "work\nfixed")],
    );
}

#[test]
fn leaves_a_merge_unfinished() {
    refused(
        "cat >/dev/null\ngit branch side main\ngit worktree add -q ../side side\n(cd ../side && echo other >work.txt && git add -A && git commit -qm other)
        git worktree remove ../side\ngit merge -q side\nexit 0\n",
        "unfinished merge",
        &[],
    );
}

#[test]
fn leaves_locks_of_git() {
    let play = accepted(
        "cat >/dev/null\necho fixed >>work.txt\ndir=$(git rev-parse --absolute-git-dir)\n: >\"$dir/index.lock\"\n: >\"$dir/HEAD.lock\"\n",
    );
    assert_eq!(log_of(&play).len(), 2);
}

#[test]
fn leaves_a_lock_on_its_branch() {
    let play = Play::new(&Script {
        fixer: "cat >/dev/null\necho fixed >>work.txt\n: >\"$(git rev-parse --path-format=absolute --git-common-dir)/refs/heads/feature.lock\"\n",
        ..Script::default()
    });
    play.tick().report();
    // No process of the run is alive any more: a lock that it left on its own branch belongs to
    // nobody.
    play.is_ready(1);
}

#[test]
fn removes_everything_in_the_worktree() {
    refused("cat >/dev/null\nrm -rf ./* ./.[!.]*\n", "removed", &[]);
}

#[test]
fn removes_its_git_file_and_fixes() {
    let play = accepted("cat >/dev/null\necho fixed >>work.txt\nrm -f .git\n");
    assert_eq!(log_of(&play).len(), 2);
}

#[test]
fn makes_its_worktree_a_repository_of_its_own() {
    let play = accepted(
        "cat >/dev/null\necho fixed >>work.txt\nrm -f .git\ngit init -q\ngit add -A\ngit commit -qm mine\n",
    );
    assert_eq!(log_of(&play).len(), 2);
    assert!(
        play.repo.join(".git/remand-kept/r2").is_dir(),
        "its repository is kept"
    );
}

#[test]
fn removes_the_worktree_itself() {
    let play = Play::new(&Script {
        fixer: "cat >/dev/null\nrm -rf \"$PWD\"\n",
        ..Script::default()
    });
    let before = play.head();
    play.tick().report();
    play.is_escalated("no longer exists");
    assert!(!play.worktree.exists(), "none is ever made for a fix");
    play.do_what_it_says();
    play.worktree_is_at(&before);
    play.retry_finishes();
}

#[test]
fn makes_a_repository_inside() {
    let play = refused(
        "cat >/dev/null\necho fixed >>work.txt\ngit init -q inner\ncd inner\necho deep >deep.txt\ngit add -A\ngit commit -qm deep\n",
        "inner/",
        &[("work.txt", "work\nfixed")],
    );
    assert!(!play.worktree.join("inner").exists());
    let kept = play.repo.join(".git/remand-kept/r2");
    let inner = std::fs::read_dir(kept)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert_eq!(
        std::fs::read_to_string(inner.join("deep.txt")).unwrap(),
        "deep\n"
    );
}
