//! Which line is the verdict, and its value.

use super::*;
use crate::review_text::Dialect;

#[test]
fn the_prompts_own_template_is_not_the_answer() {
    all(&[
        ("REVIEW_RESULT: approved|changes_requested", UNCLEAR),
        (
            "REVIEW_RESULT: approved | changes_requested | needs_discussion",
            UNCLEAR,
        ),
        ("REVIEW_RESULT: `approved` | `changes_requested`", UNCLEAR),
        ("REVIEW_RESULT: <approved or changes_requested>", UNCLEAR),
        ("REVIEW_RESULT: <approved>", UNCLEAR),
        ("REVIEW_RESULT: {verdict}", UNCLEAR),
        ("REVIEW_RESULT: [approved|changes_requested]", UNCLEAR),
        ("REVIEW_RESULT: [approved / changes_requested]", UNCLEAR),
        ("REVIEW_RESULT: approved or changes_requested", UNCLEAR),
        (
            "REVIEW_RESULT: approved, changes_requested or needs_discussion",
            UNCLEAR,
        ),
        ("REVIEW_RESULT: changes_requested/approved", UNCLEAR),
        (
            "**Verdict: APPROVED|CHANGES_REQUESTED|NEEDS_DISCUSSION**",
            UNCLEAR,
        ),
        (
            "**[APPROVED]** - if the implementation is good\n**[REJECTED]** - if there are bugs",
            UNCLEAR,
        ),
        (
            "REVIEW_RESULT: approved | changes_requested\nREVIEW_RESULT: approved",
            APPROVED,
        ),
        (
            "REVIEW_RESULT: changes_requested\nREVIEW_RESULT: approved|changes_requested",
            CHANGES,
        ),
    ]);
}

#[test]
fn a_quoted_verdict_does_not_win() {
    all(&[
        ("> REVIEW_RESULT: approved", UNCLEAR),
        ("- > REVIEW_RESULT: approved", UNCLEAR),
        ("  > > REVIEW_RESULT: approved", UNCLEAR),
        ("\"REVIEW_RESULT: approved\" is what it printed", UNCLEAR),
        ("~~REVIEW_RESULT: approved~~", UNCLEAR),
        ("<!-- REVIEW_RESULT: approved -->", UNCLEAR),
        ("<!--\nREVIEW_RESULT: approved\n-->", UNCLEAR),
        ("The example:\n\n    REVIEW_RESULT: approved", UNCLEAR),
        ("+REVIEW_RESULT: approved", UNCLEAR),
        ("-REVIEW_RESULT: approved", UNCLEAR),
        (
            "REVIEW_RESULT: changes_requested\n> REVIEW_RESULT: approved",
            CHANGES,
        ),
        (
            "> REVIEW_RESULT: changes_requested\nREVIEW_RESULT: approved",
            APPROVED,
        ),
    ]);
}

#[test]
fn a_verdict_inside_a_code_fence_does_not_count() {
    all(&[
        ("```\nREVIEW_RESULT: approved\n```", UNCLEAR),
        ("~~~text\nREVIEW_RESULT: approved\n~~~", UNCLEAR),
        (
            "````\n```\nREVIEW_RESULT: approved\n```\nREVIEW_RESULT: approved\n````",
            UNCLEAR,
        ),
        ("```\n~~~\nREVIEW_RESULT: approved\n~~~\n```", UNCLEAR),
        ("```\nx\n      ```\nREVIEW_RESULT: approved\n```", UNCLEAR),
        ("```\n```rust\nREVIEW_RESULT: approved\n```", UNCLEAR),
        ("- ```\n  REVIEW_RESULT: approved\n  ```", UNCLEAR),
        (
            "   ```\n   REVIEW_RESULT: approved\n   ```\nREVIEW_RESULT: changes_requested",
            CHANGES,
        ),
        (
            "```\r\nREVIEW_RESULT: approved\r\n```\r\nREVIEW_RESULT: needs_discussion\r\n",
            DISCUSS,
        ),
        ("```one line```\nREVIEW_RESULT: approved", APPROVED),
        (
            "REVIEW_RESULT: approved\n```\nREVIEW_RESULT: changes_requested\n```",
            APPROVED,
        ),
    ]);
    let fenced = medium("```\nREVIEW_RESULT: approved\n```\n");
    assert!(
        fenced.reason.contains("does not count"),
        "{}",
        fenced.reason
    );
}

#[test]
fn an_unclosed_fence_swallows_only_what_follows() {
    all(&[
        ("REVIEW_RESULT: approved\n\n```rust\nfn main() {", APPROVED),
        ("```rust\nfn main() {\nREVIEW_RESULT: approved", UNCLEAR),
    ]);
}

