//! `remand service`: files for systemd and launchd, and the commands that it runs.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{World, run, skip};

/// Does what the real one would, and refuses unknown arguments.
pub(super) const SYSTEMCTL: &str = r#"
echo "$*" >>"$HOME/asked"
case "$*" in
'--user daemon-reload') ;;
'--user enable --now remand.service') : >"$HOME/enabled" ;;
'--user disable --now remand.service') rm -f "$HOME/enabled" ;;
'--user restart remand.service') ;;
'--user is-enabled remand.service') if [ -e "$HOME/enabled" ]; then echo enabled; else echo disabled; exit 1; fi ;;
'--user is-active remand.service') if [ -e "$HOME/enabled" ]; then echo active; else echo inactive; exit 3; fi ;;
'--user show --property=MainPID --value remand.service') cat "$HOME/main-pid" 2>/dev/null || echo 0 ;;
--root=*' enable remand.service' | --root=*' disable remand.service') ;;
--root=*' is-enabled remand.service') echo enabled ;;
*) echo "unknown: $*" >&2; exit 64 ;;
esac
"#;

/// Runs with only the programs of the test: the machine's systemctl must not be used.
fn lonely(world: &World, args: &[&str]) -> crate::support::Output {
    let mut command = world.remand_command(args);
    command.env("PATH", world.root().join("bin"));
    run(&mut command)
}

pub(super) fn asked(world: &World) -> Vec<String> {
    let path = world.root().join("home/asked");
    let asked = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::remove_file(path).ok();
    asked
        .lines()
        .filter(|line| !line.contains("is-") && !line.contains("show"))
        .map(str::to_owned)
        .collect()
}

pub(super) fn unit(world: &World) -> PathBuf {
    world.root().join("config/systemd/user/remand.service")
}

#[test]
fn installed_looked_at_and_uninstalled() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    let status = || world.json(&["service", "status"]);
    assert_eq!(
        (&status()["installed"], &status()["commands"]),
        (&json!(false), &json!(["remand service install"]))
    );

    let said = world.remand(&["service", "install"]).ok();
    assert!(
        said.stdout
            .starts_with(&format!("{} was written\n", unit(&world).display())),
        "{}",
        said.stdout
    );
    assert_eq!(
        asked(&world),
        ["--user daemon-reload", "--user enable --now remand.service"]
    );
    let text = std::fs::read_to_string(unit(&world)).unwrap();
    assert_eq!(world.remand(&["service", "print"]).ok().stdout, text);
    let exec = format!(
        "ExecStart={} --db {} run",
        env!("CARGO_BIN_EXE_remand"),
        world.db().display()
    );
    assert!(text.lines().any(|line| line == exec), "{exec}: {text}");
    let told = status();
    assert_eq!(
        (
            &told["ours"],
            &told["differs"],
            &told["enabled"],
            &told["active"]
        ),
        (
            &json!(true),
            &json!(false),
            &json!("enabled"),
            &json!("active")
        )
    );
    assert_eq!(told["pid"], json!(null));
    assert_eq!(
        told["commands"],
        json!(["systemctl --user enable --now remand.service"]),
        "not running"
    );
    let again = world.remand(&["service", "install"]).ok();
    assert!(again.stdout.contains("is up to date\n"), "{}", again.stdout);

    // Settings that were changed later.
    world.config("[dispatch]\nstop_grace_s = 100\n");
    assert_eq!(status()["differs"], json!(true));
    let said = world.remand(&["service", "status"]).ok().stdout;
    assert!(
        said.contains("out of date") && said.contains("remand service install"),
        "{said}"
    );
    asked(&world);
    let said = world.remand(&["service", "install"]).ok().stdout;
    assert!(
        said.ends_with("run this yourself: systemctl --user restart remand.service\n"),
        "no agent is ended unasked: {said}"
    );
    assert!(
        std::fs::read_to_string(unit(&world))
            .unwrap()
            .contains("TimeoutStopSec=145\n")
    );
    let entries = std::fs::read_dir(unit(&world).parent().unwrap())
        .unwrap()
        .count();
    assert_eq!(entries, 1, "nothing is left beside it");

    asked(&world);
    world.remand(&["service", "uninstall"]).ok();
    assert_eq!(
        asked(&world),
        [
            "--user disable --now remand.service",
            "--user daemon-reload"
        ]
    );
    assert!(!unit(&world).exists());
    let again = world.remand(&["service", "uninstall"]).ok();
    assert!(
        again.stdout.starts_with("nothing to do"),
        "{}",
        again.stdout
    );
    assert_eq!(asked(&world), [""; 0]);
}

