use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::environment::Environment;
use super::explain::Setting;
use super::github::GithubSettings;
use super::implement::ImplementOverrides;
use super::push::PushOverrides;
use super::settings::ProjectOverrides;
use super::*;
use crate::change::{Bounds, OnMaxCycles};
use crate::discover::Discover;
use crate::project_settings::{
    GateIn, MainCheckout, ProjectDayBound, ProjectSettings, PushLimits, RedBase,
};
use crate::pull_request::PostReviews;
use crate::toml_path::fields_of;

mod refused;
mod refused_tables;
mod weaker;

/// Temporary home directory, with the variables that point into it.
struct Home {
    folder: tempfile::TempDir,
    environment: Environment,
}

impl Home {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Self {
            folder,
            environment: Environment::default(),
        };
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

    fn load(&self, place: &ConfigLocation) -> Result<Loaded, ConfigError> {
        load_in(place, &self.environment)
    }

    fn load_text(&self, text: &str) -> Loaded {
        let config = Some(self.write("config.toml", text));
        self.load(&ConfigLocation { config, db: None })
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Replaces the temporary directory, which differs each time.
    fn show(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.folder.path().display()), "")
    }
}

#[test]
fn the_embedded_file_passes_its_own_checks() {
    let home = Home::new();
    let loaded = home.load(&ConfigLocation::default()).unwrap();
    assert_eq!(loaded.file, None);
    let written = home.load_text(default_text());
    assert_eq!(
        loaded.config, written.config,
        "what `init` writes changes nothing"
    );
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
    let tables = ["push", "discover", "implement"];
    for field in [
        fields_of::<Agent>(),
        fields_of::<PushOverrides>(),
        fields_of::<ImplementOverrides>(),
        fields_of::<Discover>(),
    ]
    .concat()
    {
        assert!(comments(field), "`{field}` is not shown in the comments");
    }
    for field in fields_of::<ProjectOverrides>()
        .iter()
        .filter(|field| !tables.contains(field))
    {
        assert!(comments(field), "`{field}` is not shown in the comments");
    }
    for table in tables {
        assert!(
            default_text().contains(&format!("\n#   [projects.website.{table}]")),
            "[{table}] is not shown"
        );
    }
}

#[test]
fn the_examples_in_the_comments_can_be_used() {
    let example = |line: &str| line.strip_prefix("#   ").map(str::to_owned);
    let text: Vec<String> = default_text().lines().filter_map(example).collect();
    let config = parse::read(None, &text.join("\n"))
        .unwrap_or_else(|error| panic!("{error}"))
        .config;
    assert_eq!(config.agents["claude"].command(), ["claude"]);
    assert_eq!(config.agents["mine"].command(), ["my-agent", "--batch"]);
    assert_eq!(config.projects["website"].max_fix_cycles, Some(3));
    assert!(config.projects["website"].discover.is_some());
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let mut home = Home::new();
    let gone = home.path("gone.toml");
    let error = home
        .load(&ConfigLocation {
            config: Some(gone.clone()),
            db: None,
        })
        .unwrap_err();
    assert!(matches!(
        error,
        ConfigError::NotFound {
            named_by: "--config",
            ..
        }
    ));
    insta::assert_snapshot!(home.show(&error.to_string()), @"error: config file gone.toml not found (set by --config)");
    home.set("REMAND_CONFIG", &gone);
    let error = home.load(&ConfigLocation::default()).unwrap_err();
    assert!(matches!(
        error,
        ConfigError::NotFound {
            named_by: "REMAND_CONFIG",
            ..
        }
    ));
    let folder = home.path("");
    let error = home
        .load(&ConfigLocation {
            config: Some(folder),
            db: None,
        })
        .unwrap_err();
    assert!(matches!(error, ConfigError::Unreadable { .. }));
}

