use insta::assert_snapshot;

use super::*;

fn now() -> Time {
    Time::parse("2026-11-16T02:29:53.123Z").unwrap()
}

fn load_with(files: &[(&str, &str)]) -> Result<Vec<Definition>, String> {
    let folder = tempfile::tempdir().unwrap();
    for (file, source) in files {
        fs::write(folder.path().join(file), source).unwrap();
    }
    load(Some(folder.path()), now()).map_err(|error| {
        error
            .to_string()
            .replace(&folder.path().display().to_string(), "FOLDER")
    })
}

fn error_of(source: &str) -> String {
    load_with(&[("mine.toml", source)]).unwrap_err()
}

#[test]
fn the_stock_set() {
    let stock = load(None, now()).unwrap();
    let [pulls, review] = stock.as_slice() else {
        panic!("{stock:?}")
    };
    assert_eq!(
        (pulls.name.as_str(), pulls.kind(), &pulls.config),
        ("pr_feedback", Kind::PrFeedback, &Config::PrFeedback)
    );
    assert_eq!(
        pulls.schedule.as_ref().map(Schedule::text),
        Some("* * * * *")
    );
    assert_eq!(pulls.needs, []);
    assert_eq!(
        *review,
        Definition {
            name: "review_feedback".into(),
            on: vec![EventType::WorkRejected, EventType::WorkApproved],
            needs: vec![Need::PrFeedback],
            schedule: None,
            config: Config::ReviewFeedback(ReviewFeedback {
                max_fix_cycles: None
            }),
            origin: Origin::Stock,
        }
    );
}

#[test]
fn a_users_folder_adds_replaces_and_switches_off() {
    let mine = "kind = 'review_feedback'\nschedule = '*/5 * * * *'\nneeds = ['pr_feedback']\n[config]\nmax_fix_cycles = 3";
    let names = |all: Vec<Definition>| {
        all.into_iter()
            .map(|d| (d.name, d.origin != Origin::Stock))
            .collect::<Vec<_>>()
    };
    let added = load_with(&[("mine.toml", mine), (".mine.toml.swp", "?")]).unwrap();
    assert_eq!(
        added[0].config,
        Config::ReviewFeedback(ReviewFeedback {
            max_fix_cycles: Some(3)
        })
    );
    assert_eq!(
        added[0].schedule.as_ref().map(Schedule::text),
        Some("*/5 * * * *")
    );
    assert_eq!(added[0].needs, [Need::PrFeedback]);
    assert_eq!(added[0].kind(), Kind::ReviewFeedback);
    assert_eq!(
        names(added),
        [
            ("mine".into(), true),
            ("pr_feedback".into(), false),
            ("review_feedback".into(), false)
        ]
    );
    let replaced = load_with(&[("review_feedback.toml", mine)]).unwrap();
    assert_eq!(
        names(replaced),
        [
            ("pr_feedback".into(), false),
            ("review_feedback".into(), true)
        ]
    );
    let off = load_with(&[("review_feedback.toml", "enabled = false")]).unwrap();
    assert_eq!(names(off), [("pr_feedback".into(), false)]);
}

