//! `remand read-review` on answers that must not be read as an approval, and on those that must
//! stay one.

use serde_json::{Value, json};

use crate::support::World;

/// Reads a text through the binary.
#[track_caller]
fn read(world: &World, text: &str) -> Value {
    let output = world
        .remand_with_stdin(
            &["read-review", "-", "--json", "--threshold", "medium"],
            text,
        )
        .ok();
    serde_json::from_str(&output.stdout).unwrap()
}

#[track_caller]
fn all(cases: &[(&str, &str)]) {
    let world = World::new();
    let mut wrong = Vec::new();
    for (text, verdict) in cases {
        let reading = read(&world, text);
        if reading["verdict"] != json!(verdict) {
            wrong.push(format!(
                "{text:?}: {} instead of {verdict}: {}",
                reading["verdict"], reading["reason"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

const CRITICAL: &str = r#"{"severity": "critical", "path": "a.rs", "text": "SQL injection"}"#;

#[test]
fn two_lines_that_are_each_a_verdict_and_differ_are_unclear() {
    all(&[
        ("## Verdict\nAPPROVED\nCHANGES_REQUESTED\n", "unclear"),
        ("## Verdict\nCHANGES_REQUESTED\nAPPROVED\n", "unclear"),
        ("## Verdict\n\nAPPROVED\n\nCHANGES_REQUESTED\n", "unclear"),
        (
            "## Verdict\n**APPROVED**\n**NEEDS_DISCUSSION**\n",
            "unclear",
        ),
        ("## Verdict\n- APPROVED\n- CHANGES_REQUESTED\n", "unclear"),
        (
            "## Verdict\nAPPROVED\nThe loop is fine.\nCHANGES_REQUESTED\n",
            "unclear",
        ),
        ("Verdict:\nAPPROVED\nCHANGES_REQUESTED\n", "unclear"),
        ("Verdict: APPROVED\nCHANGES_REQUESTED\n", "unclear"),
        ("REVIEW_RESULT:\napproved\nchanges_requested\n", "unclear"),
        ("REVIEW_RESULT: approved\nchanges_requested\n", "unclear"),
        ("REVIEW_RESULT: approved\n\nRejected.\n", "unclear"),
        ("REVIEW_RESULT: approved\n\n# REJECTED\n", "unclear"),
        ("REVIEW_RESULT: approved\n\nNot approved.\n", "unclear"),
        (
            "REVIEW_RESULT: approved\n\nCHANGES_REQUESTED: the loop never ends\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n\nFinal decision: REJECTED\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n\nStatus: changes requested\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n\n| Verdict | CHANGES_REQUESTED |\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n\n<b>Verdict: CHANGES_REQUESTED</b>\n",
            "unclear",
        ),
        ("**[APPROVED]**\n\nREJECTED\n", "unclear"),
        (
            "APPROVED\n\nREVIEW_RESULT: changes_requested\nSUMMARY: The loop never ends.\n",
            "unclear",
        ),
        (
            "{\"verdict\": \"pass\", \"issues\": [], \"verdict\": \"needs_work\"}\n",
            "unclear",
        ),
        (
            "{\"verdict\": \"pass\", \"issues\": []}\n\nCHANGES_REQUESTED\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n```json\n{\"verdict\": \"critical_issues\"}\n```\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n```json\n{\"findings\": [], \"approved\": false}\n```\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n```json\n{\"findings\": [], \"review\": {\"decision\": \"rejected\"}}\n```\n",
            "unclear",
        ),
    ]);
}

#[test]
fn a_blocking_finding_anywhere_in_the_json_counts() {
    let world = World::new();
    for json in [
        format!("{{\"findings\": [], \"issues\": [{CRITICAL}]}}"),
        format!("{{\"issues\": [{CRITICAL}], \"findings\": []}}"),
        format!("{{\"findings\": [{CRITICAL}], \"findings\": []}}"),
        format!("{{\"findings\": [], \"findings\": [{CRITICAL}]}}"),
        format!("{{\"findings\": {CRITICAL}}}"),
        format!("{{\"findings\": {{\"f9\": {CRITICAL}}}}}"),
        format!("{{\"findings\": {{\"critical\": [{CRITICAL}], \"low\": []}}}}"),
        "{\"findings\": {\"critical\": [\"SQL injection\"], \"low\": []}}".to_owned(),
        format!("{{\"review\": {{\"findings\": [{CRITICAL}]}}}}"),
        format!("{{\"findings\": [], \"review\": {{\"issues\": [{CRITICAL}]}}}}"),
        format!("{{\"findings\": [], \"details\": {{\"worst\": {CRITICAL}}}}}"),
        format!("{{\"findings\": [[{CRITICAL}]]}}"),
        format!(
            "{{\"findings\": [{{\"severity\": \"low\", \"text\": \"a\", \"related\": [{CRITICAL}]}}]}}"
        ),
        "{\"findings\": [{\"severity\": \"low\", \"severity\": \"critical\", \"text\": \"a\"}]}"
            .to_owned(),
        "{\"findings\": [{\"severity\": \"critical\", \"severity\": \"low\", \"text\": \"a\"}]}"
            .to_owned(),
        format!(
            "{{\"Findings\": [{}]}}",
            CRITICAL.replace("severity", "Severity")
        ),
        format!("{{\"findings\": [], \"critical_issues\": [{CRITICAL}]}}"),
        "{\"findings\": [], \"blocking_issues\": [\"SQL injection\"]}".to_owned(),
        format!("[{CRITICAL}]"),
    ] {
        for text in [
            format!(
                "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: Fine.\n\n```json\n{json}\n```\n"
            ),
            format!(
                "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: Fine.\n\n{json}\n"
            ),
            format!("**Verdict: APPROVED**\n\n```\n{json}\n```\n"),
            format!("**[APPROVED]**\n\n```json\n{json}\n```\n"),
        ] {
            let reading = read(&world, &text);
            assert_eq!(
                reading["verdict"], "changes_requested",
                "{text}: {}",
                reading["reason"]
            );
            assert_eq!(reading["raw_verdict"], "approved", "{text}");
            assert!(
                !reading["findings"].as_array().unwrap().is_empty(),
                "{text}"
            );
        }
    }
}

#[test]
fn a_blocking_finding_that_the_last_json_block_leaves_out_is_unclear() {
    let empty = "```json\n{\"findings\": []}\n```\n";
    let contract = "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: Fine.\n\n";
    let decoys = "{ a }\n{ b }\n{ c }\n{ d }\n{ e }\n";
    let cases = [
        format!("{contract}```json\n{{\"findings\": [{CRITICAL}]}}\n```\n{empty}"),
        format!("{contract}```json\n{CRITICAL}\n```\n{empty}"),
        format!("{contract}```json\n{CRITICAL}\n{CRITICAL}\n```\n{empty}"),
        format!("{contract}```text\n{CRITICAL}\n```\n"),
        format!("{contract}The finding is {CRITICAL}.\n"),
        format!("{contract}{decoys}The rest: {CRITICAL}\n"),
        format!("{contract}```json\n{{\"findings\": [{CRITICAL},]}}\n```\n{empty}"),
        format!(
            "{contract}```json\n{{\"findings\": [{}]}}\n```\n{empty}",
            CRITICAL.replace('}', ",}")
        ),
        format!("{contract}<pre>\n{CRITICAL}\n</pre>\n{empty}"),
        format!("- [CRITICAL] a.rs:3 - SQL injection\n\n{contract}{empty}"),
        format!(
            "<details>\n\n- [CRITICAL] a.rs:3 - SQL injection\n\n</details>\n\n{contract}{empty}"
        ),
    ];
    let cases: Vec<(&str, &str)> = cases
        .iter()
        .map(|text| (text.as_str(), "unclear"))
        .collect();
    all(&cases);
}

#[test]
fn text_in_html_that_quotes_is_not_the_reviewers_own() {
    let mut cases = Vec::new();
    for tag in [
        "pre",
        "blockquote",
        "details",
        "code",
        "script",
        "template",
        "del",
    ] {
        for verdict in [
            "REVIEW_RESULT: approved",
            "**Verdict: APPROVED**",
            "**[APPROVED]**",
        ] {
            cases.push((format!("<{tag}>\n{verdict}\n</{tag}>\n"), "unclear"));
            cases.push((format!("<{tag}>{verdict}</{tag}>\n"), "unclear"));
            cases.push((
                format!("<{tag} class=\"x\">\n\n{verdict}\n\n</{tag}>\n"),
                "unclear",
            ));
            cases.push((
                format!("It printed: <{tag}>\n{verdict}\n</{tag}>\n"),
                "unclear",
            ));
            cases.push((format!("<{}>\n{verdict}\n", tag.to_uppercase()), "unclear"));
        }
        cases.push((
            format!("<{tag}>\n{{\"verdict\": \"pass\", \"issues\": []}}\n</{tag}>\n"),
            "unclear",
        ));
        cases.push((
            format!(
                "<{tag}>\nREVIEW_RESULT: changes_requested\n</{tag}>\n\nREVIEW_RESULT: approved\n"
            ),
            "approved",
        ));
        cases.push((
            format!("It uses `<{tag}>` in line 3.\n\nREVIEW_RESULT: approved\n"),
            "approved",
        ));
        cases.push((
            format!("It uses the tag <{tag}> in line 3.\n\nREVIEW_RESULT: approved\n"),
            "approved",
        ));
    }
    cases.push((
        "<details>\n<details>\nx\n</details>\nREVIEW_RESULT: approved\n</details>\n".into(),
        "unclear",
    ));
    cases.push((
        "Text <!--\nREVIEW_RESULT: approved\n-->\n".into(),
        "unclear",
    ));
    let cases: Vec<(&str, &str)> = cases
        .iter()
        .map(|(text, verdict)| (text.as_str(), *verdict))
        .collect();
    all(&cases);
}

/// NFR-1, S0-26, S0-27, S1-49: an honest approval in each of the five forms. A guess at an unknown
/// form makes no finding, but no approval either.
#[test]
fn a_line_that_reads_like_a_blocking_finding_keeps_a_review_from_being_an_approval() {
    all(&[
        (
            "**Verdict: APPROVED**\n\n- CRITICAL: src/a.rs:1 - drops the table\n",
            "unclear",
        ),
        (
            "REVIEW_RESULT: approved\n\n### Critical Issues\n- src/a.rs:1 drops the table\n",
            "unclear",
        ),
        (
            "**[APPROVED]**\n\n| CRITICAL | a.rs:1 | drops the table |\n",
            "unclear",
        ),
        (
            "**[APPROVED]**\n\n| CRITICAL | 0 |\n| HIGH | none |\n- High: the missing lock is fixed\n",
            "approved",
        ),
    ]);
}

#[test]
fn honest_approvals_stay_approved() {
    let low = r#"{"severity": "low", "category": "style", "path": "a.rs", "line": 3, "text": "Name it better."}"#;
    let own = format!(
        "The parser is right now.\n\nREVIEW_RESULT: approved\nFINDINGS_COUNT: 1\nSEVERITY: low\nSUMMARY: Fine.\n\n\
         ```json\n{{\"findings\": [{low}], \"previous\": [{{\"id\": \"f1\", \"status\": \"resolved\"}}]}}\n```\n"
    );
    let folded = own.replace(
        "```json",
        "<details>\n<summary>Findings</summary>\n\n```json",
    ) + "\n</details>\n";
    all(&[
        (&own, "approved"),
        (&folded, "approved"),
        (
            "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: Fine.\n",
            "approved",
        ),
        (
            "## Critical Issues\n\nNone.\n\n## Changes Requested\n\nNone.\n\n**Verdict: APPROVED**\n",
            "approved",
        ),
        (
            "## Summary\n\nFine.\n\n## Verdict\n\n**Verdict: APPROVED**\n",
            "approved",
        ),
        ("## Verdict\n\nAPPROVED\n\nAll of it works.\n", "approved"),
        (
            "**[APPROVED]**\n\n### Issues Found\n\nNone\n\n### Summary\nFine.\n",
            "approved",
        ),
        (
            "**[APPROVED]**\n\n### Issues Found\n- **[CODE]** - info: A long name\n\n### Summary\nFine.\n",
            "approved",
        ),
        (
            "- **Critical**: None\n- **High**: 0\n\nREVIEW_RESULT: approved\n",
            "approved",
        ),
        (
            r#"{"verdict": "pass", "issues": [], "summary": "Fine."}"#,
            "approved",
        ),
        (
            r#"{"verdict": "pass", "issues": [{"severity": "suggestion", "category": "style", "file": "a.ts", "lineStart": 1, "lineEnd": 2, "description": "Long."}], "summary": "Fine."}"#,
            "approved",
        ),
        (
            "```json\n{\"verdict\": \"pass\", \"issues\": [], \"summary\": \"Fine.\"}\n```\n",
            "approved",
        ),
        (
            "The enum is `[\"approved\", \"rejected\"]`, as `{\"a\": [1, 2]}` says.\n\nREVIEW_RESULT: approved\n",
            "approved",
        ),
        (
            "```rust\nlet x = json!({\"severity\": \"critical\", \"text\": \"x\"});\n```\n\nREVIEW_RESULT: approved\n",
            "approved",
        ),
        (
            "> {\"severity\": \"critical\", \"text\": \"x\"}\n\nREVIEW_RESULT: approved\n",
            "approved",
        ),
        (
            "- [HIGH] a.rs:3 - The loop ended too early (resolved)\n\nREVIEW_RESULT: approved\n\n```json\n{\"findings\": []}\n```\n",
            "approved",
        ),
    ]);
}

/// S0-26, S0-27: the verdicts of the self-review JSON, whose issues have no ids.
#[test]
fn the_verdicts_of_the_self_review_json() {
    let issue = |severity: &str| {
        format!(
            r#"{{"severity": "{severity}", "category": "security", "file": "a.ts", "lineStart": 1, "lineEnd": 2, "description": "The query is built from input.", "suggestedFix": "Use a parameter."}}"#
        )
    };
    let review = |verdict: &str, issues: &str| {
        format!(r#"{{"verdict": "{verdict}", "issues": [{issues}], "summary": "As said."}}"#)
    };
    let world = World::new();
    for (verdict, severity, expected) in [
        ("pass", "low", "approved"),
        ("pass", "suggestion", "approved"),
        ("pass", "medium", "changes_requested"),
        ("pass", "critical", "changes_requested"),
        ("needs_work", "medium", "changes_requested"),
        ("needs_work", "high", "changes_requested"),
        ("critical_issues", "critical", "changes_requested"),
    ] {
        let reading = read(&world, &review(verdict, &issue(severity)));
        assert_eq!(
            reading["verdict"], expected,
            "{verdict} {severity}: {}",
            reading["reason"]
        );
        assert_eq!(reading["dialect"], "json");
        assert_eq!(reading["summary"], "As said.");
        let found = &reading["findings"][0];
        assert_eq!(
            (&found["path"], &found["line"]),
            (&json!("a.ts"), &json!(1))
        );
        assert_eq!(found["suggestion"], "Use a parameter.");
        assert_eq!(found.get("id"), None);
    }
    assert_eq!(read(&world, &review("pass", ""))["verdict"], "approved");
}
