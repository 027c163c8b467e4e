//! Help, usage and colour.

use crate::support::World;

const COMMANDS: &[&str] = &[
    "run",
    "tick",
    "work",
    "demo",
    "project",
    "project add",
    "project list",
    "project show",
    "project remove",
    "review",
    "watch",
    "reject",
    "approve",
    "list",
    "status",
    "show",
    "why",
    "events",
    "log",
    "diff",
    "retry",
    "refine",
    "cycles",
    "verdict",
    "comment",
    "pause",
    "resume",
    "post",
    "cancel",
    "item",
    "item add",
    "item list",
    "item show",
    "item requeue",
    "item cancel",
    "read-review",
    "backup",
    "prune",
    "check",
    "config",
    "config show",
    "config check",
    "config path",
    "config defaults",
    "evaluators",
    "evaluators list",
    "evaluators show",
    "evaluators check",
    "prompts",
    "prompts list",
    "prompts show",
    "prompts check",
    "completions",
    "man",
    "help",
];

#[test]
fn every_command_has_help() {
    let world = World::new();
    let top = world.remand(&["--help"]).ok().stdout;
    for command in COMMANDS {
        let mut args: Vec<&str> = command.split(' ').collect();
        if args.len() == 1 {
            assert!(
                top.lines()
                    .any(|line| line.trim_start().starts_with(args[0])),
                "{command} is not in --help"
            );
        }
        args.push("--help");
        let help = world.remand(&args).ok();
        assert!(
            help.stdout.contains(&format!("Usage: remand {command}")),
            "{command}: {}",
            help.stdout
        );
        assert!(!help.stdout.contains('\u{1b}'), "{command}");
        assert_eq!(help.stderr, "", "{command}");
        let about = help.stdout.lines().next().unwrap();
        assert!(about.len() > 10, "{command} has no sentence");
    }
    assert!(!world.db().exists(), "asking for help makes nothing");
}

#[test]
fn the_help_at_the_top() {
    let help = World::new().remand(&["-h"]).ok().stdout;
    let headings: Vec<&str> = help
        .lines()
        .filter(|line| !line.starts_with(' ') && line.ends_with(':'))
        .collect();
    assert_eq!(
        headings,
        [
            "Start:",
            "Look:",
            "Decide:",
            "Stop and continue:",
            "Administer:",
            "Options:",
            "First steps:"
        ],
        "{help}"
    );
    assert!(
        help.lines().all(|line| line.chars().count() <= 100),
        "{help}"
    );
    assert!(help.contains("Usage: remand [OPTIONS] [COMMAND]"), "{help}");
    assert!(help.contains("\nExit codes: 0 done,"), "{help}");
}

#[test]
fn wrong_words_are_usage() {
    let world = World::new();
    world
        .remand(&["nonsense"])
        .fails(2, "unrecognized subcommand 'nonsense'");
    world.remand(&["lst"]).fails(2, "list");
    world
        .remand(&["list", "--nonsense"])
        .fails(2, "unexpected argument");
    world.remand(&["show"]).fails(2, "<ID>");
    for command in COMMANDS
        .iter()
        .filter(|command| !["run", "tick", "work", "demo"].contains(command))
    {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--no-such-flag");
        assert_eq!(world.remand(&args).status, 2, "{command}");
    }
    let version = world.remand(&["--version"]).ok().stdout;
    assert!(version.starts_with("remand "), "{version}");
}

#[test]
fn colour_only_where_it_is_wanted() {
    let site = super::Site::under_review();
    let escapes = |output: std::process::Output| {
        (output.stdout.contains(&0x1b), output.stderr.contains(&0x1b))
    };
    let run = |args: &[&str], var: Option<(&str, &str)>| {
        let mut command = site.world.remand_command(args);
        command.envs(var);
        escapes(command.output().unwrap())
    };
    for args in [
        &["list"][..],
        &["status", "c1"],
        &["why", "c1"],
        &["why", "c9"],
        &["diff", "c1"],
        &["nonsense"],
    ] {
        assert_eq!(run(args, None), (false, false), "a pipe: {args:?}");
        assert_eq!(
            run(args, Some(("NO_COLOR", "1"))),
            (false, false),
            "{args:?}"
        );
        let (out, err) = run(args, Some(("CLICOLOR_FORCE", "1")));
        assert!(out || err, "forced: {args:?}");
    }
    assert_eq!(
        run(&["list", "--json"], Some(("CLICOLOR_FORCE", "1"))),
        (false, false),
        "JSON has no colour"
    );
}

#[test]
fn files_are_for_nobody_else() {
    use std::os::unix::fs::PermissionsExt as _;
    let site = super::Site::under_review();
    for path in [
        site.world.db(),
        site.world.db().parent().unwrap().to_owned(),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{} is {mode:o}", path.display());
    }
}
