//! `events -f` and `status --watch`: each entry once, in order, and an end when the reader is gone.

use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;

use crate::cli::Site;
use crate::support::play::PATIENCE;
use crate::support::wait_for;

/// A remand that keeps running, and the lines that it prints.
struct Following {
    child: Child,
    lines: Receiver<String>,
}

impl Following {
    fn begin(site: &Site, args: &[&str]) -> Self {
        let mut child = site
            .world
            .remand_command(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines_of(BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, lines }
    }

    /// Starts it on a terminal with so many lines, which util-linux provides.
    fn on_terminal(site: &Site, rows: u8, args: &str) -> Self {
        let mut command = site.world.command("/usr/bin/script");
        let program = env!("CARGO_BIN_EXE_remand");
        let shell = format!("stty rows {rows} cols 120; exec {program} {args}");
        command.args(["-qfec", &shell, "/dev/null"]);
        command.env("TERM", "xterm").env("NO_COLOR", "1");
        command.stdin(Stdio::piped());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = lines_of(BufReader::new(child.stdout.take().unwrap()).lines());
        Self { child, lines }
    }

    #[track_caller]
    fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).unwrap()
    }

    #[track_caller]
    fn until(&self, part: &str) -> String {
        let mut all = Vec::new();
        loop {
            let line = self
                .lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|_| panic!("{part:?} is not in {all:#?}"));
            all.push(line.clone());
            if line.contains(part) {
                return all.join("\n");
            }
        }
    }

    fn signal(&self, signal: Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal)
            .unwrap();
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        // Both fail if it has already ended.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn lines_of(lines: Lines<BufReader<ChildStdout>>) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

#[test]
fn each_event_is_followed_once_and_in_order() {
    let site = Site::under_review();
    let newest: u64 = site
        .world
        .sqlite("SELECT max(id) FROM events")
        .parse()
        .unwrap();
    let following = Following::begin(
        &site,
        &[
            "events",
            "-f",
            "--json",
            "--since",
            &(newest - 1).to_string(),
        ],
    );
    let id = |line: &str| {
        serde_json::from_str::<serde_json::Value>(line).unwrap()["id"]
            .as_u64()
            .unwrap()
    };
    assert_eq!(id(&following.line()), newest);
    let mut expected = newest;
    for n in 0..20 {
        // By remand's commands and directly; one by one, and many at once.
        match n % 3 {
            0 => drop(site.remand(&["comment", "c1", "a word"]).ok()),
            1 => drop(site.world.sqlite(
                "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('instructed', 'change', 'c1', 'x')",
            )),
            _ => drop(site.world.sqlite(
                "INSERT INTO events (event_type, target_type, target_id, summary)
                 SELECT 'instructed', 'change', 'c1', 'x' FROM json_each('[1, 2, 3, 4, 5, 6, 7, 8, 9]')",
            )),
        }
        let newest: u64 = site
            .world
            .sqlite("SELECT max(id) FROM events")
            .parse()
            .unwrap();
        while expected < newest {
            expected += 1;
            assert_eq!(id(&following.line()), expected);
        }
    }
    assert!(
        following
            .lines
            .recv_timeout(Duration::from_millis(300))
            .is_err(),
        "nothing twice"
    );
}

#[test]
fn following_ends_by_ctrl_c_and_when_its_reader_goes() {
    let site = Site::under_review();
    for args in [
        &["events", "-f"][..],
        &["status", "--watch"],
        &["status", "c1", "--watch", "--json"],
    ] {
        let mut following = Following::begin(&site, args);
        following.line();
        // A process that a script started in the background ignores Ctrl-C from its start, and so
        // do its children.
        let (signal, number) = if ignores_ctrl_c() {
            (Signal::TERM, 15)
        } else {
            (Signal::INT, 2)
        };
        following.signal(signal);
        let mut ended = None;
        wait_for("it ends by a signal", || {
            ended = following.child.try_wait().unwrap();
            ended.is_some()
        });
        // A shell reports this as 130.
        assert_eq!(ended.unwrap().signal(), Some(number), "{args:?}");

        // The reader ends, and nothing more happens.
        let mut child = site
            .world
            .remand_command(args)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        reader.read_line(&mut String::new()).unwrap();
        drop(reader);
        let mut ended = None;
        wait_for("it ends", || {
            ended = child.try_wait().unwrap();
            ended.is_some()
        });
        assert_eq!(ended.unwrap().code(), Some(0), "{args:?}");
    }
}

fn ignores_ctrl_c() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .unwrap_or("0")
        .trim()
        .to_owned();
    u64::from_str_radix(&ignored, 16).is_ok_and(|mask| mask & 0b10 != 0)
}

