//! Checks of commits: check runs, commit statuses, the checks that a branch requires, reruns and logs.

use serde_json::{Value, json};

use crate::git::Git;
use crate::json::{WEB, merge, node_id};
use crate::pagination::check_parameters;
use crate::read_endpoints::find_repo;
use crate::request::{API, Request};
use crate::response::{EndpointError, Payload, Refusal, Response, not_found, refusal};
use crate::state::{CheckRun, CommitChecks, GithubState, JobLog, Repo};
use crate::write_endpoints::require_write_access;

/// Host of the logs, which is not GitHub's.
const LOG_HOST: &str = "https://logs.blob.example.net";

/// Slug of the app that runs GitHub Actions.
const ACTIONS: &str = "github-actions";

/// Returns the newest check run of each name and app.
pub(crate) fn check_runs(
    github: &GithubState,
    repo: &str,
    sha: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &[])?;
    let home = find_repo(github, repo)?;
    let none = CommitChecks::default();
    let checks = home.checks.get(sha).unwrap_or(&none);
    let is_newest = |run: &&CheckRun| {
        let mut others = checks.runs.iter();
        !others.any(|other| (&other.name, &other.app) == (&run.name, &run.app) && other.id > run.id)
    };
    let runs = checks.runs.iter().filter(is_newest);
    let all = runs.map(|run| github.check_run(repo, sha, run)).collect();
    Ok(Payload::ListIn("check_runs", Value::Null, all))
}

/// Returns the newest commit status of each context, and their combined state.
pub(crate) fn combined_status(
    github: &GithubState,
    repo: &str,
    sha: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &[])?;
    let home = find_repo(github, repo)?;
    let none = CommitChecks::default();
    let statuses = &home.checks.get(sha).unwrap_or(&none).statuses;
    let has = |states: &[&str]| {
        let mut all = statuses.iter();
        all.any(|status| states.contains(&status.state.as_str()))
    };
    let state = if has(&["failure", "error"]) {
        "failure"
    } else if statuses.is_empty() || has(&["pending"]) {
        "pending"
    } else {
        "success"
    };
    let url = format!("{API}/repos/{repo}/statuses/{sha}");
    let status = |status: &crate::state::Status| {
        json!({
            "id": status.id, "node_id": node_id("SC", status.id), "url": url, "avatar_url": null,
            "state": status.state, "context": status.context, "description": status.description,
            "target_url": status.target_url, "created_at": status.created_at, "updated_at": status.created_at,
        })
    };
    let rest = json!({
        "state": state,
        "sha": sha,
        "repository": github.repo(repo),
        "commit_url": format!("{API}/repos/{repo}/commits/{sha}"),
        "url": format!("{API}/repos/{repo}/commits/{sha}/status"),
    });
    let all = statuses.iter().map(status).collect();
    Ok(Payload::ListIn("statuses", rest, all))
}

/// Returns the rules for a branch. Anybody who can read the repository may ask.
pub(crate) fn rules(
    github: &GithubState,
    repo: &str,
    branch: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &[])?;
    let required = find_repo(github, repo)?.rules.get(branch);
    let rule = |names: &Vec<String>| {
        let checks: Vec<Value> = names
            .iter()
            .map(|name| json!({ "context": name }))
            .collect();
        json!({
            "type": "required_status_checks",
            "parameters": {
                "required_status_checks": checks, "strict_required_status_checks_policy": false,
            },
            "ruleset_source_type": "Repository", "ruleset_source": repo, "ruleset_id": 1,
        })
    };
    let deletion = json!({
        "type": "deletion", "ruleset_source_type": "Repository", "ruleset_source": repo, "ruleset_id": 1,
    });
    let rules = required.map(|names| vec![deletion, rule(names)]);
    Ok(Payload::List(rules.unwrap_or_default()))
}

/// Returns a branch with the summary of its protection, which does not need an administrator.
pub(crate) fn branch(
    github: &GithubState,
    git: &Git,
    repo: &str,
    branch: &str,
) -> Result<Payload, EndpointError> {
    let home = find_repo(github, repo)?;
    let sha = crate::git::branch(&home.git_dir, branch)?
        .ok_or_else(|| refusal(404, "Branch not found"))?;
    let required = home.protection.get(branch);
    let names = required.cloned().unwrap_or_default();
    let url = format!("{API}/repos/{repo}/branches/{branch}");
    let checks: Vec<Value> = names
        .iter()
        .map(|name| json!({ "context": name, "app_id": null }))
        .collect();
    Ok(Payload::Object(json!({
        "name": branch,
        "commit": full_commit(github, git, repo, home, &sha)?,
        "_links": { "self": url, "html": format!("{WEB}/{repo}/tree/{branch}") },
        "protected": required.is_some(),
        "protection": {
            "enabled": required.is_some(),
            "required_status_checks": {
                "enforcement_level": if required.is_some() { "non_admins" } else { "off" },
                "contexts": names,
                "checks": checks,
            },
        },
        "protection_url": format!("{url}/protection"),
    })))
}

