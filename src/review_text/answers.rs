//! A fixing agent's answers to each finding.
//!
//! An answer is the agent's claim and proves nothing: the next review decides whether the finding
//! is gone.

use super::json::{Node, squashed};
use super::json_block::{self, id_of};
use super::markdown::{Document, Origin};
use super::raw_finding::{self, Notes};
use crate::intent::Stance;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FindingAnswer {
    pub(crate) id: String,
    pub(crate) answer: Stance,
    pub(crate) reason: String,
}

/// Parses the answers from the last JSON object with `answers` in an agent's output, fenced or not.
///
/// Entries without a known answer are left out: no answer is better than a guessed one.
pub(crate) fn read_answers(text: &str) -> Vec<FindingAnswer> {
    let page = Document::cut(text);
    let is_json = |block: &&super::markdown::Block| {
        block.origin != Origin::Quoted && json_block::may_be_json(block)
    };
    let blocks = page.blocks.iter().rev().filter(is_json);
    let lists = blocks
        .filter_map(json_block::parse)
        .flat_map(|values| values.into_iter().rev());
    let is_list = |list: &&Node| matches!(list, Node::List(_));
    let last = lists
        .filter_map(|value| Some(value.first(&["answers"]).filter(is_list)?.items().to_vec()))
        .next();
    let mut answers: Vec<FindingAnswer> = Vec::new();
    for answer in last
        .unwrap_or_default()
        .iter()
        .filter_map(answer)
        .take(super::MAX_FINDINGS)
    {
        answers.retain(|known| known.id != answer.id);
        answers.push(answer);
    }
    answers
}

fn answer(item: &Node) -> Option<FindingAnswer> {
    let answer = match squashed(&item.text(&["answer", "status", "outcome"])?).as_str() {
        "fixed" | "done" | "resolved" => Stance::Fixed,
        "cannotfix" | "cantfix" | "cannotbefixed" | "unfixable" => Stance::CannotFix,
        "disagree" | "disagreed" | "disputed" => Stance::Disagree,
        _ => return None,
    };
    let reason = item
        .text(&["reason", "explanation", "text"])
        .unwrap_or_default();
    Some(FindingAnswer {
        id: id_of(item.first(&["id"])?)?,
        answer,
        reason: raw_finding::capped(&reason, &mut Notes::default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<(String, Stance)> {
        read_answers(text)
            .into_iter()
            .map(|answer| (answer.id, answer.answer))
            .collect()
    }

    #[test]
    fn each_finding_has_its_answer() {
        let text = "Done.\n```json\n{\"answers\":[{\"id\":\"f3\",\"answer\":\"disagree\",\"reason\":\"the spec says so\"},\
                    {\"id\":\"F4\",\"answer\":\"Cannot fix\"},{\"id\":5,\"answer\":\"fixed\"}]}\n```\n";
        let answers = read_answers(text);
        assert_eq!(answers[0].reason, "the spec says so");
        let expected = [
            ("f3", Stance::Disagree),
            ("f4", Stance::CannotFix),
            ("f5", Stance::Fixed),
        ];
        assert_eq!(
            ids(text),
            expected.map(|(id, answer)| (id.to_owned(), answer))
        );
    }

    #[test]
    fn the_last_block_wins_and_a_quotation_is_none() {
        let block = |answer: &str| {
            format!("```\n{{\"answers\":[{{\"id\":\"f1\",\"answer\":\"{answer}\"}}]}}\n```\n")
        };
        let text = format!(
            "{}{}> {{\"answers\":[]}}\n",
            block("disagree"),
            block("fixed")
        );
        assert_eq!(ids(&text), [("f1".to_owned(), Stance::Fixed)]);
    }

    #[test]
    fn an_object_without_a_fence_is_read() {
        assert_eq!(
            ids("I could not.\n{\"answers\": [{\"id\": \"f1\", \"answer\": \"can't fix\"}]}\nBye."),
            [("f1".to_owned(), Stance::CannotFix)]
        );
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for text in [
            "",
            "fixed all",
            "```json\n{\"answers\":\"fixed\"}\n```",
            "{\"answers\":[{\"id\":\"f1\",\"answer\":\"maybe\"}]}",
        ] {
            assert_eq!(read_answers(text), [], "{text}");
        }
    }
}
