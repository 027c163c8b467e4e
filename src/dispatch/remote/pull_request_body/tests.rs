//! Tests of the description of a pull request that remand opens.

use super::*;

const MARKER: &str = "0123456789abcdef0123456789abcdef";

fn story() -> PullRequestStory {
    let review = |number: usize, verdict, findings, head: &str| ReviewStory {
        number,
        verdict,
        findings,
        agent: "claude".into(),
        model: (number == 2).then(|| "opus".into()),
        head: head.repeat(40),
    };
    let finding = |id: &str, severity, text: &str, outcome| FindingStory {
        id: FindingId::new(id),
        severity,
        text: text.into(),
        path: Some("src/retry.rs".into()),
        line: Some(12),
        outcome,
        note: None,
    };
    PullRequestStory {
        change_id: ChangeId::new("c7"),
        asked: "# Retry failed uploads\n\nAs @ada says in #12: three times, see\n\n```\nlog".into(),
        issue: None,
        commits: vec!["Retry uploads".into(), "Address review: fixes #3".into()],
        files: 4,
        reviews: vec![
            review(1, Verdict::ChangesRequested, 2, "a"),
            review(2, Verdict::Approved, 0, "b"),
        ],
        findings: vec![
            finding(
                "f1",
                Severity::High,
                "It loops\nfor ever",
                Outcome::Resolved,
            ),
            FindingStory {
                path: None,
                note: Some("The docs\nsay so, @bob".into()),
                ..finding("f2", Severity::Low, "No limit", Outcome::Disputed)
            },
        ],
        gates: vec!["cargo test".into(), "echo `date`".into()],
        gates_passed: true,
        human_review: None,
        template: None,
        local_paths: vec!["/home/ada".into(), "/home/ada/work/pr-7/".into()],
    }
}

/// Makes the characters visible that keep names apart.
fn shown(text: &str) -> String {
    text.replace('\u{200b}', "·")
}

