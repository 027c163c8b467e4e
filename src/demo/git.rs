//! Git with a made-up author and no user configuration, to set up the demo and read the result.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::command;

pub(super) struct Git {
    pub(super) home: PathBuf,
}

impl Git {
    pub(super) async fn commit(&self, at: &Path, message: &str) -> anyhow::Result<()> {
        self.call(at, &["add", "-A"]).await?;
        self.call(at, &["commit", "--quiet", "--no-verify", "-m", message])
            .await
            .map(drop)
    }

    pub(super) async fn call(&self, at: &Path, args: &[&str]) -> anyhow::Result<String> {
        let argv: Vec<OsString> = ["git"].iter().chain(args).map(Into::into).collect();
        let home = self.home.display().to_string();
        let env = [
            ("HOME", home.as_str()),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "coder"),
            ("GIT_AUTHOR_EMAIL", "coder@example.org"),
            ("GIT_COMMITTER_NAME", "coder"),
            ("GIT_COMMITTER_EMAIL", "coder@example.org"),
        ];
        command::run(&argv, at, &env, None).await
    }
}
