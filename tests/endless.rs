//! Endless loops, as observed elsewhere: here each ends by a limit that is stored on the change.

use std::time::{Duration, Instant};

use crate::support::play::{FIXES, NEVER_SATISFIED, PATIENCE, Play, Script};

/// Always changes the tree.
const CHANGES_SOMETHING: &str = "cat >/dev/null\necho \"$REMAND_ITEM\" >>work.txt\n";

fn escalation(play: &Play) -> String {
    play.world.sqlite(
        "SELECT summary FROM events WHERE event_type = 'escalated' ORDER BY id DESC LIMIT 1",
    )
}

fn fixes(play: &Play) -> i64 {
    play.count("work_items WHERE source = 'review_fix'")
}

/// LOOP-1, LOOP-5: an agent that changes nothing and reports "Done" is neither a success nor
/// reviewed again.
#[test]
fn a_fix_that_changed_nothing_is_its_own_outcome() {
    let fixer = r#"cat >/dev/null
echo 'Done, all is fixed.'
echo '{"answers": [{"id": "f1", "answer": "cannot_fix", "reason": "the file is generated"}]}'
"#;
    let play = Play::new(&Script {
        fixer,
        ..Script::default()
    });
    play.tick().report();
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert!(
        escalation(&play).starts_with("the agent changed nothing"),
        "{}",
        escalation(&play)
    );
    assert_eq!(
        play.count("work_items WHERE source = 'code_review'"),
        1,
        "the same head is not reviewed again"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle || ' ' || total_fixes FROM changes"),
        "0 0",
        "a no-op is no fix"
    );
    assert_eq!(
        play.world.sqlite("SELECT DISTINCT state FROM rejections"),
        "escalated",
        "and answers no rejection"
    );
    play.check();
}

/// LOOP-1, LOOP-2: whoever asks for more, and for whatever reason, the total number of fixes is
/// never reset.
#[test]
fn the_fixes_of_a_life_end_whoever_asks_for_more() {
    let tables = "[loop]\nmax_fix_cycles = 2\nmax_total_fixes = 3\n";
    let play = Play::new(&Script {
        reviewer: NEVER_SATISFIED,
        fixer: CHANGES_SOMETHING,
        tables,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!((play.state().as_str(), fixes(&play)), ("escalated", 2));

    // A person's decision starts a new round, which ends after one fix and not after two.
    play.world
        .remand(&["refine", "c1", "--text", "once more, please"])
        .ok();
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle || '/' || max_fix_cycles FROM changes"),
        "0/2",
        "a new round"
    );
    play.tick().report();
    assert_eq!((play.state().as_str(), fixes(&play)), ("escalated", 3));
    assert_eq!(
        escalation(&play),
        "c1 has used all of its 3 fixes — requires human review"
    );

    let refused = play
        .world
        .remand(&["refine", "c1", "--text", "and once more"]);
    refused.fails(5, "c1 has used all of its fixes (3)");
    // Nor does a new head by a person restore any.
    play.world
        .commit(&play.worktree, "own.txt", "mine", "by hand");
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    assert_eq!((play.state().as_str(), fixes(&play)), ("escalated", 3));
    assert_eq!(play.world.sqlite("SELECT total_fixes FROM changes"), "3");
    play.check();
}

/// LOOP-2: tokens reported by agents are summed on the change, across restarts, and end it; a new
/// head changes nothing.
#[test]
fn tokens_are_a_budget_that_survives_restarts_and_new_heads() {
    let tells = r#"echo '{"tokens": 400}' >"$REMAND_RESULT""#;
    let reviewer = format!("{tells}\n{NEVER_SATISFIED}");
    let fixer = format!("{tells}\n{CHANGES_SOMETHING}");
    let tables = "[loop]\nmax_tokens = 1000\nmax_fix_cycles = 50\nmax_total_fixes = 50\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        tables,
        ..Script::default()
    });
    // Each run in a separate process.
    play.world.remand(&["work"]).report();
    assert_eq!(play.world.sqlite("SELECT tokens FROM changes"), "400");
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert_eq!(
        play.world.sqlite("SELECT tokens FROM changes"),
        "1200",
        "400 three times, and no fourth"
    );
    assert_eq!(play.count("runs"), 3);
    assert_eq!(
        escalation(&play),
        "c1 used 1200 tokens, its limit — requires human review"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT metadata ->> 'bound' FROM events WHERE event_type = 'escalated'"),
        "tokens"
    );

    play.world
        .commit(&play.worktree, "own.txt", "mine", "by hand");
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    assert_eq!(play.count("runs"), 3, "not even a review is paid for");
    assert_eq!(play.state(), "escalated");
    play.check();
}

