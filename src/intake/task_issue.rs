//! The issue of a task. A person who names it consents to its title and text as they are now; its comments count if
//! their authors may write to the repository.

use super::{Intake, IntakeError, Result};
use crate::github::{CommentList, GithubError, Marks};
use crate::pull_request::{AuthorKind, Comment};
use crate::task::{IssueComment, TaskIssue};

/// Maximum number of bytes of the text of an issue with its comments; half of it for its own text.
const MOST: usize = 200_000;

impl Intake {
    pub(crate) async fn task_issue(&self, repo: &str, number: i64) -> Result<TaskIssue> {
        let issue = match self.github.issue(repo, number).await {
            Err(GithubError::NotFound { .. }) => {
                let what =
                    format!("--issue: {repo} has no issue {number}, or gh's account cannot see it");
                return Err(IntakeError::refused(
                    what,
                    "check the number, and `gh auth status`",
                ));
            }
            issue => issue?,
        };
        if issue.is_pull {
            let what = format!("--issue: {repo}#{number} is a pull request");
            let hint = format!("`remand watch {repo}#{number}` takes it over");
            return Err(IntakeError::refused(what, hint));
        }
        if !issue.is_open {
            let what = format!("--issue: {repo}#{number} is closed");
            return Err(IntakeError::refused(
                what,
                "reopen it, or describe the task with --body",
            ));
        }
        let none = Marks::default();
        let list = CommentList::IssueComments;
        let comments = self.github.comments(list, repo, number, &none);
        let mut accepted = Vec::new();
        let mut size = issue.body.len().min(MOST / 2);
        for comment in comments.await?.items {
            if size + comment.body.len() <= MOST && self.may_describe(repo, &comment).await? {
                size += comment.body.len();
                let author = comment.author.as_ref();
                accepted.push(IssueComment {
                    author: author
                        .map(|author| author.login.clone())
                        .unwrap_or_default(),
                    body: comment.body,
                });
            }
        }
        Ok(TaskIssue {
            number,
            title: issue.title,
            body: issue
                .body
                .get(..issue.body.floor_char_boundary(MOST / 2))
                .unwrap_or_default()
                .to_owned(),
            url: format!("https://github.com/{repo}/issues/{number}"),
            comments: accepted,
        })
    }

    async fn may_describe(&self, repo: &str, comment: &Comment) -> Result<bool> {
        match comment
            .author
            .as_ref()
            .filter(|author| author.kind == AuthorKind::User)
        {
            Some(author) => Ok(self.permission(repo, author).await?.may_write()),
            None => Ok(false),
        }
    }
}
