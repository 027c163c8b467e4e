//! Git settings that decide about a push, changed while an agent ran: nothing is pushed with them
//! until a person confirms them. S-rules on what is pushed.

use std::fs;

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::{REPO, rejecting};

const CANARY: &str = "canary-of-the-forge-0123";

/// Creates a fix during which an agent without a sandbox adds a setting to the user's
/// configuration.
fn planted(setting: &str) -> Remotes {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let gitconfig = stage.play.world.root().join("home/.gitconfig");
    stage.play.fixer(&format!(
        "{FIXES}git config --file '{}' --add {setting}\n",
        gitconfig.display()
    ));
    stage
}

const ASKS: &str = "git settings that affect pushes changed while an agent was running";

#[test]
fn nothing_is_pushed_with_a_helper_that_an_agent_added_until_a_person_accepts_it() {
    let stage = planted("credential.helper '!echo'");
    let before = stage.remote_head("feature");
    stage.tick_with_token(CANARY);
    stage.play.is_escalated(ASKS);
    assert!(
        stage.play.answer().contains("credential.helper"),
        "{}",
        stage.play.answer()
    );
    assert_eq!(stage.remote_head("feature"), before);
    stage.tick();
    stage.tick();
    assert_eq!(
        stage.play.count("events WHERE event_type = 'escalated'"),
        1,
        "asked once"
    );
    stage
        .play
        .world
        .remand(&["retry", "c1", "--accept-git-settings"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!((stage.moves("feature").len(), stage.runs()), (1, 1));
    let who = "SELECT actor_id FROM events WHERE event_type = 'instructed' AND metadata ->> 'action' = 'accept_git_settings'";
    assert_eq!(stage.play.world.sqlite(who), "ada");
    // The same settings are not asked about again.
    stage.play.fixer(FIXES);
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!(stage.play.count("events WHERE event_type = 'escalated'"), 1);
    let stored = stage.play.world.sqlite("SELECT * FROM git_settings");
    assert!(
        stored.contains("credential.helper") && !stored.contains("!echo"),
        "values are not stored: {stored}"
    );
}

#[test]
fn settings_that_are_put_back_need_no_answer() {
    let stage = planted("url.https://evil.test/.insteadOf https://github.com/");
    stage.tick();
    stage.play.is_escalated(ASKS);
    stage.play.sh(
        stage.play.world.root(),
        "git config --file home/.gitconfig --remove-section url.https://evil.test/",
    );
    stage.retry();
    stage.is_ready();
    stage
        .play
        .world
        .remand(&["retry", "c1", "--accept-git-settings"])
        .fails(1, "not escalated");
}

/// Another change is not escalated for the same settings: it waits for the answer.
#[test]
fn a_person_is_asked_at_one_change_for_all() {
    let stage = planted("core.sshCommand 'ssh -v'");
    stage.tick();
    stage.play.is_escalated(ASKS);
    stage.person("git push -q origin origin/main:refs/heads/other");
    let number = stage.forge.open_pull("other", "main", "carol");
    stage
        .play
        .world
        .remand(&["watch", &format!("{REPO}#{number}")])
        .ok();
    stage.tick();
    assert_eq!(
        stage.play.count("events WHERE event_type = 'escalated'"),
        1,
        "{:#?}",
        stage.play.events()
    );
    let reason = stage
        .play
        .world
        .sqlite("SELECT hold_reason FROM changes WHERE change_id = 'c2'");
    assert!(reason.contains("see c1 for the decision"), "{reason}");
    stage
        .play
        .world
        .remand(&["retry", "c1", "--accept-git-settings"])
        .ok();
    stage.tick();
    assert_eq!(
        stage.play.state(),
        "ready_for_human_review",
        "{:#?}",
        stage.play.events()
    );
    assert_eq!(
        stage
            .play
            .count("changes WHERE hold_reason LIKE '%settings of git%'"),
        0
    );
}

#[test]
fn a_user_may_change_them_while_no_agent_runs() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    stage.tick();
    stage.is_ready();
    stage.play.sh(
        stage.play.world.root(),
        "git config --file home/.gitconfig core.sshCommand 'ssh -v'",
    );
    stage
        .play
        .world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    stage.tick();
    stage.is_ready();
    assert_eq!(
        stage.play.count("events WHERE event_type = 'escalated'"),
        0,
        "{:#?}",
        stage.play.events()
    );
    assert_eq!(
        (
            stage.moves("feature").len(),
            stage.play.count("git_settings WHERE state = 'trusted'")
        ),
        (2, 2)
    );
}

/// Settings were recorded by a clock that was ahead: a later change by an agent is still attributed
/// to it.
#[test]
fn a_clock_that_was_ahead_makes_nobody_trusted() {
    let stage = planted("credential.helper '!echo'");
    let ahead = "UPDATE git_settings SET seen_at = '2999-01-01T00:00:00.000Z'";
    stage.play.world.sqlite(&format!(
        "CREATE TRIGGER ahead AFTER UPDATE OF seen_at ON git_settings WHEN new.seen_at < '2900' BEGIN {ahead}; END"
    ));
    stage.tick();
    stage.play.is_escalated(ASKS);
}

/// A person accepts the settings that they were asked about last, and none from before.
#[test]
fn earlier_questions_are_not_answered_by_a_later_yes() {
    let stage = planted("url.https://evil.test/.insteadOf https://github.com/");
    let home = stage.play.world.root().join("home/.gitconfig");
    let as_before = fs::read_to_string(&home).unwrap();
    stage.tick();
    stage.play.is_escalated(ASKS);
    let evil = fs::read_to_string(&home).unwrap();
    fs::write(&home, &as_before).unwrap();
    stage.retry();
    stage.is_ready();
    let again = |text: &str| {
        fs::write(stage.play.world.root().join("planted"), text).unwrap();
        let copy = format!(
            "cp '{}' '{}'\n",
            stage.play.world.root().join("planted").display(),
            home.display()
        );
        stage.play.fixer(&format!("{FIXES}{copy}"));
        stage
            .play
            .world
            .remand(&["refine", "c1", "--text", "once more"])
            .ok();
        stage.tick();
        stage.play.is_escalated(ASKS);
    };
    again(&format!("{as_before}[core]\n\tsshCommand = ssh -v\n"));
    stage
        .play
        .world
        .remand(&["retry", "c1", "--accept-git-settings"])
        .ok();
    stage.tick();
    stage.is_ready();
    again(&evil);
    assert_eq!(stage.play.count("git_settings WHERE state = 'asked'"), 1);
}
