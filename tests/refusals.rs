//! Settings with which remand does not start, and the errors: nothing runs on settings that are
//! partly understood.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::support::play::{Play, Script};
use crate::support::{Output, World, run};

/// Creates an environment whose file under the config directory has this text.
fn world(file: &str, text: &str) -> World {
    let world = World::new();
    let path = world.root().join("config/remand").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    world
}

/// Asserts that every command that would use it refuses it, with the file, the line, and each of
/// these words; no blackboard is created.
#[track_caller]
fn refused(world: &World, commands: &[&[&str]], place: &str, words: &[&str]) {
    for args in commands {
        let output = bounded(world, args).fails(3, place);
        for word in words {
            assert!(
                output.stderr.contains(word),
                "remand {args:?}: {word:?} is not in {}",
                output.stderr
            );
        }
        assert!(
            !output.stderr.contains('\u{1b}'),
            "no colours where nobody sees them: {}",
            output.stderr
        );
    }
    assert!(!world.db().exists(), "something was begun");
}

/// Runs with a time limit: settings that should be refused must not become a daemon that the test
/// waits for.
fn bounded(world: &World, args: &[&str]) -> Output {
    let mut command = world.command("timeout");
    run(command
        .args(["--kill-after=5", "30", env!("CARGO_BIN_EXE_remand")])
        .args(args))
}

const OF_CONFIG: [&[&str]; 4] = [&["run"], &["tick"], &["work"], &["config", "check"]];
const OF_EVALUATORS: [&[&str]; 3] = [&["run"], &["tick"], &["evaluators", "check"]];
const OF_PROMPTS: [&[&str]; 3] = [&["run"], &["tick"], &["prompts", "check"]];

#[test]
fn a_setting_that_is_not_one() {
    let world = world(
        "config.toml",
        "agent = \"\"\n\n[loop]\nmax_fix_cycels = 3\n",
    );
    refused(
        &world,
        &OF_CONFIG,
        "config.toml:4:1",
        &["max_fix_cycels = 3", "^^^^^^^^^^^^^^", "max_fix_cycles"],
    );
}

#[test]
fn a_setting_of_the_wrong_kind() {
    let world = world("config.toml", "[loop]\nmax_fix_cycles = \"two\"\n");
    refused(
        &world,
        &OF_CONFIG,
        "config.toml:2:18",
        &["max_fix_cycles = \"two\"", "^^^^^"],
    );
}

#[test]
fn settings_that_do_not_go_together() {
    let world = world("config.toml", "[limits]\ngate_s = 5\n");
    refused(
        &world,
        &OF_CONFIG,
        "config.toml:2",
        &["limits.grace_s", "limits.gate_s"],
    );
}

#[test]
fn what_is_not_toml_at_all() {
    let world = world("config.toml", "agent = \n");
    refused(&world, &OF_CONFIG, "config.toml:1", &["agent ="]);
}

#[test]
fn a_config_file_that_was_named_and_is_not_there() {
    let world = World::new();
    world
        .remand(&["--config", "nowhere.toml", "tick"])
        .fails(3, "nowhere.toml");
    assert!(!world.db().exists());
}

#[test]
fn an_evaluator_with_a_bad_schedule() {
    let text = "kind = \"review_feedback\"\non = [\"work_rejected\"]\nschedule = \"61 * * * *\"\n";
    let world = world("evaluators/mine.toml", text);
    refused(&world, &OF_EVALUATORS, "mine.toml:3", &["61 * * * *", "^"]);
}

#[test]
fn an_evaluator_with_an_unknown_key() {
    let world = world(
        "evaluators/mine.toml",
        "kind = \"review_feedback\"\non = [\"work_rejected\"]\nscedule = \"x\"\n",
    );
    refused(
        &world,
        &OF_EVALUATORS,
        "mine.toml:3",
        &["scedule", "schedule"],
    );
}

#[test]
fn an_evaluator_of_an_unknown_kind() {
    let world = world(
        "evaluators/mine.toml",
        "kind = \"magic\"\non = [\"work_rejected\"]\n",
    );
    refused(
        &world,
        &OF_EVALUATORS,
        "mine.toml:1",
        &["magic", "review_feedback"],
    );
}

#[test]
fn a_prompt_with_an_unknown_variable() {
    let world = world("prompts/fix.md", "Fix {{ title }}.\n{{ brnach }}\n");
    refused(&world, &OF_PROMPTS, "fix.md:2", &["brnach", "branch"]);
}

#[test]
fn a_prompt_that_can_not_be_read() {
    let world = world("prompts/fix.md", "Fix {{ title }.\n");
    refused(&world, &OF_PROMPTS, "fix.md:1", &["title"]);
}

#[test]
fn a_prompt_of_an_unknown_name() {
    let world = world("prompts/fixx.md", "Fix it.\n");
    refused(
        &world,
        &OF_PROMPTS,
        "fixx.md",
        &["review.md, fix.md and again.md"],
    );
}

/// Mode bits do not restrict root, so this is a directory in which nobody can create a file.
#[test]
fn a_blackboard_where_nothing_can_be_written() {
    let world = World::new();
    let folder = world.root().join("read-only");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).unwrap();
    let place = if rustix::process::getuid().is_root() {
        Path::new("/proc/remand").to_owned()
    } else {
        folder
    };
    let db = place.join("blackboard.db");
    for command in ["run", "tick"] {
        let output = bounded(&world, &["--db", db.to_str().unwrap(), command])
            .fails(1, place.to_str().unwrap());
        assert!(!output.stderr.contains("panicked"), "{}", output.stderr);
    }
    bounded(&world, &["--db", db.to_str().unwrap(), "list"]).fails(4, place.to_str().unwrap());
}

#[test]
fn a_text_file_as_blackboard() {
    let world = World::new();
    let db = world.root().join("notes.txt");
    let text = "these are my notes, and no database at all\n".repeat(100);
    fs::write(&db, &text).unwrap();
    for command in ["run", "tick", "list"] {
        let output =
            bounded(&world, &["--db", db.to_str().unwrap(), command]).fails(1, "notes.txt");
        assert!(output.stderr.contains("not a"), "{}", output.stderr);
    }
    assert_eq!(
        fs::read_to_string(&db).unwrap(),
        text,
        "it is not ours to change"
    );
}

#[test]
fn a_database_of_another_program() {
    let world = World::new();
    let db = world.root().join("other.db");
    let conn = rusqlite::Connection::open(&db).unwrap();
    conn.execute_batch("CREATE TABLE recipes (name TEXT); INSERT INTO recipes VALUES ('soup');")
        .unwrap();
    drop(conn);
    let before = fs::read(&db).unwrap();
    for command in ["run", "tick", "list"] {
        bounded(&world, &["--db", db.to_str().unwrap(), command])
            .fails(3, "is a SQLite database but not a remand blackboard");
    }
    assert!(fs::read(&db).unwrap() == before, "it is not ours to change");
}

#[test]
fn a_second_daemon() {
    let play = Play::without_change(&Script::default());
    let first = play.daemon();
    let pid = first.pid().to_string();
    let second = bounded(&play.world, &["run"]).fails(5, &format!("(pid {pid})"));
    assert!(
        second.stderr.contains("one daemon per blackboard"),
        "{}",
        second.stderr
    );
    play.tick().report();
    first.kill();
    let next = play.daemon();
    assert_ne!(next.pid().to_string(), pid);
    assert!(next.stop().success());
    play.check();
}
