//! F-020 again, requirement by requirement, with a pull request: see `tests/feedback_loop.rs` for
//! local changes.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::play::{NEVER_SATISFIED, Script};
use crate::support::pull_play::{APPROVES, PullPlay, REPO, is_fenced, quiet, rejecting};

/// US-1, US-2, FR-1, FR-2, FR-4, FR-6, NFR-4: remand's review rejects, one fix with exactly the
/// nine keys is made in the existing worktree, pushed once, and reviewed again one cycle further;
/// each step is an event. The end-to-end loop and the reused worktree of the Success table.
#[test]
fn a_rejected_pull_request_is_fixed_in_its_worktree_pushed_and_reviewed_again() {
    let fixer = "cat >/dev/null\npwd >\"$PROMPTS/fix.pwd\"\necho fixed >>work.txt\n";
    let stage = PullPlay::new(&Script {
        fixer,
        ..rejecting()
    });
    let play = &stage.play;
    play.world
        .sqlite("UPDATE changes SET implementation_item_id = 'w900'");
    let worktrees = play
        .world
        .git(&play.repo, &["worktree", "list"])
        .lines()
        .count();
    let before = stage.remote_head("feature");
    stage.tick();

    stage.is_ready(1);
    let head = stage.remote_head("feature");
    let events = play
        .events()
        .join("\n")
        .replace(&head[..10], "HEAD")
        .replace(&before[..10], "BEFORE");
    insta::assert_snapshot!(events, @r"
    state_changed: Add feature added in state awaiting_pr_feedback
    pr_adopted: ada/calc#1 adopted by watch
    work_created: code_review queued: Review Add feature
    state_changed: awaiting_pr_feedback → reviewing_pr (review_claimed)
    work_claimed: code_review w1 claimed
    run_started: r1 of w1 started
    run_finished: r1 ended (agent)
    work_completed: code_review w1 completed
    work_rejected: changes requested: work.txt is not fixed
    state_changed: reviewing_pr → awaiting_pr_feedback (review_rejected)
    review_posted: posted review:v1: https://github.com/ada/calc/pull/1#pullrequestreview-1005
    work_created: review_fix queued: Fix Add feature
    state_changed: awaiting_pr_feedback → addressing_feedback (fix_created)
    fix_created: fix 1 of 2 created from 1 rejection
    work_claimed: review_fix w2 claimed
    run_started: r2 of w2 started
    run_finished: r2 ended (agent)
    work_completed: review_fix w2 completed
    fix_pushed: fix 1 pushed: 1 file in 1 commit
    state_changed: addressing_feedback → awaiting_pr_feedback (fix_finished)
    work_created: code_review queued: Review Add feature
    review_requeued: review of HEAD queued, fix 1/2
    state_changed: awaiting_pr_feedback → reviewing_pr (review_claimed)
    work_claimed: code_review w3 claimed
    run_started: r3 of w3 started
    run_finished: r3 ended (agent)
    work_completed: code_review w3 completed
    work_approved: approved: it is fixed now
    state_changed: reviewing_pr → ready_for_human_review (review_approved)
    posted: posted note:w2: https://github.com/ada/calc/pull/1#issuecomment-1007
    review_posted: posted review:v2: https://github.com/ada/calc/pull/1#pullrequestreview-1008
    ");
    let item = play
        .world
        .sqlite("SELECT item_id FROM work_items WHERE source = 'review_fix'");
    let mut metadata = play.metadata(&item);
    let comments = metadata["review_comments"].take();
    assert!(
        comments
            .as_str()
            .unwrap()
            .contains("work.txt:1 say fixed here"),
        "{comments}"
    );
    let expected = json!({
        "pr_number": 1,
        "repo": REPO,
        "branch": "feature",
        "worktree_path": play.worktree,
        "fix_cycle": 0,
        "max_fix_cycles": 2,
        "review_comments": null,
        "implementation_work_item_id": "w900",
        "project_id": "calc",
    });
    assert_eq!(metadata, expected, "nine keys, no more, no less");
    assert_eq!(
        play.noted("fix.pwd").trim(),
        play.worktree.to_str().unwrap()
    );
    assert_eq!(
        play.world
            .git(&play.repo, &["worktree", "list"])
            .lines()
            .count(),
        worktrees
    );

    assert_eq!(stage.pushes(), 1, "the branch was moved once");
    assert_eq!(
        stage.subjects(),
        ["add work.txt", "Address review feedback (cycle 1)"]
    );
    let trailers = play.world.git(
        &stage.remote,
        &["log", "-1", "--format=%(trailers:unfold)", "feature"],
    );
    let expected = format!("Remand-Change: c1\nRemand-Item: {item}\nRemand-Cycle: 1");
    assert_eq!(trailers.trim(), expected);

    let again = play
        .world
        .sqlite("SELECT item_id FROM work_items WHERE source = 'code_review' AND fix_cycle = 1");
    let expected = json!({
        "pr_number": 1, "repo": REPO, "branch": "feature", "worktree_path": play.worktree, "fix_cycle": 1,
        "max_fix_cycles": 2, "implementation_work_item_id": "w900", "project_id": "calc",
        "head": stage.remote_head("feature"),
    });
    assert_eq!(play.metadata(&again), expected);
    let run = play.world.sqlite(&format!(
        "SELECT run_id FROM runs WHERE item_id = '{again}'"
    ));
    assert!(
        play.prompt_of_run(&run).contains("+fixed"),
        "the review was not given the new diff"
    );
    assert_eq!(
        play.count("events WHERE event_type = 'feedback_received'"),
        0,
        "what we post is ours"
    );
}

/// US-4, FR-2, FR-3, FR-8: a person's review with its inline comments is one rejection and one fix,
/// whose prompt has the plan, the review's body, each comment with path, line and hunk, and what to
/// do; all of it except the last in fences.
#[test]
fn a_persons_review_is_one_fix_that_is_told_all_of_it() {
    let stage = PullPlay::unwatched(&quiet());
    let play = &stage.play;
    let folder = play.worktree.join(".specify/specs/feature");
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in [
        ("spec.md", "users can multiply"),
        ("plan.md", "first the parser"),
        ("tasks.md", "- [ ] T001"),
    ] {
        play.world
            .commit(&folder, file, text, &format!("add {file}"));
    }
    play.world
        .git(&play.worktree, &["push", "--quiet", "origin", "feature"]);
    stage.watch();
    let body = "The rounding is wrong.\n\nIt is wrong in two places.";
    let inline = [
        ("work.txt", 1, "say fixed here"),
        ("work.txt", 1, "and say it twice"),
    ];
    stage.review("bob", "CHANGES_REQUESTED", body, &inline);
    stage.tick();

    stage.is_ready(1);
    assert_eq!(
        play.count("events WHERE event_type = 'work_rejected'"),
        1,
        "{:#?}",
        play.events()
    );
    let rejected = play.world.sqlite(
        "SELECT actor_id || ': ' || summary FROM events WHERE event_type = 'work_rejected'",
    );
    assert_eq!(
        rejected,
        "github:bob: bob requests changes: The rounding is wrong."
    );
    // NFR-4: the event that creates a fix summarises the review.
    let created = play
        .world
        .sqlite("SELECT metadata ->> 'context' FROM events WHERE event_type = 'fix_created'");
    let expected = json!([{
        "rejection_id": "j1", "by": "github:bob", "summary": "bob requests changes: The rounding is wrong.", "findings": 2,
        "severity": "medium", "paths": ["work.txt"],
    }]);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&created).unwrap(),
        expected
    );
    let prompt = stage.fix_prompt();
    for part in [
        // 1. the task
        "users can multiply",
        "first the parser",
        "- [ ] T001",
        // 2. the complete review
        "The rounding is wrong.\n\nIt is wrong in two places.",
        // 3. each comment with its location and its lines
        "at: work.txt:1\nsay fixed here\n\nThe comment refers to these lines of the diff:\n@@ -1,1 +1,1 @@\n the line",
        "at: work.txt:1\nand say it twice\n\nThe comment refers to these lines of the diff:\n@@ -1,1 +1,1 @@\n the line",
    ] {
        is_fenced(&prompt, part);
    }
    for part in [
        // 4. what to do
        "Address every comment and every finding above, the most severe first.",
        "Do not touch unrelated code",
        // 5. the branch
        "This branch already has a pull request, number 1. Stay on it. Do not create another branch or pull request.",
        "You may commit",
        "pushes to the pull request's branch",
    ] {
        assert!(prompt.contains(part), "{part:?} is not in\n{prompt}");
    }
    let read: Vec<String> = stage
        .forge
        .log()
        .into_iter()
        .filter(|one| one.method == "GET")
        .map(|one| one.path)
        .collect();
    for path in ["pulls/1/reviews", "pulls/1/comments", "issues/1/comments"] {
        assert!(
            read.iter()
                .any(|one| one.contains(&format!("repos/{REPO}/{path}"))),
            "{path} was not asked for: {read:?}"
        );
    }
}

