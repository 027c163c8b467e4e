//! Tables whose keys are not valid together, and their error messages.

use super::refused::refused;

#[test]
fn a_sandbox_whose_wrapper_and_kind_do_not_go_together() {
    let unused = refused("[sandbox]\nwrapper = [\"jail\"]\n");
    assert!(
        unused.contains("`wrapper` is set but not used") && unused.contains("config.toml:2"),
        "{unused}"
    );
    let missing = refused("[sandbox]\nkind = \"wrapper\"\n");
    assert!(
        missing.contains("without a wrapper") && missing.contains("config.toml:2"),
        "{missing}"
    );
    let unknown = refused("[sandbox]\nkind = \"docker\"\n");
    assert!(unknown.contains("bubblewrap"), "{unknown}");
}

#[test]
fn a_kind_of_agent_has_only_the_settings_that_it_knows() {
    let text = "[agents.a]\nkind = 'command'\ncommand = ['a']\nmax_turns = 3\nallow = []\n";
    insta::assert_snapshot!(refused(text), @"
    error: the agent `a` is of kind `command`, which does not support `max_turns`
     --> config.toml:4:13
      |
    4 | max_turns = 3
      |             ^
      |
      = help: only agents of kind `claude` support it

    error: the agent `a` is of kind `command`, which does not support `allow`
     --> config.toml:5:9
      |
    5 | allow = []
      |         ^^
      |
      = help: only agents of kind `claude` support it
    ");
    let text = "[agents.a]\nkind = 'claude'\napi_timeout_s = 600\n";
    insta::assert_snapshot!(refused(text), @"
    error: `agents.a.api_timeout_s` (600) is not less than `limits.idle_s` (600)
     --> config.toml:3:17
      |
    3 | api_timeout_s = 600
      |                 ^^^
      |
      = help: an agent whose API does not respond would be terminated before it could report that
    ");
}
