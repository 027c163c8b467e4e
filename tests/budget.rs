//! Limits on money, tokens, time and fixes; increases by a person; and spending.

use crate::support::play::{FIXES, Play, REVIEWS_FIXED, Script};

/// Reports the cost of a run in dollars, and continues with the script.
fn costs(usd: &str, script: &str) -> String {
    format!("echo '{{\"tokens\": 1000, \"cost_usd\": {usd}}}' >\"$REMAND_RESULT\"\n{script}")
}

fn bound(play: &Play) -> String {
    play.world.sqlite("SELECT metadata ->> 'bound' FROM events WHERE event_type = 'escalated' ORDER BY id DESC LIMIT 1")
}

/// LOOP-2, by money: ten dollars by default, then a person, who can allow more and is told how.
#[test]
fn a_change_that_spent_its_money_goes_on_when_a_person_allows_more() {
    let (reviewer, fixer) = (costs("6", REVIEWS_FIXED), costs("6", FIXES));
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        ..Script::default()
    });
    let world = &play.world;
    play.tick().report();
    play.is_escalated("c1 spent $12.00 (limit: $10.00)");
    assert_eq!(
        (bound(&play).as_str(), play.count("runs")),
        ("money", 2),
        "the second review was not paid"
    );
    assert_eq!(
        world.held_json(&["why", "c1"])["commands"][0],
        "remand budget c1 --money +5"
    );

    let told = world
        .remand(&["budget", "c1", "--money", "+5", "--why", "nearly there"])
        .ok()
        .stdout;
    assert!(
        told.contains("c1 is allowed $5.00 more (fix 1/2; 1 of 8 fixes"),
        "{told}"
    );
    assert!(
        told.contains("$12.00 of $17.00"),
        "what was spent beyond is not taken off: {told}"
    );
    let said = world.sqlite(
        "SELECT actor_id || ' ' || (metadata ->> 'action') || ' ' || (metadata ->> 'text') || ' ' || (metadata ->> '$.added.cost_micros')
         FROM events WHERE event_type = 'instructed'",
    );
    assert_eq!(said, "ada budget nearly there 5000000");
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        world.sqlite("SELECT cost_micros || ' ' || max_cost_micros FROM changes"),
        "18000000 17000000"
    );
}

/// The budget is spent before a fix is made: the rejection waits, and becomes the fix once more
/// money is allowed. More fixes alone are not enough.
#[test]
fn what_waited_for_money_is_fixed_in_the_same_round() {
    let (reviewer, fixer) = (costs("11", REVIEWS_FIXED), costs("0.5", FIXES));
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        ..Script::default()
    });
    let world = &play.world;
    play.tick().report();
    play.is_escalated("c1 spent $11.00 (limit: $10.00)");
    let told = world.remand(&["cycles", "c1", "1"]).ok().stdout;
    assert!(told.contains("is allowed 1 more fix (fix 0/3"), "{told}");
    assert!(
        told.contains("it needs you: c1 spent $11.00 (limit: $10.00)")
            && told.contains("remand budget c1 --money +5"),
        "{told}"
    );
    assert_eq!(
        (play.state().as_str(), bound(&play).as_str()),
        ("escalated", "money")
    );

    world.remand(&["budget", "c1", "--money", "30"]).ok();
    assert_eq!(play.state(), "refining");
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        world.sqlite("SELECT fix_cycle || '/' || max_fix_cycles FROM changes"),
        "1/3",
        "the round went on"
    );
}

#[test]
fn time_tokens_and_fixes_are_added_too() {
    let reviewer = costs("0.1", REVIEWS_FIXED);
    let tables = "[loop]\nmax_tokens = 500\nmax_total_fixes = 0\nmax_fix_cycles = 0\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        tables,
        ..Script::default()
    });
    let world = &play.world;
    play.tick().report();
    play.is_escalated("c1 has used all of its 0 fixes");
    assert!(
        play.answer().contains("remand budget c1 --fixes +1"),
        "{}",
        play.answer()
    );
    world.remand(&["budget", "c1", "--fixes", "+1"]).ok();
    play.is_escalated("c1 used 1000 tokens, its limit");
    assert_eq!(
        world.held_json(&["why", "c1"])["commands"][0],
        "remand budget c1 --tokens +500"
    );
    let after = world.json(&["budget", "c1", "--tokens", "+5000", "--time", "+30m"]);
    assert_eq!(after["budget"]["max_tokens"], 6000);
    assert_eq!(after["budget"]["max_run_ms"], 14_400_000 + 1_800_000);
    assert_eq!(after["state"], "refining", "{after}");
    play.tick().report();
    play.is_ready(1);
}

