//! The feedback loop, requirement by requirement, through the binary: a rejected review becomes a
//! fix, the fix a new review, and at the limit a person is asked.

use serde_json::json;

use crate::support::play::{NEVER_SATISFIED, Play, Script};

/// Reports two findings in two places, until `work.txt` contains "fixed".
const TWO_FINDINGS: &str = r#"
if grep -q fixed work.txt; then says approved "both are repaired"; exit; fi
echo "I read the whole change and the loop around it; these are my reasons in prose."
says changes_requested "two things are wrong" "$(finding work.txt 1 'the first line lies'), $(finding README.md 7 'the second place of the lie')"
"#;

/// Records its prompt and its working directory.
const NOTES_AND_FIXES: &str = r#"
cat >"$PROMPTS/fix.prompt"
pwd >"$PROMPTS/fix.pwd"
echo fixed >>work.txt
"#;

/// US-1, FR-1: one item for the rejection, with exactly the nine keys, run in the existing
/// worktree.
#[test]
fn a_rejected_review_becomes_one_fix_in_the_same_worktree() {
    let play = Play::new(&Script {
        reviewer: TWO_FINDINGS,
        fixer: NOTES_AND_FIXES,
        ..Script::default()
    });
    play.world
        .sqlite("UPDATE changes SET implementation_item_id = 'w900'");
    let worktrees = play
        .world
        .git(&play.repo, &["worktree", "list"])
        .lines()
        .count();
    play.tick().report();

    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    let item = play
        .world
        .sqlite("SELECT item_id FROM work_items WHERE source = 'review_fix'");
    let mut metadata = play.metadata(&item);
    let comments = metadata["review_comments"].take();
    let comments = comments.as_str().unwrap();
    for part in [
        "two things are wrong",
        "work.txt:1 the first line lies",
        "README.md:7 the second place of the lie",
    ] {
        assert!(comments.contains(part), "{part:?} is not in {comments}");
    }
    let expected = json!({
        "pr_number": null,
        "repo": null,
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
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "-1", "--format=%s"]),
        "Address review feedback (cycle 1)"
    );
    assert_eq!(
        play.world.git(&play.worktree, &["status", "--porcelain"]),
        "",
        "all of it is committed"
    );
    play.check();
}

/// US-2, FR-6: the next review is of the new head, one cycle further, and refers to the origin of
/// the work.
#[test]
fn a_finished_fix_is_reviewed_again_one_cycle_further() {
    let play = Play::new(&Script::default());
    play.world
        .sqlite("UPDATE changes SET implementation_item_id = 'w900'");
    let before = play.world.git(&play.worktree, &["rev-parse", "HEAD"]);
    play.tick().report();

    let head = play.world.git(&play.worktree, &["rev-parse", "HEAD"]);
    assert_ne!(head, before);
    let reviews = "SELECT group_concat(item_id || ':' || fix_cycle || ':' || status, ' ') FROM
        (SELECT * FROM work_items WHERE source = 'code_review' ORDER BY created_at)";
    assert_eq!(play.world.sqlite(reviews), "w1:0:completed w3:1:completed");
    let metadata = play.metadata("w3");
    let expected = json!({
        "pr_number": null, "repo": null, "branch": "feature", "worktree_path": play.worktree, "fix_cycle": 1, "max_fix_cycles": 2,
        "implementation_work_item_id": "w900", "project_id": "calc", "head": head,
    });
    assert_eq!(metadata, expected);
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle || ' ' || total_fixes FROM changes"),
        "1 1"
    );

    let run = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE item_id = 'w3'");
    assert_eq!(
        play.world
            .sqlite("SELECT head_before FROM runs WHERE item_id = 'w3'"),
        head
    );
    let prompt = play.prompt_of_run(&run);
    assert!(
        prompt.contains("+fixed"),
        "the review was not given the new diff: {prompt}"
    );
    assert!(prompt.contains("after fix 1 of at most 2"), "{prompt}");
    assert_eq!(
        play.world
            .sqlite("SELECT cycle || ' ' || head FROM reviews WHERE item_id = 'w3'"),
        format!("1 {head}")
    );
}

