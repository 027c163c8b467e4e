//! `remand prune`: what is deleted, what is kept, next to a daemon, killed, and with confirmation.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::play::{FIXES, Play, Script};
use crate::support::pull_play::{PullPlay, REPO};
use crate::support::{Output, World};

pub(super) const OLD: &str = "2020-01-01T00:00:00.000Z";

/// Makes changes look older: events are immutable, so their trigger is removed for a moment.
pub(crate) fn age(world: &World, changes: &str) {
    let conn = rusqlite::Connection::open(world.db()).unwrap();
    conn.busy_timeout(std::time::Duration::from_secs(30))
        .unwrap();
    let guard: String = conn
        .query_row(
            "SELECT sql FROM sqlite_schema WHERE name = 'events_never_change'",
            [],
            |row| row.get(0),
        )
        .unwrap();
    conn.execute_batch(&format!(
        "BEGIN IMMEDIATE;
         DROP TRIGGER events_never_change;
         UPDATE changes SET updated_at = '{OLD}' WHERE change_id IN ({changes});
         UPDATE events SET timestamp = '{OLD}' WHERE change_id IN ({changes})
             OR target_id IN ({changes}) OR id IN (SELECT event_id FROM rejections WHERE change_id IN ({changes}));
         {guard};
         COMMIT"
    ))
    .unwrap();
}

/// Creates a change that was reviewed, fixed, reviewed again and closed, long ago; and `others`,
/// which are ready.
pub(super) fn with_past(others: &[&str]) -> Play {
    let play = Play::new(&Script::default());
    for branch in others {
        play.another(branch);
    }
    play.tick().report();
    play.is_ready(1 + i64::try_from(others.len()).unwrap());
    play.world.remand(&["cancel", "c1"]).ok();
    age(&play.world, "'c1'");
    play
}

