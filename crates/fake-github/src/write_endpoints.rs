//! Endpoints that write: reviews, comments, replies, review requests, dismissals.

use serde::Deserialize;
use serde_json::json;

use crate::diff::{LineInDiff, find_line};
use crate::git::Git;
use crate::json::merge;
use crate::read_endpoints::{find_pull, find_repo, issue_comments};
use crate::request::{API, Request};
use crate::response::{EndpointError, Payload, Refusal, not_found, refusal, unprocessable};
use crate::review_json::PullRef;
use crate::state::{Comment, GithubState, IssueComment, Pull, Review, ReviewState, Side};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewReview {
    #[serde(default)]
    commit_id: Option<String>,
    #[serde(default)]
    body: Option<String>,
    event: Event,
    #[serde(default)]
    comments: Vec<NewComment>,
}

/// The kind of a review. It is required, as the stand-in has no pending reviews.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum Event {
    Approve,
    RequestChanges,
    Comment,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewComment {
    path: String,
    body: String,
    line: i64,
    #[serde(default)]
    side: Side,
    #[serde(default)]
    start_line: Option<i64>,
    #[serde(default)]
    start_side: Option<Side>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommentBody {
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReviewRequest {
    reviewers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dismissal {
    message: String,
    #[serde(default, rename = "event")]
    _event: Option<String>,
}

pub(crate) fn review(
    github: &mut GithubState,
    git: &Git,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    let me = logged_in_user(github)?;
    let input: NewReview = parse_body(request)?;
    let pull = find_pull(github, on)?;
    let is_own = pull.author.eq_ignore_ascii_case(&me);
    let state = review_state(input.event, is_own)?;
    let body = input.body.unwrap_or_default();
    if body.trim().is_empty() && input.comments.is_empty() && input.event != Event::Approve {
        return Err(unprocessable("Review body can't be blank").into());
    }
    let git_dir = &find_repo(github, on.repo)?.git_dir;
    if let Some(commit) = &input.commit_id
        && *commit != pull.head_sha
        && !git
            .commits(git_dir, &pull.base_sha, &pull.head_sha)?
            .contains(commit)
    {
        return Err(unprocessable("Commit is not part of the pull request").into());
    }
    let commit = input.commit_id.unwrap_or_else(|| pull.head_sha.clone());
    let diff = if input.comments.is_empty() {
        String::new()
    } else {
        git.diff(git_dir, &pull.base_sha, &commit)?
    };
    let hunks: Vec<String> = input
        .comments
        .iter()
        .map(|comment| hunk(&diff, comment))
        .collect::<Result<_, _>>()?;
    let at = github.timestamp()?;
    let id = github.new_id();
    for (comment, hunk) in input.comments.into_iter().zip(hunks) {
        let new = Comment {
            id: github.new_id(),
            review: Some(id),
            author: me.clone(),
            body: comment.body,
            path: comment.path,
            line: Some(comment.line),
            side: comment.side,
            start_line: comment.start_line,
            commit: commit.clone(),
            hunk,
            in_reply_to: None,
            is_outdated: false,
            created_at: at.clone(),
            updated_at: at.clone(),
        };
        pull_mut(github, on)?.comments.push(new);
    }
    let new = Review {
        id,
        author: me.clone(),
        state,
        commit: Some(commit),
        body,
        submitted_at: at.clone(),
    };
    let json = github.review(on, &new);
    let pull = pull_mut(github, on)?;
    pull.reviews.push(new);
    // A review completes the request for it.
    pull.requested_reviewers
        .retain(|login| !login.eq_ignore_ascii_case(&me));
    pull.updated_at = at;
    Ok(Payload::Object(json))
}

fn review_state(event: Event, is_own_pull: bool) -> Result<ReviewState, Refusal> {
    match event {
        Event::Approve if is_own_pull => Err(unprocessable(
            "Review Can not approve your own pull request",
        )),
        Event::RequestChanges if is_own_pull => Err(unprocessable(
            "Review Can not request changes on your own pull request",
        )),
        Event::Approve => Ok(ReviewState::Approved),
        Event::RequestChanges => Ok(ReviewState::ChangesRequested),
        Event::Comment => Ok(ReviewState::Commented),
    }
}

/// Returns the part of the diff above a comment, or refuses a comment outside of the diff.
fn hunk(diff: &str, comment: &NewComment) -> Result<String, Refusal> {
    let start_side = comment.start_side.unwrap_or(comment.side);
    if let Some(start) = comment.start_line
        && find_line(diff, &comment.path, start, start_side) == LineInDiff::NoLine
    {
        return Err(unprocessable("Start line could not be resolved"));
    }
    match find_line(diff, &comment.path, comment.line, comment.side) {
        LineInDiff::NoPath => Err(unprocessable("Path could not be resolved")),
        LineInDiff::NoLine => Err(unprocessable("Line could not be resolved")),
        LineInDiff::Found(hunk) => Ok(hunk),
    }
}

pub(crate) fn issue_comment(
    github: &mut GithubState,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    let author = logged_in_user(github)?;
    let body = comment_text(request, "IssueComment")?;
    issue_comments(github, on)?;
    let at = github.timestamp()?;
    let new = IssueComment {
        id: github.new_id(),
        author,
        body,
        created_at: at.clone(),
        updated_at: at.clone(),
    };
    let json = github.issue_comment(on, &new);
    let url = format!("{API}/repos/{}/issues/comments/{}", on.repo, new.id);
    let home = github.repos.get_mut(on.repo).ok_or_else(not_found)?;
    if let Some(issue) = home.issues.get_mut(&on.number) {
        issue.comments.push(new);
        issue.updated_at = at;
    } else if let Some(pull) = home.pulls.get_mut(&on.number) {
        pull.issue_comments.push(new);
        pull.updated_at = at;
    }
    Ok(Payload::Created(json, url))
}

pub(crate) fn reply(
    github: &mut GithubState,
    on: &PullRef<'_>,
    to: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    let author = logged_in_user(github)?;
    let body = comment_text(request, "PullRequestReviewComment")?;
    let has_id = |comment: &&Comment| comment.id.to_string() == to;
    let first = find_pull(github, on)?
        .comments
        .iter()
        .find(has_id)
        .ok_or_else(not_found)?;
    let mut new = Comment {
        id: 0,
        review: None,
        author: author.clone(),
        body,
        path: first.path.clone(),
        line: first.line,
        side: first.side,
        start_line: first.start_line,
        commit: first.commit.clone(),
        hunk: first.hunk.clone(),
        // All replies of a thread refer to its first comment.
        in_reply_to: first.in_reply_to.or(Some(first.id)),
        is_outdated: first.is_outdated,
        created_at: String::new(),
        updated_at: String::new(),
    };
    let at = github.timestamp()?;
    (new.created_at, new.updated_at) = (at.clone(), at.clone());
    // GitHub creates a review without a body for each reply.
    let review = Review {
        id: github.new_id(),
        author,
        state: ReviewState::Commented,
        commit: Some(new.commit.clone()),
        body: String::new(),
        submitted_at: at.clone(),
    };
    (new.id, new.review) = (github.new_id(), Some(review.id));
    let json = github.comment(on, &new);
    let url = format!("{API}/repos/{}/pulls/comments/{}", on.repo, new.id);
    let pull = pull_mut(github, on)?;
    pull.reviews.push(review);
    pull.comments.push(new);
    pull.updated_at = at;
    Ok(Payload::Created(json, url))
}

pub(crate) fn request_reviewers(
    github: &mut GithubState,
    on: &PullRef<'_>,
    request: &Request,
) -> Result<Payload, EndpointError> {
    require_write_access(github, on.repo)?;
    let wanted: ReviewRequest = parse_body(request)?;
    let pull = find_pull(github, on)?;
    if wanted
        .reviewers
        .iter()
        .any(|login| login.eq_ignore_ascii_case(&pull.author))
    {
        return Err(refusal(422, "Review cannot be requested from pull request author.").into());
    }
    let home = find_repo(github, on.repo)?;
    let is_known = |login: &String| {
        home.permissions
            .keys()
            .any(|known| known.eq_ignore_ascii_case(login))
    };
    if !wanted.reviewers.iter().all(is_known) {
        let message = format!(
            "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not \
             a collaborator of the {} repository.",
            on.repo
        );
        return Err(refusal(422, message).into());
    }
    let at = github.timestamp()?;
    let pull = pull_mut(github, on)?;
    for login in wanted.reviewers {
        if !pull
            .requested_reviewers
            .iter()
            .any(|known| known.eq_ignore_ascii_case(&login))
        {
            pull.requested_reviewers.push(login);
        }
    }
    pull.updated_at = at;
    let json = github.pull(on.repo, on.number, find_pull(github, on)?);
    let url = format!("{API}/repos/{}/pulls/{}", on.repo, on.number);
    Ok(Payload::Created(json, url))
}

pub(crate) fn dismiss(
    github: &mut GithubState,
    on: &PullRef<'_>,
    review: &str,
    request: &Request,
) -> Result<Payload, EndpointError> {
    require_write_access(github, on.repo)?;
    let dismissal: Dismissal = parse_body(request)?;
    if dismissal.message.trim().is_empty() {
        return Err(unprocessable("Message can't be blank").into());
    }
    let has_id = |known: &&Review| known.id.to_string() == review;
    let found = find_pull(github, on)?
        .reviews
        .iter()
        .find(has_id)
        .ok_or_else(not_found)?;
    let refused_state = match found.state {
        ReviewState::Approved | ReviewState::ChangesRequested => None,
        ReviewState::Commented => Some("commented"),
        ReviewState::Dismissed => Some("dismissed"),
        ReviewState::Pending => Some("pending"),
    };
    if let Some(state) = refused_state {
        let message = format!("Can not dismiss a {state} pull request review");
        return Err(unprocessable(&message).into());
    }
    let id = found.id;
    let at = github.timestamp()?;
    let pull = pull_mut(github, on)?;
    pull.updated_at = at;
    for known in pull.reviews.iter_mut().filter(|known| known.id == id) {
        known.state = ReviewState::Dismissed;
    }
    let found = find_pull(github, on)?
        .reviews
        .iter()
        .find(|known| known.id == id)
        .ok_or_else(not_found)?;
    Ok(Payload::Object(github.review(on, found)))
}

pub(crate) fn logged_in_user(github: &GithubState) -> Result<String, Refusal> {
    github
        .me
        .clone()
        .ok_or_else(|| refusal(401, "Requires authentication"))
}

pub(crate) fn require_write_access(github: &GithubState, repo: &str) -> Result<(), Refusal> {
    let home = find_repo(github, repo)?;
    if github
        .permission(home, &logged_in_user(github)?)
        .may_write()
    {
        Ok(())
    } else {
        Err(refusal(
            403,
            "Resource not accessible by personal access token",
        ))
    }
}

pub(crate) fn pull_mut<'a>(
    github: &'a mut GithubState,
    on: &PullRef<'_>,
) -> Result<&'a mut Pull, Refusal> {
    github
        .repos
        .get_mut(on.repo)
        .and_then(|repo| repo.pulls.get_mut(&on.number))
        .ok_or_else(not_found)
}

/// Parses the body of a request. Keys that the stand-in does not know are errors.
pub(crate) fn parse_body<T: for<'de> Deserialize<'de>>(
    request: &Request,
) -> Result<T, EndpointError> {
    serde_json::from_slice(&request.body)
        .map_err(|error| EndpointError::Unsupported(format!("this body: {error}")))
}

/// Parses the body of a request that creates a comment, and checks the length of its text.
fn comment_text(request: &Request, resource: &str) -> Result<String, EndpointError> {
    let body = parse_body::<CommentBody>(request)?.body;
    let problem = if body.trim().is_empty() {
        json!({ "code": "missing_field" })
    } else if body.chars().count() > 65_536 {
        json!({ "code": "custom", "message": "body is too long (maximum is 65536 characters)" })
    } else {
        return Ok(body);
    };
    let error = merge(json!({ "resource": resource, "field": "body" }), problem);
    Err(Refusal {
        errors: vec![error],
        ..refusal(422, "Validation Failed")
    }
    .into())
}
