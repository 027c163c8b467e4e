//! The stand-in for the `gh` command.
//!
//! It accepts only the arguments that remand uses, and its output is byte for byte that of gh 2.102.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Signal, getpid, kill_process};

use crate::fault::Delivery;
use crate::gh_args::ApiArgs;
use crate::request::{API, Request};
use crate::response::Response;
use crate::store::Store;
use crate::{FakeGithubError, PROGRAM};

/// Output of gh when nobody is logged in.
const LOGIN_HINT: &str = "To get started with GitHub CLI, please run:  gh auth login\n\
                     Alternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token.\n";
/// Exit code of gh when nobody is logged in.
const LOGIN_REQUIRED: u8 = 4;
/// Number of bytes that gh reads ahead for control characters, and does not print when a transfer is cut.
const LOOKAHEAD: usize = 5;
const MAX_REDIRECTS: usize = 10;

/// Output and exit code of gh.
#[derive(Debug, Default, PartialEq, Eq)]
struct Output {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: u8,
}

/// Runs a command of gh, as the user who is logged in or as `login`.
pub(crate) fn run(
    store: &Store,
    login: Option<&str>,
    words: &[&str],
) -> Result<ExitCode, FakeGithubError> {
    let output = match words {
        ["--version"] => success(
            "gh version 2.102.0 (2026-09-30)\nhttps://github.com/cli/cli/releases/tag/v2.102.0\n",
        ),
        // There are no credentials, so git continues without them.
        ["auth", "git-credential", "get" | "store" | "erase"] => Output::default(),
        ["api", rest @ ..] => match ApiArgs::parse(rest) {
            Ok(args) => api(store, login, &args)?,
            Err(what) => record_unsupported(store, &what)?,
        },
        _ => record_unsupported(store, &format!("`gh {}`", words.join(" ")))?,
    };
    io::stdout()
        .write_all(&output.stdout)
        .and_then(|()| io::stderr().write_all(&output.stderr))
        .map_err(FakeGithubError::system("print"))?;
    Ok(ExitCode::from(output.code))
}

fn api(store: &Store, login: Option<&str>, args: &ApiArgs) -> Result<Output, FakeGithubError> {
    let mut request = args.request()?;
    for _ in 0..MAX_REDIRECTS {
        let delivery = match login {
            Some(login) => store.handle_as(login, &request)?,
            None => store.handle(&request)?,
        };
        match follow_redirect(&request, &delivery) {
            Some(next) => request = next,
            None => return output(args, &request, delivery),
        }
    }
    Ok(failure(&format!(
        "{}: stopped after {MAX_REDIRECTS} redirects",
        go_request(&request)
    )))
}

/// Returns the request that a redirect leads to.
///
/// The older kinds of redirects turn a write into a read. gh does not follow the newer kinds with a write, because it
/// cannot read stdin twice.
fn follow_redirect(request: &Request, delivery: &Delivery) -> Option<Request> {
    let Delivery::Whole(response) = delivery else {
        return None;
    };
    let target = response.header("Location")?.to_owned();
    let is_read = ["GET", "HEAD"].contains(&request.method.as_str());
    match response.status {
        301..=303 if !is_read => Some(Request {
            method: "GET".into(),
            target,
            body: Vec::new(),
            ..request.clone()
        }),
        301..=303 | 307 | 308 if is_read => Some(Request {
            target,
            ..request.clone()
        }),
        _ => None,
    }
}

fn output(
    args: &ApiArgs,
    request: &Request,
    delivery: Delivery,
) -> Result<Output, FakeGithubError> {
    Ok(match delivery {
        Delivery::Whole(response) => print(args, &response),
        Delivery::Late(response, delay) => {
            wait(delay);
            print(args, &response)
        }
        Delivery::Cut(response) => print_cut(args, &response),
        Delivery::Dropped => failure(&format!("{}: EOF", go_request(request))),
        Delivery::Refused => failure(&format!(
            "{}: dial tcp 140.82.121.6:443: connect: connection refused",
            go_request(request)
        )),
        Delivery::Never => wait_forever(),
        Delivery::NoToken => Output {
            stderr: LOGIN_HINT.into(),
            code: LOGIN_REQUIRED,
            ..Output::default()
        },
        Delivery::Exit {
            code,
            stdout,
            stderr,
        } => Output {
            stdout: stdout.into(),
            stderr: stderr.into(),
            code,
        },
        Delivery::Killed => {
            kill_process(getpid(), Signal::KILL)
                .map_err(|error| FakeGithubError::system("end")(error.into()))?;
            wait_forever()
        }
        Delivery::Unsupported(what) => unsupported(&what),
    })
}

