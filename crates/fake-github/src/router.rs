//! Routes a request to its endpoint, and adds rate limits and ETags to the response.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::FakeGithubError;
use crate::git::{Git, update_branches};
use crate::json::merge;
use crate::pagination::Page;
use crate::request::{API, Request};
use crate::response::{EndpointError, Payload, Response, not_found, refusal};
use crate::review_json::PullRef;
use crate::state::{GithubState, Permission};
use crate::{check_endpoints, clock, pull_endpoints, read_endpoints, write_endpoints};

/// Length of a rate limit window in seconds.
const WINDOW_S: i64 = 3600;

pub(crate) enum Outcome {
    Response(Response),
    /// The stand-in does not implement this part of GitHub.
    Unsupported(String),
}

/// Handles a request of the user who is logged in.
pub(crate) fn handle(
    github: &mut GithubState,
    git: &Git,
    request: &Request,
) -> Result<Outcome, FakeGithubError> {
    renew_rate_limit(github);
    if github.rate.remaining <= 0 {
        let me = github.me.as_ref().and_then(|me| github.users.get(me));
        return Ok(Outcome::Response(with_rate_limit(
            github,
            rate_limit_exceeded(me.map_or(0, |user| user.id)),
        )));
    }
    let found = endpoint(github, git, request);
    let response = match found {
        Ok(found) => found,
        Err(EndpointError::Refusal(refusal)) => refusal.into_response(),
        Err(EndpointError::Unsupported(what)) => return Ok(Outcome::Unsupported(what)),
        Err(EndpointError::Internal(error)) => return Err(error),
    };
    let response = if request.is_write() {
        response
    } else {
        with_etag(response, request)
    };
    if response.status != 304 && request.segments() != ["rate_limit"] {
        github.rate.remaining -= 1;
    }
    Ok(Outcome::Response(with_rate_limit(github, response)))
}

pub(crate) fn rate_limit_exceeded(user: i64) -> Response {
    let message = format!(
        "API rate limit exceeded for user ID {user}. If you reach out to GitHub Support for help, please include the \
         request ID."
    );
    refusal(403, message).into_response()
}

/// Adds the headers of the rate limit.
fn with_rate_limit(github: &GithubState, response: Response) -> Response {
    let rate = &github.rate;
    response
        .with("X-RateLimit-Limit", rate.limit.to_string())
        .with("X-RateLimit-Remaining", rate.remaining.max(0).to_string())
        .with("X-RateLimit-Reset", rate.reset.to_string())
        .with(
            "X-RateLimit-Used",
            (rate.limit - rate.remaining.max(0)).to_string(),
        )
        .with("X-RateLimit-Resource", "core")
}

fn renew_rate_limit(github: &mut GithubState) {
    let now = clock::now().timestamp();
    if github.rate.reset <= now {
        (github.rate.remaining, github.rate.reset) = (github.rate.limit, now + WINDOW_S);
    }
}

/// Adds the ETag. A response that the client already has becomes a 304 without a body.
fn with_etag(response: Response, request: &Request) -> Response {
    if response.status != 200 {
        return response;
    }
    let etag = etag(&response);
    let is_unchanged = request
        .header("If-None-Match")
        .is_some_and(|known| known.split(',').any(|one| one.trim() == etag));
    let mut response = response
        .with("ETag", etag)
        .with("Cache-Control", "private, max-age=60, s-maxage=60");
    if is_unchanged {
        response.status = 304;
        response.body.clear();
        response
            .headers
            .retain(|(name, _)| name != "Content-Type" && name != "Link");
    }
    response
}

/// Hashes the body and the links: a new page changes only the links of the others.
fn etag(response: &Response) -> String {
    let digest = Sha256::new()
        .chain_update(response.header("Link").unwrap_or_default())
        .chain_update(b"\n")
        .chain_update(&response.body)
        .finalize();
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("W/\"{hex}\"")
}

fn endpoint(
    github: &mut GithubState,
    git: &Git,
    request: &Request,
) -> Result<Response, EndpointError> {
    let segments = request.segments();
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let me = github.me.clone().unwrap_or_default();
    match (request.method.as_str(), words.as_slice()) {
        ("GET", ["user"]) => Ok(Response::json(200, &github.private_user(&me))),
        ("GET", ["rate_limit"]) => Ok(into_response(
            read_endpoints::rate_limit(github),
            request,
            "",
        )),
        (_, ["repos", owner, name, rest @ ..]) => match github.repo_name(owner, name) {
            Some(repo) => in_repo(github, git, request, &repo, rest),
            None => redirect(github, request, &format!("{owner}/{name}"), rest),
        },
        (_, ["repositories", id, rest @ ..]) => {
            let repo = github
                .repos
                .iter()
                .find(|(_, repo)| repo.id.to_string() == *id)
                .map(|(name, _)| name.clone());
            in_repo(github, git, request, &repo.ok_or_else(not_found)?, rest)
        }
        _ => Err(unsupported(request)),
    }
}

