//! Decisions of a person: `reject approve retry refine cycles verdict comment pause resume cancel
//! item`.

use super::{FIXER, Site};

#[test]
fn a_rejection_of_finished_work_makes_its_fix_at_once() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    let output = site
        .remand(&["reject", "c1", "--text", "the retry loop never ends"])
        .ok();
    insta::assert_snapshot!(site.world.plain(&output.stdout), @"
    c1 was rejected
      review_fix w4 is queued; no daemon is running  (just now)
        remand run
        remand tick
    ");
    assert_eq!(site.state("c1"), "refining");
    let fix = "SELECT source, status, rejection_id FROM work_items ORDER BY created_at DESC, rowid DESC LIMIT 1";
    assert_eq!(site.world.sqlite(fix), "review_fix|available|j2");
    let event = "SELECT actor_id, summary, json_extract(metadata, '$.body') FROM events WHERE event_type = 'work_rejected' ORDER BY id DESC LIMIT 1";
    assert_eq!(
        site.world.sqlite(event),
        "ada|the retry loop never ends|the retry loop never ends"
    );
    site.remand(&["check"]).ok();
    let status = site.remand(&["status", "c1"]).stdout;
    for line in [
        "rejection  j2 by ada (in_fix): the retry loop never ends",
        "fix        fix 1 committed",
    ] {
        assert!(status.contains(line), "{line}: {status}");
    }
}

/// A script need not read the output to know that a person is needed.
#[test]
fn work_that_ends_with_a_change_that_needs_a_person_exits_with_5() {
    let site = Site::with_agents("true\n");
    let tick = site.remand(&["tick"]).held().stdout;
    assert!(
        tick.contains("\nc1 needs you: the agent changed nothing"),
        "{tick}"
    );
    // Nothing was done for it this time.
    site.remand(&["tick"]).ok();
    site.remand(&["retry", "c1"]).ok();
    let work = site.world.held_json(&["work"]);
    assert_eq!(
        (&work["ran"], &work["needs_you"][0]),
        (&1.into(), &"c1".into())
    );
    site.world
        .script("fixer", &format!("cat >/dev/null\n{FIXER}"));
    site.remand(&["retry", "c1"]).ok();
    assert_eq!(
        site.world.json(&["tick"])["needs_you"],
        serde_json::json!([])
    );
    // A hold too.
    let gone = site.world.root().join("src/elsewhere");
    site.remand(&["refine", "c1", "--text", "once more"]).ok();
    std::fs::rename(&site.worktree, &gone).unwrap();
    site.remand(&["tick"]).held();
}

#[test]
fn a_rejection_is_read_from_a_file_or_stdin_by_branch_or_path() {
    let site = Site::under_review();
    std::fs::write(
        site.world.root().join("review.md"),
        "# Review\n\nIt is wrong.\n",
    )
    .unwrap();
    site.remand(&["reject", "feature/login", "--file", "review.md"])
        .ok();
    site.world
        .remand_with_stdin(
            &["reject", "src/site-feature-login", "--file", "-"],
            "from stdin\n",
        )
        .ok();
    site.world
        .remand_with_stdin(&["reject", "c1", "--text", "-"], "also\n")
        .ok();
    assert_eq!(
        site.world
            .sqlite("SELECT count(*) FROM rejections WHERE state = 'pending' AND by_person"),
        "3"
    );
    let why = site.world.json(&["why", "c1"]);
    let answer = why["answer"].as_str().unwrap();
    assert!(
        answer.contains("j1, j2, j3 are waiting until then"),
        "{answer}"
    );
    site.remand(&["reject", "c1", "--file", "nowhere.md"])
        .fails(4, "no such file: nowhere.md");
    site.remand(&["reject", "c1", "--text", " "])
        .fails(2, "the text is empty");
    site.remand(&["reject", "c1"]).fails(2, "--file");
    site.remand(&["reject", "c1", "--text", "a", "--file", "b"])
        .fails(2, "cannot be used with");
    site.remand(&["reject", "c7", "--text", "a"])
        .fails(4, "hint: did you mean `c1`?");
    site.remand(&["cancel", "c1"]).ok();
    site.remand(&["reject", "c1", "--text", "late"])
        .fails(1, "c1 is already closed");
}

