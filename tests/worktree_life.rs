//! Worktrees of remand after the end of their changes: removed with nothing lost, listed, and
//! removed on request.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::play::{Play, REVIEWS_FIXED, Script};
use crate::support::pull_play::PullPlay;

const OLD: &str = "2020-01-01T00:00:00.000Z";

/// Implements and fixes, and leaves an ignored directory as a set-up would.
const IMPLEMENTS: &str = "cat >/dev/null\necho fixed >>work.txt\necho node_modules/ >.gitignore\nmkdir -p node_modules/x\necho 1 >node_modules/x/index\n";

fn script(tables: &str) -> Script<'_> {
    Script {
        reviewer: REVIEWS_FIXED,
        fixer: IMPLEMENTS,
        tables,
        ..Script::default()
    }
}

/// Creates a task that was implemented in a worktree of remand, and its path.
fn implemented(tables: &str) -> (Play, PathBuf) {
    let play = Play::without_change(&script(tables));
    play.world
        .remand_in(&play.repo, &["add", "Add a work file", "-a", "--local"])
        .ok();
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let path = PathBuf::from(play.world.sqlite("SELECT worktree FROM changes"));
    assert!(path.join("node_modules/x/index").exists());
    (play, path)
}

/// Like [`implemented`], and cancelled, long ago.
fn ended() -> (Play, PathBuf) {
    let (play, path) = implemented("");
    play.world.remand(&["cancel", "c1"]).ok();
    is_old(&play);
    (play, path)
}

fn is_old(play: &Play) {
    play.world.sqlite(&format!(
        "UPDATE changes SET completed_at = '{OLD}' WHERE completed_at IS NOT NULL"
    ));
}

fn removals(play: &Play) -> String {
    play.world.sqlite(
        "SELECT group_concat(actor_id || ' ' || (metadata ->> 'why') || ' ' || (metadata ->> 'path'), '; ')
         FROM events WHERE event_type = 'worktree_removed'",
    )
}

/// Asserts that nothing of a worktree is left, in its directory or in the repository, and that its
/// commits are.
#[track_caller]
fn is_gone(play: &Play, path: &Path) {
    assert!(!path.exists());
    let left: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(left, [] as [PathBuf; 0]);
    let listed = play
        .world
        .git(&play.repo, &["worktree", "list", "--porcelain"]);
    assert!(!listed.contains(path.to_str().unwrap()), "{listed}");
    let head = play.world.sqlite("SELECT head FROM changes");
    let branch = "refs/heads/remand/add-a-work-file";
    assert_eq!(play.world.git(&play.repo, &["rev-parse", branch]), head);
    play.check();
}

#[test]
fn the_worktree_of_an_ended_change_is_removed_after_some_days() {
    let (play, path) = implemented("");
    is_old(&play);
    play.tick().report();
    assert!(path.exists(), "its change is live");
    play.world.remand(&["cancel", "c1"]).ok();
    play.tick().report();
    assert!(path.exists(), "it ended just now");
    play.world.sqlite(
        "UPDATE changes SET completed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days', '+1 minute')",
    );
    play.tick().report();
    assert!(path.exists(), "it ended less than seven days ago");
    play.world.sqlite(
        "UPDATE changes SET completed_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-7 days')",
    );
    play.tick().report();
    is_gone(&play, &path);
    assert_eq!(removals(&play), format!("remand ended {}", path.display()));
    let head = play.world.sqlite("SELECT head FROM changes");
    let event = play.world.sqlite("SELECT (metadata ->> 'branch') || ' ' || (metadata ->> 'head') FROM events WHERE event_type = 'worktree_removed'");
    assert_eq!(event, format!("remand/add-a-work-file {head}"));
    play.tick().report();
    assert_eq!(
        play.count("events WHERE event_type = 'worktree_removed'"),
        1
    );
}

#[test]
fn a_daemon_removes_them_too() {
    let (play, path) = ended();
    let daemon = play.daemon();
    play.wait_for(
        "SELECT count(*) FROM events WHERE event_type = 'worktree_removed'",
        "1",
    );
    assert!(daemon.stop().success());
    is_gone(&play, &path);
}

