//! `remand backup`, next to a daemon, refused, killed, and on a full disk.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use crate::cli::Site;
use crate::support::World;
use crate::support::play::{Play, Script};

/// Temporary name of `copy.db` until it is complete.
const PART: &str = ".copy.db.remand-backup.part";

/// Returns the events of a copy, read by itself.
fn events(db: &Path) -> Vec<String> {
    let conn = rusqlite::Connection::open(db).unwrap();
    let mut all = conn
        .prepare("SELECT id || ' ' || event_type || ': ' || summary FROM events ORDER BY id")
        .unwrap();
    all.query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

fn is_whole(world: &World, copy: &Path) {
    let checked = world
        .remand(&["check", "--db", copy.to_str().unwrap()])
        .ok();
    assert!(checked.stdout.starts_with("ok"), "{}", checked.stdout);
}

/// Returns the names in a directory with this prefix.
fn beside(folder: &Path, name: &str) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|found| found.starts_with(name))
        .collect();
    found.sort();
    found
}

#[test]
fn backups_beside_a_working_daemon_are_whole_and_a_beginning_of_what_came() {
    let play = Play::new(&Script {
        settings: "[dispatch]\nslots = 2\n",
        ..Script::default()
    });
    let _daemon = play.daemon();
    let mut copies = Vec::new();
    for branch in ["one", "two", "three"] {
        play.another(branch);
    }
    let done = || play.count("changes WHERE state = 'ready_for_human_review'");
    play.until("backups until all are reviewed", || {
        let is_over = done() == 4;
        let copy = play.world.root().join(format!("copy-{}.db", copies.len()));
        let said = play.world.json(&["backup", copy.to_str().unwrap()]);
        assert_eq!(
            said["events"].as_u64().unwrap(),
            u64::try_from(events(&copy).len()).unwrap()
        );
        assert_eq!(
            said["bytes"].as_u64().unwrap(),
            fs::metadata(&copy).unwrap().len()
        );
        copies.push(copy);
        is_over
    });
    let all = events(&play.world.db());
    let mut before = 0;
    for copy in &copies {
        let known = events(copy);
        assert_eq!(known, all[..known.len()], "{}", copy.display());
        assert!(known.len() >= before, "a later one knows no less");
        before = known.len();
        is_whole(&play.world, copy);
    }
    assert!(
        events(&copies[0]).len() < before,
        "something happened between the first and the last of {}",
        copies.len()
    );
    let shown = play
        .world
        .remand(&["list", "--db", copies.last().unwrap().to_str().unwrap()])
        .ok();
    assert!(
        shown.stdout.contains("three"),
        "it is a blackboard: {}",
        shown.stdout
    );
}

#[test]
fn a_backup_is_one_private_file() {
    let site = Site::under_review();
    let copy = site.world.root().join("copy.db");
    let said = site.remand(&["backup", copy.to_str().unwrap()]).ok();
    assert!(
        said.stdout.starts_with(copy.to_str().unwrap()) && said.stdout.contains(" events, "),
        "{}",
        said.stdout
    );
    assert_eq!(
        beside(site.world.root(), "copy.db"),
        ["copy.db"],
        "nothing beside it"
    );
    assert_eq!(
        fs::metadata(&copy).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(events(&copy), events(&site.world.db()));
    // Relative names are resolved from the current directory.
    site.world
        .remand_in(&site.worktree, &["backup", "../here.db"])
        .ok();
    is_whole(
        &site.world,
        &site.worktree.parent().unwrap().join("here.db"),
    );
}

#[test]
fn what_is_there_is_replaced_only_by_force_and_only_by_a_whole_copy() {
    let site = Site::under_review();
    let copy = site.world.root().join("copy.db");
    let name = copy.to_str().unwrap();
    fs::write(&copy, "precious").unwrap();
    site.remand(&["backup", name]).fails(1, "already exists");
    assert_eq!(fs::read_to_string(&copy).unwrap(), "precious");
    for point in ["backup.step", "backup.copied"] {
        let mut command = site.world.remand_command(&["backup", "--force", name]);
        let killed = command.env("REMAND_CRASH_AT", point).output().unwrap();
        assert_eq!(killed.status.code(), None, "killed at {point}");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "precious", "{point}");
        assert!(site.world.root().join(PART).exists(), "{point}");
    }
    site.remand(&["backup", "--force", name]).ok();
    is_whole(&site.world, &copy);
    assert_eq!(beside(site.world.root(), "copy.db"), ["copy.db"]);
    assert!(!site.world.root().join(PART).exists());
    // The target of a symlink is written, and the symlink stays.
    let link = site.world.root().join("newest.db");
    symlink(&copy, &link).unwrap();
    let before = fs::metadata(&copy).unwrap().ino();
    site.remand(&["backup", "--force", link.to_str().unwrap()])
        .ok();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_ne!(
        fs::metadata(&copy).unwrap().ino(),
        before,
        "renamed into its place"
    );
}

