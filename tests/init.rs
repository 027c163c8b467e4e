//! `remand init`, through the binary: with flags, and with a person who types at a terminal.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Output, World, feed, skip};

fn config_file(world: &World) -> PathBuf {
    world.root().join("config/remand/config.toml")
}

fn written(world: &World) -> String {
    fs::read_to_string(config_file(world)).unwrap()
}

/// Creates a repository from GitHub with a crate in it.
fn repo(world: &World, name: &str) -> PathBuf {
    let repo = world.repo(name);
    world.commit(&repo, "Cargo.toml", "", "a crate");
    world.git(
        &repo,
        &[
            "remote",
            "add",
            "origin",
            &format!("https://github.com/ada/{name}.git"),
        ],
    );
    repo
}

/// Creates an environment with the test's `gh` and `claude`, whatever the machine has.
fn world() -> World {
    let world = World::new();
    world.script("gh", "echo 'please run:  gh auth login' >&2\nexit 4\n");
    world.script("claude", "exit 9\n");
    world.script("cargo", "exit 0\n");
    world
}

/// Types at a terminal; `None` if that is not possible here.
fn typed(
    world: &World,
    folder: &Path,
    args: &[&str],
    answers: &[(&str, &str)],
    test: &str,
) -> Option<Output> {
    let mut python = world.command("python3");
    python
        .current_dir(folder)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/init/typed.py"));
    python
        .arg(env!("CARGO_BIN_EXE_remand"))
        .args(args)
        .env("TERM", "xterm");
    if world.command("python3").arg("--version").output().is_err() {
        skip(test, "there is no python3");
        return None;
    }
    Some(feed(python, &serde_json::to_string(answers).unwrap()))
}

