//! The loop from the first review to the last, and one session for two questions.

use serde_json::Value;

use super::stage::{
    Stage, by_claude, claude, command, fixes, good_model, is_review, pull_stage, reviews,
    reviews_and_fixes, verdict,
};
use crate::support::model::{Model, says};
use crate::support::play::{Play, Script};
use crate::support::run;

const PHASES: &str = "SELECT source FROM runs JOIN work_items USING (item_id) ORDER BY runs.rowid";

#[test]
fn the_real_claude_is_rejected_fixes_is_pushed_and_approved() {
    let Some(claude) = claude("the_real_claude_is_rejected_fixes_is_pushed_and_approved") else {
        return;
    };
    let model = good_model();
    let stage = pull_stage(&claude, "");
    let play = &stage.play;
    stage.due();
    run(&mut command(&play.world, &model.url, &["tick"])).report();
    stage.is_ready(1);
    assert_eq!(
        play.world.sqlite(PHASES),
        "code_review\nreview_fix\ncode_review"
    );
    assert_eq!(
        play.world.git(&stage.remote, &["show", "feature:work.txt"]),
        "fixed"
    );
    let reviews: Vec<Value> = stage.posted("POST", "/reviews");
    assert_eq!(reviews[0]["event"], "REQUEST_CHANGES");
    assert_eq!(reviews.last().unwrap()["event"], "COMMENT");
    // Each in its own session, whose id was known before it started, with its usage.
    assert_eq!(
        play.count("runs WHERE length(session) = 36 AND model = 'claude-sonnet-4-5'"),
        3
    );
    assert_eq!(
        play.world
            .sqlite("SELECT count(DISTINCT session) FROM runs"),
        "3"
    );
    assert_eq!(
        play.world.sqlite("SELECT tokens FROM runs ORDER BY rowid"),
        "340\n510\n340"
    );
    assert_eq!(
        play.count(
            "changes WHERE tokens = 1190 AND cost_micros = (SELECT sum(cost_micros) FROM runs)"
        ),
        1
    );
    assert_eq!(play.count("runs WHERE cost_micros > 0"), 3);
    for asked in model.asked() {
        assert!(
            asked.headers.contains("key-of-the-test"),
            "{}",
            asked.headers
        );
        assert!(
            !asked.everything.contains("never-seen"),
            "the forge's token reached the agent"
        );
        let edits = asked
            .tools
            .iter()
            .any(|tool| ["Edit", "Write", "NotebookEdit"].contains(&tool.as_str()));
        assert_eq!(edits, !is_review(&asked), "{:?}", asked.tools);
    }
    let log = play.world.remand(&["log", "r2"]).ok().stdout;
    assert!(
        log.contains("Read work.txt")
            && log.contains("Edit work.txt")
            && log.contains("I wrote `fixed`"),
        "{log}"
    );
    assert!(!log.contains("{\"type\""), "{log}");
    let shown = play.world.remand(&["show", "r2"]).ok().stdout;
    let session = play
        .world
        .sqlite("SELECT session FROM runs WHERE run_id = 'r2'");
    for part in [session.as_str(), "claude-sonnet-4-5", "510", "$0.00"] {
        assert!(shown.contains(part), "{part:?} is not in {shown}");
    }
    let raw = play.world.remand(&["log", "r2", "--raw"]).ok().stdout;
    assert!(
        raw.lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok()),
        "{raw}"
    );
}

/// The follow-up question is asked in the session that already knows the diff.
#[test]
fn an_unclear_review_is_asked_again_in_its_session_and_paid_once() {
    let Some(claude) = claude("an_unclear_review_is_asked_again_in_its_session_and_paid_once")
    else {
        return;
    };
    let model = Model::new(
        |asked| match asked.prompt.contains("Please answer once more") {
            false => says("It looks fine to me."),
            true => says(verdict("approved", &[], &[])),
        },
    );
    let stage = Stage::new(&claude, &model.url, "", "");
    stage.tick();
    stage.play.is_ready(0);
    let world = &stage.play.world;
    assert_eq!(
        world.sqlite("SELECT count(*), count(DISTINCT session) FROM runs"),
        "2|1"
    );
    assert_eq!(
        world.sqlite("SELECT count(DISTINCT cost_micros), min(cost_micros) > 0 FROM runs"),
        "1|1"
    );
    assert_eq!(world.sqlite("SELECT tokens FROM runs"), "170\n170");
    let again = stage.play.prompt_of_run("r2");
    assert!(
        again.contains("could not be read as a verdict") && !again.contains("work.txt"),
        "{again}"
    );
    let asked = model.asked();
    assert!(
        asked.last().unwrap().prompt.contains("work.txt"),
        "it does not know what was reviewed"
    );
}