/// Compares two commits, as far as their merge base.
pub(crate) fn compare(
    github: &GithubState,
    git: &Git,
    repo: &str,
    basehead: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &[])?;
    let home = find_repo(github, repo)?;
    let (base, head) = basehead.split_once("...").ok_or_else(not_found)?;
    let commit_of = |name: &str| -> Result<String, EndpointError> {
        let found = crate::git::branch(&home.git_dir, name)?;
        Ok(found.unwrap_or_else(|| name.to_owned()))
    };
    let (base, head) = (commit_of(base)?, commit_of(head)?);
    let merge_base = git
        .merge_base(&home.git_dir, &base, &head)?
        .ok_or_else(not_found)?;
    let web = format!("{WEB}/{repo}/compare/{basehead}");
    let commit = |sha: &str| full_commit(github, git, repo, home, sha);
    Ok(Payload::Object(json!({
        "url": format!("{API}/repos/{repo}/compare/{basehead}"),
        "html_url": web,
        "permalink_url": web,
        "diff_url": format!("{web}.diff"),
        "patch_url": format!("{web}.patch"),
        "base_commit": commit(&base)?,
        "merge_base_commit": commit(&merge_base)?,
        "status": "diverged",
        "ahead_by": 1, "behind_by": 0, "total_commits": 1,
        "commits": [], "files": [],
    })))
}

/// Runs a check again: by its app (`rerequest`), or as a job of GitHub Actions.
pub(crate) fn rerun(
    github: &mut GithubState,
    repo: &str,
    id: &str,
    is_job: bool,
) -> Result<Payload, EndpointError> {
    require_write_access(github, repo)?;
    let run = find_run(find_repo(github, repo)?, id)?.clone();
    if run.status != "completed" {
        let what = "The workflow run containing this job is already running";
        return Err(refusal(403, what).into());
    }
    if is_job != (run.app == ACTIONS) {
        return Err(EndpointError::Unsupported(format!("a rerun of {id}")));
    }
    let workflow = run.workflow;
    let home = find_repo(github, repo)?;
    let is_under_way = |other: &CheckRun| {
        workflow.is_some() && other.workflow == workflow && other.status != "completed"
    };
    if home
        .checks
        .values()
        .flat_map(|checks| &checks.runs)
        .any(is_under_way)
    {
        let what = "The workflow run containing this job is already running";
        return Err(refusal(403, what).into());
    }
    again(github, repo, &[run.id])
}

/// Runs all failed jobs of a workflow run again.
pub(crate) fn rerun_failed(
    github: &mut GithubState,
    repo: &str,
    workflow: &str,
) -> Result<Payload, EndpointError> {
    require_write_access(github, repo)?;
    let home = find_repo(github, repo)?;
    let all = home.checks.values().flat_map(|checks| &checks.runs);
    let jobs: Vec<&CheckRun> = all
        .filter(|run| run.workflow.is_some_and(|of| of.to_string() == workflow))
        .collect();
    if jobs.iter().any(|run| run.status != "completed") {
        return Err(refusal(403, "This workflow is already running").into());
    }
    let is_red = |run: &&&CheckRun| {
        let conclusion = run.conclusion.as_deref();
        !matches!(conclusion, Some("success" | "neutral" | "skipped"))
    };
    let failed: Vec<i64> = jobs.iter().filter(is_red).map(|run| run.id).collect();
    if failed.is_empty() {
        return Err(not_found().into());
    }
    again(github, repo, &failed)
}

/// Adds a queued check run for each of these.
fn again(github: &mut GithubState, repo: &str, runs: &[i64]) -> Result<Payload, EndpointError> {
    for id in runs {
        let (at, new) = (github.timestamp()?, github.new_id());
        let home = github.repos.get_mut(repo).ok_or_else(not_found)?;
        for checks in home.checks.values_mut() {
            let found = checks.runs.iter().find(|run| run.id == *id).cloned();
            checks.runs.extend(found.map(|run| CheckRun {
                id: new,
                status: "queued".into(),
                conclusion: None,
                started_at: at.clone(),
                completed_at: None,
                ..run
            }));
        }
    }
    Ok(Payload::Response(Response::json(201, &json!({}))))
}

