//! A person pauses a change while remand is about to push or to post for it.

use serde_json::json;

use crate::support::pull_play::{PullPlay, quiet};

/// Runs this line of shell before each call of `gh` from now on, with the call's arguments. `pause`
/// pauses the change, `says WORDS` runs another remand command.
pub(crate) fn before_each_call(stage: &PullPlay, line: &str) {
    let world = &stage.play.world;
    let argv = stage.forge.gh_argv();
    let words: Vec<String> = argv.iter().map(|word| format!("'{word}'")).collect();
    let says = format!(
        "says() {{ env -u REMAND_RUN_DIR '{}' \"$@\" >&2 || exit 9; }}",
        argv[0]
    );
    let pause = format!("{says}\npause() {{ says pause c1; }}");
    let gh = world.script(
        "gh",
        &format!("{pause}\n{line}\nexec {} \"$@\"\n", words.join(" ")),
    );
    let path = world.root().join("config/remand/config.toml");
    let config = std::fs::read_to_string(&path).unwrap();
    let changed = config.replace(&json!(argv).to_string(), &json!([gh]).to_string());
    assert_ne!(config, changed);
    world.config(&changed);
}

#[test]
fn a_pause_between_two_posts_keeps_the_rest_back() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    let lines: Vec<(&str, i64, &str)> = (1..=6).map(|_| ("work.txt", 1, "a bad name")).collect();
    stage.review("bob", "CHANGES_REQUESTED", "six things", &lines);
    // While the second reply is posted.
    before_each_call(
        &stage,
        "case \"$*\" in *POST*replies*) echo . >>\"$HOME/posted\"; [ \"$(wc -l <\"$HOME/posted\")\" -ne 2 ] || pause;; esac",
    );
    stage.tick();
    assert_eq!(
        stage.forge.writes_to("replies"),
        2,
        "{:#?}",
        stage.forge.writes()
    );
    assert_eq!(
        play.count("intents WHERE kind = 'answer' AND done_at IS NULL AND claimed_by IS NULL"),
        4
    );
    stage.tick();
    assert_eq!(
        stage.forge.writes_to("replies"),
        2,
        "{:#?}",
        stage.forge.writes()
    );
    play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    assert_eq!(
        stage.forge.writes_to("replies"),
        6,
        "{:#?}",
        stage.forge.writes()
    );
    stage.is_ready(1);
}

#[test]
fn a_pause_while_the_pull_request_is_looked_at_keeps_the_push_back() {
    let stage = PullPlay::new(&quiet());
    let play = &stage.play;
    stage.tick();
    play.fixer("cat >/dev/null\necho fixed >>work.txt\n: >\"$PROMPTS/ran\"\n");
    stage.review("bob", "CHANGES_REQUESTED", "say fixed", &[]);
    // The check just before the push is the first one after the fix.
    let ran = play.seen("ran").display().to_string();
    before_each_call(
        &stage,
        &format!("if [ -e '{ran}' ]; then rm '{ran}'; pause; fi"),
    );
    let before = stage.remote_head("feature");
    stage.tick();
    assert_eq!(
        (stage.remote_head("feature"), stage.pushes()),
        (before, 0),
        "{:#?}",
        play.events()
    );
    assert_eq!(play.world.sqlite("SELECT paused FROM changes"), "1");
    assert_eq!(play.count("intents WHERE kind = 'push'"), 0);
    play.world.remand(&["resume", "c1"]).ok();
    stage.tick();
    stage.is_ready(1);
    assert_eq!(stage.pushes(), 1);
}