/// US-3, FR-5: two fixes, three reviews, then a person, with the text of the requirement and one
/// note on the pull request; nothing more is made. A comment of that person on the pull request
/// resumes it.
#[test]
fn at_the_maximum_a_person_is_asked_on_the_pull_request_and_sends_it_on_there() {
    let stage = PullPlay::new(&Script {
        reviewer: NEVER_SATISFIED,
        ..Script::default()
    });
    let play = &stage.play;
    stage.tick();

    assert_eq!(play.state(), "escalated", "{:#?}", play.events());
    let made = "SELECT group_concat(source || ':' || status, ' ') FROM (SELECT * FROM work_items ORDER BY rowid)";
    let expected = "code_review:completed review_fix:completed code_review:completed review_fix:completed code_review:completed";
    assert_eq!(play.world.sqlite(made), expected);
    let marked = "SELECT item_id FROM work_items WHERE json_type(metadata, '$.human_review_required') = 'true'";
    assert_eq!(
        play.world.sqlite(marked),
        "w5",
        "the item whose review was rejected last"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT human_review_required || ' ' || final_verdict FROM changes"),
        "1 MAX_CYCLES_REACHED"
    );
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'escalated'");
    assert_eq!(
        told,
        "PR #1 exceeded max fix cycles (2) — requires human review"
    );
    let events = play.events().len();
    stage.tick();
    stage.tick();
    assert_eq!(
        play.events().len(),
        events,
        "nothing more is created: {:#?}",
        play.events()
    );
    let notes = stage.bodies("issues/1/comments");
    let of_the_end = notes
        .iter()
        .filter(|note| note.contains("needs a person"))
        .count();
    assert_eq!(of_the_end, 1, "{notes:#?}");
    assert!(
        notes
            .iter()
            .any(|note| note.contains("exceeded max fix cycles (2)")),
        "{notes:#?}"
    );

    play.reviewer(APPROVES);
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "Leave the loop and use a table.",
        &[],
    );
    stage.tick();
    stage.is_ready(3);
    assert!(
        stage.fix_prompt().contains("This is fix 1 of at most 2."),
        "a person's word begins a round"
    );
}

