//! `remand project`: the settings of a new one, what is shown of it, and its removal.

use std::fs;
use std::path::Path;

use super::Site;
use crate::support::{Output, World, feed, skip};

const CONFIG: &str = "agent = \"mine\"\n[agents.mine]\nkind = \"command\"\ncommand = [\"cat\"]\n";

fn config_file(world: &World) -> String {
    fs::read_to_string(world.root().join("config/remand/config.toml")).unwrap()
}

/// A repository whose tests are found: it has a Rust package.
fn rust_repo(world: &World, name: &str) -> std::path::PathBuf {
    let repo = world.repo(name);
    fs::write(repo.join("Cargo.lock"), "version = 4\n").unwrap();
    world.commit(
        &repo,
        "Cargo.toml",
        "[package]\nname = \"x\"\nversion = \"0.1.0\"\n",
        "a package",
    );
    repo
}

#[test]
fn the_settings_of_a_new_project_are_found_or_given() {
    let world = World::new();
    world.config(CONFIG);
    let found = rust_repo(&world, "found");
    let add = |repo: &Path, more: &[&str]| {
        let args = [&["project", "add", repo.to_str().unwrap()], more].concat();
        world.remand(&args)
    };
    add(&found, &[]).ok();
    let text = config_file(&world);
    assert!(text.starts_with(CONFIG.trim_end()), "{text}");
    assert!(
        text.contains("[projects.found]") && text.contains("gates = [[\"cargo\", \"test\""),
        "{text}"
    );
    let given = world.repo("given");
    let more = [
        "--setup",
        "make ready",
        "--gate",
        "make a",
        "--gate",
        "make b",
        "--repo",
        "ada/given",
        "--label",
        "fix-me",
        "--shadow",
    ];
    add(&given, &more).ok();
    let shown = world.json(&["project", "show", "given"]);
    assert_eq!(
        shown["settings"],
        serde_json::json!({
            "agent": "mine", "review_agent": "mine", "setup": ["make", "ready"], "gates": [["make", "a"], ["make", "b"]],
            "label": "fix-me", "shadow": "review", "max_fix_cycles": 2,
        })
    );
    world.remand(&["config", "check"]).ok();
    // Nothing found, nothing written.
    let before = config_file(&world);
    add(&world.repo("plain"), &[]).ok();
    assert_eq!(config_file(&world), before);
    add(&world.repo("bad"), &["--label", "x"]).fails(2, "--label needs a repository on GitHub");
    add(&world.repo("worse"), &["--gate", "a && b"]).fails(2, "no shell is used");
    assert_eq!(config_file(&world), before);
    // A second `init` names the command.
    world
        .remand_in(&found, &["init"])
        .fails(1, "`remand project add PATH`");
}

#[test]
fn without_a_config_file_nothing_is_written() {
    let world = World::new();
    let repo = rust_repo(&world, "site");
    let path = repo.to_str().unwrap();
    world
        .remand(&["project", "add", path, "--gate", "make"])
        .fails(3, "there is no config file yet");
    world.remand(&["project", "add", path]).ok();
    assert!(!world.root().join("config/remand/config.toml").exists());
}

#[test]
fn on_a_terminal_it_asks_as_init_does() {
    let world = World::new();
    world.config(CONFIG);
    let repo = rust_repo(&world, "site");
    if world.command("python3").arg("--version").output().is_err() {
        return skip("on_a_terminal_it_asks_as_init_does", "there is no python3");
    }
    let typed = |answers: &[(&str, &str)]| -> Output {
        let mut python = world.command("python3");
        python
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/init/typed.py"))
            .arg(env!("CARGO_BIN_EXE_remand"))
            .args(["project", "add", repo.to_str().unwrap()])
            .env("TERM", "xterm");
        feed(python, &serde_json::to_string(answers).unwrap())
    };
    let answers = |agrees: &'static str| {
        [
            ("prepares a fresh worktree of site", "\n"),
            ("must pass before a fix for site is pushed", "make check\n"),
            ("Start in shadow", "no\n"),
            ("Add this to", agrees),
        ]
    };
    assert_eq!(typed(&answers("no\n")).status, 1);
    assert_eq!(config_file(&world), CONFIG);
    assert_eq!(world.json(&["project", "list"]), serde_json::json!([]));
    typed(&answers("\n")).ok();
    let text = config_file(&world);
    assert!(text.contains("gates = [[\"make\", \"check\"]]"), "{text}");
    assert!(!text.contains("shadow"), "{text}");
    assert_eq!(world.json(&["project", "list"])[0]["project_id"], "site");
}