#[test]
fn with_a_ttl_of_zero_they_stay() {
    for tables in [
        "worktree_ttl_days = 0",
        "[projects.calc]\nworktree_ttl_days = 0",
    ] {
        let (settings, tables) = match tables.starts_with('[') {
            true => ("", tables),
            false => (tables, ""),
        };
        let play = Play::without_change(&Script {
            settings,
            ..script(tables)
        });
        play.world
            .remand_in(&play.repo, &["add", "Add a work file", "-a", "--local"])
            .ok();
        play.tick().report();
        play.world.remand(&["cancel", "c1"]).ok();
        is_old(&play);
        play.tick().report();
        let path = play.world.sqlite("SELECT worktree FROM changes");
        assert!(PathBuf::from(path).exists());
        assert_eq!(removals(&play), "");
    }
}

#[test]
fn a_worktree_with_work_in_it_stays() {
    type Spoil = fn(&Play, &PathBuf);
    let cases: [(&str, Spoil); 5] = [
        ("uncommitted work: work.txt", |_, path| {
            fs::write(path.join("work.txt"), "more\n").unwrap();
        }),
        ("uncommitted work: notes", |_, path| {
            fs::write(path.join("notes"), "mine\n").unwrap();
        }),
        ("it is locked", |play, path| {
            play.world
                .git(&play.repo, &["worktree", "lock", path.to_str().unwrap()]);
        }),
        ("it is on mine, not on", |play, path| {
            play.world.git(path, &["checkout", "-q", "-b", "mine"]);
        }),
        ("skip-worktree", |play, path| {
            play.world
                .git(path, &["update-index", "--skip-worktree", "work.txt"]);
        }),
    ];
    for (why, spoil) in cases {
        let (play, path) = ended();
        spoil(&play, &path);
        play.tick().report();
        assert!(path.join("work.txt").exists(), "{why}");
        assert_eq!(removals(&play), "", "{why}");
        let refused = play.world.remand(&["worktrees", "--remove", "c1"]);
        assert_eq!(refused.status, 1, "{why}");
        assert!(
            refused.stderr.contains(why),
            "{why} is not in {}",
            refused.stderr
        );
        assert!(path.join("work.txt").exists(), "{why}");
    }
}

#[test]
fn a_directory_that_was_replaced_by_a_link_is_not_followed() {
    let (play, path) = ended();
    let elsewhere = play.world.root().join("elsewhere");
    fs::rename(path.parent().unwrap(), &elsewhere).unwrap();
    symlink(&elsewhere, path.parent().unwrap()).unwrap();
    play.tick().report();
    let refused = play.world.remand(&["worktrees", "--remove", "c1"]);
    assert_ne!(refused.status, 0);
    let name = path.file_name().unwrap();
    assert!(elsewhere.join(name).join("work.txt").exists());
    assert_eq!(removals(&play), "");
}

#[test]
#[cfg(feature = "failpoints")]
fn a_removal_that_is_killed_is_finished_by_the_next() {
    for point in [
        "commit.worktree_removing.before",
        "commit.worktree_removing.after",
        "upkeep.worktree.before",
        "git.worktree.moved",
        "git.worktree.forgotten",
        "upkeep.worktree.after",
        "commit.worktree_removed.before",
        "commit.worktree_removed.after",
    ] {
        let (play, path) = ended();
        let mut command = play.world.remand_command(&["tick"]);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "killed at {point}");
        play.world.remand(&["check"]).ok();
        assert!(
            !path.exists() || path.join("node_modules/x/index").exists(),
            "half of it is left at {point}"
        );
        play.tick().report();
        is_gone(&play, &path);
        assert_eq!(
            removals(&play),
            format!("remand ended {}", path.display()),
            "{point}"
        );
    }
}

/// Work that appears in the instant before the removal is found under the new name.
#[test]
#[cfg(feature = "failpoints")]
fn work_that_is_written_at_the_last_moment_is_put_back() {
    let (play, path) = ended();
    let mut command = play.world.remand_command(&["tick"]);
    let killed = command
        .env("REMAND_CRASH_AT", "git.worktree.moved")
        .output();
    assert_eq!(killed.unwrap().status.code(), None);
    let name = path.file_name().unwrap().to_str().unwrap();
    let moved = path.with_file_name(format!(".{name}.removed"));
    fs::write(moved.join("work.txt"), "mine\n").unwrap();
    play.tick().report();
    assert_eq!(fs::read_to_string(path.join("work.txt")).unwrap(), "mine\n");
    assert!(!moved.exists());
    assert_eq!(removals(&play), "");
    assert_eq!(play.world.sqlite("SELECT setup_done FROM changes"), "");
    play.world.git(&path, &["checkout", "--", "work.txt"]);
    play.tick().report();
    is_gone(&play, &path);
}

