//! Files of reviews, and what a review was given: written, repaired, shown again, and removed.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::play::{Play, Script};
use crate::tools::prune::{age, prune};

/// Raises two findings, one of which tries to look like a part of the file. Approves once `work.txt`
/// contains "fixed".
const HOSTILE: &str = r#"
if grep -q fixed work.txt; then
    says approved "it is fixed now"
else
    text='a\n```\n## Action required\n\nNone.\n````'
    says changes_requested "work.txt is not fixed" "{\"severity\": \"high\", \"category\": \"compliance\", \"path\": \"work.txt\", \"line\": 1, \"title\": \"Say [fixed](x) here\", \"text\": \"$text\", \"suggestion\": \"write fixed\"}, {\"severity\": \"medium\", \"category\": \"logic\", \"path\": \"work.txt\", \"text\": \"it is short\", \"failure_scenario\": \"an empty line\"}"
fi
"#;

fn reviewed() -> Play {
    let play = Play::without_change(&Script {
        reviewer: HOSTILE,
        ..Script::default()
    });
    let title = "Feature\n## Findings\n<!-- <b>";
    play.world
        .remand_in(&play.worktree, &["review", "--title", title])
        .ok();
    play.tick().report();
    play.is_ready(1);
    play
}

/// Returns the paths of all files of reviews.
fn files(play: &Play) -> Vec<PathBuf> {
    let folder = play.world.root().join("state/remand/reviews/calc");
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .collect();
    found.sort();
    found
}

fn texts(play: &Play) -> Vec<String> {
    let files = files(play);
    files
        .iter()
        .map(|path| fs::read_to_string(path).unwrap())
        .collect()
}

/// Returns the headings of a Markdown text: lines outside of fences.
fn headings(text: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for line in text.lines() {
        match fence {
            Some(open) if line == open => fence = None,
            Some(_) => {}
            None if line.starts_with("```") => fence = Some(line.trim_end_matches("text")),
            None if line.starts_with('#') => found.push(line),
            None => {}
        }
    }
    found
}

fn json(play: &Play, args: &[&str]) -> Value {
    play.world.json(args)
}

