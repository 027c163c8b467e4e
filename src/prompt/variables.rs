//! Variables of each prompt: the names that a template may use, and sample values with which every
//! template is rendered when it is loaded.

use minijinja::Value;
use serde::Serialize;

use crate::prompt::sanitize::Cleaned;
use crate::prompt::{Name, fence};
use crate::text::list;

/// Name that a template may use, with its fields (those of each element, if it is a list).
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [&'static str],
    pub(crate) says: &'static str,
    #[serde(skip)]
    shape: Shape,
}

/// Kind of value of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Words and numbers written by remand, which may be outside of fences.
    Word,
    Words,
    Number,
    NumberOrNone,
    Flag,
    /// Untrusted text.
    Line,
    Lines,
    Record,
    RecordOrNone,
    Records,
}

/// Trial rendering of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trial {
    /// All values are set, and nothing was omitted.
    Complete,
    /// No optional value is set.
    Empty,
    /// All values are set, and a part of each was omitted.
    LeftOut,
}

/// Writes a variable: its name, its shape, the fields of a record, and its description.
macro_rules! variable {
    ($name:ident: $shape:ident $([$($field:ident)+])? = $says:literal) => {
        Variable {
            name: stringify!($name),
            fields: &[$($(stringify!($field)),+)?],
            says: $says,
            shape: Shape::$shape,
        }
    };
}

const TITLE: Variable = variable! { title: Line = "title of the change" };
const BRANCH: Variable = variable! { branch: Line = "branch of the change" };
const BASE: Variable = variable! { base: Line = "branch that the change will be merged into" };
const BASE_SHA: Variable = variable! { base_sha: Word = "merge base, a commit" };
const HEAD_SHA: Variable = variable! { head_sha: Word = "commit at the tip of the branch" };
const PLAN: Variable = variable! {
    plan: RecordOrNone[text left_out stripped] = "spec, plan and tasks, or none"
};
const DESCRIPTION: Variable = variable! {
    description: RecordOrNone[text left_out stripped]
        = "the author's description of the pull request, or none"
};
const ISSUE: Variable = variable! {
    issue: RecordOrNone[number title text left_out] = "issue that the pull request closes, or none"
};
const MAX_CYCLES: Variable =
    variable! { max_cycles: Number = "maximum number of fixes before a person has to decide" };
const TIME_LIMIT_MIN: Variable = variable! {
    time_limit_min: Number = "time limit of the run, in minutes"
};
const SANDBOXED: Variable = variable! { sandboxed: Flag = "true if the agent runs in a sandbox" };
const NONCE: Variable =
    variable! { nonce: Word = "random word used in the lines that fence outside text" };
const OPEN_FINDINGS: Variable = variable! {
    open_findings: Records[
        id severity category path line line_end title text failure suggestion left_out
    ] = "open findings of earlier reviews, most severe first"
};
const OPEN_FINDINGS_LEFT_OUT: Variable = variable! {
    open_findings_left_out: Number = "number of open findings that did not fit"
};

const REVIEW: &[Variable] = &[
    TITLE,
    BRANCH,
    BASE,
    BASE_SHA,
    HEAD_SHA,
    PLAN,
    DESCRIPTION,
    ISSUE,
    variable! { files: Lines = "paths that the change touches" },
    variable! { files_left_out: Number = "number of paths that did not fit" },
    variable! { diff: Record[text left_out stripped] = "diff between the merge base and HEAD" },
    OPEN_FINDINGS,
    OPEN_FINDINGS_LEFT_OUT,
    variable! { waived: Lines = "findings that a person has waived, one line each" },
    variable! { cycle: Number = "number of fixes made so far" },
    MAX_CYCLES,
    TIME_LIMIT_MIN,
    SANDBOXED,
    NONCE,
];

const FIX: &[Variable] = &[
    TITLE,
    BRANCH,
    BASE,
    BASE_SHA,
    HEAD_SHA,
    PLAN,
    DESCRIPTION,
    ISSUE,
    variable! { gates: Words = "commands that must pass before a push" },
    variable! { pr_number: NumberOrNone = "number of the pull request, or none" },
    variable! { detached: Flag = "true if the worktree's HEAD is detached" },
    variable! { feedback: Records[from body left_out earlier] = "text of each reviewer" },
    variable! {
        findings: Records[
            id severity category path line line_end title text failure suggestion left_out earlier
            from
        ] = "all findings of the feedback, most severe first"
    },
    variable! { findings_left_out: Number = "number of findings that are not in this prompt" },
    variable! { guidance: Records[text left_out earlier] = "a person's comments for this fix" },
    variable! { part: Number = "number of this run of the fix, from 1" },
    variable! { later: Number = "number of comments and findings that did not fit into this run" },
    variable! { closed: Lines = "closed findings, one line each" },
    variable! { closed_left_out: Number = "number of closed findings that are not listed" },
    variable! {
        last_run: RecordOrNone[text left_out stripped] = "end of the last run's output, or none"
    },
    variable! {
        gate_output: RecordOrNone[text left_out stripped] = "output of the failed gate, or none"
    },
    variable! { cycle: Number = "number of this fix, from 1" },
    MAX_CYCLES,
    TIME_LIMIT_MIN,
    SANDBOXED,
    NONCE,
];