#[test]
fn a_backup_that_was_killed_leaves_no_file() {
    let site = Site::under_review();
    let copy = site.world.root().join("copy.db");
    for point in ["backup.step", "backup.copied"] {
        let mut command = site
            .world
            .remand_command(&["backup", copy.to_str().unwrap()]);
        assert_eq!(
            command
                .env("REMAND_CRASH_AT", point)
                .output()
                .unwrap()
                .status
                .code(),
            None,
            "{point}"
        );
        assert_eq!(beside(site.world.root(), "copy.db"), [""; 0], "{point}");
        assert!(site.world.root().join(PART).exists(), "{point}");
    }
    site.remand(&["backup", copy.to_str().unwrap()]).ok();
    assert_eq!(beside(site.world.root(), "copy.db"), ["copy.db"]);
    assert!(
        !site.world.root().join(PART).exists(),
        "what was left is gone"
    );
    is_whole(&site.world, &copy);
}

#[test]
fn the_blackboard_is_never_written_over() {
    let site = Site::under_review();
    let db = site.world.db();
    let before = fs::read(&db).unwrap();
    let by = |name: &str| site.world.root().join(name);
    symlink(&db, by("link.db")).unwrap();
    fs::hard_link(&db, by("hard.db")).unwrap();
    let mut names: Vec<PathBuf> = vec![db.clone(), by("link.db"), by("hard.db")];
    names.push(db.parent().unwrap().join("../remand/blackboard.db"));
    for end in ["-wal", "-shm", ".lock", ".wake"] {
        names.push(PathBuf::from(format!("{}{end}", db.display())));
    }
    for name in &names {
        let name = name.to_str().unwrap();
        site.remand(&["backup", name, "--force"])
            .fails(2, "is the blackboard itself");
        site.remand(&["backup", name])
            .fails(2, "is the blackboard itself");
    }
    // A temporary file that is a link to it is not written through.
    symlink(&db, by(PART)).unwrap();
    site.remand(&["backup", by("copy.db").to_str().unwrap()])
        .fails(2, "which is the blackboard itself");
    fs::remove_file(by(PART)).unwrap();
    symlink("nowhere", by(PART)).unwrap();
    site.remand(&["backup", by("copy.db").to_str().unwrap()])
        .fails(1, "it was not left by a backup");
    fs::remove_file(by(PART)).unwrap();
    site.remand(&["backup", by("copy.db").to_str().unwrap()])
        .ok();
    assert_eq!(fs::read(&db).unwrap(), before, "not a byte of it");
    is_whole(&site.world, &by("copy.db"));
}

#[test]
fn what_can_not_be_done_says_why() {
    let site = Site::under_review();
    let root = site.world.root();
    site.remand(&["backup"]).fails(2, "<FILE>");
    site.remand(&["backup", root.to_str().unwrap()])
        .fails(2, "is a directory");
    site.remand(&["backup", "no/such/folder/copy.db"])
        .fails(1, "cannot write");
    symlink("nowhere", root.join("dangling")).unwrap();
    site.remand(&["backup", "dangling", "--force"])
        .fails(1, "is a broken symlink");
    site.remand(&["backup", "copy.db", "--db", "missing.db"])
        .fails(4, "no blackboard");
    assert!(
        !root.join("missing.db").exists(),
        "asking for a copy makes no blackboard"
    );
    fs::write(
        root.join("text.db"),
        "This is not a database, whatever its name may say. ".repeat(20),
    )
    .unwrap();
    site.remand(&["backup", "copy.db", "--db", "text.db"])
        .fails(1, "not a SQLite database");
    assert_eq!(beside(root, "copy.db"), [""; 0]);
    // Another backup is in progress.
    let part = fs::File::create(root.join(PART)).unwrap();
    rustix::fs::flock(&part, rustix::fs::FlockOperation::LockExclusive).unwrap();
    site.remand(&["backup", "copy.db"])
        .fails(1, "another backup is writing it");
    drop(part);
    site.remand(&["backup", "copy.db"]).ok();
}

#[test]
fn a_disk_without_room_leaves_nothing_behind() {
    let site = Site::under_review();
    // The file size limit of this shell's children is smaller than the copy, and larger than what
    // SQLite needs next to the blackboard.
    let mut command = site.world.command("sh");
    let line = "trap '' XFSZ; ulimit -f 100; exec \"$0\" backup copy.db";
    let said = crate::support::run(command.args(["-c", line, env!("CARGO_BIN_EXE_remand")]));
    said.fails(1, ".copy.db.remand-backup.part: cannot be written");
    assert_eq!(beside(site.world.root(), "copy.db"), [""; 0]);
    site.remand(&["check"]).ok();
}

