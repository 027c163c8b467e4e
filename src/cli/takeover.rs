//! `remand takeover` and `remand handback`: a person continues by hand in the worktree of a change,
//! and gives it back.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use super::Named;
use crate::agent_kind::AgentKind;
use crate::blackboard::{self as bb, Conn, Handback, Project, Takeover};
use crate::change::Change;
use crate::cli::frame::{CommandContext, CommandError, ExitCode, Line, refused_for, said, wait};
use crate::cli::view::print_change::{print_answer, told};
use crate::config::Loaded;
use crate::daemon;
use crate::explain::ChangeView;
use crate::failpoint::crash_point;
use crate::git::{Git, Status, Worktree};
use crate::text::{list, short_sha, typed};
use crate::work::LoopStep;

/// Maximum time to wait for the end of an agent.
const PATIENCE: Duration = Duration::from_secs(20);

/// Maximum number of files that are named.
const NAMED: usize = 5;

/// Take over a change, to continue by hand in its worktree
#[derive(Debug, Args)]
#[command(
    after_help = "Ends the running agent. Its commits stay on the branch and its files in the worktree; a copy is kept on \
refs/remand/wip/RUN. Until `remand handback`, nothing is run, pushed or posted for the change. Prints the worktree and, \
for Claude Code, the command that resumes the agent's session.\n\n\
Example:\n  remand takeover c3"
)]
pub(crate) struct TakeoverArgs {
    #[command(flatten)]
    named: Named,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

/// A change with the result of the takeover.
#[derive(Serialize)]
struct TakenOver {
    #[serde(flatten)]
    view: ChangeView,
    agent_ended: bool,
}

pub(crate) fn takeover(args: &TakeoverArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id.clone();
    let settings = ctx.settings()?;
    if !change.own_worktree && !change.state.is_over() && !Path::new(&change.worktree).is_dir() {
        let what = format!("the worktree {} no longer exists", change.worktree);
        return CommandError::new(what).fail_with_hint(format!(
            "restore it, or close the change: `remand cancel {id}`"
        ));
    }
    let taken = ctx.write("takeover", |conn, step| {
        let taken = Takeover {
            why: args.why.clone(),
            command: resume_command(conn, &change, &settings)?,
        };
        bb::take_over(conn, &id, &taken, &step.actor, step.now)
    });
    refused_for(&change, taken)?;
    crash_point!("takeover.recorded");
    let agent_ended = daemon::settle_takeover(&settings, &id, PATIENCE)?;
    let around = ctx.around()?;
    let view = ctx.read(|conn| ChangeView::of(conn, &id, around))?;
    ctx.show(&TakenOver { view, agent_ended }, |ctx, taken| {
        let line = Line::new().strong(&id).plain(" is taken over");
        ctx.out.line(line)?;
        print_answer(ctx, &taken.view.why)?;
        if !taken.agent_ended {
            let what = format!(
                "warning: something is still working in the worktree after {} s; wait until `remand why {id}` no longer mentions it",
                PATIENCE.as_secs()
            );
            ctx.out.note(what)?;
        }
        Ok(())
    })
}

/// Returns the command that resumes the last session of an agent that wrote code, or else of any
/// agent. Only Claude Code has sessions.
fn resume_command(conn: &Conn, change: &Change, settings: &Loaded) -> bb::Result<Option<String>> {
    let mut last = None;
    for item in bb::items_of(conn, &change.change_id)? {
        let writes = matches!(item.step(), Some(LoopStep::Implement | LoopStep::Fix));
        for run in bb::runs_of(conn, &item.item_id)? {
            let agent = settings.agent(&run.agent);
            let agent = agent.filter(|agent| agent.kind == AgentKind::Claude);
            if let Some((agent, session)) = agent.zip(run.session)
                && last.as_ref().is_none_or(|(wrote, _)| writes || !wrote)
            {
                let program = agent.command().first().cloned().unwrap_or_default();
                let command = format!(
                    "cd {} && {} --resume {}",
                    typed(&change.worktree),
                    typed(&program),
                    typed(&session)
                );
                last = Some((writes, command));
            }
        }
    }
    Ok(last.map(|(_, command)| command))
}

/// Give back a change that was taken over
#[derive(Debug, Args)]
#[command(
    after_help = "The worktree must be clean, and on its branch. New commits are reviewed; those of a PR must be pushed \
first. Without new commits, the interrupted work starts again.\n\n\
Example:\n  remand handback c3 --text 'the parser is done, the tests are not'"
)]
pub(crate) struct HandbackArgs {
    #[command(flatten)]
    named: Named,

    /// Guidance for the next fix; `-` reads it from stdin
    #[arg(long, value_name = "TEXT")]
    text: Option<String>,
}

