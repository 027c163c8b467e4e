//! A local stand-in for GitHub, for the demo and the tests of remand.
//!
//! It implements the part of the REST API that remand uses and keeps its state in one JSON file. remand itself never
//! reads that file, and the stand-in is never between remand and the real GitHub. This crate uses no code of remand.
//!
//! The program that calls [`main`] offers these commands:
//!
//! - `FILE api …`, `FILE --version`, `FILE auth git-credential …` behave like the `gh` command, which they replace.
//! - `FILE as LOGIN api …` sends a request as another user. Faults do not affect it, and it is not logged.
//! - `FILE serve SOCKET` speaks HTTP on a unix socket, so that the real `gh` can be connected to it (its setting
//!   `http_unix_socket`) and its output can be compared with that of `FILE api …`.
//! - `FILE check` exits with 0 if the file can be read.

mod check_endpoints;
mod clock;
mod diff;
mod fault;
mod gh_args;
mod gh_command;
mod git;
mod http_message;
mod http_server;
mod issue_json;
mod json;
mod pagination;
mod pull_endpoints;
mod read_endpoints;
mod request;
mod response;
mod review_json;
mod router;
mod state;
mod store;
mod write_endpoints;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The command line that starts the stand-in, for error messages.
const PROGRAM: &str = "remand __gh";

/// A failure of the stand-in itself, as opposed to an error response of GitHub.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FakeGithubError {
    #[error("cannot {action} {}", path.display())]
    File {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not a valid state file", path.display())]
    StateFile {
        path: PathBuf,
        #[source]
        source: serde_path_to_error::Error<serde_json::Error>,
    },
    #[error("cannot run git")]
    Git(#[source] io::Error),
    #[error("`git {args}` failed in {}: {stderr}", git_dir.display())]
    GitFailed {
        args: String,
        git_dir: PathBuf,
        stderr: String,
    },
    #[error("`now` in the state file is not a time")]
    Clock(#[source] chrono::ParseError),
    #[error("cannot {action}")]
    System {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

impl FakeGithubError {
    fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            action,
            path,
            source,
        }
    }

    fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}

/// Runs one command of the stand-in. `args` begins with the state file; `env` is the environment for git.
pub fn main(args: Vec<OsString>, env: BTreeMap<String, String>) -> ExitCode {
    run(args, env).unwrap_or_else(|error| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        // If stderr cannot be written either, the exit code is all that is left.
        writeln!(io::stderr(), "{PROGRAM}: {text}").ok();
        ExitCode::FAILURE
    })
}

fn run(args: Vec<OsString>, env: BTreeMap<String, String>) -> Result<ExitCode, FakeGithubError> {
    let mut args = args.into_iter();
    let store = store::Store::new(
        PathBuf::from(args.next().unwrap_or_default()),
        git::Git { env },
    );
    let words: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["serve", socket] => http_server::serve(store, Path::new(socket)),
        ["check"] => store.check().map(|()| ExitCode::SUCCESS),
        ["as", login, words @ ..] => gh_command::run(&store, Some(login), words),
        words => gh_command::run(&store, None, words),
    }
}
