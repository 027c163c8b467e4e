//! Completions and the manual.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{World, feed, run, skip};

#[test]
fn bash_completes_remand() {
    let world = World::new();
    let script = world.root().join("remand.bash");
    fs::write(&script, world.remand(&["completions", "bash"]).ok().stdout).unwrap();
    // Does what bash does when TAB is pressed: calls the registered function with the words on the
    // line.
    let lines = r#"
        set -e
        source "$1"
        complete -p remand
        ask() {
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _remand remand "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" || true
            echo "${COMPREPLY[*]}"
        }
        ask remand ev
        ask remand events --fol
        ask remand completions ''
        ask remand __
    "#;
    let mut bash = world.command("bash");
    bash.args(["--norc", "-c", lines, "bash"]).arg(&script);
    let said = run(&mut bash).ok().stdout;
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(said.len(), 5, "{said:?}");
    assert!(
        said[0].contains(" -F _remand ") && said[0].ends_with(" remand"),
        "{}",
        said[0]
    );
    assert_eq!(said[1], "events evaluators");
    assert_eq!(said[2], "--follow");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(
            said[3].split(' ').any(|word| word == shell),
            "{shell}: {}",
            said[3]
        );
    }
    assert_eq!(said[4], "", "what is hidden stays hidden");
}

#[test]
fn every_shell_has_a_script_that_names_the_commands() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.remand(&["completions", shell]).ok().stdout;
        for word in ["remand", "read-review", "follow"] {
            assert!(script.contains(word), "{shell} does not know {word}");
        }
        assert!(
            !script.contains("__shim") && !script.contains("__gh"),
            "{shell}"
        );
        // If the shell is installed, it checks the syntax itself.
        for (program, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
            if program == shell && which(program) {
                let mut command = world.command(program);
                command.arg(check).arg("/dev/stdin");
                feed(command, &script).ok();
            }
        }
    }
    world
        .remand(&["completions", "tcsh"])
        .fails(2, "[possible values: bash, elvish, fish, powershell, zsh]");
    assert_eq!(world.json(&["completions", "fish"])["shell"], "fish");
    assert!(!world.db().exists(), "nothing is made");
}

#[test]
fn the_manual_has_a_page_for_every_command() {
    let world = World::new();
    let dir = world.root().join("man1");
    let said = world.json(&["man", "--dir", dir.to_str().unwrap()]);
    let files: Vec<&str> = said["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file.as_str().unwrap())
        .collect();
    for wanted in [
        "remand.1",
        "remand-status.1",
        "remand-item.1",
        "remand-item-add.1",
        "remand-read-review.1",
    ] {
        assert!(files.contains(&wanted), "{wanted} is not in {files:?}");
    }
    let mut there: Vec<String> = fs::read_dir(&dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    there.sort();
    assert_eq!(there, files, "what it says is what is there");
    assert!(!files.iter().any(|file| file.contains("__")), "{files:?}");
    for path in [dir.clone(), dir.join("remand.1")] {
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(
            mode & 0o044,
            0o044,
            "everybody may read {}: {mode:o}",
            path.display()
        );
    }
    let one = world.remand(&["man", "item", "add"]).ok().stdout;
    assert_eq!(
        one,
        fs::read_to_string(dir.join("remand-item-add.1")).unwrap()
    );
    assert_eq!(
        world.remand(&["man"]).ok().stdout,
        fs::read_to_string(dir.join("remand.1")).unwrap()
    );
    assert!(!world.db().exists(), "nothing is made");
}

#[test]
fn the_manual_is_read_without_warnings() {
    let world = World::new();
    let dir = world.root().join("man1");
    world.remand(&["man", "--dir", dir.to_str().unwrap()]).ok();
    let Some(program) = ["groff", "mandoc"]
        .into_iter()
        .find(|program| which(program))
    else {
        return skip(
            "the_manual_is_read_without_warnings",
            "neither groff nor mandoc is installed",
        );
    };
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let mut command = world.command(program);
        match program {
            "groff" => command
                .args(["-man", "-Tutf8", "-ww", "-rLL=100n", "-P-cbou"])
                .arg(&path),
            // Dates and sections are omitted on purpose; everything else counts.
            _ => command.args(["-Tlint", "-Wwarning"]).arg(&path),
        };
        let read = run(&mut command);
        assert_eq!(read.stderr, "", "{}", path.display());
        if program == "groff" {
            assert!(
                read.stdout.contains("NAME") && read.stdout.contains("SYNOPSIS"),
                "{}",
                read.stdout
            );
        }
    }
}

#[test]
fn a_page_that_is_not_there_is_a_usage_error() {
    let world = World::new();
    world
        .remand(&["man", "statuss"])
        .fails(2, "did you mean `status`?");
    world
        .remand(&["man", "__shim"])
        .fails(2, "no such command: `remand __shim`");
    world
        .remand(&["man", "status", "--dir", "x"])
        .fails(2, "cannot be used with");
    world
        .remand(&["man", "--dir", "no/such/folder"])
        .fails(1, "cannot create directory no/such/folder");
}

fn which(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}
