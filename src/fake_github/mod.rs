//! A stand-in for GitHub: the part of its REST API that remand uses, kept in one JSON file, for the offline demo and the
//! tests. It is never between remand and the real GitHub, and nothing of remand's own may read its file.
//!
//! It has two fronts. `remand __gh FILE api …` behaves like the `gh` command and is given to remand in its place.
//! `remand __gh FILE serve SOCKET` speaks HTTP, so that the real `gh` can be pointed at it (`http_unix_socket`) and the
//! first front can be held to what the real one prints. `remand __gh FILE check` says whether the file can be read.

mod answer;
mod diff;
mod fault;
mod gh;
mod git;
mod issue;
mod look;
mod page;
mod people;
mod request;
mod route;
mod said;
mod say;
mod serve;
mod shape;
mod state;
mod store;
mod wire;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::process::ProcessError;

pub(crate) use people::People;

/// What keeps the stand-in from working at all, as opposed to what GitHub would answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ForgeError {
    #[error("cannot {doing} {}", path.display())]
    File {
        doing: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is not the state of a forge", path.display())]
    State {
        path: PathBuf,
        #[source]
        source: serde_path_to_error::Error<serde_json::Error>,
    },
    #[error("git can't be run")]
    Git(#[source] ProcessError),
    #[error("`git {args}` failed in {}: {stderr}", git_dir.display())]
    GitFailed {
        args: String,
        git_dir: PathBuf,
        stderr: String,
    },
    #[error("`now` of the forge's state is not a time")]
    Clock(#[source] crate::clock::BadTime),
    #[error("{login} is refused {path}: {status} {said}")]
    Refused {
        login: String,
        path: String,
        status: u16,
        said: String,
    },
    #[error("the stand-in for GitHub does not know {what}")]
    Unknown { what: String },
    #[error("cannot {doing}")]
    System {
        doing: &'static str,
        #[source]
        source: io::Error,
    },
}

impl ForgeError {
    fn file(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            doing,
            path,
            source,
        }
    }

    fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

/// The body of `remand __gh FILE …`. `env` is for git, which is asked about commits.
pub(crate) fn gh_main(args: Vec<OsString>, env: BTreeMap<String, String>) -> ExitCode {
    let ended = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ForgeError::system("start a runtime"))
        .and_then(|runtime| runtime.block_on(run(args, env)));
    ended.unwrap_or_else(|error| {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        // Nobody is left to tell when even this fails.
        writeln!(io::stderr(), "remand __gh: {text}").ok();
        ExitCode::FAILURE
    })
}

async fn run(args: Vec<OsString>, env: BTreeMap<String, String>) -> Result<ExitCode, ForgeError> {
    let mut args = args.into_iter();
    let store = store::Store::new(
        PathBuf::from(args.next().unwrap_or_default()),
        git::Git { env },
    );
    let words: Vec<String> = args.map(|arg| arg.to_string_lossy().into_owned()).collect();
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["serve", socket] => serve::serve(store, Path::new(socket)).await,
        ["check"] => store.check().map(|()| ExitCode::SUCCESS),
        words => gh::call(&store, words).await,
    }
}
