//! The whole loop with the real `gh`, which talks to the fake GitHub as a server.

use std::path::{Path, PathBuf};

use super::pull_scene::WHOLE;
use super::pull_stage::PullStage;
use super::stage::{Stage as _, end};
use crate::support::forge::Server;
use crate::support::{run, skip, tool};

fn installed() -> Vec<PathBuf> {
    let upstream = tool("gh/bin/gh");
    if upstream.is_none() {
        skip(
            "the_whole_loop_by_the_real_gh",
            "gh 2.102 is not there: see tests/run",
        );
    }
    let system = Some(PathBuf::from("/usr/bin/gh")).filter(|path| path.exists());
    if system.is_none() {
        skip(
            "the_systems_gh_speaks_to_the_fake",
            "/usr/bin/gh is not there",
        );
    }
    upstream.into_iter().chain(system).collect()
}

fn stage(gh: &Path) -> (PullStage, Server) {
    let mut stage = WHOLE.unwatched("");
    let server = stage.pull.forge.serve();
    stage.by_gh(gh.to_str().unwrap(), server.real_gh_env());
    let mut watch = stage.play().world.remand_command(&["watch", "ada/calc#1"]);
    run(watch.envs(server.real_gh_env())).ok();
    (stage, server)
}

#[test]
fn the_whole_loop_by_the_real_gh() {
    for gh in installed() {
        let by_stand_in = WHOLE.stage();
        by_stand_in.show().to_the_end(&["run"]);
        let expected = by_stand_in.outcome();
        let (stage, server) = stage(&gh);
        stage.show().to_the_end(&["run"]);
        assert_eq!(stage.play().state(), "merged", "{}", stage.play().log());
        assert_eq!(stage.outcome(), expected, "{}", stage.play().log());
        stage.check();
        let unchanged = stage
            .pull
            .forge
            .log()
            .iter()
            .filter(|one| one.status == Some(304))
            .count();
        assert!(
            unchanged > 0,
            "nothing was asked for only if it had changed"
        );
        assert!(server.stop().success());
    }
}

#[test]
fn a_daemon_that_is_killed_by_the_real_gh_s_side_posts_everything_once() {
    for gh in installed() {
        let (stage, server) = stage(&gh);
        let show = stage.show();
        // Once at the first post, once after the push.
        for cue in [
            "SELECT count(*) FROM intents WHERE claimed_by IS NOT NULL",
            PUSHED,
        ] {
            let mut daemon = show.start(stage.play().world.remand_command(&["run"]));
            show.watch_until(&mut daemon, || show.number(cue) > 0);
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
        let mut daemon = show.start(stage.play().world.remand_command(&["run"]));
        show.watch(&mut daemon);
        assert!(end(daemon).success());
        assert_eq!(stage.play().state(), "merged", "{}", stage.play().log());
        stage.check();
        assert!(server.stop().success());
    }
}

const PUSHED: &str = "SELECT count(*) FROM intents WHERE kind = 'push' AND result = 'done'";