/// Formats a failed request as Go does: `Get "https://api.github.com/user"`.
fn go_request(request: &Request) -> String {
    let mut letters = request.method.chars();
    let method: String = letters
        .next()
        .into_iter()
        .chain(letters.map(|c| c.to_ascii_lowercase()))
        .collect();
    format!("{method} \"{API}/{}\"", request.path_and_query())
}

fn print(args: &ApiArgs, response: &Response) -> Output {
    let mut stdout = headers(args, response);
    let body = escape_control(response, &response.body);
    let is_bad = response.status >= 400 && is_json(response);
    let message = match is_bad.then(|| error_message(response.status, &body)) {
        Some(Err(reason)) => {
            return Output {
                stdout,
                stderr: format!("{reason}\n").into(),
                code: 1,
            };
        }
        Some(Ok(message)) => message,
        None => None,
    };
    if !is_json(response) && !args.allows_escapes && body.contains(&ESCAPE) {
        return Output {
            stdout,
            stderr: ESCAPES_REFUSED.into(),
            code: 1,
        };
    }
    if !args.is_silent {
        stdout.extend_from_slice(&body);
    }
    if response.status <= 299 {
        return Output {
            stdout,
            ..Output::default()
        };
    }
    let message = message.unwrap_or_else(|| format!("HTTP {}", response.status));
    let hint = scope_hint(response).unwrap_or_default();
    Output {
        stdout,
        stderr: format!("gh: {message}\n{hint}").into(),
        code: 1,
    }
}

/// Start of an escape sequence, which newer versions of gh do not print.
const ESCAPE: u8 = 0x1b;
const ESCAPES_REFUSED: &str = "the response contains terminal escape sequences; pass --allow-escape-sequences to output it anyway\n";

/// Returns the hint that gh prints when the token may lack a scope.
fn scope_hint(response: &Response) -> Option<String> {
    let granted: Vec<&str> = response
        .header("X-OAuth-Scopes")?
        .split(',')
        .map(str::trim)
        .collect();
    let mut needed = response
        .header("X-Accepted-OAuth-Scopes")?
        .split(',')
        .map(str::trim);
    let missing = needed.find(|scope| !scope.is_empty() && !granted.contains(scope))?;
    let is_shown =
        (400..500).contains(&response.status) && response.status != 422 && granted != [""];
    let text = format!("This API operation needs the \"{missing}\" scope. To request it, run:");
    is_shown.then(|| format!("gh: {text}  gh auth refresh -h github.com -s {missing}\n"))
}

/// Returns the output for a transfer that ended in the middle of the body.
fn print_cut(args: &ApiArgs, response: &Response) -> Output {
    let mut stdout = headers(args, response);
    if response.status <= 299 && !args.is_silent {
        let received = response.body.len() / 2;
        let length = if is_json(response) {
            received.saturating_sub(LOOKAHEAD)
        } else {
            received
        };
        stdout.extend_from_slice(&escape_control(
            response,
            response.body.get(..length).unwrap_or_default(),
        ));
    }
    Output {
        stdout,
        ..failure("unexpected EOF")
    }
}

fn headers(args: &ApiArgs, response: &Response) -> Vec<u8> {
    if !args.include_headers {
        return Vec::new();
    }
    let mut lines: Vec<String> = response
        .headers
        .iter()
        .map(|(name, value)| format!("{}: {value}\r\n", canonical(name)))
        .collect();
    lines.sort();
    format!(
        "HTTP/2.0 {} {}\n{}\r\n",
        response.status,
        response.status_text(),
        lines.concat()
    )
    .into_bytes()
}

