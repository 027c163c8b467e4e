//! Command evaluators and `remand evaluators run`: through the binary, with programs of the test.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::play::{Play, Script};
use crate::support::pull_play::PullPlay;
use crate::support::{Output, World, run};

/// Returns a line that proposes an item for c1.
fn item(key: &str) -> String {
    format!(
        r#"echo '{{"propose": "item", "key": "{key}", "change": "c1", "title": "look at {key}"}}'"#
    )
}

fn folder(world: &World) -> PathBuf {
    let folder = world.root().join("config/remand/evaluators");
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Creates an evaluator whose program is this script.
pub(crate) fn evaluator(world: &World, name: &str, wakes: &str, script: &str) {
    world.script(name, script);
    let text =
        format!("kind = \"command\"\n{wakes}\n[config]\ncommand = [\"{name}\"]\nlimit_s = 2\n");
    fs::write(folder(world).join(format!("{name}.toml")), text).unwrap();
}

/// Makes all scheduled evaluators due.
pub(crate) fn due(world: &World) {
    world.sqlite(
        "UPDATE evaluators SET next_run = '2020-01-01T00:00:00.000Z' WHERE next_run IS NOT NULL;
         UPDATE evaluator_troubles SET try_again = '2020-01-01T00:00:00.000Z'",
    );
}

/// Returns the bytes of the database and its log; a missing log counts as empty.
fn bytes(world: &World) -> (Vec<u8>, Vec<u8>) {
    let wal = PathBuf::from(format!("{}-wal", world.db().display()));
    (
        fs::read(world.db()).unwrap(),
        fs::read(wal).unwrap_or_default(),
    )
}

pub(crate) fn told(world: &World, of: &str) -> String {
    world.sqlite(&format!(
        "SELECT event_type || ': ' || summary FROM events WHERE target_id = '{of}' ORDER BY id"
    ))
}

const YEARLY: &str = "schedule = \"@yearly\"";

#[test]
fn the_example_finds_old_pull_requests_and_makes_one_item_each() {
    let stage = PullPlay::unwatched(&Script::default());
    stage.forge.age(stage.number, 9);
    stage.watch();
    let world = &stage.play.world;
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("evaluators/examples");
    let mut copy = world.command("cp");
    for name in ["old_prs.toml", "old_prs.py"] {
        copy.arg(examples.join(name));
    }
    run(copy.arg(folder(world))).ok();
    insta::assert_snapshot!(world.remand(&["evaluators", "check"]).ok().stdout.lines().next().unwrap(), @"ok  old_prs, pr_feedback, review_feedback");
    let opened = |days: i64| {
        let at = format!("strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-{days} days')");
        world.sqlite(&format!("UPDATE pulls SET opened_at = {at}"));
    };
    opened(6);
    assert_eq!(
        world
            .remand(&["evaluators", "run", "old_prs", "--dry-run"])
            .ok()
            .stdout,
        "old_prs proposes nothing new\n"
    );
    opened(9);

    let before = bytes(world);
    let dry = world
        .remand(&["evaluators", "run", "old_prs", "--dry-run"])
        .ok();
    insta::assert_snapshot!(dry.stdout, @"work_created  work_item w2  manual queued: ada/calc#1 has been open for 9 days");
    assert!(dry.stderr.contains("nothing was written"), "{}", dry.stderr);
    let json = world.json(&["evaluators", "run", "old_prs", "--dry-run"]);
    assert_eq!(
        (json["dry_run"].as_bool(), json["applied"].as_i64()),
        (Some(true), Some(1))
    );
    assert!(bytes(world) == before, "a dry run writes nothing");

    stage.tick();
    stage.is_ready(1);
    let listed = world
        .remand(&["item", "list", "--status", "available"])
        .ok()
        .stdout;
    let columns: Vec<&str> = listed
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .skip(1)
        .take(7)
        .collect();
    assert_eq!(
        columns.join(" "),
        "manual available P3 c1 ada/calc#1 has been"
    );
    assert_eq!(
        world.json(&["why", "c1"])["because"],
        "waits_for_approval",
        "the item is in nobody's way"
    );
    due(world);
    stage.tick();
    assert_eq!(
        stage.play.count("work_items WHERE source = 'manual'"),
        1,
        "the key is made once"
    );
    stage.forge.merge(stage.number, "carol");
    stage.tick();
    assert_eq!(
        stage
            .play
            .count("work_items WHERE source = 'manual' AND status = 'cancelled'"),
        1
    );
    stage.play.check();
}

#[test]
fn an_event_wakes_it_with_what_is_new_and_its_own_do_not() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let seen = world.root().join("seen");
    let script = format!("cat >>'{}'\n{}\n", seen.display(), item("a"));
    evaluator(
        world,
        "watcher",
        "on = [\"work_rejected\", \"work_created\"]",
        &script,
    );
    play.tick().report();
    let last = |n: usize| -> serde_json::Value {
        serde_json::from_str(fs::read_to_string(&seen).unwrap().lines().nth(n).unwrap()).unwrap()
    };
    let first = last(0);
    assert_eq!(
        (first["version"].as_i64(), first["evaluator"].as_str()),
        (Some(1), Some("watcher"))
    );
    assert_eq!(first["projects"][0]["project_id"], "calc");
    assert_eq!(first["changes"][0]["change_id"], "c1");
    assert_eq!(first["changes"][0]["state"], "pending_self_review");
    assert_eq!(first["items"][0]["source"], "code_review");
    let types: Vec<&str> = first["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["event_type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["work_created"], "only the types of `on`");
    let passes = fs::read_to_string(&seen).unwrap().lines().count();
    let newest = last(passes - 1);
    assert!(
        newest["events"]
            .as_array()
            .unwrap()
            .iter()
            .all(|event| event["actor_id"] != "watcher"),
        "{newest}"
    );
    assert_eq!(play.count("work_items WHERE source = 'manual'"), 1);
    play.is_ready(1);
    play.tick().report();
    assert_eq!(
        fs::read_to_string(&seen).unwrap().lines().count(),
        passes,
        "nothing new, not run"
    );
}

