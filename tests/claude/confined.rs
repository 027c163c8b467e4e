//! The real claude inside bubblewrap.

use std::fs;
use std::process::Command;

use super::stage::{Stage, claude, fixes, is_review, reviews, verdict};
use crate::support::model::{Model, says};
use crate::support::{run, skip};

/// It keeps its sessions in its own directory, which is still there the next time; the rest of the
/// home directory is not visible.
#[test]
fn inside_the_sandbox_claude_works_and_finds_its_session_again() {
    let name = "inside_the_sandbox_claude_works_and_finds_its_session_again";
    let Some(claude) = claude(name) else { return };
    let trial = Command::new("bwrap")
        .args([
            "--unshare-pid",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "true",
        ])
        .output();
    if !trial.is_ok_and(|output| output.status.success()) {
        return skip(
            name,
            "bubblewrap (bwrap) is not installed, or does not work here",
        );
    }
    // Unclear the first time, so that it is asked again in its session.
    let model = Model::new(|asked| {
        match (
            is_review(asked),
            asked.prompt.contains("Please answer once more"),
        ) {
            (false, _) => fixes(asked),
            (true, true) => says(verdict(
                "changes_requested",
                &[serde_json::json!({
                    "severity": "high", "category": "logic", "path": "work.txt", "line": 1, "text": "say fixed here"
                })],
                &[],
            )),
            (true, false) if asked.everything.contains("+fixed") || !asked.results.is_empty() => {
                reviews(asked)
            }
            (true, false) if asked.prompt.contains("say fixed here") => reviews(asked),
            (true, false) => says("It looks fine to me."),
        }
    });
    let stage = Stage::new(&claude, &model.url, "", "");
    let root = stage.play.world.root();
    let config = root.join("config/remand/config.toml");
    let text = fs::read_to_string(&config).unwrap();
    assert!(text.contains("kind = \"off\""), "{text}");
    fs::write(
        &config,
        text.replace("kind = \"off\"", "kind = \"bubblewrap\""),
    )
    .unwrap();
    let own = root.join("home/of claude");
    fs::create_dir_all(&own).unwrap();
    fs::create_dir_all(root.join("home/.ssh")).unwrap();
    fs::write(root.join("home/.ssh/id"), "canary-of-the-home").unwrap();
    run(stage.command(&["tick"]).env("CLAUDE_CONFIG_DIR", &own)).report();
    stage.play.is_ready(1);
    let world = &stage.play.world;
    assert_eq!(
        world.sqlite("SELECT count(*), count(DISTINCT session) FROM runs"),
        "4|3"
    );
    assert_eq!(
        stage
            .play
            .count("events WHERE event_type = 'review_unclear'"),
        1
    );
    assert!(
        own.join("projects").is_dir(),
        "its sessions are kept in its own folder"
    );
    assert!(!root.join("home/.claude").exists(), "and nowhere else");
}