/// What something else stopped is not tried again by more money or fixes.
#[test]
fn a_limit_that_stopped_nothing_is_only_raised() {
    let play = Play::new(&Script {
        fixer: "exit 3\n",
        ..Script::default()
    });
    let world = &play.world;
    play.tick().report();
    play.is_escalated("exited with status 3");
    for (limit, amount) in [("--money", "+5"), ("--fixes", "+1"), ("--time", "+1h")] {
        let told = world.remand(&["budget", "c1", limit, amount]).ok().stdout;
        assert!(
            told.contains("but still needs you: it was not stopped by this limit alone"),
            "{limit}: {told}"
        );
        assert_eq!(play.state(), "escalated", "{limit}");
    }
    assert_eq!(
        world.sqlite("SELECT max_fix_cycles || ' ' || max_cost_micros FROM changes"),
        "3 15000000"
    );
    play.fixer(FIXES);
    world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn a_change_that_used_its_time_is_told_how_to_get_more() {
    let play = Play::new(&Script::default());
    play.world.sqlite("UPDATE changes SET max_run_ms = 1");
    play.tick().report();
    play.is_escalated("of agent time");
    assert_eq!(
        play.world.held_json(&["why", "c1"])["commands"][0],
        "remand budget c1 --time +1h"
    );
    play.world.remand(&["budget", "c1", "--time", "+1h"]).ok();
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn an_amount_that_cannot_be_added_is_refused_with_what_is_allowed() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    for (args, said) in [
        (
            &["budget", "c1"][..],
            "required arguments were not provided",
        ),
        (
            &["budget", "c1", "--money", "-5"],
            "dollars from 0.01 to 100000, such as +5 or +2.50",
        ),
        (&["budget", "c1", "--money", "much"], "dollars from 0.01"),
        (&["budget", "c1", "--money", "nan"], "dollars from 0.01"),
        (
            &["budget", "c1", "--time", "5"],
            "seconds, minutes or hours, at most 720 hours: +90s, +30m, +2h",
        ),
        (&["budget", "c1", "--time", "+721h"], "at most 720 hours"),
        (
            &["budget", "c1", "--tokens", "1.5"],
            "a whole number from 1 to",
        ),
        (
            &["budget", "c1", "--fixes", "0"],
            "a whole number from 1 to 100",
        ),
        (&["cycles", "c1", "101"], "a whole number from 1 to 100"),
    ] {
        world.remand(args).fails(2, said);
    }
    world
        .remand(&["budget", "c1", "--tokens", "+5"])
        .fails(1, "c1 has no limit on tokens to raise");
    world
        .remand(&["budget", "c9", "--money", "+5"])
        .fails(4, "c9");
    assert_eq!(play.count("events WHERE event_type = 'instructed'"), 0);
    world.remand(&["cancel", "c1"]).ok();
    world
        .remand(&["budget", "c1", "--money", "+5"])
        .fails(1, "c1 is closed: its limits can no longer be raised");
}

/// The total spending per day is limited too: the rest waits for the next day, and nobody is asked.
#[test]
fn a_day_that_is_used_up_is_waited_for() {
    let (reviewer, fixer) = (costs("3", REVIEWS_FIXED), costs("3", FIXES));
    let tables = "[loop]\nmax_cost_usd_per_day = 5.0\ntimezone = \"utc\"\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        tables,
        ..Script::default()
    });
    let world = &play.world;
    play.tick().report();
    play.is_held("agents spent $6.00 today, and `loop.max_cost_usd_per_day` allows $5.00");
    assert_eq!(play.count("runs"), 2);
    let midnight = "SELECT count(*) FROM changes WHERE held_until = strftime('%Y-%m-%dT00:00:00.000Z', 'now', '+1 day')";
    assert_eq!(world.sqlite(midnight), "1", "until the next day");

    // Yesterday's spending does not count today.
    world.sqlite("UPDATE runs SET ended_at = '2020-01-01T00:00:00.000Z'");
    world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

/// A project with its own limit waits for the next day; others continue.
#[test]
fn a_project_that_used_up_its_day_waits_and_others_go_on() {
    let (reviewer, fixer) = (costs("3", REVIEWS_FIXED), costs("3", FIXES));
    let tables = "[loop]\ntimezone = \"utc\"\n[projects.calc]\nmax_cost_usd_per_day = 5.0\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        tables,
        ..Script::default()
    });
    let world = &play.world;
    play.tick().report();
    play.is_held(
        "agents spent $6.00 on calc today, and `projects.calc.max_cost_usd_per_day` allows $5.00; after raising the limit, `remand resume c1` continues immediately",
    );
    assert_eq!(play.count("runs"), 2);
    let midnight = "SELECT count(*) FROM changes WHERE held_until = strftime('%Y-%m-%dT00:00:00.000Z', 'now', '+1 day')";
    assert_eq!(world.sqlite(midnight), "1", "until the next day");

    let stats = world.remand(&["stats"]).ok().stderr;
    assert!(
        stats.contains("spent today: $6.00 of $50.00 (`loop.max_cost_usd_per_day`)"),
        "{stats}"
    );
    assert!(
        stats
            .contains("spent on calc today: $6.00 of $5.00 (`projects.calc.max_cost_usd_per_day`)"),
        "{stats}"
    );
    assert_eq!(
        world.json(&["stats"])["today"][1],
        serde_json::json!({
            "project_id": "calc", "cost_micros": 6_000_000, "max_cost_micros": 5_000_000,
            "setting": "projects.calc.max_cost_usd_per_day",
        })
    );

    let other = world.repo("other");
    world
        .remand(&["project", "add", other.to_str().unwrap()])
        .ok();
    let worktree = world.worktree(&other, "feature");
    world
        .remand_in(&worktree, &["review", "--title", "Other"])
        .ok();
    play.tick().report();
    let states = world.sqlite("SELECT project_id || ' ' || state FROM changes ORDER BY change_id");
    assert_eq!(
        states,
        "calc self_reviewing\nother ready_for_human_review",
        "{:#?}",
        play.events()
    );

    // Spending on another project does not count for this one.
    world.sqlite("UPDATE runs SET ended_at = '2020-01-01T00:00:00.000Z' WHERE change_id = 'c1'");
    world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(2);
}

