//! Verdict against findings, counts and blocks.

use std::collections::HashSet;

use super::*;
use crate::finding::Finding;
use crate::review_text::read_without;

#[test]
fn approved_with_an_open_critical_finding_is_not_approved() {
    for (severity, threshold, verdict) in [
        ("critical", Severity::Medium, CHANGES),
        ("medium", Severity::Medium, CHANGES),
        ("low", Severity::Medium, APPROVED),
        ("low", Severity::Low, CHANGES),
        ("medium", Severity::Critical, APPROVED),
    ] {
        let reading = read(
            &contract("approved", 1, severity, &finding(severity)),
            threshold,
        );
        assert_eq!(
            reading.verdict, verdict,
            "{severity} at {threshold}: {}",
            reading.reason
        );
        assert_eq!(reading.raw_verdict, Some(APPROVED));
        assert_eq!(reading.findings.len(), 1);
    }
    let reading = medium(&contract("approved", 1, "critical", &finding("critical")));
    insta::assert_snapshot!(reading.reason, @"The review says approved but lists a finding at or above medium: that counts as changes_requested.");
}

#[test]
fn approved_beside_a_rejecting_json_verdict_is_unclear() {
    let block = "```json\n{\"verdict\":\"needs_work\",\"issues\":[]}\n```\n";
    assert_eq!(
        medium(&format!("REVIEW_RESULT: approved\n\n{block}")).verdict,
        UNCLEAR
    );
    let pass = block.replace("needs_work", "pass");
    assert_eq!(
        medium(&format!(
            "The loop is wrong.\nREVIEW_RESULT: changes_requested\n\n{pass}"
        ))
        .verdict,
        CHANGES
    );
    assert_eq!(
        medium(&format!("REVIEW_RESULT: not approved\n\n{pass}")).verdict,
        UNCLEAR
    );
}

#[test]
fn changes_requested_without_any_feedback_is_unclear() {
    let bare = "REVIEW_RESULT: changes_requested\nFINDINGS_COUNT: 0\nSEVERITY: high\n";
    let cases = [
        (bare.to_owned(), UNCLEAR),
        (
            contract("changes_requested", 0, "low", "").replace("Two words.", ""),
            UNCLEAR,
        ),
        (
            contract("changes_requested", 0, "low", "").replace("Two words.", "None."),
            UNCLEAR,
        ),
        (format!("{bare}SUMMARY: Not yet.\n"), CHANGES),
        (
            "# Review\n\nREVIEW_RESULT: changes_requested\n---\n".to_owned(),
            UNCLEAR,
        ),
        (format!("{bare}\n> some quotation\n"), UNCLEAR),
        (
            format!("{bare}\n```\n**[APPROVED]**\nREVIEW_RESULT: approved\n```\n"),
            UNCLEAR,
        ),
        (format!("{bare}\n{{\"findings\": []}}\n"), UNCLEAR),
        (format!("{bare}\nThe loop ends too early.\n"), CHANGES),
        (
            format!("{bare}\n```json\n{{\"findings\":[]}}\n```\n```diff\n-a\n+b\n```\n"),
            CHANGES,
        ),
        (format!("{bare}\n```diff\n-a\n+b\n```\n"), CHANGES),
        (
            contract("changes_requested", 1, "low", &finding("low")),
            CHANGES,
        ),
        (
            format!(
                "{bare}\n```json\n{{\"findings\":[],\"previous\":[{{\"id\":\"f1\",\"status\":\"open\"}}]}}\n```\n"
            ),
            CHANGES,
        ),
        ("REVIEW_RESULT: needs_discussion\n".to_owned(), DISCUSS),
    ];
    for (text, verdict) in cases {
        let reading = medium(&text);
        assert_eq!(reading.verdict, verdict, "{text}: {}", reading.reason);
        assert_eq!(reading.missing.is_empty(), verdict != UNCLEAR);
    }
}

#[test]
fn a_count_that_disagrees_with_the_block() {
    let broken = contract("approved", 2, "low", "{\"severity\": ");
    let cases = [
        (contract("approved", 3, "low", ""), UNCLEAR),
        (contract("approved", 3, "high", ""), CHANGES),
        (
            contract("approved", 3, "critical (two of them)", ""),
            CHANGES,
        ),
        (
            contract("approved", 3, "high", "").replace("Two words.", ""),
            UNCLEAR,
        ),
        (contract("approved", 0, "none", ""), APPROVED),
        (
            contract(
                "approved",
                1,
                "low",
                &[finding("low"), finding("low")].join(","),
            ),
            APPROVED,
        ),
        (broken.clone(), UNCLEAR),
        (broken.replace("approved", "changes_requested"), CHANGES),
        (
            contract("changes_requested", 3, "high", &finding("high")),
            CHANGES,
        ),
        (
            "REVIEW_RESULT: approved\nFINDINGS_COUNT: 2\nSEVERITY: high\n".into(),
            UNCLEAR,
        ),
        (
            "REVIEW_RESULT: approved\nFINDINGS_COUNT: 2\n".into(),
            UNCLEAR,
        ),
        (
            "REVIEW_RESULT: approved\nFINDINGS_COUNT: 2\nSEVERITY: low\n".into(),
            APPROVED,
        ),
        (
            "REVIEW_RESULT: approved\nFINDINGS_COUNT: n\nSEVERITY: none\n".into(),
            APPROVED,
        ),
    ];
    for (text, verdict) in cases {
        let reading = medium(&text);
        assert_eq!(reading.verdict, verdict, "{text}: {}", reading.reason);
    }
    let reading = medium(&contract("changes_requested", 3, "high", &finding("high")));
    insta::assert_snapshot!(reading.reason, @"The review says changes_requested. FINDINGS_COUNT is 3, but 1 were read.");
}

