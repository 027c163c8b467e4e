//! Selects the feature directory of `.specify/` that belongs to a branch. Pure: names in, a choice out.

use std::collections::BTreeSet;

use crate::work::PlanReason;

/// The directory that has the plan of a branch, if any, and the reason for choosing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice<'a> {
    pub(crate) folder: Option<&'a str>,
    pub(crate) reason: PlanReason,
}

/// An equal feature number wins; else the directory whose whole name is in the branch; else the most shared words, at
/// least two. A tie gives no choice. A single directory needs no match, unless its number is another one.
pub(crate) fn choose<'a>(branch: &str, folders: &[&'a str]) -> Choice<'a> {
    let branch = Name::read(branch);
    let all: Vec<(&str, Name)> = folders
        .iter()
        .map(|folder| (*folder, Name::read(folder)))
        .collect();
    let same: Vec<&(&str, Name)> = all
        .iter()
        .filter(|(_, name)| {
            name.numbers
                .first()
                .is_some_and(|own| branch.numbers.contains(own))
        })
        .collect();
    match same.as_slice() {
        [] => {}
        [(folder, _)] => return Choice::new(Some(folder), PlanReason::EqualNumber),
        several => return most_shared(&branch, several, 0).named(PlanReason::EqualNumber),
    }
    // Another feature's number excludes a directory.
    let others: Vec<&(&str, Name)> = all
        .iter()
        .filter(|(_, name)| name.numbers.is_empty() || branch.numbers.is_empty())
        .collect();
    let whole: Vec<&(&str, Name)> = others
        .iter()
        .filter(|(_, name)| !name.words.is_empty() && name.words.is_subset(&branch.words))
        .copied()
        .collect();
    if !whole.is_empty() {
        return most_shared(&branch, &whole, 1).named(PlanReason::WholeName);
    }
    let shared = most_shared(&branch, &others, 2);
    match (shared.reason, others.as_slice()) {
        (PlanReason::NoMatch, [(folder, _)]) if folders.len() == 1 => {
            Choice::new(Some(folder), PlanReason::OnlyFolder)
        }
        _ => shared,
    }
}

impl<'a> Choice<'a> {
    fn new(folder: Option<&'a str>, reason: PlanReason) -> Self {
        Self { folder, reason }
    }

    /// Sets the reason, if a directory was chosen.
    fn named(self, reason: PlanReason) -> Self {
        let reason = self.folder.map_or(self.reason, |_| reason);
        Self { reason, ..self }
    }
}

fn most_shared<'a>(branch: &Name, among: &[&(&'a str, Name)], least: usize) -> Choice<'a> {
    let shared = |name: &Name| name.words.intersection(&branch.words).count();
    let best = among.iter().map(|(_, name)| shared(name)).max();
    let best = best.unwrap_or(0);
    let mut first = among.iter().filter(|(_, name)| shared(name) == best);
    match (first.next(), first.next()) {
        (Some(_), _) if best < least => Choice::new(None, PlanReason::NoMatch),
        (Some((folder, _)), None) => Choice::new(Some(folder), PlanReason::SharedWords),
        (Some(_), Some(_)) => Choice::new(None, PlanReason::Tie),
        (None, _) => Choice::new(None, PlanReason::NoMatch),
    }
}

/// The words and the feature numbers in a name such as `f-020-pr-review-feedback-loop`.
struct Name {
    words: BTreeSet<String>,
    /// Without leading zeros, in their order.
    numbers: Vec<String>,
}

impl Name {
    fn read(text: &str) -> Self {
        let (mut words, mut numbers) = (BTreeSet::new(), Vec::new());
        for word in text
            .to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
        {
            let digits = word.strip_prefix('f').unwrap_or(word);
            if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) {
                numbers.push(digits.trim_start_matches('0').to_owned());
            } else if word.chars().count() > 1 {
                words.insert(word.to_owned());
            }
        }
        Self { words, numbers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_finds_its_feature() {
        let ivy = [
            "f-019-specflow-dispatch",
            "f-020-pr-review-feedback-loop",
            "f-021-review-loop-metrics",
        ];
        for (branch, folders, chosen, reason) in [
            (
                "specflow-f-020",
                &ivy[..],
                Some(ivy[1]),
                PlanReason::EqualNumber,
            ),
            (
                "specflow-f-20",
                &ivy[..],
                Some(ivy[1]),
                PlanReason::EqualNumber,
            ),
            (
                "feature/F020",
                &ivy[..],
                Some(ivy[1]),
                PlanReason::EqualNumber,
            ),
            ("specflow-f-022", &ivy[..], None, PlanReason::NoMatch),
            (
                "pr-feedback-loop",
                &ivy[..],
                Some(ivy[1]),
                PlanReason::SharedWords,
            ),
            ("review-loop", &ivy[..], None, PlanReason::Tie),
            ("loop", &ivy[..], None, PlanReason::NoMatch),
            ("f-019-or-f-021", &ivy[..], None, PlanReason::Tie),
            (
                "f-7-login",
                &["007-logout", "f-7-login"],
                Some("f-7-login"),
                PlanReason::EqualNumber,
            ),
            (
                "feature/login",
                &["login", "logout"],
                Some("login"),
                PlanReason::WholeName,
            ),
            (
                "main-work",
                &["login"],
                Some("login"),
                PlanReason::OnlyFolder,
            ),
            ("specflow-f-021", &["f-020-loop"], None, PlanReason::NoMatch),
            (
                "v2-api",
                &["2-api", "api-v2"],
                Some("api-v2"),
                PlanReason::WholeName,
            ),
        ] {
            assert_eq!(
                choose(branch, folders),
                Choice {
                    folder: chosen,
                    reason
                },
                "{branch}"
            );
        }
    }
}
