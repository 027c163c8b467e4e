//! A project that was added after the service was installed: the unit does not let the daemon write
//! there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::supervisor::Supervisor;
use super::units::{SYSTEMCTL, image};
use crate::support::play::{Play, Script};
use crate::support::{run, skip};

/// Creates a system unit with the blackboard of the test, in a directory of units. It knows no
/// project.
fn machine_unit(play: &Play) -> PathBuf {
    let root = image(&play.world, "ci:x:990:990::/var/lib/ci:/usr/sbin/nologin\n");
    play.world.script("systemctl", SYSTEMCTL);
    let words = [
        "service",
        "install",
        "--system",
        "--root",
        root.to_str().unwrap(),
        "--run-as",
        "ci",
    ];
    play.world.remand(&words).ok();
    let units = root.join("etc/systemd/system");
    let text = std::fs::read_to_string(units.join("remand.service")).unwrap();
    let text = text.replace(
        "/var/lib/remand/blackboard.db",
        play.world.db().to_str().unwrap(),
    );
    std::fs::write(units.join("remand.service"), text).unwrap();
    units
}

/// Runs `remand` with `folder` mounted as in the unit.
fn confined(play: &Play, mount: &[&str], args: &[&str]) -> Command {
    let mut command = play.world.command("bwrap");
    command
        .args(["--die-with-parent", "--dev-bind", "/", "/"])
        .args(mount)
        .arg("--")
        .arg(env!("CARGO_BIN_EXE_remand"))
        .args(args);
    command
}

fn works_here(play: &Play, name: &str) -> bool {
    let works = run(&mut confined(play, &[], &["--version"])).status == 0;
    if !works {
        skip(name, "bubblewrap (bwrap) does not work here");
    }
    works
}

/// S1-51
#[test]
fn a_project_that_can_not_be_written_is_held_before_an_agent_is_paid() {
    let play = Play::new(&Script::default());
    if !works_here(
        &play,
        "a_project_that_can_not_be_written_is_held_before_an_agent_is_paid",
    ) {
        return;
    }
    let src = play.repo.parent().unwrap().to_str().unwrap();
    for mount in [&["--ro-bind", src, src][..], &["--tmpfs", src]] {
        run(&mut confined(&play, mount, &["tick"])).report();
        assert_eq!(play.count("runs"), 0, "{mount:?}: {:#?}", play.events());
        play.is_held("the daemon cannot write to");
        assert!(
            play.answer()
                .contains(play.repo.join(".git").to_str().unwrap()),
            "{}",
            play.answer()
        );
        play.world.remand(&["resume", "c1"]).ok();
    }
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn under_the_machines_unit_the_hold_names_the_command() {
    let play = Play::new(&Script::default());
    if !works_here(&play, "under_the_machines_unit_the_hold_names_the_command") {
        return;
    }
    let units = machine_unit(&play);
    let supervisor = Supervisor::of(&play);
    let src = play.repo.parent().unwrap().to_str().unwrap();
    let mut command = confined(&play, &["--ro-bind", src, src], &["run"]);
    command
        .env("NOTIFY_SOCKET", supervisor.name())
        .env("SYSTEMD_UNIT_PATH", &units);
    let daemon = play.daemon_from(command);
    play.wait_for("SELECT count(*) FROM events WHERE event_type = 'held'", "1");
    play.is_held("`sudo remand service install --system --run-as ci` and `sudo systemctl restart remand.service`");
    daemon.kill();
}

fn add(play: &Play, units: &Path, repo: &Path) -> String {
    let mut command = play
        .world
        .remand_command(&["project", "add", repo.to_str().unwrap()]);
    command.env("SYSTEMD_UNIT_PATH", units);
    run(&mut command).ok().stderr
}

#[test]
fn project_add_says_that_the_installed_unit_can_not_write_there() {
    let play = Play::without_change(&Script::default());
    let units = machine_unit(&play);
    let said = add(&play, &units, &play.world.repo("late"));
    assert!(
        said.contains("the installed service cannot write to") && said.contains("src/late"),
        "{said}"
    );
    assert!(
        said.contains("`sudo remand service install --system --run-as ci`"),
        "{said}"
    );
    // A directory that it may write.
    let file = units.join("remand.service");
    let text = std::fs::read_to_string(&file).unwrap();
    let open = play.world.root().join("src").display().to_string();
    std::fs::write(
        &file,
        text.replace("[Install]", &format!("ReadWritePaths=-{open}\n\n[Install]")),
    )
    .unwrap();
    let said = add(&play, &units, &play.world.repo("later"));
    assert!(!said.contains("installed service"), "{said}");
}
