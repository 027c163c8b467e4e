//! SIGKILL at random moments, of the daemon, of shims, of agents, and of the git and gh that the
//! daemon waits for, with several concurrent pull requests; SIGTERM at random moments; and a daemon
//! that dies while its gh is running.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::kills::{is_agent, is_shim, kill_in_each_git, kill_one};
use super::pull_scene::{OVERTAKEN, Scene, TASK, WHOLE};
use super::pull_stage::PullStage;
use super::stage::{Dice, Seen, Stage as _, command_of, end, is_long, parent_of};

/// Number of concurrently open pull requests.
const OPEN: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Daemon,
    Shim,
    Agent,
    Git,
    Gh,
}

#[test]
fn killed_at_random_moments_every_pull_request_is_pushed_and_answered_once() {
    let twentieths = [
        (Victim::Daemon, 9),
        (Victim::Shim, 4),
        (Victim::Agent, 4),
        (Victim::Git, 2),
        (Victim::Gh, 1),
    ];
    kill_at_random(WHOLE, &twentieths, if is_long() { 5_000 } else { 100 });
}

/// Several tasks at the same time, from `remand add` to the merge.
#[test]
fn killed_at_random_moments_every_task_has_one_branch_and_one_pull_request() {
    let twentieths = [
        (Victim::Daemon, 9),
        (Victim::Shim, 4),
        (Victim::Agent, 4),
        (Victim::Git, 2),
        (Victim::Gh, 1),
    ];
    kill_at_random(TASK, &twentieths, if is_long() { 3_000 } else { 100 });
}

/// The same as a kill by the kernel when memory runs out: it says nothing about the work.
#[test]
fn a_git_or_a_gh_that_is_killed_is_no_more_than_a_delay() {
    kill_at_random(
        WHOLE,
        &[(Victim::Git, 4), (Victim::Gh, 1)],
        if is_long() { 2_000 } else { 40 },
    );
}

fn kill_at_random(scene: Scene, shares: &[(Victim, usize)], wanted: usize) {
    let seed = std::env::var("REMAND_SEED")
        .ok()
        .and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or_else(|| u64::from(std::process::id()) ^ 0x9011_0000);
    println!("REMAND_SEED={seed}");
    let victims: Vec<Victim> = shares
        .iter()
        .flat_map(|(victim, share)| vec![*victim; *share])
        .collect();
    let (mut dice, mut kills, begun) = (Dice::new(seed), BTreeMap::new(), Instant::now());
    let stage = scene.unwatched("slots = 3\nmax_lost_runs = 1000\n");
    stage.enter();
    let mut pulls = 1;
    let add = |pulls: &mut usize| {
        for _ in 0..OPEN {
            stage.add(&format!("f{pulls}"));
            *pulls += 1;
        }
    };
    add(&mut pulls);
    let (play, show) = (stage.play(), stage.show());
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    while kills.values().sum::<usize>() < wanted {
        let waits = Duration::from_millis(u64::try_from(dice.below(300)).unwrap());
        if show.watch_for(&mut daemon, waits) == Some(Seen::AllEnded) {
            // There is always work: more arrives while the daemon runs.
            add(&mut pulls);
        }
        let victim = victims[dice.below(victims.len())];
        *kills.entry(victim).or_default() += match victim {
            Victim::Daemon => {
                daemon.kill().unwrap();
                daemon.wait().unwrap();
                daemon = show.start(play.world.remand_command(&["run"]));
                1
            }
            Victim::Shim => kill_one(play, &mut dice, is_shim),
            Victim::Agent => kill_one(play, &mut dice, is_agent),
            Victim::Git => kill_child(&daemon, &mut dice, |line| line.contains("--no-pager")),
            Victim::Gh => kill_child(&daemon, &mut dice, |line| line.contains("__gh")),
        };
    }
    let seen = show.watch(&mut daemon);
    assert_eq!(
        seen,
        Seen::AllEnded,
        "seed {seed}: the daemon is gone\n{}",
        play.log()
    );
    assert!(end(daemon).success());
    println!(
        "{kills:?} on {pulls} pull requests in {:?}",
        begun.elapsed()
    );
    stage.check();
    let fixes = 2 * i64::try_from(pulls).unwrap();
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix' AND status = 'completed'"),
        fixes,
        "seed {seed}"
    );
    assert_eq!(
        play.count("events WHERE event_type = 'escalated'"),
        0,
        "seed {seed}"
    );
}

