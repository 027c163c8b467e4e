//! Cases for settings in effect: the configuration, the limits of a project, trusted git settings,
//! and stops.

use std::collections::BTreeMap;
use std::time::Duration;

use super::story::{Story, failure};
use crate::blackboard::{
    self as bb, Changed, ChangedKind, GitSettings, Hold, InForce, LiveChanges, Order,
    SettingsVerdict,
};
use crate::change::{FixBound, HoldKind, ProjectId, State};
use crate::event::EventType;

/// Fingerprints of git settings.
const TRUSTED: &str = "1111111111111111111111111111111111111111";
const OTHER: &str = "2222222222222222222222222222222222222222";

fn shop() -> ProjectId {
    ProjectId::new("shop")
}

#[test]
fn a_configuration_is_in_force_until_another_one_is() {
    let mut story = Story::begin();
    let in_force = InForce {
        holder: "us".into(),
        file: Some("/etc/remand.toml".into()),
        hash: "1".into(),
        settings: BTreeMap::from([("max_fix_cycles".into(), "2".into())]),
    };
    let changed = Changed {
        hash: "2".into(),
        kind: ChangedKind::Invalid,
        reason: "line 3".into(),
        since: story.now(),
    };
    story
        .step(|conn, now| {
            bb::put_in_force(conn, &in_force, now)?;
            bb::note_changed(conn, Some(&changed))
        })
        .unwrap();
    let known = story.engine.read(bb::configuration).unwrap();
    assert_eq!(known.settings, in_force.settings);
    assert_eq!(known.changed, Some(changed));
    let request = story
        .step(|conn, now| bb::request_reload(conn, "ann", now))
        .unwrap();
    assert_eq!(story.engine.read(bb::open_request), Some(request));
    let told = bb::about_configuration(EventType::Skipped, "line 3".into());
    let event = story
        .step(|conn, now| {
            let event = bb::append(conn, &told, now)?;
            bb::answer_reload(conn, request, event)?;
            Ok(event)
        })
        .unwrap();
    assert_eq!(story.engine.read(bb::open_request), None);
    let answer = story.engine.read(|conn| bb::reload_answer(conn, request));
    assert_eq!(answer.unwrap().id, event);
}

#[test]
fn the_bound_of_a_project_reaches_its_changes() {
    let mut story = Story::begin();
    let change = story.change();
    let bound = FixBound {
        most: 4,
        from: "config.toml".into(),
    };
    for _ in 0..2 {
        story
            .step(|conn, now| bb::set_project_max_fix_cycles(conn, &shop(), &bound, now))
            .unwrap();
    }
    let after = story.at(&change.change_id);
    assert_eq!(after.budget.max_fix_cycles, 4);
    assert_eq!(
        story.events(&change.change_id, EventType::Instructed).len(),
        1
    );
    let known = story.engine.read(|conn| bb::fix_bound(conn, &after));
    assert_eq!((known.most, known.from), (4, "4 from config.toml".into()));
}

#[test]
fn a_project_moves_to_another_remote() {
    let mut story = Story::begin();
    let moved = story
        .step(|conn, _| bb::move_project(conn, &shop(), None, Some("eve/shop")))
        .unwrap();
    assert_eq!(moved.repo.as_deref(), Some("eve/shop"));
    assert!(moved.remote_url.is_some());
    assert_eq!(story.engine.read(bb::list_projects), [moved]);
}

#[test]
fn a_removed_project_is_hidden_until_its_repository_is_added_again() {
    let mut story = Story::begin();
    let change = story.change();
    let project = story.engine.read(|conn| bb::project(conn, &shop()));
    let newest = story.engine.read(bb::newest_event);
    let later = story.now().plus(Duration::from_secs(1));
    let before = story.engine.read(|conn| bb::event_before(conn, later));
    assert_eq!(before, newest);
    let refused =
        story.step(|conn, now| bb::remove_project(conn, &shop(), LiveChanges::Refuse, "ann", now));
    assert!(refused.is_err());
    let cancelled = story
        .step(|conn, now| bb::remove_project(conn, &shop(), LiveChanges::Cancel, "ann", now))
        .unwrap();
    assert_eq!(cancelled, [change.change_id]);
    assert_eq!(story.engine.read(bb::list_projects), []);
    let removed = story.engine.read(|conn| bb::removed_at(conn, &shop()));
    assert!(removed.is_some());
    let counts = story.engine.read(|conn| bb::count_changes(conn, &shop()));
    assert_eq!(counts, [(State::Closed, 1)]);
    let back = story
        .step(|conn, _| bb::insert_project(conn, &project))
        .unwrap();
    assert_eq!(back, project);
    assert_eq!(story.engine.read(bb::list_projects), [project]);
}

