//! The settings and the blackboard that a unit uses, and how users of another blackboard learn
//! about it.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::units::{SYSTEMCTL, image, unit};
use crate::support::play::{Play, Script};
use crate::support::{World, run};

const CI: &str = "ci:x:990:990::/var/lib/ci:/usr/sbin/nologin\n";

fn exec_start(text: &str) -> &str {
    text.lines()
        .find(|line| line.starts_with("ExecStart="))
        .unwrap_or_default()
}

/// S1-51: the settings of the user who installs it must not end up in the system unit.
#[test]
fn the_machines_unit_uses_the_settings_of_its_user_and_never_the_callers() {
    let world = World::new();
    world.config(
        "blackboard = \"/tmp/callers.db\"\n[dispatch]\nstop_grace_s = 1000\n[sandbox]\nwrite = [\"~/cache\"]\n",
    );
    let root = image(&world, CI);
    let words = [
        "service",
        "print",
        "--system",
        "--root",
        root.to_str().unwrap(),
        "--run-as",
        "ci",
    ];
    let print = || {
        let mut command = world.remand_command(&words);
        command.env("REMAND_DB", "/tmp/callers-too.db");
        run(&mut command).ok().stdout
    };
    let program = env!("CARGO_BIN_EXE_remand");
    let text = print();
    assert_eq!(
        exec_start(&text),
        format!("ExecStart={program} --db /var/lib/remand/blackboard.db run")
    );
    assert!(
        !text.contains("callers") && !text.contains("1045") && !text.contains("cache"),
        "{text}"
    );

    let own = root.join("var/lib/ci/.config/remand");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(
        own.join("config.toml"),
        "[dispatch]\nstop_grace_s = 100\n[sandbox]\nwrite = [\"~/cache\"]\n",
    )
    .unwrap();
    let text = print();
    assert_eq!(
        exec_start(&text),
        format!(
            "ExecStart={program} --config /var/lib/ci/.config/remand/config.toml \
             --db /var/lib/ci/.local/state/remand/blackboard.db run"
        ),
        "what `sudo -u ci remand` uses"
    );
    assert!(
        text.contains("TimeoutStopSec=145\n") && text.contains("ReadWritePaths=-/var/lib/ci\n"),
        "{text}"
    );
    // The machine's own come first, and their location is reported.
    std::fs::write(
        root.join("etc/remand/config.toml"),
        "blackboard = \"/srv/board.db\"\n",
    )
    .unwrap();
    assert_eq!(
        exec_start(&print()),
        format!("ExecStart={program} --config /etc/remand/config.toml run")
    );
}

#[test]
fn install_prints_which_settings_blackboard_and_projects_hold() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    let said = world.remand(&["service", "install"]).ok().stdout;
    assert_eq!(
        said,
        format!(
            "{} was written\nsettings   none: using the defaults\nblackboard {}\nprojects   none yet: `remand project add PATH`\n",
            unit(&world).display(),
            world.db().display()
        )
    );
    world.config("");
    let repo = world.repo("calc");
    world
        .remand(&["project", "add", repo.to_str().unwrap()])
        .ok();
    let said = world.remand(&["service", "install"]).ok().stdout;
    let config = world.root().join("config/remand/config.toml");
    assert!(
        said.contains(&format!("settings   {}\n", config.display()))
            && said.contains("projects   calc\n"),
        "{said}"
    );

    let root = image(&world, CI);
    let said = world.remand(&[
        "service",
        "install",
        "--system",
        "--root",
        root.to_str().unwrap(),
        "--run-as",
        "ci",
    ]);
    let said = said.ok().stdout;
    assert!(
        said.contains("projects   none yet: `sudo -u ci remand --db /var/lib/remand/blackboard.db project add PATH`\n"),
        "{said}"
    );
}

/// Creates a system unit that runs as `ci`, where systemd finds it.
fn machine_unit(world: &World) -> PathBuf {
    let root = image(world, CI);
    let words = [
        "service",
        "install",
        "--system",
        "--root",
        root.to_str().unwrap(),
        "--run-as",
        "ci",
    ];
    world.script("systemctl", SYSTEMCTL);
    world.remand(&words).ok();
    root.join("etc/systemd/system")
}

fn beside_machine_unit(world: &World, units: &Path, args: &[&str]) -> crate::support::Output {
    let mut command = world.remand_command(args);
    command.env("SYSTEMD_UNIT_PATH", units);
    run(&mut command)
}

#[test]
fn users_of_another_blackboard_are_told_of_the_machines_daemon() {
    let play = Play::new(&Script::default());
    let units = machine_unit(&play.world);
    let told = "the system service runs as `ci` and uses /var/lib/remand/blackboard.db";
    let command = "`sudo -u ci remand --db /var/lib/remand/blackboard.db`";
    for args in [
        &["list"][..],
        &["why", "c1"],
        &["status"],
        &["doctor", "--offline"],
    ] {
        let said = beside_machine_unit(&play.world, &units, args);
        // Lines are wrapped in some of them.
        let said = format!("{}{}", said.stdout, said.stderr)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            said.contains(told) && said.contains(command),
            "{args:?}: {said}"
        );
    }
    let daemon = play.daemon();
    let said = beside_machine_unit(&play.world, &units, &["list"]);
    assert!(
        !said.stderr.contains(told),
        "this blackboard has a daemon of its own: {}",
        said.stderr
    );
    assert!(daemon.stop().success());
    // The blackboard of the unit itself.
    let text = std::fs::read_to_string(units.join("remand.service")).unwrap();
    let same = text.replace(
        "/var/lib/remand/blackboard.db",
        play.world.db().to_str().unwrap(),
    );
    std::fs::write(units.join("remand.service"), same).unwrap();
    let said = beside_machine_unit(&play.world, &units, &["list"]);
    assert!(
        !said.stderr.contains("the system service"),
        "{}",
        said.stderr
    );
}

#[test]
fn the_user_of_an_installed_unit_is_known() {
    let world = World::new();
    machine_unit(&world);
    let root = world.root().join("image");
    let told = world.json(&[
        "service",
        "status",
        "--system",
        "--root",
        root.to_str().unwrap(),
    ]);
    assert_eq!(
        (&told["ours"], &told["differs"]),
        (&json!(true), &json!(false)),
        "{told}"
    );
}

#[test]
fn status_print_and_uninstall_work_with_broken_settings() {
    let world = World::new();
    world.script("systemctl", SYSTEMCTL);
    world.remand(&["service", "install"]).ok();
    world.config("[dispatch]\nslotz = 3\n");
    let told = world.json(&["service", "status"]);
    assert_eq!(
        (&told["installed"], &told["differs"]),
        (&json!(true), &json!(null))
    );
    assert!(
        told["problem"].as_str().unwrap().contains("slotz"),
        "{told}"
    );
    let said = world.remand(&["service", "status"]).ok().stdout;
    assert!(said.contains("remand config check"), "{said}");
    let printed = world.remand(&["service", "print"]).ok();
    assert!(printed.stderr.contains("slotz"), "{}", printed.stderr);
    let config = world.root().join("config/remand/config.toml");
    assert!(
        exec_start(&printed.stdout).contains(&format!("--config {}", config.display())),
        "{}",
        printed.stdout
    );
    world.remand(&["service", "install"]).fails(3, "slotz");
    world.remand(&["service", "uninstall"]).ok();
    assert!(!unit(&world).exists());
}
