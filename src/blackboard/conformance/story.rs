//! Steps in the life of a change. Each is one transaction, as the loops would make it, one second
//! after the previous one. There is no heartbeat and no dispatch here: the suite is below them.

use std::time::Duration;

use serde_json::{Value, json};

use super::engine::Engine;
use crate::blackboard::{self as bb, Claimed, Conn, Holding, NewChange, Result, TakenIn};
use crate::change::{
    Bounds, Change, ChangeId, FinalVerdict, OnMaxCycles, ProjectId, ReviewRules, ReviewStage, State,
};
use crate::clock::Time;
use crate::event::{EventType, NewEvent};
use crate::finding::{Category, Finding, Severity, Verdict};
use crate::proposal::{Bound, Escalation, Proposal};
use crate::work::{Claim, Ended, Item, Rejection, RejectionId, RejectionState, Run, RunId, Status};

pub(in crate::blackboard) const EVALUATOR: &str = "review_feedback";
pub(in crate::blackboard) const LEASE: Duration = Duration::from_secs(60);

pub(in crate::blackboard) struct Story {
    pub(in crate::blackboard) engine: Engine,
    now: Time,
}

impl Story {
    pub(in crate::blackboard) fn begin() -> Self {
        let mut story = Self {
            engine: Engine::fresh(),
            now: Time::parse("2026-11-16T08:00:00.000Z").unwrap(),
        };
        story
            .step(|conn, now| bb::insert_project(conn, &project(now)))
            .unwrap();
        story
    }

    /// Advances the clock by a second.
    pub(in crate::blackboard) fn later(&mut self) -> Time {
        self.pass(Duration::from_secs(1))
    }

    pub(in crate::blackboard) fn pass(&mut self, time: Duration) -> Time {
        self.now = self.now.plus(time);
        self.now
    }

    /// Sets the clock to an hour before `now`.
    pub(in crate::blackboard) fn set_back(&mut self, now: Time) {
        self.now = Time::from_millis(now.millis() - 3_600_000);
    }

    pub(in crate::blackboard) fn now(&self) -> Time {
        self.now
    }

    pub(in crate::blackboard) fn step<T>(
        &mut self,
        step: impl FnOnce(&Conn, Time) -> Result<T>,
    ) -> Result<T> {
        let now = self.later();
        self.engine.write(|conn| step(conn, now))
    }

    /// Creates a change with a queued review.
    pub(in crate::blackboard) fn change(&mut self) -> Change {
        self.change_with(|_| {})
    }

    pub(in crate::blackboard) fn change_with(
        &mut self,
        adjust: impl FnOnce(&mut NewChange),
    ) -> Change {
        let n = self
            .engine
            .read(|conn| bb::board(conn, bb::Show::All, 1_000))
            .len()
            + 1;
        let mut new = new_change(n);
        adjust(&mut new);
        self.step(|conn, now| {
            let change = bb::insert_change(conn, &new, now)?;
            let key = format!("code_review:{}:{}", change.change_id, change.head);
            bb::insert_item(conn, &change, &bb::review_item(&change, key, "tester"), now)?;
            Ok(change)
        })
        .unwrap()
    }

    pub(in crate::blackboard) fn at(&mut self, id: &ChangeId) -> Change {
        self.engine.read(|conn| bb::change(conn, id))
    }

    pub(in crate::blackboard) fn items(&mut self, id: &ChangeId) -> Vec<Item> {
        self.engine.read(|conn| bb::items_of(conn, id))
    }

    pub(in crate::blackboard) fn open_items(&mut self, id: &ChangeId) -> Vec<Item> {
        self.items(id)
            .into_iter()
            .filter(|item| item.status.is_open())
            .collect()
    }

    pub(in crate::blackboard) fn statuses(&mut self, id: &ChangeId) -> Vec<Status> {
        self.items(id).into_iter().map(|item| item.status).collect()
    }

    pub(in crate::blackboard) fn rejections(&mut self, id: &ChangeId) -> Vec<Rejection> {
        self.engine.read(|conn| bb::rejections_of(conn, id, None))
    }

