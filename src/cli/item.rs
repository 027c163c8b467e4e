//! `remand item`: administration of work items, with the same checks as for all other items.

use std::collections::BTreeMap;
use std::str::FromStr;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

use super::show;
use crate::blackboard::{self as bb, BoardError, Conn, NewItem};
use crate::change::{Change, ChangeId, State};
use crate::cli::frame::{
    CommandContext, CommandError, ExitCode, Line, Step, Table, id_or_dash, refused_for,
};
use crate::cli::view::print_change::told;
use crate::closed_enum::UnknownValue;
use crate::human_time::ago;
use crate::state::Trigger;
use crate::work::{Item, ItemId, LoopStep, Priority, Source, Status};

mod edit;

/// Manage work items
#[derive(Debug, Subcommand)]
pub(crate) enum ItemCommand {
    Add(AddArgs),
    List(ListArgs),
    /// Show an item with its runs and rejections
    Show(OneArgs),
    /// Requeue an item that failed or was cancelled
    Requeue(OneArgs),
    Edit(Box<edit::EditArgs>),
    Cancel(CancelArgs),
}

/// Queue an item for a change
#[derive(Debug, Args)]
#[command(
    after_help = "A review_fix needs a rejection: use `remand reject`, which creates both.\n\n\
Example:\n  remand item add code_review --change c1 --priority P1"
)]
pub(crate) struct AddArgs {
    /// Kind of work: github, specflow, manual, code_review, review_fix, pull_request or feedback_analysis
    #[arg(value_name = "SOURCE", value_parser = word::<Source>)]
    source: Source,

    /// Change: id (c1), branch, worktree path, or PR
    #[arg(long, value_name = "CHANGE")]
    change: String,

    /// Priority: P1 runs before P2, and P2 before P3
    #[arg(long, value_name = "P", default_value = "P2", value_parser = word::<Priority>)]
    priority: Priority,

    /// Keys to add to the item's metadata, as a JSON object
    #[arg(long, value_name = "JSON")]
    metadata: Option<String>,

    /// Title of the item
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
}

/// List work items in the order in which they run
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// List only items with this status: available, claimed, completed, failed, blocked or cancelled
    #[arg(long, value_name = "STATUS", value_parser = word::<Status>)]
    status: Option<Status>,

    /// Maximum number of items
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(i64).range(1..))]
    limit: i64,
}

/// Argument that names an item.
#[derive(Debug, Args)]
pub(crate) struct OneArgs {
    /// Id of the item (w1)
    #[arg(value_name = "ITEM")]
    item: String,
}

/// Cancel an open item
///
/// A task that has not been started is closed. Any other change that cannot continue without the item is escalated
/// to a person.
#[derive(Debug, Args)]
pub(crate) struct CancelArgs {
    #[command(flatten)]
    one: OneArgs,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn item(command: ItemCommand, ctx: &mut CommandContext) -> Result<ExitCode> {
    match command {
        ItemCommand::Add(args) => add(&args, ctx),
        ItemCommand::List(args) => list(&args, ctx),
        ItemCommand::Show(args) => show::item(ctx, &ItemId::new(args.item)),
        ItemCommand::Requeue(args) => requeue(&ItemId::new(args.item), ctx),
        ItemCommand::Edit(args) => edit::edit(&args, ctx),
        ItemCommand::Cancel(args) => cancel(&ItemId::new(args.one.item), args.why.as_deref(), ctx),
    }
}

fn word<T: FromStr<Err = UnknownValue>>(text: &str) -> Result<T, UnknownValue> {
    text.parse()
}

fn add(args: &AddArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let extra = args.metadata.as_deref().map(object).transpose()?;
    let change = ctx.change(&args.change)?;
    let added = ctx.write("item_add", |conn, step| {
        let change = bb::change(conn, &change.change_id)?;
        let new = new_item(args, &change, extra.unwrap_or_default(), step)?;
        refuse_second(conn, &change, args.source)?;
        let added = bb::insert_item(conn, &change, &new, step.now)?;
        added.ok_or_else(|| BoardError::refused("an item with this key already exists"))
    });
    let added = refused_for(&change, added)?;
    ctx.show(&added, |ctx, added| {
        let (source, status) = (added.source, added.status);
        let what = format!(" {source} for {} is {status}", change.change_id);
        let line = Line::new().strong(&added.item_id).plain(what);
        Ok(ctx.out.line(line)?)
    })
}

fn object(text: &str) -> Result<Map<String, Value>> {
    let hint = "use a JSON object, such as '{\"note\": \"by hand\"}'";
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => CommandError::usage("--metadata is not a JSON object").fail_with_hint(hint),
        Err(error) => CommandError::usage(format!("--metadata is not valid JSON: {error}"))
            .fail_with_hint(hint),
    }
}

