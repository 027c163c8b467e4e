//! From a request to its answer: who asks, how often, which endpoint, and whether it is news.

use serde_json::json;

use super::ForgeError;
use super::answer::{FakeAnswer, Reply, Stop, not_found, refusal};
use super::git::{Git, follow_branches};
use super::page::ListPage;
use super::request::{API, Request};
use super::said::On;
use super::state::Forge;
use super::{look, say};
use crate::clock;
use crate::fingerprint::fingerprint;
use crate::pull_request::Permission;

/// How long a window of the rate limit is.
const WINDOW_S: i64 = 3600;

/// What the model says.
pub(super) enum Outcome {
    Answer(FakeAnswer),
    /// GitHub would know; the stand-in does not.
    Unknown(String),
}

/// For somebody who is logged in.
pub(super) async fn answer(
    forge: &mut Forge,
    git: &Git,
    request: &Request,
) -> Result<Outcome, ForgeError> {
    renew(forge);
    if forge.rate.remaining <= 0 {
        let me = forge.me.as_ref().and_then(|me| forge.users.get(me));
        return Ok(Outcome::Answer(rated(
            forge,
            exceeded(me.map_or(0, |user| user.id)),
        )));
    }
    let found = endpoint(forge, git, request).await;
    let answer = match found {
        Ok(found) => found,
        Err(Stop::Refused(refusal)) => refusal.answer(),
        Err(Stop::Unknown(what)) => return Ok(Outcome::Unknown(what)),
        Err(Stop::Failed(error)) => return Err(error),
    };
    let answer = if request.is_write() {
        answer
    } else {
        as_news(answer, request)
    };
    if answer.status != 304 && request.segments() != ["rate_limit"] {
        forge.rate.remaining -= 1;
    }
    Ok(Outcome::Answer(rated(forge, answer)))
}

pub(super) fn exceeded(user: i64) -> FakeAnswer {
    let message = format!(
        "API rate limit exceeded for user ID {user}. If you reach out to GitHub Support for help, please include the \
         request ID."
    );
    refusal(403, message).answer()
}

/// Puts the state of the rate limit into an answer.
fn rated(forge: &Forge, answer: FakeAnswer) -> FakeAnswer {
    let rate = &forge.rate;
    answer
        .with("X-RateLimit-Limit", rate.limit.to_string())
        .with("X-RateLimit-Remaining", rate.remaining.max(0).to_string())
        .with("X-RateLimit-Reset", rate.reset.to_string())
        .with(
            "X-RateLimit-Used",
            (rate.limit - rate.remaining.max(0)).to_string(),
        )
        .with("X-RateLimit-Resource", "core")
}

fn renew(forge: &mut Forge) {
    let now = clock::now().millis() / 1000;
    if forge.rate.reset <= now {
        (forge.rate.remaining, forge.rate.reset) = (forge.rate.limit, now + WINDOW_S);
    }
}

/// With its ETag; without its body when that is known already.
fn as_news(answer: FakeAnswer, request: &Request) -> FakeAnswer {
    if answer.status != 200 {
        return answer;
    }
    let links: Vec<String> = answer
        .header("Link")
        .map(str::to_owned)
        .into_iter()
        .collect();
    let etag = format!("W/\"{}\"", fingerprint(&links, &answer.body));
    let is_known = request
        .header("If-None-Match")
        .is_some_and(|known| known.split(',').any(|one| one.trim() == etag));
    let mut answer = answer
        .with("ETag", etag)
        .with("Cache-Control", "private, max-age=60, s-maxage=60");
    if is_known {
        answer.status = 304;
        answer.body.clear();
        answer
            .headers
            .retain(|(name, _)| name != "Content-Type" && name != "Link");
    }
    answer
}

