//! Tests that the stored words are the same in the enums and in `schema.sql`.

use std::collections::BTreeSet;

use crate::blackboard as bb;
use crate::blackboard::events::EXPLAINING;
use crate::blackboard::sql::params;
use crate::change::{AdoptedBy, FinalVerdict, HoldKind, OnMaxCycles, State};
use crate::event::{EventType, TargetType};
use crate::finding::RaisedBy;
use crate::finding::{Category, Outcome, Severity, Verdict};
use crate::proposal::Bound;
use crate::pull_request::ReadTrouble;
use crate::pull_request::{Permission, PullState, ReviewState, Trust};
use crate::state;
use crate::work::RejectionEnd;
use crate::work::{Ended, GateResult, Priority, RejectionState, Source, Status};

const SCHEMA: &str = include_str!("../../../schema.sql");

/// Returns the list that follows `before` in the statement that starts with `statement`.
fn listed(statement: &str, before: &str) -> BTreeSet<String> {
    let from = SCHEMA
        .split_once(statement)
        .unwrap_or_else(|| panic!("no {statement}"))
        .1;
    let within = from.split_once("\n)").map_or(from, |(within, _)| within);
    let list = within
        .split_once(before)
        .unwrap_or_else(|| panic!("no {before} in {statement}"))
        .1;
    let (list, _) = list.split_once(')').unwrap();
    list.split(',')
        .map(|word| word.trim().trim_matches('\'').to_owned())
        .collect()
}

fn set<T: ToString>(words: &[T]) -> BTreeSet<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn the_schema_lists_every_bound_of_an_escalation() {
    let (_, list) = SCHEMA.split_once("bound: ").unwrap();
    let (list, _) = list.split_once(';').unwrap();
    let listed: BTreeSet<String> = list.split('|').map(str::to_owned).collect();
    assert_eq!(listed, set(Bound::ALL));
}

#[test]
fn the_schema_lists_exactly_the_words_of_each_enum() {
    let checks = [
        ("changes", "state", set(State::ALL)),
        ("changes", "on_max_cycles", set(OnMaxCycles::ALL)),
        ("changes", "hold_kind", set(HoldKind::ALL)),
        ("configuration", "changed_kind", set(bb::ChangedKind::ALL)),
        ("changes", "final_verdict", set(FinalVerdict::ALL)),
        ("events", "target_type", set(TargetType::ALL)),
        ("work_items", "source", set(Source::ALL)),
        ("work_items", "status", set(Status::ALL)),
        ("work_items", "priority", set(Priority::ALL)),
        ("rejections", "state", set(RejectionState::ALL)),
        ("rejections", "ended_by", set(RejectionEnd::ALL)),
        ("pulls", "trouble_kind", set(ReadTrouble::ALL)),
        ("discoveries", "trouble_kind", set(ReadTrouble::ALL)),
        ("findings", "raised_by", set(RaisedBy::ALL)),
        ("runs", "ended", set(Ended::ALL)),
        ("runs", "gates", set(GateResult::ALL)),
        ("reviews", "verdict", set(Verdict::ALL)),
        ("reviews", "raw_verdict", set(Verdict::ALL)),
        ("findings", "severity", set(Severity::ALL)),
        ("findings", "category", set(Category::ALL)),
        ("findings", "outcome", set(Outcome::ALL)),
        ("changes", "adopted_by", set(AdoptedBy::ALL)),
        ("feedback", "trust", set(Trust::ALL)),
        ("feedback", "state", set(ReviewState::ALL)),
        ("pulls", "state", set(PullState::ALL)),
        ("pulls", "acted_on", set(PullState::ALL)),
        ("permissions", "permission", set(Permission::ALL)),
        ("intents", "kind", set(bb::IntentKind::ALL)),
        ("sweeps", "kind", set(bb::Where::ALL)),
    ];
    for (table, column, words) in checks {
        let statement = format!("CREATE TABLE {table} (");
        assert_eq!(
            listed(&statement, &format!("CHECK ({column} IN (")),
            words,
            "{table}.{column}"
        );
    }
    assert_eq!(
        listed("CREATE TRIGGER events_known_type", "NOT IN ("),
        set(EventType::ALL),
        "events.event_type"
    );
    assert_eq!(
        listed("CREATE INDEX events_explaining", "event_type IN ("),
        set(&EXPLAINING),
        "events_explaining"
    );
}

#[test]
fn a_change_is_escalated_from_where_it_can_rest() {
    let resting: Vec<State> = State::ALL
        .iter()
        .filter(|state| !state.is_over() && **state != State::Escalated)
        .map(|state| state::resting(*state))
        .collect();
    assert_eq!(
        listed("CREATE TABLE changes (", "CHECK (escalated_from IN ("),
        set(&resting)
    );
}

#[test]
fn the_board_for_people_has_the_columns_of_the_program() {
    let mut story = crate::blackboard::conformance::story::Story::begin();
    let both = State::ALL.iter().map(|state| (state, true));
    for (state, skip_tests) in both.chain([(&State::ReadyForHumanReview, false)]) {
        let column: String = story
            .engine
            .write(|conn| {
                conn.execute("DELETE FROM changes", &[])?;
                conn.execute(
                    "INSERT INTO changes (change_id, project_id, title, branch, base, head, worktree, host, state,
                         escalated_from, skip_tests, max_fix_cycles, max_total_fixes, max_run_ms, created_at, updated_at)
                     VALUES ('c1', 'shop', '', '', '', '', '', '', :state, iif(:state = 'escalated', 'queued', NULL), :skip_tests, 1, 1, 1,
                         '2026-11-16T08:00:00.000Z', '2026-11-16T08:00:00.000Z')",
                    params! { state, skip_tests },
                )?;
                conn.one("SELECT board_column FROM board", &[], |row| row.get(0))
            })
            .unwrap();
        assert_eq!(column, state.column(skip_tests), "{state}");
    }
}