pub(super) fn folders(play: &Play) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(play.world.root().join("state/remand/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    found
}

pub(crate) fn prune(play: &Play, more: &[&str]) -> Output {
    let mut args = vec!["prune", "--older-than", "90d"];
    args.extend(more);
    play.world.remand(&args)
}

/// Asserts that nothing of the change is left except the event that records the deletion.
#[track_caller]
pub(super) fn is_gone(play: &Play, id: &str) {
    let conn = rusqlite::Connection::open(play.world.db()).unwrap();
    let mut tables = conn
        .prepare(
            "SELECT m.name, p.name FROM sqlite_schema m JOIN pragma_table_info(m.name) p
             WHERE m.type = 'table' AND p.name = 'change_id' AND m.name <> 'pruned_pulls'",
        )
        .unwrap();
    let tables: Vec<String> = tables
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(tables.len() > 10, "{tables:?}");
    for table in tables {
        assert_eq!(
            play.count(&format!("{table} WHERE change_id = '{id}'")),
            0,
            "{table}"
        );
    }
    assert_eq!(
        play.count(&format!(
            "events WHERE target_id = '{id}' AND event_type <> 'pruned'"
        )),
        0
    );
    assert_eq!(
        play.count(&format!(
            "events WHERE target_id = '{id}' AND event_type = 'pruned'"
        )),
        1
    );
    play.check();
}

#[test]
fn what_ended_long_ago_goes_and_the_rest_stays() {
    let play = with_past(&["young", "live"]);
    play.world.remand(&["cancel", "young"]).ok();
    let runs = folders(&play);
    let of_past: Vec<String> = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE change_id = 'c1'")
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(of_past.len(), 3, "two reviews and a fix");
    let others = "SELECT * FROM events WHERE change_id IN ('c2', 'c3')";
    let before = play.world.sqlite(others);
    let said: serde_json::Value =
        serde_json::from_str(&prune(&play, &["--json"]).ok().stdout).unwrap();
    assert_eq!(said["pruned"][0]["change_id"], "c1");
    assert_eq!(said["pruned"].as_array().unwrap().len(), 1);
    assert_eq!(said["folders"], 3);
    assert_eq!(said["kept"], serde_json::json!([]));
    is_gone(&play, "c1");
    assert_eq!(play.world.sqlite(others), before);
    assert_eq!(
        folders(&play),
        runs.into_iter()
            .filter(|run| !of_past.contains(run))
            .collect::<Vec<_>>()
    );
    assert_eq!(play.count("sweeps"), 0);
    play.world
        .remand(&["why", "c1"])
        .fails(4, "c1 was pruned at 20");
    play.world
        .remand(&["status", "c1"])
        .fails(4, "c1 was pruned at 20");
    assert!(
        play.worktree.join("work.txt").exists(),
        "a worktree of a person is not ours to remove"
    );
    assert_eq!(
        play.world
            .git(&play.repo, &["branch", "--list", "feature"])
            .trim(),
        "+ feature"
    );
    let again = prune(&play, &[]).ok().stdout;
    assert!(again.starts_with("0 changes pruned"), "{again}");
    // Its branch can be worked on again.
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Again"])
        .ok();
    play.tick().report();
    assert_eq!(
        play.world
            .sqlite("SELECT state FROM changes WHERE change_id = 'c4'"),
        "ready_for_human_review"
    );
    play.check();
}

#[test]
fn a_dry_run_changes_not_a_byte() {
    let play = with_past(&[]);
    let all = |play: &Play| -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut left = vec![
            play.world.root().join("state"),
            play.repo.clone(),
            play.worktree.clone(),
        ];
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(
                    fs::read_dir(&path)
                        .unwrap()
                        .map(|entry| entry.unwrap().path()),
                );
            } else {
                files.push((path.clone(), fs::read(&path).unwrap_or_default()));
            }
        }
        files.sort();
        files
    };
    let before = all(&play);
    let said = prune(&play, &["--dry-run", "--refs"]).ok().stdout;
    assert!(
        said.contains("c1  Feature") && said.contains("1 change would be pruned, with"),
        "{said}"
    );
    let asked: serde_json::Value =
        serde_json::from_str(&prune(&play, &["-n", "--json"]).ok().stdout).unwrap();
    let after = all(&play);
    assert_eq!(before.len(), after.len());
    for (one, other) in before.iter().zip(&after) {
        assert!(one == other, "{} is not as it was", other.0.display());
    }
    // The dry run reported the result.
    let done: serde_json::Value =
        serde_json::from_str(&prune(&play, &["--json"]).ok().stdout).unwrap();
    assert_eq!(asked["pruned"], done["pruned"]);
    assert_eq!(asked["folders"], done["folders"]);
}

#[test]
fn a_prune_that_is_killed_is_gone_on_with() {
    for point in [
        "commit.prune.before",
        "commit.prune.after",
        "commit.prune_events.before",
        "commit.prune_events.after",
        "prune.remnant",
        "prune.remnant#2",
        "commit.swept.before",
    ] {
        let play = with_past(&[]);
        let mut command = play.world.remand_command(&["prune", "--older-than", "90d"]);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "killed at {point}");
        play.world.remand(&["check"]).ok();
        prune(&play, &[]).ok();
        is_gone(&play, "c1");
        assert_eq!(folders(&play), [""; 0], "{point}");
        assert_eq!(play.count("sweeps"), 0, "{point}");
    }
}

#[test]
fn beside_a_daemon_at_work() {
    let old = ["one", "two", "three", "four"];
    let play = with_past(&old);
    for branch in old {
        play.world.remand(&["cancel", branch]).ok();
    }
    let daemon = play.daemon();
    for branch in ["five", "six", "seven"] {
        play.another(branch);
    }
    age(&play.world, "'c1', 'c2', 'c3', 'c4', 'c5'");
    let said = prune(&play, &[]).ok().stdout;
    assert!(said.contains("5 changes pruned"), "{said}");
    play.wait_for(
        "SELECT count(*) FROM changes WHERE state = 'ready_for_human_review'",
        "3",
    );
    for id in ["c1", "c2", "c3", "c4", "c5"] {
        assert_eq!(play.count(&format!("events WHERE change_id = '{id}'")), 0);
    }
    assert!(daemon.stop().success());
    is_gone(&play, "c1");
}

