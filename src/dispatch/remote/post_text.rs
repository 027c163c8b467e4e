//! Texts of posts. Quoted text by agents and others mentions nobody and closes nothing.

use crate::blackboard::PastReview;
use crate::change::Change;
use crate::finding::{Finding, Verdict};
use crate::intent::{EscalatedFor, Note, Reply, Stance};
use crate::proposal::Bound;
use crate::text::{prefixed, short_sha};
use crate::work::{LeftOut, Source};

/// Limit of the forge: 65,536 characters.
const MOST: usize = 60_000;

/// Maximum number of left-out comments that are listed.
const LISTED: usize = 100;

const REFINED: &str = "This PR has been automatically refined and is ready for human review";
const READY: &str = "This PR is ready for human review";
const NOT_APPROVED: &str = "This is not an approval; approving is up to a person.";

/// Text of a comment on a pull request that is ready for a person.
fn ready(head: &str, is_unfinished: bool, is_unapproved: bool, is_unfixed: bool) -> String {
    let head = short_sha(head);
    if is_unfinished {
        return format!(
            "**remand**: the allowed fixes are used up, and a review still objects to {head}. A person must review this PR; \
             its description lists the open findings."
        );
    }
    if is_unapproved {
        return format!(
            "**remand**: no review has approved {head}. A person must review this PR; its description lists the open \
             findings."
        );
    }
    done_on(head, is_unfixed)
}

/// Text of a comment about an approval by remand's review, if reviews are not posted.
pub(crate) fn approved(head: &str, change: &Change) -> String {
    done_on(short_sha(head), change.budget.total_fixes == 0)
}

fn done_on(head: &str, is_unfixed: bool) -> String {
    let sentence = ready_sentence(is_unfixed);
    format!("**remand**: the work on {head} is done.\n\n{sentence}.\n\n{NOT_APPROVED}")
}

fn ready_sentence(is_unfixed: bool) -> &'static str {
    if is_unfixed { READY } else { REFINED }
}

/// Text of a review; `findings` are those without a line in the diff.
pub(crate) fn review(review: &PastReview, findings: &[Finding], change: &Change) -> String {
    let head = short_sha(&review.head);
    let result = match review.verdict {
        Verdict::Approved => "and has no objections",
        Verdict::ChangesRequested => "and requests changes",
        Verdict::NeedsDiscussion => "and asks for a discussion",
        Verdict::Unclear => "without a clear verdict",
    };
    let mut text = format!("**remand**: an agent reviewed {head} {result}.\n");
    if let Some(summary) = &review.summary {
        text.push_str(&format!("\n{}\n", quiet(summary)));
    }
    for one in findings {
        let item = finding(one, &place(one.path.as_deref(), one.line));
        text.push_str(&listed(&item));
    }
    let (next, most) = (review.cycle + 1, change.budget.max_fix_cycles);
    match review.verdict {
        Verdict::Approved => {
            if change.notify_ready {
                let sentence = ready_sentence(change.budget.total_fixes == 0);
                text.push_str(&format!("\n{sentence}.\n"));
            }
            text.push_str(&format!("\n{NOT_APPROVED}\n"));
        }
        Verdict::ChangesRequested if next <= most => text.push_str(&format!(
            "\nAn agent will try to fix this (fix {next} of at most {most}).\n"
        )),
        Verdict::ChangesRequested | Verdict::NeedsDiscussion | Verdict::Unclear => {}
    }
    cut(&text)
}

/// A finding at its line.
pub(crate) fn inline(one: &Finding) -> String {
    cut(&finding(one, ""))
}

/// Formats an item of a list, which may have several lines.
fn listed(item: &str) -> String {
    format!("\n- {}\n", item.replace('\n', "\n  "))
}

fn finding(finding: &Finding, place: &str) -> String {
    let mut text = format!("**{}** {place}", finding.severity)
        .trim_end()
        .to_owned();
    text.push_str(&format!(": {}", quiet(&finding.titled_text())));
    if let Some(failure) = finding.failure.as_ref().filter(|one| !one.is_empty()) {
        text.push_str(&format!("\n\nFails with: {}", quiet(failure)));
    }
    if let Some(suggestion) = finding.suggestion.as_ref().filter(|one| !one.is_empty()) {
        text.push_str(&format!("\n\nSuggestion: {}", quiet(suggestion)));
    }
    text
}

/// Text of the reply to a comment. It claims nothing that the agent did not report.
pub(crate) fn answer(reply: &Reply) -> String {
    let sha = short_sha(reply.sha.as_deref().unwrap_or_default());
    let label = match reply.answer {
        Some(Stance::CannotFix) => format!("Not fixed in {sha}"),
        Some(Stance::Disagree) => format!("Not changed in {sha}"),
        Some(Stance::Fixed) => format!("Addressed in {sha}"),
        None => return format!("{sha} is intended to address this."),
    };
    let reason = reply.reason.as_deref().unwrap_or_default();
    cut(&because(&label, reason))
}