#[test]
fn the_status_knows_a_daemon_that_was_started_otherwise() {
    let play = crate::support::play::Play::without_change(&crate::support::play::Script::default());
    let daemon = play.daemon();
    let told = play.world.json(&["service", "status"]);
    assert_eq!(told["pid"], json!(daemon.pid().to_string()));
    assert_eq!(told["installed"], json!(false));
    assert!(daemon.stop().success());
    assert_eq!(play.world.json(&["service", "status"])["pid"], json!(null));
}

#[test]
fn what_somebody_else_wrote_is_left_alone() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    std::fs::create_dir_all(unit(&world).parent().unwrap()).unwrap();
    std::fs::write(unit(&world), "[Service]\nExecStart=/bin/true\n").unwrap();
    for command in ["install", "uninstall"] {
        let refused = world
            .remand(&["service", command])
            .fails(1, "was not written by remand");
        assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    }
    assert_eq!(asked(&world), [""; 0]);
    assert_eq!(
        std::fs::read_to_string(unit(&world)).unwrap(),
        "[Service]\nExecStart=/bin/true\n"
    );
    assert_eq!(world.json(&["service", "status"])["ours"], json!(false));
    world.remand(&["service", "install", "--force"]).ok();
    assert_eq!(world.json(&["service", "status"])["ours"], json!(true));
}

#[test]
fn without_systemd_it_says_what_to_type_and_when_it_fails_why() {
    let world = World::new();
    let said = lonely(&world, &["service", "install"]).ok();
    assert!(
        said.stdout
            .contains("run this yourself: systemctl --user daemon-reload\n"),
        "{}",
        said.stdout
    );
    assert!(
        said.stdout
            .contains("run this yourself: systemctl --user enable --now remand.service\n"),
        "{}",
        said.stdout
    );
    let said = lonely(&world, &["service", "install", "--launchd"])
        .ok()
        .stdout;
    assert!(
        said.contains("run this yourself: launchctl bootstrap gui/"),
        "{said}"
    );

    world.script("systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let failed = world.remand(&["service", "install"]);
    assert_eq!(failed.status, 1, "{}", failed.stdout);
    assert!(
        failed.stderr.contains("Failed to connect to bus"),
        "{}",
        failed.stderr
    );
    assert!(
        failed
            .stdout
            .contains("run this yourself: systemctl --user enable --now remand.service\n"),
        "{}",
        failed.stdout
    );
    assert!(unit(&world).exists());
}

#[test]
fn what_can_not_be_stopped_keeps_its_file() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    world.remand(&["service", "install"]).ok();
    world.script("systemctl", "echo 'Failed to connect to bus' >&2; exit 1");
    let failed = world
        .remand(&["service", "uninstall"])
        .fails(1, "Failed to connect to bus");
    assert!(
        failed
            .stderr
            .contains("systemctl --user disable --now remand.service"),
        "{}",
        failed.stderr
    );
    assert!(
        failed
            .stderr
            .contains("`remand service uninstall` again, or use --force"),
        "{}",
        failed.stderr
    );
    assert!(unit(&world).exists());
    let forced = world.remand(&["service", "uninstall", "--force"]).ok();
    assert!(
        forced
            .stderr
            .contains("run this yourself: systemctl --user stop remand.service"),
        "{}",
        forced.stderr
    );
    assert!(!unit(&world).exists());

    std::fs::remove_file(world.root().join("bin/systemctl")).unwrap();
    lonely(&world, &["service", "install"]).ok();
    let said = lonely(&world, &["service", "uninstall"]).ok();
    for left in [
        "systemctl --user stop remand.service",
        "systemctl --user daemon-reload",
    ] {
        assert!(
            said.stderr.contains(&format!(
                "systemctl is not installed; run this yourself: {left}"
            )),
            "{}",
            said.stderr
        );
    }
    assert!(!unit(&world).exists());
}

