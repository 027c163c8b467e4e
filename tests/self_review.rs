//! Settings of the self-review and of what follows it, each with its effect through the binary.

use crate::support::forge::Review;
use crate::support::play::{NEVER_SATISFIED, REVIEWS_FIXED, Script};
use crate::support::pull_play::{APPROVES, PullPlay};

const BRANCH: &str = "remand/add-a-file";
const SENTENCE: &str = "This PR has been automatically refined and is ready for human review";
const READY: &str = "is ready for human review";

/// Implements and fixes; "bad" is what gates refuse, until it is fixed.
const WORKS: &str = r#"
cat >/dev/null
if [ "$REMAND_PHASE" = implement ]; then echo bad >work.txt; else echo fixed >work.txt; fi
echo done
"#;

fn added(reviewer: &str, settings: &str, tables: &str, args: &[&str]) -> PullPlay {
    added_with(
        &Script {
            reviewer,
            fixer: WORKS,
            settings,
            tables,
            ..Script::default()
        },
        args,
    )
}

fn added_with(script: &Script<'_>, args: &[&str]) -> PullPlay {
    let stage = PullPlay::unwatched(script);
    let all = [&["add", "Add a file", "-a"], args].concat();
    stage.play.world.remand_in(&stage.play.repo, &all).ok();
    stage
}

#[track_caller]
fn number(stage: &PullPlay) -> i64 {
    let events = stage.play.events().join("\n");
    assert_eq!(stage.play.state(), "ready_for_human_review", "{events}");
    stage.play.check();
    let number = "SELECT pr_number FROM changes WHERE change_id = 'c1'";
    stage.play.world.sqlite(number).parse().unwrap()
}

fn body(stage: &PullPlay) -> String {
    stage.forge.pull(number(stage))["body"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Comments on the pull request that say that it is ready.
fn told_ready(stage: &PullPlay) -> Vec<String> {
    let comments = stage.bodies(&format!("issues/{}/comments", number(stage)));
    comments
        .into_iter()
        .filter(|text| text.contains(READY))
        .collect()
}

/// Has a person send the pull request back.
fn send_back(stage: &PullPlay) {
    let head = stage.remote_head(BRANCH);
    stage.forge.review(
        number(stage),
        &Review {
            by: "bob",
            state: "CHANGES_REQUESTED",
            commit: Some(&head),
            body: "Say please.",
            inline: &[],
        },
    );
}

/// Writes something new for each fix.
const WORKS_AGAIN: &str = "cat >/dev/null\necho \"fixed $REMAND_ITEM\" >>work.txt\necho done\n";

/// S0-11, S0-30, S0-97: the pull request says once per head that it is ready: by a comment after the self-review, and in
/// remand's own review after a fix.
#[test]
fn a_pull_request_says_once_that_it_is_ready() {
    let script = Script {
        reviewer: APPROVES,
        fixer: WORKS_AGAIN,
        ..Script::default()
    };
    let stage = added_with(&script, &[]);
    stage.tick();
    let told = told_ready(&stage);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains(&stage.remote_head(BRANCH)[..10]),
        "{told:?}"
    );
    assert!(!told[0].contains(SENTENCE), "nothing was refined: {told:?}");
    stage.tick();
    assert_eq!(told_ready(&stage), told, "once");
    send_back(&stage);
    stage.tick();
    assert_eq!(told_ready(&stage), told, "the review says it");
    let reviews = stage.bodies(&format!("pulls/{}/reviews", number(&stage)));
    assert_eq!(reviews.len(), 1, "{reviews:?}");
    assert!(reviews[0].contains(SENTENCE), "{reviews:?}");
    let feedback = "feedback WHERE trust <> 'ours' AND author <> 'bob'";
    stage.tick();
    assert_eq!(
        stage.play.count(feedback),
        0,
        "its own words are not feedback"
    );
}

/// S0-11, S0-97: without posted reviews, a comment says it after each round.
#[test]
fn without_posted_reviews_a_comment_says_that_it_is_ready() {
    let script = Script {
        reviewer: APPROVES,
        fixer: WORKS_AGAIN,
        github: "reviews = \"off\"",
        ..Script::default()
    };
    let stage = added_with(&script, &[]);
    stage.tick();
    send_back(&stage);
    stage.tick();
    let told = told_ready(&stage);
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[1].contains(SENTENCE), "{told:?}");
    assert_eq!(stage.forge.writes_to("/reviews"), 0);
}

