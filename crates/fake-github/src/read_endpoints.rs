//! Endpoints that read.

use serde_json::{Value, json};

use crate::git::Git;
use crate::pagination::check_parameters;
use crate::request::Request;
use crate::response::{EndpointError, Payload, Refusal, not_found, refusal};
use crate::review_json::PullRef;
use crate::state::{GithubState, IssueComment, Permission, Pull, Repo};

pub(crate) fn pulls(
    github: &GithubState,
    repo: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &["state", "head", "base", "sort", "direction"])?;
    let state = request.parameter("state").unwrap_or_else(|| "open".into());
    let (head, base) = (request.parameter("head"), request.parameter("base"));
    let owner_of = |pull: &Pull| {
        pull.head_repo
            .as_deref()
            .and_then(|name| name.split('/').next())
            .map(str::to_owned)
    };
    // GitHub ignores a head without an owner, and lists all.
    if head.as_ref().is_some_and(|head| !head.contains(':')) {
        return Err(EndpointError::Unsupported("a head without an owner".into()));
    }
    let is_of = |pull: &Pull, head: &str| {
        let (owner, name) = head.split_once(':').unwrap_or_default();
        owner_of(pull).is_some_and(|of| of.eq_ignore_ascii_case(owner)) && pull.head_ref == name
    };
    let fits = |pull: &Pull| {
        (state == "all" || (state == "open") == pull.is_open())
            && head.as_ref().is_none_or(|head| is_of(pull, head))
            && base.as_ref().is_none_or(|base| *base == pull.base_ref)
    };
    let mut found: Vec<(&i64, &Pull)> = find_repo(github, repo)?
        .pulls
        .iter()
        .filter(|(_, pull)| fits(pull))
        .collect();
    match request.parameter("sort").as_deref() {
        None | Some("created") => found.sort_by_key(|(number, _)| **number),
        Some("updated") => found.sort_by_key(|(number, pull)| (pull.updated_at.clone(), **number)),
        Some(other) => return Err(EndpointError::Unsupported(format!("sort={other}"))),
    }
    // The default direction is descending, unless `sort` is given.
    let direction = request.parameter("direction").unwrap_or_else(|| {
        if request.parameter("sort").is_none() {
            "desc"
        } else {
            "asc"
        }
        .into()
    });
    if direction == "desc" {
        found.reverse();
    }
    Ok(Payload::List(
        found
            .into_iter()
            .map(|(number, pull)| github.pull(repo, *number, pull))
            .collect(),
    ))
}

pub(crate) fn pull(github: &GithubState, on: &PullRef<'_>) -> Result<Payload, EndpointError> {
    Ok(Payload::Object(github.full_pull(
        on.repo,
        on.number,
        find_pull(github, on)?,
    )))
}

/// Returns an issue. Every pull request is an issue too.
pub(crate) fn issue(github: &GithubState, on: &PullRef<'_>) -> Result<Payload, EndpointError> {
    let repo = find_repo(github, on.repo)?;
    if let Some(issue) = repo.issues.get(&on.number) {
        return Ok(Payload::Object(github.issue(on.repo, on.number, issue)));
    }
    Ok(Payload::Object(github.pull_as_issue(
        on.repo,
        on.number,
        find_pull(github, on)?,
    )))
}

pub(crate) fn reviews(
    github: &GithubState,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &[])?;
    let list = find_pull(github, on)?.reviews.iter();
    Ok(Payload::List(
        list.map(|review| github.review(on, review)).collect(),
    ))
}

pub(crate) fn comments(
    github: &GithubState,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &["since"])?;
    let since = request.parameter("since").unwrap_or_default();
    let list = find_pull(github, on)?
        .comments
        .iter()
        .filter(|comment| comment.updated_at >= since);
    Ok(Payload::List(
        list.map(|comment| github.comment(on, comment)).collect(),
    ))
}

pub(crate) fn comments_of_issue(
    github: &GithubState,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    check_parameters(request, &["since"])?;
    let since = request.parameter("since").unwrap_or_default();
    let list = issue_comments(github, on)?
        .iter()
        .filter(|comment| comment.updated_at >= since);
    Ok(Payload::List(
        list.map(|comment| github.issue_comment(on, comment))
            .collect(),
    ))
}

pub(crate) fn commit(
    github: &GithubState,
    git: &Git,
    repo: &str,
    sha: &str,
) -> Result<Payload, EndpointError> {
    if sha.len() != 40 || !sha.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(EndpointError::Unsupported(format!(
            "a commit by an abbreviated hash or a name: {sha}"
        )));
    }
    let found = git
        .commit(&find_repo(github, repo)?.git_dir, sha)?
        .ok_or_else(not_found)?;
    Ok(Payload::Object(github.commit(repo, &found)))
}

/// Returns the permission of a user.
///
/// Only users with write access may ask. The key `permission` has no `maintain` and no `triage`; `role_name` does.
pub(crate) fn permission(
    github: &GithubState,
    repo: &str,
    login: &str,
) -> Result<Payload, EndpointError> {
    let home = find_repo(github, repo)?;
    if !github
        .me
        .as_ref()
        .is_some_and(|me| github.permission(home, me).may_write())
    {
        return Err(refusal(
            403,
            "Must have push access to view collaborator permission.",
        )
        .into());
    }
    // GitHub does not count the account of an app as a user here, whatever the permissions of the app.
    if github
        .user(login)
        .get("type")
        .is_none_or(|kind| kind == "Bot")
    {
        return Err(refusal(404, format!("{login} is not a user")).into());
    }
    let role = github.permission(home, login);
    let legacy = match role {
        Permission::Admin => "admin",
        Permission::Maintain | Permission::Write => "write",
        Permission::Triage | Permission::Read => "read",
        Permission::None => "none",
    };
    let user = github.collaborator(login, role);
    // `role_name` is empty for users without a role.
    let role_name = if role == Permission::None {
        json!("")
    } else {
        json!(role)
    };
    Ok(Payload::Object(
        json!({ "permission": legacy, "role_name": role_name, "user": user }),
    ))
}

pub(crate) fn rate_limit(github: &GithubState) -> Payload {
    let rate = &github.rate;
    let core = json!({
        "limit": rate.limit, "used": rate.limit - rate.remaining, "remaining": rate.remaining, "reset": rate.reset,
        "resource": "core",
    });
    let other = |resource: &str, limit: i64| -> Value {
        json!({ "limit": limit, "used": 0, "remaining": limit, "reset": rate.reset, "resource": resource })
    };
    Payload::Object(json!({
        "resources": { "core": core, "search": other("search", 30), "graphql": other("graphql", 5000) },
        "rate": core,
    }))
}

/// Returns the comments of an issue, or those in the conversation of a pull request.
pub(crate) fn issue_comments<'a>(
    github: &'a GithubState,
    on: &PullRef<'_>,
) -> Result<&'a [IssueComment], Refusal> {
    match find_repo(github, on.repo)?.issues.get(&on.number) {
        Some(issue) => Ok(&issue.comments),
        None => Ok(&find_pull(github, on)?.issue_comments),
    }
}

pub(crate) fn find_repo<'a>(github: &'a GithubState, repo: &str) -> Result<&'a Repo, Refusal> {
    github.repos.get(repo).ok_or_else(not_found)
}

pub(crate) fn find_pull<'a>(
    github: &'a GithubState,
    on: &PullRef<'_>,
) -> Result<&'a Pull, Refusal> {
    find_repo(github, on.repo)?
        .pulls
        .get(&on.number)
        .ok_or_else(not_found)
}
