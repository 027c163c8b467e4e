//! Files that `remand prune` removes outside of the blackboard: only those that certainly belong to
//! the deleted changes, and only after them.

use std::fs;

use super::prune::{OLD, age, folders, is_gone, prune, with_past};
use crate::support::play::{Play, Script};

/// Creates a change whose fixer left work and failed, closed long ago; and the ref that keeps the
/// work.
fn with_kept_work() -> (Play, String) {
    let play = Play::new(&Script {
        fixer: "cat >/dev/null\necho half >>work.txt\nexit 1\n",
        ..Script::default()
    });
    play.tick().report();
    play.is_escalated("");
    play.world.remand(&["cancel", "c1"]).ok();
    age(&play.world, "'c1'");
    let kept = wip(&play);
    assert_eq!(kept.lines().count(), 1, "{kept}");
    (play, kept.trim().to_owned())
}

fn wip(play: &Play) -> String {
    play.world.git(
        &play.repo,
        &["for-each-ref", "--format=%(refname)", "refs/remand/wip/"],
    )
}

fn told(play: &Play, more: &[&str]) -> serde_json::Value {
    let args: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
    serde_json::from_str(&prune(play, &args).ok().stdout).unwrap()
}

#[test]
fn kept_work_stays_unless_it_is_asked_for() {
    let (play, _) = with_kept_work();
    let said = prune(&play, &["--dry-run"]).ok().stdout;
    assert!(
        said.contains("1 wip refs kept (--refs deletes them)"),
        "{said}"
    );
    let said = prune(&play, &["--dry-run", "--refs"]).ok().stdout;
    assert!(
        said.contains("would be pruned, with") && said.contains("1 wip refs deleted"),
        "{said}"
    );
    let said = told(&play, &["--dry-run", "--refs"]);
    assert_eq!(
        (&said["wip_refs"], &said["wip_refs_removed"]),
        (&1.into(), &0.into()),
        "{said}"
    );
    assert_ne!(wip(&play), "");
    let said = prune(&play, &["--refs"]).ok().stdout;
    assert!(said.contains("1 wip refs deleted"), "{said}");
    assert_eq!(wip(&play), "");
    assert_eq!(play.count("sweeps"), 0);
    is_gone(&play, "c1");
}

#[test]
fn kept_work_of_a_change_that_can_not_go_stays_too() {
    let (play, kept) = with_kept_work();
    play.world
        .sqlite("CREATE TABLE mine (change_id TEXT REFERENCES changes (change_id)); INSERT INTO mine VALUES ('c1')");
    let said = told(&play, &["--refs"]);
    assert_eq!(said["kept"][0]["change_id"], "c1", "{said}");
    assert_eq!(
        (&said["wip_refs"], &said["wip_refs_removed"]),
        (&0.into(), &0.into()),
        "{said}"
    );
    assert_eq!(wip(&play).trim(), kept);
    assert_eq!(play.count("sweeps"), 0);
    // Killed after the rows, the saved work still has to be removed.
    play.world.sqlite("DROP TABLE mine");
    let mut command = play
        .world
        .remand_command(&["prune", "--older-than", "90d", "--refs"]);
    assert_eq!(
        command
            .env("REMAND_CRASH_AT", "commit.prune.after")
            .output()
            .unwrap()
            .status
            .code(),
        None
    );
    assert_eq!(wip(&play).trim(), kept);
    let said = told(&play, &[]);
    assert_eq!(said["wip_refs_removed"], 1, "{said}");
    assert_eq!(wip(&play), "");
    is_gone(&play, "c1");
}

/// Every blackboard counts its runs from r1.
#[test]
fn kept_work_of_another_blackboard_stays() {
    let (play, kept) = with_kept_work();
    let git = |args: &[&str]| play.world.git(&play.repo, args).trim().to_owned();
    let (ours, tree) = (
        git(&["rev-parse", &kept]),
        git(&["rev-parse", "feature^{tree}"]),
    );
    let message = "Left in the worktree by run r2";
    let theirs = git(&["commit-tree", "-m", message, "-p", "feature", &tree]);
    git(&["update-ref", &kept, &theirs]);
    let said = told(&play, &["--refs", "--dry-run"]);
    assert_eq!(said["left"][0]["path"], kept.as_str(), "{said}");
    // Another one's work was added later, and includes this one's: both stay.
    let both = git(&[
        "commit-tree",
        "-m",
        message,
        "-p",
        &ours,
        "-p",
        &theirs,
        &tree,
    ]);
    git(&["update-ref", &kept, &both]);
    let said = told(&play, &["--refs"]);
    assert_eq!(
        (&said["wip_refs"], &said["wip_refs_removed"]),
        (&1.into(), &0.into()),
        "{said}"
    );
    assert_eq!(
        said["left"][0]["reason"], "there is no record that all of it belongs to c1",
        "{said}"
    );
    assert_eq!(git(&["rev-parse", &kept]), both);
    is_gone(&play, "c1");
}

#[test]
fn a_ref_that_can_not_be_removed_is_told_and_tried_again() {
    let (play, kept) = with_kept_work();
    // Git cannot write the lock that it needs to change a ref.
    let lock = play.repo.join(".git").join(format!("{kept}.lock"));
    fs::create_dir_all(&lock).unwrap();
    let said = told(&play, &["--refs"]);
    assert_eq!(said["left"][0]["path"], kept.as_str(), "{said}");
    assert_eq!(said["wip_refs_removed"], 0, "{said}");
    assert_eq!(said["pruned"][0]["change_id"], "c1", "{said}");
    is_gone_but_for(&play, "ref");
    fs::remove_dir(&lock).unwrap();
    assert_eq!(told(&play, &[])["wip_refs_removed"], 1);
    assert_eq!(wip(&play), "");
    is_gone(&play, "c1");
}