pub(crate) fn handback(args: &HandbackArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let text = args.text.as_deref().map(said).transpose()?;
    let change = ctx.change(&args.named.change)?;
    let id = change.change_id.clone();
    let settings = ctx.settings()?;
    let unchanged = || Handback {
        head: change.head.clone(),
        commits: 0,
        files: Vec::new(),
        text: None,
    };
    let given = if change.taken_over && !change.state.is_over() {
        if !daemon::settle_takeover(&settings, &id, PATIENCE)? {
            let what = format!("something is still working in {}", change.worktree);
            return CommandError::new(what)
                .fail_with_hint(format!("try again later; `remand why {id}` names it"));
        }
        let git = ctx.git(&settings);
        git.pass_over(&ctx.read(|conn| bb::gate_leftovers(conn, &id))?);
        let project = ctx.read(|conn| bb::project(conn, &change.project_id))?;
        let given = wait(look(&git, &change, &project))??;
        if given.head != change.head && change.has_pr() {
            refuse_unpushed(&settings, &change, &project, &given.head)?;
        }
        given
    } else {
        unchanged()
    };
    let is_moved = given.head != change.head;
    let given = Handback { text, ..given };
    ctx.write("handback", |conn, step| {
        bb::hand_back(conn, &id, &given, &step.actor, step.now)
    })?;
    let what = match is_moved {
        true => "is given back, with your commits",
        false => "is given back, without new commits",
    };
    told(ctx, &id, what)
}

/// Reads the worktree, which must be in a state in which remand can continue.
async fn look(git: &Git, change: &Change, project: &Project) -> Result<Handback> {
    let shown = typed(&change.worktree);
    let path = Path::new(&change.worktree);
    if !path.is_dir() {
        let what = format!("the worktree {} no longer exists", change.worktree);
        return CommandError::new(what).fail_with_hint(format!(
            "restore it with `git -C {} worktree add --force {shown} {}`",
            typed(&project.path),
            typed(&change.branch)
        ));
    }
    let worktree = git.worktree_at(path).await?;
    let status = git.status(&worktree.place).await?;
    refuse_unfinished(change, &worktree, &status)?;
    let Some(head) = worktree.head.clone() else {
        let what = format!("the branch {} has no commits", change.branch);
        return CommandError::new(what).fail_with_hint("commit your work first");
    };
    if head == change.head {
        return Ok(Handback {
            head,
            commits: 0,
            files: Vec::new(),
            text: None,
        });
    }
    // The known head may be gone, after a rewrite of the branch.
    let place = &worktree.place;
    let (mut commits, mut files) = (0, Vec::new());
    if git.resolve(place, &change.head).await?.is_some() {
        commits = git.log(place, &change.head, &head).await?.len();
        let changed = git.changed_files(place, &change.head, &head).await?;
        files.extend(changed.into_iter().map(|file| file.path));
    }
    Ok(Handback {
        head,
        commits,
        files,
        text: None,
    })
}

fn refuse_unfinished(change: &Change, worktree: &Worktree, status: &Status) -> Result<()> {
    let shown = typed(&change.worktree);
    if let Some(operation) = worktree.operation {
        let what = format!("a {operation} is in progress in {}", change.worktree);
        return CommandError::new(what).fail_with_hint("finish or abort it first");
    }
    let branch = worktree.branch.as_deref();
    let is_own = branch == Some(change.branch.as_str()) || (change.detached && branch.is_none());
    if !is_own {
        let found = branch.unwrap_or("a detached HEAD");
        let what = format!(
            "{} is on {found}, not on {}",
            change.worktree, change.branch
        );
        let to = match change.detached {
            true => "--detach".to_owned(),
            false => typed(&change.branch),
        };
        return CommandError::new(what)
            .fail_with_hint(format!("switch it back: `git -C {shown} switch {to}`"));
    }
    if !status.is_clean() {
        let files: Vec<&String> = status.changed.iter().chain(&status.untracked).collect();
        let more = match files.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        let named = list(files.into_iter().take(NAMED));
        let what = format!("{} has uncommitted changes: {named}{more}", change.worktree);
        return CommandError::new(what).fail_with_hint(format!(
            "commit them (`git -C {shown} add -A && git -C {shown} commit`), or set them aside (`git -C {shown} stash -u`)"
        ));
    }
    Ok(())
}

/// Refuses commits that are not on the branch of the pull request yet: remand reviews what GitHub
/// shows.
fn refuse_unpushed(
    settings: &Loaded,
    change: &Change,
    project: &Project,
    head: &str,
) -> Result<()> {
    let there = daemon::remote_head(settings, project, &change.branch)?;
    if there.as_deref() == Some(head) {
        return Ok(());
    }
    let at = there.map_or_else(
        || "cannot be read".to_owned(),
        |there| format!("is at {}", short_sha(&there)),
    );
    let what = format!(
        "{} is not pushed: {} on the remote {at}",
        short_sha(head),
        change.branch
    );
    let remote = project.remote_url.as_deref().unwrap_or("origin");
    CommandError::new(what).fail_with_hint(format!(
        "push it: `git -C {} push {} HEAD:refs/heads/{}`",
        typed(&change.worktree),
        typed(remote),
        change.branch
    ))
}