#[test]
fn all_by_itself() {
    let world = world();
    let site = repo(&world, "site");
    let output = world.remand_in(&site, &["init"]).ok();
    insta::assert_snapshot!(world.plain(&written(&world)), @r#"
    # Settings of remand that differ from the defaults. `remand config defaults` documents all settings,
    # `remand config check` checks this file, and `remand config show` prints the settings in effect.

    # Agent that fixes and reviews.
    agent = "claude"

    [loop]
    # Limit on the cost of one change in US dollars; when it is reached, a person has to decide.
    max_cost_usd = 10.0
    # Limit on the cost of all changes per day; when it is reached, work waits for the next day.
    max_cost_usd_per_day = 50.0

    [agents.claude]
    kind = "claude"
    # Commands that it can run without asking, in addition to editing files.
    allow = ["Bash(cargo test *)"]

    [projects.site]
    # Commands that must pass before a fix is pushed.
    gates = [["cargo", "test"]]
    "#);
    insta::assert_snapshot!(world.plain(&output.stdout), @"
    wrote WORLD/config/remand/config.toml
    site is WORLD/src/site; work is merged into main
    pushes go to https://github.com/ada/site.git
    green: `cargo test` on main of site
    GitHub cannot be used yet: gh is not logged in; run `gh auth login`

    Next:
      remand doctor                  check what is still missing
      remand watch ada/site#NUMBER   review and fix a PR until it passes
      remand run                     start the daemon
    ");
    let checked = world.remand(&["config", "check"]).ok();
    assert_eq!(checked.stderr, "", "nothing is warned of");
    assert_eq!(world.json(&["project", "list"])[0]["repo"], "ada/site");
}

#[test]
fn all_by_flags() {
    let world = world();
    let (site, tool) = (repo(&world, "site"), repo(&world, "to.ol"));
    let shown = world.json(&[
        "init",
        "--agent",
        "'/opt/my agent/run.sh' --batch",
        "--review-agent",
        "claude",
        "--gate",
        "cargo test",
        "--gate",
        "sh -c 'a && b'",
        "--project",
        site.to_str().unwrap(),
        "--project",
        tool.to_str().unwrap(),
        "--project",
        site.join(".").to_str().unwrap(),
        "--label",
        "remand",
        "--yes",
    ]);
    assert_eq!(shown["config"], config_file(&world).to_str().unwrap());
    assert_eq!(shown["backup"], serde_json::Value::Null);
    assert_eq!(shown["projects"].as_array().unwrap().len(), 2);
    assert_eq!(
        shown["next"],
        serde_json::json!([
            "remand doctor",
            "remand watch ada/site#NUMBER",
            "remand run"
        ])
    );
    insta::assert_snapshot!(world.plain(&written(&world)), @r#"
    # Settings of remand that differ from the defaults. `remand config defaults` documents all settings,
    # `remand config check` checks this file, and `remand config show` prints the settings in effect.

    # Agent that fixes.
    agent = "run"

    # Agent that reviews.
    review_agent = "claude"

    # Commands that must pass before a fix is pushed.
    gates = [["cargo", "test"], ["sh", "-c", "a && b"]]

    [loop]
    # Limit on the cost of one change in US dollars; when it is reached, a person has to decide.
    max_cost_usd = 10.0
    # Limit on the cost of all changes per day; when it is reached, work waits for the next day.
    max_cost_usd_per_day = 50.0

    [agents.run]
    kind = "command"
    command = ["/opt/my agent/run.sh", "--batch"]

    [agents.claude]
    kind = "claude"

    # Open pull requests with this label are taken over automatically.
    [projects.site.discover]
    label = "remand"

    # Open pull requests with this label are taken over automatically.
    [projects."to.ol".discover]
    label = "remand"
    "#);
    assert_eq!(world.remand(&["config", "check"]).ok().stderr, "");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(
        fs::metadata(config_file(&world))
            .unwrap()
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
}

#[test]
fn a_path_and_a_label_mean_what_one_expects() {
    let world = world();
    let tool = world.repo("tool");
    let args = [
        "init",
        "--agent",
        "./agent.sh -b",
        "--review-agent",
        "~/bin/reviewer",
        "--label",
        "remand",
    ];
    let said = world.remand_in(&tool, &args).ok().stderr;
    assert!(
        said.contains("--label"),
        "there is no pull request to take over: {said}"
    );
    // An agent is started in a worktree, where a relative path would be another file.
    let text = world.plain(&written(&world));
    assert!(
        text.contains("command = [\"WORLD/src/tool/agent.sh\", \"-b\"]"),
        "{text}"
    );
    assert!(
        text.contains("command = [\"WORLD/home/bin/reviewer\"]"),
        "{text}"
    );
    world
        .remand_in(
            &tool,
            &["init", "--force", "--agent", "python3 ./agent.py --to a/b"],
        )
        .ok();
    let text = world.plain(&written(&world));
    assert!(
        text.contains("command = [\"python3\", \"WORLD/src/tool/agent.py\", \"--to\", \"a/b\"]"),
        "{text}"
    );
}

/// Reasons that prevent the current repository from being added are reported before anything is
/// written.
#[test]
fn the_repository_that_one_is_in_is_not_left_out_without_a_word() {
    let world = world();
    let site = repo(&world, "site");
    world
        .remand_in(&site, &["init", "--config", "first.toml"])
        .ok();
    let other = world.root().join("src/more/site");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    world.git(
        world.root(),
        &[
            "clone",
            "-q",
            site.to_str().unwrap(),
            other.to_str().unwrap(),
        ],
    );
    let said = world
        .remand_in(&other, &["init"])
        .fails(2, "there is already a project `site`")
        .stderr;
    assert!(said.contains("--name NAME"), "{said}");
    assert!(!config_file(&world).exists());
    let blocked = World::new();
    blocked.script("claude", "exit 0\n");
    let site = repo(&blocked, "site");
    fs::create_dir_all(blocked.root().join("state")).unwrap();
    fs::write(blocked.root().join("state/remand"), "in the way").unwrap();
    assert_ne!(blocked.remand_in(&site, &["init"]).status, 0);
    assert!(!config_file(&blocked).exists());
}

#[test]
fn a_config_file_that_is_a_link_stays_one() {
    let world = world();
    let kept = world.root().join("dots.toml");
    fs::write(&kept, "agent = \"\"\n").unwrap();
    fs::create_dir_all(config_file(&world).parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&kept, config_file(&world)).unwrap();
    let init = world.remand(&["init", "--force", "--agent", "other"]).ok();
    assert!(
        init.stderr
            .contains("the agent `other` was not found in PATH"),
        "{}",
        init.stderr
    );
    assert!(
        fs::symlink_metadata(config_file(&world))
            .unwrap()
            .is_symlink()
    );
    assert!(
        fs::read_to_string(&kept)
            .unwrap()
            .contains("agent = \"other\"")
    );
}

#[test]
fn what_is_missing_is_named() {
    let world = World::new();
    // No claude of the machine either.
    let mut bare = world.remand_command(&["init"]);
    bare.env("PATH", world.root().join("bin"));
    let said = crate::support::run(&mut bare)
        .fails(2, "no agent given")
        .stderr;
    assert!(said.contains("--agent claude"), "{said}");
    for (args, status, said) in [
        (&["--agent", " "][..], 2, "--agent is empty"),
        (&["--agent", "a | b"], 2, "no shell is used"),
        (
            &["--agent", "claude", "--gate", "a 'b"],
            2,
            "invalid value for --gate: unterminated quotation mark",
        ),
        (&["--agent", "claude", "--project", "nowhere"], 4, "nowhere"),
        (&["--agent", "claude", "--project", "home"], 1, "home"),
    ] {
        let all: Vec<&str> = ["init"].into_iter().chain(args.iter().copied()).collect();
        world.remand(&all).fails(status, said);
        assert!(
            !config_file(&world).exists() && !world.db().exists(),
            "{args:?}: something was written"
        );
    }
    // Without a repository there is still a config file.
    let output = world
        .remand(&["init", "--agent", "claude", "--shadow"])
        .ok();
    assert!(
        written(&world).contains("\nshadow = \"review\"\n"),
        "{}",
        written(&world)
    );
    assert!(
        output.stdout.contains("remand project add PATH"),
        "{}",
        output.stdout
    );
    let next = output.stdout.split_once("remand run ").unwrap().1;
    assert!(
        next.contains("start the daemon; in shadow mode, agents only review"),
        "{}",
        output.stdout
    );
    assert!(
        next.contains("remand stats --shadow     show a summary of the results"),
        "{}",
        output.stdout
    );
    assert!(!world.db().exists());
}

#[test]
fn one_that_is_there_is_never_overwritten_by_chance() {
    let world = world();
    let site = repo(&world, "site");
    world.config("agent = \"\"\n# mine\n");
    world.remand_in(&site, &["init"]).fails(1, "already exists");
    assert_eq!(written(&world), "agent = \"\"\n# mine\n");
    assert!(!world.db().exists());
    // An unreadable one does not matter.
    world.config("not toml");
    let output = world.remand_in(&site, &["init", "--force"]).ok();
    assert!(output.stdout.contains("was saved as"), "{}", output.stdout);
    let copy = |name: &str| fs::read_to_string(config_file(&world).with_file_name(name)).unwrap();
    assert_eq!(copy("config.toml.bak"), "not toml");
    let first = written(&world);
    // The project is known by now, and stays as it is.
    world
        .remand_in(&site, &["init", "--force", "--agent", "other"])
        .ok();
    assert_eq!(
        (copy("config.toml.bak").as_str(), copy("config.toml.bak2")),
        ("not toml", first)
    );
    assert_eq!(
        world.json(&["project", "list"]).as_array().unwrap().len(),
        1
    );
    let files = fs::read_dir(world.root().join("config/remand"))
        .unwrap()
        .count();
    assert_eq!(files, 3, "nothing unfinished is left");
}

#[test]
fn the_file_that_is_named_is_written() {
    let world = world();
    world
        .remand(&["init", "--agent", "claude", "--config", "own/settings.toml"])
        .ok();
    assert!(world.root().join("own/settings.toml").exists() && !config_file(&world).exists());
    world
        .remand(&["config", "check", "--config", "own/settings.toml"])
        .ok();
}

#[test]
fn two_projects_of_one_name_are_refused_before_anything_is_written() {
    let world = world();
    let site = repo(&world, "site");
    let other = world.root().join("src/more/site");
    fs::create_dir_all(other.parent().unwrap()).unwrap();
    world.git(
        world.root(),
        &[
            "clone",
            "-q",
            site.to_str().unwrap(),
            other.to_str().unwrap(),
        ],
    );
    let args = [
        "init",
        "--project",
        site.to_str().unwrap(),
        "--project",
        other.to_str().unwrap(),
    ];
    world.remand(&args).fails(2, "would both be named `site`");
    assert!(!config_file(&world).exists() && !world.db().exists());
}

#[test]
fn an_agent_may_not() {
    let world = world();
    let mut command = world.remand_command(&["init"]);
    command.env("REMAND_RUN_DIR", "/somewhere");
    crate::support::run(&mut command).fails(1, "refused inside a run");
}

#[test]
fn somebody_types() {
    let world = world();
    let site = repo(&world, "site");
    let tool = world.repo("tool");
    world.script("my-agent", "");
    let answers = [
        ("Which agent fixes and reviews?", "my-agent | tee\n"),
        ("no shell is used", ""),
        ("Which agent fixes and reviews?", "my-agnet\n"),
        ("`my-agnet` was not found in PATH", ""),
        ("Which agent fixes and reviews?", "my-agent --batch\n"),
        ("Which agent reviews? [the same]:", "claude\n"),
        ("Path of a repository [", "\n"),
        ("Path of another repository [none]:", "nowhere\n"),
        (
            "Path of another repository [none]:",
            &format!("{}\n", tool.display()),
        ),
        ("Path of another repository [none]:", "\n"),
        ("a fresh worktree of site [none]:", "npm ci\n"),
        ("a fix for site is pushed [cargo test]:", "\n"),
        ("a fresh worktree of tool [none]:", "\n"),
        ("a fix for tool is pushed [none]:", "make check\n"),
        ("Label of open PRs", "remand\n"),
        ("Start in shadow", "\n"),
        ("Write this to", "maybe\n"),
        ("Write this to", "y\n"),
    ];
    let Some(output) = typed(&world, &site, &["init"], &answers, "somebody_types") else {
        return;
    };
    assert_eq!(output.status, 0, "{}\n{}", output.stdout, output.stderr);
    insta::assert_snapshot!(world.plain(&written(&world)), @r#"
    # Settings of remand that differ from the defaults. `remand config defaults` documents all settings,
    # `remand config check` checks this file, and `remand config show` prints the settings in effect.

    # Agent that fixes.
    agent = "my-agent"

    # Agent that reviews.
    review_agent = "claude"

    # Shadow mode: agents review, but nothing is fixed, pushed or posted; `remand stats --shadow` prints a summary.
    # "dry" runs no agents. Remove this line to fix, push and post.
    shadow = "review"

    [loop]
    # Limit on the cost of one change in US dollars; when it is reached, a person has to decide.
    max_cost_usd = 10.0
    # Limit on the cost of all changes per day; when it is reached, work waits for the next day.
    max_cost_usd_per_day = 50.0

    [agents.my-agent]
    kind = "command"
    command = ["my-agent", "--batch"]

    [agents.claude]
    kind = "claude"

    [projects.site]
    # Prepares a fresh worktree before agents and gates run in it.
    setup = ["npm", "ci"]
    # Commands that must pass before a fix is pushed.
    gates = [["cargo", "test"]]

    # Open pull requests with this label are taken over automatically.
    [projects.site.discover]
    label = "remand"

    [projects.tool]
    # Commands that must pass before a fix is pushed.
    gates = [["make", "check"]]
    "#);
    assert_eq!(world.remand(&["config", "check"]).ok().stderr, "");
    let names: Vec<String> = world
        .json(&["project", "list"])
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["project_id"].to_string())
        .collect();
    assert_eq!(names, ["\"site\"", "\"tool\""]);
}

#[test]
fn the_end_of_the_input_stops_it_and_nothing_is_written() {
    let world = world();
    let site = repo(&world, "site");
    let questions = [
        "Which agent fixes",
        "Which agent reviews",
        "Path of a repository",
        "Path of another",
        "a fresh worktree",
        "is pushed",
        "Label of open PRs",
        "in shadow",
        "Write this",
    ];
    for last in 0..questions.len() {
        let mut answers: Vec<(&str, &str)> = questions[..last]
            .iter()
            .map(|question| (*question, "\n"))
            .collect();
        // In the middle of a line it takes two.
        answers.push((
            questions[last],
            if last == 0 { "cla\u{4}\u{4}" } else { "\u{4}" },
        ));
        let name = "the_end_of_the_input_stops_it_and_nothing_is_written";
        let Some(output) = typed(&world, &site, &["init"], &answers, name) else {
            return;
        };
        assert_eq!(
            output.status, 1,
            "{last}: {}\n{}",
            output.stdout, output.stderr
        );
        assert!(
            output.stdout.contains("aborted: nothing was written"),
            "{last}: {}",
            output.stdout
        );
        assert!(
            !config_file(&world).exists() && !world.db().exists(),
            "{last}"
        );
    }
    let answers = [
        ("a fresh worktree", "\n"),
        ("in shadow", "no\n"),
        ("Write this", "no\n"),
    ];
    let Some(output) = typed(
        &world,
        &site,
        &[
            "init",
            "--agent",
            "claude",
            "--review-agent",
            "claude",
            "--gate",
            "x",
            "--project",
            ".",
            "--label",
            "x",
        ],
        &answers,
        "no",
    ) else {
        return;
    };
    assert_eq!(output.status, 1);
    assert!(!config_file(&world).exists() && !world.db().exists());
}

/// Without a config file there is no agent, and nothing would ever happen.
#[test]
fn the_first_project_add_asks_what_init_asks() {
    let world = world();
    let site = repo(&world, "site");
    let answers = [
        ("questions of `remand init`", ""),
        ("Which agent fixes and reviews?", "claude\n"),
        ("Which agent reviews? [the same]:", "\n"),
        ("a fresh worktree of web [none]:", "\n"),
        ("a fix for web is pushed [cargo test]:", "\n"),
        ("Label of open PRs", "\n"),
        ("Start in shadow", "\n"),
        ("Write this to", "y\n"),
    ];
    let args = ["project", "add", ".", "--name", "web"];
    let name = "the_first_project_add_asks_what_init_asks";
    let Some(output) = typed(&world, &site, &args, &answers, name) else {
        return;
    };
    assert_eq!(output.status, 0, "{}\n{}", output.stdout, output.stderr);
    assert!(written(&world).contains("[projects.web]"));
    assert_eq!(world.json(&["project", "list"])[0]["project_id"], "web");
}

#[test]
fn the_first_project_add_in_a_pipe_says_how_to_get_an_agent() {
    let world = world();
    let site = repo(&world, "site");
    let added = world.remand_in(&site, &["project", "add", "."]).ok();
    assert!(
        added
            .stderr
            .contains("`site` has no agent yet: run `remand init`, or set `agent`"),
        "{}",
        added.stderr
    );
    assert!(!config_file(&world).exists());
}

#[test]
fn a_set_up_is_found_by_its_lock_file_and_tried_with_the_gates() {
    let world = world();
    let site = world.repo("site");
    let package = r#"{"scripts": {"test": "jest"}}"#;
    world.commit(&site, "package.json", package, "a package");
    world.commit(&site, "package-lock.json", "{}\n", "its lock file");
    // Like the real one: the tests need what `npm ci` installs.
    world.script(
        "npm",
        "case $1 in\nci) mkdir node_modules ;;\n*) test -d node_modules || { echo \"Error: Cannot find module 'jest'\"; echo; echo 'Node.js v20.20.2'; exit 1; } ;;\nesac\n",
    );
    let output = world.remand_in(&site, &["init", "--yes"]).ok();
    let text = written(&world);
    let table = text.split_once("[projects.site]").unwrap().1;
    insta::assert_snapshot!(table, @r#"
    # Prepares a fresh worktree before agents and gates run in it.
    setup = ["npm", "ci"]
    # Commands that must pass before a fix is pushed.
    gates = [["npm", "test"]]
    "#);
    assert!(
        output
            .stdout
            .contains("\ngreen: `npm ci`, then `npm test` on main of site\n"),
        "{}",
        output.stdout
    );
    assert!(
        !site.join("node_modules").exists(),
        "it ran in a checkout of remand's own"
    );
    // Without it the tests cannot run, and that is reported before anything is spent.
    let output = world
        .remand_in(&site, &["init", "--force", "--setup", ""])
        .ok();
    assert!(!written(&world).contains("setup"), "{}", written(&world));
    let red =
        "\nred: the gate `npm test` fails on main of site: Error: Cannot find module 'jest'\n";
    assert!(output.stdout.contains(red), "{}", output.stdout);
    assert!(
        output
            .stderr
            .contains("no agent is started for a change until this is fixed"),
        "{}",
        output.stderr
    );
    let mut json = world.remand_command(&[
        "init",
        "--force",
        "--setup",
        "npm install --nowhere",
        "--json",
    ]);
    world.script("npm", "echo 'no such option' >&2\nexit 3\n");
    let shown = crate::support::run(json.current_dir(&site)).ok().stdout;
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let tried = &shown["tried"][0];
    assert_eq!(
        (&tried["project_id"], &tried["result"]),
        (&"site".into(), &"not_run".into()),
        "{shown}"
    );
    let reason = "the setup `npm install --nowhere` failed (status 3): no such option";
    assert_eq!(tried["reason"], reason, "{shown}");
    let output = world
        .remand_in(&site, &["init", "--force", "--no-try"])
        .ok();
    assert!(
        !output.stdout.contains("on main of site"),
        "{}",
        output.stdout
    );
    world
        .remand_in(&site, &["init", "--force", "--setup", "a | b"])
        .fails(2, "no shell is used");
}

#[test]
fn a_set_up_that_fails_is_named_by_what_failed_in_it() {
    let world = world();
    let site = world.repo("site");
    world.commit(
        &site,
        "package.json",
        r#"{"scripts": {"test": "jest"}}"#,
        "a package",
    );
    world.commit(&site, "package-lock.json", "{}\n", "its lock file");
    let recorded = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/fixtures/gates/npm_ci.txt"
    );
    // Beside the script: a sandbox may hide the place of the sources.
    let copy = world.root().join("bin/npm_ci.txt");
    fs::copy(recorded, &copy).unwrap();
    let text = format!("cat '{}' >&2\nexit 1\n", copy.display());
    world.script("npm", &text);
    let output = world.remand_in(&site, &["init", "--yes"]).ok();
    let (_, shown) = output.stdout.split_once("error: ").unwrap();
    let mut lines = shown.lines();
    assert_eq!(
        lines.next().unwrap(),
        "the gates could not run on main of site: the setup `npm ci` failed (status 1): EUSAGE: `npm ci` can only install packages \
         when your package.json and package-lock.json or npm-shrinkwrap.json are in sync. Please update your lock file \
         with `n…"
    );
    assert!(lines.next().unwrap().starts_with("  npm error"), "{shown}");
}

#[test]
fn a_lock_file_that_is_ignored_is_not_used() {
    let world = world();
    let site = world.repo("site");
    world.commit(
        &site,
        "package.json",
        r#"{"scripts": {"test": "jest"}}"#,
        "a package",
    );
    world.commit(&site, ".gitignore", "package-lock.json\n", "no lock file");
    fs::write(site.join("package-lock.json"), "{}\n").unwrap();
    world.remand_in(&site, &["init", "--yes", "--no-try"]).ok();
    let text = written(&world);
    assert!(
        text.contains("setup = [\"npm\", \"install\", \"--no-package-lock\"]"),
        "{text}"
    );
}

/// The written list replaces the default.
#[test]
fn files_that_the_default_does_not_have_are_added_to_it() {
    let world = world();
    let site = world.repo("site");
    world.commit(&site, "Site.sln", "", "a solution");
    world.remand_in(&site, &["init", "--yes", "--no-try"]).ok();
    let shown = world.json(&["config", "show", "projects.site.setup_again_on"]);
    let value = shown[0]["value"].as_str().unwrap();
    assert!(
        value.starts_with("[\"package.json\", ") && value.ends_with(", \"Site.sln\"]"),
        "{value}"
    );
    let usual = world.json(&["config", "show", "setup_again_on"]);
    let usual = usual[0]["value"].as_str().unwrap();
    assert_eq!(value.replace(", \"Site.sln\"", ""), usual);
}

#[test]
fn a_folder_that_cannot_be_a_name_is_given_one() {
    let world = world();
    let site = repo(&world, "my site");
    let said = world
        .remand_in(&site, &["init", "--yes"])
        .fails(2, "invalid project name")
        .stderr;
    assert!(said.contains("accept --name NAME"), "{said}");
    world
        .remand_in(&site, &["init", "--yes", "--name", "site"])
        .ok();
    assert_eq!(world.json(&["project", "list"])[0]["project_id"], "site");
    assert!(
        written(&world).contains("\n[projects.site]\n"),
        "{}",
        written(&world)
    );
    let again = world.remand_in(&site, &["init", "--force", "--name", "page"]);
    again.fails(2, "is already the project `site`");
    let two = [
        "init",
        "--force",
        "--name",
        "x",
        "--project",
        "a",
        "--project",
        "b",
    ];
    world
        .remand(&two)
        .fails(2, "--name cannot be used with more than one project");
}

#[test]
fn what_is_not_found_or_not_used_is_said() {
    let world = world();
    let site = world.repo("site");
    let said = |args: &[&str]| world.plain(&world.remand_in(&site, args).ok().stderr);
    insta::assert_snapshot!(said(&["init", "--yes"]), @"
    note: no set-up detected for site: set `setup` in WORLD/config/remand/config.toml if a fresh checkout needs one
    note: no tests detected for site: set `gates` in WORLD/config/remand/config.toml to the commands that must pass before a fix is pushed
    ");
    assert_eq!(
        said(&["init", "--yes", "--force", "--setup", "", "--gate", ""]),
        ""
    );
    world.commit(&site, "Cargo.toml", "", "a crate");
    assert_eq!(
        said(&["init", "--yes", "--force", "--no-try"]),
        "",
        "nothing is missing"
    );
    world.commit(&site, "yarn.lock", "", "and a page");
    insta::assert_snapshot!(said(&["init", "--yes", "--force", "--no-try"]), @"note: site also uses yarn (yarn.lock): add it to `setup` and `gates` if needed");
}
