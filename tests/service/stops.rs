//! `remand stop` and `remand start`.

use serde_json::json;

use crate::pulls::pauses::before_each_call;
use crate::support::play::{Play, Script, WAITS_AND_FIXES};
use crate::support::pull_play::{PullPlay, quiet};

/// Returns what was done, not when, without parts that differ between runs of the test.
fn story(play: &Play) -> String {
    let log = play
        .world
        .git(&play.repo, &["log", "--format=%s %T", "main..feature"]);
    let rows = play.world.sqlite(
        "SELECT state, fix_cycle, total_fixes, paused, stopped FROM changes;
         SELECT source, status, attempt, lost_runs FROM work_items ORDER BY created_at, item_id;
         SELECT ended, discarded FROM runs ORDER BY started_at;
         SELECT verdict FROM reviews ORDER BY created_at",
    );
    format!("{log}\n{rows}")
}

fn undisturbed(script: &Script<'_>) -> String {
    let play = Play::new(script);
    play.tick().report();
    play.is_ready(1);
    story(&play)
}

#[test]
fn while_everything_is_stopped_nothing_starts_and_everybody_is_told() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let said = world
        .remand(&["stop", "--reason", "the disk is changed"])
        .ok();
    assert_eq!(
        said.stdout,
        "everything was stopped by ada: the disk is changed\nnothing is running\n"
    );
    let again = world.remand(&["stop"]).ok();
    assert!(
        again
            .stdout
            .starts_with("nothing to do: everything was stopped by ada"),
        "{}",
        again.stdout
    );
    let before = play.events();
    for command in ["tick", "work"] {
        let ran = world.remand(&[command]).ok();
        assert!(ran.stdout.ends_with("ran 0 items\n"), "{}", ran.stdout);
        assert!(
            ran.stderr
                .contains("everything was stopped by ada: the disk is changed: remand start"),
            "{}",
            ran.stderr
        );
    }
    assert_eq!(play.events(), before);

    let daemon = play.daemon();
    play.insert("work_rejected", "change", "c1", "not good enough");
    // The heartbeat is at work; its results wait.
    play.wait_for("SELECT count(*) FROM rejections", "1");
    assert!(daemon.stop().success());
    assert!(
        play.log().contains("stopped until `remand start`"),
        "{}",
        play.log()
    );
    assert_eq!(play.count("runs"), 0, "{:#?}", play.events());
    assert_eq!(
        play.count("work_items WHERE status IN ('available', 'claimed')"),
        0
    );

    let answer = world.json(&["why", "c1"]);
    assert_eq!(answer["because"], "stopped");
    assert_eq!(
        answer["answer"],
        "everything was stopped by ada: the disk is changed"
    );
    assert_eq!(answer["commands"], json!(["remand start"]));
    let listed = world.json(&["list"]);
    assert_eq!(
        (&listed[0]["stopped"], &listed[0]["why"]["because"]),
        (&json!(true), &json!("stopped"))
    );
    let stop = &world.json(&["status"])["stops"][0];
    assert_eq!(
        (&stop["project_id"], &stop["stopped_by"], &stop["at_once"]),
        (&json!(null), &json!("ada"), &json!(false))
    );
    for args in [
        &[][..],
        &["list"],
        &["status"],
        &["status", "c1"],
        &["why", "c1"],
        &["show", "c1"],
    ] {
        let shown = world.remand(args).ok();
        let all = format!("{}{}", shown.stdout, shown.stderr);
        assert!(
            all.contains("everything was stopped by ada") && all.contains("remand start"),
            "{args:?}: {all}"
        );
    }
    assert_eq!(
        world.sqlite("SELECT waiting FROM board"),
        "stopped by ada: the disk is changed"
    );
    assert_eq!(
        world.sqlite("SELECT target_type, target_id, actor_id, summary FROM events WHERE event_type = 'instructed'"),
        "blackboard|everything|ada|ada requested a stop of everything: the disk is changed"
    );
    play.check();

    assert_eq!(
        world.remand(&["start"]).ok().stdout,
        "everything can run again\n"
    );
    assert_eq!(
        world.remand(&["start"]).ok().stdout,
        "nothing to do: nothing is stopped\n"
    );
    assert_eq!(play.count("events WHERE event_type = 'instructed'"), 2);
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn a_stop_of_one_project_leaves_the_others_alone() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let other = world.repo("other");
    let worktree = world.worktree(&other, "theirs");
    world
        .remand(&["project", "add", other.to_str().unwrap()])
        .ok();
    world
        .remand_in(&worktree, &["review", "--title", "Theirs"])
        .ok();
    let refused = world
        .remand(&["stop", "calk"])
        .fails(4, "no such project: `calk`");
    assert!(
        refused.stderr.contains("projects: calc, other"),
        "{}",
        refused.stderr
    );
    world
        .remand(&["start", "calk"])
        .fails(4, "no such project: `calk`");

    world.remand(&["stop", "calc"]).ok();
    let (late, _) = play.another("late");
    play.tick().report();
    let states = "SELECT change_id, state, stopped FROM changes ORDER BY change_id";
    assert_eq!(
        world.sqlite(states),
        format!(
            "c1|pending_self_review|1\nc2|ready_for_human_review|0\n{late}|pending_self_review|1"
        )
    );
    assert_eq!(world.json(&["why", "c2"])["because"], "waits_for_approval");
    assert_eq!(
        world.json(&["why", &late])["answer"],
        "calc was stopped by ada"
    );

    // Two concurrent stops: neither ends the other.
    world.remand(&["stop", "--reason", "lunch"]).ok();
    let told = world.json(&["why", "c2"]);
    assert_eq!(
        told["because"], "waits_for_approval",
        "a person may still say yes"
    );
    assert!(
        told["answer"]
            .as_str()
            .unwrap()
            .ends_with("; everything was stopped by ada: lunch"),
        "{told}"
    );
    let left = world.remand(&["start"]).ok().stdout;
    assert_eq!(
        left,
        "this stop has ended\nbut calc was stopped by ada: remand start calc\n"
    );
    play.tick().report();
    assert_eq!(play.state(), "pending_self_review");
    world.remand(&["stop"]).ok();
    let left = world.remand(&["start", "calc"]).ok().stdout;
    assert_eq!(
        left,
        "this stop has ended\nbut everything was stopped by ada: remand start\n"
    );
    world.remand(&["stop", "calc"]).ok();
    let started = world.json(&["start", "--all"]);
    assert_eq!(
        (&started["changed"], &started["stops"]),
        (&json!(true), &json!([]))
    );
    play.tick().report();
    assert_eq!(play.state(), "ready_for_human_review");
    play.check();
}

