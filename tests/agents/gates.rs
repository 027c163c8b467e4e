//! Gates that fail, leave files behind, hang, or do not exist; in a checkout of remand and in the
//! worktree.

use crate::support::play::{Play, Script};

/// Creates a project whose gate is the script `gate`.
fn gated(gate: &str, fixer: &str, tables: &str) -> Play {
    gated_with("", gate, fixer, tables)
}

/// Like `gated`, with other top-level settings.
fn gated_with(settings: &str, gate: &str, fixer: &str, tables: &str) -> Play {
    let play = Play::without_change(&Script {
        fixer,
        tables,
        settings,
        ..Script::default()
    });
    let path = set_gate(&play, gate);
    let config = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("gates = [[\"{}\"]]\n{text}", path.display()),
    )
    .unwrap();
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

const IN_WORKTREE: &str = "gate_in = \"worktree\"";

fn set_gate(play: &Play, gate: &str) -> std::path::PathBuf {
    play.world.script(
        "gate",
        &format!("SEEN='{}'\n{gate}", play.seen("").display()),
    )
}

const FIXES_MORE: &str = "cat >/dev/null\necho fixed >>work.txt\n";

#[track_caller]
fn red_for_ever(gate: &str, tables: &str, reason: &str) -> Play {
    red_with("", gate, tables, reason)
}

#[track_caller]
fn red_with(settings: &str, gate: &str, tables: &str, reason: &str) -> Play {
    let play = gated_with(settings, gate, FIXES_MORE, tables);
    let before = play.head();
    play.tick().report();
    play.is_escalated("the gates failed");
    assert!(play.answer().contains("remand show r"), "{}", play.answer());
    let output = play.world.sqlite(
        "SELECT metadata ->> '$.output' FROM events WHERE event_type = 'gate_failed' LIMIT 1",
    );
    assert!(output.contains(reason), "{output}");
    play.worktree_is_at(&before);
    assert_eq!(play.count("work_items WHERE source = 'code_review'"), 1);
    play
}

#[test]
fn red_once_and_then_green() {
    let gate = "grep -c fixed work.txt | grep -qx 2 && exit 0\necho 'test_of_two FAILED: wants it twice'\nexit 1\n";
    let play = gated(gate, FIXES_MORE, "");
    play.tick().report();
    play.is_ready(1);
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 1);
    assert!(
        play.prompt_of_run("r3")
            .contains("test_of_two FAILED: wants it twice")
    );
    assert_eq!(
        play.world.sqlite("SELECT fix_cycle FROM changes"),
        "1",
        "a red gate is no cycle"
    );
    assert_eq!(
        play.world
            .sqlite("SELECT group_concat(gates) FROM runs WHERE gates IS NOT NULL"),
        "red,green"
    );
}

#[test]
fn red_for_ever_is_for_a_person() {
    let play = red_for_ever(
        "echo 'never satisfied'\nexit 1\n",
        "[loop]\nmax_gate_rounds = 1\n",
        "never satisfied",
    );
    assert_eq!(play.count("runs"), 3, "one review, the fix, and one more");
    assert!(
        play.answer()
            .contains("even after one more attempt by the agent: $ "),
        "{}",
        play.answer()
    );
    assert!(
        play.answer().contains(": never satisfied. Decide"),
        "{}",
        play.answer()
    );
    assert_eq!(play.kept("r3", "work.txt"), "work\nfixed\nfixed");
    set_gate(&play, "exit 0\n");
    play.retry_finishes();
    assert_eq!(
        std::fs::read_to_string(play.worktree.join("work.txt")).unwrap(),
        "work\nfixed\n"
    );
}

const NO_ROUNDS: &str = "[loop]\nmax_gate_rounds = 0\n";

#[test]
fn changes_committed_files() {
    let play = red_for_ever(
        "echo x >report.xml\necho y >>work.txt\n",
        NO_ROUNDS,
        "the gate changed committed files: work.txt",
    );
    assert!(play.answer().contains("work.txt"), "{}", play.answer());
    red_for_ever(
        "git reset -q --hard HEAD~1\n",
        NO_ROUNDS,
        "the gate changed committed files: work.txt",
    );
    red_for_ever(
        "chmod +x work.txt\n",
        NO_ROUNDS,
        "the gate changed committed files: work.txt",
    );
}