/// S0-11, S0-30.
#[test]
fn nothing_is_told_if_the_settings_say_so() {
    for off in ["notify_on_ready = false", "notification_channels = []"] {
        let tables = format!("[loop]\n{off}\n");
        let script = Script {
            reviewer: APPROVES,
            fixer: WORKS_AGAIN,
            tables: &tables,
            ..Script::default()
        };
        let stage = added_with(&script, &[]);
        stage.tick();
        send_back(&stage);
        stage.tick();
        assert_eq!(told_ready(&stage).len(), 0, "{off}");
        let reviews = stage.bodies(&format!("pulls/{}/reviews", number(&stage)));
        assert!(
            reviews.len() == 1 && !reviews[0].contains(SENTENCE),
            "{off}: {reviews:?}"
        );
    }
    let tables = "[loop]\nnotification_channels = [\"github\", \"slack\"]\n";
    let stage = PullPlay::unwatched(&Script::default());
    let path = stage.play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    stage.play.world.config(&format!("{text}\n{tables}"));
    stage
        .play
        .world
        .remand(&["tick"])
        .fails(3, "unknown notification channel `slack`; allowed: github");
}

/// S0-3, S0-57, S0-62, GZ-16: with `pr_anyway`, a bound opens the pull request with what is open, and says so.
#[test]
fn a_bound_opens_the_pull_request_anyway() {
    let tables = "[loop]\non_max_cycles = \"pr_anyway\"\nmax_fix_cycles = 1\n";
    let script = Script {
        reviewer: NEVER_SATISFIED,
        fixer: WORKS_AGAIN,
        tables,
        ..Script::default()
    };
    let stage = added_with(&script, &[]);
    stage.tick();
    let body = body(&stage);
    assert!(body.contains("**A person must review this**"), "{body}");
    assert!(
        body.contains("## Findings\n\nOpen:\n\n- **high** `work.txt:1`: make it better"),
        "{body}"
    );
    let marked = "SELECT human_review_required, final_verdict, fix_cycle FROM changes WHERE change_id = 'c1'";
    assert_eq!(stage.play.world.sqlite(marked), "1|MAX_CYCLES_REACHED|1");
    let comments = stage.bodies(&format!("issues/{}/comments", number(&stage)));
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert!(
        comments[0].contains("the allowed fixes are used up"),
        "{comments:?}"
    );
    assert_eq!(told_ready(&stage).len(), 0);
}

/// S0-91, S0-112: each review is listed with the findings that it raised, also with those of an earlier one, and text by
/// agents is shown as it is written.
#[test]
fn a_review_is_listed_with_what_it_raised_again() {
    let script = Script {
        reviewer: "says changes_requested \"still bad\" \"$(finding work.txt 1 '<details> [a](b)')\"\n",
        fixer: WORKS_AGAIN,
        tables: "[loop]\non_max_cycles = \"pr_anyway\"\nmax_fix_cycles = 1\n",
        ..Script::default()
    };
    let stage = added_with(&script, &[]);
    stage.tick();
    let body = body(&stage);
    assert_eq!(
        body.matches(": requests changes, 1 finding\n").count(),
        2,
        "{body}"
    );
    assert!(
        body.contains(r"`work.txt:1`: \<details\> \[a\](b) (f1"),
        "{body}"
    );
}

/// S0-97: work that no review approved is not called done, and a person is asked to review it.
#[test]
fn a_skipped_review_with_open_findings_is_not_called_done() {
    let script = Script {
        reviewer: NEVER_SATISFIED,
        fixer: "cat >/dev/null\n[ \"$REMAND_PHASE\" != implement ] || echo bad >work.txt\necho done\n",
        ..Script::default()
    };
    let stage = added_with(&script, &[]);
    let world = &stage.play.world;
    world.remand(&["tick"]);
    stage.play.is_escalated("the agent changed nothing");
    world.remand(&["skip", "c1"]).ok();
    stage.tick();
    let number = number(&stage);
    let comments = stage.bodies(&format!("issues/{number}/comments"));
    assert_eq!(comments.len(), 1, "{comments:?}");
    assert!(
        comments[0].contains("no review has approved"),
        "{comments:?}"
    );
    assert!(!comments[0].contains("is done"), "{comments:?}");
    let marked = "SELECT human_review_required FROM changes WHERE change_id = 'c1'";
    assert_eq!(world.sqlite(marked), "1");
}

/// S0-11, S0-96: `enabled = false`: nobody reviews, before or after.
#[test]
fn without_reviews_the_pull_request_is_opened_at_once() {
    let stage = added(APPROVES, "", "[loop]\nenabled = false\n", &[]);
    stage.tick();
    assert!(
        body(&stage).contains("No agent has reviewed this."),
        "{}",
        body(&stage)
    );
    assert_eq!(
        stage.play.count("work_items WHERE source = 'code_review'"),
        0
    );
    assert_eq!(told_ready(&stage).len(), 1);
    send_back(&stage);
    stage.tick();
    number(&stage);
    assert_eq!(
        stage.play.count("events WHERE event_type = 'fix_pushed'"),
        1
    );
    assert_eq!(
        stage.play.count("work_items WHERE source = 'code_review'"),
        0
    );
}

