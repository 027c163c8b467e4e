//! A blackboard with a long past: how long a person waits for an answer, a daemon for its start, and the loop for its
//! commits while the blackboard is copied or pruned. `cargo bench --bench large` prints a table and says which figure
//! misses its target; docs/performance.md has those of one machine.
//!
//! `-- --events 100000` makes a smaller past, `-- --keep DIR` leaves the blackboard there, `-- --program FILE` measures
//! another program than the one that cargo built.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a bench is a test: it may fail, print, and start children"
)]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

const CHANGES: usize = 1_000;

/// Maximum time of `list` with as many live changes, in times of `status`.
const LIST: f64 = 4.0;

fn main() {
    let mut events = 1_000_000;
    let mut keep = None;
    let mut program = PathBuf::from(env!("CARGO_BIN_EXE_remand"));
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--events" => events = args.next().unwrap().parse().unwrap(),
            "--program" => program = args.next().map(PathBuf::from).unwrap(),
            "--keep" => keep = args.next().map(PathBuf::from),
            // What cargo passes on.
            _ => {}
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        root: keep.unwrap_or_else(|| folder.path().to_owned()),
        program,
    };
    let begun = Instant::now();
    place.fill(PAST, events);
    println!(
        "{CHANGES} changes, {events} events, {} MB, made in {:.1} s\n",
        place.size() / 1_000_000,
        begun.elapsed().as_secs_f64()
    );
    println!("{:<44} {:>10} {:>12}", "figure", "target", "measured");
    let mut table = Table { missed: 0 };
    for args in [
        &["status"][..],
        &["list"],
        &["why", "c1"],
        &["status", "c1"],
        &["events"],
        &["events", "--change", "c1"],
    ] {
        let target = (args == ["status"]).then_some(25.0);
        table.row(
            &format!("remand {}, p50 of 30", args.join(" ")),
            target,
            place.p50(30, args),
        );
    }
    table.row(
        "remand run until ready, p50 of 5",
        Some(300.0),
        place.start_up(5),
    );

    let daemon = place.daemon();
    let alone = place.appends_while(|| thread::sleep(Duration::from_secs(3)));
    table.row("append beside the idle daemon, p50", None, alone.at(50));
    table.row("append beside the idle daemon, p99", None, alone.at(99));
    let copy = place.root.join("copy.db");
    let during = place.appends_while(|| place.ok(&["backup", "--force", copy.to_str().unwrap()]));
    table.row("backup beside the daemon and appends", None, during.took);
    table.row("append during the backup, p99", None, during.at(99));
    let during = place.appends_while(|| place.ok(&["prune", "--older-than", "90d"]));
    table.row("prune of 900 changes beside them", None, during.took);
    table.row("append during the prune, p99", None, during.at(99));
    table.row("append during the prune, longest", None, during.at(100));
    drop(daemon);
    let begun = Instant::now();
    // The past is made up, and so are the moves in it: only the time counts.
    place.remand(&["check"]).output().unwrap();
    table.row("check of what is left", None, ms(begun.elapsed()));

    let folder = tempfile::tempdir().unwrap();
    let place = Place {
        root: folder.path().to_owned(),
        program: place.program,
    };
    place.fill(LIVE, 100 * CHANGES);
    println!("\n{CHANGES} live changes with 100 events each");
    let status = place.p50(30, &["status"]);
    table.row("remand status, p50 of 30", None, status);
    for args in [&["list"][..], &["list", "--limit", "1000"]] {
        let figure = format!("remand {}, p50 of 30", args.join(" "));
        table.row(&figure, Some((LIST * status).round()), place.p50(30, args));
    }
    assert_eq!(table.missed, 0, "figures that miss their target");
}

struct Table {
    missed: usize,
}

