//! Planned faults: the requests that they affect, and their effect on the response.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::FakeGithubError;
use crate::clock;
use crate::git::Git;
use crate::pagination::Page;
use crate::request::Request;
use crate::response::{Response, refusal};
use crate::router::{self, Outcome};
use crate::state::{GithubState, LogEntry};

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fault {
    /// Method of the request; null means any.
    #[serde(default)]
    method: Option<String>,
    /// A part of path and query; `*` matches any text.
    path: String,
    /// Number of matching requests that are not affected at first.
    #[serde(default)]
    skip: u32,
    /// Number of requests that are affected after them.
    #[serde(default = "once")]
    times: u32,
    then: Effect,
}

/// The effect of a fault.
///
/// Unless stated otherwise, the request is handled, and only its response is affected.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Effect {
    /// This response is sent. The request is not handled.
    Status {
        status: u16,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        body: String,
    },
    /// The HTML page of GitHub's load balancer is sent. The request is not handled.
    Html502,
    /// The body is empty.
    Empty,
    /// The body is cut in half, and the response is complete otherwise.
    Half,
    /// The body is not JSON.
    NotJson,
    /// The connection is closed in the middle of the response.
    CutAfterWrite,
    /// The connection is closed before the response.
    DroppedAfterWrite,
    /// No response is ever sent. The request is not handled.
    Hang,
    /// No response is ever sent.
    HangAfterWrite,
    /// The connection is refused. The request is not handled.
    Refused,
    /// Nobody is logged in. The request is not handled.
    NoToken,
    /// The primary rate limit is exceeded. The request is not handled.
    RateLimited { reset_in_s: i64 },
    /// A secondary rate limit is exceeded. The request is not handled.
    SecondaryLimit { retry_after_s: u32 },
    /// The response is sent late.
    Slow { ms: u64 },
    /// A page after the first has the items of the page before it.
    DuplicatePage,
    /// `gh` exits with this code and output. The request is not handled.
    Exit {
        code: u8,
        #[serde(default)]
        stdout: String,
        #[serde(default)]
        stderr: String,
    },
    /// `gh` is killed. The request is not handled.
    Killed,
}

/// The way in which a response reaches the client.
pub(crate) enum Delivery {
    Whole(Response),
    Late(Response, Duration),
    /// The connection is closed after the first half of the body.
    Cut(Response),
    /// The connection is closed before the first byte of the response.
    Dropped,
    Never,
    Refused,
    NoToken,
    Exit {
        code: u8,
        stdout: String,
        stderr: String,
    },
    Killed,
    /// The stand-in does not implement this part of GitHub.
    Unsupported(String),
}

fn once() -> u32 {
    1
}

pub(crate) fn handle(
    github: &mut GithubState,
    git: &Git,
    request: &Request,
) -> Result<Delivery, FakeGithubError> {
    if github.me.is_none() {
        return Ok(Delivery::NoToken);
    }
    let effect = next_effect(&mut github.faults, request);
    if let Some(delivery) = effect.as_ref().and_then(replacement) {
        log(github, request, None, true);
        return Ok(delivery);
    }
    let response = match router::handle(github, git, request)? {
        Outcome::Response(response) => response,
        Outcome::Unsupported(what) => {
            github.misuse.push(what.clone());
            return Ok(Delivery::Unsupported(what));
        }
    };
    log(github, request, Some(response.status), effect.is_some());
    Ok(match effect {
        Some(Effect::DuplicatePage) => {
            Delivery::Whole(previous_page(github, git, request, response)?)
        }
        Some(effect) => affected_response(&effect, response),
        None => Delivery::Whole(response),
    })
}

/// Returns the effect of the first fault that affects a request, and counts it.
fn next_effect(faults: &mut [Fault], request: &Request) -> Option<Effect> {
    for fault in faults
        .iter_mut()
        .filter(|fault| fault.matches(request) && fault.times > 0)
    {
        if fault.skip > 0 {
            fault.skip -= 1;
        } else {
            fault.times -= 1;
            return Some(fault.then.clone());
        }
    }
    None
}

impl Fault {
    fn matches(&self, request: &Request) -> bool {
        let is_later_page = || Page::requested(request).number > 1;
        self.method
            .as_ref()
            .is_none_or(|method| *method == request.method)
            && matches_pattern(request.path_and_query(), &self.path)
            && (!matches!(self.then, Effect::DuplicatePage) || is_later_page())
    }
}

/// True if a text contains the parts of a pattern between its `*`, in their order.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let mut rest = Some(text);
    for piece in pattern.split('*') {
        rest = rest
            .and_then(|rest| rest.split_once(piece))
            .map(|(_, after)| after);
    }
    rest.is_some()
}

