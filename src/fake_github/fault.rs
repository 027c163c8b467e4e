//! Planned trouble: which request meets it, and what is left of its answer.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ForgeError;
use super::answer::{FakeAnswer, refusal};
use super::git::Git;
use super::page::ListPage;
use super::request::Request;
use super::route::{self, Outcome};
use super::state::{Forge, Logged};
use crate::clock;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// Null: any.
    #[serde(default)]
    method: Option<String>,
    /// A part of path and query; `*` stands for anything.
    path: String,
    /// How many fitting requests are let through first.
    #[serde(default)]
    skip: u32,
    /// How many it then meets.
    #[serde(default = "once")]
    times: u32,
    then: Then,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Then {
    /// This answer, and nothing is done.
    Status {
        status: u16,
        #[serde(default)]
        headers: BTreeMap<String, String>,
        #[serde(default)]
        body: String,
    },
    /// The page that GitHub's front shows when nothing is behind it. Nothing is done.
    Html502,
    /// The request is done, but of its answer there is: no body,
    Empty,
    /// half a body, as if it were whole,
    Half,
    /// something that is no JSON.
    NotJson,
    /// Done, and the connection breaks in the middle of the answer.
    CutAfterWrite,
    /// Done, and the connection breaks before the answer.
    DroppedAfterWrite,
    /// Never an answer; nothing is done.
    Hang,
    /// Done, and never an answer.
    HangAfterWrite,
    /// No connection.
    Refused,
    /// Nobody is logged in, all of a sudden.
    NoToken,
    RateLimited {
        reset_in_s: i64,
    },
    SecondaryLimit {
        retry_after_s: u32,
    },
    /// Done, and answered late.
    Slow {
        ms: u64,
    },
    /// A page after the first is answered with what was on the page before it.
    DuplicatePage,
    /// `gh` ends like this, whatever the reason; nothing is done.
    Exit {
        code: u8,
        #[serde(default)]
        stdout: String,
        #[serde(default)]
        stderr: String,
    },
    /// `gh` is killed; nothing is done.
    Killed,
}

/// What reaches whoever asked.
pub(super) enum Sent {
    Whole(FakeAnswer),
    Late(FakeAnswer, Duration),
    /// The first half of its body, then the connection breaks.
    Cut(FakeAnswer),
    /// The connection breaks before a byte of the answer.
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
    /// GitHub would know; the stand-in does not.
    Unknown(String),
}

fn once() -> u32 {
    1
}

pub(super) async fn answer(
    forge: &mut Forge,
    git: &Git,
    request: &Request,
) -> Result<Sent, ForgeError> {
    if forge.me.is_none() {
        return Ok(Sent::NoToken);
    }
    let then = meet(&mut forge.faults, request);
    if let Some(sent) = then.as_ref().and_then(instead) {
        log(forge, request, None, true);
        return Ok(sent);
    }
    let answer = match route::answer(forge, git, request).await? {
        Outcome::Answer(answer) => answer,
        Outcome::Unknown(what) => {
            forge.misuse.push(what.clone());
            return Ok(Sent::Unknown(what));
        }
    };
    log(forge, request, Some(answer.status), then.is_some());
    Ok(match then {
        Some(Then::DuplicatePage) => Sent::Whole(page_before(forge, git, request, answer).await?),
        Some(then) => after(&then, answer),
        None => Sent::Whole(answer),
    })
}

/// The first fault that fits and is due.
fn meet(faults: &mut [Fault], request: &Request) -> Option<Then> {
    for fault in faults
        .iter_mut()
        .filter(|fault| fault.fits(request) && fault.times > 0)
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
    fn fits(&self, request: &Request) -> bool {
        let is_later_page = || ListPage::of(request).number > 1;
        self.method
            .as_ref()
            .is_none_or(|method| *method == request.method)
            && contains(request.path_and_query(), &self.path)
            && (!matches!(self.then, Then::DuplicatePage) || is_later_page())
    }
}

/// Whether the pieces between the stars of a pattern are in a text, one after the other.
fn contains(text: &str, pattern: &str) -> bool {
    let mut rest = Some(text);
    for piece in pattern.split('*') {
        rest = rest
            .and_then(|rest| rest.split_once(piece))
            .map(|(_, after)| after);
    }
    rest.is_some()
}