/// Text of a note on the pull request `name` (`owner/repo#42`).
pub(crate) fn note(note: &Note, change: &Change, name: &str) -> String {
    let (cycle, sha, replies, answered, rest) = match note {
        Note::Escalated { kind } => {
            return format!(
                "**remand** needs a person: {}.\n\nThe operator can see the reason and the options with `remand why \
                 {name}`. A review here that requests changes also starts a new round.",
                escalated(*kind, change)
            );
        }
        Note::Ready {
            head,
            is_unfinished,
            is_unapproved,
            is_unfixed,
        } => return ready(head, *is_unfinished, *is_unapproved, *is_unfixed),
        Note::Fixed {
            cycle,
            sha,
            done,
            answered,
            left_out,
        } => (cycle, short_sha(sha), done, *answered, left_out),
    };
    let most = change.budget.max_fix_cycles;
    let next = if rest.is_empty() {
        "It will be reviewed again."
    } else {
        "Not all requests could be addressed."
    };
    let mut text = format!("**remand** pushed {sha}, fix {cycle} of at most {most}. {next}\n");
    for one in replies {
        text.push_str(&listed(&done(one)));
    }
    if answered > 0 {
        text.push_str("\nReplies to comments are in their threads.\n");
    }
    if !rest.is_empty() {
        text.push_str(&left_out(rest));
    }
    cut(&text)
}

/// Comments that no agent was given: they are left to a person.
fn left_out(rest: &[LeftOut]) -> String {
    let comments = if rest.len() == 1 {
        "1 comment was".to_owned()
    } else {
        format!("{} comments were", rest.len())
    };
    let mut text = format!(
        "\n{comments} left out because the agent's prompts were full. These have not been seen by an agent and are not addressed:\n"
    );
    for one in rest.iter().take(LISTED) {
        let place = place(one.path.as_deref(), one.line);
        let what = format!("{place} {}", quiet(&one.text));
        let url = one.url.as_ref().filter(|url| url.starts_with("https://"));
        let link = url.map(|url| format!(" ({url})")).unwrap_or_default();
        text.push_str(&format!("\n- {}{link}\n", what.trim()));
    }
    if rest.len() > LISTED {
        text.push_str(&format!("\nand {} more.\n", rest.len() - LISTED));
    }
    text
}

/// Reason why a person is needed, without names of the machine.
fn escalated(kind: Option<EscalatedFor>, change: &Change) -> String {
    match kind {
        Some(EscalatedFor::Bound(bound)) => at_bound(bound, change),
        Some(EscalatedFor::Discussion) => "a review asks for a discussion".to_owned(),
        Some(EscalatedFor::Failed(Source::ReviewFix)) => "an agent could not fix this".to_owned(),
        Some(EscalatedFor::Failed(Source::CodeReview)) => {
            "an agent could not review this".to_owned()
        }
        Some(EscalatedFor::Failed(
            Source::Github
            | Source::Specflow
            | Source::Manual
            | Source::PullRequest
            | Source::FeedbackAnalysis,
        ))
        | None => "it cannot continue without help".to_owned(),
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
            "PR #{number} has used all of its {} fixes",
            budget.max_total_fixes
        ),
        Bound::Time => "the agents have used all of their time budget".to_owned(),
        Bound::Tokens => "the agents have used all of their token budget".to_owned(),
        Bound::Money => "the agents have used all of their cost budget".to_owned(),
        Bound::NoProgress => "the fixes are making no progress".to_owned(),
        Bound::Reverted => {
            "a fix was reverted; automatic fixes are off until a person resumes them".to_owned()
        }
        Bound::PromptSize => "there was too much feedback to pass to an agent".to_owned(),
        Bound::Unreadable => "remand has been unable to read this PR for some time".to_owned(),
    }
}

/// Describes one request and its result.
fn done(one: &Reply) -> String {
    let text = one.text.as_deref().unwrap_or_default();
    let asked: String = text.chars().take(200).collect();
    let asked = quiet(asked.lines().next().unwrap_or_default());
    let asked = format!("{} {asked}", place(one.path.as_deref(), one.line))
        .trim_start()
        .to_owned();
    let label = match one.answer {
        Some(Stance::CannotFix) => "Not fixed",
        Some(Stance::Disagree) => "Not changed",
        Some(Stance::Fixed) => "Addressed",
        None => return asked,
    };
    let reason = one.reason.as_deref().unwrap_or_default();
    format!("{asked}\n{}", because(label, reason))
}