#[test]
fn the_config_file_is_the_first_that_is_named() {
    let mut home = Home::new();
    let slots = |n: u8| format!("dispatch.slots = {n}");
    let usual = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".config"
    };
    let load = |home: &Home, config: Option<&PathBuf>| {
        home.load(&ConfigLocation {
            config: config.cloned(),
            db: None,
        })
        .unwrap()
        .config
        .dispatch
        .slots
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
    let usual = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".local/state"
    };
    let config = home.write(
        "etc/config.toml",
        "log.level = 'warn'\nblackboard = 'own.db'\n",
    );
    let mut place = ConfigLocation::default();
    let load = |home: &Home, place: &ConfigLocation| {
        let loaded = home.load(place).unwrap();
        (
            home.show(&loaded.blackboard.display().to_string()),
            home.show(&loaded.blackboard_from.to_string()),
        )
    };
    let pair = |path: &str, from: &str| (path.to_owned(), from.to_owned());
    assert_eq!(
        load(&home, &place),
        pair(&format!("{usual}/remand/blackboard.db"), "default")
    );
    home.set("XDG_STATE_HOME", &home.path("state"));
    assert_eq!(
        load(&home, &place),
        pair("state/remand/blackboard.db", "default")
    );
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
    let error = load_in(&ConfigLocation::default(), &environment).unwrap_err();
    assert!(matches!(error, ConfigError::NoHome));
    insta::assert_snapshot!(error, @"
    error: cannot determine the database path: neither HOME nor XDG_STATE_HOME is set to an absolute path
      = help: set one of them, REMAND_DB, or `blackboard` in the config file, or use --db FILE
    ");
    let place = ConfigLocation {
        config: None,
        db: Some("b.db".into()),
    };
    assert!(
        load_in(&place, &environment)
            .unwrap()
            .blackboard
            .is_absolute()
    );
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
    let config = Some(home.write(
        "config.toml",
        "\nevaluators = 'none'\nprompts = 'neither'\n",
    ));
    let error = home.load(&ConfigLocation { config, db: None }).unwrap_err();
    insta::assert_snapshot!(home.show(&error.to_string()), @"
    error: `evaluators`: none is not a directory
     --> config.toml:2:14
      |
    2 | evaluators = 'none'
      |              ^^^^^^
      |
      = help: create the directory, or remove `evaluators`

    error: `prompts`: neither is not a directory
     --> config.toml:3:11
      |
    3 | prompts = 'neither'
      |           ^^^^^^^^^
      |
      = help: create the directory, or remove `prompts`
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
        gate_in = "worktree"
        red_base = "ignore"
        worktree_roots = ["trees", "/abs"]
        max_fix_cycles = 4
        max_total_fixes = 5
        max_cost_usd_per_day = 2.5
        on_max_cycles = "pr_anyway"
        severity_threshold = "critical"
        max_gate_rounds = 0
        main_checkout = "escalate"
        setup = ["npm", "ci"]
        setup_again_on = ["web/package.json"]
        own_worktrees = "~/mine"
        push = { forbidden = ["*.key"], max_file_kb = 1, max_files = 2, max_total_kb = 3, secrets = false }
        discover = { label = "", authors = ["ada", "bot[bot]"], branches = ["a/**"], drafts = true, max_open = 1 }

        [projects.docs]
        agent = "codex"
        "#,
    );
    let common = loaded.project("another");
    assert_eq!(common.gates, [["make"]]);
    let expected = ProjectSettings {
        agent: Some("claude".into()),
        review_agent: Some("codex".into()),
        gates: common.gates.clone(),
        implement: common.implement.clone(),
        review: common.review,
        checks: common.checks.clone(),
        gate_in: GateIn::Checkout,
        red_base: RedBase::Hold,
        worktree_roots: vec![home.path("trees")],
        bounds: Bounds {
            on_max_cycles: OnMaxCycles::Escalate,
            max_fix_cycles: 2,
            max_total_fixes: 8,
            max_run_ms: 60_000,
            max_tokens: Some(5),
            max_cost_micros: Some(123_457),
        },
        max_day: None,
        severity_threshold: crate::finding::Severity::Low,
        max_gate_rounds: 2,
        main_checkout: MainCheckout::Report,
        setup: vec![],
        setup_again_on: loaded.config.setup_again_on.clone(),
        own_worktrees: loaded.blackboard.with_file_name("worktrees"),
        worktree_ttl_days: 7,
        shadow: None,
        push: PushLimits {
            forbidden: loaded.config.push.forbidden.clone(),
            max_file_kb: 10240,
            max_files: 500,
            max_total_kb: 102_400,
            secrets: true,
        },
        discover: None,
    };
    assert_eq!(common, expected);
    assert_eq!(
        loaded.project("docs"),
        ProjectSettings {
            agent: Some("codex".into()),
            ..expected.clone()
        }
    );
    let site = ProjectSettings {
        agent: Some("codex".into()),
        review_agent: Some("codex".into()),
        gates: vec![],
        gate_in: GateIn::Worktree,
        red_base: RedBase::Ignore,
        worktree_roots: vec![home.path("trees"), "/abs".into()],
        bounds: Bounds {
            on_max_cycles: OnMaxCycles::PrAnyway,
            max_fix_cycles: 4,
            max_total_fixes: 5,
            ..expected.bounds
        },
        max_day: Some(ProjectDayBound {
            most_micros: 2_500_000,
            key: "projects.site.max_cost_usd_per_day".into(),
        }),
        severity_threshold: crate::finding::Severity::Critical,
        max_gate_rounds: 0,
        main_checkout: MainCheckout::Escalate,
        setup: vec!["npm".into(), "ci".into()],
        setup_again_on: vec!["web/package.json".into()],
        own_worktrees: home.path("mine"),
        push: PushLimits {
            forbidden: vec!["*.key".into()],
            max_file_kb: 1,
            max_files: 2,
            max_total_kb: 3,
            secrets: false,
        },
        discover: Some(Discover {
            label: None,
            authors: vec!["ada".into(), "bot[bot]".into()],
            branches: vec!["a/**".into()],
            drafts: true,
            max_open: 1,
        }),
        ..expected
    };
    assert_eq!(loaded.project("site"), site);
    assert_eq!(
        loaded.agent("codex").map(|agent| agent.model.as_str()),
        Some("m")
    );
    assert_eq!(loaded.agent("nobody"), None);
    let nothing = Home::new().load_text("").project("p");
    assert_eq!((nothing.agent, nothing.review_agent), (None, None));
    assert_eq!(
        (nothing.bounds.max_tokens, nothing.bounds.max_cost_micros),
        (None, Some(10_000_000))
    );
}

