//! Any program: the prompt on its stdin, its answer on its stdout, and further results in a file.

use std::collections::BTreeMap;
use std::path::Path;

use super::outcome::{End, Outcome, last_words};
use super::result_file::{ReportedResult, result_file};
use super::{Agent, RunSpec, micros};
use crate::process::Exit;

pub(super) fn dress(
    agent: &Agent,
    errand: &RunSpec<'_>,
    env: &mut BTreeMap<String, String>,
) -> Vec<String> {
    env.insert(
        "REMAND_RESULT".to_owned(),
        result_file(errand.dir).display().to_string(),
    );
    if let Some(model) = &agent.model {
        env.insert("REMAND_MODEL".to_owned(), model.clone());
    }
    agent.command.clone()
}

/// Returns the outcome of a run that ended by itself; for any other run, what it reported before
/// its end.
pub(super) fn outcome(dir: &Path, exit: Option<&Exit>, stderr: &str) -> Outcome {
    let (result, odd) = ReportedResult::read(dir);
    Outcome {
        end: exit.map_or(End::Lost, |exit| judge(exit, &result, stderr)),
        session: result.session.clone(),
        tokens: result.tokens,
        cost_micros: result.cost_usd.and_then(micros),
        is_sum_of_session: false,
        denied: Vec::new(),
        odd,
    }
}

fn judge(exit: &Exit, result: &ReportedResult, stderr: &str) -> End {
    if let Some(hold) = &result.hold {
        return End::Hold {
            reason: hold.reason.clone(),
            until: hold.until(),
        };
    }
    match exit.status {
        Some(0) => End::Good,
        Some(status) => End::Failed(format!("exited with status {status}{}", last_words(stderr))),
        None => End::Lost,
    }
}
