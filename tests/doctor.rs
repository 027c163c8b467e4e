//! `remand doctor`, through the binary, in environments that lack one thing or another.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::intake::stage::Stage;
use crate::support::play::{Play, Script};
use crate::support::{Output, World, run, skip};

/// An agent that exists, and a wrapper that does nothing as its sandbox.
const TABLES: &str = "agent = \"mine\"\n[agents.mine]\nkind = \"command\"\ncommand = [\"mine\"]\n\
                      [sandbox]\nkind = \"wrapper\"\nwrapper = [\"env\"]\n";

fn stage() -> Stage {
    let stage = Stage::with(TABLES);
    stage.world.script("mine", "cat\n");
    stage
}

fn read(output: &Output) -> Vec<Value> {
    serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// Returns the problems: `state check: says`, each with what to do.
fn troubles(output: &Output) -> Vec<String> {
    let checks = read(output);
    for check in &checks {
        assert_eq!(check["state"] == "ok", check["do"].is_null(), "{check}");
    }
    let troubles = checks
        .iter()
        .filter(|check| check["state"] != "ok" && check["check"] != "daemon");
    let text = |check: &Value, key: &str| check[key].as_str().unwrap().to_owned();
    troubles
        .map(|check| {
            format!(
                "{} {}: {}",
                text(check, "state"),
                text(check, "check"),
                text(check, "says")
            )
        })
        .collect()
}

/// Asserts that exactly these problems are reported.
#[track_caller]
fn only(output: &Output, status: i32, expected: &str) {
    let troubles = troubles(output);
    assert!(
        troubles.len() == 1 && troubles[0].contains(expected),
        "{expected:?} is not {troubles:#?}"
    );
    assert_eq!(output.status, status, "{}", output.stderr);
}

fn doctor(world: &World) -> Output {
    world.remand(&["doctor", "--json"])
}

/// Returns all files below a directory, with their bytes.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(contents(&path));
            all.insert(path.display().to_string(), Vec::new());
        } else if path.extension().is_none_or(|ending| ending != "db-shm") {
            all.insert(
                path.display().to_string(),
                fs::read(&path).unwrap_or_default(),
            );
        }
    }
    all
}