#[test]
fn a_project_overrides_only_what_it_names_of_a_table() {
    let loaded = Home::new().load_text("push.max_files = 7\nsetup = ['make']\n[projects.p.push]\nmax_file_kb = 3\n[projects.p.discover]\n[projects.q]\nsetup = []\n");
    let own = loaded.project("p");
    assert_eq!(
        (own.push.max_files, own.push.max_file_kb, own.push.secrets),
        (7, 3, true)
    );
    assert_eq!(own.push.forbidden, loaded.project("another").push.forbidden);
    assert_eq!(own.setup, ["make"]);
    assert_eq!(loaded.project("q").setup, [""; 0]);
    let all = Discover {
        label: Some("remand".into()),
        authors: vec![],
        branches: vec![],
        drafts: false,
        max_open: 5,
    };
    assert_eq!(own.discover, Some(all), "an empty table is enough");
}

#[test]
fn bots_are_numbers_and_each_is_there_once() {
    let loaded = Home::new().load_text("[github]\ngh = ['hub', '-x']\nbots = [9, 136622811]\nbot_presets = ['coderabbit', 'sourcery']\nreviews = 'off'\n");
    let expected = GithubSettings {
        gh: vec!["hub".into(), "-x".into()],
        call: Duration::from_secs(30),
        fetch_limit: Duration::from_secs(30),
        reserve: 500,
        permission: Duration::from_secs(3600),
        bots: vec![9, 58_596_630, 136_622_811],
        reviews: PostReviews::Off,
    };
    assert_eq!(loaded.github(), expected);
    assert_eq!(
        Home::new().load_text("").github().bots,
        [0; 0],
        "nobody by default"
    );
}

#[test]
fn every_preset_is_named_in_the_comments() {
    let mut accounts = Vec::new();
    for preset in github::BotPreset::ALL {
        assert!(
            default_text().contains(&format!("\"{preset}\"")),
            "{preset}"
        );
        let loaded = Home::new().load_text(&format!("github.bot_presets = ['{preset}']"));
        accounts.extend(loaded.github().bots);
    }
    accounts.sort_unstable();
    accounts.dedup();
    assert_eq!(
        accounts.len(),
        github::BotPreset::ALL.len(),
        "each has its own account"
    );
}

