//! Tests for the prompts as agents see them.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::Duration;

use insta::assert_snapshot;
use proptest::prelude::*;

use super::*;
use crate::change::ChangeId;
use crate::event::body::WorkRejected;
use crate::finding::{Category, Finding, FindingId, Severity};
use crate::work::{Rejection, RejectionId, RejectionState};

mod loading;
mod payloads;

const LIMIT: usize = 200_000;
const NONCE: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;

fn prompts() -> &'static Prompts {
    static STOCK: LazyLock<Prompts> = LazyLock::new(|| Prompts::load(None).unwrap());
    &STOCK
}

const ENVIRONMENT: AgentEnvironment = AgentEnvironment {
    time_limit: Duration::from_secs(600),
    sandboxed: true,
};

/// Returns a change with `text` wherever untrusted text can be.
fn review_of(text: &str) -> ReviewContext {
    ReviewContext {
        title: text.into(),
        branch: text.into(),
        base: text.into(),
        base_sha: "1111111111111111111111111111111111111111".into(),
        head_sha: "2222222222222222222222222222222222222222".into(),
        plan: Some(text.into()),
        description: Some(text.into()),
        issue: Some(issue(text)),
        files: vec![text.into(), "src/retry.rs".into()],
        diff: text.into(),
        open_findings: vec![finding("f3", Severity::High, text)],
        waived: vec![text.into()],
        feedback_limit: LIMIT,
        cycle: 1,
        max_cycles: 2,
        environment: ENVIRONMENT,
        nonce: NONCE,
    }
}

fn fix_of(text: &str) -> FixContext {
    FixContext {
        title: text.into(),
        branch: text.into(),
        base: text.into(),
        base_sha: "1111111111111111111111111111111111111111".into(),
        head_sha: "2222222222222222222222222222222222222222".into(),
        pr_number: Some(42),
        detached: false,
        cycle: 1,
        max_cycles: 2,
        environment: ENVIRONMENT,
        plan: Some(text.into()),
        description: Some(text.into()),
        issue: Some(issue(text)),
        gates: vec!["cargo test".into()],
        rejections: vec![rejection(
            text,
            vec![
                finding("f4", Severity::Low, text),
                finding("f3", Severity::Critical, text),
            ],
        )],
        guidance: vec![comment(text)],
        feedback_limit: LIMIT,
        told: BTreeMap::new(),
        part: 1,
        closed: vec![text.into()],
        last_run_tail: Some(text.into()),
        gate_output: Some(text.into()),
        nonce: NONCE,
    }
}

fn again_of(text: &str) -> AgainContext {
    AgainContext {
        base_sha: "1111111111111111111111111111111111111111".into(),
        head_sha: "2222222222222222222222222222222222222222".into(),
        missing: vec![text.into()],
        answer: Some(text.into()),
        open_findings: vec![finding("f3", Severity::High, text)],
        feedback_limit: LIMIT,
        nonce: NONCE,
    }
}

fn issue(text: &str) -> IssueText {
    IssueText {
        number: 7,
        title: text.into(),
        body: text.into(),
    }
}

fn comment(text: &str) -> GuidanceText {
    GuidanceText {
        key: "g1".into(),
        text: text.into(),
    }
}

fn rejection(text: &str, findings: Vec<Finding>) -> Rejection {
    Rejection {
        rejection_id: RejectionId::new("j1"),
        event_id: 1,
        change_id: ChangeId::new("c1"),
        state: RejectionState::InFix,
        item_id: None,
        reason: None,
        ended_by: None,
        by_person: false,
        by: text.into(),
        summary: text.into(),
        metadata: serde_json::Value::Null,
        rejected: WorkRejected {
            body: text.into(),
            findings,
            ..WorkRejected::default()
        },
    }
}

fn finding(id: &str, severity: Severity, text: &str) -> Finding {
    Finding {
        id: Some(FindingId::new(id)),
        severity,
        category: Category::Logic,
        path: Some(text.into()),
        line: Some(12),
        title: Some(text.into()),
        text: text.into(),
        failure: Some(text.into()),
        suggestion: Some(text.into()),
        ..Finding::default()
    }
}

