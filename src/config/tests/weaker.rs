//! Changed settings that drop a safeguard.

use super::Home;
use crate::config::weaker;

fn dropped(old: &str, new: &str) -> Vec<String> {
    let home = Home::new();
    let (old, new) = (home.load_text(old), home.load_text(new));
    weaker(&old, &new, &["calc".to_owned(), "web".to_owned()])
        .iter()
        .map(|one| home.show(&one.to_string()))
        .collect()
}

const OLD: &str = r#"
gates = [["test"], ["lint"]]
[push]
forbidden = ["*.pem", "keys/**"]
[sandbox]
kind = "auto"
[projects.calc]
gates = [["own"]]
"#;

#[test]
fn what_adds_or_keeps_a_safeguard_drops_none() {
    for (from, to) in [
        ("", ""),
        (r#"["lint"]"#, r#"["lint"], ["make", "check"]"#),
        (r#""keys/**""#, r#""keys/**", "secret""#),
        (r#""auto""#, r#""bubblewrap""#),
        (r#"[["own"]]"#, "[[\"own\"]]\nmax_fix_cycles = 5"),
        (
            "[projects.calc]",
            "[projects.web]\nsetup = [\"make\"]\n[projects.calc]",
        ),
    ] {
        assert!(OLD.contains(from));
        assert_eq!(
            dropped(OLD, &OLD.replacen(from, to, 1)),
            Vec::<String>::new(),
            "{from} → {to}"
        );
    }
    assert_eq!(dropped("", ""), Vec::<String>::new());
    assert_eq!(
        dropped(
            "[sandbox]\nkind = \"bubblewrap\"\n",
            "[sandbox]\nkind = \"wrapper\"\nwrapper = [\"x\"]\n"
        )
        .len(),
        0
    );
}

#[test]
fn each_safeguard_that_is_dropped_is_named_once() {
    for (from, to, expected) in [
        (r#", ["lint"]"#, "", &["the gate `lint` was removed"][..]),
        (
            r#"["lint"]"#,
            r#"["lint", "--fast"]"#,
            &["the gate `lint` was removed"],
        ),
        (
            r#", "keys/**""#,
            "",
            &["the forbidden path `keys/**` was removed"],
        ),
        (
            r#""keys/**"]"#,
            "\"keys/**\"]\nsecrets = false",
            &["secret scanning is off"],
        ),
        (
            "[push]",
            "gate_in = \"worktree\"\n[push]",
            &["gates run in the agent's worktree instead of a checkout of the commit (gate_in)"],
        ),
        (
            r#""auto""#,
            r#""off""#,
            &["agents are no longer confined (sandbox.kind)"],
        ),
        (
            r#"[["own"]]"#,
            "[]",
            &["the gate `own` of calc was removed"],
        ),
        (
            "[projects.calc]",
            "[projects.web]\ngates = []\n[projects.calc]",
            &[
                "the gate `test` of web was removed",
                "the gate `lint` of web was removed",
            ],
        ),
    ] {
        assert!(OLD.contains(from));
        assert_eq!(
            dropped(OLD, &OLD.replacen(from, to, 1)),
            expected,
            "{from} → {to}"
        );
    }
    assert_eq!(
        dropped(
            "[sandbox]\nkind = \"bubblewrap\"\n",
            "[sandbox]\nkind = \"auto\"\n"
        )
        .len(),
        1,
        "\"auto\" may find no sandbox"
    );
    for empty in ["", "\n \n", "# everything is commented out\n"] {
        assert_eq!(
            dropped("[loop]\nmax_fix_cycles = 1\n", empty),
            ["config.toml is empty"],
            "{empty:?}"
        );
    }
}
