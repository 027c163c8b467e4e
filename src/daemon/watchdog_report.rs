//! Reports that the previous daemon was ended by the watchdog. Its agents were ended with it, which
//! nothing else would report.

use super::Record;
use crate::blackboard::{self as bb, Db};
use crate::clock;
use crate::event::{NewEvent, TargetType, body};
use crate::work::Run;

/// Reports the end of the previous daemon. Must run before anything is recovered: until then, the
/// runs without an end are those that were interrupted.
pub(super) async fn report(db: &Db, left_over: Option<Record>) -> anyhow::Result<()> {
    let ended = left_over.and_then(|record| Some((record.pid, record.silent_since?)));
    let Some((pid, since)) = ended else {
        return Ok(());
    };
    let runs = db.write("daemon_ended", move |conn| {
        let runs = bb::open_runs(conn)?;
        let ended = body::DaemonEnded {
            cause: "watchdog".into(),
            pid,
            silent_since: Some(since),
            runs: runs.iter().map(|run| run.run_id.clone()).collect(),
        };
        for event in events(&runs, &ended) {
            bb::append(conn, &event, clock::now())?;
        }
        Ok(runs)
    });
    let runs = runs.await?;
    let runs: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    tracing::error!(%pid, %since, ?runs, "the previous daemon stopped responding and was terminated by the watchdog");
    Ok(())
}

/// Returns one event per interrupted run, about its change, or one event about the blackboard if
/// nothing was running.
fn events(runs: &[Run], body: &body::DaemonEnded) -> Vec<NewEvent> {
    let pid = body.pid;
    let ended =
        format!("the daemon (pid {pid}) stopped responding and was terminated by the watchdog");
    if runs.is_empty() {
        return vec![NewEvent::new(body.clone(), ended).on(TargetType::Blackboard, "daemon")];
    }
    let about = |run: &Run| {
        let summary = format!("{ended} while {} by {} was running", run.run_id, run.agent);
        NewEvent::about(&run.change_id, body.clone(), summary)
    };
    runs.iter().map(about).collect()
}
