//! What can be found out without asking: programs, tests, the login.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::config;
use crate::config::github::GithubSettings;
use crate::github::Github;
use crate::process;

/// Nobody waits for longer to be told who is logged in.
const LIMIT: Duration = Duration::from_secs(4);

pub(super) fn on_path(program: &str) -> bool {
    let path = config::agent_environment(&[]).get("PATH").map(std::ffi::OsString::from);
    process::find(program.as_ref(), path.as_deref(), Path::new("/")).is_some()
}

/// The usual tests of a repository.
pub(super) fn gate(repository: &Path) -> Option<&'static str> {
    if repository.join("Cargo.toml").is_file() {
        Some("cargo test")
    } else if has_npm_test(&repository.join("package.json")) {
        Some("npm test")
    } else if repository.join("go.mod").is_file() {
        Some("go test ./...")
    } else {
        None
    }
}

/// Not the one that `npm init` writes, which fails.
fn has_npm_test(package: &Path) -> bool {
    let text = std::fs::read(package).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let test = package.pointer("/scripts/test").and_then(serde_json::Value::as_str);
    test.is_some_and(|test| !test.contains("no test specified"))
}

/// A path as a person types it where no shell reads it.
pub(super) fn from_home(text: &str) -> PathBuf {
    let home = config::agent_environment(&[]).get("HOME").map(PathBuf::from);
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// Who is logged in on GitHub, as a sentence.
pub(super) async fn login(set: GithubSettings) -> String {
    let github = Github::new(set.gh, config::forge_environment(), set.call.min(LIMIT), "/".into());
    match github.me().await {
        Ok(account) => format!("on GitHub remand speaks as {}, with whom `gh` is logged in", account.author.login),
        Err(error) => format!("on GitHub nothing can be done yet: {error}; {}", error.hint()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(gate(folder.path()), None);
        put("package.json", "{\"scripts\": {\"test\": \"echo \\\"Error: no test specified\\\" && exit 1\"}}");
        assert_eq!(gate(folder.path()), None);
        put("go.mod", "module x\n");
        assert_eq!(gate(folder.path()), Some("go test ./..."));
        put("package.json", "{\"scripts\": {\"test\": \"vitest\"}}");
        assert_eq!(gate(folder.path()), Some("npm test"));
        put("Cargo.toml", "");
        assert_eq!(gate(folder.path()), Some("cargo test"));
    }
}
