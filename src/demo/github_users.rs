//! Requests of other users to the fake GitHub, made through `remand __gh FILE as LOGIN api …`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use super::command;

pub(super) struct GithubUsers {
    /// This program, which is also the fake GitHub.
    program: PathBuf,
    /// State file of the fake GitHub.
    file: PathBuf,
}

impl GithubUsers {
    pub(super) fn new(program: PathBuf, file: PathBuf) -> Self {
        Self { program, file }
    }

    /// Reads a path of the API as a user.
    pub(super) async fn get(&self, login: &str, path: &str) -> anyhow::Result<Value> {
        self.api(login, &[path], None).await
    }

    /// Posts to a path of the API as a user.
    pub(super) async fn post(
        &self,
        login: &str,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<Value> {
        let body = body.to_string().into_bytes();
        self.api(login, &[path, "--input", "-"], Some(body)).await
    }

    async fn api(
        &self,
        login: &str,
        args: &[&str],
        body: Option<Vec<u8>>,
    ) -> anyhow::Result<Value> {
        let mut argv: Vec<OsString> = vec![
            self.program.clone().into(),
            "__gh".into(),
            self.file.clone().into(),
        ];
        argv.extend(["as", login, "api"].iter().chain(args).map(Into::into));
        let folder = self.file.parent().unwrap_or_else(|| Path::new("/"));
        let output = command::run(&argv, folder, &[], body).await?;
        serde_json::from_str(&output).context("the fake GitHub did not print JSON")
    }
}
