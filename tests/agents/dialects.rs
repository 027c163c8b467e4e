//! The five forms in which a reviewer may answer: each can reject and, after a fix, approve; and
//! the effect of an approval on findings that are still open.

use crate::support::play::{Play, Script};
use crate::support::pull_play::PullPlay;

const FOUR_LINES: &str = "printf 'REVIEW_RESULT: approved\\nFINDINGS_COUNT: 0\\nSEVERITY: none\\nSUMMARY: it is fixed\\n'";
const REJECTS_IN_OWN_FORM: &str = "says changes_requested no \"$(finding work.txt 1 'say fixed')\"";

/// Reviewer that rejects until `work.txt` contains "fixed".
fn reviewer(rejects: &str, approves: &str) -> String {
    format!("if grep -q fixed work.txt; then {approves}; else {rejects}; fi")
}

/// Rejection, fix and approval in one form: the change is ready, and the finding closed as
/// expected.
#[track_caller]
fn loops(rejects: &str, approves: &str, dialect: &str, finding: &str) -> Play {
    let play = Play::new(&Script {
        reviewer: &reviewer(rejects, approves),
        ..Script::default()
    });
    play.tick().report();
    play.is_ready(1);
    let reviews = play
        .world
        .sqlite("SELECT verdict, raw_verdict, dialect FROM reviews ORDER BY review_id");
    assert_eq!(
        reviews,
        format!("changes_requested|changes_requested|{dialect}\napproved|approved|{dialect}")
    );
    let findings = play
        .world
        .sqlite("SELECT text, path, outcome, resolution FROM findings");
    assert_eq!(findings, finding);
    assert_eq!(
        play.count("events WHERE event_type = 'review_unclear'"),
        0,
        "{:#?}",
        play.events()
    );
    play
}

/// NFR-1: the four lines are the whole contract. A rejection without JSON has its summary as its
/// finding.
#[test]
fn the_four_lines_of_the_contract() {
    let rejects = "printf 'REVIEW_RESULT: changes_requested\\nFINDINGS_COUNT: 1\\nSEVERITY: high\\nSUMMARY: say fixed\\n'";
    let play = loops(
        rejects,
        FOUR_LINES,
        "contract",
        "say fixed||resolved|not_raised_again",
    );
    let event = play.world.sqlite(
        "SELECT metadata ->> 'not_raised_again' FROM events WHERE event_type = 'work_approved'",
    );
    assert_eq!(event, "[\"f1\"]");
    let severity = play.world.sqlite("SELECT severity FROM findings");
    assert_eq!(severity, "high");
}

/// NFR-1: with its findings as a list in prose.
#[test]
fn the_four_lines_and_a_list() {
    let rejects = "printf -- '- [HIGH] work.txt:1 - say fixed\\n\\nREVIEW_RESULT: changes_requested\\nSUMMARY: no\\n'";
    loops(
        rejects,
        FOUR_LINES,
        "contract",
        "say fixed|work.txt|resolved|not_raised_again",
    );
}

#[test]
fn a_verdict_line() {
    let rejects =
        "printf '## Summary\\n\\nsay fixed\\n\\n## Verdict\\n\\n**Verdict: CHANGES_REQUESTED**\\n'";
    let approves = "printf '## Summary\\n\\nfine\\n\\n**Verdict: APPROVED**\\n'";
    loops(
        rejects,
        approves,
        "verdict_line",
        "say fixed||resolved|not_raised_again",
    );
}

/// S1-49: the decision in brackets, the issues with their category, severity and file.
#[test]
fn a_decision_in_brackets() {
    let rejects = "printf '**[REJECTED]**\\n\\n### Issues Found\\n- **[CODE]** - error: say fixed\\n  - File: work.txt\\n  - Line: 1\\n\\n### Summary\\nIt has to be fixed.\\n'";
    let approves =
        "printf '**[APPROVED]**\\n\\n### Issues Found\\nNone\\n\\n### Summary\\nFine.\\n'";
    loops(
        rejects,
        approves,
        "bracket",
        "say fixed|work.txt|resolved|not_raised_again",
    );
}

