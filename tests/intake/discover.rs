//! Pull requests that match a project's rules, and those that are passed over.

use super::stage::Stage;

const ANY: &str = "[projects.engine.discover]\nlabel = \"\"\n";

fn answer(stage: &Stage, number: i64) -> String {
    stage.answer(&format!("ada/engine#{number}"))
}

#[test]
fn those_that_fit_the_rules_are_taken_over_and_the_others_say_why_not() {
    let stage = Stage::with(
        "[projects.engine.discover]\nauthors = [\"ada\", \"bob\"]\nbranches = [\"agent/**\", \"feature\"]\n",
    );
    for branch in [
        "agent/draft",
        "agent/by-mallory",
        "other",
        "agent/forked",
        "agent/plain",
    ] {
        stage.branch(branch);
    }
    let label = |number: i64| stage.forge.label(number, "remand");
    label(stage.forge.open_pull("feature", "main", "ada"));
    let draft = stage.forge.open_pull("agent/draft", "main", "ada");
    label(draft);
    stage.forge.convert_to_draft(draft);
    label(stage.forge.open_pull("agent/by-mallory", "main", "mallory"));
    label(stage.forge.open_pull("other", "main", "ada"));
    label(
        stage
            .forge
            .open_pull_from(Some("bob/engine"), "agent/forked", "main", "bob"),
    );
    stage.forge.open_pull("agent/plain", "main", "ada");
    stage.world.remand(&["tick"]).report();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT change_id, pr_number, adopted_by FROM changes"),
        "c1|1|discovery"
    );
    let rules = "with the label `remand`, by ada or bob, from agent/** or feature, excluding drafts, at most 5 at a time";
    for (number, why) in [
        (2, "it is a draft"),
        (3, "its author mallory is not in `authors`"),
        (4, "its branch other does not match agent/**, feature"),
        (5, "its branch is in a fork"),
        (6, "it has no label `remand`"),
    ] {
        let told = answer(&stage, number);
        assert!(
            told.starts_with(&format!(
                "it is not watched: {why}; the project takes over PRs {rules}; last checked"
            )),
            "{told}"
        );
    }
    assert_eq!(stage.why("ada/engine#6")["because"], "passed_over");
    assert_eq!(stage.why("ada/engine#1")["id"], "c1");
    // Nobody wanted those that the rules do not match; the one that they would match is reported.
    let told = "SELECT target_type, summary FROM events WHERE event_type = 'skipped'";
    assert_eq!(
        stage.world.sqlite(told),
        "project|ada/engine#5 is not adopted: its branch is in a fork"
    );
    stage.read();
    assert_eq!(
        stage.count("events WHERE event_type = 'skipped' AND target_type = 'project'"),
        1,
        "once"
    );
    let shown = stage.world.remand(&["show", "ada/engine#6"]).ok().stdout;
    assert!(shown.contains("agent/plain → main"), "{shown}");
}

#[test]
fn a_label_takes_it_over_and_without_it_the_change_pauses() {
    let stage = Stage::with("[projects.engine.discover]\n");
    let number = stage.forge.open_pull("feature", "main", "ada");
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.count("changes"), 0);
    stage.forge.label(number, "Remand");
    stage.due();
    // Nobody may work on it here.
    stage
        .world
        .sqlite("UPDATE discoveries SET next_read = '2020-01-01T00:00:00.000Z'");
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.count("changes WHERE adopted_by = 'discovery'"), 1);
    stage.forge.unlabel(number, "Remand");
    stage.read();
    assert_eq!(
        stage.world.sqlite("SELECT passed_over FROM pulls"),
        "it has no label `remand`"
    );
    let told = stage.answer("c1");
    assert!(
        told.contains("paused") && told.contains("it has no label `remand`"),
        "{told}"
    );
    stage.forge.label(number, "remand");
    stage.read();
    assert_eq!(stage.world.sqlite("SELECT paused FROM changes"), "0");
}

#[test]
fn no_more_than_allowed_are_open_at_once_and_the_oldest_come_first() {
    let stage = Stage::with("[projects.engine.discover]\nlabel = \"\"\nmax_open = 2\n");
    for branch in ["a", "b", "c"] {
        stage.branch(branch);
        stage.forge.open_pull(branch, "main", "ada");
    }
    stage.world.remand(&["tick"]).report();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT pr_number FROM changes ORDER BY pr_number"),
        "1\n2"
    );
    let told = answer(&stage, 3);
    assert!(told.contains("2 are already open (max_open)"), "{told}");
    stage.world.remand(&["cancel", "ada/engine#1"]).ok();
    stage.read();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT pr_number FROM changes WHERE state <> 'closed' ORDER BY pr_number"),
        "2\n3"
    );
    assert_eq!(
        stage.count("changes WHERE pr_number = 1"),
        1,
        "what a person gave up is not taken over again"
    );
}

