//! Reviewers that edit files, are unclear, contradict themselves or print nothing.

use crate::support::play::{Play, Script};

#[track_caller]
fn play(reviewer: &str) -> Play {
    let play = Play::new(&Script {
        reviewer,
        ..Script::default()
    });
    play.tick().report();
    play
}

/// Asserts that after an escalated review, `retry` with a clear reviewer ends the loop.
#[track_caller]
fn retry_finishes(play: &Play) {
    play.world.script(
        "reviewer",
        "cat >/dev/null\nprintf 'REVIEW_RESULT: approved\\nFINDINGS_COUNT: 0\\nSEVERITY: none\\nSUMMARY: fine\\n'\n",
    );
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(0);
}

#[track_caller]
fn undone(reviewer: &str, kept: &[(&str, &str)]) {
    let play = Play::new(&Script {
        reviewer: &format!("{reviewer}\nsays approved fine"),
        ..Script::default()
    });
    let before = play.head();
    play.tick().report();
    play.is_ready(0);
    assert_eq!(play.head(), before);
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'edits_undone'");
    assert!(told.contains("refs/remand/wip/r1"), "{told:?}");
    assert!(
        play.why().contains("files changed during the review by "),
        "{}",
        play.why()
    );
    for (path, text) in kept {
        assert_eq!(&play.kept("r1", path), text);
    }
}

/// `status` prints the start of a long text, and the command that prints all of it.
#[test]
fn a_long_review_is_shortened_in_status() {
    let play = Play::new(&Script {
        reviewer: "long=$(printf 'word%.0s ' $(seq 700))\nsays changes_requested \"$long\" \"$(finding work.txt 1 \"$long end\")\"\n",
        tables: "[loop]\nmax_fix_cycles = 0\n",
        ..Script::default()
    });
    play.tick();
    let shown = play.world.remand(&["status", "c1"]).stdout;
    for rest in ["(`remand show v1`)", "(`remand show f1`)"] {
        assert!(
            shown
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(rest),
            "{shown}"
        );
    }
    assert!(shown.matches("word").count() < 200, "{shown}");
    let whole = play.world.remand(&["show", "f1"]).stdout;
    assert!(whole.matches("word").count() >= 700, "{whole}");
}

#[test]
fn edits_files() {
    undone(
        "echo better >>work.txt; echo new >new.txt",
        &[("work.txt", "work\nbetter"), ("new.txt", "new")],
    );
}

#[test]
fn commits() {
    undone(
        "echo better >>work.txt; git commit -qam better",
        &[("work.txt", "work\nbetter")],
    );
}

#[test]
fn switches_branch_and_commits_there() {
    undone(
        "git switch -qc mine; echo better >>work.txt; git commit -qam better",
        &[("work.txt", "work\nbetter")],
    );
}

#[test]
fn deletes_the_branch_and_leaves_a_lock() {
    undone(
        "git update-ref -d refs/heads/feature; : >\"$(git rev-parse --absolute-git-dir)/index.lock\"; echo x >x.txt",
        &[("x.txt", "x")],
    );
}

#[test]
fn removes_the_worktree() {
    let play = Play::new(&Script {
        reviewer: "[ -e \"$PROMPTS/done\" ] || rm -rf \"$PWD\"\n: >\"$PROMPTS/done\"\nsays approved fine",
        ..Script::default()
    });
    let before = play.head();
    play.tick().report();
    play.is_escalated("no longer exists");
    play.do_what_it_says();
    play.worktree_is_at(&before);
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(0);
}

#[test]
fn is_unclear_once_and_then_clear() {
    let play = play(
        "if [ -e \"$PROMPTS/asked\" ]; then says approved fine; else : >\"$PROMPTS/asked\"; echo 'Looks good to me, I think.'; fi",
    );
    play.is_ready(0);
    assert_eq!(play.count("events WHERE event_type = 'review_unclear'"), 1);
    assert!(
        play.prompt_of_run("r2")
            .contains("Looks good to me, I think."),
        "it is told what was missing"
    );
    assert_eq!(play.count("reviews"), 1);
}

#[test]
fn is_unclear_twice() {
    let play = play("echo 'I would rather not say.'");
    play.is_escalated("the review has no clear verdict, even after the reviewer was asked again");
    assert_eq!(play.count("runs"), 2);
    assert!(
        play.answer().contains("remand verdict c1"),
        "{}",
        play.answer()
    );
    retry_finishes(&play);
}

#[test]
fn wants_a_discussion() {
    let play = play("says needs_discussion 'is this feature wanted at all?'");
    play.is_escalated("is this feature wanted at all?");
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 0);
    play.world.remand(&["approve", "c1"]).ok();
    assert_eq!(play.state(), "approved");
}