#[test]
fn a_description_reports_task_changes_reviews_findings_and_checks() {
    let story = story();
    assert_eq!(story.title(), "Retry failed uploads");
    insta::assert_snapshot!(shown(&story.body(MARKER)), @r"
    ## Task

    > #· Retry failed uploads
    >
    > As @·ada says in #·12: three times, see
    >
    > ```
    > log
    > ```

    ## Changes

    2 commits, 4 files changed:

    - Retry uploads
    - Address review: fixes \#·3

    ## Reviews

    By agents:

    - Review 1 of aaaaaaaaaa by claude: requests changes, 2 findings
    - Review 2 of bbbbbbbbbb by claude (opus): no objections, 0 findings

    ## Findings

    Open:

    - **low**: No limit (f2: disputed by the agent that should fix it: The docs say so, @·bob)

    Closed:

    - **high** `src/retry.rs:12`: It loops (f1: resolved)

    ## Checks

    These commands pass on the last commit:

    - `cargo test`
    - `` echo `date` ``

    ## How to continue

    An agent wrote this, and **remand** opened the pull request. To have something changed, request changes or comment with a review. Reviews by people with write permission are heard: an agent then makes a fix and pushes it here. This is not an approval; approving and merging are up to a person. The operator can see more with `remand why c7`.

    <!-- remand:0123456789abcdef0123456789abcdef -->
    ");
}

#[test]
fn a_template_comes_first_and_swallows_nothing() {
    for (template, expected) in [
        ("## Why\n\nFixes #\n", "## Why\n\nFixes #\n\n---\n\n## Task"),
        ("<!-- why? -->", "<!-- why? -->\n\n---\n\n## Task"),
        (
            "<!-- why? --> <!--",
            "<!-- why? --> <!--\n-->\n\n---\n\n## Task",
        ),
        ("```\nlog", "```\nlog\n```\n\n---\n\n## Task"),
        (" \n", "## Task"),
    ] {
        let story = PullRequestStory {
            template: Some(template.into()),
            ..story()
        };
        let body = story.body(MARKER);
        assert!(body.starts_with(expected), "{body}");
    }
    let story = PullRequestStory {
        template: Some("x".repeat(TEMPLATE + 1)),
        ..story()
    };
    assert!(story.body(MARKER).starts_with("The repository's template"));
}

#[test]
fn what_a_person_has_to_decide_is_at_the_top() {
    let story = PullRequestStory {
        template: Some("Checklist".into()),
        human_review: Some("a finding is\nopen in /home/ada/work/pr-7/src/x.rs".into()),
        issue: Some(12),
        gates: Vec::new(),
        reviews: Vec::new(),
        findings: Vec::new(),
        ..story()
    };
    insta::assert_snapshot!(shown(&story.body(MARKER)), @r"
    Checklist

    ---

    > **A person must review this**: a finding is open in src/x.rs

    ## Task

    > #· Retry failed uploads
    >
    > As @·ada says in #·12: three times, see
    >
    > ```
    > log
    > ```

    Closes #12

    ## Changes

    2 commits, 4 files changed:

    - Retry uploads
    - Address review: fixes \#·3

    ## Reviews

    No agent has reviewed this.

    ## Checks

    No checks are configured.

    ## How to continue

    An agent wrote this, and **remand** opened the pull request. To have something changed, request changes or comment with a review. Reviews by people with write permission are heard: an agent then makes a fix and pushes it here. This is not an approval; approving and merging are up to a person. The operator can see more with `remand why c7`.

    <!-- remand:0123456789abcdef0123456789abcdef -->
    ");
}

#[test]
fn secrets_and_local_paths_are_not_in_it() {
    let token = "ghp_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R";
    let dirty = format!("{token} in /home/ada/work/pr-7/src/a.rs of /home/ada/.cache @bob <!-- x");
    let mut story = story();
    story.template = None;
    story.asked.clone_from(&dirty);
    story.commits = vec![dirty.clone()];
    story.gates = vec![format!("/home/ada/check {token}")];
    story.human_review = Some(dirty.clone());
    for finding in &mut story.findings {
        finding.text.clone_from(&dirty);
        finding.note = Some(dirty.clone());
    }
    let text = story.title() + &story.body(MARKER);
    for hidden in [token, "/home", "@bob"] {
        assert!(!text.contains(hidden), "{hidden}: {text}");
    }
    assert!(text.contains("*** in src/a.rs of .cache"), "{text}");
    assert_eq!(text.matches("<!--").count(), 1, "{text}");
}

#[test]
fn a_long_description_is_shortened_and_keeps_its_marker() {
    let mut story = story();
    story.asked = "ü@".repeat(10_000);
    story.commits = vec!["ü@".repeat(500); 3_000];
    story.findings = vec![story.findings[0].clone(); 2_000];
    story.human_review = Some("x".repeat(10_000));
    for template in [None, Some("x\n".repeat(TEMPLATE / 2))] {
        story.template = template;
        let body = story.body(MARKER);
        assert!(body.len() <= MOST, "{}", body.len());
        assert!(body.len() > MOST - 2_000, "{}", body.len());
        assert!(body.ends_with(&format!("\n\n{}", marker_line(MARKER))));
        for heading in [
            "## Task",
            "## Changes",
            "## Findings",
            "## Checks",
            "## How to",
        ] {
            assert!(body.contains(heading), "{heading}");
        }
        assert!(body.contains("shortened"));
    }
    assert!(story.title().chars().count() <= TITLE_CHARACTERS);
    story.asked = "\u{301}".repeat(1_000);
    assert!(story.title().chars().count() <= TITLE_CHARACTERS);
}

#[test]
fn a_title_is_found_somewhere() {
    let title = |asked: &str, commits: &[&str]| {
        let commits = commits.iter().map(|one| (*one).to_owned()).collect();
        PullRequestStory {
            asked: asked.into(),
            commits,
            ..story()
        }
        .title()
    };
    assert_eq!(title("\n\n## Fix it \nnow", &[]), "Fix it");
    assert_eq!(title("\n", &["Fix it"]), "Fix it");
    assert_eq!(title("", &[]), "Change c7");
}

#[test]
fn subjects_and_findings_are_shown_as_they_are_written() {
    let mut story = story();
    let live = "<details>[x](y) ![z](w) *b* `c` <!-- remand:1 -->";
    let shown_as = "\\<details\\>\\[x\\](y) \\!\\[z\\](w) \\*b\\* \\`c\\` \\<\\!-- remand:1 --\\>";
    story.commits = vec![
        live.into(),
        "- item".into(),
        "1. item".into(),
        "--- a".into(),
    ];
    story.findings[0].text = live.into();
    let body = shown(&story.body(MARKER));
    assert!(
        body.contains(&format!("\n- {shown_as}\n- ·- item\n- ·1. item\n- ·--- a")),
        "{body}"
    );
    assert!(body.contains(&format!("12`: {shown_as} (f1")), "{body}");
    assert_eq!(markdown_line(live), shown_as);
}

#[test]
fn a_title_has_no_markup_and_no_marker() {
    let mut story = story();
    story.asked = "Drop <!-- x --> and ```y`, says @bob".into();
    assert_eq!(
        shown(&story.title()),
        "Drop <·!-- x --> and ```y`, says @·bob"
    );
    story.asked = "```y".into();
    assert_eq!(story.title(), "```y");
}

/// A block of code, a comment or an element that is left open.
#[test]
fn what_others_left_open_ends_with_their_text() {
    for open in ["```", "~~~ sh", "<!-- x", "<details>", "`", "# x"] {
        let mut story = story();
        let part = story.body(MARKER);
        let (_, end) = part.split_once("## Checks").unwrap();
        story.commits = vec![open.to_owned()];
        for finding in &mut story.findings {
            finding.text = open.to_owned();
            finding.note = Some(format!("{open}\n{open}"));
            finding.path = Some(format!("{open}\n{open}"));
        }
        story.human_review = Some(open.to_owned());
        let body = story.body(MARKER);
        assert!(body.ends_with(end), "{body}");
        for line in body.lines() {
            let is_ours = ["##", "- ", "> "]
                .iter()
                .any(|start| line.starts_with(start));
            let is_sentence = line.is_empty() || line.ends_with(['.', ':', '>']);
            assert!(is_ours || is_sentence || line == ">", "{open}: {line}");
            assert!(
                open_fence(line.trim_start_matches("- ")).is_none(),
                "{line}"
            );
        }
    }
}

#[test]
fn an_address_after_a_keyword_closes_nothing() {
    for (text, expected) in [
        (
            "Fixes https://x/issues/3, closes: <https://x/4>",
            "F·ixes https://x/issues/3, c·loses: <https://x/4>",
        ),
        ("see https://x/3", "see https://x/3"),
        ("prefixes https://x/3", "prefixes https://x/3"),
        ("fixhttps://x/3 ü http", "fixhttps://x/3 ü http"),
        ("http fix http fix", "http f·ix http fix"),
        ("", ""),
    ] {
        assert_eq!(shown(&without_keywords(text)), expected);
    }
}
