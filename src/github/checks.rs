//! Checks of commits: check runs, commit statuses, the checks that a branch requires, reruns and logs.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use tokio::time::Instant;

use super::call::{Call, Method, read_body};
use super::classify::{Request, classify};
use super::fetch::Fetch;
use super::pagination::{Marks, Pages};
use super::read::Answer;
use super::{Github, GithubError, Result, endpoint};
use crate::check::{
    CheckKind, CheckState, FailingStep, ReportedCheck, RerunCall, state_of_conclusion,
    state_of_status,
};

/// Maximum number of rules of a branch that are read.
const MOST_RULES: usize = 100;

/// Maximum number of bytes in which the head of a response ends.
const MOST_HEAD: usize = 256 * 1024;

#[derive(Deserialize)]
struct CheckRunsJson {
    check_runs: Vec<CheckRunJson>,
}

#[derive(Deserialize)]
struct CheckRunJson {
    id: i64,
    name: String,
    status: String,
    conclusion: Option<String>,
    started_at: Option<String>,
    completed_at: Option<String>,
    details_url: Option<String>,
    html_url: Option<String>,
    app: Option<AppJson>,
}

#[derive(Deserialize)]
struct AppJson {
    slug: Option<String>,
}

#[derive(Deserialize)]
struct StatusesJson {
    statuses: Vec<StatusJson>,
}

#[derive(Deserialize)]
struct StatusJson {
    id: i64,
    context: String,
    state: String,
    target_url: Option<String>,
    created_at: Option<String>,
    updated_at: Option<String>,
}

/// Rules of a branch. Only those about checks are read.
#[derive(Deserialize)]
#[serde(transparent)]
struct RulesJson(Vec<RuleJson>);

#[derive(Deserialize)]
struct RuleJson {
    #[serde(rename = "type")]
    kind: String,
    parameters: Option<ParametersJson>,
}

#[derive(Deserialize)]
struct ParametersJson {
    #[serde(default)]
    required_status_checks: Vec<ContextJson>,
}

#[derive(Deserialize)]
struct ContextJson {
    context: String,
}

#[derive(Deserialize)]
struct BranchJson {
    protection: Option<ProtectionJson>,
}

#[derive(Deserialize)]
struct ProtectionJson {
    required_status_checks: Option<RequiredJson>,
}

#[derive(Deserialize)]
struct RequiredJson {
    #[serde(default)]
    contexts: Vec<String>,
}

#[derive(Deserialize)]
struct CompareJson {
    merge_base_commit: ShaJson,
}

#[derive(Deserialize)]
struct ShaJson {
    sha: String,
}

/// Names of required checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequiredChecks(pub(crate) Vec<String>);

impl From<CheckRunJson> for ReportedCheck {
    fn from(json: CheckRunJson) -> Self {
        let is_completed = json.status == "completed";
        let conclusion = json.conclusion.filter(|_| is_completed);
        Self {
            kind: CheckKind::Run,
            name: json.name,
            app: json.app.and_then(|app| app.slug).unwrap_or_default(),
            forge_id: json.id,
            state: match &conclusion {
                Some(conclusion) => state_of_conclusion(conclusion),
                None if is_completed => CheckState::Stopped,
                None => CheckState::Pending,
            },
            detail: conclusion.unwrap_or(json.status),
            url: json.details_url.or(json.html_url),
            started_at: json.started_at,
            completed_at: json.completed_at,
        }
    }
}

impl From<StatusJson> for ReportedCheck {
    fn from(json: StatusJson) -> Self {
        let state = state_of_status(&json.state);
        Self {
            kind: CheckKind::Status,
            name: json.context,
            app: String::new(),
            forge_id: json.id,
            state,
            detail: json.state,
            url: json.target_url,
            started_at: json.created_at,
            completed_at: json.updated_at.filter(|_| state != CheckState::Pending),
        }
    }
}

impl From<RulesJson> for RequiredChecks {
    fn from(json: RulesJson) -> Self {
        let rules = json.0.into_iter();
        let about_checks = rules.filter(|rule| rule.kind == "required_status_checks");
        let parameters = about_checks.filter_map(|rule| rule.parameters);
        let checks = parameters.flat_map(|parameters| parameters.required_status_checks);
        Self(checks.map(|check| check.context).collect())
    }
}

