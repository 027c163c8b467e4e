//! What can be written: reviews, comments, answers, requests for review, dismissals.

use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Refusal, Reply, Stop, not_found, refusal, unprocessable};
use super::diff::{Place, place};
use super::git::Git;
use super::look::{known, known_pull};
use super::request::{API, Request};
use super::said::On;
use super::state::{Comment, Forge, IssueComment, Pull, Review, Side};
use crate::pull_request::ReviewState;

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

/// Without one GitHub keeps a draft that only its author sees; the stand-in has no drafts.
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
struct Words {
    body: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reviewers {
    reviewers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dismissal {
    message: String,
    #[serde(default, rename = "event")]
    _event: Option<String>,
}

pub(super) async fn review(
    forge: &mut Forge,
    git: &Git,
    on: &On<'_>,
    request: &Request,
) -> Result<Reply, Stop> {
    let me = me(forge)?;
    let new: NewReview = sent(request)?;
    let pull = known_pull(forge, on)?;
    let is_own = pull.author.eq_ignore_ascii_case(&me);
    let state = match new.event {
        Event::Approve if is_own => {
            return Err(unprocessable("Review Can not approve your own pull request").into());
        }
        Event::RequestChanges if is_own => {
            return Err(
                unprocessable("Review Can not request changes on your own pull request").into(),
            );
        }
        Event::Approve => ReviewState::Approved,
        Event::RequestChanges => ReviewState::ChangesRequested,
        Event::Comment => ReviewState::Commented,
    };
    let body = new.body.unwrap_or_default();
    if body.trim().is_empty() && new.comments.is_empty() && new.event != Event::Approve {
        return Err(unprocessable("Review body can't be blank").into());
    }
    let git_dir = &known(forge, on.repo)?.git_dir;
    if let Some(commit) = &new.commit_id
        && *commit != pull.head_sha
        && !git
            .commits(git_dir, &pull.base_sha, &pull.head_sha)
            .await?
            .contains(commit)
    {
        return Err(unprocessable("Commit is not part of the pull request").into());
    }
    let commit = new.commit_id.unwrap_or_else(|| pull.head_sha.clone());
    let diff = if new.comments.is_empty() {
        String::new()
    } else {
        git.diff(git_dir, &pull.base_sha, &commit).await?
    };
    let hunks: Vec<String> = new
        .comments
        .iter()
        .map(|comment| hunk(&diff, comment))
        .collect::<Result<_, _>>()?;
    let at = forge.stamp()?;
    let id = forge.new_id();
    for (comment, hunk) in new.comments.into_iter().zip(hunks) {
        let made = Comment {
            id: forge.new_id(),
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
        open(forge, on)?.comments.push(made);
    }
    let made = Review {
        id,
        author: me.clone(),
        state,
        commit: Some(commit),
        body,
        submitted_at: at.clone(),
    };
    let shape = forge.review(on, &made);
    let pull = open(forge, on)?;
    pull.reviews.push(made);
    // Who has answered is not asked any longer.
    pull.requested_reviewers
        .retain(|login| !login.eq_ignore_ascii_case(&me));
    pull.updated_at = at;
    Ok(Reply::One(shape))
}

fn hunk(diff: &str, comment: &NewComment) -> Result<String, Refusal> {
    let start_side = comment.start_side.unwrap_or(comment.side);
    if let Some(start) = comment.start_line
        && place(diff, &comment.path, start, start_side) == Place::NoLine
    {
        return Err(unprocessable("Start line could not be resolved"));
    }
    match place(diff, &comment.path, comment.line, comment.side) {
        Place::NoPath => Err(unprocessable("Path could not be resolved")),
        Place::NoLine => Err(unprocessable("Line could not be resolved")),
        Place::Found(hunk) => Ok(hunk),
    }
}

pub(super) fn issue_comment(
    forge: &mut Forge,
    on: &On<'_>,
    request: &Request,
) -> Result<Reply, Stop> {
    let author = me(forge)?;
    let body = words(request, "IssueComment")?;
    known_pull(forge, on)?;
    let at = forge.stamp()?;
    let made = IssueComment {
        id: forge.new_id(),
        author,
        body,
        created_at: at.clone(),
        updated_at: at.clone(),
    };
    let shape = forge.issue_comment(on, &made);
    let address = format!("{API}/repos/{}/issues/comments/{}", on.repo, made.id);
    let pull = open(forge, on)?;
    pull.issue_comments.push(made);
    pull.updated_at = at;
    Ok(Reply::Made(shape, address))
}

pub(super) fn reply(
    forge: &mut Forge,
    on: &On<'_>,
    to: &str,
    request: &Request,
) -> Result<Reply, Stop> {
    let author = me(forge)?;
    let body = words(request, "PullRequestReviewComment")?;
    let is_meant = |comment: &&Comment| comment.id.to_string() == to;
    let first = known_pull(forge, on)?
        .comments
        .iter()
        .find(is_meant)
        .ok_or_else(not_found)?;
    let mut made = Comment {
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
        // A thread has one beginning: an answer to an answer belongs to that.
        in_reply_to: first.in_reply_to.or(Some(first.id)),
        is_outdated: first.is_outdated,
        created_at: String::new(),
        updated_at: String::new(),
    };
    let at = forge.stamp()?;
    (made.created_at, made.updated_at) = (at.clone(), at.clone());
    // GitHub wraps each answer into a review without words.
    let review = Review {
        id: forge.new_id(),
        author,
        state: ReviewState::Commented,
        commit: Some(made.commit.clone()),
        body: String::new(),
        submitted_at: at.clone(),
    };
    (made.id, made.review) = (forge.new_id(), Some(review.id));
    let shape = forge.comment(on, &made);
    let address = format!("{API}/repos/{}/pulls/comments/{}", on.repo, made.id);
    let pull = open(forge, on)?;
    pull.reviews.push(review);
    pull.comments.push(made);
    pull.updated_at = at;
    Ok(Reply::Made(shape, address))
}

pub(super) fn request_reviewers(
    forge: &mut Forge,
    on: &On<'_>,
    request: &Request,
) -> Result<Reply, Stop> {
    may_write(forge, on.repo)?;
    let asked: Reviewers = sent(request)?;
    let pull = known_pull(forge, on)?;
    if asked
        .reviewers
        .iter()
        .any(|login| login.eq_ignore_ascii_case(&pull.author))
    {
        return Err(refusal(422, "Review cannot be requested from pull request author.").into());
    }
    let home = known(forge, on.repo)?;
    let is_known = |login: &String| {
        home.permissions
            .keys()
            .any(|known| known.eq_ignore_ascii_case(login))
    };
    if !asked.reviewers.iter().all(is_known) {
        let message = format!(
            "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not \
             a collaborator of the {} repository.",
            on.repo
        );
        return Err(refusal(422, message).into());
    }
    let at = forge.stamp()?;
    let pull = open(forge, on)?;
    for login in asked.reviewers {
        if !pull
            .requested_reviewers
            .iter()
            .any(|known| known.eq_ignore_ascii_case(&login))
        {
            pull.requested_reviewers.push(login);
        }
    }
    pull.updated_at = at;
    let shape = forge.pull(on.repo, on.number, known_pull(forge, on)?);
    let address = format!("{API}/repos/{}/pulls/{}", on.repo, on.number);
    Ok(Reply::Made(shape, address))
}

pub(super) fn dismiss(
    forge: &mut Forge,
    on: &On<'_>,
    review: &str,
    request: &Request,
) -> Result<Reply, Stop> {
    may_write(forge, on.repo)?;
    let dismissal: Dismissal = sent(request)?;
    if dismissal.message.trim().is_empty() {
        return Err(unprocessable("Message can't be blank").into());
    }
    let is_meant = |known: &&Review| known.id.to_string() == review;
    let found = known_pull(forge, on)?
        .reviews
        .iter()
        .find(is_meant)
        .ok_or_else(not_found)?;
    match found.state {
        ReviewState::Approved | ReviewState::ChangesRequested => {}
        ReviewState::Commented | ReviewState::Dismissed | ReviewState::Pending => {
            let state = found.state.as_str().to_lowercase();
            return Err(
                unprocessable(&format!("Can not dismiss a {state} pull request review")).into(),
            );
        }
    }
    let id = found.id;
    let at = forge.stamp()?;
    let pull = open(forge, on)?;
    pull.updated_at = at;
    for known in pull.reviews.iter_mut().filter(|known| known.id == id) {
        known.state = ReviewState::Dismissed;
    }
    let found = known_pull(forge, on)?
        .reviews
        .iter()
        .find(|known| known.id == id)
        .ok_or_else(not_found)?;
    Ok(Reply::One(forge.review(on, found)))
}

fn me(forge: &Forge) -> Result<String, Refusal> {
    forge
        .me
        .clone()
        .ok_or_else(|| refusal(401, "Requires authentication"))
}

fn may_write(forge: &Forge, repo: &str) -> Result<(), Refusal> {
    let home = known(forge, repo)?;
    if forge.permission(home, &me(forge)?).may_write() {
        Ok(())
    } else {
        Err(refusal(
            403,
            "Resource not accessible by personal access token",
        ))
    }
}

fn open<'a>(forge: &'a mut Forge, on: &On<'_>) -> Result<&'a mut Pull, Refusal> {
    forge
        .repos
        .get_mut(on.repo)
        .and_then(|repo| repo.pulls.get_mut(&on.number))
        .ok_or_else(not_found)
}

/// What was sent, if it is JSON of the shape that remand has reason to send. A shape that GitHub would refuse or pass
/// over is a mistake in remand.
fn sent<T: for<'de> Deserialize<'de>>(request: &Request) -> Result<T, Stop> {
    serde_json::from_slice(&request.body)
        .map_err(|error| Stop::Unknown(format!("this body: {error}")))
}

/// The text of a comment, which must not be empty.
fn words(request: &Request, resource: &str) -> Result<String, Stop> {
    let body = sent::<Words>(request)?.body;
    if body.trim().is_empty() {
        let error = json!({ "resource": resource, "field": "body", "code": "missing_field" });
        return Err(Refusal {
            errors: vec![error],
            ..refusal(422, "Validation Failed")
        }
        .into());
    }
    if body.chars().count() > 65_536 {
        let message = "body is too long (maximum is 65536 characters)";
        let error: Value =
            json!({ "resource": resource, "field": "body", "code": "custom", "message": message });
        return Err(Refusal {
            errors: vec![error],
            ..refusal(422, "Validation Failed")
        }
        .into());
    }
    Ok(body)
}