#[test]
fn dirties_the_worktree() {
    red_with(
        IN_WORKTREE,
        "echo x >report.xml\necho y >>work.txt\n",
        NO_ROUNDS,
        "the gates changed committed files: work.txt",
    );
}

/// Files that a gate leaves in its checkout are deleted before the next gate run, ignored or not,
/// with its commits and branches.
#[test]
fn leaves_files_that_a_later_gate_run_must_not_see() {
    let fixer = "cat >/dev/null\necho fixed >>work.txt\necho '*.local' >.gitignore\n";
    let gate = r#"
git rev-parse --abbrev-ref HEAD >>"$SEEN/branches"
[ ! -e left.txt ] && [ ! -e helper.local ] && [ ! -e deep ] || { echo "something is left"; exit 1; }
mkdir -p deep/down; echo x >deep/down/file; chmod 500 deep/down; chmod 500 deep
echo good >left.txt; echo good >helper.local; git checkout -q -b elsewhere; git commit -q --allow-empty -m Mine
git config alias.x '!false'; rm -rf .git/objects
grep -c fixed work.txt | grep -qx 2 || { echo "not yet"; exit 1; }
"#;
    let play = gated(gate, fixer, "");
    play.tick().report();
    play.is_ready(1);
    assert_eq!(play.noted("branches"), "feature\nfeature\n");
    assert_eq!(
        play.count("events WHERE event_type = 'gate_failed'"),
        1,
        "{:#?}",
        play.events()
    );
    let output = play
        .world
        .sqlite("SELECT metadata ->> '$.output' FROM events WHERE event_type = 'gate_failed'");
    assert!(
        output.contains("clean checkout of") && output.contains("not yet"),
        "{output}"
    );
    assert!(!play.worktree.join("left.txt").exists());
}

#[test]
fn sees_paths_and_refs_as_in_the_worktree() {
    let gate = "git rev-parse HEAD main >>\"$SEEN/refs\"\ngit status --porcelain >>\"$SEEN/refs\"\necho \"$PWD/work.txt is wrong\"\nexit 1\n";
    let play = red_for_ever(gate, NO_ROUNDS, "is wrong");
    let output = play
        .world
        .sqlite("SELECT metadata ->> '$.output' FROM events WHERE event_type = 'gate_failed'");
    assert!(
        output.contains(&format!("{}/work.txt is wrong", play.worktree.display())),
        "{output}"
    );
    let head = play
        .world
        .sqlite("SELECT head_after FROM runs WHERE run_id = 'r2'");
    let main = play.world.git(&play.repo, &["rev-parse", "main"]);
    assert_eq!(play.noted("refs"), format!("{head}\n{main}\n"));
}

/// The output of the set-up stays until someone changes it; then the set-up runs again, in an empty
/// checkout.
#[test]
fn the_set_up_runs_once_and_again_when_its_product_was_changed() {
    let fixer = "cat >/dev/null\necho fixed >>work.txt\n";
    let setup = "echo ran >>\"$HOME/setups\"\nmkdir -p modules/x\necho 1 >modules/x/one\nln -s one modules/x/two\n";
    let gate = r#"
[ "$(cat modules/x/two)" = 1 ] || { echo "no modules"; exit 1; }
echo cache >modules/x/cache
case $(grep -c fixed work.txt) in
1) echo "first"; exit 1 ;;
2) before=$(stat -c %y modules/x/one); echo 2 >modules/x/one; touch -d "$before" modules/x/one; echo "second"; exit 1 ;;
*) exit 0 ;;
esac
"#;
    let play = Play::without_change(&Script {
        fixer,
        settings: "setup = [\"prepare\"]\ngates = [[\"gate\"]]\n",
        tables: "[loop]\nmax_gate_rounds = 5\n",
        ..Script::default()
    });
    play.world.script("prepare", setup);
    set_gate(&play, gate);
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.tick().report();
    play.is_ready(1);
    let ran = std::fs::read_to_string(play.world.root().join("home/setups")).unwrap();
    assert_eq!(ran.lines().count(), 2, "{:#?}", play.events());
    assert_eq!(
        play.world
            .sqlite("SELECT group_concat(gates) FROM runs WHERE gates IS NOT NULL"),
        "red,red,green"
    );
    let event = "SELECT group_concat(metadata ->> '$.place' || ' ' || (metadata ->> '$.result') || ' ' || (metadata ->> '$.status'))
                 FROM events WHERE event_type = 'setup_run' AND metadata ->> '$.elapsed_ms' >= 0";
    assert_eq!(play.world.sqlite(event), "checkout done 0,checkout done 0");
    assert!(
        !play.worktree.join("modules").exists(),
        "a user's own worktree is never set up"
    );
}

