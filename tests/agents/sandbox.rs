//! Agents and gates inside the sandbox: the loop works, and tokens in the home directory are not
//! readable.

use std::fs;
use std::process::Command;

use super::secrets::as_nobody;
use crate::support::play::{Play, Script};
use crate::support::{run, skip};

const BUBBLEWRAP: &str = "[sandbox]\nkind = \"bubblewrap\"\nwrite = [\"~/.agent\", \"PROMPTS\"]\nread = [\"~/.gitconfig\"]\n[limits]\ngrace_s = 5\n";

const CANARY: &str = "canary-of-the-home";

/// Tries forbidden actions, and records the results.
const TRIES: &str = r#"
tries() {
    seen="$PROMPTS/$REMAND_PHASE"
    home='HOME'
    root="$home/.."
    for file in "$home/.ssh/id" "$home/.config/gh/hosts.yml" "$root/state/remand/blackboard.db" "$root/config/remand/config.toml" "$root/src/secret"; do
        cat "$file" >>"$seen.read" 2>/dev/null
    done
    grep -rl 'canary'-of "$root" /proc/[0-9]*/environ 2>/dev/null | grep -v "^$PROMPTS" | grep -v "^$PWD" >>"$seen.read"
    for place in "$home" "$root/src" "$root/state/remand" "$root/bin" /etc /usr/bin; do
        echo planted >"$place/planted" 2>/dev/null
    done
    echo mine >>"$home/.agent/state"
    echo "$HOME" >"$seen.tried"
}
"#;

const REVIEWER: &str = r#"
tries
if grep -q fixed work.txt; then says approved fine; else says changes_requested no "$(finding work.txt 1 'say fixed')"; fi
"#;

const FIXER: &str = r#"
cat >/dev/null
tries
echo part >part.txt
git add part.txt
git commit -q -m "a part of it" || exit 1
echo fixed >>work.txt
"#;

/// Creates a loop whose agents are confined; `None` if bubblewrap does not work here.
fn confined(name: &str, script: &Script<'_>) -> Option<Play> {
    let trial = Command::new("bwrap")
        .args([
            "--unshare-pid",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "true",
        ])
        .output();
    if !trial.is_ok_and(|output| output.status.success()) {
        skip(
            name,
            "bubblewrap (bwrap) is not installed, or does not work here",
        );
        return None;
    }
    let play = Play::new(&Script {
        tables: &format!("{BUBBLEWRAP}{}", script.tables),
        ..*script
    });
    set(&play, "PROMPTS", play.seen("").to_str().unwrap());
    fs::create_dir(play.world.root().join("home/.agent")).unwrap();
    Some(play)
}

/// Replaces a word in the configuration.
fn set(play: &Play, word: &str, by: &str) {
    let file = play.world.root().join("config/remand/config.toml");
    let config = fs::read_to_string(&file).unwrap();
    assert!(config.contains(word), "{config}");
    fs::write(file, config.replace(word, by)).unwrap();
}

