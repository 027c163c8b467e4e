//! Endpoints that open and edit pull requests.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::git::{Git, branch};
use crate::read_endpoints::{find_pull, find_repo};
use crate::request::{API, Request};
use crate::response::{EndpointError, Payload, Refusal, refusal};
use crate::review_json::PullRef;
use crate::state::{GithubState, Pull, Repo};
use crate::write_endpoints::{logged_in_user, parse_body, pull_mut, require_write_access};

/// Maximum numbers of characters.
const TITLE: usize = 256;
const BODY: usize = 65_536;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPull {
    #[serde(default)]
    title: String,
    #[serde(default)]
    body: Option<String>,
    head: String,
    base: String,
    #[serde(default)]
    draft: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PullEdit {
    #[serde(default)]
    title: Option<String>,
    #[serde(default)]
    body: Option<String>,
}

/// Opens a pull request for a branch of the repository itself.
pub(crate) fn create(
    github: &mut GithubState,
    git: &Git,
    repo: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    let author = logged_in_user(github)?;
    require_write_access(github, repo)?;
    let mut input: NewPull = parse_body(request)?;
    input.head = own_branch(repo, &input.head)?;
    check_text(Some(&input.title), input.body.as_deref())?;
    let home = find_repo(github, repo)?;
    let [head_sha, base_sha] = check_branches(git, home, repo, &input)?;
    if input.draft && home.no_drafts {
        let message = "Draft pull requests are not supported in this repository.";
        return Err(refusal(422, message).into());
    }
    let number = next_number(home);
    let at = github.timestamp()?;
    let new = Pull {
        id: github.new_id(),
        title: input.title,
        body: input.body,
        author,
        head_ref: input.head,
        head_repo: Some(repo.to_owned()),
        head_sha,
        shown_head: None,
        base_ref: input.base,
        base_sha,
        created_at: at.clone(),
        updated_at: at,
        closed_at: None,
        merged_at: None,
        merged_by: None,
        merge_commit_sha: None,
        draft: input.draft,
        labels: Vec::new(),
        requested_reviewers: Vec::new(),
        reviews: Vec::new(),
        comments: Vec::new(),
        issue_comments: Vec::new(),
    };
    if let Some(home) = github.repos.get_mut(repo) {
        home.pulls.insert(number, new);
    }
    let on = PullRef { repo, number };
    let json = github.full_pull(repo, number, find_pull(github, &on)?);
    let url = format!("{API}/repos/{repo}/pulls/{number}");
    Ok(Payload::Created(json, url))
}

pub(crate) fn edit(
    github: &mut GithubState,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    let me = logged_in_user(github)?;
    let edit: PullEdit = parse_body(request)?;
    if !find_pull(github, on)?.author.eq_ignore_ascii_case(&me) {
        require_write_access(github, on.repo)?;
    }
    check_text(edit.title.as_deref(), edit.body.as_deref())?;
    let at = github.timestamp()?;
    let pull = pull_mut(github, on)?;
    if let Some(title) = edit.title {
        pull.title = title;
    }
    if let Some(body) = edit.body {
        pull.body = Some(body);
    }
    pull.updated_at = at;
    let pull = find_pull(github, on)?;
    Ok(Payload::Object(github.full_pull(on.repo, on.number, pull)))
}

/// Returns the name of a branch without the owner of the repository: `ada:feature`.
fn own_branch(repo: &str, head: &str) -> Result<String, EndpointError> {
    let owner = repo.split('/').next().unwrap_or_default();
    match head.split_once(':') {
        None => Ok(head.to_owned()),
        Some((name, branch)) if name.eq_ignore_ascii_case(owner) => Ok(branch.to_owned()),
        Some(_) => Err(EndpointError::Unsupported(format!(
            "a pull request from a fork: {head}"
        ))),
    }
}

fn check_text(title: Option<&str>, body: Option<&str>) -> Result<(), Refusal> {
    if title.is_some_and(|title| title.trim().is_empty()) {
        let error = json!({ "resource": "Issue", "code": "missing_field", "field": "title" });
        return Err(invalid(error));
    }
    for (field, text, most) in [("title", title, TITLE), ("body", body, BODY)] {
        if text.is_some_and(|text| text.chars().count() > most) {
            let message = format!("{field} is too long (maximum is {most} characters)");
            let error = json!({ "resource": "Issue", "code": "custom", "field": field, "message": message });
            return Err(invalid(error));
        }
    }
    Ok(())
}

/// Returns the commits of head and base, between which there must be something to merge.
fn check_branches(
    git: &Git,
    home: &Repo,
    repo: &str,
    input: &NewPull,
) -> Result<[String; 2], EndpointError> {
    let NewPull { head, base, .. } = input;
    let find = |name: &str, field: &str| {
        branch(&home.git_dir, name)?.ok_or_else(|| {
            let error = json!({ "resource": "PullRequest", "field": field, "code": "invalid" });
            EndpointError::from(invalid(error))
        })
    };
    let (base_sha, head_sha) = (find(base, "base")?, find(head, "head")?);
    let custom = |message: String| {
        let error = json!({ "resource": "PullRequest", "code": "custom", "message": message });
        EndpointError::from(invalid(error))
    };
    if git.commits(&home.git_dir, &base_sha, &head_sha)?.is_empty() {
        return Err(custom(format!("No commits between {base} and {head}")));
    }
    let is_there = home.pulls.values().any(|pull| {
        pull.is_open()
            && pull.head_repo.as_deref() == Some(repo)
            && (&pull.head_ref, &pull.base_ref) == (head, base)
    });
    if is_there {
        let owner = repo.split('/').next().unwrap_or_default();
        let message = format!("A pull request already exists for {owner}:{head}.");
        return Err(custom(message));
    }
    Ok([head_sha, base_sha])
}

fn invalid(error: Value) -> Refusal {
    Refusal {
        errors: vec![error],
        ..refusal(422, "Validation Failed")
    }
}

/// Returns the next number of a pull request that no issue has. Issues of tests have higher ones.
fn next_number(home: &Repo) -> i64 {
    let last = home.pulls.last_key_value().map_or(0, |(number, _)| *number);
    let mut number = last + 1;
    while home.issues.contains_key(&number) {
        number += 1;
    }
    number
}
