//! Checks `gh`: its login, the account's permissions, remaining calls, and the clock.

use std::sync::Arc;

use super::{CALL, Check, Surroundings};
use crate::clock::{self, Time};
use crate::config;
use crate::github::{Account, Github, GithubError};
use crate::text::list;

/// The oldest and the newest gh that remand was tested with.
const TRIED: [(u32, u32); 2] = [(2, 23), (2, 102)];
const CLOCK: &str = "clock";
/// Maximum clock error: rate limits and holds are counted in minutes.
const SKEW_S: i64 = 60;

pub(super) async fn gh(around: Arc<Surroundings>) -> Vec<Check> {
    let set = around.loaded.github();
    let github = Github::new(
        set.gh.clone(),
        config::forge_environment(),
        set.call.min(CALL),
        "/".into(),
    );
    let (version, account) = tokio::join!(github.version(), ask(&around, &github));
    let mut checks = vec![match &version {
        Ok(version) => of_version(&set.gh.join(" "), version),
        Err(GithubError::NoGh) => {
            around.severity("gh", &GithubError::NoGh, GithubError::NoGh.hint())
        }
        Err(error) => around.severity(
            "gh",
            error,
            "run `gh --version` yourself: it should print `gh version …`",
        ),
    }];
    // Without gh there is nothing to ask.
    if !matches!(version, Err(GithubError::NoGh)) {
        let is_logged_in = matches!(&account, Some((Ok(_), _)));
        checks.extend(account.map_or_else(
            || vec![Check::ok("GitHub", "not checked (--offline)")],
            |(account, at)| of_account(&around, &github, &account, at),
        ));
        // Last: these requests count, too.
        if is_logged_in {
            checks.extend(check_rights(&around, &github).await);
        }
    }
    if !checks.iter().any(|check| check.check == CLOCK) {
        let says = "not checked: GitHub did not return the time (`timedatectl` shows whether the clock is synchronized)";
        checks.push(Check::ok(CLOCK, says));
    }
    checks
}

/// Returns the account, and when it was read; `None` if the network may not be used.
async fn ask(
    around: &Surroundings,
    github: &Github,
) -> Option<(Result<Account, GithubError>, Time)> {
    if !around.asks_network() {
        return None;
    }
    let account = github.me().await;
    Some((account, clock::now()))
}

fn of_version(program: &str, version: &str) -> Check {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        let says = format!("unknown version {version}");
        return Check::warn("gh", says, "install gh from https://cli.github.com");
    };
    let [oldest, newest] = TRIED;
    let says = format!("{version} ({program})");
    let tested = |(major, minor): (u32, u32)| format!("tested version ({major}.{minor})");
    if (major, minor) < oldest {
        let says = format!("{says} is older than the oldest {}", tested(oldest));
        let r#do = "install a newer version from https://cli.github.com";
        Check::warn("gh", says, r#do)
    } else if (major, minor) > newest {
        let says = format!("{says}, newer than the newest {}", tested(newest));
        Check::ok("gh", says)
    } else {
        Check::ok("gh", says)
    }
}

fn of_account(
    around: &Surroundings,
    github: &Github,
    account: &Result<Account, GithubError>,
    at: Time,
) -> Vec<Check> {
    match account {
        Ok(account) => {
            let mut checks = vec![rights(account)];
            checks.extend(left(around, github));
            checks.extend(account.at.map(|theirs| clock(theirs, at)));
            checks
        }
        Err(error) => vec![around.severity("GitHub", error, error.hint())],
    }
}

