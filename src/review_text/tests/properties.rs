//! Properties that hold for every text.

use proptest::prelude::*;

use super::*;
use crate::review_text::read_answers;

/// Generates lines that matter to the parser, mixed with nonsense.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("REVIEW_RESULT: approved"),
        Just("REVIEW_RESULT: changes_requested"),
        Just("**Verdict: APPROVED**"),
        Just("**[REJECTED]**"),
        Just("## Verdict"),
        Just("approved"),
        Just("FINDINGS_COUNT: 2"),
        Just("SEVERITY: high"),
        Just("- [HIGH] src/a.rs:1 - wrong"),
        Just("- item"),
        Just("    code"),
        Just("> quotation"),
        Just("```json\n{\"findings\":[]}\n```"),
        Just("~~~\ncode\n~~~"),
        Just(""),
        Just("Some prose about the change."),
    ]
    .prop_map(str::to_owned)
}

fn aside() -> impl Strategy<Value = String> {
    let verdict = prop_oneof![
        Just("REVIEW_RESULT: approved"),
        Just("REVIEW_RESULT: changes_requested"),
        Just("**Verdict: NEEDS_DISCUSSION**"),
        Just("**[APPROVED]**"),
    ];
    let wrap = prop_oneof![
        Just(("> ", "")),
        Just(("```\n", "\n```")),
        Just(("~~~~ text\n", "\n~~~~~")),
        Just(("- > ", ""))
    ];
    (verdict, wrap).prop_map(|(verdict, (before, after))| format!("{before}{verdict}{after}"))
}

/// Approvals in each dialect, all honest.
const APPROVALS: &[&str] = &[
    "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: Fine.",
    "REVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSEVERITY: none\nSUMMARY: Fine.\n\n```json\n{\"findings\":[],\"previous\":[]}\n```",
    "**Verdict: APPROVED**",
    "## Verdict\n\nAPPROVED",
    "**[APPROVED]**\n\n### Issues Found\n\nNone",
    "{\"verdict\":\"pass\",\"issues\":[],\"summary\":\"Fine.\"}",
    "```json\n{\"verdict\":\"pass\",\"issues\":[]}\n```",
];

/// Text that an honest review may have next to its verdict.
const FILLERS: &[&str] = &[
    "Some prose about the change, which is\nwrapped here.",
    "> REVIEW_RESULT: changes_requested\n> - [CRITICAL] a.rs:1 - quoted",
    "```rust\nlet a = [1, 2];\n```",
    "- an item\n- another one with `code`",
    "<details>\n<summary>More</summary>\n\nREVIEW_RESULT: changes_requested\n\n</details>",
    "<pre>\n**[REJECTED]**\n</pre>",
    "<!-- REVIEW_RESULT: changes_requested -->",
    "## Critical Issues\n\nNone.",
    "- **High**: None",
    "- [LOW] a.rs:3 - a name",
    "| a | b |\n|---|---|\n| c | d |",
    "A set like { a, b } and [1, 2].",
];