#[test]
fn a_list_that_has_not_changed_is_not_sent_again_unless_something_on_it_waits() {
    let stage = Stage::with("[projects.engine.discover]\nmax_open = 1\n");
    let number = stage.forge.open_pull("feature", "main", "ada");
    let lists = || {
        stage
            .asked()
            .into_iter()
            .filter(|line| line.contains("pulls?state=open"))
            .collect::<Vec<_>>()
    };
    let list = "repos/ada/engine/pulls?state=open&per_page=100&page=1";
    stage.read();
    assert_eq!(lists(), [format!("200 {list}")]);
    stage.read();
    assert_eq!(lists(), [format!("304 {list}")]);
    stage.forge.label(number, "remand");
    stage.read();
    assert_eq!(
        lists(),
        [format!("200 {list}"), format!("200 {list}")],
        "it has changed: it is read whole"
    );
    assert_eq!(stage.count("changes"), 1);
    stage.branch("other");
    let other = stage.forge.open_pull("other", "main", "ada");
    stage.forge.label(other, "remand");
    stage.read();
    stage.asked();
    stage.read();
    assert_eq!(lists(), [format!("200 {list}")], "one waits for its turn");
    stage.world.remand(&["cancel", "ada/engine#1"]).ok();
    stage.read();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT pr_number FROM changes WHERE state <> 'closed'"),
        "2"
    );
    stage.read();
    stage.asked();
    stage.read();
    assert_eq!(lists(), [format!("304 {list}")]);
    let file = stage.world.root().join("config/remand/config.toml");
    let config = std::fs::read_to_string(&file)
        .unwrap()
        .replace("max_open = 1", "max_open = 1\ndrafts = true");
    std::fs::write(&file, config).unwrap();
    stage.read();
    assert_eq!(
        lists(),
        [format!("200 {list}")],
        "by other rules it is looked at anew"
    );
}

#[test]
fn one_that_was_closed_meanwhile_is_not_open_any_more() {
    let stage = Stage::with("[projects.engine.discover]\n");
    let number = stage.forge.open_pull("feature", "main", "ada");
    stage.world.remand(&["tick"]).report();
    stage.forge.close(number);
    stage.read();
    assert!(answer(&stage, number).contains("it is no longer open"));
}

#[test]
fn a_look_that_failed_is_told_and_comes_again() {
    let stage = Stage::with(ANY);
    stage.forge.open_pull("feature", "main", "ada");
    stage
        .forge
        .fault(serde_json::json!({ "path": "pulls?state=open", "then": "html502" }));
    stage.world.remand(&["tick"]).report();
    let told = answer(&stage, 1);
    assert!(
        told.contains("the last check failed: request to GitHub for"),
        "{told}"
    );
    assert_eq!(
        stage.count("events WHERE event_type = 'held' AND target_type = 'project'"),
        1
    );
    stage.read();
    assert_eq!(stage.count("changes"), 1);
    assert_eq!(
        stage
            .world
            .sqlite("SELECT failures, trouble FROM discoveries"),
        "0|"
    );
}

#[test]
fn why_tells_a_project_that_does_not_look_from_one_that_never_saw_it() {
    let stage = Stage::new();
    assert!(
        answer(&stage, 7).starts_with(
            "it is not discovered automatically: [projects.engine.discover] is not set"
        )
    );
    stage.settings(ANY);
    assert!(
        answer(&stage, 7).starts_with("it was never seen open"),
        "{}",
        answer(&stage, 7)
    );
    stage
        .world
        .remand(&["why", "bob/engine#7"])
        .fails(4, "there is no project for the repository bob/engine");
    // A project without discovery causes no wake-ups.
    stage.world.remand(&["tick"]).report();
    stage.settings("");
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.world.sqlite("SELECT next_read FROM discoveries"), "");
}

/// One worktree cannot follow two pull requests: the second is reported, and later ones are
/// adopted.
#[test]
fn two_from_one_branch_do_not_keep_the_others_from_being_found() {
    let stage = Stage::with("[projects.engine.discover]\n");
    stage.world.git(
        &stage.repo,
        &["push", "-q", "origin", "main:refs/heads/release"],
    );
    stage.branch("other");
    for (branch, base) in [
        ("feature", "main"),
        ("feature", "release"),
        ("other", "main"),
    ] {
        stage
            .forge
            .label(stage.forge.open_pull(branch, base, "ada"), "remand");
    }
    stage.world.remand(&["tick"]).report();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT pr_number FROM changes ORDER BY pr_number"),
        "1\n3"
    );
    let told = answer(&stage, 2);
    assert!(
        told.contains("its branch feature already belongs to c1") && told.contains("last checked"),
        "{told}"
    );
    assert_eq!(
        stage
            .world
            .sqlite("SELECT failures, trouble FROM discoveries"),
        "0|"
    );
    stage.read();
    assert_eq!(
        stage.count("events WHERE event_type = 'skipped' AND target_type = 'project'"),
        1,
        "once"
    );
    stage
        .world
        .remand(&["watch", "ada/engine#2"])
        .fails(1, "its branch feature already belongs to c1");
}