#[test]
fn the_loop_works_and_no_agent_reads_the_tokens_of_the_home() {
    let tries = TRIES.to_owned();
    let script = Script {
        reviewer: &format!("{tries}{REVIEWER}"),
        fixer: &format!("{tries}{FIXER}"),
        settings: "gates = [[\"gate\"]]",
        ..Script::default()
    };
    let Some(play) = confined(
        "the_loop_works_and_no_agent_reads_the_tokens_of_the_home",
        &script,
    ) else {
        return;
    };
    let root = play.world.root();
    let home = root.join("home");
    let at_home = |text: &str| text.replace("HOME'", &format!("{}'", home.display()));
    let prompts = format!("PROMPTS='{}'\n", play.seen("").display());
    play.reviewer(&at_home(&format!("{tries}{REVIEWER}")));
    play.fixer(&at_home(&format!("{tries}{FIXER}")));
    play.world.script(
        "gate",
        &at_home(&format!("{prompts}{tries}tries\ntest -s part.txt\n")),
    );
    for secret in ["home/.ssh/id", "home/.config/gh/hosts.yml", "src/secret"] {
        fs::create_dir_all(root.join(secret).parent().unwrap()).unwrap();
        fs::write(root.join(secret), CANARY).unwrap();
    }
    let Some(mut tick) = as_nobody(&play) else {
        return;
    };
    tick.env("GH_TOKEN", CANARY);
    run(tick.arg("tick")).report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    for phase in ["review", "fix", "gate"] {
        assert_eq!(
            play.noted(&format!("{phase}.tried")).trim(),
            home.to_str().unwrap(),
            "{phase} tried nothing"
        );
        assert_eq!(
            play.noted(&format!("{phase}.read")),
            "",
            "{phase} read what it must not"
        );
    }
    for place in ["home", "src", "state/remand", "bin"] {
        assert!(!root.join(place).join("planted").exists(), "{place}");
    }
    let state = fs::read_to_string(home.join(".agent/state")).unwrap();
    assert!(
        state.lines().count() >= 4,
        "its own state is its own: {state}"
    );
    assert_eq!(
        play.sh(
            &play.worktree,
            "git -c safe.directory='*' log --format=%s main.."
        )
        .lines()
        .count(),
        3
    );
}

