//! Tests on lines that claude 2.1.325 wrote, against a scripted model.

use std::path::Path;

use super::*;
use crate::clock::Time;
use crate::process::{Limits, Stream};
use crate::work::Ended;

macro_rules! recorded {
    ($name:literal) => {
        include_str!(concat!("recorded/", $name, ".jsonl"))
    };
}

const EDITED: &str = recorded!("edited");

fn exit(status: i32) -> Exit {
    Exit {
        ended: Ended::Agent,
        status: Some(status),
        signal: None,
        stdout_bytes: 0,
        stderr_bytes: 0,
        leftovers: 0,
        survivors: 0,
        elapsed_ms: 1500,
        detail: None,
    }
}

fn end(stdout: &str, status: i32) -> End {
    outcome(stdout, Some(&exit(status)), "", false).end
}

fn agent(claude: Claude) -> Agent {
    Agent {
        name: "claude".into(),
        command: vec!["claude".into()],
        model: Some("opus".into()),
        env: BTreeMap::new(),
        manner: crate::agent::Protocol::Claude(claude),
    }
}

fn settings() -> Claude {
    Claude {
        max_turns: None,
        max_cost_micros: None,
        max_retries: 3,
        api_timeout: Duration::from_secs(300),
        allow: Vec::new(),
    }
}

fn started(
    claude: Claude,
    phase: Phase,
    session: &Session,
    money_left: Option<i64>,
) -> crate::process::Job {
    let limits = Limits {
        idle: Duration::from_secs(1),
        total: Duration::from_secs(1),
        grace: Duration::from_secs(1),
    };
    agent(claude).job(&RunSpec {
        run_id: "r1",
        phase,
        change_id: "c1",
        item_id: "w1",
        cycle: 0,
        base: "b",
        branch: "feature",
        head: "h",
        worktree: Path::new("/home/ada/calc-feature"),
        dir: Path::new("/state/runs/r1"),
        limits,
        session,
        money_left,
        extra_env: BTreeMap::new(),
    })
}

#[test]
fn a_fix_may_edit_and_a_review_only_read() {
    let fix = started(settings(), Phase::Fix, &Session::New("id".into()), None);
    insta::assert_snapshot!(fix.argv.join(" "), @"claude -p --output-format stream-json --verbose --permission-mode acceptEdits --session-id id --model opus");
    let review = started(
        settings(),
        Phase::Review,
        &Session::Resumed("id".into()),
        None,
    );
    insta::assert_snapshot!(review.argv.join(" "), @"claude -p --output-format stream-json --verbose --permission-mode dontAsk --tools Bash,Read,Grep,Glob --resume id --model opus");
    let env: Vec<String> = fix
        .env
        .iter()
        .filter(|(name, _)| !name.starts_with("REMAND_"))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    insta::assert_snapshot!(env.join(" "), @"API_TIMEOUT_MS=300000 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 CLAUDE_CODE_MAX_RETRIES=3 DISABLE_AUTOUPDATER=1");
}

#[test]
fn what_it_may_spend_is_the_least_of_its_bounds() {
    let bounded = Claude {
        max_turns: Some(20),
        max_cost_micros: Some(2_500_000),
        allow: vec!["Bash(make test)".into(), "WebSearch".into()],
        ..settings()
    };
    let words = |money_left| {
        started(bounded.clone(), Phase::Fix, &Session::None, money_left)
            .argv
            .join(" ")
    };
    insta::assert_snapshot!(words(None), @"claude -p --output-format stream-json --verbose --permission-mode acceptEdits --allowedTools Bash(make test),WebSearch --model opus --max-turns 20 --max-budget-usd 2.500000");
    assert!(words(Some(1_000_001)).ends_with("--max-budget-usd 1.000001"));
    assert!(
        words(Some(0)).ends_with("--max-budget-usd 0.000001"),
        "claude refuses a budget of 0"
    );
}

#[test]
fn a_good_run_tells_what_it_used_and_what_it_was_denied() {
    let result = outcome(EDITED, Some(&exit(0)), "", false);
    assert_eq!(result.end, End::Good);
    assert_eq!(
        (result.tokens, result.cost_micros),
        (Some(300 + 60 + 150), Some(3402))
    );
    assert_eq!(result.denied, ["Bash git commit -am x"]);
    assert_eq!(answer(EDITED), "Done.");
}

