//! Files that change while the daemon runs: loaded once they are stable and valid, and nothing is
//! pushed until then.

use std::fs;
use std::path::PathBuf;

use crate::support::is_report;
use crate::support::play::{Daemon, Play, Script, WAITS_AND_FIXES};
use crate::support::pull_play::{PullPlay, rejecting};

fn file(play: &Play) -> PathBuf {
    play.world.root().join("config/remand/config.toml")
}

fn settings(play: &Play) -> String {
    fs::read_to_string(file(play)).unwrap()
}

/// Writes the settings with other top-level lines before them.
fn with(play: &Play, top: &str) {
    let text = format!("{top}\n{}", settings(play));
    play.world.config(&text);
}

fn reloads(play: &Play) -> i64 {
    play.count("events WHERE event_type = 'reloaded'")
}

/// Creates a pull request with a fix in progress: the agent waits for `let_go("go")`.
fn fixing(settings: &str) -> (PullPlay, Daemon) {
    let stage = PullPlay::new(&Script {
        fixer: WAITS_AND_FIXES,
        settings,
        ..rejecting()
    });
    let daemon = stage.play.daemon();
    stage
        .play
        .until("the fixer begins", || !stage.play.noted("began").is_empty());
    (stage, daemon)
}

/// The gate is not in the settings when the fix starts, and decides about its push.
#[test]
fn a_gate_that_is_added_while_an_agent_works_decides_the_push() {
    let (stage, daemon) = fixing("");
    let play = &stage.play;
    let pushes = stage.pushes();
    let gate = play.world.script(
        "gate",
        &format!("echo ran >>'{}'\n", play.seen("gated").display()),
    );
    with(play, &format!("gates = [[\"{}\"]]", gate.display()));
    play.let_go("go");
    play.wait_for(
        "SELECT count(*) FROM events WHERE event_type = 'fix_pushed'",
        "1",
    );
    assert_eq!(
        play.noted("gated").lines().count(),
        1,
        "pushed without its gate: {:#?}",
        play.events()
    );
    assert_eq!(stage.pushes(), pushes + 1);
    play.wait_for_state("ready_for_human_review");
    assert_eq!(reloads(play), 1, "{}", play.log());
    assert!(daemon.stop().success());
    play.check();
}

/// A gate result applies to the gates that ran, not to those configured at the time of the push.
#[test]
fn a_gate_that_is_added_while_the_gates_run_decides_the_push() {
    let stage = PullPlay::unwatched(&rejecting());
    let play = &stage.play;
    let first = play.world.script(
        "first",
        &format!(
            "echo first >>'{0}/gated'\nuntil [ -e '{0}/gate-go' ]; do sleep 0.02; done\n",
            play.seen("").display()
        ),
    );
    let second = play.world.script(
        "second",
        &format!("echo second >>'{}'\n", play.seen("gated").display()),
    );
    with(play, &format!("gates = [[\"{}\"]]", first.display()));
    stage.watch();
    let daemon = play.daemon();
    play.until("the gate runs", || !play.noted("gated").is_empty());
    let gates = format!("gates = [[\"{}\"]", first.display());
    let text = settings(play).replace(&gates, &format!("{gates}, [\"{}\"]", second.display()));
    play.world.config(&text);
    play.wait_for(
        "SELECT count(*) FROM events WHERE event_type = 'reloaded'",
        "1",
    );
    play.let_go("gate-go");
    play.wait_for(
        "SELECT count(*) FROM events WHERE event_type = 'fix_pushed'",
        "1",
    );
    assert_eq!(
        play.noted("gated"),
        "first\nfirst\nsecond\n",
        "{:#?}",
        play.events()
    );
    assert!(daemon.stop().success());
}

#[test]
fn an_invalid_file_keeps_the_old_settings_holds_pushes_and_is_seen_everywhere() {
    let (stage, daemon) = fixing("");
    let (play, good) = (&stage.play, settings(&stage.play));
    let pushes = stage.pushes();
    play.world
        .config(&good.replace("review_agent", "review_agnet"));
    play.let_go("go");
    play.wait_for("SELECT hold_kind FROM changes", "configuration");
    play.wait_for("SELECT changed_kind FROM configuration", "invalid");
    assert_eq!(stage.pushes(), pushes);
    for args in [
        &["list"][..],
        &["status"],
        &["why", "c1"],
        &["doctor", "--offline"],
    ] {
        let said = play.world.remand(args);
        let all = format!("{} {}", said.words(), said.stderr);
        assert!(all.contains("review_agnet"), "{args:?}: {all}");
        assert!(
            all.contains("not in effect") || all.contains("the daemon uses the settings it loaded"),
            "{args:?}: {all}"
        );
    }
    let why = play.world.held_json(&["why", "c1"]);
    assert_eq!(
        (why["because"].as_str(), why["commands"][0].as_str()),
        (Some("held"), Some("remand config check"))
    );
    assert_eq!(
        play.world.json(&["status"])["configuration"]["changed"]["kind"],
        "invalid"
    );
    let refused = play.world.remand(&["reload"]);
    assert_eq!(refused.status, 3, "{refused:?}");
    for word in ["refused", "review_agnet", "config.toml:2", "review_agent"] {
        assert!(refused.stdout.contains(word), "{word}: {refused:?}");
    }
    assert_eq!(
        play.count("events WHERE event_type = 'held' AND metadata ->> 'kind' = 'configuration'"),
        1
    );
    // It continues by itself.
    play.world.config(&good);
    play.wait_for_state("ready_for_human_review");
    assert_eq!(stage.pushes(), pushes + 1);
    assert_eq!(
        play.world.sqlite("SELECT changed_kind FROM configuration"),
        ""
    );
    let listed = play.world.remand(&["list"]).ok();
    assert!(!listed.stderr.contains("not in effect"), "{listed:?}");
    assert!(daemon.stop().success());
    play.check();
}