/// Kills a matching process that the daemon waits for, as soon as there is one.
fn kill_child(daemon: &Child, dice: &mut Dice, fits: impl Fn(&str) -> bool) -> usize {
    let until = Instant::now() + Duration::from_secs(2);
    while Instant::now() < until {
        let found = children(daemon.id(), &fits);
        let Some(pid) = found.get(dice.below(found.len().max(1))) else {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        };
        std::thread::sleep(Duration::from_micros(
            u64::try_from(dice.below(5_000)).unwrap(),
        ));
        if kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).is_ok() {
            return 1;
        }
    }
    0
}

fn children(parent: u32, fits: impl Fn(&str) -> bool) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if parent_of(pid).and_then(|of| u32::try_from(of).ok()) == Some(parent)
            && fits(&command_of(pid))
        {
            found.push(pid);
        }
    }
    found
}

#[test]
fn stopped_at_random_moments_a_pull_request_goes_on_where_it_was() {
    let expected = undisturbed();
    let mut dice = Dice::new(29);
    let wanted = if is_long() { 300 } else { 15 };
    let mut stops = 0;
    while stops < wanted {
        let stage = WHOLE.stage();
        let (play, show) = (stage.play(), stage.show());
        while !show.all_ended() {
            let mut daemon = play.daemon();
            let until =
                Instant::now() + Duration::from_millis(u64::try_from(dice.below(1500)).unwrap());
            show.watch_until(&mut daemon.child, || Instant::now() > until);
            let told = Instant::now();
            assert!(daemon.stop().success(), "{}", play.log());
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
                play.count("intents WHERE claimed_by IS NOT NULL"),
                0,
                "posted or given back"
            );
            assert_eq!(
                play.count("work_items WHERE status = 'available' AND attempt > 0"),
                0,
                "with its attempt"
            );
            assert!(play.alive().is_empty(), "{:?}", play.alive());
        }
        assert_eq!(stage.outcome(), expected, "{}", play.log());
        assert_eq!(
            play.count("events WHERE event_type = 'run_lost'"),
            0,
            "a stop loses no run"
        );
        stage.check();
    }
    println!("{stops} stops");
}

fn undisturbed() -> String {
    let stage = WHOLE.stage();
    stage.show().to_the_end(&["run"]);
    assert_eq!(stage.play().state(), "merged", "{}", stage.play().log());
    stage.check();
    stage.outcome()
}

/// A killed daemon leaves its git running, including one that talks to the remote.
#[test]
fn a_daemon_killed_while_its_git_moves_a_pull_request_comes_to_the_same_end() {
    kill_in_gits_of(behind, &["merge", "push"]);
    kill_in_gits_of(|| OVERTAKEN.stage(), &["worktree", "rebase"]);
}

fn kill_in_gits_of(stage: fn() -> PullStage, steps: &[&str]) {
    let undisturbed = stage();
    undisturbed.show().to_the_end(&["run"]);
    undisturbed.check();
    kill_in_each_git(stage, steps, &undisturbed.outcome());
}

/// Creates a state in which a person has pushed, and the worktree does not have it yet.
fn behind() -> PullStage {
    let stage = WHOLE.unwatched("");
    stage.play().world.git(
        &stage.pull.remote,
        &["update-ref", "refs/heads/feature", "refs/hidden/theirs"],
    );
    stage.pull.watch();
    stage
}