fn listed(play: &Play) -> Vec<Value> {
    let listed = play.world.json(&["worktrees"]);
    listed.as_array().unwrap().clone()
}

#[test]
fn they_are_listed_and_removed_on_request() {
    let (play, path) = implemented("");
    let text = path.to_str().unwrap();
    let live = listed(&play);
    assert_eq!(
        live.len(),
        1,
        "the worktree of a person is not listed: {live:?}"
    );
    assert_eq!(
        (&live[0]["path"], &live[0]["use"], &live[0]["can_go"]),
        (&text.into(), &"live".into(), &false.into())
    );
    let shown = play.world.remand(&["worktrees", "--remove", "c1"]);
    assert_eq!(shown.status, 1);
    assert!(shown.stderr.contains("c1 uses it"), "{}", shown.stderr);
    let shown = play.world.remand(&["worktrees", "--remove"]).ok().stdout;
    assert_eq!(shown, "removed nothing\n");
    play.world.remand(&["cancel", "c1"]).ok();
    let ended = listed(&play);
    let stored = |column: &str| play.world.sqlite(&format!("SELECT {column} FROM changes"));
    for (key, value) in [
        ("use", "ended"),
        ("change_id", "c1"),
        ("state", "closed"),
        ("project_id", "calc"),
        ("branch", "remand/add-a-work-file"),
        ("completed_at", &stored("completed_at")),
        (
            "removed_after",
            &stored("strftime('%Y-%m-%dT%H:%M:%fZ', completed_at, '+7 days')"),
        ),
    ] {
        assert_eq!(ended[0][key], value, "{key}: {ended:?}");
    }
    assert_eq!(
        (&ended[0]["can_go"], &ended[0]["kept_because"]),
        (&true.into(), &Value::Null)
    );
    assert!(ended[0]["bytes"].as_i64().unwrap() > 0);
    assert_eq!(ended[0]["bytes_complete"], true);
    let shown = play.world.remand(&["worktrees"]).ok().stdout;
    assert!(shown.contains(text) && shown.contains("closed"), "{shown}");
    play.world
        .remand(&["worktrees", "--remove", "c7"])
        .fails(4, "`c7` is no worktree of remand");
    let person = play.worktree.to_str().unwrap();
    play.world
        .remand(&["worktrees", "--remove", person])
        .fails(4, "is no worktree of remand");
    assert!(play.worktree.join("work.txt").exists());
    let removed = play.world.json(&["worktrees", "--remove", text, "--yes"]);
    assert_eq!(
        removed,
        serde_json::json!({ "removed": [text], "kept": [] })
    );
    is_gone(&play, &path);
    assert_eq!(removals(&play), format!("ada requested {text}"));
    assert_eq!(listed(&play), [] as [Value; 0]);
    let shown = play.world.remand(&["worktrees"]).ok().stdout;
    assert_eq!(shown, "There are no worktrees that remand created.\n");
}

#[test]
fn a_worktree_that_no_change_knows_is_removed_only_if_it_is_named_and_clean() {
    let (play, path) = implemented("");
    let orphan = path.with_file_name("pr-9");
    let text = orphan.to_str().unwrap();
    let git = |args: &[&str]| play.world.git(&play.repo, args);
    git(&["worktree", "add", "-q", "--detach", text, "main"]);
    fs::create_dir(path.with_file_name("junk")).unwrap();
    let of = |path: &str| {
        let all = listed(&play);
        let its = all.into_iter().find(|one| one["path"] == path);
        its.unwrap_or_else(|| panic!("{path} is not listed"))
    };
    assert_eq!(of(text)["use"], "orphan");
    assert_eq!(of(text)["can_go"], true);
    assert_eq!(
        of(path.with_file_name("junk").to_str().unwrap())["can_go"],
        false
    );
    play.world.remand(&["worktrees", "--remove"]).ok();
    assert!(orphan.exists(), "it was not named");
    fs::write(orphan.join("mine"), "mine\n").unwrap();
    let refused = play.world.remand(&["worktrees", "--remove", text]);
    assert_eq!(refused.status, 1);
    assert!(
        refused.stderr.contains("uncommitted work: mine"),
        "{}",
        refused.stderr
    );
    fs::remove_file(orphan.join("mine")).unwrap();
    play.world.remand(&["worktrees", "--remove", text]).ok();
    assert!(!orphan.exists());
    assert_eq!(removals(&play), format!("ada requested {text}"));
    let target =
        "SELECT target_type || ' ' || target_id FROM events WHERE event_type = 'worktree_removed'";
    assert_eq!(play.world.sqlite(target), "project calc");
    assert!(path.exists());
}

