//! Every named line: the program dies there once, is started again, and the result is the same.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use super::stage::{Dice, PATIENCE, Seen, Stage, end, is_long, stage};
use crate::support::is_report;
use crate::support::play::Play;

/// Number of concurrent environments.
const SIDE_BY_SIDE: usize = 4;

#[test]
fn a_daemon_that_dies_at_any_line_comes_to_the_same_end() {
    let undisturbed = Undisturbed::play(stage, &["run"]);
    let points = undisturbed.points();
    let names: BTreeSet<&String> = undisturbed.crossings.iter().collect();
    assert!(names.len() >= 60, "{names:#?}");
    println!(
        "{} crossings of {} lines, {} are tried",
        undisturbed.crossings.len(),
        names.len(),
        points.len()
    );
    undisturbed.sweep(
        &["run"],
        &apart(&points, if is_long() { 1 } else { DEATHS }),
    );
}

#[test]
fn a_tick_that_dies_and_is_started_again_comes_to_the_same_end() {
    let undisturbed = Undisturbed::play(stage, &["tick"]);
    let points = undisturbed.points();
    let sample: Vec<String> = points
        .into_iter()
        .step_by(if is_long() { 1 } else { 6 })
        .collect();
    undisturbed.sweep(
        &["tick"],
        &apart(&sample, if is_long() { 1 } else { DEATHS }),
    );
}

/// The second death is counted over the first life too, so that most pairs occur: if a line was
/// crossed before the first death, its next crossing is in the recovery.
#[test]
fn a_daemon_that_dies_again_while_it_recovers_comes_to_the_same_end() {
    let undisturbed = Undisturbed::play(stage, &["run"]);
    undisturbed.sweep(
        &["run"],
        &undisturbed.pairs(7, if is_long() { 2000 } else { 40 }),
    );
}

/// Deaths per run of the short test. They are far apart, so each is recovered from before the next.
pub(crate) const DEATHS: usize = 20;

/// Groups up to `deaths` points per run, as far apart as possible, in the order of their crossing.
pub(crate) fn apart(points: &[String], deaths: usize) -> Vec<Vec<String>> {
    let plays = points.len().div_ceil(deaths);
    (0..plays)
        .map(|first| points.iter().skip(first).step_by(plays).cloned().collect())
        .collect()
}

/// Result of a run without deaths, and the lines that it crossed, in order.
pub(crate) struct Undisturbed<S> {
    stage: fn() -> S,
    outcome: String,
    pub(crate) crossings: Vec<String>,
}

impl<S: Stage> Undisturbed<S> {
    pub(crate) fn play(stage: fn() -> S, args: &[&str]) -> Self {
        let found = stage();
        let (play, show) = (found.play(), found.show());
        let list = play.world.root().join("crossings");
        let begun = Instant::now();
        while !show.all_ended() {
            assert!(
                begun.elapsed() < PATIENCE,
                "{}\n{}",
                play.events().join("\n"),
                play.log()
            );
            let mut command = play.world.remand_command(args);
            command.env("REMAND_CRASH_LIST", &list);
            let mut child = show.start(command);
            if show.watch(&mut child) == Seen::AllEnded {
                assert!(is_report(end(child)));
            }
        }
        assert_eq!(
            play.state(),
            found.end(),
            "{}\n{}",
            play.events().join("\n"),
            play.log()
        );
        found.check();
        let crossings = std::fs::read_to_string(list)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        Self {
            stage,
            outcome: found.outcome(),
            crossings,
        }
    }

    /// Returns pairs of deaths in one run, the second near the place of the first.
    pub(crate) fn pairs(&self, seed: u64, count: usize) -> Vec<Vec<String>> {
        // A shim that dies leaves its daemon alive: only the daemon's own lines start a recovery.
        let own: Vec<&String> = self
            .crossings
            .iter()
            .filter(|name| !name.starts_with("shim_"))
            .collect();
        let mut dice = Dice::new(seed);
        let mut pair = || {
            let first = dice.below(own.len());
            // A recovery mostly crosses the lines around the place of the death.
            let second = (first.saturating_sub(20) + dice.below(40)).min(own.len() - 1);
            let before = |at: usize| own[..first].iter().filter(|name| **name == own[at]).count();
            let passed = before(second) + usize::from(own[first] == own[second]);
            vec![
                format!("{}#{}", own[first], before(first) + 1),
                format!("{}#{}", own[second], passed + 1),
            ]
        };
        (0..count).map(|_| pair()).collect()
    }

