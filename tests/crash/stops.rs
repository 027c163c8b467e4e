//! Orderly stops, stops with delays, and repeated stops.

use std::os::unix::net::UnixDatagram;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::stage::{Dice, Seen, Show, check, end, is_long, outcome, stage};
use crate::support::play::{FIXES, Play, REVIEWS_FIXED, Script};

#[test]
fn stopped_at_random_moments_it_goes_on_where_it_was() {
    let undisturbed = stage();
    Show::new(&undisturbed).to_the_end(&["run"]);
    let expected = outcome(&undisturbed);
    let mut dice = Dice::new(19);
    let wanted = if is_long() { 500 } else { 30 };
    let mut stops = 0;
    while stops < wanted {
        let play = stage();
        let show = Show::new(&play);
        while !show.all_ended() {
            let mut daemon = play.daemon();
            let until =
                Instant::now() + Duration::from_millis(u64::try_from(dice.below(1000)).unwrap());
            show.watch_until(&mut daemon.child, || Instant::now() > until);
            let told = Instant::now();
            signal(&daemon.child, Signal::TERM);
            let status = wait(&mut daemon.child);
            assert!(
                status.is_some_and(|status| status.success()),
                "{status:?}\n{}",
                play.log()
            );
            // The grace period here is one second for agents at work and one for those that do not
            // end.
            assert!(
                told.elapsed() < Duration::from_secs(7),
                "{:?} to stop",
                told.elapsed()
            );
            stops += 1;
            assert_eq!(
                play.count("work_items WHERE status = 'claimed'"),
                0,
                "given back"
            );
            assert_eq!(
                play.count("work_items WHERE status = 'available' AND attempt > 0"),
                0,
                "with its attempt"
            );
            assert!(play.alive().is_empty(), "{:?}", play.alive());
        }
        assert_eq!(outcome(&play), expected, "{}", play.log());
        assert_eq!(
            play.count("events WHERE event_type = 'run_lost'"),
            0,
            "a stop loses no run"
        );
        check(&play);
    }
    println!("{stops} stops");
}

fn with_slow_fixer(settings: &str) -> Play {
    let fixer = format!("while [ ! -e \"$PROMPTS/go\" ]; do sleep 0.05; done\n{FIXES}");
    Play::new(&Script {
        reviewer: REVIEWS_FIXED,
        fixer: &fixer,
        settings: "",
        tables: settings,
        ..Script::default()
    })
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Returns how it ended, if it does.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    None
}

/// Between the check for a stop and the wait for the next event there was a moment in which a stop
/// was missed.
#[test]
fn a_stop_that_comes_while_it_looks_around_is_not_missed() {
    let play = Play::without_change(&Script::default());
    let socket = play.world.db().with_extension("db.wake");
    let caller = UnixDatagram::unbound().unwrap();
    let mut dice = Dice::new(23);
    for round in 0..40 {
        let mut daemon = play.daemon();
        let until =
            Instant::now() + Duration::from_micros(u64::try_from(dice.below(20_000)).unwrap());
        while Instant::now() < until {
            // Not there yet, or full of calls: then it has enough to process.
            caller.send_to(&[], &socket).ok();
            std::thread::sleep(Duration::from_micros(500));
        }
        signal(&daemon.child, Signal::TERM);
        assert!(
            wait(&mut daemon.child).is_some_and(|status| status.success()),
            "round {round}\n{}",
            play.log()
        );
    }
}

const FIX_RUNS: &str = "SELECT count(*) FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix' AND pid IS NOT NULL";