#[test]
#[cfg(feature = "failpoints")]
fn an_orphan_whose_removal_was_killed_is_still_listed() {
    let (play, path) = implemented("");
    for point in ["git.worktree.moved", "git.worktree.forgotten"] {
        let orphan = path.with_file_name("pr-9");
        let text = orphan.to_str().unwrap();
        play.world.git(
            &play.repo,
            &["worktree", "add", "-q", "--detach", text, "main"],
        );
        let args = ["worktrees", "--remove", text];
        let mut command = play.world.remand_command(&args);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "killed at {point}");
        assert!(!orphan.exists(), "{point}");
        assert!(
            listed(&play).iter().any(|one| one["path"] == text),
            "{point}"
        );
        play.world.remand(&args).ok();
        assert_eq!(listed(&play).len(), 1, "{point}");
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }
}

/// A worktree that is used by another change now is not that of the ended one.
#[test]
fn a_worktree_that_another_change_uses_stays() {
    let play = Play::without_change(&Script {
        settings: "worktree_roots = [\"/\"]\n",
        ..script("")
    });
    play.world
        .remand_in(&play.repo, &["add", "Add a work file", "-a", "--local"])
        .ok();
    play.tick().report();
    play.world.remand(&["cancel", "c1"]).ok();
    let path = PathBuf::from(play.world.sqlite("SELECT worktree FROM changes"));
    play.world
        .remand_in(&path, &["review", "--title", "Again"])
        .ok();
    let live = "SELECT worktree FROM changes WHERE change_id = 'c2'";
    assert_eq!(play.world.sqlite(live), path.to_str().unwrap());
    is_old(&play);
    play.tick().report();
    assert!(path.join("work.txt").exists());
    assert_eq!(removals(&play), "");
    let refused = play
        .world
        .remand(&["worktrees", "--remove", path.to_str().unwrap()]);
    assert_ne!(refused.status, 0);
    assert!(path.join("work.txt").exists());
}

/// A worktree for a pull request is on no branch; a ref of remand keeps its commits. A reopened pull
/// request gets it again.
#[test]
fn the_worktree_of_a_closed_pull_request_is_removed_and_made_again() {
    let stage = PullPlay::unwatched(&Script::default());
    let play = &stage.play;
    let person = play.worktree.to_str().unwrap();
    play.world.git(&play.repo, &["worktree", "remove", person]);
    play.world
        .git(&play.repo, &["branch", "-q", "-D", "feature"]);
    stage.watch();
    stage.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let path = PathBuf::from(play.world.sqlite("SELECT worktree FROM changes"));
    assert!(path.ends_with("worktrees/calc/pr-1"), "{}", path.display());
    stage.forge.close(stage.number);
    stage.tick();
    assert_eq!(play.state(), "closed");
    assert!(path.exists());
    is_old(play);
    play.tick().report();
    assert!(!path.exists());
    assert_eq!(removals(play), format!("remand ended {}", path.display()));
    let head = play.world.sqlite("SELECT head FROM changes");
    let kept = play
        .world
        .git(&play.repo, &["rev-parse", "refs/remand/change/c1"]);
    assert_eq!(kept, head);
    stage.forge.reopen(stage.number);
    stage.tick();
    play.world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    assert!(path.join("work.txt").exists(), "{:#?}", play.events());
    assert_eq!(
        play.world
            .sqlite("SELECT completed_at IS NULL FROM changes"),
        "1"
    );
    play.check();
}

