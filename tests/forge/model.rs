//! Known and refused requests, through `remand __gh`.

use serde_json::{Value, json};

use crate::support::forge::{Forge, Review};
use crate::support::{Output, World, feed};

/// An environment with a bare repository that has the branches `main` and `feature`, and a forge
/// with a pull request of it.
pub(super) struct Stage {
    pub(super) world: World,
    pub(super) forge: Forge,
    pub(super) work: std::path::PathBuf,
}

impl Stage {
    /// Creates it: the pull request is by `bob`; `ada`, who owns the repository, is logged in.
    pub(super) fn new() -> Self {
        let world = World::new();
        let work = world.repo("engine");
        let bare = world.root().join("engine.git");
        world.git(
            &work,
            &["clone", "-q", "--bare", ".", bare.to_str().unwrap()],
        );
        world.git(&work, &["remote", "add", "origin", bare.to_str().unwrap()]);
        world.git(&work, &["checkout", "-q", "-b", "feature"]);
        world.commit(&work, "work.txt", "one\ntwo\n", "add work.txt");
        world.git(&work, &["push", "-q", "origin", "feature"]);
        let forge = Forge::new(world.root(), "ada/engine", &bare);
        forge.open_pull("feature", "main", "bob");
        Self { world, forge, work }
    }

    pub(super) fn gh(&self, args: &[&str]) -> Output {
        self.gh_with(args, "")
    }

    pub(super) fn gh_with(&self, args: &[&str], stdin: &str) -> Output {
        let argv = self.forge.gh_argv();
        let mut command = self.world.command(&argv[0]);
        command.args(&argv[1..]).args(args);
        feed(command, stdin)
    }

