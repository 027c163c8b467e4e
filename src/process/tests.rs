//! The daemon's side, with the test binary in place of `remand`: called as `__shim`, it runs the
//! test of that name.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use super::*;

#[test]
fn __shim() {
    if is_shim() {
        shim_main();
    }
}

/// Only a shim has the mark of one of these tests.
#[expect(clippy::disallowed_methods, reason = "no configuration")]
fn is_shim() -> bool {
    std::env::var(RUN).is_ok_and(|run_id| run_id.starts_with("unit-"))
}

struct Case {
    dir: TempDir,
    job: Job,
}

impl Case {
    fn sh(name: &str, script: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("prompt"), "the prompt").unwrap();
        let job = Job {
            run_id: format!("unit-{}-{name}", std::process::id()),
            argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            cwd: dir.path().to_owned(),
            env: BTreeMap::from([("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())]),
            stdin: dir.path().join("prompt"),
            dir: dir.path().join("run"),
            is_wrapped: false,
            limits: Limits {
                idle: Duration::from_secs(60),
                total: Duration::from_secs(60),
                grace: Duration::from_secs(5),
            },
        };
        Self { dir, job }
    }

    async fn start(&self) -> Running {
        start(&std::env::current_exe().unwrap(), &self.job)
            .await
            .unwrap()
    }

    async fn settle(&self) -> u32 {
        settle(&self.job.dir, Duration::from_secs(60))
            .await
            .unwrap()
    }

    async fn has(&self, name: &str) {
        until(name, || self.dir.path().join(name).exists()).await;
    }

    /// Number of processes that carry the run's mark.
    fn alive(&self) -> usize {
        let mark = format!("{MARK}={}", self.job.dir.display());
        table::scan()
            .unwrap()
            .iter()
            .filter(|e| !e.is_dead && table::carries(e.pid, mark.as_ref()))
            .count()
    }

    fn pid_in(&self, name: &str) -> ProcessId {
        let pid = fs::read_to_string(self.dir.path().join(name)).unwrap();
        ProcessId::of(pid.trim().parse().unwrap()).unwrap()
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "waited in vain: {what}"
        );
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_run_from_start_to_end() {
    let case = Case::sh("whole", "cat; exit 4");
    let mut running = case.start().await;
    assert!(running.shim().is_alive().unwrap());
    let exit = running.wait().await.unwrap().unwrap();
    assert_eq!((exit.ended, exit.status), (Ended::Agent, Some(4)));
    assert_eq!(read_exit(&case.job.dir).unwrap(), Some(exit));
    assert_eq!(
        read_output(&case.job.dir, Stream::Stdout).unwrap().text,
        "the prompt"
    );
    assert_eq!(
        fs::metadata(&case.job.dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    assert!(!running.shim().is_alive().unwrap());
    let again = start(Path::new("/proc/self/exe"), &case.job).await;
    assert!(matches!(again, Err(ProcessError::FolderUsed { .. })));
}

/// The shim gets nothing from remand's environment: the part that an agent may read has no token.
#[tokio::test]
async fn a_shim_has_no_environment_but_its_mark() {
    let case = Case::sh("closed", "true");
    let shim = case.dir.path().join("shim.sh");
    let tell = "/usr/bin/env >\"$REMAND_RUN_DIR/env.new\"; mv \"$REMAND_RUN_DIR/env.new\" \"$REMAND_RUN_DIR/env\"";
    write_script(&shim, tell);
    // It may be gone before it gets its job, which it does not read.
    drop(start(&shim, &case.job).await);
    let env = case.job.dir.join("env");
    until("it has told", || env.exists()).await;
    let text = fs::read_to_string(env).unwrap();
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    let of_the_shell = ["PWD", "SHLVL", "OLDPWD", "_"];
    let mut given: Vec<&str> = names
        .into_iter()
        .filter(|name| !of_the_shell.contains(name))
        .collect();
    given.sort_unstable();
    assert_eq!(given, [RUN, MARK]);
}

#[tokio::test]
async fn a_run_is_stopped_and_followed_while_it_lives() {
    let case = Case::sh(
        "stop",
        "trap 'echo stopping; exit 0' TERM; setsid sleep 300 & echo begin; while :; do sleep 0.1; done",
    );
    let mut running = case.start().await;
    let mut follow = Follow::new(&case.job.dir, Stream::Stdout);
    let mut text = String::new();
    until("it says something", || {
        text += &follow.more().unwrap();
        text == "begin\n"
    })
    .await;
    assert_eq!(read_exit(&case.job.dir).unwrap(), None);
    running.stop().await;
    let exit = running.wait().await.unwrap().unwrap();
    assert_eq!((exit.ended, exit.status), (Ended::Stopped, Some(0)));
    assert_eq!(follow.more().unwrap(), "stopping\n");
    assert_eq!(case.alive(), 0);
    running.stop().await;
}

#[tokio::test]
async fn a_run_that_nobody_holds_any_more_is_ended_and_settled() {
    let case = Case::sh(
        "dropped",
        "trap '' TERM; setsid sleep 300 & touch ready; while :; do sleep 1; done",
    );
    let running = case.start().await;
    case.has("ready").await;
    drop(running);
    assert_eq!(case.settle().await, 0);
    assert_eq!(
        read_exit(&case.job.dir).unwrap().unwrap().ended,
        Ended::DaemonGone
    );
    assert_eq!(case.alive(), 0);
}

#[tokio::test]
async fn an_agent_that_kills_its_shim_is_ended_by_its_mark() {
    let case = Case::sh(
        "killer",
        "trap '' TERM
         setsid sleep 300 &
         setsid sh -c 'env -i sleep 300 & echo $! >child; wait' &
         env -i sleep 300 & echo $! >bare
         until [ -s child ]; do sleep 0.01; done
         kill -KILL $PPID; touch ready; while :; do sleep 1; done",
    );
    let mut running = case.start().await;
    assert_eq!(running.wait().await.unwrap(), None);
    case.has("ready").await;
    assert!(case.alive() > 0);
    let (child_of_marked, of_the_session) = (case.pid_in("child"), case.pid_in("bare"));
    assert!(case.settle().await >= 5);
    assert_eq!(case.alive(), 0);
    assert!(!child_of_marked.is_alive().unwrap());
    assert!(!of_the_session.is_alive().unwrap());
    assert_eq!(case.settle().await, 0);
}

#[tokio::test]
async fn an_agent_that_stops_its_shim_is_ended_too() {
    let case = Case::sh("stopper", "kill -STOP $PPID; touch ready; sleep 300");
    let running = case.start().await;
    case.has("ready").await;
    drop(running);
    case.settle().await;
    assert_eq!(
        read_exit(&case.job.dir).unwrap().unwrap().ended,
        Ended::DaemonGone
    );
    assert_eq!(case.alive(), 0);
}

#[tokio::test]
async fn a_shim_that_never_lets_go_is_killed() {
    let case = Case::sh("stuck", "touch ready; sleep 300");
    let mut running = case.start().await;
    case.has("ready").await;
    let ended = settle(&case.job.dir, Duration::ZERO).await.unwrap();
    assert!(ended >= 1);
    assert_eq!(running.wait().await.unwrap(), None);
    assert_eq!(case.alive(), 0);
}

#[tokio::test]
async fn a_run_that_never_began_is_settled_and_does_not_begin_later() {
    let case = Case::sh("never", "true");
    assert_eq!(case.settle().await, 0);
    fs::create_dir(&case.job.dir).unwrap();
    assert_eq!(case.settle().await, 0);
    let late = start(&std::env::current_exe().unwrap(), &case.job).await;
    assert!(matches!(late, Err(ProcessError::FolderUsed { .. })));
}

#[tokio::test]
async fn a_folder_of_an_earlier_life_is_moved_aside_with_nobody_alive_in_it() {
    let case = Case::sh("claimed", "echo earlier; touch ready; sleep 300");
    let limit = Duration::from_secs(60);
    claim_folder(&case.job.dir, limit).await.unwrap();
    assert_eq!(
        fs::metadata(&case.job.dir).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let earlier = case.start().await;
    case.has("ready").await;
    drop(earlier);
    claim_folder(&case.job.dir, limit).await.unwrap();
    assert_eq!(case.alive(), 0);
    assert_eq!(read_exit(&case.job.dir).unwrap(), None);
    assert_eq!(fs::read_dir(&case.job.dir).unwrap().count(), 0);
    let aside = |n: u8| case.dir.path().join(format!("run.old-{n}"));
    assert_eq!(
        read_exit(&aside(1)).unwrap().unwrap().ended,
        Ended::DaemonGone
    );
    fs::write(case.job.dir.join("result.json"), "{}").unwrap();
    claim_folder(&case.job.dir, limit).await.unwrap();
    assert!(aside(2).join("result.json").exists());
    let mut running = case.start().await;
    running.stop().await;
    assert_eq!(running.wait().await.unwrap().unwrap().ended, Ended::Stopped);
}

#[tokio::test]
async fn a_shim_that_is_not_there_is_an_error() {
    let case = Case::sh("no-shim", "true");
    let error = start(Path::new("/no/such/remand"), &case.job)
        .await
        .err()
        .unwrap();
    assert!(matches!(error, ProcessError::Spawn { .. }), "{error}");
}

#[test]
fn everything_can_run_in_a_task() {
    fn can_move<T: Send>(_: T) {}
    let case = Case::sh("send", "true");
    can_move(start(Path::new("/"), &case.job));
    can_move(settle(Path::new("/"), Duration::ZERO));
    can_move(async { case.start().await.wait().await });
    can_move(async { case.start().await.stop().await });
}