#[test]
fn every_setting_is_shown_with_where_it_comes_from() {
    let home = Home::new();
    fs::create_dir_all(home.path("prompts")).unwrap();
    let loaded = home.load_text(
        "agent = 'a'\ngates = [\n  ['make', 'test'], # both\n]\nloop.max_cost_usd = 2\n\n[agents.a]\nkind = 'command'\ncommand = ['a']\n[projects.p]\nmax_fix_cycles = 1\n[projects.p.discover]\nlabel = 'x'\n",
    );
    let show = |setting: Setting| {
        format!(
            "{} = {}  ({})",
            setting.key,
            home.show(&setting.value),
            home.show(&setting.origin.to_string())
        )
    };
    let lines: Vec<String> = loaded.explain().into_iter().map(show).collect();
    let path = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        ".local/state"
    };
    insta::assert_snapshot!(lines.join("\n").replace(path, "STATE"), @r#"
    blackboard = "STATE/remand/blackboard.db"  (default)
    evaluators = ""  (default)
    prompts = "prompts"  (default)
    agent = "a"  (config.toml:1)
    review_agent = ""  (default)
    gates = [["make", "test"]]  (config.toml:2)
    gate_in = "checkout"  (default)
    red_base = "hold"  (default)
    worktree_roots = []  (default)
    setup = []  (default)
    setup_again_on = ["package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "pnpm-workspace.yaml", "bun.lock", "bun.lockb", "Cargo.toml", "Cargo.lock", "pyproject.toml", "poetry.lock", "uv.lock", "requirements.txt", "requirements-dev.txt", "Gemfile", "Gemfile.lock", "go.mod", "go.sum", "composer.json", "composer.lock", "build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts", "gradle.lockfile", "pom.xml", "packages.lock.json", "Directory.Packages.props", "mix.exs", "mix.lock"]  (default)
    own_worktrees = "STATE/remand/worktrees"  (default)
    worktree_ttl_days = 7  (default)
    shadow = false  (default)
    loop.max_fix_cycles = 2  (default)
    loop.max_total_fixes = 8  (default)
    loop.max_run_s = 14400  (default)
    loop.max_tokens = 0  (default)
    loop.max_cost_usd = 2.0  (config.toml:5)
    loop.max_cost_usd_per_day = 50.0  (default)
    loop.timezone = "local"  (default)
    loop.on_max_cycles = "escalate"  (default)
    loop.severity_threshold = "medium"  (default)
    loop.max_gate_rounds = 2  (default)
    loop.main_checkout = "report"  (default)
    loop.enabled = true  (default)
    loop.self_review_before_pr = true  (default)
    loop.auto_address_review_comments = true  (default)
    loop.skip_tests = true  (default)
    loop.notify_on_ready = true  (default)
    loop.notification_channels = ["github"]  (default)
    implement.auto_review = false  (default)
    implement.open_pr = true  (default)
    implement.draft = false  (default)
    implement.branch = "remand/{slug}"  (default)
    implement.priority = "P2"  (default)
    heartbeat.look_s = 1  (default)
    dispatch.slots = 2  (default)
    dispatch.lease_s = 60  (default)
    dispatch.max_lost_runs = 5  (default)
    dispatch.backoff_first_s = 60  (default)
    dispatch.backoff_max_s = 3600  (default)
    dispatch.stop_grace_s = 10  (default)
    limits.implement_s = 3600  (default)
    limits.review_s = 600  (default)
    limits.fix_s = 1800  (default)
    limits.idle_s = 600  (default)
    limits.gate_s = 600  (default)
    limits.setup_s = 900  (default)
    limits.git_s = 120  (default)
    limits.grace_s = 10  (default)
    limits.feedback_kb = 200  (default)
    github.gh = ["gh"]  (default)
    github.call_s = 30  (default)
    github.fetch_limit_s = 30  (default)
    github.reserve = 500  (default)
    github.permission_s = 3600  (default)
    github.bots = []  (default)
    github.bot_presets = []  (default)
    github.reviews = "request_changes"  (default)
    github.required_checks = []  (default)
    github.optional_checks = "show"  (default)
    github.rerun_red = true  (default)
    github.log_command = []  (default)
    push.forbidden = [".github/workflows/**", ".github/actions/**", "CODEOWNERS", ".github/CODEOWNERS", "docs/CODEOWNERS", ".gitmodules"]  (default)
    push.max_file_kb = 10240  (default)
    push.max_files = 500  (default)
    push.max_total_kb = 102400  (default)
    push.secrets = true  (default)
    sandbox.kind = "auto"  (default)
    sandbox.wrapper = []  (default)
    sandbox.read = ["~/.gitconfig", "~/.config/git", "~/.cargo", "~/.rustup", "~/.nvm", "~/.volta", "~/.bun", "~/.deno", "~/.pyenv", "~/go", "~/.local/bin", "~/.local/lib", "~/.local/share/claude"]  (default)
    sandbox.write = ["~/.claude", "~/.claude.json", "~/.codex", "~/.gemini", "~/.config/opencode", "~/.local/share/opencode", "~/.cache", "~/.npm", "~/.cargo/registry", "~/.cargo/git", "~/.cargo/.package-cache"]  (default)
    log.level = "info"  (default)
    log.format = "text"  (default)
    agents.a.kind = "command"  (config.toml:8)
    agents.a.command = ["a"]  (config.toml:9)
    agents.a.env = []  (default)
    agents.a.model = ""  (default)
    projects.p.max_fix_cycles = 1  (config.toml:11)
    projects.p.discover.label = "x"  (config.toml:13)
    projects.p.discover.authors = []  (default)
    projects.p.discover.branches = []  (default)
    projects.p.discover.drafts = false  (default)
    projects.p.discover.max_open = 5  (default)
    "#);
}