/// Redirects to the log of a job, which another host has.
pub(crate) fn job_log(
    github: &GithubState,
    repo: &str,
    id: &str,
) -> Result<Payload, EndpointError> {
    let home = find_repo(github, repo)?;
    id.parse()
        .ok()
        .and_then(|id: i64| home.logs.get(&id))
        .ok_or_else(not_found)?;
    let place = format!("{LOG_HOST}/{}/{id}", home.id);
    Ok(Payload::Response(
        Response::new(302, "text/html;charset=utf-8", Vec::new()).with("Location", place),
    ))
}

/// Responds in place of the other host: the log as plain text. `None` for a request to GitHub.
pub(crate) fn stored_log(github: &GithubState, request: &Request) -> Option<Response> {
    let rest = request.target.strip_prefix(LOG_HOST).or_else(|| {
        // A client that is connected to a socket sends the host in a header.
        let host = request.header("Host")?;
        LOG_HOST.ends_with(host).then_some(request.target.as_str())
    })?;
    let (repo, job) = rest.trim_start_matches('/').split_once('/')?;
    let home = github
        .repos
        .values()
        .find(|home| home.id.to_string() == repo)?;
    let log = home.logs.get(&job.parse().ok()?)?;
    Some(Response::new(200, "text/plain", log_bytes(log)))
}

fn log_bytes(log: &JobLog) -> Vec<u8> {
    const LINE: &[u8] = b"2026-11-16T08:00:00.0000000Z a line that nobody reads, of a build that went well so far\n";
    let mut bytes = LINE.repeat(log.padding_bytes.div_ceil(LINE.len()));
    bytes.extend_from_slice(log.text.as_bytes());
    bytes
}

fn find_run<'a>(home: &'a Repo, id: &str) -> Result<&'a CheckRun, Refusal> {
    let mut all = home.checks.values().flat_map(|checks| &checks.runs);
    all.find(|run| run.id.to_string() == id)
        .ok_or_else(not_found)
}

fn full_commit(
    github: &GithubState,
    git: &Git,
    repo: &str,
    home: &Repo,
    sha: &str,
) -> Result<Value, EndpointError> {
    let found = git.commit(&home.git_dir, sha)?.ok_or_else(not_found)?;
    let inner = github.commit(repo, &found);
    let part = |name: &str| inner.get(name).cloned().unwrap_or_default();
    let url = format!("{API}/repos/{repo}/commits/{sha}");
    Ok(json!({
        "sha": sha,
        "node_id": part("node_id"),
        "url": url,
        "html_url": part("html_url"),
        "comments_url": format!("{url}/comments"),
        "commit": {
            "url": part("url"), "author": part("author"), "committer": part("committer"),
            "message": part("message"), "comment_count": 0, "tree": part("tree"),
            "verification": part("verification"),
        },
        "author": {},
        "committer": {},
        "parents": part("parents"),
    }))
}

impl GithubState {
    fn check_run(&self, repo: &str, sha: &str, run: &CheckRun) -> Value {
        let url = format!("{API}/repos/{repo}/check-runs/{}", run.id);
        let page = match run.workflow {
            Some(workflow) => format!("{WEB}/{repo}/actions/runs/{workflow}/job/{}", run.id),
            None => format!("{WEB}/{repo}/runs/{}", run.id),
        };
        let owner = repo.split('/').next().unwrap_or_default();
        let app = json!({
            "id": 15368, "slug": run.app, "node_id": node_id("A", 15368), "client_id": "Iv1.0",
            "owner": self.user(owner), "name": run.app, "description": null,
            "external_url": "https://example.org", "html_url": format!("{WEB}/apps/{}", run.app),
            "created_at": "2020-01-01T00:00:00Z", "updated_at": "2020-01-01T00:00:00Z",
            "permissions": {}, "events": [],
        });
        let rest = json!({
            "id": run.id,
            "node_id": node_id("CR", run.id),
            "head_sha": sha,
            "external_id": "",
            "url": url,
            "html_url": page,
            "details_url": page,
            "status": run.status,
            "conclusion": run.conclusion,
            "started_at": run.started_at,
            "completed_at": run.completed_at,
            "name": run.name,
            "check_suite": { "id": run.workflow.unwrap_or(1) },
            "pull_requests": [],
        });
        let output = json!({
            "title": null, "summary": null, "text": null, "annotations_count": 0,
            "annotations_url": format!("{url}/annotations"),
        });
        merge(rest, json!({ "app": app, "output": output }))
    }
}
