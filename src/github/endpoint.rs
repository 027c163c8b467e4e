//! Validated parts of API paths: no untrusted text becomes an option, another path or a placeholder
//! of gh.

use super::{GithubError, Result};

/// Returns `repos/owner/name`. An invalid name is reported as a repository that does not exist.
pub(super) fn repository(repo: &str) -> Result<String> {
    match repo.split_once('/') {
        Some((owner, name)) if is_owner(owner) && is_name(name) => Ok(format!("repos/{repo}")),
        Some(_) | None => Err(GithubError::NotFound {
            path: printable(repo),
        }),
    }
}

/// Returns `repos/owner/name/pulls/7`, or the same with `issues`.
pub(super) fn numbered(repo: &str, kind: &str, number: i64) -> Result<String> {
    let path = format!("{}/{kind}/{number}", repository(repo)?);
    if number > 0 {
        Ok(path)
    } else {
        Err(GithubError::NotFound { path })
    }
}

/// Returns the path of something that belongs to a pull request: `repos/owner/name/pulls/7/reviews`.
pub(super) fn of_pull(repo: &str, number: i64, rest: &str) -> Result<String> {
    Ok(format!("{}/{rest}", numbered(repo, "pulls", number)?))
}

/// Returns the path of the list of all pull requests whose head is a branch of the repository's
/// owner: `repos/owner/name/pulls?state=all&head=owner:branch`.
pub(super) fn pulls_of_branch(repo: &str, branch: &str) -> Result<String> {
    let pulls = format!("{}/pulls", repository(repo)?);
    let owner = repo.split('/').next().unwrap_or_default();
    // GitHub would list the pull requests of all branches.
    if branch.is_empty() {
        return Err(GithubError::NotFound { path: pulls });
    }
    let branch: String = branch.bytes().map(encoded).collect();
    Ok(format!("{pulls}?state=all&head={owner}:{branch}"))
}

/// Returns `repos/owner/name/git/commits/SHA`.
pub(super) fn commit(repo: &str, sha: &str) -> Result<String> {
    let path = format!("{}/git/commits/{}", repository(repo)?, printable(sha));
    let is_one = !sha.is_empty() && sha.chars().all(|c| c.is_ascii_hexdigit());
    if is_one {
        Ok(path)
    } else {
        Err(GithubError::NotFound { path })
    }
}

/// Returns the path of a commit with its checks: `repos/owner/name/commits/SHA`.
pub(super) fn checks(repo: &str, sha: &str) -> Result<String> {
    let path = commit(repo, sha)?;
    Ok(path.replacen("/git/commits/", "/commits/", 1))
}

/// Returns the path of a branch: `repos/owner/name/branches/feature%2Fx`.
pub(super) fn branch(repo: &str, kind: &str, branch: &str) -> Result<String> {
    let path = format!("{}/{kind}", repository(repo)?);
    if branch.is_empty() {
        return Err(GithubError::NotFound { path });
    }
    let branch: String = branch.bytes().map(encoded).collect();
    Ok(format!("{path}/{branch}"))
}

/// Returns the path of the comparison of a commit with a branch: `repos/owner/name/compare/main...SHA`.
pub(super) fn compare(repo: &str, base: &str, head: &str) -> Result<String> {
    let base = branch(repo, "compare", base)?;
    commit(repo, head)?;
    Ok(format!("{base}...{head}?per_page=1"))
}

/// Escapes a login as one component of a path: those of bots end in `[bot]`. Returns `None` if it
/// is not a valid login.
pub(super) fn login(login: &str) -> Option<String> {
    let is_one = !login.is_empty() && login.len() <= 200 && !login.chars().all(|c| c == '.');
    is_one.then(|| login.bytes().map(encoded).collect())
}

fn encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}

fn is_owner(text: &str) -> bool {
    is_name(text) && !text.starts_with('.')
}

/// True for a valid name. Many repositories are called `.github`.
fn is_name(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty()
        && text.len() <= 100
        && text.chars().all(is_plain)
        && !text.starts_with('-')
        && !text.chars().all(|c| c == '.')
}

fn printable(text: &str) -> String {
    text.chars()
        .take(200)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}