/// A gate runs code that an agent wrote: it must not reach the repository that is used with
/// credentials, nor the files that verify its checkout. Its own git works.
#[test]
fn a_confined_gate_can_read_its_history_and_write_no_repository_of_remand() {
    let script = Script {
        settings: "gates = [[\"gate\"]]",
        ..Script::default()
    };
    let name = "a_confined_gate_can_read_its_history_and_write_no_repository_of_remand";
    let Some(play) = confined(name, &script) else {
        return;
    };
    let gate = r#"
git log --format=%s >"$PROMPTS/log" && git status --porcelain >"$PROMPTS/status" && git cat-file -e HEAD^{tree} || exit 1
objects=$(cat .git/objects/info/alternates)
for place in "$objects" "$objects/.." "$objects/info" "$PWD/.." "$PWD/../git" "$PWD/../.."; do
    echo planted >"$place/planted" 2>/dev/null && echo "$place" >>"$PROMPTS/planted"
done
chmod -R u+w "$objects" 2>/dev/null; rm -rf "$objects"/* 2>/dev/null
git commit -q --allow-empty -m Mine && git gc -q --prune=now 2>/dev/null
exit 0
"#;
    play.world.script(
        "gate",
        &format!("PROMPTS='{}'\n{gate}", play.seen("").display()),
    );
    let Some(mut tick) = as_nobody(&play) else {
        return;
    };
    run(tick.arg("tick")).report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(
        play.noted("log").lines().next(),
        Some("Address review feedback (cycle 1)")
    );
    assert_eq!(play.noted("status"), "");
    let state = play.world.root().join("state/remand");
    for place in [
        "repos/calc.git/objects",
        "repos/calc.git",
        "repos/calc.git/objects/info",
        "gates/calc/0",
        "gates/calc/0/git",
        "gates/calc",
    ] {
        assert!(
            !state.join(place).join("planted").exists(),
            "{place}: {}",
            play.noted("planted")
        );
    }
    let whole = format!(
        "git -c safe.directory='*' -C {} fsck --full --strict",
        state.join("repos/calc.git").display()
    );
    play.sh(play.world.root(), &whole);
}

#[test]
fn without_the_sandbox_that_is_asked_for_nothing_runs_and_with_auto_it_is_said_plainly() {
    let play = Play::new(&Script {
        tables: "[sandbox]\nkind = \"bubblewrap\"\n",
        ..Script::default()
    });
    play.world.script(
        "bwrap",
        "echo 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n",
    );
    play.tick();
    play.is_held("refusing to run without a sandbox: bubblewrap does not work here: bwrap: setting up uid map");
    assert_eq!(play.count("runs WHERE ended <> 'not_started'"), 0);
    set(&play, "\"bubblewrap\"", "\"auto\"");
    play.world.remand(&["resume", "c1"]).ok();
    let told = play.tick();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let plainly = "agents can read everything that you can read";
    assert!(
        told.stderr.contains(plainly) && told.stderr.contains("Permission denied"),
        "{}",
        told.stderr
    );
}

#[test]
fn a_wrapper_of_the_user_s_own_is_put_before_agents_gates_and_git() {
    let play = Play::new(&Script {
        settings: "gates = [[\"test\", \"-s\", \"work.txt\"]]",
        tables: "[sandbox]\nkind = \"off\"\n",
        ..Script::default()
    });
    set(
        &play,
        "kind = \"off\"",
        "kind = \"wrapper\"\nwrapper = [\"jail\", \"--strict\"]",
    );
    let noted = play.seen("jailed");
    let jail = format!(
        "[ \"$1\" = --strict ] || exit 9\nshift\n[ -d \"$REMAND_WORKTREE\" ] && [ -d \"$REMAND_REPOSITORY/objects\" ] || exit 9\necho \"$REMAND_PHASE $(basename \"$1\")\" >>'{}'\nexec \"$@\"\n",
        noted.display()
    );
    play.world.script("jail", &jail);
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    let noted = play.noted("jailed");
    for line in ["review reviewer", "fix fixer", "gate test", "git git"] {
        assert!(noted.lines().any(|found| found == line), "{noted}");
    }
}

#[test]
fn inside_it_an_agent_has_its_grace_and_leaves_nobody_behind() {
    let fixer = "cat >/dev/null\ntrap 'echo told >>\"$PROMPTS/told\"; sleep 0.5; echo done >>\"$PROMPTS/told\"; exit 0' TERM\nsetsid sleep 300 &\necho began >\"$PROMPTS/began\"\nwhile :; do sleep 0.05; done\n";
    let script = Script {
        fixer,
        tables: "[dispatch]\nstop_grace_s = 0\n",
        ..Script::default()
    };
    let Some(play) = confined(
        "inside_it_an_agent_has_its_grace_and_leaves_nobody_behind",
        &script,
    ) else {
        return;
    };
    let daemon = play.daemon();
    play.until("the agent is at work", || play.seen("began").exists());
    assert!(daemon.stop().success());
    assert_eq!(play.noted("told"), "told\ndone\n", "{}", play.log());
    assert_eq!(play.alive(), [] as [String; 0]);
    fs::remove_file(play.seen("began")).unwrap();
    let daemon = play.daemon();
    play.until("the agent is at work", || play.seen("began").exists());
    daemon.kill();
    play.until("all are gone", || play.alive().is_empty());
}

#[test]
fn an_agent_that_is_killed_inside_it_is_lost_and_runs_again() {
    let fixer = "cat >/dev/null\necho >>\"$PROMPTS/runs\"\n[ \"$(wc -l <\"$PROMPTS/runs\")\" -gt 1 ] || kill -KILL $$\necho fixed >>work.txt\n";
    let Some(play) = confined(
        "an_agent_that_is_killed_inside_it_is_lost_and_runs_again",
        &Script {
            fixer,
            ..Script::default()
        },
    ) else {
        return;
    };
    play.tick().report();
    assert_eq!(
        play.state(),
        "ready_for_human_review",
        "{:#?}",
        play.events()
    );
    assert_eq!(play.count("events WHERE event_type = 'run_lost'"), 1);
}

#[test]
fn a_program_that_is_not_there_is_said_as_without_it() {
    let script = Script {
        settings: "gates = [[\"no-such-gate\"]]",
        ..Script::default()
    };
    let Some(play) = confined("a_program_that_is_not_there_is_said_as_without_it", &script) else {
        return;
    };
    play.tick();
    play.is_held("the gate `no-such-gate` cannot be started");
}