#[test]
fn times_are_hours_days_or_weeks() {
    let world = World::new();
    for text in [
        "90",
        "3m",
        "0d",
        "soon",
        "-1d",
        "1.5d",
        "99999999999999999999w",
    ] {
        let given = format!("--older-than={text}");
        world
            .remand(&["prune", &given])
            .fails(2, "as in 36h, 90d, 12w");
    }
    world.remand(&["prune"]).fails(2, "--older-than <TIME>");
    for text in ["36h", "90d", "12w"] {
        let said = world.remand(&["prune", "--older-than", text]).ok().stdout;
        assert!(said.starts_with("0 changes pruned"), "{said}");
    }
    // A change that ended a moment ago is not an hour old.
    let play = Play::new(&Script::default());
    play.world.remand(&["cancel", "c1"]).ok();
    assert!(
        play.world
            .remand(&["prune", "--older-than", "1h"])
            .ok()
            .stdout
            .starts_with("0 changes pruned")
    );
}

#[test]
fn what_was_said_by_hand_goes_too_and_what_was_not_heard_yet_stays() {
    let play = with_past(&[]);
    play.insert("work_rejected", "change", "c1", "too late");
    age(&play.world, "'c1'");
    let said = prune(&play, &[]).ok().stdout;
    assert!(
        said.contains("c1  kept: it has an unprocessed rejection"),
        "{said}"
    );
    play.tick().report();
    assert!(
        prune(&play, &[])
            .ok()
            .stdout
            .contains("c1  kept: its latest event is from 20")
    );
    age(&play.world, "'c1'");
    prune(&play, &[]).ok();
    is_gone(&play, "c1");
    assert_eq!(play.count("events WHERE summary = 'too late'"), 0);
}

#[test]
fn the_space_is_given_back_when_it_is_asked_for_and_no_daemon_waits() {
    let play = with_past(&[]);
    let text = "x".repeat(1_000_000);
    play.world.sqlite(&format!(
        "INSERT INTO events (timestamp, event_type, target_type, target_id, change_id, summary)
         VALUES ('{OLD}', 'instructed', 'change', 'c1', 'c1', '{}')",
        &text[..100_000]
    ));
    let size = || fs::metadata(play.world.db()).unwrap().len();
    let daemon = play.daemon();
    prune(&play, &["--vacuum"]).fails(1, "a daemon is using it");
    assert!(daemon.stop().success());
    let before = size();
    let said = prune(&play, &["--vacuum"]).ok().stdout;
    assert!(said.contains("the blackboard is now"), "{said}");
    assert!(size() < before - 90_000, "{} of {before}", size());
    is_gone(&play, "c1");
}

#[test]
fn a_pull_request_that_had_its_turn_is_not_taken_over_anew() {
    let script = Script {
        tables: "[projects.calc.discover]\nlabel = \"\"\n",
        ..Script::default()
    };
    let stage = PullPlay::unwatched(&script);
    let play = &stage.play;
    stage.tick();
    assert_eq!(
        play.world.sqlite("SELECT adopted_by FROM changes"),
        "discovery"
    );
    // A person has finished with it here; on the forge it stays open.
    play.world.remand(&["cancel", "c1"]).ok();
    stage.tick();
    age(&play.world, "'c1'");
    let said = prune(play, &[]).ok().stdout;
    assert!(said.contains("1 change pruned"), "{said}");
    is_gone(play, "c1");
    play.world.sqlite("DELETE FROM discoveries");
    stage.tick();
    assert_eq!(play.count("changes"), 0, "{:#?}", play.events());
    let name = format!("{REPO}#1");
    let why = play.world.json(&["why", &name]);
    assert!(
        why["answer"]
            .as_str()
            .unwrap()
            .contains("it was c1, which ended and was pruned"),
        "{why}"
    );
    // A person may adopt it.
    stage.watch();
    assert_eq!(play.world.sqlite("SELECT change_id FROM changes"), "c2");
    stage.tick();
    play.check();
}