#[test]
fn an_agent_at_work_may_finish_and_nothing_follows_from_it() {
    let gates = "gates = [[\"sh\", \"-c\", \"echo ran >>\\\"$HOME/gates\\\"\"]]\n";
    let script = Script {
        fixer: WAITS_AND_FIXES,
        settings: gates,
        ..Script::default()
    };
    let play = Play::new(&script);
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    let told = play.world.json(&["stop", "--no-wait"]);
    assert_eq!(told["changed"], true);
    assert!(
        told["under_way"][0]["what"]
            .as_str()
            .unwrap()
            .contains("by fixer"),
        "{told}"
    );
    assert!(
        play.answer()
            .ends_with("may still finish, but nothing else will start"),
        "{}",
        play.answer()
    );
    play.let_go("go");
    let waited = play.world.remand(&["stop"]).ok();
    assert!(
        waited.stdout.ends_with("nothing is running\n"),
        "{}",
        waited.stdout
    );
    let ended = "SELECT ended, discarded, head_after IS NOT NULL, gates FROM runs ORDER BY started_at DESC LIMIT 1";
    assert_eq!(play.world.sqlite(ended), "agent|0|1|");
    assert_eq!(
        play.world
            .sqlite("SELECT status, attempt FROM work_items WHERE source = 'review_fix'"),
        "blocked|0"
    );
    assert!(
        !play.world.root().join("home/gates").exists(),
        "no gate is begun"
    );
    drop(daemon);
    play.tick().report();
    assert_eq!(play.state(), "refining");
    play.world.remand(&["start"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(play.noted("began").lines().count(), 1, "the agent ran once");
    assert_eq!(
        std::fs::read_to_string(play.world.root().join("home/gates")).unwrap(),
        "ran\n"
    );
}

/// Leaves something unfinished, then waits until it is released.
const HALF_DONE: &str = r#"
cat >/dev/null
if [ ! -e "$PROMPTS/go" ]; then echo half >>work.txt; fi
echo "$REMAND_ITEM" >>"$PROMPTS/began"
until [ -e "$PROMPTS/go" ]; do sleep 0.02; done
echo fixed >>work.txt
"#;

#[test]
fn stopped_now_an_agent_is_ended_keeps_its_work_and_runs_again() {
    let script = Script {
        fixer: HALF_DONE,
        tables: "[limits]\ngrace_s = 1\n",
        ..Script::default()
    };
    let play = Play::new(&script);
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    let head = play.head();
    // First a gentle stop, then an immediate one: it is the same stop, made stronger.
    play.world.remand(&["stop", "calc", "--no-wait"]).ok();
    let said = play.world.remand(&["stop", "calc", "--now"]).ok();
    assert_eq!(said.stdout, "calc was stopped by ada\nnothing is running\n");
    assert_eq!(
        play.world.sqlite("SELECT project_id, at_once FROM stops"),
        "calc|1"
    );
    let run = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE ended = 'stopped'");
    assert_eq!(play.kept(&run, "work.txt"), "work\nhalf");
    play.worktree_is_at(&head);
    assert_eq!(
        play.world.sqlite(
            "SELECT status, attempt, lost_runs FROM work_items WHERE source = 'review_fix'"
        ),
        "blocked|0|0"
    );
    assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 0);
    play.let_go("go");
    play.world.remand(&["start", "calc"]).ok();
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    play.is_ready(1);
    assert_eq!(
        play.world.git(&play.worktree, &["show", "HEAD:work.txt"]),
        "work\nfixed"
    );
}

#[test]
fn a_daemon_killed_during_a_stop_leaves_it_in_force() {
    let script = Script {
        fixer: WAITS_AND_FIXES,
        tables: "[limits]\ngrace_s = 1\n",
        ..Script::default()
    };
    let play = Play::new(&script);
    let daemon = play.daemon();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    play.world.remand(&["stop", "--no-wait"]).ok();
    daemon.kill();
    // Waits for the shim, which terminates the agent of a daemon that is gone.
    play.world.remand(&["stop"]).ok();
    assert_eq!(
        play.world
            .sqlite("SELECT count(*) FROM runs WHERE ended_at IS NULL"),
        "1",
        "nobody wrote its end yet"
    );
    play.tick().report();
    let daemon = play.daemon();
    play.wait_for(
        "SELECT count(*) FROM work_items WHERE status = 'claimed'",
        "0",
    );
    assert_eq!(play.noted("began").lines().count(), 1, "nothing was begun");
    play.let_go("go");
    play.world.remand(&["start"]).ok();
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    play.is_ready(1);
}

#[test]
fn stopped_and_started_it_comes_to_the_same_end() {
    let script = Script::default();
    let expected = undisturbed(&script);
    let play = Play::new(&script);
    for scope in [&[][..], &["calc"]] {
        let words = |word| [&[word], scope].concat();
        play.world.remand(&words("stop")).ok();
        play.tick().report();
        play.world.remand(&words("start")).ok();
        if scope.is_empty() {
            play.world.remand(&["work"]).report();
        }
        play.tick().report();
    }
    play.is_ready(1);
    assert_eq!(story(&play), expected);
}

#[test]
fn a_stop_just_before_the_push_keeps_push_and_posts_back() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    play.fixer("cat >/dev/null\necho fixed >>work.txt\n: >\"$PROMPTS/ran\"\n");
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        "say fixed",
        &[("work.txt", 1, "here")],
    );
    let ran = play.seen("ran").display().to_string();
    // The check just before the push is the first one after the fix.
    before_each_call(
        &stage,
        &format!("if [ -e '{ran}' ]; then rm '{ran}'; says stop --no-wait; fi"),
    );
    let (before, writes) = (stage.remote_head("feature"), stage.forge.writes().len());
    stage.tick();
    assert_eq!(
        (stage.remote_head("feature"), stage.pushes()),
        (before, 0),
        "{:#?}",
        play.events()
    );
    assert_eq!(play.count("intents WHERE kind = 'push'"), 0);
    stage.tick();
    assert_eq!(
        stage.forge.writes().len(),
        writes,
        "{:#?}",
        stage.forge.writes()
    );
    play.world.remand(&["start"]).ok();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(stage.pushes(), 1);
    assert_eq!(stage.forge.writes_to("replies"), 1);
}