impl From<BranchJson> for RequiredChecks {
    fn from(json: BranchJson) -> Self {
        let required = json.protection.and_then(|one| one.required_status_checks);
        Self(required.map(|one| one.contexts).unwrap_or_default())
    }
}

impl Github {
    /// Returns the newest check run of each name and app, on pages that have changed.
    pub(crate) async fn check_runs_in(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        sha: &str,
        known: &Marks,
    ) -> Result<Pages<ReportedCheck>> {
        let path = format!("{}/check-runs", endpoint::checks(repo, sha)?);
        let runs = |path: &str, body: &[u8]| {
            read_body::<CheckRunsJson>(path, body).map(|json| json.check_runs)
        };
        let pages = self.pages_in(fetch, &path, known, runs).await?;
        Ok(pages.filter_map(|json| Some(json.into())))
    }

    /// Returns the newest commit status of each context, on pages that have changed.
    pub(crate) async fn statuses_in(
        &self,
        fetch: &mut Fetch,
        repo: &str,
        sha: &str,
        known: &Marks,
    ) -> Result<Pages<ReportedCheck>> {
        let path = format!("{}/status", endpoint::checks(repo, sha)?);
        let statuses = |path: &str, body: &[u8]| {
            read_body::<StatusesJson>(path, body).map(|json| json.statuses)
        };
        let pages = self.pages_in(fetch, &path, known, statuses).await?;
        Ok(pages.filter_map(|json| Some(json.into())))
    }

    /// Returns all checks of a commit.
    pub(crate) async fn checks_of(&self, repo: &str, sha: &str) -> Result<Vec<ReportedCheck>> {
        let (fetch, none) = (&mut self.single_fetch(), Marks::default());
        let mut checks = self.check_runs_in(fetch, repo, sha, &none).await?.items;
        checks.extend(self.statuses_in(fetch, repo, sha, &none).await?.items);
        Ok(checks)
    }

    /// Returns the checks that rule sets require for a branch. Needs no right but to read.
    pub(crate) async fn required_by_rules(
        &self,
        fetch: &Fetch,
        repo: &str,
        branch: &str,
        etag: Option<&str>,
    ) -> Result<Answer<RequiredChecks>> {
        let path = endpoint::branch(repo, "rules/branches", branch)?;
        let path = format!("{path}?per_page={MOST_RULES}");
        self.read_unless::<RulesJson, _>(fetch, &path, etag).await
    }

    /// Returns the checks that the protection of a branch requires. The branch itself names them to everybody who can
    /// read; only the endpoint of the protection needs an administrator.
    pub(crate) async fn required_by_protection(
        &self,
        fetch: &Fetch,
        repo: &str,
        branch: &str,
        etag: Option<&str>,
    ) -> Result<Answer<RequiredChecks>> {
        let path = endpoint::branch(repo, "branches", branch)?;
        self.read_unless::<BranchJson, _>(fetch, &path, etag).await
    }

    /// Returns the merge base of a branch and a commit.
    pub(crate) async fn merge_base(&self, repo: &str, base: &str, head: &str) -> Result<String> {
        let path = endpoint::compare(repo, base, head)?;
        let call = Call::get(path.clone());
        let (_, body) = self.ask(&call, self.deadline()).await?.new_answer(&path)?;
        Ok(read_body::<CompareJson>(&path, &body)?
            .merge_base_commit
            .sha)
    }