/// Formats the name of a header as Go does: `X-RateLimit-Used` becomes `X-Ratelimit-Used`.
fn canonical(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        let first = letters.next().map(|c| c.to_ascii_uppercase());
        first
            .into_iter()
            .chain(letters.map(|c| c.to_ascii_lowercase()))
            .collect::<String>()
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

fn is_json(response: &Response) -> bool {
    let content_type = response.header("Content-Type").unwrap_or_default();
    content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.ends_with("/json") || kind.ends_with("+json"))
}

/// Returns the message that gh prints for an error response, or the error of its JSON parser.
///
/// `None` means that the response has no message.
fn error_message(status: u16, body: &[u8]) -> Result<Option<String>, String> {
    let value: serde_json::Value = serde_json::from_slice(body).map_err(|error| {
        let first = body
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
            .map(|byte| char::from(*byte));
        match first {
            Some(first) if !error.is_eof() => {
                format!("invalid character '{first}' looking for beginning of value")
            }
            _ => "unexpected end of JSON input".to_owned(),
        }
    })?;
    let text = |key: &str| {
        value
            .get(key)
            .and_then(|text| text.as_str())
            .filter(|text| !text.is_empty())
    };
    Ok(match (text("errors"), text("message")) {
        (Some(errors), Some(message)) => Some(format!("{errors} ({message})")),
        (Some(errors), None) => Some(errors.to_owned()),
        (None, Some(message)) => Some(format!("{message} (HTTP {status})")),
        (None, None) => None,
    })
}

/// Replaces control characters in JSON by caret notation, as gh does to protect terminals.
fn escape_control(response: &Response, body: &[u8]) -> Vec<u8> {
    if !is_json(response) {
        return body.to_vec();
    }
    let mut text = String::from_utf8_lossy(body).into_owned();
    for code in (0x00..0x20_u8).chain(0x80..0xa0) {
        // gh keeps white space.
        if matches!(code, b'\t' | b'\n' | 0x0b | b'\r') {
            continue;
        }
        let letter = char::from((code & 0x1f) + 0x40);
        // A backslash has to be escaped in JSON.
        let caret = if letter == '\\' {
            "^\\\\".to_owned()
        } else {
            format!("^{letter}")
        };
        text = text
            .replace(&format!("\\u{code:04x}"), &caret)
            .replace(char::from(code), &caret);
    }
    text.into_bytes()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a slow response is a delay, not a wait for a condition"
)]
fn wait(delay: Duration) {
    std::thread::sleep(delay);
}

fn wait_forever() -> ! {
    loop {
        std::thread::park();
    }
}

fn success(text: &str) -> Output {
    Output {
        stdout: text.into(),
        ..Output::default()
    }
}

fn failure(text: &str) -> Output {
    Output {
        stderr: format!("{text}\n").into(),
        code: 1,
        ..Output::default()
    }
}

fn record_unsupported(store: &Store, what: &str) -> Result<Output, FakeGithubError> {
    store.record_misuse(what)?;
    Ok(unsupported(what))
}

fn unsupported(what: &str) -> Output {
    failure(&format!(
        "{PROGRAM}: the fake GitHub does not support {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let response = Response::json(200, &serde_json::json!("\u{1b}[31m\u{7}\t\u{9b}é"));
        assert_eq!(
            String::from_utf8(escape_control(&response, &response.body)).unwrap(),
            r#""^[[31m^G\t^[é""#
        );
    }

    #[test]
    fn error_messages_of_gh() {
        for (body, expected) in [
            (
                r#"{"message":"Not Found"}"#,
                Ok(Some("Not Found (HTTP 404)")),
            ),
            (
                r#"{"message":"Invalid","errors":["a"]}"#,
                Ok(Some("Invalid (HTTP 404)")),
            ),
            (
                r#"{"message":"Invalid","errors":"a"}"#,
                Ok(Some("a (Invalid)")),
            ),
            ("{}", Ok(None)),
            ("", Err("unexpected end of JSON input")),
            (r#"{"mess"#, Err("unexpected end of JSON input")),
            (
                "<html>",
                Err("invalid character '<' looking for beginning of value"),
            ),
        ] {
            let expected = expected
                .map(|text| text.map(str::to_owned))
                .map_err(str::to_owned);
            assert_eq!(error_message(404, body.as_bytes()), expected, "{body}");
        }
    }
}
