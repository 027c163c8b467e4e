use std::fs;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::explain::Setting;
use super::project::ProjectSettings;
use super::settings::{MainCheckout, ProjectOverrides};
use super::*;
use crate::keypath::fields_of;

mod refused;

/// A home of its own, with the variables that point into it.
struct Home {
    folder: tempfile::TempDir,
    environment: Environment,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Self { folder, environment: Environment::default() };
        let at = home.path("");
        home.set("HOME", &at);
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn set(&mut self, variable: &str, value: &Path) {
        self.environment.vars.insert(variable.into(), value.into());
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn load(&self, place: &Place) -> Result<Loaded, ConfigError> {
        load_in(place, &self.environment)
    }

    fn load_text(&self, text: &str) -> Loaded {
        let config = Some(self.write("config.toml", text));
        self.load(&Place { config, db: None }).unwrap_or_else(|error| panic!("{error}"))
    }

    /// With the folder cut out, which is another one each time.
    fn show(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn the_embedded_file_passes_its_own_checks() {
    let home = Home::new();
    let loaded = home.load(&Place::default()).unwrap();
    assert_eq!(loaded.file, None);
    let written = home.load_text(default_text());
    assert_eq!(loaded.config, written.config, "what `init` writes changes nothing");
}

#[test]
fn every_setting_has_a_comment_above_it() {
    let lines: Vec<&str> = default_text().lines().collect();
    for pair in lines.windows(2) {
        if pair[1].contains(" = ") && !pair[1].starts_with('#') {
            assert!(pair[0].starts_with("# "), "no comment above `{}`", pair[1]);
        }
    }
    let comments = |field: &str| default_text().contains(&format!("\n#   {field} = "));
    for field in fields_of::<Agent>().iter().chain(fields_of::<ProjectOverrides>()) {
        assert!(comments(field), "`{field}` is not shown in the comments");
    }
}

#[test]
fn the_examples_in_the_comments_can_be_used() {
    let example = |line: &str| line.strip_prefix("#   ").map(str::to_owned);
    let text: Vec<String> = default_text().lines().filter_map(example).collect();
    let config = read::read(None, &text.join("\n")).unwrap_or_else(|error| panic!("{error}")).config;
    assert_eq!(config.agents["claude"].command.words(), ["claude", "--print"]);
    assert_eq!(config.projects["website"].max_fix_cycles, Some(3));
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let mut home = Home::new();
    let gone = home.path("gone.toml");
    let error = home.load(&Place { config: Some(gone.clone()), db: None }).unwrap_err();
    assert!(matches!(error, ConfigError::NotFound { named_by: "--config", .. }));
    insta::assert_snapshot!(home.show(&error.to_string()), @"error: there is no config file gone.toml, which --config names");
    home.set("REMAND_CONFIG", &gone);
    let error = home.load(&Place::default()).unwrap_err();
    assert!(matches!(error, ConfigError::NotFound { named_by: "REMAND_CONFIG", .. }));
    let folder = home.path("");
    let error = home.load(&Place { config: Some(folder), db: None }).unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
}

#[test]
fn the_config_file_is_the_first_that_is_named() {
    let mut home = Home::new();
    let slots = |n: u8| format!("dispatch.slots = {n}");
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".config" };
    let load = |home: &Home, config: Option<&PathBuf>| {
        home.load(&Place { config: config.cloned(), db: None }).unwrap().config.dispatch.slots
    };
    assert_eq!(load(&home, None), 2, "the default");
    home.write(&format!("{usual}/remand/config.toml"), &slots(11));
    assert_eq!(load(&home, None), 11);
    home.set("XDG_CONFIG_HOME", Path::new("relative"));
    assert_eq!(load(&home, None), 11, "a relative one does not count");
    home.write("xdg/remand/config.toml", &slots(12));
    home.set("XDG_CONFIG_HOME", &home.path("xdg"));
    assert_eq!(load(&home, None), 12);
    home.set("REMAND_CONFIG", &home.write("variable.toml", &slots(13)));
    assert_eq!(load(&home, None), 13);
    let flag = home.write("flag.toml", &slots(14));
    assert_eq!(load(&home, Some(&flag)), 14);
}

#[test]
fn the_blackboard_is_the_first_that_is_named() {
    let mut home = Home::new();
    let usual = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    let config = home.write("etc/config.toml", "log.level = 'warn'\nblackboard = 'own.db'\n");
    let mut place = Place::default();
    let load = |home: &Home, place: &Place| {
        let loaded = home.load(place).unwrap();
        (home.show(&loaded.blackboard.display().to_string()), home.show(&loaded.blackboard_from.to_string()))
    };
    let pair = |path: &str, from: &str| (path.to_owned(), from.to_owned());
    assert_eq!(load(&home, &place), pair(&format!("{usual}/remand/blackboard.db"), "default"));
    home.set("XDG_STATE_HOME", &home.path("state"));
    assert_eq!(load(&home, &place), pair("state/remand/blackboard.db", "default"));
    place.config = Some(config);
    assert_eq!(load(&home, &place), pair("etc/own.db", "etc/config.toml:2"));
    home.set("REMAND_DB", &home.path("variable.db"));
    assert_eq!(load(&home, &place), pair("variable.db", "REMAND_DB"));
    place.db = Some(home.path("flag.db"));
    assert_eq!(load(&home, &place), pair("flag.db", "--db"));
}

#[test]
fn without_a_home_the_database_must_be_named() {
    let environment = Environment::default();
    let error = load_in(&Place::default(), &environment).unwrap_err();
    assert!(matches!(error, ConfigError::NoHome));
    insta::assert_snapshot!(error, @"
    error: cannot tell where the database is: neither HOME nor XDG_STATE_HOME is set to an absolute path
      = help: set one of them, REMAND_DB, `blackboard` in the config file, or give --db FILE
    ");
    let place = Place { config: None, db: Some("b.db".into()) };
    assert!(load_in(&place, &environment).unwrap().blackboard.is_absolute());
}

#[test]
fn own_folders_are_beside_the_file_or_where_it_says() {
    let home = Home::new();
    fs::create_dir_all(home.path("prompts")).unwrap();
    fs::create_dir_all(home.path("mine")).unwrap();
    let loaded = home.load_text("evaluators = '~/mine'");
    assert_eq!(loaded.evaluators, Some(home.path("mine")));
    assert_eq!(loaded.prompts, Some(home.path("prompts")));
    assert_eq!(home.load_text("").evaluators, None);
    let config = Some(home.write("config.toml", "\nevaluators = 'none'\nprompts = 'neither'\n"));
    let error = home.load(&Place { config, db: None }).unwrap_err();
    insta::assert_snapshot!(home.show(&error.to_string()), @"
    error: `evaluators` names none, which is not a folder
     --> config.toml:2:14
      |
    2 | evaluators = 'none'
      |              ^^^^^^
      |
      = help: make the folder, or leave `evaluators` out

    error: `prompts` names neither, which is not a folder
     --> config.toml:3:11
      |
    3 | prompts = 'neither'
      |           ^^^^^^^^^
      |
      = help: make the folder, or leave `prompts` out
    ");
}

#[test]
fn a_project_overrides_what_it_names() {
    let home = Home::new();
    let loaded = home.load_text(
        r#"
        agent = "claude"
        review_agent = "codex"
        gates = [["make"]]
        worktree_roots = ["~/trees"]
        loop = { max_tokens = 5, max_cost_usd = 0.1234561, severity_threshold = "low", max_run_s = 60 }
        agents.claude = { kind = "command", command = ["claude", "-p"] }
        agents.codex = { kind = "command", command = ["codex"], model = "m" }

        [projects.site]
        agent = "codex"
        review_agent = ""
        gates = []
        worktree_roots = ["trees", "/abs"]
        max_fix_cycles = 4
        max_total_fixes = 5
        on_max_cycles = "pr_anyway"
        severity_threshold = "critical"
        max_gate_rounds = 0
        main_checkout = "escalate"

        [projects.docs]
        agent = "codex"
        "#,
    );
    let common = loaded.project("another");
    assert_eq!(common.gates.iter().map(|gate| gate.words().to_vec()).collect::<Vec<_>>(), [["make"]]);
    let expected = ProjectSettings {
        agent: Some("claude".into()),
        review_agent: Some("codex".into()),
        gates: loaded.config.gates.clone(),
        worktree_roots: vec![home.path("trees")],
        max_fix_cycles: 2,
        max_total_fixes: 8,
        max_run_ms: 60_000,
        max_tokens: Some(5),
        max_cost_micros: Some(123_457),
        on_max_cycles: crate::change::OnMaxCycles::Escalate,
        severity_threshold: crate::finding::Severity::Low,
        max_gate_rounds: 2,
        main_checkout: MainCheckout::Report,
    };
    assert_eq!(common, expected);
    assert_eq!(loaded.project("docs"), ProjectSettings { agent: Some("codex".into()), ..expected.clone() });
    let site = ProjectSettings {
        agent: Some("codex".into()),
        review_agent: Some("codex".into()),
        gates: vec![],
        worktree_roots: vec![home.path("trees"), "/abs".into()],
        max_fix_cycles: 4,
        max_total_fixes: 5,
        on_max_cycles: crate::change::OnMaxCycles::PrAnyway,
        severity_threshold: crate::finding::Severity::Critical,
        max_gate_rounds: 0,
        main_checkout: MainCheckout::Escalate,
        ..expected
    };
    assert_eq!(loaded.project("site"), site);
    assert_eq!(loaded.agent("codex").map(|agent| agent.model.as_str()), Some("m"));
    assert_eq!(loaded.agent("nobody"), None);
    let nothing = Home::new().load_text("").project("p");
    assert_eq!((nothing.agent, nothing.review_agent), (None, None));
    assert_eq!((nothing.max_tokens, nothing.max_cost_micros), (None, None));
}

#[test]
fn every_setting_is_shown_with_where_it_comes_from() {
    let home = Home::new();
    fs::create_dir_all(home.path("prompts")).unwrap();
    let loaded = home.load_text(
        "agent = 'a'\ngates = [\n  ['make', 'test'], # both\n]\nloop.max_cost_usd = 2\n\n[agents.a]\nkind = 'command'\ncommand = ['a']\n[projects.p]\nmax_fix_cycles = 1\n",
    );
    let show = |setting: Setting| {
        format!("{} = {}  ({})", setting.key, home.show(&setting.value), home.show(&setting.origin.to_string()))
    };
    let lines: Vec<String> = loaded.explain().into_iter().map(show).collect();
    let path = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    insta::assert_snapshot!(lines.join("\n").replace(path, "STATE"), @r#"
    blackboard = "STATE/remand/blackboard.db"  (default)
    evaluators = ""  (default)
    prompts = "prompts"  (default)
    agent = "a"  (config.toml:1)
    review_agent = ""  (default)
    gates = [["make", "test"]]  (config.toml:2)
    worktree_roots = []  (default)
    loop.max_fix_cycles = 2  (default)
    loop.max_total_fixes = 8  (default)
    loop.max_run_s = 14400  (default)
    loop.max_tokens = 0  (default)
    loop.max_cost_usd = 2.0  (config.toml:5)
    loop.on_max_cycles = "escalate"  (default)
    loop.severity_threshold = "medium"  (default)
    loop.max_gate_rounds = 2  (default)
    loop.main_checkout = "report"  (default)
    heartbeat.look_s = 1  (default)
    dispatch.slots = 2  (default)
    dispatch.lease_s = 60  (default)
    dispatch.max_lost_runs = 5  (default)
    dispatch.backoff_first_s = 60  (default)
    dispatch.backoff_max_s = 3600  (default)
    dispatch.stop_grace_s = 10  (default)
    limits.review_s = 600  (default)
    limits.fix_s = 1800  (default)
    limits.idle_s = 600  (default)
    limits.gate_s = 600  (default)
    limits.git_s = 120  (default)
    limits.grace_s = 10  (default)
    log.level = "info"  (default)
    log.format = "text"  (default)
    agents.a.kind = "command"  (config.toml:8)
    agents.a.command = ["a"]  (config.toml:9)
    agents.a.env = []  (default)
    agents.a.model = ""  (default)
    projects.p.max_fix_cycles = 1  (config.toml:11)
    "#);
}