    pub(super) fn get(&self, path: &str) -> Value {
        let output = self.gh(&["api", path]).ok();
        serde_json::from_str(&output.stdout).unwrap()
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Output {
        self.gh_with(
            &["api", "-X", "POST", path, "--input", "-"],
            &body.to_string(),
        )
    }

    /// Creates another branch from `main`, with its own file.
    pub(super) fn branch(&self, name: &str) {
        self.world
            .git(&self.work, &["checkout", "-q", "-b", name, "main"]);
        self.world
            .commit(&self.work, &format!("{name}.txt"), "x\n", name);
        self.world.git(&self.work, &["push", "-q", "origin", name]);
        self.world.git(&self.work, &["checkout", "-q", "feature"]);
    }

    /// Adds a commit to the branch; returns its id.
    pub(super) fn push(&self, text: &str) -> String {
        let sha = self.world.commit(&self.work, "work.txt", text, "more work");
        self.world
            .git(&self.work, &["push", "-q", "-f", "origin", "feature"]);
        sha
    }
}

const PULL: &str = "repos/ada/engine/pulls/1";

#[test]
fn a_pull_request_follows_its_branch_while_it_is_open() {
    let stage = Stage::new();
    let first = stage.get(PULL);
    let pushed = stage.push("one\ntwo\nthree\n");
    let second = stage.get(PULL);
    assert_ne!(first["head"]["sha"], second["head"]["sha"]);
    assert_eq!(second["head"]["sha"], json!(pushed));
    assert!(second["updated_at"].as_str() > first["updated_at"].as_str());
    stage.forge.close(1);
    stage.push("four\n");
    assert_eq!(stage.get(PULL)["head"]["sha"], json!(pushed));
    assert_eq!(stage.get(PULL)["state"], "closed");
    stage.forge.reopen(1);
    let reopened = stage.get(PULL)["head"]["sha"].clone();
    assert_ne!(reopened, json!(pushed));
    stage
        .world
        .git(&stage.work, &["push", "-q", "origin", ":feature"]);
    assert_eq!(
        stage.get(PULL)["head"]["sha"],
        reopened,
        "a deleted branch leaves its pull request as it was"
    );
}

#[test]
fn merged_and_packed() {
    let stage = Stage::new();
    stage.world.git(
        &stage.world.root().join("engine.git"),
        &["pack-refs", "--all"],
    );
    let head = stage.get(PULL)["head"]["sha"].clone();
    stage.forge.merge(1, "ada");
    let pull = stage.get(PULL);
    assert_eq!(
        (
            &pull["merged"],
            &pull["merged_by"]["login"],
            &pull["head"]["sha"]
        ),
        (&json!(true), &json!("ada"), &head)
    );
    let main = stage.world.git(
        &stage.world.root().join("engine.git"),
        &["rev-parse", "main"],
    );
    assert_eq!(pull["merge_commit_sha"], json!(main));
    assert_eq!(stage.get("repos/ada/engine/pulls?state=open"), json!([]));
    assert_eq!(
        stage.get("repos/ada/engine/pulls?state=closed")[0]["number"],
        1
    );
}

#[test]
fn a_review_is_posted_with_its_comments() {
    let stage = Stage::new();
    stage.forge.add_user("carol", "write");
    let body = json!({ "event": "REQUEST_CHANGES", "body": "no", "comments": [{ "path": "work.txt", "line": 2, "body": "here" }] });
    let made: Value =
        serde_json::from_str(&stage.post(&format!("{PULL}/reviews"), &body).ok().stdout).unwrap();
    assert_eq!(
        (&made["state"], &made["user"]["login"]),
        (&json!("CHANGES_REQUESTED"), &json!("ada"))
    );
    let comment = &stage.get(&format!("{PULL}/comments"))[0];
    assert_eq!(comment["pull_request_review_id"], made["id"]);
    assert_eq!(comment["diff_hunk"], "@@ -0,0 +1,2 @@\n+one\n+two");
    let path = format!("{PULL}/comments/{}/replies", comment["id"]);
    let answer: Value =
        serde_json::from_str(&stage.post(&path, &json!({ "body": "done" })).ok().stdout).unwrap();
    assert_eq!(answer["in_reply_to_id"], comment["id"]);
    assert_eq!(stage.forge.comments(1).len(), 2);
    assert_eq!(
        stage.forge.reviews(1).len(),
        2,
        "each answer has a review around it"
    );
    let path = format!("{PULL}/reviews/{}/dismissals", made["id"]);
    let dismissed = stage
        .gh_with(
            &["api", "-X", "PUT", &path, "--input", "-"],
            r#"{"message":"fixed"}"#,
        )
        .ok();
    assert!(
        dismissed.stdout.contains("\"state\":\"DISMISSED\""),
        "{}",
        dismissed.stdout
    );
    assert_eq!(stage.forge.writes().len(), 3);
    assert_eq!(stage.forge.writes_to("/dismissals"), 1);
}

#[test]
fn what_github_refuses_is_refused_in_its_words() {
    let stage = Stage::new();
    let reviews = format!("{PULL}/reviews");
    let inline = |path: &str, line: i64| json!({ "event": "COMMENT", "body": "x", "comments": [{ "path": path, "line": line, "body": "x" }] });
    for (body, reason) in [
        (
            json!({ "event": "COMMENT", "body": "x", "commit_id": "0".repeat(40) }),
            "Commit is not part",
        ),
        (inline("README.md", 1), "Path could not be resolved"),
        (inline("work.txt", 3), "Line could not be resolved"),
        (json!({ "event": "COMMENT" }), "can't be blank"),
    ] {
        let refused = stage.post(&reviews, &body);
        assert_eq!(
            (refused.status, refused.stderr.as_str()),
            (1, "gh: Unprocessable Entity (HTTP 422)\n")
        );
        assert!(refused.stdout.contains(reason), "{}", refused.stdout);
    }
    stage.forge.log_in("bob");
    for (event, reason) in [
        ("APPROVE", "approve"),
        ("REQUEST_CHANGES", "request changes on"),
    ] {
        let refused = stage.post(&reviews, &json!({ "event": event, "body": "x" }));
        assert!(
            refused
                .stdout
                .contains(&format!("Can not {reason} your own pull request")),
            "{}",
            refused.stdout
        );
    }
    stage
        .post(&reviews, &json!({ "event": "COMMENT", "body": "x" }))
        .ok();
    let requested = format!("{PULL}/requested_reviewers");
    for (login, reason) in [("bob", "pull request author"), ("nobody", "collaborators")] {
        let refused = stage.post(&requested, &json!({ "reviewers": [login] }));
        assert!(
            refused.stderr.contains(reason) && refused.stderr.ends_with("(HTTP 422)\n"),
            "{}",
            refused.stderr
        );
    }
    let refused = stage.post(
        "repos/ada/engine/issues/1/comments",
        &json!({ "body": " " }),
    );
    assert!(
        refused.stdout.contains("missing_field"),
        "{}",
        refused.stdout
    );
    stage.forge.log_in("mallory");
    let refused = stage.gh(&["api", "repos/ada/engine/collaborators/bob/permission"]);
    assert_eq!(
        refused.stderr,
        "gh: Must have push access to view collaborator permission. (HTTP 403)\n"
    );
    assert_eq!(stage.forge.writes(), [format!("POST {reviews}")]);
}

#[test]
fn who_answered_is_not_asked_any_longer() {
    let stage = Stage::new();
    stage.forge.log_in("bob");
    stage
        .post(
            &format!("{PULL}/requested_reviewers"),
            &json!({ "reviewers": ["ada"] }),
        )
        .ok();
    assert_eq!(stage.get(PULL)["requested_reviewers"][0]["login"], "ada");
    stage.forge.log_in("ada");
    stage
        .post(&format!("{PULL}/reviews"), &json!({ "event": "APPROVE" }))
        .ok();
    assert_eq!(stage.get(PULL)["requested_reviewers"], json!([]));
}

#[test]
fn what_somebody_may_do() {
    let stage = Stage::new();
    stage.forge.add_user("tess", "triage");
    stage.forge.add_user("max", "maintain");
    stage.forge.add_bot("robin[bot]");
    for (login, permission, role) in [
        ("ada", "admin", "admin"),
        ("max", "write", "maintain"),
        ("tess", "read", "triage"),
        ("mallory", "read", "read"),
    ] {
        let said = stage.get(&format!(
            "repos/ada/engine/collaborators/{login}/permission"
        ));
        assert_eq!(
            (&said["permission"], &said["role_name"]),
            (&json!(permission), &json!(role)),
            "{login}"
        );
    }
    stage.forge.set_permission("mallory", "none");
    assert_eq!(
        stage.get("repos/ada/engine/collaborators/mallory/permission")["permission"],
        "none"
    );
    for (asked, login) in [("nobody", "nobody"), ("robin%5Bbot%5D", "robin[bot]")] {
        let unknown = stage.gh(&[
            "api",
            &format!("repos/ada/engine/collaborators/{asked}/permission"),
        ]);
        assert_eq!(
            unknown.stderr,
            format!("gh: {login} is not a user (HTTP 404)\n")
        );
    }
}

#[test]
fn what_people_do_behind_our_back() {
    let mut stage = Stage::new();
    let inline: &[_] = &[("work.txt", 1, "why?")];
    let review = stage.forge.review(
        1,
        &Review {
            body: "look",
            inline,
            ..Review::default()
        },
    );
    let comment = stage.forge.issue_comment(1, "mallory", "hi");
    let alone = stage
        .forge
        .review_comment(1, "bob", "work.txt", 2, "and here");
    stage.forge.edit_comment(comment, "hello");
    stage.forge.outdate(alone);
    stage.forge.remove_user("mallory");
    stage.forge.label(1, "agent");
    stage.forge.convert_to_draft(1);
    let pull = stage.get(PULL);
    assert_eq!(
        (&pull["draft"], &pull["labels"][0]["name"]),
        (&json!(true), &json!("agent"))
    );
    stage.forge.unlabel(1, "agent");
    stage.forge.mark_ready(1);
    let pull = stage.get(PULL);
    assert_eq!(
        (&pull["draft"], &pull["labels"]),
        (&json!(false), &json!([]))
    );
    assert_eq!(stage.get(&format!("{PULL}/reviews"))[0]["id"], review);
    let comments = stage.get(&format!("{PULL}/comments"));
    assert_eq!(
        (
            &comments[0]["line"],
            &comments[1]["line"],
            &comments[1]["original_line"]
        ),
        (&json!(1), &Value::Null, &json!(2))
    );
    let said = stage.get("repos/ada/engine/issues/1/comments");
    assert_eq!(
        (&said[0]["body"], &said[0]["user"]),
        (&json!("hello"), &Value::Null)
    );
    assert!(said[0]["updated_at"].as_str() > said[0]["created_at"].as_str());
    stage.forge.delete_comment(comment);
    assert_eq!(stage.get("repos/ada/engine/issues/1/comments"), json!([]));
    stage.forge.rename("ada/motor");
    assert_eq!(
        stage.get(PULL)["base"]["repo"]["full_name"],
        "ada/motor",
        "the old name leads to the new one"
    );
}

#[test]
fn the_rate_limit_counts_what_is_news() {
    let stage = Stage::new();
    let remaining = |output: &Output| {
        let line = output
            .stdout
            .lines()
            .find(|line| line.starts_with("X-Ratelimit-Remaining: "))
            .unwrap()
            .to_owned();
        line.split(' ')
            .next_back()
            .unwrap()
            .trim()
            .parse::<i64>()
            .unwrap()
    };
    let first = stage.gh(&["api", "-i", PULL]).ok();
    let etag = first
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("Etag: "))
        .unwrap()
        .trim()
        .to_owned();
    let again = stage.gh(&["api", "-i", PULL, "-H", &format!("If-None-Match: {etag}")]);
    assert_eq!((again.status, again.stderr.as_str()), (1, "gh: HTTP 304\n"));
    assert_eq!(remaining(&again), remaining(&first));
    stage.forge.label(1, "news");
    let news = stage
        .gh(&["api", "-i", PULL, "-H", &format!("If-None-Match: {etag}")])
        .ok();
    assert_eq!(remaining(&news), remaining(&first) - 1);
    stage.forge.set_rate(0, 600);
    let refused = stage.gh(&["api", "-i", PULL]);
    assert!(
        refused.stderr.contains("API rate limit exceeded"),
        "{}",
        refused.stderr
    );
    assert_eq!(remaining(&refused), 0);
}