/// US-3, FR-2, FR-5: two fixes, three reviews, then a person: marked on the item and on the change,
/// and no more fixes are made.
#[test]
fn at_the_maximum_a_person_is_asked_and_nothing_more_is_made() {
    let play = Play::new(&Script {
        reviewer: NEVER_SATISFIED,
        ..Script::default()
    });
    play.tick().report();

    assert_eq!(play.state(), "escalated");
    let made = "SELECT group_concat(source || ':' || status, ' ') FROM (SELECT * FROM work_items ORDER BY created_at)";
    let expected = "code_review:completed review_fix:completed code_review:completed review_fix:completed code_review:completed";
    assert_eq!(play.world.sqlite(made), expected);
    let marked = "SELECT item_id FROM work_items WHERE json_type(metadata, '$.human_review_required') = 'true'";
    assert_eq!(
        play.world.sqlite(marked),
        "w5",
        "the item whose review was rejected last"
    );
    let change =
        "SELECT human_review_required || ' ' || final_verdict || ' ' || fix_cycle FROM changes";
    assert_eq!(play.world.sqlite(change), "1 MAX_CYCLES_REACHED 2");
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'escalated'");
    assert_eq!(
        told,
        "c1 exceeded max fix cycles (2) — requires human review"
    );

    let events = play.events().len();
    play.tick().report();
    assert_eq!(play.events().len(), events, "nothing more is created");
    assert!(
        play.why().contains("exceeded max fix cycles (2)"),
        "{}",
        play.why()
    );
    play.check();
}

/// FR-5: the limit is that of the change, then of the project, then of the evaluator, then the
/// global one.
#[test]
fn the_evaluator_says_how_many_fixes_a_change_may_have() {
    let tables = "[loop]\nmax_fix_cycles = 4\n[projects.other]\nmax_fix_cycles = 6\n";
    let play = Play::without_change(&Script {
        reviewer: NEVER_SATISFIED,
        tables,
        ..Script::default()
    });
    let max_of = |branch: &str| {
        play.world.sqlite(&format!(
            "SELECT max_fix_cycles FROM changes WHERE branch = '{branch}' ORDER BY rowid DESC LIMIT 1"
        ))
    };
    play.another("configured");
    assert_eq!(max_of("configured"), "4");

    let folder = play.world.root().join("config/remand/evaluators");
    std::fs::create_dir(&folder).unwrap();
    let own = "kind = \"review_feedback\"\non = [\"work_rejected\", \"work_approved\"]\n[config]\nmax_fix_cycles = 1\n";
    std::fs::write(folder.join("review_feedback.toml"), own).unwrap();
    play.world.remand_in(&play.worktree, &["review"]).ok();
    assert_eq!(max_of("feature"), "1");
    let named = play.world.worktree(&play.repo, "named");
    play.world
        .remand_in(&named, &["review", "--max-cycles", "3"])
        .ok();
    assert_eq!(max_of("named"), "3");
    let other = play.world.repo("other");
    play.world
        .remand(&["project", "add", other.to_str().unwrap()])
        .ok();
    let projects_own = play.world.worktree(&other, "projects-own");
    play.world.remand_in(&projects_own, &["review"]).ok();
    assert_eq!(max_of("projects-own"), "6");

    play.tick().report();
    let fixes = "SELECT count(*) FROM work_items JOIN changes USING (change_id) WHERE source = 'review_fix' AND branch = ";
    assert_eq!(
        play.world.sqlite(&format!("{fixes}'feature'")),
        "1",
        "one fix, then a person"
    );
    let told = "SELECT group_concat(change_id) FROM events WHERE summary LIKE '% exceeded max fix cycles (1) — requires human review'";
    let ids =
        "SELECT group_concat(change_id) FROM changes WHERE branch IN ('configured', 'feature')";
    let (told, ids) = (play.world.sqlite(told), play.world.sqlite(ids));
    assert_eq!(
        told, ids,
        "also the one that entered before the evaluator's number was written"
    );
}