#[test]
fn trouble_of_its_surroundings_is_a_hold() {
    let held = |stdout: &str| match end(stdout, 1) {
        End::Hold { reason, until } => (reason, until),
        other @ (End::Good | End::Lost | End::Stopped | End::NoSession | End::Failed(_)) => {
            panic!("{other:?}")
        }
    };
    for (stdout, expected) in [
        (
            recorded!("unauthorized"),
            "not logged in, or its account is not authorized: Invalid API key",
        ),
        (
            recorded!("not_logged_in"),
            "not logged in, or its account is not authorized: Not logged in",
        ),
        (
            recorded!("rate_limit"),
            "rate limit has been reached: API Error: Request rejected (429)",
        ),
        (
            recorded!("overloaded"),
            "is unavailable: API Error: 529 Overloaded",
        ),
        (
            recorded!("refused"),
            "cannot reach its API: API Error: Connection refused",
        ),
        (
            recorded!("no_network"),
            "cannot reach its API: API Error: Can't reach the API server",
        ),
        (recorded!("timed_out"), "is unavailable: Request timed out"),
        (
            recorded!("no_credit"),
            "has no credit left: Credit balance is too low",
        ),
    ] {
        let (reason, until) = held(stdout);
        assert!(
            reason.contains(expected),
            "{expected:?} is not in {reason:?}"
        );
        assert_eq!(until, None, "{reason}");
    }
    let (reason, until) = held(recorded!("usage_limit"));
    assert_eq!(
        reason,
        "claude's usage limit has been reached: You've hit your 5-hour limit · resets 1am (UTC)"
    );
    assert_eq!(until, Some(Time::from_millis(1_794_877_258_000)));
    let old = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"Claude AI usage limit reached|1794877258"}"#;
    assert_eq!(held(old).1, Some(Time::from_millis(1_794_877_258_000)));
}

#[test]
fn what_will_not_mend_itself_is_a_failure() {
    for (stdout, expected) in [
        (
            recorded!("no_model"),
            "There's an issue with the selected model",
        ),
        (recorded!("too_long"), "Prompt is too long"),
        (
            recorded!("max_turns"),
            "Reached maximum number of turns (2)",
        ),
        (recorded!("max_budget"), "Reached maximum budget ($0.001)"),
        (recorded!("no_session"), "No conversation found"),
    ] {
        let End::Failed(reason) = end(stdout, 1) else {
            panic!("{expected}: {:?}", end(stdout, 1))
        };
        assert!(
            reason.contains(expected),
            "{expected:?} is not in {reason:?}"
        );
    }
    let failed = outcome(
        "",
        Some(&exit(1)),
        "error: unknown option '--nonsense'\n",
        false,
    )
    .end;
    assert_eq!(
        failed,
        End::Failed("exited with status 1: error: unknown option '--nonsense'".into())
    );
    assert_eq!(
        outcome(recorded!("max_budget"), Some(&exit(1)), "", false).tokens,
        Some(170),
        "of the sums"
    );
}

#[test]
fn a_session_that_is_not_there_is_begun_again_only_where_one_was_resumed() {
    let resumed = |stdout, stderr| outcome(stdout, Some(&exit(1)), stderr, true).end;
    assert_eq!(resumed(recorded!("no_session"), ""), End::NoSession);
    assert_eq!(
        resumed("", "No conversation found with session ID: x\n"),
        End::NoSession
    );
    assert!(matches!(resumed(recorded!("no_model"), ""), End::Failed(_)));
}

#[test]
fn who_was_ended_by_a_signal_is_lost_whatever_it_says() {
    for status in [129, 130, 137, 143] {
        assert_eq!(end(recorded!("terminated"), status), End::Lost);
        assert_eq!(end(EDITED, status), End::Lost, "after its result");
    }
    assert_eq!(
        end(recorded!("interrupted"), 0),
        End::Lost,
        "SIGINT: it ends with 0, and without a result"
    );
    let aborted = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","errors":["Request was aborted."]}"#;
    assert_eq!(end(aborted, 0), End::Lost);
}

#[test]
fn a_result_that_is_cut_or_missing_is_no_success() {
    let last = EDITED.lines().last().unwrap();
    let before = EDITED.strip_suffix(&format!("{last}\n")).unwrap();
    for cut in 0..last.len() - 1 {
        let Some(part) = last.get(..cut) else {
            continue;
        };
        assert_eq!(
            end(&format!("{before}{part}"), 0),
            End::Lost,
            "cut at {cut}"
        );
    }
    assert_eq!(
        end(&format!("{before}{last}"), 0),
        End::Good,
        "without its newline"
    );
    assert!(
        matches!(end(EDITED, 1), End::Failed(_)),
        "it says success and ends with 1"
    );
    for odd in [
        r#"{"type":"result","subtype":"success"}"#,
        r#"{"type":"result","subtype":"success","is_error":"no"}"#,
        r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#,
        r#"{"type":"result","is_error":false,"subtype":null}"#,
    ] {
        assert!(matches!(end(odd, 0), End::Failed(_)), "{odd}");
    }
    let unfinished = outcome(before, Some(&exit(0)), "", false);
    assert_eq!(
        unfinished.tokens,
        Some(3 * 121),
        "from the messages that were read"
    );
    assert_eq!(answer(before), "Done.");
}