#[test]
fn settings_of_git_that_an_agent_may_have_written_are_asked_for_once() {
    let mut story = Story::begin();
    let change = story.change();
    let other = story.change();
    let id = &change.change_id;
    let keys = ["core.sshCommand".to_owned()];
    let of = |fingerprint| GitSettings {
        fingerprint,
        keys: &keys,
    };
    let judge = |story: &mut Story, id, fingerprint| {
        story
            .step(|conn, now| bb::judge_git_settings(conn, id, of(fingerprint), now))
            .unwrap()
    };
    assert!(
        story
            .engine
            .read(|conn| bb::may_use_git_settings(conn, TRUSTED))
    );
    for _ in 0..2 {
        assert_eq!(judge(&mut story, id, TRUSTED), SettingsVerdict::Trusted);
    }
    let claimed = story.claim();
    story.run(&claimed);
    let asked = judge(&mut story, id, OTHER);
    assert!(matches!(asked, SettingsVerdict::Ask { .. }), "{asked:?}");
    assert!(
        !story
            .engine
            .read(|conn| bb::may_use_git_settings(conn, OTHER))
    );
    story.fail(&claimed.claim());
    assert_eq!(
        judge(&mut story, &other.change_id, OTHER),
        SettingsVerdict::AskedAt(id.clone())
    );
    let accepted = story.step(|conn, now| bb::accept_git_settings(conn, id, "ann", now));
    assert!(accepted.unwrap());
    story
        .step(|conn, now| bb::see_git_settings(conn, OTHER, now))
        .unwrap();
    assert_eq!(judge(&mut story, id, OTHER), SettingsVerdict::Trusted);
}

#[test]
fn what_is_stopped_waits_until_it_is_started() {
    let mut story = Story::begin();
    let change = story.change();
    let waiting = story.change();
    let claimed = story.claim();
    story.begin_run(&claimed).unwrap();
    let order = |at_once| Order {
        reason: Some("enough"),
        at_once,
    };
    for (at_once, is_new) in [(false, true), (false, false), (true, true)] {
        let stopped =
            story.step(|conn, now| bb::stop(conn, Some(&shop()), order(at_once), "ann", now));
        assert_eq!(stopped.unwrap(), is_new);
    }
    assert!(story.at(&waiting.change_id).stopped);
    assert!(story.try_claim().is_none());
    story.engine.read(|conn| {
        assert!(!bb::is_all_stopped(conn)?);
        assert!(bb::is_halted(conn, &shop())?);
        assert_eq!(bb::stops_for(conn, &shop())?, bb::stops(conn)?);
        let under_way = bb::under_way(conn, None)?;
        assert_eq!(under_way[0].change_id, change.change_id);
        Ok(())
    });
    for is_new in [true, false] {
        let started = story.step(|conn, now| bb::start(conn, Some(&shop()), "ann", now));
        assert_eq!(started.unwrap(), is_new);
    }
    assert!(story.try_claim().is_some());
    story.check();
}

#[test]
fn all_that_is_held_for_one_reason_goes_on_at_once() {
    let mut story = Story::begin();
    story.change();
    let claimed = story.claim();
    let hold = Hold {
        kind: HoldKind::Environment,
        reason: failure().reason,
        until: story.now().plus(Duration::from_secs(3_600)),
    };
    story
        .step(|conn, now| {
            bb::hold(
                conn,
                &claimed.claim(),
                &claimed.change.change_id,
                &hold,
                now,
            )
        })
        .unwrap();
    let held = |story: &mut Story| {
        story
            .engine
            .read(|conn| bb::any_held_for(conn, HoldKind::Environment))
    };
    assert!(held(&mut story));
    let resumed =
        story.step(|conn, now| bb::resume_held_for(conn, HoldKind::Environment, "it is back", now));
    assert_eq!(resumed.unwrap(), 1);
    assert!(!held(&mut story));
    assert!(story.try_claim().is_some());
}