async fn endpoint(forge: &mut Forge, git: &Git, request: &Request) -> Result<FakeAnswer, Stop> {
    let segments = request.segments();
    let words: Vec<&str> = segments.iter().map(String::as_str).collect();
    let me = forge.me.clone().unwrap_or_default();
    match (request.method.as_str(), words.as_slice()) {
        ("GET", ["user"]) => Ok(FakeAnswer::json(200, &forge.myself(&me))),
        ("GET", ["rate_limit"]) => Ok(finish(look::rate_limit(forge), request, "")),
        (_, ["repos", owner, name, rest @ ..]) => match forge.name_of(owner, name) {
            Some(repo) => in_repo(forge, git, request, &repo, rest).await,
            None => moved(forge, request, &format!("{owner}/{name}"), rest),
        },
        (_, ["repositories", id, rest @ ..]) => {
            let repo = forge
                .repos
                .iter()
                .find(|(_, repo)| repo.id.to_string() == *id)
                .map(|(name, _)| name.clone());
            in_repo(forge, git, request, &repo.ok_or_else(not_found)?, rest).await
        }
        _ => Err(unknown(request)),
    }
}

/// A repository that was renamed is found by its number.
fn moved(forge: &Forge, request: &Request, name: &str, rest: &[&str]) -> Result<FakeAnswer, Stop> {
    let was = |known: &String| known.eq_ignore_ascii_case(name);
    let repo = forge
        .repos
        .values()
        .find(|repo| repo.formerly.iter().any(was))
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
    Ok(FakeAnswer::json(status, &body).with("Location", url))
}

async fn in_repo(
    forge: &mut Forge,
    git: &Git,
    request: &Request,
    repo: &str,
    rest: &[&str],
) -> Result<FakeAnswer, Stop> {
    let me = forge.me.clone().unwrap_or_default();
    if forge
        .repos
        .get(repo)
        .is_none_or(|home| forge.permission(home, &me) == Permission::None)
    {
        return Err(not_found().into());
    }
    follow_branches(forge, repo)?;
    let on = |number: &str| match number.parse() {
        Ok(number) => Ok(On { repo, number }),
        Err(_) => Err(not_found()),
    };
    let reply = match (request.method.as_str(), rest) {
        ("GET", []) => Reply::One(forge.full_repo(repo)),
        ("GET", ["pulls"]) => look::pulls(forge, repo, request)?,
        ("GET", ["pulls", n]) => look::pull(forge, &on(n)?)?,
        ("GET", ["pulls", n, "reviews"]) => look::reviews(forge, &on(n)?, request)?,
        ("GET", ["pulls", n, "comments"]) => look::comments(forge, &on(n)?, request)?,
        ("GET", ["issues", n]) => look::issue(forge, &on(n)?)?,
        ("GET", ["issues", n, "comments"]) => look::issue_comments(forge, &on(n)?, request)?,
        ("GET", ["git", "commits", sha]) => look::commit(forge, git, repo, sha).await?,
        ("GET", ["collaborators", login, "permission"]) => look::permission(forge, repo, login)?,
        ("POST", ["pulls", n, "reviews"]) => say::review(forge, git, &on(n)?, request).await?,
        ("POST", ["issues", n, "comments"]) => say::issue_comment(forge, &on(n)?, request)?,
        ("POST", ["pulls", n, "comments", id, "replies"]) => {
            say::reply(forge, &on(n)?, id, request)?
        }
        ("POST", ["pulls", n, "requested_reviewers"]) => {
            say::request_reviewers(forge, &on(n)?, request)?
        }
        ("PUT", ["pulls", n, "reviews", id, "dismissals"]) => {
            say::dismiss(forge, &on(n)?, id, request)?
        }
        _ => return Err(unknown(request)),
    };
    let id = forge.repos.get(repo).map_or(0, |home| home.id);
    Ok(finish(
        reply,
        request,
        &format!("repositories/{id}/{}", rest.join("/")),
    ))
}

fn unknown(request: &Request) -> Stop {
    Stop::Unknown(format!("{} {}", request.method, request.path_and_query()))
}

fn finish(reply: Reply, request: &Request, home: &str) -> FakeAnswer {
    match reply {
        Reply::One(value) => FakeAnswer::json(200, &value),
        Reply::Made(value, address) => FakeAnswer::json(201, &value).with("Location", address),
        Reply::List(all) => ListPage::of(request).answer(all, request, home),
    }
}