#[test]
fn two_different_verdicts_are_unclear() {
    all(&[
        (
            "REVIEW_RESULT: approved\nREVIEW_RESULT: changes_requested",
            UNCLEAR,
        ),
        (
            "REVIEW_RESULT: changes_requested\nREVIEW_RESULT: approved",
            UNCLEAR,
        ),
        (
            "REVIEW_RESULT: approved\n**Verdict: CHANGES_REQUESTED**",
            UNCLEAR,
        ),
        ("**[REJECTED]**\n\nREVIEW_RESULT: approved", UNCLEAR),
        (
            "REVIEW_RESULT: approved\nREVIEW_RESULT: not approved",
            UNCLEAR,
        ),
        ("REVIEW_RESULT: approved\nREVIEW_RESULT: blocked", UNCLEAR),
        (
            "REVIEW_RESULT: approved\nREVIEW_RESULT: Approved.",
            APPROVED,
        ),
        ("REVIEW_RESULT: approved\n**Verdict: APPROVED**", APPROVED),
        (
            "REVIEW_RESULT: changes_requested\nVerdict: see below",
            CHANGES,
        ),
    ]);
    let both = medium("REVIEW_RESULT: approved\nVerdict: needs discussion\n");
    assert_eq!(both.raw_verdict, None);
    insta::assert_snapshot!(both.reason, @"The review says both approved and needs_discussion.");
    assert_eq!(both.missing.len(), 1);
}

#[test]
fn crlf_bold_backticks_a_period_or_a_bullet_are_tolerated() {
    all(&[
        ("REVIEW_RESULT: approved\r", APPROVED),
        ("\u{feff}REVIEW_RESULT: approved", APPROVED),
        ("**REVIEW_RESULT:** approved", APPROVED),
        ("**REVIEW_RESULT**: **approved**", APPROVED),
        ("**REVIEW_RESULT: approved**", APPROVED),
        ("*REVIEW_RESULT: approved*", APPROVED),
        ("_REVIEW_RESULT_: _approved_", APPROVED),
        ("`REVIEW_RESULT: approved`", APPROVED),
        ("`REVIEW_RESULT`: `approved`", APPROVED),
        ("REVIEW\\_RESULT: approved", APPROVED),
        ("- REVIEW_RESULT: approved", APPROVED),
        ("* **REVIEW_RESULT**: approved", APPROVED),
        ("1. REVIEW_RESULT: approved", APPROVED),
        ("## REVIEW_RESULT: approved", APPROVED),
        ("  REVIEW_RESULT: approved  ", APPROVED),
        ("\tREVIEW_RESULT: approved", UNCLEAR),
        ("- The result:\n    - REVIEW_RESULT: approved", APPROVED),
        ("✅ REVIEW_RESULT: approved", APPROVED),
        ("REVIEW_RESULT: approved.", APPROVED),
        ("REVIEW_RESULT: approved!", APPROVED),
        ("REVIEW_RESULT: ✅ approved ✅", APPROVED),
        ("REVIEW_RESULT: \"approved\"", APPROVED),
        ("REVIEW_RESULT: approved - no changes requested", APPROVED),
        (
            "REVIEW_RESULT: approved — all findings are resolved",
            APPROVED,
        ),
        ("REVIEW_RESULT: approved (all tests pass)", APPROVED),
        (
            "REVIEW_RESULT: approved, as all findings are resolved",
            APPROVED,
        ),
        ("REVIEW_RESULT: approved - only nits", APPROVED),
        ("REVIEW RESULT: approved", APPROVED),
        ("Review-Result: Approved", APPROVED),
        ("Review_Result = approved", APPROVED),
        ("review result => approved", APPROVED),
        ("REVIEW_RESULT：approved", APPROVED),
        ("REVIEW_RESULT:\u{a0}approved", APPROVED),
        ("REVIEW_\u{200b}RESULT:\u{200b} app\u{200d}roved", APPROVED),
        ("REVIEW_RESULT:\napproved", APPROVED),
    ]);
}

#[test]
fn other_spellings_of_the_same_verdict() {
    all(&[
        ("REVIEW_RESULT: approve", APPROVED),
        ("REVIEW_RESULT: LGTM", APPROVED),
        ("LGTM", UNCLEAR),
        ("REVIEW_RESULT: changes requested", CHANGES),
        ("REVIEW_RESULT: CHANGES-REQUESTED", CHANGES),
        ("REVIEW_RESULT: ChangesRequested", CHANGES),
        ("REVIEW_RESULT: request changes", CHANGES),
        (
            "REVIEW_RESULT: changes requested because of the loop",
            CHANGES,
        ),
        ("REVIEW_RESULT: rejected", CHANGES),
        ("REVIEW_RESULT: needs discussion", DISCUSS),
        ("REVIEW_RESULT: NEEDS-DISCUSSION", DISCUSS),
    ]);
}

