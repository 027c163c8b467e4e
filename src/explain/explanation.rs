//! Explanation as data. Its sentence is composed from its parts when it is shown; no part is parsed
//! out of the sentence.

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::because::Because;
use super::note::Note;
use crate::clock::Time;

/// Reason why something is where it is.
#[derive(Debug, Clone)]
pub(crate) struct Explanation {
    pub(crate) because: Because,
    /// Clause for a row of the board.
    pub(crate) short: String,
    /// Sentence without the notes.
    sentence: String,
    /// Additional information, in the order of the sentence.
    notes: Vec<Note>,
    pub(crate) since: Option<Time>,
    pub(crate) until: Option<Time>,
    /// Commands that a person can type, the most likely first.
    pub(crate) commands: Vec<String>,
    /// Those of the commands that are part of the sentence.
    in_sentence: Vec<String>,
}

impl Explanation {
    /// Starts with a clause. The board shows only the clause; in the sentence, `lead` precedes it,
    /// such as "it is ".
    pub(crate) fn new(because: Because, lead: &str, clause: impl Into<String>) -> Self {
        let short = clause.into();
        Self {
            because,
            sentence: format!("{lead}{short}"),
            short,
            notes: Vec::new(),
            since: None,
            until: None,
            commands: Vec::new(),
            in_sentence: Vec::new(),
        }
    }

    /// Continues the sentence; the clause on the board stays as it is.
    pub(crate) fn and(mut self, text: &str) -> Self {
        self.sentence.push_str(text);
        self
    }

    /// Replaces the clause on the board.
    pub(crate) fn short(mut self, clause: impl Into<String>) -> Self {
        self.short = clause.into();
        self
    }

    pub(crate) fn since(mut self, since: Option<Time>) -> Self {
        self.since = since;
        self
    }

    pub(crate) fn until(mut self, until: Option<Time>) -> Self {
        self.until = until;
        self
    }

    pub(crate) fn commands(mut self, commands: impl IntoIterator<Item = String>) -> Self {
        self.commands.extend(commands);
        self
    }

    /// Adds commands that are part of the sentence.
    pub(crate) fn commands_in_sentence(
        mut self,
        commands: impl IntoIterator<Item = String>,
    ) -> Self {
        for command in commands {
            self.in_sentence.push(command.clone());
            self.commands.push(command);
        }
        self
    }

    /// Adds notes, each with its command.
    pub(crate) fn notes(mut self, notes: impl IntoIterator<Item = Note>) -> Self {
        for note in notes {
            let command = note.command();
            self = if note.contains_command() {
                self.commands_in_sentence(command)
            } else {
                self.commands(command)
            };
            self.notes.push(note);
        }
        self
    }

    /// True if the sentence contains this command.
    pub(crate) fn is_in_sentence(&self, command: &str) -> bool {
        self.in_sentence.iter().any(|one| one == command)
    }

    /// Returns the whole sentence, with the notes.
    pub(crate) fn answer(&self) -> String {
        let mut answer = self.sentence.clone();
        for note in &self.notes {
            answer.push_str(&format!("; {note}"));
        }
        answer
    }
}

impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Explanation", 5)?;
        fields.serialize_field("because", &self.because)?;
        fields.serialize_field("answer", &self.answer())?;
        fields.serialize_field("since", &self.since)?;
        fields.serialize_field("until", &self.until)?;
        fields.serialize_field("commands", &self.commands)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Zone;

    #[test]
    fn the_board_has_the_clause_and_the_answer_has_everything() {
        let explanation = Explanation::new(Because::NeedsYou, "it ", "needs you: gates red; twice")
            .and(". Decide: `remand approve c1`")
            .commands_in_sentence(["remand approve c1".to_owned()])
            .commands(["remand diff c1".to_owned()])
            .notes([Note::ClockSetBack {
                done: Time::from_millis(1_000),
                now: Time::from_millis(0),
                zone: Zone::Utc,
            }]);
        assert_eq!(explanation.short, "needs you: gates red; twice");
        let shown = serde_json::to_string_pretty(&explanation).unwrap();
        insta::assert_snapshot!(shown, @r#"
        {
          "because": "needs_you",
          "answer": "it needs you: gates red; twice. Decide: `remand approve c1`; the clock was set back: the last activity was at 1970-01-01T00:00:01.000Z, and it is now 1970-01-01T00:00:00.000Z. Work delayed because the clock was wrong is retried on the next pass",
          "since": null,
          "until": null,
          "commands": [
            "remand approve c1",
            "remand diff c1"
          ]
        }
        "#);
        assert!(explanation.is_in_sentence("remand approve c1"));
        assert!(!explanation.is_in_sentence("remand diff c1"));
    }
}
