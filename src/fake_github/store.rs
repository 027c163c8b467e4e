//! The file: one request at a time, across processes, and never half written.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::ForgeError;
use super::answer::FakeAnswer;
use super::fault::{self, Sent};
use super::git::Git;
use super::request::Request;
use super::route::{self, Outcome};
use super::state::Forge;

pub(super) struct Store {
    path: PathBuf,
    git: Git,
}

impl Store {
    pub(super) fn new(path: PathBuf, git: Git) -> Self {
        Self { path, git }
    }

    /// Answers one request. In one process only one at a time: a second would wait for the lock and keep the first,
    /// which waits for git, from going on.
    pub(super) async fn answer(&self, request: &Request) -> Result<Sent, ForgeError> {
        let _lock = self.lock()?;
        let mut forge = load(&self.path)?;
        let sent = fault::answer(&mut forge, &self.git, request).await?;
        save(&self.path, &forge)?;
        Ok(sent)
    }

    /// Answers one request of somebody who is logged in somewhere else.
    pub(super) async fn answer_as(
        &self,
        login: &str,
        request: &Request,
    ) -> Result<FakeAnswer, ForgeError> {
        let _lock = self.lock()?;
        let mut forge = load(&self.path)?;
        let me = forge.me.replace(login.to_owned());
        let said = route::answer(&mut forge, &self.git, request).await?;
        forge.me = me;
        save(&self.path, &forge)?;
        match said {
            Outcome::Answer(answer) => Ok(answer),
            Outcome::Unknown(what) => Err(ForgeError::Unknown { what }),
        }
    }

    pub(super) fn check(&self) -> Result<(), ForgeError> {
        let _lock = self.lock()?;
        load(&self.path).map(drop)
    }

    /// Notes what this stand-in can't do.
    pub(super) fn misused(&self, what: &str) -> Result<(), ForgeError> {
        let _lock = self.lock()?;
        let mut forge = load(&self.path)?;
        forge.misuse.push(what.to_owned());
        save(&self.path, &forge)
    }

    /// Given back when the file is closed.
    fn lock(&self) -> Result<File, ForgeError> {
        let path = beside(&self.path, "lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(ForgeError::file("open", &path))?;
        let locked = flock(&file, FlockOperation::LockExclusive);
        locked.map_err(|error| ForgeError::file("lock", &path)(error.into()))?;
        Ok(file)
    }
}

fn load(path: &Path) -> Result<Forge, ForgeError> {
    let text = fs::read_to_string(path).map_err(ForgeError::file("read", path))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut json).map_err(|source| ForgeError::State {
        path: path.to_owned(),
        source,
    })
}

fn save(path: &Path, forge: &Forge) -> Result<(), ForgeError> {
    let new = beside(path, "new");
    let written = serde_json::to_vec_pretty(forge)
        .map_err(std::io::Error::from)
        .and_then(|text| fs::write(&new, text));
    written.map_err(ForgeError::file("write", &new))?;
    fs::rename(&new, path).map_err(ForgeError::file("replace", path))
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(extension);
    path.with_file_name(name)
}
