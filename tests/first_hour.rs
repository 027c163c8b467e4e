//! The first hour with remand, as in the README: from `init` to the first pushed fix, and gates
//! that fail before any work was done.

use std::path::Path;

use crate::support::forge::Forge;
use crate::support::play::{Play, REVIEWER, REVIEWS_FIXED, Script};
use crate::support::{World, run, skip};

const REPO: &str = "ada/calc";

/// A repository with its remote and a pull request of `feature`, and the files that `init` wrote.
struct FirstHour {
    world: World,
    repo: std::path::PathBuf,
    remote: std::path::PathBuf,
    /// Checks on drop that there was no unknown request.
    _forge: Forge,
}

impl FirstHour {
    /// Creates it: `files` are on `main`, `npm` is this script; `init` runs with these arguments
    /// besides the agents.
    fn begin(files: &[(&str, &str)], npm: &str, init: &[&str]) -> Self {
        let world = World::new();
        let intro = "PROMPTS=$(mktemp -d)\n";
        world.script("reviewer", &format!("{intro}{REVIEWER}\n{REVIEWS_FIXED}"));
        world.script("npm", npm);
        world.script("fixer", "cat >/dev/null\necho fixed >>work.txt\n");
        let repo = world.repo("calc");
        for (name, text) in files {
            world.commit(&repo, name, text, &format!("add {name}"));
        }
        let (root, remote) = (world.root().to_owned(), world.root().join("remote.git"));
        world.git(
            &root,
            &[
                "clone",
                "--quiet",
                "--bare",
                repo.to_str().unwrap(),
                remote.to_str().unwrap(),
            ],
        );
        world.git(
            &repo,
            &["remote", "add", "origin", remote.to_str().unwrap()],
        );
        let worktree = world.worktree(&repo, "feature");
        world.git(&worktree, &["push", "--quiet", "origin", "feature"]);
        world.git(&repo, &["worktree", "remove", worktree.to_str().unwrap()]);
        world.git(&repo, &["branch", "--quiet", "-D", "feature"]);
        let forge = Forge::new(&root, REPO, &remote);
        forge.add_user("carol", "write");
        forge.open_pull("feature", "main", "carol");
        let gh = forge
            .gh_argv()
            .iter()
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" ");
        world.script("gh", &format!("exec {gh} \"$@\"\n"));
        let args = [
            "init",
            "--yes",
            "--agent",
            "fixer",
            "--review-agent",
            "reviewer",
        ];
        let output = world.remand_in(&repo, &[&args[..], init].concat()).ok();
        let is_tried = !init.contains(&"--no-try");
        assert_eq!(
            output.stdout.contains("\ngreen: "),
            is_tried,
            "{}\n{}",
            output.stdout,
            output.stderr
        );
        // Only because the remote of a test is a directory.
        let url = remote.to_str().unwrap();
        world
            .remand(&[
                "project",
                "add",
                repo.to_str().unwrap(),
                "--repo",
                REPO,
                "--url",
                url,
            ])
            .ok();
        Self {
            world,
            repo,
            remote,
            _forge: forge,
        }
    }

    /// Adds to the config file.
    fn also(&self, before: &str, after: &str) {
        let file = self.world.root().join("config/remand/config.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{before}{text}{after}")).unwrap();
    }

    /// Asserts that the pull request is watched, and that its only fix is reviewed and pushed.
    #[track_caller]
    fn is_fixed_without_a_detour(&self) {
        self.world
            .remand_in(&self.repo, &["watch", &format!("{REPO}#1")])
            .ok();
        self.world.remand(&["tick"]).report();
        self.was_fixed_once();
    }

    #[track_caller]
    fn was_fixed_once(&self) {
        let why = || self.world.remand(&["why", "c1"]).ok().words();
        assert_eq!(
            self.world.sqlite("SELECT state FROM changes"),
            "ready_for_human_review",
            "{}",
            why()
        );
        let runs = "SELECT group_concat(agent || ' ' || coalesce(gates, '-'), ', ') FROM (SELECT * FROM runs ORDER BY rowid)";
        assert_eq!(
            self.world.sqlite(runs),
            "reviewer -, fixer green, reviewer -",
            "{}",
            why()
        );
        assert_eq!(
            self.world
                .sqlite("SELECT count(*) FROM events WHERE event_type IN ('gate_failed', 'held')"),
            "0"
        );
        let pushed = self.world.git(&self.remote, &["show", "feature:work.txt"]);
        assert_eq!(pushed, "work\nfixed");
    }

    fn own_worktree(&self) -> std::path::PathBuf {
        self.world.root().join("state/remand/worktrees/calc/pr-1")
    }
}