/// Links, pipes and files in the directory are no worktrees; a worktree that is gone is forgotten.
#[test]
fn only_directories_are_listed_and_what_is_gone_is_forgotten() {
    let (play, path) = ended();
    let beside = |name: &str| path.with_file_name(name);
    symlink(&play.worktree, beside("link")).unwrap();
    fs::write(beside("file"), "x").unwrap();
    play.sh(path.parent().unwrap(), "mkfifo pipe");
    assert_eq!(listed(&play).len(), 1);
    fs::remove_dir_all(&path).unwrap();
    symlink(&play.worktree, &path).unwrap();
    let shown = play.world.remand(&["worktrees", "--remove", "c1"]);
    assert_ne!(shown.status, 0, "{}", shown.stdout);
    assert!(play.worktree.join("work.txt").exists());
    fs::remove_file(&path).unwrap();
    let shown = play.world.remand(&["worktrees", "--remove", "c1"]);
    assert_eq!(shown.status, 0, "{}", shown.stderr);
    assert!(
        shown.stderr.contains("c1 has no worktree any more"),
        "{}",
        shown.stderr
    );
    for name in ["link", "file", "pipe"] {
        fs::remove_file(beside(name)).unwrap();
    }
    is_gone(&play, &path);
    let nowhere = play.world.root().join("nope.db");
    let mut command = play.world.remand_command(&["worktrees"]);
    let failed = command.env("REMAND_DB", &nowhere).output().unwrap();
    assert_eq!(failed.status.code(), Some(4));
    assert!(!nowhere.exists());
}

/// A run whose process was killed is named as dead, with the command that cleans up.
#[test]
#[cfg(feature = "failpoints")]
fn a_dead_run_in_a_worktree_is_named() {
    let (play, path) = implemented("");
    play.world.remand(&["refine", "c1", "--text", "More."]).ok();
    let mut command = play.world.remand_command(&["tick"]);
    let killed = command
        .env("REMAND_CRASH_AT", "exit.seen")
        .output()
        .unwrap();
    assert_eq!(killed.status.code(), None, "killed");
    play.world.remand(&["cancel", "c1"]).ok();
    assert_eq!(play.count("runs WHERE ended_at IS NULL"), 1);
    let kept = listed(&play)[0]["kept_because"].to_string();
    assert!(kept.contains("is dead: `remand tick`"), "{kept}");
    assert!(
        play.why().contains("`remand tick` cleans up after it"),
        "{}",
        play.why()
    );
    play.tick();
    play.world
        .remand(&["worktrees", "--remove", "c1", "--yes"])
        .ok();
    assert!(!path.exists());
}

/// What an interrupted removal left is listed and removed by itself, once its old path is in use again.
#[test]
#[cfg(feature = "failpoints")]
fn the_rest_of_a_removal_beside_a_new_worktree_is_removed_on_request() {
    for point in ["git.worktree.moved", "git.worktree.forgotten"] {
        let (play, path) = ended();
        let mut command = play.world.remand_command(&["tick"]);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "killed at {point}");
        let name = path.file_name().unwrap().to_str().unwrap();
        let moved = path.with_file_name(format!(".{name}.removed"));
        if point == "git.worktree.forgotten" {
            fs::remove_file(moved.join("work.txt")).unwrap();
        }
        let again = [
            "worktree",
            "add",
            "-q",
            "-f",
            path.to_str().unwrap(),
            "remand/add-a-work-file",
        ];
        play.world.git(&play.repo, &again);
        let all = listed(&play);
        let of = |path: &Path| {
            let its = all.iter().find(|one| one["path"] == path.to_str().unwrap());
            its.unwrap_or_else(|| panic!("{point}: {all:?}")).clone()
        };
        let (old, rest) = (of(&path), of(&moved));
        assert_eq!(old["can_go"], false, "{old}");
        assert!(rest["bytes"].as_i64().unwrap() > 0);
        let stays = play.world.remand(&["worktrees", "--remove", "c1"]);
        assert!(
            stays.stderr.contains("an earlier removal left"),
            "{}",
            stays.stderr
        );
        fs::write(moved.join("mine.txt"), "mine").unwrap();
        let moved_text = moved.to_str().unwrap();
        let stays = play
            .world
            .remand(&["worktrees", "--remove", moved_text, "--yes"]);
        assert!(
            stays.stderr.contains("uncommitted work"),
            "{}",
            stays.stderr
        );
        fs::remove_file(moved.join("mine.txt")).unwrap();
        play.world
            .remand(&["worktrees", "--remove", moved_text, "--yes"])
            .ok();
        play.world
            .remand(&["worktrees", "--remove", "c1", "--yes"])
            .ok();
        assert!(!path.exists() && !moved.exists());
    }
}
