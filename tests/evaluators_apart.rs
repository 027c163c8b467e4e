//! Things that a command evaluator must not do: outlive its parent, run while everything is
//! stopped, wake itself, leak secrets.

use std::fs;

use rustix::process::{Pid, Signal};

use crate::evaluators::{due, evaluator, told};
use crate::support::World;
use crate::support::play::{Play, Script};

const YEARLY: &str = "schedule = \"@yearly\"";

/// Returns the pids that a script recorded.
fn pids(world: &World) -> Vec<i32> {
    let noted = fs::read_to_string(world.root().join("pids")).unwrap_or_default();
    noted.lines().map(|pid| pid.parse().unwrap()).collect()
}

fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn signal(pid: i32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    after_name
        .split_whitespace()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap()
}

/// Returns a script that waits until it is released.
fn waits(world: &World) -> String {
    let root = world.root().display();
    format!("echo $$ >>'{root}/pids'; until [ -e '{root}/go' ]; do sleep 0.02; done")
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_killed_daemon_left_is_ended_and_what_a_living_one_runs_is_not() {
    let play = Play::without_change(&Script::default());
    let world = &play.world;
    evaluator(world, "waits", YEARLY, &waits(world));
    let file = world.root().join("config/remand/evaluators/waits.toml");
    fs::write(
        &file,
        fs::read_to_string(&file)
            .unwrap()
            .replace("limit_s = 2", "limit_s = 600"),
    )
    .unwrap();
    let daemon = play.daemon();
    play.until("it is run", || !pids(world).is_empty());
    let first = pids(world)[0];
    // Another command that runs next to the daemon leaves it alone.
    let mut tick = world
        .remand_command(&["tick"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    play.until("the tick runs its own", || pids(world).len() == 2);
    assert!(is_alive(first));
    let second = pids(world)[1];
    tick.kill().unwrap();
    tick.wait().unwrap();
    play.until("its supervisor ends it", || !is_alive(second));
    assert!(is_alive(first));

    // Nobody is left to end this one.
    signal(daemon.pid().cast_signed(), Signal::STOP);
    signal(parent(first), Signal::KILL);
    daemon.kill();
    assert!(is_alive(first), "nobody ended it yet");

    let daemon = play.daemon();
    play.until("it is run again", || pids(world).len() == 3);
    assert!(!is_alive(first), "{}", play.log());
    assert!(
        play.log().contains("leftover evaluator program ended"),
        "{}",
        play.log()
    );
    let folders = || fs::read_dir(world.db().with_file_name("evaluators")).unwrap();
    assert_eq!(folders().count(), 1, "only that of the living daemon");
    fs::write(world.root().join("go"), "").unwrap();
    play.wait_for(
        "SELECT count(*) FROM evaluators WHERE name = 'waits' AND next_run IS NOT NULL",
        "1",
    );
    assert!(daemon.stop().success());
}

#[test]
fn while_everything_is_stopped_it_is_not_run() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let seen = world.root().join("seen");
    evaluator(
        world,
        "watcher",
        YEARLY,
        &format!("cat >>'{}'\n", seen.display()),
    );
    world.remand(&["stop", "--reason", "lunch"]).ok();
    play.tick().report();
    let refused = world
        .remand(&["evaluators", "run", "watcher"])
        .fails(5, "everything was stopped by ada: lunch");
    assert!(
        refused.stderr.contains("`remand start`"),
        "{}",
        refused.stderr
    );
    assert!(!seen.exists());
    world
        .remand(&["evaluators", "run", "watcher", "--dry-run"])
        .ok();
    assert!(seen.exists());
    world.remand(&["evaluators", "run", "review_feedback"]).ok();
    fs::remove_file(&seen).unwrap();

    world.remand(&["start"]).ok();
    world.remand(&["stop", "calc"]).ok();
    play.tick().report();
    let shown: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&seen).unwrap()).unwrap();
    assert_eq!(
        (
            &shown["projects"][0]["stopped"],
            &shown["changes"][0]["stopped"]
        ),
        (&true.into(), &true.into())
    );
}

#[test]
fn a_bad_line_of_its_own_does_not_wake_it_and_no_more_are_told_than_a_few() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    let counter = world.root().join("passes");
    let script = format!(
        "cat >/dev/null; echo . >>'{0}'; echo \"no proposal $(wc -l <'{0}')\"",
        counter.display()
    );
    evaluator(
        world,
        "muddled",
        "on = [\"skipped\"]\nschedule = \"@yearly\"",
        &script,
    );
    play.tick().report();
    let passes = || fs::read_to_string(&counter).unwrap().lines().count();
    assert_eq!(passes(), 1, "{}", told(world, "muddled"));
    assert_eq!(
        world.sqlite("SELECT DISTINCT actor_id FROM events WHERE target_id = 'muddled'"),
        "muddled"
    );

    let many = "cat >/dev/null; for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do echo \"$$ at $n\"; done";
    evaluator(world, "muddled", YEARLY, many);
    for _ in 0..5 {
        due(world);
        play.tick().report();
    }
    let lines = "SELECT count(*) FROM events WHERE target_id = 'muddled' AND summary LIKE 'line %'";
    assert_eq!(world.sqlite(lines), "50");
    assert_eq!(
        world.sqlite("SELECT count(*) FROM proposals WHERE evaluator = 'muddled'"),
        "51"
    );
    assert_eq!(
        world.sqlite(
            "SELECT summary FROM events WHERE target_id = 'muddled' AND summary NOT LIKE 'line %'"
        ),
        "50 invalid lines in one day from muddled; no more are reported until tomorrow"
    );
}

#[test]
fn secrets_that_it_prints_are_kept_nowhere() {
    let play = Play::new(&Script::default());
    let world = &play.world;
    // Concatenated, so that no secret scanner finds it in this file.
    let token = format!("ghp_{}", "0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7RzYxW");
    let item = format!(
        r#"{{"propose": "item", "key": "k", "change": "c1", "title": "look at {token}", "description": "it is {token}"}}"#
    );
    evaluator(
        world,
        "fails",
        YEARLY,
        &format!("cat >/dev/null; echo 'bad: {token}' >&2; exit 1"),
    );
    evaluator(
        world,
        "prints",
        YEARLY,
        &format!("cat >/dev/null; echo 'what is {token}'; echo '{item}'"),
    );
    let daemon = play.daemon();
    play.wait_for("SELECT count(*) FROM evaluator_troubles", "1");
    play.wait_for(
        "SELECT count(*) FROM work_items WHERE source = 'manual'",
        "1",
    );
    assert!(daemon.stop().success());
    assert!(
        told(world, "fails").contains("bad: ***"),
        "{}",
        told(world, "fails")
    );
    assert!(
        told(world, "prints").contains("what is ***"),
        "{}",
        told(world, "prints")
    );
    assert_eq!(
        world.sqlite("SELECT title, description FROM work_items WHERE source = 'manual'"),
        "look at ***|it is ***"
    );
    let dump = world.sqlite(
        "SELECT summary || metadata FROM events; SELECT reason FROM evaluator_troubles; SELECT key FROM proposals",
    );
    assert!(
        !dump.contains(&token) && !play.log().contains(&token),
        "{dump}\n{}",
        play.log()
    );
    assert!(play.log().contains("bad: ***"), "{}", play.log());
}