    /// Returns the permissions that the token lacks for checks, as GitHub names them.
    pub(crate) async fn missing_check_rights(
        &self,
        repo: &str,
        branch: &str,
    ) -> Result<Vec<&'static str>> {
        let commit = endpoint::branch(repo, "commits", branch)?;
        let repository = endpoint::repository(repo)?;
        let mut missing = Vec::new();
        for (path, right) in [
            (format!("{commit}/check-runs?per_page=1"), "Checks"),
            (format!("{commit}/status?per_page=1"), "Commit statuses"),
            (format!("{repository}/actions/runs?per_page=1"), "Actions"),
        ] {
            let asked = self.ask(&Call::get(path), self.deadline()).await;
            // Anything else is no matter of rights, such as a branch that does not exist yet.
            if matches!(asked, Err(GithubError::Auth { .. })) {
                missing.push(right);
            }
        }
        Ok(missing)
    }

    /// Requests that checks run again. Nothing here checks whether they already do.
    pub(crate) async fn rerun(&self, repo: &str, rerun: RerunCall) -> Result<()> {
        let repository = endpoint::repository(repo)?;
        let path = match rerun {
            RerunCall::CheckRun(id) => format!("{repository}/check-runs/{id}/rerequest"),
            RerunCall::Job(id) => format!("{repository}/actions/jobs/{id}/rerun"),
            RerunCall::FailedJobs(id) => {
                format!("{repository}/actions/runs/{id}/rerun-failed-jobs")
            }
        };
        let body = json!({});
        let written = self.write::<IgnoredAny>(Method::Post, path, &body);
        written.await.map(drop)
    }

    /// Returns the end of the failing step in the log of a job of GitHub Actions. The log is read as it arrives, of any
    /// size.
    ///
    /// Newer versions of gh refuse to print escape sequences, which logs are full of, without an argument that older
    /// versions do not know.
    pub(crate) async fn job_log(&self, repo: &str, job: i64) -> Result<Vec<u8>> {
        let path = format!("{}/actions/jobs/{job}/logs", endpoint::repository(repo)?);
        let call = Call::get(path.clone());
        match self.log(&path, &call).await {
            Err(error @ GithubError::Transient { .. }) => {
                let again = self.log(&path, &call.with_escapes()).await;
                again.or(Err(error))
            }
            read => read,
        }
    }

    async fn log(&self, path: &str, call: &Call) -> Result<Vec<u8>> {
        let deadline: Instant = self.deadline();
        let mut body = Body::default();
        let mut each = |bytes: &[u8]| body.push(bytes);
        let output = self.stream(call, deadline, &mut each).await;
        let output = output.map_err(|error| self.not_run(path, &error))?;
        let request = Request {
            path,
            is_conditional: false,
            is_write: false,
        };
        classify(request, &output)?;
        match body {
            Body::Text(step) => Ok(step.end()),
            Body::Head(_) => Err(GithubError::broken(path, "no body")),
        }
    }
}

/// Body of a response whose head comes first.
enum Body {
    Head(Vec<u8>),
    Text(FailingStep),
}

impl Default for Body {
    fn default() -> Self {
        Self::Head(Vec::new())
    }
}

impl Body {
    fn push(&mut self, bytes: &[u8]) {
        match self {
            Self::Text(step) => step.push(bytes),
            Self::Head(head) => {
                const END: &[u8] = b"\r\n\r\n";
                // Output without a head is reported as broken, and not kept.
                if head.len() > MOST_HEAD {
                    return;
                }
                head.extend_from_slice(bytes);
                if let Some(end) = crate::secret_scan::position(head, END) {
                    let mut step = FailingStep::default();
                    step.push(head.get(end + END.len()..).unwrap_or_default());
                    *self = Self::Text(step);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_response_is_not_part_of_the_log() {
        let mut body = Body::default();
        for piece in ["HTTP/2.0 200 OK\nA: b\r\n", "\r", "\nfirst\n", "second"] {
            body.push(piece.as_bytes());
        }
        let Body::Text(step) = body else {
            panic!("still in the head")
        };
        assert_eq!(step.end(), b"first\nsecond\n");
    }

    #[test]
    fn output_without_a_head_is_not_kept() {
        let mut body = Body::default();
        for _ in 0..1_000 {
            body.push(&[b'x'; 1_000]);
        }
        let Body::Head(kept) = body else {
            panic!("it has no head")
        };
        assert!(kept.len() <= MOST_HEAD + 1_000, "{}", kept.len());
    }

    #[test]
    fn rules_that_are_not_about_checks_are_ignored() {
        let rules = r#"[{"type": "deletion"}, {"type": "pull_request", "parameters": {"required_approving_review_count": 1}},
            {"type": "required_status_checks", "parameters": {"required_status_checks": [{"context": "test", "integration_id": 1}, {"context": "lint"}]}}]"#;
        let json: RulesJson = serde_json::from_str(rules).unwrap();
        assert_eq!(RequiredChecks::from(json).0, ["test", "lint"]);
        let branch = r#"{"protected": false, "protection": {"enabled": false}}"#;
        let json: BranchJson = serde_json::from_str(branch).unwrap();
        assert_eq!(RequiredChecks::from(json).0, [] as [&str; 0]);
    }
}
