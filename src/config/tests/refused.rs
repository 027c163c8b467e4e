//! Rejected files and their error messages.

use std::path::Path;

use super::super::{ConfigError, check, default_text, parse};
use crate::toml_path::KeyPath;

/// Returns the error that a person who wrote `text` sees.
pub(super) fn refused(text: &str) -> String {
    let error = match parse::read(Some(Path::new("config.toml")), text) {
        Ok(read) => panic!("taken: {:?}", read.config),
        Err(error) => error,
    };
    assert!(matches!(error, ConfigError::Invalid(_)));
    error.to_string()
}

#[test]
fn unknown_keys() {
    insta::assert_snapshot!(refused("agnet = 'x'\n\n[loop]\n  max_fix_cycels = 3\n"), @"
    error: unknown setting `agnet`
     --> config.toml:1:1
      |
    1 | agnet = 'x'
      | ^^^^^ did you mean `agent`?
      |
      = help: settings at the top level: blackboard, evaluators, prompts, agent, review_agent, gates, gate_in, red_base, worktree_roots, setup, setup_again_on, own_worktrees, worktree_ttl_days, shadow, loop, implement, heartbeat, dispatch, limits, github, push, sandbox, log, agents, projects

    error: unknown setting `loop.max_fix_cycels`
     --> config.toml:4:3
      |
    4 |   max_fix_cycels = 3
      |   ^^^^^^^^^^^^^^ did you mean `max_fix_cycles`?
      |
      = help: settings in [loop]: max_fix_cycles, max_total_fixes, max_run_s, max_tokens, max_cost_usd, max_cost_usd_per_day, timezone, on_max_cycles, severity_threshold, max_gate_rounds, main_checkout, enabled, self_review_before_pr, auto_address_review_comments, skip_tests, notify_on_ready, notification_channels
    ");
    insta::assert_snapshot!(refused("[agents.a]\nkind = 'command'\ncommand = ['a']\ntoken = 'x'\n"), @"
    error: unknown setting `agents.a.token`
     --> config.toml:4:1
      |
    4 | token = 'x'
      | ^^^^^
      |
      = help: settings in [agents.a]: kind, command, env, model, allow, max_turns, max_cost_usd, max_retries, api_timeout_s
    ");
    insta::assert_snapshot!(refused("[hartbeat]\nlook_s = 1\n[projects.p]\ngate = []"), @"
    error: unknown setting `hartbeat`
     --> config.toml:1:2
      |
    1 | [hartbeat]
      |  ^^^^^^^^ did you mean `heartbeat`?
      |
      = help: settings at the top level: blackboard, evaluators, prompts, agent, review_agent, gates, gate_in, red_base, worktree_roots, setup, setup_again_on, own_worktrees, worktree_ttl_days, shadow, loop, implement, heartbeat, dispatch, limits, github, push, sandbox, log, agents, projects

    error: unknown setting `projects.p.gate`
     --> config.toml:4:1
      |
    4 | gate = []
      | ^^^^ did you mean `gates`?
      |
      = help: settings in [projects.p]: agent, review_agent, gates, gate_in, red_base, worktree_roots, max_fix_cycles, max_total_fixes, max_cost_usd_per_day, on_max_cycles, severity_threshold, max_gate_rounds, main_checkout, enabled, self_review_before_pr, auto_address_review_comments, skip_tests, notify_on_ready, notification_channels, required_checks, optional_checks, rerun_red, log_command, setup, setup_again_on, own_worktrees, worktree_ttl_days, shadow, push, implement, discover
    ");
}

#[test]
fn wrong_types_and_numbers() {
    insta::assert_snapshot!(refused("[loop]\nmax_fix_cycles = \"two\"\nmax_tokens = -1\nmax_cost_usd = -0.5\n"), @r#"
    error: invalid value for `loop.max_fix_cycles`
     --> config.toml:2:18
      |
    2 | max_fix_cycles = "two"
      |                  ^^^^^ invalid type: string "two", expected a whole number from 0 to 100
      |
      = help: the default is: 2

    error: invalid value for `loop.max_tokens`
     --> config.toml:3:14
      |
    3 | max_tokens = -1
      |              ^^ invalid value: integer `-1`, expected a whole number from 0 to 1000000000000
      |
      = help: the default is: 0

    error: invalid value for `loop.max_cost_usd`
     --> config.toml:4:16
      |
    4 | max_cost_usd = -0.5
      |                ^^^^ invalid value: floating point `-0.5`, expected an amount from 0.0 to 1000000
      |
      = help: the default is: 10.0
    "#);
    insta::assert_snapshot!(refused("loop = 3\nagents = []\n"), @"
    error: invalid value for `loop`
     --> config.toml:1:8
      |
    1 | loop = 3
      |        ^ invalid type: integer `3`, expected a table
      |
      = help: settings in [loop]: max_fix_cycles, max_total_fixes, max_run_s, max_tokens, max_cost_usd, max_cost_usd_per_day, timezone, on_max_cycles, severity_threshold, max_gate_rounds, main_checkout, enabled, self_review_before_pr, auto_address_review_comments, skip_tests, notify_on_ready, notification_channels

    error: invalid value for `agents`
     --> config.toml:2:10
      |
    2 | agents = []
      |          ^^ invalid type: sequence, expected a map
      |
      = help: use one table for each: [agents.NAME]
    ");
    insta::assert_snapshot!(refused("gates = ['cargo test', []]\n"), @r#"
    error: invalid value for `gates[0]`
     --> config.toml:1:10
      |
    1 | gates = ['cargo test', []]
      |          ^^^^^^^^^^^^ invalid type: string "cargo test", expected a list of words that starts with the program, such as ["cargo", "test"]
    "#);
    insta::assert_snapshot!(refused("[agents.a]\nkind = 'command'\nenv = []\n"), @"
    error: the agent `a` has no `command`
     --> config.toml:1:9
      |
    1 | [agents.a]
      |         ^
      |
      = help: an agent of kind `command` needs one: a list with the program and its arguments
    ");
    for text in [
        "dispatch.slots = 0",
        "dispatch.slots = 65",
        "dispatch.slots = 1.5",
        "dispatch.lease_s = 2",
        "dispatch.lease_s = 99999999999999999999",
        "loop.max_run_s = 0",
        "loop.max_cost_usd = nan",
        "loop.max_cost_usd = inf",
        "projects.p.max_fix_cycles = 101",
        "projects.p.gates = [['']]",
        "agents.a = { kind = 'command', command = [] }",
        "agents.a = { kind = 'claude', command = [] }",
        "agents.a = { kind = 'claude', max_turns = 0 }",
        "agents.a = { kind = 'claude', max_cost_usd = -1 }",
        "agents.a = { kind = 'claude', max_retries = 101 }",
        "agents.a = { kind = 'claude', api_timeout_s = 0 }",
        "agents.a = { kind = 'claude', allow = 'Bash' }",
        "agents.a = { kind = 'oracle', command = ['a'] }",
        "blackboard = 3",
        "setup = ['']",
        "setup = 'npm ci'",
        "projects.p.setup = [' ', 'x']",
        "github.gh = []",
        "github.bots = [0]",
        "github.bots = [1.5]",
        "github.reserve = -1",
        "push.max_files = 0",
        "push.max_file_kb = 102401",
        "push.secrets = 'no'",
        "projects.p.push.max_files = 0",
        "projects.p.push = 3",
        "projects.p.discover.max_open = 0",
        "projects.p.discover = true",
    ] {
        assert!(refused(text).contains("invalid value for"), "{text}");
    }
}

#[test]
fn wrong_words() {
    insta::assert_snapshot!(refused("[loop]\non_max_cycles = 'give_up'\n[log]\nlevel = 'loud'\n"), @r#"
    error: invalid value for `loop.on_max_cycles`
     --> config.toml:2:17
      |
    2 | on_max_cycles = 'give_up'
      |                 ^^^^^^^^^ unknown on_max_cycles `give_up`; allowed: escalate, pr_anyway
      |
      = help: the default is: "escalate"

    error: invalid value for `log.level`
     --> config.toml:4:9
      |
    4 | level = 'loud'
      |         ^^^^^^ unknown level `loud`; allowed: error, warn, info, debug, trace
      |
      = help: the default is: "info"
    "#);
    insta::assert_snapshot!(refused("[projects.\"a.b\"]\nseverity_threshold = 'Medium'\n"), @r#"
    error: invalid value for `projects."a.b".severity_threshold`
     --> config.toml:2:22
      |
    2 | severity_threshold = 'Medium'
      |                      ^^^^^^^^ unknown severity `Medium`; allowed: critical, high, medium, low, suggestion
    "#);
}

#[test]
fn settings_that_do_not_go_together() {
    insta::assert_snapshot!(refused("[dispatch]\nbackoff_first_s = 7200\n[limits]\nfix_s = 10\nreview_s = 20\n"), @"
    error: `dispatch.backoff_first_s` (7200) is more than `dispatch.backoff_max_s` (3600)
     --> config.toml:2:19
      |
    2 | backoff_first_s = 7200
      |                   ^^^^
      |
      = help: the first delay cannot be longer than the maximum

    error: `limits.grace_s` (10) is not less than `limits.fix_s` (10)
     --> config.toml:4:9
      |
    4 | fix_s = 10
      |         ^^
      |
      = help: the time between SIGTERM and SIGKILL must be shorter than the limit

    error: `limits.idle_s` (600) is more than `limits.review_s` (20)
     --> config.toml:5:12
      |
    5 | review_s = 20
      |            ^^
      |
      = help: no run can be idle for longer than its own time limit
    ");
    insta::assert_snapshot!(refused("[loop]\nmax_total_fixes = 1\n[projects.p]\nmax_fix_cycles = 50\n"), @"
    error: `loop.max_fix_cycles` (2) is more than `loop.max_total_fixes` (1)
     --> config.toml:2:19
      |
    2 | max_total_fixes = 1
      |                   ^
      |
      = help: a round cannot have more fixes than the change in total

    error: `projects.p.max_fix_cycles` (50) is more than `loop.max_total_fixes` (1)
     --> config.toml:4:18
      |
    4 | max_fix_cycles = 50
      |                  ^^
      |
      = help: a round cannot have more fixes than the change in total
    ");
    insta::assert_snapshot!(refused("loop.max_fix_cycles = 3\n[projects.p]\nmax_total_fixes = 2\n"), @"
    error: `loop.max_fix_cycles` (3) is more than `projects.p.max_total_fixes` (2)
     --> config.toml:3:19
      |
    3 | max_total_fixes = 2
      |                   ^
      |
      = help: a round cannot have more fixes than the change in total
    ");
}

#[test]
fn a_default_that_is_wrong_is_told_without_a_line() {
    let complaint = check::Complaint {
        keys: vec![KeyPath::dotted("limits.idle_s")],
        title: "`limits.idle_s` is wrong".into(),
        help: "mend it".into(),
    };
    insta::assert_snapshot!(parse::refuse(None, "", vec![complaint]), @"
    error: `limits.idle_s` is wrong
     |
     = help: mend it
    ");
}

#[test]
fn an_agent_that_is_not_there() {
    insta::assert_snapshot!(refused("agent = 'claude'\n"), @"
    error: `agent` names the unknown agent `claude`
     --> config.toml:1:9
      |
    1 | agent = 'claude'
      |         ^^^^^^^^
      |
      = help: no agents are configured; add a table [agents.claude]
    ");
    let agents = "[agents.claude]\nkind = 'command'\ncommand = ['claude']\n[projects.p]\nreview_agent = 'codex'\n";
    insta::assert_snapshot!(refused(agents), @"
    error: `projects.p.review_agent` names the unknown agent `codex`
     --> config.toml:5:16
      |
    5 | review_agent = 'codex'
      |                ^^^^^^^
      |
      = help: agents: claude
    ");
    insta::assert_snapshot!(refused("[agents.\"\"]\nkind = 'command'\ncommand = ['claude']\n"), @r#"
    error: `agents.""` has an empty name
     --> config.toml:1:9
      |
    1 | [agents.""]
      |         ^^
      |
      = help: names must not be empty
    "#);
}

#[test]
fn a_variable_that_no_agent_gets() {
    let text = "[agents.a]\nkind = 'command'\ncommand = ['a']\nenv = ['A_KEY', 'GH_TOKEN', 'SSH_AUTH_SOCK', 'K=v']\n";
    insta::assert_snapshot!(refused(text), @"
    error: cannot pass the variable `GH_TOKEN` to the agent `a`
     --> config.toml:4:17
      |
    4 | env = ['A_KEY', 'GH_TOKEN', 'SSH_AUTH_SOCK', 'K=v']
      |                 ^^^^^^^^^^
      |
      = help: tokens for the forge are never passed to agents: remand pushes and comments, not the agent

    error: cannot pass the variable `SSH_AUTH_SOCK` to the agent `a`
     --> config.toml:4:29
      |
    4 | env = ['A_KEY', 'GH_TOKEN', 'SSH_AUTH_SOCK', 'K=v']
      |                             ^^^^^^^^^^^^^^^
      |
      = help: it would give the agent access to your keys: remand pushes, not the agent

    error: cannot pass the variable `K=v` to the agent `a`
     --> config.toml:4:46
      |
    4 | env = ['A_KEY', 'GH_TOKEN', 'SSH_AUTH_SOCK', 'K=v']
      |                                              ^^^^^
      |
      = help: give only the name of the variable: letters, digits and underscores
    ");
}

#[test]
fn a_bot_is_a_number_or_a_preset() {
    insta::assert_snapshot!(refused("[github]\nbots = ['coderabbitai[bot]']\nbot_presets = ['coderabit']\nreviews = 'approve'\n"), @r#"
    error: invalid value for `github.bots[0]`
     --> config.toml:2:9
      |
    2 | bots = ['coderabbitai[bot]']
      |         ^^^^^^^^^^^^^^^^^^^ invalid type: string "coderabbitai[bot]", expected a whole number from 1 to 9007199254740991

    error: invalid value for `github.bot_presets[0]`
     --> config.toml:3:16
      |
    3 | bot_presets = ['coderabit']
      |                ^^^^^^^^^^^ unknown bot preset `coderabit`; allowed: coderabbit, codex, copilot, cursor, gemini-code-assist, greptile, qodo, sourcery

    error: invalid value for `github.reviews`
     --> config.toml:4:11
      |
    4 | reviews = 'approve'
      |           ^^^^^^^^^ unknown review posting mode `approve`; allowed: request_changes, comment, off
      |
      = help: the default is: "request_changes"
    "#);
}

#[test]
fn tables_of_a_project() {
    insta::assert_snapshot!(refused("[projects.p.push]\nforbiden = []\n[projects.p.discover]\nlabels = ['x']\n"), @"
    error: unknown setting `projects.p.push.forbiden`
     --> config.toml:2:1
      |
    2 | forbiden = []
      | ^^^^^^^^ did you mean `forbidden`?
      |
      = help: settings in [projects.p.push]: forbidden, max_file_kb, max_files, max_total_kb, secrets

    error: unknown setting `projects.p.discover.labels`
     --> config.toml:4:1
      |
    4 | labels = ['x']
      | ^^^^^^ did you mean `label`?
      |
      = help: settings in [projects.p.discover]: label, authors, branches, drafts, max_open
    ");
}

#[test]
fn patterns_logins_and_paths() {
    let text = "setup_again_on = ['/etc/x']\npush.forbidden = ['a', 'b/']\n[projects.p]\nsetup_again_on = ['']\npush.forbidden = ['[a]']\n[projects.p.discover]\nauthors = ['@ada']\nbranches = ['x**']\nlabel = 'a,b'\n";
    insta::assert_snapshot!(refused(text), @"
    error: `setup_again_on[0]` cannot be `/etc/x`
     --> config.toml:1:19
      |
    1 | setup_again_on = ['/etc/x']
      |                   ^^^^^^^^
      |
      = help: use a path relative to the top of the repository, without empty parts, `.` or `..`; for a whole directory, use `directory/**`

    error: `push.forbidden[1]` cannot be `b/`
     --> config.toml:2:24
      |
    2 | push.forbidden = ['a', 'b/']
      |                        ^^^^
      |
      = help: use a path relative to the top of the repository, without empty parts, `.` or `..`; for a whole directory, use `directory/**`

    error: `projects.p.setup_again_on[0]` cannot be ``
     --> config.toml:4:19
      |
    4 | setup_again_on = ['']
      |                   ^^
      |
      = help: a path must not be empty or contain control characters

    error: `projects.p.push.forbidden[0]` cannot be `[a]`
     --> config.toml:5:19
      |
    5 | push.forbidden = ['[a]']
      |                   ^^^^^
      |
      = help: only `*`, `?` and `**` are wildcards, and they cannot be escaped

    error: `projects.p.discover.authors[0]` cannot be `@ada`
     --> config.toml:7:12
      |
    7 | authors = ['@ada']
      |            ^^^^^^
      |
      = help: use a login name without `@`: letters, digits, `-` and `_`; a bot's name ends with `[bot]`

    error: `projects.p.discover.branches[0]` cannot be `x**`
     --> config.toml:8:13
      |
    8 | branches = ['x**']
      |             ^^^^^
      |
      = help: `**` matches whole directories and must be a complete path component

    error: `projects.p.discover.label` cannot be `a,b`
     --> config.toml:9:9
      |
    9 | label = 'a,b'
      |         ^^^^^
      |
      = help: a label has at most 50 characters, no commas, and no spaces at either end
    ");
}

#[test]
fn a_file_that_is_not_toml() {
    let error = parse::read(
        Some(Path::new("config.toml")),
        "[loop]\nmax_fix_cycles = \n",
    )
    .err()
    .unwrap();
    assert!(matches!(error, ConfigError::Syntax(_)));
    insta::assert_snapshot!(error, @"
    error: invalid TOML
     --> config.toml:2:18
      |
    2 | max_fix_cycles = 
      |                  ^ string values must be quoted, expected literal string
    ");
    let twice = parse::read(Some(Path::new("config.toml")), "agent = ''\nagent = ''\n")
        .err()
        .unwrap();
    insta::assert_snapshot!(twice, @"
    error: invalid TOML
     --> config.toml:2:1
      |
    2 | agent = ''
      | ^^^^^ duplicate key
    ");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(100))]

    /// Whatever is in the file, it is accepted or rejected with a text.
    #[test]
    fn no_file_is_too_strange(start in 0..12000_usize, length in 0..40_usize, put in "[ -~éü\\n\\r\u{9b}]{0,9}") {
        let mut text: Vec<char> = default_text().chars().collect();
        let start = start.min(text.len());
        let end = (start + length).min(text.len());
        text.splice(start..end, put.chars());
        let text: String = text.into_iter().collect();
        if let Err(error) = parse::read(Some(Path::new("config.toml")), &text) {
            assert!(error.to_string().starts_with("error: "));
        }
    }
}