#[test]
fn what_it_does_not_know_is_an_error_and_is_kept() {
    let stage = Stage::new();
    for args in [
        &["api", "repos/ada/engine/commits"][..],
        &["api", "user", "-f", "a=b"],
        &["api", "--paginate", "repos/ada/engine/pulls"],
        &["api", "repos/ada/engine/pulls?stat=open"],
        &["pr", "list"],
    ] {
        let refused = stage.gh(args);
        assert_eq!(refused.status, 1);
        assert!(
            refused
                .stderr
                .starts_with("remand __gh: the fake GitHub does not support"),
            "{}",
            refused.stderr
        );
    }
    let refused = stage.post(
        &format!("{PULL}/reviews"),
        &json!({ "event": "COMMENT", "boddy": "x" }),
    );
    assert!(
        refused.stderr.contains("unknown field `boddy`"),
        "{}",
        refused.stderr
    );
    assert_eq!(stage.forge.take_misuse().len(), 6);
    assert_eq!(stage.forge.log(), []);
}

#[test]
fn many_write_at_once_and_nothing_is_lost() {
    let stage = Stage::new();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let stage = &stage;
            scope.spawn(move || {
                stage
                    .post(
                        "repos/ada/engine/issues/1/comments",
                        &json!({ "body": n.to_string() }),
                    )
                    .ok()
            });
            scope.spawn(move || stage.forge.issue_comment(1, "bob", "me too"));
        }
    });
    let mut ids: Vec<i64> = stage
        .forge
        .issue_comments(1)
        .iter()
        .map(|made| made["id"].as_i64().unwrap())
        .collect();
    assert_eq!(ids.len(), 16);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 16);
}