/// Creates a pull request whose branch is in no worktree: remand creates one.
fn with_own_worktree() -> (PullPlay, PathBuf) {
    let stage = PullPlay::unwatched(&Script {
        fixer: FIXES,
        ..Script::default()
    });
    let worktree = stage.play.worktree.clone();
    stage.play.world.git(
        &stage.play.repo,
        &["worktree", "remove", worktree.to_str().unwrap()],
    );
    stage
        .play
        .world
        .git(&stage.play.repo, &["branch", "--quiet", "-D", "feature"]);
    let own = stage
        .play
        .world
        .root()
        .join("state/remand/worktrees/calc/pr-1");
    stage.watch();
    stage.tick();
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    assert!(own.join("work.txt").exists());
    stage.forge.close(1);
    stage.tick();
    age(&stage.play.world, "'c1'");
    (stage, own)
}

fn stays_with(stage: &PullPlay, own: &Path, why: &str) {
    let said = prune(&stage.play, &[]).ok().stdout;
    assert!(
        said.contains(&format!(
            "c1  kept: its worktree {} cannot be deleted: {why}",
            own.display()
        )),
        "{said}"
    );
    assert!(own.join("work.txt").exists());
    assert_eq!(stage.play.state(), "closed");
}

#[test]
fn a_worktree_of_ours_goes_with_its_change_and_never_with_work_in_it() {
    let (stage, own) = with_own_worktree();
    let play = &stage.play;
    let head = play.world.git(&own, &["rev-parse", "HEAD"]);
    fs::write(own.join("notes.txt"), "mine").unwrap();
    stays_with(&stage, &own, "it has uncommitted work: notes.txt");
    fs::remove_file(own.join("notes.txt")).unwrap();
    fs::write(own.join("work.txt"), "mine").unwrap();
    stays_with(&stage, &own, "it has uncommitted work: work.txt");
    // Hidden from git, and so from its status.
    play.world
        .git(&own, &["update-index", "--skip-worktree", "work.txt"]);
    stays_with(
        &stage,
        &own,
        "it has a file marked skip-worktree or assume-unchanged: work.txt",
    );
    play.world
        .git(&own, &["update-index", "--no-skip-worktree", "work.txt"]);
    play.world.git(&own, &["checkout", "--quiet", "work.txt"]);
    play.world.git(&own, &["checkout", "--quiet", "-b", "mine"]);
    stays_with(&stage, &own, "it is on mine, not on a detached HEAD");
    play.world.git(&own, &["checkout", "--quiet", "--detach"]);
    play.world.commit(&own, "mine.txt", "mine", "Mine");
    stays_with(&stage, &own, "its commits are not reachable from any ref");
    play.world.git(&own, &["reset", "--quiet", "--hard", &head]);
    let said = prune(play, &["--dry-run"]).ok().stdout;
    assert!(
        said.contains(&format!("worktree {}", own.display())) && own.exists(),
        "{said}"
    );
    // Killed between the two.
    let mut command = play.world.remand_command(&["prune", "--older-than", "90d"]);
    assert_eq!(
        command
            .env("REMAND_CRASH_AT", "prune.worktree.removed")
            .output()
            .unwrap()
            .status
            .code(),
        None
    );
    assert!(!own.exists());
    assert_eq!(play.count("changes"), 0, "its rows went first");
    assert!(play.count("sweeps WHERE kind = 'worktree'") == 1);
    prune(play, &[]).ok();
    assert_eq!(play.count("sweeps"), 0);
    is_gone(play, "c1");
    assert!(
        !play
            .world
            .git(&play.repo, &["worktree", "list"])
            .contains("pr-1")
    );
    assert_eq!(
        play.world
            .git(&play.repo, &["rev-parse", "refs/remand/change/c1"]),
        head,
        "its commits stay"
    );
}
