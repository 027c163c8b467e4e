//! Text by others is printed in a harmless form by every command that shows it.

use super::{FIXER, Site};

const HOSTILE: &str = "x\u{1b}[31mred\u{1b}]0;t\u{7}\u{1b}]8;;https://evil.example\u{1b}\\l\u{1b}]52;c;eA==\u{7}\u{9b}2J\u{9d}0;t\u{9c}\u{202e}rtl\u{2066}\u{200b}\u{2028}\u{e0041}\r\nerror: forged\u{8}\u{7f}";

/// Newlines that remand writes itself are allowed.
#[track_caller]
fn assert_harmless(text: &str, what: &str) {
    for c in text.chars() {
        let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}');
        assert!(
            c == '\n' || !c.is_control() && !hidden,
            "{what}: {c:?} in {text:?}"
        );
    }
}

fn quoted() -> String {
    format!("'{}'", HOSTILE.replace('\'', "''"))
}

#[test]
fn nothing_in_the_database_reaches_the_terminal() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    let text = quoted();
    for sql in [
        "UPDATE changes SET title = T, branch = 'b' || T",
        "UPDATE work_items SET title = T, failure_reason = T, metadata = json_set(metadata, '$.x', T)",
        "UPDATE reviews SET summary = T, body = T, reason = T, dialect = T",
        "UPDATE findings SET text = T, path = T, suggestion = T, note = T",
        "UPDATE rejections SET reason = T",
        "UPDATE runs SET agent = T, gate_output = T",
        "UPDATE projects SET repo = T",
        "INSERT INTO events (event_type, actor_id, target_type, target_id, change_id, summary, metadata) VALUES ('skipped', T, 'change', 'c1', 'c1', T, json_object('x', T))",
        "INSERT INTO events (event_type, actor_id, target_type, target_id, summary) VALUES ('work_rejected', T, 'change', T, T)",
    ] {
        site.world.sqlite(
            &sql.replace(" T", &format!(" {text}"))
                .replace("(T", &format!("({text}")),
        );
    }
    let newest = site.world.sqlite("SELECT max(id) FROM events");
    let before = (newest.parse::<i64>().unwrap() - 1).to_string();
    let ids = [
        "c1",
        "w1",
        "w2",
        "r1",
        "r2",
        "v1",
        "f1",
        "j1",
        "site",
        newest.as_str(),
        before.as_str(),
    ];
    let mut looks: Vec<Vec<&str>> = vec![
        vec![],
        vec!["list", "--all"],
        vec!["status"],
        vec!["status", "c1"],
        vec!["events"],
        vec!["item", "list"],
        vec!["item", "show", "w1"],
        vec!["project", "list"],
        vec!["log", "r1"],
        vec!["diff", "c1"],
        vec!["check"],
        vec!["events", "--change", "c1"],
    ];
    looks.extend(
        ids.iter()
            .flat_map(|id| [vec!["show", id], vec!["why", id]]),
    );
    for look in &looks {
        for json in [false, true] {
            let mut args = look.clone();
            args.extend(json.then_some("--json"));
            let output = site.remand(&args);
            assert!(output.status <= 1, "{args:?}: {}", output.stderr);
            assert_harmless(&output.stdout, &format!("{args:?}"));
            assert_harmless(&output.stderr, &format!("{args:?}"));
            assert!(
                !output
                    .stdout
                    .lines()
                    .chain(output.stderr.lines())
                    .any(|line| line.starts_with("error: forged")),
                "{args:?}"
            );
        }
    }
    let title = site.world.json(&["status", "c1"])["title"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(title, HOSTILE, "JSON says the same to a parser");
}

#[test]
fn nothing_that_is_typed_or_written_in_files_does_either() {
    let site = Site::under_review();
    let root = site.world.root();
    std::fs::write(
        root.join("review.md"),
        format!("{HOSTILE}\n\nREVIEW_RESULT: changes_requested\nSUMMARY: {HOSTILE}\n"),
    )
    .unwrap();
    for args in [
        &["read-review", "review.md"][..],
        &["read-review", "review.md", "--json"],
        &["reject", "c1", "--file", "review.md"],
        &["comment", "c1", HOSTILE],
        &["pause", "c1", "--why", HOSTILE],
        &["why", "c1"],
        &["show", HOSTILE],
        &["why", HOSTILE],
        &["evaluators", "show", HOSTILE],
        &["config", "show", HOSTILE],
        &["cancel", "c1", "--why", HOSTILE],
    ] {
        let output = site.remand(args);
        assert_harmless(&output.stdout, &format!("{args:?}"));
        assert_harmless(&output.stderr, &format!("{args:?}"));
    }
}

#[test]
fn an_agents_output_and_a_diff_are_harmless_unless_asked_for_raw() {
    let site = Site::with_agents(FIXER);
    site.world.script(
        "reviewer",
        "cat > /dev/null\nprintf 'a\\033[31mb\\nREVIEW_RESULT: approved\\nSUMMARY: \\033[31mfine\\n'\n",
    );
    site.world.commit(
        &site.worktree,
        "evil.txt",
        "\u{1b}[2J\u{9b}1m",
        "\u{1b}]0;subject\u{7}",
    );
    site.world.remand_in(&site.worktree, &["review"]).ok();
    site.remand(&["tick"]).report();
    for args in [
        &["log", "r1"][..],
        &["diff", "c1"],
        &["list"],
        &["show", "v1"],
        &["log", "r1", "-f"],
    ] {
        assert_harmless(&site.remand(args).ok().stdout, &format!("{args:?}"));
    }
    assert!(
        site.remand(&["log", "r1", "--raw"])
            .ok()
            .stdout
            .contains("\u{1b}[31m")
    );
    assert!(
        site.remand(&["diff", "c1", "--raw"])
            .ok()
            .stdout
            .contains("\u{1b}[2J")
    );
}

#[test]
fn an_event_of_megabytes_is_one_line() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    site.world.sqlite(
        "INSERT INTO events (event_type, target_type, target_id, change_id, summary)
         VALUES ('skipped', 'change', 'c1', 'c1', 'begins ' || hex(zeroblob(7500000)))",
    );
    let newest = site.world.sqlite("SELECT max(id) FROM events");
    for args in [
        &["events"][..],
        &["events", "--change", "c1", "--limit", "3"],
        &["why", "c1"],
        &["why", newest.as_str()],
        &["list"],
    ] {
        let shown = site.remand(args).ok().stdout;
        assert!(shown.len() < 40_000, "{args:?}: {} bytes", shown.len());
        assert!(
            args == ["list"] || shown.contains("begins 0000"),
            "{args:?}: {shown}"
        );
    }
    let whole = site
        .remand(&["events", "--limit", "1", "--json"])
        .ok()
        .stdout;
    assert!(
        whole.len() > 15_000_000,
        "JSON has all of it: {}",
        whole.len()
    );
}
