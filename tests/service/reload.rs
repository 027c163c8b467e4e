//! SIGHUP: new settings, evaluators and prompts without restarting the daemon.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::supervisor::{Supervisor, hang_up};
use crate::pulls::pauses::before_each_call;
use crate::support::play::{Play, REVIEWER, Script, WAITS_AND_FIXES};
use crate::support::pull_play::{PullPlay, quiet};

const SELDOM: Duration = Duration::from_secs(600);

fn settings(play: &Play) -> String {
    std::fs::read_to_string(play.world.root().join("config/remand/config.toml")).unwrap()
}

/// Returns the settings with another reviewer.
fn with_other_reviewer(play: &Play) -> String {
    let says = format!(
        "PROMPTS='{}'\n{REVIEWER}\nsays approved 'all good'\n",
        play.seen("").display()
    );
    let other = play.world.script("other-reviewer", &says);
    let named = settings(play).replace("review_agent = \"reviewer\"", "review_agent = \"other\"");
    assert_ne!(named, settings(play));
    format!(
        "{named}\n[agents.other]\nkind = \"command\"\ncommand = [\"{}\"]\n",
        other.display()
    )
}

#[test]
fn new_settings_hold_for_what_begins_next_and_leave_agents_alone() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, SELDOM));
    play.until("the fixer begins", || !play.noted("began").is_empty());
    play.world.config(&with_other_reviewer(&play));
    hang_up(&daemon);
    let told = supervisor.wait_for(&play, "RELOADING=1\n");
    let usec = told
        .lines()
        .find_map(|line| line.strip_prefix("MONOTONIC_USEC="))
        .unwrap();
    assert!(usec.parse::<u64>().unwrap() > 0, "{told}");
    assert_eq!(
        supervisor.next(&play),
        "READY=1\nSTATUS=configuration reloaded\n"
    );
    assert_eq!(
        play.world.sqlite(
            "SELECT target_type, target_id, summary FROM events WHERE event_type = 'reloaded'"
        ),
        "blackboard|configuration|configuration reloaded"
    );
    assert_eq!(
        play.count("runs WHERE ended_at IS NULL"),
        1,
        "the fixer is still at work"
    );
    play.let_go("go");
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    assert_eq!(
        play.world
            .sqlite("SELECT agent, ended FROM runs ORDER BY started_at"),
        "reviewer|agent\nfixer|agent\nother|agent"
    );
    play.is_ready(1);
}

#[test]
fn wrong_settings_are_refused_as_a_whole_and_the_old_ones_hold() {
    let play = Play::without_change(&Script::default());
    let supervisor = Supervisor::of(&play);
    let daemon = play.daemon_from(supervisor.command(&play, SELDOM));
    supervisor.wait_for(&play, "READY=1\n");
    let good = settings(&play);
    let folder = play.world.root().join("config/remand");
    let refused = |said: &[&str]| {
        hang_up(&daemon);
        supervisor.wait_for(&play, "RELOADING=1\n");
        let told = supervisor.next(&play);
        assert!(
            told.starts_with("READY=1\nSTATUS=configuration rejected"),
            "{told}"
        );
        let reason = play.world.sqlite(
            "SELECT metadata ->> 'reason' FROM events WHERE event_type = 'skipped' AND target_id = 'configuration'
             ORDER BY id DESC LIMIT 1",
        );
        for word in said {
            assert!(
                reason.contains(word) && play.log().contains(word),
                "{word:?}: {reason}\n{}",
                play.log()
            );
        }
    };
    // A valid file next to an invalid one does not take effect either.
    let other = with_other_reviewer(&play);
    play.world
        .config(&format!("{other}\n[dispatch]\nslotz = 3\n"));
    refused(&["slotz", "config.toml:", "slots"]);
    play.world.config(&other);
    std::fs::create_dir(folder.join("evaluators")).unwrap();
    std::fs::write(folder.join("evaluators/mine.toml"), "kind = \"nonsense\"\n").unwrap();
    refused(&["mine.toml", "nonsense"]);
    std::fs::remove_dir_all(folder.join("evaluators")).unwrap();
    std::fs::create_dir(folder.join("prompts")).unwrap();
    std::fs::write(
        folder.join("prompts/review.md"),
        "{{ nobody_knows_this }}\n",
    )
    .unwrap();
    refused(&["review.md", "nobody_knows_this"]);
    // The defaults have no agent, no gate and no forbidden path: nobody moves a file to get them.
    std::fs::rename(folder.join("config.toml"), folder.join("config.away")).unwrap();
    refused(&["config.toml no longer exists"]);
    assert_eq!(play.count("events WHERE event_type = 'reloaded'"), 0);
    assert_eq!(play.count("events WHERE event_type = 'skipped'"), 4);

    play.world.config(&good);
    std::fs::remove_dir_all(folder.join("prompts")).unwrap();
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.wait_for_state("ready_for_human_review");
    assert_eq!(
        play.count("runs WHERE agent = 'other'"),
        0,
        "{}",
        play.log()
    );
    assert!(daemon.stop().success());
}