/// Returns the text outside of all fences, with `…` for each fence.
fn outside(prompt: &str) -> String {
    let (begin, end) = (format!("begin {NONCE:032x} "), format!("end {NONCE:032x}"));
    let mut is_inside = false;
    let mut kept = String::new();
    for line in prompt.lines() {
        if is_inside {
            assert!(
                line == end || !line.contains(&format!("{NONCE:032x}")),
                "the nonce is inside of a fence: {line}"
            );
            is_inside = line != end;
        } else if line.starts_with(&begin) {
            is_inside = true;
            kept.push_str("…\n");
        } else {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    assert!(!is_inside, "a fence is never closed");
    kept
}

fn all_three(text: &str) -> [String; 3] {
    let prompts = prompts();
    // Nothing is left for another run.
    let feedback_limit = 1 << 30;
    [
        prompts
            .review(&ReviewContext {
                feedback_limit,
                ..review_of(text)
            })
            .unwrap()
            .text,
        prompts
            .fix(&FixContext {
                feedback_limit,
                ..fix_of(text)
            })
            .unwrap()
            .text,
        prompts
            .again(&AgainContext {
                feedback_limit,
                ..again_of(text)
            })
            .unwrap()
            .text,
    ]
}

/// The text around the fences does not depend on the text inside, except for the counts of omitted
/// bytes.
fn own_words(text: &str) -> [String; 3] {
    all_three(text).map(|prompt| {
        outside(&prompt)
            .lines()
            .filter(|line| !is_count(line))
            .collect::<Vec<_>>()
            .join("\n")
    })
}

fn is_count(line: &str) -> bool {
    let words = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_counted = words.len() < line.len()
        && [" bytes of ", " more "]
            .iter()
            .any(|start| words.starts_with(start));
    is_counted
        || line.starts_with("Only the end of the output is shown")
        || line.starts_with("deceive a reader")
}

#[test]
fn no_payload_leaves_its_fence() {
    let payloads = payloads::all(&format!("{NONCE:032x}"));
    assert!(payloads.len() >= 80, "{}", payloads.len());
    let harmless = own_words("harmless");
    for payload in &payloads {
        let start: String = payload.chars().take(200).collect();
        assert!(own_words(payload) == harmless, "{start:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn nothing_leaves_its_fence(text in "(?s).{0,400}") {
        prop_assert_eq!(own_words(&text), own_words("harmless"));
    }
}

#[test]
fn a_template_in_outside_text_stays_text() {
    for prompt in all_three("{{ 7*7 }} {% include 'fix.md' %} {# gone? #}") {
        assert!(
            prompt.contains("{{ 7*7 }} {% include 'fix.md' %} {# gone? #}"),
            "{prompt}"
        );
        assert!(!prompt.contains("49"), "{prompt}");
    }
}

#[test]
fn what_was_taken_out_is_counted() {
    let prompt = prompts()
        .fix(&FixContext {
            guidance: vec![comment("a<!-- b -->\u{200b}c")],
            ..fix_of("x")
        })
        .unwrap();
    assert_eq!((prompt.stripped, prompt.left_out), (13, 0));
    assert!(prompt.text.contains("\nac\n"), "{}", prompt.text);
    let prompt = prompts()
        .review(&ReviewContext {
            diff: "+\u{202e}a".into(),
            ..review_of("x")
        })
        .unwrap();
    assert!(
        prompt.text.contains("\n3 bytes of invisible characters"),
        "{}",
        prompt.text
    );
}

#[test]
fn the_prompt_does_not_grow_with_the_cycles() {
    let size = |cycle: usize| {
        let mut context = fix_of("text");
        context.cycle = i64::try_from(cycle).unwrap();
        context.max_cycles = 99;
        context.closed = (0..cycle * 20)
            .map(|n| format!("f{:04} resolved: off by one in the retry", n % 1000))
            .collect();
        prompts().fix(&context).unwrap().text.len()
    };
    assert!(
        size(90) <= size(10) + 1,
        "{} bytes at cycle 10, {} at cycle 90",
        size(10),
        size(90)
    );
}

#[test]
fn a_mebibyte_everywhere_is_still_a_bounded_prompt() {
    let prompts = prompts();
    let text = "word ".repeat((1 << 20) / 5);
    let mut fix = fix_of(&text);
    fix.rejections = vec![fix.rejections.remove(0); 50];
    let fix = prompts.fix(&fix).unwrap();
    // Plan, description, issue, feedback, two outputs, the closed findings, and our own words.
    assert!(
        fix.text.len() < LIMIT + ((64 + 16 + 16 + 16 + 16 + 24 + 32) << 10),
        "{} bytes",
        fix.text.len()
    );
    assert!(fix.left_out > 1 << 20);
    let review = prompts.review(&review_of(&text)).unwrap();
    assert!(
        review.text.len() < LIMIT + ((200 + 64 + 16 + 16 + 16) << 10),
        "{} bytes",
        review.text.len()
    );
    let cut = format!(
        "{} bytes of the diff are omitted here: run `git diff 1111",
        text.len() - (200 << 10)
    );
    assert!(review.text.contains(&cut), "{cut}");
}

#[test]
fn our_own_words_are_no_verdict() {
    let answer = include_str!("../../prompts/answer.md");
    for source in Name::ALL.iter().map(|name| name.stock()).chain([answer]) {
        for line in source.lines() {
            let Some(said) = line
                .trim_start_matches(['*', '`', '-', ' '])
                .strip_prefix("REVIEW_RESULT:")
            else {
                continue;
            };
            assert!(said.contains('|'), "{line}");
        }
        for block in source.split("```json").skip(1) {
            let json: serde_json::Value =
                serde_json::from_str(block.split("```").next().unwrap()).unwrap();
            for finding in json["findings"].as_array().into_iter().flatten() {
                let severity = finding["severity"].as_str().unwrap();
                assert!(severity.parse::<Severity>().is_err(), "{finding}");
            }
        }
    }
}

#[test]
fn review_and_again_ask_for_the_same_form() {
    let review = prompts().review(&review_of("x")).unwrap().text;
    let again = prompts().again(&again_of("x")).unwrap().text;
    for text in [review, again] {
        let (_, form) = text.split_once("End with these four lines").unwrap();
        assert!(form.contains("REVIEW_RESULT: approved | changes_requested"));
        assert!(form.contains("\"previous\": ["), "{form}");
    }
}

#[test]
fn a_prompt_describes_the_environment() {
    let mut context = review_of("x");
    let text = prompts().review(&context).unwrap().text;
    assert!(
        text.contains("You have 10 minutes.\nYou are running in a sandbox"),
        "{text}"
    );
    context.environment.sandboxed = false;
    let text = prompts().review(&context).unwrap().text;
    assert!(!text.contains("sandbox"), "{text}");
    let text = prompts().fix(&fix_of("x")).unwrap().text;
    assert!(
        text.contains("You have 10 minutes.\nYou are running in a sandbox"),
        "{text}"
    );
}

/// Checks the five parts that a fix prompt must contain.
#[test]
fn a_fix_prompt_is_complete() {
    let mut context = fix_of("x");
    context.plan = Some("# Spec\nThree tries.".into());
    context.rejections = vec![rejection(
        "The retry is endless.\n\nSee below.",
        vec![
            finding("f4", Severity::Low, "second"),
            Finding {
                path: Some("src/retry.rs".into()),
                suggestion: None,
                ..finding("f3", Severity::Critical, "never stops")
            },
        ],
    )];
    let text = prompts().fix(&context).unwrap().text;
    for part in [
        "# Spec\nThree tries.",
        "from: the reviewer\n\nThe retry is endless.\n\nSee below.\n",
        "at: src/retry.rs:12\nnever stops\n",
        "Address every comment and every finding",
        "Do not touch unrelated code",
        "other instances of the same mistake",
        "already has a pull request, number 42",
        "Do not create another branch or pull request",
        "remand commits the rest",
        "Do not push",
    ] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    assert!(
        text.find("f3 (critical, logic)") < text.find("f4 (low, logic)"),
        "critical first"
    );
    context.pr_number = None;
    assert!(
        prompts()
            .fix(&context)
            .unwrap()
            .text
            .contains("This branch is local and has no pull request.")
    );
}

#[test]
fn a_small_review_prompt_whole() {
    let mut context = review_of("x");
    context.title = "Retry with back-off".into();
    context.branch = "retry".into();
    context.base = "main".into();
    context.plan = None;
    context.open_findings.truncate(0);
    context.cycle = 0;
    context.files = vec!["src/retry.rs".into()];
    context.diff = "--- a/src/retry.rs\n+++ b/src/retry.rs\n+loop {}\n".into();
    let text = prompts().review(&context).unwrap().text;
    let start = text
        .split_once("## The change\n")
        .unwrap()
        .1
        .split_once("## Your answer")
        .unwrap()
        .0;
    assert_snapshot!(start.trim(), @r#"
    begin 0123456789abcdef0123456789abcdef change
    title: Retry with back-off
    branch: retry
    base: main
    end 0123456789abcdef0123456789abcdef

    Review everything between the merge base `1111111111111111111111111111111111111111` and HEAD `2222222222222222222222222222222222222222`, not just the last commit:
    `git diff 1111111111111111111111111111111111111111...HEAD` shows it.

    ## Environment

    You are in a checkout of HEAD. Read the files around the diff before you conclude. The checkout is read-only for you:
    edits are undone and reported, so describe a fix instead of making it. You have 10 minutes.
    You are running in a sandbox: only the worktree and its repository are writable, and home directories are hidden.

    ## The author's description

    begin 0123456789abcdef0123456789abcdef description
    x
    end 0123456789abcdef0123456789abcdef

    ## The issue that it closes

    Issue 7:

    begin 0123456789abcdef0123456789abcdef issue
    title: x

    x
    end 0123456789abcdef0123456789abcdef

    ## What to check, in this order

    1. **compliance**: compare the code with the issue above. Report first
       any requirement that is missing, incomplete or implemented differently.
    2. **security**: unvalidated input, missing authorization, secrets in the code, injection (SQL, HTML, path, shell).
    3. **architecture**: is the code where a reader would look for it, consistent with its surroundings, with no unnecessary
       layer or dependency?
    4. **logic**: boundary cases, empty and very large inputs, ignored or half-handled errors, race conditions, off-by-one
       errors.
    5. **performance**: repeated work in loops, one query per row, memory that grows without limit.
    6. **testing**: would a test fail if the new behaviour broke? Do the tests cover boundary cases, and not only mocks?
    7. **documentation**: is difficult code explained, are public interfaces described, and are all comments correct?
       (Use **style** for violations of this project's rules.)

    ## Evidence

    - Report only problems that this change introduces or was supposed to solve. Problems that existed before and are not
      made worse are not findings.
    - For every finding of medium severity or above, name the input or sequence of events that triggers the failure, or quote the code
      that is wrong. If you cannot, check it in the code or with a test; if it remains a suspicion, do not report it.
    - If a mistake is repeated, find every occurrence and list them in one finding, so that one fix can resolve them all.

    ## Waived findings

    A person has decided that these are accepted as they are. Do not report them again, in whatever words, and do not give
    them a status.

    begin 0123456789abcdef0123456789abcdef waived
    x
    end 0123456789abcdef0123456789abcdef

    ## The diff

    begin 0123456789abcdef0123456789abcdef files
    src/retry.rs
    end 0123456789abcdef0123456789abcdef

    begin 0123456789abcdef0123456789abcdef diff
    --- a/src/retry.rs
    +++ b/src/retry.rs
    +loop {}
    end 0123456789abcdef0123456789abcdef
    "#);
}