#[test]
fn told_twice_it_ends_at_once() {
    let play = with_slow_fixer("[dispatch]\nstop_grace_s = 60\n[limits]\ngrace_s = 1\n");
    let show = Show::new(&play);
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    show.watch_until(&mut daemon, || show.number(FIX_RUNS) == 1);
    signal(&daemon, Signal::TERM);
    play.until("it stops", || play.log().contains("stopping"));
    assert_eq!(daemon.try_wait().unwrap(), None, "it waits for the agent");
    signal(&daemon, Signal::TERM);
    let ended = wait(&mut daemon).expect("it ends before its grace period does");
    assert!(!ended.success());
    std::fs::write(play.world.root().join("prompts-seen/go"), "").unwrap();
    show.to_the_end(&["run"]);
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    check(&play);
}

#[test]
fn a_daemon_held_up_for_longer_than_its_lease_loses_nothing_to_a_tick() {
    let play = with_slow_fixer("[dispatch]\nlease_s = 3\n");
    let show = Show::new(&play);
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    assert_eq!(
        show.watch_until(&mut daemon, || show.number(FIX_RUNS) == 1),
        Seen::AllEnded
    );
    signal(&daemon, Signal::STOP);
    play.wait_for(
        "SELECT lease_expires_at < strftime('%Y-%m-%dT%H:%M:%fZ') FROM work_items WHERE status = 'claimed'",
        "1",
    );
    let before = play
        .world
        .sqlite("SELECT item_id, status, claimed_by, epoch, attempt FROM work_items");
    play.tick().report();
    assert_eq!(
        play.world
            .sqlite("SELECT item_id, status, claimed_by, epoch, attempt FROM work_items"),
        before
    );
    std::fs::write(play.world.root().join("prompts-seen/go"), "").unwrap();
    signal(&daemon, Signal::CONT);
    assert_eq!(show.watch(&mut daemon), Seen::AllEnded);
    assert!(end(daemon).success());
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(show.number(FIX_RUNS), 1, "finished once");
    assert_eq!(
        play.world
            .git(&play.worktree, &["log", "--format=%s", "main..feature"])
            .lines()
            .count(),
        2
    );
    check(&play);
}

#[test]
fn an_item_whose_end_could_not_be_written_is_taken_up_again() {
    let play = Play::new(&Script {
        tables: "[dispatch]\nbackoff_first_s = 1\n",
        ..Script::default()
    });
    let show = Show::new(&play);
    play.world
        .sqlite("CREATE TRIGGER no_room BEFORE UPDATE OF ended ON runs BEGIN SELECT RAISE(ABORT, 'no room'); END");
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    show.watch_until(&mut daemon, || play.log().contains("could not be written"));
    play.world.sqlite("DROP TRIGGER no_room");
    assert_eq!(show.watch(&mut daemon), Seen::AllEnded);
    assert!(end(daemon).success());
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(
        play.count("events WHERE event_type = 'run_lost'"),
        0,
        "the run's recorded end was used"
    );
    check(&play);
}

#[test]
fn a_crash_on_one_blackboard_ends_nobody_on_another() {
    let plays = [
        with_slow_fixer("[limits]\ngrace_s = 1\n"),
        with_slow_fixer("[limits]\ngrace_s = 1\n"),
    ];
    let shows = [Show::new(&plays[0]), Show::new(&plays[1])];
    // The second one's run starts later and has the same id.
    let [mut dies, mut lives] = [0, 1].map(|at| {
        let mut daemon = shows[at].start(plays[at].world.remand_command(&["run"]));
        shows[at].watch_until(&mut daemon, || shows[at].number(FIX_RUNS) == 1);
        daemon
    });
    dies.kill().unwrap();
    dies.wait().unwrap();
    std::fs::write(plays[0].world.root().join("prompts-seen/go"), "").unwrap();
    shows[0].to_the_end(&["run"]);
    std::fs::write(plays[1].world.root().join("prompts-seen/go"), "").unwrap();
    assert_eq!(shows[1].watch(&mut lives), Seen::AllEnded);
    assert!(end(lives).success());
    assert_eq!(
        plays[1].count("runs WHERE ended <> 'agent'"),
        0,
        "{}",
        plays[1].events().join("\n")
    );
}