#[test]
fn a_verdict_in_prose_does_not_count() {
    all(&[
        ("I would have approved this.", UNCLEAR),
        ("My REVIEW_RESULT: approved", UNCLEAR),
        ("The last cycle ended with REVIEW_RESULT: approved", UNCLEAR),
        ("Review result of the previous cycle: approved", UNCLEAR),
        ("Verdict of the other reviewer: approved", UNCLEAR),
        ("Decision-making: approved by nobody", UNCLEAR),
        ("[approved](https://example.org)", UNCLEAR),
        ("[pass] all tests", UNCLEAR),
        (
            "Decision: use a map here\nREVIEW_RESULT: approved",
            APPROVED,
        ),
    ]);
}

#[test]
fn a_negation_or_a_condition_is_not_an_approval() {
    all(&[
        ("REVIEW_RESULT: not approved", UNCLEAR),
        ("REVIEW_RESULT: un-approved", UNCLEAR),
        ("REVIEW_RESULT: cannot be approved", UNCLEAR),
        ("REVIEW_RESULT: approved: no", UNCLEAR),
        ("REVIEW_RESULT: approved?", UNCLEAR),
        ("REVIEW_RESULT: approved with conditions", UNCLEAR),
        ("REVIEW_RESULT: approved_with_changes", UNCLEAR),
        (
            "REVIEW_RESULT: approved, but only if the tests pass",
            UNCLEAR,
        ),
        ("REVIEW_RESULT: approved (pending the fix)", UNCLEAR),
        ("REVIEW_RESULT: approved - only if the tests pass", UNCLEAR),
        ("REVIEW_RESULT: approved - changes requested", UNCLEAR),
        ("REVIEW_RESULT: ~~approved~~ changes_requested", UNCLEAR),
        ("REVIEW_RESULT: [not approved]", UNCLEAR),
    ]);
}

#[test]
fn each_dialect_is_known() {
    let cases = [
        ("REVIEW_RESULT: approved", APPROVED, Dialect::Contract),
        ("**Verdict: APPROVED**", APPROVED, Dialect::VerdictLine),
        (
            "**Verdict:** NEEDS_DISCUSSION",
            DISCUSS,
            Dialect::VerdictLine,
        ),
        (
            "## Verdict\n\nThe code is fine.\nVerdict: APPROVED",
            APPROVED,
            Dialect::VerdictLine,
        ),
        (
            "## Verdict\n\n**CHANGES_REQUESTED**",
            CHANGES,
            Dialect::VerdictLine,
        ),
        (
            "## Verdict\n\nApproved changes were reverted.",
            UNCLEAR,
            Dialect::None,
        ),
        ("**[APPROVED]**", APPROVED, Dialect::Bracket),
        ("**[✅ APPROVED]**", APPROVED, Dialect::Bracket),
        (
            "APPROVAL DECISION: **[REJECTED]**",
            CHANGES,
            Dialect::Bracket,
        ),
        (
            "## Approval decision\n**[REJECTED]** - two bugs",
            CHANGES,
            Dialect::Bracket,
        ),
        ("**[APPROVED]** with conditions", UNCLEAR, Dialect::Bracket),
        (
            "{\"verdict\":\"pass\",\"issues\":[],\"summary\":\"Good.\"}",
            APPROVED,
            Dialect::Json,
        ),
        (
            "```json\n{\"verdict\":\"needs_work\",\"issues\":[]}\n```",
            CHANGES,
            Dialect::Json,
        ),
        (
            "```json\n{\"verdict\":\"maybe\",\"issues\":[]}\n```",
            UNCLEAR,
            Dialect::None,
        ),
        (
            "```json\n{\"verdict\":\"pass\"}\n```",
            UNCLEAR,
            Dialect::None,
        ),
        (
            "> {\"verdict\":\"pass\",\"issues\":[]}",
            UNCLEAR,
            Dialect::None,
        ),
        ("", UNCLEAR, Dialect::None),
    ];
    for (text, verdict, dialect) in cases {
        let reading = medium(&format!("{text}\n\nSome prose.\n"));
        assert_eq!(
            (reading.verdict, reading.dialect),
            (verdict, dialect),
            "{text:?}: {}",
            reading.reason
        );
    }
}

#[test]
fn output_cut_in_the_verdict_is_unclear() {
    assert_eq!(medium("Fine.\nREVIEW_RESULT: approve").verdict, UNCLEAR);
    assert_eq!(medium("Fine.\nREVIEW_RESULT: approve\n").verdict, APPROVED);
    assert_eq!(medium("Fine.\nREVIEW_RESULT: approved").verdict, APPROVED);
}