/// Returns what is delivered instead of a response, for effects that prevent the request from being handled.
fn replacement(effect: &Effect) -> Option<Delivery> {
    Some(match effect {
        Effect::Status {
            status,
            headers,
            body,
        } => {
            let response = Response::new(
                *status,
                "application/json; charset=utf-8",
                body.clone().into_bytes(),
            );
            Delivery::Whole(headers.iter().fold(response, |response, (name, value)| {
                response.with(name, value)
            }))
        }
        Effect::Html502 => Delivery::Whole(Response::new(
            502,
            "text/html",
            include_str!("bad_gateway.html").into(),
        )),
        Effect::Hang => Delivery::Never,
        Effect::Refused => Delivery::Refused,
        Effect::NoToken => Delivery::NoToken,
        Effect::RateLimited { reset_in_s } => {
            let reset = clock::now().timestamp() + reset_in_s;
            Delivery::Whole(
                router::rate_limit_exceeded(1)
                    .with("X-RateLimit-Limit", "5000")
                    .with("X-RateLimit-Remaining", "0")
                    .with("X-RateLimit-Reset", reset.to_string())
                    .with("X-RateLimit-Used", "5000")
                    .with("X-RateLimit-Resource", "core"),
            )
        }
        Effect::SecondaryLimit { retry_after_s } => {
            let message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
            Delivery::Whole(
                refusal(403, message)
                    .into_response()
                    .with("Retry-After", retry_after_s.to_string()),
            )
        }
        Effect::Exit {
            code,
            stdout,
            stderr,
        } => Delivery::Exit {
            code: *code,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
        },
        Effect::Killed => Delivery::Killed,
        Effect::Empty
        | Effect::Half
        | Effect::NotJson
        | Effect::CutAfterWrite
        | Effect::DroppedAfterWrite
        | Effect::HangAfterWrite
        | Effect::Slow { .. }
        | Effect::DuplicatePage => return None,
    })
}

/// Applies an effect to the response to a request that was handled.
fn affected_response(effect: &Effect, mut response: Response) -> Delivery {
    match effect {
        Effect::Empty => response.body.clear(),
        Effect::Half => response.body.truncate(response.body.len() / 2),
        Effect::NotJson => response.body = b"We'll be right back.".to_vec(),
        Effect::CutAfterWrite => return Delivery::Cut(response),
        Effect::DroppedAfterWrite => return Delivery::Dropped,
        Effect::HangAfterWrite => return Delivery::Never,
        Effect::Slow { ms } => return Delivery::Late(response, Duration::from_millis(*ms)),
        Effect::Status { .. }
        | Effect::Html502
        | Effect::Hang
        | Effect::Refused
        | Effect::NoToken
        | Effect::RateLimited { .. }
        | Effect::SecondaryLimit { .. }
        | Effect::DuplicatePage
        | Effect::Exit { .. }
        | Effect::Killed => {}
    }
    Delivery::Whole(response)
}

fn previous_page(
    github: &mut GithubState,
    git: &Git,
    request: &Request,
    page: Response,
) -> Result<Response, FakeGithubError> {
    let mut previous = request.clone();
    previous.headers.clear();
    previous.target = format!(
        "{}&page={}",
        request.target,
        Page::requested(request).number - 1
    );
    Ok(match router::handle(github, git, &previous)? {
        Outcome::Response(previous) => Response {
            body: previous.body,
            ..page
        },
        Outcome::Unsupported(_) => page,
    })
}

fn log(github: &mut GithubState, request: &Request, status: Option<u16>, faulty: bool) {
    github.log.push(LogEntry {
        method: request.method.clone(),
        path: request.path_and_query().to_owned(),
        status,
        body: request.is_write().then(|| request.json()),
        faulty,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: serde_json::Value) -> Vec<Fault> {
        serde_json::from_value(json).unwrap()
    }

    fn get(target: &str) -> Request {
        Request {
            method: "GET".into(),
            target: target.into(),
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    #[test]
    fn a_fault_affects_only_matching_requests() {
        let mut faults = faults(serde_json::json!([
            { "method": "POST", "path": "pulls", "then": "html502" },
            { "path": "repos/*/reviews", "skip": 1, "times": 2, "then": "empty" },
        ]));
        let is_affected =
            |faults: &mut [Fault], target: &str| next_effect(faults, &get(target)).is_some();
        assert!(!is_affected(&mut faults, "repos/o/r/pulls"));
        let affected: Vec<bool> = (0..4)
            .map(|_| is_affected(&mut faults, "repos/o/r/pulls/7/reviews?page=1"))
            .collect();
        assert_eq!(affected, [false, true, true, false]);
    }

    #[test]
    fn a_typo_in_a_fault_is_refused() {
        for text in [
            r#"{ "path": "x", "then": "htlm502" }"#,
            r#"{ "path": "x", "time": 2, "then": "empty" }"#,
            r#"{ "path": "x", "then": { "slow": { "s": 2 } } }"#,
        ] {
            assert!(serde_json::from_str::<Fault>(text).is_err(), "{text}");
        }
    }
}