fn because(label: &str, reason: &str) -> String {
    match quiet(reason) {
        reason if reason.is_empty() => format!("{label}."),
        reason => format!("{label}: {reason}"),
    }
}

pub(super) fn place(path: Option<&str>, line: Option<impl std::fmt::Display>) -> String {
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return String::new();
    };
    format!("`{}{}`", path.replace('`', "'"), prefixed(":", line))
}

/// Inserted between two characters, so that the forge does not read them as the start of a name.
pub(super) const APART: char = '\u{200b}';

/// Quotes text by others: it mentions nobody, names no issue (a keyword before one would close it), and hides nothing.
/// Code is escaped too: only the forge's own parser could say for certain which parts are code.
pub(super) fn quiet(text: &str) -> String {
    let mut out = without_calls(text.trim());
    if let Some(open) = open_fence(&out) {
        // An unclosed block would swallow everything after it.
        out.push('\n');
        out.push_str(&open);
    }
    out.replace("<!--", "&lt;!--").trim_end().to_owned()
}

/// Text that mentions nobody and names no issue.
pub(super) fn without_calls(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        let rest = text.get(at + c.len_utf8()..).unwrap_or_default();
        let calls = match c {
            '@' | '#' => true,
            // Character references that the forge renders as the same character.
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
    out
}

/// The fence that is still open at the end of a text, as the line that closes it.
pub(super) fn open_fence(text: &str) -> Option<String> {
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

fn cut(text: &str) -> String {
    let mut text = text.trim_end().to_owned();
    if text.len() > MOST {
        text.truncate(text.floor_char_boundary(MOST));
        text.push_str("\n\n(truncated; the full text is on the blackboard)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_approved_head_is_done_and_only_fixes_refine() {
        let done = ready("a", false, false, false);
        assert!(done.contains("automatically refined"), "{done}");
        let unfixed = ready("a", false, false, true);
        assert!(unfixed.contains("This PR is ready for human review"));
        for text in [ready("a", true, true, false), ready("a", false, true, true)] {
            assert!(text.contains("A person must review this PR"), "{text}");
            assert!(!text.contains("is done"), "{text}");
        }
    }

    #[test]
    fn what_a_fix_did_is_said_in_the_agents_words_or_not_at_all() {
        let on = |answer: Option<Stance>, reason: &str| Reply {
            sha: Some("05cb3ec1881234".into()),
            answer,
            reason: Some(reason.into()),
            text: Some("It leaks\nmore".into()),
            path: Some("a.rs".into()),
            line: Some(3),
            comment: None,
        };
        for (answer, reason, at_its_line, in_a_note) in [
            (
                Some(Stance::Fixed),
                "Closed.",
                "Addressed in 05cb3ec188: Closed.",
                "`a.rs:3` It leaks\nAddressed: Closed.",
            ),
            (
                Some(Stance::CannotFix),
                "No.",
                "Not fixed in 05cb3ec188: No.",
                "`a.rs:3` It leaks\nNot fixed: No.",
            ),
            (
                Some(Stance::Disagree),
                "Why?",
                "Not changed in 05cb3ec188: Why?",
                "`a.rs:3` It leaks\nNot changed: Why?",
            ),
            (
                Some(Stance::Fixed),
                "",
                "Addressed in 05cb3ec188.",
                "`a.rs:3` It leaks\nAddressed.",
            ),
            (
                None,
                "",
                "05cb3ec188 is intended to address this.",
                "`a.rs:3` It leaks",
            ),
        ] {
            assert_eq!(super::answer(&on(answer, reason)), at_its_line);
            assert_eq!(done(&on(answer, reason)), in_a_note);
        }
        let bare = Reply {
            text: Some("It leaks".into()),
            ..Reply::default()
        };
        assert_eq!(done(&bare), "It leaks");
    }

    #[test]
    fn a_finding_names_its_place_only_where_it_does_not_stand() {
        let one = Finding {
            severity: crate::finding::Severity::High,
            path: Some("a.rs".into()),
            line: Some(3),
            text: "It leaks".into(),
            suggestion: Some("Close it".into()),
            ..Finding::default()
        };
        assert_eq!(inline(&one), "**high**: It leaks\n\nSuggestion: Close it");
        assert_eq!(
            finding(&one, &place(one.path.as_deref(), one.line)),
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
            let label = quiet(text);
            assert!(
                !label.contains("@c") && !label.contains("@a") && !label.contains("#1"),
                "{label}"
            );
            assert!(!label.contains("&#6") && !label.contains("&#x"), "{label}");
            let seen = label.replace(APART, "");
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
            let label = quiet(text);
            let expected = if closed_by.is_empty() {
                text.to_owned()
            } else {
                format!("{text}\n{closed_by}")
            };
            assert_eq!(label, expected);
        }
    }
}