fn is_gone_but_for(play: &Play, kind: &str) {
    assert_eq!(play.count("changes"), 0);
    assert_eq!(play.world.sqlite("SELECT kind FROM sweeps"), kind);
}

#[test]
fn a_row_can_not_have_anything_removed_but_the_folder_of_its_run() {
    let play = with_past(&["live"]);
    let state = play.world.db().parent().unwrap().to_owned();
    let runs: Vec<String> = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE change_id = 'c1'")
        .lines()
        .map(str::to_owned)
        .collect();
    let alive = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE change_id = 'c2' LIMIT 1");
    let set = |run: &str, dir: &str| {
        play.world.sqlite(&format!(
            "UPDATE runs SET dir = '{dir}' WHERE run_id = '{run}'"
        ))
    };
    set(&runs[0], &state.join("runs/..").display().to_string());
    set(
        &runs[1],
        &state.join(format!("runs/{alive}")).display().to_string(),
    );
    fs::write(state.join("precious"), "mine").unwrap();
    let before = folders(&play);
    let said = told(&play, &[]);
    assert_eq!(said["left"].as_array().unwrap().len(), 2, "{said}");
    assert_eq!(said["folders"], 1, "{said}");
    assert!(state.join("precious").exists() && play.world.db().exists());
    assert_eq!(
        folders(&play),
        before
            .into_iter()
            .filter(|run| *run != runs[2])
            .collect::<Vec<_>>()
    );
    assert_eq!(
        play.count("sweeps"),
        0,
        "they are not what their rows said, whoever looks"
    );
    is_gone(&play, "c1");
}

#[test]
fn a_folder_elsewhere_is_told_until_it_is_gone() {
    let play = with_past(&[]);
    let run = play
        .world
        .sqlite("SELECT run_id FROM runs WHERE change_id = 'c1' LIMIT 1");
    let here = play.world.root().join("state/remand/runs").join(&run);
    let elsewhere = play.world.root().join("elsewhere").join(&run);
    fs::create_dir_all(&elsewhere).unwrap();
    play.world.sqlite(&format!(
        "UPDATE runs SET dir = '{}' WHERE run_id = '{run}'",
        elsewhere.display()
    ));
    for _ in 0..2 {
        let said = told(&play, &[]);
        assert_eq!(
            said["left"][0]["path"],
            elsewhere.to_str().unwrap(),
            "{said}"
        );
        assert!(
            said["left"][0]["reason"]
                .as_str()
                .unwrap()
                .starts_with("it is not in "),
            "{said}"
        );
        assert!(elsewhere.exists());
    }
    // As after everything was moved from there to here.
    fs::remove_dir(&elsewhere).unwrap();
    let said = told(&play, &[]);
    let reason = format!(
        "it was moved, perhaps to {}: delete it yourself",
        here.display()
    );
    assert_eq!(said["left"][0]["reason"], reason.as_str(), "{said}");
    fs::remove_dir_all(&here).unwrap();
    assert_eq!(told(&play, &[])["left"], serde_json::json!([]));
    assert_eq!(play.count("sweeps"), 0);
    is_gone(&play, "c1");
}

#[test]
fn prompts_of_shadow_and_proposals_go_with_their_items() {
    let play = with_past(&[]);
    let shadow = play.world.root().join("state/remand/shadow");
    fs::create_dir_all(&shadow).unwrap();
    let items: Vec<String> = play
        .world
        .sqlite("SELECT item_id FROM work_items LIMIT 2")
        .lines()
        .map(str::to_owned)
        .collect();
    let prompt = shadow.join(format!("{}.md", items[0]));
    let other = shadow.join("another.md");
    for (item, path) in [(&items[0], &prompt), (&items[1], &other)] {
        fs::write(path, "Fix it.").unwrap();
        play.world.sqlite(&format!(
            "INSERT INTO shadows (item_id, change_id, worktree, prompt, prompt_bytes, basis, made_at)
             VALUES ('{item}', 'c1', '/w', '{}', 7, 'nothing', '{OLD}')",
            path.display()
        ));
    }
    play.world.sqlite(&format!(
        "UPDATE work_items SET idempotency_key = 'nightly:its item', metadata = json_set(metadata, '$.evaluator', 'nightly')
             WHERE item_id = '{}';
         INSERT INTO proposals (evaluator, key, outcome, made_at) VALUES
             ('nightly', 'its item', 'done', '{OLD}'),
             ('nightly', 'only told', 'there is no change c9', '{OLD}'),
             ('nightly', 'told lately', 'there is no change c9', '2999-01-01T00:00:00.000Z'),
             ('nightly', 'a comment', 'done', '{OLD}')",
        items[0]
    ));
    let asked = told(&play, &["--dry-run"]);
    assert_eq!(play.count("proposals"), 4);
    let said = told(&play, &[]);
    assert_eq!(
        (&asked["prompts"], &said["prompts"]),
        (&1.into(), &1.into()),
        "{asked} {said}"
    );
    assert!(!prompt.exists());
    assert!(other.exists(), "only what has the name of its item");
    assert_eq!(
        play.world.sqlite("SELECT key FROM proposals ORDER BY key"),
        "a comment\ntold lately"
    );
    is_gone(&play, "c1");
}
