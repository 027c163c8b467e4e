//! Failures of GitHub: each kind is reported by `why`, spends nothing, stores nothing partially,
//! and ends when the failure ends.

use serde_json::{Value, json};

use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, REPO, quiet, rejecting};

/// Asserts that failures spent nothing except the attempts made before: no cycle, no run.
#[track_caller]
fn nothing_is_spent(stage: &PullPlay, attempts: i64, told: &str) {
    let spent =
        "SELECT coalesce(sum(attempt), 0) || ' ' || coalesce(sum(fix_cycle), 0) FROM work_items";
    assert_eq!(
        stage.play.world.sqlite(spent),
        format!("{attempts} 0"),
        "{told}"
    );
    assert_eq!(stage.play.count("rejections"), 0, "{told}");
    assert_eq!(
        stage.play.count("feedback WHERE trust <> 'ours'"),
        0,
        "{told}: something was stored by halves"
    );
    assert_eq!(stage.fixes(), (0, 0), "{told}");
}

/// Returns failures in the middle of a read, and the text of `why` for each.
fn troubles() -> Vec<(Value, &'static str)> {
    vec![
        (json!("no_token"), "gh auth login"),
        (
            json!({ "rate_limited": { "reset_in_s": 900 } }),
            "rate limit is used up until",
        ),
        (
            json!({ "secondary_limit": { "retry_after_s": 120 } }),
            "rate limit is used up until",
        ),
        (json!("html502"), "HTTP 502"),
        (json!("half"), "unexpected response"),
        (json!("empty"), "unexpected response"),
        (json!("not_json"), "unexpected response"),
        (
            json!({ "status": { "status": 200, "body": "[{\"id\": \"seven\", \"user\": 3}]" } }),
            "unexpected response",
        ),
        (
            json!({ "status": { "status": 200, "body": "null" } }),
            "unexpected response",
        ),
        (json!("cut_after_write"), "request to GitHub for"),
        (json!("refused"), "request to GitHub for"),
        (json!("killed"), "gh was killed by a signal"),
        (
            json!({ "exit": { "code": 2, "stderr": "cancelled" } }),
            "gh was cancelled",
        ),
        (
            json!({ "exit": { "code": 77, "stderr": "a new kind of trouble" } }),
            "a new kind of trouble",
        ),
    ]
}

#[test]
fn each_trouble_is_told_spends_nothing_and_passes() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    stage.is_ready(0);
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    for (then, told) in troubles() {
        stage.forge.fault(
            json!({ "method": "GET", "path": "pulls/1/reviews", "times": 1000, "then": then }),
        );
        stage.tick();
        let why = play.why();
        assert!(why.contains(told), "{then}: {told:?} is not in {why}");
        nothing_is_spent(&stage, 1, &then.to_string());
        assert_eq!(play.state(), "ready_for_human_review", "{then}");
        stage.forge.clear_faults();
    }
    // Reported once per kind of failure, not once per read.
    let held = play.count("events WHERE event_type = 'held'");
    assert!(held <= 3, "{:#?}", play.events());
    stage.tick();
    stage.is_ready(1);
    assert!(!play.why().contains("cannot read"), "{}", play.why());
}

/// A change with work to do waits for GitHub, with a time; its queued item does not fail.
#[test]
fn without_gh_or_a_login_everything_waits() {
    let stage = PullPlay::new(&rejecting());
    let play = &stage.play;
    stage.forge.log_out();
    stage.tick();
    play.is_held("gh auth login");
    nothing_is_spent(&stage, 0, "logged out");
    stage.forge.log_in("ada");

    let config = play.world.root().join("config/remand/config.toml");
    let good = std::fs::read_to_string(&config).unwrap();
    let gh = serde_json::to_string(&stage.forge.gh_argv()).unwrap();
    play.world.config(
        &good
            .replace(&format!("gh = {gh}"), "gh = [\"/nowhere/gh\"]")
            .replace(&gh.replace(',', ", "), "[\"/nowhere/gh\"]"),
    );
    stage.tick();
    play.is_held("install gh");
    nothing_is_spent(&stage, 0, "no gh");
    play.world
        .remand(&["watch", &format!("{REPO}#2")])
        .fails(1, "gh was not found");
    play.world.config(&good);
    stage.tick();
    stage.is_ready(1);
}

