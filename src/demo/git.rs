//! Git for setting the stage and for looking at it afterwards: nobody's configuration, a made-up author.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::config;
use crate::process::{Short, short};

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
        let mut env: BTreeMap<OsString, OsString> = config::agent_environment(&[])
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        env.insert("HOME".into(), self.home.clone().into());
        for (name, value) in [
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "coder"),
            ("GIT_AUTHOR_EMAIL", "coder@example.org"),
            ("GIT_COMMITTER_NAME", "coder"),
            ("GIT_COMMITTER_EMAIL", "coder@example.org"),
        ] {
            env.insert(name.into(), value.into());
        }
        let command = Short {
            program: "git".into(),
            args: args.iter().map(OsString::from).collect(),
            cwd: at.to_owned(),
            env,
            stdin: None,
            limit: Duration::from_secs(30),
            cap: 64 * 1024,
            is_wrapped: false,
        };
        let output = short(&command)
            .await
            .context("git can't be run; the demo needs it")?;
        if output.status != Some(0) {
            bail!(
                "git {} failed: {}",
                args.join(" "),
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }
}
