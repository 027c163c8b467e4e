//! The demo's hand on the stand-in: people who look at a pull request and speak there. They go the way that everybody
//! goes, under the same lock and by the same rules; only planned trouble does not meet them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use super::ForgeError;
use super::git::Git;
use super::request::Request;
use super::store::Store;

pub(crate) struct People {
    store: Store,
}

impl People {
    /// `file` is the forge's; `env` is for git, which is asked about commits.
    pub(crate) fn new(file: PathBuf, env: BTreeMap<String, String>) -> Self {
        Self {
            store: Store::new(file, Git { env }),
        }
    }

    /// What somebody sees at a path of the API.
    pub(crate) async fn look(&self, login: &str, path: &str) -> Result<Value, ForgeError> {
        self.ask(login, "GET", path, Vec::new()).await
    }

    /// Somebody writes to a path of the API.
    pub(crate) async fn say(
        &self,
        login: &str,
        path: &str,
        body: &Value,
    ) -> Result<Value, ForgeError> {
        self.ask(login, "POST", path, body.to_string().into_bytes())
            .await
    }

    async fn ask(
        &self,
        login: &str,
        method: &str,
        path: &str,
        body: Vec<u8>,
    ) -> Result<Value, ForgeError> {
        let request = Request {
            method: method.into(),
            target: path.into(),
            headers: Vec::new(),
            body,
        };
        let answer = self.store.answer_as(login, &request).await?;
        if (200..300).contains(&answer.status) {
            return Ok(serde_json::from_slice(&answer.body).unwrap_or_default());
        }
        let said = String::from_utf8_lossy(&answer.body).into_owned();
        Err(ForgeError::Refused {
            login: login.into(),
            path: path.into(),
            status: answer.status,
            said,
        })
    }
}