#[test]
fn a_post_whose_end_could_not_be_written_is_found_by_the_same_daemon() {
    let stage = WHOLE.stage();
    let (play, show) = (stage.play(), stage.show());
    play.world.sqlite(
        "CREATE TRIGGER no_room BEFORE UPDATE OF done_at ON intents WHEN NEW.kind = 'review'
         BEGIN SELECT RAISE(ABORT, 'no room'); END",
    );
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    show.watch_until(&mut daemon, || play.log().contains("posting failed"));
    play.world.sqlite("DROP TRIGGER no_room");
    assert_eq!(show.watch(&mut daemon), Seen::AllEnded);
    assert!(end(daemon).success());
    assert_eq!(play.state(), "merged", "{}", play.log());
    stage.check();
}

/// Its gh continues without it, and posts. The next daemon checks, finds nothing yet, and must not
/// post too.
#[test]
fn a_daemon_that_dies_while_its_gh_is_on_the_way_posts_everything_once() {
    let expected = undisturbed();
    // Reviews, notes, replies, and review requests that are made and withdrawn.
    for (path, nth) in [
        ("/reviews", 1),
        ("/issues/", 1),
        ("/replies", 2),
        ("/requested_reviewers", 1),
        ("/dismissals", 1),
    ] {
        let mut stage = WHOLE.unwatched("");
        stage.pull.watch();
        let slow = slow_gh(&mut stage, path, nth);
        let show = stage.show();
        let mut daemon = show.start(stage.play().world.remand_command(&["run"]));
        show.watch_until(&mut daemon, || slow.exists());
        assert!(slow.exists(), "nothing was sent to {path}");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        show.to_the_end(&["run"]);
        assert_eq!(stage.outcome(), expected, "{path}\n{}", stage.play().log());
        stage.check();
    }
}

/// Installs a gh that delays its `nth` write to this path; returns a file that exists once it does.
fn slow_gh(stage: &mut PullStage, path: &str, nth: usize) -> PathBuf {
    let world = &stage.play().world;
    let (slow, count) = (world.root().join("slow"), world.root().join("slow-count"));
    let words: Vec<String> = stage
        .pull
        .forge
        .gh_argv()
        .iter()
        .map(|word| format!("'{word}'"))
        .collect();
    let gh = world.script(
        "slow-gh",
        &format!(
            "case \" $* \" in\n*' --input - '*'{path}'*)\n    echo >>'{count}'\n    if [ \"$(wc -l <'{count}')\" -eq {nth} ]; then touch '{slow}'; sleep 1; fi\n    ;;\nesac\nexec {} \"$@\"\n",
            words.join(" "),
            count = count.display(),
            slow = slow.display(),
        ),
    );
    stage.by_gh(gh.to_str().unwrap(), Vec::new());
    slow
}

/// This is one of the first requests of a daemon.
#[test]
fn a_git_that_is_killed_while_it_says_its_version_keeps_no_daemon_from_starting() {
    let stage = WHOLE.stage();
    let play = stage.play();
    let real = play
        .world
        .command("sh")
        .args(["-c", "command -v git"])
        .output()
        .unwrap();
    let (real, once) = (
        String::from_utf8(real.stdout).unwrap(),
        play.world.root().join("once"),
    );
    play.world.script(
        "git",
        &format!(
            "case \" $* \" in *' version '*) [ -e {once} ] || {{ : >{once}; kill -KILL $$; }} ;; esac\nexec {} \"$@\"\n",
            real.trim(),
            once = once.display(),
        ),
    );
    let show = stage.show();
    let mut daemon = show.start(play.world.remand_command(&["run"]));
    assert_eq!(
        show.watch(&mut daemon),
        Seen::AllEnded,
        "the daemon is gone\n{}",
        play.log()
    );
    assert!(once.exists(), "it was never asked");
    assert!(end(daemon).success());
    stage.check();
}
