//! Conversion of findings.

use super::*;
use crate::finding::{Category, Finding, Outcome};

fn read_one(json: &str) -> Finding {
    let reading = medium(&contract("changes_requested", 1, "high", json));
    assert_eq!(reading.findings.len(), 1, "{json}: {}", reading.reason);
    reading.findings.into_iter().next().unwrap()
}

#[test]
fn keys_of_other_dialects_are_aliases() {
    let ours = read_one(
        "{\"severity\":\"high\",\"category\":\"testing\",\"path\":\"src/a.rs\",\"line\":12,\"line_end\":14,\"text\":\"t\",\"suggestion\":\"s\"}",
    );
    assert_eq!(ours.place().as_deref(), Some("src/a.rs:12-14"));
    for theirs in [
        "{\"severity\":\"error\",\"category\":\"test\",\"file\":\"./src/a.rs\",\"lineStart\":12,\"lineEnd\":14,\"description\":\"t\",\"suggestedFix\":\"s\"}",
        "{\"severity\":\"MAJOR\",\"category\":\"Test Coverage\",\"file\":\"src/a.rs:12-14\",\"message\":\"t\",\"suggestion\":\"s\"}",
        "{\"severity\":\"High\",\"category\":\"tests\",\"path\":\"src\\\\a.rs\",\"lines\":\"12-14\",\"title\":\"t\",\"fix\":\"s\"}",
        "{\"severity\":\"high\",\"category\":\"testing\",\"path\":\"`src/a.rs`\",\"lines\":[12,14],\"text\":\"t\",\"suggestion\":\"s\"}",
    ] {
        assert_eq!(read_one(theirs), ours, "{theirs}");
    }
    let both =
        read_one("{\"severity\":\"low\",\"title\":\"Leak\",\"description\":\"never closed\"}");
    assert_eq!(both.titled_text(), "Leak: never closed");
}