/// FR-5: a raised limit applies immediately to a change without its own, and `why` names its
/// origin.
#[test]
fn a_raised_number_of_fixes_holds_for_changes_that_are_under_way() {
    let tables = "[loop]\nmax_fix_cycles = 1\n";
    let play = Play::without_change(&Script {
        reviewer: NEVER_SATISFIED,
        tables,
        ..Script::default()
    });
    play.world.remand_in(&play.worktree, &["review"]).ok();
    let own = play.world.worktree(&play.repo, "own");
    play.world
        .remand_in(&own, &["review", "--max-cycles", "1"])
        .ok();
    let why = |id: &str| play.world.remand(&["why", id]).report().words();
    let config = play.world.root().join("config/remand/config.toml");
    let set = |from: &str, to: &str| {
        let settings = std::fs::read_to_string(&config).unwrap();
        assert!(settings.contains(from), "{settings}");
        std::fs::write(&config, settings.replace(from, to)).unwrap();
    };

    set("max_fix_cycles = 1", "max_fix_cycles = 2");
    play.tick().report();
    let fixes = "SELECT change_id, total_fixes, max_fix_cycles FROM changes ORDER BY change_id";
    assert_eq!(play.world.sqlite(fixes), "c1|2|2\nc2|1|1");
    assert!(
        why("c1").contains("maximum fixes per round: 2 (2 from `loop.max_fix_cycles` (/"),
        "{}",
        why("c1")
    );
    assert!(
        why("c2").contains("maximum fixes per round: 1 (1 set by a person for c2)"),
        "{}",
        why("c2")
    );
    let told = "SELECT change_id || ': ' || summary FROM events WHERE metadata ->> 'action' = 'max_fix_cycles'";
    let told = play.world.sqlite(told);
    assert!(
        told.starts_with("c1: fixes per round: at most 2, from `loop.max_fix_cycles` (/")
            && !told.contains("c2"),
        "{told}"
    );

    play.world.remand(&["cycles", "c2", "1"]).ok();
    assert!(
        why("c2")
            .contains("maximum fixes per round: 2 (1 set by a person for c2, 1 added by a person)")
    );
    set("max_fix_cycles = 2", "max_fix_cycles = 3");
    play.tick().report();
    assert_eq!(
        play.world
            .sqlite("SELECT state FROM changes WHERE change_id = 'c1'"),
        "escalated",
        "a person was asked"
    );
    assert!(
        why("c1").contains("The limit has since been raised to 3: `remand retry c1` continues"),
        "{}",
        why("c1")
    );
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    let fixes = "SELECT total_fixes > 2, state FROM changes WHERE change_id = 'c1'";
    assert_eq!(play.world.sqlite(fixes), "1|escalated", "{}", why("c1"));
    // Fixes that were already made do not exceed the limit.
    set("max_fix_cycles = 3", "max_fix_cycles = 0");
    play.tick().report();
    assert_eq!(
        play.world.sqlite("SELECT max_fix_cycles FROM changes"),
        "3\n2"
    );
    let told = play.world.held_json(&["why", "c1"]);
    assert_eq!(told["fix_bound"]["most"], 3, "{told}");
    play.check();
}

/// US-4, FR-3: spec, plan and tasks; the whole review; each comment with its location; what to do,
/// and what not; the branch.
#[test]
fn the_fix_is_told_all_that_it_needs() {
    let play = Play::without_change(&Script {
        reviewer: TWO_FINDINGS,
        fixer: NOTES_AND_FIXES,
        ..Script::default()
    });
    let folder = play.worktree.join(".specify/specs/feature");
    std::fs::create_dir_all(&folder).unwrap();
    for (file, text) in [
        ("spec.md", "users can multiply"),
        ("plan.md", "first the parser, then the rest"),
        ("tasks.md", "- [ ] T001 write the parser"),
    ] {
        play.world
            .commit(&folder, file, text, &format!("add {file}"));
    }
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();

    let prompt = play.noted("fix.prompt");
    let run = play.world.sqlite(
        "SELECT run_id FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix'",
    );
    assert_eq!(
        prompt,
        play.prompt_of_run(&run),
        "what is kept is what the agent read"
    );
    for part in [
        // 1. the task
        "users can multiply",
        "first the parser, then the rest",
        "- [ ] T001 write the parser",
        // 2. the complete review
        "I read the whole change and the loop around it; these are my reasons in prose.",
        "SUMMARY: two things are wrong",
        // 3. each comment with its location
        "at: work.txt:1\nthe first line lies",
        "at: README.md:7\nthe second place of the lie",
        // 4. what to do
        "Address every comment and every finding above, the most severe first.",
        "Do not touch unrelated code",
        // 5. the branch
        "Do not create another branch or a pull request",
        "You may commit",
        "This is fix 1 of at most 2.",
    ] {
        assert!(prompt.contains(part), "{part:?} is not in\n{prompt}");
    }
}

