//! Progress of claude while it works, with durations.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::json;

use super::stage::{Stage, claude, fixes, is_review, reviews, uses};
use crate::support::model::Model;

#[test]
fn what_it_is_doing_is_seen_while_it_does_it() {
    let Some(claude) = claude("what_it_is_doing_is_seen_while_it_does_it") else {
        return;
    };
    let go = tempfile::tempdir().unwrap();
    let file = go.path().join("go").display().to_string();
    let wait = format!("until [ -e {file} ]; do sleep 0.1; done");
    let command = wait.clone();
    let model = Model::new(move |asked| match asked.results.as_slice() {
        _ if is_review(asked) => reviews(asked),
        [] => uses("Bash", json!({ "command": command, "description": "Wait" })),
        [_, rest @ ..] => fixes(&crate::support::model::Asked {
            results: rest.to_vec(),
            ..asked.clone()
        }),
    });
    let stage = Stage::new(&claude, &model.url, "allow = [\"Bash\"]", "");
    let play = &stage.play;
    let daemon = stage.daemon();
    let doing = || {
        let status = play.world.json(&["status", "c1"]);
        status["doing"]["what"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    play.until("it waits", || doing().starts_with("Bash until"));
    assert_eq!(doing(), format!("Bash {wait}"));
    let status = play.world.json(&["status", "c1"]);
    let (since, started) = (&status["doing"]["since"], &status["last_run"]["started_at"]);
    assert!(since.as_str() > started.as_str(), "{since} {started}");
    let all = play.world.json(&["status"]);
    assert_eq!(all["running"][0]["run_id"], "r2");
    assert_eq!(all["running"][0]["doing"], status["doing"]);
    let said = play.world.remand(&["status", "c1"]).ok().stdout;
    assert!(
        said.contains(&format!("doing: Bash {wait}, for ")),
        "{said}"
    );
    let said = play.world.remand(&["status"]).ok().stdout;
    assert!(
        said.contains(&format!("c1 r2 by claude, doing: Bash {wait}, for ")),
        "{said}"
    );

    let mut follow = play.world.remand_command(&["log", "c1", "-f"]);
    let mut follow = follow
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut silent = String::new();
    BufReader::new(follow.stderr.take().unwrap())
        .read_line(&mut silent)
        .unwrap();
    assert!(
        silent.starts_with(&format!("[Bash {wait}, for ")),
        "{silent}"
    );
    std::fs::write(&file, "").unwrap();
    let followed = std::io::read_to_string(follow.stdout.take().unwrap()).unwrap();
    assert!(follow.wait().unwrap().success());
    for part in [
        "  Bash until",
        "  Edit work.txt",
        "  I wrote `fixed`",
        "  ended after ",
    ] {
        assert!(followed.contains(part), "{part:?} is not in {followed}");
    }
    play.wait_for_state("ready_for_human_review");
    assert!(daemon.stop().success());
    let over = play.world.json(&["status", "c1"]);
    assert_eq!(
        (&over["doing"], &play.world.json(&["status"])["running"]),
        (&json!(null), &json!([]))
    );
}
