//! Two remands on one pull request, or one that lost its blackboard: neither treats the other as a
//! person.

use std::path::PathBuf;

use crate::support::Output;
use crate::support::play::{NEVER_SATISFIED, Script};
use crate::support::pull_play::{PullPlay, REPO};

/// A second blackboard next to that of the test: the same pull request, with its own clone and
/// worktree.
struct Second<'a> {
    stage: &'a PullPlay,
    db: PathBuf,
}

impl<'a> Second<'a> {
    fn new(stage: &'a PullPlay) -> Self {
        let folder = stage.play.world.root().join("second");
        std::fs::create_dir(&folder).unwrap();
        let second = Self {
            stage,
            db: folder.join("blackboard.db"),
        };
        let (clone, url) = (
            stage.elsewhere.to_str().unwrap(),
            stage.remote.to_str().unwrap(),
        );
        second.remand(&["project", "add", clone, "--repo", REPO, "--url", url]);
        second.remand(&["watch", &format!("{REPO}#{}", stage.number)]);
        second
    }

    #[track_caller]
    fn remand(&self, args: &[&str]) -> String {
        self.output(args).report().stdout
    }

    fn output(&self, args: &[&str]) -> Output {
        let all: Vec<&str> = ["--db", self.db.to_str().unwrap()]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        self.stage.play.world.remand(&all)
    }

    fn open(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(&self.db).unwrap()
    }

    #[track_caller]
    fn tick(&self) {
        self.open()
            .execute(
                "UPDATE pulls SET next_read = '2020-01-01T00:00:00.000Z'",
                [],
            )
            .unwrap();
        self.output(&["tick"]).report();
    }

    fn count(&self, from_where: &str) -> i64 {
        self.open()
            .query_row(&format!("SELECT count(*) FROM {from_where}"), [], |row| {
                row.get(0)
            })
            .unwrap()
    }
}

#[test]
fn two_remands_on_one_pull_request_do_not_take_each_other_for_people() {
    let stage = PullPlay::new(&Script {
        reviewer: NEVER_SATISFIED,
        ..Script::default()
    });
    let play = &stage.play;
    stage.tick();
    play.is_escalated("fix");
    assert_eq!(stage.fixes(), (2, 2));
    // Comments of the first one from before the second started do not count as a person's either,
    // nor do later ones.
    let second = Second::new(&stage);
    for _ in 0..3 {
        second.tick();
        stage.tick();
    }
    let told = || {
        format!(
            "{}\n{}",
            play.events().join("\n"),
            second.remand(&["events"])
        )
    };
    assert_eq!(play.count("rejections WHERE by_person"), 0, "{}", told());
    assert_eq!(second.count("rejections WHERE by_person"), 0, "{}", told());
    assert_eq!(stage.fixes(), (2, 2), "{}", told());
    assert_eq!(
        second.count("events WHERE event_type = 'fix_pushed'"),
        2,
        "{}",
        told()
    );
    for foreign in [
        play.count("feedback WHERE trust = 'may_make_work'"),
        second.count("feedback WHERE trust = 'may_make_work'"),
    ] {
        assert_eq!(foreign, 0, "{}", told());
    }
    assert!(
        second.count("feedback WHERE trust = 'shown_only'") > 3,
        "{}",
        told()
    );
    let posts = stage.forge.writes().len();
    second.tick();
    stage.tick();
    assert_eq!(
        stage.forge.writes().len(),
        posts,
        "it has come to rest: {:?}",
        stage.forge.writes()
    );
    assert_eq!(play.state(), "escalated");
    for told in [
        play.why(),
        play.world.remand(&["show", "c1"]).held().stdout,
        second.output(&["show", "c1"]).held().stdout,
    ] {
        assert!(told.contains("by another remand"), "{told}");
    }

    // A person who quotes one of them is heard.
    let theirs = play
        .world
        .sqlite("SELECT body FROM feedback WHERE trust = 'shown_only' AND kind = 'review' LIMIT 1");
    assert!(theirs.trim_end().ends_with(" -->"), "{theirs}");
    let quoted: String = theirs.lines().map(|line| format!("> {line}\n")).collect();
    stage.review(
        "bob",
        "CHANGES_REQUESTED",
        &format!("I agree, say it better.\n\n{quoted}"),
        &[],
    );
    stage.tick();
    assert_eq!(
        play.count("rejections WHERE by_person"),
        1,
        "{:#?}",
        play.events()
    );
    assert!(stage.fixes().0 > 2, "{:#?}", play.events());
}