    pub(in crate::blackboard) fn rejection_states(&mut self, id: &ChangeId) -> Vec<RejectionState> {
        self.rejections(id)
            .into_iter()
            .map(|rejection| rejection.state)
            .collect()
    }

    pub(in crate::blackboard) fn events(
        &mut self,
        id: &ChangeId,
        event_type: EventType,
    ) -> Vec<crate::event::Event> {
        let all = self.engine.read(|conn| bb::events_of(conn, id, 10_000));
        all.into_iter()
            .filter(|event| event.event_type == event_type)
            .collect()
    }

    pub(in crate::blackboard) fn all_events(
        &mut self,
        event_type: EventType,
    ) -> Vec<crate::event::Event> {
        let all = self.engine.read(|conn| bb::events_since(conn, 0, 10_000));
        all.into_iter()
            .filter(|event| event.event_type == event_type)
            .collect()
    }

    pub(in crate::blackboard) fn try_claim(&mut self) -> Option<Claimed> {
        self.step(|conn, now| bb::claim(conn, &holding("us"), now))
            .unwrap()
    }

    pub(in crate::blackboard) fn claim(&mut self) -> Claimed {
        self.try_claim().expect("something is due")
    }

    /// Records a run of a claimed item that ended by itself, with a commit.
    pub(in crate::blackboard) fn run(&mut self, claimed: &Claimed) -> Run {
        let run = self.begin_run(claimed).unwrap();
        let end = bb::RunEnd {
            ended: Some(Ended::Agent),
            exit_status: Some(0),
            elapsed_ms: 700,
            tokens: Some(1_000),
            cost_micros: Some(20_000),
            ..bb::RunEnd::default()
        };
        self.step(|conn, now| bb::end_run(conn, &run.run_id, &end, now))
            .unwrap();
        run
    }

    pub(in crate::blackboard) fn begin_run(&mut self, claimed: &Claimed) -> Result<Run> {
        let (claim, change) = (claimed.claim(), claimed.change.clone());
        self.step(|conn, now| {
            let guidance = bb::open_guidance(conn, &change.change_id)?.into_iter();
            let feedback = guidance.map(|(id, _)| coverage(&id, None, 7, 7)).collect();
            bb::start_run(
                conn,
                &claim,
                &change,
                &bb::NewRun {
                    feedback,
                    ..new_run()
                },
                now,
            )
        })
    }

    /// Claims a review and ends it with this verdict.
    pub(in crate::blackboard) fn review(
        &mut self,
        verdict: Verdict,
        findings: &[Finding],
    ) -> Change {
        let claimed = self.claim();
        self.run(&claimed);
        let done = review_done(&claimed.change.head, verdict, findings);
        self.step(|conn, now| bb::finish_review(conn, &claimed.claim(), &done, now))
            .unwrap()
    }

    /// Claims a fix and ends it successfully.
    pub(in crate::blackboard) fn fix(&mut self) -> Change {
        let claimed = self.claim();
        self.run(&claimed);
        let done = fix_done(&claimed.change.head);
        self.step(|conn, now| bb::finish_fix(conn, &claimed.claim(), &done, now))
            .unwrap()
    }

    pub(in crate::blackboard) fn fail(&mut self, claim: &Claim) -> Change {
        self.step(|conn, now| bb::fail(conn, claim, &failure(), now))
            .unwrap()
    }

    /// Turns events into rows, and pending rejections into fixes or into the action for a reached
    /// limit.
    pub(in crate::blackboard) fn beat(&mut self) -> Vec<TakenIn> {
        self.step(|conn, now| {
            let cursor = bb::cursor(conn, EVALUATOR)?;
            let types = [EventType::WorkRejected, EventType::WorkApproved];
            let (newest, taken) = bb::take_in(conn, &types, cursor, now)?;
            for id in bb::pending_changes(conn)? {
                if let Some(proposal) = proposal(conn, &id)? {
                    bb::apply_proposal(conn, EVALUATOR, &id, &proposal, now)?;
                }
            }
            bb::set_cursor(conn, EVALUATOR, newest, None, now)?;
            Ok(taken)
        })
        .unwrap()
    }

