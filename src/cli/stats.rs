//! `remand stats`: what was done, or would have been, in numbers.

use anyhow::Result;
use clap::Args;
use serde_json::json;

use super::desk::Desk;
use super::fail::Code;
use super::out::Table;
use crate::blackboard::{self as bb, ShadowSum};

/// Sum up what would have been done for the changes in shadow
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  remand stats --shadow")]
pub(crate) struct StatsArgs {
    /// Of the changes in shadow: reviews, fixes, pushes and posts that were not made, and what they would have cost [the default]
    #[arg(long)]
    shadow: bool,
}

pub(crate) fn stats(_: &StatsArgs, desk: &mut Desk) -> Result<Code> {
    let projects = desk.read(bb::shadow_sums)?;
    let all = projects.iter().fold(ShadowSum::default(), |all, one| add(&all, one));
    if desk.out.is_json() {
        desk.out.json(&json!({ "projects": projects, "all": all }))?;
        return Ok(Code::Done);
    }
    if projects.is_empty() {
        desk.out.note("nothing is in shadow, and nothing was (`remand shadow CHANGE on`)")?;
        return Ok(Code::Done);
    }
    let mut table =
        Table::new(&["PROJECT", "IN SHADOW", "REVIEWS", "FIXES", "PUSHES", "POSTS", "TOKENS", "MONEY", "TIME"]);
    for sum in &projects {
        table.row(cells(sum.project_id.as_ref().map_or("", |id| id.as_str()), sum));
    }
    if projects.len() > 1 {
        table.row(cells("all", &all));
    }
    desk.out.table(&table)?;
    let without = match all.not_estimated {
        0 => String::new(),
        n => format!("; of {n} not all could be"),
    };
    desk.out.note(format!("nothing of it was done; tokens, money and time are estimated{without}"))?;
    Ok(Code::Done)
}

fn add(all: &ShadowSum, one: &ShadowSum) -> ShadowSum {
    ShadowSum {
        project_id: None,
        changes: all.changes + one.changes,
        reviews: all.reviews + one.reviews,
        fixes: all.fixes + one.fixes,
        pushes: all.pushes + one.pushes,
        posts: all.posts + one.posts,
        tokens: all.tokens + one.tokens,
        cost_micros: all.cost_micros + one.cost_micros,
        run_ms: all.run_ms + one.run_ms,
        not_estimated: all.not_estimated + one.not_estimated,
    }
}

fn cells(name: &str, sum: &ShadowSum) -> [String; 9] {
    let counts = [sum.changes, sum.reviews, sum.fixes, sum.pushes, sum.posts, sum.tokens].map(|n| n.to_string());
    let [changes, reviews, fixes, pushes, posts, tokens] = counts;
    let time = format!("{} s", sum.run_ms.div_euclid(1000));
    [name.to_owned(), changes, reviews, fixes, pushes, posts, tokens, bb::dollars(sum.cost_micros), time]
}
