//! No decision depends on the wording of a text: the scenarios of the loop take the same course if
//! every stored text for people is random words.
#![cfg(feature = "failpoints")]

use serde_json::{Value, json};

use crate::support::World;
use crate::support::play::{Play, Script};
use crate::support::pull_play::{PullPlay, quiet, rejecting};

/// Columns on which a decision may depend, of everything that a scenario leaves.
const CODES: &[&str] = &[
    "SELECT change_id, state, escalated_from, fix_cycle, total_fixes, max_fix_cycles, paused, hold_kind, holds, last_hold,
         held_until IS NULL, hold_reason IS NULL, decision IS NULL, final_verdict, human_review_required, auto_fix
     FROM changes ORDER BY change_id",
    "SELECT event_type, actor_id, target_type, target_id, metadata ->> 'from', metadata ->> 'to', metadata ->> 'on',
         metadata ->> 'code', metadata ->> 'bound', metadata ->> 'action', metadata ->> 'what', metadata ->> 'kind',
         metadata ->> 'verdict', metadata ->> 'result'
     FROM events WHERE event_type <> 'head_moved' ORDER BY id",
    "SELECT item_id, source, status, attempt, fix_cycle, rejection_id, failure_reason IS NULL FROM work_items ORDER BY created_at, item_id",
    "SELECT rejection_id, state, ended_by, item_id, by_person, reason IS NULL FROM rejections ORDER BY rejection_id",
    "SELECT feedback_id, forge_id, trust, kind, state, outcome, used_in FROM feedback ORDER BY feedback_id",
    "SELECT kind, result, tries, trouble IS NULL FROM intents ORDER BY created_at, kind, key",
    "SELECT number, state, acted_on, is_judged, failures, trouble_kind, trouble IS NULL, passed_over IS NULL FROM pulls ORDER BY number",
    "SELECT finding_id, severity, outcome, resolution FROM findings ORDER BY finding_id",
    "SELECT run_id, item_id, ended, gates, discarded, refused IS NULL FROM runs ORDER BY run_id",
];

#[derive(Clone, Copy, PartialEq)]
enum Prose {
    Plain,
    Scrambled,
}

/// Course of a scenario: everything that is compared, after each of its steps.
struct Course {
    prose: Prose,
    steps: Vec<(String, Vec<String>)>,
}

impl Course {
    /// Sets the switch in an environment that has no change yet.
    fn begin(&self, world: &mut World) {
        if self.prose == Prose::Scrambled {
            world.variables.push(("REMAND_SCRAMBLE_PROSE", "1"));
        }
    }

    #[track_caller]
    fn step(&mut self, name: &str, world: &World, state: &str) {
        let is = world.sqlite("SELECT state FROM changes WHERE change_id = 'c1'");
        let events = world.sqlite("SELECT event_type, summary, metadata FROM events ORDER BY id");
        assert_eq!(is, state, "{name}:\n{events}");
        let mut seen: Vec<String> = CODES.iter().map(|sql| world.sqlite(sql)).collect();
        let why = world.why("c1");
        assert!(why["because"].is_string(), "{why}");
        seen.push(world.plain(&json!([why["because"], why["commands"]]).to_string()));
        self.steps.push((name.to_owned(), seen));
    }

    /// Records the files and the number of commits of the remote's branch. Commits have times, so
    /// their ids differ.
    fn remote(&mut self, stage: &PullPlay) {
        let git = |args: &[&str]| stage.play.world.git(&stage.remote, args);
        let tree = git(&["rev-parse", "feature^{tree}"]);
        let commits = git(&["rev-list", "--count", "feature"]);
        self.steps
            .push(("remote".to_owned(), vec![format!("{tree} {commits}")]));
    }
}

/// Runs a scenario twice and compares its steps.
#[track_caller]
fn takes_the_same_course(story: impl Fn(&mut Course)) {
    let [plain, scrambled] = [Prose::Plain, Prose::Scrambled].map(|prose| {
        let mut course = Course {
            prose,
            steps: Vec::new(),
        };
        story(&mut course);
        course.steps
    });
    assert_eq!(plain.len(), scrambled.len());
    for ((name, plain), (_, scrambled)) in plain.iter().zip(&scrambled) {
        for (plain, scrambled) in plain.iter().zip(scrambled) {
            assert_eq!(plain, scrambled, "{name}");
        }
    }
}

