//! The message of a fix's commit: the number of the fix, and the result for each finding. Text by others is quoted on
//! indented lines, so that neither git nor the forge acts on it.

use super::interrupt::Result;
use super::task::Task;
use crate::change::{Change, ChangeId};
use crate::dispatch::prompts::prompt_parts::{answered, was_told};
use crate::review_text::Stance;
use crate::work::{GateResult, ItemId, Run};
use crate::{blackboard as bb, sanitize, secret_scan};

/// Maximum number of findings that a message lists.
const LISTED: usize = 30;

/// Maximum number of characters of a finding's text.
const TEXT_CHARS: usize = 200;

/// Maximum number of characters of the agent's answer to it.
const REASON_CHARS: usize = 300;

/// Maximum number of characters of a line, where its words are shorter.
const WIDTH: usize = 72;

/// A piece of feedback, and the agent's answer to it.
struct FixNote {
    place: String,
    text: String,
    answer: Option<(Stance, String)>,
}

struct Message<'a> {
    /// Number of the fix, counted over the life of the change.
    number: i64,
    /// Number of the commit within that fix, from 1.
    part: usize,
    pr_number: Option<i64>,
    change_id: &'a ChangeId,
    item_id: &'a ItemId,
    after_red_gates: bool,
    notes: Vec<FixNote>,
}

impl Task {
    /// The message of the commit that ends `run`, the last of `runs`.
    pub(super) async fn message(&self, run: &Run, runs: &[Run]) -> Result<String> {
        if self.is_implementation() {
            return Ok(task_message(&self.change, &self.item.item_id));
        }
        let before: Vec<&Run> = runs
            .iter()
            .filter(|one| one.run_id != run.run_id && one.head_after.is_some())
            .collect();
        let after_red_gates = before
            .last()
            .is_some_and(|one| one.gates == Some(GateResult::Red));
        let message = Message {
            number: self.change.budget.total_fixes + 1,
            part: before.len() + 1,
            pr_number: self.change.pr_number,
            change_id: &self.change.change_id,
            item_id: &self.item.item_id,
            after_red_gates,
            notes: if after_red_gates {
                Vec::new()
            } else {
                self.fix_notes(run).await?
            },
        };
        Ok(message.text())
    }

    /// Returns the feedback that a run was given, in the order in which it was given.
    async fn fix_notes(&self, run: &Run) -> Result<Vec<FixNote>> {
        let (item, run_id) = (self.item.item_id.clone(), run.run_id.clone());
        let read = self.read(move |conn| {
            let coverage = bb::coverage_of_run(conn, &run_id)?;
            let undone = bb::undone_paths(conn, &item)?;
            Ok((bb::rejections_in(conn, &item)?, coverage, undone))
        });
        let (rejections, coverage, undone) = read.await?;
        let answers = self.answers(run);
        let mut notes = Vec::new();
        for rejection in &rejections {
            let key = rejection.rejection_id.as_str();
            if rejection.rejected.findings.is_empty() && was_told(&coverage, key) {
                notes.push(FixNote {
                    place: String::new(),
                    text: rejection.summary.clone(),
                    answer: None,
                });
            }
            for (finding, answer) in answered(rejection, &coverage, &answers, &undone) {
                notes.push(FixNote {
                    place: finding.place().unwrap_or_default(),
                    text: finding.titled_text(),
                    answer,
                });
            }
        }
        Ok(notes)
    }
}

/// The message for what an implementation left uncommitted.
fn task_message(change: &Change, item_id: &ItemId) -> String {
    format!(
        "{}\n\nRemand-Change: {}\nRemand-Item: {item_id}\n",
        harmless(&change.title, WIDTH),
        change.change_id
    )
}

impl Message<'_> {
    fn text(&self) -> String {
        let part = if self.part > 1 {
            format!(", part {}", self.part)
        } else {
            String::new()
        };
        let mut text = format!("Address review feedback (cycle {}{part})\n", self.number);
        if let Some(number) = self.pr_number {
            text.push_str(&format!("\nFor pull request #{number}.\n"));
        }
        if self.after_red_gates {
            text.push_str("\nThe gates failed on the previous commit.\n");
        }
        let sections = [
            ("Fixed", Some(Stance::Fixed)),
            ("Not fixed", Some(Stance::CannotFix)),
            ("Not changed", Some(Stance::Disagree)),
            ("Requested", None),
        ];
        let listed = self.notes.get(..LISTED).unwrap_or(&self.notes);
        for (title, stance) in sections {
            let of: Vec<&FixNote> = listed
                .iter()
                .filter(|one| one.answer.as_ref().map(|(stance, _)| *stance) == stance)
                .collect();
            if !of.is_empty() {
                text.push_str(&format!("\n{title}:\n"));
            }
            for one in of {
                text.push_str(&one.lines());
            }
        }
        if self.notes.len() > LISTED {
            text.push_str(&format!("\nAnd {} more.\n", self.notes.len() - LISTED));
        }
        text.push_str(&format!(
            "\nRemand-Change: {}\nRemand-Item: {}\nRemand-Cycle: {}\n",
            self.change_id, self.item_id, self.number
        ));
        text
    }
}

