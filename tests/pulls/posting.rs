//! Posts of remand on a pull request: once, whatever happens to the response; nothing confidential;
//! and never anything that it later takes for another person's text.

use serde_json::{Value, json};

use crate::support::forge::Review;
use crate::support::play::Script;
use crate::support::pull_play::{APPROVES, PullPlay, REPO, quiet, rejecting};
use crate::support::run;

/// Answers to the two comments of the first rejection.
const ANSWERS: &str = r#"
cat >/dev/null
echo fixed >>work.txt
printf '```json\n{"answers": [{"id": "j1.1", "answer": "fixed", "reason": "renamed it"},
 {"id": "j1.2", "answer": "disagree", "reason": "@/etc/passwd says so"}]}\n```\n'
"#;

fn bodies(list: &[Value], by: &str) -> Vec<String> {
    list.iter()
        .filter(|one| one["author"] == by)
        .map(|one| one["body"].as_str().unwrap().to_owned())
        .collect()
}

/// remand's "changes requested" is dismissed when a later review of remand passes; nobody else's
/// ever is.
#[test]
fn our_reviews_are_posted_once_and_only_ours_are_taken_back() {
    let stage = PullPlay::new(&rejecting());
    // About a commit that is no longer the head: it stays, and makes no work.
    let old = stage.remote_head("main");
    stage.forge.review(
        1,
        &Review {
            by: "bob",
            body: "say fixed",
            commit: Some(&old),
            ..Review::default()
        },
    );
    stage.tick();
    stage.is_ready(1);
    let reviews: Vec<String> = stage
        .forge
        .reviews(1)
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["author"].as_str().unwrap(),
                one["state"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        reviews,
        ["bob CHANGES_REQUESTED", "ada DISMISSED", "ada COMMENTED"]
    );
    let comments = stage.forge.comments(1);
    assert_eq!(comments.len(), 1);
    assert_eq!(
        (&comments[0]["path"], &comments[0]["line"]),
        (&json!("work.txt"), &json!(1))
    );
    assert!(
        comments[0]["body"]
            .as_str()
            .unwrap()
            .contains("say fixed here"),
        "{comments:?}"
    );
    assert_eq!(stage.forge.writes_to("dismissals"), 1);
    let writes = stage.forge.writes().len();
    stage.tick();
    assert_eq!(
        stage.forge.writes().len(),
        writes,
        "{:?}",
        stage.forge.writes()
    );
}

/// The forge refuses a line that is not in the diff, and a request for changes by the pull
/// request's author: text that cannot be posted there is posted elsewhere, once.
#[test]
fn what_the_forge_refuses_as_a_review_is_said_another_way() {
    let reviewer = r#"
if grep -q fixed work.txt; then says approved "it is fixed now"; else
says changes_requested "not fixed" "$(finding work.txt 99 'far below')"; fi
"#;
    let stage = PullPlay::new(&Script {
        reviewer,
        ..Script::default()
    });
    stage.tick();
    stage.is_ready(1);
    assert!(stage.forge.comments(1).is_empty());
    let ours = bodies(&stage.forge.reviews(1), "ada");
    assert!(
        ours.len() == 2 && ours[0].contains("`work.txt:99`: far below"),
        "{ours:#?}"
    );

    // It is not known that the pull request is by this account.
    let own = PullPlay::unwatched(&rejecting());
    own.forge.log_in("carol");
    own.forge.fault(json!({ "method": "GET", "path": "user", "times": 1000, "then": { "status": { "status": 403, "body": "{\"message\": \"Resource not accessible by integration\"}" } } }));
    own.watch();
    own.tick();
    own.is_ready(1);
    let said = bodies(&own.forge.issue_comments(1), "carol");
    let rejecting = said
        .iter()
        .filter(|body| body.contains("and requests changes."))
        .count();
    assert_eq!(rejecting, 1, "{said:#?}");
    assert!(
        said.iter().any(|body| body.contains("say fixed here")),
        "{said:#?}"
    );
}

/// On a pull request by the account that is logged in, GitHub refuses a request for changes: the
/// findings are posted at their lines in a comment review, and nothing is tried that would be
/// refused.
#[test]
fn a_rejection_of_our_own_pull_request_is_one_call_with_findings_at_their_lines() {
    let stage = PullPlay::unwatched(&rejecting());
    stage.forge.log_in("carol");
    stage.watch();
    stage.forge.clear_log();
    stage.tick();
    stage.is_ready(1);
    let log = stage.forge.log();
    let sent: Vec<_> = log
        .iter()
        .filter(|one| one.method == "POST" && one.path.ends_with("/reviews"))
        .collect();
    let events: Vec<(&Value, Option<i64>)> = sent
        .iter()
        .map(|one| (&one.body["event"], one.status))
        .collect();
    assert_eq!(
        events,
        [
            (&json!("COMMENT"), Some(200)),
            (&json!("COMMENT"), Some(200))
        ],
        "rejected, then passed"
    );
    assert_eq!(
        log.iter().filter(|one| one.path == "user").count(),
        1,
        "asked once: {log:#?}"
    );
    let comments = stage.forge.comments(1);
    assert_eq!(comments.len(), 1, "{comments:#?}");
    assert_eq!(
        (&comments[0]["path"], &comments[0]["line"]),
        (&json!("work.txt"), &json!(1))
    );
    assert!(
        comments[0]["body"]
            .as_str()
            .unwrap()
            .contains("say fixed here"),
        "{comments:#?}"
    );
    let under = bodies(&stage.forge.issue_comments(1), "carol");
    assert!(
        !under.iter().any(|body| body.contains("changes requested")),
        "{under:#?}"
    );
}

/// Each inline comment of a person has one reply with the action and the commit; its author is
/// asked to review again, once.
#[test]
fn each_comment_of_a_person_is_answered_once() {
    let stage = PullPlay::new(&Script {
        fixer: ANSWERS,
        ..quiet()
    });
    let inline = [
        ("work.txt", 1, "a bad name"),
        ("work.txt", 1, "a wrong sum"),
    ];
    stage.review("bob", "CHANGES_REQUESTED", "two things", &inline);
    stage.tick();
    stage.tick();
    stage.is_ready(1);
    let sha = &stage.remote_head("feature")[..10];
    let comments = stage.forge.comments(1);
    let asked: Vec<&Value> = comments
        .iter()
        .filter(|one| one["author"] == "bob")
        .map(|one| &one["id"])
        .collect();
    let answers: Vec<&Value> = comments
        .iter()
        .filter(|one| one["author"] == "ada")
        .collect();
    assert_eq!(
        answers
            .iter()
            .map(|one| &one["in_reply_to"])
            .collect::<Vec<_>>(),
        asked
    );
    let said: Vec<&str> = answers
        .iter()
        .map(|one| one["body"].as_str().unwrap().lines().next().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            format!("Addressed in {sha}: renamed it"),
            format!("Not changed in {sha}: @\u{200b}/etc/passwd says so")
        ],
        "as text: no file is read for it"
    );
    assert_eq!(stage.forge.writes_to("requested_reviewers"), 1);
    assert_eq!(
        stage
            .play
            .count("feedback WHERE author = 'ada' AND trust <> 'ours'"),
        0,
        "what wraps an answer is ours"
    );
    assert_eq!(
        stage
            .play
            .count("events WHERE event_type = 'feedback_received'"),
        3
    );
}

/// An agent's edits of agent configuration are dropped: that is reported, and not that it was done.
#[test]
fn a_comment_on_what_was_dropped_is_not_answered_as_addressed() {
    let fixer = r#"
cat >/dev/null
echo fixed >>work.txt
echo 'be brief' >>CLAUDE.md
printf '```json\n{"answers": [{"id": "j1.1", "answer": "fixed", "reason": "shortened it"},
 {"id": "j1.2", "answer": "fixed", "reason": "renamed it"}]}\n```\n'
"#;
    let stage = PullPlay::new(&Script { fixer, ..quiet() });
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "two things",
        &[("CLAUDE.md", 1, "too long"), ("work.txt", 1, "a bad name")],
    );
    stage.tick();
    stage.tick();
    stage.is_ready(1);
    let sha = &stage.remote_head("feature")[..10];
    let comments = stage.forge.comments(1);
    let said = comments.iter().filter(|one| one["author"] == "ada");
    let said: Vec<&str> = said
        .map(|one| one["body"].as_str().unwrap().lines().next().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            format!(
                "Not fixed in {sha}: this file contains instructions for agents, so only a person may change it."
            ),
            format!("Addressed in {sha}: renamed it")
        ]
    );
}

/// Every write is carried out, and its response is lost: cut, dropped, or never sent. Still each is
/// there once.
#[test]
fn a_write_whose_answer_is_lost_is_not_done_twice() {
    for then in ["cut_after_write", "dropped_after_write", "hang_after_write"] {
        let stage = PullPlay::new(&Script {
            fixer: ANSWERS,
            github: "call_s = 2",
            ..rejecting()
        });
        for (method, path) in [
            ("POST", "pulls/1/reviews"),
            ("POST", "/replies"),
            ("POST", "issues/1/comments"),
            ("POST", "requested_reviewers"),
            ("PUT", "/dismissals"),
        ] {
            stage
                .forge
                .fault(json!({ "method": method, "path": path, "then": then }));
        }
        for _ in 0..3 {
            stage.tick();
        }
        stage.is_ready(1);
        let first = &stage.forge.reviews(1)[0];
        assert_eq!(
            first["state"], "DISMISSED",
            "{then}: it was found after the next one had passed: {first}"
        );
        let inline = [
            ("work.txt", 1, "a bad name"),
            ("work.txt", 1, "a wrong sum"),
        ];
        stage.review("bob", "CHANGES_REQUESTED", "two things", &inline);
        for _ in 0..4 {
            stage.tick();
        }
        stage.is_ready(2);
        let said = |list: &[Value]| {
            bodies(list, "ada")
                .into_iter()
                .filter(|body| !body.is_empty())
                .count()
        };
        let told = || {
            format!(
                "{then}: {:#?}\n{:#?}",
                stage.forge.writes(),
                stage.play.events()
            )
        };
        assert_eq!(said(&stage.forge.reviews(1)), 3, "{}", told());
        assert_eq!(said(&stage.forge.issue_comments(1)), 2, "{}", told());
        let answers = stage
            .forge
            .comments(1)
            .into_iter()
            .filter(|one| !one["in_reply_to"].is_null())
            .count();
        assert_eq!(answers, 2, "{}", told());
        let states: Vec<Value> = stage
            .forge
            .reviews(1)
            .iter()
            .map(|one| one["state"].clone())
            .collect();
        assert!(
            states.contains(&json!("DISMISSED")),
            "{states:?}\n{}",
            told()
        );
        assert_eq!(
            stage.play.count("intents WHERE done_at IS NULL"),
            0,
            "{}",
            told()
        );
        assert_eq!(
            stage
                .play
                .count("feedback WHERE author = 'ada' AND trust <> 'ours'"),
            0,
            "{}",
            told()
        );
    }
}

/// A comment of remand's review is shown as older than the review, and the response to the post was
/// lost: it is still remand's review.
#[test]
fn our_review_is_known_though_its_comments_are_older() {
    let stage = PullPlay::new(&Script {
        github: "call_s = 1",
        ..rejecting()
    });
    let play = &stage.play;
    stage.forge.fault(
        json!({ "method": "POST", "path": "pulls/1/reviews", "then": "dropped_after_write" }),
    );
    stage.tick();
    assert_eq!(
        play.count("intents WHERE kind = 'review' AND done_at IS NULL"),
        1
    );
    let mut state: Value = serde_json::from_str(&stage.forge.snapshot()).unwrap();
    for comment in state["repos"]["ada/calc"]["pulls"]["1"]["comments"]
        .as_array_mut()
        .unwrap()
    {
        comment["created_at"] = json!("2026-11-16T07:00:00Z");
        comment["updated_at"] = json!("2026-11-16T07:00:00Z");
    }
    stage.forge.restore(&state.to_string());
    stage.tick();
    stage.tick();
    stage.is_ready(1);
    let kinds = play
        .world
        .sqlite("SELECT forge_id FROM intents WHERE kind = 'review' ORDER BY rowid LIMIT 1");
    assert!(kinds.starts_with("review:"), "{kinds}");
    assert_eq!(
        play.count("events WHERE event_type = 'work_rejected'"),
        1,
        "{:#?}",
        play.events()
    );
}

/// remand's posts on a pull request stay its own when it is watched again later as another change,
/// including those that arrived and were abandoned.
#[test]
fn what_was_said_for_an_earlier_change_is_still_known_as_ours() {
    for is_lost in [false, true] {
        let stage = PullPlay::unwatched(&rejecting());
        let play = &stage.play;
        let name = format!("{REPO}#1");
        play.world
            .remand(&["watch", &name, "--max-cycles", "0"])
            .ok();
        if is_lost {
            stage.forge.fault(json!({ "method": "POST", "path": "pulls/1/reviews", "then": "dropped_after_write" }));
            stage.forge.fault(
                json!({ "path": "pulls/1/reviews", "skip": 1, "times": 1000, "then": "html502" }),
            );
        }
        stage.tick();
        assert_eq!(stage.forge.reviews(1)[0]["state"], "CHANGES_REQUESTED");
        play.world.remand(&["cancel", "c1"]).ok();
        stage.tick();
        assert_eq!(
            play.count("intents WHERE kind = 'review' AND result = 'given_up'"),
            i64::from(is_lost)
        );
        stage.forge.clear_faults();
        play.reviewer(APPROVES);
        stage.watch();
        stage.tick();
        let told = || format!("{:#?}", play.events());
        assert_eq!(
            play.world
                .sqlite("SELECT state FROM changes WHERE change_id = 'c2'"),
            "ready_for_human_review",
            "{}",
            told()
        );
        assert_eq!(stage.fixes(), (0, 0), "{}", told());
        assert_eq!(
            play.count("feedback WHERE trust <> 'ours'"),
            0,
            "{}",
            told()
        );
        let stands = if is_lost {
            "CHANGES_REQUESTED"
        } else {
            "DISMISSED"
        };
        assert_eq!(
            stage.forge.reviews(1)[0]["state"],
            stands,
            "what nobody knows the number of can't be taken back"
        );
    }
}

#[test]
fn a_secret_is_not_posted_and_that_is_said() {
    let reviewer = r#"
if grep -q fixed work.txt; then says approved "it is fixed now"; else
says changes_requested "there is a token in work.txt: ghp_7fK2mQ9xLw3Zr8Tb5Vn1Yc6Hd4Js0PgAeUiW" "$(finding work.txt 1 'remove it')"; fi
"#;
    let stage = PullPlay::new(&Script {
        reviewer,
        ..Script::default()
    });
    stage.tick();
    stage.is_ready(1);
    let said: Vec<Value> = stage.forge.log().into_iter().map(|one| one.body).collect();
    assert!(
        !json!(said).to_string().contains("ghp_7fK2mQ9x"),
        "the token is on the forge: {said:#?}"
    );
    assert!(
        stage
            .passed_over()
            .contains("review:v1 was not posted: it contains a secret"),
        "{}",
        stage.passed_over()
    );
}

/// Characters that prevent mentions are inserted between letters: secrets are searched before that,
/// too.
#[test]
fn a_secret_that_the_words_of_a_post_would_hide_is_not_posted() {
    let token = "canary@of#the-forge-0123";
    let reviewer = format!("says approved 'the token is {token}'\n");
    let stage = PullPlay::new(&Script {
        reviewer: &reviewer,
        ..Script::default()
    });
    stage.due();
    run(stage
        .play
        .world
        .remand_command(&["tick"])
        .env("GH_TOKEN", token))
    .report();
    let said = json!(
        stage
            .forge
            .log()
            .into_iter()
            .map(|one| one.body)
            .collect::<Vec<_>>()
    )
    .to_string();
    assert!(
        !said.replace('\u{200b}', "").contains("canary"),
        "the token is on the forge: {said}"
    );
    assert!(
        stage.passed_over().contains("it contains a secret"),
        "{}",
        stage.passed_over()
    );
}

#[test]
fn reviews_are_posted_as_the_setting_says() {
    let off = PullPlay::new(&Script {
        github: "reviews = \"off\"",
        ..rejecting()
    });
    off.tick();
    off.is_ready(1);
    assert!(off.forge.reviews(1).is_empty(), "{:?}", off.forge.writes());
    assert!(
        off.passed_over().contains("reviews are not posted"),
        "{}",
        off.passed_over()
    );

    let comment = PullPlay::new(&Script {
        github: "reviews = \"comment\"",
        ..rejecting()
    });
    comment.tick();
    comment.is_ready(1);
    let states: Vec<Value> = comment
        .forge
        .reviews(1)
        .iter()
        .map(|one| one["state"].clone())
        .collect();
    assert_eq!(states, [json!("COMMENTED"), json!("COMMENTED")]);
    assert_eq!(comment.forge.writes_to("dismissals"), 0);
}

/// An agent writes the text: on the pull request it moves no cursor and reverses no line.
#[test]
fn what_is_posted_carries_no_control_characters() {
    let reviewer = r#"
if grep -q fixed work.txt; then says approved "$(printf 'good \342\200\256dab\342\200\254 \342\201\246x\342\201\251')"
else says changes_requested "$(printf 'bad \033[31m\007 \342\200\256txt')" "$(finding work.txt 1 "$(printf 'say \342\200\256fixed\342\200\217 here')")"; fi
"#;
    let stage = PullPlay::new(&Script {
        reviewer,
        ..Script::default()
    });
    stage.tick();
    stage.is_ready(1);
    let all: Vec<Value> = stage
        .forge
        .log()
        .into_iter()
        .filter(|one| one.method == "POST")
        .map(|one| one.body)
        .collect();
    fn texts(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text.clone()),
            Value::Array(list) => list.iter().for_each(|one| texts(one, found)),
            Value::Object(keys) => keys.values().for_each(|one| texts(one, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    let mut found = Vec::new();
    all.iter().for_each(|one| texts(one, &mut found));
    let is_bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(
        found.iter().any(|text| text.contains("<U+202E>")),
        "{found:#?}"
    );
    assert!(
        !found.iter().any(|text| text.contains(is_bad)),
        "{found:#?}"
    );
}
