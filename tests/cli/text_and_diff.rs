//! Commands on a terminal: the editor for a text, the pager and colours of `diff`.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::{FIXER, Site};
use crate::support::{Output, World, feed, skip};

/// Runs `remand` on a terminal; none where there is no python3.
fn on_terminal(world: &World, vars: &[(&str, &Path)], args: &[&str], test: &str) -> Option<Output> {
    let mut python = world.command("python3");
    if world.command("python3").arg("--version").output().is_err() {
        skip(test, "there is no python3");
        return None;
    }
    python
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/init/typed.py"))
        .arg(env!("CARGO_BIN_EXE_remand"))
        .args(args)
        .env("TERM", "xterm")
        .envs(vars.iter().copied());
    Some(feed(python, "[]"))
}

#[test]
fn a_text_may_begin_with_a_dash() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    site.remand(&["reject", "c1", "--text", "-1 is not handled"])
        .ok();
    let event =
        "SELECT summary FROM events WHERE event_type = 'work_rejected' ORDER BY id DESC LIMIT 1";
    assert_eq!(site.world.sqlite(event), "-1 is not handled");
}

#[test]
fn a_text_is_written_in_the_editor() {
    let site = Site::under_review();
    let seen = site.world.root().join("seen");
    let text = format!(
        "cp -p \"$2\" '{}'\n[ \"$1\" = --wait ] || exit 7\nprintf '# Not a comment\\nmore\\n' | cat - \"$2\" > \"$2.new\" && mv \"$2.new\" \"$2\"\n",
        seen.display()
    );
    let editor = site.world.script("my-editor", &text);
    let wait = editor.to_str().unwrap().to_owned() + " --wait";
    let vars = [
        ("VISUAL", Path::new(&wait)),
        ("EDITOR", Path::new("/bin/false")),
    ];
    let Some(output) = on_terminal(
        &site.world,
        &vars,
        &["reject", "c1"],
        "a_text_is_written_in_the_editor",
    ) else {
        return;
    };
    output.ok();
    let body = "SELECT metadata ->> 'body' FROM events WHERE event_type = 'work_rejected'";
    assert_eq!(site.world.sqlite(body), "# Not a comment\nmore");
    // Others cannot read what is being written.
    let mode = std::fs::metadata(&seen).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let shown = std::fs::read_to_string(&seen).unwrap();
    assert!(
        shown.contains("# What is wrong with c1 (add work.txt)?"),
        "{shown}"
    );

    // An editor that fails, or leaves nothing, sends nothing.
    let run = |editor: &str, args: &[&str]| {
        on_terminal(&site.world, &[("EDITOR", Path::new(editor))], args, "").unwrap()
    };
    let failed = run("false", &["comment", "c1"]);
    assert_eq!(failed.status, 1);
    assert!(
        failed.stdout.contains("editor `false` failed"),
        "{}",
        failed.stdout
    );
    let empty = run("true", &["comment", "c1"]);
    assert_eq!(empty.status, 1);
    assert!(
        empty.stdout.contains("the text is empty"),
        "{}",
        empty.stdout
    );
    let refined =
        "SELECT count(*) FROM events WHERE metadata ->> 'action' IN ('comment', 'refine')";
    assert_eq!(site.world.sqlite(refined), "0");
    // Guidance is optional: an empty one starts the fix without it.
    run("true", &["refine", "c1"]).ok();
    assert_eq!(site.world.sqlite(refined), "1");
}

#[test]
fn a_text_has_one_source() {
    let site = Site::under_review();
    for command in ["reject", "refine", "comment"] {
        for args in [
            &["bare", "--text", "two"][..],
            &["bare", "--file", "-"],
            &["--text", "two", "--file", "-"],
        ] {
            let all = [&[command, "c1"], args].concat();
            site.remand(&all).fails(2, "cannot be used with");
        }
    }
    for command in ["reject", "comment"] {
        site.remand(&[command, "c1"])
            .fails(2, "--text TEXT or --file FILE");
        site.remand(&[command, "c1", " "])
            .fails(2, "the text is empty");
    }
    site.remand(&["comment", "c1", "bare"]).ok();
    site.remand(&["comment", "c1", "--text", "option"]).ok();
    site.world
        .remand_with_stdin(&["comment", "c1", "--file", "-"], "from stdin")
        .ok();
    site.world
        .remand_with_stdin(&["comment", "c1", "-"], "a dash")
        .ok();
    let bodies = "SELECT body FROM feedback WHERE kind = 'person' ORDER BY feedback_id";
    assert_eq!(
        site.world.sqlite(bodies),
        "bare\noption\nfrom stdin\na dash"
    );
    site.remand(&["reject", "c1", "a bare word"]).ok();
    site.world
        .remand_with_stdin(&["refine", "c1", "--file", "-"], "use http.rs")
        .ok();
    let rejections = "SELECT summary FROM events WHERE event_type = 'work_rejected'";
    let summaries = site.world.sqlite(rejections);
    assert!(
        summaries.contains("a bare word") && summaries.contains("use http.rs"),
        "{summaries}"
    );
}

