//! Runs the short commands of the demo.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::config;
use crate::process::{Short, short};

const LIMIT: Duration = Duration::from_secs(30);
const MAX_OUTPUT: usize = 4 * 1024 * 1024;

/// Runs a command and returns its output without surrounding white space. An exit code other than 0
/// is an error.
pub(super) async fn run(
    argv: &[OsString],
    cwd: &Path,
    extra_env: &[(&str, &str)],
    stdin: Option<Vec<u8>>,
) -> anyhow::Result<String> {
    let (program, args) = argv.split_first().context("empty command")?;
    let mut env: BTreeMap<OsString, OsString> = config::agent_environment(&[])
        .into_iter()
        .map(|(name, value)| (name.into(), value.into()))
        .collect();
    env.extend(
        extra_env
            .iter()
            .map(|(name, value)| (name.into(), value.into())),
    );
    let command = Short {
        program: program.clone(),
        args: args.to_vec(),
        cwd: cwd.to_owned(),
        env,
        stdin,
        limit: LIMIT,
        cap: MAX_OUTPUT,
        is_wrapped: false,
    };
    let shown = || argv.join(" ".as_ref()).to_string_lossy().into_owned();
    let output = short(&command)
        .await
        .with_context(|| format!("cannot run `{}`, which the demo needs", shown()))?;
    if output.status != Some(0) {
        bail!(
            "`{}` failed: {}",
            shown(),
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
