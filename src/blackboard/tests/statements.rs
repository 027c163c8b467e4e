//! Collects the statements in the source files of the module.

use std::collections::BTreeSet;
use std::path::Path;

use super::executed;
use crate::blackboard::from_row::select_rejections;

/// First words of a statement. Pragmas, VACUUM and savepoints are specific to SQLite and belong to
/// `connection` and `sql`.
const VERBS: &[&str] = &["SELECT ", "UPDATE ", "INSERT ", "DELETE "];

/// Statements that the suite cannot execute: file, a part of the text, the reason.
const NOT_EXECUTED: &[(&str, &str, &str)] = &[(
    "backup.rs",
    "SELECT count(*) FROM events",
    "of a copy of the file of SQLite",
)];

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "runs only the suite, in a separate process"
)]
fn the_suite_executes_every_statement() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("executed");
    let suite = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("blackboard::conformance::")
        .env(executed::VARIABLE, &file)
        .output()
        .unwrap();
    assert!(suite.status.success(), "the suite fails by itself");
    let text = std::fs::read_to_string(&file).unwrap();
    let executed: BTreeSet<&str> = text.split_terminator(executed::END).collect();
    let statements = statements_of_the_room();
    let excuse = |file: &str, sql: &str| {
        let fits = |(of, part, _): &(&str, &str, &str)| *of == file && sql.contains(part);
        NOT_EXECUTED.iter().position(fits)
    };
    let mut missing = Vec::new();
    let mut used = BTreeSet::new();
    for (file, sql) in &statements {
        if !executed.contains(sql.as_str()) {
            match excuse(file, sql) {
                Some(at) => drop(used.insert(at)),
                None => missing.push(format!("{file}: {sql}")),
            }
        }
    }
    assert!(
        missing.is_empty(),
        "{} of {} statements are not executed by a case:\n{}",
        missing.len(),
        statements.len(),
        missing.join("\n")
    );
    assert_eq!(
        used.len(),
        NOT_EXECUTED.len(),
        "an exception is no longer needed"
    );
}

/// Returns every literal in the module's files that is a statement, with its file. Tests are
/// excluded.
pub(super) fn statements_of_the_room() -> Vec<(String, String)> {
    let room = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/blackboard");
    let mut statements = Vec::new();
    let mut folders = vec![room];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && !["tests", "conformance"].contains(&name.as_str()) {
                folders.push(path);
            } else if name.ends_with(".rs") && name != "tests.rs" {
                let text = std::fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
                statements.extend(literals(code).into_iter().map(|sql| (name.clone(), sql)));
            }
        }
    }
    statements.sort();
    statements
}

fn literals(code: &str) -> Vec<String> {
    let parts: Vec<&str> = code.split('"').collect();
    let pairs = parts.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    pairs
        .filter_map(|(before, text)| {
            if before.ends_with("select_rejections!(") {
                return Some([select_rejections!(""), text].concat());
            }
            // Start of a statement, which is complete where it is used.
            let is_part = before.trim_end().ends_with("concat!(");
            let is_statement = VERBS.iter().any(|verb| text.starts_with(verb)) && !is_part;
            is_statement.then(|| text.to_owned())
        })
        .collect()
}
