//! What can be read.

use serde_json::{Value, json};

use super::answer::{Refusal, Reply, Stop, not_found, refusal};
use super::git::Git;
use super::page::only;
use super::request::Request;
use super::said::On;
use super::state::{Forge, Pull, Repo};
use crate::pull_request::Permission;

pub(super) fn pulls(forge: &Forge, repo: &str, request: &Request) -> Result<Reply, Stop> {
    only(request, &["state", "head", "base", "sort", "direction"])?;
    let asked = |name: &str| {
        request
            .query()
            .into_iter()
            .rfind(|(known, _)| known == name)
            .map(|(_, value)| value)
    };
    let state = asked("state").unwrap_or_else(|| "open".into());
    let (head, base) = (asked("head"), asked("base"));
    let owner_of = |pull: &Pull| {
        pull.head_repo
            .as_deref()
            .and_then(|name| name.split('/').next())
            .map(str::to_owned)
    };
    let fits = |pull: &Pull| {
        let label = || format!("{}:{}", owner_of(pull).unwrap_or_default(), pull.head_ref);
        (state == "all" || (state == "open") == pull.is_open())
            && head.as_ref().is_none_or(|head| *head == label())
            && base.as_ref().is_none_or(|base| *base == pull.base_ref)
    };
    let mut found: Vec<(&i64, &Pull)> = known(forge, repo)?
        .pulls
        .iter()
        .filter(|(_, pull)| fits(pull))
        .collect();
    match asked("sort").as_deref() {
        None | Some("created") => found.sort_by_key(|(number, _)| **number),
        Some("updated") => found.sort_by_key(|(number, pull)| (pull.updated_at.clone(), **number)),
        Some(other) => return Err(Stop::Unknown(format!("sort={other}"))),
    }
    // The newest come first, unless an order is asked for by its name.
    let direction = asked("direction").unwrap_or_else(|| {
        if asked("sort").is_none() {
            "desc"
        } else {
            "asc"
        }
        .into()
    });
    if direction == "desc" {
        found.reverse();
    }
    Ok(Reply::List(
        found
            .into_iter()
            .map(|(number, pull)| forge.pull(repo, *number, pull))
            .collect(),
    ))
}

pub(super) fn pull(forge: &Forge, on: &On<'_>) -> Result<Reply, Stop> {
    Ok(Reply::One(forge.full_pull(
        on.repo,
        on.number,
        known_pull(forge, on)?,
    )))
}

/// A pull request is an issue too.
pub(super) fn issue(forge: &Forge, on: &On<'_>) -> Result<Reply, Stop> {
    let repo = known(forge, on.repo)?;
    if let Some(issue) = repo.issues.get(&on.number) {
        return Ok(Reply::One(forge.issue(on.repo, on.number, issue)));
    }
    Ok(Reply::One(forge.pull_as_issue(
        on.repo,
        on.number,
        known_pull(forge, on)?,
    )))
}

pub(super) fn reviews(forge: &Forge, on: &On<'_>, request: &Request) -> Result<Reply, Stop> {
    only(request, &[])?;
    let list = known_pull(forge, on)?.reviews.iter();
    Ok(Reply::List(
        list.map(|review| forge.review(on, review)).collect(),
    ))
}

pub(super) fn comments(forge: &Forge, on: &On<'_>, request: &Request) -> Result<Reply, Stop> {
    only(request, &["since"])?;
    let since = since(request);
    let list = known_pull(forge, on)?
        .comments
        .iter()
        .filter(|comment| comment.updated_at >= since);
    Ok(Reply::List(
        list.map(|comment| forge.comment(on, comment)).collect(),
    ))
}

pub(super) fn issue_comments(forge: &Forge, on: &On<'_>, request: &Request) -> Result<Reply, Stop> {
    only(request, &["since"])?;
    let since = since(request);
    let list = known_pull(forge, on)?
        .issue_comments
        .iter()
        .filter(|comment| comment.updated_at >= since);
    Ok(Reply::List(
        list.map(|comment| forge.issue_comment(on, comment))
            .collect(),
    ))
}

pub(super) async fn commit(forge: &Forge, git: &Git, repo: &str, sha: &str) -> Result<Reply, Stop> {
    if sha.len() != 40 || !sha.chars().all(|c| c.is_ascii_hexdigit()) {
        return Err(Stop::Unknown(format!(
            "a commit by another name than its whole hash: {sha}"
        )));
    }
    let found = git
        .commit(&known(forge, repo)?.git_dir, sha)
        .await?
        .ok_or_else(not_found)?;
    Ok(Reply::One(forge.commit(repo, &found)))
}

/// What somebody may do. GitHub tells only those who may write, and folds two of its own words into others.
pub(super) fn permission(forge: &Forge, repo: &str, login: &str) -> Result<Reply, Stop> {
    let home = known(forge, repo)?;
    if !forge
        .me
        .as_ref()
        .is_some_and(|me| forge.permission(home, me).may_write())
    {
        return Err(refusal(
            403,
            "Must have push access to view collaborator permission.",
        )
        .into());
    }
    // The account of an app is none here, whatever the app may do.
    if forge
        .user(login)
        .get("type")
        .is_none_or(|kind| kind == "Bot")
    {
        return Err(refusal(404, format!("{login} is not a user")).into());
    }
    let role = forge.permission(home, login);
    let legacy = match role {
        Permission::Admin => "admin",
        Permission::Maintain | Permission::Write => "write",
        Permission::Triage | Permission::Read => "read",
        Permission::None => "none",
    };
    let user = forge.collaborator(login, role);
    // Somebody without any role has an empty one.
    let role_name = if role == Permission::None {
        ""
    } else {
        role.as_str()
    };
    Ok(Reply::One(
        json!({ "permission": legacy, "role_name": role_name, "user": user }),
    ))
}

pub(super) fn rate_limit(forge: &Forge) -> Reply {
    let rate = &forge.rate;
    let core = json!({
        "limit": rate.limit, "used": rate.limit - rate.remaining, "remaining": rate.remaining, "reset": rate.reset,
        "resource": "core",
    });
    let other = |resource: &str, limit: i64| -> Value {
        json!({ "limit": limit, "used": 0, "remaining": limit, "reset": rate.reset, "resource": resource })
    };
    Reply::One(json!({
        "resources": { "core": core, "search": other("search", 30), "graphql": other("graphql", 5000) },
        "rate": core,
    }))
}

pub(super) fn known<'a>(forge: &'a Forge, repo: &str) -> Result<&'a Repo, Refusal> {
    forge.repos.get(repo).ok_or_else(not_found)
}

pub(super) fn known_pull<'a>(forge: &'a Forge, on: &On<'_>) -> Result<&'a Pull, Refusal> {
    known(forge, on.repo)?
        .pulls
        .get(&on.number)
        .ok_or_else(not_found)
}

fn since(request: &Request) -> String {
    request
        .query()
        .into_iter()
        .find(|(name, _)| name == "since")
        .map(|(_, value)| value)
        .unwrap_or_default()
}