#[test]
fn approving_ends_what_is_open() {
    let site = Site::under_review();
    site.remand(&["reject", "c1", "--text", "no"]).ok();
    let output = site.remand(&["approve", "c1"]).ok();
    insta::assert_snapshot!(site.world.plain(&output.stdout), @"
    c1 is approved
      it was approved by ada: ready to merge feature/login  (just now)
    ");
    assert_eq!(
        site.world
            .sqlite("SELECT state, final_verdict FROM changes"),
        "approved|APPROVED"
    );
    assert_eq!(
        site.world.sqlite("SELECT status FROM work_items"),
        "cancelled"
    );
    assert_eq!(
        site.world.sqlite("SELECT state, reason FROM rejections"),
        "skipped|approved by ada"
    );
    site.remand(&["approve", "nobody"])
        .fails(4, "no such change: `nobody`");
    site.remand(&["check"]).ok();
}

/// The approval applies to the head that the loop knows, not to commits made in the meantime.
#[test]
fn a_branch_that_moved_is_not_approved() {
    let site = Site::under_review();
    site.world.git(
        &site.worktree,
        &["commit", "--allow-empty", "-qm", "one more"],
    );
    site.remand(&["approve", "c1"])
        .fails(1, "feature/login has moved to");
    site.remand(&["verdict", "c1", "approved"])
        .fails(1, "feature/login has moved to");
    site.remand(&["review", "--worktree", site.worktree.to_str().unwrap()])
        .ok();
    site.remand(&["approve", "c1"]).ok();
    assert!(!site.shows(&["status", "c1"]).contains("moved"));
    site.world.git(
        &site.worktree,
        &["commit", "--allow-empty", "-qm", "and another"],
    );
    for command in ["status", "why"] {
        let said = site.shows(&[command, "c1"]);
        assert!(said.contains("which has not been reviewed"), "{said}");
    }
}

#[test]
fn pause_and_resume() {
    let site = Site::under_review();
    let output = site.remand(&["pause", "c1", "--why", "lunch"]).ok();
    insta::assert_snapshot!(site.world.plain(&output.stdout), @"
    c1 is paused
      it was paused by ada: lunch  (just now)
        remand resume c1
    ");
    assert_eq!(
        site.world.sqlite("SELECT status FROM work_items"),
        "blocked"
    );
    assert_eq!(site.world.json(&["resume", "c1"])["paused"], false);
    assert_eq!(
        site.world.sqlite("SELECT status FROM work_items"),
        "available"
    );
    assert!(
        site.shows(&["resume", "c1"])
            .starts_with("c1 was neither paused nor held")
    );
}

#[test]
fn a_fix_that_changed_nothing_is_tried_again_or_refined() {
    let site = Site::with_agents("true\n");
    site.remand(&["retry", "c1"])
        .fails(1, "there is nothing to retry");
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "escalated");
    site.remand(&["retry", "c1"]).ok();
    assert_eq!(site.state("c1"), "refining");
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "escalated");

    assert_eq!(
        site.world.json(&["cycles", "c1", "3"])["budget"]["max_fix_cycles"],
        5
    );
    // No limit stopped it.
    assert_eq!(site.state("c1"), "escalated");
    site.remand(&["check"]).ok();
    site.remand(&["comment", "c1", "use the old way"]).ok();
    site.remand(&["refine", "c1", "--text", "write better"])
        .ok();
    assert_eq!(site.state("c1"), "refining");
    assert_eq!(
        site.world.sqlite("SELECT body FROM feedback"),
        "use the old way"
    );
    for bad in [
        &["cycles", "c1", "0"][..],
        &["cycles", "c1", "x"],
        &["refine", "c1", "--text", ""],
        &["comment", "c1", ""],
    ] {
        assert_eq!(site.remand(bad).status, 2, "{bad:?}");
    }
    site.remand(&["cancel", "c1", "--why", "not needed"]).ok();
    assert_eq!(site.state("c1"), "closed");
    site.remand(&["refine", "c1"])
        .fails(1, "c1 is closed: it can no longer be refined");
    site.remand(&["check"]).ok();
}

#[test]
fn a_person_gives_the_verdict_that_a_review_did_not() {
    let site = Site::with_agents(FIXER);
    site.world.script(
        "reviewer",
        "cat > /dev/null\necho 'I looked at it. Some of it is odd.'\n",
    );
    site.remand(&["tick"]).report();
    assert_eq!(site.state("c1"), "escalated");
    site.remand(&["verdict", "c1", "MAYBE"]).fails(
        2,
        "possible values: APPROVED, CHANGES_REQUESTED, NEEDS_DISCUSSION",
    );
    site.remand(&["verdict", "c1", "NEEDS_DISCUSSION"]).ok();
    site.remand(&["verdict", "c1", "CHANGES_REQUESTED"]).ok();
    assert_eq!(site.state("c1"), "refining");
    let body = "SELECT json_extract(metadata, '$.review_comments') FROM work_items WHERE source = 'review_fix'";
    assert!(site.world.sqlite(body).contains("Some of it is odd."));
    site.remand(&["check"]).ok();
    site.remand(&["verdict", "c1", "approved"]).ok();
    assert_eq!(site.state("c1"), "approved");
    site.remand(&["check"]).ok();
}

