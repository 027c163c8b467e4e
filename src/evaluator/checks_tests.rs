use super::*;
use crate::check::Rerun;

const MINUTE: u64 = 60;

fn at(seconds: u64) -> Time {
    Time::from_millis(0).plus(Duration::from_secs(seconds))
}

fn check(name: &str, state: CheckState) -> Check {
    let id = i64::try_from(name.len()).unwrap();
    Check {
        kind: CheckKind::Run,
        name: name.into(),
        app: "github-actions".into(),
        head: "aa".into(),
        forge_id: Some(id),
        required: true,
        counts: true,
        state,
        detail: state.to_string(),
        url: Some(format!("https://github.com/o/r/actions/runs/70/job/{id}")),
        started_at: None,
        completed_at: None,
        seen_at: at(0),
        red_since: state.is_red().then(|| at(0)),
        may_rerun: true,
        rerun: None,
        rerun_at: None,
        reran_id: None,
        evidence: None,
        on_base: None,
        log: None,
        log_trouble: None,
        answer: None,
    }
}

fn reran(name: &str) -> Check {
    Check {
        rerun: Some(Rerun::Done),
        rerun_at: Some(at(10)),
        reran_id: Some(-1),
        ..check(name, CheckState::Failing)
    }
}

fn read(name: &str, on_base: Option<CheckState>) -> Check {
    Check {
        evidence: Some(Evidence::Read),
        on_base,
        log: Some("expected 4, got 5\n".into()),
        ..reran(name)
    }
}

fn case(checks: Vec<Check>) -> ChecksCase {
    ChecksCase {
        state: State::AwaitingPrFeedback,
        head: "aa".into(),
        pull_head: "aa".into(),
        summary: crate::check::summary(&checks),
        checks,
        is_fixing: false,
        is_past_review: true,
        is_marked_ready: false,
        now: at(MINUTE),
    }
}

/// Describes the proposals briefly.
#[expect(clippy::wildcard_enum_match_arm, reason = "no other is expected")]
fn proposed(case: &ChecksCase) -> String {
    let one = |proposal: Proposal| match proposal {
        Proposal::Rerun { checks, call } => format!("rerun {checks:?} {call:?}"),
        Proposal::Evidence { checks } => format!("evidence {checks:?}"),
        Proposal::RejectChecks { names, .. } => format!("reject {}", names.join(" ")),
        Proposal::ReportChecks { names, code, .. } => format!("{code} {}", names.join(" ")),
        Proposal::ChecksPassed => "passed".into(),
        Proposal::ChecksOpen => "open".into(),
        other => format!("{other:?}"),
    };
    let all: Vec<String> = judge(case).into_iter().map(one).collect();
    all.join(", ")
}

#[test]
fn each_step_follows_from_the_one_before() {
    use CheckState::{Failing, Passing, Pending, Stopped};
    let optional = |state| Check {
        required: false,
        counts: false,
        ..check("lint", state)
    };
    let status = Check {
        kind: CheckKind::Status,
        may_rerun: false,
        ..check("ci", Failing)
    };
    for (checks, expected) in [
        (vec![], "passed"),
        (vec![check("a", Passing), optional(Failing)], "passed"),
        (vec![check("a", Pending)], ""),
        // One fix gets all red checks.
        (vec![check("a", Failing), check("bb", Pending)], ""),
        (
            vec![check("a", Failing), check("bb", Passing)],
            "rerun [1] Job(1)",
        ),
        (
            vec![check("a", Failing), check("bb", Failing)],
            "rerun [1, 2] FailedJobs(70)",
        ),
        // The workflow still runs.
        (vec![check("a", Failing), optional(Pending)], ""),
        (vec![status.clone()], "evidence [2]"),
        (vec![reran("aaa")], "evidence [3]"),
        (vec![read("aaa", None)], "reject aaa"),
        (
            vec![read("aaa", Some(Passing)), read("b", None)],
            "reject aaa b",
        ),
        (vec![read("aaa", Some(Failing))], "checks_not_ours aaa"),
        (
            vec![read("aaa", Some(Failing)), read("b", None)],
            "checks_not_ours aaa, reject b",
        ),
        (vec![check("a", Stopped)], "rerun [1] Job(1)"),
        (
            vec![Check {
                rerun: Some(Rerun::Refused),
                ..check("a", Stopped)
            }],
            "checks_stopped a",
        ),
        (
            vec![Check {
                may_rerun: false,
                ..check("a", Failing)
            }],
            "evidence [1]",
        ),
        // Once per head.
        (
            vec![Check {
                answer: Some(CheckAnswer::Rejected),
                ..read("aaa", None)
            }],
            "",
        ),
        (
            vec![
                Check {
                    answer: Some(CheckAnswer::Rejected),
                    ..check("a", Passing)
                },
                read("bbb", None),
            ],
            "",
        ),
        (
            vec![Check {
                rerun: Some(Rerun::Open),
                ..check("a", Failing)
            }],
            "",
        ),
        // The rerun is requested, and the forge still shows the old result.
        (
            vec![Check {
                reran_id: Some(3),
                ..reran("aaa")
            }],
            "",
        ),
    ] {
        let case = case(checks);
        assert_eq!(proposed(&case), expected, "{:#?}", case.checks);
    }
}