/// An exhausted rate limit is waited for: until the time that GitHub gives, and not less.
#[test]
fn a_limit_in_the_middle_of_the_second_page_stores_nothing_until_its_time() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    stage.is_ready(0);
    stage.forge.fault(
        json!({ "path": "issues/1/comments*page=2", "times": 1, "then": { "rate_limited": { "reset_in_s": 1800 } } }),
    );
    for n in 0..310 {
        stage.forge.issue_comment(1, "bob", &format!("note {n}"));
    }
    stage.tick();
    play.is_held("rate limit is used up until");
    nothing_is_spent(&stage, 1, "limited");
    let held = play.world.sqlite(
        "SELECT held_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+25 minutes') FROM changes",
    );
    assert_eq!(held, "1", "until the window ends: {}", play.answer());
    let asked = stage.forge.log().len();
    play.tick().report();
    assert_eq!(stage.forge.log().len(), asked, "not asked before its time");
    stage.tick();
    assert_eq!(
        play.count("feedback WHERE kind = 'issue_comment'"),
        310,
        "each once, over four pages"
    );
    assert_eq!(
        play.count("(SELECT DISTINCT body FROM feedback WHERE kind = 'issue_comment')"),
        310
    );
    stage.tick();
    assert_eq!(play.count("feedback WHERE kind = 'issue_comment'"), 310);
    stage.is_ready(0);
}

/// A list that changes while it is read shows an entry on two pages: it is stored once.
#[test]
fn a_page_that_comes_twice_is_stored_once() {
    let stage = PullPlay::new(&quiet());
    for n in 0..150 {
        stage.forge.issue_comment(1, "bob", &format!("note {n}"));
    }
    stage
        .forge
        .fault(json!({ "path": "issues/1/comments", "then": "duplicate_page" }));
    stage.tick();
    let play = &stage.play;
    assert_eq!(
        play.count("feedback WHERE kind = 'issue_comment' AND trust <> 'ours'"),
        100
    );
    assert_eq!(
        play.count(
            "(SELECT DISTINCT body FROM feedback WHERE kind = 'issue_comment' AND trust <> 'ours')"
        ),
        100
    );
    stage.forge.issue_comment(1, "bob", "the last");
    stage.tick();
    assert_eq!(
        play.count("feedback WHERE kind = 'issue_comment' AND trust <> 'ours'"),
        151,
        "and nothing is passed over"
    );
    stage.is_ready(0);
}

/// The reserve belongs to the user: below it nothing is read, and the end of the wait is reported.
#[test]
fn the_users_part_of_the_budget_is_left_alone() {
    let stage = PullPlay::new(&rejecting());
    stage.forge.set_rate(450, 1200);
    stage.tick();
    stage.play.is_held("used up except for the reserve");
    stage.forge.set_rate(4500, 1200);
    stage.tick();
    stage.is_ready(1);
}

/// Reads follow a renamed repository; writes do not, wait, and are done once the project has the
/// new name.
#[test]
fn a_renamed_repository_loses_nothing() {
    let mut stage = PullPlay::new(&rejecting());
    stage.forge.rename("ada/calculator");
    stage.tick();
    stage.is_ready(1);
    assert!(
        stage.forge.writes().is_empty(),
        "{:?}",
        stage.forge.writes()
    );
    assert!(
        stage.play.why().contains("the repository was renamed"),
        "{}",
        stage.play.why()
    );
    let path = stage.play.repo.to_str().unwrap();
    stage
        .play
        .world
        .remand(&["project", "add", path, "--repo", "ada/calculator"])
        .ok();
    stage.tick();
    assert_eq!(
        stage.forge.reviews(1).len(),
        2,
        "{:?}\n{:#?}",
        stage.forge.writes(),
        stage.play.events()
    );
}

/// A pull request that is not visible is held, and after a while a person is asked; nothing is
/// spent on it.
#[test]
fn a_pull_request_that_is_gone_is_a_persons_matter() {
    let stage = PullPlay::new(&rejecting());
    let play = &stage.play;
    let gone = json!({ "status": { "status": 404, "body": "{\"message\": \"Not Found\"}" } });
    stage
        .forge
        .fault(json!({ "path": "pulls/1", "times": 1000, "then": gone }));
    stage.tick();
    play.is_held("GitHub has no `repos/ada/calc/pulls/1`");
    nothing_is_spent(&stage, 0, "404");
    stage.tick();
    stage.tick();
    assert_eq!(play.state(), "escalated", "{:#?}", play.events());
    assert!(
        play.answer().contains("its PR cannot be read"),
        "{}",
        play.answer()
    );
    nothing_is_spent(&stage, 0, "404, three times");
    stage.forge.clear_faults();
    play.world
        .remand(&["refine", "c1", "--text", "it is back"])
        .ok();
    stage.tick();
    stage.is_ready(1);
}

