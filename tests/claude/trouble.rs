//! Failures around claude: each is classified correctly, and the loop continues from there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::stage::{Stage, claude, folder, is_review, reviews, reviews_and_fixes, uses};
use crate::support::model::{Asked, Model, Reply, refuses, says};

/// Creates a model that fails until the flag is set.
fn troubled(trouble: fn(&Asked) -> Reply) -> (Model, Arc<AtomicBool>) {
    let mended = Arc::new(AtomicBool::new(false));
    let is_mended = Arc::clone(&mended);
    let model = Model::new(move |asked| {
        if is_mended.load(Ordering::SeqCst) {
            reviews_and_fixes(asked)
        } else {
            trouble(asked)
        }
    });
    (model, mended)
}

/// Asserts that the change is held for this reason; once the failure is fixed the loop continues,
/// and nothing was spent on it.
#[track_caller]
fn holds(test: &str, agent: &str, trouble: fn(&Asked) -> Reply, reason: &str) -> Option<Stage> {
    let claude = claude(test)?;
    let (model, mended) = troubled(trouble);
    let stage = Stage::new(&claude, &model.url, agent, "");
    stage.tick();
    stage.play.is_held(reason);
    assert_eq!(
        stage
            .play
            .world
            .sqlite("SELECT attempt, lost_runs FROM work_items"),
        "0|0",
        "nothing is spent"
    );
    mended.store(true, Ordering::SeqCst);
    let until = stage.play.world.sqlite("SELECT held_until FROM changes");
    stage.tick_later();
    stage.play.is_ready(1);
    let stage = Stage {
        url: until,
        ..stage
    };
    Some(stage)
}

#[test]
fn a_login_that_is_refused_is_a_hold() {
    let trouble = |_: &Asked| refuses(401, "authentication_error", "invalid x-api-key");
    holds(
        "a_login_that_is_refused_is_a_hold",
        "max_retries = 0",
        trouble,
        "claude is not logged in",
    );
}

#[test]
fn a_rate_limit_is_a_hold_after_its_own_bounded_retries() {
    let name = "a_rate_limit_is_a_hold_after_its_own_bounded_retries";
    let Some(claude) = claude(name) else { return };
    let model = Model::new(|_| {
        refuses(
            429,
            "rate_limit_error",
            "This request would exceed your account's rate limit.",
        )
    });
    let stage = Stage::new(&claude, &model.url, "max_retries = 1", "");
    stage.tick();
    stage
        .play
        .is_held("rate limit has been reached: API Error: Request rejected (429)");
    assert_eq!(model.asked().len(), 2, "once, and once more by itself");
    let log = stage.play.world.remand(&["log", "c1"]).ok().stdout;
    assert!(
        log.contains("waiting for the API: rate_limit (429)") && log.contains("(1 of 1)"),
        "{log}"
    );
}

#[test]
fn an_overloaded_api_is_a_hold() {
    let trouble = |_: &Asked| refuses(529, "overloaded_error", "Overloaded");
    holds(
        "an_overloaded_api_is_a_hold",
        "max_retries = 0",
        trouble,
        "is unavailable",
    );
}

#[test]
fn a_silent_api_is_a_hold() {
    let agent = "max_retries = 0\napi_timeout_s = 1";
    holds(
        "a_silent_api_is_a_hold",
        agent,
        |_| Reply::Silence,
        "Request timed out",
    );
}