/// This was reported for all earlier runs, next to the money that they had cost.
#[test]
fn the_status_counts_the_runs_that_reported_no_cost() {
    let reviewer = format!(
        "if ! grep -q fixed work.txt; then {}; fi\n{REVIEWS_FIXED}",
        costs("0.25", "").trim()
    );
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &costs("0.5", FIXES),
        ..Script::default()
    });
    play.tick().report();
    play.is_ready(1);
    let status = play.world.remand(&["status", "c1"]).ok().stdout;
    let said = "$0.75 of $10.00 (1 of 2 runs of reviewer reported no cost: only the limits on time and fixes apply)";
    assert!(status.contains(said), "{status}");
}

#[test]
fn stats_sum_up_what_was_spent() {
    let (reviewer, fixer) = (costs("1.25", REVIEWS_FIXED), FIXES);
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer,
        tables: "[loop]\ntimezone = \"utc\"\n",
        ..Script::default()
    });
    let world = &play.world;
    assert!(
        world
            .remand(&["stats"])
            .ok()
            .stderr
            .contains("no agent has run yet")
    );
    play.tick().report();
    play.is_ready(1);
    // The measured time counts: r2 was ended by a daemon that came back an hour later.
    let measured = |ms: &str, run: &str| {
        format!(
            "UPDATE events SET metadata = json_set(metadata, '$.elapsed_ms', {ms}) WHERE event_type = 'run_finished' AND target_id = '{run}';"
        )
    };
    world.sqlite(&format!(
        "DROP TRIGGER events_never_change;
         UPDATE runs SET started_at = '2026-11-16T10:00:00.000Z', ended_at = '2026-11-16T11:00:00.000Z' WHERE run_id <> 'r3';
         UPDATE runs SET started_at = '2026-11-17T10:00:00.000Z', ended_at = '2026-11-17T10:02:00.000Z' WHERE run_id = 'r3';
         {}{}{}",
        measured("30000", "r1"),
        measured("30000", "r2"),
        measured("120000", "r3"),
    ));
    insta::assert_snapshot!(world.remand(&["stats"]).ok().stdout, @"
    PROJECT  RUNS  TOKENS  MONEY  TIME
    calc     3     2000    $2.50  180 s

    AGENT     RUNS  TOKENS  MONEY  TIME
    fixer     1     0       -      30 s
    reviewer  2     2000    $2.50  150 s

    DAY         RUNS  TOKENS  MONEY  TIME
    2026-11-17  1     1000    $1.25  120 s
    2026-11-16  2     1000    $1.25  60 s

    CHANGE      RUNS  TOKENS  MONEY  TIME
    c1 Feature  3     2000    $2.50  180 s
    ");
    let spend = &world.json(&["stats"])["spend"];
    assert_eq!(
        spend["all"],
        serde_json::json!({"runs": 3, "without_cost": 1, "tokens": 2000, "cost_micros": 2_500_000, "run_ms": 180_000})
    );
    assert_eq!(
        (
            spend["changes"][0]["change_id"].as_str(),
            spend["changes"][0]["cost_micros"].as_i64()
        ),
        (Some("c1"), Some(2_500_000))
    );
    assert_eq!(
        (
            spend["projects"][0]["project_id"].as_str(),
            spend["projects"][0]["runs"].as_i64()
        ),
        (Some("calc"), Some(3))
    );
    assert_eq!(
        (
            spend["agents"][0]["agent"].as_str(),
            spend["agents"][0]["without_cost"].as_i64()
        ),
        (Some("fixer"), Some(1))
    );
    assert_eq!(
        (
            spend["days"][0]["day"].as_str(),
            spend["days"][0]["cost_micros"].as_i64()
        ),
        (Some("2026-11-17"), Some(1_250_000))
    );
}