#[test]
fn a_check_that_never_ends_is_waited_for_half_an_hour() {
    let mut late = case(vec![
        check("a", CheckState::Failing),
        check("bb", CheckState::Pending),
    ]);
    late.now = at(30 * MINUTE - 1);
    assert_eq!(proposed(&late), "");
    late.now = at(30 * MINUTE);
    assert_eq!(proposed(&late), "rerun [1] Job(1)");
    // A clock that was ahead when it turned red.
    late.checks[0].red_since = Some(at(24 * 60 * MINUTE));
    assert_eq!(proposed(&late), "rerun [1] Job(1)");
}

#[test]
fn a_check_that_never_appears_is_reported_after_an_hour() {
    let missing = Check {
        kind: CheckKind::Missing,
        forge_id: None,
        url: None,
        ..check("build", CheckState::Pending)
    };
    let mut late = case(vec![missing.clone(), read("test", None)]);
    late.checks[1].red_since = Some(at(59 * MINUTE));
    late.now = at(60 * MINUTE - 1);
    assert_eq!(proposed(&late), "");
    late.now = at(60 * MINUTE);
    assert_eq!(proposed(&late), "check_missing build");
    late.checks[0].answer = Some(CheckAnswer::Reported);
    assert_eq!(proposed(&late), "reject test", "it is waited for no more");
    let mut alone = case(vec![late.checks[0].clone()]);
    alone.now = at(90 * MINUTE);
    assert_eq!(proposed(&alone), "", "and blocks the end");
}

#[test]
fn the_state_of_the_change_decides_too() {
    let red = || vec![check("a", CheckState::Failing)];
    let ready = ChecksCase {
        state: State::ReadyForHumanReview,
        ..case(red())
    };
    assert_eq!(proposed(&ready), "open, rerun [1] Job(1)");
    let marked = ChecksCase {
        is_marked_ready: true,
        ..ready
    };
    assert_eq!(proposed(&marked), "", "a person decided");
    for left in [
        ChecksCase {
            is_fixing: true,
            ..case(red())
        },
        ChecksCase {
            pull_head: "bb".into(),
            ..case(red())
        },
        ChecksCase {
            state: State::Escalated,
            ..case(red())
        },
        ChecksCase {
            state: State::Merged,
            ..case(red())
        },
        ChecksCase {
            is_past_review: false,
            ..case(vec![])
        },
    ] {
        assert_eq!(proposed(&left), "", "{left:?}");
    }
    let approved = ChecksCase {
        state: State::Approved,
        ..case(vec![read("aaa", None)])
    };
    assert_eq!(proposed(&approved), "reject aaa");
}

#[test]
fn a_rejection_has_a_finding_for_each_check_with_the_end_of_its_log() {
    let long = Check {
        log: Some("line\n".repeat(100_000)),
        ..read("aaa", None)
    };
    let none = Check {
        log: None,
        log_trouble: Some("HTTP 410".into()),
        ..read("b", None)
    };
    let proposals = judge(&case(vec![long, none]));
    let [
        Proposal::RejectChecks {
            summary, rejected, ..
        },
    ] = proposals.as_slice()
    else {
        panic!("{proposals:?}")
    };
    assert_eq!(summary, "2 checks failed on aa: aaa, b");
    assert_eq!(rejected.begins_round, Some(false));
    let [first, second] = rejected.findings.as_slice() else {
        panic!("{rejected:?}")
    };
    assert!(
        first.text.len() < LOG_BYTES / 2 + 300,
        "{}",
        first.text.len()
    );
    assert!(first.text.ends_with("\nline\n") && first.raised_by == RaisedBy::Check);
    assert!(
        second.text.ends_with("Its log could not be read: HTTP 410"),
        "{}",
        second.text
    );
}
