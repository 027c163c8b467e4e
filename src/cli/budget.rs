//! `remand budget`, and `remand cycles`, its short form for fixes.

use anyhow::Result;
use clap::Args;

use super::Named;
use super::status::spent;
use crate::blackboard::{self as bb, Addition, Grant};
use crate::change::{ChangeId, State};
use crate::cli::frame::{CommandContext, ExitCode};
use crate::cli::view::print_change::told;
use crate::text::digits;

/// Maximum amount that can be added at once. Above it, a typing error is more likely than a
/// decision.
const MOST_USD: f64 = 100_000.0;
const MOST_TOKENS: i64 = 1_000_000_000_000;
const MOST_HOURS: i64 = 720;
const MOST_FIXES: i64 = 100;

/// Raise a change's limits on money, tokens, time or fixes
///
/// Each amount is added to the limit, or to the amount spent if that is higher: if $12 of $10 is spent, `--money +5` sets the
/// limit to $17. A change that was escalated because of this limit continues; one that something else stopped still needs its
/// decision.
#[derive(Debug, Args)]
#[command(
    after_help = "The default limits come from the settings (`remand config show loop`). `remand status CHANGE` shows what a change has used.\n\n\
Examples:\n  remand budget c3 --money +5\n  remand budget c3 --fixes +1 --time +30m --why 'nearly there'"
)]
#[group(id = "amount", required = true, multiple = true, args = ["money", "tokens", "time", "fixes"])]
pub(crate) struct BudgetArgs {
    #[command(flatten)]
    named: Named,

    /// Dollars, such as +5 or +2.50
    #[arg(long, value_name = "+N", value_parser = read_money, allow_hyphen_values = true)]
    money: Option<i64>,

    /// Tokens, such as +100000
    #[arg(long, value_name = "+N", value_parser = read_tokens, allow_hyphen_values = true)]
    tokens: Option<i64>,

    /// Agent run time, such as +90s, +30m or +2h
    #[arg(long, value_name = "+N", value_parser = read_time, allow_hyphen_values = true)]
    time: Option<i64>,

    /// Fixes, such as +1, for the current round and, if needed, for the total
    #[arg(long, value_name = "+N", value_parser = read_fixes, allow_hyphen_values = true)]
    fixes: Option<i64>,

    /// Reason, recorded in the event log
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
}

pub(crate) fn budget(args: &BudgetArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let added = Addition {
        fixes: args.fixes.unwrap_or(0),
        run_ms: args.time.unwrap_or(0),
        tokens: args.tokens.unwrap_or(0),
        cost_micros: args.money.unwrap_or(0),
    };
    let id = ctx.change(&args.named.change)?.change_id;
    add(ctx, &id, added, args.why.as_deref())
}

/// Allow a change more fixes (same as `remand budget CHANGE --fixes +N`)
#[derive(Debug, Args)]
#[command(
    after_help = "If the change was escalated because of this limit, work on it continues. Use `remand budget` to raise other limits.\n\n\
Example:\n  remand cycles c3 1"
)]
pub(crate) struct CyclesArgs {
    #[command(flatten)]
    named: Named,

    /// Number of additional fixes, 1 to 100
    #[arg(value_name = "N", value_parser = read_fixes)]
    n: i64,
}

pub(crate) fn cycles(args: &CyclesArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    let id = ctx.change(&args.named.change)?.change_id;
    let added = Addition {
        fixes: args.n,
        ..Addition::default()
    };
    add(ctx, &id, added, None)
}

fn add(
    ctx: &mut CommandContext,
    id: &ChangeId,
    added: Addition,
    why: Option<&str>,
) -> Result<ExitCode> {
    ctx.write_and_judge("budget", |conn, step| {
        let actor = &step.actor;
        bb::add_budget(conn, id, &added, Grant { actor, why }, step.now).map(|_| ())
    })?;
    let after = ctx.read(|conn| bb::change(conn, id))?;
    let now = format!("{}; {}", after.cycle_text(), spent(&after.budget));
    let other = match after.state == State::Escalated {
        true => ", but still needs you: it was not stopped by this limit alone",
        false => "",
    };
    let what = format!("is allowed {} ({now}){other}", added.text());
    told(ctx, id, &what)
}

fn read_money(text: &str) -> Result<i64, String> {
    let wrong = || format!("expected dollars from 0.01 to {MOST_USD}, such as +5 or +2.50");
    let amount: Option<f64> = unsigned(text).trim_start_matches('$').parse().ok();
    let amount = amount.filter(|amount| (0.01..=MOST_USD).contains(amount));
    let amount = amount.ok_or_else(wrong)?;
    #[expect(clippy::cast_possible_truncation, reason = "in range")]
    Ok((amount * 1_000_000.0).round() as i64)
}

fn read_tokens(text: &str) -> Result<i64, String> {
    whole(unsigned(text), MOST_TOKENS)
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_TOKENS}, such as +100000"))
}

fn read_fixes(text: &str) -> Result<i64, String> {
    whole(unsigned(text), MOST_FIXES)
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_FIXES}, such as +1"))
}

/// Parses a duration, in milliseconds.
fn read_time(text: &str) -> Result<i64, String> {
    let wrong = || {
        format!("expected seconds, minutes or hours, at most {MOST_HOURS} hours: +90s, +30m, +2h")
    };
    let text = unsigned(text);
    let (number, seconds) = [("s", 1), ("m", 60), ("h", 3_600)]
        .into_iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)))
        .ok_or_else(wrong)?;
    let number = whole(number, MOST_HOURS * 3_600 / seconds).ok_or_else(wrong)?;
    Ok(number * seconds * 1_000)
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix('+').unwrap_or(text)
}

fn whole(text: &str, most: i64) -> Option<i64> {
    digits(text).filter(|n| (1..=most).contains(n))
}