#[test]
fn a_set_up_that_changes_committed_files_holds() {
    let play = gated_with("setup = [\"prepare\"]", "exit 0\n", FIXES_MORE, "");
    play.world.script("prepare", "echo x >>work.txt\n");
    play.tick().report();
    play.is_held("the setup changed committed files: work.txt");
    play.world.script("prepare", "exit 7\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_held("the setup `prepare` failed (status 7)");
    play.world.script("prepare", "exit 0\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
    let results =
        "SELECT group_concat(metadata ->> '$.result') FROM events WHERE event_type = 'setup_run'";
    assert_eq!(play.world.sqlite(results), "done,failed,done");
}

/// Creates a project whose set-up rejects a lock file with "broken" in it, and fails while `down`
/// exists.
fn with_lock_file(settings: &str, fixer: &str) -> Play {
    let play = Play::without_change(&Script {
        fixer,
        settings: &format!("setup = [\"prepare\"]\ngates = [[\"gate\"]]\n{settings}"),
        tables: "[loop]\nmax_gate_rounds = 1\n",
        ..Script::default()
    });
    let down = play.world.root().join("down");
    let setup = "if grep -q broken package-lock.json 2>/dev/null; then echo 'EUSAGE: the lock file is broken'; exit 4; fi";
    play.world.script(
        "prepare",
        &format!(
            "[ ! -e '{}' ] || {{ echo no network; exit 5; }}\n{setup}\n",
            down.display()
        ),
    );
    set_gate(&play, "exit 0\n");
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play
}

/// This used to be a hold with back-off: the agent was not informed, and nobody was asked.
#[test]
fn a_fix_that_breaks_the_set_up_goes_back_to_the_agent() {
    let play = with_lock_file(
        "",
        "cat >/dev/null\necho fixed >>work.txt\n[ -e package-lock.json ] && word=good || word=broken\necho $word >package-lock.json\n",
    );
    play.tick().report();
    play.is_ready(1);
    let prompt = play.prompt_of_run("r3");
    assert!(
        prompt.contains("EUSAGE: the lock file is broken"),
        "{prompt}"
    );
    assert!(
        prompt.contains("the setup `prepare` failed (status 4); it passes on "),
        "{prompt}"
    );
    let event = "SELECT (metadata ->> '$.command') || ' ' || (metadata ->> '$.status') || ' ' || (metadata ->> '$.round') || ' ' || summary
                 FROM events WHERE event_type = 'gate_failed'";
    insta::assert_snapshot!(play.world.sqlite(event), @"prepare 4 1 gate failed: prepare: EUSAGE: the lock file is broken");
    assert_eq!(
        play.world
            .sqlite("SELECT group_concat(gates) FROM runs WHERE gates IS NOT NULL"),
        "red,green"
    );
}

#[test]
fn a_fix_that_breaks_the_set_up_for_ever_is_for_a_person() {
    let play = with_lock_file(
        "",
        "cat >/dev/null\necho fixed >>work.txt\necho broken >>package-lock.json\n",
    );
    let before = play.head();
    play.tick().report();
    play.is_escalated(
        "the gates failed, even after one more attempt by the agent: $ prepare: EUSAGE",
    );
    play.worktree_is_at(&before);
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 2);
}

/// Without a network no lock file can be installed, and the agent cannot change that.
#[test]
fn a_set_up_that_fails_without_the_fix_too_holds() {
    let play = with_lock_file(
        "",
        "cat >/dev/null\necho fixed >>work.txt\necho good >package-lock.json\n: >\"$PROMPTS/../down\"\n",
    );
    play.tick().report();
    play.is_held("the setup `prepare` failed (status 5): no network");
    std::fs::remove_file(play.world.root().join("down")).unwrap();
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 0);
}

