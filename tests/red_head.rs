//! Gates that fail on the head of a change and not on its base: a rejection with their output,
//! before any reviewer is paid.

use crate::support::play::{FIXES, Play, Script};
use crate::support::pull_play::PullPlay;
use crate::support::run;

const SETTINGS: &str = "gates = [[\"gate\", \"all\"]]\nred_base = \"hold\"";

/// Fails if `work.txt` exists and does not contain "fixed": on the branch, not on its base.
const GATE: &str = "if [ -e work.txt ] && ! grep -q fixed work.txt; then\n\
                    echo 'test calc::adds ... FAILED'\necho 'left: 3, right: 4' >&2\nexit 1\nfi\n";

fn gate(play: &Play, text: &str) {
    let seen = play.seen("gate");
    play.world.script(
        "gate",
        &format!("git rev-parse HEAD >>'{}'\n{text}", seen.display()),
    );
}

fn local(settings: &str) -> Play {
    let play = Play::without_change(&Script {
        settings: &format!("{SETTINGS}\n{settings}"),
        ..Script::default()
    });
    gate(&play, GATE);
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

/// Returns which agent ran for which item, oldest first.
fn runs(play: &Play) -> String {
    play.world
        .sqlite("SELECT item_id || ' ' || agent FROM runs ORDER BY rowid")
}

/// Asserts one fix, with the output in its prompt; then a review, and nothing before it.
#[track_caller]
fn is_fixed_before_it_is_reviewed(play: &Play) {
    assert_eq!(runs(play), "w2 fixer\nw3 reviewer", "{:#?}", play.events());
    assert_eq!(play.count("work_items WHERE source = 'review_fix'"), 1);
    assert_eq!(
        play.world
            .sqlite("SELECT fix_cycle || ' ' || total_fixes FROM changes"),
        "1 1"
    );
    let prompt = play.prompt_of_run("r1");
    for text in [
        "from: the project's own checks",
        "The gate `gate all` fails on this branch",
        "left: 3, right: 4",
    ] {
        assert!(prompt.contains(text), "{text:?} is not in {prompt}");
    }
    let reviews = play
        .world
        .sqlite("SELECT item_id || ' ' || verdict FROM reviews");
    assert_eq!(reviews, "w3 approved");
}

#[test]
fn a_gate_that_is_red_on_the_head_only_sends_it_back_before_a_reviewer_is_paid() {
    let play = local("");
    let (main, head) = (
        play.world.git(&play.repo, &["rev-parse", "main"]),
        play.head(),
    );
    play.tick().report();
    play.is_ready(1);
    is_fixed_before_it_is_reviewed(&play);
    // The base, the head and the fix, each once.
    assert_eq!(
        play.noted("gate").lines().collect::<Vec<_>>(),
        [&main, &head, &play.head()]
    );
    let events = play.events().join("\n");
    let led = events
        .split("work_claimed: code_review w1 claimed\n")
        .nth(1)
        .unwrap();
    let led = led.split("\nwork_created").next().unwrap();
    insta::assert_snapshot!(play.world.plain(led), @"
    work_completed: code_review w1 completed
    work_rejected: the gate `gate all` fails on SHA: calc::adds
    state_changed: self_reviewing → self_review_failed (gates_red)
    ");
    let rejected = play.world.json(&["show", "j1"]);
    assert_eq!(
        rejected["metadata"]["gate"],
        serde_json::json!({ "command": "gate all", "status": 1 })
    );
    assert_eq!(
        (rejected["state"].as_str(), rejected["by_person"].as_bool()),
        (Some("fixed"), Some(false))
    );
    assert!(
        play.why().contains("the gate `gate all` fails on"),
        "{}",
        play.why()
    );
}

#[test]
fn a_pull_request_is_sent_back_by_its_gates_before_a_reviewer_is_paid() {
    let stage = PullPlay::unwatched(&Script {
        settings: SETTINGS,
        ..Script::default()
    });
    gate(&stage.play, GATE);
    stage.watch();
    for _ in 0..3 {
        stage.tick();
    }
    stage.is_ready(1);
    is_fixed_before_it_is_reviewed(&stage.play);
    // One review is posted, that of the reviewer; the note of the fix gives its reason.
    assert_eq!(stage.posted("POST", "/pulls/1/reviews").len(), 1);
    let notes = format!("{:?}", stage.posted("POST", "/issues/1/comments"));
    assert!(notes.contains("the gate `gate all` failed"), "{notes}");
}

/// Wherever it dies, the change is rejected once.
#[test]
fn a_rejection_by_a_gate_that_is_cut_is_made_once() {
    for point in [
        "gate.before#2",
        "gate.after#2",
        "commit.reject_by_gate.before",
        "commit.reject_by_gate.after",
    ] {
        let play = local("");
        let cut = run(play
            .world
            .remand_command(&["tick"])
            .env("REMAND_CRASH_AT", point));
        assert_ne!(
            cut.status,
            0,
            "{point} is not crossed: {:#?}",
            play.events()
        );
        play.tick().report();
        play.is_ready(1);
        is_fixed_before_it_is_reviewed(&play);
        assert_eq!(play.count("rejections"), 1, "{point}");
    }
}

/// Limits count as for any rejection, and the output is not lost when a person resumes.
#[test]
fn a_rejection_by_a_gate_is_bounded_and_its_output_goes_into_the_next_round() {
    let play = local("loop.max_fix_cycles = 0");
    play.tick().report();
    play.is_escalated("c1 exceeded max fix cycles (0)");
    assert!(
        play.why().contains("the gate `gate all` fails on"),
        "{}",
        play.why()
    );
    assert_eq!(play.count("runs"), 0);
    play.world.remand(&["budget", "c1", "--fixes", "+1"]).ok();
    play.tick().report();
    play.is_ready(1);
    let prompt = play.prompt_of_run("r1");
    assert!(prompt.contains("left: 3, right: 4"), "{prompt}");
}

/// Rounds of failed gates inside a fix are still limited.
#[test]
fn a_gate_that_a_fix_leaves_red_goes_to_a_person() {
    let play = local("loop.max_gate_rounds = 1");
    play.fixer("cat >/dev/null\necho more >>work.txt\n");
    play.tick().report();
    play.is_escalated(
        "the gates failed, even after one more attempt by the agent: $ gate all: calc::adds",
    );
    assert_eq!(runs(&play), "w2 fixer\nw2 fixer");
    play.fixer(FIXES);
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn in_shadow_a_gate_that_is_red_on_the_head_is_stored_and_nothing_follows() {
    let play = local("shadow = \"review\"");
    for _ in 0..2 {
        play.tick().report();
    }
    assert_eq!(
        (
            play.count("runs"),
            play.count("rejections"),
            play.count("work_items")
        ),
        (0, 0, 1)
    );
    let shadowed = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'shadowed'");
    insta::assert_snapshot!(play.world.plain(&shadowed), @"reviewed in shadow mode, with no effect: changes_requested: the gate `gate all` fails on SHA: calc::adds");
    let review = &play.world.json(&["show", "w1"])["shadow_review"];
    assert_eq!(
        (review["verdict"].as_str(), review["agent"].as_str()),
        (Some("changes_requested"), None)
    );
    assert!(
        review["body"]
            .as_str()
            .unwrap()
            .contains("left: 3, right: 4"),
        "{review}"
    );
    play.check();
    // Outside of shadow it is tested again.
    play.world.remand(&["shadow", "c1", "off"]).ok();
    play.tick().report();
    play.is_ready(1);
    is_fixed_before_it_is_reviewed(&play);
}

/// With these settings no gate runs before the reviewer does.
#[test]
fn gates_that_do_not_run_on_the_base_do_not_run_on_the_head() {
    for settings in [
        "gates = [[\"gate\"]]\nred_base = \"ignore\"",
        "gates = [[\"gate\"]]\nred_base = \"hold\"\ngate_in = \"worktree\"",
    ] {
        let play = Play::without_change(&Script {
            settings,
            ..Script::default()
        });
        gate(&play, GATE);
        play.world
            .remand_in(&play.worktree, &["review", "--title", "Feature"])
            .ok();
        play.tick().report();
        play.is_ready(1);
        assert_eq!(
            runs(&play),
            "w1 reviewer\nw2 fixer\nw3 reviewer",
            "{settings}"
        );
        assert_eq!(play.noted("gate").lines().count(), 1, "{settings}");
    }
}