    /// Appends a rejection by a reviewing program, which continues the round.
    pub(in crate::blackboard) fn reject(&mut self, id: &ChangeId, metadata: &Value) -> i64 {
        let event = NewEvent {
            metadata: metadata.clone(),
            ..NewEvent::about(id, EventType::WorkRejected, "no")
        };
        self.step(|conn, now| bb::append(conn, &event, now))
            .unwrap()
    }

    /// Creates a change that has used all its fixes and is waiting for a person.
    pub(in crate::blackboard) fn change_at_its_bound(&mut self) -> Change {
        let change = self.change_with(|new| new.bounds.max_fix_cycles = 1);
        self.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
        self.beat();
        self.fix();
        self.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
        self.beat();
        self.at(&change.change_id)
    }

    /// Creates a change with an available fix.
    pub(in crate::blackboard) fn change_with_fix(&mut self) -> Change {
        let change = self.change();
        self.review(Verdict::ChangesRequested, &[finding("a.rs", "no bound")]);
        self.beat();
        self.at(&change.change_id)
    }

    /// Asserts that the rows are consistent.
    pub(in crate::blackboard) fn check(&mut self) {
        assert_eq!(self.engine.read(bb::check), []);
    }
}

/// Returns the proposal of the built-in evaluator, as far as the cases need it.
pub(in crate::blackboard) fn proposal(conn: &Conn, id: &ChangeId) -> Result<Option<Proposal>> {
    let change = bb::change(conn, id)?;
    let takes_fixes = matches!(
        change.state,
        State::SelfReviewFailed
            | State::SelfReviewPassed
            | State::AwaitingPrFeedback
            | State::ReadyForHumanReview
            | State::Approved
    );
    let pending = bb::rejections_of(conn, id, Some(RejectionState::Pending))?;
    let starts = |rejection: &Rejection| match (rejection.by_person, rejection.login()) {
        (false, _) => change.auto_review,
        (true, login) => change.auto_address || login.is_none(),
    };
    if !pending.iter().any(starts) || !takes_fixes {
        return Ok(None);
    }
    let begins_round = pending.iter().any(|rejection| rejection.by_person);
    let fix_cycle = if begins_round {
        0
    } else {
        change.budget.fix_cycle
    };
    if fix_cycle >= change.budget.max_fix_cycles
        || change.budget.total_fixes >= change.budget.max_total_fixes
    {
        return Ok(Some(Proposal::Bound(escalation())));
    }
    let rejections = pending
        .into_iter()
        .map(|rejection| rejection.rejection_id)
        .collect();
    Ok(Some(Proposal::Fix {
        rejections,
        begins_round,
    }))
}

pub(in crate::blackboard) fn escalation() -> Escalation {
    Escalation::new("used all its fixes", "accept it or go on")
        .at_bound(Bound::Cycles)
        .with_verdict(FinalVerdict::MaxCyclesReached)
}

pub(in crate::blackboard) fn project(now: Time) -> bb::Project {
    bb::Project {
        project_id: ProjectId::new("shop"),
        path: "/home/ann/shop".into(),
        common_dir: "/home/ann/shop/.git".into(),
        repo: Some("ann/shop".into()),
        remote_url: Some("https://github.com/ann/shop.git".into()),
        default_branch: "main".into(),
        created_at: now,
    }
}

/// Adds fixes as `remand budget CHANGE --fixes +N` does.
pub(super) fn more_fixes(conn: &Conn, id: &ChangeId, fixes: i64, now: Time) -> Result<Change> {
    let added = bb::Addition {
        fixes,
        ..bb::Addition::default()
    };
    bb::add_budget(
        conn,
        id,
        &added,
        bb::Grant {
            actor: "ann",
            why: None,
        },
        now,
    )
}

