//! Concurrency and prompt wake-ups: a daemon with ticks, commands and `sqlite3`, and its cost while
//! nothing happens.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::play::{Daemon, FIXES, PATIENCE, Play, REVIEWS_FIXED, Script, WAITS_AND_FIXES};

/// Approves everything.
const APPROVES: &str = "says approved fine";

/// Takes a lock for its item and records when it was taken: detects two concurrent or repeated runs
/// of one item.
const LOCKS_ITEM: &str = r#"
mkdir "$PROMPTS/lock.$REMAND_ITEM" || echo "$REMAND_ITEM twice" >>"$PROMPTS/complaints"
mkdir "$PROMPTS/in.$REMAND_CHANGE" || echo "$REMAND_CHANGE is busy" >>"$PROMPTS/complaints"
sleep 0.05
rmdir "$PROMPTS/in.$REMAND_CHANGE"
"#;

/// `remand tick` in a loop, in a separate process, until it is dropped or has done its rounds.
struct Ticking(Child);

impl Ticking {
    fn start(play: &Play, rounds: usize) -> Self {
        let log = std::fs::File::create(play.world.root().join("ticks.log")).unwrap();
        let script = format!(
            "i=0; while [ $i -lt {rounds} ]; do '{}' tick || exit 1; i=$((i + 1)); done",
            env!("CARGO_BIN_EXE_remand")
        );
        let mut command = play.world.command("sh");
        Self(
            command
                .arg("-c")
                .arg(script)
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap(),
        )
    }

