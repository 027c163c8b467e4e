//! Whole reviews, one for each program whose format is understood.

use super::*;

/// A reading as a person would note it down.
fn noted(text: &str) -> String {
    let reading = medium(text);
    let mut rows = vec![format!("{} ({}) {:?}", reading.verdict, reading.dialect, reading.summary)];
    rows.push(reading.reason);
    rows.extend(reading.findings.iter().map(|f| {
        let place = f.path.clone().unwrap_or_default() + &f.line.map(|line| format!(":{line}")).unwrap_or_default();
        format!("- {} {} {place} | {:?} | {:?}", f.severity, f.category, f.text, f.suggestion)
    }));
    rows.extend(reading.judged.iter().map(|judgment| format!("{} {}", judgment.id, judgment.outcome)));
    rows.join("\n")
}

#[test]
fn our_contract() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/contract.md")));
}

#[test]
fn gza() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/gza.md")));
}

#[test]
fn automaker_default_output() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/automaker_rejected.md")));
}

#[test]
fn automaker_finding_blocks() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/automaker_blocks.md")));
}

#[test]
fn automaker_self_review_json() {
    insta::assert_snapshot!(noted(include_str!("../../../tests/fixtures/reviews/automaker_self_review.json")));
}

#[test]
fn the_prompts_echoed_whole_say_nothing() {
    let reading = medium(include_str!("../../../tests/fixtures/reviews/echoed_prompts.md"));
    assert_eq!((reading.verdict, reading.raw_verdict), (UNCLEAR, None), "{}", reading.reason);
    assert_eq!(reading.findings, []);
}
