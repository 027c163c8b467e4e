//! A git that is killed, or that runs into a worktree under construction: a problem of the
//! environment, which is waited for without asking a person.

use super::{FIXES, Remotes};
use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, REPO, quiet, rejecting};

/// Installs a git that runs `line` before the real one; `$*` are git's arguments.
fn before_git(stage: &PullPlay, line: &str) {
    let real = which::which_in("git", std::env::var_os("PATH"), "/").unwrap();
    stage
        .play
        .world
        .script("git", &format!("{line}\nexec {} \"$@\"\n", real.display()));
}

fn kind_of_hold(stage: &PullPlay) -> String {
    stage
        .play
        .world
        .sqlite("SELECT hold_kind FROM changes WHERE change_id = 'c1'")
}

#[track_caller]
fn is_held_and_goes_on(line: &str, part: &str) {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    before_git(&stage, line);
    stage.tick();
    assert_eq!(
        kind_of_hold(&stage),
        "environment",
        "{line}: {:#?}",
        stage.play.events()
    );
    let reason = stage
        .play
        .world
        .sqlite("SELECT hold_reason FROM changes WHERE change_id = 'c1'");
    assert!(reason.contains(part), "{line}: {reason}");
    std::fs::remove_file(stage.play.world.root().join("bin/git")).unwrap();
    stage.tick();
    stage.is_ready();
}

#[test]
fn a_killed_look_at_the_url_is_no_wrong_transport() {
    is_held_and_goes_on(
        r#"case "$*" in *--get-url*) kill -9 $$;; esac"#,
        "was killed by a signal",
    );
}

#[test]
fn a_killed_look_at_the_remote_is_waited_for() {
    is_held_and_goes_on(
        r#"case "$*" in *--get-url*) ;; *ls-remote*) exit 137;; esac"#,
        "was killed by a signal",
    );
}

#[test]
fn a_killed_git_below_a_fetch_is_waited_for() {
    let killed =
        "error: index-pack died of signal 9\\nfatal: fetch-pack: invalid index-pack output";
    let line = format!(r#"case "$*" in *" fetch "*) printf '{killed}\n' >&2; exit 128;; esac"#);
    is_held_and_goes_on(&line, "was killed by a signal");
}

/// Eight slots create eight worktrees: one at a time, since a git that reads while another creates
/// one fails.
#[test]
fn worktrees_are_made_one_at_a_time() {
    let stage = Remotes::unwatched(&Script {
        tables: "[dispatch]\nslots = 8\n",
        ..quiet()
    });
    let world = &stage.play.world;
    let making = world.root().join("making");
    before_git(
        &stage,
        &format!(
            "case \"$*\" in *' worktree add '*) mkdir '{0}' 2>/dev/null || echo >>'{0}.twice'; sleep 0.1; rmdir '{0}';; esac",
            making.display()
        ),
    );
    for number in 2..=9 {
        let branch = format!("other-{number}");
        stage.person(&format!(
            "git push -q origin origin/feature:refs/heads/{branch}"
        ));
        let number = stage.forge.open_pull(&branch, "main", "carol");
        world.remand(&["watch", &format!("{REPO}#{number}")]).ok();
    }
    stage.tick();
    assert_eq!(
        stage
            .play
            .count("changes WHERE own_worktree = 1 AND state <> 'escalated'"),
        8
    );
    assert_eq!(
        stage
            .play
            .count("changes WHERE state = 'escalated' OR held_until IS NOT NULL"),
        0
    );
    assert!(
        !making.with_extension("twice").exists(),
        "two worktrees were made at the same time"
    );
}

/// An error that git reports while another git creates a worktree is temporary.
#[test]
fn a_worktree_that_is_half_made_is_looked_at_again() {
    let stage = Remotes::new(&Script {
        fixer: FIXES,
        ..rejecting()
    });
    let seen = stage.play.world.root().join("half-made");
    let said = format!(
        "fatal: failed to read {}/.git/worktrees/x/commondir: Success",
        stage.play.repo.display()
    );
    // Every other update of a ref fails.
    let line = format!(
        "case \"$*\" in *' update-ref '*) if [ -e '{0}' ]; then rm '{0}'; else echo >>'{0}'; echo '{said}' >&2; exit 128; fi;; esac",
        seen.display()
    );
    before_git(&stage, &line);
    stage.tick();
    assert_eq!(
        stage.play.count("events WHERE event_type = 'escalated'"),
        0,
        "{:#?}",
        stage.play.events()
    );
    stage.is_ready();
}
