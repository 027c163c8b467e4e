//! `remand shadow`: changes are watched, but nothing is done for them.

use anyhow::Result;
use clap::{Args, ValueEnum};

use super::Named;
use crate::blackboard as bb;
use crate::change::{Change, ProjectId, Shadow, ShadowMode};
use crate::cli::frame::{CommandContext, ExitCode};
use crate::cli::view::print_change::told;
use crate::config::Loaded;
use crate::daemon::UnreadShadow;

/// Turn shadow mode on or off for a change
///
/// In shadow mode nothing is fixed, pushed or posted. With `review`, agents review the change read-only and the result is
/// stored; with `dry`, no agent runs and remand records what would have run. A running agent is allowed to finish. `off` runs the
/// waiting work and reviews the head again.
#[derive(Debug, Args)]
#[command(
    after_help = "The setting `shadow = \"review\"` or \"dry\", for all projects or under [projects.NAME], applies to every change \
for which this command was not used. `remand stats --shadow` prints a summary of what would have been done.\n\n\
Examples:\n  remand shadow c3 review\n  remand shadow ada/engine#42 off"
)]
pub(crate) struct ShadowArgs {
    #[command(flatten)]
    named: Named,

    /// Shadow mode of the change
    #[arg(value_name = "review|dry|off", value_enum)]
    word: Word,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Word {
    Review,
    #[value(alias = "on")]
    Dry,
    Off,
}

pub(crate) fn shadow(args: &ShadowArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let before = ctx.change(&args.named.change)?;
    let id = before.change_id;
    let mode = match args.word {
        Word::Review => Some(ShadowMode::Review),
        Word::Dry => Some(ShadowMode::Dry),
        Word::Off => None,
    };
    let was = ctx.read(|conn| bb::change_shadow(conn, &bb::change(conn, &id)?))?;
    ctx.write("shadow", |conn, step| {
        bb::set_shadow(conn, &id, mode, &step.actor, step.now)
    })?;
    let what = match (was, mode) {
        (Some(was), Some(mode)) if was == mode => "is already in shadow",
        (_, Some(ShadowMode::Dry)) => "is in shadow: nothing is run, pushed or posted",
        (_, Some(ShadowMode::Review)) => {
            "is in shadow: it is reviewed, but nothing is fixed, pushed or posted"
        }
        (Some(_), None) => "is no longer in shadow: waiting work will run",
        (None, None) => "is not in shadow",
    };
    told(ctx, &id, what)
}

/// Initial shadow setting of the change itself. The daemon puts the shadow settings of a project in
/// force; a change taken over after a person wrote `shadow` must not run because the daemon has not
/// read it yet.
pub(super) fn word(
    is_asked: bool,
    settings: &Loaded,
    project: &ProjectId,
    in_force: Shadow,
) -> Option<bool> {
    let unread =
        UnreadShadow::of(settings, project, in_force).is_some_and(|unread| unread.shadow.is_some());
    (is_asked || unread).then_some(true)
}

/// Note for `why`: the settings differ from what is in effect, for a change without a setting of its
/// own.
pub(super) fn unread(ctx: &CommandContext, change: &Change) -> Result<Option<String>> {
    if change.state.is_over() || change.shadow_word.is_some() {
        return Ok(None);
    }
    let in_force = ctx.read(|conn| bb::project_shadow(conn, &change.project_id))?;
    let unread = UnreadShadow::of(&ctx.settings()?, &change.project_id, in_force);
    Ok(unread.map(|unread| format!("{}: {}", unread.says(), unread.remedy())))
}