pub(in crate::blackboard) fn new_change(n: usize) -> NewChange {
    NewChange {
        project_id: ProjectId::new("shop"),
        title: format!("Retry payments {n}"),
        branch: format!("retry-{n}"),
        base: "main".into(),
        head: format!("{n:040x}"),
        worktree: format!("/home/ann/trees/retry-{n}"),
        host: "laptop".into(),
        state: State::PendingSelfReview,
        bounds: Bounds {
            on_max_cycles: OnMaxCycles::Escalate,
            max_fix_cycles: 2,
            max_total_fixes: 8,
            max_run_ms: 3_600_000,
            max_tokens: None,
            max_cost_micros: None,
        },
        review: ReviewRules {
            stage: ReviewStage::BeforePr,
            auto_address: true,
            skip_tests: true,
            notify_ready: true,
        },
        own_max_fix_cycles: None,
        shadow: None,
        actor: "ann".into(),
    }
}

pub(in crate::blackboard) fn holding(holder: &str) -> Holding {
    Holding {
        holder: holder.into(),
        lease: LEASE,
    }
}

pub(in crate::blackboard) fn new_run() -> bb::NewRun {
    bb::NewRun {
        agent: "scripted".into(),
        model: None,
        session: None,
        head_before: "0".repeat(40),
        runs_dir: "/state/runs".into(),
        part: 1,
        feedback: Vec::new(),
        cuts: Vec::new(),
        plan: None,
    }
}

/// Creates a record of the number of bytes of a piece of feedback that were in a prompt.
pub(in crate::blackboard) fn coverage(
    piece: &str,
    rejection: Option<&str>,
    end: i64,
    total: i64,
) -> bb::Coverage {
    bb::Coverage {
        piece: piece.into(),
        rejection_id: rejection.map(RejectionId::new),
        finding_id: None,
        start: 0,
        end,
        total,
    }
}

pub(in crate::blackboard) fn unclear(missing: &[&str]) -> bb::Unclear {
    bb::Unclear {
        run_id: RunId::new("r1"),
        reason: "no verdict".into(),
        missing: missing.iter().map(|one| (*one).to_owned()).collect(),
    }
}

pub(in crate::blackboard) fn finding(path: &str, text: &str) -> Finding {
    Finding {
        severity: Severity::High,
        category: Category::Logic,
        path: Some(path.into()),
        line: Some(12),
        text: text.into(),
        ..Finding::default()
    }
}

pub(in crate::blackboard) fn review_done(
    head: &str,
    verdict: Verdict,
    findings: &[Finding],
) -> bb::ReviewDone {
    bb::ReviewDone {
        head: head.into(),
        base: "b".repeat(40),
        tree: "t".repeat(40),
        files: vec!["a.rs".into()],
        lines: 40,
        verdict,
        raw_verdict: Some(verdict),
        dialect: "plain".into(),
        reason: "it says so".into(),
        summary: Some(format!("the reviewer's word is {verdict}")),
        body: format!("REVIEW_RESULT: {verdict}"),
        findings: findings.to_vec(),
        judged: Vec::new(),
        threshold: Severity::Medium,
        agent: "scripted".into(),
        model: None,
    }
}

pub(in crate::blackboard) fn gate_rejection(head: &str) -> bb::GateRejection {
    bb::GateRejection {
        head: head.into(),
        base: "b".repeat(40),
        command: "npm test".into(),
        status: Some(1),
        summary: "the gate `npm test` is red on this head: adds".into(),
        body: "the output of npm test".into(),
    }
}

pub(in crate::blackboard) fn fix_done(head_before: &str) -> bb::FixDone {
    bb::FixDone {
        head_before: head_before.into(),
        head_after: head_before.chars().skip(1).chain(['f']).collect(),
        commits: 1,
        files: vec!["a.rs".into()],
        answers: Vec::new(),
        pushed_to: None,
        posts: Vec::new(),
        rest: None,
    }
}

pub(in crate::blackboard) fn failure() -> Escalation {
    Escalation::new("the agent ended with status 3", "look, then retry")
        .with_wip(Some("refs/remand/wip/r1".into()))
}

/// Metadata as our own review writes it, which continues the round.
pub(in crate::blackboard) fn no_round() -> Value {
    json!({ "begins_round": false })
}
