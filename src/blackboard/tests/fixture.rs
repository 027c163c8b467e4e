//! Tests with the dump of a version 1 blackboard, which must open forever.

use std::fmt::Write as _;

use crate::blackboard::conformance::engine;
use crate::blackboard::conformance::story::{Story, finding};
use crate::blackboard::connection::migrate;
use crate::blackboard::connection::open;
use crate::blackboard::sql::params;
use crate::blackboard::{self as bb, Conn};
use crate::change::{ChangeId, State};
use crate::clock::Time;
use crate::finding::Verdict;

const FIXTURE: &str = include_str!("../../../tests/fixtures/blackboard-v1.sql");

/// The fixture is never changed: a migration adds whatever `schema.sql` has and version 1 did not.
#[test]
fn the_fixture_migrates_to_the_schema_of_a_new_blackboard() {
    let folder = tempfile::tempdir().unwrap();
    let fresh = open::writer(&folder.path().join("fresh.db"), Time::from_millis(0)).unwrap();
    let path = folder.path().join("old.db");
    let mut old = loaded(&path, FIXTURE);
    migrate::to_newest(&path, &mut old, Time::from_millis(0)).unwrap();
    let (new, migrated) = (schema(&fresh), schema(&old));
    if new == migrated {
        return;
    }
    panic!(
        "schema.sql and the migrated fixture differ in {:?}.\n\
         Add what is missing to the newest file in src/blackboard/migrations/; the fixture stays as it is.",
        new.iter()
            .filter(|one| !migrated.contains(one))
            .chain(migrated.iter().filter(|one| !new.contains(one)))
            .map(|one| &one.0)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_commands_of_an_old_decision_are_taken_out_of_its_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    for (decision, commands) in [
        ("accept it or go on", vec![]),
        (
            "mend `x.toml` (`git status`), then `remand retry c1`; or `remand refine c1 --text …`",
            vec!["remand retry c1", "remand refine c1 --text …"],
        ),
        ("`remand approve c1` or `remand", vec!["remand approve c1"]),
    ] {
        let mut old = loaded(&path, FIXTURE);
        old.execute(
            "UPDATE changes SET decision = :decision WHERE change_id = 'c1'",
            params! { decision },
        )
        .unwrap();
        migrate::to_newest(&path, &mut old, Time::from_millis(0)).unwrap();
        let change = bb::change(&old, &ChangeId::new("c1")).unwrap();
        assert_eq!(change.decision_commands, commands, "{decision}");
        drop(old);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn the_fixture_can_be_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("again.db");
    let story = the_story();
    let text = dump_of(&story);
    let mut again = loaded(&path, &text);
    migrate::to_newest(&path, &mut again, Time::from_millis(0)).unwrap();
    assert_eq!(bb::check(&again).unwrap(), []);
    assert_eq!(
        dump(&again),
        dump(&open::reader(&story.engine.path()).unwrap())
    );
}

/// Creates two changes: one has used up its fixes and waits for a person, one was fixed once and
/// approved.
fn the_story() -> Story {
    let mut story = Story::begin();
    let escalated = story.change_at_its_bound();
    let approved = story.change_with_fix();
    story.fix();
    story.review(Verdict::Approved, &[]);
    story
        .step(|conn, now| bb::approve_by_person(conn, &approved.change_id, "ann", now))
        .unwrap();
    story
        .engine
        .by_hand("work_rejected", ("change", "c99"), "whose? it's nobody's");
    story.beat();
    assert_eq!(story.at(&escalated.change_id).state, State::Escalated);
    assert_eq!(story.at(&approved.change_id).state, State::Approved);
    assert_eq!(finding("a.rs", "no bound").fingerprint(), "a.rs|no bound");
    story.check();
    story
}

fn dump_of(story: &Story) -> String {
    let conn = open::reader(&story.engine.path()).unwrap();
    dump(&conn)
}

fn loaded(path: &std::path::Path, sql: &str) -> Conn {
    let conn = engine::bare(path);
    conn.execute_batch(sql).unwrap();
    conn
}

/// Returns type, name and SQL of each object in the schema, ignoring white space and comments.
fn schema(conn: &Conn) -> Vec<(String, String)> {
    conn.all(
        "SELECT type || ' ' || name, sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY 1",
        &[],
        |row| Ok((row.get(0)?, normal(&row.get::<String>(1)?))),
    )
    .unwrap()
}

fn normal(sql: &str) -> String {
    let lines = sql
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code));
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    // A table that a migration created under another name has its name in quotes.
    let words = words.join(" ").replace('"', "");
    words.replace(" ,", ",").replace(" )", ")")
}

/// Dumps the database like the shell's `.dump`: tables and rows first, then everything that would
/// interfere with inserting rows.
fn dump(conn: &Conn) -> String {
    let mut text = String::from("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n");
    for pragma in ["application_id", "user_version"] {
        let value: i64 = conn
            .sqlite()
            .pragma_query_value(None, pragma, |row| row.get(0))
            .unwrap();
        writeln!(text, "PRAGMA {pragma}={value};").unwrap();
    }
    for (name, sql) in things(conn, "type = 'table' AND name NOT LIKE 'sqlite_%'") {
        writeln!(text, "{sql};").unwrap();
        rows(conn, &name, &mut text);
    }
    text.push_str("DELETE FROM sqlite_sequence;\n");
    rows(conn, "sqlite_sequence", &mut text);
    for (_, sql) in things(
        conn,
        "type IN ('index', 'trigger', 'view') AND sql IS NOT NULL",
    ) {
        writeln!(text, "{sql};").unwrap();
    }
    text.push_str("COMMIT;\n");
    text
}

fn things(conn: &Conn, which: &str) -> Vec<(String, String)> {
    let sql = format!("SELECT name, sql FROM sqlite_schema WHERE {which} ORDER BY rowid");
    conn.all(sql.leak(), &[], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
}

fn rows(conn: &Conn, table: &str, text: &mut String) {
    for row in engine::rows_of(conn, table, |column| format!("quote({column})"), ",") {
        writeln!(text, "INSERT INTO {table} VALUES({row});").unwrap();
    }
}