fn new_item(
    args: &AddArgs,
    change: &Change,
    extra: Map<String, Value>,
    step: &Step,
) -> bb::Result<NewItem> {
    let id = &change.change_id;
    if matches!(
        change.state,
        State::Merged | State::Closed | State::Escalated
    ) {
        let what = format!("{id} is {}: cannot queue an item for it", change.state);
        let hint = format!("`remand why {id}` lists the possible commands");
        return Err(BoardError::refused_with_hint(what, hint));
    }
    let key = format!("item_add:{}", uuid::Uuid::now_v7());
    let mut new = match args.source.step() {
        Some(LoopStep::Implement) => {
            let what = format!("{id} exists already: a task is implemented as a new change");
            return Err(BoardError::refused_with_hint(
                what,
                "`remand add \"TITLE\"` adds a task",
            ));
        }
        Some(LoopStep::OpenPull) => {
            let what = "remand queues the pull request of a change itself";
            return Err(BoardError::refused_with_hint(what, way_to_pull(change)));
        }
        Some(LoopStep::Fix) => {
            let hint = format!("`remand reject {id} --text …` creates the rejection and its fix");
            let what = "cannot add a review_fix without a rejection";
            return Err(BoardError::refused_with_hint(what, hint));
        }
        Some(LoopStep::Review) => {
            refuse_useless_review(change)?;
            bb::review_item(change, key, &step.actor)
        }
        None => NewItem {
            rejection_id: None,
            title: change.title.clone(),
            source: args.source,
            priority: args.priority,
            idempotency_key: key,
            fix_cycle: change.budget.fix_cycle,
            metadata: json!({}),
            actor: step.actor.clone(),
        },
    };
    new.priority = args.priority;
    if let Some(title) = &args.title {
        new.title.clone_from(title);
    }
    if let Value::Object(keys) = &mut new.metadata {
        keys.extend(extra);
    }
    Ok(new)
}

/// Refuses a review that the change cannot use: it would be cancelled as soon as it is claimed.
pub(super) fn refuse_useless_review(change: &Change) -> bb::Result<()> {
    let facts = crate::state::Facts::from(change);
    if crate::state::next(change.state, Trigger::ReviewClaimed, facts).is_ok() {
        return Ok(());
    }
    let (id, advice) = (&change.change_id, change.submit_advice());
    let what = format!("{id} is {}: cannot start a review", change.state);
    let stage = change.escalated_from.unwrap_or(change.state);
    if matches!(stage, State::Queued | State::Implementing) {
        // There is no commit yet, and perhaps no worktree.
        let hint = format!("`remand why {id}` explains what it is waiting for");
        return Err(BoardError::refused_with_hint(what, hint));
    }
    let hint =
        format!("to have a new commit reviewed, {advice}; `remand why {id}` explains its state");
    Err(BoardError::refused_with_hint(what, hint))
}

/// Refuses to open the pull request of a change that has one, or whose review has not passed.
fn refuse_useless_pull(change: &Change) -> bb::Result<()> {
    let (id, state) = (&change.change_id, change.state);
    let what = match change.pr_number {
        Some(number) => format!("{id} already has PR #{number}"),
        None if state == State::SelfReviewPassed => return Ok(()),
        None => format!("{id} is {state}: its pull request cannot be opened now"),
    };
    Err(BoardError::refused_with_hint(what, way_to_pull(change)))
}

/// Returns the command that opens the pull request of a change, if there is one.
fn way_to_pull(change: &Change) -> String {
    let id = &change.change_id;
    let facts = crate::state::Facts::from(change);
    match crate::state::next(change.state, Trigger::SkipToPr, facts) {
        Ok(_) if change.lacks_pr() => {
            format!("`remand skip {id}` opens it without further reviews")
        }
        Ok(_) | Err(_) => format!("`remand why {id}` explains its state"),
    }
}

