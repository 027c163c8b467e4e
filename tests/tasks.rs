//! From a task to a pull request, through the binary: what a person types, what the agents are
//! given, and what is left behind when it cannot be done.

use crate::support::play::{Play, REVIEWS_FIXED, Script};

/// Implements without what the reviewer asks for, and fixes it then. Records its prompts.
const IMPLEMENTS: &str = r#"
cat >"$PROMPTS/$REMAND_ITEM.$REMAND_PHASE.prompt"
if [ "$REMAND_PHASE" = implement ]; then
    git rev-parse --abbrev-ref HEAD >"$PROMPTS/$REMAND_ITEM.branch"
    pwd >"$PROMPTS/$REMAND_ITEM.pwd"
    echo "begun by $REMAND_CHANGE" >work.txt
    echo "I wrote work.txt."
else
    echo fixed >>work.txt
    echo done
fi
"#;

fn script() -> Script<'static> {
    Script {
        reviewer: REVIEWS_FIXED,
        fixer: IMPLEMENTS,
        ..Script::default()
    }
}

/// S0-1, S0-3, S0-4, S0-53…57, S0-90, S1-1, S1-8, GZ-1: with `-a`, one command leads from a task to
/// a branch that passed its review.
#[test]
fn a_local_task_is_implemented_reviewed_and_refined() {
    let play = Play::without_change(&script());
    let added = play
        .world
        .remand_in(
            &play.repo,
            &[
                "add",
                "Add a work file",
                "-a",
                "--local",
                "--body",
                "It says who began it.",
            ],
        )
        .ok();
    assert!(
        added.stdout.contains("remand/add-a-work-file"),
        "{}",
        added.stdout
    );
    assert_eq!(play.state(), "queued");
    play.check();
    play.tick().ok();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    play.check();
    assert_eq!(play.noted("w1.branch").trim(), "remand/add-a-work-file");
    let worktree = play.noted("w1.pwd");
    assert!(
        worktree
            .trim()
            .ends_with("worktrees/calc/remand-add-a-work-file"),
        "{worktree}"
    );
    let log = play.world.git(
        &play.repo,
        &["log", "--format=%s", "main..remand/add-a-work-file"],
    );
    assert_eq!(log, "Address review feedback (cycle 1)\nAdd a work file");
    let prompt = play.noted("w1.implement.prompt");
    assert!(prompt.contains("It says who began it."), "{prompt}");
    assert_eq!(
        play.world.sqlite("SELECT group_concat(metadata ->> 'implementation_work_item_id') FROM work_items WHERE item_id <> 'w1'"),
        "w1,w1,w1"
    );
    play.tick().ok();
    play.check();
}
