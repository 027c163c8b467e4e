//! The actual head of a pull request's branch. The forge may show an old head for minutes; the git remote does not.

use std::time::Duration;

use super::Intake;
use super::read::Before;
use crate::blackboard as bb;
use crate::pull_request::{Comment, CommentKind, PullRow, PullState, Trust, TrustDecision};
use crate::remote::RemoteError;

/// Time limit for one request to the remote. Other pull requests wait for it.
const REMOTE_LIMIT: Duration = Duration::from_secs(30);

/// The forge's response about the branch.
pub(super) struct ForgeHead<'a> {
    pub(super) state: PullState,
    pub(super) head: &'a str,
    pub(super) new: &'a [(Comment, TrustDecision)],
}

impl Intake {
    /// The head to store.
    ///
    /// The remote is asked only where the forge contradicts what is known, so that a quiet poll costs nothing.
    pub(super) async fn actual_head(
        &self,
        before: &Before,
        row: &PullRow,
        shown: &ForgeHead<'_>,
    ) -> bb::Result<String> {
        if shown.state != PullState::Open || !contradicts(&before.change.head, shown) {
            return Ok(shown.head.to_owned());
        }
        if let Some(head) = self.remote_head(before).await {
            return Ok(head);
        }
        // It cannot be confirmed: an older head is lag, a new one can only come from a push.
        let (id, head) = (before.change.change_id.clone(), shown.head.to_owned());
        let is_older = self
            .db
            .read(move |conn| bb::was_on_remote(conn, &id, &head));
        Ok(if is_older.await? {
            row.head_sha.clone()
        } else {
            shown.head.to_owned()
        })
    }

    /// None: the remote could not be reached, or has no such branch.
    async fn remote_head(&self, before: &Before) -> Option<String> {
        before.project.remote_url.as_ref()?;
        let remote = (self.repository)(&before.project);
        let look = async {
            remote.ready().await?;
            let settings = remote.push_settings().await?;
            // An agent may have changed the destination of credentials: a person is asked when a push needs them.
            let known = self
                .db
                .read(move |conn| bb::may_use_git_settings(conn, &settings.fingerprint))
                .await;
            if !matches!(known, Ok(true)) {
                return Ok(None);
            }
            remote.head_of(&before.change.branch).await
        };
        tokio::select! {
            looked = look => looked.unwrap_or_else(|error: RemoteError| {
                tracing::warn!(change = %before.change.change_id, %error, "cannot read the head from the remote");
                None
            }),
            () = tokio::time::sleep(REMOTE_LIMIT) => {
                tracing::warn!(change = %before.change.change_id, "no answer from the remote within {REMOTE_LIMIT:?}");
                None
            }
        }
    }
}

/// True if the forge shows another head than the known one, or a new review of another head than it shows.
fn contradicts(known: &str, shown: &ForgeHead<'_>) -> bool {
    let is_of_another_head = |(comment, decision): &(Comment, TrustDecision)| {
        decision.trust == Trust::MayMakeWork
            && comment.kind == CommentKind::Review
            && comment
                .commit
                .as_deref()
                .is_some_and(|commit| commit != shown.head)
    };
    shown.head != known || shown.new.iter().any(is_of_another_head)
}
