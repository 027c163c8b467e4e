//! Shadow: everything is read and prompts are created, but nothing is run, pushed or posted.

use std::fs;

use crate::support::World;
use crate::support::play::{Play, REVIEWS_FIXED, Script, WAITS_AND_FIXES};
use crate::support::pull_play::PullPlay;

/// Masks the numbers that depend on the prompt's length.
fn masked(play: &Play, text: &str, item: &str) -> String {
    let path = play
        .world
        .root()
        .join(format!("state/remand/shadow/{item}.md"));
    let bytes = fs::read(path).unwrap().len();
    let tokens = bytes / 4 * 20;
    let micros = tokens * 3;
    let money = format!("${}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
    let text = text
        .replace(&format!("{bytes} bytes"), "BYTES")
        .replace(&format!("{tokens} tokens"), "TOKENS");
    let text = text
        .replace(&money, "MONEY")
        .replace(&format!("{} s (", tokens / 200), "TIME (");
    play.world.plain(&text)
}

/// Asserts that no agent was started, no intent was made, and the agents' scripts saw nothing.
#[track_caller]
fn nothing_ran(play: &Play) {
    assert_eq!(play.count("runs"), 0, "{:#?}", play.events());
    assert_eq!(play.count("intents"), 0, "{:#?}", play.events());
    assert_eq!(
        play.count("events WHERE event_type = 'work_claimed'"),
        0,
        "nothing was claimed"
    );
    assert_eq!(
        fs::read_dir(play.world.root().join("prompts-seen"))
            .unwrap()
            .count(),
        0,
        "no script was started"
    );
    play.check();
}

#[test]
fn a_change_in_shadow_is_looked_at_and_then_runs_as_if_nothing_had_been() {
    let play = Play::without_change(&Script::default());
    let world = &play.world;
    world
        .remand_in(
            &play.worktree,
            &["review", "--title", "Feature", "--shadow"],
        )
        .ok();
    let head = play.head();
    let before = play.answer();
    assert!(
        before.contains("will record what code_review w1 would do"),
        "{before}"
    );
    for _ in 0..2 {
        play.tick().report();
    }
    nothing_ran(&play);
    play.worktree_is_at(&head);
    let prompt = fs::read_to_string(world.root().join("state/remand/shadow/w1.md")).unwrap();
    assert!(
        prompt.contains("work.txt") && prompt.contains(&head),
        "the prompt that would have been sent: {prompt}"
    );
    assert_eq!(
        play.count("events WHERE event_type = 'shadowed'"),
        1,
        "once, not at each heartbeat"
    );
    insta::assert_snapshot!(masked(&play, &play.answer(), "w1"), @"it is in shadow: nothing is run, pushed or posted; `remand shadow c1 off` ends that; it would have run code_review w1 by reviewer in WORLD/src/calc-feature, with a prompt of BYTES, about TOKENS, MONEY, TIME (a guess, as reviewer has not run on this machine yet: 20 times the size of its prompt, $3 per million tokens, 200 tokens per second); the prompt is in WORLD/state/remand/shadow/w1.md");
    assert_eq!(world.json(&["why", "c1"])["because"], "shadow");
    let shown = world.remand(&["show", "w1"]).ok().stdout;
    assert!(
        shown.contains("shadow     would have run code_review w1 by reviewer"),
        "{shown}"
    );
    assert!(
        world
            .remand(&["list"])
            .ok()
            .stdout
            .contains("shadow: would review")
    );
    assert!(world.sqlite("SELECT waiting FROM board") == "shadow");
    let stats = world.json(&["stats", "--shadow"]);
    assert_eq!(
        (
            stats["all"]["changes"].as_i64(),
            stats["all"]["reviews"].as_i64()
        ),
        (Some(1), Some(1))
    );
    assert_eq!(
        (
            stats["all"]["posts"].as_i64(),
            stats["projects"][0]["project_id"].as_str()
        ),
        (Some(0), Some("calc"))
    );
    assert_eq!(stats["all"]["tokens"], prompt.len() / 4 * 20);

    world.remand(&["pause", "c1"]).ok();
    assert!(
        world
            .remand(&["resume", "c1"])
            .ok()
            .stdout
            .contains("is still in shadow")
    );
    let off = world.remand(&["shadow", "c1", "off"]).ok().stdout;
    assert!(
        off.contains("is no longer in shadow: waiting work will run"),
        "{off}"
    );
    play.tick().report();
    play.is_ready(1);
    // From here on there are runs for the estimate.
    world.remand(&["shadow", "c1", "on"]).ok();
    world
        .remand(&["reject", "c1", "--text", "say it twice"])
        .ok();
    play.tick().report();
    let told = world.sqlite(
        "SELECT summary FROM events WHERE event_type = 'shadowed' ORDER BY id DESC LIMIT 1",
    );
    assert!(
        told.contains("review_fix w4 by fixer")
            && told.contains("the median of 1 run of fixer on this machine"),
        "{told}"
    );
    assert_eq!(play.count("runs"), 3, "no more than before");
    let fix = fs::read_to_string(world.root().join("state/remand/shadow/w4.md")).unwrap();
    assert!(fix.contains("say it twice"), "{fix}");
    assert_eq!(world.json(&["stats", "--shadow"])["all"]["fixes"], 1);
    play.check();
}

#[test]
fn the_settings_put_a_project_in_shadow_and_a_changes_own_word_wins() {
    let play = Play::new(&Script {
        tables: "[projects.calc]\nshadow = true\n",
        ..Script::default()
    });
    let world = &play.world;
    let (other, _) = play.another("second");
    play.tick().report();
    nothing_ran(&play);
    assert!(
        play.answer()
            .contains("because of the setting `shadow = \"dry\"`"),
        "{}",
        play.answer()
    );
    world.remand(&["shadow", "c1", "off"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(play.count(&format!("runs WHERE change_id = '{other}'")), 0);
    let config = world.root().join("config/remand/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("shadow = true", "shadow = false")).unwrap();
    play.tick().report();
    let state = world.sqlite(&format!(
        "SELECT state FROM changes WHERE change_id = '{other}'"
    ));
    assert_eq!(state, "ready_for_human_review");
    let told = format!(
        "events WHERE change_id = '{other}' AND summary = 'shadow mode is off, as configured for calc'"
    );
    assert_eq!(play.count(&told), 1);
    world
        .remand(&["shadow", "c1", "maybe"])
        .fails(2, "possible values: review, dry, off");
    world.remand(&["cancel", "c1"]).ok();
    world
        .remand(&["shadow", "c1", "on"])
        .fails(1, "c1 is closed: shadow mode has no effect on it");
    let (all, shadow) = (
        world.remand(&["stats"]).ok().stdout,
        world.remand(&["stats", "--shadow"]).ok().stdout,
    );
    assert!(
        all.ends_with(&format!("\n\n{shadow}")) && all.starts_with("PROJECT  RUNS"),
        "{all}"
    );
}

#[test]
fn a_pull_request_in_shadow_is_read_and_nothing_is_posted_or_pushed() {
    let stage = PullPlay::new(&Script {
        settings: "shadow = true",
        ..Script::default()
    });
    let (play, world) = (&stage.play, &stage.play.world);
    let (head, pushes) = (stage.remote_head("feature"), stage.pushes());
    stage.tick();
    nothing_ran(play);
    let review = fs::read_to_string(world.root().join("state/remand/shadow/w1.md")).unwrap();
    assert!(
        review.contains("+work"),
        "the diff of the pull request: {review}"
    );
    stage.review(
        "carol",
        "CHANGES_REQUESTED",
        "say fixed",
        &[("work.txt", 1, "here")],
    );
    for _ in 0..2 {
        stage.tick();
    }
    nothing_ran(play);
    let fix = fs::read_to_string(world.root().join("state/remand/shadow/w2.md")).unwrap();
    assert!(
        fix.contains("say fixed") && fix.contains("here"),
        "what people said is in the fix's prompt: {fix}"
    );
    assert_eq!(play.count("events WHERE event_type = 'shadowed'"), 2);
    assert_eq!(stage.forge.writes(), Vec::<String>::new());
    assert_eq!(
        (stage.remote_head("feature"), stage.pushes()),
        (head.clone(), pushes)
    );
    play.worktree_is_at(&head);
    insta::assert_snapshot!(masked(play, &play.answer(), "w2"), @r#"it is in shadow, because of the setting `shadow = "dry"`: nothing is run, pushed or posted; `remand shadow c1 off` ends that; it would have run review_fix w2 by fixer in WORLD/src/calc-feature, with a prompt of BYTES, about TOKENS, MONEY, TIME (a guess, as fixer has not run on this machine yet: 20 times the size of its prompt, $3 per million tokens, 200 tokens per second); the prompt is in WORLD/state/remand/shadow/w2.md"#);
    let table = world.remand(&["stats", "--shadow"]).ok();
    let row: Vec<&str> = table
        .stdout
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .take(8)
        .collect();
    assert_eq!(
        row,
        ["calc", "1", "0", "0", "1", "1", "1", "2"],
        "in shadow, reviewed, rejected, not reviewed, fixes, pushes, posts"
    );
    assert!(
        table
            .stderr
            .contains("from NOT REVIEWED onward show what was not done"),
        "{}",
        table.stderr
    );

    world.remand(&["shadow", "ada/calc#1", "off"]).ok();
    stage.tick();
    stage.is_ready(1);
    assert!(stage.pushes() > pushes && !stage.forge.writes().is_empty());
}

/// "queued; no daemon runs" was all that was reported about it.
#[test]
fn watch_says_that_a_pull_request_is_in_shadow() {
    for is_in_force in [false, true] {
        let stage = PullPlay::unwatched(&Script {
            settings: "shadow = \"dry\"",
            ..Script::default()
        });
        if is_in_force {
            stage.tick();
        }
        let told = stage
            .play
            .world
            .remand(&["watch", "ada/calc#1"])
            .ok()
            .stdout;
        assert!(
            told.contains("it is in shadow, because of the setting `shadow = \"dry\"`"),
            "{is_in_force}: {told}"
        );
        assert!(!told.contains("queued"), "{is_in_force}: {told}");
    }
    let cases = [
        ("", &["watch", "ada/calc#1", "--shadow"][..]),
        (
            "[projects.calc]\nshadow = \"dry\"\n",
            &["watch", "ada/calc#1"],
        ),
    ];
    for (tables, args) in cases {
        let stage = PullPlay::unwatched(&Script {
            tables,
            ..Script::default()
        });
        for _ in 0..2 {
            let told = stage.play.world.remand(args).stdout
                + &stage.play.world.remand(&["list"]).ok().stdout;
            assert!(
                told.contains("shadow") && !told.contains("queued"),
                "{args:?}: {told}"
            );
        }
    }
}

#[test]
fn an_agent_at_work_may_finish_and_its_push_waits() {
    let stage = PullPlay::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let (play, world) = (&stage.play, &stage.play.world);
    let daemon = play.daemon();
    play.until("the fix runs", || play.seen("began").exists());
    let (pushes, writes) = (stage.pushes(), stage.forge.writes().len());
    let on = world.remand(&["shadow", "c1", "on"]).ok().stdout;
    assert!(
        on.contains("is in shadow: nothing is run, pushed or posted"),
        "{on}"
    );
    assert!(
        play.answer().contains("review_fix w2 may still finish"),
        "{}",
        play.answer()
    );
    play.let_go("go");
    play.wait_for(
        "SELECT status FROM work_items WHERE item_id = 'w2'",
        "blocked",
    );
    play.wait_for("SELECT ended FROM runs WHERE item_id = 'w2'", "agent");
    assert_eq!(
        (stage.pushes(), stage.forge.writes().len()),
        (pushes, writes),
        "nothing is pushed or posted"
    );
    world.remand(&["shadow", "c1", "off"]).ok();
    play.wait_for_state("ready_for_human_review");
    assert!(stage.pushes() > pushes);
    assert_eq!(
        play.count("runs WHERE item_id = 'w2'"),
        1,
        "what was done is used"
    );
    daemon.stop();
    play.check();
}

/// Reviewers run, read-only, and are paid; their results are stored; nothing moves, is rejected, or
/// posted. When shadow is off, the head is reviewed again.
#[test]
fn reviews_are_made_in_shadow_and_nothing_follows_from_them() {
    let reviewer = format!("echo '{{\"cost_usd\": 0.5}}' >\"$REMAND_RESULT\"\n{REVIEWS_FIXED}");
    let stage = PullPlay::new(&Script {
        settings: "shadow = \"review\"",
        reviewer: &reviewer,
        ..Script::default()
    });
    let (play, world) = (&stage.play, &stage.play.world);
    let (head, pushes) = (stage.remote_head("feature"), stage.pushes());
    assert!(
        play.answer().contains("will run code_review w1 in shadow"),
        "{}",
        play.answer()
    );
    for _ in 0..2 {
        stage.tick();
    }
    assert_eq!(
        (play.state().as_str(), play.count("runs")),
        ("awaiting_pr_feedback", 1),
        "{:#?}",
        play.events()
    );
    for none in ["rejections", "reviews", "findings", "intents", "shadows"] {
        assert_eq!(play.count(none), 0, "{none}");
    }
    assert_eq!(stage.forge.writes(), Vec::<String>::new());
    assert_eq!(
        (stage.remote_head("feature"), stage.pushes()),
        (head.clone(), pushes)
    );
    assert_eq!(
        world.sqlite("SELECT cost_micros, run_ms > 0 FROM changes"),
        "500000|1",
        "it is paid for"
    );
    play.worktree_is_at(&head);
    insta::assert_snapshot!(world.plain(&play.answer()), @r#"it is in shadow, because of the setting `shadow = "review"`: agents only review, and nothing is fixed, pushed or posted; `remand shadow c1 off` ends that; its review in shadow: changes_requested by reviewer, 1 finding: work.txt is not fixed"#);
    assert_eq!(
        world.json(&["show", "w1"])["shadow_review"]["findings"][0]["text"],
        "say fixed here"
    );
    assert!(
        world
            .remand(&["show", "w1"])
            .ok()
            .stdout
            .contains("finding    high work.txt:1 say fixed here")
    );
    assert!(
        world
            .remand(&["list"])
            .ok()
            .stdout
            .contains("shadow: reviewed, changes_requested")
    );
    let sums = &world.json(&["stats", "--shadow"])["all"];
    assert_eq!(
        (
            sums["reviewed"].as_i64(),
            sums["rejected"].as_i64(),
            sums["reviews"].as_i64()
        ),
        (Some(1), Some(1), Some(0))
    );
    // This was reported as 0 reviews before, although 1 was made.
    let table = world.remand(&["stats", "--shadow"]).ok();
    insta::assert_snapshot!(table.stdout, @"
    PROJECT  IN SHADOW  REVIEWED  REJECTED  NOT REVIEWED  FIXES  PUSHES  POSTS  TOKENS  MONEY  TIME
    calc     1          1         1         0             0      0       1      0       $0.00  0 s
    ");
    insta::assert_snapshot!(table.stderr, @"
    the columns from NOT REVIEWED onward show what was not done; tokens, money and time are estimates
    1 review in shadow: 0 passed, 1 rejected; `remand stats` shows what it cost
    each rejection would have led to a fix within the limits; FIXES counts only fixes that were already queued
    ");
    play.check();

    // Rejections by people are queued, and no fix runs.
    stage.review("carol", "CHANGES_REQUESTED", "say fixed", &[]);
    stage.tick();
    assert_eq!(play.count("runs"), 1);
    world.remand(&["shadow", "c1", "off"]).ok();
    stage.tick();
    stage.is_ready(1);
}

#[test]
fn a_head_is_reviewed_anew_out_of_shadow() {
    let play = Play::new(&Script {
        settings: "shadow = \"review\"",
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        (play.state().as_str(), play.count("runs")),
        ("pending_self_review", 1),
        "{:#?}",
        play.events()
    );
    play.world.remand(&["shadow", "c1", "off"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        play.count("runs WHERE item_id = 'w1'"),
        2,
        "once in shadow, once for real"
    );
    assert_eq!(play.count("reviews WHERE item_id = 'w1'"), 1);
}

/// A review that fails in shadow asks nobody; it is reported, and tried again when a person asks
/// for it.
#[test]
fn a_review_that_fails_in_shadow_moves_nothing() {
    let play = Play::new(&Script {
        settings: "shadow = \"review\"",
        reviewer: "exit 1",
        ..Script::default()
    });
    for _ in 0..2 {
        play.tick().report();
    }
    assert_eq!(
        (play.state().as_str(), play.count("runs")),
        ("pending_self_review", 1),
        "{:#?}",
        play.events()
    );
    assert!(
        play.answer().contains("not reviewed: "),
        "{}",
        play.answer()
    );
    play.reviewer("echo 'hard to say'");
    play.world.remand(&["shadow", "c1", "review"]).ok();
    play.tick().report();
    assert_eq!(
        (play.state().as_str(), play.count("runs")),
        ("pending_self_review", 3),
        "asked once more"
    );
    assert!(
        play.answer()
            .contains("its review in shadow: unclear by reviewer"),
        "{}",
        play.answer()
    );
    play.check();
}

/// If killed during the review, it continues, in shadow.
#[test]
fn a_review_in_shadow_survives_its_daemon() {
    let reviewer = format!(
        "echo x >>\"$PROMPTS/began\"\nuntil [ -e \"$PROMPTS/go\" ]; do sleep 0.02; done\n{REVIEWS_FIXED}"
    );
    let play = Play::new(&Script {
        settings: "shadow = \"review\"",
        reviewer: &reviewer,
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the review begins", || play.seen("began").exists());
    daemon.kill();
    play.let_go("go");
    play.tick().report();
    assert_eq!(play.state(), "pending_self_review", "{:#?}", play.events());
    assert!(
        play.answer()
            .contains("changes_requested by reviewer, 1 finding"),
        "{}",
        play.answer()
    );
    assert_eq!(play.count("rejections"), 0);
    play.check();
}

#[test]
fn other_words_for_shadow_are_refused() {
    let world = World::new();
    world.config("shadow = \"loud\"\n");
    let said = world
        .remand(&["config", "check"])
        .fails(3, "expected \"review\", \"dry\" or false")
        .stderr;
    assert!(said.contains("config.toml:1"), "{said}");
    for (written, shown) in [
        ("true", "\"dry\""),
        ("false", "false"),
        ("\"review\"", "\"review\""),
    ] {
        world.config(&format!("shadow = {written}\n"));
        assert_eq!(world.json(&["config", "show", "shadow"])[0]["value"], shown);
    }
}

/// Removed together with a change of the shadow settings, so that the daemon waits for a `remand
/// reload`.
const GATE: &str = "gates = [[\"true\"]]\n";

/// Changes the shadow settings in a way that the daemon does not apply by itself.
fn edit(play: &Play, edited: impl Fn(&str) -> String) {
    let file = play.world.root().join("config/remand/config.toml");
    let text = fs::read_to_string(&file).unwrap();
    assert_ne!(edited(&text), text);
    fs::write(&file, edited(&text)).unwrap();
}

#[test]
fn what_the_daemon_has_not_read_releases_nothing() {
    let stage = PullPlay::new(&Script {
        settings: "gates = [[\"true\"]]\nshadow = true",
        ..Script::default()
    });
    let (play, world) = (&stage.play, &stage.play.world);
    let daemon = play.daemon();
    play.wait_for(
        "SELECT count(*) FROM events WHERE event_type = 'shadowed'",
        "1",
    );
    let doctor = || world.remand(&["doctor", "--offline"]).stdout;
    assert!(
        doctor().contains("enabled for calc: nothing is run, pushed or posted"),
        "{}",
        doctor()
    );
    let unread = "the configuration now has `shadow = false`, which the daemon has not loaded";
    assert!(!play.why().contains("has not read") && !doctor().contains("has not read"));

    edit(play, |text| {
        text.replace("shadow = true", "shadow = false")
            .replace(GATE, "")
    });
    stage.watch();
    stage.tick();
    world.remand(&["work"]).report();
    assert_eq!(
        world.sqlite("SELECT p.shadow, c.shadow FROM projects p JOIN changes c"),
        "1|1"
    );
    nothing_ran(play);
    let remedy = format!("`remand reload` (the daemon has pid {})", daemon.pid());
    for said in [play.why(), world.remand(&["why", "w1"]).ok().words()] {
        assert!(said.contains(&format!("{unread}: {remedy}")), "{said}");
    }
    // The result of the other checks depends on the machine.
    let checks = world.remand(&["doctor", "--offline", "--json"]).stdout;
    let checks: serde_json::Value = serde_json::from_str(&checks).unwrap();
    let told: Vec<_> = checks
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["check"] == "shadow")
        .collect();
    assert_eq!(
        (told.len(), told[1]["says"].as_str()),
        (2, Some(format!("calc: {unread}").as_str())),
        "{checks}"
    );
    assert_eq!(told[1]["do"], remedy);

    world.remand(&["reload"]).ok();
    play.wait_for_state("ready_for_human_review");
    assert!(!play.why().contains("has not read"), "{}", play.why());
    daemon.stop();
    play.check();
}

#[test]
fn what_is_taken_over_after_shadow_was_written_does_not_run_and_what_was_there_goes_on() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the fix runs", || play.seen("began").exists());
    edit(&play, |text| format!("shadow = true\n{text}"));
    // The daemon may or may not have read it by now.
    let (other, _) = play.another("second");
    let shadow = |id: &str| format!("SELECT shadow FROM changes WHERE change_id = '{id}'");
    assert_eq!(play.world.sqlite(&shadow(&other)), "1");
    play.wait_for("SELECT shadow FROM projects", "1");
    play.wait_for(&shadow("c1"), "1");
    play.let_go("go");
    play.wait_for("SELECT ended FROM runs WHERE item_id = 'w2'", "agent");
    assert_eq!(play.count(&format!("runs WHERE change_id = '{other}'")), 0);
    edit(&play, |text| text.replace("shadow = true\n", ""));
    play.wait_for_state("ready_for_human_review");
    assert_eq!(play.world.sqlite(&shadow("c1")), "0");
    daemon.stop();
    play.check();
}