/// US-5: an approved change makes no fix and no rejection, and is ready for a person.
#[test]
fn an_approved_change_makes_no_fix() {
    let play = Play::new(&Script {
        reviewer: "says approved 'all is well'",
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(play.count("work_items WHERE source <> 'code_review'"), 0);
    assert_eq!(play.count("rejections"), 0);
    assert_eq!(play.count("events WHERE event_type = 'work_rejected'"), 0);
    assert_eq!(play.count("events WHERE event_type = 'work_approved'"), 1);
    play.tick().report();
    assert_eq!(play.count("work_items"), 1);
}

/// FR-4: an agent that fails leaves an event and a decision for a person, and is not run again
/// automatically.
#[test]
fn a_fix_that_fails_is_told_and_not_tried_again() {
    let fixer = "cat >/dev/null\necho half >>work.txt\necho 'no such model' >&2\nexit 3\n";
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    let head = play.world.git(&play.worktree, &["rev-parse", "HEAD"]);
    play.tick().report();
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert_eq!(
        play.count("runs JOIN work_items USING (item_id) WHERE source = 'review_fix'"),
        1
    );
    let told = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'work_failed'");
    assert_eq!(
        told,
        "review_fix w2 failed: the fix agent `fixer` failed: exited with status 3: no such model"
    );
    assert_eq!(
        play.count("work_items WHERE source = 'code_review' AND fix_cycle > 0"),
        0,
        "nothing to review again"
    );
    assert_eq!(play.world.git(&play.worktree, &["rev-parse", "HEAD"]), head);
    assert_eq!(
        play.world.git(&play.worktree, &["status", "--porcelain"]),
        ""
    );
    play.check();
}

/// FR-7, FR-4: a missing worktree fails the item with its reason; none is created in its place.
#[test]
fn a_fix_whose_worktree_is_gone_fails_gracefully() {
    let play = Play::new(&Script::default());
    play.world.remand(&["work"]).report();
    play.world.git(
        &play.repo,
        &["worktree", "remove", play.worktree.to_str().unwrap()],
    );
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    let failed = play
        .world
        .sqlite("SELECT failure_reason FROM work_items WHERE source = 'review_fix'");
    assert_eq!(
        failed,
        format!("the worktree {} no longer exists", play.worktree.display())
    );
    assert!(!play.worktree.exists(), "a fix never makes a worktree");
    assert_eq!(
        play.world
            .git(&play.repo, &["worktree", "list"])
            .lines()
            .count(),
        1
    );
    assert_eq!(
        play.count("runs JOIN work_items USING (item_id) WHERE source = 'review_fix'"),
        0,
        "no agent ran"
    );

    play.world.git(
        &play.repo,
        &[
            "worktree",
            "add",
            "-q",
            play.worktree.to_str().unwrap(),
            "feature",
        ],
    );
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "brought back, it goes on: {:#?}",
        play.events()
    );
    play.check();
}

/// NFR-1: a reviewer that knows only the four lines is understood, and every reviewer is asked for
/// them.
#[test]
fn the_four_lines_are_the_contract_of_a_review() {
    let reviewer = r#"
if grep -q fixed work.txt; then
    printf 'REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: fine now\n'
else
    printf 'The loop in work.txt never ends.\n\nREVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 2\nSEVERITY: high\nSUMMARY: endless loop in work.txt\n'
fi
"#;
    let play = Play::new(&Script {
        reviewer,
        fixer: NOTES_AND_FIXES,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let verdicts = "SELECT group_concat(verdict || ': ' || summary, ', ') FROM (SELECT * FROM reviews ORDER BY created_at)";
    assert_eq!(
        play.world.sqlite(verdicts),
        "changes_requested: endless loop in work.txt, approved: fine now"
    );
    assert!(
        play.noted("fix.prompt")
            .contains("The loop in work.txt never ends."),
        "the feedback has no JSON, only prose"
    );
    let asked = play.prompt_of_run("r1");
    for line in [
        "REVIEW_RESULT: approved | changes_requested",
        "\nFINDINGS_COUNT:",
        "\nSEVERITY:",
        "\nSUMMARY:",
    ] {
        assert!(asked.contains(line), "{line:?} is not asked for");
    }
}

/// NFR-4, FR-2: each action is an event, in the order in which it happened.
#[test]
fn the_whole_loop_can_be_read_from_its_events() {
    let play = Play::new(&Script::default());
    play.tick().report();
    let head = play.world.git(&play.worktree, &["rev-parse", "HEAD"]);
    let events = play.events().join("\n").replace(&head[..10], "HEAD");
    insta::assert_snapshot!(events, @r"
    state_changed: Feature added in state pending_self_review
    work_created: code_review queued: Review Feature
    state_changed: pending_self_review → self_reviewing (review_claimed)
    work_claimed: code_review w1 claimed
    run_started: r1 of w1 started
    run_finished: r1 ended (agent)
    work_completed: code_review w1 completed
    work_rejected: changes requested: work.txt is not fixed
    state_changed: self_reviewing → self_review_failed (review_rejected)
    work_created: review_fix queued: Fix Feature
    state_changed: self_review_failed → refining (fix_created)
    fix_created: fix 1 of 2 created from 1 rejection
    work_claimed: review_fix w2 claimed
    run_started: r2 of w2 started
    run_finished: r2 ended (agent)
    work_completed: review_fix w2 completed
    fix_committed: fix 1 committed: 1 file in 1 commit
    state_changed: refining → pending_self_review (fix_finished)
    work_created: code_review queued: Review Feature
    review_requeued: review of HEAD queued, fix 1/2
    state_changed: pending_self_review → self_reviewing (review_claimed)
    work_claimed: code_review w3 claimed
    run_started: r3 of w3 started
    run_finished: r3 ended (agent)
    work_completed: code_review w3 completed
    work_approved: approved: it is fixed now
    state_changed: self_reviewing → self_review_passed (review_approved)
    state_changed: self_review_passed → ready_for_human_review (local_only)
    ");
}

/// NFR-4: an escalation is an event too, with the reason and what to decide.
#[test]
fn an_escalation_can_be_read_from_its_events() {
    let play = Play::without_change(&Script {
        reviewer: NEVER_SATISFIED,
        ..Script::default()
    });
    play.world
        .remand_in(&play.worktree, &["review", "--max-cycles", "0"])
        .ok();
    play.tick().report();
    let last = "SELECT event_type || ' by ' || actor_id || ': ' || summary FROM events ORDER BY id DESC LIMIT 2";
    assert_eq!(
        play.world.sqlite(last),
        "escalated by remand: c1 exceeded max fix cycles (0) — requires human review\n\
         state_changed by remand: self_review_failed → escalated (bound_reached)"
    );
    let metadata = play
        .world
        .sqlite("SELECT metadata FROM events WHERE event_type = 'escalated'");
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(metadata["bound"], "cycles");
    assert_eq!(metadata["from"], "self_review_failed");
    assert!(
        metadata["decide"]
            .as_str()
            .unwrap()
            .contains("remand budget c1 --fixes +1"),
        "{metadata}"
    );
}

/// US-4: in ivy's layout the branch `specflow-f-020` has its plan in `f-020-…`, next to other
/// features; the event of a run names the directory, or the reason why there is none.
#[test]
fn the_plan_is_found_by_the_feature_number_of_the_branch() {
    let play = Play::without_change(&Script::default());
    let add = |branch: &str| {
        let worktree = play.world.worktree(&play.repo, branch);
        for (folder, text) in [
            ("f-019-specflow-dispatch", "dispatch by specflow"),
            (
                "f-020-pr-review-feedback-loop",
                "the loop sends rejected work back",
            ),
            ("f-021-review-metrics", "count the reviews"),
        ] {
            let folder = worktree.join(".specify/specs").join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            play.world.commit(&folder, "spec.md", text, "add a spec");
        }
        play.world
            .remand_in(&worktree, &["review", "--title", branch])
            .ok();
    };
    add("specflow-f-020");
    add("unrelated-work");
    play.tick().report();
    let plan = |change: &str| {
        let sql = format!(
            "SELECT DISTINCT metadata ->> '$.plan.folder' || ' ' || (metadata ->> '$.plan.reason') FROM events
             WHERE event_type = 'run_started' AND change_id = '{change}'"
        );
        play.world.sqlite(&sql)
    };
    assert_eq!(
        plan("c1"),
        ".specify/specs/f-020-pr-review-feedback-loop equal_number"
    );
    let runs = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE change_id = 'c1'");
    assert!(runs.lines().count() >= 3, "{runs}");
    for run in runs.lines() {
        let prompt = play.prompt_of_run(run);
        assert!(
            prompt.contains("the loop sends rejected work back"),
            "{run} was not given the plan"
        );
        assert!(
            !prompt.contains("## .specify/specs/f-019"),
            "{run} was given another plan"
        );
    }
    let none = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'skipped' AND change_id = 'c2' ORDER BY id LIMIT 1");
    assert!(
        none.contains("runs with no plan: no directory matches the branch"),
        "{none}"
    );
}

/// Everything that a reviewer wrote about a finding reaches the fixer, the next reviewer and people.
#[test]
fn title_failure_and_range_of_a_finding_reach_the_fixer_and_people() {
    let play = Play::new(&Script {
        reviewer: r#"
if grep -q fixed work.txt; then says approved "it is fixed now"
else says changes_requested "work.txt is not fixed" '{"severity": "high", "category": "logic", "path": "work.txt", "line": 1, "line_end": 3, "title": "Wrong word", "text": "say fixed here", "failure": "a reader sees work", "suggestion": "write fixed"}'; fi
"#,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(play.state(), "ready_for_human_review");
    let fix = play.prompt_of_run("r2");
    let finding = "at: work.txt:1-3\nWrong word\n\nsay fixed here\nfails with: a reader sees work\nsuggested: write fixed\n";
    assert!(fix.contains(finding), "{fix}");
    let again = play.prompt_of_run("r3");
    let finding =
        "at: work.txt:1-3\nWrong word\n\nsay fixed here\nfails with: a reader sees work\n";
    assert!(again.contains(finding), "{again}");
    assert!(again.contains("\"line_end\": 14"), "{again}");

    let world = &play.world;
    let shown = world.json(&["show", "f1"]);
    assert_eq!(
        (
            &shown["title"],
            &shown["failure"],
            &shown["line"],
            &shown["line_end"]
        ),
        (
            &json!("Wrong word"),
            &json!("a reader sees work"),
            &json!(1),
            &json!(3)
        )
    );
    insta::assert_snapshot!(world.remand(&["show", "f1"]).ok().stdout, @r"
    f1 [resolved] high work.txt:1-3 Wrong word: say fixed here
    change     c1
    category   logic
    fails with a reader sees work
    suggestion write fixed
    resolution judged
    ");
    let rejection = world.remand(&["show", "j1"]).ok().stdout;
    assert!(
        rejection.contains("finding    f1 high work.txt:1-3 Wrong word: say fixed here\n"),
        "{rejection}"
    );
    assert_eq!(
        world.json(&["show", "j1"])["metadata"]["findings"][0]["failure"],
        "a reader sees work"
    );
}

/// Other programs add keys to their events: everything that shows metadata shows them.
#[test]
fn unknown_keys_of_an_event_are_shown_with_its_rejection_and_its_fix() {
    let play = Play::new(&Script {
        reviewer: "says approved fine\n",
        ..Script::default()
    });
    play.tick().report();
    let metadata =
        json!({ "body": "say fixed", "colour": "blue", "findings": [{ "text": "x", "cwe": 79 }] });
    play.world.sqlite(&format!(
        "INSERT INTO events (event_type, target_type, target_id, summary, metadata)
         VALUES ('work_rejected', 'change', 'c1', 'say fixed', '{metadata}')"
    ));
    let event = play.world.sqlite("SELECT max(id) FROM events");
    play.tick().report();
    assert_eq!(play.count("rejections WHERE state = 'fixed'"), 1);
    let item = play
        .world
        .sqlite("SELECT item_id FROM rejections WHERE rejection_id = 'j1'");
    let world = &play.world;
    assert_eq!(world.json(&["show", &event])["metadata"], metadata);
    assert_eq!(world.json(&["show", "j1"])["metadata"], metadata);
    assert_eq!(
        world.json(&["show", &item])["rejections"][0]["metadata"],
        metadata
    );
}