#[test]
fn a_project_is_shown() {
    let site = Site::under_review();
    insta::assert_snapshot!(site.shows(&["project", "show", "site"]), @"
    site
    path       WORLD/src/site
    branch     main
    pushes to  nowhere: no push URL is set
    agent      none
    setup      none
    gates      none
    shadow     off
    fixes      at most 2 per round
    changes    1 pending_self_review
    worktree   WORLD/src/site-feature-login (c1, feature/login)
    ");
    site.remand(&["project", "show", "sitee"])
        .fails(4, "did you mean `site`?");
}

#[test]
fn a_removed_project_keeps_its_history_and_comes_back() {
    let site = Site::under_review();
    let path = site.repo.to_str().unwrap();
    site.remand(&["project", "remove", "site"])
        .fails(1, "site has open changes: c1");
    let own = |name: &str| {
        let dir = site.world.root().join("state/remand").join(name);
        fs::create_dir_all(dir.join("objects")).unwrap();
        dir
    };
    let (clone, gates) = (own("repos/site.git"), own("gates/site"));
    // Killed after the rows were written: the same command finishes the rest.
    let mut killed = site
        .world
        .remand_command(&["project", "remove", "site", "--close"]);
    killed.env("REMAND_CRASH_AT", "project_remove.disk");
    assert!(!killed.output().unwrap().status.success());
    assert!(clone.exists());
    assert_eq!(site.state("c1"), "closed");
    let removed = site.world.json(&["project", "remove", "site"]);
    assert_eq!(removed["deleted"].as_array().unwrap().len(), 2);
    assert!(!clone.exists() && !gates.exists());
    assert!(site.worktree.join("work.txt").exists());

    let event = "SELECT count(*) FROM events WHERE metadata ->> 'action' = 'remove_project' AND target_id = 'site'";
    assert_eq!(site.world.sqlite(event), "1");
    assert_eq!(site.world.json(&["project", "list"]), serde_json::json!([]));
    for args in [
        &["status", "c1"][..],
        &["why", "c1"],
        &["events", "--change", "c1"],
        &["project", "show", "site"],
        &["list", "--all"],
        &["check"],
    ] {
        site.remand(args).ok();
    }
    site.world
        .remand_in(&site.worktree, &["review"])
        .fails(1, "which is not a project yet");
    // Its name is its history's; the repository gets it back.
    let other = site.world.repo("other");
    site.remand(&["project", "add", other.to_str().unwrap(), "--name", "site"])
        .fails(1, "is the name of a removed project");
    site.remand(&["project", "add", path, "--name", "new"])
        .fails(1, "was the project `site`");
    site.remand(&["project", "add", path]).ok();
    assert!(site.world.json(&["project", "show", "site"])["removed_at"].is_null());
    site.world.remand_in(&site.worktree, &["review"]).ok();
    site.remand(&["check"]).ok();
}

#[test]
fn a_held_change_is_resumed_not_retried() {
    let site = Site::under_review();
    site.world.sqlite(
        "UPDATE changes SET held_until = '2031-01-01T00:00:00.000Z', hold_reason = 'x', hold_kind = 'environment'",
    );
    site.remand(&["retry", "c1"]).fails(5, "`remand resume c1`");
}

#[test]
fn a_post_that_waits_for_its_next_try_is_sent_now() {
    let site = Site::under_review();
    site.world.sqlite(
        "INSERT INTO intents (key, kind, change_id, payload, epoch, created_at, not_before, tries, trouble)
         VALUES ('note:1', 'note', 'c1', '{}', 1, '2026-01-01T00:00:00.000Z', '2031-01-01T00:00:00.000Z', 3, 'no network')",
    );
    let before = "SELECT count(*) FROM intents WHERE not_before IS NOT NULL";
    assert_eq!(site.world.sqlite(before), "1");
    let output = site.remand(&["post", "c1"]);
    assert_eq!(site.world.sqlite(before), "0", "{}", output.stderr);
}