const NPM: &str = r#"
case $1 in
ci) [ -f package-lock.json ] || exit 1; mkdir -p node_modules/dep; echo ok >node_modules/dep/index.js ;;
test) [ -f node_modules/dep/index.js ] || { printf "Error: Cannot find module 'dep'\n\nNode.js v20.20.2\n" >&2; exit 1; } ;;
*) echo "unknown: $*" >&2; exit 2 ;;
esac
"#;

#[test]
fn a_repository_that_needs_npm_ci_gets_its_first_fix_pushed() {
    let files = [
        ("package.json", "{\"scripts\": {\"test\": \"jest\"}}\n"),
        ("package-lock.json", "{}\n"),
        (".gitignore", "node_modules\n"),
    ];
    let hour = FirstHour::begin(&files, NPM, &[]);
    hour.is_fixed_without_a_detour();
    assert!(
        hour.own_worktree()
            .join("node_modules/dep/index.js")
            .exists()
    );
    let places =
        "SELECT group_concat(metadata ->> '$.place') FROM events WHERE event_type = 'setup_run'";
    assert_eq!(
        hour.world.sqlite(places),
        "worktree",
        "the one that `init` made in the checkout is used"
    );
}

const TEST_PY: &str = "import unittest\nimport calc\n\n\nclass Test(unittest.TestCase):\n    def test_add(self):\n        open('report.xml', 'w').close()\n        self.assertEqual(calc.add(1, 2), 3)\n";
const CALC_PY: &str = "def add(a, b):\n    return a + b\n";

/// Creates a repository whose gate leaves `report.xml` and `__pycache__` behind, which it does not
/// ignore.
fn python(test: &str, before: &str) -> Option<FirstHour> {
    let hour = FirstHour::begin(
        &[("test_calc.py", TEST_PY), ("calc.py", CALC_PY)],
        "exit 9\n",
        &["--no-try", "--gate", "python3 -m unittest -q"],
    );
    if hour
        .world
        .command("python3")
        .arg("--version")
        .output()
        .is_err()
    {
        skip(test, "there is no python3");
        return None;
    }
    // A python in the home directory is not visible inside the sandbox.
    hour.also(before, "\n[sandbox]\nkind = \"off\"\n");
    Some(hour)
}

#[test]
fn a_gate_that_leaves_files_behind_sends_nobody_back() {
    for before in ["", "gate_in = \"worktree\"\n"] {
        let Some(hour) = python("a_gate_that_leaves_files_behind_sends_nobody_back", before) else {
            return;
        };
        hour.is_fixed_without_a_detour();
        assert!(!hour.own_worktree().join("report.xml").exists(), "{before}");
        let listed = hour
            .world
            .git(&hour.remote, &["ls-tree", "-r", "--name-only", "feature"]);
        assert!(
            !listed.contains("__pycache__") && !listed.contains("report.xml"),
            "{listed}"
        );
    }
}

