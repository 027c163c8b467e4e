//! The statements of the room, as its files have them.

use std::path::Path;

use crate::blackboard::from_row::select_rejections;

/// First words of what counts as a statement.
const VERBS: &[&str] = &["SELECT ", "UPDATE ", "INSERT ", "DELETE "];

/// Every literal in the room's files that is a statement, with its file. Tests are left out.
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
            // The beginning of a statement, which is whole where it is used.
            let is_part = before.trim_end().ends_with("concat!(");
            let is_statement = VERBS.iter().any(|verb| text.starts_with(verb)) && !is_part;
            is_statement.then(|| text.to_owned())
        })
        .collect()
}
