//! What is to be said on a pull request after a fix, as intents: nothing is posted here.

use serde_json::{Value, json};

use crate::blackboard::{self as bb, IntentKind, NewIntent, Rest};
use crate::dispatch::interrupt::Interrupt;
use crate::dispatch::prompts::prompt_parts::was_told;
use crate::dispatch::task::Task;
use crate::review_text::Stance;
use crate::work::Run;

/// Why a comment on a file of the branch's agent configuration stays open.
pub(crate) const NOT_TAKEN: &str =
    "agents take their orders from this file, so an agent may not change it; a person has to.";

impl Task {
    /// What is to be said on the pull request after a fix: an answer to each inline comment that it was told of, a note of
    /// what was done and what was left out, and a request to those whose whole review it was told.
    pub(crate) async fn answers_to_post(
        &self,
        runs: &[Run],
        head: &str,
        rest: Option<&Rest>,
    ) -> Result<Vec<NewIntent>, Interrupt> {
        if !self.change.has_pr() {
            return Ok(Vec::new());
        }
        let (answers, coverage) = (self.all_answers(runs), self.coverage().await?);
        let left_out = rest
            .map(|rest| rest.left_out.as_slice())
            .unwrap_or_default();
        let item = self.item.item_id.clone();
        let (rejections, undone) = self
            .read(move |conn| {
                Ok((
                    bb::rejections_in(conn, &item)?,
                    bb::undone_paths(conn, &item)?,
                ))
            })
            .await?;
        let new = |key: String, kind, payload: Value| NewIntent {
            key,
            kind,
            change_id: self.change.change_id.clone(),
            payload,
            epoch: self.claim.epoch,
        };
        let id = self.change.change_id.clone();
        let author = self
            .read(move |conn| bb::pull_of_change(conn, &id))
            .await?
            .and_then(|pull| pull.author);
        let mut posts = Vec::new();
        let mut logins: Vec<String> = Vec::new();
        let mut done: Vec<Value> = Vec::new();
        for rejection in &rejections {
            let findings = rejection.metadata.get("findings").and_then(Value::as_array);
            for (at, finding) in findings.into_iter().flatten().enumerate() {
                let word = |key: &str| finding.get(key).and_then(Value::as_str);
                let by_place = format!("{}.{}", rejection.rejection_id, at + 1);
                if !was_told(&coverage, &by_place) {
                    continue;
                }
                let answer = answers
                    .iter()
                    .find(|answer| answer.id == by_place || Some(answer.id.as_str()) == word("id"));
                // Whatever the agent says it did there is not in what was pushed.
                let is_undone =
                    word("path").is_some_and(|path| undone.iter().any(|undone| undone == path));
                let (answer, reason) = match answer {
                    _ if is_undone => (Some(Stance::CannotFix), Some(NOT_TAKEN.to_owned())),
                    Some(answer) => (Some(answer.answer), Some(answer.reason.clone())),
                    None => (None, None),
                };
                let said = json!({
                    "answer": answer.map(|answer| answer.to_string()),
                    "reason": reason,
                    "sha": head,
                    "path": word("path"),
                    "line": finding.get("line"),
                    "text": word("text"),
                });
                let comment = word("forge_id")
                    .and_then(|id| id.strip_prefix("review_comment:")?.parse::<i64>().ok());
                match (comment, word("feedback_id")) {
                    (Some(comment), Some(feedback_id)) => {
                        let mut payload = said;
                        if let Some(keys) = payload.as_object_mut() {
                            keys.insert("comment".into(), json!(comment));
                        }
                        let key = format!("answer:{}:{feedback_id}", self.item.item_id);
                        posts.push(new(key, IntentKind::Answer, payload));
                    }
                    (_, _) => done.push(said),
                }
            }
            if let Some(command) = rejection.gate() {
                done.push(
                    json!({ "text": format!("the gate `{}` was red", command.replace('`', "'")) }),
                );
            }
            let is_whole = !left_out
                .iter()
                .any(|piece| piece.rejection_id.as_ref() == Some(&rejection.rejection_id));
            if let Some(login) = self.person_behind(rejection.event_id).await?
                && is_whole
                && !logins.contains(&login)
                // The forge asks nobody to review his own.
                && author.as_ref() != Some(&login)
            {
                logins.push(login);
            }
        }
        let cycle = self.item.fix_cycle + 1;
        let note = json!({ "what": "fixed", "cycle": cycle, "sha": head, "done": done, "answered": posts.len(), "left_out": left_out });
        posts.push(new(
            format!("note:{}", self.item.item_id),
            IntentKind::Note,
            note,
        ));
        if !logins.is_empty() {
            posts.push(new(
                format!("ask:{}", self.item.item_id),
                IntentKind::Ask,
                json!({ "logins": logins }),
            ));
        }
        Ok(posts)
    }

    /// Who asked for it on the pull request, if it was a person there.
    async fn person_behind(&self, event_id: i64) -> Result<Option<String>, Interrupt> {
        let event = self.read(move |conn| bb::event(conn, event_id)).await?;
        let is_person = event.metadata.get("begins_round").and_then(Value::as_bool) == Some(true);
        Ok(event
            .actor_id
            .strip_prefix("github:")
            .filter(|_| is_person)
            .map(str::to_owned))
    }
}