/// In a user's worktree these files are not deleted, and do not count as work.
#[test]
fn what_a_gate_leaves_in_a_user_s_own_worktree_stays_and_is_not_committed() {
    let name = "what_a_gate_leaves_in_a_user_s_own_worktree_stays_and_is_not_committed";
    let Some(hour) = python(name, "gate_in = \"worktree\"\n") else {
        return;
    };
    let worktree = hour.repo.with_file_name("mine");
    hour.world.git(&hour.repo, &["fetch", "--quiet", "origin"]);
    hour.world.git(
        &hour.repo,
        &[
            "worktree",
            "add",
            "--quiet",
            "-b",
            "feature",
            worktree.to_str().unwrap(),
            "origin/feature",
        ],
    );
    hour.is_fixed_without_a_detour();
    assert!(left_behind(&worktree), "it is still there");
    // The next fix finds it there, too.
    hour.world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    hour.world.remand(&["tick"]).report();
    assert_eq!(
        hour.world
            .sqlite("SELECT state || ' ' || total_fixes FROM changes"),
        "ready_for_human_review 2"
    );
    assert!(left_behind(&worktree));
    let listed = hour
        .world
        .git(&hour.remote, &["ls-tree", "-r", "--name-only", "feature"]);
    assert!(
        !listed.contains("__pycache__") && !listed.contains("report.xml"),
        "{listed}"
    );
    // A file that the person leaves there is still their work.
    std::fs::write(worktree.join("mine.txt"), "mine\n").unwrap();
    hour.world
        .remand(&["refine", "c1", "--text", "and again"])
        .ok();
    hour.world.remand(&["tick"]).report();
    let reason = hour.world.remand(&["why", "c1"]).held().words();
    assert!(
        reason.contains("has uncommitted changes: mine.txt"),
        "{reason}"
    );
}

fn left_behind(worktree: &Path) -> bool {
    worktree.join("report.xml").exists()
        && std::fs::read_dir(worktree.join("__pycache__")).is_ok_and(|files| files.count() > 0)
}