#[test]
fn a_usage_limit_is_a_hold_until_it_is_over() {
    let name = "a_usage_limit_is_a_hold_until_it_is_over";
    let Some(claude) = claude(name) else { return };
    const RESETS: &str = "1999999999";
    let model = Model::new(|_| {
        let unified =
            |key: &str| -> &'static str { format!("anthropic-ratelimit-unified-{key}").leak() };
        let headers = [
            ("status", "rejected"),
            ("reset", RESETS),
            ("representative-claim", "five_hour"),
            ("5h-status", "rejected"),
            ("5h-reset", RESETS),
            ("5h-utilization", "1.0"),
        ];
        Reply::Refuses {
            status: 429,
            headers: headers
                .map(|(key, value)| (unified(key), value.to_owned()))
                .to_vec(),
            body: json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "limit" } }),
        }
    });
    let stage = Stage::new(&claude, &model.url, "", "");
    // Only subscription logins have such a limit.
    let mut tick = stage.command(&["tick"]);
    tick.env_remove("ANTHROPIC_API_KEY")
        .env("CLAUDE_CODE_OAUTH_TOKEN", "token-of-the-test");
    crate::support::run(&mut tick).report();
    stage.play.is_held("claude's usage limit has been reached");
    let told = stage
        .play
        .world
        .sqlite("SELECT metadata ->> '$.until' FROM events WHERE event_type = 'held'");
    let until = stage.play.world.sqlite("SELECT held_until FROM changes");
    assert_eq!(told, until);
    // No longer than a week, whatever it reports: it may end sooner.
    let days = stage
        .play
        .world
        .sqlite("SELECT round(julianday(held_until) - julianday('now')) FROM changes");
    assert_eq!(days, "7.0", "{until}");
    let log = stage.play.world.remand(&["log", "c1"]).ok().stdout;
    assert!(
        log.contains("usage limit reached (five_hour) until 2033-05-18T03:33:19.000Z"),
        "{log}"
    );
}

#[test]
fn an_api_that_is_not_there_is_a_hold() {
    let Some(claude) = claude("an_api_that_is_not_there_is_a_hold") else {
        return;
    };
    let stage = Stage::new(&claude, &Model::nobody(), "max_retries = 0", "");
    stage.tick();
    stage.play.is_held("claude cannot reach its API");
}

#[test]
fn nobody_is_logged_in() {
    let Some(claude) = claude("nobody_is_logged_in") else {
        return;
    };
    let model = Model::new(reviews_and_fixes);
    let stage = Stage::new(&claude, &model.url, "", "");
    crate::support::run(stage.command(&["tick"]).env_remove("ANTHROPIC_API_KEY")).report();
    stage.play.is_held("Not logged in");
    assert_eq!(model.asked().len(), 0);
}

#[test]
fn a_claude_that_is_not_there_is_a_hold() {
    let stage = Stage::new("claude-that-is-not-there", "", "", "");
    stage.tick();
    stage
        .play
        .is_held("the program `claude-that-is-not-there` was not found");
}

#[test]
fn an_edit_that_is_denied_is_said_and_no_fix() {
    let Some(claude) = claude("an_edit_that_is_denied_is_said_and_no_fix") else {
        return;
    };
    let model = Model::new(|asked| {
        if is_review(asked) {
            return reviews(asked);
        }
        let outside = format!("{}/../outside.txt", folder(asked));
        match asked.results.len() {
            0 => uses("Write", json!({ "file_path": outside, "content": "fixed" })),
            1 => uses(
                "Bash",
                json!({ "command": "git push origin HEAD", "description": "Push" }),
            ),
            _ => says("Done."),
        }
    });
    let stage = Stage::new(&claude, &model.url, "", "");
    stage.tick();
    stage
        .play
        .is_escalated("the agent changed nothing; it was denied: Write ");
    assert!(
        stage.play.answer().contains("Bash git push origin HEAD"),
        "{}",
        stage.play.answer()
    );
    assert!(!stage.play.repo.join("../outside.txt").exists());
    let event = stage
        .play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'permission_denied'");
    assert!(event.starts_with("claude was denied: Write "), "{event}");
}