fn local(course: &Course, script: &Script<'_>) -> Play {
    let mut play = Play::without_change(script);
    course.begin(&mut play.world);
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

fn pull(course: &Course, script: &Script<'_>) -> PullPlay {
    let mut stage = PullPlay::unwatched(script);
    course.begin(&mut stage.play.world);
    stage.watch();
    stage
}

#[test]
fn the_switch_replaces_every_sentence() {
    let course = Course {
        prose: Prose::Scrambled,
        steps: Vec::new(),
    };
    let play = local(
        &course,
        &Script {
            tables: "[loop]\nmax_fix_cycles = 0\n",
            ..Script::default()
        },
    );
    play.tick().report();
    let stored = play.world.sqlite(
        "SELECT summary FROM events WHERE change_id = 'c1'
         UNION ALL SELECT decision FROM changes UNION ALL SELECT reason FROM rejections UNION ALL SELECT reason FROM reviews",
    );
    assert!(stored.lines().count() > 8, "{stored}");
    let metadata = play.world.sqlite(
        "SELECT metadata ->> 'reason' FROM events WHERE event_type IN ('escalated', 'work_failed', 'work_cancelled', 'skipped')
         UNION ALL SELECT metadata ->> 'decide' FROM events WHERE event_type = 'escalated'",
    );
    assert!(metadata.lines().count() > 1, "{metadata}");
    for line in stored.lines().chain(metadata.lines()) {
        let is_random = line.len() == 26 && line.split(' ').all(|word| word.len() == 8);
        assert!(is_random, "{line:?} in\n{stored}");
    }
}

#[test]
fn a_rejection_is_fixed_and_approved() {
    takes_the_same_course(|course| {
        let play = local(course, &Script::default());
        play.tick().report();
        course.step("fixed", &play.world, "ready_for_human_review");
        play.world.remand(&["approve", "c1"]).ok();
        course.step("approved", &play.world, "approved");
    });
}

#[test]
fn a_persons_request_on_a_pull_request_is_fixed_approved_and_merged() {
    takes_the_same_course(|course| {
        let stage = pull(course, &quiet());
        let world = &stage.play.world;
        stage.tick();
        course.step("reviewed", world, "ready_for_human_review");
        stage.review(
            "bob",
            "CHANGES_REQUESTED",
            "say fixed",
            &[("work.txt", 1, "here")],
        );
        stage.tick();
        stage.tick();
        course.step("fixed", world, "ready_for_human_review");
        course.remote(&stage);
        stage.review("bob", "APPROVED", "", &[]);
        stage.tick();
        course.step("approved", world, "approved");
        stage.forge.merge(1, "bob");
        stage.tick();
        course.step("merged", world, "merged");
    });
}

#[test]
fn an_approval_counts_once_the_objection_is_dismissed() {
    takes_the_same_course(|course| {
        let stage = pull(course, &quiet());
        let world = &stage.play.world;
        stage.forge.add_user("dave", "write");
        stage.tick();
        world.remand(&["pause", "c1"]).ok();
        let objection = stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
        stage.tick();
        stage.review("dave", "APPROVED", "", &[]);
        stage.tick();
        course.step("passed over", world, "addressing_feedback");
        stage.forge.dismiss(1, objection);
        stage.tick();
        world.remand(&["resume", "c1"]).ok();
        stage.tick();
        course.step("dismissed", world, "approved");
        course.remote(&stage);
    });
}

#[test]
fn a_rejection_that_waits_while_the_pull_request_is_closed_goes_on() {
    takes_the_same_course(|course| {
        let stage = pull(course, &quiet());
        let world = &stage.play.world;
        stage.tick();
        world.remand(&["pause", "c1"]).ok();
        stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
        stage.tick();
        stage.forge.close(1);
        stage.tick();
        course.step("closed", world, "closed");
        stage.forge.reopen(1);
        stage.tick();
        world.remand(&["resume", "c1"]).ok();
        stage.tick();
        stage.tick();
        course.step("fixed", world, "ready_for_human_review");
        course.remote(&stage);
    });
}

#[test]
fn a_person_is_waited_for_again_after_the_pull_request_was_closed() {
    takes_the_same_course(|course| {
        let stage = pull(
            course,
            &Script {
                tables: "[loop]\nmax_fix_cycles = 0\n",
                ..rejecting()
            },
        );
        let world = &stage.play.world;
        stage.tick();
        course.step("escalated", world, "escalated");
        stage.forge.close(1);
        stage.tick();
        course.step("closed", world, "closed");
        stage.forge.reopen(1);
        stage.tick();
        course.step("reopened", world, "escalated");
        world.remand(&["cycles", "c1", "1"]).ok();
        stage.tick();
        course.step("fixed", world, "ready_for_human_review");
        course.remote(&stage);
    });
}

#[test]
fn a_pull_request_that_cannot_be_read_is_held_escalated_and_recovers() {
    let gone = json!({ "status": { "status": 404, "body": "{\"message\": \"Not Found\"}" } });
    takes_the_same_course(|course| {
        let stage = pull(course, &rejecting());
        let world = &stage.play.world;
        let fault = |then: &Value| {
            stage
                .forge
                .fault(json!({ "path": "pulls/1", "times": 1000, "then": then }));
        };
        fault(&gone);
        stage.tick();
        course.step("held", world, "awaiting_pr_feedback");
        stage.tick();
        stage.tick();
        course.step("given to a person", world, "escalated");
        stage.forge.clear_faults();
        stage.tick();
        stage.tick();
        course.step("fixed", world, "ready_for_human_review");
        course.remote(&stage);
    });
}

#[test]
fn a_bound_is_reached_and_raised() {
    takes_the_same_course(|course| {
        let play = local(
            course,
            &Script {
                tables: "[loop]\nmax_fix_cycles = 0\n",
                ..Script::default()
            },
        );
        let world = &play.world;
        play.tick().report();
        course.step("at its bound", world, "escalated");
        set(world, "max_fix_cycles = 0", "max_fix_cycles = 1");
        play.tick().report();
        course.step("raised", world, "escalated");
        world.remand(&["retry", "c1"]).ok();
        play.tick().report();
        course.step("fixed", world, "ready_for_human_review");
    });
}

#[test]
fn a_fix_that_failed_is_tried_again() {
    takes_the_same_course(|course| {
        let play = local(
            course,
            &Script {
                fixer: "cat >/dev/null\n",
                ..Script::default()
            },
        );
        play.tick().report();
        course.step("failed", &play.world, "escalated");
        play.fixer(crate::support::play::FIXES);
        play.world.remand(&["retry", "c1"]).ok();
        play.tick().report();
        course.step("fixed", &play.world, "ready_for_human_review");
    });
}

#[test]
fn a_change_without_an_agent_is_held_and_resumed() {
    takes_the_same_course(|course| {
        let play = local(course, &Script::default());
        let world = &play.world;
        let config = world.root().join("config/remand/config.toml");
        let good = std::fs::read_to_string(config).unwrap();
        world.config("red_base = \"ignore\"\n[sandbox]\nkind = \"off\"\n");
        play.tick();
        course.step("held", world, "self_reviewing");
        world.config(&good);
        world.remand(&["resume", "c1"]).ok();
        play.tick().report();
        course.step("fixed", world, "ready_for_human_review");
    });
}

#[test]
fn a_change_without_a_login_is_held_and_goes_on() {
    takes_the_same_course(|course| {
        let stage = pull(course, &rejecting());
        let world = &stage.play.world;
        stage.forge.log_out();
        stage.tick();
        course.step("held", world, "awaiting_pr_feedback");
        stage.forge.log_in("ada");
        stage.tick();
        stage.tick();
        course.step("fixed", world, "ready_for_human_review");
        course.remote(&stage);
    });
}

fn set(world: &World, from: &str, to: &str) {
    let path = world.root().join("config/remand/config.toml");
    let settings = std::fs::read_to_string(&path).unwrap();
    assert!(settings.contains(from), "{settings}");
    std::fs::write(&path, settings.replace(from, to)).unwrap();
}
