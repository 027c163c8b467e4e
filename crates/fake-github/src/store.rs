//! The state file: locked for one request at a time across processes, and replaced atomically.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::FakeGithubError;
use crate::check_endpoints;
use crate::fault::{self, Delivery};
use crate::git::Git;
use crate::request::Request;
use crate::router::{self, Outcome};
use crate::state::GithubState;

pub(crate) struct Store {
    path: PathBuf,
    git: Git,
}

impl Store {
    pub(crate) fn new(path: PathBuf, git: Git) -> Self {
        Self { path, git }
    }

    /// Handles a request of the user who is logged in.
    pub(crate) fn handle(&self, request: &Request) -> Result<Delivery, FakeGithubError> {
        self.update(
            |github| match check_endpoints::stored_log(github, request) {
                // Another host, which has no limits and no faults.
                Some(log) => Ok(Delivery::Whole(log)),
                None => fault::handle(github, &self.git, request),
            },
        )
    }

    /// Handles a request of another user. Faults do not affect it, and it is not logged.
    pub(crate) fn handle_as(
        &self,
        login: &str,
        request: &Request,
    ) -> Result<Delivery, FakeGithubError> {
        self.update(|github| {
            let me = github.me.replace(login.to_owned());
            let outcome = router::handle(github, &self.git, request)?;
            github.me = me;
            Ok(match outcome {
                Outcome::Response(response) => Delivery::Whole(response),
                Outcome::Unsupported(request) => Delivery::Unsupported(request),
            })
        })
    }

    /// Checks that the file can be read.
    pub(crate) fn check(&self) -> Result<(), FakeGithubError> {
        let _lock = self.lock()?;
        load(&self.path).map(drop)
    }

    /// Records a request that the stand-in does not support.
    pub(crate) fn record_misuse(&self, request: &str) -> Result<(), FakeGithubError> {
        self.update(|github| {
            github.misuse.push(request.to_owned());
            Ok(())
        })
    }

    /// Changes the file under its lock. An error leaves it unchanged.
    fn update<T>(
        &self,
        change: impl FnOnce(&mut GithubState) -> Result<T, FakeGithubError>,
    ) -> Result<T, FakeGithubError> {
        let _lock = self.lock()?;
        let mut github = load(&self.path)?;
        let result = change(&mut github)?;
        save(&self.path, &github)?;
        Ok(result)
    }

    /// Takes the lock, which is released when the returned file is closed.
    fn lock(&self) -> Result<File, FakeGithubError> {
        let path = with_suffix(&self.path, "lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(FakeGithubError::file("open", &path))?;
        flock(&file, FlockOperation::LockExclusive)
            .map_err(|error| FakeGithubError::file("lock", &path)(error.into()))?;
        Ok(file)
    }
}

fn load(path: &Path) -> Result<GithubState, FakeGithubError> {
    let text = fs::read_to_string(path).map_err(FakeGithubError::file("read", path))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut json).map_err(|source| FakeGithubError::StateFile {
        path: path.to_owned(),
        source,
    })
}

fn save(path: &Path, github: &GithubState) -> Result<(), FakeGithubError> {
    let new = with_suffix(path, "new");
    serde_json::to_vec_pretty(github)
        .map_err(std::io::Error::from)
        .and_then(|text| fs::write(&new, text))
        .map_err(FakeGithubError::file("write", &new))?;
    fs::rename(&new, path).map_err(FakeGithubError::file("replace", path))
}

/// Appends `.suffix` to the name of a file.
fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}