#[test]
fn what_only_a_restart_changes_is_said() {
    let play = Play::without_change(&Script::default());
    let daemon = play.daemon();
    let elsewhere = play.world.root().join("elsewhere.db");
    play.world.config(&format!(
        "blackboard = \"{}\"\n{}\n[log]\nlevel = \"debug\"\n",
        elsewhere.display(),
        settings(&play)
    ));
    hang_up(&daemon);
    play.wait_for(
        "SELECT count(*) FROM events WHERE event_type = 'reloaded'",
        "1",
    );
    assert_eq!(
        play.world
            .sqlite("SELECT metadata ->> 'kept' FROM events WHERE event_type = 'reloaded'"),
        r#"["blackboard","log"]"#
    );
    assert!(!elsewhere.exists());
    assert!(daemon.stop().success());
}

#[test]
fn a_tick_that_is_hung_up_stops() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        tables: "[dispatch]\nstop_grace_s = 0\n[limits]\ngrace_s = 1\n",
        ..Script::default()
    });
    let mut tick = play
        .world
        .remand_command(&["tick"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    play.until("the fixer begins", || !play.noted("began").is_empty());
    kill_process(Pid::from_child(&tick), Signal::HUP).unwrap();
    assert!(tick.wait().unwrap().success());
    assert_eq!(
        play.world
            .sqlite("SELECT status, attempt FROM work_items WHERE source = 'review_fix'"),
        "available|0"
    );
    assert_eq!(play.count("events WHERE event_type = 'reloaded'"), 0);
}

#[test]
fn what_waited_for_an_agent_goes_on_with_the_settings_that_have_one() {
    let play = Play::new(&Script::default());
    let good = settings(&play);
    let without: Vec<&str> = good
        .lines()
        .filter(|line| !line.starts_with("agent =") && !line.starts_with("review_agent ="))
        .collect();
    play.world.config(&without.join("\n"));
    let daemon = play.daemon();
    play.wait_for("SELECT count(*) FROM events WHERE event_type = 'held'", "1");
    play.is_held("no agent is configured for a review");
    assert!(play.answer().contains("remand reload"), "{}", play.answer());
    // One that waits for something else.
    let (other, _) = play.another("other");
    play.wait_for("SELECT count(*) FROM events WHERE event_type = 'held'", "2");
    let later = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '+10 minutes')";
    play.world.sqlite(&format!(
        "UPDATE changes SET held_until = {later}, hold_reason = 'no network', hold_kind = 'environment' WHERE change_id = '{other}';
         UPDATE changes SET held_until = {later} WHERE change_id = 'c1'"
    ));
    play.world.config(&good);
    hang_up(&daemon);
    play.wait_for_state("ready_for_human_review");
    assert_eq!(
        play.world
            .sqlite("SELECT summary FROM events WHERE event_type = 'resumed' AND change_id = 'c1'"),
        "resumed: the configuration was reloaded"
    );
    assert_eq!(
        play.world.sqlite(&format!(
            "SELECT hold_reason FROM changes WHERE change_id = '{other}'"
        )),
        "no network"
    );
    assert!(daemon.stop().success());
}

/// A call of the forge takes longer than systemd's watchdog.
#[test]
fn it_is_alive_while_a_reload_waits_for_the_forge() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    before_each_call(
        &stage,
        "case \"$*\" in *POST*) : >\"$HOME/posting\"; until [ -e \"$HOME/go\" ]; do sleep 0.02; done;; esac",
    );
    let supervisor = Supervisor::of(play);
    let daemon = play.daemon_from(supervisor.command(play, Duration::from_millis(900)));
    let home = play.world.root().join("home");
    play.until("something is posted", || home.join("posting").exists());
    hang_up(&daemon);
    supervisor.wait_for(play, "RELOADING=1\n");
    // One may have been in progress.
    for _ in 0..3 {
        let told = supervisor.next(play);
        assert!(told.starts_with("WATCHDOG=1\n"), "{told}");
    }
    std::fs::write(home.join("go"), "").unwrap();
    supervisor.wait_for(play, "READY=1\n");
    assert!(daemon.stop().success());
}