#[test]
fn all_is_well() {
    let stage = stage();
    let world = &stage.world;
    let output = doctor(world);
    assert_eq!(troubles(&output), [""; 0]);
    assert_eq!(output.status, 0);
    assert_eq!(output.stderr, "", "no progress in a pipe");
    let shown = world.remand(&["doctor"]).ok().stdout;
    // Lines that differ between machines.
    let differs = |line: &&str| {
        ["disk ", " git ", " ok, "]
            .iter()
            .any(|part| line.contains(part))
    };
    let shown: Vec<&str> = shown.lines().filter(|line| !differs(line)).collect();
    let size = format!("{} KiB", fs::metadata(world.db()).unwrap().len() / 1024);
    let shown = shown
        .join("\n")
        .replace(env!("CARGO_BIN_EXE_remand"), "REMAND")
        .replace(&size, "SIZE");
    insta::assert_snapshot!(world.plain(&shown), @"
    ok    configuration   WORLD/config/remand/config.toml
    ok    blackboard      WORLD/state/remand/blackboard.db, SIZE, intact
    warn  daemon          not running
                          → start it with `remand run` or `remand service install`, or run `remand tick` from cron
    ok    service         not installed; `remand service install` installs it
    ok    gh              2.102.0 (REMAND __gh WORLD/forge.json)
    ok    GitHub          logged in as ada; its token's permissions are unknown (it is a fine-grained or app token)
    ok    rate limit      4995 of 5000 calls left until TIME
    ok    clock           agrees with GitHub
    ok    sandbox         your own wrapper: env
    ok    agent mine      WORLD/bin/mine; remand does not know how it logs in
    ok    project engine  WORLD/src/engine; WORLD/engine.git is reachable, branch main exists
    ");
}

#[test]
fn nothing_is_changed_and_nothing_made() {
    let stage = stage();
    let state = stage.folder("state");
    let before = contents(&state);
    doctor(&stage.world);
    assert_eq!(contents(&state), before);
    // With other users of the database, or after a crash, the log stays unchanged too.
    let conn = rusqlite::Connection::open(stage.world.db()).unwrap();
    conn.execute("UPDATE projects SET default_branch = 'trunk'", [])
        .unwrap();
    let before = contents(&state);
    assert!(before.keys().any(|name| name.ends_with("-wal")));
    only(&doctor(&stage.world), 1, "has no branch trunk");
    assert_eq!(contents(&state), before);
    drop(conn);

    let world = World::new();
    let before = contents(world.root());
    assert!(
        doctor(&world)
            .stdout
            .contains("`remand project add PATH` creates it")
    );
    world.remand(&["doctor", "--db", "typo.db", "--json"]);
    assert_eq!(contents(world.root()), before);
}

#[test]
fn gh_in_each_state_of_trouble() {
    let stage = stage();
    let told = |then: Value, status: i32, expected: &str| {
        stage
            .forge
            .fault(json!({ "path": "user", "times": 100, "then": then }));
        let output = doctor(&stage.world);
        only(&output, status, expected);
        stage.forge.clear_faults();
        output.stdout
    };
    let answer = |headers: Value| {
        let body = "{\"login\": \"ada\", \"id\": 11, \"type\": \"User\"}";
        json!({ "status": { "status": 200, "headers": headers, "body": body } })
    };
    told(
        json!({ "rate_limited": { "reset_in_s": 900 } }),
        0,
        "warn GitHub: GitHub's rate limit is used up until",
    );
    told(
        json!("refused"),
        1,
        "fail GitHub: request to GitHub for `user` failed",
    );
    told(
        json!({ "status": { "status": 401, "body": "{\"message\": \"Bad credentials\"}" } }),
        1,
        "Bad credentials",
    );
    let said = told(
        answer(json!({ "X-Oauth-Scopes": "gist, read:org" })),
        1,
        "fail GitHub: logged in as ada, but",
    );
    assert!(said.contains("gh auth refresh -s repo"), "{said}");
    told(answer(json!({ "X-Oauth-Scopes": "" })), 1, "(scopes: none)");
    told(
        answer(json!({ "X-Oauth-Scopes": "public_repo" })),
        0,
        "warn GitHub: logged in as ada, but",
    );
    told(
        answer(json!({ "Date": "Mon, 16 Nov 2020 08:00:00 GMT" })),
        0,
        "s ahead of GitHub:",
    );
    stage.forge.set_rate(12, 900);
    only(
        &doctor(&stage.world),
        0,
        "warn rate limit: 11 of 5000 calls left",
    );
    stage.forge.set_rate(5000, 900);
    stage.forge.log_out();
    let output = doctor(&stage.world);
    only(&output, 1, "fail GitHub: ");
    assert!(output.stdout.contains("gh auth login"), "{}", output.stdout);
}

#[test]
fn gh_that_is_missing_or_old() {
    let stage = stage();
    let with = |gh: &str| {
        stage
            .world
            .config(&format!("{TABLES}[github]\ngh = [\"{gh}\"]\n"));
    };
    with("/nowhere/gh");
    only(
        &doctor(&stage.world),
        1,
        "fail gh: the program gh was not found",
    );
    stage.world.script(
        "old-gh",
        "[ \"$*\" = --version ] && echo 'gh version 2.4.0 (2022-01-01)' || exit 4\n",
    );
    with("old-gh");
    let troubles = troubles(&doctor(&stage.world));
    assert!(
        troubles[0].starts_with("warn gh: 2.4.0 (old-gh) is older"),
        "{troubles:#?}"
    );
    assert!(troubles[1].starts_with("fail GitHub: "), "{troubles:#?}");
    // A user without a project on GitHub needs none.
    let world = World::new();
    world.config("[github]\ngh = [\"/nowhere/gh\"]\n");
    assert_eq!(doctor(&world).status, 0);
}

#[test]
fn a_network_that_hangs_costs_a_few_seconds_once() {
    let stage = stage();
    let world = &stage.world;
    world.script("hangs", "touch \"$0.asked\"\nexec sleep 600\n");
    for name in ["one", "two"] {
        let repo = world.repo(name);
        let url = format!("ssh://git@example.org/{name}.git");
        world
            .remand(&["project", "add", repo.to_str().unwrap(), "--url", &url])
            .ok();
    }
    stage
        .forge
        .fault(json!({ "path": "user", "times": 100, "then": "hang" }));
    let hanging = |args: &[&str]| {
        let mut command = world.remand_command(args);
        command.env("GIT_SSH_COMMAND", world.root().join("bin/hangs"));
        let begun = Instant::now();
        (run(&mut command), begun.elapsed())
    };
    let (offline, _) = hanging(&["doctor", "--json", "--offline"]);
    assert_eq!((troubles(&offline), offline.status), (Vec::new(), 0));
    assert!(offline.stdout.contains("not checked (--offline)"));
    assert!(!world.root().join("bin/hangs.asked").exists() && stage.forge.log().is_empty());
    let (output, took) = hanging(&["doctor", "--json"]);
    let troubles = troubles(&output);
    assert_eq!((troubles.len(), output.status), (3, 1), "{troubles:#?}");
    for name in ["GitHub", "project one", "project two"] {
        let told = troubles
            .iter()
            .find(|told| told.starts_with(&format!("fail {name}: ")));
        assert!(
            told.is_some_and(|told| told.contains(" within ")),
            "{name}: {troubles:#?}"
        );
    }
    // Five seconds on an idle machine; a call that hangs would do so for ten minutes.
    assert!(took < Duration::from_secs(60), "it took {took:?}");
}

#[test]
fn git_that_is_too_old() {
    let world = World::new();
    world.script("git", "echo 'git version 2.30.2'\n");
    let output = doctor(&world);
    let troubles = troubles(&output);
    assert!(
        troubles
            .iter()
            .any(|told| told.starts_with("fail git: ") && told.contains("2.30.2")),
        "{troubles:#?}"
    );
    assert!(
        output.stdout.contains("install git 2.39 or newer"),
        "{}",
        output.stdout
    );
    assert_eq!(output.status, 1);
}

#[test]
fn who_commits_is_not_known() {
    let stage = stage();
    fs::write(stage.folder("home/.gitconfig"), "").unwrap();
    only(
        &doctor(&stage.world),
        0,
        "warn project engine: user.name and user.email are not set",
    );
    stage
        .world
        .git(&stage.repo, &["config", "user.name", "Ada"]);
    stage
        .world
        .git(&stage.repo, &["config", "user.email", "ada@example.org"]);
    assert_eq!(
        troubles(&doctor(&stage.world)),
        [""; 0],
        "the project may have its own"
    );
}

#[test]
fn agents_that_are_missing_or_not_logged_in() {
    let stage = stage();
    fs::remove_file(stage.folder("bin/mine")).unwrap();
    only(
        &doctor(&stage.world),
        1,
        "fail agent mine: the program `mine` was not found",
    );
    stage.settings(&TABLES.replace(
        "agent = \"mine\"",
        "agent = \"claude\"\n[agents.claude]\nkind = \"claude\"",
    ));
    stage.world.script(
        "claude",
        "[ \"$*\" = --version ] || exit 9\necho '2.1.325 (Claude Code)'\n",
    );
    let output = doctor(&stage.world);
    let told = troubles(&output);
    assert_eq!(told.len(), 2, "{told:#?}");
    assert!(
        told[0].starts_with("fail agent claude: 2.1.325 (Claude Code) (")
            && told[0].ends_with("not logged in")
    );
    assert!(
        told[1].starts_with("warn agent mine: "),
        "nobody uses it: {}",
        told[1]
    );
    assert!(output.stdout.contains("ANTHROPIC_API_KEY"));
    let mut with_key = stage.world.remand_command(&["doctor", "--json"]);
    only(
        &run(with_key.env("ANTHROPIC_API_KEY", "sk-secret")),
        0,
        "warn agent mine: ",
    );
    stage.world.script("claude", "echo broken >&2\nexit 7\n");
    let told = troubles(&doctor(&stage.world));
    assert!(
        told[0].contains("does not print its version: it exited with status 7: broken"),
        "{told:#?}"
    );
    stage.settings("");
    only(
        &doctor(&stage.world),
        0,
        "warn agents: none is set for engine",
    );
}

#[test]
fn places_and_programs_of_a_project() {
    let stage = stage();
    let set = |table: &str| stage.settings(&format!("{TABLES}[projects.engine]\n{table}\n"));
    set("worktree_roots = [\"/nowhere/worktrees\"]");
    only(
        &doctor(&stage.world),
        1,
        "fail project engine: the worktree directory /nowhere/worktrees does not exist",
    );
    if !rustix::process::getuid().is_root() {
        let locked = stage.folder("locked");
        fs::create_dir(&locked).unwrap();
        fs::set_permissions(&locked, fs::Permissions::from_mode(0o555)).unwrap();
        set(&format!("worktree_roots = [{locked:?}]"));
        only(&doctor(&stage.world), 1, "is not writable");
    }
    set("gates = [[\"no-such-program\", \"test\"], [\"./in-the-worktree\"]]");
    only(
        &doctor(&stage.world),
        1,
        "`gates` runs `no-such-program`, which was not found",
    );
    set("setup = [\"no-such-program\"]");
    only(
        &doctor(&stage.world),
        1,
        "`setup` runs `no-such-program`, which was not found",
    );
    set("setup = [\"./scripts/prepare\"]");
    only(
        &doctor(&stage.world),
        0,
        "`setup` runs `./scripts/prepare`, which does not exist in ",
    );
    fs::create_dir_all(stage.repo.join("scripts")).unwrap();
    fs::write(stage.repo.join("scripts/prepare"), "").unwrap();
    assert!(troubles(&doctor(&stage.world)).is_empty());
    stage.settings(&format!("{TABLES}[projects.engien]\nmax_fix_cycles = 1\n"));
    only(
        &doctor(&stage.world),
        0,
        "warn configuration: [projects.engien]",
    );
    set("");
    stage.world.git(
        &stage.repo,
        &["remote", "set-url", "origin", "/srv/elsewhere.git"],
    );
    only(
        &doctor(&stage.world),
        0,
        "but the repository's `origin` is now /srv/elsewhere.git",
    );
    fs::rename(stage.folder("engine.git"), stage.folder("gone.git")).unwrap();
    stage
        .world
        .git(&stage.repo, &["remote", "remove", "origin"]);
    only(
        &doctor(&stage.world),
        1,
        "fail project engine: no repository at",
    );
    fs::rename(&stage.repo, stage.folder("moved")).unwrap();
    assert!(
        troubles(&doctor(&stage.world))
            .iter()
            .all(|told| told.starts_with("fail project engine: "))
    );
}

#[test]
fn settings_that_can_not_be_read() {
    let stage = stage();
    stage.world.config("agent = 7\n");
    let output = doctor(&stage.world);
    assert_eq!(output.status, 3);
    let told = troubles(&output);
    assert!(
        told[0].starts_with("fail configuration: invalid value for `agent`"),
        "{told:#?}"
    );
    assert!(
        read(&output)
            .iter()
            .any(|check| check["check"] == "project engine"),
        "the rest is looked at"
    );
    let text = stage.world.remand(&["doctor", "--config", "nowhere.toml"]);
    assert_eq!(text.status, 3);
    assert!(
        text.stdout.contains("nowhere.toml not found"),
        "{}",
        text.stdout
    );
}

#[test]
fn a_blackboard_that_is_open_to_others_damaged_or_none() {
    let stage = stage();
    let db = stage.world.db();
    fs::set_permissions(&db, fs::Permissions::from_mode(0o644)).unwrap();
    let output = doctor(&stage.world);
    only(&output, 0, "is accessible to other users (mode 644)");
    assert!(
        output
            .stdout
            .contains(&format!("chmod 600 {}", db.display())),
        "{}",
        output.stdout
    );
    fs::set_permissions(&db, fs::Permissions::from_mode(0o600)).unwrap();
    let mut bytes = fs::read(&db).unwrap();
    let half = bytes.len() / 2;
    bytes[half..].fill(0x5a);
    fs::write(&db, &bytes).unwrap();
    let output = doctor(&stage.world);
    assert_eq!(output.status, 1);
    assert!(
        troubles(&output)
            .iter()
            .any(|told| told.starts_with("fail blackboard: ")),
        "{:#?}",
        troubles(&output)
    );
    fs::write(
        &db,
        "these are my notes, and no database at all, long enough to be seen as such",
    )
    .unwrap();
    let output = doctor(&stage.world);
    assert!(
        troubles(&output)[0].contains("not a SQLite database"),
        "{:#?}",
        troubles(&output)
    );
    let output = stage.world.remand(&["doctor", "--json", "--db", "typo.db"]);
    assert!(
        troubles(&output)[0].starts_with("fail blackboard: no file at"),
        "{:#?}",
        troubles(&output)
    );
}

#[test]
fn a_daemon_that_runs_and_what_waits_for_a_person() {
    let play = Play::without_change(&Script::default());
    let says = || {
        let checks = read(&play.world.remand(&["doctor", "--json", "--offline"]));
        let daemon = checks
            .iter()
            .find(|check| check["check"] == "daemon")
            .unwrap()
            .clone();
        (
            daemon["state"].clone(),
            daemon["says"].as_str().unwrap().to_owned(),
        )
    };
    assert_eq!(says().0, "warn");
    let daemon = play.daemon();
    let (state, said) = says();
    assert_eq!(state, "ok");
    assert!(
        said.starts_with(&format!("running with pid {}", daemon.pid())),
        "{said}"
    );
    assert!(daemon.stop().success());
    assert_eq!(says().0, "warn");
}

#[test]
fn how_the_changes_stand() {
    let stage = stage();
    stage.watched();
    let says = |output: &Output| {
        read(output)
            .iter()
            .find(|check| check["check"] == "changes")
            .unwrap()
            .clone()
    };
    let told = says(&doctor(&stage.world));
    assert_eq!(
        (told["state"].as_str(), told["says"].as_str()),
        (Some("ok"), Some("1 in progress, 1 paused"))
    );
    stage
        .world
        .remand(&["stop", "engine", "--reason", "deploying", "--no-wait"])
        .ok();
    only(&doctor(&stage.world), 0, "warn stopped: engine, by ada at ");
    stage.world.remand(&["start", "--all"]).ok();
    stage.world.sqlite(
        "UPDATE changes SET held_until = '2999-01-01T00:00:00.000Z', hold_reason = 'no network'",
    );
    let told = says(&doctor(&stage.world));
    assert_eq!(
        (told["state"].as_str(), told["says"].as_str()),
        (Some("warn"), Some("1 in progress, 1 paused, 1 held"))
    );
}

#[test]
fn the_unit_that_is_installed_is_looked_at() {
    let stage = stage();
    let said = |stage: &Stage| {
        let checks = read(&doctor(&stage.world));
        let check = checks
            .iter()
            .find(|check| check["check"] == "service")
            .unwrap()
            .clone();
        (
            check["state"].as_str().unwrap().to_owned(),
            check["says"].as_str().unwrap().to_owned(),
        )
    };
    let (state, says) = said(&stage);
    assert!(state == "ok" && says.starts_with("not installed"), "{says}");
    stage.world.script("systemctl", "exit 0\n");
    stage
        .world
        .remand(&["service", "install", "--systemd"])
        .ok();
    let (state, says) = said(&stage);
    assert!(
        state == "ok" && says.ends_with("remand.service, up to date"),
        "{says}"
    );
    let file = says.split(',').next().unwrap();
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, text.replace("Restart=on-failure", "Restart=no")).unwrap();
    only(&doctor(&stage.world), 0, "is out of date");
    fs::write(file, "[Service]\nExecStart=/bin/true\n").unwrap();
    only(&doctor(&stage.world), 0, "was not written by remand");
}