#[test]
fn title_failure_and_last_line_are_read() {
    let all = read_one(
        r#"{"severity":"high","path":"a.rs","line":3,"line_end":5,"title":"Leak","text":"never closed","failure":"open twice"}"#,
    );
    let parts = (all.title.as_deref(), all.failure.as_deref(), all.line_end);
    assert_eq!(parts, (Some("Leak"), Some("open twice"), Some(5)));
    assert_eq!(all.text, "never closed");
    for (json, line, line_end) in [
        (r#""line": 3, "line_end": null"#, Some(3), None),
        (r#""line": 3, "line_end": 3"#, Some(3), None),
        (r#""line": 3, "line_end": 1"#, Some(3), None),
        (r#""line": "L3-L5""#, Some(3), Some(5)),
        (r#""line": "3:5""#, Some(3), None),
        (r#""line": 3, "endLine": "5""#, Some(3), Some(5)),
        (r#""line_end": 5"#, None, None),
        (r#""line": [3]"#, Some(3), None),
    ] {
        let finding = format!(
            r#"{{"severity":"high","path":"a.rs","text":"t","title":null,"failure":null,{json}}}"#
        );
        let finding = read_one(&finding);
        assert_eq!((finding.line, finding.line_end), (line, line_end), "{json}");
        assert_eq!((finding.title, finding.failure), (None, None), "{json}");
    }
}

#[test]
fn severities_and_categories_are_mapped() {
    for (word, severity) in [
        ("critical", Severity::Critical),
        ("error", Severity::High),
        ("Major", Severity::High),
        ("WARNING", Severity::Medium),
        ("info", Severity::Low),
        ("minor", Severity::Low),
        ("suggestion", Severity::Suggestion),
        ("nit", Severity::Suggestion),
    ] {
        assert_eq!(read_one(&finding(word)).severity, severity, "{word}");
    }
    for (word, category) in [
        ("code", Category::Logic),
        ("Code Quality", Category::Logic),
        ("test", Category::Testing),
        ("compliance", Category::Compliance),
        ("vibes", Category::Logic),
        ("", Category::Logic),
    ] {
        let json = format!("{{\"severity\":\"low\",\"category\":\"{word}\",\"text\":\"t\"}}");
        assert_eq!(read_one(&json).category, category, "{word}");
    }
}

#[test]
fn a_finding_is_never_dropped() {
    for json in [
        "{\"severity\":\"spicy\",\"text\":\"t\"}",
        "{\"text\":\"t\"}",
        "\"t\"",
        "{\"severity\":7,\"text\":\"t\"}",
    ] {
        for (threshold, severity) in [
            (Severity::Medium, Severity::Medium),
            (Severity::Low, Severity::Medium),
            (Severity::High, Severity::High),
        ] {
            let reading = read(&contract("approved", 1, "low", json), threshold);
            assert_eq!(reading.findings[0].severity, severity, "{json}");
            assert_eq!(reading.findings[0].text, "t");
            assert_eq!(reading.verdict, CHANGES, "{json}");
            assert!(
                reading.reason.contains("unknown severity"),
                "{}",
                reading.reason
            );
        }
    }
    assert_eq!(
        read_one("{\"severity\":\"high\",\"where\":\"here\"}").text,
        "{\"severity\":\"high\",\"where\":\"here\"}"
    );
}

#[test]
fn a_path_out_of_the_worktree_is_only_text() {
    for path in [
        "/etc/passwd",
        "../a.rs",
        "src/../../a.rs",
        "C:\\\\a.rs",
        "~/a.rs",
        "https://x.org/a.rs",
        "a\\u0000b",
    ] {
        let found = read_one(&format!(
            "{{\"severity\":\"high\",\"path\":\"{path}\",\"line\":4,\"text\":\"t\"}}"
        ));
        assert_eq!(found.path, None, "{path}");
        assert!(found.text.starts_with("t (at `"), "{}", found.text);
    }
    for (path, expected) in [
        ("././a.rs", Some("a.rs")),
        ("a..b.rs", Some("a..b.rs")),
        ("N/A", None),
        ("", None),
    ] {
        let found = read_one(&format!(
            "{{\"severity\":\"high\",\"path\":\"{path}\",\"line\":0,\"text\":\"t\"}}"
        ));
        assert_eq!(
            (found.path.as_deref(), found.line, found.text.as_str()),
            (expected, None, "t")
        );
    }
}

#[test]
fn long_texts_and_long_lists_are_cut_and_it_is_said() {
    let long = "ä".repeat(10_000);
    let reading = medium(&contract(
        "changes_requested",
        1,
        "high",
        &finding("high").replace("Wrong.", &long),
    ));
    assert!(reading.findings[0].text.len() <= 8 * 1024);
    assert!(reading.findings[0].text.ends_with("ä…"));
    assert!(reading.reason.contains("cut"), "{}", reading.reason);

    let mut many = vec![finding("low"); 2_000];
    many.push(finding("critical"));
    let reading = medium(&contract("approved", 2_001, "critical", &many.join(",")));
    assert_eq!((reading.verdict, reading.findings.len()), (CHANGES, 2_000));
    assert_eq!(reading.findings[0].severity, Severity::Critical);
    assert!(
        reading
            .reason
            .contains("Only the 2000 most severe of 2001 findings"),
        "{}",
        reading.reason
    );
}

#[test]
fn the_reviewer_judges_each_earlier_finding() {
    let text = "REVIEW_RESULT: approved\n```json\n{\"findings\":[],\"previous\":[{\"id\":\"f3\",\"status\":\"resolved\"},\
                {\"id\":\"`F4`\",\"status\":\"still open\"},{\"id\":5,\"status\":\"perhaps\"},{\"status\":\"open\"},\
                {\"id\":\"f3\",\"status\":\"open\"},{\"id\":\"f6\",\"status\":\"Fixed\"}]}\n```\n";
    let reading = medium(text);
    let judged: Vec<(&str, Outcome)> = reading
        .judged
        .iter()
        .map(|j| (j.id.as_str(), j.outcome))
        .collect();
    assert_eq!(
        judged,
        [
            ("f3", Outcome::Open),
            ("f4", Outcome::Open),
            ("f5", Outcome::Open),
            ("f6", Outcome::Resolved)
        ]
    );
    assert!(
        reading
            .reason
            .contains("1 unknown statuses of earlier findings count as open"),
        "{}",
        reading.reason
    );
    let map = medium(
        "REVIEW_RESULT: approved\n```json\n{\"findings\":[],\"previous\":{\"f1\":\"resolved\"}}\n```\n",
    );
    assert_eq!(map.judged[0].outcome, Outcome::Resolved);
}

#[test]
fn bullets_of_a_review_without_json() {
    let text = "REVIEW_RESULT: changes_requested\n\n\
                - [HIGH] src/a.rs:12 - The loop ends too early\n  and the last item is lost.\n\
                - **Low**: Name it better (src/b.rs:3)\n\
                - **[security]** - critical: Token in the log\n  - File: src/c.rs\n  - Line: 7\n  - Suggestion: Redact it\n\
                - High hopes for this one\n- **High** coverage\n- [ ] a task\n- [x](http://x) a link\n\nUnrelated.\n";
    let rows: Vec<String> = medium(text)
        .findings
        .iter()
        .map(|f| {
            format!(
                "{} {} {:?}:{:?} {:?} {:?}",
                f.severity, f.category, f.path, f.line, f.text, f.suggestion
            )
        })
        .collect();
    insta::assert_snapshot!(rows.join("\n"), @r##"
    high logic Some("src/a.rs"):Some(12) "The loop ends too early\nand the last item is lost." None
    low logic Some("src/b.rs"):Some(3) "Name it better" None
    critical security Some("src/c.rs"):Some(7) "Token in the log" Some("Redact it")
    "##);
}

#[test]
fn bullets_block_an_approval_too() {
    let reading = medium("**[APPROVED]**\n\n### Issues Found\n- **[CODE]** - error: Lost update\n");
    assert_eq!(
        (reading.verdict, reading.raw_verdict),
        (CHANGES, Some(APPROVED))
    );
}
