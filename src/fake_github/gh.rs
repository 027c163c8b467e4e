//! The front that stands in for the `gh` command: the arguments that remand uses and no others, and to the byte what
//! gh 2.102 prints.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use rustix::process::{Signal, getpid, kill_process};

use super::ForgeError;
use super::answer::FakeAnswer;
use super::fault::Sent;
use super::request::{API, Request};
use super::store::Store;

/// How gh says that nobody is logged in.
const LOGIN: &str = "To get started with GitHub CLI, please run:  gh auth login\n\
                     Alternatively, populate the GH_TOKEN environment variable with a GitHub API authentication token.\n";
const NEEDS_LOGIN: u8 = 4;
/// gh looks this many bytes ahead for control characters; when a transfer is cut they are not printed.
const LOOKAHEAD: usize = 5;
const MOST_REDIRECTS: usize = 10;

/// What a call asks for.
#[derive(Debug, Default)]
struct Call {
    target: String,
    method: Option<String>,
    headers: Vec<(String, String)>,
    is_with_headers: bool,
    is_silent: bool,
    reads_stdin: bool,
}

/// What the command leaves behind.
#[derive(Debug, Default, PartialEq, Eq)]
struct Printed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: u8,
}

pub(super) async fn call(store: &Store, words: &[&str]) -> Result<ExitCode, ForgeError> {
    let printed = match words {
        ["--version"] => said(
            "gh version 2.102.0 (2026-09-30)\nhttps://github.com/cli/cli/releases/tag/v2.102.0\n",
        ),
        // Nobody's password is here; git then goes on without one.
        ["auth", "git-credential", "get" | "store" | "erase"] => Printed::default(),
        ["api", rest @ ..] => match Call::read(rest) {
            Ok(call) => api(store, &call).await?,
            Err(what) => misused(store, &what)?,
        },
        _ => misused(store, &format!("`gh {}`", words.join(" ")))?,
    };
    let written = io::stdout()
        .write_all(&printed.stdout)
        .and_then(|()| io::stderr().write_all(&printed.stderr));
    written.map_err(ForgeError::system("print"))?;
    Ok(ExitCode::from(printed.code))
}

impl Call {
    /// Or what is not known here.
    fn read(args: &[&str]) -> Result<Self, String> {
        let mut call = Self::default();
        let mut args = args.iter().copied();
        while let Some(arg) = args.next() {
            let (flag, glued) = match arg.split_once('=') {
                Some((flag, value)) if flag.starts_with("--") => (flag, Some(value)),
                _ => (arg, None),
            };
            let mut value = || {
                glued
                    .or_else(|| args.next())
                    .ok_or_else(|| format!("`{flag}` without a value"))
            };
            match flag {
                "-i" | "--include" => call.is_with_headers = true,
                "--silent" => call.is_silent = true,
                "-X" | "--method" => call.method = Some(value()?.to_uppercase()),
                "-H" | "--header" => {
                    let header = value()?;
                    let (name, value) = header
                        .split_once(':')
                        .ok_or_else(|| format!("the header `{header}`"))?;
                    call.headers
                        .push((name.trim().to_owned(), value.trim().to_owned()));
                }
                "--input" if value()? == "-" => call.reads_stdin = true,
                "--hostname" if value()? == "github.com" => {}
                _ if arg.starts_with('-') || !call.target.is_empty() => {
                    return Err(format!("`{arg}`"));
                }
                _ => call.target = arg.to_owned(),
            }
        }
        if call.target.is_empty() {
            Err("`gh api` without an endpoint".into())
        } else {
            Ok(call)
        }
    }

    fn request(&self) -> Result<Request, ForgeError> {
        let mut body = Vec::new();
        if self.reads_stdin {
            io::stdin()
                .read_to_end(&mut body)
                .map_err(ForgeError::system("read stdin"))?;
        }
        let usual = if self.reads_stdin { "POST" } else { "GET" };
        let method = self.method.clone().unwrap_or_else(|| usual.into());
        Ok(Request {
            method,
            target: self.target.clone(),
            headers: self.headers.clone(),
            body,
        })
    }
}

