//! An agent, a reviewer or a gate can read nothing of the remand process that started it, which
//! holds the user's tokens. It can read those of the `gh` and the git that remand starts with them,
//! as the same user, unless it runs in a sandbox.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::support::play::{Play, Script};
use crate::support::{run, skip};

const CANARY: &str = "canary-of-the-forge";
const NOBODY: &str = "65534";

/// Tries every `remand` among its ancestors. Opening `mem` requires permission; `maps` shows where
/// to read.
pub(crate) const LOOK: &str = r#"
seen="$PROMPTS/$REMAND_PHASE"
env >"$seen.env"
pid=$$
while [ "$pid" -gt 1 ]; do
    if [ "$(cat /proc/$pid/comm)" = remand ]; then
        cat /proc/$pid/environ >>"$seen.env" 2>/dev/null && echo "environ of $pid" >>"$seen.opened"
        grep -q . /proc/$pid/maps 2>/dev/null && echo "maps of $pid" >>"$seen.opened"
        (: </proc/$pid/mem) 2>/dev/null && echo "mem of $pid" >>"$seen.opened"
        ls /proc/$pid/fd/ 2>/dev/null | grep -q . && echo "fd of $pid" >>"$seen.opened"
        echo "$pid" >>"$seen.tried"
    fi
    pid=$(sed 's/.*) . \([0-9]*\).*/\1/' /proc/$pid/stat)
done
true
"#;

#[test]
fn no_child_reads_the_memory_or_the_environment_of_the_remand_above_it() {
    let play = Play::new(&Script {
        reviewer: "look\nif grep -q fixed work.txt; then says approved fine; else says changes_requested no \"$(finding work.txt 1 'say fixed')\"; fi",
        fixer: "cat >/dev/null\nlook\necho fixed >>work.txt\n",
        settings: "gates = [[\"look\"]]",
        ..Script::default()
    });
    play.world.script(
        "look",
        &format!("PROMPTS='{}'\n{LOOK}", play.seen("").display()),
    );
    let Some(mut tick) = as_nobody(&play) else {
        return;
    };
    for name in [
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "GH_ENTERPRISE_TOKEN",
        "GITHUB_ENTERPRISE_TOKEN",
    ] {
        tick.env(name, CANARY);
    }
    run(tick.arg("tick")).report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    for phase in ["review", "fix", "gate"] {
        let tried = play.noted(&format!("{phase}.tried"));
        assert!(
            tried.lines().count() >= 2,
            "{phase}: the shim and the one that started it: {tried:?}"
        );
        assert_eq!(play.noted(&format!("{phase}.opened")), "", "{phase}");
        let env = play.noted(&format!("{phase}.env"));
        assert!(
            env.contains("REMAND_RUN=") && !env.contains(CANARY),
            "{phase}: {env}"
        );
    }
}

/// Runs remand as a user that is not root and that owns all files of the test: root may read
/// everything, and a child of another user than its parent nothing, so neither would prove
/// anything.
pub(crate) fn as_nobody(play: &Play) -> Option<Command> {
    let binary = PathBuf::from(env!("CARGO_BIN_EXE_remand"));
    if !rustix::process::getuid().is_root() {
        return Some(play.world.command(binary));
    }
    let mut drop_root = play.world.command("setpriv");
    drop_root.args([
        format!("--reuid={NOBODY}"),
        format!("--regid={NOBODY}"),
        "--clear-groups".into(),
    ]);
    let mut tried = play.world.command("setpriv");
    tried
        .args(drop_root.get_args())
        .arg("true")
        .current_dir("/");
    if !tried.output().is_ok_and(|output| output.status.success()) {
        skip(
            "no_child_reads_the_memory",
            "root may read everything, and setpriv can't make us another user here",
        );
        return None;
    }
    // At a path that everyone can reach, wherever it was built.
    let own = play.world.root().join("bin/remand");
    run(play.world.command("cp").arg(binary).arg(&own)).ok();
    run(play
        .world
        .command("chown")
        .args(["-R", NOBODY])
        .arg(play.world.root()))
    .ok();
    assert!(fs::metadata(&own).is_ok());
    drop_root.arg(own);
    Some(drop_root)
}