#[test]
fn what_drops_a_safeguard_needs_a_reload() {
    let (stage, daemon) = fixing("gates = [[\"true\"]]");
    let (play, world) = (&stage.play, &stage.play.world);
    let ok = world.remand(&["config", "check"]).ok();
    assert!(
        ok.stderr
            .contains(&format!("in effect in the daemon (pid {})", daemon.pid())),
        "{ok:?}"
    );
    let pushes = stage.pushes();
    world.config(&settings(play).replace("gates = [[\"true\"]]", ""));
    play.let_go("go");
    play.wait_for("SELECT changed_kind FROM configuration", "needs_reload");
    play.wait_for("SELECT hold_kind FROM changes", "configuration");
    assert_eq!((stage.pushes(), reloads(play)), (pushes, 0));
    let check = world.remand(&["config", "check"]).ok();
    assert!(
        check.stderr.contains("not in effect")
            && check.stderr.contains("the gate `true` was removed"),
        "{check:?}"
    );
    assert_eq!(world.json(&["config", "check"])["in_force"], false);
    let show = world.remand(&["config", "show", "gates"]).ok();
    assert!(
        show.stderr.contains("in effect: gates = [[\"true\"]]"),
        "{show:?}"
    );
    let doctor = world.remand(&["doctor", "--offline"]).stdout;
    assert!(
        doctor.contains("not in effect") && doctor.contains("`remand reload`"),
        "{doctor}"
    );
    assert_eq!(
        world.held_json(&["why", "c1"])["commands"][0],
        "remand reload"
    );
    let beside = world.remand(&["tick"]).report();
    assert_eq!(stage.pushes(), pushes, "{beside:?}");

    let applied = world.remand(&["reload"]).ok().stdout;
    for part in [
        "applied",
        "gates: [[\"true\"]] → []",
        "note: the gate `true` was removed",
    ] {
        assert!(applied.contains(part), "{part}: {applied}");
    }
    play.wait_for_state("ready_for_human_review");
    assert_eq!(stage.pushes(), pushes + 1);
    let again = world.json(&["reload"]);
    assert_eq!(
        (
            &again["applied"],
            again["changed"].as_array().unwrap().len()
        ),
        (&true.into(), 0),
        "{again}"
    );
    assert_eq!(world.json(&["config", "check"])["in_force"], true);
    assert!(daemon.stop().success());
    world.remand(&["reload"]).fails(1, "no daemon is running");
    play.check();
}

#[test]
fn an_empty_file_needs_a_reload_and_a_prompt_does_not() {
    let play = Play::without_change(&Script::default());
    let daemon = play.daemon();
    let good = settings(&play);
    play.world.config("");
    play.wait_for(
        "SELECT changed_reason LIKE '%config.toml is empty%' FROM configuration",
        "1",
    );
    let refused = play
        .world
        .sqlite("SELECT metadata ->> 'kind' FROM events WHERE event_type = 'skipped'");
    assert_eq!((refused.as_str(), reloads(&play)), ("needs_reload", 0));
    play.world.config(&good);
    play.wait_for(
        "SELECT count(*) FROM configuration WHERE changed_hash IS NULL",
        "1",
    );
    assert_eq!(reloads(&play), 0, "what is in effect again needs no reload");

    let prompts = play.world.root().join("config/remand/prompts");
    fs::create_dir(&prompts).unwrap();
    let stock = play
        .world
        .remand(&["prompts", "show", "review"])
        .ok()
        .stdout;
    fs::write(prompts.join("review.md"), format!("{stock}\nBe kind.\n")).unwrap();
    play.wait_for(
        "SELECT metadata ->> 'files' FROM events WHERE event_type = 'reloaded'",
        "[\"prompts/review.md\"]",
    );
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.wait_for_state("ready_for_human_review");
    assert!(play.prompt_of_run("r1").contains("Be kind."));
    assert!(daemon.stop().success());
}

/// A tick reads the files when it starts; changes while it works do not affect it.
#[test]
fn a_tick_does_not_push_by_files_that_changed_since_its_start() {
    let stage = PullPlay::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..rejecting()
    });
    let play = &stage.play;
    let pushes = stage.pushes();
    let mut tick = play
        .world
        .remand_command(&["tick"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    let gate = play.world.script(
        "gate",
        &format!("echo ran >>'{}'\n", play.seen("gated").display()),
    );
    with(play, &format!("gates = [[\"{}\"]]", gate.display()));
    play.let_go("go");
    assert!(is_report(tick.wait().unwrap()));
    play.is_held("changes to config.toml are not in effect");
    assert_eq!((stage.pushes(), play.noted("gated").as_str()), (pushes, ""));
    stage.tick();
    stage.is_ready(1);
    assert_eq!(
        (stage.pushes(), play.noted("gated").as_str()),
        (pushes + 1, "ran\n")
    );
}
