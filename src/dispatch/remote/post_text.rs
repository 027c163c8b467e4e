//! The words of what is posted. What agents and others wrote stands in it as text that calls nobody and closes nothing.

use std::fmt::Write as _;

use serde_json::Value;

use crate::blackboard::PastReview;
use crate::change::Change;
use crate::finding::Verdict;
use crate::proposal::Bound;

/// The forge takes 65,536 characters.
const MOST: usize = 60_000;

/// How many of the comments that were left out are listed.
const LISTED: usize = 100;

/// All words of a payload as they came: what is put between their letters would hide a secret from whoever looks for it.
pub(crate) fn words_of(payload: &Value) -> String {
    match payload {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(words_of).collect::<Vec<_>>().join("\n"),
        Value::Object(keys) => keys.values().map(words_of).collect::<Vec<_>>().join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}

/// A review of ours; `findings` are those that stand at no line of the diff.
pub(crate) fn review(review: &PastReview, findings: &[Value], change: &Change) -> String {
    let head = short(&review.head);
    let mut text = match review.verdict {
        Verdict::Approved => {
            format!("**remand**: no objections, in an agent's review of {head}.\n")
        }
        Verdict::ChangesRequested => {
            format!("**remand**: changes requested, in an agent's review of {head}.\n")
        }
        Verdict::NeedsDiscussion => {
            format!("**remand**: an agent's review of {head} asks for a discussion.\n")
        }
        Verdict::Unclear => {
            format!("**remand**: an agent's review of {head} could not be read as a verdict.\n")
        }
    };
    if let Some(summary) = &review.summary {
        push(&mut text, &format!("\n{}\n", quiet(summary)));
    }
    for one in findings {
        push(
            &mut text,
            &format!("\n- {}\n", finding(one, &place(one)).replace('\n', "\n  ")),
        );
    }
    let (next, most) = (review.cycle + 1, change.budget.max_fix_cycles);
    match review.verdict {
        Verdict::Approved => push(
            &mut text,
            "\nThis is not an approval: that is a person's to give.\n",
        ),
        Verdict::ChangesRequested if next <= most => {
            push(
                &mut text,
                &format!("\nAn agent is to fix this, as fix {next} of at most {most}.\n"),
            );
        }
        Verdict::ChangesRequested | Verdict::NeedsDiscussion | Verdict::Unclear => {}
    }
    cut(&text)
}

/// A finding at its line.
pub(crate) fn inline(one: &Value) -> String {
    cut(&finding(one, ""))
}

fn finding(finding: &Value, place: &str) -> String {
    let word = |key: &str| finding.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut text = format!("**{}** {place}", word("severity"))
        .trim_end()
        .to_owned();
    push(&mut text, &format!(": {}", quiet(word("text"))));
    if !word("suggestion").is_empty() {
        push(
            &mut text,
            &format!("\n\nSuggestion: {}", quiet(word("suggestion"))),
        );
    }
    text
}

/// Where somebody's comment stands. What the agent did not say is not said for it.
pub(crate) fn answer(payload: &Value) -> String {
    let word = |key: &str| payload.get(key).and_then(Value::as_str).unwrap_or_default();
    let sha = short(word("sha"));
    let said = match word("answer") {
        "cannot_fix" => format!("Not fixed in {sha}"),
        "disagree" => format!("Left as it is in {sha}"),
        "fixed" => format!("Addressed in {sha}"),
        _ => return format!("{sha} is meant to address this."),
    };
    cut(&because(&said, word("reason")))
}

/// A note on a pull request that is called `name` (`owner/repo#42`).
pub(crate) fn note(payload: &Value, change: &Change, name: &str) -> String {
    let word = |key: &str| payload.get(key).and_then(Value::as_str).unwrap_or_default();
    if word("what") == "escalated" {
        return format!(
            "**remand** needs a person: {}\n\nWhoever runs it sees why, and what to decide, with `remand why {name}`. \
             A review here that requests changes begins a new round, too.",
            escalated(word("kind"), change)
        );
    }
    let number = |key: &str| payload.get(key).and_then(Value::as_i64).unwrap_or_default();
    let (sha, most) = (short(word("sha")), change.budget.max_fix_cycles);
    let is_whole = payload
        .get("left_out")
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty);
    let next = if is_whole {
        "It is reviewed again."
    } else {
        "Not all of what was asked for could be addressed."
    };
    let mut text = format!(
        "**remand** pushed {sha}, fix {} of at most {most}. {next}\n",
        number("cycle")
    );
    for one in payload
        .get("done")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        push(
            &mut text,
            &format!("\n- {}\n", done(one).replace('\n', "\n  ")),
        );
    }
    if number("answered") > 0 {
        push(&mut text, "\nComments are answered where they stand.\n");
    }
    let rest = payload
        .get("left_out")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    if !rest.is_empty() {
        push(&mut text, &left_out(rest));
    }
    cut(&text)
}

