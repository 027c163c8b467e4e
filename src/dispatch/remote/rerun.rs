//! Runs checks again, once for each check of a commit: after an unclear result, the forge is asked whether they already
//! do.

use super::post::Unposted;
use crate::blackboard::{Intent, PostDone};
use crate::change::Change;
use crate::check::{CheckKind, CheckState, ReportedCheck};
use crate::failpoint::crash_point;
use crate::github::{Github, GithubError};
use crate::intent::{IntentResult, RerunRequest};
use crate::text::list;

/// Requests a rerun, unless an earlier attempt did. A refusal is final: the check then counts as it is.
pub(super) async fn rerun(
    github: &Github,
    repo: &str,
    change: &Change,
    (intent, request): (&Intent, &RerunRequest),
) -> Result<PostDone, Unposted> {
    let Some(call) = request.call.filter(|_| change.head == request.head) else {
        return Err(Unposted::Never("there is a new head".into()));
    };
    let names = list(&request.names);
    let may_be_done = intent.tries > 0 || intent.claimed_by.is_some();
    if may_be_done && is_rerunning(&github.checks_of(repo, &request.head).await?, request) {
        return Ok(done(format!("{names} already runs again")));
    }
    crash_point!("post.{}.before", intent.kind);
    match github.rerun(repo, call).await {
        Ok(()) => Ok(done(format!("requested a rerun of {names}"))),
        Err(
            error @ (GithubError::Refused { .. }
            | GithubError::NotFound { .. }
            | GithubError::Auth { .. }),
        ) => Err(Unposted::Never(error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// True if a check of the request has a newer run, or has no result any more.
fn is_rerunning(now: &[ReportedCheck], request: &RerunRequest) -> bool {
    let newest = request.checks.iter().max().copied().unwrap_or_default();
    now.iter().any(|check| {
        let is_old = request.checks.contains(&check.forge_id);
        check.kind == CheckKind::Run
            && request.names.contains(&check.name)
            && (check.forge_id > newest || (is_old && check.state == CheckState::Pending))
    })
}

fn done(summary: String) -> PostDone {
    PostDone {
        result: IntentResult::Done,
        forge_id: None,
        url: None,
        summary,
    }
}
