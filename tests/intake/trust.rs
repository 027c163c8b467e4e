//! Authors who may create work.

use serde_json::json;

use super::stage::Stage;
use crate::support::forge::Review;

/// S1: only those who may write according to the forge, and bots that are listed by their number.
#[test]
fn only_those_who_may_write_make_work() {
    let stage = Stage::new();
    let number = stage.watched();
    let forge = &stage.forge;
    for (login, permission) in [
        ("member", "maintain"),
        ("reader", "read"),
        ("triager", "triage"),
        ("nobody", "none"),
        ("github-actions", "read"),
        ("eve[bot]", "read"),
        ("unknown", "write"),
        ("revoked", "write"),
        ("ghostly", "write"),
    ] {
        forge.add_user(login, permission);
    }
    forge.add_bot("stray-app[bot]");
    let listed = forge.add_bot("listed-app[bot]");
    stage.settings(&format!("[github]\nbots = [{listed}]\npermission_s = 0\n"));
    let says_no = |by: &str| {
        forge.review(
            number,
            &Review {
                by,
                body: by,
                ..Review::default()
            },
        )
    };
    says_no("revoked");
    stage.read();
    assert_eq!(
        stage.world.sqlite("SELECT trust FROM feedback"),
        "may_make_work"
    );
    forge.set_permission("revoked", "read");
    forge.fault(json!({
        "path": "collaborators/unknown/permission", "times": 9,
        "then": { "status": { "status": 404, "body": "{\"message\": \"Not Found\"}" } },
    }));
    let all = [
        ("ada", "may_make_work"),
        ("member", "may_make_work"),
        ("reader", "shown_only"),
        // GitHub calls some "contributor": that is not a permission.
        ("mallory", "shown_only"),
        ("triager", "shown_only"),
        ("nobody", "shown_only"),
        ("github-actions", "shown_only"),
        ("eve[bot]", "shown_only"),
        ("stray-app[bot]", "shown_only"),
        ("listed-app[bot]", "may_make_work"),
        ("ghostly", "shown_only"),
        ("unknown", "shown_only"),
        ("revoked", "shown_only"),
    ];
    for (login, _) in all {
        says_no(login);
    }
    forge.remove_user("ghostly");
    stage.read();
    for (login, expected) in all {
        let found = stage.world.sqlite(&format!(
            "SELECT trust FROM feedback WHERE body = '{login}' ORDER BY rowid DESC LIMIT 1"
        ));
        assert_eq!(found, expected, "{login}");
    }
    let people = "SELECT group_concat(body) FROM (SELECT body FROM feedback WHERE trust = 'may_make_work' AND is_person = 1)";
    assert_eq!(stage.world.sqlite(people), "revoked,ada,member");
    let rejected = "SELECT actor_id FROM events WHERE event_type = 'work_rejected' ORDER BY id";
    assert_eq!(
        stage.world.sqlite(rejected),
        "github:revoked\ngithub:ada\ngithub:member\ngithub:listed-app[bot]"
    );
}

#[test]
fn when_nobody_can_say_whether_he_may_nothing_is_taken_in() {
    let stage = Stage::new();
    let number = stage.watched();
    let message = "{\"message\": \"oops\"}";
    stage.forge.fault(json!({
        "path": "/permission", "times": 2, "then": { "status": { "status": 500, "body": message } },
    }));
    stage.forge.issue_comment(number, "ada", "hello");
    stage.forge.review(number, &Review::default());
    stage.read();
    stage.read();
    assert_eq!(stage.count("feedback"), 0);
    assert_eq!(
        stage.world.sqlite("SELECT marks, read_at FROM pulls"),
        "{}|",
        "as if it had not been read"
    );
    stage.read();
    assert_eq!(
        stage
            .world
            .sqlite("SELECT author, trust FROM feedback ORDER BY rowid"),
        "bob|may_make_work\nada|may_make_work"
    );
}

#[test]
fn an_answer_about_somebody_holds_for_its_time() {
    let stage = Stage::new();
    let number = stage.watched();
    let asked = || {
        stage
            .asked()
            .iter()
            .filter(|line| line.contains("bob/permission"))
            .count()
    };
    stage.forge.issue_comment(number, "bob", "one");
    stage.read();
    assert_eq!(asked(), 1);
    stage.forge.issue_comment(number, "bob", "two");
    stage.read();
    assert_eq!(asked(), 0);
    stage
        .world
        .sqlite("UPDATE permissions SET asked_at = '2020-01-01T00:00:00.000Z'");
    stage.forge.set_permission("bob", "read");
    stage.forge.issue_comment(number, "bob", "three");
    stage.read();
    assert_eq!(asked(), 1);
    assert_eq!(
        stage
            .world
            .sqlite("SELECT trust FROM feedback ORDER BY rowid"),
        "may_make_work\nmay_make_work\nshown_only"
    );
}

/// The lesser of `permission` and `role_name` counts; for a custom role, `permission`.
#[test]
fn the_lesser_of_permission_and_role_counts() {
    let stage = Stage::new();
    let number = stage.watched();
    let table = [
        ("a1", "write", json!("read"), "shown_only"),
        ("a2", "admin", json!("triage"), "shown_only"),
        ("a3", "read", json!("write"), "shown_only"),
        ("a4", "read", json!("admin"), "shown_only"),
        ("a5", "none", json!("maintain"), "shown_only"),
        ("a6", "write", json!("write"), "may_make_work"),
        ("a7", "write", json!("maintain"), "may_make_work"),
        ("a8", "write", json!("release-manager"), "may_make_work"),
        ("a9", "read", json!("release-manager"), "shown_only"),
        ("a10", "write", json!(null), "may_make_work"),
    ];
    for (login, permission, role, _) in &table {
        let id = stage.forge.add_user(login, "read");
        let body = json!({
            "permission": permission, "role_name": role, "user": { "id": id, "login": login, "type": "User" },
        });
        let path = format!("collaborators/{login}/permission");
        stage.forge.fault(json!({ "path": path, "then": { "status": { "status": 200, "body": body.to_string() } } }));
        stage.forge.issue_comment(number, login, "hello");
    }
    stage.read();
    for (login, permission, role, expected) in &table {
        let found = stage.world.sqlite(&format!(
            "SELECT trust FROM feedback WHERE author = '{login}'"
        ));
        assert_eq!(found, *expected, "{login}: {permission}, {role}");
    }
}