/// S0-11, S0-96: `self_review_before_pr = false`: the review is on the pull request.
#[test]
fn without_a_self_review_the_review_is_on_the_pull_request() {
    let stage = added(
        REVIEWS_FIXED,
        "",
        "[loop]\nself_review_before_pr = false\n",
        &[],
    );
    stage.tick();
    let body = body(&stage);
    assert!(body.contains("No agent has reviewed this."), "{body}");
    assert!(
        !body.contains("A person must review this"),
        "it is reviewed next: {body}"
    );
    let states =
        "SELECT group_concat(metadata ->> 'to') FROM events WHERE event_type = 'state_changed'";
    assert_eq!(
        stage.play.world.sqlite(states),
        "queued,implementing,self_review_passed,pr_created,awaiting_pr_feedback,reviewing_pr,awaiting_pr_feedback,\
         addressing_feedback,awaiting_pr_feedback,reviewing_pr,ready_for_human_review"
    );
}

/// S0-11, S0-53: `auto_address_review_comments = false`: a person starts the fix.
#[test]
fn feedback_waits_for_a_person_if_the_setting_says_so() {
    let tables = "[loop]\nauto_address_review_comments = false\n";
    let script = Script {
        reviewer: APPROVES,
        fixer: WORKS_AGAIN,
        tables,
        ..Script::default()
    };
    let stage = added_with(&script, &[]);
    stage.tick();
    send_back(&stage);
    stage.tick();
    stage.tick();
    assert_eq!(
        stage.play.state(),
        "awaiting_pr_feedback",
        "{}",
        stage.play.why()
    );
    assert_eq!(
        stage.play.count("work_items WHERE source = 'review_fix'"),
        0
    );
    assert!(
        stage.play.why().contains("remand refine c1"),
        "{}",
        stage.play.why()
    );
    stage.play.world.remand(&["refine", "c1"]).ok();
    stage.tick();
    number(&stage);
    assert_eq!(
        stage.play.count("events WHERE event_type = 'fix_pushed'"),
        1
    );
}

/// S1-24: `skip_tests` decides where a change that passed is shown.
#[test]
fn skip_tests_decides_the_column_of_the_board() {
    for (skip, column) in [(true, "Waiting approval"), (false, "Verified")] {
        let stage = added(
            APPROVES,
            "",
            &format!("[loop]\nskip_tests = {skip}\n"),
            &["--local"],
        );
        stage.tick();
        assert_eq!(
            stage.play.state(),
            "ready_for_human_review",
            "{:#?}",
            stage.play.events()
        );
        let list = stage.play.world.json(&["list"]);
        assert_eq!(list[0]["column"], column, "{list}");
    }
}

const GATE: &str = "gates = [[\"sh\", \"-c\", \"! grep -q bad work.txt\"]]\n";

/// S0-4: the gates run before a self-review is paid for.
#[test]
fn gates_run_before_a_self_review_is_paid_for() {
    let settings = format!("{GATE}red_base = \"hold\"\n");
    let stage = added(APPROVES, &settings, "", &[]);
    stage.tick();
    number(&stage);
    let phases = "SELECT group_concat(source, ' ') FROM (SELECT source FROM runs JOIN work_items USING (item_id) ORDER BY runs.rowid)";
    assert_eq!(
        stage.play.world.sqlite(phases),
        "manual review_fix code_review"
    );
    assert_eq!(
        stage
            .play
            .count("events WHERE event_type = 'work_rejected' AND actor_id = 'gate'"),
        1
    );
    assert!(
        body(&stage).contains("These commands pass on the last commit"),
        "{}",
        body(&stage)
    );
}

/// S0-3, S0-4: and again before the pull request is opened.
#[test]
fn gates_run_before_the_pull_request_is_opened() {
    let settings = format!("{GATE}red_base = \"ignore\"\n");
    let stage = added(APPROVES, &settings, "", &[]);
    stage.tick();
    number(&stage);
    let states = "SELECT group_concat(metadata ->> 'to', ' ') FROM events WHERE event_type = 'state_changed'";
    assert_eq!(
        stage.play.world.sqlite(states),
        "queued implementing pending_self_review self_reviewing self_review_passed self_review_failed refining \
         pending_self_review self_reviewing self_review_passed pr_created awaiting_pr_feedback ready_for_human_review"
    );
    assert_eq!(
        stage
            .forge
            .writes()
            .iter()
            .filter(|write| write.ends_with("/pulls"))
            .count(),
        1
    );
}
