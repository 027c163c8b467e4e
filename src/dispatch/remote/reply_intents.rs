//! Intents for the posts on a pull request after a fix. Nothing is posted here.

use crate::blackboard::{self as bb, NewIntent, Rest};
use crate::dispatch::interrupt::Result;
use crate::dispatch::prompts::prompt_parts::answered;
use crate::dispatch::task::Task;
use crate::finding::RaisedBy;
use crate::intent::{Ask, Note, Payload, Reply};
use crate::work::Run;

/// Reason why a comment on a file of the branch's agent configuration stays open.
pub(crate) const NOT_TAKEN: &str =
    "this file contains instructions for agents, so only a person may change it.";

impl Task {
    /// Returns the posts that follow a fix: a reply to each inline comment that it was given, a note about what was
    /// done and what was left out, and a review request to people whose whole review it was given.
    pub(crate) async fn answers_to_post(
        &self,
        runs: &[Run],
        head: &str,
        rest: Option<&Rest>,
    ) -> Result<Vec<NewIntent>> {
        if !self.change.has_pr() {
            return Ok(Vec::new());
        }
        let (answers, coverage) = (self.all_answers(runs), self.coverage().await?);
        let left_out = rest
            .map(|rest| rest.left_out.as_slice())
            .unwrap_or_default();
        let item = self.item.item_id.clone();
        let read = self.read(move |conn| {
            let undone = bb::undone_paths(conn, &item)?;
            Ok((bb::rejections_in(conn, &item)?, undone))
        });
        let (rejections, undone) = read.await?;
        let new = |key: String, payload: Payload| NewIntent {
            key,
            change_id: self.change.change_id.clone(),
            payload,
            epoch: self.claim.epoch,
        };
        let id = &self.change.change_id;
        let pull = self.read_of(id, bb::pull_of_change).await?;
        let author = pull.and_then(|pull| pull.author);
        let mut posts = Vec::new();
        let mut logins: Vec<String> = Vec::new();
        let mut done: Vec<Reply> = Vec::new();
        for rejection in &rejections {
            for (finding, answer) in answered(rejection, &coverage, &answers, &undone) {
                let (answer, reason) = answer.unzip();
                let reply = Reply {
                    comment: finding.inline_comment(),
                    answer,
                    reason,
                    sha: Some(head.to_owned()),
                    path: finding.path.clone(),
                    line: finding.line,
                    // The rest of a check is its log, which is on its own page.
                    text: match (finding.raised_by, &finding.title) {
                        (RaisedBy::Check, Some(title)) => Some(title.clone()),
                        (_, _) => Some(finding.titled_text()),
                    },
                };
                match (reply.comment, &finding.feedback_id) {
                    (Some(_), Some(feedback_id)) => {
                        let key = format!("answer:{}:{feedback_id}", self.item.item_id);
                        posts.push(new(key, Payload::Answer(reply)));
                    }
                    (_, _) => done.push(Reply {
                        comment: None,
                        ..reply
                    }),
                }
            }
            if let Some(command) = rejection.gate() {
                let text = format!("the gate `{}` failed", command.replace('`', "'"));
                done.push(Reply {
                    text: Some(text),
                    ..Reply::default()
                });
            }
            let is_whole = !left_out
                .iter()
                .any(|piece| piece.rejection_id.as_ref() == Some(&rejection.rejection_id));
            // Bots are not asked, and the forge does not accept review requests to authors.
            let person = rejection
                .login()
                .filter(|_| rejection.rejected.begins_round == Some(true));
            if let Some(login) = person
                && is_whole
                && !logins.iter().any(|known| known == login)
                && author.as_deref() != Some(login)
            {
                logins.push(login.to_owned());
            }
        }
        let cycle = self.item.fix_cycle + 1;
        let note = Note::Fixed {
            cycle,
            sha: head.to_owned(),
            done,
            answered: posts.len(),
            left_out: left_out.to_vec(),
        };
        let key = format!("note:{}", self.item.item_id);
        posts.push(new(key, Payload::Note(note)));
        if !logins.is_empty() {
            let key = format!("ask:{}", self.item.item_id);
            posts.push(new(key, Payload::Ask(Ask { logins })));
        }
        Ok(posts)
    }
}