#[test]
fn a_diff_is_paged_and_coloured_on_a_terminal() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    let seen = site.world.root().join("paged");
    let pager = site
        .world
        .script("my-pager", &format!("cat > '{}'\n", seen.display()));
    let vars = [
        ("GIT_PAGER", pager.as_path()),
        ("PAGER", Path::new("false")),
    ];
    let name = "a_diff_is_paged_and_coloured_on_a_terminal";
    let Some(output) = on_terminal(&site.world, &vars, &["diff", "c1"], name) else {
        return;
    };
    assert_eq!(output.ok().stdout, "");
    let paged = std::fs::read_to_string(&seen).unwrap();
    assert!(paged.contains("\u{1b}[32m+better"), "{paged:?}");
    std::fs::remove_file(&seen).unwrap();

    let run = |vars: &[(&str, &Path)], args: &[&str]| {
        on_terminal(&site.world, vars, args, name).unwrap().ok()
    };
    let direct = run(&vars, &["diff", "c1", "--no-pager"]).stdout;
    assert!(
        direct.contains("\u{1b}[32m+better") && !seen.exists(),
        "{direct:?}"
    );
    // A pager that is not there hides nothing.
    let missing = [("PAGER", Path::new("no-such-pager"))];
    let direct = run(&missing, &["diff", "c1"]).stdout;
    assert!(direct.contains("+better"), "{direct:?}");
    let plain = [("PAGER", Path::new("cat")), ("NO_COLOR", Path::new("1"))];
    let plain = run(&plain, &["diff", "c1"]).stdout;
    assert!(
        plain.contains("+better") && !plain.contains('\u{1b}'),
        "{plain:?}"
    );
}

#[test]
fn a_diff_has_a_summary_and_shows_one_run() {
    let site = Site::with_agents(FIXER);
    site.remand(&["tick"]).report();
    insta::assert_snapshot!(site.shows(&["diff", "c1", "--stat"]), @"
    fixed     +0 -0
    work.txt  +1 -0
    2 files, +1 -0
    ");
    insta::assert_snapshot!(site.shows(&["diff", "r2", "--stat"]), @"
    fixed     +0 -0
    work.txt  +1 -1
    2 files, +1 -1
    ");
    let run = site.world.json(&["diff", "r2"]);
    assert_eq!(
        (&run["change_id"], &run["run_id"]),
        (&"c1".into(), &"r2".into())
    );
    assert!(site.world.json(&["diff", "c1"])["run_id"].is_null());
    site.remand(&["diff", "r2", "--cycle", "1"])
        .fails(2, "--cycle needs a change, but r2 is a run");
    site.remand(&["diff", "r9"]).fails(4, "no such run: `r9`");
    site.remand(&["diff", "c1", "--raw", "--stat"])
        .fails(2, "cannot be used with");
}

#[test]
fn the_work_that_a_failed_run_left_is_shown() {
    let site = Site::with_agents("echo half >> work.txt\necho new > new.txt\nexit 9\n");
    site.remand(&["tick"]).report();
    let shown = site.shows(&["diff", "r2"]);
    assert!(
        shown.contains("+half") && shown.contains("b/new.txt"),
        "{shown}"
    );
    // A review leaves nothing.
    site.remand(&["diff", "r1"]).fails(4, "r1 left no work");
}

#[test]
fn guidance_by_the_operator_has_an_id_that_can_be_shown() {
    let site = Site::under_review();
    site.remand(&["comment", "c1", "please hurry"]).ok();
    let shown = site.remand(&["show", "g1"]).ok().stdout;
    assert!(shown.contains("please hurry"), "{shown}");
    assert_eq!(site.world.json(&["show", "g1"])["kind"], "person");
    site.remand(&["why", "g1"]).ok();
}

#[test]
fn an_event_that_made_no_work_has_a_code() {
    let site = Site::under_review();
    site.world.sqlite(
        "INSERT INTO events (event_type, target_type, target_id, summary)
         VALUES ('work_rejected', 'change', 'c99', 'no such change')",
    );
    site.remand(&["tick"]).report();
    let code = "SELECT metadata ->> 'code' FROM events WHERE event_type = 'skipped' AND target_type = 'event'";
    assert_eq!(site.world.sqlite(code), "unknown_target");
}

#[test]
fn a_rejection_that_an_older_approval_did_not_mean_has_no_end() {
    let site = Site::with_agents(FIXER);
    site.world.sqlite(
        "INSERT INTO events (event_type, target_type, target_id, summary)
         VALUES ('work_approved', 'change', 'c1', 'fine');
         INSERT INTO events (event_type, target_type, target_id, summary)
         VALUES ('work_rejected', 'change', 'c1', 'say please')",
    );
    site.remand(&["tick"]).report();
    let odd = "SELECT count(*) FROM rejections WHERE ended_by IS NOT NULL AND state IN ('pending', 'in_fix', 'fixed')";
    assert_eq!(site.world.sqlite(odd), "0");
}

#[test]
fn a_list_of_commands_that_is_no_list_does_not_hide_the_board() {
    let site = Site::under_review();
    site.world
        .sqlite("UPDATE changes SET decision_commands = '{}'");
    site.remand(&[]).ok();
    site.remand(&["why", "c1"]).ok();
}

#[test]
fn a_discarded_run_offers_its_diff_only_if_there_is_one() {
    let site = Site::with_agents("echo half >work.txt\nexit 3\n");
    site.remand(&["tick"]).held();
    let shown = site.remand(&["show", "r2"]).ok().stdout;
    assert!(shown.contains("`remand diff r2`"), "{shown}");
    assert!(site.remand(&["diff", "r2"]).ok().stdout.contains("+half"));
    site.world.script("fixer", "cat >/dev/null\nexit 3\n");
    site.remand(&["retry", "c1"]).ok();
    site.remand(&["tick"]).held();
    let shown = site.remand(&["show", "r3"]).ok().stdout;
    assert!(!shown.contains("remand diff"), "{shown}");
    site.remand(&["diff", "r3"]).fails(4, "r3 left no work");
}