    fn wait(mut self, play: &Play) {
        let status = self.0.wait().unwrap();
        let log = std::fs::read_to_string(play.world.root().join("ticks.log")).unwrap_or_default();
        assert!(status.success(), "a tick failed: {log}");
    }

    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn is_long() -> bool {
    std::env::var_os("REMAND_LONG").is_some_and(|value| !value.is_empty())
}

/// NFR-2: the evaluator sees the same rejections a thousand times, in three concurrent processes,
/// and its cursor is reset all the time: one row and one item for each.
#[test]
fn a_thousand_looks_at_one_rejection_make_one_fix() {
    let play = Play::new(&Script {
        reviewer: APPROVES,
        ..Script::default()
    });
    let changes: Vec<String> = std::iter::once("c1".to_owned())
        .chain((2..=5).map(|n| play.another(&format!("b{n}")).0))
        .collect();
    play.tick().report();
    for change in &changes {
        // So that nothing is run: only the evaluator is at work.
        play.world.remand(&["pause", change]).ok();
    }
    let rounds = if is_long() { 500 } else { 40 };
    let daemon = play.daemon();
    let mut ticking = [Ticking::start(&play, rounds), Ticking::start(&play, rounds)];
    let conn = rusqlite::Connection::open(play.world.db()).unwrap();
    conn.busy_timeout(Duration::from_secs(10)).unwrap();
    let mut forgotten = 0;
    while forgotten < 1000 || !ticking.iter_mut().all(Ticking::is_over) {
        if let Some(change) = changes.get(forgotten / 10).filter(|_| forgotten % 10 == 0) {
            play.insert("work_rejected", "change", change, "it is wrong");
        }
        conn.execute("UPDATE evaluators SET cursor = 0", [])
            .unwrap();
        forgotten += 1;
        std::thread::sleep(Duration::from_millis(5));
    }
    for ticking in ticking {
        ticking.wait(&play);
    }
    assert!(daemon.stop().success());
    play.tick().report();
    assert_eq!(play.count("events WHERE event_type = 'work_rejected'"), 5);
    assert_eq!(play.count("rejections"), 5);
    assert_eq!(play.count("events WHERE event_type = 'fix_created'"), 5);
    assert_eq!(play.world.sqlite("SELECT group_concat(n, ' ') FROM (SELECT count(*) AS n FROM work_items WHERE source = 'review_fix' GROUP BY change_id)"), "1 1 1 1 1");
    println!(
        "{} ticks beside a daemon, the cursor put back {forgotten} times",
        2 * rounds
    );
    play.check();
}

/// NFR-2: a daemon and two ticking processes, on ten changes: every item runs exactly once, and no
/// two run in one worktree.
#[test]
fn a_daemon_and_two_that_tick_run_every_item_once() {
    let reviewer = format!("{LOCKS_ITEM}\n{REVIEWS_FIXED}");
    let fixer = format!("{LOCKS_ITEM}\n{FIXES}");
    let tables = "[dispatch]\nslots = 3\n";
    let play = Play::new(&Script {
        reviewer: &reviewer,
        fixer: &fixer,
        tables,
        ..Script::default()
    });
    for n in 2..=10 {
        play.another(&format!("b{n}"));
    }
    let daemon = play.daemon();
    let ticking = [Ticking::start(&play, 3), Ticking::start(&play, 3)];
    let mut most = 0;
    play.until("all ten are approved", || {
        let held = "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM work_items WHERE status = 'claimed' GROUP BY claimed_by)";
        most = most.max(play.world.sqlite(held).parse::<i64>().unwrap());
        play.count("changes WHERE state = 'ready_for_human_review'") == 10
    });
    for ticking in ticking {
        ticking.wait(&play);
    }
    assert!(daemon.stop().success());
    assert_eq!(play.noted("complaints"), "");
    assert!(most <= 3, "{most} at once in one process");
    assert_eq!(
        play.world
            .sqlite("SELECT source || ' ' || count(*) FROM work_items GROUP BY source"),
        "code_review 20\nreview_fix 10"
    );
    assert_eq!(
        play.count("work_items WHERE status <> 'completed' OR attempt <> 1 OR epoch <> 1"),
        0
    );
    assert_eq!(play.count("runs"), 30);
    assert_eq!(play.count("changes WHERE total_fixes <> 1"), 0);
    play.check();
}

/// One daemon per blackboard: the second is refused with the first one's pid, and the first
/// continues.
#[test]
fn a_second_daemon_is_refused_with_the_pid_of_the_first() {
    let play = Play::without_change(&Script::default());
    let daemon = play.daemon();
    let refused = play.world.remand(&["run"]);
    refused.fails(5, &format!("(pid {})", daemon.pid()));
    play.world.remand_in(&play.worktree, &["review"]).ok();
    play.wait_for_state("ready_for_human_review");
    daemon.kill();
    // The lock of a dead process does not count.
    assert!(play.daemon().stop().success());
}

/// Three rejections arrive while a fix runs, two by the CLI and one by hand: all of them are in the
/// next fix, which is one.
#[test]
fn what_arrives_during_a_fix_goes_into_the_next_one() {
    let play = Play::new(&Script {
        fixer: WAITS_AND_FIXES,
        ..Script::default()
    });
    let daemon = play.daemon();
    play.until("the fix begins", || !play.noted("began").is_empty());
    play.world
        .remand(&["reject", "c1", "--text", "the first word"])
        .ok();
    play.world
        .remand(&["reject", "c1", "--text", "the second word"])
        .ok();
    play.insert("work_rejected", "change", "c1", "the third, by hand");
    play.wait_for(
        "SELECT count(*) FROM rejections WHERE state = 'pending'",
        "3",
    );
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix'"),
        1,
        "nothing new while one is under way"
    );
    assert_eq!(play.state(), "refining");
    play.let_go("go");
    play.wait_for(
        "SELECT count(*) FROM work_items WHERE source = 'review_fix' AND status = 'completed'",
        "2",
    );
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 2);
    assert_eq!(play.world.sqlite("SELECT item_id || ' ' || count(*) || ' ' || group_concat(DISTINCT state) FROM rejections GROUP BY item_id ORDER BY 1"), "w2 1 fixed\nw4 3 fixed");
    let run = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE item_id = 'w4'");
    let prompt = play.prompt_of_run(&run);
    for word in ["the first word", "the second word", "the third, by hand"] {
        assert!(prompt.contains(word), "{word:?} is not in {prompt}");
    }
    play.check();
}

/// A rejection that arrives while a review is queued or runs waits for its end, then both are in
/// one fix.
#[test]
fn a_rejection_during_a_review_waits_for_its_end() {
    let reviewer = format!(
        "echo x >\"$PROMPTS/reviewing\"\nuntil [ -e \"$PROMPTS/go\" ]; do sleep 0.02; done\n{REVIEWS_FIXED}"
    );
    let play = Play::new(&Script {
        reviewer: &reviewer,
        ..Script::default()
    });
    // Queued.
    play.world
        .remand(&["reject", "c1", "--text", "while it was queued"])
        .ok();
    assert_eq!(play.world.sqlite("SELECT state FROM rejections"), "pending");
    let daemon = play.daemon();
    play.until("the review begins", || !play.noted("reviewing").is_empty());
    // Running.
    play.insert("work_rejected", "work_item", "w1", "while it ran");
    play.wait_for(
        "SELECT count(*) FROM rejections WHERE state = 'pending'",
        "2",
    );
    assert_eq!(play.count("work_items"), 1);
    play.let_go("go");
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    assert_eq!(
        play.count("rejections WHERE item_id = 'w2' AND state = 'fixed'"),
        3
    );
    let prompt = play.prompt_of_run("r2");
    for word in ["while it was queued", "while it ran", "say fixed here"] {
        assert!(prompt.contains(word), "{word:?} is not in {prompt}");
    }
    play.check();
}

