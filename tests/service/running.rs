//! The service and the daemon that is actually running: another one, an old one, one that the
//! watchdog ended.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::supervisor::Supervisor;
use super::units::{SYSTEMCTL, asked, unit};
use crate::support::play::{Play, Script, WAITS_AND_FIXES};
use crate::support::run;

#[test]
fn install_beside_another_daemon_names_it_and_starts_none() {
    let play = Play::without_change(&Script::default());
    play.world.script("systemctl", SYSTEMCTL);
    let daemon = play.daemon();
    let pid = daemon.pid();
    let refused = play.world.remand(&["service", "install"]);
    let what = format!(
        "a daemon with pid {pid} already uses {}",
        play.world.db().display()
    );
    assert!(
        refused.status == 1 && refused.stderr.contains(&what),
        "{}",
        refused.stderr
    );
    assert!(
        refused.stderr.contains(&format!(
            "`kill {pid}`, then run `systemctl --user enable --now remand.service`"
        )),
        "{}",
        refused.stderr
    );
    assert!(
        !asked(&play.world)
            .iter()
            .any(|words| words.contains("--now")),
        "none is started"
    );
    assert!(unit(&play.world).exists());
    // The action of systemd on one that was started anyway.
    let text = std::fs::read_to_string(unit(&play.world)).unwrap();
    let status = play.world.remand(&["run"]);
    let prevented = text
        .lines()
        .find_map(|line| line.strip_prefix("RestartPreventExitStatus="))
        .unwrap();
    assert!(
        prevented
            .split(' ')
            .any(|code| code == status.status.to_string()),
        "{} of {prevented}",
        status.status
    );
    assert!(
        status.stderr.contains(&pid.to_string()),
        "{}",
        status.stderr
    );
    assert!(daemon.stop().success());
    play.world.remand(&["service", "install"]).ok();
    assert!(asked(&play.world).contains(&"--user enable --now remand.service".to_owned()));
}

#[test]
fn up_to_date_is_said_of_the_running_daemon() {
    let play = Play::without_change(&Script::default());
    play.world.script("systemctl", SYSTEMCTL);
    play.world.remand(&["service", "install"]).ok();
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, Duration::from_secs(600)));
    let pid = daemon.pid();
    std::fs::write(play.world.root().join("home/main-pid"), pid.to_string()).unwrap();
    let told = play.world.json(&["service", "status"]);
    assert_eq!(
        (&told["differs"], &told["outdated"], &told["commands"]),
        (&json!(false), &json!(null), &json!([]))
    );
    let said = play.world.remand(&["service", "status"]).ok().stdout;
    assert!(
        said.contains(&format!("running with pid {pid}, up to date")),
        "{said}"
    );

    // Another unit than the one with which the daemon was started.
    let settings = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    play.world
        .config(&format!("{text}\n[dispatch]\nstop_grace_s = 100\n"));
    play.world.remand(&["service", "install"]).ok();
    let told = play.world.json(&["service", "status"]);
    assert_eq!(told["differs"], json!(false), "the file is");
    assert!(
        told["outdated"]
            .as_str()
            .unwrap()
            .contains("started before"),
        "{told}"
    );
    assert_eq!(
        told["commands"],
        json!(["systemctl --user restart remand.service"])
    );
    let said = play.world.remand(&["service", "status"]).ok().stdout;
    assert!(
        !said.contains("up to date") && said.contains("restart remand.service"),
        "{said}"
    );
    let doctor = run(&mut play
        .world
        .remand_command(&["doctor", "--offline", "--json"]))
    .stdout;
    let checks: Vec<serde_json::Value> = serde_json::from_str(&doctor).unwrap();
    let check = checks
        .iter()
        .find(|check| check["check"] == "service")
        .unwrap();
    assert_eq!(check["state"], json!("warn"), "{check}");

    // A daemon that the service did not start.
    std::fs::write(play.world.root().join("home/main-pid"), "1").unwrap();
    let told = play.world.json(&["service", "status"]);
    assert!(
        told["outdated"]
            .as_str()
            .unwrap()
            .contains("was not started by this service"),
        "{told}"
    );
    assert!(daemon.stop().success());
}

/// S1-50: systemd ends a daemon that sends no keep-alive; its agents end with it, which nothing
/// else reports.
#[test]
fn a_watchdog_time_out_with_an_agent_at_work_is_shown() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, Duration::from_millis(900)));
    play.until("the fixer begins", || !play.noted("began").is_empty());
    let other = rusqlite::Connection::open(play.world.db()).unwrap();
    other.busy_timeout(Duration::from_secs(30)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    play.until("the daemon notices", || {
        play.log().contains("the daemon is not responding")
    });
    // As systemd does.
    kill_process(Pid::from_child(&daemon.child), Signal::ABORT).unwrap();
    drop(daemon);
    other.execute_batch("COMMIT").unwrap();
    play.let_go("go");
    let daemon = play.daemon();
    let event = "SELECT count(*) FROM events WHERE event_type = 'daemon_ended' AND target_type = 'change' AND change_id = 'c1'";
    play.wait_for(event, "1");
    play.wait_for_state("ready_for_human_review");
    let why = play.world.json(&["why", "c1"]);
    let shown = why["events"].as_array().unwrap().iter().any(|event| {
        event["summary"].as_str().unwrap().contains("watchdog")
            && event["summary"].as_str().unwrap().contains("r2")
    });
    assert!(shown, "{why:#}");
    assert!(play.log().contains("watchdog"), "{}", play.log());
    assert!(daemon.stop().success());
    let daemon = play.daemon();
    assert!(daemon.stop().success());
    assert_eq!(
        play.count("events WHERE event_type = 'daemon_ended'"),
        1,
        "a stop in order is none"
    );
}
