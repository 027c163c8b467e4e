//! Posts on pull requests, each exactly once: every post is recorded as an intent with a marker first, and the marker
//! is searched for whenever an earlier attempt may have succeeded.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::post_text as text;
use super::rerun::rerun;
use crate::blackboard::{self as bb, Intent, IntentKind, PastReview, PostDone};
use crate::change::Change;
use crate::clock;
use crate::dispatch::Dispatch;
use crate::dispatch::interrupt::chain;
use crate::dispatch::run::reclaim::is_dead;
use crate::failpoint::crash_point;
use crate::finding::{Finding, Verdict};
use crate::github::{
    CommentList, Github, GithubError, Marks, NewInline, NewReview, Posted, ReviewEvent,
};
use crate::intent::{IntentResult, Payload, PostedReview};
use crate::process;
use crate::pull_request::{Comment, CommentKind, PostReviews, ReviewState, marker_line, marker_of};
use crate::remote::tells_a_secret;
use crate::sanitize::posted;

/// Interval of checks without a wake-up.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// True if the repository was renamed; writes do not follow redirects.
fn is_elsewhere(status: u16) -> bool {
    (300..=399).contains(&status)
}

/// The target of a post.
struct PostTarget<'a> {
    github: &'a Github,
    repo: String,
    number: i64,
    change: Change,
}