fn wrapped_json() -> impl Strategy<Value = String> {
    let one = prop_oneof![
        Just(r#"{"severity":"critical","text":"injection"}"#),
        Just(r#"{"severity":"High","category":"logic","path":"a.rs","line":3,"text":"lost"}"#),
        Just(r#"{"description":"a hole","file":"a.ts","lineStart":1,"severity":"error"}"#),
        Just(r#"{"severity":"low","text":"a","severity":"critical"}"#),
        Just(r#"{"text":"no severity at all","severity":"P1"}"#),
    ];
    let shape = prop_oneof![
        Just(r#"{"findings":[@]}"#),
        Just(r#"{"issues":[@],"findings":[]}"#),
        Just(r#"{"findings":[],"issues":[@]}"#),
        Just(r#"{"findings":@}"#),
        Just(r#"{"findings":{"x":@}}"#),
        Just(r#"{"findings":[@],"findings":[]}"#),
        Just(r#"{"verdict":"pass","issues":[],"more":{"deep":[{"issues":[@]}]}}"#),
        Just(r#"{"verdict":"pass","issues":[],"more":{"deep":[[@]]}}"#),
        Just(r#"{"findings":[{"severity":"low","text":"b","see":@}]}"#),
        Just(r#"[@]"#),
        Just(r#"@"#),
    ];
    let wrap = prop_oneof![
        Just("```json\n@\n```"),
        Just("```\n@\n```"),
        Just("~~~json\n@\n~~~"),
        Just("@"),
        Just("It is @ then."),
        Just("<details>\n\n```json\n@\n```\n\n</details>"),
        Just("<pre>@</pre>"),
        Just("```json\n@,\n```"),
        Just("    @"),
    ];
    (one, shape, wrap).prop_map(|(one, shape, wrap)| wrap.replace('@', &shape.replace('@', one)))
}

/// Generates a blocking finding, or a verdict other than approval, in any known form.
fn objection() -> impl Strategy<Value = String> {
    let prose = prop_oneof![
        Just("- [HIGH] src/a.rs:1 - wrong"),
        Just("* **[CODE]** - error: lost update"),
        Just("1. **Critical**: a hole"),
        Just("### [ERROR] Code: lost update (a.rs:3)"),
        Just("### [CRITICAL] a hole"),
        Just("**[CRITICAL]** a hole"),
        Just("- CRITICAL: a.rs:1 - a hole"),
        Just("* (high) a.rs:1 - a hole"),
        Just("- 🔴 **CRITICAL** a hole"),
        Just("### Critical Issues\n\n- a hole"),
        Just("| CRITICAL | a.rs:1 | a hole |"),
        Just("REVIEW_RESULT: changes_requested"),
        Just("**Verdict: NEEDS_DISCUSSION**"),
        Just("**[REJECTED]** two bugs"),
        Just("CHANGES_REQUESTED"),
        Just("Rejected."),
        Just("## Verdict\n\nCHANGES_REQUESTED"),
        Just("Verdict:\n\nAPPROVED\n\nREJECTED"),
        Just("| Verdict | REJECTED |"),
        Just("{\"verdict\":\"needs_work\",\"issues\":[]}"),
        Just("```json\n{\"approved\":false}\n```"),
    ];
    prop_oneof![prose.prop_map(str::to_owned), wrapped_json()]
}

/// Ways to write the same text.
const DRESSES: &[fn(&str) -> String] = &[
    str::to_owned,
    |text| text.replace('\n', "\r\n"),
    |text| format!("\u{feff}{text}"),
    |text| text.replace('\n', "  \n"),
    |text| text.replace("\n\n", "\n\n\n"),
    |text| text.replace(": ", ":\u{a0}"),
    |text| text.trim_end().to_owned(),
    |text| format!("# Review\n\n{text}\n---\n"),
];

fn chunks(of: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(prop::sample::select(of).prop_map(str::to_owned), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_approval_with_an_objection_anywhere_is_never_approved(
        mut parts in chunks(FILLERS),
        approval in prop::sample::select(APPROVALS),
        objection in objection(),
        (one, two) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        dressed in prop::sample::select(DRESSES),
    ) {
        parts.insert(one.index(parts.len() + 1), approval.to_owned());
        parts.insert(two.index(parts.len() + 1), objection);
        let text = dressed(&(parts.join("\n\n") + "\n"));
        let reading = medium(&text);
        prop_assert_ne!(reading.verdict, APPROVED, "{}\n{}", text, reading.reason);
    }

    #[test]
    fn an_honest_approval_in_any_dialect_is_approved(
        mut parts in chunks(FILLERS),
        approval in prop::sample::select(APPROVALS),
        at in any::<prop::sample::Index>(),
        dressed in prop::sample::select(DRESSES),
    ) {
        parts.insert(at.index(parts.len() + 1), approval.to_owned());
        let text = dressed(&(parts.join("\n\n") + "\n"));
        let reading = medium(&text);
        prop_assert_eq!(reading.verdict, APPROVED, "{}\n{}", text, reading.reason);
    }
}

proptest! {
    // A failing case becomes a named test, not a file of seeds.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_without_a_panic(text in "(?s).{0,400}") {
        medium(&text);
        read_answers(&text);
    }

    #[test]
    fn marks_in_any_order_are_read_without_a_panic(text in "[-\\[\\](){}<>|:*_`~#>\"a-zV \n\r\t\u{200b}ä✅0-9.,/]{0,400}") {
        medium(&text);
        read_answers(&text);
        for line in text.lines() {
            medium(&format!("REVIEW_RESULT: {line}\n- [HIGH] {line}\n### [ERROR] Code: {line}\n"));
        }
    }

    #[test]
    fn a_quoted_or_fenced_verdict_never_changes_the_verdict(
        lines in prop::collection::vec(line(), 0..12),
        aside in aside(),
        at in any::<prop::sample::Index>(),
    ) {
        let before = medium(&lines.join("\n")).verdict;
        let mut with = lines.clone();
        with.insert(at.index(lines.len() + 1), aside);
        let after = medium(&with.join("\n")).verdict;
        // It may separate lines that were one paragraph, which can only strengthen a rejection or
        // make the result unclear.
        let is_same = before == after;
        let is_safer = after != APPROVED && (before == UNCLEAR || after == UNCLEAR);
        prop_assert!(is_same || is_safer, "{before:?}, then {after:?}: {with:?}");
    }

    #[test]
    fn a_cut_approval_approves_only_with_its_whole_verdict_line(cut in 0usize..400, ours in any::<bool>()) {
        let (text, line) = if ours {
            (format!("Fine.\n\n{}", contract("approved", 1, "low", &finding("low"))), "REVIEW_RESULT: approved")
        } else {
            ("Fine work.\n\n## Verdict\n\n**Verdict: APPROVED**\n".to_owned(), "**Verdict: APPROVED")
        };
        let part: String = text.chars().take(cut).collect();
        let reading = medium(&part);
        prop_assert!(reading.verdict != APPROVED || part.contains(line), "{part:?}");
        prop_assert!(reading.verdict != CHANGES, "{part:?}");
    }
}

#[test]
fn a_long_text_of_anything_is_read_in_linear_time() {
    let units = [
        "REVIEW_RESULT: approved\n",
        "REVIEW_RESULT:\n",
        "SUMMARY:\n",
        "> > > > ",
        "```\n",
        "- - - - ",
        "{\n",
        "{\"a\":[",
        "[[[[",
        "- [HIGH] a\n",
        "### [HIGH] Code: a (b\n",
        "**",
        "1. ",
        "`",
        "\u{200b}",
        "#",
        "<!--\n",
        "    x\n\n",
        "ä",
        "```json\n{\"findings\":[{\"text\":\"x\"}]}\n```\n",
        "```json\n{\"previous\":{\"f1\":\"open\"}}\n```\n",
        "verdict ",
        "_-",
    ];
    for unit in units {
        let text = format!(
            "{}\nREVIEW_RESULT: approved\n",
            unit.repeat((1 << 18) / unit.len())
        );
        let began = cpu_time_s();
        medium(&text);
        read_answers(&text);
        // Quadratic time would be hours. The time of this thread, however busy the machine is.
        let took = cpu_time_s() - began;
        assert!(took < 10, "{unit:?} took {took} s");
    }
}

fn cpu_time_s() -> i64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime).tv_sec
}
