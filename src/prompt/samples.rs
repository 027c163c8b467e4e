//! The variables of each prompt: what a template may name, and contexts that hold them all, or as few as possible, with
//! which every template is tried when it is loaded.

use std::collections::BTreeMap;

use crate::finding::{Category, Finding, FindingId, Severity};
use crate::prompt::context::{DESCRIPTION_CAP, DIFF_CAP, OUTPUT_CAP, PLAN_CAP, Values};
use crate::prompt::{
    AgainContext, Comment, Feedback, FixContext, Issue, Name, OpenFinding, ReviewContext,
};

/// A name that a template may use, with the fields behind its dot (of each, where it is a list).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Variable {
    pub(crate) name: &'static str,
    pub(crate) fields: &'static [&'static str],
    pub(crate) says: &'static str,
}

const fn var(name: &'static str, fields: &'static [&'static str], says: &'static str) -> Variable {
    Variable { name, fields, says }
}

const TITLE: Variable = var("title", &[], "title of the change");
const BRANCH: Variable = var("branch", &[], "branch of the change");
const BASE: Variable = var("base", &[], "branch that the change goes into");
const BASE_SHA: Variable = var("base_sha", &[], "merge base, a commit");
const HEAD_SHA: Variable = var("head_sha", &[], "the commit at the tip of the branch");
const PLAN: Variable = var("plan", TEXT, "spec, plan and tasks, or none");
const DESCRIPTION: Variable = var(
    "description",
    TEXT,
    "what the author of the pull request wrote, or none",
);
const ISSUE: Variable = var(
    "issue",
    &["number", "title", "text", "left_out"],
    "issue that the pull request closes, or none",
);
const MAX_CYCLES: Variable = var("max_cycles", &[], "fixes before a person is asked");
const NONCE: Variable = var("nonce", &[], "the random word of the fences");
const OPEN_FINDINGS: Variable = var(
    "open_findings",
    FINDING,
    "findings that earlier reviews left, worst first",
);
const OPEN_FINDINGS_LEFT_OUT: Variable = var(
    "open_findings_left_out",
    &[],
    "open findings that had no room",
);

const TEXT: &[&str] = &["text", "left_out", "stripped"];
const FINDING: &[&str] = &[
    "id",
    "severity",
    "category",
    "path",
    "line",
    "text",
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
    var("files", &[], "paths that the change touches"),
    var("files_left_out", &[], "paths that had no room"),
    var("diff", TEXT, "the diff of merge base and HEAD"),
    OPEN_FINDINGS,
    OPEN_FINDINGS_LEFT_OUT,
    var("cycle", &[], "fixes made so far"),
    MAX_CYCLES,
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
    var("gates", &[], "commands that must pass before a push"),
    var("pr_number", &[], "number of the pull request, or none"),
    var(
        "detached",
        &[],
        "whether HEAD of the worktree is on no branch",
    ),
    var(
        "feedback",
        &["from", "body", "left_out", "earlier"],
        "what each reviewer wrote",
    ),
    var(
        "findings",
        &[
            "id",
            "severity",
            "category",
            "path",
            "line",
            "text",
            "suggestion",
            "left_out",
            "earlier",
            "from",
        ],
        "every finding of the feedback, worst first",
    ),
    var(
        "findings_left_out",
        &[],
        "findings that are not in this run's prompt",
    ),
    var(
        "guidance",
        &["text", "left_out", "earlier"],
        "a person's comments for this fix",
    ),
    var("part", &[], "number of this run of the fix, from 1"),
    var(
        "later",
        &[],
        "comments and findings that have no room in this run",
    ),
    var("closed", &[], "findings that are settled, one line each"),
    var(
        "closed_left_out",
        &[],
        "settled findings that are not listed",
    ),
    var(
        "last_run",
        TEXT,
        "the end of the last run's output, or none",
    ),
    var(
        "gate_output",
        TEXT,
        "output of the gate that was red, or none",
    ),
    var("cycle", &[], "number of this fix, from 1"),
    MAX_CYCLES,
    NONCE,
];

const AGAIN: &[Variable] = &[
    BASE_SHA,
    HEAD_SHA,
    var("missing", &[], "what could not be read, one line each"),
    var("answer", TEXT, "the end of the unclear answer, or none"),
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

    /// Whether a template of this prompt may say `path`, which is a name, or a name and a field.
    pub(super) fn knows(self, path: &str) -> bool {
        let (name, field) = path
            .split_once('.')
            .map_or((path, None), |(name, field)| (name, Some(field)));
        self.variables().iter().any(|variable| {
            variable.name == name && field.is_none_or(|field| variable.fields.contains(&field))
        })
    }

    /// The names for a person to choose from: `title, plan (.text .left_out)`.
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

    /// Values to try a template with: everything set, each text saying its own name; then nothing that can be missing;
    /// then more of everything than fits, so that every `left_out` is set.
    pub(super) fn trials(self) -> [Values; 3] {
        match self {
            Self::Review => [
                full_review().values(),
                bare_review().values(),
                long_review().values(),
            ],
            Self::Fix => [
                full_fix().values(),
                bare_fix().values(),
                long_fix().values(),
            ],
            Self::Again => [
                full_again().values(),
                bare_again().values(),
                long_again().values(),
            ],
        }
    }
}

/// How much feedback the prompts hold with which templates are tried. They are tried at every start, so it is small.
const TRIAL_LIMIT: usize = 4 << 10;

fn full_review() -> ReviewContext {
    ReviewContext {
        plan: Some("plan.text".into()),
        description: Some("description.text".into()),
        issue: Some(issue()),
        files: vec!["files".into()],
        diff: "diff.text\u{200b}".into(),
        open_findings: vec![finding()],
        cycle: 1,
        ..bare_review()
    }
}

fn long_review() -> ReviewContext {
    let full = full_review();
    ReviewContext {
        plan: full.plan.as_deref().map(|plan| long(plan, PLAN_CAP)),
        description: full
            .description
            .as_deref()
            .map(|text| long(text, DESCRIPTION_CAP)),
        issue: Some(long_issue()),
        files: vec!["files".into(); 1000],
        diff: long(&full.diff, DIFF_CAP),
        open_findings: vec![long_finding(); 8],
        ..bare_review()
    }
}

fn bare_review() -> ReviewContext {
    ReviewContext {
        title: "title".into(),
        branch: "branch".into(),
        base: "base".into(),
        base_sha: "ba5e".into(),
        head_sha: "4ead".into(),
        plan: None,
        description: None,
        issue: None,
        files: Vec::new(),
        diff: String::new(),
        open_findings: Vec::new(),
        feedback_limit: TRIAL_LIMIT,
        cycle: 0,
        max_cycles: 2,
        nonce: 0,
    }
}

fn full_fix() -> FixContext {
    FixContext {
        pr_number: Some(42),
        detached: true,
        plan: Some("plan.text".into()),
        description: Some("description.text".into()),
        issue: Some(issue()),
        gates: vec!["gates".into()],
        feedback: vec![Feedback {
            key: "j1".into(),
            from: "from".into(),
            body: "body".into(),
            findings: vec![finding()],
        }],
        guidance: vec![Comment {
            key: "g1".into(),
            text: "text".into(),
        }],
        closed: vec!["closed".into()],
        last_run_tail: Some("last_run.text".into()),
        gate_output: Some("gate_output.text".into()),
        ..bare_fix()
    }
}

fn long_fix() -> FixContext {
    let full = full_fix();
    FixContext {
        plan: full.plan.as_deref().map(|plan| long(plan, PLAN_CAP)),
        description: full
            .description
            .as_deref()
            .map(|text| long(text, DESCRIPTION_CAP)),
        issue: Some(long_issue()),
        feedback: vec![
            Feedback {
                key: "j1".into(),
                from: "from".into(),
                body: long("body", TRIAL_LIMIT),
                findings: Vec::new(),
            },
            Feedback {
                key: "j2".into(),
                from: "from".into(),
                body: "body".into(),
                findings: vec![long_finding(); 8],
            },
        ],
        guidance: vec![Comment {
            key: "g1".into(),
            text: long("text", TRIAL_LIMIT),
        }],
        told: [
            ("j1".to_owned(), 1),
            ("g1".to_owned(), 1),
            ("j2.1".to_owned(), 1),
        ]
        .into(),
        part: 2,
        closed: vec!["closed".into(); 1000],
        last_run_tail: full
            .last_run_tail
            .as_deref()
            .map(|tail| long(tail, OUTPUT_CAP)),
        gate_output: full
            .gate_output
            .as_deref()
            .map(|output| long(output, OUTPUT_CAP)),
        ..full_fix()
    }
}

fn bare_fix() -> FixContext {
    FixContext {
        title: "title".into(),
        branch: "branch".into(),
        base: "base".into(),
        base_sha: "ba5e".into(),
        head_sha: "4ead".into(),
        pr_number: None,
        detached: false,
        cycle: 1,
        max_cycles: 2,
        plan: None,
        description: None,
        issue: None,
        gates: Vec::new(),
        feedback: Vec::new(),
        guidance: Vec::new(),
        feedback_limit: TRIAL_LIMIT,
        told: BTreeMap::new(),
        part: 1,
        closed: Vec::new(),
        last_run_tail: None,
        gate_output: None,
        nonce: 0,
    }
}

fn full_again() -> AgainContext {
    AgainContext {
        missing: vec!["missing".into()],
        answer: Some("answer.text".into()),
        open_findings: vec![finding()],
        ..bare_again()
    }
}

fn long_again() -> AgainContext {
    AgainContext {
        missing: vec!["missing".into(); 1000],
        answer: full_again()
            .answer
            .as_deref()
            .map(|answer| long(answer, OUTPUT_CAP)),
        open_findings: vec![long_finding(); 8],
        ..bare_again()
    }
}

fn bare_again() -> AgainContext {
    AgainContext {
        base_sha: "ba5e".into(),
        head_sha: "4ead".into(),
        missing: Vec::new(),
        answer: None,
        open_findings: Vec::new(),
        feedback_limit: TRIAL_LIMIT,
        nonce: 0,
    }
}

fn issue() -> Issue {
    Issue {
        number: 7,
        title: "issue.title".into(),
        body: "issue.text".into(),
    }
}

fn long_issue() -> Issue {
    Issue {
        body: long("issue.text", DESCRIPTION_CAP),
        ..issue()
    }
}

fn finding() -> OpenFinding {
    OpenFinding {
        key: "j2.1".into(),
        id: FindingId::new("f1"),
        finding: Finding {
            severity: Severity::High,
            category: Category::Logic,
            path: Some("path".into()),
            line: Some(1),
            text: "text".into(),
            suggestion: Some("suggestion".into()),
            ..Finding::default()
        },
    }
}

fn long_finding() -> OpenFinding {
    let mut long_one = finding();
    long_one.finding.text = long("text", TRIAL_LIMIT / 2);
    long_one
}

/// A text that is cut where at most `cap` bytes are taken.
fn long(text: &str, cap: usize) -> String {
    format!("{text} {}", "long ".repeat(cap / 5 + 1))
}