#[test]
fn a_severity_that_no_finding_has() {
    let reading = medium(&contract("approved", 1, "high", &finding("low")));
    assert_eq!(
        (reading.verdict, reading.raw_verdict),
        (CHANGES, Some(APPROVED))
    );
    assert_eq!(
        (
            reading.findings[1].severity,
            reading.findings[1].text.as_str()
        ),
        (Severity::High, "Two words.")
    );
    assert_eq!(
        medium("REVIEW_RESULT: approved\nSEVERITY: high\n").verdict,
        UNCLEAR
    );
    let copied_from_the_prompt = contract("approved", 0, "high", "");
    assert_eq!(medium(&copied_from_the_prompt).verdict, APPROVED);
    let of_a_finding_in_prose = format!(
        "- Severity: high (resolved)\n\n{}",
        contract("approved", 0, "none", "")
    );
    assert_eq!(medium(&of_a_finding_in_prose).verdict, APPROVED);
}

#[test]
fn a_block_that_was_cut_is_not_an_empty_one() {
    let whole = contract("approved", 0, "none", &finding("low"));
    let before_the_end = whole.split("\"path\"").next().unwrap();
    assert_eq!(medium(before_the_end).verdict, UNCLEAR);
    assert_eq!(
        medium("REVIEW_RESULT: approved\n```json\n{").verdict,
        UNCLEAR
    );
    let only_the_fence_is_missing = whole.trim_end().trim_end_matches('`');
    let reading = medium(only_the_fence_is_missing);
    assert_eq!((reading.verdict, reading.findings.len()), (APPROVED, 1));
}

#[test]
fn the_findings_of_all_blocks_count() {
    let block =
        |severity: &str| format!("```json\n{{\"findings\":[{}]}}\n```\n", finding(severity));
    let other = block("high").replace("Wrong.", "Another.");
    let reading = medium(&format!(
        "REVIEW_RESULT: changes_requested\n{other}{}{other}",
        block("high")
    ));
    assert_eq!(reading.verdict, CHANGES);
    let texts: Vec<&str> = reading
        .findings
        .iter()
        .map(|finding| finding.text.as_str())
        .collect();
    assert_eq!(texts, ["Another.", "Wrong."]);

    let lost = medium(&format!("REVIEW_RESULT: approved\n{other}{}", block("low")));
    assert_eq!(lost.verdict, UNCLEAR, "{}", lost.reason);
    let harmless = medium(&format!(
        "REVIEW_RESULT: approved\n{}{}",
        other.replace("high", "low"),
        block("low")
    ));
    assert_eq!(harmless.verdict, APPROVED);
}

#[test]
fn a_broken_block_before_a_good_one_is_the_template() {
    let template = "```json\n{\"verdict\": \"pass\" | \"needs_work\", \"issues\": []}\n```\n";
    assert_eq!(
        medium(&format!(
            "{template}{}",
            contract("approved", 0, "none", "")
        ))
        .verdict,
        APPROVED
    );
    assert_eq!(
        medium(&format!(
            "{}{template}",
            contract("approved", 0, "none", "")
        ))
        .verdict,
        UNCLEAR
    );
}

/// S1-25: what a person has waived prevents no approval; everything else still does.
#[test]
fn a_waived_finding_does_not_count() {
    let waived = medium(&contract("approved", 1, "high", &finding("high"))).findings;
    let waived: HashSet<String> = waived.iter().map(Finding::fingerprint).collect();
    let other = finding("high").replace("Wrong.", "Slow.");
    let two = format!("{},{other}", finding("high"));
    let own = |verdict: &str, count: usize, findings: &str| {
        let text = contract(verdict, count, "high", findings);
        text.replace("]}", "],\"previous\":[]}")
    };
    for (text, verdict, left) in [
        (own("approved", 1, &finding("high")), APPROVED, 0),
        (own("approved", 2, &two), CHANGES, 1),
        (own("changes_requested", 1, &finding("high")), APPROVED, 0),
        (own("changes_requested", 2, &two), CHANGES, 1),
        (own("changes_requested", 1, &other), CHANGES, 1),
        // It counts more than it lists.
        (own("changes_requested", 2, &finding("high")), UNCLEAR, 0),
        // Prose may say more than its list.
        (
            "- [HIGH] a.rs:3 - Wrong.\n\nREVIEW_RESULT: changes_requested\n".to_owned(),
            UNCLEAR,
            0,
        ),
    ] {
        let reading = read_without(&text, Severity::Medium, &waived);
        let told = format!("{text}: {}", reading.reason);
        assert_eq!(reading.verdict, verdict, "{told}");
        assert_eq!(
            reading.verdict == UNCLEAR,
            !reading.missing.is_empty(),
            "{told}"
        );
        if verdict != UNCLEAR {
            assert_eq!(reading.findings.len(), left, "{told}");
        }
    }
}