#[test]
fn a_reviewer_that_would_edit_can_not() {
    let Some(claude) = claude("a_reviewer_that_would_edit_can_not") else {
        return;
    };
    let model = Model::new(|asked| {
        let file = format!("{}/work.txt", folder(asked));
        match asked.results.len() {
            0 if is_review(asked) => Reply::Uses(vec![
                (
                    "Edit",
                    json!({ "file_path": file, "old_string": "work", "new_string": "fixed" }),
                ),
                ("Write", json!({ "file_path": file, "content": "fixed" })),
                (
                    "Bash",
                    json!({ "command": "git diff --output=work.txt", "description": "Look" }),
                ),
                (
                    "Bash",
                    json!({ "command": "echo fixed > work.txt", "description": "Write" }),
                ),
                (
                    "Bash",
                    json!({ "command": "git diff main...HEAD", "description": "Look" }),
                ),
            ]),
            _ => says(super::stage::verdict("approved", &[], &[])),
        }
    });
    let stage = Stage::new(&claude, &model.url, "", "");
    stage.tick();
    stage.play.is_ready(0);
    assert_eq!(
        stage.play.count("events WHERE event_type = 'edits_undone'"),
        0,
        "{:#?}",
        stage.play.events()
    );
    let results = model.asked().last().unwrap().results.clone();
    assert!(
        results.last().unwrap().contains("+work"),
        "it could not look: {results:?}"
    );
    assert_eq!(
        stage
            .play
            .count("events WHERE event_type = 'permission_denied'"),
        1
    );
}

#[test]
fn turns_that_are_used_up_need_a_person() {
    let Some(claude) = claude("turns_that_are_used_up_need_a_person") else {
        return;
    };
    let model = Model::new(reviews_and_fixes);
    let stage = Stage::new(&claude, &model.url, "max_turns = 1", "");
    stage.tick();
    stage
        .play
        .is_escalated("Reached maximum number of turns (1)");
}

#[test]
fn a_tool_that_never_ends_meets_the_idle_limit() {
    let Some(claude) = claude("a_tool_that_never_ends_meets_the_idle_limit") else {
        return;
    };
    let model = Model::new(|asked| {
        if is_review(asked) {
            return reviews(asked);
        }
        let never = "until [ -e never ]; do sleep 0.1; done";
        if asked.results.is_empty() {
            uses("Bash", json!({ "command": never, "description": "Wait" }))
        } else {
            says("Done.")
        }
    });
    let stage = Stage::new(
        &claude,
        &model.url,
        "allow = [\"Bash\"]",
        "[limits]\nidle_s = 6\ngrace_s = 1",
    );
    stage.tick();
    stage.play.is_escalated("no output for too long");
}

/// Not remand's failure: it is run again, and counted.
#[test]
fn a_claude_that_is_terminated_or_interrupted_is_lost_and_runs_again() {
    let Some(claude) = claude("a_claude_that_is_terminated_or_interrupted_is_lost_and_runs_again")
    else {
        return;
    };
    for (signal, status) in [
        (rustix::process::Signal::TERM, "143"),
        (rustix::process::Signal::INT, "0"),
    ] {
        let (model, mended) = troubled(|_| Reply::Silence);
        let stage = Stage::new(&claude, &model.url, "", "");
        let daemon = stage.daemon();
        stage
            .play
            .until("claude asks", || !model.asked().is_empty());
        mended.store(true, Ordering::SeqCst);
        let alive = stage.play.alive();
        let of_claude = alive
            .iter()
            .find(|process| process.contains("stream-json"))
            .unwrap();
        let pid: i32 = of_claude.split(' ').next().unwrap().parse().unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal)
            .unwrap();
        stage.play.wait_for_state("ready_for_human_review");
        assert!(daemon.stop().success());
        let first = stage
            .play
            .world
            .sqlite("SELECT ended, exit_status FROM runs WHERE run_id = 'r1'");
        assert_eq!(first, format!("lost|{status}"));
        assert_eq!(stage.play.count("events WHERE event_type = 'run_lost'"), 1);
        stage.play.is_ready(1);
    }
}
