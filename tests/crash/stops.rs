//! Stopped in good order, held up, and told twice.

use std::process::Child;
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
            let until = Instant::now() + Duration::from_millis(u64::try_from(dice.below(1000)).unwrap());
            show.watch_until(&mut daemon.child, || Instant::now() > until);
            let told = Instant::now();
            let status = daemon.stop();
            assert!(status.success(), "{status}\n{}", play.log());
            // The stage's grace is one second for agents at work and one for what does not end.
            assert!(told.elapsed() < Duration::from_secs(7), "{:?} to stop", told.elapsed());
            stops += 1;
            assert_eq!(play.count("work_items WHERE status = 'claimed'"), 0, "given back");
            assert_eq!(play.count("work_items WHERE status = 'available' AND attempt > 0"), 0, "with its attempt");
            assert!(play.alive().is_empty(), "{:?}", play.alive());
        }
        assert_eq!(outcome(&play), expected, "{}", play.log());
        assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 0, "a stop loses no run");
        check(&play);
    }
    println!("{stops} stops");
}

fn with_slow_fixer(settings: &str) -> Play {
    let fixer = format!("while [ ! -e \"$PROMPTS/go\" ]; do sleep 0.05; done\n{FIXES}");
    Play::new(&Script { reviewer: REVIEWS_FIXED, fixer: &fixer, settings: "", tables: settings })
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

const FIX_RUNS: &str =
    "SELECT count(*) FROM runs JOIN work_items USING (item_id) WHERE source = 'review_fix' AND pid IS NOT NULL";

#[test]
fn told_twice_it_ends_at_once() {
    let play = with_slow_fixer("[dispatch]\nstop_grace_s = 60\n[limits]\ngrace_s = 1\n");
    let show = Show::new(&play);
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    show.watch_until(&mut daemon, || show.number(FIX_RUNS) == 1);
    signal(&daemon, Signal::TERM);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(daemon.try_wait().unwrap(), None, "it waits for the agent");
    let told = Instant::now();
    signal(&daemon, Signal::TERM);
    assert!(!daemon.wait().unwrap().success());
    assert!(told.elapsed() < Duration::from_secs(2), "{:?}", told.elapsed());
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
    assert_eq!(show.watch_until(&mut daemon, || show.number(FIX_RUNS) == 1), Seen::AllEnded);
    signal(&daemon, Signal::STOP);
    play.wait_for(
        "SELECT lease_expires_at < strftime('%Y-%m-%dT%H:%M:%fZ') FROM work_items WHERE status = 'claimed'",
        "1",
    );
    let before = play.world.sqlite("SELECT item_id, status, claimed_by, epoch, attempt FROM work_items");
    play.tick().ok();
    assert_eq!(play.world.sqlite("SELECT item_id, status, claimed_by, epoch, attempt FROM work_items"), before);
    std::fs::write(play.world.root().join("prompts-seen/go"), "").unwrap();
    signal(&daemon, Signal::CONT);
    assert_eq!(show.watch(&mut daemon), Seen::AllEnded);
    assert!(end(daemon).success());
    assert_eq!(play.state(), "ready_for_human_review");
    assert_eq!(show.number(FIX_RUNS), 1, "finished once");
    assert_eq!(play.world.git(&play.worktree, &["log", "--format=%s", "main..feature"]).lines().count(), 2);
    check(&play);
}