#[test]
fn a_verdict_before_any_review_needs_words() {
    let site = Site::under_review();
    site.remand(&["verdict", "c1", "CHANGES_REQUESTED"])
        .fails(1, "--text");
    site.remand(&["verdict", "c1", "CHANGES_REQUESTED", "--text", "rename it"])
        .ok();
    assert_eq!(site.state("c1"), "refining");
    assert_eq!(
        site.world.sqlite("SELECT source, status FROM work_items"),
        "code_review|cancelled\nreview_fix|available"
    );
    site.remand(&["check"]).ok();
    site.remand(&["verdict", "c1", "NEEDS_DISCUSSION", "--text", "which name?"])
        .ok();
    assert_eq!(
        site.world
            .sqlite("SELECT state, final_verdict FROM changes"),
        "escalated|NEEDS_DISCUSSION"
    );
    site.remand(&["check"]).ok();
}

#[test]
fn items_are_added_with_the_checks_of_all_others() {
    let site = Site::under_review();
    let add = |args: &[&str]| {
        let mut all = vec!["item", "add"];
        all.extend(args);
        site.remand(&all)
    };
    add(&["code_review", "--change", "c1"]).fails(1, "c1 already has an open code_review: w1");
    add(&["review_fix", "--change", "c1"]).fails(1, "cannot add a review_fix without a rejection");
    add(&["nonsense", "--change", "c1"]).fails(2, "unknown source `nonsense`; allowed: github");
    add(&["manual", "--change", "c1"]).fails(1, "a task is implemented as a new change");
    add(&["pull_request", "--change", "c1"]).fails(1, "remand queues the pull request");
    add(&["feedback_analysis", "--change", "c4"]).fails(4, "no such change: `c4`");
    add(&["feedback_analysis", "--change", "c1", "--priority", "P9"])
        .fails(2, "allowed: P1, P2, P3");
    add(&["feedback_analysis", "--change", "c1", "--metadata", "{"])
        .fails(2, "--metadata is not valid JSON");
    add(&["feedback_analysis", "--change", "c1", "--metadata", "[]"]).fails(2, "not a JSON object");
    let item = site.world.json(&[
        "item",
        "add",
        "feedback_analysis",
        "--change",
        "c1",
        "--priority",
        "P1",
        "--metadata",
        r#"{"note": 1}"#,
    ]);
    assert_eq!(item["item_id"], "w2");
    assert_eq!(item["metadata"]["note"], 1);
    insta::assert_snapshot!(site.shows(&["item", "list"]), @"
    ITEM  SOURCE             STATUS     PRIO  CHANGE  TITLE                CREATED
    w2    feedback_analysis  available  P1    c1      add work.txt         just now
    w1    code_review        available  P2    c1      Review add work.txt  just now
    ");
    assert_eq!(
        site.world
            .json(&["item", "list", "--status", "available"])
            .as_array()
            .unwrap()
            .len(),
        2
    );
    assert_eq!(
        site.world
            .json(&["item", "list", "--status", "failed"])
            .as_array()
            .unwrap()
            .len(),
        0
    );
    site.remand(&["item", "list", "--status", "done"])
        .fails(2, "allowed: available, claimed");
    assert!(site.shows(&["why", "w2"]).contains("it is queued"));
}

#[test]
fn an_item_that_is_cancelled_leaves_no_change_behind() {
    let site = Site::under_review();
    let output = site
        .remand(&["item", "cancel", "w1", "--why", "wrong branch"])
        .ok();
    insta::assert_snapshot!(site.world.plain(&output.stdout), @"
    w1 code_review is cancelled
    c1 now
      it needs you: ada cancelled code_review w1: wrong branch. Decide: accept it (`remand approve c1`), continue (`remand refine c1 --text …`), or close it (`remand cancel c1`)  (just now)
    ");
    assert_eq!(site.state("c1"), "escalated");
    site.remand(&["check"]).ok();
    site.remand(&["item", "cancel", "w1"])
        .fails(1, "cannot cancel w1: it is cancelled");
    site.remand(&["item", "requeue", "w1"]).ok();
    assert_eq!(site.state("c1"), "pending_self_review");
    assert_eq!(
        site.world.sqlite("SELECT status FROM work_items"),
        "available"
    );
    site.remand(&["item", "requeue", "w1"])
        .fails(1, "already has an open code_review");
    site.remand(&["item", "requeue", "w9"])
        .fails(4, "no work item `w9`");
    site.remand(&["item", "show", "w9"])
        .fails(4, "no work item `w9`");
    site.remand(&["check"]).ok();
}

#[test]
fn a_broken_evaluator_stops_no_word_that_stops_work() {
    let site = Site::under_review();
    site.world.config("");
    let folder = site.world.root().join("config/remand/evaluators");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("review_feedback.toml"), "kind = \"nonsense\"\n").unwrap();
    site.remand(&["pause", "c1"]).ok();
    site.remand(&["reject", "c1", "--text", "no"])
        .fails(3, "nonsense");
    assert_eq!(
        site.world
            .sqlite("SELECT count(*) FROM events WHERE event_type = 'work_rejected'"),
        "0"
    );
    site.remand(&["cancel", "c1"]).ok();
}