#[test]
fn what_it_rejects_is_fixed_what_it_comments_is_told_and_what_it_escalates_is_a_persons() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    play.tick().report();
    play.is_ready(1);
    let line = |line: &str| format!("cat >/dev/null; printf '%s\\n' '{line}'\n");
    let comment =
        r#"{"propose": "comment", "key": "1", "change": "c1", "text": "mind the header"}"#;
    let reject = r#"{"propose": "reject", "key": "2", "change": "c1", "text": "no licence header\nin work.txt"}"#;
    evaluator(
        world,
        "licence",
        YEARLY,
        &line(&format!("{comment}\n{reject}")),
    );
    play.tick().report();
    play.is_ready(2);
    assert_eq!(
        world.sqlite("SELECT by_person FROM rejections ORDER BY event_id DESC LIMIT 1"),
        "0",
        "no new round"
    );
    let run = world.sqlite("SELECT run_id FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix' ORDER BY runs.rowid DESC LIMIT 1");
    let prompt = play.prompt_of_run(&run);
    assert!(
        prompt.contains("no licence header") && prompt.contains("mind the header"),
        "{prompt}"
    );
    let escalate =
        r#"{"propose": "escalate", "key": "3", "change": "c1", "reason": "the author left"}"#;
    evaluator(world, "licence", YEARLY, &line(escalate));
    for _ in 0..2 {
        due(world);
        play.tick().report();
    }
    play.is_escalated("licence: the author left");
    assert_eq!(told(world, "licence"), "");
    play.check();
}