#[test]
fn not_toml() {
    assert_snapshot!(error_of("kind = review_feedback\n"), @r#"
    error: string values must be quoted, expected literal string
     --> FOLDER/mine.toml:1:8
      |
    1 | kind = review_feedback
      |        ^^^^^^^^^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn an_unknown_key() {
    assert_snapshot!(error_of("kind = \"review_feedback\"\non = [\"work_rejected\"]\nscedule = \"@daily\"\n"), @r#"
    error: unknown field `scedule`, expected one of `enabled`, `kind`, `on`, `needs`, `schedule`, `timezone`, `config`
     --> FOLDER/mine.toml:3:1
      |
    3 | scedule = "@daily"
      | ^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn an_unknown_key_of_the_config() {
    let source =
        "kind = \"review_feedback\"\non = [\"work_rejected\"]\n\n[config]\nmax_cycles = 3\n";
    assert_snapshot!(error_of(source), @r#"
    error: unknown field `max_cycles`, expected `max_fix_cycles`
     --> FOLDER/mine.toml:5:1
      |
    5 | max_cycles = 3
      | ^^^^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn a_value_of_the_wrong_sort() {
    assert_snapshot!(error_of("kind = \"review_feedback\"\non = \"work_rejected\"\n"), @r#"
    error: invalid type: string "work_rejected", expected a sequence
     --> FOLDER/mine.toml:2:6
      |
    2 | on = "work_rejected"
      |      ^^^^^^^^^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn an_unknown_event() {
    let error =
        error_of("kind = \"review_feedback\"\non = [\"work_rejected\", \"work_refused\"]\n");
    let all = EventType::ALL
        .iter()
        .map(|one| one.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    assert_snapshot!(error.replace(&all, "ALL"), @r#"
    error: unknown event_type `work_refused`; allowed: ALL
     --> FOLDER/mine.toml:2:24
      |
    2 | on = ["work_rejected", "work_refused"]
      |                        ^^^^^^^^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn an_unknown_need() {
    assert_snapshot!(error_of("kind = \"review_feedback\"\non = [\"work_rejected\"]\nneeds = [\"coffee\"]\n"), @r#"
    error: unknown need `coffee`; allowed: pr_feedback
     --> FOLDER/mine.toml:3:10
      |
    3 | needs = ["coffee"]
      |          ^^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn an_unknown_kind() {
    assert_snapshot!(error_of("kind = \"review\"\n"), @r#"
    error: unknown kind `review`; allowed: review_feedback, pr_feedback, command
     --> FOLDER/mine.toml:1:8
      |
    1 | kind = "review"
      |        ^^^^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn no_kind() {
    assert_snapshot!(error_of("on = [\"work_rejected\"]\n"), @r#"
    error: missing key `kind`
     --> FOLDER/mine.toml:1:1
      |
    1 | on = ["work_rejected"]
      | ^ this file has no `kind`
      |
      = help: allowed: review_feedback, pr_feedback, command
    "#);
}

#[test]
fn a_command() {
    let line = "kind = 'command'\non = ['escalated']\n[config]\ncommand = ['./look', '7']\n";
    let mine = load_with(&[("mine.toml", line)]).unwrap().remove(0);
    let Config::Command(command) = &mine.config else {
        panic!("{mine:?}")
    };
    assert_eq!(
        (command.argv.join(" "), command.limit),
        ("./look 7".into(), DEFAULT_LIMIT)
    );
    assert_eq!(mine.origin, Origin::File(command.folder.join("mine.toml")));
    let limited = load_with(&[("mine.toml", &format!("{line}limit_s = 5"))])
        .unwrap()
        .remove(0);
    assert!(
        matches!(limited.config, Config::Command(command) if command.limit == Duration::from_secs(5))
    );
}

#[test]
fn a_command_without_a_program() {
    let of = |config: &str| {
        error_of(&format!(
            "on = [\"work_rejected\"]\nkind = \"command\"\n{config}"
        ))
    };
    assert_snapshot!(of(""), @r#"
    error: missing key `command`
     --> FOLDER/mine.toml:2:8
      |
    2 | kind = "command"
      |        ^^^^^^^^^ this kind needs one
      |
      = help: under [config], for example `command = ["./old_prs.py"]`: the program, then its arguments
    "#);
    let first = |config: &str| of(config).lines().take(2).collect::<Vec<_>>().join("");
    assert_eq!(
        first("[config]\ncommand = []\n"),
        "error: `command` has no program --> FOLDER/mine.toml:4:11"
    );
    assert_eq!(
        first("[config]\nrun = [\"./look\"]\n"),
        "error: unknown field `run`, expected `command` or `limit_s` --> FOLDER/mine.toml:4:1"
    );
    assert_eq!(
        first("[config]\ncommand = [\"x\"]\nlimit_s = 0\n"),
        "error: `limit_s` is out of range --> FOLDER/mine.toml:5:11"
    );
}

#[test]
fn programs_and_folders_may_lie_beside_evaluators() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("lib")).unwrap();
    let program = folder.path().join("look.py");
    fs::write(&program, "").unwrap();
    assert!(
        matches!(
            load(Some(folder.path()), now()),
            Err(DefinitionError::Name { .. })
        ),
        "a misspelt .toml is found"
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(load(Some(folder.path()), now()).unwrap().len(), STOCK.len());
}

#[test]
fn never_woken() {
    assert_snapshot!(error_of("# mine\nkind = \"review_feedback\"\n"), @r#"
    error: this evaluator never runs
     --> FOLDER/mine.toml:2:8
      |
    2 | kind = "review_feedback"
      |        ^^^^^^^^^^^^^^^^^ no `on` and no `schedule`
      |
      = help: add `on = ["work_rejected"]`, a `schedule`, or `enabled = false`
    "#);
}

#[test]
fn too_many_cycles() {
    let source =
        "kind = \"review_feedback\"\non = [\"work_rejected\"]\nconfig.max_fix_cycles = -1\n";
    assert_snapshot!(error_of(source), @r#"
    error: `max_fix_cycles` is out of range
     --> FOLDER/mine.toml:3:25
      |
    3 | config.max_fix_cycles = -1
      |                         ^^ here
      |
      = help: allowed: 0 to 100
    "#);
}

#[test]
fn a_schedule_with_two_readings() {
    assert_snapshot!(error_of("kind = \"review_feedback\"\nschedule = \"0 9 * * 1\"\n"), @r#"
    error: invalid `schedule`
     --> FOLDER/mine.toml:2:12
      |
    2 | schedule = "0 9 * * 1"
      |            ^^^^^^^^^^^ weekday `1` is ambiguous: Sunday is 0 in cron but 1 in this parser
      |
      = help: use the name of the weekday: Sun, Mon, Tue, Wed, Thu, Fri, Sat
    "#);
}

#[test]
fn a_schedule_of_durations() {
    assert_snapshot!(error_of("kind = \"review_feedback\"\nschedule = \"@every 5m\"\n"), @r#"
    error: invalid `schedule`
     --> FOLDER/mine.toml:2:12
      |
    2 | schedule = "@every 5m"
      |            ^^^^^^^^^^^ `@every` is not supported
      |
      = help: `*/5 * * * *` is every five minutes, `0 */2 * * *` every two hours
    "#);
}

#[test]
fn an_unknown_timezone() {
    assert_snapshot!(error_of("kind = \"review_feedback\"\nschedule = \"@daily\"\ntimezone = \"CET\"\n"), @r#"
    error: unknown timezone `CET`; allowed: utc, local
     --> FOLDER/mine.toml:3:12
      |
    3 | timezone = "CET"
      |            ^^^^^ here
      |
      = help: the built-in `evaluators/review_feedback.toml` documents every key
    "#);
}

#[test]
fn a_file_with_another_name() {
    assert_snapshot!(load_with(&[("Mine.toml", "")]).unwrap_err(), @"FOLDER/Mine.toml is not an evaluator: the name must consist of lower-case letters, digits and _, followed by `.toml` (programs must be executable, or in a subdirectory)");
    assert_snapshot!(load_with(&[("mine.yaml", "")]).unwrap_err(), @"FOLDER/mine.yaml is not an evaluator: the name must consist of lower-case letters, digits and _, followed by `.toml` (programs must be executable, or in a subdirectory)");
}

#[test]
fn a_folder_that_is_not_there() {
    assert_snapshot!(load(Some(Path::new("/nowhere")), now()).unwrap_err(), @"cannot read the evaluators directory /nowhere");
}