/// LOOP-2: the same applies to the agents' time.
#[test]
fn time_is_a_budget_that_survives_restarts() {
    let reviewer = format!("sleep 0.6\n{NEVER_SATISFIED}");
    let tables = "[loop]\nmax_run_s = 1\nmax_fix_cycles = 50\nmax_total_fixes = 50\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: CHANGES_SOMETHING,
        tables,
        ..Script::default()
    });
    play.world.remand(&["work"]).report();
    let spent: i64 = play
        .world
        .sqlite("SELECT run_ms FROM changes")
        .parse()
        .unwrap();
    assert!((600..1000).contains(&spent), "{spent} ms");
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    let told = escalation(&play);
    assert!(
        told.starts_with("c1 reached ") && told.ends_with("requires human review"),
        "{told}"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT metadata ->> 'bound' FROM events WHERE event_type = 'escalated'"),
        "time"
    );
    let runs = play.count("runs");
    assert!(runs <= 3, "{runs} runs in one second of agents' time");
    play.check();
}

/// LOOP-2: the budget is checked before each run, also before the second one inside an item.
#[test]
fn a_budget_that_ran_out_inside_an_item_stops_the_next_run_of_it() {
    let fixer = format!("echo '{{\"tokens\": 5000}}' >\"$REMAND_RESULT\"\n{CHANGES_SOMETHING}");
    let tables = "[loop]\nmax_tokens = 1000\n";
    let settings = "gates = [[\"false\"]]";
    let play = Play::new(&Script {
        fixer: &fixer,
        settings,
        tables,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 1);
    assert_eq!(
        play.count("runs JOIN work_items USING (item_id) WHERE source = 'review_fix'"),
        1,
        "the red gate was not paid for with a second run: {:#?}",
        play.events()
    );
    play.check();
}

/// LOOP-3: a reviewer that reports something that the fixer cannot change: after two fixes it is
/// escalated to a person, long before the limit.
#[test]
fn the_same_finding_after_two_fixes_is_handed_to_a_person() {
    let reviewer = r#"says changes_requested "not yet" "$(finding generated.txt 1 'this file must not be ignored')""#;
    let tables = "[loop]\nmax_fix_cycles = 5\n";
    let play = Play::new(&Script {
        reviewer,
        fixer: CHANGES_SOMETHING,
        tables,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!((play.state().as_str(), fixes(&play)), ("escalated", 2));
    assert_eq!(
        escalation(&play),
        "c1 is making no progress: the same finding in generated.txt is still open after 2 fixes: this file must not be ignored — requires human review"
    );
    let bound = play
        .world
        .sqlite("SELECT metadata ->> 'bound' FROM events WHERE event_type = 'escalated'");
    assert_eq!(bound, "no_progress");
    // A person's decision resets this history, not the counters.
    play.world
        .remand(&["refine", "c1", "--text", "take it out of .gitignore"])
        .ok();
    play.tick().report();
    assert_eq!(play.state(), "escalated");
    assert!(
        fixes(&play) > 3,
        "judged by what came since: {:#?}",
        play.events()
    );
}

/// LOOP-3: fixes that go in a circle (A, B, A) end when a tree repeats, whatever the findings are.
#[test]
fn a_tree_seen_before_ends_the_loop() {
    let fixer = "cat >/dev/null\nif grep -q round work.txt; then echo work >work.txt; else echo round >>work.txt; fi\n";
    let tables = "[loop]\nmax_fix_cycles = 5\n";
    let play = Play::new(&Script {
        reviewer: NEVER_SATISFIED,
        fixer,
        tables,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!((play.state().as_str(), fixes(&play)), ("escalated", 2));
    let told = escalation(&play);
    assert!(
        told.contains("the code is again the same as in review 1: the fixes are going in circles"),
        "{told}"
    );
    play.check();
}

/// LOOP-3: more findings than two cycles ago is not progress either.
#[test]
fn more_findings_than_two_fixes_ago_ends_the_loop() {
    let reviewer = r#"
case "$REMAND_CYCLE" in
    0) list="$(finding work.txt 1 'one')" ;;
    1) list="$(finding work.txt 1 'two')" ;;
    *) list="$(finding work.txt 1 'three'), $(finding work.txt 2 'four')" ;;
esac
says changes_requested "cycle $REMAND_CYCLE" "$list"
"#;
    let tables = "[loop]\nmax_fix_cycles = 5\n";
    let play = Play::new(&Script {
        reviewer,
        fixer: CHANGES_SOMETHING,
        tables,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!((play.state().as_str(), fixes(&play)), ("escalated", 2));
    let told = escalation(&play);
    assert!(
        told.contains("the last review has 2 blocking findings, up from 1 two fixes ago"),
        "{told}"
    );
}

/// LOOP-4: the reviewer is asked to list every place in one finding, the fixer to fix the whole
/// class.
#[test]
fn the_prompts_ask_for_every_instance_of_a_class() {
    let play = Play::new(&Script::default());
    play.tick().report();
    let of = |source: &str| {
        let sql = format!(
            "SELECT run_id FROM runs JOIN work_items USING (item_id) WHERE source = '{source}' LIMIT 1"
        );
        play.prompt_of_run(&play.world.sqlite(&sql))
    };
    let review = of("code_review");
    assert!(
        review.contains("find every occurrence and list them in one finding"),
        "{review}"
    );
    let fix = of("review_fix");
    assert!(
        fix.contains(
            "search the change for other instances of the same mistake\n  and fix them too"
        ),
        "{fix}"
    );
}

/// LOOP-6, LOOP-9: a failed launch changes no counter of successes; a retry continues the count and
/// does not restart it.
#[test]
fn attempts_only_go_up_and_a_launch_is_no_progress() {
    let play = Play::new(&Script {
        fixer: "cat >/dev/null\nexit 1\n",
        ..Script::default()
    });
    let seen = |play: &Play| {
        play.world
            .sqlite("SELECT attempt || ' ' || epoch FROM work_items WHERE source = 'review_fix'")
    };
    play.tick().report();
    assert_eq!(seen(&play), "1 1");
    let spent = |play: &Play| -> i64 {
        play.world
            .sqlite("SELECT run_ms FROM changes")
            .parse()
            .unwrap()
    };
    let first = spent(&play);
    for (round, verb) in [(2, "retry"), (3, "retry"), (4, "requeue")] {
        match verb {
            "retry" => play.world.remand(&["retry", "c1"]).ok(),
            _ => play.world.remand(&["item", "requeue", "w2"]).ok(),
        };
        play.tick().report();
        assert_eq!(seen(&play), format!("{round} {round}"));
        assert_eq!(
            play.state(),
            "escalated",
            "each failure is a person's again"
        );
    }
    assert!(spent(&play) > first, "what was spent stays spent");
    let counters = "SELECT fix_cycle || ' ' || total_fixes || ' ' || (SELECT outcome FROM findings) FROM changes";
    assert_eq!(
        play.world.sqlite(counters),
        "0 0 open",
        "four launches are no fix"
    );
    assert_eq!(play.count("work_items WHERE source = 'code_review'"), 1);
    play.check();
}

/// LOOP-7: a change whose agent cannot work is held alone; another one completes in the only slot.
#[test]
fn one_change_held_by_a_broken_agent_does_not_slow_another() {
    let fixer = format!(
        "if [ \"$REMAND_CHANGE\" = c1 ]; then echo '{{\"hold\": {{\"reason\": \"usage limit\"}}}}' >\"$REMAND_RESULT\"; exit 1; fi\n{FIXES}"
    );
    let tables = "[dispatch]\nslots = 1\nbackoff_first_s = 1\nbackoff_max_s = 600\n";
    let play = Play::new(&Script {
        fixer: &fixer,
        tables,
        ..Script::default()
    });
    play.world.sqlite("UPDATE work_items SET priority = 'P1'");
    let daemon = play.daemon();
    play.wait_for(
        "SELECT count(*) > 0 FROM events WHERE event_type = 'held'",
        "1",
    );
    let begun = Instant::now();
    let (other, _) = play.another("other");
    play.wait_for(
        &format!("SELECT state FROM changes WHERE change_id = '{other}'"),
        "ready_for_human_review",
    );
    assert!(
        begun.elapsed() < PATIENCE / 2,
        "{:?} beside a change that is held",
        begun.elapsed()
    );
    // The held one retries by itself, less and less often, and spends neither a cycle nor an
    // attempt.
    play.wait_for(
        "SELECT count(*) >= 3 FROM events WHERE event_type = 'held'",
        "1",
    );
    let waits = play.world.sqlite(
        "SELECT group_concat(CAST(round((julianday(metadata ->> 'until') - julianday(timestamp)) * 86400) AS INTEGER), ' ')
         FROM (SELECT * FROM events WHERE event_type = 'held' ORDER BY id LIMIT 3)",
    );
    assert_eq!(waits, "1 2 4", "the wait doubles");
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle || ' ' || total_fixes FROM changes WHERE change_id = 'c1'"),
        "0 0"
    );
    let attempt = "SELECT attempt FROM work_items WHERE change_id = 'c1' AND source = 'review_fix'";
    play.wait_for(&format!("{attempt} AND status = 'blocked'"), "0");
    assert!(daemon.stop().success());
    play.check();
}

/// LOOP-8: the counters are columns: a daemon killed between two fixes continues where it was.
#[test]
fn a_restart_begins_where_the_counters_are() {
    let play = Play::new(&Script {
        reviewer: NEVER_SATISFIED,
        fixer: CHANGES_SOMETHING,
        ..Script::default()
    });
    for round in 1..=2 {
        let daemon = play.daemon();
        play.wait_for(
            &format!("SELECT count(*) >= {round} FROM events WHERE event_type = 'fix_committed'"),
            "1",
        );
        daemon.kill();
    }
    let daemon = play.daemon();
    play.wait_for_state("escalated");
    assert!(daemon.stop().success());
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix' AND status = 'completed'"),
        2
    );
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle || ' ' || total_fixes FROM changes"),
        "2 2"
    );
    assert_eq!(
        escalation(&play),
        "c1 exceeded max fix cycles (2) — requires human review"
    );
    play.check();
}

/// LOOP-1: an agent that kills its own shim is not run forever: an unexpected end counts like any
/// loss.
#[test]
fn an_agent_that_stops_its_own_shim_is_not_run_for_ever() {
    let fixer = "cat >/dev/null\nkill -TERM $PPID\nsleep 5\n";
    let tables = "[dispatch]\nmax_lost_runs = 3\n";
    let play = Play::new(&Script {
        fixer,
        tables,
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(play.state(), "escalated", "{:#?}", play.events());
    assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 3);
    play.check();
}

/// LOOP-9: lost runs are counted across restarts; the fifth in a row is escalated to a person.
#[test]
fn runs_that_vanish_are_counted_over_restarts() {
    let fixer = "cat >/dev/null\nkill -9 $$\n";
    let tables = "[dispatch]\nmax_lost_runs = 3\n";
    let play = Play::new(&Script {
        fixer,
        tables,
        ..Script::default()
    });
    let begun = Instant::now();
    while play.state() != "escalated" && begun.elapsed() < Duration::from_secs(30) {
        play.tick().report();
    }
    let lost = "SELECT group_concat(metadata ->> 'lost_in_a_row', ' ') FROM events WHERE event_type = 'run_lost'";
    assert_eq!(play.world.sqlite(lost), "1 2 3");
    assert_eq!(escalation(&play), "3 runs in a row ended without a result");
    assert_eq!(play.world.sqlite("SELECT total_fixes FROM changes"), "0");
    play.check();
}
