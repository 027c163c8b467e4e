//! Holds the rooms apart: who may use whom, and what only one room may do. Reads `src/` as text, so that an edge that
//! is not in the table fails even where the compiler would let it through. Crates of the workspace are held apart by
//! the compiler; of `crates/` only lengths, headers and a few texts are checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DOMAIN: &[&str] = &[
    "agent_kind",
    "bounded",
    "branch_name",
    "change",
    "check",
    "clock",
    "discover",
    "event",
    "finding",
    "fingerprint",
    "glob",
    "human_time",
    "intent",
    "toml_path",
    "sandbox_settings",
    "sanitize",
    "project_settings",
    "proposal",
    "pull_request",
    "secret",
    "secret_scan",
    "diagnostic",
    "closed_enum",
    "task",
    "text",
    "work",
];

/// A room and the rooms that it may use, besides the domain and the failpoints, which all may use.
const EDGES: &[(&str, &[&str])] = &[
    // Pure; import only each other.
    ("closed_enum", &[]),
    ("clock", &[]),
    ("sandbox_settings", &[]),
    ("sanitize", &[]),
    ("text", &[]),
    ("secret", &[]),
    ("secret_scan", &[]),
    ("diagnostic", &[]),
    ("toml_path", &[]),
    ("agent_kind", &[]),
    ("bounded", &[]),
    ("branch_name", &[]),
    ("change", &[]),
    ("check", &[]),
    ("discover", &[]),
    ("finding", &[]),
    ("fingerprint", &[]),
    ("glob", &[]),
    ("human_time", &[]),
    ("intent", &[]),
    ("event", &[]),
    ("work", &[]),
    ("task", &[]),
    ("project_settings", &[]),
    ("proposal", &[]),
    ("pull_request", &[]),
    ("failpoint", &[]),
    // Texts for systemd and launchd.
    ("service_unit", &[]),
    // Storage. The state table is the only decision that it uses, so that no caller can bypass it.
    ("blackboard", &["state"]),
    // Adapters: the outside. They do not know the blackboard.
    ("files", &[]),
    ("process", &["files"]),
    ("git", &["files", "process", "sandbox"]),
    ("agent", &["files", "process"]),
    ("sandbox", &["process"]),
    ("prompt", &[]),
    ("github", &["process"]),
    ("remote", &["git", "process", "sandbox"]),
    // Decisions: values in, values out.
    ("state", &[]),
    ("review_text", &[]),
    ("evaluator", &["review_text"]),
    // Loops never use each other. Evaluators are used only for their schedules; the remote, only
    // for the head of a branch; processes, only for the command that prints a log.
    (
        "intake",
        &[
            "blackboard",
            "evaluator",
            "git",
            "github",
            "process",
            "remote",
        ],
    ),
    // Children and files are only those of command evaluators.
    (
        "heartbeat",
        &["blackboard", "evaluator", "files", "process", "review_text"],
    ),
    (
        "dispatch",
        &[
            "agent",
            "blackboard",
            "files",
            "git",
            "github",
            "process",
            "prompt",
            "remote",
            "review_text",
            "sandbox",
        ],
    ),
    // Interfaces.
    ("config", &[]),
    ("wake", &["blackboard"]),
    // Explanations: for the command line, and for whatever else shows them.
    ("explain", &["blackboard", "config", "evaluator", "process"]),
    (
        "daemon",
        &[
            "agent",
            "blackboard",
            "config",
            "dispatch",
            "evaluator",
            "git",
            "github",
            "heartbeat",
            "intake",
            "process",
            "prompt",
            "remote",
            "sandbox",
            "wake",
        ],
    ),
    // Reads all of them and changes nothing.
    (
        "doctor",
        &[
            "agent",
            "blackboard",
            "config",
            "daemon",
            "evaluator",
            "git",
            "github",
            "process",
            "prompt",
            "remote",
            "sandbox",
        ],
    ),
    ("demo", &["blackboard", "config", "process"]),
    (
        "cli",
        &[
            "agent",
            "blackboard",
            "config",
            "daemon",
            "demo",
            "dispatch",
            "doctor",
            "evaluator",
            "explain",
            "git",
            "github",
            "heartbeat",
            "intake",
            "process",
            "prompt",
            "review_text",
            "state",
            "service_unit",
            "wake",
        ],
    ),
];

