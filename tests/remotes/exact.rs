//! The gates that decide about a push check exactly the commit that is pushed: whatever an agent
//! does to its worktree, its index or its repository, a passing gate means that a fresh clone of
//! the pushed commit passes too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Remotes;
use crate::support::play::Script;
use crate::support::pull_play::{PullPlay, rejecting};

/// Passes if `value.txt` contains "good", or names a file that does; if every test passes; and if
/// `exec.sh`, if it exists, is executable.
const GATE: &str = r#"
value=$(cat value.txt) || exit 1
[ "$value" = good ] || [ "$(cat "$value" 2>/dev/null)" = good ] || { echo "value.txt is not good"; exit 1; }
for t in tests/*.sh; do [ ! -e "$t" ] || sh "$t" || { echo "$t failed"; exit 1; }; done
[ ! -e exec.sh ] || [ -x exec.sh ] || { echo "exec.sh cannot be executed"; exit 1; }
"#;

const TABLES: &str = "[loop]\nmax_gate_rounds = 0\n";

/// Actions of an agent besides its fix, with which the gate would pass in its worktree and fails in
/// a fresh clone.
const TRICKS: [(&str, &str); 14] = [
    (
        "assume-unchanged",
        "git update-index --assume-unchanged value.txt; echo good >value.txt",
    ),
    (
        "skip-worktree",
        "git update-index --skip-worktree value.txt; echo good >value.txt",
    ),
    (
        "a hidden test",
        "echo good >value.txt; echo false >tests/new.sh; git add -A; git commit -qm Hide; git update-index --skip-worktree tests/new.sh; rm tests/new.sh",
    ),
    (
        "sparse checkout",
        "echo good >value.txt; echo false >tests/new.sh; git add -A; git commit -qm Hide; git sparse-checkout set --no-cone '/*' '!/tests/new.sh'",
    ),
    (
        "info/exclude",
        "echo helper >\"$(git rev-parse --git-common-dir)/info/exclude\"; echo good >helper; echo helper >value.txt",
    ),
    (
        "core.excludesFile",
        "echo helper >\"$PROMPTS/excludes\"; git config core.excludesFile \"$PROMPTS/excludes\"; echo good >helper; echo helper >value.txt",
    ),
    (
        "clean filter",
        "git config filter.e.clean 'sed s/good/evil/'; echo 'value.txt filter=e' >\"$(git rev-parse --git-common-dir)/info/attributes\"; echo good >value.txt",
    ),
    (
        "clean filter by a committed attribute",
        "git config filter.e.clean 'sed s/good/evil/'; git config filter.e.smudge 'sed s/evil/good/'; echo 'value.txt filter=e' >.gitattributes; echo good >value.txt",
    ),
    (
        "line ends by a committed attribute",
        "echo good >value.txt; echo 'value.txt eol=crlf' >.gitattributes",
    ),
    (
        "core.fileMode",
        "git config core.fileMode false; echo good >value.txt; echo true >exec.sh; chmod +x exec.sh",
    ),
    (
        "stat cache",
        "git config core.trustctime false; git config core.checkStat minimal; touch -d 2020-01-01 value.txt; git update-index --refresh; echo good >value.txt; touch -d 2020-01-01 value.txt",
    ),
    (
        "an ignored file of an honest agent",
        "echo good >helper.local; echo helper.local >value.txt",
    ),
    (
        "a repository inside",
        "mkdir nested; (cd nested; git init -q; echo good >v; git add v; git commit -qm v); git config --local core.excludesFile \"$PROMPTS/nested\"; echo nested >\"$PROMPTS/nested\"; echo nested/v >value.txt",
    ),
    (
        "a link to the outside",
        "echo good >\"$PROMPTS/outside\"; ln -s \"$PROMPTS/outside\" out.local; echo out.local >value.txt",
    ),
];

fn stage(does: &str, settings: &str) -> Remotes {
    let fixer = format!("cat >/dev/null\necho fixed >>work.txt\n{does}\n");
    let settings = format!("gates = [[\"gate\"]]\n{settings}");
    let stage = Remotes::unwatched(&Script {
        fixer: &fixer,
        settings: &settings,
        tables: TABLES,
        ..rejecting()
    });
    stage.play.world.script("gate", GATE);
    let worktree = &stage.play.worktree;
    std::fs::create_dir(worktree.join("tests")).unwrap();
    std::fs::write(worktree.join("tests/old.sh"), "true\n").unwrap();
    std::fs::write(worktree.join(".gitignore"), "*.local\n").unwrap();
    stage
        .play
        .world
        .commit(worktree, "value.txt", "evil\n", "Value");
    stage
        .play
        .world
        .git(worktree, &["push", "-q", "origin", "feature"]);
    stage.watch();
    stage
}

/// Returns true if a gate passes in a fresh clone of the remote.
fn is_green_in_a_clone(pull: &PullPlay) -> bool {
    let clone = pull.play.world.root().join("fresh");
    let world = &pull.play.world;
    let from = pull.remote.to_str().unwrap();
    world.git(
        world.root(),
        &[
            "clone",
            "-q",
            "--branch",
            "feature",
            from,
            clone.to_str().unwrap(),
        ],
    );
    let mut gate = world.command("gate");
    gate.current_dir(&clone).output().unwrap().status.success()
}

/// FR-3, S1-49
#[test]
fn a_green_gate_means_that_a_fresh_clone_of_what_is_pushed_is_green() {
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((trick, does)) = TRICKS.get(next.fetch_add(1, Ordering::SeqCst)) {
                    wrong
                        .lock()
                        .unwrap()
                        .extend(is_red_everywhere(trick, does).err());
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn is_red_everywhere(trick: &str, does: &str) -> Result<(), String> {
    let stage = stage(does, "");
    let before = stage.remote_head("feature");
    stage.tick();
    let failed = stage.play.count("events WHERE event_type = 'gate_failed'");
    if stage.remote_head("feature") != before {
        return match (
            is_green_in_a_clone(&stage),
            trick.starts_with("clean filter"),
        ) {
            // The agent's filter does not run for remand's git, so the commit has what the agent
            // wrote.
            (true, true) => Ok(()),
            (true, false) => Err(format!(
                "{trick}: pushed, and the gate is green in a fresh clone"
            )),
            (false, _) => Err(format!(
                "{trick}: pushed, and the gate is red in a fresh clone"
            )),
        };
    }
    match (stage.play.state().as_str(), failed) {
        ("escalated", 1) => Ok(()),
        (state, failed) => Err(format!(
            "{trick}: {state}, {failed} red gates: {:#?}",
            stage.play.events()
        )),
    }
}

#[test]
fn an_honest_fix_is_pushed_and_green_in_a_clone() {
    // With names and contents that are easy to get wrong.
    let does = r#"
echo good >value.txt
echo true >exec.sh; chmod +x exec.sh
ln -s value.txt link
printf 'a\r\nb\n' >mixed.txt; printf 'a\nb\n' >crlf.txt; printf '$Id$\n' >ident.txt; printf '\0\1\2' >binary
printf '* text=auto\ncrlf.txt eol=crlf\nident.txt ident\n' >.gitattributes
mkdir -p 'a "folder"'; echo 1 >'a "folder"/two
lines'; echo 2 >'a "folder"/\\x'; echo 3 >"$(printf 'latin-\351')"; echo 4 >-n
"#;
    let stage = stage(does, "");
    stage.tick();
    stage.is_ready();
    assert!(is_green_in_a_clone(&stage));
    // The tree that the gate saw is that of the clone.
    let tree = stage
        .play
        .world
        .root()
        .join("state/remand/gates/calc/0/tree");
    let clone = stage.play.world.root().join("fresh");
    let names = |top: &Path| {
        paths(top)
            .into_iter()
            .map(|path| path.strip_prefix(top).unwrap().to_owned())
            .collect()
    };
    let (here, there): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) = (names(&tree), names(&clone));
    assert_eq!(here, there);
    for path in here.iter().filter(|path| clone.join(path).is_file()) {
        assert_eq!(
            std::fs::read(tree.join(path)).unwrap(),
            std::fs::read(clone.join(path)).unwrap(),
            "{path:?}"
        );
    }
}

/// Returns everything in and below a directory, except its repository.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            if entry.file_name() == ".git" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}
