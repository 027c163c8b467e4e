//! What the board says of a change: one clause, of which the beginning is enough. The whole is in `why`.

use super::explain::Explanation;
use super::facts::{Daemon, Facts};
use crate::work::{Item, Source};

/// The clause. What stops everything stands once beside the board, not in each row.
pub(crate) fn brief(facts: &Facts, why: &Explanation) -> String {
    let clause = clause(facts, why);
    if facts.row.change.shadow && !facts.row.change.state.is_over() {
        return format!("shadow: {clause}");
    }
    clause
}

fn clause(facts: &Facts, why: &Explanation) -> String {
    let change = &facts.row.change;
    match why.because {
        "needs_you" => return first(&why.answer, ". Decide: "),
        "paused" => return first(&why.answer, "; "),
        "held" => {
            return format!(
                "held: {}",
                change
                    .hold_reason
                    .as_deref()
                    .unwrap_or("no reason was recorded")
            );
        }
        "stopped" => return "stopped".to_owned(),
        "shadow" if facts.shadow_review.is_some() => {
            let verdict = facts
                .shadow_review
                .as_ref()
                .and_then(|review| review.verdict);
            return verdict.map_or("not reviewed".to_owned(), |verdict| {
                format!("reviewed, {verdict}")
            });
        }
        "shadow" => {
            return facts
                .row
                .open_item
                .as_ref()
                .map_or("would fix".to_owned(), would);
        }
        _ => {}
    }
    // What nobody would look for stands before what goes its way.
    if let Some(post) = facts.refused.first() {
        return format!(
            "a post was refused: {}",
            post.trouble.as_deref().unwrap_or("no reason was recorded")
        );
    }
    if let Some(trouble) = facts.pull.as_ref().and_then(|pull| pull.trouble.as_ref()) {
        return format!("its PR could not be read: {trouble}");
    }
    if let Some(item) = facts
        .row
        .open_item
        .as_ref()
        .filter(|item| item.metadata.get("evaluator").is_some())
    {
        return format!("{} is for you: {}", item.item_id, item.title);
    }
    match (why.because, facts.daemon) {
        ("waits_for_approval", _) => "waits for you to approve it".to_owned(),
        ("waits_for_feedback", Daemon::Runs) => "waits for feedback".to_owned(),
        ("waits_for_feedback", Daemon::None) => "waits for feedback, no daemon runs".to_owned(),
        ("queued" | "waits_for_heartbeat", Daemon::None) => {
            format!("{}, no daemon runs", first(&why.answer, "; "))
        }
        _ => first(&why.answer, "; "),
    }
}

fn would(item: &Item) -> String {
    match item.source {
        Source::CodeReview => "would review".to_owned(),
        Source::ReviewFix => "would fix".to_owned(),
        Source::Github
        | Source::Specflow
        | Source::Manual
        | Source::PullRequest
        | Source::FeedbackAnalysis => {
            format!("would run {} {}", item.source, item.item_id)
        }
    }
}

/// The sentence up to there, without the words that it begins with in every row.
fn first(answer: &str, end: &str) -> String {
    let clause = answer.split_once(end).map_or(answer, |(first, _)| first);
    let begins = ["it is ", "it was ", "it "];
    begins
        .iter()
        .find_map(|begin| clause.strip_prefix(begin))
        .unwrap_or(clause)
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clause_is_the_first_one() {
        assert_eq!(
            first(
                "it needs you: gates red. Decide: `remand approve c1`",
                ". Decide: "
            ),
            "needs you: gates red"
        );
        assert_eq!(
            first("it is merged; nothing more is done for it", "; "),
            "merged"
        );
        assert_eq!(
            first("code_review w1 is being run", "; "),
            "code_review w1 is being run"
        );
    }
}
