//! Classifies the result of a `gh` call: a response, or a kind of error. Pure.

use serde::Deserialize;
use serde_json::Value;

use super::call::CAP;
use super::response::{Head, Reply, split};
use super::{GithubError, Result};
use crate::process::ShortOutput;
use crate::sanitize;

/// Exit status of gh for "login required".
const NEEDS_LOGIN: i32 = 4;
/// Exit status of gh for "cancelled".
const CANCELLED: i32 = 2;

/// Properties of a request that are needed to classify its result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) path: &'a str,
    /// Set if "not modified" is a valid response.
    pub(super) is_conditional: bool,
}

/// Classifies the result of a call. The HTTP status decides if there is one, whatever the exit
/// status of gh; but a successful response also requires that gh succeeded.
pub(super) fn classify(request: Request<'_>, output: &ShortOutput) -> Result<Reply> {
    let transient = |what: String| GithubError::Transient {
        path: request.path.to_owned(),
        what,
    };
    let broken = |what: String| GithubError::broken(request.path, what);
    let Some(exit) = output.status else {
        return Err(transient("gh was killed by a signal".to_owned()));
    };
    let Some((head, body)) = split(&output.stdout) else {
        return Err(without_head(request.path, exit, output));
    };
    match head.status {
        200..=299 if output.truncated && output.stdout.len() >= CAP => {
            Err(broken(format!("larger than {CAP} bytes")))
        }
        200..=299 if exit != 0 => Err(transient(format!(
            "the response was cut off: {}",
            excerpt(&output.stderr)
        ))),
        200..=299 => Ok(Reply::New {
            body: body.to_vec(),
            head,
        }),
        304 if request.is_conditional => Ok(Reply::Unchanged { head }),
        304 => Err(broken("unexpected response: 304 Not Modified".to_owned())),
        _ => Err(failure(request.path, &head, body)),
    }
}

/// Classifies a result without an HTTP head. gh has one exit status (1) for most errors; failures
/// of Go's HTTP client are recognized by their verb and address.
fn without_head(path: &str, exit: i32, output: &ShortOutput) -> GithubError {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let what = excerpt(&output.stderr);
    let is_network = stderr.lines().any(|line| {
        [
            "Get \"",
            "Post \"",
            "Put \"",
            "error connecting to",
            "unexpected EOF",
            "unexpected end of JSON input",
        ]
        .iter()
        .any(|start| line.starts_with(start))
    });
    match exit {
        0 => GithubError::broken(
            path,
            format!("no HTTP headers in `{}`", excerpt(&output.stdout)),
        ),
        NEEDS_LOGIN => GithubError::LoggedOut,
        CANCELLED => GithubError::Transient {
            path: path.to_owned(),
            what: format!("gh was cancelled: {what}"),
        },
        _ if is_network => GithubError::Transient {
            path: path.to_owned(),
            what,
        },
        _ => GithubError::broken(path, format!("gh exited with {exit}: {what}")),
    }
}

fn failure(path: &str, head: &Head, body: &[u8]) -> GithubError {
    let message = Complaint::read(body).unwrap_or_else(|| excerpt(body));
    match head.status {
        403 | 429 if is_limit(head, &message) => GithubError::Limited {
            until: head.retry_at(),
        },
        401 => GithubError::Auth { message, url: None },
        403 if is_about_rights(head, &message) => GithubError::Auth {
            message,
            url: sign_on(head),
        },
        404 => GithubError::NotFound {
            path: path.to_owned(),
        },
        status @ (408 | 500..=599) => GithubError::Transient {
            path: path.to_owned(),
            what: format!("HTTP {status}: {message}"),
        },
        // gh follows the redirects that it may follow: a write is not sent to another address.
        status @ 300..=399 => GithubError::Refused {
            status,
            message: format!("the repository was renamed ({message})"),
        },
        status => GithubError::Refused { status, message },
    }
}

fn is_limit(head: &Head, message: &str) -> bool {
    let message = message.to_lowercase();
    head.status == 429
        || head.is_used_up()
        || head.get("retry-after").is_some()
        || message.contains("rate limit")
        || message.contains("abuse detection")
}

/// True for a 403 that concerns the account or its token. Others concern the object: archived,
/// locked, blocked.
fn is_about_rights(head: &Head, message: &str) -> bool {
    let message = message.to_lowercase();
    let words = [
        "bad credentials",
        "not accessible by",
        "saml",
        "must have",
        "ip allow list",
        "two-factor",
        "scope",
    ];
    head.get("x-github-sso").is_some()
        || lacks_scope(head)
        || words.iter().any(|word| message.contains(word))
}

/// True if a required scope is missing. Only classic tokens have scopes.
fn lacks_scope(head: &Head) -> bool {
    let scopes = |name| {
        head.get(name).map(|text| {
            text.split(',')
                .map(str::trim)
                .filter(|word| !word.is_empty())
        })
    };
    let (Some(mut accepted), Some(has)) =
        (scopes("x-accepted-oauth-scopes"), scopes("x-oauth-scopes"))
    else {
        return false;
    };
    let has: Vec<&str> = has.collect();
    let mut accepted = accepted.by_ref().peekable();
    accepted.peek().is_some() && !accepted.any(|scope| has.contains(&scope))
}

/// Returns the URL from a header like `required;
/// url=https://github.com/orgs/acme/sso?authorization_request=…`.
fn sign_on(head: &Head) -> Option<String> {
    let (_, url) = head.get("x-github-sso")?.split_once("url=")?;
    url.starts_with("https://").then(|| sanitize::line(url))
}

/// Body of an error response.
#[derive(Deserialize)]
struct Complaint {
    message: String,
    #[serde(default)]
    errors: Value,
}

impl Complaint {
    /// Formats an error body: `Validation Failed: Line could not be resolved`.
    fn read(body: &[u8]) -> Option<String> {
        let Self { message, errors } = serde_json::from_slice(body).ok()?;
        let details = match &errors {
            Value::Array(errors) => errors.iter().filter_map(detail).collect(),
            Value::String(text) => vec![text.clone()],
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        };
        let details = if details.is_empty() {
            String::new()
        } else {
            format!(": {}", details.join("; "))
        };
        Some(printable(&format!("{message}{details}")))
    }
}

fn detail(error: &Value) -> Option<String> {
    let field = |name| error.get(name).and_then(Value::as_str);
    if let Some(text) = error.as_str().or_else(|| field("message")) {
        return Some(text.to_owned());
    }
    Some(format!("{} is {}", field("field")?, field("code")?))
}

/// Returns the start of the output of a program or a proxy, on one line.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let start = bytes.get(..4_000).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start);
    let lines: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() {
        "no output".to_owned()
    } else {
        printable(&lines.join("; "))
    }
}

fn printable(text: &str) -> String {
    let cut: String = text.chars().take(300).collect();
    sanitize::line(&cut)
}
