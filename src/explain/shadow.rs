//! Explains a change in shadow: what would be done for it.

use std::fmt;

use super::because::Because;
use super::change::may_finish;
use super::explanation::Explanation;
use super::facts::Facts;
use crate::blackboard as bb;
use crate::change::{ChangeId, Shadow, ShadowMode, shadow_setting};
use crate::work::{Item, LoopStep, Source};

/// Note that a change is in shadow, and on whose decision; its `Display` is the clause.
#[derive(Debug, Clone)]
pub(crate) struct InShadow {
    change_id: ChangeId,
    mode: Shadow,
    /// True if the settings put it there, not a person.
    by_settings: bool,
}

impl InShadow {
    pub(super) fn of(facts: &Facts) -> Self {
        Self {
            change_id: facts.row.change.change_id.clone(),
            mode: facts.shadow_mode,
            by_settings: facts.row.change.shadow_word.is_none(),
        }
    }

    pub(super) fn command(&self) -> String {
        format!("remand shadow {} off", self.change_id)
    }
}

impl fmt::Display for InShadow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is in shadow")?;
        if self.by_settings {
            let setting = shadow_setting(self.mode);
            write!(f, ", because of the setting `shadow = {setting}`")?;
        }
        let what = match self.mode {
            Some(ShadowMode::Review) => {
                "agents only review, and nothing is fixed, pushed or posted"
            }
            Some(ShadowMode::Dry) | None => "nothing is run, pushed or posted",
        };
        write!(f, ": {what}; `{}` ends that", self.command())
    }
}

/// Explains a change with waiting work that shadow holds back.
pub(super) fn in_shadow(facts: &Facts) -> Explanation {
    let shadow = InShadow::of(facts);
    let item = facts.row.open_item.as_ref();
    let begin = |short: String| {
        Explanation::new(Because::Shadow, "", shadow.to_string())
            .short(short)
            .since(facts.in_shadow_since())
    };
    if let Some(review) = &facts.shadow_review {
        let short = review.verdict.map_or("not reviewed".to_owned(), |verdict| {
            format!("reviewed, {verdict}")
        });
        return begin(short)
            .and(&format!("; its review in shadow: {}", review.text()))
            .commands([format!("remand show {}", review.item_id)])
            .commands_in_sentence([shadow.command()]);
    }
    let mut explanation = begin(item.map_or("would fix".to_owned(), would));
    match (item, &facts.shadow) {
        (Some(item), Some(told)) => {
            let would = bb::shadow_told(item, told);
            explanation = explanation.and(&format!("; it would have run {would}"));
            if let Some(path) = &told.prompt {
                explanation = explanation.and(&format!("; the prompt is in {path}"));
            }
        }
        (Some(item), None) => {
            let kept_back = may_finish(facts, false).unwrap_or_else(|| not_looked_at(facts, item));
            explanation = explanation.and(&format!("; {kept_back}"));
        }
        (None, _) => {}
    }
    if let Some(rejection) = facts.pending.first() {
        explanation = explanation.and(&format!(
            "; {} is waiting for a fix",
            rejection.rejection_id
        ));
    }
    explanation.commands_in_sentence([shadow.command()])
}

/// Describes an item for which it is not recorded yet what it would do.
fn not_looked_at(facts: &Facts, item: &Item) -> String {
    let what = format!("{} {}", item.source, item.item_id);
    let last_run = facts.row.last_run.as_ref();
    let is_reviewed =
        facts.shadow_mode == Some(ShadowMode::Review) && item.source == Source::CodeReview;
    if last_run.is_some_and(|run| run.item_id == item.item_id) {
        format!("{what} has run; in shadow, its next step is not taken")
    } else if is_reviewed {
        format!("`remand run` or `remand tick` will run {what} in shadow")
    } else {
        format!("`remand run` or `remand tick` will record what {what} would do")
    }
}

fn would(item: &Item) -> String {
    match item.step() {
        Some(LoopStep::Implement) => "would implement the task".to_owned(),
        Some(LoopStep::OpenPull) => "would open the pull request".to_owned(),
        Some(LoopStep::Review) => "would review".to_owned(),
        Some(LoopStep::Fix) => "would fix".to_owned(),
        None => {
            format!("would run {} {}", item.source, item.item_id)
        }
    }
}