/// Text that only some rooms may contain, and why.
const ONLY: &[(&str, &[&str], &str)] = &[
    ("rusqlite", &["blackboard"], "all SQL is in the blackboard"),
    ("Command::new(", &["process"], "children start in one place"),
    ("Utc::now(", &["clock"], "the time is read in one place"),
    (
        "SystemTime::now(",
        &["clock"],
        "the time is read in one place",
    ),
    (
        "env::var",
        &["config", "failpoint"],
        "the environment is read in one place",
    ),
    ("println!(", &["cli"], "printing is the command line's"),
    ("print!(", &["cli"], "printing is the command line's"),
    (
        "anyhow",
        &["cli", "daemon", "demo"],
        "rooms return errors that can be told apart",
    ),
    // The command line shows people what to type into sqlite3.
    (
        "SELECT ",
        &["blackboard", "cli"],
        "all SQL is in the blackboard",
    ),
    (
        "INSERT INTO",
        &["blackboard"],
        "all SQL is in the blackboard",
    ),
    (
        "fake_github::",
        &[],
        "the stand-in for GitHub is used as a program, `remand __gh`",
    ),
];

/// Texts that only one file of the crate `fake-github` may contain; an empty name means none.
const ONLY_IN_FAKE_GITHUB: &[(&str, &str)] = &[
    ("Command::new(", "git.rs"),
    ("Utc::now(", "clock.rs"),
    ("SystemTime::now(", ""),
    ("env::var", ""),
    ("println!(", ""),
];

/// Texts that only these directories of the blackboard may contain: the rest of it does not know
/// which database it is.
const OF_THE_DATABASE: &[&str] = &["rusqlite", ".sqlite()", ".sqlite_mut()", ".sqlite_code()"];
const KNOW_THE_DATABASE: &[&str] = &["blackboard/sql", "blackboard/connection"];

/// Columns that hold sentences for people. No decision depends on their wording.
const PROSE: &[&str] = &[
    "basis",
    "changed_reason",
    "decision",
    "failure_reason",
    "hold_reason",
    "note",
    "outcome_reason",
    "passed_over",
    "reason",
    "refused",
    "summary",
    "trouble",
    "trust_reason",
];

/// Comparisons of a field with such a sentence in the code, and why each is allowed.
const PROSE_COMPARED: &[(&str, &str)] = &[];

/// Reads of JSON by key: metadata of events and items, and payloads of intents, have types
/// (`event::body`, `intent`).
const UNTYPED: &[&str] = &["metadata.get(", "metadata[", "payload.get(", "payload["];

/// Rooms that read somebody else's JSON, or define the types.
const MAY_READ_UNTYPED: &[&str] = &["agent", "config", "event", "github", "review_text"];

/// Rooms that read files that an agent can write, and functions that they must not use: a pipe
/// blocks them, a link to a device fills the memory.
const READS_WITH_CARE: &[&str] = &["agent", "dispatch", "git", "intake", "process", "prompt"];
const CARELESS: &[&str] = &[
    "fs::read(",
    "read_to_string(",
    "File::open(",
    "fs::read_dir(",
];

/// Files that may use them, since what they read is the kernel's, the user's, or was written before
/// an agent ran.
const CARELESS_FILES: &[(&str, &str)] = &[
    ("agent/login.rs", "the user's own login"),
    ("git/fs_nofollow.rs", "opens a folder to sync it"),
    ("process/run_dir.rs", "/proc, and opens a folder to sync it"),
    ("process/output.rs", "lists the folder of a run"),
    (
        "process/shim.rs",
        "opens the prompt before there is an agent",
    ),
    ("process/table_linux.rs", "/proc"),
    ("process/writers.rs", "/proc"),
    ("prompt/mod.rs", "the user's folder of prompts"),
];