#[test]
fn a_session_that_is_gone_is_begun_afresh_once() {
    let Some(claude) = claude("a_session_that_is_gone_is_begun_afresh_once") else {
        return;
    };
    let model = Model::new(
        |asked| match asked.prompt.contains("Please answer once more") {
            false => says("It looks fine to me."),
            true => says(verdict("approved", &[], &[])),
        },
    );
    let stage = Stage::new(&claude, &model.url, "", "");
    let forgets = format!(
        "case \"$*\" in *--resume*) rm -rf \"$HOME/.claude/projects\";; esac\nexec '{claude}' \"$@\"\n"
    );
    let forgetful = stage.play.world.script("forgetful", &forgets);
    let config = stage.play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&config)
        .unwrap()
        .replace(&claude, forgetful.to_str().unwrap());
    stage.play.world.config(&text);
    stage.tick();
    stage.play.is_ready(0);
    let world = &stage.play.world;
    assert_eq!(
        world.sqlite("SELECT count(*), count(DISTINCT session) FROM runs"),
        "3|2"
    );
    assert_eq!(
        world.sqlite("SELECT lost_runs, attempt FROM work_items"),
        "0|1",
        "nothing was lost, nothing failed"
    );
    let afresh = stage.play.prompt_of_run("r3");
    assert!(
        afresh.contains("work.txt") && afresh.contains("could not be read as a verdict"),
        "{afresh}"
    );
}

#[test]
fn what_is_left_of_the_money_bounds_the_next_run() {
    let Some(claude) = claude("what_is_left_of_the_money_bounds_the_next_run") else {
        return;
    };
    let model = Model::new(reviews_and_fixes);
    // Two answers of the reviewer cost more than that, and the fixer must be cut at its first.
    let stage = Stage::new(
        &claude,
        &model.url,
        "",
        "[loop]\nmax_cost_usd = 0.003\n[limits]",
    );
    stage.tick();
    stage.play.is_escalated("Reached maximum budget");
    assert_eq!(stage.play.world.sqlite(PHASES), "code_review\nreview_fix");
    assert!(
        model
            .asked()
            .iter()
            .filter(|asked| !is_review(asked))
            .count()
            < 3
    );
}

/// A reviewer that is claude with a fixer that is not, and the reverse.
#[test]
fn kinds_of_agents_work_on_one_change() {
    let Some(claude) = claude("kinds_of_agents_work_on_one_change") else {
        return;
    };
    let model = Model::new(|asked| {
        if is_review(asked) {
            reviews(asked)
        } else {
            fixes(asked)
        }
    });
    for (ours, theirs) in [
        ("agent = \"fixer\"", "agent = \"claude\""),
        ("review_agent = \"reviewer\"", ""),
    ] {
        let play = Play::without_change(&Script::default());
        let path = play.world.root().join("config/remand/config.toml");
        let plain = std::fs::read_to_string(&path).unwrap();
        by_claude(&play.world, &claude, "", "");
        let table = std::fs::read_to_string(&path).unwrap();
        let (_, table) = table.split_once("[agents.claude]").unwrap();
        let named = if theirs.is_empty() {
            "review_agent = \"claude\""
        } else {
            theirs
        };
        play.world.config(&format!(
            "{}\n[agents.claude]{table}",
            plain.replacen(ours, named, 1)
        ));
        play.world
            .remand_in(&play.worktree, &["review", "--title", "Feature"])
            .ok();
        run(&mut command(&play.world, &model.url, &["tick"])).report();
        play.is_ready(1);
        let agents = play
            .world
            .sqlite("SELECT group_concat(DISTINCT agent) FROM runs");
        assert!(
            agents.contains("claude") && agents.contains(','),
            "{agents}"
        );
    }
}