/// Its unit would be refused: "Executable name contains special characters".
#[test]
fn a_program_that_systemd_does_not_start_is_refused_before_anything_is_written() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    for name in ["it's", "a \"name\"", "back\\slash"] {
        let folder = world.root().join(name);
        std::fs::create_dir(&folder).unwrap();
        let program = folder.join("remand");
        // By a child: a file written by this process could be busy.
        run(world
            .command("ln")
            .arg(env!("CARGO_BIN_EXE_remand"))
            .arg(&program));
        if !program.exists() {
            run(world
                .command("cp")
                .arg(env!("CARGO_BIN_EXE_remand"))
                .arg(&program))
            .ok();
        }
        let refused = run(world.command(&program).args(["service", "install"]));
        let refused = refused.fails(
            1,
            "systemd cannot start a program with a quote or a backslash in its path",
        );
        assert!(
            refused.stderr.contains("move it elsewhere"),
            "{}",
            refused.stderr
        );
        assert!(!unit(&world).exists());
        run(world
            .command(&program)
            .args(["service", "print", "--launchd"]))
        .ok();
    }
    assert_eq!(asked(&world), [""; 0]);
}

#[test]
fn wrong_words_are_usage_and_a_wish_for_the_machine_needs_its_user() {
    let world = World::new();
    for args in [
        &["--user", "--system"][..],
        &["--systemd", "--launchd"],
        &["--run-as", "eve"],
        &["--root", "/mnt"],
    ] {
        assert_eq!(
            world.remand(&[&["service", "print"], args].concat()).status,
            2,
            "{args:?}"
        );
    }
    let root = image(&world, "");
    let refused = world.remand(&[
        "service",
        "install",
        "--system",
        "--root",
        root.to_str().unwrap(),
    ]);
    let refused = refused.fails(4, "there is no user `remand`");
    assert!(
        refused.stderr.contains("useradd --system"),
        "{}",
        refused.stderr
    );
}

/// Creates the file system of another machine.
pub(super) fn image(world: &World, users: &str) -> PathBuf {
    let root = world.root().join("image");
    std::fs::create_dir_all(root.join("etc/remand")).unwrap();
    std::fs::write(
        root.join("etc/passwd"),
        format!("root:x:0:0::/root:/bin/sh\n{users}"),
    )
    .unwrap();
    root
}