impl Table {
    fn row(&mut self, figure: &str, target: Option<f64>, measured: f64) {
        let missed = target.is_some_and(|target| measured > target);
        self.missed += usize::from(missed);
        let target = target.map_or_else(String::new, |target| format!("≤ {target} ms"));
        println!(
            "{figure:<44} {target:>10} {measured:>9.1} ms{}",
            if missed { "  MISSED" } else { "" }
        );
    }
}

struct Place {
    root: PathBuf,
    program: PathBuf,
}

/// How long each append took while something went on, and how long that was.
struct Appends {
    took: f64,
    sorted: Vec<f64>,
}

impl Appends {
    fn at(&self, percent: usize) -> f64 {
        self.sorted[(self.sorted.len() * percent / 100).min(self.sorted.len() - 1)]
    }
}

impl Place {
    fn db(&self) -> PathBuf {
        self.root.join("state/remand/blackboard.db")
    }

    fn size(&self) -> u64 {
        fs::metadata(self.db()).unwrap().len()
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.root.join("home"))
            .env("XDG_CONFIG_HOME", self.root.join("config"))
            .env("XDG_STATE_HOME", self.root.join("state"))
            .current_dir(&self.root)
            .stdin(Stdio::null());
        command
    }

    fn remand(&self, args: &[&str]) -> Command {
        let mut command = self.command(&self.program);
        command.args(args);
        command
    }

    fn ok(&self, args: &[&str]) {
        let output = self.remand(args).output().unwrap();
        // 5: a change needs a person.
        assert!(
            matches!(output.status.code(), Some(0 | 5)),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn p50(&self, times: usize, args: &[&str]) -> f64 {
        let mut taken: Vec<f64> = (0..times)
            .map(|_| {
                let begun = Instant::now();
                self.ok(args);
                ms(begun.elapsed())
            })
            .collect();
        taken.sort_by(f64::total_cmp);
        taken[times / 2]
    }

    fn daemon(&self) -> Daemon {
        let mut child = self
            .remand(&["run"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("remand is ready"), "{line:?}");
        Daemon { child }
    }

    fn start_up(&self, times: usize) -> f64 {
        let mut taken: Vec<f64> = (0..times)
            .map(|_| {
                let begun = Instant::now();
                let daemon = self.daemon();
                let taken = ms(begun.elapsed());
                drop(daemon);
                taken
            })
            .collect();
        taken.sort_by(f64::total_cmp);
        taken[times / 2]
    }

    /// Appends an event every few milliseconds, as a busy loop does, while `what` goes on.
    fn appends_while(&self, what: impl FnOnce()) -> Appends {
        let is_over = Arc::new(AtomicBool::new(false));
        let (stop, db) = (Arc::clone(&is_over), self.db());
        let appender = thread::spawn(move || {
            let conn = open(&db);
            let mut taken = Vec::new();
            while !stop.load(Ordering::Relaxed) || taken.len() < 10 {
                let begun = Instant::now();
                conn.execute(
                    "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('instructed', 'change', 'c1', 'a word')",
                    [],
                )
                .unwrap();
                taken.push(ms(begun.elapsed()));
                thread::sleep(Duration::from_millis(4));
            }
            taken
        });
        let begun = Instant::now();
        what();
        let took = ms(begun.elapsed());
        is_over.store(true, Ordering::Relaxed);
        let mut sorted = appender.join().unwrap();
        sorted.sort_by(f64::total_cmp);
        Appends { took, sorted }
    }

    /// Rows as the loop would have left them: 1,000 `changes`, each with items, runs, reviews, findings, rejections, and its share of the events.
    fn fill(&self, changes: &str, events: usize) {
        for folder in ["home", "config", "state", "site"] {
            fs::create_dir_all(self.root.join(folder)).unwrap();
        }
        let site = self.root.join("site");
        for args in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &[
                "-c",
                "user.name=Ada",
                "-c",
                "user.email=ada@example.org",
                "commit",
                "--quiet",
                "--allow-empty",
                "-m",
                "first",
            ],
        ] {
            assert!(
                self.command("git")
                    .args(args)
                    .current_dir(&site)
                    .status()
                    .unwrap()
                    .success()
            );
        }
        self.ok(&["project", "add", site.to_str().unwrap()]);
        let conn = open(&self.db());
        conn.pragma_update(None, "synchronous", "off").unwrap();
        conn.pragma_update(None, "cache_size", -400_000).unwrap();
        let each = (events / CHANGES).max(20);
        conn.execute_batch(
            &format!("{changes}{NUMBERS}{ROWS}")
                .replace("EACH", &each.to_string())
                .replace("CHANGES", &CHANGES.to_string()),
        )
        .unwrap();
        conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .unwrap();
    }
}

struct Daemon {
    child: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// As the blackboard's own connections are.
fn open(db: &Path) -> Connection {
    let mut conn = Connection::open(db).unwrap();
    conn.pragma_update(None, "synchronous", "full").unwrap();
    conn.busy_handler(Some(|tries| {
        thread::sleep(Duration::from_millis(1));
        tries < 30_000
    }))
    .unwrap();
    conn
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// 900 changes ended long ago, 60 are ready, 30 wait for a person and 10 are under review.
const PAST: &str = "
BEGIN;
CREATE TEMP TABLE c AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CHANGES)
    SELECT i, CASE WHEN i = 1 THEN 'escalated' WHEN i <= 900 THEN iif(i % 3, 'merged', 'closed') WHEN i <= 960 THEN 'ready_for_human_review'
        WHEN i <= 990 THEN 'escalated' ELSE 'self_reviewing' END AS state,
        iif(i > 1 AND i <= 900, '2026-01-01T00:00:00.000Z', '2026-11-01T00:00:00.000Z') AS at FROM n;
";

/// Live changes, a tenth of them in each of these states; some are paused or held.
const LIVE: &str = "
BEGIN;
CREATE TEMP TABLE c AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < CHANGES)
    SELECT i, json_extract('[\"ready_for_human_review\", \"escalated\", \"self_reviewing\", \"approved\", \"awaiting_pr_feedback\",
        \"pending_self_review\", \"self_review_passed\", \"pr_created\", \"queued\", \"self_review_failed\"]', '$[' || (i % 10) || ']') AS state,
        '2026-11-01T00:00:00.000Z' AS at FROM n;
CREATE TEMP TRIGGER waits AFTER INSERT ON changes BEGIN
    UPDATE changes SET paused_by_person = NEW.rowid / 10 % 10 = 0, held_until = iif(NEW.rowid / 10 % 10 = 1, '2099-01-01T00:00:00.000Z', NULL),
        hold_reason = iif(NEW.rowid / 10 % 10 = 1, 'the network is down', NULL) WHERE change_id = NEW.change_id;
END;
";

const NUMBERS: &str = "
CREATE TEMP TABLE k AS WITH RECURSIVE n (j) AS (SELECT 1 UNION ALL SELECT j + 1 FROM n WHERE j < EACH) SELECT j FROM n;
";

const ROWS: &str = "
INSERT INTO changes (change_id, project_id, title, branch, base, head, worktree, host, state, escalated_from, max_fix_cycles, fix_cycle,
    total_fixes, max_total_fixes, max_run_ms, decision, created_at, updated_at)
SELECT 'c' || i, 'site', 'Teach the parser trick ' || i, 'feature/' || i, 'main', printf('%040x', i), '/src/site-' || i, 'laptop', state,
    iif(state = 'escalated', 'self_review_failed', NULL), 2, 2, 2, 8, 3600000, iif(state = 'escalated', 'two fixes were not enough', NULL), at, at FROM c;
INSERT INTO work_items (item_id, project_id, change_id, rejection_id, title, source, status, idempotency_key, worktree, epoch, created_at, completed_at,
    claimed_by, lease_expires_at)
SELECT 'w' || (i * 5 + j), 'site', 'c' || i, iif(j % 2, NULL, 'j' || (i * 2 + j / 2)), 'Review or fix', iif(j % 2, 'code_review', 'review_fix'),
    iif(state IN ('self_reviewing', 'pending_self_review') AND j = 5, 'available', 'completed'), 'k' || i || ':' || j, '/src/site-' || i, 1, at,
    iif(state IN ('self_reviewing', 'pending_self_review') AND j = 5, NULL, at), NULL, NULL
FROM c, k WHERE j <= 5;
INSERT INTO runs (run_id, item_id, change_id, worktree, epoch, agent, dir, head_before, started_at, ended_at, ended, exit_status)
SELECT 'r' || (i * 5 + j), 'w' || (i * 5 + j), 'c' || i, '/src/site-' || i, 1, 'claude', '/nowhere/r' || (i * 5 + j), printf('%040x', i), at, at, 'agent', 0
FROM c, k WHERE j <= 4;
INSERT INTO reviews (review_id, change_id, item_id, cycle, head, base, tree, files, lines, verdict, dialect, reason, summary, body, blocking, agent, created_at)
SELECT 'v' || (i * 5 + j), 'c' || i, 'w' || (i * 5 + j), j / 2, printf('%040x', i), 'base', 'tree', '[\"src/parse.rs\"]', 120, 'changes_requested', 'plain',
    'it says so', 'the loop does not end', hex(zeroblob(600)), '[]', 'claude', at
FROM c, k WHERE j <= 4 AND j % 2;
INSERT INTO findings (finding_id, change_id, fingerprint, severity, category, path, line, text, outcome, first_review, last_review)
SELECT 'f' || (i * 5 + j), 'c' || i, 'p' || j, 'high', 'logic', 'src/parse.rs', j, 'the loop does not end when the server answers 503', 'open',
    'v' || (i * 5 + 1), 'v' || (i * 5 + 3)
FROM c, k WHERE j <= 5;
INSERT INTO events (timestamp, event_type, actor_id, target_type, target_id, change_id, summary, metadata)
SELECT at, CASE WHEN j IN (1, EACH) THEN 'state_changed' WHEN j IN (2, 4) THEN 'work_rejected'
        ELSE json_extract('[\"work_created\",\"work_claimed\",\"run_started\",\"run_finished\",\"held\",\"resumed\",\"feedback_received\",\"skipped\"]', '$[' || (j % 8) || ']') END,
    'remand', 'change', 'c' || i, 'c' || i, 'what happened to the change at this step of the loop, in a sentence',
    CASE j WHEN 1 THEN json_object('from', NULL, 'to', iif(state = 'self_reviewing', 'self_reviewing', 'pending_self_review'), 'on', 'entered')
        WHEN EACH THEN json_object('from', 'pending_self_review', 'to', state, 'on', 'x')
        ELSE json_object('item_id', 'w' || (i * 5 + 1), 'epoch', 1, 'attempt', 0, 'holder', 'a boot id, a pid and a start time') END
FROM k, c WHERE NOT (j = EACH AND state = 'self_reviewing') ORDER BY j, i;
INSERT INTO rejections (rejection_id, event_id, change_id, state, item_id, by_person)
SELECT 'j' || (substr(change_id, 2) * 2 + (row_number() OVER (PARTITION BY change_id ORDER BY id)) - 0), id, change_id, 'fixed',
    'w' || (substr(change_id, 2) * 5 + 2 * (row_number() OVER (PARTITION BY change_id ORDER BY id))), 0
FROM events WHERE event_type = 'work_rejected' AND change_id IS NOT NULL;
INSERT INTO evaluators (name, cursor) SELECT 'review_feedback', max(id) FROM events WHERE true
    ON CONFLICT (name) DO UPDATE SET cursor = excluded.cursor;
INSERT INTO counters (name, value) SELECT value, 100000 FROM json_each('[\"c\",\"w\",\"r\",\"v\",\"f\",\"j\"]') WHERE true
    ON CONFLICT (name) DO UPDATE SET value = excluded.value;
COMMIT;
";