/// The fix is unrelated, so the set-up is not even tried without the fix.
#[test]
fn a_set_up_that_fails_although_the_fix_changed_none_of_its_files_holds() {
    let play = with_lock_file(
        "red_base = \"ignore\"\n",
        "cat >/dev/null\necho fixed >>work.txt\n",
    );
    std::fs::write(play.world.root().join("down"), "").unwrap();
    play.tick().report();
    play.is_held("the setup `prepare` failed (status 5): no network");
    assert_eq!(play.count("events WHERE event_type = 'setup_run'"), 1);
}

#[test]
fn leaves_only_ignored_files() {
    let play = Play::without_change(&Script {
        settings: IN_WORKTREE,
        ..Script::default()
    });
    play.world
        .commit(&play.worktree, ".gitignore", "target/\n", "ignore");
    let gate = play
        .world
        .script("gate", "mkdir -p target\necho built >target/x\n");
    let config = play.world.root().join("config/remand/config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(
        &config,
        format!("gates = [[\"{}\"]]\n{text}", gate.display()),
    )
    .unwrap();
    play.world
        .remand_in(&play.worktree, &["review", "--title", "Feature"])
        .ok();
    play.tick().report();
    play.is_ready(1);
    assert!(play.worktree.join("target/x").exists());
}

#[test]
fn moves_head_of_the_worktree() {
    red_with(
        IN_WORKTREE,
        "git reset -q --hard HEAD~1\n",
        NO_ROUNDS,
        "a gate moved HEAD away from the tested commit",
    );
}

#[test]
fn switches_the_branch_of_the_worktree() {
    let play = red_with(
        IN_WORKTREE,
        "git switch -qc elsewhere\n",
        NO_ROUNDS,
        "a gate switched away from the branch feature",
    );
    assert!(play.kept("r2", "work.txt").contains("fixed"));
}

#[test]
fn hangs() {
    let limits = "[loop]\nmax_gate_rounds = 0\n[limits]\ngate_s = 2\ngrace_s = 1\n";
    red_for_ever(
        "echo 'waiting for a server'\ntrap '' TERM\nsleep 1000 &\nwhile :; do sleep 1; done\n",
        limits,
        "stopped after 2 s",
    );
}

