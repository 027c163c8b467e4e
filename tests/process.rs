//! `remand __shim` with real children: what it runs, what it terminates, and what it leaves on
//! disk.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A run's directory and the job to run in it.
struct Run {
    dir: TempDir,
    run_id: String,
    job: Value,
}

/// A shim that has its job.
struct Shim<'a> {
    run: &'a Run,
    child: Child,
}

impl Run {
    fn new(argv: &[&str]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::tempdir().unwrap();
        let run_id = format!(
            "it-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::SeqCst)
        );
        fs::write(dir.path().join("prompt"), "the prompt\n").unwrap();
        let job = json!({
            "run_id": run_id,
            "argv": argv,
            "cwd": dir.path(),
            "env": { "PATH": PATH },
            "stdin": dir.path().join("prompt"),
            "dir": dir.path(),
            "limits": { "idle": seconds(60), "total": seconds(60), "grace": seconds(5) },
        });
        Self { dir, run_id, job }
    }

    fn sh(script: &str) -> Self {
        Self::new(&["/bin/sh", "-c", script])
    }

    fn limit(mut self, name: &str, value: Value) -> Self {
        self.job["limits"][name] = value;
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self) -> Shim<'_> {
        self.start_with(&[])
    }

    fn start_with(&self, variables: &[(&str, &Path)]) -> Shim<'_> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_remand"))
            .arg("__shim")
            .env_clear()
            .env("GH_TOKEN", "canary")
            .env("REMAND_RUN", &self.run_id)
            .env("REMAND_RUN_DIR", self.dir.path())
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stderr(fs::File::create(self.path("shim.err")).unwrap())
            .spawn()
            .unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{}", self.job).unwrap();
        Shim { run: self, child }
    }

    /// Runs it to its end and checks that nothing is left.
    fn end(&self) -> Value {
        self.start().end()
    }

    fn exit(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("exit.json")).unwrap()).unwrap()
    }

    fn stdout(&self) -> Vec<u8> {
        fs::read(self.path("stdout.0")).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8(self.stdout()).unwrap()
    }

    /// Returns processes that carry the run's mark, without the shim.
    fn alive(&self) -> Vec<i32> {
        let mark = format!("REMAND_RUN_DIR={}", self.dir.path().display());
        let shim = fs::read_to_string(self.path("shim")).unwrap_or_default();
        let shim = shim.split(':').nth(1).and_then(|pid| pid.parse().ok());
        pids()
            .into_iter()
            .filter(|pid| Some(*pid) != shim && carries(*pid, &mark))
            .collect()
    }
}

impl Shim<'_> {
    fn end(mut self) -> Value {
        let status = self.wait();
        let complaint = fs::read_to_string(self.run.path("shim.err")).unwrap();
        assert!(
            status.success() && complaint.is_empty(),
            "{status}: {complaint}"
        );
        assert_eq!(self.run.alive(), Vec::<i32>::new());
        self.run.exit()
    }

    /// Waits without `Child::wait`, which would close the pipe; the shim would take that for the
    /// daemon's death.
    fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        until("the shim ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }
}

/// A failed test leaves no process alive either.
impl Drop for Shim<'_> {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

fn seconds(n: u64) -> Value {
    json!({ "secs": n, "nanos": 0 })
}

