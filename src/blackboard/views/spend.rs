//! Actual spending of agents, from the runs that have ended.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::blackboard::Result;
use crate::blackboard::sql::{Connection, columns, params};
use crate::change::{ChangeId, ProjectId};
use crate::clock::{self, Time, Zone};

/// Sum over some runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Spend {
    pub(crate) runs: i64,
    /// Number of runs whose agent reported no cost: `cost_micros` does not include them.
    pub(crate) without_cost: i64,
    pub(crate) tokens: i64,
    pub(crate) cost_micros: i64,
    pub(crate) run_ms: i64,
}

/// All spending, summed in four ways. Days are newest first, changes most expensive first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SpendSums {
    pub(crate) changes: Vec<ChangeSpend>,
    pub(crate) projects: Vec<ProjectSpend>,
    pub(crate) agents: Vec<AgentSpend>,
    pub(crate) days: Vec<DaySpend>,
    pub(crate) all: Spend,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ChangeSpend {
    pub(crate) change_id: ChangeId,
    pub(crate) project_id: ProjectId,
    pub(crate) title: String,
    #[serde(flatten)]
    pub(crate) spend: Spend,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct ProjectSpend {
    pub(crate) project_id: ProjectId,
    #[serde(flatten)]
    pub(crate) spend: Spend,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct AgentSpend {
    pub(crate) agent: String,
    #[serde(flatten)]
    pub(crate) spend: Spend,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DaySpend {
    /// Date, such as `2026-11-17`.
    pub(crate) day: String,
    #[serde(flatten)]
    pub(crate) spend: Spend,
}

impl Spend {
    fn add(&mut self, one: Self) {
        self.runs = self.runs.saturating_add(one.runs);
        self.without_cost = self.without_cost.saturating_add(one.without_cost);
        self.tokens = self.tokens.saturating_add(one.tokens);
        self.cost_micros = self.cost_micros.saturating_add(one.cost_micros);
        self.run_ms = self.run_ms.saturating_add(one.run_ms);
    }
}

/// Returns the money spent by runs that ended at this time or later.
pub(crate) fn spent_since(conn: &Connection, since: Time) -> Result<i64> {
    conn.value(
        "SELECT coalesce(sum(cost_micros), 0) FROM runs WHERE ended_at >= :since AND cost_micros IS NOT NULL",
        params! { since },
    )
}

/// Returns the money spent on one project by runs that ended at this time or later.
///
/// Goes from those runs to their changes: a day has few runs, a project may have thousands of
/// changes.
pub(crate) fn spent_on_project_since(
    conn: &Connection,
    project: &ProjectId,
    since: Time,
) -> Result<i64> {
    conn.value(
        "SELECT coalesce(sum(r.cost_micros), 0)
         FROM runs r INDEXED BY runs_by_end CROSS JOIN changes c ON c.change_id = r.change_id
         WHERE r.ended_at >= :since AND r.cost_micros IS NOT NULL AND c.project_id = :project",
        params! { since, project },
    )
}

/// Agent with runs for a change that reported no cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WithoutCost {
    pub(crate) agent: String,
    pub(crate) runs: i64,
    pub(crate) without_cost: i64,
}

/// Returns the agents with runs for a change that reported no cost.
pub(crate) fn agents_without_cost(conn: &Connection, id: &ChangeId) -> Result<Vec<WithoutCost>> {
    conn.all(
        "SELECT agent, count(*) AS runs, sum(cost_micros IS NULL) AS without_cost FROM runs
         WHERE change_id = :id AND ended = 'agent' GROUP BY agent HAVING without_cost > 0 ORDER BY agent",
        params! { id },
        |row| Ok(columns! { row => WithoutCost { agent, runs, without_cost } }),
    )
}

pub(crate) fn spend_sums(conn: &Connection, zone: Zone) -> Result<SpendSums> {
    let mut all = Spend::default();
    let mut changes: BTreeMap<ChangeId, ChangeSpend> = BTreeMap::new();
    let mut projects: BTreeMap<ProjectId, Spend> = BTreeMap::new();
    let mut agents: BTreeMap<String, Spend> = BTreeMap::new();
    let mut days: BTreeMap<String, Spend> = BTreeMap::new();
    conn.each(
        "SELECT r.change_id, c.project_id, c.title, r.agent, r.ended_at, r.tokens, r.cost_micros,
             coalesce((SELECT e.metadata ->> '$.elapsed_ms' FROM events e
                 WHERE e.target_type = 'run' AND e.target_id = r.run_id AND e.event_type = 'run_finished'), 0) AS run_ms
         FROM runs r JOIN changes c ON c.change_id = r.change_id
         WHERE r.ended_at IS NOT NULL AND r.ended <> 'not_started'",
        &[],
        |row| {
            let (tokens, cost): (Option<i64>, Option<i64>) =
                (row.get("tokens")?, row.get("cost_micros")?);
            let spend = Spend {
                runs: 1,
                without_cost: i64::from(cost.is_none()),
                tokens: tokens.unwrap_or(0),
                cost_micros: cost.unwrap_or(0),
                // As measured by remand and counted for the change. The difference between start
                // and end would include time without a daemon.
                run_ms: row.get("run_ms")?,
            };
            let (id, project): (ChangeId, ProjectId) =
                (row.get("change_id")?, row.get("project_id")?);
            let of_change = ChangeSpend {
                change_id: id.clone(),
                project_id: project.clone(),
                title: row.get("title")?,
                spend: Spend::default(),
            };
            changes.entry(id).or_insert(of_change).spend.add(spend);
            projects.entry(project).or_default().add(spend);
            agents.entry(row.get("agent")?).or_default().add(spend);
            let day = clock::day(row.get("ended_at")?, zone).name;
            days.entry(day).or_default().add(spend);
            all.add(spend);
            Ok(())
        },
    )?;
    let mut changes: Vec<ChangeSpend> = changes.into_values().collect();
    changes.sort_by_key(|one| (-one.spend.cost_micros, -one.spend.tokens, -one.spend.run_ms));
    Ok(SpendSums {
        changes,
        projects: projects
            .into_iter()
            .map(|(project_id, spend)| ProjectSpend { project_id, spend })
            .collect(),
        agents: agents
            .into_iter()
            .map(|(agent, spend)| AgentSpend { agent, spend })
            .collect(),
        days: days
            .into_iter()
            .rev()
            .map(|(day, spend)| DaySpend { day, spend })
            .collect(),
        all,
    })
}
