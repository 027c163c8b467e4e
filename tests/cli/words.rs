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
    insta::assert_snapshot!(World::new().remand(&["-h"]).ok().stdout, @"
    Sends rejected work back to the coding agent that can fix it, a bounded number of times, and to a
    person when that is not enough

    Usage: remand [OPTIONS] [COMMAND]

    Commands:
      run          Run the daemon: it reads pull requests, has rejected work fixed and reviewed again,
                   until it is stopped
      tick         Look once, at pull requests too, run what is due until nothing is left, and end (for
                   cron and scripts)
      work         Run what is queued, in the foreground, and end; nothing is read, and nothing new made
                   from rejections
      demo         Show the whole loop on throw-away pull requests with scripted agents, offline
      init         Write a config file, asking for what is not given, and add the first projects
      doctor       Say what is missing here (git, gh, logins, agents, permissions, room) and how to get
                   it
      reload       Apply a changed configuration now
      project      The repositories that remand knows
      review       Have the work in a worktree reviewed, and fixed until it passes
      watch        Take over a pull request: have it reviewed, and fixed when somebody who may write to
                   it wants changes
      reject       Reject a change: what you say goes to an agent that fixes it
      approve      Approve a change, whatever is still open in it
      list         Show the changes that are under way and what each waits for
      status       Show how one change stands, or how many there are of each kind
      show         Show anything that has an id, in full
      why          Say what something waits for, or why it stopped, since when, and what to type
      events       Show what happened, oldest first
      log          Show what an agent wrote in a run
      diff         Show what a change changes, from where it left its base to its head
      retry        Try again what failed, after an escalation
      refine       Have the open findings fixed now, in a new round, perhaps with your guidance
      budget       Allow a change to spend more money, tokens, time or fixes
      cycles       Allow a change more fixes: `remand budget CHANGE --fixes +N`
      verdict      Give the verdict of a review yourself, where the reviewer's was unclear or you know
                   better
      comment      Tell the next fix something, without starting one
      stop         Stop all work at a safe point, of everything or of one project, until `start`
      start        Go on after `stop`, with everything or with one project
      pause        Stop a change where it is, until `resume`
      resume       Go on with a change that is paused or held
      post         Post once more what GitHub refused
      shadow       Only show what would be done for a change, or do it for real again
      stats        Sum up what agents spent, by project, agent, day and change
      cancel       Close a change: nothing more is done for it
      item         Work items: what is to be run once
      read-review  Say how remand reads the text of a review: verdict, findings, and why
      backup       Copy the blackboard into a file, while the daemon goes on
      prune        Forget changes that were merged or closed long ago, with all that hangs on them
      service      Have systemd or launchd run the daemon
      check        Check the blackboard: its file, and what must hold between its rows
      config       The settings: what holds, and where it comes from
      evaluators   The evaluators: what turns events into work
      prompts      The prompts: what agents are told
      completions  Print what a shell needs to complete remand's commands and options
      man          Print a page of the manual, or write all pages into a folder

    Options:
      -h, --help     Print help (see more with '--help')
      -V, --version  Print version

    Everywhere:
          --config <FILE>  Read the settings from FILE [default: $REMAND_CONFIG, or remand/config.toml
                           in $XDG_CONFIG_HOME]
          --db <FILE>      Use the blackboard FILE [default: $REMAND_DB, or `blackboard` in the
                           settings]
          --json           Print JSON, for programs; its shapes are in docs/json.md
      -v, --verbose...     Say more about what is being done (twice: even more)

    First steps:
      remand demo                           the whole loop, offline, in about ten seconds
      remand init                           write a config file, and begin with a repository
      remand doctor                         what is missing here, and how to get it
      remand watch ada/website#42           have a PR reviewed, fixed and pushed until it passes
      remand review                         the same for the worktree that you are in, without a PR
      remand run                            the daemon that does it (or `remand tick`, once)
      remand why ada/website#42             what is it waiting for?

    Exit codes: 0 done, 1 failed, 2 usage, 3 configuration, 4 not found, 5 held or needs a person.
    ");
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