const AGAIN: &[Variable] = &[
    BASE_SHA,
    HEAD_SHA,
    variable! { missing: Lines = "parts of the answer that were missing or did not match, one line each" },
    variable! {
        answer: RecordOrNone[text left_out stripped] = "end of the unclear answer, or none"
    },
    OPEN_FINDINGS,
    OPEN_FINDINGS_LEFT_OUT,
    NONCE,
];

const IMPLEMENT: &[Variable] = &[
    TITLE,
    BRANCH,
    BASE,
    BASE_SHA,
    HEAD_SHA,
    variable! { task: RecordOrNone[text left_out stripped] = "description of the task, or none" },
    PLAN,
    variable! {
        issue: RecordOrNone[number title text left_out] = "issue that describes the task, or none"
    },
    variable! { gates: Words = "commands that must pass before the pull request is opened" },
    variable! {
        last_run: RecordOrNone[text left_out stripped] = "end of a failed run's output, or none"
    },
    TIME_LIMIT_MIN,
    SANDBOXED,
    NONCE,
];

impl Name {
    pub(crate) fn variables(self) -> &'static [Variable] {
        match self {
            Self::Review => REVIEW,
            Self::Fix => FIX,
            Self::Again => AGAIN,
            Self::Implement => IMPLEMENT,
        }
    }

    /// True if a template of this prompt may use `path`, which is a name, or a name and a field.
    pub(super) fn knows(self, path: &str) -> bool {
        let (name, field) = path
            .split_once('.')
            .map_or((path, None), |(name, field)| (name, Some(field)));
        self.variables().iter().any(|variable| {
            variable.name == name && field.is_none_or(|field| variable.fields.contains(&field))
        })
    }

    /// Lists the names for a person to choose from: `title, plan (.text .left_out)`.
    pub(super) fn allowed(self) -> String {
        let one = |variable: &Variable| match variable.fields {
            [] => variable.name.to_string(),
            fields => format!("{} (.{})", variable.name, fields.join(" .")),
        };
        list(self.variables().iter().map(one))
    }

    /// Returns sample values for three trials of a template: see [`Trial`]. The value of an
    /// untrusted text is its own name, so that an error can be shown at its location.
    pub(super) fn trials(self) -> impl Iterator<Item = Value> {
        let trials = [Trial::Complete, Trial::Empty, Trial::LeftOut].into_iter();
        trials.map(move |trial| {
            let variables = self.variables().iter();
            Value::from_pairs(variables.map(|variable| (variable.name, variable.value(trial))))
        })
    }
}

impl Variable {
    fn value(&self, trial: Trial) -> Value {
        let is_set = trial != Trial::Empty;
        let list_of = |one: Value| Value::from_iter(is_set.then_some(one));
        let or_none = |one: Value| if is_set { one } else { Value::from(()) };
        match self.shape {
            Shape::Word => Value::from("0"),
            Shape::Words => list_of(Value::from("0")),
            Shape::Number => Value::from(u8::from(is_set)),
            Shape::NumberOrNone => or_none(Value::from(1)),
            Shape::Flag => Value::from(is_set),
            Shape::Line => outside(self.name),
            Shape::Lines => list_of(outside(self.name)),
            Shape::Record => self.record(&format!("{}.", self.name), trial),
            Shape::RecordOrNone => or_none(self.record(&format!("{}.", self.name), trial)),
            // A loop gives each record its own name.
            Shape::Records => list_of(self.record("", trial)),
        }
    }

    fn record(&self, prefix: &str, trial: Trial) -> Value {
        let value = |field: &str| match field {
            "left_out" | "stripped" | "earlier" => Value::from(u8::from(trial == Trial::LeftOut)),
            "number" | "line" | "line_end" => Value::from(1),
            "id" | "severity" | "category" => Value::from("0"),
            _ => outside(&format!("{prefix}{field}")),
        };
        Value::from_pairs(self.fields.iter().map(|field| (*field, value(field))))
    }
}

fn outside(text: &str) -> Value {
    let text = text.to_owned();
    Value::from(fence::mark(&Cleaned {
        text,
        ..Cleaned::default()
    }))
}