#[test]
fn following_costs_next_to_nothing() {
    let site = Site::under_review();
    let following = Following::begin(&site, &["events", "-f"]);
    following.until("work_created");
    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", following.child.id())).unwrap();
        let fields: Vec<u64> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .filter_map(|n| n.parse().ok())
            .collect();
        // After the state: the tenth and eleventh numbers are user and system time, in hundredths
        // of a second.
        fields[10] + fields[11]
    };
    if !cfg!(target_os = "linux") {
        return;
    }
    let before = ticks();
    // There is nothing to wait for: the condition is that nothing happens.
    assert!(
        following
            .lines
            .recv_timeout(Duration::from_secs(2))
            .is_err()
    );
    assert!(
        ticks() - before <= 10,
        "{} hundredths of a second in two",
        ticks() - before
    );
}

#[test]
fn a_watched_status_in_a_pipe_comes_again_only_when_something_changed() {
    let site = Site::under_review();
    let following = Following::begin(&site, &["status", "c1", "--watch"]);
    following.until("spent");
    // The passage of time alone is not a change.
    assert!(
        following
            .lines
            .recv_timeout(Duration::from_millis(2_500))
            .is_err()
    );
    site.remand(&["pause", "c1"]).ok();
    let second = following.until("spent");
    assert!(
        second.contains("\nc1") && second.contains("paused"),
        "{second:?}"
    );
    site.remand(&["resume", "c1"]).ok();
    let third = following.until("spent");
    assert!(!third.contains("paused"), "{third:?}");
}

/// Its branch is compared with the reviewed commit by a git process.
#[test]
fn a_change_that_is_ready_can_be_watched() {
    let site = Site::with_agents(crate::cli::FIXER);
    site.remand(&["tick"]).report();
    let following = Following::begin(&site, &["status", "c1", "--watch"]);
    following.until("spent");
    site.remand(&["approve", "c1"]).ok();
    let second = following.until("spent");
    assert!(second.contains("approved"), "{second:?}");
}

#[test]
fn a_watched_status_as_json_is_a_line_each() {
    let site = Site::under_review();
    let following = Following::begin(&site, &["status", "--watch", "--json"]);
    let parse = |line: String| serde_json::from_str::<serde_json::Value>(&line).unwrap();
    assert_eq!(parse(following.line())["items"]["available"], 1);
    site.remand(&["cancel", "c1"]).ok();
    let next = parse(following.line());
    assert_eq!(next["items"]["available"], 0, "{next}");
    site.remand(&["status", "c9", "--watch"])
        .fails(4, "no such change: `c9`");
}

#[test]
fn a_watched_status_on_a_terminal_is_drawn_over() {
    let site = Site::under_review();
    // util-linux provides a terminal.
    if !std::path::Path::new("/usr/bin/script").exists() {
        return crate::support::skip(
            "a_watched_status_on_a_terminal_is_drawn_over",
            "`script` is not installed",
        );
    }
    let following = Following::on_terminal(&site, 40, "status c1 --watch");
    let first = following.until("spent");
    assert!(first.contains("\u{1b}[2J\u{1b}[H"), "{first:?}");
    site.remand(&["pause", "c1"]).ok();
    let drawn = following.until("paused");
    assert!(
        drawn.contains("\u{1b}[H") && drawn.contains("\u{1b}[2K") && !drawn.contains("\u{1b}[2J"),
        "{drawn:?}"
    );
}

#[test]
fn the_board_on_a_terminal_is_cut_to_its_height_and_drawn_over() {
    let site = Site::under_review();
    if !std::path::Path::new("/usr/bin/script").exists() {
        return crate::support::skip(
            "the_board_on_a_terminal_is_cut_to_its_height_and_drawn_over",
            "`script` is not installed",
        );
    }
    for n in 2..9 {
        let worktree = site.world.worktree(&site.repo, &format!("feature/{n}"));
        site.world.remand_in(&worktree, &["review"]).ok();
    }
    let following = Following::on_terminal(&site, 8, "status --watch");
    let first = following.until("more");
    for shown in [
        "\u{1b}[2J\u{1b}[H",
        "no daemon is running",
        "CHANGE",
        "BOARD",
        "c5 ",
    ] {
        assert!(first.contains(shown), "{shown:?}: {first:?}");
    }
    assert!(
        first.contains("and 3 more\u{1b}[H")
            && !first.contains("c6 ")
            && first.lines().count() == 8,
        "{first:?}"
    );
    site.remand(&["pause", "c1"]).ok();
    let drawn = following.until("paused by ada");
    assert!(!drawn.contains("\u{1b}[2J"), "{drawn:?}");
    for n in 2..6 {
        site.remand(&["cancel", &format!("c{n}")]).ok();
    }
    let all = following.until("c8 ");
    assert!(!all.ends_with("more"), "{all:?}");
}