/// Maximum number of lines of a product file, and of a file with tests of a module.
const MOST_LINES: usize = 650;
const MOST_TEST_LINES: usize = 750;

struct Source {
    room: String,
    path: PathBuf,
    /// Code without tests and without comments.
    code: String,
    is_test: bool,
}

#[test]
fn rooms_use_only_whom_they_may() {
    let rooms: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let mut broken = BTreeSet::new();
    for source in sources()
        .iter()
        .filter(|source| source.room != "lib" && source.room != "main" && !source.is_test)
    {
        let Some(may) = rooms.get(source.room.as_str()) else {
            broken.insert(format!(
                "{}: the room `{}` is not in the table of this test",
                source.path.display(),
                source.room
            ));
            continue;
        };
        for used in used_rooms(&source.code) {
            let free =
                used == source.room || used == "failpoint" || DOMAIN.contains(&used.as_str());
            let pure = DOMAIN.contains(&source.room.as_str())
                && !DOMAIN.contains(&used.as_str())
                && used != "failpoint";
            if (!free && !may.contains(&used.as_str())) || pure {
                broken.insert(format!(
                    "{}: `{}` may not use `{used}`",
                    source.path.display(),
                    source.room
                ));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "edges that are not in the table:\n{}",
        broken.into_iter().collect::<Vec<_>>().join("\n")
    );
}

/// The table of the calls of a rejection in `docs/architecture.md`: every function exists in a file of its row, except
/// in parentheses or with a remark, and the numbers add up.
#[test]
fn the_map_of_a_rejection_names_functions_that_exist() {
    let text = fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let (_, map) = text.split_once("## The same path, call by call").unwrap();
    let (map, _) = map.split_once("| type | file |").unwrap();
    let sources = sources();
    let (mut calls, mut missing) = (0, Vec::new());
    for row in map.lines() {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, numbers, names, files, _] = cells[..] else {
            continue;
        };
        let Some(last) = numbers.split('–').next_back().and_then(|n| n.parse().ok()) else {
            continue;
        };
        let first: usize = numbers.split('–').next().unwrap().parse().unwrap();
        assert_eq!(first, calls + 1, "{row}");
        let in_files = |source: &&Source| {
            let path = source.path.to_string_lossy();
            files.split('`').any(|file| {
                let file = format!("src/{file}");
                path.ends_with(&file) || (!file.ends_with(".rs") && path.contains(&(file + "/")))
            })
        };
        let parts = names
            .split('→')
            .map(|part| part.split("`: ").next().unwrap());
        let names: Vec<&str> = parts
            .flat_map(|part| part.split(','))
            .map(|part| part.split('`').nth(1).unwrap_or_default())
            .map(|name| name.rsplit("::").next().unwrap())
            .collect();
        assert_eq!(names.len(), last - calls, "{row}");
        for name in names {
            let is_there = sources.iter().filter(in_files).any(|source| {
                [
                    format!("fn {name}("),
                    format!("fn {name}<"),
                    format!("for {name} "),
                ]
                .iter()
                .any(|form| source.code.contains(form))
            });
            if !is_there {
                missing.push(format!("{name}: {row}"));
            }
        }
        calls = last;
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(
        text.contains(&format!("There are {calls} calls: ")),
        "{calls}"
    );
    assert!(calls <= 90, "{calls}");
}

#[test]
fn an_edge_that_is_broken_on_purpose_is_found() {
    assert_eq!(
        used_rooms("use crate::blackboard::{self as bb, Db};")
            .into_iter()
            .collect::<Vec<_>>(),
        ["blackboard"]
    );
    assert_eq!(
        used_rooms("use crate::{git, process::Short};\nlet x = crate::config::load();")
            .into_iter()
            .collect::<Vec<_>>(),
        ["config", "git", "process"]
    );
}

#[test]
fn what_only_one_room_does() {
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        for (text, rooms, why) in ONLY {
            let at_word = |code: &str| {
                code.match_indices(text).any(|(at, _)| {
                    !code[..at]
                        .chars()
                        .next_back()
                        .is_some_and(|before| before.is_alphanumeric() || before == '_')
                })
            };
            if at_word(&source.code)
                && !rooms.contains(&source.room.as_str())
                && source.room != "lib"
                && source.room != "main"
            {
                broken.push(format!(
                    "{} contains `{text}`: {why}",
                    source.path.display()
                ));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn only_the_way_to_the_database_knows_which_one_it_is() {
    let src = root().join("src");
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        let name = source.path.strip_prefix(&src).unwrap();
        if KNOW_THE_DATABASE
            .iter()
            .any(|folder| name.starts_with(folder))
        {
            continue;
        }
        broken.extend(
            OF_THE_DATABASE
                .iter()
                .filter(|text| source.code.contains(**text))
                .map(|text| format!("{} has `{text}`", name.display())),
        );
    }
    assert!(broken.is_empty(), "use `blackboard::sql`: {broken:?}");
}

#[test]
fn metadata_and_payloads_are_read_by_their_types() {
    let mut broken = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| !source.is_test && !MAY_READ_UNTYPED.contains(&source.room.as_str()))
    {
        // A chain of calls may be split over lines.
        let code: String = source.code.split_whitespace().collect();
        broken.extend(
            UNTYPED
                .iter()
                .filter(|text| code.contains(**text))
                .map(|text| format!("{} has `{text}`", source.path.display())),
        );
    }
    assert!(broken.is_empty(), "use `event::body`: {broken:?}");
}

/// A sentence is written from a parameter (whose name the switch `REMAND_SCRAMBLE_PROSE` knows),
/// and may be tested for presence.
#[test]
fn no_statement_decides_by_a_sentence() {
    let mut broken = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| source.room == "blackboard" && !source.is_test)
    {
        for sql in statements(&source.code) {
            broken.extend(
                compared(&sql)
                    .into_iter()
                    .map(|what| format!("{}: {what}", source.path.display())),
            );
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_statement_that_decides_by_a_sentence_is_found() {
    let fine = "UPDATE t SET reason = :reason, note = coalesce(:note, note), trouble = NULL WHERE reason IS NOT NULL";
    assert!(compared(fine).is_empty(), "{:?}", compared(fine));
    for sql in [
        "SELECT 1 FROM t WHERE j.reason = :reason",
        "SELECT 1 FROM t WHERE summary LIKE '%x'",
        "SELECT CASE WHEN decision <> '' THEN 1 END FROM t",
        "SELECT 1 FROM t WHERE trouble IN ('a')",
        "SELECT 1 FROM t WHERE passed_over IS NOT :passed_over",
        "UPDATE t SET reason = 'closed'",
        "UPDATE t SET reason = :why",
    ] {
        assert_eq!(compared(sql).len(), 1, "{sql}");
    }
}

#[test]
fn no_code_decides_by_a_sentence() {
    let src = root().join("src");
    let mut broken = Vec::new();
    for source in sources().iter().filter(|source| !source.is_test) {
        let name = source.path.strip_prefix(&src).unwrap();
        if PROSE_COMPARED
            .iter()
            .any(|(file, _)| name == Path::new(file))
        {
            continue;
        }
        let code = source.code.split_whitespace().collect::<Vec<_>>().join(" ");
        // `rustfmt` puts each call of a long chain on a separate line.
        let code = code.replace(" .", ".");
        for field in PROSE {
            for (at, _) in code.match_indices(&format!(".{field}")) {
                let mut rest = &code[at + field.len() + 1..];
                if rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '(') {
                    continue;
                }
                for step in [".as_deref()", ".as_ref()", ".as_str()", ".trim()"] {
                    rest = rest.strip_prefix(step).unwrap_or(rest);
                }
                let is_compared = [
                    " == ",
                    " != ",
                    ".starts_with(",
                    ".ends_with(",
                    ".contains(",
                    ".strip_prefix(",
                    ".find(",
                    ".eq(",
                ]
                .iter()
                .any(|how| rest.starts_with(how));
                if is_compared {
                    let shown: String = rest.chars().take(40).collect();
                    broken.push(format!("{}: .{field}{shown}", name.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn files_that_an_agent_can_write_are_read_by_one_module() {
    let src = root().join("src");
    let mut broken = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| !source.is_test && READS_WITH_CARE.contains(&source.room.as_str()))
    {
        let name = source.path.strip_prefix(&src).unwrap();
        if CARELESS_FILES
            .iter()
            .any(|(file, _)| name == Path::new(file))
            || name.ends_with("script.rs")
        {
            continue;
        }
        // `files::read(` is the safe function.
        let code = source.code.replace("files::read(", "");
        broken.extend(
            CARELESS
                .iter()
                .filter(|text| code.contains(**text))
                .map(|text| format!("{} has `{text}`", name.display())),
        );
    }
    assert!(broken.is_empty(), "use `crate::files`: {broken:?}");
}

#[test]
fn no_file_grows_too_long() {
    let long: Vec<String> = rust_files(&root().join("src"))
        .into_iter()
        .chain(rust_files(&root().join("crates")))
        .map(|path| (fs::read_to_string(&path).unwrap().lines().count(), path))
        .filter(|(lines, path)| {
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            *lines > if is_test { MOST_TEST_LINES } else { MOST_LINES }
        })
        .map(|(lines, path)| format!("{} has {lines} lines", path.display()))
        .collect();
    assert!(long.is_empty(), "split by the next smaller noun: {long:?}");
}

#[test]
fn every_room_says_what_it_is_for() {
    for source in sources().into_iter().filter(|source| !source.is_test) {
        let text = fs::read_to_string(&source.path).unwrap();
        let is_module_root =
            source.path.ends_with("mod.rs") || source.path.parent() == Some(&root().join("src"));
        assert!(
            !is_module_root || text.starts_with("//!"),
            "{} has no //! at its top",
            source.path.display()
        );
    }
}

#[test]
fn the_fake_github_starts_processes_and_reads_the_time_in_one_place_each() {
    for path in rust_files(&root().join("crates/fake-github/src")) {
        let (text, name) = (fs::read_to_string(&path).unwrap(), path.file_name());
        assert!(
            text.starts_with("//!"),
            "{} has no //! at its top",
            path.display()
        );
        for (only, file) in ONLY_IN_FAKE_GITHUB {
            assert!(
                !text.contains(only) || name == Some(file.as_ref()),
                "{} contains `{only}`",
                path.display()
            );
        }
    }
}

#[test]
fn the_project_speaks_of_itself_only() {
    for path in [
        "README.md",
        "docs/architecture.md",
        "config.toml",
        "schema.sql",
    ] {
        let text =
            fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert!(
            !text.contains("/root/"),
            "{path} names a path of somebody's machine"
        );
    }
}

/// Every line of `tests/requirements.txt` has a test that names it in the comment above it.
#[test]
fn every_requirement_has_a_test_that_names_it() {
    let mut named = BTreeSet::new();
    for path in rust_files(&root().join("tests"))
        .into_iter()
        .chain(rust_files(&root().join("src")))
        .chain(rust_files(&root().join("crates")))
    {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.starts_with("///"))
        {
            let is_above_a_test = lines[at..]
                .iter()
                .find(|line| !line.starts_with("///"))
                .is_some_and(|line| {
                    line.starts_with("#[test]")
                        || line.starts_with("#[tokio::test")
                        || line.starts_with("#[cfg")
                });
            if is_above_a_test {
                named.extend(
                    line.split(|c: char| !(c.is_alphanumeric() || c == '-'))
                        .map(str::to_owned),
                );
            }
        }
    }
    let list = fs::read_to_string(root().join("tests/requirements.txt")).unwrap();
    let missing: Vec<&str> = list
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|id| !named.contains(*id))
        .collect();
    assert!(missing.is_empty(), "no test names {missing:?}");
}

/// Returns the string literals that are SQL.
fn statements(code: &str) -> Vec<String> {
    const VERBS: &[&str] = &[
        "SELECT ", "INSERT ", "UPDATE ", "DELETE ", "WITH ", "WHERE ",
    ];
    code.split('"')
        .skip(1)
        .step_by(2)
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|text| VERBS.iter().any(|verb| text.starts_with(verb)))
        .collect()
}

/// Returns the places in a statement where a column with a sentence is compared, or written from
/// anything other than a parameter.
fn compared(sql: &str) -> Vec<String> {
    let mut found = Vec::new();
    for column in PROSE {
        for (at, _) in sql.match_indices(column) {
            let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$' | '\'');
            let (before, after) = (&sql[..at], &sql[at + column.len()..]);
            if before.ends_with(is_part) || after.starts_with(is_part) {
                continue;
            }
            let is_set = before.rfind(" SET ").is_some_and(|set| {
                !before[set..].contains(" WHERE ") && !is_in_case(&before[set..])
            });
            let after = after.trim_start();
            let broken = if let Some(value) = after.strip_prefix('=').map(str::trim_start) {
                let value = value.strip_prefix("coalesce(").unwrap_or(value);
                let is_parameter = [
                    ":basis",
                    ":decision",
                    ":note",
                    ":passed_over",
                    ":reason",
                    ":summary",
                    ":trouble",
                    ":trust_reason",
                ]
                .iter()
                .any(|name| value.starts_with(name));
                // Kept as it is, or dropped, depending on a code.
                let is_kept = value.starts_with("NULL")
                    || value.starts_with("CASE ") && value.contains(&format!("THEN {column} END"));
                !is_set || !(is_parameter || is_kept)
            } else if let Some(value) = after.strip_prefix("IS ") {
                !value.starts_with("NULL") && !value.starts_with("NOT NULL")
            } else {
                ["<>", "!=", "LIKE ", "NOT LIKE ", "IN ", "NOT IN ", "GLOB "]
                    .iter()
                    .any(|how| after.starts_with(how))
            };
            if broken {
                let shown: String = after.chars().take(40).collect();
                found.push(format!("{column} {shown}"));
            }
        }
    }
    found
}

fn is_in_case(text: &str) -> bool {
    text.matches("CASE WHEN").count() > text.matches(" END").count()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let src = root().join("src");
    rust_files(&src)
        .into_iter()
        .map(|path| {
            let inside = path.strip_prefix(&src).unwrap().to_owned();
            let room = inside
                .components()
                .next()
                .unwrap()
                .as_os_str()
                .to_string_lossy()
                .trim_end_matches(".rs")
                .to_owned();
            let is_test = inside.components().any(|part| {
                let part = part.as_os_str().to_string_lossy();
                part.starts_with("tests")
                    || part.ends_with("_tests.rs")
                    || part.starts_with("conformance")
            });
            let text = fs::read_to_string(&path).unwrap();
            let code = text
                .split("#[cfg(test)]\nmod tests {")
                .next()
                .unwrap_or_default();
            let code: String = code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"))
                .collect::<Vec<_>>()
                .join("\n");
            Source {
                room,
                path,
                code,
                is_test,
            }
        })
        .collect()
}

/// Returns the rooms that a text names by `crate::room` or inside `use crate::{…}`.
fn used_rooms(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        if let Some(group) = rest.strip_prefix('{') {
            let mut depth = 0;
            let mut word = String::new();
            for c in group.chars() {
                match c {
                    '{' => depth += 1,
                    '}' if depth == 0 => break,
                    '}' => depth -= 1,
                    ',' if depth == 0 => used.extend(first_word(&std::mem::take(&mut word))),
                    _ => {}
                }
                if depth == 0 && c != ',' {
                    word.push(c);
                }
            }
            used.extend(first_word(&word));
        } else {
            used.extend(first_word(rest));
        }
    }
    used
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text
        .trim_start()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    (!word.is_empty()).then_some(word)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
