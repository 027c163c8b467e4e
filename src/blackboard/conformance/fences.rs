//! Cases for ended claims: they cannot write anything, whatever their holder tries.

use std::time::Duration;

use super::story::{
    LEASE, Story, failure, fix_done, gate_rejection, new_run, review_done, unclear,
};
use crate::blackboard::{self as bb, BoardError, Claimed, Conn, Result};
use crate::clock::Time;
use crate::finding::Verdict;
use crate::work::{Claim, GateResult, Run};

/// Every write of a run, by name.
type Write = fn(&Conn, &Claimed, &Claim, &Run, Time) -> Result<()>;

const WRITES: &[(&str, Write)] = &[
    ("renew", |conn, _, claim, _, now| {
        bb::renew(conn, claim, LEASE, now)
    }),
    ("give_back", |conn, _, claim, _, now| {
        bb::give_back(conn, claim, None, now)
    }),
    ("lose_run", |conn, _, claim, _, _| {
        bb::lose_run(conn, claim).map(drop)
    }),
    ("hold", |conn, claimed, claim, _, now| {
        let hold = bb::Hold {
            kind: crate::change::HoldKind::Environment,
            reason: "no network".into(),
            until: now.plus(Duration::from_secs(60)),
        };
        bb::hold(conn, claim, &claimed.change.change_id, &hold, now)
    }),
    ("fail", |conn, _, claim, _, now| {
        bb::fail(conn, claim, &failure(), now).map(drop)
    }),
    ("ask_again", |conn, _, claim, _, now| {
        bb::ask_again(conn, claim, &unclear(&[]), now)
    }),
    ("start_run", |conn, claimed, claim, _, now| {
        bb::start_run(conn, claim, &claimed.change, &new_run(), now).map(drop)
    }),
    ("record_head_after", |conn, _, claim, run, _| {
        bb::record_head_after(conn, claim, &run.run_id, "abc")
    }),
    ("record_gates", |conn, _, claim, run, _| {
        bb::record_gates(conn, claim, &run.run_id, GateResult::Red, "").map(drop)
    }),
    ("refuse_run", |conn, _, claim, run, _| {
        bb::refuse_run(conn, claim, &run.run_id, "a secret in it")
    }),
    ("finish_review", |conn, claimed, claim, _, now| {
        let done = review_done(&claimed.change.head, Verdict::Approved, &[]);
        bb::finish_review(conn, claim, &done, now).map(drop)
    }),
    ("reject_by_gate", |conn, claimed, claim, _, now| {
        bb::reject_by_gate(conn, claim, &gate_rejection(&claimed.change.head), now).map(drop)
    }),
    ("finish_fix", |conn, claimed, claim, _, now| {
        bb::finish_fix(conn, claim, &fix_done(&claimed.change.head), now).map(drop)
    }),
];

/// Ways in which a claim ends without its holder.
type End = fn(&mut Story, &Claimed);

const ENDS: &[(&str, End)] = &[
    ("given back", |story, claimed| {
        story
            .step(|conn, now| bb::give_back(conn, &claimed.claim(), None, now))
            .unwrap();
    }),
    ("claimed by another", |story, claimed| {
        story
            .step(|conn, now| bb::give_back(conn, &claimed.claim(), None, now))
            .unwrap();
        story.claim();
    }),
    ("cancelled", |story, claimed| {
        story
            .step(|conn, now| bb::cancel_change(conn, &claimed.change.change_id, None, "ann", now))
            .unwrap();
    }),
    ("failed", |story, claimed| {
        story.fail(&claimed.claim());
    }),
];

#[test]
fn a_stale_claim_writes_nothing() {
    for (ended, end) in ENDS {
        let mut story = Story::begin();
        story.change_with_fix();
        let claimed = story.claim();
        let run = story.run(&claimed);
        end(&mut story, &claimed);
        let image = story.engine.image();
        for (name, write) in WRITES {
            let now = story.later();
            // The error is returned as a value, so that anything written before it would be
            // committed.
            let result = story
                .engine
                .write(|conn| Ok(write(conn, &claimed, &claimed.claim(), &run, now)))
                .unwrap();
            assert!(
                matches!(result, Err(BoardError::Stale { .. })),
                "{name} after {ended}: {result:?}"
            );
            assert_eq!(
                story.engine.changed_since(&image),
                [] as [String; 0],
                "{name} after {ended} wrote something"
            );
        }
        story.check();
    }
}

#[test]
fn a_claim_of_the_future_writes_nothing_either() {
    let mut story = Story::begin();
    story.change_with_fix();
    let claimed = story.claim();
    let run = story.run(&claimed);
    let ahead = Claim {
        epoch: claimed.item.epoch + 1,
        ..claimed.claim()
    };
    let image = story.engine.image();
    for (name, write) in WRITES {
        let now = story.later();
        let result = story
            .engine
            .write(|conn| Ok(write(conn, &claimed, &ahead, &run, now)))
            .unwrap();
        assert!(
            matches!(result, Err(BoardError::Stale { .. })),
            "{name}: {result:?}"
        );
        assert_eq!(
            story.engine.changed_since(&image),
            [] as [String; 0],
            "{name} wrote something"
        );
    }
}