#[test]
fn what_can_not_be_read_or_done_is_told_once_and_the_rest_counts() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let unknown = r#"echo '{"propose": "item", "key": "k", "change": "c99", "title": "t"}'"#;
    let bad = r#"echo 'not JSON'; echo '{"propose": "reject", "key": "x", "change": "c1"}'; printf '{"propose'"#;
    evaluator(
        world,
        "sloppy",
        YEARLY,
        &format!("cat >/dev/null\n{unknown}\n{}\n{bad}\n", item("good")),
    );
    for _ in 0..2 {
        play.tick().report();
        due(world);
    }
    insta::assert_snapshot!(told(world, "sloppy"), @r#"
    skipped: proposal `k` of sloppy was refused: no change `c99`
    skipped: line 3 of sloppy is not a valid proposal: expected ident at line 1 column 2: not JSON
    skipped: line 4 of sloppy is not a valid proposal: missing field `text`: {"propose": "reject", "key": "x", "change": "c1"}
    skipped: line 5 of sloppy is not a valid proposal: EOF while parsing a string at line 1 column 9: {"propose
    "#);
    assert_eq!(play.count("work_items WHERE title = 'look at good'"), 1);
    assert!(
        world
            .remand(&["evaluators", "show", "sloppy"])
            .ok()
            .stdout
            .contains("command    sloppy")
    );
    // An unknown object may be known now.
    play.another("c99");
    world.sqlite("UPDATE counters SET value = 98 WHERE name = 'c'");
    play.another("late");
    due(world);
    play.tick().report();
    assert_eq!(
        play.count("work_items WHERE change_id = 'c99' AND source = 'manual'"),
        1
    );
}

#[test]
fn one_that_fails_is_told_once_put_off_and_in_nobodys_way() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let begun = world.root().join("begun");
    let counted = format!("echo x >>'{}.'$REMAND_EVALUATOR\n", begun.display());
    let ended = |how: &str| format!("{counted}cat >/dev/null\n{}\n{how}\n", item("never"));
    evaluator(
        world,
        "dies",
        YEARLY,
        &ended("printf '{\"propose\": \"it'; echo 'no such table' >&2; exit 3"),
    );
    evaluator(world, "hangs", YEARLY, &ended("sleep 60"));
    evaluator(world, "floods", YEARLY, &ended("yes | head -c 2000000"));
    evaluator(
        world,
        "chatters",
        YEARLY,
        &ended("i=0; while [ $i -lt 101 ]; do echo {}; i=$((i + 1)); done"),
    );
    evaluator(world, "missing", YEARLY, "");
    fs::remove_file(world.root().join("bin/missing")).unwrap();
    evaluator(world, "works", YEARLY, &format!("{}\n", item("works")));
    play.tick().report();
    play.is_ready(1);
    let all = ["chatters", "dies", "floods", "hangs", "missing"];
    let said = || all.map(|name| told(world, name)).join("\n");
    let once = said();
    insta::assert_snapshot!(once, @"
    skipped: chatters failed and its output was not used: it printed 102 proposals; the limit is 100 per pass
    skipped: dies failed and its output was not used: exited with status 3: no such table
    skipped: floods failed and its output was not used: it printed more than 1024 KiB
    skipped: hangs failed and its output was not used: stopped after its time limit of 2 s
    skipped: missing failed and its output was not used: the program `missing` was not found
    ");
    assert_eq!(
        world.sqlite("SELECT title FROM work_items WHERE source = 'manual'"),
        "look at works"
    );
    let runs = |name: &str| {
        fs::read_to_string(format!("{}.{name}", begun.display()))
            .unwrap()
            .lines()
            .count()
    };
    assert_eq!(runs("dies"), 1, "not again before its time");
    due(world);
    play.tick().report();
    assert_eq!((runs("dies"), said()), (2, once), "told once");
    let shown = world.remand(&["evaluators", "show", "dies"]).ok().stdout;
    assert!(
        shown.contains("exited with status 3: no such table (since"),
        "{shown}"
    );
    assert_eq!(
        world.json(&["evaluators", "show", "dies"])["trouble"]["failures"],
        2
    );
    world
        .remand(&["evaluators", "run", "dies", "--dry-run"])
        .fails(
            1,
            "evaluator dies failed, and its output was discarded: exited with status 3",
        );

    evaluator(world, "dies", YEARLY, &item("never"));
    due(world);
    play.tick().report();
    assert!(
        told(world, "dies").ends_with("resumed: dies works again (2 passes failed)"),
        "{}",
        told(world, "dies")
    );
    assert_eq!(play.count("work_items WHERE title = 'look at never'"), 1);
    play.check();
}

#[test]
fn the_daemon_does_not_wait_for_one_and_ends_it_when_it_stops() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let wait = format!(
        "cat >/dev/null\nuntil [ -e '{}' ]; do sleep 0.02; done\n{}\n",
        play.seen("go").display(),
        item("slow")
    );
    evaluator(world, "slow", YEARLY, &wait);
    let text = fs::read_to_string(folder(world).join("slow.toml"))
        .unwrap()
        .replace("limit_s = 2", "limit_s = 600");
    fs::write(folder(world).join("slow.toml"), text).unwrap();
    let daemon = play.daemon();
    play.wait_for_state("ready_for_human_review");
    assert_eq!(
        play.count("evaluators WHERE name = 'slow'"),
        0,
        "it is still at work"
    );
    assert!(daemon.stop().success(), "nobody waits for it");
    assert_eq!(
        play.count("evaluators WHERE name = 'slow'") + play.count("evaluator_troubles"),
        0,
        "nothing was written"
    );
    play.let_go("go");
    let daemon = play.daemon();
    play.wait_for(
        "SELECT count(*) FROM work_items WHERE title = 'look at slow'",
        "1",
    );
    daemon.stop();
    play.check();
}