/// Comments that no agent was told: they are left to a person.
fn left_out(rest: &[Value]) -> String {
    let comments = if rest.len() == 1 {
        "1 comment was".to_owned()
    } else {
        format!("{} comments were", rest.len())
    };
    let mut text = format!(
        "\n{comments} too much for the agent's prompts. No agent has seen this, and it is not addressed:\n"
    );
    for one in rest.iter().take(LISTED) {
        let word = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
        let what = format!("{} {}", place(one), quiet(word("text")))
            .trim()
            .to_owned();
        let link = Some(word("url"))
            .filter(|url| url.starts_with("https://"))
            .map(|url| format!(" ({url})"));
        push(
            &mut text,
            &format!("\n- {what}{}\n", link.unwrap_or_default()),
        );
    }
    if rest.len() > LISTED {
        push(&mut text, &format!("\nand {} more.\n", rest.len() - LISTED));
    }
    text
}

/// Why a person is needed, in words that name nothing of the machine where it was found out.
fn escalated(kind: &str, change: &Change) -> String {
    if let Ok(bound) = kind.parse() {
        return at_bound(bound, change);
    }
    match kind {
        "discussion" => "a review asks for a discussion".to_owned(),
        "review_fix" => "an agent was to fix this, and no fix came of it".to_owned(),
        "code_review" => "an agent was to review this, and no review came of it".to_owned(),
        _ => "it does not go on by itself".to_owned(),
    }
}

fn at_bound(bound: Bound, change: &Change) -> String {
    let (budget, number) = (&change.budget, change.pr_number.unwrap_or_default());
    match bound {
        Bound::Cycles => format!(
            "PR #{number} exceeded max fix cycles ({}) — requires human review",
            budget.max_fix_cycles
        ),
        Bound::TotalFixes => format!(
            "PR #{number} used all {} fixes that it may have",
            budget.max_total_fixes
        ),
        Bound::Time => "its agents used all the time that they may".to_owned(),
        Bound::Tokens => "its agents used all the tokens that they may".to_owned(),
        Bound::Money => "its agents spent all the money that they may".to_owned(),
        Bound::NoProgress => "the fixes make no progress".to_owned(),
        Bound::Reverted => {
            "a fix of ours was taken back, so no more are made by themselves".to_owned()
        }
        Bound::PromptSize => "more was asked for than an agent could be told".to_owned(),
        Bound::Unreadable => "it could not be read for a while".to_owned(),
    }
}

/// What was asked for, and what became of it.
fn done(one: &Value) -> String {
    let word = |key: &str| one.get(key).and_then(Value::as_str).unwrap_or_default();
    let asked: String = word("text").chars().take(200).collect();
    let asked = quiet(asked.lines().next().unwrap_or_default());
    let asked = format!("{} {asked}", place(one)).trim_start().to_owned();
    let said = match word("answer") {
        "cannot_fix" => "Not fixed",
        "disagree" => "Left as it is",
        "fixed" => "Addressed",
        _ => return asked,
    };
    format!("{asked}\n{}", because(said, word("reason")))
}

fn because(said: &str, reason: &str) -> String {
    match quiet(reason) {
        reason if reason.is_empty() => format!("{said}."),
        reason => format!("{said}: {reason}"),
    }
}

fn place(finding: &Value) -> String {
    let Some(path) = finding
        .get("path")
        .and_then(Value::as_str)
        .filter(|path| !path.is_empty())
    else {
        return String::new();
    };
    let line = finding
        .get("line")
        .and_then(Value::as_i64)
        .map(|line| format!(":{line}"))
        .unwrap_or_default();
    format!("`{}{line}`", path.replace('`', "'"))
}

/// Between two characters, so that the forge reads neither as the beginning of a name.
const APART: char = '\u{200b}';

/// Text of somebody else's: it calls nobody, names no issue (a keyword before one would close it), and hides nothing. In code
/// too: what is code to the forge and what only looks so can't be told apart without reading it as the forge does.
fn quiet(text: &str) -> String {
    let text = text.trim();
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        let calls = match c {
            '@' | '#' => true,
            // Written as a character reference, each is the same to the forge.
            '&' => rest.starts_with("commat;") || rest.starts_with("num;"),
            '-' => {
                let mut before = out.chars().rev();
                let names = (before.next(), before.next());
                matches!(names, (Some('h' | 'H'), Some('g' | 'G')))
                    && rest.starts_with(|c: char| c.is_ascii_digit())
            }
            _ => false,
        };
        out.push(c);
        if calls {
            out.push(APART);
        }
    }
    if let Some(open) = open_fence(&out) {
        // What is open would swallow all that follows.
        out.push('\n');
        out.push_str(&open);
    }
    out.replace("<!--", "&lt;!--").trim_end().to_owned()
}