/// Origin of the event of a rejection.
#[derive(Clone, Copy, Debug)]
enum By {
    OurCli,
    AnotherProcess,
    BareInsert,
}

/// An idle daemon acts on an event whoever appended it, and of a hundred none is lost. It looks by
/// itself only once an hour here. How soon it acts is measured by `cargo bench --bench large`.
#[test]
fn an_idle_daemon_is_woken_by_whoever_appends_an_event() {
    let tables =
        "[loop]\nmax_fix_cycles = 100\nmax_total_fixes = 100\n[heartbeat]\nlook_s = 3600\n";
    let play = Play::new(&Script {
        reviewer: APPROVES,
        tables,
        ..Script::default()
    });
    play.tick().report();
    let bare = rusqlite::Connection::open(play.world.db()).unwrap();
    bare.busy_timeout(Duration::from_secs(10)).unwrap();
    // Paused changes: their fix is created, and nothing is run.
    for n in 2..=35 {
        play.another(&format!("b{n}"));
    }
    play.tick().report();
    bare.execute(
        "UPDATE changes SET paused_by_person = 1 WHERE change_id <> 'c35'",
        [],
    )
    .unwrap();
    let daemon = play.daemon();
    for by in [By::OurCli, By::AnotherProcess, By::BareInsert] {
        for n in 1..=34 {
            is_acted_on(&play, &bare, by, &format!("c{n}"));
        }
    }
    assert_eq!(
        play.count("events WHERE event_type = 'fix_created'"),
        2 * 34,
        "none of them is lost"
    );
    assert!(daemon.stop().success());
}

/// A commit that becomes visible while the daemon acts on another one causes no further
/// notification: it is still detected, long before the periodic check.
#[test]
fn a_commit_that_shows_late_is_not_missed() {
    let tables = "[heartbeat]\nlook_s = 3600\n";
    let play = Play::new(&Script {
        reviewer: APPROVES,
        tables,
        ..Script::default()
    });
    play.tick().report();
    let daemon = play.daemon();
    let bare = rusqlite::Connection::open(play.world.db()).unwrap();
    bare.busy_timeout(Duration::from_secs(10)).unwrap();
    for round in 0..150 {
        // Both are skipped, each with an event, which is a commit of the daemon itself.
        let targets = [format!("no{round}a"), format!("no{round}b")];
        for target in &targets {
            let sql = "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('work_rejected', 'change', ?1, 'no')";
            bare.execute(sql, [target]).unwrap();
        }
        let id = bare.last_insert_rowid().to_string();
        wait_for_event(&bare, "skipped", &id);
    }
    assert!(daemon.stop().success());
}

/// Appends an event and waits until the daemon has acted on it.
fn is_acted_on(play: &Play, bare: &rusqlite::Connection, by: By, change: &str) {
    let before: i64 = count_fixes(bare, change);
    match by {
        // Most commands run a pass in the same transaction; an item of an unsupported source waits
        // for a dispatcher, which leaves it alone, with one event.
        By::OurCli => {
            let added = play
                .world
                .json(&["item", "add", "feedback_analysis", "--change", "c35"]);
            return wait_for_event(bare, "skipped", added["item_id"].as_str().unwrap());
        }
        By::AnotherProcess => play.insert("work_rejected", "change", change, "no"),
        By::BareInsert => {
            let sql = "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('work_rejected', 'change', ?1, 'no')";
            bare.execute(sql, [change]).unwrap();
        }
    }
    let what = format!("a fix for the event of {change}, by {by:?}");
    play.until(&what, || count_fixes(bare, change) > before);
    // Resets for the next: the fix is finished, and the change is approved again.
    let reset = "UPDATE rejections SET state = 'skipped', reason = 'measured' WHERE change_id = '{}' AND state = 'in_fix';
        UPDATE work_items SET status = 'cancelled', completed_at = created_at WHERE change_id = '{}' AND status = 'blocked' AND source = 'review_fix';
        UPDATE changes SET state = 'ready_for_human_review' WHERE change_id = '{}'";
    bare.execute_batch(&reset.replace("{}", change)).unwrap();
}