#[test]
fn what_cannot_be_written_of_one_keeps_neither_the_others_nor_other_projects_from_being_found() {
    let stage = Stage::with(
        "[projects.engine.discover]\nlabel = \"\"\n[projects.zoo.discover]\nlabel = \"\"\n",
    );
    stage.branch("other");
    stage.forge.open_pull("feature", "main", "ada");
    stage.forge.open_pull("other", "main", "ada");
    stage.world.sqlite(
        "CREATE TRIGGER no_luck BEFORE INSERT ON changes WHEN NEW.branch = 'feature'
         BEGIN SELECT RAISE(ABORT, 'no luck'); END",
    );
    stage.world.remand(&["tick"]).report();
    assert_eq!(stage.world.sqlite("SELECT pr_number FROM changes"), "2");
    assert!(
        answer(&stage, 1).contains("no luck"),
        "{}",
        answer(&stage, 1)
    );
    stage.world.sqlite("DROP TRIGGER no_luck");
    stage.read();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT pr_number FROM changes ORDER BY pr_number"),
        "1\n2"
    );

    // Nothing can be stored for one project; the one after it is still read.
    let (zoo, bare) = (stage.world.repo("zoo"), stage.folder("engine.git"));
    let bare = bare.to_str().unwrap();
    stage
        .world
        .remand(&[
            "project",
            "add",
            zoo.to_str().unwrap(),
            "--repo",
            "ada/engine",
            "--url",
            bare,
        ])
        .ok();
    stage.world.sqlite(
        "CREATE TRIGGER no_luck BEFORE UPDATE ON pulls WHEN NEW.project_id = 'engine'
         BEGIN SELECT RAISE(ABORT, 'no luck'); END;
         UPDATE discoveries SET next_read = '2020-01-01T00:00:00.000Z', marks = '{}';
         INSERT INTO pulls (project_id, number, title, state, draft, head_ref, head_sha, base_ref, labels, url)
         VALUES ('engine', 99, 'gone', 'open', 0, 'gone', 'abc', 'main', '[]', '')",
    );
    stage.world.remand(&["tick"]).report();
    let looked =
        "SELECT project_id, failures, next_read > '2020-02' FROM discoveries ORDER BY project_id";
    assert_eq!(stage.world.sqlite(looked), "engine|1|1\nzoo|0|1");
    let trouble = stage
        .world
        .sqlite("SELECT trouble FROM discoveries WHERE project_id = 'engine'");
    assert!(trouble.contains("no luck"), "{trouble}");
}

/// Feedback from before the adoption is known before anyone works on it.
#[test]
fn a_found_one_is_read_before_it_is_worked_on() {
    let stage = Stage::with(ANY);
    let number = stage.forge.open_pull("feature", "main", "ada");
    stage.forge.review(
        number,
        &crate::support::forge::Review {
            body: "no",
            ..Default::default()
        },
    );
    stage.world.remand(&["tick"]).report();
    let order = "SELECT group_concat(event_type) FROM (SELECT event_type FROM events
        WHERE event_type IN ('pr_adopted', 'feedback_received', 'work_rejected', 'work_claimed') ORDER BY id LIMIT 3)";
    assert_eq!(
        stage.world.sqlite(order),
        "pr_adopted,feedback_received,work_rejected"
    );
}

#[cfg(feature = "failpoints")]
#[test]
fn one_that_was_being_taken_over_when_it_was_killed_is_taken_over_once() {
    for at in ["discover", "adopt", "discovery"].map(|name| format!("commit.{name}")) {
        for when in ["before", "after"] {
            let stage = Stage::with(ANY);
            stage.forge.open_pull("feature", "main", "ada");
            let mut command = stage.world.remand_command(&["tick"]);
            command.env("REMAND_CRASH_AT", format!("{at}.{when}"));
            assert_eq!(crate::support::run(&mut command).status, -1, "{at}.{when}");
            stage.world.remand(&["tick"]).report();
            assert_eq!(stage.count("changes"), 1, "{at}.{when}");
            assert_eq!(
                stage.count("events WHERE event_type = 'pr_adopted'"),
                1,
                "{at}.{when}"
            );
            assert_eq!(stage.world.remand(&["check"]).ok().status, 0);
        }
    }
}