/// Creates the change c1 of a project with a set-up and a gate; both record where they ran.
fn gated(gate: &str, settings: &str) -> Play {
    let settings = format!("setup = [\"prepare\"]\ngates = [[\"gate\"]]\n{settings}\n");
    let play = Play::without_change(&Script {
        settings: &settings,
        ..Script::default()
    });
    set(
        &play,
        "prepare",
        "mkdir modules; cp payload modules/ 2>/dev/null; echo 1 >modules/one\n",
    );
    set(&play, "gate", gate);
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

fn set(play: &Play, name: &str, text: &str) {
    let seen = play.seen("");
    let intro = format!(
        "SEEN='{}'\ngit rev-parse HEAD >>\"$SEEN/{name}\"\n",
        seen.display()
    );
    play.world.script(name, &format!("{intro}{text}"));
}

fn ran(play: &Play, name: &str) -> Vec<String> {
    play.noted(name).lines().map(str::to_owned).collect()
}

const HOLD: &str = "red_base = \"hold\"";

#[test]
fn gates_that_are_red_on_the_base_and_on_the_change_pay_no_agent() {
    let play = gated("echo 'test calc::adds ... FAILED'\nexit 1\n", HOLD);
    let (main, head) = (
        play.world.git(&play.repo, &["rev-parse", "main"]),
        play.head(),
    );
    play.tick().report();
    play.is_held(&format!(
        "the gate `gate` also fails on main ({}), so no agent was started: calc::adds;",
        &main[..10]
    ));
    assert!(
        play.answer().contains("red_base = \"ignore\""),
        "{}",
        play.answer()
    );
    assert_eq!(play.count("runs"), 0);
    assert_eq!(ran(&play, "gate"), [main.clone(), head]);
    // The set-up ran for the base; its output is used for the change, too.
    assert_eq!(ran(&play, "prepare"), [main]);
    // Still failing, and checked again.
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_held("no agent was started");
    set(&play, "gate", "exit 0\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(ran(&play, "prepare").len(), 1);
}

#[test]
fn a_base_that_passed_is_not_tested_again() {
    let play = gated("exit 0\n", &format!("{HOLD}\ndispatch.slots = 1"));
    let main = play.world.git(&play.repo, &["rev-parse", "main"]);
    play.another("second");
    play.tick().report();
    let ready = play.count("changes WHERE state = 'ready_for_human_review'");
    assert_eq!(ready, 2, "{:#?}", play.events());
    assert_eq!(
        ran(&play, "gate")
            .iter()
            .filter(|commit| **commit == main)
            .count(),
        1
    );
    assert_eq!(
        ran(&play, "gate").len(),
        4,
        "once on the base, once on the tree of both heads, and on each fix"
    );
    // Other gates have to run again.
    let file = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&file)
        .unwrap()
        .replace("[[\"gate\"]]", "[[\"gate\", \"all\"]]");
    std::fs::write(&file, text).unwrap();
    play.world
        .remand(&["refine", "c1", "--text", "once more"])
        .ok();
    play.tick().report();
    assert_eq!(
        ran(&play, "gate")
            .iter()
            .filter(|commit| **commit == main)
            .count(),
        2
    );
}

#[test]
fn a_change_that_repairs_its_base_goes_on() {
    let play = gated(
        "[ -e work.txt ] || { echo 'work.txt is missing'; exit 1; }\n",
        HOLD,
    );
    play.tick().report();
    play.is_ready(1);
    let main = play.world.git(&play.repo, &["rev-parse", "main"]);
    assert_eq!(
        ran(&play, "gate")
            .iter()
            .filter(|commit| **commit == main)
            .count(),
        1,
        "{:?}",
        ran(&play, "gate")
    );
    assert_eq!(
        play.count("events WHERE event_type IN ('held', 'gate_failed')"),
        0,
        "{:#?}",
        play.events()
    );
}

#[test]
fn a_set_up_that_fails_on_the_base_pays_no_agent() {
    let play = gated("exit 0\n", HOLD);
    set(&play, "prepare", "echo 'no such registry' >&2\nexit 4\n");
    play.tick().report();
    play.is_held("the setup `prepare` failed (status 4): no such registry");
    assert_eq!((play.count("runs"), ran(&play, "gate").len()), (0, 0));
}

/// Wherever it dies, the next one gets to the same result.
#[test]
fn a_trial_of_the_base_that_is_cut_is_begun_again() {
    for point in [
        "setup.before",
        "setup.after",
        "checkout.setup.after",
        "gate.before",
        "gate.after",
    ] {
        let play = gated("exit 0\n", HOLD);
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
        assert_eq!(play.count("runs"), 0, "{point}");
        play.tick().report();
        play.is_ready(1);
    }
}

/// Files that a set-up makes for one change's commit are not there when another change is tested.
#[test]
fn a_change_cannot_leave_anything_in_the_set_up_of_another() {
    for settings in ["red_base = \"ignore\"", HOLD] {
        let gate = "[ ! -e modules/payload ] || [ -e payload ] || { echo 'poisoned'; exit 1; }\n";
        let play = gated(gate, settings);
        play.fixer("cat >/dev/null\n[ \"$REMAND_CHANGE\" != c1 ] || echo evil >payload\necho fixed >>work.txt\n");
        play.tick().report();
        play.is_ready(1);
        let (second, _) = play.another("second");
        play.tick().report();
        let state = format!("SELECT state FROM changes WHERE change_id = '{second}'");
        assert_eq!(
            play.world.sqlite(&state),
            "ready_for_human_review",
            "{:#?}",
            play.events()
        );
        assert_eq!(
            play.count("events WHERE event_type = 'gate_failed'"),
            0,
            "{settings}: {:#?}",
            play.events()
        );
        // The output for the base is used by all.
        let times = if settings == HOLD { 1 } else { 2 };
        assert_eq!(ran(&play, "prepare").len(), times, "{settings}");
    }
}