fn count_fixes(conn: &rusqlite::Connection, change: &str) -> i64 {
    let sql = "SELECT count(*) FROM events WHERE event_type = 'fix_created' AND change_id = ?1";
    conn.query_row(sql, [change], |row| row.get(0)).unwrap()
}

fn wait_for_event(conn: &rusqlite::Connection, event_type: &str, target: &str) {
    let begun = Instant::now();
    let sql = "SELECT EXISTS (SELECT 1 FROM events WHERE event_type = ?1 AND target_id = ?2)";
    while !conn
        .query_row(sql, [event_type, target], |row| row.get::<_, bool>(0))
        .unwrap()
    {
        assert!(begun.elapsed() < PATIENCE, "no {event_type} of {target}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// An idle daemon wakes up a few times a second, and writes nothing at all. Its CPU time is measured
/// by `cargo bench --bench large`.
#[test]
fn an_idle_daemon_costs_next_to_nothing() {
    let play = Play::new(&Script::default());
    play.tick().report();
    let daemon = play.daemon();
    let quiet = Quiet::begins(&play, &daemon);
    play.becomes_quiet(&daemon);
    let files = descriptors(daemon.pid());
    quiet.ends(&play, &daemon);
    assert!(
        files.is_none_or(|files| files <= 30),
        "{files:?} descriptors"
    );
    assert!(daemon.stop().success());
}

/// Ten quiet ticks do not write a byte.
#[test]
fn a_quiet_tick_writes_nothing() {
    let play = Play::new(&Script::default());
    play.tick().report();
    // An open connection keeps the last one that closes from cleaning up the log.
    let open = rusqlite::Connection::open(play.world.db()).unwrap();
    let version = |conn: &rusqlite::Connection| -> i64 {
        conn.query_row("PRAGMA data_version", [], |row| row.get(0))
            .unwrap()
    };
    play.tick().report();
    let before = (bytes(&play.world.db()), version(&open));
    for _ in 0..10 {
        play.tick().report();
    }
    assert!(
        before == (bytes(&play.world.db()), version(&open)),
        "a quiet tick wrote something"
    );
}

/// An idle daemon keeps a schedule by itself, which costs nothing between its times.
#[test]
fn a_schedule_is_kept_while_nothing_happens() {
    let play = Play::new(&Script::default());
    play.tick().report();
    let folder = play.world.root().join("config/remand/evaluators");
    std::fs::create_dir(&folder).unwrap();
    let every_two = "kind = \"review_feedback\"\non = [\"work_rejected\", \"work_approved\"]\nschedule = \"*/2 * * * * *\"\n";
    std::fs::write(folder.join("review_feedback.toml"), every_two).unwrap();
    let daemon = play.daemon();
    let runs = "SELECT last_run FROM evaluators WHERE name = 'review_feedback'";
    let mut seen = std::collections::BTreeSet::new();
    play.until("three firings", || {
        seen.insert(play.world.sqlite(runs));
        seen.len() >= 4
    });
    assert!(daemon.stop().success());

    // After it is removed, its last time stays on the blackboard and is not used any more.
    std::fs::remove_file(folder.join("review_feedback.toml")).unwrap();
    let daemon = play.daemon();
    play.becomes_quiet(&daemon);
    assert!(daemon.stop().success());
}

/// The blackboard at the start of an idle period.
struct Quiet {
    conn: rusqlite::Connection,
    version: i64,
    bytes: (Vec<u8>, Vec<u8>),
    written: u64,
}

impl Quiet {
    fn begins(play: &Play, daemon: &Daemon) -> Self {
        let conn = rusqlite::Connection::open(play.world.db()).unwrap();
        // Start-up is complete when its CPU time stops increasing.
        let mut last = 0;
        play.until("the daemon has nothing to do", || {
            std::thread::sleep(Duration::from_millis(300));
            let now = written(daemon.pid());
            std::mem::replace(&mut last, now) == now
        });
        let version = conn
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .unwrap();
        Self {
            conn,
            version,
            bytes: bytes(&play.world.db()),
            written: written(daemon.pid()),
        }
    }

    fn ends(self, play: &Play, daemon: &Daemon) {
        let version: i64 = self
            .conn
            .query_row("PRAGMA data_version", [], |row| row.get(0))
            .unwrap();
        assert_eq!(version, self.version, "something was committed");
        assert!(
            bytes(&play.world.db()) == self.bytes,
            "the blackboard's files have changed"
        );
        let written = written(daemon.pid()) - self.written;
        println!("idle: {written} bytes written");
    }
}

/// The database and its write-ahead log.
fn bytes(db: &Path) -> (Vec<u8>, Vec<u8>) {
    let wal = format!("{}-wal", db.display());
    (
        std::fs::read(db).unwrap(),
        std::fs::read(wal).unwrap_or_default(),
    )
}

/// Returns the number of descriptors. Only root sees those of a daemon.
fn descriptors(pid: u32) -> Option<usize> {
    std::fs::read_dir(format!("/proc/{pid}/fd"))
        .ok()
        .map(Iterator::count)
}

fn written(pid: u32) -> u64 {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    io.lines()
        .find_map(|line| line.strip_prefix("wchar: ")?.parse().ok())
        .unwrap_or(0)
}

/// A manually inserted event is like any other: for the change, for an item of it, and an approval
/// too.
#[test]
fn an_event_made_by_hand_is_picked_up_like_any_other() {
    let play = Play::new(&Script {
        reviewer: APPROVES,
        fixer: "cat >/dev/null\necho \"$REMAND_ITEM\" >>work.txt\n",
        ..Script::default()
    });
    play.tick().report();
    play.insert("work_rejected", "change", "c1", "the retry loop never ends");
    play.tick().report();
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix' AND status = 'completed'"),
        1
    );
    assert!(
        play.prompt_of_run("r2")
            .contains("the retry loop never ends")
    );
    assert_eq!(
        play.world.sqlite("SELECT by_person FROM rejections"),
        "1",
        "whoever types in sqlite3 is a person"
    );

    play.insert("work_rejected", "work_item", "w1", "and it leaks");
    play.tick().report();
    assert_eq!(
        play.count("work_items WHERE source = 'review_fix' AND status = 'completed'"),
        2
    );
    assert_eq!(play.state(), "ready_for_human_review");

    play.insert("work_approved", "change", "c1", "good enough");
    play.tick().report();
    assert_eq!(play.state(), "approved");
    let by = play.world.sqlite(
        "SELECT actor_id FROM events WHERE event_type = 'state_changed' ORDER BY id DESC LIMIT 1",
    );
    assert_eq!(by, "operator");
    play.check();
}

/// An event about something that does not exist gives one `skipped` event, and only one.
#[test]
fn an_event_about_nothing_is_skipped_once() {
    let play = Play::new(&Script {
        reviewer: APPROVES,
        ..Script::default()
    });
    play.tick().report();
    for (target_type, target) in [
        ("change", "c99"),
        ("work_item", "w99"),
        ("blackboard", "c1"),
    ] {
        play.insert("work_rejected", target_type, target, "no");
    }
    play.tick().report();
    play.tick().report();
    let told = "SELECT summary FROM events WHERE event_type = 'skipped' ORDER BY id";
    let first = play
        .world
        .sqlite("SELECT min(id) FROM events WHERE event_type = 'work_rejected'")
        .parse::<i64>()
        .unwrap();
    let expected: Vec<String> = ["change `c99`", "work_item `w99`", "blackboard `c1`"]
        .iter()
        .zip(first..)
        .map(|(what, id)| {
            format!("event {id} (work_rejected) created no work item: unknown {what}")
        })
        .collect();
    assert_eq!(play.world.sqlite(told), expected.join("\n"));
    assert_eq!(play.count("rejections"), 0);
    play.check();
}

/// Values that SQLite accepts and remand cannot represent must not stop the loop for everything
/// else forever.
#[test]
fn an_event_that_cannot_be_read_stops_nobody() {
    let play = Play::new(&Script {
        reviewer: APPROVES,
        ..Script::default()
    });
    play.tick().report();
    for (actor, summary, metadata) in [
        ("'bob'", "'too big a number'", r#"'{"findings": 1e999}'"#),
        ("'bob'", "'half a character'", r#"'{"body": "\ud800"}'"#),
        ("'bob'", "CAST(x'ff6e6f' AS TEXT)", "'{}'"),
        ("CAST(x'ff' AS TEXT)", "'no name'", "'{}'"),
    ] {
        play.world.sqlite(&format!(
            "INSERT INTO events (event_type, target_type, target_id, actor_id, summary, metadata)
             VALUES ('work_rejected', 'change', 'c99', {actor}, {summary}, {metadata})"
        ));
    }
    play.insert("work_rejected", "change", "c1", "plainly wrong");
    play.world.sqlite(
        r#"INSERT INTO events (event_type, target_type, target_id, summary, metadata)
           VALUES ('work_rejected', 'change', 'c1', 'wrong too', '{"findings": 1e999}')"#,
    );
    play.tick().report();
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    assert_eq!(play.count("rejections WHERE state = 'fixed'"), 2);
    let prompt = play.prompt_of_run("r2");
    assert!(
        prompt.contains("plainly wrong") && prompt.contains("wrong too"),
        "{prompt}"
    );
    assert_eq!(
        play.count("events WHERE event_type = 'skipped' AND target_type = 'event'"),
        4
    );
    play.world.remand(&["events"]).ok();
    play.world.remand(&["why", "c1"]).ok();
    play.check();
}

/// SQLite itself refuses impossible values, with a message that gives the reason.
#[test]
fn what_cannot_be_is_refused_by_the_blackboard_itself() {
    let play = Play::new(&Script::default());
    play.tick().report();
    let event = |columns: &str, values: &str| {
        format!(
            "INSERT INTO events (event_type, target_type, target_id, summary{columns}) VALUES ({values})"
        )
    };
    for (sql, said) in [
        (
            event("", "'work_rejekted', 'change', 'c1', 'x'"),
            "unknown event_type; the types are listed above CREATE TABLE events",
        ),
        (
            event("", "'work_rejected', 'chnge', 'c1', 'x'"),
            "CHECK constraint failed: target_type IN",
        ),
        (
            event(", metadata", "'work_rejected', 'change', 'c1', 'x', '{bad'"),
            "CHECK constraint failed: json_valid(metadata)",
        ),
        (
            event(", metadata", "'work_rejected', 'change', 'c1', 'x', '[]'"),
            "CHECK constraint failed: json_valid(metadata)",
        ),
        (
            event(
                ", timestamp",
                "'work_rejected', 'change', 'c1', 'x', '2026-02-30T00:00:00.000Z'",
            ),
            "CHECK constraint failed: timestamp",
        ),
        (
            event(
                "",
                "'work_rejected', 'change', 'c1', hex(zeroblob(9000000))",
            ),
            "CHECK constraint failed: length(CAST(summary AS BLOB))",
        ),
        (
            event(
                ", timestamp",
                "'work_rejected', 'change', 'c1', 'x', 'yesterday'",
            ),
            "CHECK constraint failed: timestamp",
        ),
        (
            "UPDATE events SET summary = 'nicer' WHERE id = 1".into(),
            "events are facts: append another one, never change one",
        ),
        (
            "DELETE FROM events WHERE id = 1".into(),
            "events are facts: they are never deleted",
        ),
        (
            "UPDATE changes SET state = 'done'".into(),
            "CHECK constraint failed: state IN",
        ),
        (
            "UPDATE changes SET fix_cycle = max_fix_cycles + 1".into(),
            "CHECK constraint failed: fix_cycle <= max_fix_cycles",
        ),
        (
            "UPDATE changes SET total_fixes = max_total_fixes + 1".into(),
            "CHECK constraint failed: total_fixes <= max_total_fixes",
        ),
        (
            "UPDATE changes SET state = 'escalated'".into(),
            "CHECK constraint failed: (state = 'escalated') = (escalated_from IS NOT NULL)",
        ),
        (
            "UPDATE work_items SET status = 'running'".into(),
            "CHECK constraint failed: status IN",
        ),
        (
            "UPDATE work_items SET status = 'claimed', completed_at = NULL".into(),
            "CHECK constraint failed: (status = 'claimed') = (claimed_by IS NOT NULL)",
        ),
        (
            "UPDATE work_items SET status = 'failed', failure_reason = NULL".into(),
            "CHECK constraint failed: status <> 'failed' OR failure_reason IS NOT NULL",
        ),
        (
            "UPDATE work_items SET priority = 'P0'".into(),
            "CHECK constraint failed: priority IN",
        ),
        (
            "UPDATE rejections SET state = 'forgotten'".into(),
            "CHECK constraint failed: state IN",
        ),
    ] {
        let refusal = play.refused(&sql);
        assert!(
            refusal.contains(said),
            "{sql}: {refusal:?} does not say {said:?}"
        );
    }
    play.check();
}