impl FixNote {
    fn lines(&self) -> String {
        let text = harmless(&self.text, TEXT_CHARS);
        let asked = match harmless(&self.place, TEXT_CHARS) {
            place if place.is_empty() => text,
            place => format!("{place}: {text}"),
        };
        let reason = self
            .answer
            .as_ref()
            .map(|(_, reason)| harmless(reason, REASON_CHARS))
            .unwrap_or_default();
        let mut lines = wrapped(&asked, "- ");
        if !reason.is_empty() {
            lines.push_str(&wrapped(&reason, "  "));
        }
        lines
    }
}

/// Text by others as one line that mentions nobody, closes no issue, skips no checks, and hides nothing.
fn harmless(text: &str, most: usize) -> String {
    let words: Vec<&str> = text
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    let line = sanitize::line(&secret_scan::hide(&words.join(" ")));
    let mut out = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        let next = rest.peek().copied().unwrap_or(' ');
        match c {
            // `[skip ci]` and the like.
            '[' => out.push('('),
            ']' => out.push(')'),
            '*' if next == '*' => {}
            // A mention, an issue, and its URL: a keyword before these would close it.
            '@' | '#' if next.is_alphanumeric() => out.extend([c, ' ']),
            '-' if out.to_ascii_lowercase().ends_with("gh") && next.is_ascii_digit() => {
                out.push(' ');
            }
            '/' if out.ends_with(":/") => out.extend([c, ' ']),
            _ => out.push(c),
        }
    }
    match out.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", out.get(..end).unwrap_or_default().trim_end()),
        None => out,
    }
}

/// Wraps words into lines: the first starts with `first`, the others are indented.
fn wrapped(text: &str, first: &str) -> String {
    let mut lines = String::new();
    let mut line = first.to_owned();
    for word in text.split(' ') {
        let is_begun = !line.trim_end().is_empty() && line != first;
        if is_begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&format!("{line}\n"));
            line = "  ".to_owned();
        } else if is_begun {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(&format!("{line}\n"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(part: usize, notes: Vec<FixNote>) -> String {
        let (change_id, item_id) = (ChangeId::new("c1"), ItemId::new("w4"));
        let message = Message {
            number: 3,
            part,
            pr_number: Some(7),
            change_id: &change_id,
            item_id: &item_id,
            after_red_gates: false,
            notes,
        };
        message.text()
    }

    fn note(text: &str, answer: Option<(Stance, &str)>) -> FixNote {
        let answer = answer.map(|(stance, reason)| (stance, reason.to_owned()));
        FixNote {
            place: "src/http.rs:40".into(),
            text: text.into(),
            answer,
        }
    }

    #[test]
    fn it_lists_what_became_of_each_finding() {
        let long = "the retry loop never ends when the server answers 503 twice in a row and then goes away";
        let all = vec![
            note(long, Some((Stance::Fixed, "It stops after five tries."))),
            note(
                "the name lies",
                Some((Stance::Disagree, "It is the protocol's name.")),
            ),
            note("the test is slow", Some((Stance::CannotFix, ""))),
            note("say why", None),
        ];
        insta::assert_snapshot!(message(1, all), @"
        Address review feedback (cycle 3)

        For pull request #7.

        Fixed:
        - src/http.rs:40: the retry loop never ends when the server answers 503
          twice in a row and then goes away
          It stops after five tries.

        Not fixed:
        - src/http.rs:40: the test is slow

        Not changed:
        - src/http.rs:40: the name lies
          It is the protocol's name.

        Requested:
        - src/http.rs:40: say why

        Remand-Change: c1
        Remand-Item: w4
        Remand-Cycle: 3
        ");
        assert!(
            message(2, Vec::new())
                .starts_with("Address review feedback (cycle 3, part 2)\n\nFor pull")
        );
    }

    #[test]
    fn what_others_wrote_is_only_text() {
        for (text, expected) in [
            (
                "a\nRemand-Item: w9\r\nCo-authored-by: Eve <e@x.org>",
                "a Remand-Item: w9 Co-authored-by: Eve <e@ x.org>",
            ),
            ("fixes #12, GH-7, ask @ada", "fixes # 12, GH 7, ask @ ada"),
            (
                "closes https://github.com/a/b/issues/1",
                "closes https:// github.com/a/b/issues/1",
            ),
            ("[skip ci] ***NO_CI***", "(skip ci) *NO_CI*"),
            ("a\u{1b}[31mred\u{7}\u{202e}b", "a (31mred <U+202E>b"),
            ("the key AKIAQX7Z3JWLMP5RT2VN leaks", "the key * leaks"),
        ] {
            assert_eq!(harmless(text, 200), expected);
        }
        assert_eq!(harmless("größe", 2), "gr…");
        let many = (0..50)
            .map(|_| {
                note(
                    &"word ".repeat(500),
                    Some((Stance::Fixed, &"so ".repeat(900))),
                )
            })
            .collect();
        let text = message(1, many);
        assert!(
            text.len() < 30 * 700 && text.contains("\nAnd 20 more.\n"),
            "{}",
            text.len()
        );
        assert!(
            text.lines().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
    }
}