/// US-5: an approved pull request makes no fix and no rejection, and nothing is pushed.
#[test]
fn an_approved_pull_request_makes_no_fix() {
    let stage = PullPlay::new(&quiet());
    stage.tick();
    stage.tick();
    stage.is_ready(0);
    assert_eq!(stage.play.count("rejections"), 0);
    assert_eq!(stage.play.count("work_items"), 1);
    assert_eq!(stage.pushes(), 0);
}

/// NFR-2: the evaluators run repeatedly before the fix is dispatched: one rejection, one item.
/// While paused, nothing runs and nothing is posted; when resumed, it does.
#[test]
fn the_evaluators_run_many_times_and_make_one_fix() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    play.world.remand(&["pause", "c1"]).ok();
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "say fixed",
        &[("work.txt", 1, "here")],
    );
    for _ in 0..4 {
        stage.tick();
    }
    assert_eq!(play.count("events WHERE event_type = 'work_rejected'"), 1);
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    assert_eq!(play.count("runs"), 0, "{:#?}", play.events());
    assert!(
        stage.forge.writes().is_empty(),
        "{:?}",
        stage.forge.writes()
    );
    assert!(play.answer().contains("paused"), "{}", play.answer());
    play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    assert!(
        stage.forge.writes_to("pulls/1/comments") == 1,
        "{:?}",
        stage.forge.writes()
    );
}

