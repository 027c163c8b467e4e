//! Variables of each prompt: the names that a template may use, and sample values with which every
//! template is rendered when it is loaded.

use minijinja::Value;

use crate::prompt::sanitize::Cleaned;
use crate::prompt::{Name, fence};

/// Name that a template may use, with its fields (those of each element, if it is a list).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [&'static str],
    pub(crate) says: &'static str,
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

const fn var(
    name: &'static str,
    shape: Shape,
    fields: &'static [&'static str],
    says: &'static str,
) -> Variable {
    Variable {
        name,
        fields,
        says,
        shape,
    }
}

const TITLE: Variable = var("title", Shape::Line, &[], "title of the change");
const BRANCH: Variable = var("branch", Shape::Line, &[], "branch of the change");
const BASE: Variable = var(
    "base",
    Shape::Line,
    &[],
    "branch that the change will be merged into",
);
const BASE_SHA: Variable = var("base_sha", Shape::Word, &[], "merge base, a commit");
const HEAD_SHA: Variable = var(
    "head_sha",
    Shape::Word,
    &[],
    "commit at the tip of the branch",
);
const PLAN: Variable = var(
    "plan",
    Shape::RecordOrNone,
    TEXT,
    "spec, plan and tasks, or none",
);
const DESCRIPTION: Variable = var(
    "description",
    Shape::RecordOrNone,
    TEXT,
    "description by the author of the pull request, or none",
);
const ISSUE: Variable = var(
    "issue",
    Shape::RecordOrNone,
    &["number", "title", "text", "left_out"],
    "issue that the pull request closes, or none",
);
const MAX_CYCLES: Variable = var(
    "max_cycles",
    Shape::Number,
    &[],
    "maximum number of fixes before a person is asked",
);
const TIME_LIMIT_MIN: Variable = var(
    "time_limit_min",
    Shape::Number,
    &[],
    "time limit of the run, in minutes",
);
const SANDBOXED: Variable = var(
    "sandboxed",
    Shape::Flag,
    &[],
    "true if the agent runs in a sandbox",
);
const NONCE: Variable = var(
    "nonce",
    Shape::Word,
    &[],
    "random word that marks the fences",
);
const OPEN_FINDINGS: Variable = var(
    "open_findings",
    Shape::Records,
    FINDING,
    "open findings of earlier reviews, most severe first",
);
const OPEN_FINDINGS_LEFT_OUT: Variable = var(
    "open_findings_left_out",
    Shape::Number,
    &[],
    "number of open findings that did not fit",
);

const TEXT: &[&str] = &["text", "left_out", "stripped"];
const FINDING: &[&str] = &[
    "id",
    "severity",
    "category",
    "path",
    "line",
    "line_end",
    "title",
    "text",
    "failure",
    "suggestion",
    "left_out",
];

const REVIEW: &[Variable] = &[
    TITLE,
    BRANCH,
    BASE,
    BASE_SHA,
    HEAD_SHA,
    PLAN,
    DESCRIPTION,
    ISSUE,
    var("files", Shape::Lines, &[], "paths that the change touches"),
    var(
        "files_left_out",
        Shape::Number,
        &[],
        "number of paths that did not fit",
    ),
    var(
        "diff",
        Shape::Record,
        TEXT,
        "diff between merge base and HEAD",
    ),
    OPEN_FINDINGS,
    OPEN_FINDINGS_LEFT_OUT,
    var("cycle", Shape::Number, &[], "number of fixes made so far"),
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
    var(
        "gates",
        Shape::Words,
        &[],
        "commands that must pass before a push",
    ),
    var(
        "pr_number",
        Shape::NumberOrNone,
        &[],
        "number of the pull request, or none",
    ),
    var(
        "detached",
        Shape::Flag,
        &[],
        "whether HEAD of the worktree is detached",
    ),
    var(
        "feedback",
        Shape::Records,
        &["from", "body", "left_out", "earlier"],
        "text of each reviewer",
    ),
    var(
        "findings",
        Shape::Records,
        &[
            "id",
            "severity",
            "category",
            "path",
            "line",
            "line_end",
            "title",
            "text",
            "failure",
            "suggestion",
            "left_out",
            "earlier",
            "from",
        ],
        "all findings of the feedback, most severe first",
    ),
    var(
        "findings_left_out",
        Shape::Number,
        &[],
        "number of findings that are not in this prompt",
    ),
    var(
        "guidance",
        Shape::Records,
        &["text", "left_out", "earlier"],
        "a person's comments for this fix",
    ),
    var(
        "part",
        Shape::Number,
        &[],
        "number of this run of the fix, from 1",
    ),
    var(
        "later",
        Shape::Number,
        &[],
        "number of comments and findings that did not fit into this run",
    ),
    var(
        "closed",
        Shape::Lines,
        &[],
        "closed findings, one line each",
    ),
    var(
        "closed_left_out",
        Shape::Number,
        &[],
        "number of closed findings that are not listed",
    ),
    var(
        "last_run",
        Shape::RecordOrNone,
        TEXT,
        "end of the output of the last run, or none",
    ),
    var(
        "gate_output",
        Shape::RecordOrNone,
        TEXT,
        "output of the failed gate, or none",
    ),
    var("cycle", Shape::Number, &[], "number of this fix, from 1"),
    MAX_CYCLES,
    TIME_LIMIT_MIN,
    SANDBOXED,
    NONCE,
];

const AGAIN: &[Variable] = &[
    BASE_SHA,
    HEAD_SHA,
    var(
        "missing",
        Shape::Lines,
        &[],
        "parts that could not be parsed, one line each",
    ),
    var(
        "answer",
        Shape::RecordOrNone,
        TEXT,
        "end of the unclear answer, or none",
    ),
    OPEN_FINDINGS,
    OPEN_FINDINGS_LEFT_OUT,
    NONCE,
];

impl Name {
    pub(crate) fn variables(self) -> &'static [Variable] {
        match self {
            Self::Review => REVIEW,
            Self::Fix => FIX,
            Self::Again => AGAIN,
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
        self.variables()
            .iter()
            .map(one)
            .collect::<Vec<_>>()
            .join(", ")
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
        let list = |one: Value| Value::from_iter(is_set.then_some(one));
        let or_none = |one: Value| if is_set { one } else { Value::from(()) };
        match self.shape {
            Shape::Word => Value::from("0"),
            Shape::Words => list(Value::from("0")),
            Shape::Number => Value::from(u8::from(is_set)),
            Shape::NumberOrNone => or_none(Value::from(1)),
            Shape::Flag => Value::from(is_set),
            Shape::Line => outside(self.name),
            Shape::Lines => list(outside(self.name)),
            Shape::Record => self.record(&format!("{}.", self.name), trial),
            Shape::RecordOrNone => or_none(self.record(&format!("{}.", self.name), trial)),
            // A loop gives each record its own name.
            Shape::Records => list(self.record("", trial)),
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