/// No other command works then.
#[test]
fn a_blackboard_that_can_not_be_written_is_said() {
    let stage = stage();
    let remand = stage
        .world
        .remand_command(&["doctor", "--json", "--offline"]);
    let mut inside = stage.world.command("bwrap");
    inside.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]);
    // The temporary directory may be in /dev.
    inside
        .arg("--ro-bind")
        .args([stage.world.root(); 2])
        .arg("--");
    inside.arg(remand.get_program()).args(remand.get_args());
    let output = run(&mut inside);
    if output.stdout.is_empty() {
        return skip(
            "a_blackboard_that_can_not_be_written_is_said",
            "bubblewrap (bwrap) does not work here",
        );
    }
    let troubles = troubles(&output);
    assert!(
        troubles
            .iter()
            .any(|trouble| trouble.contains("blackboard.db is not writable: Read-only")),
        "{troubles:#?}"
    );
    assert_eq!(output.status, 1);
}

#[test]
fn what_is_advised_is_what_helps() {
    let stage = stage();
    let advice = |output: &Output| -> Vec<String> {
        read(output)
            .iter()
            .filter_map(|check| check["do"].as_str().map(str::to_owned))
            .collect()
    };
    let missing =
        advice(
            &stage
                .world
                .remand(&["doctor", "--json", "--offline", "--config", "no.toml"]),
        );
    assert!(
        missing
            .iter()
            .any(|what| what.contains("`remand init` creates it")),
        "{missing:#?}"
    );
    let mut bare = stage
        .world
        .remand_command(&["doctor", "--json", "--offline"]);
    bare.env("PATH", stage.world.root().join("nowhere"));
    let bare = advice(&run(&mut bare));
    assert!(
        bare.iter().any(|what| what.starts_with("install git")),
        "{bare:#?}"
    );
    assert!(
        !bare
            .iter()
            .any(|what| what.contains("restore the repository")),
        "{bare:#?}"
    );
    let checks = read(&stage.world.remand(&["doctor", "--json", "--offline"]));
    let clock = checks
        .iter()
        .find(|check| check["check"] == "clock")
        .unwrap();
    assert!(
        clock["says"].as_str().unwrap().starts_with("not checked"),
        "{clock}"
    );
}

/// The first thing that a new user lacks, before there is any project.
#[test]
fn a_gh_that_is_logged_out_is_an_error() {
    let world = World::new();
    let text = "case \"$*\" in --version) echo 'gh version 2.60.0 (2026-01-01)' ;; \
                *) echo 'To get started with GitHub CLI, please run:  gh auth login' >&2; exit 4 ;; esac";
    world.script("gh", text);
    let checks = read(&world.remand(&["doctor", "--json"]));
    let check = checks
        .iter()
        .find(|check| check["check"] == "GitHub")
        .unwrap();
    assert_eq!(check["state"], "fail", "{check}");
    assert_eq!(
        (&check["says"], &check["do"]),
        (&"gh is not logged in".into(), &"run `gh auth login`".into()),
        "{check}"
    );
}
