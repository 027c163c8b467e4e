//! `docs/agents.md`: its example works, and it names every variable that an agent gets.

use std::fs;
use std::path::Path;

use crate::support::play::{Play, Script};

fn document() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/agents.md")).unwrap()
}

#[test]
fn the_example_reviews_and_fixes() {
    let document = document();
    let example = document
        .split("```sh\n#!/bin/sh\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let play = Play::without_change(&Script {
        fixer: example,
        ..Script::default()
    });
    let config = play.world.root().join("config/remand/config.toml");
    let text = fs::read_to_string(&config)
        .unwrap()
        .replace("review_agent = \"reviewer\"", "review_agent = \"fixer\"");
    assert!(text.contains("review_agent = \"fixer\""), "{text}");
    fs::write(&config, text).unwrap();
    fs::write(play.worktree.join("work.txt"), "work\nTODO more\n").unwrap();
    play.world.git(&play.worktree, &["commit", "-qam", "more"]);
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        fs::read_to_string(play.worktree.join("work.txt")).unwrap(),
        "work\n"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT group_concat(agent || ' ' || cost_micros) FROM runs"),
        "fixer 0,fixer 0,fixer 0"
    );
}

#[test]
fn every_variable_is_in_the_table() {
    let script = "env >\"$PROMPTS/env.$REMAND_PHASE\"\n";
    let (reviewer, fixer) = (
        format!("{script}says approved fine"),
        format!("cat >/dev/null\n{script}"),
    );
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        ..Script::default()
    });
    play.tick().report();
    let (document, env) = (
        document(),
        fs::read_to_string(play.seen("env.review")).unwrap(),
    );
    let names: Vec<&str> = env
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, _)| name)
        .filter(|name| name.starts_with("REMAND_"))
        .collect();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        assert!(
            document.contains(&format!("| `{name}` |")),
            "{name} is not documented"
        );
    }
}