    /// Returns every crossing or, if there are too many for a short test, the first, the second and
    /// the last of each name.
    pub(crate) fn points(&self) -> Vec<String> {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.crossings
            .iter()
            .for_each(|name| *counts.entry(name).or_default() += 1);
        let is_few = self.crossings.len() <= 250 || is_long();
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let mut points = Vec::new();
        for name in &self.crossings {
            let k = seen.entry(name).or_default();
            *k += 1;
            if is_few || *k <= 2 || *k == counts[name.as_str()] {
                points.push(format!("{name}#{k}"));
            }
        }
        points
    }

    /// Runs once for each list of points: dies at each of them, and must have the same result.
    pub(crate) fn sweep(&self, args: &[&str], plays: &[Vec<String>]) {
        let begun = Instant::now();
        let (next, died, wrong) = (
            AtomicUsize::new(0),
            AtomicUsize::new(0),
            Mutex::new(Vec::new()),
        );
        std::thread::scope(|scope| {
            for _ in 0..SIDE_BY_SIDE {
                scope.spawn(|| {
                    while let Some(points) = plays.get(next.fetch_add(1, Ordering::SeqCst)) {
                        match std::panic::catch_unwind(|| self.compare(args, points)) {
                            Ok(deaths) => drop(died.fetch_add(deaths, Ordering::SeqCst)),
                            Err(_) => wrong.lock().unwrap().push(points.join(",")),
                        }
                    }
                });
            }
        });
        let (died, wrong) = (died.into_inner(), wrong.into_inner().unwrap());
        println!(
            "{} plays with {died} deaths in {:?}",
            plays.len(),
            begun.elapsed()
        );
        assert!(
            wrong.is_empty(),
            "{} went wrong, each as told above: {wrong:#?}",
            wrong.len()
        );
        let expected = plays.iter().map(Vec::len).sum::<usize>();
        assert!(
            died * 10 >= expected * 7,
            "only {died} of {expected} deaths came about"
        );
    }

    /// Returns the number of deaths: not every crossing occurs in every run.
    fn compare(&self, args: &[&str], points: &[String]) -> usize {
        let found = (self.stage)();
        let (play, show) = (found.play(), found.show());
        let once = play.world.root().join("died");
        let died = || {
            (0..points.len())
                .filter(|n| died_file(&once, *n).exists())
                .count()
        };
        let begun = Instant::now();
        while !show.all_ended() && died() < points.len() {
            assert!(begun.elapsed() < PATIENCE, "{}", told(play, points));
            let mut command = play.world.remand_command(args);
            command
                .env("REMAND_CRASH_AT", points.join(","))
                .env("REMAND_CRASH_ONCE", &once);
            let mut child = show.start(command);
            if show.watch(&mut child) == Seen::AllEnded {
                end(child);
            }
        }
        show.to_the_end(args);
        let outcome = found.outcome();
        if outcome != self.outcome {
            let differ = self
                .outcome
                .lines()
                .zip(outcome.lines())
                .find(|(a, b)| a != b);
            panic!(
                "{}\nfirst difference: {differ:?}\nexpected:\n{}\n\nfound:\n{outcome}",
                told(play, points),
                self.outcome
            );
        }
        found.check();
        died()
    }
}

fn told(play: &Play, points: &[String]) -> String {
    format!(
        "died at {}\n{}\n{}",
        points.join(","),
        play.events().join("\n"),
        play.log()
    )
}

/// Returns the file as named by `src/failpoint.rs`.
fn died_file(once: &Path, number: usize) -> PathBuf {
    if number == 0 {
        once.to_owned()
    } else {
        once.with_extension(number.to_string())
    }
}