/// S0-26, S0-27: the self-review JSON; remand assigns ids to its issues.
#[test]
fn the_self_review_json() {
    let issue = r#"{"severity": "high", "category": "logic", "file": "work.txt", "lineStart": 1, "lineEnd": 1, "description": "say fixed"}"#;
    let rejects = format!(
        "printf '%s\\n' '{{\"verdict\": \"needs_work\", \"issues\": [{issue}], \"summary\": \"no\"}}'"
    );
    let approves = r#"printf '%s\n' '{"verdict": "pass", "issues": [], "summary": "fine"}'"#;
    let play = loops(
        &rejects,
        approves,
        "json",
        "say fixed|work.txt|resolved|not_raised_again",
    );
    assert_eq!(play.world.sqlite("SELECT finding_id FROM findings"), "f1");
}

#[test]
fn our_own_json_form() {
    loops(
        REJECTS_IN_OWN_FORM,
        "says approved fine",
        "contract",
        "say fixed|work.txt|resolved|judged",
    );
}

/// The reviewer answers in four lines to a finding that needs an explicit judgment, and is asked
/// for it once.
#[track_caller]
fn needs_a_word(fixer: &str, settled: &str) {
    let approves = format!(
        "if grep -q '{settled}' notes.txt 2>/dev/null; then {FOUR_LINES}; else {REJECTS_IN_OWN_FORM}; fi"
    );
    let play = Play::new(&Script {
        reviewer: &approves,
        fixer,
        ..Script::default()
    });
    play.tick().report();
    play.is_escalated("does not say whether these findings of earlier reviews are resolved: f1");
    assert_eq!(play.count("events WHERE event_type = 'review_unclear'"), 1);
    assert_eq!(play.count("findings WHERE outcome = 'resolved'"), 0);
    assert!(
        play.prompt_of_run("r4")
            .contains("a status, resolved or open, for f1"),
        "{}",
        play.prompt_of_run("r4")
    );

    let judges = format!(
        "if grep -q '{settled}' notes.txt 2>/dev/null; then \
           if [ -e \"$PROMPTS/asked\" ]; then says approved fine; else : >\"$PROMPTS/asked\"; {FOUR_LINES}; fi; \
         else {REJECTS_IN_OWN_FORM}; fi"
    );
    let play = Play::new(&Script {
        reviewer: &judges,
        fixer,
        ..Script::default()
    });
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        play.world
            .sqlite("SELECT outcome, resolution FROM findings"),
        "resolved|judged"
    );
}

#[test]
fn a_disputed_finding_needs_an_explicit_judgment() {
    let fixer = "cat >/dev/null\necho tried >>work.txt; echo disputed >notes.txt\n\
        echo '{\"answers\": [{\"id\": \"f1\", \"answer\": \"disagree\", \"reason\": \"it is meant so\"}]}'\n";
    needs_a_word(fixer, "disputed");
}

#[test]
fn a_finding_where_nothing_changed_needs_an_explicit_judgment() {
    needs_a_word(
        "cat >/dev/null\necho elsewhere >notes.txt\necho done\n",
        "elsewhere",
    );
}

/// Findings that had no room in the prompt are not closed by an approval that could not know them.
#[test]
fn a_finding_that_was_not_in_the_prompt_is_not_closed() {
    let rejects = "for word in one two three four five six; do \
        printf -- '- [HIGH] %s ' $word; head -c 7900 /dev/zero | tr '\\0' x; echo; done; \
        printf '\\nREVIEW_RESULT: changes_requested\\nSUMMARY: a lot\\n'";
    let reviewer = reviewer(rejects, FOUR_LINES);
    let tables = "[limits]\nfeedback_kb = 32\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        tables,
        ..Script::default()
    });
    play.tick().report();
    let second = play
        .world
        .sqlite("SELECT verdict, raw_verdict FROM reviews ORDER BY review_id LIMIT 1 OFFSET 1");
    assert_eq!(second, "changes_requested|approved", "{:#?}", play.events());
    let raised = play
        .world
        .sqlite("SELECT json_array_length(blocking) FROM reviews ORDER BY review_id LIMIT 2");
    let raised: Vec<i64> = raised.lines().map(|line| line.parse().unwrap()).collect();
    assert!(
        raised[0] == 6 && raised[1] > 0 && raised[1] < 6,
        "{raised:?}"
    );
}

