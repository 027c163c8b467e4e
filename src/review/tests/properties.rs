//! What holds for every text.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::review::read_answers;

/// Lines that matter to the reader, mixed into nonsense.
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
    let wrap =
        prop_oneof![Just(("> ", "")), Just(("```\n", "\n```")), Just(("~~~~ text\n", "\n~~~~~")), Just(("- > ", ""))];
    (verdict, wrap).prop_map(|(verdict, (before, after))| format!("{before}{verdict}{after}"))
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
        prop_assert_eq!(before, after, "{:?}", with);
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
        let text = format!("{}\nREVIEW_RESULT: approved\n", unit.repeat((1 << 18) / unit.len()));
        let began = Instant::now();
        medium(&text);
        read_answers(&text);
        // Quadratic would be hours; the bound only has to be kind to a slow machine.
        assert!(began.elapsed() < Duration::from_secs(10), "{unit:?} took {:?}", began.elapsed());
    }
}
