//! Reports that the daemon before this one was ended by the watchdog. Its agents were ended with it, which nothing else
//! would tell a person.

use serde_json::json;

use super::Record;
use crate::blackboard::{self as bb, Db};
use crate::change::ChangeId;
use crate::clock;
use crate::event::{EventType, NewEvent, TargetType};
use crate::work::Run;

/// Before anything is recovered: the runs without an end are those that were cut.
pub(super) async fn report(db: &Db, left_over: Option<Record>) -> anyhow::Result<()> {
    let Some((record, since)) =
        left_over.and_then(|record| record.silent_since.map(|since| (record, since)))
    else {
        return Ok(());
    };
    let pid = record.pid;
    let runs = db.write("daemon_ended", move |conn| {
        let runs = bb::open_runs(conn)?;
        let ids: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
        let metadata =
            json!({ "cause": "watchdog", "pid": pid, "silent_since": since, "runs": ids });
        for event in events(&runs, pid) {
            bb::append(conn, &event.with(metadata.clone()), clock::now())?;
        }
        Ok(runs)
    });
    let runs = runs.await?;
    let runs: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    tracing::error!(%pid, %since, ?runs, "the last daemon was ended by the watchdog: it had given no sign of life");
    Ok(())
}

/// One for each run that was cut, about its change; with none at work one about the blackboard.
fn events(runs: &[Run], pid: u32) -> Vec<NewEvent> {
    let ended =
        format!("the daemon (pid {pid}) gave no sign of life and was ended by the watchdog");
    if runs.is_empty() {
        let event = NewEvent::about(&ChangeId::new(""), EventType::DaemonEnded, ended);
        let mut event = event.on(TargetType::Blackboard, "daemon");
        event.change_id = None;
        return vec![event];
    }
    let about = |run: &Run| {
        let summary = format!("{ended}, while {} by {} was at work", run.run_id, run.agent);
        NewEvent::about(&run.change_id, EventType::DaemonEnded, summary)
    };
    runs.iter().map(about).collect()
}
