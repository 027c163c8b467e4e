//! `remand shadow`: a change is looked at, and nothing is done for it. Here is also what `why` says of that.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::Named;
use super::answer::{Answer, may_finish, say};
use super::desk::Desk;
use super::facts::Facts;
use super::fail::Code;
use super::picture::told;
use crate::blackboard as bb;
use crate::change::{Change, ProjectId};
use crate::config::Loaded;
use crate::daemon::UnreadShadow;

/// Only show what would be done for a change, or do it for real again
///
/// In shadow everything is looked at, fixes and reviews are queued and their prompts made, and nothing is run, pushed or
/// posted. An agent that runs may finish. `off` lets what waits run.
#[derive(Debug, Args)]
#[command(
    after_help = "`shadow = true` in the settings, for all projects or under [projects.NAME], does it for every change that has no \
word of its own. `remand stats --shadow` sums up what would have been done.\n\n\
Examples:\n  remand shadow c3 on\n  remand shadow ada/engine#42 off"
)]
pub(crate) struct ShadowArgs {
    #[command(flatten)]
    named: Named,

    /// Whether it is in shadow
    #[arg(value_name = "on|off", value_enum)]
    word: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Word {
    On,
    Off,
}

pub(crate) fn shadow(args: &ShadowArgs, desk: &mut Desk) -> Result<Code> {
    let before = desk.change(&args.named.change)?;
    let id = before.change_id;
    let on = args.word == Word::On;
    desk.write("shadow", |conn, step| bb::set_shadow(conn, &id, on, &step.actor, step.now))?;
    let what = match (before.shadow, on) {
        (true, true) => "is in shadow already",
        (false, true) => "is in shadow: nothing is run, pushed or posted for it",
        (true, false) => "is out of shadow: what waits may run",
        (false, false) => "is not in shadow",
    };
    told(desk, &id, what)
}

/// The word of its own that a change has from the start. What the settings say is the daemon's to put in force for a
/// project; a change that is taken over after a person wrote `shadow = true` must not run because it was not read yet.
pub(super) fn word(is_asked: bool, settings: &Loaded, project: &ProjectId, in_force: bool) -> Option<bool> {
    let unread = UnreadShadow::of(settings, project, in_force).is_some_and(|unread| unread.shadow);
    (is_asked || unread).then_some(true)
}

/// For `why`: the settings say something else than what is in force for a change without a word of its own.
pub(super) fn unread(desk: &Desk, change: &Change) -> Result<Option<String>> {
    if change.state.is_over() || change.shadow_word.is_some() {
        return Ok(None);
    }
    let in_force = desk.read(|conn| bb::project_shadow(conn, &change.project_id))?;
    let unread = UnreadShadow::of(&desk.settings()?, &change.project_id, in_force);
    Ok(unread.map(|unread| format!("{}: {}", unread.says(), unread.remedy())))
}

/// What waits for it, and what that would be.
pub(super) fn shadowed(facts: &Facts) -> Answer {
    let mut said = vec![sentence(facts)];
    let item = facts.row.open_item.as_ref();
    match (item, &facts.shadow) {
        (Some(item), Some(shadow)) => {
            said.push(format!("it would have run {}", bb::shadow_told(item, shadow)));
            said.extend(shadow.prompt.as_ref().map(|path| format!("the prompt is in {path}")));
        }
        (Some(item), None) => {
            let what = format!("{} {}", item.source, item.item_id);
            let has_run = facts.row.last_run.as_ref().is_some_and(|run| run.item_id == item.item_id);
            said.push(may_finish(facts, false).unwrap_or_else(|| match has_run {
                true => format!("{what} has run, and what follows from it waits"),
                false => format!("what {what} would do is looked at by `remand run` or `remand tick`"),
            }));
        }
        (None, _) => {}
    }
    said.extend(facts.pending.first().map(|rejection| format!("{} waits for a fix", rejection.rejection_id)));
    let since = facts.in_shadow_since();
    say("shadow", said.join("; "), since, &[command(facts)])
}

pub(super) fn and_in_shadow(mut told: Answer, facts: &Facts) -> Answer {
    if facts.row.change.shadow {
        told.answer.push_str(&format!("; {}", sentence(facts)));
        told.commands.push(command(facts));
    }
    told
}

fn sentence(facts: &Facts) -> String {
    let by = if facts.row.change.shadow_word.is_some() { "" } else { ", as the settings say (`shadow = true`)" };
    format!("it is in shadow{by}: nothing is run, pushed or posted; for real with `{}`", command(facts))
}

fn command(facts: &Facts) -> String {
    format!("remand shadow {} off", facts.row.change.change_id)
}