/// A person who has to stop everything must not have to fix the settings first.
#[test]
fn a_mistyped_setting_keeps_nobody_from_stopping() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let world = &play.world;
    let file = world.root().join("config/remand/config.toml");
    let good = std::fs::read_to_string(&file).unwrap();
    let moved = world.root().join("elsewhere.db");
    for (bad, said) in [
        (format!("shadwo = true\n{good}"), "unknown setting `shadwo`"),
        (format!("agent = [\n{good}"), "the configuration is invalid"),
    ] {
        std::fs::write(&file, bad).unwrap();
        world.remand(&["tick"]).fails(3, "");
        let listed = world.remand(&["list"]).ok();
        assert!(
            listed.stderr.contains(said) && listed.stdout.contains("c1"),
            "{listed:?}"
        );
        let stopped = world.remand(&["stop", "--now"]).ok();
        assert!(
            stopped.stderr.contains(said) && stopped.stdout.contains("everything was stopped"),
            "{stopped:?}"
        );
        assert_eq!(play.count("stops"), 1);
        world.remand(&["start"]).ok();
        assert_eq!(play.count("stops"), 0);
    }
    // Also on the blackboard that the file names, as long as that line is readable.
    std::fs::copy(world.db(), &moved).unwrap();
    std::fs::write(
        &file,
        format!("blackboard = \"{}\"\nshadwo = true\n", moved.display()),
    )
    .unwrap();
    let stopped = world.remand(&["stop"]).ok();
    assert!(stopped.stderr.contains("elsewhere.db"), "{stopped:?}");
    assert_eq!(play.count("stops"), 0);
    std::fs::remove_file(&moved).unwrap();
    world.remand(&["stop"]).fails(3, "unknown setting `shadwo`");
}
