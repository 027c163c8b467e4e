//! `config evaluators prompts read-review`.

use std::fs;

use crate::support::World;
use crate::support::play::{FIXES, Play, REVIEWER, REVIEWS_FIXED, Script};

#[test]
fn settings_are_shown_with_their_origin() {
    let world = World::new();
    insta::assert_snapshot!(world.plain(&world.remand(&["config", "show", "heartbeat"]).ok().stdout), @"
    KEY               VALUE  FROM
    heartbeat.look_s  1      default
    ");
    let path = world.remand(&["config", "path"]).ok();
    assert_eq!(
        world.plain(&path.stdout),
        "WORLD/config/remand/config.toml\n"
    );
    assert!(path.stderr.contains("it does not exist"));
    assert_eq!(world.json(&["config", "path"])["exists"], false);
    let defaults = world.remand(&["config", "defaults"]).ok().stdout;
    world.config(&defaults);
    assert!(
        world
            .remand(&["config", "check"])
            .ok()
            .stdout
            .starts_with("ok")
    );
    world.config("[loop]\nmax_fix_cycles = 3\n");
    let shown = world.json(&["config", "show", "loop.max_fix_cycles"]);
    assert_eq!(shown[0]["value"], "3");
    assert!(
        shown[0]["origin"]
            .as_str()
            .unwrap()
            .ends_with("config.toml:2")
    );
    world
        .remand(&["config", "show", "loops"])
        .fails(4, "no such setting: `loops`");
    assert!(
        world.json(&["config", "defaults"])["text"]
            .as_str()
            .unwrap()
            .contains("max_fix_cycles")
    );
}

#[test]
fn the_path_of_a_broken_config_file_is_printed() {
    let world = World::new();
    for text in ["not toml", "loops = 1\n", "agent = \"nobody\"\n"] {
        world.config(text);
        world.remand(&["config", "check"]).fails(3, "");
        let path = world.remand(&["config", "path"]).ok();
        assert_eq!(
            world.plain(&path.stdout),
            "WORLD/config/remand/config.toml\n"
        );
        assert!(
            path.stderr
                .contains("`remand config check` shows the error"),
            "{}",
            path.stderr
        );
        let shown = world.json(&["config", "path"]);
        assert_eq!(shown["exists"], true);
        assert_eq!(shown["blackboard"], world.db().to_str().unwrap());
    }
    let named = world
        .remand(&["config", "path", "--config", "nowhere.toml"])
        .ok();
    assert!(
        named.stdout.ends_with("/nowhere.toml\n"),
        "{}",
        named.stdout
    );
    let mut homeless = world.remand_command(&["config", "path", "--json", "--db", "x.db"]);
    homeless.env_remove("HOME").env_remove("XDG_CONFIG_HOME");
    let shown: serde_json::Value =
        serde_json::from_str(&crate::support::run(&mut homeless).ok().stdout).unwrap();
    assert_eq!(
        (&shown["config"], &shown["exists"]),
        (&serde_json::Value::Null, &false.into())
    );
}

/// Every program named in the settings: agents, gates, set-up, the sandbox's wrapper, `gh`, and
/// those of evaluators.
#[test]
fn a_program_in_the_home_is_found() {
    let play = Play::without_change(&Script::default());
    let world = &play.world;
    let reviewer = format!(
        "PROMPTS='{}'\n{REVIEWER}\n{REVIEWS_FIXED}",
        play.seen("").display()
    );
    let wrapper = format!(
        "echo \"$@\" >>'{}'\nexec \"$@\"",
        play.seen("wrapped").display()
    );
    let gate = format!("echo gate >>'{}'", play.seen("gates").display());
    let setup = format!("echo setup >>'{}'", play.seen("gates").display());
    let scripts = [
        ("bot", FIXES),
        ("critic", &reviewer),
        ("jail", &wrapper),
        ("gate", &gate),
        ("setup", &setup),
    ];
    let scripts = scripts
        .into_iter()
        .chain([("hub", "exit 1"), ("look", "echo 'not JSON'")]);
    for (name, text) in scripts {
        let path = world.script(name, text);
        let own = world.root().join("home/own");
        fs::create_dir_all(&own).unwrap();
        fs::rename(path, own.join(name)).unwrap();
    }
    world.config(
        r#"
        agent = "bot"
        review_agent = "critic"
        setup = ["~/own/setup"]
        agents.bot = { kind = "command", command = ["~/own/bot", "~/own/argument"] }
        agents.critic = { kind = "command", command = ["~/own/critic"] }
        github.gh = ["~/own/hub"]
        sandbox = { kind = "wrapper", wrapper = ["~/own/jail"] }
        projects.calc.gates = [["~/own/gate", "~/own/argument"]]
        "#,
    );
    let folder = world.root().join("config/remand/evaluators");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("look.toml"),
        "kind = \"command\"\nschedule = \"@yearly\"\n[config]\ncommand = [\"~/own/look\"]\n",
    )
    .unwrap();
    assert!(
        world
            .remand(&["evaluators", "check"])
            .ok()
            .stdout
            .contains("look")
    );
    let look = world.remand(&["evaluators", "run", "look"]);
    assert!(
        look.stdout.contains("not JSON"),
        "it was started: {} {}",
        look.stdout,
        look.stderr
    );
    assert_eq!(
        world.json(&["config", "show", "github.gh"])[0]["value"],
        format!("[\"{}/home/own/hub\"]", world.root().display())
    );
    world.remand_in(&play.worktree, &["review"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert!(
        play.noted("gates").contains("setup\ngate\n"),
        "{}",
        play.noted("gates")
    );
    let wrapped = play.noted("wrapped");
    assert!(
        wrapped.contains("home/own/bot ~/own/argument"),
        "arguments are left alone: {wrapped}"
    );
}

#[test]
fn a_wrong_setting_shows_its_line_and_ends_with_3() {
    let world = World::new();
    world.config("[loop]\nmax_fix_cycels = 3\n");
    for args in [&["list"][..], &["config", "check"], &["check"], &["tick"]] {
        let output = world
            .remand(args)
            .fails(3, "did you mean `max_fix_cycles`?");
        assert!(output.stderr.starts_with("error: "), "{}", output.stderr);
        assert!(
            output.stderr.contains("config.toml:2:1"),
            "{}",
            output.stderr
        );
    }
    world
        .remand(&["--config", "nowhere.toml", "list"])
        .fails(3, "nowhere.toml not found");
}

#[test]
fn a_database_of_somebody_else_is_left_alone() {
    let world = World::new();
    fs::write(
        world.root().join("text.db"),
        "this is no database, and long enough to be seen as none",
    )
    .unwrap();
    world
        .remand(&["--db", "text.db", "list"])
        .fails(1, "not a SQLite database");
    let foreign = world.root().join("foreign.db");
    let mut sqlite = world.command("sqlite3");
    assert!(
        sqlite
            .arg(&foreign)
            .arg("CREATE TABLE t (x)")
            .status()
            .unwrap()
            .success()
    );
    world
        .remand(&["--db", "foreign.db", "list"])
        .fails(3, "not a remand blackboard");
}

#[test]
fn evaluators_are_listed_shown_and_checked() {
    let world = World::new();
    insta::assert_snapshot!(world.remand(&["evaluators", "list"]).ok().stdout, @"
    EVALUATOR        ON                           SCHEDULE         READ UP TO  LAST   FROM
    pr_feedback      -                            * * * * * (utc)  event 0     never  stock
    review_feedback  work_rejected work_approved  -                event 0     never  stock
    ");
    insta::assert_snapshot!(world.remand(&["evaluators", "show", "review_feedback"]).ok().stdout, @"
    review_feedback
    kind       review_feedback
    on         work_rejected, work_approved
    needs      pr_feedback
    read up to event 0
    from       stock
    ");
    assert_eq!(
        world.json(&["evaluators", "list"])[1]["name"],
        "review_feedback"
    );
    assert_eq!(world.json(&["evaluators", "check"])["ok"], true);
    world
        .remand(&["evaluators", "show", "reviw_feedback"])
        .fails(4, "did you mean `review_feedback`?");
    world.config("");
    let folder = world.root().join("config/remand/evaluators");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("review_feedback.toml"),
        "kind = \"review_feedback\"\non = [\"work_rejekted\"]\n",
    )
    .unwrap();
    let output = world
        .remand(&["evaluators", "check"])
        .fails(3, "work_rejekted");
    assert!(
        output.stderr.contains("review_feedback.toml:2"),
        "{}",
        output.stderr
    );
}

#[test]
fn prompts_are_listed_shown_and_checked() {
    let world = World::new();
    insta::assert_snapshot!(world.remand(&["prompts", "list"]).ok().stdout, @"
    PROMPT     FROM
    review     stock
    fix        stock
    again      stock
    implement  stock
    ");
    let fix = world.remand(&["prompts", "show", "fix"]).ok().stdout;
    assert_eq!(
        world.json(&["prompts", "show", "fix"])["text"]
            .as_str()
            .unwrap()
            .trim_end(),
        fix.trim_end()
    );
    assert!(
        world
            .remand(&["prompts", "show", "fix", "--variables"])
            .ok()
            .stdout
            .contains("all findings of the feedback")
    );
    assert_eq!(world.json(&["prompts", "check"])["ok"], true);
    world
        .remand(&["prompts", "show", "fox"])
        .fails(2, "allowed: review, fix, again");
    world.config("");
    let folder = world.root().join("config/remand/prompts");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("fix.md"), "line one\n{{ nonsense }}\n").unwrap();
    let output = world.remand(&["prompts", "check"]).fails(3, "nonsense");
    assert!(output.stderr.contains("fix.md:2"), "{}", output.stderr);
}

#[test]
fn a_review_is_read_aloud() {
    let world = World::new();
    let text =
        "Fine, but see src/a.rs.\n\nREVIEW_RESULT: approved\nFINDINGS_COUNT: 0\nSUMMARY: fine\n";
    fs::write(world.root().join("review.md"), text).unwrap();
    insta::assert_snapshot!(world.remand(&["read-review", "review.md"]).ok().stdout, @"
    verdict    approved
    reason     The review says approved and has no blocking finding.
    dialect    contract
    summary    fine
    ");
    let read = world.json(&["read-review", "review.md"]);
    assert_eq!(read["verdict"], "approved");
    assert_eq!(read["dialect"], "contract");
    assert_eq!(read["findings"], serde_json::json!([]));
    assert!(read["reason"].is_string());
    let unclear = world
        .remand_with_stdin(&["read-review", "-", "--json"], "hm\n")
        .ok();
    assert!(unclear.stdout.contains("\"unclear\""), "{}", unclear.stdout);
    world
        .remand(&["read-review", "nowhere.md"])
        .fails(4, "no such file: nowhere.md");
    world
        .remand(&["read-review", "review.md", "--threshold", "bad"])
        .fails(2, "allowed: critical");
    world.remand(&["read-review"]).fails(2, "FILE");
}