pub(super) fn refuse_second(conn: &Conn, change: &Change, source: Source) -> bb::Result<()> {
    let mut open = bb::items_of(conn, &change.change_id)?
        .into_iter()
        .filter(|item| item.status.is_open());
    let Some(twin) = open.find(|item| {
        item.source == source && matches!(source, Source::CodeReview | Source::PullRequest)
    }) else {
        return Ok(());
    };
    let (change, item, status) = (&change.change_id, twin.item_id, twin.status);
    let what = format!("{change} already has an open {source}: {item} ({status})");
    let hint = format!("`remand why {item}` explains what it is waiting for");
    Err(BoardError::refused_with_hint(what, hint))
}

fn list(args: &ListArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let items = ctx.read(|conn| bb::list_items(conn, args.status, args.limit))?;
    let waiting = ctx.read(|conn| waiting_for(conn, &items))?;
    ctx.show(&items, |ctx, items| {
        if items.is_empty() {
            return Ok(ctx.out.note("no items match")?);
        }
        let mut table = Table::new(&[
            "ITEM", "SOURCE", "STATUS", "PRIO", "CHANGE", "TITLE", "CREATED",
        ]);
        for item in items {
            let status = match waiting.get(&item.item_id) {
                Some(first) => format!("{} (after {first})", item.status),
                None => item.status.to_string(),
            };
            table.row([
                item.item_id.as_str(),
                item.source.as_str(),
                &status,
                item.priority.as_str(),
                id_or_dash(item.change_id.as_ref()),
                &item.title,
                &ago(item.created_at, ctx.now),
            ]);
        }
        Ok(ctx.out.table(&table)?)
    })
}

/// Returns the changes that blocked items wait for.
fn waiting_for(conn: &Conn, items: &[Item]) -> bb::Result<BTreeMap<ItemId, ChangeId>> {
    let mut waiting = BTreeMap::new();
    for item in items {
        if let (Status::Blocked, Some(id)) = (item.status, &item.change_id)
            && let Some(first) = bb::change(conn, id)?.waits_for
        {
            waiting.insert(item.item_id.clone(), first);
        }
    }
    Ok(waiting)
}

fn requeue(id: &ItemId, ctx: &mut CommandContext) -> Result<ExitCode> {
    let item = ctx.write("item_requeue", |conn, step| {
        let item = bb::item(conn, id)?;
        let Some(change_id) = &item.change_id else {
            return bb::requeue_item(conn, None, id, step.now);
        };
        let change = bb::change(conn, change_id)?;
        match (change.state, item.source, item.status) {
            (State::Escalated, _, Status::Failed) => {
                bb::retry(conn, change_id, &step.actor, step.now)?;
                bb::item(conn, id)
            }
            (State::Merged | State::Closed, ..) => {
                let what = format!("{change_id} is already {}", change.state);
                Err(BoardError::refused(what))
            }
            (_, Source::ReviewFix, _) => {
                let what = format!("{id} is {}: a fix cannot be requeued", item.status);
                let hint =
                    format!("`remand refine {change_id}` creates a new fix for the open findings");
                Err(BoardError::refused_with_hint(what, hint))
            }
            _ => reopen(conn, &change, &item, step),
        }
    })?;
    done(ctx, &item, "is queued again")
}

fn reopen(conn: &Conn, change: &Change, item: &Item, step: &Step) -> bb::Result<Item> {
    let id = &item.item_id;
    let change = bb::reopen(conn, &change.change_id, id, &step.actor, step.now)?;
    if item.source == Source::CodeReview {
        refuse_useless_review(&change)?;
        refuse_second(conn, &change, item.source)?;
    }
    if item.source == Source::PullRequest {
        refuse_useless_pull(&change)?;
        refuse_second(conn, &change, item.source)?;
    }
    bb::requeue_item(conn, Some(&change), id, step.now)
}

fn cancel(id: &ItemId, why: Option<&str>, ctx: &mut CommandContext) -> Result<ExitCode> {
    let reason = why.unwrap_or("by hand");
    let item = ctx.write("item_cancel", |conn, step| {
        bb::cancel_item(conn, id, reason, &step.actor, step.now)
    })?;
    done(ctx, &item, "is cancelled")
}

fn done(ctx: &mut CommandContext, item: &Item, what: &str) -> Result<ExitCode> {
    if ctx.out.is_json() {
        ctx.out.json(item)?;
        return Ok(ExitCode::Done);
    }
    let line = Line::new()
        .strong(item.item_id.as_str())
        .plain(format!(" {} {what}", item.source));
    ctx.out.line(line)?;
    match &item.change_id {
        Some(change_id) => told(ctx, change_id, "now"),
        None => Ok(ExitCode::Done),
    }
}