#[test]
fn an_approval_that_counts_blocking_findings_is_a_rejection() {
    let rejects = "printf 'REVIEW_RESULT: approved\\nFINDINGS_COUNT: 2\\nSEVERITY: high\\nSUMMARY: the loop never ends\\n'";
    let play = Play::new(&Script {
        reviewer: &reviewer(rejects, FOUR_LINES),
        ..Script::default()
    });
    play.tick().report();
    play.is_ready(1);
    let first = play
        .world
        .sqlite("SELECT verdict, raw_verdict FROM reviews WHERE review_id = 'v1'");
    assert_eq!(first, "changes_requested|approved");
    assert_eq!(
        play.world.sqlite("SELECT text, severity FROM findings"),
        "the loop never ends|high"
    );
    let event = play.world.sqlite(
        "SELECT metadata ->> 'verdict', metadata ->> 'raw_verdict' FROM events WHERE event_type = 'work_rejected'",
    );
    assert_eq!(event, "changes_requested|approved");
}

#[test]
fn an_approval_that_counts_blocking_findings_and_names_none_is_unclear() {
    let says = "printf 'REVIEW_RESULT: approved\\nFINDINGS_COUNT: 2\\nSEVERITY: high\\n'";
    let play = Play::new(&Script {
        reviewer: says,
        ..Script::default()
    });
    play.tick().report();
    play.is_escalated("the review has no clear verdict, even after the reviewer was asked again");
    let says = "printf 'REVIEW_RESULT: changes_requested\\nFINDINGS_COUNT: 0\\n'";
    let play = Play::new(&Script {
        reviewer: says,
        ..Script::default()
    });
    play.tick().report();
    play.is_escalated("requests changes but names none");
}

/// A person's findings are for that person to judge: remand's review passes in four lines, and the
/// change waits for the person.
#[test]
fn what_a_person_found_waits_for_that_person() {
    let play = PullPlay::new(&Script {
        reviewer: FOUR_LINES,
        ..Script::default()
    });
    play.forge.add_user("grace", "write");
    play.tick();
    play.is_ready(0);
    play.review(
        "grace",
        "CHANGES_REQUESTED",
        "please",
        &[("work.txt", 1, "say fixed")],
    );
    play.tick();
    play.is_ready(1);
    play.tick();
    play.is_ready(1);
    play.review("grace", "APPROVED", "thanks", &[]);
    play.tick();
    assert_eq!(play.play.state(), "approved");
}

/// GZ-14: if there is a plan, the reviewer gets it and is asked to compare; without one, the title
/// is used instead.
#[test]
fn a_review_compares_with_the_plan() {
    let play = Play::without_change(&Script {
        reviewer: FOUR_LINES,
        ..Script::default()
    });
    let folder = play.worktree.join(".specify/specs/feature");
    std::fs::create_dir_all(&folder).unwrap();
    play.world.commit(
        &folder,
        "plan.md",
        "first the parser, then the rest",
        "plan",
    );
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    play.is_ready(0);
    let prompt = play.prompt_of_run("r1");
    assert!(
        prompt.contains("first the parser, then the rest"),
        "{prompt}"
    );
    assert!(
        prompt.contains("compare the code with the plan above"),
        "{prompt}"
    );

    let play = Play::new(&Script {
        reviewer: FOUR_LINES,
        ..Script::default()
    });
    play.tick().report();
    assert!(
        play.prompt_of_run("r1")
            .contains("the title and the commit messages")
    );
}
