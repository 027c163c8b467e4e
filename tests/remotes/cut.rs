//! The daemon is killed in the middle of a push.

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::rejecting;
use crate::support::run;

/// Waits in the middle of a push, for a while.
const WAITS: &str = "cat >/dev/null\necho $$ >../hooked\ni=0\nwhile [ $i -lt 1200 ]; do sleep 0.05; i=$((i+1)); done\n";

/// Returns false for a zombie: the process that should reap it was killed.
fn is_alive(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn the_push_of_a_killed_daemon_is_ended_before_another_is_made() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let play = &stage.play;
    stage.hook("pre-receive", WAITS);
    let hooked = play.world.root().join("hooked");
    let daemon = play.daemon();
    play.until("the push is on its way", || {
        std::fs::read_to_string(&hooked).is_ok_and(|pid| pid.ends_with('\n'))
    });
    daemon.kill();
    let pid = std::fs::read_to_string(&hooked).unwrap().trim().to_owned();
    assert!(is_alive(&pid), "it goes on without its daemon");
    stage.unhook("pre-receive");
    stage.tick();
    assert!(!is_alive(&pid), "two were at work");
    stage.is_ready();
    assert_eq!((stage.moves("feature").len(), stage.runs()), (1, 1));
}

/// The result of a push whose change ended before it was known is looked up and reported.
#[test]
fn a_push_that_nobody_goes_on_with_has_its_end_recorded() {
    for (point, result) in [("push.before", "given_up"), ("push.after", "done")] {
        let stage = Remotes::new(&Script {
            fixer: FIXES,
            ..rejecting()
        });
        let play = &stage.play;
        let cut = run(play
            .world
            .remand_command(&["tick"])
            .env("REMAND_CRASH_AT", point));
        assert_ne!(cut.status, 0, "{}", cut.stderr);
        assert_eq!(
            play.count("intents WHERE kind = 'push' AND done_at IS NULL"),
            1
        );
        play.world.remand(&["cancel", "c1"]).ok();
        stage.tick();
        assert_eq!(
            play.world
                .sqlite("SELECT result FROM intents WHERE kind = 'push'"),
            result,
            "{:#?}",
            play.events()
        );
        let said = if result == "done" {
            "reached the remote"
        } else {
            "did not reach the remote"
        };
        assert!(
            stage.passed_over().contains(said),
            "{}",
            stage.passed_over()
        );
        let told = play.events().len();
        stage.tick();
        assert_eq!(play.events().len(), told, "once");
    }
}