#[test]
fn approves_with_a_critical_finding() {
    let play = play(
        r#"if grep -q fixed work.txt; then says approved fine; else
        says approved "all good" '{"severity": "critical", "category": "security", "path": "work.txt", "line": 1, "text": "the key is in the file"}'; fi"#,
    );
    play.is_ready(1);
    assert_eq!(
        play.world
            .sqlite("SELECT raw_verdict, verdict FROM reviews WHERE review_id = 'v1'"),
        "approved|changes_requested"
    );
}

#[test]
fn echoes_the_template() {
    let play = play(
        "printf 'REVIEW_RESULT: approved|changes_requested|needs_discussion\\nFINDINGS_COUNT: <number>\\nSEVERITY: <highest>\\nSUMMARY: <one line>\\n'",
    );
    play.is_escalated("the review has no clear verdict");
    retry_finishes(&play);
}

#[test]
fn echoes_its_whole_prompt() {
    let play = Play::without_change(&Script::default());
    let reviewer = "#!/bin/sh\ncat\n";
    std::fs::write(play.world.root().join("bin/reviewer"), reviewer).unwrap();
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.tick().report();
    play.is_escalated("the review has no clear verdict");
}

#[test]
fn puts_its_verdict_into_a_fence() {
    let play = play(
        "printf 'For example:\\n```\\nREVIEW_RESULT: approved\\nFINDINGS_COUNT: 0\\nSEVERITY: none\\nSUMMARY: fine\\n```\\nand so on.\\n'",
    );
    play.is_escalated("the review has no clear verdict");
    assert!(
        play.answer().contains("fence") || play.why().contains("fence"),
        "{}",
        play.why()
    );
}

#[test]
fn fails() {
    let play = play("says approved fine; echo 'out of memory' >&2; exit 1");
    play.is_escalated("the review agent `reviewer` failed: exited with status 1: out of memory");
    assert_eq!(
        play.count("reviews"),
        0,
        "the word of an agent that failed does not count"
    );
    retry_finishes(&play);
}

#[test]
fn says_nothing() {
    let play = play("true");
    play.is_escalated("the review has no clear verdict");
    retry_finishes(&play);
}

#[test]
fn is_killed() {
    let play = play(
        "if [ -e \"$PROMPTS/killed\" ]; then says approved fine; else : >\"$PROMPTS/killed\"; says approved fine; kill -9 $$; fi",
    );
    play.is_ready(0);
    assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 1);
}

#[test]
fn has_nothing_to_review() {
    let play = Play::new(&Script::default());
    play.world
        .git(&play.repo, &["merge", "-q", "--ff-only", "feature"]);
    play.tick().report();
    play.is_escalated("nothing to review: feature has no changes compared with main");
    assert_eq!(play.count("runs"), 0);
    assert_eq!(play.count("reviews"), 0, "an empty diff is no approval");
    play.world
        .commit(&play.worktree, "work.txt", "work\nfixed\n", "more");
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(0);
}

#[test]
fn is_not_there() {
    let play = Play::new(&Script {
        reviewer: "says approved fine",
        ..Script::default()
    });
    let script = play.world.root().join("bin/reviewer");
    let aside = play.world.root().join("bin/aside");
    std::fs::rename(&script, &aside).unwrap();
    play.tick().report();
    play.is_held("the agent cannot be started");
    std::fs::rename(&aside, &script).unwrap();
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(0);
}

/// An approval that does not mention a blocking finding is asked about it once, then a person is.
#[test]
fn passes_over_what_was_open() {
    let reviewer = "if [ -e \"$PROMPTS/over\" ]; then PASSES_OVER=1; fi\n: >\"$PROMPTS/over\"\n\
        if grep -q fixed work.txt; then says approved fine; else says changes_requested no \"$(finding work.txt 1 'say fixed')\"; fi";
    let once = format!("{reviewer}\nif grep -q fixed work.txt; then rm \"$PROMPTS/over\"; fi");
    let play = play(&once);
    play.is_ready(1);
    assert_eq!(
        play.count("events WHERE event_type = 'review_unclear'"),
        1,
        "{:#?}",
        play.events()
    );
    let asked = play.prompt_of_run("r4");
    assert!(
        asked.contains("a status, resolved or open, for f1"),
        "{asked}"
    );

    let play = self::play(reviewer);
    play.is_escalated("does not say whether these findings of earlier reviews are resolved: f1");
    assert_eq!(
        play.world.sqlite("SELECT outcome FROM findings"),
        "addressed"
    );
}
