//! A task from `add` to its merge with the real `gh`, which talks to the fake GitHub as a server.

use std::path::PathBuf;

use serde_json::json;

use crate::support::forge::Review;
use crate::support::play::{REVIEWS_FIXED, Script};
use crate::support::pull_play::PullPlay;
use crate::support::{Output, run, skip, tool};

/// Implements without what the reviewer asks for, and fixes it then.
const WORKS: &str = r#"
cat >/dev/null
if [ "$REMAND_PHASE" = implement ]; then echo begun >work.txt; else echo "fixed $REMAND_ITEM" >>work.txt; fi
echo done
"#;

fn installed() -> Vec<PathBuf> {
    let upstream = tool("gh/bin/gh");
    if upstream.is_none() {
        skip(
            "a_task_by_the_real_gh",
            "gh 2.102 is not there: see tests/run",
        );
    }
    let system = Some(PathBuf::from("/usr/bin/gh")).filter(|path| path.exists());
    upstream.into_iter().chain(system).collect()
}

/// S0-1…3, S0-52…62, S0-91, S0-112, S0-114, FR-1, FR-6: an issue becomes a task; its review rejects it; the fix passes,
/// and the pull request closes the issue; a person there requests a change, approves it and merges it.
#[test]
fn a_task_by_the_real_gh() {
    for gh in installed() {
        let stage = PullPlay::unwatched(&Script {
            reviewer: REVIEWS_FIXED,
            fixer: WORKS,
            settings: "gates = [[\"sh\", \"-c\", \"! grep -q bad *.*\"]]\nred_base = \"hold\"\n",
            ..Script::default()
        });
        let (play, forge) = (&stage.play, &stage.forge);
        let file = play.world.root().join("config/remand/config.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        let ours = json!(forge.gh_argv()).to_string();
        assert!(config.contains(&ours), "{config}");
        play.world
            .config(&config.replace(&ours, &json!([gh]).to_string()));
        let server = forge.serve();
        let remand = |args: &[&str]| -> Output {
            let mut command = play.world.remand_command(args);
            run(command.current_dir(&play.repo).envs(server.real_gh_env()))
        };
        let tick = || {
            stage.due();
            remand(&["tick"]).report();
        };
        let issue = forge.open_issue("mallory", "No work file", "There should be one.");
        remand(&[
            "add",
            "Add a work file",
            "-a",
            "--issue",
            &issue.to_string(),
        ])
        .ok();
        tick();
        let told = || play.events().join("\n");
        assert_eq!(play.state(), "ready_for_human_review", "{}", told());
        assert_eq!(play.count("reviews"), 2, "{}", told());
        let opened: Vec<String> = forge
            .writes()
            .into_iter()
            .filter(|one| one.ends_with("/pulls"))
            .collect();
        assert_eq!(opened.len(), 1, "{opened:?}");
        let number = stage.number + 1;
        let body = forge.pull(number)["body"].as_str().unwrap().to_owned();
        let prompt = play.prompt_of_run("r1");
        assert!(prompt.contains("There should be one."), "{prompt}");
        for part in [
            "Address review feedback (cycle 1)",
            "## Checks",
            &format!("Closes #{issue}"),
        ] {
            assert!(body.contains(part), "{part:?} is not in {body}");
        }
        let branch = "remand/add-a-work-file";
        let review = |state, commit: &str| {
            let body = "Say please.";
            forge.review(
                number,
                &Review {
                    by: "bob",
                    state,
                    commit: Some(commit),
                    body,
                    inline: &[],
                },
            );
            tick();
        };
        let head = stage.remote_head(branch);
        review("CHANGES_REQUESTED", &head);
        let fixed = stage.remote_head(branch);
        assert_ne!(fixed, head, "{}", told());
        assert_eq!(play.state(), "ready_for_human_review", "{}", told());
        review("APPROVED", &fixed);
        assert_eq!(play.state(), "approved", "{}", told());
        forge.merge(number, "bob");
        tick();
        assert_eq!(play.state(), "merged", "{}", told());
        play.check();
        assert!(server.stop().success());
    }
}