#[test]
fn for_the_machine_it_goes_by_the_settings_of_the_machine() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    // Those of the user who installs it do not matter.
    world.config("[dispatch]\nstop_grace_s = 1000\n");
    let root = image(&world, "ci:x:990:990::/var/lib/ci:/usr/sbin/nologin\n");
    std::fs::write(
        root.join("etc/remand/config.toml"),
        "worktree_roots = [\"/srv/trees\"]\n[sandbox]\nwrite = [\"/srv/cache\"]\n",
    )
    .unwrap();
    let at = root.to_str().unwrap();
    let words = ["--system", "--root", at, "--run-as", "ci"];
    world
        .remand(&[&["service", "install"], &words[..]].concat())
        .ok();
    assert_eq!(
        asked(&world),
        [format!("--root={at} enable remand.service")]
    );
    let text = std::fs::read_to_string(root.join("etc/systemd/system/remand.service")).unwrap();
    let has = |line: &str| assert!(text.lines().any(|there| there == line), "{line}: {text}");
    has("User=ci");
    has(&format!(
        "ExecStart={} --config /etc/remand/config.toml --db /var/lib/remand/blackboard.db run",
        env!("CARGO_BIN_EXE_remand")
    ));
    has(
        "Environment=\"PATH=/var/lib/ci/.local/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\"",
    );
    has("ReadWritePaths=-/srv/cache");
    has("ReadWritePaths=-/var/lib/ci");
    has("TimeoutStopSec=55");
    let told = world.json(&[&["service", "status"], &words[..]].concat());
    assert_eq!(
        (&told["differs"], &told["enabled"]),
        (&json!(false), &json!("enabled"))
    );

    // A project of its blackboard.
    let repo = world.repo("calc");
    let db = root.join("var/lib/remand/blackboard.db");
    std::fs::create_dir_all(db.parent().unwrap()).unwrap();
    world
        .remand(&[
            "--db",
            db.to_str().unwrap(),
            "project",
            "add",
            repo.to_str().unwrap(),
        ])
        .ok();
    let told = world.json(&[&["service", "status"], &words[..]].concat());
    assert_eq!(
        told["differs"],
        json!(true),
        "its repository must be written"
    );
    let printed = world
        .remand(&[&["service", "print"], &words[..]].concat())
        .ok()
        .stdout;
    assert!(
        printed.contains("ReadWritePaths=-/srv/trees\n"),
        "{printed}"
    );
    assert!(
        printed.contains(&format!(
            "ReadWritePaths=-{}\n",
            repo.join(".git").display()
        )),
        "{printed}"
    );
    world
        .remand(&[&["service", "uninstall"], &words[..]].concat())
        .ok();
    assert!(!root.join("etc/systemd/system/remand.service").exists());
}

/// S1-50: `ReadWritePaths=/` would open the whole machine, and hide every other path of the list.
#[test]
fn a_project_directly_below_a_broad_folder_is_writable_alone() {
    let world = World::new();
    let root = image(
        &world,
        "remand:x:990:990::/var/lib/remand:/usr/sbin/nologin\n",
    );
    let db = root.join("var/lib/remand/blackboard.db");
    std::fs::create_dir_all(db.parent().unwrap()).unwrap();
    let at = [
        "/proj",
        "/srv/code/lib",
        "/srv/tool",
        "/home/ada/site",
        "/home/eve/src/app",
        "/mnt/disk/big",
    ];
    for (n, path) in at.iter().enumerate() {
        let repo = world.repo(&format!("p{n}"));
        world
            .remand(&[
                "--db",
                db.to_str().unwrap(),
                "project",
                "add",
                repo.to_str().unwrap(),
            ])
            .ok();
        let sql = format!(
            "UPDATE projects SET path = '{path}', common_dir = '{path}/.git' WHERE project_id = 'p{n}'"
        );
        rusqlite::Connection::open(&db)
            .unwrap()
            .execute_batch(&sql)
            .unwrap();
    }
    let print = || {
        world
            .remand(&[
                "service",
                "print",
                "--system",
                "--root",
                root.to_str().unwrap(),
            ])
            .ok()
            .stdout
    };
    let lines = |text: &str| -> Vec<String> {
        let keys = ["ReadWritePaths=", "BindPaths=", "BindReadOnlyPaths=/home"];
        text.lines()
            .filter(|line| keys.iter().any(|key| line.starts_with(key)))
            .map(str::to_owned)
            .collect()
    };
    let expected = [
        "ReadWritePaths=-/mnt/disk/big",
        "ReadWritePaths=-/proj",
        "ReadWritePaths=-/srv/code",
        "ReadWritePaths=-/srv/tool",
        "BindPaths=-/home/ada/site",
        "BindPaths=-/home/eve/src",
    ];
    assert_eq!(lines(&print()), expected);
    // Not even if a setting names it.
    std::fs::write(
        root.join("etc/remand/config.toml"),
        "[sandbox]\nwrite = [\"/\"]\n",
    )
    .unwrap();
    assert_eq!(lines(&print()), expected);
}

fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).exists())
}