/// Redirects from a former name of a repository to its id.
fn redirect(
    github: &GithubState,
    request: &Request,
    name: &str,
    rest: &[&str],
) -> Result<Response, EndpointError> {
    let is_former_name = |known: &String| known.eq_ignore_ascii_case(name);
    let repo = github
        .repos
        .values()
        .find(|repo| repo.formerly.iter().any(is_former_name))
        .ok_or_else(not_found)?;
    let mut url = format!("{API}/repositories/{}", repo.id);
    for part in rest {
        url = format!("{url}/{part}");
    }
    if let Some((_, query)) = request.path_and_query().split_once('?') {
        url = format!("{url}?{query}");
    }
    let (status, message) = if request.is_write() {
        (307, "Temporary Redirect")
    } else {
        (301, "Moved Permanently")
    };
    let body = json!({ "message": message, "url": url, "documentation_url": "https://docs.github.com/rest" });
    Ok(Response::json(status, &body).with("Location", url))
}

fn in_repo(
    github: &mut GithubState,
    git: &Git,
    request: &Request,
    repo: &str,
    rest: &[&str],
) -> Result<Response, EndpointError> {
    let me = github.me.clone().unwrap_or_default();
    if github
        .repos
        .get(repo)
        .is_none_or(|home| github.permission(home, &me) == Permission::None)
    {
        return Err(not_found().into());
    }
    update_branches(github, repo)?;
    let on = |number: &str| match number.parse() {
        Ok(number) => Ok(PullRef { repo, number }),
        Err(_) => Err(not_found()),
    };
    let payload = match (request.method.as_str(), rest) {
        ("GET", []) => Payload::Object(github.full_repo(repo)),
        ("GET", ["pulls"]) => read_endpoints::pulls(github, repo, request)?,
        ("GET", ["pulls", n]) => read_endpoints::pull(github, &on(n)?)?,
        ("GET", ["pulls", n, "reviews"]) => read_endpoints::reviews(github, &on(n)?, request)?,
        ("GET", ["pulls", n, "comments"]) => read_endpoints::comments(github, &on(n)?, request)?,
        ("GET", ["issues", n]) => read_endpoints::issue(github, &on(n)?)?,
        ("GET", ["issues", n, "comments"]) => {
            read_endpoints::comments_of_issue(github, &on(n)?, request)?
        }
        ("GET", ["commits", sha, "check-runs"]) => {
            check_endpoints::check_runs(github, repo, sha, request)?
        }
        ("GET", ["commits", sha, "status"]) => {
            check_endpoints::combined_status(github, repo, sha, request)?
        }
        ("GET", ["rules", "branches", branch]) => {
            check_endpoints::rules(github, repo, branch, request)?
        }
        ("GET", ["branches", branch]) => check_endpoints::branch(github, git, repo, branch)?,
        ("GET", ["compare", basehead]) => {
            check_endpoints::compare(github, git, repo, basehead, request)?
        }
        ("GET", ["actions", "runs"]) => {
            Payload::Object(json!({ "total_count": 0, "workflow_runs": [] }))
        }
        ("GET", ["actions", "jobs", id, "logs"]) => check_endpoints::job_log(github, repo, id)?,
        ("POST", ["check-runs", id, "rerequest"]) => {
            check_endpoints::rerun(github, repo, id, false)?
        }
        ("POST", ["actions", "jobs", id, "rerun"]) => {
            check_endpoints::rerun(github, repo, id, true)?
        }
        ("POST", ["actions", "runs", id, "rerun-failed-jobs"]) => {
            check_endpoints::rerun_failed(github, repo, id)?
        }
        ("GET", ["git", "commits", sha]) => read_endpoints::commit(github, git, repo, sha)?,
        ("GET", ["collaborators", login, "permission"]) => {
            read_endpoints::permission(github, repo, login)?
        }
        ("POST", ["pulls"]) => pull_endpoints::create(github, git, repo, request)?,
        ("PATCH", ["pulls", n]) => pull_endpoints::edit(github, &on(n)?, request)?,
        ("POST", ["pulls", n, "reviews"]) => {
            write_endpoints::review(github, git, &on(n)?, request)?
        }
        ("POST", ["issues", n, "comments"]) => {
            write_endpoints::issue_comment(github, &on(n)?, request)?
        }
        ("POST", ["pulls", n, "comments", id, "replies"]) => {
            write_endpoints::reply(github, &on(n)?, id, request)?
        }
        ("POST", ["pulls", n, "requested_reviewers"]) => {
            write_endpoints::request_reviewers(github, &on(n)?, request)?
        }
        ("PUT", ["pulls", n, "reviews", id, "dismissals"]) => {
            write_endpoints::dismiss(github, &on(n)?, id, request)?
        }
        _ => return Err(unsupported(request)),
    };
    let id = github.repos.get(repo).map_or(0, |home| home.id);
    Ok(into_response(
        payload,
        request,
        &format!("repositories/{id}/{}", rest.join("/")),
    ))
}

fn unsupported(request: &Request) -> EndpointError {
    EndpointError::Unsupported(format!("{} {}", request.method, request.path_and_query()))
}

fn into_response(payload: Payload, request: &Request, path: &str) -> Response {
    match payload {
        Payload::Object(value) => Response::json(200, &value),
        Payload::Created(value, url) => Response::json(201, &value).with("Location", url),
        Payload::List(all) => Page::requested(request).response(all, request, path),
        Payload::ListIn(key, rest, all) => {
            let total = all.len();
            let body = |items| {
                let own = json!({ "total_count": total, key: Value::Array(items) });
                if rest.is_null() {
                    own
                } else {
                    merge(rest, own)
                }
            };
            Page::requested(request).response_with(all, request, path, body)
        }
        Payload::Response(response) => response,
    }
}