#[test]
fn floods_half_lines_and_noise_do_not_hide_the_result() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes =
        b"\xff\xfe not text\n{\"type\": \"assistant\", \"message\": 3}\n[1]\nnull\n{\"type\": 7}\n"
            .to_vec();
    bytes.extend(
        format!(
            "{{\"type\":\"user\",\"message\":\"{}\n",
            "x".repeat(300_000)
        )
        .bytes(),
    );
    bytes.extend("[".repeat(100_000).bytes());
    bytes.push(b'\n');
    bytes.extend(EDITED.bytes());
    std::fs::write(folder.path().join("stdout.0"), bytes).unwrap();
    let text = crate::process::read_output(folder.path(), Stream::Stdout)
        .unwrap()
        .text;
    assert_eq!(end(&text, 0), End::Good);
    let mut renderer = Shown::default();
    let people = format!("{}{}", renderer.more(&text), renderer.end());
    assert!(
        people.contains("Edit work.txt") && people.contains("not text"),
        "{people:.300}"
    );
}

#[test]
fn people_read_a_line_for_each_thing_that_it_does() {
    let show = |text: &str| {
        let mut renderer = Shown::default();
        // In pieces that split lines and adjacent characters anywhere.
        let pieces: Vec<String> = text
            .chars()
            .collect::<Vec<_>>()
            .chunks(7)
            .map(|piece| piece.iter().collect())
            .collect();
        let out: String = pieces.iter().map(|piece| renderer.more(piece)).collect();
        format!("{out}{}", renderer.end())
    };
    insta::assert_snapshot!(show(EDITED), @"
              claude 2.1.325 with claude-sonnet-4-5
    22:58:34  I will look.
    22:58:34  Read work.txt
    22:58:34  Edit work.txt
    22:58:34  Bash git commit -am x
              not allowed: This command requires approval
    22:58:34  failed: This command requires approval
    22:58:34  Done.
              ended after 4 turns, $0.00 in this session
    ");
    insta::assert_snapshot!(show(recorded!("usage_limit")), @"
              claude 2.1.325 with claude-sonnet-5-5
              usage limit reached (five_hour) until 2026-11-17T01:00:58.000Z
    23:01:00  You've hit your 5-hour limit · resets 1am (UTC)
              ended with an error after 1 turn, $0.00 in this session
    ");
    insta::assert_snapshot!(show(recorded!("refused")), @"
              claude 2.1.325 with claude-sonnet-4-5
              waiting for the API: unknown, retry in 0.6 s (1 of 1)
    22:59:20  API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)
              ended with an error after 1 turn, $0.00 in this session
    ");
}

#[test]
fn what_it_is_doing_and_since_when() {
    let mut seen = Vec::new();
    let (mut text, mut last) = (String::new(), None);
    for line in EDITED.lines().chain(recorded!("refused").lines().skip(1)) {
        text.push_str(line);
        text.push('\n');
        let now = doing(&text);
        if now != last {
            let (what, since) = now.clone().unwrap();
            seen.push(format!(
                "{} {what}",
                since.map_or("-".to_owned(), |time| time.to_string())
            ));
            last = now;
        }
    }
    insta::assert_snapshot!(seen.join("\n"), @"
    - waiting for the model
    2026-11-16T22:58:34.396Z says: I will look.
    2026-11-16T22:58:34.448Z Read work.txt
    2026-11-16T22:58:34.626Z waiting for the model, after Read work.txt
    2026-11-16T22:58:34.653Z Edit work.txt
    2026-11-16T22:58:34.657Z Bash git commit -am x
    2026-11-16T22:58:34.689Z waiting for the model, after Bash git commit -am x
    2026-11-16T22:58:34.710Z says: Done.
    - ends
    - waiting for the API: unknown, retry in 0.6 s (1 of 1)
    2026-11-16T22:59:20.825Z says: API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)
    - ends
    ");
    assert_eq!(doing(""), None);
}