/// Creates a copy that a killed process has used: its data is in the file and in the log next to
/// it.
fn worked_on(site: &Site, copy: &Path) {
    let name = copy.to_str().unwrap();
    site.remand(&["backup", name]).ok();
    let held = rusqlite::Connection::open(copy).unwrap();
    held.pragma_update(None, "journal_mode", "wal").unwrap();
    held.execute_batch("PRAGMA wal_autocheckpoint = 0").unwrap();
    for n in 0..200 {
        held.execute(
            "INSERT INTO events (event_type, target_type, target_id, summary) VALUES ('instructed', 'change', 'c1', ?1)",
            [format!("by hand, {n}")],
        )
        .unwrap();
    }
    let log = PathBuf::from(format!("{name}-wal"));
    let kept = fs::read(&log).unwrap();
    assert!(kept.len() > 100_000, "{}", kept.len());
    // As a kill leaves it: closing would move it into the file.
    let file = fs::read(copy).unwrap();
    drop(held);
    fs::write(copy, file).unwrap();
    fs::write(&log, kept).unwrap();
}

#[test]
fn the_log_of_an_old_copy_is_never_taken_for_one_of_the_new() {
    let site = Site::under_review();
    let copy = site.world.root().join("copy.db");
    let name = copy.to_str().unwrap();
    worked_on(&site, &copy);
    let before = (
        fs::read(&copy).unwrap(),
        fs::read(format!("{name}-wal")).unwrap(),
    );
    let said = site
        .remand(&["backup", "--force", name])
        .fails(1, "copy.db-wal exists");
    assert!(
        said.stderr.contains(&format!("remand check --db {name}")),
        "{}",
        said.stderr
    );
    assert_eq!(
        (
            fs::read(&copy).unwrap(),
            fs::read(format!("{name}-wal")).unwrap()
        ),
        before,
        "the old one is whole"
    );
    assert!(!site.world.root().join(PART).exists());
    // The suggested command works.
    is_whole(&site.world, &copy);
    assert_eq!(beside(site.world.root(), "copy.db"), ["copy.db"]);
    assert!(events(&copy).len() > 200);
    site.remand(&["backup", "--force", name]).ok();
    is_whole(&site.world, &copy);
    assert_eq!(events(&copy), events(&site.world.db()));
    // A log without its file is as bad.
    fs::remove_file(&copy).unwrap();
    for end in ["-wal", "-journal", "-shm"] {
        let log = format!("{name}{end}");
        fs::write(&log, "").unwrap();
        site.remand(&["backup", name])
            .fails(1, &format!("remove {log}"));
        fs::remove_file(&log).unwrap();
    }
    site.remand(&["backup", name]).ok();
}

#[test]
fn a_copy_that_a_daemon_runs_on_is_not_replaced() {
    let play = Play::new(&Script::default());
    play.world.remand(&["cancel", "c1"]).ok();
    let copy = play.world.root().join("copy.db");
    let name = copy.to_str().unwrap();
    play.world.remand(&["backup", name]).ok();
    let daemon = play.daemon_from(play.world.remand_command(&["--db", name, "run"]));
    play.world
        .remand(&["backup", "--force", name])
        .fails(1, &format!("a daemon is using {name}"));
    daemon.kill();
    play.world
        .remand(&["backup", "--force", name])
        .fails(1, "copy.db-wal exists");
    is_whole(&play.world, &copy);
    play.world.remand(&["backup", "--force", name]).ok();
    is_whole(&play.world, &copy);
}

#[test]
fn no_file_but_its_own_is_in_the_way_or_removed() {
    let site = Site::under_review();
    let root = site.world.root();
    fs::write(root.join("copy.db.part"), "of somebody").unwrap();
    site.remand(&["backup", "copy.db"]).ok();
    assert_eq!(
        fs::read_to_string(root.join("copy.db.part")).unwrap(),
        "of somebody"
    );
    // The blackboard may have any name.
    site.remand(&["backup", "other.part"]).ok();
    let before = events(&root.join("other.part"));
    site.remand(&["--db", "other.part", "backup", "other"]).ok();
    assert_eq!(events(&root.join("other.part")), before);
    site.remand(&["backup", ".new.remand-backup.part"]).ok();
    site.remand(&["--db", ".new.remand-backup.part", "backup", "new"])
        .fails(2, "which is the blackboard itself");
    assert_eq!(events(&root.join(".new.remand-backup.part")), before);
}

/// A disk that became read-only; for root only a separate mount namespace can provide one.
#[test]
fn a_blackboard_on_a_read_only_disk_can_still_be_copied() {
    let site = Site::under_review();
    let mut can = site.world.command("unshare");
    if !can
        .args(["-rm", "true"])
        .output()
        .is_ok_and(|said| said.status.success())
    {
        return crate::support::skip(
            "a_blackboard_on_a_read_only_disk_can_still_be_copied",
            "no mount name spaces here",
        );
    }
    let folder = site.world.db().parent().unwrap().to_owned();
    let copy = site.world.root().join("copy.db");
    let line = "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\" && exec \"$0\" backup \"$2\"";
    let mut command = site.world.command("unshare");
    command
        .args(["-rm", "sh", "-c", line, env!("CARGO_BIN_EXE_remand")])
        .args([&folder, &copy]);
    crate::support::run(&mut command).ok();
    is_whole(&site.world, &copy);
    assert_eq!(events(&copy), events(&site.world.db()));
}