/// What comes in the place of an answer, for trouble that keeps the request from being done.
fn instead(then: &Then) -> Option<Sent> {
    Some(match then {
        Then::Status {
            status,
            headers,
            body,
        } => {
            let answer = FakeAnswer::new(
                *status,
                "application/json; charset=utf-8",
                body.clone().into_bytes(),
            );
            Sent::Whole(
                headers
                    .iter()
                    .fold(answer, |answer, (name, value)| answer.with(name, value)),
            )
        }
        Then::Html502 => Sent::Whole(FakeAnswer::new(
            502,
            "text/html",
            include_str!("502.html").into(),
        )),
        Then::Hang => Sent::Never,
        Then::Refused => Sent::Refused,
        Then::NoToken => Sent::NoToken,
        Then::RateLimited { reset_in_s } => {
            let reset = clock::now().millis() / 1000 + reset_in_s;
            Sent::Whole(
                route::exceeded(1)
                    .with("X-RateLimit-Limit", "5000")
                    .with("X-RateLimit-Remaining", "0")
                    .with("X-RateLimit-Reset", reset.to_string())
                    .with("X-RateLimit-Used", "5000")
                    .with("X-RateLimit-Resource", "core"),
            )
        }
        Then::SecondaryLimit { retry_after_s } => {
            let message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
            Sent::Whole(
                refusal(403, message)
                    .answer()
                    .with("Retry-After", retry_after_s.to_string()),
            )
        }
        Then::Exit {
            code,
            stdout,
            stderr,
        } => Sent::Exit {
            code: *code,
            stdout: stdout.clone(),
            stderr: stderr.clone(),
        },
        Then::Killed => Sent::Killed,
        Then::Empty
        | Then::Half
        | Then::NotJson
        | Then::CutAfterWrite
        | Then::DroppedAfterWrite
        | Then::HangAfterWrite
        | Then::Slow { .. }
        | Then::DuplicatePage => return None,
    })
}

/// What is left of the answer to a request that was done.
fn after(then: &Then, mut answer: FakeAnswer) -> Sent {
    match then {
        Then::Empty => answer.body.clear(),
        Then::Half => answer.body.truncate(answer.body.len() / 2),
        Then::NotJson => answer.body = b"We'll be right back.".to_vec(),
        Then::CutAfterWrite => return Sent::Cut(answer),
        Then::DroppedAfterWrite => return Sent::Dropped,
        Then::HangAfterWrite => return Sent::Never,
        Then::Slow { ms } => return Sent::Late(answer, Duration::from_millis(*ms)),
        Then::Status { .. }
        | Then::Html502
        | Then::Hang
        | Then::Refused
        | Then::NoToken
        | Then::RateLimited { .. }
        | Then::SecondaryLimit { .. }
        | Then::DuplicatePage
        | Then::Exit { .. }
        | Then::Killed => {}
    }
    Sent::Whole(answer)
}

async fn page_before(
    forge: &mut Forge,
    git: &Git,
    request: &Request,
    page: FakeAnswer,
) -> Result<FakeAnswer, ForgeError> {
    let mut before = request.clone();
    before.headers.clear();
    before.target = format!(
        "{}&page={}",
        request.target,
        ListPage::of(request).number - 1
    );
    Ok(match route::answer(forge, git, &before).await? {
        Outcome::Answer(before) => FakeAnswer {
            body: before.body,
            ..page
        },
        Outcome::Unknown(_) => page,
    })
}

fn log(forge: &mut Forge, request: &Request, status: Option<u16>, faulty: bool) {
    forge.log.push(Logged {
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
    fn a_fault_meets_the_requests_that_it_is_for() {
        let mut faults = faults(serde_json::json!([
            { "method": "POST", "path": "pulls", "then": "html502" },
            { "path": "repos/*/reviews", "skip": 1, "times": 2, "then": "empty" },
        ]));
        let met = |faults: &mut [Fault], target: &str| meet(faults, &get(target)).is_some();
        assert!(!met(&mut faults, "repos/o/r/pulls"));
        let asked: Vec<bool> = (0..4)
            .map(|_| met(&mut faults, "repos/o/r/pulls/7/reviews?page=1"))
            .collect();
        assert_eq!(asked, [false, true, true, false]);
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
