//! Two concurrent programs on one blackboard.

use super::pull_scene::WHOLE;
use super::stage::{Seen, Stage as _, end, is_long};
use crate::support::is_report;

#[test]
fn a_daemon_with_ticks_beside_it_pushes_and_posts_everything_once() {
    let undisturbed = WHOLE.stage();
    undisturbed.show().to_the_end(&["run"]);
    let expected = undisturbed.outcome();
    let rounds = if is_long() { 100 } else { 10 };
    let round = || {
        let stage = WHOLE.stage();
        let (play, show) = (stage.play(), stage.show());
        let mut daemon = play.daemon();
        while !show.all_ended() {
            let mut tick = show.start(play.world.remand_command(&["tick"]));
            let seen = show.watch(&mut tick);
            assert!(
                daemon.child.try_wait().unwrap().is_none(),
                "the daemon is gone\n{}",
                play.log()
            );
            let ended = end(tick);
            // The last one may be asked to end before it listens.
            assert!(
                seen == Seen::AllEnded || is_report(ended),
                "{ended:?}\n{}",
                play.log()
            );
        }
        assert!(daemon.stop().success());
        assert_eq!(play.state(), "merged", "{}", play.log());
        assert_eq!(stage.outcome(), expected, "{}", play.log());
        stage.check();
    };
    std::thread::scope(|scope| {
        let sides: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| (0..rounds / 2).for_each(|_| round())))
            .collect();
        for side in sides {
            side.join().unwrap();
        }
    });
}
