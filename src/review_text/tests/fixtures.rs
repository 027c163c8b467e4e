//! Complete reviews, one for each program whose format is understood.

use super::*;

/// Formats a result as a person would note it down.
fn noted(text: &str) -> String {
    let reading = medium(text);
    let mut rows = vec![format!(
        "{} ({}) {:?}",
        reading.verdict, reading.dialect, reading.summary
    )];
    rows.push(reading.reason);
    rows.extend(reading.findings.iter().map(|f| {
        let place = f.path.clone().unwrap_or_default()
            + &f.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!(
            "- {} {} {place} | {:?} | {:?}",
            f.severity, f.category, f.text, f.suggestion
        )
    }));
    rows.extend(
        reading
            .judged
            .iter()
            .map(|judgment| format!("{} {}", judgment.id, judgment.outcome)),
    );
    rows.join("\n")
}

#[test]
fn our_contract() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/contract.md")), @r##"
    changes_requested (contract) Some("The parser loses its last item, and nothing tests it.")
    The review says changes_requested.
    - high logic src/parse.rs:41 | "The loop ends one item early. The log even prints `REVIEW_RESULT: approved` here." | Some("Iterate to `items.len()`:\n```rust\nfor item in &items {}\n```")
    - low testing tests/parse.rs | "No test for an empty list." | None
    f1 resolved
    f2 open
    "##);
}

#[test]
fn gza() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/gza.md")), @r##"
    changes_requested (verdict_line) Some("The change does what the plan asks, with one gap.")
    The review says changes_requested.
    - medium logic  | "The change does what the plan asks, with one gap." | None
    "##);
}

#[test]
fn automaker_default_output() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/automaker_rejected.md")), @r##"
    changes_requested (bracket) Some("Password validation is missing and the login flow does not handle errors.")
    The review says changes_requested.
    - high compliance src/auth/validator.ts:45 | "Missing password validation: Empty passwords are accepted, the spec asks for 8 characters." | Some("Check the length before accepting")
    - high logic src/auth/login.ts:78 | "Missing error handling: The login query does not handle a lost connection." | None
    - medium testing  | "No tests for locked accounts" | None
    "##);
}

#[test]
fn automaker_finding_blocks() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/automaker_blocks.md")), @r##"
    changes_requested (bracket) None
    The review says changes_requested.
    - high compliance src/auth/validator.ts:45 | "Missing Password Validation\nEmpty passwords are accepted." | Some("if (password.length < 8) {\n  throw new ValidationError('too short');\n}")
    - medium testing  | "Login edge cases\nNo tests for failed login attempts." | None
    - low architecture  | "Consider using middleware\nCould extract validation into middleware." | None
    "##);
}

#[test]
fn automaker_self_review_json() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/automaker_self_review.json")), @r##"
    changes_requested (json) Some("One injection must go first.")
    The review says changes_requested.
    - critical security apps/server/src/login.ts:42 | "The query is built from user input." | Some("Use a parameter.")
    - suggestion style apps/server/src/login.ts | "Long function." | None
    "##);
}

#[test]
fn the_prompts_echoed_whole_say_nothing() {
    let reading = medium(include_str!(
        "../../../tests/fixtures/reviews/echoed_prompts.md"
    ));
    assert_eq!(
        (reading.verdict, reading.raw_verdict),
        (UNCLEAR, None),
        "{}",
        reading.reason
    );
    assert_eq!(reading.findings, []);
}
