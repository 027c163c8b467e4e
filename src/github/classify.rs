//! Classifies the result of a `gh` call: a response, or a kind of error. Pure.

use serde::Deserialize;
use serde_json::Value;

use super::call::CAP;
use super::error::RefusalDetail;
use super::response::{Head, Reply, split};
use super::{GithubError, Result};
use crate::process::ShortOutput;
use crate::sanitize;
use crate::text::{joined, list, prefixed};

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
    /// Set for a request that changes something.
    pub(super) is_write: bool,
}

/// Classifies the result of a call. The HTTP status decides if there is one, whatever the exit
/// status of gh; but a successful response also requires that gh succeeded.
pub(super) fn classify(request: Request<'_>, output: &ShortOutput) -> Result<Reply> {
    let path = request.path;
    let Some(exit) = output.status else {
        return Err(GithubError::transient(path, "gh was killed by a signal"));
    };
    let Some((head, body)) = split(&output.stdout) else {
        return Err(without_head(path, exit, output));
    };
    match head.status {
        200..=299 if output.truncated && output.stdout.len() >= CAP => {
            let what = format!("larger than {CAP} bytes");
            Err(GithubError::broken(path, what))
        }
        200..=299 if exit != 0 => {
            let what = format!("the response was cut off: {}", excerpt(&output.stderr));
            Err(GithubError::transient(path, what))
        }
        200..=299 => Ok(Reply::New {
            body: body.to_vec(),
            head,
        }),
        304 if request.is_conditional => Ok(Reply::Unchanged { head }),
        304 => {
            let what = "unexpected response: 304 Not Modified";
            Err(GithubError::broken(path, what))
        }
        _ => Err(failure(request, &head, body)),
    }
}

/// Classifies a result without an HTTP head. gh has one exit status (1) for most errors; failures
/// of Go's HTTP client are recognized by their verb and address.
fn without_head(path: &str, exit: i32, output: &ShortOutput) -> GithubError {
    const NETWORK: [&str; 7] = [
        "Get \"",
        "Post \"",
        "Put \"",
        "Patch \"",
        "error connecting to",
        "unexpected EOF",
        "unexpected end of JSON input",
    ];
    let stderr = String::from_utf8_lossy(&output.stderr);
    let is_network = |line: &str| NETWORK.iter().any(|start| line.starts_with(start));
    let (said, what) = (excerpt(&output.stdout), excerpt(&output.stderr));
    match exit {
        0 => GithubError::broken(path, format!("no HTTP headers in `{said}`")),
        NEEDS_LOGIN => GithubError::LoggedOut,
        CANCELLED => GithubError::transient(path, format!("gh was cancelled: {what}")),
        _ if stderr.lines().any(is_network) => GithubError::transient(path, what),
        _ => GithubError::broken(path, format!("gh exited with {exit}: {what}")),
    }
}

fn failure(request: Request<'_>, head: &Head, body: &[u8]) -> GithubError {
    let path = request.path;
    let complaint = Complaint::read(body);
    let message = complaint.as_ref().map(Complaint::message);
    let message = message.unwrap_or_else(|| excerpt(body));
    match head.status {
        403 | 429 if is_limit(head, &message) => GithubError::Limited {
            until: head.retry_at(),
        },
        401 => GithubError::Auth { message, url: None },
        403 if is_about_rights(head, &message) => GithubError::Auth {
            message: format!("{message}{}", needed_rights(head)),
            url: sign_on(head),
        },
        // What a token may not change does not exist for it.
        404 if request.is_write && may_write_nothing(head) => GithubError::Auth {
            message: format!("{message}{}", needed_rights(head)),
            url: None,
        },
        404 => GithubError::NotFound {
            path: path.to_owned(),
        },
        status @ (408 | 500..=599) => {
            GithubError::transient(path, format!("HTTP {status}: {message}"))
        }
        // gh follows the redirects that it may follow: a write is not sent to another address.
        status @ 300..=399 => GithubError::Refused {
            status,
            message: format!("the repository was renamed ({message})"),
            details: Vec::new(),
        },
        status => GithubError::Refused {
            status,
            message,
            details: complaint.map_or_else(Vec::new, |complaint| complaint.details()),
        },
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
    let (Some(accepted), Some(has)) = (head.list("x-accepted-oauth-scopes"), head.scopes()) else {
        return false;
    };
    !accepted.is_empty() && !accepted.iter().any(|scope| has.contains(scope))
}

/// True if a token can write to no repository at all. With `public_repo` it can write to some,
/// although GitHub may name only `repo`.
fn may_write_nothing(head: &Head) -> bool {
    let is_public = |scope: &String| scope == "public_repo";
    lacks_scope(head) && !head.scopes().unwrap_or_default().iter().any(is_public)
}

/// Formats what a token needs, as far as the headers name it: scopes of a classic token, or
/// permissions of another one.
fn needed_rights(head: &Head) -> String {
    let permissions = head.get("x-accepted-github-permissions");
    if let (true, Some(accepted), Some(has)) = (
        lacks_scope(head),
        head.list("x-accepted-oauth-scopes"),
        head.scopes(),
    ) {
        let has = if has.is_empty() {
            "none".to_owned()
        } else {
            list(has)
        };
        let scopes = joined(accepted, " or ");
        printable(&format!(
            " (the token needs the scope {scopes}; its scopes: {has})"
        ))
    } else if let Some(permissions) = permissions.filter(|text| !text.is_empty()) {
        printable(&format!(" (the token needs {permissions})"))
    } else {
        String::new()
    }
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
    fn read(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// Returns the errors, without their texts.
    fn details(&self) -> Vec<RefusalDetail> {
        let text = |error: &Value, name| error.get(name).and_then(Value::as_str).map(str::to_owned);
        let detail = |error: &Value| RefusalDetail {
            field: text(error, "field"),
            code: text(error, "code").unwrap_or_default(),
        };
        match &self.errors {
            Value::Array(errors) => errors.iter().map(detail).collect(),
            Value::Null => Vec::new(),
            error @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                vec![detail(error)]
            }
        }
    }

    /// Formats the errors: `Validation Failed: Line could not be resolved`.
    fn message(&self) -> String {
        let Self { message, errors } = self;
        let details: Vec<String> = match errors {
            Value::Array(errors) => errors.iter().filter_map(detail).collect(),
            Value::String(text) => vec![text.clone()],
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => Vec::new(),
        };
        let details = (!details.is_empty()).then(|| details.join("; "));
        printable(&format!("{message}{}", prefixed(": ", details)))
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
    let lines = text.lines().map(str::trim);
    match joined(lines.filter(|line| !line.is_empty()), "; ").as_str() {
        "" => "no output".to_owned(),
        lines => printable(lines),
    }
}

fn printable(text: &str) -> String {
    let cut: String = text.chars().take(300).collect();
    sanitize::line(&cut)
}