#[test]
fn stock_evaluators_are_run_by_hand_too() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    world.sqlite("INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('work_rejected', 'change', 'c1', 'say fixed')");
    // The review of this head comes first: done, and rejected again.
    play.tick().report();
    world.sqlite("INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('work_rejected', 'change', 'c1', 'once more')");
    let before = bytes(world);
    let dry = world
        .remand(&["evaluators", "run", "review_feedback", "--dry-run"])
        .ok()
        .stdout;
    assert!(bytes(world) == before, "a dry run writes nothing");
    insta::assert_snapshot!(dry, @"
    work_created  work_item w4  review_fix queued: Fix Feature
    state_changed  change c1  ready_for_human_review → self_review_failed (new_rejection)
    state_changed  change c1  self_review_failed → refining (fix_created)
    fix_created  work_item w4  fix 1 of 2 created from 1 rejection
    ");
    assert_eq!(
        world
            .remand(&["evaluators", "run", "review_feedback"])
            .ok()
            .stdout,
        dry,
        "for real, it is the same"
    );
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix' AND status = 'available'"),
        1
    );
    assert_eq!(
        world
            .remand(&["evaluators", "run", "review_feedback"])
            .ok()
            .stdout,
        "review_feedback proposes nothing new\n"
    );
    world
        .remand(&["evaluators", "run", "review_fedback"])
        .fails(4, "did you mean `review_feedback`?");
}

#[test]
fn a_dry_run_needs_no_blackboard_and_makes_none() {
    let world = World::new();
    let output = world
        .remand(&["evaluators", "run", "review_feedback", "--dry-run"])
        .ok();
    assert_eq!(output.stdout, "review_feedback proposes nothing new\n");
    assert!(!world.db().exists());
}

#[test]
fn files_are_checked_wherever_they_are() {
    let world = World::new();
    let file = world.root().join("mine.toml");
    let check = || -> Output { world.remand(&["evaluators", "check", file.to_str().unwrap()]) };
    fs::write(
        &file,
        "kind = \"command\"\nschedule = \"@daily\"\n[config]\ncommand = \"./mine\"\n",
    )
    .unwrap();
    let wrong = check().fails(3, "invalid type: string \"./mine\", expected a sequence");
    assert!(wrong.stderr.contains("mine.toml:4:11"), "{}", wrong.stderr);
    fs::write(
        &file,
        "kind = \"command\"\nschedule = \"@daily\"\n[config]\ncommand = [\"./mine\"]\n",
    )
    .unwrap();
    check().fails(3, "/mine` was not found or is not executable");
    fs::write(
        &file,
        "kind = \"command\"\nschedule = \"@daily\"\n[config]\ncommand = [\"cat\"]\n",
    )
    .unwrap();
    assert!(
        check()
            .ok()
            .stdout
            .starts_with("ok  mine\n    mine next fires at ")
    );
    fs::write(&file, "enabled = false\n").unwrap();
    assert!(check().ok().stderr.contains("is disabled"));
    world
        .remand(&["evaluators", "check", "nowhere.toml"])
        .fails(3, "cannot read the evaluator nowhere.toml");
}
