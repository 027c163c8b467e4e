//! The program file is replaced while the daemon runs, as a package manager does.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::supervisor::{Supervisor, hang_up};
use crate::support::play::{Play, Script};
use crate::support::run;

/// Copies the program through a child process: a copy written by this process could be busy.
fn installed(play: &Play) -> PathBuf {
    let program = play.world.root().join("bin/remand");
    run(play
        .world
        .command("cp")
        .arg(env!("CARGO_BIN_EXE_remand"))
        .arg(&program))
    .ok();
    program
}

/// Replaces the program by another file, which is a shell script, so that a child started from it
/// is noticed.
fn upgrade(play: &Play, program: &Path) {
    let new = play.world.script(
        "remand.new",
        "echo 'the new version was started' >&2; exit 99",
    );
    std::fs::rename(new, program).unwrap();
}

fn daemon_line(play: &Play) -> String {
    let status = play.world.remand(&["status"]).ok().stdout;
    status
        .lines()
        .find(|line| line.starts_with("daemon"))
        .unwrap_or_default()
        .to_owned()
}

/// S1-50: an upgrade followed by a reload must not stop the work.
#[test]
fn work_goes_on_after_the_program_was_replaced_and_the_settings_reloaded() {
    let play = Play::without_change(&Script::default());
    let program = installed(&play);
    let supervisor = Supervisor::of(&play);
    let mut command = play.world.command(&program);
    command.arg("run").env("NOTIFY_SOCKET", supervisor.name());
    let daemon = play.daemon_from(command);
    upgrade(&play, &program);
    hang_up(&daemon);
    supervisor.wait_for(&play, "RELOADING=1\n");
    supervisor.wait_for(&play, "READY=1\n");
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.wait_for(
        "SELECT state = 'ready_for_human_review' OR hold_reason IS NOT NULL FROM changes WHERE change_id = 'c1'",
        "1",
    );
    play.is_ready(1);
    assert!(daemon.stop().success());
}

#[test]
fn status_and_doctor_report_a_daemon_whose_program_was_replaced() {
    let play = Play::without_change(&Script::default());
    let program = installed(&play);
    let supervisor = Supervisor::of(&play);
    let start = || {
        let mut command = play.world.command(&program);
        command.arg("run").env("NOTIFY_SOCKET", supervisor.name());
        play.daemon_from(command)
    };
    let daemon = start();
    let told = play.world.json(&["status"])["daemon"].clone();
    assert_eq!(told["pid"], json!(daemon.pid()));
    assert_eq!(
        (&told["version"], &told["replaced"]),
        (&json!(env!("CARGO_PKG_VERSION")), &json!(false))
    );
    let pid = daemon.pid();
    assert_eq!(
        daemon_line(&play),
        format!(
            "daemon     running with pid {pid}, version {}",
            env!("CARGO_PKG_VERSION")
        )
    );

    upgrade(&play, &program);
    assert_eq!(
        play.world.json(&["status"])["daemon"]["replaced"],
        json!(true)
    );
    let said = daemon_line(&play);
    assert!(
        said.contains(&format!("{} was replaced", program.display())),
        "{said}"
    );
    assert!(
        said.contains(&format!("`kill {pid}`")) && said.contains("`remand run`"),
        "no unit is installed: {said}"
    );
    let unit = play.world.root().join("config/systemd/user/remand.service");
    std::fs::create_dir_all(unit.parent().unwrap()).unwrap();
    std::fs::write(&unit, "# Written by `remand service install`\n").unwrap();
    let said = daemon_line(&play);
    assert!(
        said.contains(
            "restart it to run the new version: `systemctl --user restart remand.service`"
        ),
        "{said}"
    );

    let doctor = run(&mut play
        .world
        .remand_command(&["doctor", "--offline", "--json"]));
    let checks: Vec<serde_json::Value> = serde_json::from_str(&doctor.stdout).unwrap();
    let check = checks
        .iter()
        .find(|check| check["check"] == "program")
        .unwrap_or(&serde_json::Value::Null);
    assert_eq!(check["state"], json!("warn"), "{}", doctor.stdout);
    assert!(
        check["do"]
            .as_str()
            .unwrap()
            .contains("systemctl --user restart remand.service"),
        "{check}"
    );

    std::fs::remove_file(&program).unwrap();
    assert_eq!(
        play.world.json(&["status"])["daemon"]["replaced"],
        json!(true),
        "removed is replaced, too"
    );
    assert!(daemon.stop().success());
    assert_eq!(play.world.json(&["status"])["daemon"], json!(null));
    assert_eq!(daemon_line(&play), "daemon     not running");
    installed(&play);
    let daemon = start();
    assert_eq!(
        play.world.json(&["status"])["daemon"]["replaced"],
        json!(false)
    );
    daemon.kill();
    assert_eq!(
        play.world.json(&["status"])["daemon"],
        json!(null),
        "killed daemons do not run"
    );
}