impl Dispatch {
    /// Posts open intents until `stop`.
    pub(crate) async fn run_posts(self: Arc<Self>, wake: Arc<Notify>, stop: CancellationToken) {
        if let Err(error) = self.detach_worktrees().await {
            tracing::error!(error = ?error, "cannot detach worktrees from their branches");
        }
        if let Err(error) = self.settle_pushes().await {
            tracing::error!(error = ?error, "cannot look up interrupted pushes");
        }
        while !stop.is_cancelled() {
            if let Err(error) = self.post_due(&stop).await {
                tracing::error!(error = ?error, "posting failed");
            }
            let next = self.db.read(bb::next_post).await.ok().flatten();
            let pause = next.map_or(LOOK_AGAIN, |moment| moment.since(clock::now()));
            tokio::select! {
                () = wake.notified() => {}
                () = tokio::time::sleep(pause.clamp(Duration::from_millis(100), LOOK_AGAIN)) => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Posts everything that is due. Returns the number of posts.
    pub(crate) async fn post_due(&self, stop: &CancellationToken) -> bb::Result<usize> {
        let due = self.db.read(|conn| bb::open_posts(conn, clock::now()));
        let mut posted = 0;
        for intent in due.await? {
            if stop.is_cancelled() {
                break;
            }
            // An intent that we hold ourselves is left from a failed write: only one at a time is posted here.
            if let Some(holder) = &intent.claimed_by
                && *holder != self.holder
                && !is_dead(holder)
            {
                continue;
            }
            posted += usize::from(self.post(intent).await?);
        }
        Ok(posted)
    }

    async fn post(&self, intent: Intent) -> bb::Result<bool> {
        let (listed, holder) = (intent.clone(), self.holder.clone());
        let claimed = self.db.write("claim_post", move |conn| {
            bb::claim_post(conn, &listed.key, listed.claimed_by.as_deref(), &holder)
        });
        if !claimed.await? {
            return Ok(false);
        }
        if let Some(why) = self.kill_leftover_gh(&intent).await {
            return self.put_off(intent, why).await;
        }
        let read = self.db.read_of(&intent.change_id, bb::change_and_project);
        let (change, project) = read.await?;
        let (Some(repo), Some(number)) = (project.repo, change.pr_number) else {
            let reason = "the project has no repository on the forge";
            return self.give_up(intent, reason).await;
        };
        if change.state.is_over() {
            let reason = format!("the change is {}", change.state);
            return self.give_up(intent, &reason).await;
        }
        self.db.check()?;
        let page = PostTarget {
            github: &self.settings.forge.github,
            repo,
            number,
            change,
        };
        let done = match self.find_or_post(&page, &intent).await {
            Ok(done) => done,
            Err(Unposted::Never(reason)) => return self.give_up(intent, &reason).await,
            Err(Unposted::Blackboard(error)) => return Err(error),
            Err(Unposted::Forge(error)) => return self.put_off(intent, error).await,
        };
        crash_point!("post.{}.after", intent.kind);
        self.db
            .write("post_done", move |conn| {
                bb::post_done(conn, &intent, &done, clock::now())
            })
            .await?;
        self.after.notify_one();
        Ok(true)
    }

    /// A killed remand leaves its gh running, whose post may not be visible yet. That gh is ended, and the forge is
    /// searched for its post later.
    async fn kill_leftover_gh(&self, intent: &Intent) -> Option<GithubError> {
        let dead = intent
            .claimed_by
            .as_ref()
            .filter(|holder| **holder != self.holder)?;
        let what = match process::end_marked(forge_mark(dead).as_ref()).await {
            Ok(0) => return None,
            Ok(_) => "a gh process left by a killed remand was still running".to_owned(),
            Err(error) => chain(&error),
        };
        Some(GithubError::Transient {
            path: intent.key.clone(),
            what,
        })
    }

    /// Posts an intent, unless an earlier attempt succeeded.
    async fn find_or_post(
        &self,
        page: &PostTarget<'_>,
        intent: &Intent,
    ) -> Result<PostDone, Unposted> {
        // Never tried: it cannot be there.
        let may_be_there = intent.tries > 0 || intent.claimed_by.is_some();
        let there = match intent.marker.as_ref().filter(|_| may_be_there) {
            Some(marker) => page.find(marker, intent.kind).await?,
            None => None,
        };
        match (&intent.payload, there) {
            (Payload::Review(posted), there) => self.put_review(page, intent, posted, there).await,
            (_, Some(comment)) => Ok(found(intent, &comment)),
            (Payload::Answer(reply), None) => {
                let Some(comment) = reply.comment else {
                    return Err(Unposted::Never(
                        "it does not name the comment that it answers".into(),
                    ));
                };
                let body = self.fit(&text::answer(reply), intent)?;
                crash_point!("post.{}.before", intent.kind);
                let (github, repo, number) = (page.github, &page.repo, page.number);
                let posted = github.reply(repo, number, comment, &body).await?;
                let (kind, result) = (CommentKind::ReviewComment, IntentResult::Done);
                Ok(done(intent, kind, &posted, result))
            }
            (Payload::Note(note), None) => {
                let body = self.fit(&text::note(note, &page.change, &page.name()), intent)?;
                Ok(page.comment(intent, &body, IntentResult::Done).await?)
            }
            (Payload::Ask(ask), None) => {
                crash_point!("post.{}.before", intent.kind);
                let asked = page.ask(ask.logins.clone()).await?;
                let summary = format!("requested another review from {}", asked.join(", "));
                Ok(PostDone {
                    result: IntentResult::Done,
                    forge_id: None,
                    url: None,
                    summary,
                })
            }
            (Payload::Rerun(request), None) => {
                let what = (intent, request);
                rerun(page.github, &page.repo, &page.change, what).await
            }
            (Payload::Push(_), None) => Err(Unposted::Never("a push is not a post".into())),
        }
    }

    /// Posts our review, and withdraws earlier ones if it passes. Both are repeated if the second step fails.
    async fn put_review(
        &self,
        page: &PostTarget<'_>,
        intent: &Intent,
        posted: &PostedReview,
        there: Option<Comment>,
    ) -> Result<PostDone, Unposted> {
        let Some(id) = &posted.review_id else {
            return Err(Unposted::Never("it does not name its review".into()));
        };
        let (_, review) = self.db.read_of(id, bb::review).await?;
        let change_id = &page.change.change_id;
        let last = self.db.read_of(change_id, bb::last_review).await?;
        // This one may come late: the latest verdict counts.
        let objects = last.as_ref().unwrap_or(&review).verdict == Verdict::ChangesRequested;
        let mut done = match there {
            Some(comment) => found(intent, &comment),
            None => {
                let rejects = objects && review.verdict == Verdict::ChangesRequested;
                let event = if rejects {
                    ReviewEvent::RequestChanges
                } else {
                    ReviewEvent::Comment
                };
                self.post_review(page, intent, &posted.findings, &review, event)
                    .await?
            }
        };
        if !objects {
            self.withdraw_earlier(page, intent).await?;
            if done.result == IntentResult::RequestChanges {
                page.dismiss(done.forge_id.as_deref()).await?;
                done.result = IntentResult::Dismissed;
            }
        }
        Ok(done)
    }

    /// Posts a review; if the forge refuses it, posts it without inline comments, and then as a comment.
    async fn post_review(
        &self,
        page: &PostTarget<'_>,
        intent: &Intent,
        findings: &[Finding],
        review: &PastReview,
        event: ReviewEvent,
    ) -> Result<PostDone, Unposted> {
        let mode = self.settings.forge.reviews;
        if mode == PostReviews::Off {
            if review.verdict == Verdict::Approved && page.change.notify_ready {
                let body = self.fit(&text::approved(&review.head, &page.change), intent)?;
                return Ok(page
                    .comment(intent, &body, IntentResult::IssueComment)
                    .await?);
            }
            return Err(Unposted::Never(
                "reviews are not posted (`reviews = \"off\"`)".into(),
            ));
        }
        let event = match event {
            ReviewEvent::RequestChanges
                if mode == PostReviews::RequestChanges && !self.is_by_us(page).await? =>
            {
                event
            }
            ReviewEvent::RequestChanges | ReviewEvent::Comment => ReviewEvent::Comment,
        };
        let (mut placed, mut rest) = (Vec::new(), Vec::new());
        for finding in findings {
            match inline(finding, review) {
                // Each has the marker, so that it is recognised as ours even if it is read immediately.
                Some(one) => placed.push(NewInline {
                    body: self.fit(&one.body, intent)?,
                    ..one
                }),
                None => rest.push(finding.clone()),
            }
        }
        self.refuse_secret(review.summary.as_deref().unwrap_or_default())?;
        let body =
            |listed: &[Finding]| self.fit(&text::review(review, listed, &page.change), intent);
        let whole = body(findings)?;
        let in_review = if event == ReviewEvent::RequestChanges {
            IntentResult::RequestChanges
        } else {
            IntentResult::Comment
        };
        // A finding with an inline comment is not repeated in the body.
        let mut ways = vec![(Vec::new(), whole.clone())];
        if !placed.is_empty() {
            ways.insert(0, (placed, body(&rest)?));
        }
        for (comments, body) in ways {
            let new = NewReview {
                commit: review.head.clone(),
                body,
                event,
                comments,
            };
            crash_point!("post.{}.before", intent.kind);
            match page.github.post_review(&page.repo, page.number, &new).await {
                Ok(posted) => return Ok(done(intent, CommentKind::Review, &posted, in_review)),
                Err(GithubError::Refused {
                    status, message, ..
                }) if !is_elsewhere(status) => {
                    tracing::info!(status, message = ?message, "GitHub refused the review; trying another way to post it");
                }
                Err(error) => return Err(error.into()),
            }
        }
        let result = IntentResult::IssueComment;
        Ok(page.comment(intent, &whole, result).await?)
    }

    /// True if the pull request is by the account that gh is logged in with: GitHub does not let authors request
    /// changes on their own pull requests.
    async fn is_by_us(&self, page: &PostTarget<'_>) -> Result<bool, Unposted> {
        let id = &page.change.change_id;
        let pull = self.db.read_of(id, bb::pull_of_change).await?;
        match pull.and_then(|pull| pull.author_id) {
            Some(author) => Ok(page.github.is_logged_in_as(author).await?),
            None => Ok(false),
        }
    }

    /// Our own earlier "changes requested" would block the merge forever: a later review by remand that passes
    /// withdraws it. Reviews by others are not touched. If the forge does not allow it, the review stays.
    async fn withdraw_earlier(
        &self,
        page: &PostTarget<'_>,
        intent: &Intent,
    ) -> Result<(), Unposted> {
        let id = &page.change.change_id;
        let earlier = self.db.read_of(id, bb::reviews_on_pull).await?;
        let stands = |old: &&Intent| {
            old.key != intent.key && old.result == Some(IntentResult::RequestChanges)
        };
        for old in earlier.iter().filter(stands) {
            page.dismiss(old.forge_id.as_deref()).await?;
            let key = old.key.clone();
            self.db
                .write("dismissed", move |conn| {
                    bb::change_result(conn, &key, IntentResult::Dismissed)
                })
                .await?;
        }
        Ok(())
    }

    /// Adds the marker to a text, unless the text or its source contains a secret.
    fn fit(&self, body: &str, intent: &Intent) -> Result<String, Unposted> {
        self.refuse_secret(body)?;
        self.refuse_secret(&intent.payload.texts())?;
        let marker = intent.marker.as_deref().unwrap_or_default();
        Ok(format!("{}\n\n{}", posted(body), marker_line(marker)))
    }

    fn refuse_secret(&self, body: &str) -> Result<(), Unposted> {
        if tells_a_secret(body, &self.settings.forge.secrets) {
            return Err(Unposted::Never("it contains a secret".into()));
        }
        Ok(())
    }

    async fn put_off(&self, intent: Intent, error: GithubError) -> bb::Result<bool> {
        let reason = format!("{error} ({})", error.hint());
        // Only a refusal of the post itself ends it; an outage may last for days.
        let is_gone = matches!(error, GithubError::NotFound { .. });
        // A renamed repository waits until the project has its new name.
        let is_refused =
            matches!(error, GithubError::Refused { status, .. } if !is_elsewhere(status));
        let never = is_gone || is_refused;
        // A reply to a deleted comment, or a request to somebody who cannot be asked, is not missed.
        let is_missed = match intent.kind {
            IntentKind::Ask | IntentKind::Push | IntentKind::Rerun => false,
            IntentKind::Answer => !is_gone,
            IntentKind::Review | IntentKind::Note => true,
        };
        if never && !is_missed {
            return self.give_up(intent, &reason).await;
        }
        if never {
            self.db
                .write("refused_post", move |conn| {
                    bb::refused_post(conn, &intent, &reason, clock::now())
                })
                .await?;
            return Ok(true);
        }
        let now = clock::now();
        let reset = if let GithubError::Limited { until } = error {
            until.filter(|until| *until > now)
        } else {
            None
        };
        let until = reset.map_or_else(
            || self.settings.backoff(intent.tries, now),
            |until| until.min(now.plus(bb::RATE_WINDOW)),
        );
        tracing::warn!(key = %intent.key, reason = ?reason, until = %until, "post postponed");
        self.db
            .write("put_off_post", move |conn| {
                bb::put_off_post(conn, &intent.key, &reason, until)
            })
            .await?;
        Ok(false)
    }

    async fn give_up(&self, intent: Intent, reason: &str) -> bb::Result<bool> {
        let reason = reason.to_owned();
        self.db
            .write("give_up_post", move |conn| {
                bb::give_up_post(conn, &intent, &reason, clock::now())
            })
            .await?;
        Ok(true)
    }
}

impl PostTarget<'_> {
    /// Name of the pull request as people and commands write it.
    fn name(&self) -> String {
        format!("{}#{}", self.repo, self.number)
    }

    /// Posts a comment on the pull request itself.
    async fn comment(
        &self,
        intent: &Intent,
        body: &str,
        result: IntentResult,
    ) -> Result<PostDone, GithubError> {
        crash_point!("post.{}.before", intent.kind);
        let (github, repo, number) = (self.github, &self.repo, self.number);
        let posted = github.post_comment(repo, number, body).await?;
        Ok(done(intent, CommentKind::IssueComment, &posted, result))
    }

    /// Finds the comment with the marker. A marker can be copied once it is public, so the kind of comment that was
    /// posted is preferred, and then the oldest one.
    async fn find(&self, marker: &str, kind: IntentKind) -> Result<Option<Comment>, GithubError> {
        let none = Marks::default();
        let (github, repo, number) = (self.github, self.repo.as_str(), self.number);
        let mut all = Vec::new();
        for list in [
            CommentList::Reviews,
            CommentList::IssueComments,
            CommentList::ReviewComments,
        ] {
            all.extend(github.comments(list, repo, number, &none).await?.items);
        }
        // The comments of a review are as old as their lines: they may be older than the review itself.
        let is_inline = |comment: &Comment| comment.kind == CommentKind::ReviewComment;
        let marked = all
            .into_iter()
            .filter(|comment| marker_of(&comment.body) == Some(marker));
        let meant = marked.filter(|comment| is_inline(comment) == (kind == IntentKind::Answer));
        Ok(meant.min_by(|a, b| a.created_at.cmp(&b.created_at)))
    }

    /// Dismisses a review by remand, if the forge allows it.
    async fn dismiss(&self, forge_id: Option<&str>) -> Result<(), GithubError> {
        let Some(review) = forge_id.and_then(|id| id.split_once(':')?.1.parse().ok()) else {
            return Ok(());
        };
        let (github, reason) = (self.github, "A later review by remand passed.");
        let dismissed = github.dismiss(&self.repo, self.number, review, reason);
        match dismissed.await {
            Ok(()) | Err(GithubError::NotFound { .. } | GithubError::Auth { .. }) => Ok(()),
            Err(GithubError::Refused { status, .. }) if !is_elsewhere(status) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Requests reviews; people whom the forge does not accept do not prevent the other requests.
    async fn ask(&self, logins: Vec<String>) -> Result<Vec<String>, GithubError> {
        let (github, repo, number) = (self.github, &self.repo, self.number);
        let refused = match github.ask_reviewers(repo, number, &logins).await {
            Ok(()) => return Ok(logins),
            Err(error @ GithubError::Refused { .. }) if logins.len() > 1 => error,
            Err(error) => return Err(error),
        };
        let mut asked = Vec::new();
        for login in logins {
            let one = std::slice::from_ref(&login);
            match github.ask_reviewers(repo, number, one).await {
                Ok(()) => asked.push(login),
                Err(GithubError::Refused { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if asked.is_empty() {
            Err(refused)
        } else {
            Ok(asked)
        }
    }
}

/// Returns the mark that every call of the forge by this holder has in its environment.
pub(crate) fn forge_mark(holder: &str) -> String {
    format!("forge:{holder}")
}

/// Reason why something was not posted.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unposted {
    #[error(transparent)]
    Forge(#[from] GithubError),
    #[error("{0}")]
    Never(String),
    #[error(transparent)]
    Blackboard(#[from] bb::BoardError),
}

fn done(intent: &Intent, kind: CommentKind, posted: &Posted, result: IntentResult) -> PostDone {
    PostDone {
        result,
        forge_id: Some(format!("{kind}:{}", posted.id)),
        url: Some(posted.url.clone()),
        summary: format!("posted {}: {}", intent.key, posted.url),
    }
}

/// Result of an earlier attempt that had succeeded.
fn found(intent: &Intent, comment: &Comment) -> PostDone {
    let result = match (intent.kind, comment.kind, comment.state) {
        (IntentKind::Review, CommentKind::Review, Some(ReviewState::ChangesRequested)) => {
            IntentResult::RequestChanges
        }
        (IntentKind::Review, CommentKind::Review, _) => IntentResult::Comment,
        (IntentKind::Review, _, _) => IntentResult::IssueComment,
        (
            IntentKind::Push
            | IntentKind::Answer
            | IntentKind::Note
            | IntentKind::Ask
            | IntentKind::Rerun,
            _,
            _,
        ) => IntentResult::Done,
    };
    PostDone {
        result,
        forge_id: Some(comment.key()),
        url: Some(comment.url.clone()),
        summary: format!(
            "{} is already on the pull request: {}",
            intent.key, comment.url
        ),
    }
}

/// A finding at a line of a file that the review was given.
fn inline(finding: &Finding, review: &PastReview) -> Option<NewInline> {
    let path = finding.path.as_ref()?;
    let line = finding.line.filter(|line| *line > 0)?;
    let mut files = review.files.as_array()?.iter();
    let is_in_diff = files.any(|file| file.as_str() == Some(path.as_str()));
    is_in_diff.then(|| NewInline {
        path: path.clone(),
        line: line.into(),
        body: text::inline(finding),
    })
}