/// FR-7, FR-4: a missing worktree of the user fails the item with its reason; none is created in
/// its place, nothing is pushed, and it continues when the worktree is back.
#[test]
fn a_fix_whose_own_worktree_is_gone_fails_and_makes_none() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    play.world.git(
        &play.repo,
        &["worktree", "remove", play.worktree.to_str().unwrap()],
    );
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.tick();
    assert_eq!(play.state(), "escalated");
    let failed = play
        .world
        .sqlite("SELECT failure_reason FROM work_items WHERE source = 'review_fix'");
    assert_eq!(
        failed,
        format!("the worktree {} no longer exists", play.worktree.display())
    );
    assert_eq!(
        play.world
            .git(&play.repo, &["worktree", "list"])
            .lines()
            .count(),
        1
    );
    assert_eq!((stage.fixes(), stage.pushes()), ((0, 0), 0));
    play.do_what_it_says();
    play.world.remand(&["retry", "c1"]).ok();
    stage.tick();
    stage.is_ready(1);
}

/// NFR-3, FR-8: comments are fetched within a limit: a `gh` that hangs is terminated, the change is
/// held with the reason, and it continues when GitHub responds again.
#[test]
fn a_gh_that_hangs_ends_within_its_limit_and_holds() {
    let stage = PullPlay::new(&Script {
        github: "call_s = 1",
        ..rejecting()
    });
    let play = &stage.play;
    stage
        .forge
        .fault(json!({ "path": "pulls/1/comments", "times": 1000, "then": "hang" }));
    let begun = Instant::now();
    stage.tick();
    assert!(
        begun.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun.elapsed()
    );
    play.is_held("pulls/1/comments");
    assert_eq!(play.count("runs"), 0, "nothing runs without its feedback");
    assert_eq!(
        play.world
            .sqlite("SELECT max(attempt) || ' ' || max(fix_cycle) FROM work_items"),
        "0 0"
    );
    stage.forge.clear_faults();
    stage.tick();
    stage.is_ready(1);
}

/// NFR-1: the four lines are the contract of a review of a pull request too. The review agent of
/// the Success table stays.
#[test]
fn a_reviewer_that_knows_only_the_four_lines_is_understood_on_a_pull_request() {
    let reviewer = r#"
if grep -q fixed work.txt; then
    printf 'REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: fine now\n'
else
    printf 'The loop never ends.\n\nREVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 1\nSEVERITY: high\nSUMMARY: endless loop\n'
fi
"#;
    let stage = PullPlay::new(&Script {
        reviewer,
        ..Script::default()
    });
    stage.tick();
    stage.is_ready(1);
    is_fenced(&stage.fix_prompt(), "The loop never ends.");
    let posted = stage.bodies("pulls/1/reviews");
    assert!(
        posted.len() == 2 && posted[0].contains("endless loop"),
        "{posted:#?}"
    );
}
