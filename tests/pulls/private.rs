//! Data that stays on the machine where remand runs: a pull request has other readers than its
//! operator.

use serde_json::json;

use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, rejecting};

/// Asserts that the full reason is reported locally; the pull request only says that a person is
/// needed, and where to ask.
#[track_caller]
fn told_here_only(stage: &PullPlay, reason: &str) {
    let play = &stage.play;
    play.is_escalated(reason);
    let said = json!(
        stage
            .forge
            .log()
            .into_iter()
            .map(|one| one.body)
            .collect::<Vec<_>>()
    )
    .to_string();
    for part in [
        play.world.root().to_str().unwrap(),
        "salary",
        "/home/",
        "acme",
    ] {
        assert!(
            !said.contains(part),
            "{part} is on the pull request: {said}"
        );
    }
    let notes: Vec<String> = stage
        .bodies("issues/1/comments")
        .into_iter()
        .filter(|body| body.contains("needs a person"))
        .collect();
    assert!(
        notes.len() == 1 && notes[0].contains("`remand why ada/calc#1`"),
        "{notes:?}"
    );
}

#[test]
fn an_escalation_puts_no_path_and_no_name_of_a_file_on_the_pull_request() {
    let stage = PullPlay::new(&rejecting());
    std::fs::write(stage.play.worktree.join("salary-list-acme.txt"), "").unwrap();
    stage.tick();
    told_here_only(&stage, "has uncommitted changes: salary-list-acme.txt");

    let fixer = "cat >/dev/null\necho 'cannot open /home/ada/plans/acme.txt' >&2\nexit 3\n";
    let stage = PullPlay::new(&Script {
        fixer,
        ..rejecting()
    });
    stage.tick();
    told_here_only(&stage, "/home/ada/plans/acme.txt");

    let stage = PullPlay::new(&Script {
        settings: "gates = [[\"gate\"]]",
        tables: "[loop]\nmax_gate_rounds = 0\n",
        ..rejecting()
    });
    stage
        .play
        .world
        .script("gate", "echo \"$PWD/tests/acme.rs failed\"\nexit 1\n");
    stage.tick();
    told_here_only(&stage, "tests/acme.rs failed");
}