/// Checks the token's permissions, which GitHub reports only for a classic token.
fn rights(account: &Account) -> Check {
    let who = format!("logged in as {}", account.author.login);
    let Some(scopes) = &account.scopes else {
        let says = format!(
            "{who}; its token's permissions are unknown (it is a fine-grained or app token)"
        );
        return Check::ok("GitHub", says);
    };
    let has = |scope: &str| scopes.iter().any(|known| known == scope);
    let list = if scopes.is_empty() {
        "none".to_owned()
    } else {
        scopes.join(", ")
    };
    if has("repo") {
        Check::ok("GitHub", format!("{who}, token scopes: {list}"))
    } else if has("public_repo") {
        let says =
            format!("{who}, but its token can only access public repositories (scopes: {list})");
        let r#do = "for private repositories, run `gh auth refresh -s repo`";
        Check::warn("GitHub", says, r#do)
    } else {
        let says = format!("{who}, but its token cannot write to repositories (scopes: {list})");
        let r#do =
            "run `gh auth refresh -s repo`, or set GH_TOKEN to a token with the `repo` scope";
        Check::fail("GitHub", says, r#do)
    }
}

/// Checks whether the token may read checks and logs of the first project on GitHub: fine-grained tokens need a
/// permission for each.
async fn check_rights(around: &Surroundings, github: &Github) -> Option<Check> {
    let mut projects = around.projects.iter();
    let (repo, branch) = projects
        .find_map(|project| Some((project.repo.as_deref()?, project.default_branch.as_str())))?;
    let missing = github.missing_check_rights(repo, branch).await.ok()?;
    (!missing.is_empty()).then(|| {
        let says = format!(
            "the token may not read these of {repo}: {}; red checks are not fixed, or without their logs",
            list(&missing)
        );
        let r#do = "add the permissions to the token (Actions: write, for reruns), or run `gh auth refresh -s repo`";
        Check::warn("checks", says, r#do)
    })
}

fn left(around: &Surroundings, github: &Github) -> Option<Check> {
    let rate = github.rate()?;
    let reserve = around.loaded.github().reserve;
    let says = format!(
        "{} of {} calls left until {}",
        rate.remaining, rate.limit, rate.reset
    );
    Some(if rate.remaining < reserve {
        let says =
            format!("{says}: fewer than `reserve` ({reserve}), so nothing is read until then");
        Check::warn("rate limit", says, "wait, or lower `reserve` in [github]")
    } else {
        Check::ok("rate limit", says)
    })
}

fn clock(theirs: Time, ours: Time) -> Check {
    let off_s = (ours.millis() - theirs.millis()) / 1000;
    if off_s.abs() < SKEW_S {
        return Check::ok(CLOCK, "agrees with GitHub");
    }
    let which = if off_s > 0 { "ahead of" } else { "behind" };
    let off_s = off_s.abs();
    let says = format!("{off_s} s {which} GitHub: delays and rate limits will be wrong");
    let r#do =
        "synchronize the clock: `sudo timedatectl set-ntp true`, or the equivalent on your system";
    Check::warn(CLOCK, says, r#do)
}

impl Surroundings {
    /// Chooses the severity of an error: without a project on GitHub it is not critical.
    fn severity(&self, check: &str, error: &GithubError, hint: &str) -> Check {
        // Before there is any project this is unknown: a missing login is then a common obstacle
        // for a new user.
        let is_logged_out = matches!(error, GithubError::LoggedOut | GithubError::Auth { .. })
            && self.projects.is_empty();
        let is_needed = is_logged_out || self.projects.iter().any(|project| project.repo.is_some());
        let passes = matches!(error, GithubError::Limited { .. });
        if is_needed && !passes {
            Check::fail(check, error.to_string(), hint)
        } else {
            Check::warn(check, error.to_string(), hint)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn versions() {
        for (version, state, expected) in [
            ("2.23.0", State::Ok, "2.23.0 (gh)"),
            ("2.102.0", State::Ok, "2.102.0 (gh)"),
            ("2.103.1", State::Ok, "newer than the newest"),
            ("3.0.0", State::Ok, "newer than the newest"),
            ("2.22.1", State::Warn, "older than the oldest"),
            ("1.14.0", State::Warn, "older than the oldest"),
            ("DEV", State::Warn, "unknown version DEV"),
        ] {
            let check = of_version("gh", version);
            assert_eq!(check.state, state, "{version}");
            assert!(check.says.contains(expected), "{}", check.says);
        }
    }

    #[test]
    fn a_clock_that_is_wrong() {
        let theirs = Time::from_millis(1_800_000_000_000);
        let after = |s: i64| clock(theirs, Time::from_millis(theirs.millis() + s * 1000));
        assert_eq!(
            [after(0).state, after(59).state, after(-59).state],
            [State::Ok; 3]
        );
        assert!(
            after(61).says.starts_with("61 s ahead of"),
            "{}",
            after(61).says
        );
        assert!(
            after(-3600).says.starts_with("3600 s behind"),
            "{}",
            after(-3600).says
        );
    }
}