/// No manual step is needed: a pull request that becomes visible again continues where it was.
#[test]
fn a_pull_request_that_is_back_goes_on_where_it_was() {
    let gone = json!({ "status": { "status": 404, "body": "{\"message\": \"Not Found\"}" } });
    let vanish = |stage: &PullPlay| {
        stage
            .forge
            .fault(json!({ "path": "pulls/1", "times": 1000, "then": gone }));
        for _ in 0..3 {
            stage.tick();
        }
        stage.play.is_escalated("its PR cannot be read");
        stage.forge.clear_faults();
    };
    // With its review queued, and automatically.
    let stage = PullPlay::new(&rejecting());
    vanish(&stage);
    stage.tick();
    stage.is_ready(1);
    // With a verdict, which still holds, and because a person resumes it.
    vanish(&stage);
    stage.play.world.remand(&["retry", "c1"]).ok();
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    stage.tick();
    stage.is_ready(1);
    assert_eq!(stage.play.count("reviews"), 2, "{:#?}", stage.play.events());
    // With a fix that had not started.
    stage.play.world.remand(&["pause", "c1"]).ok();
    stage.review("bob", "CHANGES_REQUESTED", "say it again", &[]);
    stage.tick();
    vanish(&stage);
    stage.play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    stage.is_ready(2);
}

/// GitHub fails between the fix and its push: the commit waits, and is pushed once when it is back.
#[test]
fn trouble_before_a_push_keeps_the_commit_and_pushes_it_later() {
    let stage = PullPlay::new(&Script {
        fixer: "cat >/dev/null\necho fixed >>work.txt\n",
        ..quiet()
    });
    let play = &stage.play;
    stage.tick();
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    // The read and the check before the fix are answered, the check before the push is not.
    stage.forge.fault(
        json!({ "method": "GET", "path": "pulls/1", "skip": 4, "times": 1000, "then": "html502" }),
    );
    stage.tick();
    play.is_held("HTTP 502");
    assert_eq!(
        (stage.pushes(), stage.fixes()),
        (0, (1, 0)),
        "{:#?}",
        play.events()
    );
    stage.forge.clear_faults();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(stage.pushes(), 1);
    assert_eq!(
        play.world.sqlite("SELECT max(attempt) FROM work_items"),
        "1",
        "a hold spends no attempt"
    );
}

/// An outage of days: posts are retried for as long as it takes.
#[test]
fn no_outage_is_so_long_that_a_post_is_given_up() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.forge.fault(
        json!({ "method": "POST", "path": "pulls/1/reviews", "times": 1000, "then": "html502" }),
    );
    for _ in 0..14 {
        stage.tick();
    }
    assert_eq!(
        play.world
            .sqlite("SELECT tries >= 14 AND done_at IS NULL FROM intents"),
        "1",
        "{:#?}",
        play.events()
    );
    assert!(play.answer().contains("cannot post "), "{}", play.answer());
    stage.forge.clear_faults();
    stage.tick();
    assert_eq!(stage.forge.reviews(1).len(), 1);
    stage.is_ready(0);
}

/// A post that GitHub refuses is not retried automatically; it is reported everywhere, with a
/// command.
#[test]
fn a_post_that_github_refuses_is_shown_until_a_person_has_it_posted() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    let refused = json!({ "status": { "status": 422, "body": "{\"message\": \"Not today\"}" } });
    for path in ["pulls/1/reviews", "issues/1/comments"] {
        stage
            .forge
            .fault(json!({ "method": "POST", "path": path, "times": 1000, "then": refused }));
    }
    stage.tick();
    stage.tick();
    let told = play.answer();
    assert!(
        told.contains("review:v1 was refused") && told.contains("Not today"),
        "{told}"
    );
    assert!(told.contains("`remand post c1`"), "{told}");
    assert!(
        play.world
            .remand(&["list"])
            .ok()
            .stdout
            .contains("a post was refused: ")
    );
    let tried = stage.forge.log().len();
    play.tick().report();
    assert_eq!(
        stage.forge.log().len(),
        tried,
        "it is not tried again by itself"
    );
    stage.forge.clear_faults();
    let said = play.world.remand(&["post", "c1"]).ok().stdout;
    assert!(said.starts_with("no daemon is running"), "{said}");
    assert!(said.contains("1 post"), "{said}");
    stage.tick();
    assert_eq!(stage.forge.reviews(1).len(), 1, "{:#?}", play.events());
    assert!(!play.answer().contains("refused"), "{}", play.answer());
    assert_eq!(
        play.count("events WHERE event_type = 'instructed' AND metadata ->> 'action' = 'post'"),
        1
    );
    assert!(
        play.world
            .remand(&["post", "c1"])
            .ok()
            .stdout
            .contains("has no post")
    );
    stage.forge.merge(1, "bob");
    stage.tick();
    play.world.remand(&["post", "c1"]).fails(1, "c1 is merged");
}
