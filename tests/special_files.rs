//! Pipes, devices, directories and endless files where remand and git expect a small file: each
//! agent puts one into a place that it can write. Its own change may wait or need a person; others
//! are not affected.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::play::{Play, Script};

/// Puts the file that the test chose for this worktree in its place, and approves the work.
const PLANTS: &str = r#"
says approved fine
name=$(basename "$PWD")
if [ -e "$PROMPTS/plant.$name" ]; then
    read -r kind places <"$PROMPTS/plant.$name"
    common=$(git rev-parse --path-format=absolute --git-common-dir)
    own=$(git rev-parse --absolute-git-dir)
    for where in $places; do
        case $where in
            common:*) target=$common/${where#common:} ;;
            own:*) target=$own/${where#own:} ;;
            run:*) target=$REMAND_RUN_DIR/${where#run:} ;;
            tree:*) target=$PWD/${where#tree:} ;;
        esac
        mkdir -p "$(dirname "$target")"
        rm -rf "$target"
        case $kind in
            pipe) mkfifo "$target" ;;
            zero) ln -s /dev/zero "$target" ;;
            folder) mkdir "$target" ;;
            sparse) truncate -s 8G "$target" ;;
        esac
    done
    echo "$name $kind $places" >>"$PROMPTS/planted"
fi
"#;

/// Places in the shared repository, in the git dir of the worktree, in the worktree, and in the
/// directory of the run. Places on one line are planted by the same agent.
const PLACES: &[&str] = &[
    "common:worktrees/evil/gitdir common:worktrees/evil/commondir common:worktrees/evil/HEAD common:worktrees/evil/locked",
    "common:worktrees/evil/config.worktree common:worktrees/other common:hooks/pre-commit",
    "common:packed-refs",
    "common:packed-refs.lock",
    "common:config",
    "common:info/attributes",
    "common:info/exclude",
    "common:refs/heads/planted",
    "common:objects/info/alternates",
    "own:gitdir",
    "own:commondir own:HEAD own:index own:index.lock",
    "own:rebase-merge/head-name own:rebase-merge/orig-head own:rebase-apply/orig-head own:MERGE_HEAD own:CHERRY_PICK_HEAD",
    "tree:.git tree:.gitignore tree:.gitattributes tree:CLAUDE.md tree:.claude/settings.json tree:.specify/spec.md",
    "tree:work.txt",
    "run:answers/result.json run:exit.json.new run:shim run:settled run:stdout.99999 run:agent.json run:checkout.json",
    "run:answers run:prompt.md run:stderr.99999",
    "run:swap.json",
];

/// Peak memory of the daemon, in bytes.
fn peak(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Runs a daemon with one project for each place; each agent plants what `kind` returns, and then
/// another project is served.
fn others_are_served(kind: impl Fn(usize) -> &'static str) {
    let play = Play::without_change(&Script {
        reviewer: PLANTS,
        tables: "[dispatch]\nslots = 4\nstop_grace_s = 1\nbackoff_first_s = 600\n[limits]\ngit_s = 5\ngrace_s = 1\n",
        ..Script::default()
    });
    for (number, place) in PLACES.iter().enumerate() {
        let repo = play.world.repo(&format!("p{number}"));
        let worktree = play.world.worktree(&repo, &format!("f{number}"));
        let name = worktree.file_name().unwrap().to_str().unwrap().to_owned();
        fs::write(
            play.seen(&format!("plant.{name}")),
            format!("{} {place}\n", kind(number)),
        )
        .unwrap();
        play.world
            .remand(&["project", "add", repo.to_str().unwrap()])
            .ok();
        play.world
            .remand_in(&worktree, &["review", "--title", place])
            .ok();
    }
    let daemon = play.daemon();
    play.until("all of it is planted", || {
        play.noted("planted").lines().count() == PLACES.len()
    });
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    let is_ready = || {
        let state = "SELECT state FROM changes WHERE title = 'Feature'";
        play.world.sqlite(state) == "ready_for_human_review"
    };
    play.until("another project is served", is_ready);
    play.until("each one ends", || {
        play.count("work_items WHERE status = 'claimed'") == 0
    });
    // Each with a readable reason.
    let unclear =
        "changes WHERE held_until IS NULL AND state NOT IN ('ready_for_human_review', 'escalated')";
    assert_eq!(play.count(unclear), 0, "{:#?}", play.events());
    assert!(
        peak(daemon.pid()) < 400 << 20,
        "{} bytes",
        peak(daemon.pid())
    );
    let told = Instant::now();
    assert!(daemon.stop().success(), "{}", play.log());
    assert!(
        told.elapsed() < Duration::from_secs(6),
        "{:?}",
        told.elapsed()
    );
    assert!(play.alive().is_empty(), "{:?}", play.alive());
}

/// NFR-3: a pipe without a writer blocks neither the daemon nor another project.
#[test]
fn a_pipe_in_any_place_blocks_nobody() {
    others_are_served(|_| "pipe");
}

/// NFR-3: neither do a symlink to a device, a directory or an endless file.
#[test]
fn a_device_a_folder_or_an_endless_file_in_any_place_blocks_nobody() {
    others_are_served(|number| ["zero", "folder", "sparse"][number % 3]);
}

/// Judged changes are checked in every project: one with a pipe in it is left alone, and the next
/// is not.
#[test]
fn a_pipe_in_one_repository_does_not_keep_the_branches_of_others_from_being_looked_at() {
    let play = Play::without_change(&Script {
        reviewer: "says approved fine",
        ..Script::default()
    });
    let mut trees = Vec::new();
    for name in ["first", "second", "third"] {
        let repo = play.world.repo(name);
        let worktree = play.world.worktree(&repo, &format!("b-{name}"));
        play.world
            .remand(&["project", "add", repo.to_str().unwrap()])
            .ok();
        play.world.remand_in(&worktree, &["review"]).ok();
        trees.push((repo, worktree));
    }
    play.tick().report();
    assert_eq!(
        play.world.sqlite("SELECT DISTINCT state FROM changes"),
        "ready_for_human_review"
    );
    for (_, worktree) in &trees {
        play.world.commit(worktree, "more.txt", "more", "more");
    }
    // One at a usual place, and one that the configuration names.
    play.sh(
        &trees[0].0,
        "rm -f .git/packed-refs; mkfifo .git/packed-refs",
    );
    play.sh(
        &trees[1].0,
        "mkfifo .git/named; printf '[include]\\n\\tpath = named\\n' >>.git/config",
    );
    let begun = Instant::now();
    play.tick().report();
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "{:?}",
        begun.elapsed()
    );
    let moved =
        "SELECT branch FROM changes JOIN events USING (change_id) WHERE event_type = 'head_moved'";
    assert_eq!(play.world.sqlite(moved), "b-third");
}

/// Git would read a file with rules until its memory is full.
#[test]
fn a_device_that_the_configuration_names_for_rules_is_not_read() {
    let fixer = "cat >/dev/null\necho fixed >>work.txt\ngit config core.attributesFile /dev/zero\n\
                 git config core.excludesFile /dev/zero\ngit config mailmap.file /dev/zero\n";
    let play = Play::new(&Script {
        fixer,
        tables: "[limits]\ngit_s = 3\ngrace_s = 1\n",
        ..Script::default()
    });
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
}