/// Copies remand to a path that systemd would parse differently.
fn oddly_placed(world: &World) -> PathBuf {
    let folder = world.root().join("odd 100% $HOME");
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("remand");
    // By a child: see `World::script`.
    run(world
        .command("cp")
        .arg(env!("CARGO_BIN_EXE_remand"))
        .arg(&program))
    .ok();
    program
}

fn print(world: &World, program: &Path, args: &[&str]) -> String {
    let config = world.root().join("set tings %h.toml");
    std::fs::write(&config, "").unwrap();
    let mut command = world.command(program);
    command
        .args(["service", "print"])
        .args(args)
        .arg("--config")
        .arg(&config)
        .arg("--db")
        .arg(world.root().join("$x %n.db"));
    run(&mut command).ok().stdout
}

#[test]
fn systemd_reads_the_units_without_a_word_and_finds_them_hard() {
    if !has_program("systemd-analyze") {
        return skip(
            "systemd_reads_the_units_without_a_word_and_finds_them_hard",
            "systemd-analyze is not installed",
        );
    }
    let world = World::new();
    let program = oddly_placed(&world);
    let file = world.root().join("remand.service");
    for scope in ["--user", "--system"] {
        let text = print(&world, &program, &[scope]);
        std::fs::write(&file, &text).unwrap();
        let mut verify = world.command("systemd-analyze");
        verify
            .env("XDG_RUNTIME_DIR", world.root())
            .args([scope, "verify", "--man=no"])
            .arg(&file);
        let said = run(&mut verify);
        assert_eq!(
            (said.status, said.stderr.as_str()),
            (0, ""),
            "{scope}: {text}"
        );
        // It exits with 0 for an unknown key; here it must report one.
        std::fs::write(&file, text.replace("WatchdogSec=", "WatchdogSek=")).unwrap();
        assert!(run(&mut verify).stderr.contains("WatchdogSek"));
    }
    std::fs::write(&file, print(&world, &program, &["--system"])).unwrap();
    let mut security = world.command("systemd-analyze");
    security
        .args(["security", "--offline=true", "--no-pager", "--threshold=30"])
        .arg(&file);
    let said = run(&mut security);
    let level = said
        .stdout
        .lines()
        .find(|line| line.contains("Overall exposure"))
        .unwrap_or_default()
        .to_owned();
    assert_eq!(said.status, 0, "{level}\n{}", said.stderr);
    println!("{level}");
}

#[test]
fn a_plist_reader_that_is_strict_reads_the_plist() {
    if !has_program("python3") {
        return skip(
            "a_plist_reader_that_is_strict_reads_the_plist",
            "python3 is not installed",
        );
    }
    let world = World::new();
    let program = oddly_placed(&world);
    let read = |args: &[&str]| {
        let file = world.root().join("remand.plist");
        std::fs::write(&file, print(&world, &program, args)).unwrap();
        let script =
            "import json, plistlib, sys; print(json.dumps(plistlib.load(open(sys.argv[1], 'rb'))))";
        let said = run(world.command("python3").args(["-c", script]).arg(&file))
            .ok()
            .stdout;
        serde_json::from_str::<serde_json::Value>(&said).unwrap()
    };
    let plist = read(&["--launchd"]);
    let config = world.root().join("set tings %h.toml");
    assert_eq!(
        plist["ProgramArguments"],
        json!([
            program,
            "--config",
            config,
            "--db",
            world.root().join("$x %n.db"),
            "run"
        ])
    );
    assert_eq!(
        (&plist["Umask"], &plist["KeepAlive"], &plist["RunAtLoad"]),
        (
            &json!(63),
            &json!({ "SuccessfulExit": false }),
            &json!(true)
        )
    );
    assert_eq!(
        plist["EnvironmentVariables"]
            .as_object()
            .unwrap()
            .keys()
            .collect::<Vec<_>>(),
        ["PATH"],
        "nothing secret"
    );
    assert_eq!(plist.get("UserName"), None);
    assert_eq!(
        read(&["--launchd", "--system"])["UserName"],
        json!("remand")
    );
}