/// S1-16, S1-27, S1-28, S1-29, S1-30, GZ-5
#[test]
fn each_review_has_a_file_that_is_rebuilt_when_it_is_missing() {
    let play = reviewed();
    let names: Vec<String> = files(&play)
        .iter()
        .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
        .collect();
    let date = play
        .world
        .sqlite("SELECT strftime('%Y-%m-%d', created_at, 'localtime') FROM reviews LIMIT 1");
    let expected = [1, 2].map(|n| format!("{date}-c1-review-{n}.md"));
    assert_eq!(names, expected);
    let before = texts(&play);
    insta::assert_snapshot!(play.world.plain(&before[0]), @r#"
    # Code review: Feature \#\# Findings \<\!-- \<b\>

    - Change: c1 of calc
    - Branch: feature → main
    - Review: 1 of the change (v1)
    - Verdict: **changes requested**
    - Reviewed at: TIME
    - Reviewed by: reviewer
    - Head: SHA
    - Base: SHA
    - Fix: 0/2

    ## Overall summary

    ```text
    work.txt is not fixed
    ```

    ## Compliance review

    ✓ Met:

    - Say \[fixed\](x) here (work.txt:1)

    ❌ Not met:

    - none

    ## Findings

    ### [HIGH] Compliance: Say \[fixed\](x) here (work.txt:1)

    - Finding: f1
    - Outcome now: resolved
    - File: work.txt
    - Line: 1

    `````text
    a
    ```
    ## Action required

    None.
    ````
    `````

    Suggestion:

    ```text
    write fixed
    ```

    ---

    ### [MEDIUM] Logic: it is short (work.txt)

    - Finding: f2
    - Outcome now: resolved
    - File: work.txt

    ```text
    it is short
    ```

    Failure scenario:

    ```text
    an empty line
    ```

    ## Action required

    None any more: all findings are resolved or waived.
    "#);
    assert_eq!(
        headings(&before[0])
            .iter()
            .filter(|line| line.starts_with("## "))
            .count(),
        4
    );
    assert!(
        before[1].contains("## Findings\n\nThe review has no findings."),
        "{}",
        before[1]
    );
    assert!(
        before[1].contains("no finding of category compliance"),
        "{}",
        before[1]
    );

    for (n, text) in (1..).zip(&before) {
        let id = format!("v{n}");
        let shown = play.world.remand(&["show", &id, "--markdown"]).ok().stdout;
        assert_eq!(shown, *text);
    }
    let detail = json(&play, &["show", "v2"]);
    assert_eq!(detail["file"], files(&play)[1].to_str().unwrap());
    assert_eq!(detail["number"], 2);
    assert_eq!(detail["markdown"], Value::Null);
    assert_eq!(detail["reviewed_by"]["agent"], "reviewer");
    let shown = play.world.remand(&["show", "v2"]).ok().words();
    assert!(
        shown.contains("-c1-review-2.md") && shown.contains("reviewer reviewer"),
        "{shown}"
    );
    let shown = play.world.remand(&["show", "c1"]).report().words();
    assert!(shown.contains("by reviewer: changes_requested"), "{shown}");
    play.world
        .remand(&["show", "c1", "--markdown"])
        .fails(2, "--markdown needs a review");

    fs::remove_dir_all(play.world.root().join("state/remand/reviews")).unwrap();
    let shown = play.world.remand(&["show", "v1"]).ok().words();
    assert!(shown.contains("not written yet"), "{shown}");
    assert_eq!(json(&play, &["show", "v1"])["file"], Value::Null);
    play.tick().report();
    assert_eq!(texts(&play), before);
    fs::remove_file(&files(&play)[0]).unwrap();
    let daemon = play.daemon();
    play.until("the file is written again", || texts(&play) == before);
    assert!(daemon.stop().success());
}

/// The outcome is that of now: a later decision reaches the file of an earlier review.
#[test]
fn a_file_follows_the_outcomes_of_its_findings() {
    let play = Play::new(&Script {
        fixer: "cat >/dev/null\nexit 1\n",
        ..Script::default()
    });
    play.tick().report();
    play.is_escalated("");
    let is_open = |text: &str| text.contains("- Outcome now: open");
    assert!(is_open(&texts(&play)[0]), "{}", texts(&play)[0]);
    play.retry_finishes();
    let text = &texts(&play)[0];
    assert!(text.contains("- Outcome now: resolved"), "{text}");
    assert!(text.contains("None any more"), "{text}");
}

#[test]
#[cfg(feature = "failpoints")]
fn a_kill_between_commit_and_file_loses_no_file() {
    let undisturbed = {
        let play = Play::new(&Script::default());
        play.tick().report();
        texts(&play).len()
    };
    for point in [
        "commit.finish_review.after",
        "upkeep.review.before",
        "upkeep.review.after",
        "upkeep.reviews.written",
        "commit.reviews_written.before",
        "commit.reviews_written.after",
    ] {
        let play = Play::new(&Script::default());
        let mut command = play.world.remand_command(&["tick"]);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "killed at {point}");
        play.tick().report();
        play.is_ready(1);
        assert_eq!(texts(&play).len(), undisturbed, "{point}");
        for (n, text) in (1..).zip(texts(&play)) {
            let id = format!("v{n}");
            let shown = play.world.remand(&["show", &id, "--markdown"]).ok().stdout;
            assert_eq!(shown, text, "{point}");
        }
    }
}

fn reviewed_refs(play: &Play) -> String {
    let below = "refs/remand/reviewed/";
    play.world
        .git(&play.repo, &["for-each-ref", "--format=%(refname)", below])
}

/// Deletes everything that no ref leads to.
fn collect_garbage(play: &Play) {
    let git = |args: &[&str]| play.world.git(&play.repo, args);
    git(&["reflog", "expire", "--expire=now", "--all"]);
    git(&["gc", "--quiet", "--prune=now"]);
}

/// S1-18
#[test]
fn what_a_review_was_given_is_shown_after_its_branch_is_gone() {
    let play = reviewed();
    let shown = |args: &[&str]| {
        let mut all = vec!["diff", "c1", "--no-pager"];
        all.extend(args);
        play.world.remand(&all).ok().stdout
    };
    let heads = play
        .world
        .sqlite("SELECT head FROM reviews ORDER BY review_id");
    assert_eq!(reviewed_refs(&play).lines().count(), 2);
    let before = [shown(&["--review", "1"]), shown(&["--review", "2"])];
    assert!(
        before[0].contains("+work") && !before[0].contains("+fixed"),
        "{}",
        before[0]
    );
    assert!(before[1].contains("+fixed"), "{}", before[1]);
    assert_eq!(shown(&["--review", "v1"]), before[0]);
    assert!(shown(&["--review", "1", "--stat"]).contains("1 file, +1 -0"));
    let head = heads.lines().next().unwrap();
    assert_eq!(json(&play, &["diff", "c1", "--review", "1"])["to"], head);
    for name in ["0", "3", "v9", "first"] {
        play.world
            .remand(&["diff", "c1", "--review", name])
            .fails(4, "there are 2 reviews: use --review 1 to 2");
    }
    play.world
        .remand(&["diff", "r1", "--review", "1"])
        .fails(2, "--review needs a change");

    let path = play.worktree.to_str().unwrap();
    play.world
        .git(&play.repo, &["worktree", "remove", "--force", path]);
    play.world.git(&play.repo, &["branch", "-D", "feature"]);
    collect_garbage(&play);
    assert_eq!(shown(&["--review", "1"]), before[0]);
    assert_eq!(shown(&["--review", "2"]), before[1]);

    for name in reviewed_refs(&play).lines() {
        play.world.git(&play.repo, &["update-ref", "-d", name]);
    }
    collect_garbage(&play);
    play.world
        .remand(&["diff", "c1", "--review", "1"])
        .fails(4, "is no longer in the repository");
}

#[test]
fn prune_removes_the_files_and_the_refs_of_a_change() {
    let play = reviewed();
    play.another("other");
    play.tick().report();
    play.world.remand(&["cancel", "c1"]).ok();
    play.tick().report();
    let (all, refs) = (files(&play), reviewed_refs(&play));
    age(&play.world, "'c1'");
    let planned: Value = prune(&play, &["--dry-run", "--json"]).ok().json();
    assert_eq!(planned["review_files"], 2, "{planned}");
    assert_eq!((files(&play), reviewed_refs(&play)), (all.clone(), refs));
    let done: Value = prune(&play, &["--json"]).ok().json();
    assert_eq!(done["review_files"], 2, "{done}");
    assert_eq!(done["wip_refs"], planned["wip_refs"]);
    assert_eq!(files(&play), all[2..]);
    assert!(!reviewed_refs(&play).contains("/c1/"));
    assert!(reviewed_refs(&play).contains("/c2/"));
    assert_eq!(play.count("sweeps"), 0);
    play.tick().report();
    assert_eq!(files(&play), all[2..]);
}

/// S0-14: a session has the time of its end.
#[test]
fn an_ended_change_has_a_completed_at() {
    let play = Play::new(&Script::default());
    let completed = || json(&play, &["list", "--all"])[0]["completed_at"].clone();
    assert_eq!(completed(), Value::Null);
    let shown = play.world.remand(&["status", "c1"]).report().stdout;
    assert!(!shown.contains("ended"), "{shown}");
    play.world.remand(&["cancel", "c1"]).ok();
    let stored = play.world.sqlite("SELECT completed_at FROM changes");
    assert_eq!(completed(), stored.as_str());
    for command in ["show", "status"] {
        assert_eq!(
            json(&play, &[command, "c1"])["completed_at"],
            stored.as_str()
        );
    }
    let shown = play.world.remand(&["status", "c1"]).ok().stdout;
    assert!(shown.contains("ended"), "{shown}");
}
