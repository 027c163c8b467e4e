//! Detects changes that no longer move towards approval.
//!
//! It uses only the findings of reviews and the trees that they saw, never an agent's claims about
//! its own work.

use std::fmt;

/// Finished review of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cycle {
    /// The reviewed tree; empty if unknown.
    pub(crate) tree: String,
    /// Fingerprints of the blocking findings.
    pub(crate) blocking: Vec<String>,
}

/// Reason why another fix would not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stuck {
    SameFinding {
        fingerprint: String,
        fixes: usize,
    },
    /// An earlier review saw the same tree.
    TreeSeenBefore {
        index: usize,
    },
    MoreFindings {
        now: usize,
        then: usize,
    },
}

/// Evaluates the reviews of a change, oldest first. Consecutive reviews of the same tree are one
/// review that was repeated, without a fix in between.
pub(crate) fn stuck(history: &[Cycle]) -> Option<Stuck> {
    let mut reviews: Vec<(usize, &Cycle)> = Vec::new();
    for (index, cycle) in history.iter().enumerate() {
        match reviews.last_mut() {
            Some(last) if same_tree(last.1, cycle) => *last = (index, cycle),
            Some(_) | None => reviews.push((index, cycle)),
        }
    }
    let (_, now) = *reviews.last()?;
    same_finding(&reviews, now)
        .or_else(|| tree_seen_before(&reviews, now))
        .or_else(|| more_findings(&reviews, now))
}

fn same_finding(reviews: &[(usize, &Cycle)], now: &Cycle) -> Option<Stuck> {
    let fixes = |fingerprint: &String| {
        reviews
            .iter()
            .rev()
            .skip(1)
            .take_while(|(_, cycle)| cycle.blocking.contains(fingerprint))
            .count()
    };
    let longest = now
        .blocking
        .iter()
        .map(|fingerprint| (fixes(fingerprint), fingerprint))
        .rev()
        .max_by_key(|(n, _)| *n);
    let (fixes, fingerprint) = longest.filter(|(fixes, _)| *fixes >= 2)?;
    Some(Stuck::SameFinding {
        fingerprint: fingerprint.clone(),
        fixes,
    })
}

fn tree_seen_before(reviews: &[(usize, &Cycle)], now: &Cycle) -> Option<Stuck> {
    let (index, _) = reviews
        .iter()
        .rev()
        .skip(1)
        .find(|(_, cycle)| same_tree(cycle, now))?;
    Some(Stuck::TreeSeenBefore { index: *index })
}

/// Returns `MoreFindings` if there are more blocking findings than two fixes ago. A review without
/// findings ended its round: later ones are not compared with it.
fn more_findings(reviews: &[(usize, &Cycle)], now: &Cycle) -> Option<Stuck> {
    let (_, before) = reviews.iter().rev().nth(2)?;
    let (now, then) = (now.blocking.len(), before.blocking.len());
    (then > 0 && now > then).then_some(Stuck::MoreFindings { now, then })
}

fn same_tree(one: &Cycle, other: &Cycle) -> bool {
    !one.tree.is_empty() && one.tree == other.tree
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameFinding { fingerprint, fixes } => {
                let (path, text) = fingerprint.split_once('|').unwrap_or(("-", fingerprint));
                let text: String = text.chars().take(120).collect();
                let place = if path == "-" {
                    String::new()
                } else {
                    format!(" in {path}")
                };
                write!(
                    f,
                    "the same finding{place} is still open after {fixes} fixes: {text}"
                )
            }
            Self::TreeSeenBefore { index } => {
                write!(
                    f,
                    "the code is again the same as in review {}: the fixes are going in circles",
                    index + 1
                )
            }
            Self::MoreFindings { now, then } => {
                write!(
                    f,
                    "the last review has {now} blocking findings, up from {then} two fixes ago"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(cycles: &[(&str, &[&str])]) -> Vec<Cycle> {
        let cycle = |(tree, blocking): &(&str, &[&str])| Cycle {
            tree: (*tree).into(),
            blocking: blocking.iter().map(|text| (*text).to_owned()).collect(),
        };
        cycles.iter().map(cycle).collect()
    }

    #[test]
    fn the_reviewer_flags_something_the_fixer_cannot_change() {
        let two = history(&[("a", &["x"]), ("b", &["x"])]);
        assert_eq!(stuck(&two), None, "one fix may miss");
        let three = history(&[("a", &["x", "y"]), ("b", &["x", "z"]), ("c", &["w", "x"])]);
        assert_eq!(
            stuck(&three),
            Some(Stuck::SameFinding {
                fingerprint: "x".into(),
                fixes: 2
            })
        );
        let gap = history(&[("a", &["x"]), ("b", &["y"]), ("c", &["x"])]);
        assert_eq!(stuck(&gap), None, "it was gone in between");
    }

    #[test]
    fn the_finding_open_for_longest_is_named() {
        let four = history(&[
            ("a", &["y"]),
            ("b", &["x", "y"]),
            ("c", &["x", "y"]),
            ("d", &["x", "y"]),
        ]);
        assert_eq!(
            stuck(&four),
            Some(Stuck::SameFinding {
                fingerprint: "y".into(),
                fixes: 3
            })
        );
    }

    #[test]
    fn a_tree_seen_before_is_a_circle() {
        let circle = history(&[("a", &["x"]), ("b", &["y"]), ("a", &["z"])]);
        assert_eq!(stuck(&circle), Some(Stuck::TreeSeenBefore { index: 0 }));
    }

    #[test]
    fn the_same_review_asked_again_is_no_fix() {
        let again = history(&[("a", &["x"]), ("a", &["x"]), ("a", &["x"])]);
        assert_eq!(stuck(&again), None);
        let after = history(&[("a", &["x"]), ("a", &["x"]), ("b", &["x"]), ("b", &["x"])]);
        assert_eq!(stuck(&after), None, "one fix only");
        assert_eq!(
            stuck(&history(&[("", &["x"]), ("", &["y"])])),
            None,
            "an unknown tree is like no other"
        );
    }

    #[test]
    fn more_findings_than_two_cycles_ago() {
        let grows = history(&[("a", &["x"]), ("b", &["y"]), ("c", &["z", "w"])]);
        assert_eq!(stuck(&grows), Some(Stuck::MoreFindings { now: 2, then: 1 }));
        let level = history(&[
            ("a", &["x", "y"]),
            ("b", &["p", "q", "r"]),
            ("c", &["z", "w"]),
        ]);
        assert_eq!(stuck(&level), None);
        let new_round = history(&[("a", &[]), ("b", &["y"]), ("c", &["z"])]);
        assert_eq!(
            stuck(&new_round),
            None,
            "an approval ended the round before"
        );
        assert_eq!(stuck(&[]), None);
    }

    #[test]
    fn each_reason_is_a_sentence_for_a_person() {
        let finding = Stuck::SameFinding {
            fingerprint: "src/a.rs|off by one".into(),
            fixes: 2,
        };
        insta::assert_snapshot!(finding, @"the same finding in src/a.rs is still open after 2 fixes: off by one");
        insta::assert_snapshot!(Stuck::TreeSeenBefore { index: 0 }, @"the code is again the same as in review 1: the fixes are going in circles");
        insta::assert_snapshot!(Stuck::MoreFindings { now: 3, then: 1 }, @"the last review has 3 blocking findings, up from 1 two fixes ago");
    }
}