/// The fence that is still open at the end of a text, as what closes it.
fn open_fence(text: &str) -> Option<String> {
    let mut open: Option<String> = None;
    for line in text.lines() {
        let inner = line.trim_start_matches(' ');
        let is_code = line.len() - inner.len() >= 4;
        let mark: String = match inner.chars().next() {
            Some(first @ ('`' | '~')) if !is_code => {
                inner.chars().take_while(|c| *c == first).collect()
            }
            Some(_) | None => continue,
        };
        let after = inner.get(mark.len()..).unwrap_or_default();
        match &open {
            Some(fence) if mark.starts_with(fence.as_str()) && after.trim().is_empty() => {
                open = None;
            }
            Some(_) => {}
            None if mark.len() >= 3 && !(mark.starts_with('`') && after.contains('`')) => {
                open = Some(mark);
            }
            None => {}
        }
    }
    open
}

fn push(text: &mut String, more: &str) {
    // Writing to a String does not fail.
    text.write_str(more).unwrap_or_default();
}

fn cut(text: &str) -> String {
    let mut text = text.trim_end().to_owned();
    if text.len() > MOST {
        let at = (0..=MOST)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(at);
        text.push_str("\n\n(cut here; the whole is on the blackboard)");
    }
    text
}

fn short(sha: &str) -> String {
    sha.chars().take(10).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_fix_did_is_said_in_the_agents_words_or_not_at_all() {
        let on = |answer: Value, reason: &str| json!({ "sha": "05cb3ec1881234", "answer": answer, "reason": reason, "text": "It leaks\nmore", "path": "a.rs", "line": 3 });
        for (answer, reason, at_its_line, in_a_note) in [
            (
                json!("fixed"),
                "Closed.",
                "Addressed in 05cb3ec188: Closed.",
                "`a.rs:3` It leaks\nAddressed: Closed.",
            ),
            (
                json!("cannot_fix"),
                "No.",
                "Not fixed in 05cb3ec188: No.",
                "`a.rs:3` It leaks\nNot fixed: No.",
            ),
            (
                json!("disagree"),
                "Why?",
                "Left as it is in 05cb3ec188: Why?",
                "`a.rs:3` It leaks\nLeft as it is: Why?",
            ),
            (
                json!("fixed"),
                "",
                "Addressed in 05cb3ec188.",
                "`a.rs:3` It leaks\nAddressed.",
            ),
            (
                json!(null),
                "",
                "05cb3ec188 is meant to address this.",
                "`a.rs:3` It leaks",
            ),
        ] {
            assert_eq!(super::answer(&on(answer.clone(), reason)), at_its_line);
            assert_eq!(done(&on(answer, reason)), in_a_note);
        }
        assert_eq!(done(&json!({ "text": "It leaks" })), "It leaks");
    }

    #[test]
    fn a_finding_names_its_place_only_where_it_does_not_stand() {
        let one = json!({ "severity": "high", "path": "a.rs", "line": 3, "text": "It leaks", "suggestion": "Close it" });
        assert_eq!(inline(&one), "**high**: It leaks\n\nSuggestion: Close it");
        assert_eq!(
            finding(&one, &place(&one)),
            "**high** `a.rs:3`: It leaks\n\nSuggestion: Close it"
        );
    }

    #[test]
    fn what_others_wrote_calls_nobody_and_closes_nothing() {
        for text in [
            "fixes #12, ask @ada",
            "a stray ` tick, then @carol and #12",
            "    ```\n@carol #12\n",
            "```\ncode\n``` not a close\n```\n@carol #12",
            "```\n@carol #12\n```\n`@carol #12`",
            "~~~\n```\n~~~\n@carol #12",
            "\\@carol \\#12",
            "&#64;carol &#x23;12",
        ] {
            let said = quiet(text);
            assert!(
                !said.contains("@c") && !said.contains("@a") && !said.contains("#1"),
                "{said}"
            );
            assert!(!said.contains("&#6") && !said.contains("&#x"), "{said}");
            let seen = said.replace(APART, "");
            assert!(
                seen.starts_with(text.trim()),
                "people read the same: {seen}"
            );
        }
        assert_eq!(
            quiet("GH-12 gh-7 GH-x &commat;a &num;1"),
            "GH-\u{200b}12 gh-\u{200b}7 GH-x &\u{200b}commat;a &\u{200b}num;1"
        );
        assert!(!quiet("`@x` <!-- remand:1 -->").contains("<!--"));
    }

    #[test]
    fn code_that_is_left_open_is_closed_and_none_other() {
        for (text, closed_by) in [
            ("```\nopen", "```"),
            ("~~~~ sh\n~~~\nopen", "~~~~"),
            ("```\ncode\n``` not a close", "```"),
            ("a\n    ```\nb", ""),
            ("```a`b", ""),
            ("```\nshut\n```", ""),
            ("```\n~~~\n````  \nafter", ""),
        ] {
            let said = quiet(text);
            let expected = if closed_by.is_empty() {
                text.to_owned()
            } else {
                format!("{text}\n{closed_by}")
            };
            assert_eq!(said, expected);
        }
    }
}