async fn api(store: &Store, call: &Call) -> Result<Printed, ForgeError> {
    let mut request = call.request()?;
    for _ in 0..MOST_REDIRECTS {
        let sent = store.answer(&request).await?;
        match led_on(&request, &sent) {
            Some(next) => request = next,
            None => return deliver(call, &request, sent).await,
        }
    }
    Ok(failed(&format!(
        "{}: stopped after {MOST_REDIRECTS} redirects",
        transfer(&request)
    )))
}

/// The request that a redirect leads to. A write becomes a read by the older kinds, and by the newer ones stays where it
/// is: what came by stdin can't be sent twice.
fn led_on(request: &Request, sent: &Sent) -> Option<Request> {
    let Sent::Whole(answer) = sent else {
        return None;
    };
    let target = answer.header("Location")?.to_owned();
    let is_read = ["GET", "HEAD"].contains(&request.method.as_str());
    match answer.status {
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

async fn deliver(call: &Call, request: &Request, sent: Sent) -> Result<Printed, ForgeError> {
    Ok(match sent {
        Sent::Whole(answer) => print(call, &answer),
        Sent::Late(answer, after) => {
            tokio::time::sleep(after).await;
            print(call, &answer)
        }
        Sent::Cut(answer) => print_cut(call, &answer),
        Sent::Dropped => failed(&format!("{}: EOF", transfer(request))),
        Sent::Refused => failed(&format!(
            "{}: dial tcp 140.82.121.6:443: connect: connection refused",
            transfer(request)
        )),
        Sent::Never => std::future::pending().await,
        Sent::NoToken => Printed {
            stderr: LOGIN.into(),
            code: NEEDS_LOGIN,
            ..Printed::default()
        },
        Sent::Exit {
            code,
            stdout,
            stderr,
        } => Printed {
            stdout: stdout.into(),
            stderr: stderr.into(),
            code,
        },
        Sent::Killed => {
            kill_process(getpid(), Signal::KILL)
                .map_err(|error| ForgeError::system("end")(error.into()))?;
            std::future::pending().await
        }
        Sent::Unknown(what) => unknown(&what),
    })
}

/// How Go names a request that failed: `Get "https://api.github.com/user"`.
fn transfer(request: &Request) -> String {
    let mut letters = request.method.chars();
    let method: String = letters
        .next()
        .into_iter()
        .chain(letters.map(|c| c.to_ascii_lowercase()))
        .collect();
    format!("{method} \"{API}/{}\"", request.path_and_query())
}

fn print(call: &Call, answer: &FakeAnswer) -> Printed {
    let mut stdout = headers(call, answer);
    let body = clean(answer, &answer.body);
    let is_bad = answer.status >= 400 && is_json(answer);
    let message = match is_bad.then(|| message(answer.status, &body)) {
        Some(Err(reason)) => {
            return Printed {
                stdout,
                stderr: format!("{reason}\n").into(),
                code: 1,
            };
        }
        Some(Ok(message)) => message,
        None => None,
    };
    if !call.is_silent {
        stdout.extend_from_slice(&body);
    }
    if answer.status <= 299 {
        return Printed {
            stdout,
            ..Printed::default()
        };
    }
    let message = message.unwrap_or_else(|| format!("HTTP {}", answer.status));
    let hint = scope_hint(answer).unwrap_or_default();
    Printed {
        stdout,
        stderr: format!("gh: {message}\n{hint}").into(),
        code: 1,
    }
}

/// What gh says when the token may be too weak.
fn scope_hint(answer: &FakeAnswer) -> Option<String> {
    let had: Vec<&str> = answer
        .header("X-OAuth-Scopes")?
        .split(',')
        .map(str::trim)
        .collect();
    let mut needed = answer
        .header("X-Accepted-OAuth-Scopes")?
        .split(',')
        .map(str::trim);
    let lacks = needed.find(|scope| !scope.is_empty() && !had.contains(scope))?;
    let is_meant = (400..500).contains(&answer.status) && answer.status != 422 && had != [""];
    let text = format!("This API operation needs the \"{lacks}\" scope. To request it, run:");
    is_meant.then(|| format!("gh: {text}  gh auth refresh -h github.com -s {lacks}\n"))
}

/// A transfer that broke off in the middle of the body.
fn print_cut(call: &Call, answer: &FakeAnswer) -> Printed {
    let mut stdout = headers(call, answer);
    if answer.status <= 299 && !call.is_silent {
        let came = answer.body.len() / 2;
        let shown = if is_json(answer) {
            came.saturating_sub(LOOKAHEAD)
        } else {
            came
        };
        stdout.extend_from_slice(&clean(answer, answer.body.get(..shown).unwrap_or_default()));
    }
    Printed {
        stdout,
        ..failed("unexpected EOF")
    }
}

fn headers(call: &Call, answer: &FakeAnswer) -> Vec<u8> {
    if !call.is_with_headers {
        return Vec::new();
    }
    let mut lines: Vec<String> = answer
        .headers
        .iter()
        .map(|(name, value)| format!("{}: {value}\r\n", canonical(name)))
        .collect();
    lines.sort();
    format!(
        "HTTP/2.0 {} {}\n{}\r\n",
        answer.status,
        answer.status_text(),
        lines.concat()
    )
    .into_bytes()
}

/// As Go writes a header: `X-RateLimit-Used` is `X-Ratelimit-Used`.
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

fn is_json(answer: &FakeAnswer) -> bool {
    let content_type = answer.header("Content-Type").unwrap_or_default();
    content_type
        .split(';')
        .next()
        .is_some_and(|kind| kind.ends_with("/json") || kind.ends_with("+json"))
}

/// What gh says about an error, or why it could not read the answer. Nothing: the answer has no words of its own.
fn message(status: u16, body: &[u8]) -> Result<Option<String>, String> {
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

/// gh shows control characters in JSON in the notation of the caret, so that none reaches a terminal.
fn clean(answer: &FakeAnswer, body: &[u8]) -> Vec<u8> {
    if !is_json(answer) {
        return body.to_vec();
    }
    let mut text = String::from_utf8_lossy(body).into_owned();
    for code in (0x00..0x20_u8).chain(0x80..0xa0) {
        // These are harmless.
        if matches!(code, b'\t' | b'\n' | 0x0b | b'\r') {
            continue;
        }
        let letter = char::from((code & 0x1f) + 0x40);
        // It is still JSON, where a backslash is two.
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

fn said(text: &str) -> Printed {
    Printed {
        stdout: text.into(),
        ..Printed::default()
    }
}

fn failed(text: &str) -> Printed {
    Printed {
        stderr: format!("{text}\n").into(),
        code: 1,
        ..Printed::default()
    }
}

fn misused(store: &Store, what: &str) -> Result<Printed, ForgeError> {
    store.misused(what)?;
    Ok(unknown(what))
}

fn unknown(what: &str) -> Printed {
    failed(&format!(
        "remand __gh: the stand-in for GitHub does not know {what}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_known_arguments_are_taken() {
        let call = Call::read(&[
            "-i",
            "--method=put",
            "-H",
            "Accept: x/y",
            "--input",
            "-",
            "user",
        ])
        .unwrap();
        assert_eq!(
            (call.method.as_deref(), call.target.as_str()),
            (Some("PUT"), "user")
        );
        assert_eq!(call.headers, [("Accept".to_owned(), "x/y".to_owned())]);
        for args in [
            &["user", "-f", "a=b"][..],
            &["--paginate", "user"],
            &["user", "other"],
            &["--input", "body.json", "user"],
            &["--hostname", "example.org", "user"],
            &["-H"],
            &["-i"],
        ] {
            assert!(Call::read(args).is_err(), "{args:?}");
        }
    }

    #[test]
    fn control_characters_are_shown() {
        let answer = FakeAnswer::json(200, &serde_json::json!("\u{1b}[31m\u{7}\t\u{9b}é"));
        assert_eq!(
            String::from_utf8(clean(&answer, &answer.body)).unwrap(),
            r#""^[[31m^G\t^[é""#
        );
    }

    #[test]
    fn what_gh_says_about_errors() {
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
            assert_eq!(message(404, body.as_bytes()), expected, "{body}");
        }
    }
}
