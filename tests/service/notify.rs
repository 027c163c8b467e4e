//! Notifications to systemd: ready, alive, stopping, and none while the daemon does not work.

use std::time::Duration;

use super::supervisor::Supervisor;
use crate::support::play::{Play, Script};

/// Long enough for a slow machine, short enough to get three keep-alives soon.
const WATCHDOG: Duration = Duration::from_millis(900);

fn alive(told: &[String]) -> usize {
    told.iter()
        .filter(|told| told.starts_with("WATCHDOG=1"))
        .count()
}

#[test]
fn it_says_when_it_is_ready_that_it_lives_and_when_it_stops() {
    let play = Play::without_change(&Script::default());
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, WATCHDOG));
    assert_eq!(supervisor.next(&play), "READY=1\nSTATUS=idle\n");
    for _ in 0..3 {
        assert_eq!(supervisor.next(&play), "WATCHDOG=1\nSTATUS=idle\n");
    }
    play.world.remand(&["stop", "calc"]).ok();
    supervisor.wait_for(&play, "WATCHDOG=1\nSTATUS=idle; calc is stopped\n");
    assert!(daemon.stop().success());
    let told = supervisor.so_far();
    assert!(
        told.last()
            .is_some_and(|last| last.starts_with("STOPPING=1\n")),
        "{told:?}"
    );
}

#[test]
fn no_sign_of_life_while_nothing_can_be_written() {
    let play = Play::without_change(&Script::default());
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, WATCHDOG));
    supervisor.wait_for(&play, "WATCHDOG=1");
    let other = rusqlite::Connection::open(play.world.db()).unwrap();
    other.busy_timeout(Duration::from_secs(30)).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    supervisor.so_far();
    play.until("it gives up on a write", || {
        play.log().contains("not notifying the watchdog")
    });
    // One may have been sent when the lock was taken.
    let told = supervisor.so_far();
    assert!(alive(&told) <= 1, "{told:?}");
    other.execute_batch("COMMIT").unwrap();
    supervisor.wait_for(&play, "WATCHDOG=1");
    assert!(daemon.stop().success());
}

#[test]
fn no_sign_of_life_while_the_heartbeat_fails() {
    let play = Play::without_change(&Script::default());
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, WATCHDOG));
    supervisor.wait_for(&play, "WATCHDOG=1");
    play.world.sqlite("ALTER TABLE evaluators RENAME TO hidden");
    play.until("a pass fails", || play.log().contains("heartbeat failed"));
    supervisor.so_far();
    // Retried after a second, and again after two: in that time a keep-alive would have come ten
    // times.
    play.until("it is tried again", || {
        play.log().matches("heartbeat failed").count() >= 3
    });
    let told = supervisor.so_far();
    assert_eq!(alive(&told), 0, "{told:?}");
    assert_eq!(
        play.world.sqlite("SELECT count(*) FROM projects"),
        "1",
        "the blackboard itself works"
    );
    play.world.sqlite("ALTER TABLE hidden RENAME TO evaluators");
    supervisor.wait_for(&play, "WATCHDOG=1");
    assert!(daemon.stop().success());
}

#[cfg(target_os = "linux")]
#[test]
fn a_socket_in_no_folder_is_told_too() {
    let play = Play::without_change(&Script::default());
    let supervisor = Supervisor::in_no_folder(&play);
    let mut command = supervisor.command(&play, WATCHDOG);
    // Meant for another process.
    command.env("WATCHDOG_PID", "1");
    let daemon = play.daemon_from(command);
    assert!(supervisor.next(&play).starts_with("READY=1\n"));
    assert!(daemon.stop().success());
    assert_eq!(alive(&supervisor.so_far()), 0);
}

#[test]
fn a_socket_that_is_not_there_is_no_reason_not_to_work() {
    let play = Play::without_change(&Script::default());
    for socket in ["/nowhere/notify", "vsock:2:1", "@"] {
        let mut command = play.world.remand_command(&["run"]);
        command
            .env("NOTIFY_SOCKET", socket)
            .env("WATCHDOG_USEC", "300000");
        assert!(play.daemon_from(command).stop().success(), "{socket}");
    }
    assert!(
        play.log().contains("cannot use NOTIFY_SOCKET"),
        "{}",
        play.log()
    );
}
