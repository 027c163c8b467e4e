//! Scripted person of the demo: finds what the reviewer missed, and approves once it is fixed.

use serde_json::json;

use super::{PARTS, Part, REPO, Stage};
use crate::change::{Change, State};

pub(super) const LOGIN: &str = "grace";

/// Progress of the scripted person.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grace {
    #[default]
    Waits,
    AskedForMore,
    Approved,
}

impl Grace {
    /// Returns the pull request that Grace reviews.
    pub(crate) fn part() -> Option<&'static Part> {
        PARTS.iter().find(|part| part.branch == "greeting")
    }

    /// Posts a review on Grace's turn: when remand's review has passed, and when she is asked
    /// again.
    pub(crate) async fn look(&mut self, stage: &Stage, change: &Change) -> anyhow::Result<()> {
        let (Some(part), State::ReadyForHumanReview) = (Self::part(), change.state) else {
            return Ok(());
        };
        let pull = format!("repos/{REPO}/pulls/{}", part.number);
        let review = match self {
            Self::Waits => {
                *self = Self::AskedForMore;
                json!({
                    "event": "REQUEST_CHANGES",
                    "body": "",
                    "comments": [{ "path": "greet.sh", "line": 1, "body": "`greet` without a name prints `Hello, !`." }],
                })
            }
            Self::AskedForMore => {
                let seen = stage.github_users.get(LOGIN, &pull).await?;
                let asked = seen
                    .get("requested_reviewers")
                    .and_then(|list| list.as_array())
                    .cloned();
                let is_asked = asked
                    .into_iter()
                    .flatten()
                    .any(|user| user.get("login") == Some(&json!(LOGIN)));
                if !is_asked {
                    return Ok(());
                }
                *self = Self::Approved;
                json!({ "event": "APPROVE", "body": "Much better, thank you." })
            }
            Self::Approved => return Ok(()),
        };
        stage
            .github_users
            .post(LOGIN, &format!("{pull}/reviews"), &review)
            .await?;
        Ok(())
    }
}
