//! Detection without asking: programs and the GitHub login.

use std::path::PathBuf;
use std::time::Duration;

use crate::config;
use crate::config::github::GithubSettings;
use crate::daemon;
use crate::github::Github;

/// Maximum time to wait for the name of the GitHub login.
const LIMIT: Duration = Duration::from_secs(4);

pub(super) fn on_path(program: &str) -> bool {
    daemon::program_for_agents(program).is_some()
}

/// Expands `~` in a path that no shell has expanded.
pub(super) fn from_home(text: &str) -> PathBuf {
    let home = config::agent_environment(&[])
        .get("HOME")
        .map(PathBuf::from);
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(text),
    }
}

/// Returns a sentence with the current GitHub login.
pub(super) async fn login(set: GithubSettings) -> String {
    let github = Github::new(
        set.gh,
        config::forge_environment(),
        set.call.min(LIMIT),
        "/".into(),
    );
    match github.me().await {
        Ok(account) => format!(
            "remand posts on GitHub as {}, the account that `gh` is logged in to",
            account.author.login
        ),
        Err(error) => format!("GitHub cannot be used yet: {error}; {}", error.hint()),
    }
}