fn millis(n: u64) -> Value {
    json!({ "secs": n / 1000, "nanos": n % 1000 * 1_000_000 })
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(
            started.elapsed() < Duration::from_secs(40),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pids() -> Vec<i32> {
    let names = fs::read_dir("/proc")
        .unwrap()
        .map(|entry| entry.unwrap().file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

fn carries(pid: i32, mark: &str) -> bool {
    let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environ
        .split(|byte| *byte == 0)
        .any(|variable| variable == mark.as_bytes())
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_clean_end() {
    let run = Run::sh("cat; echo to stderr >&2");
    let exit = run.end();
    assert_eq!(exit["ended"], "agent");
    assert_eq!(
        (&exit["status"], &exit["signal"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(
        (&exit["stdout_bytes"], &exit["stderr_bytes"]),
        (&json!(11), &json!(10))
    );
    assert_eq!(
        (&exit["leftovers"], &exit["survivors"], &exit["detail"]),
        (&json!(0), &json!(0), &Value::Null)
    );
    assert_eq!(run.text(), "the prompt\n");
    assert_eq!(fs::read(run.path("stderr.0")).unwrap(), b"to stderr\n");
}

#[test]
fn a_status_is_passed_on() {
    assert_eq!(Run::sh("exit 3").end()["status"], 3);
    assert_eq!(Run::sh("exit 143").end()["ended"], "agent");
}

#[test]
fn what_cannot_be_started_says_why() {
    for (argv, why) in [
        (
            &["no-such-agent"][..],
            "the program `no-such-agent` was not found",
        ),
        (&["/no/such/agent"], "No such file"),
        (&["/proc/version"], "Permission denied"),
        (&[], "no program"),
    ] {
        let exit = Run::new(argv).end();
        assert_eq!(exit["ended"], "not_started", "{argv:?}");
        assert!(exit["detail"].as_str().unwrap().contains(why), "{exit}");
    }
    let mut run = Run::sh("true");
    run.job["cwd"] = json!("/no/such/folder");
    assert!(
        run.end()["detail"]
            .as_str()
            .unwrap()
            .contains("/no/such/folder")
    );
    run = Run::sh("true");
    run.job["stdin"] = json!("/no/such/prompt");
    assert!(
        run.end()["detail"]
            .as_str()
            .unwrap()
            .contains("/no/such/prompt")
    );
}

#[test]
fn a_death_by_a_signal_of_somebody_else_is_lost() {
    let exit = Run::sh("kill -SEGV $$").end();
    assert_eq!(
        (&exit["ended"], &exit["signal"]),
        (&json!("lost"), &json!(11))
    );
}

#[test]
fn the_agent_gets_the_given_environment_and_three_descriptors() {
    let mut run = Run::new(&["/usr/bin/env"]);
    run.job["env"] = json!({ "PATH": PATH, "AGENT_KEY": "k" });
    run.end();
    let text = run.text();
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let [id, dir] = [
        format!("REMAND_RUN={}", run.run_id),
        format!("REMAND_RUN_DIR={}", run.dir.path().display()),
    ];
    assert_eq!(lines, ["AGENT_KEY=k", &format!("PATH={PATH}"), &id, &dir]);

    let run = Run::sh("for f in /proc/$$/fd/*; do if [ -e $f ]; then echo ${f##*/}; fi; done");
    run.end();
    assert_eq!(run.text(), "0\n1\n2\n");
}

#[test]
fn files_are_for_the_owner_alone() {
    use std::os::unix::fs::MetadataExt as _;
    let run = Run::sh("echo out; echo err >&2");
    run.end();
    for name in ["exit.json", "stdout.0", "stderr.0", "lock", "shim"] {
        assert_eq!(
            fs::metadata(run.path(name)).unwrap().mode() & 0o077,
            0,
            "{name}"
        );
    }
}

#[test]
fn a_flood_is_read_to_its_end_in_little_memory() {
    let run = Run::sh(
        "head -c 268435456 /dev/zero & head -c 8388608 /dev/zero >&2; wait
         echo last; touch flooded; until [ -e go ]; do sleep 0.02; done",
    );
    let started = Instant::now();
    let shim = run.start();
    until("the flood is over", || run.path("flooded").exists());
    assert!(
        started.elapsed() < Duration::from_secs(30),
        "{:?}",
        started.elapsed()
    );
    let status = fs::read_to_string(format!("/proc/{}/status", shim.child.id())).unwrap();
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    let peak_kb: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak_kb < 32 * 1024, "{peak_kb} kB");
    fs::write(run.path("go"), "").unwrap();
    let exit = shim.end();
    assert_eq!(
        (&exit["stdout_bytes"], &exit["stderr_bytes"]),
        (&json!(268_435_456 + 5), &json!(8_388_608))
    );
    let on_disk: u64 = fs::read_dir(run.dir.path())
        .unwrap()
        .map(|e| e.unwrap().metadata().unwrap().len())
        .sum();
    assert!(on_disk < 4 * 1024 * 1024, "{on_disk}");
}

#[test]
fn bytes_that_are_no_text_are_kept_as_they_are() {
    let run = Run::sh(r"printf '\377\000\033[31mred\r'");
    run.end();
    assert_eq!(run.stdout(), b"\xff\0\x1b[31mred\r");
}

#[test]
fn a_grandchild_that_holds_stdout_delays_nothing() {
    for leave in [
        "sleep 300 &",
        "trap '' TERM; sleep 300 & sleep 300 &",
        "setsid sleep 300 &",
    ] {
        let run = Run::sh(&format!("{leave} echo done"));
        let started = Instant::now();
        let exit = run.end();
        assert!(
            started.elapsed() < Duration::from_secs(4),
            "{leave}: {:?}",
            started.elapsed()
        );
        assert_eq!(
            (&exit["ended"], &exit["status"]),
            (&json!("agent"), &json!(0))
        );
        assert!(exit["leftovers"].as_u64().unwrap() >= 1, "{leave}: {exit}");
        assert_eq!(run.text(), "done\n");
    }
}

/// Like the inner process of bubblewrap, which was reported as left behind.
#[test]
fn whoever_ends_by_itself_soon_after_the_agent_is_not_left_behind() {
    let run = Run::sh("(trap 'touch told' TERM; sleep 0.1; sleep 0.1) & echo done");
    let exit = run.end();
    assert_eq!(
        (&exit["ended"], &exit["leftovers"], &exit["survivors"]),
        (&json!("agent"), &json!(0), &json!(0))
    );
    assert!(!run.path("told").exists());
}

#[test]
fn whoever_ignores_term_or_opens_a_session_is_ended_too() {
    let run = Run::sh(
        "trap '' TERM
         sleep 301 &
         setsid sleep 302 &
         (setsid sh -c 'trap \"\" TERM HUP INT; sleep 303 & env -i sleep 304 & echo $! >bare; wait' &)
         until [ -s bare ]; do sleep 0.01; done
         touch ready; while :; do sleep 1; done",
    )
    .limit("grace", millis(300));
    let mut shim = run.start();
    until("the tree stands", || run.path("ready").exists());
    assert!(is_alive(&run.path("bare")));
    shim.say("stop");
    let exit = shim.end();
    assert_eq!(
        (&exit["ended"], &exit["signal"]),
        (&json!("stopped"), &json!(9))
    );
    assert!(!is_alive(&run.path("bare")));
}

#[test]
fn whoever_forks_again_on_term_is_ended_too() {
    let run = Run::sh(
        "cat >again.sh <<'END'
trap 'setsid sh again.sh & setsid sh again.sh & exit' TERM
touch ready
while :; do sleep 0.1; done
END
         exec sh again.sh",
    )
    .limit("grace", millis(300));
    let mut shim = run.start();
    until("it runs", || run.path("ready").exists());
    shim.say("stop");
    let exit = shim.end();
    assert_eq!(exit["ended"], "stopped");
    assert_eq!(exit["survivors"], 0);
}

#[test]
fn silence_ends_at_the_idle_limit() {
    let run = Run::sh("echo one; sleep 300").limit("idle", millis(400));
    let exit = run.end();
    assert_eq!(
        (&exit["ended"], &exit["signal"]),
        (&json!("idle_limit"), &json!(15))
    );
    assert_eq!(run.text(), "one\n");
}

#[test]
fn output_holds_the_idle_limit_off_but_not_the_total_one() {
    let run = Run::sh("while :; do echo x; sleep 0.05; done")
        .limit("idle", millis(800))
        .limit("total", millis(1600));
    let exit = run.end();
    assert_eq!(exit["ended"], "total_limit");
    assert!(exit["elapsed_ms"].as_u64().unwrap() >= 1600);
}

#[test]
fn an_agent_that_cleans_up_on_term_has_the_time_for_it() {
    let run = Run::sh("trap 'sleep 0.3; echo cleaned; exit 0' TERM; while :; do sleep 0.05; done")
        .limit("idle", millis(200))
        .limit("grace", seconds(20));
    let exit = run.end();
    assert_eq!(
        (&exit["ended"], &exit["status"]),
        (&json!("idle_limit"), &json!(0))
    );
    assert_eq!(run.text(), "cleaned\n");
}

#[test]
fn an_agent_that_stops_itself_is_woken_and_ended() {
    let run = Run::sh("kill -STOP $$; echo woken; sleep 300")
        .limit("idle", millis(300))
        .limit("grace", seconds(20));
    let started = Instant::now();
    let exit = run.end();
    assert_eq!(
        (&exit["ended"], &exit["signal"]),
        (&json!("idle_limit"), &json!(15))
    );
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn the_end_of_the_daemon_is_the_end_of_the_run() {
    let run = Run::sh("setsid sleep 300 & trap '' TERM; touch ready; while :; do sleep 1; done");
    let mut shim = run.start();
    until("it runs", || run.path("ready").exists());
    drop(shim.child.stdin.take());
    let started = Instant::now();
    assert_eq!(shim.end()["ended"], "daemon_gone");
    assert!(
        started.elapsed() < Duration::from_secs(4),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_daemon_that_dies_before_the_start_starts_nothing() {
    let run = Run::sh("touch ran");
    let mut shim = run.start();
    drop(shim.child.stdin.take());
    let ended = shim.end()["ended"].clone();
    // Both orders are possible: the pipe may be closed just before or just after the agent started.
    assert!(ended == "daemon_gone" || ended == "agent", "{ended}");

    let mut child = Command::new(env!("CARGO_BIN_EXE_remand"))
        .arg("__shim")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_signal_to_the_shim_stops_the_run() {
    let run = Run::sh("setsid sleep 300 & kill -TERM $PPID; sleep 300");
    assert_eq!(run.end()["ended"], "stopped");
}

#[test]
fn the_lock_is_held_for_as_long_as_anything_lives() {
    let run = Run::sh("touch ready; sleep 300");
    let mut shim = run.start();
    until("it runs", || run.path("ready").exists());
    let try_lock = || {
        Command::new("flock")
            .arg("-n")
            .arg(run.path("lock"))
            .arg("true")
            .status()
            .unwrap()
            .success()
    };
    assert!(!try_lock());
    assert!(!run.path("exit.json").exists());
    shim.say("stop");
    shim.end();
    assert!(try_lock());
}

#[test]
fn a_folder_that_was_settled_starts_nothing() {
    let run = Run::sh("touch ran");
    fs::write(run.path("settled"), "").unwrap();
    let mut shim = run.start();
    assert!(shim.wait().success());
    assert!(!run.path("ran").exists() && !run.path("exit.json").exists());
}

/// Each line of a shim's life, in order; it is killed at each, and the files on disk must be
/// correct.
#[cfg(feature = "failpoints")]
#[test]
fn a_shim_that_dies_on_any_line_leaves_no_lie() {
    const POINTS: [&str; 9] = [
        "shim_before_lock",
        "shim_after_lock",
        "shim_before_spawn",
        "shim_after_spawn",
        "shim_agent_exited",
        "shim_before_ending",
        "shim_after_ending",
        "shim_before_exit_json",
        "shim_after_exit_json",
    ];
    let script = "env; setsid sleep 300 & touch ran";
    let run = Run::sh(script);
    run.start_with(&[("REMAND_CRASH_LIST", &run.path("list"))])
        .end();
    assert_eq!(
        fs::read_to_string(run.path("list"))
            .unwrap()
            .lines()
            .collect::<Vec<_>>(),
        POINTS
    );
    assert!(!run.text().contains("CRASH"));
    for (line, point) in POINTS.iter().enumerate() {
        let run = Run::sh(script);
        let once = run.path("once");
        let mut shim = run.start_with(&[
            ("REMAND_CRASH_AT", Path::new(point)),
            ("REMAND_CRASH_ONCE", &once),
        ]);
        assert_eq!(shim.wait().code(), None, "{point}");
        assert!(once.exists());
        assert_eq!(run.path("exit.json").exists(), line == 8, "{point}");
        if line < 3 {
            assert!(
                run.alive().is_empty() && !run.path("ran").exists(),
                "{point}"
            );
        }
        until("what the shim left is gone", || {
            let left = run.alive();
            for pid in &left {
                Command::new("kill")
                    .args(["-KILL", &pid.to_string()])
                    .status()
                    .unwrap();
            }
            left.is_empty()
        });
    }
}

#[test]
fn everything_but_the_shim_is_unknown_for_now() {
    let status = Command::new(env!("CARGO_BIN_EXE_remand"))
        .arg("__shim")
        .arg("x")
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(2));
}
