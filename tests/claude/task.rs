//! A task from `add` to its merge by the real claude.

use serde_json::json;

use super::stage::{by_claude, claude, command, fixes, folder, is_review, reviews, uses};
use crate::support::forge::Review;
use crate::support::model::{Asked, Model, Reply, says};
use crate::support::play::Script;
use crate::support::pull_play::PullPlay;
use crate::support::run;

/// Implements, fixes what the reviewer found, and then what the person asks for.
fn works(asked: &Asked) -> Reply {
    let file = format!("{}/work.txt", folder(asked));
    if is_review(asked) {
        return reviews(asked);
    }
    if asked.prompt.contains("Say please.") {
        return match asked.results.len() {
            0 => uses("Read", json!({ "file_path": file })),
            1 => uses(
                "Edit",
                json!({ "file_path": file, "old_string": "fixed", "new_string": "fixed, please" }),
            ),
            _ => says("I said please."),
        };
    }
    if asked.prompt.contains("say fixed here") {
        return fixes(asked);
    }
    match asked.results.len() {
        0 => uses("Write", json!({ "file_path": file, "content": "work\n" })),
        _ => says("I wrote work.txt."),
    }
}

/// S0-1…3, S0-52…62, S0-91, S0-112, GZ-2: implemented, rejected, fixed, opened; sent back by a person, fixed, approved,
/// merged.
#[test]
fn the_real_claude_takes_a_task_to_its_merge() {
    let Some(claude) = claude("the_real_claude_takes_a_task_to_its_merge") else {
        return;
    };
    let model = Model::new(works);
    let stage = PullPlay::unwatched(&Script::default());
    let play = &stage.play;
    by_claude(&play.world, &claude, "", "");
    let args = [
        "add",
        "Add a work file",
        "-a",
        "--body",
        "It is named work.txt.",
    ];
    run(command(&play.world, &model.url, &args).current_dir(&play.repo)).ok();
    let tick = || {
        stage.due();
        run(&mut command(&play.world, &model.url, &["tick"])).report();
    };
    let told = || play.events().join("\n");
    tick();
    assert_eq!(play.state(), "ready_for_human_review", "{}", told());
    let phases = "SELECT group_concat(source, ' ') FROM (SELECT source FROM runs JOIN work_items USING (item_id) ORDER BY runs.rowid)";
    assert_eq!(
        play.world.sqlite(phases),
        "manual code_review review_fix code_review"
    );
    let number = stage.number + 1;
    assert_eq!(stage.forge.pull(number)["title"], "Add a work file");
    let branch = "remand/add-a-work-file";
    let shows = |text: &str| {
        let name = format!("{branch}:work.txt");
        assert_eq!(
            play.world.git(&stage.remote, &["show", &name]),
            text,
            "{}",
            told()
        );
    };
    shows("fixed");
    let review = |state| {
        let head = stage.remote_head(branch);
        let (by, commit, body) = ("bob", Some(head.as_str()), "Say please.");
        stage.forge.review(
            number,
            &Review {
                by,
                state,
                commit,
                body,
                inline: &[],
            },
        );
        tick();
    };
    review("CHANGES_REQUESTED");
    shows("fixed, please");
    review("APPROVED");
    assert_eq!(play.state(), "approved", "{}", told());
    stage.forge.merge(number, "bob");
    tick();
    assert_eq!(play.state(), "merged", "{}", told());
    assert_eq!(
        play.count("runs WHERE length(session) = 36 AND cost_micros > 0"),
        6
    );
    let asked = model.asked();
    assert!(
        asked
            .iter()
            .all(|one| !one.everything.contains("never-seen")),
        "the forge's token reached the agent"
    );
    assert!(
        asked[0].prompt.contains("It is named work.txt."),
        "{}",
        asked[0].prompt
    );
    play.check();
}