#[test]
fn leaves_children() {
    let play = gated(
        "setsid sleep 1000 &\nsleep 1000 &\nexit 0\n",
        FIXES_MORE,
        "[limits]\ngrace_s = 1\n",
    );
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn is_not_there() {
    let play = gated("exit 0\n", FIXES_MORE, "");
    let gate = play.world.root().join("bin/gate");
    std::fs::remove_file(&gate).unwrap();
    play.tick().report();
    play.is_held("cannot be started");
    assert!(play.answer().contains("bin/gate"), "{}", play.answer());
    assert_eq!(play.count("runs"), 2);
    set_gate(&play, "exit 0\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        play.count("runs"),
        3,
        "the fix was not made again: one fix, two reviews"
    );
}

#[test]
fn crashes() {
    let play = red_for_ever(
        "echo 'about to crash'\nkill -SEGV $$\n",
        "[loop]\nmax_gate_rounds = 0\n",
        "about to crash",
    );
    assert!(
        play.world
            .remand(&["show", "r2"])
            .ok()
            .stdout
            .contains("crashed with signal 11")
    );
}

#[test]
fn is_killed_by_somebody() {
    let play = gated("kill -9 $$\n", FIXES_MORE, "");
    play.tick().report();
    play.is_held("was killed");
    set_gate(&play, "exit 0\n");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

/// Each gate run has its own checkout: none waits for another one to end.
#[test]
fn gates_of_two_changes_run_at_the_same_time() {
    let gate = "pwd >>\"$SEEN/began\"\nuntil [ \"$(wc -l <\"$SEEN/began\")\" -ge 2 ]; do sleep 0.02; done\n";
    let play = gated(
        gate,
        FIXES_MORE,
        "[dispatch]\nslots = 2\n[limits]\ngate_s = 100\n",
    );
    play.another("second");
    play.tick().report();
    let states = play.world.sqlite("SELECT group_concat(state) FROM changes");
    assert_eq!(
        states,
        "ready_for_human_review,ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let began = play.noted("began");
    let places: std::collections::BTreeSet<&str> = began.lines().collect();
    assert_eq!(places.len(), 2, "{began}");
    assert_eq!(
        play.count("events WHERE event_type = 'gate_failed'"),
        0,
        "{:#?}",
        play.events()
    );
}

/// A gate that ends without a result is retried until `max_lost_runs`, and then a person is asked;
/// `resume` begins the count again.
#[test]
fn a_gate_that_is_killed_as_often_as_runs_may_be_lost_is_for_a_person() {
    let tables = "[dispatch]\nmax_lost_runs = 4\n";
    let play = gated("kill -9 $$\n", FIXES_MORE, tables);
    let again = || {
        play.world.sqlite("UPDATE changes SET held_until = '2020-01-01T00:00:00.000Z' WHERE held_until IS NOT NULL");
        play.tick().report();
    };
    play.tick().report();
    play.is_held("was killed");
    again();
    play.is_held("was killed");
    play.world.remand(&["resume", "c1"]).ok();
    play.tick().report();
    play.is_held("was killed");
    for _ in 0..2 {
        again();
        play.is_held("was killed");
    }
    again();
    play.is_escalated("held for the same reason too often");
    assert_eq!(play.count("runs"), 2, "no agent was paid for it");
    set_gate(&play, "exit 0\n");
    play.world.remand(&["retry", "c1"]).ok();
    play.tick().report();
    play.is_ready(1);
}

#[test]
fn no_gate_configured_is_no_gate() {
    let play = Play::new(&Script::default());
    play.tick().report();
    play.is_ready(1);
    assert_eq!(
        play.world
            .sqlite("SELECT gates FROM runs WHERE run_id = 'r2'"),
        "green"
    );
    assert_eq!(play.count("events WHERE event_type = 'gate_failed'"), 0);
}

/// Outputs of test runners and linters, with the line that names the failure in each.
const SUMMARIES: [(&str, &str); 11] = [
    ("cargo", "tests::adds"),
    ("jest", "sum › adds two numbers; sum › adds negatives"),
    ("vitest", "vi/sum.test.ts > sum > adds two numbers"),
    ("pytest", "tests/test_calc.py::test_add"),
    ("go", "TestAdd; TestTable; TestTable/negative"),
    ("rspec", "Calc adds two numbers (spec/calc_spec.rb:4)"),
    ("phpunit", "CalcTest::testAdd"),
    ("gradle", "CalcTest > addsTwoNumbers()"),
    (
        "eslint",
        "/src/site/lint/index.js:1:7: 'a' is assigned a value but never used; /src/site/lint/index.js:2:5: 'b' is not defined; /src/site/lint/index.js:2:15: 'console' is not defined and 1 more",
    ),
    (
        "npm_ci",
        "EUSAGE: `npm ci` can only install packages when your package.json and package-lock.json or npm-shrinkwrap.json are in sync. Please update your lock file with `n…",
    ),
    (
        "tsc",
        "ts/a.ts:1:7: Type 'string' is not assignable to type 'number'.; ts/a.ts:2:35: Property 'lenght' does not exist on type 'string'. Did you mean 'length'?",
    ),
];

#[test]
fn the_summary_of_a_red_gate_names_what_failed() {
    let names: Vec<&str> = SUMMARIES.iter().map(|(name, _)| *name).collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/gates");
    let gate = format!(
        "n=$(grep -c fixed work.txt)\nset -- {}\nshift $((n - 1))\ncat '{folder}'/$1.txt\nexit 1\n",
        names.join(" ")
    );
    let play = gated(&gate, FIXES_MORE, "[loop]\nmax_gate_rounds = 10\n");
    play.tick().report();
    play.is_escalated("the gates failed");
    let summaries = play
        .world
        .sqlite("SELECT summary FROM events WHERE event_type = 'gate_failed' ORDER BY id");
    let gate = play.world.root().join("bin/gate");
    let expected = SUMMARIES.map(|(_, line)| format!("gate failed: {}: {line}", gate.display()));
    assert_eq!(summaries.lines().collect::<Vec<_>>(), expected);
    // The last one is reported to a person.
    assert!(play.answer().contains(SUMMARIES[10].1), "{}", play.answer());
}
