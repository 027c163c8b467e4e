//! remand sends rejected work back to an agent that can fix it, a limited number of times, and to a
//! person if that is not enough. `docs/architecture.md` describes the modules below.

mod agent;
mod agent_kind;
mod blackboard;
mod bounded;
mod branch_name;
mod change;
mod check;
mod cli;
mod clock;
mod closed_enum;
mod config;
mod daemon;
mod demo;
mod diagnostic;
mod discover;
mod dispatch;
mod doctor;
mod evaluator;
mod event;
mod explain;
mod failpoint;
mod files;
mod finding;
mod fingerprint;
mod git;
mod github;
mod glob;
mod heartbeat;
mod human_time;
mod intake;
mod intent;
mod process;
mod project_settings;
mod prompt;
mod proposal;
mod pull_request;
mod remote;
mod review_text;
mod sandbox;
mod sandbox_settings;
mod sanitize;
mod secret;
mod secret_scan;
mod service_unit;
mod state;
mod task;
mod text;
mod toml_path;
mod wake;
mod work;

/// Entry point of `remand __shim`, an internal command.
#[doc(hidden)]
pub fn shim() -> std::process::ExitCode {
    process::shim_main()
}

/// Entry point of `remand __gh FILE …`, the fake GitHub and its `gh` command.
#[doc(hidden)]
pub fn gh(args: Vec<std::ffi::OsString>) -> std::process::ExitCode {
    fake_github::main(args, config::agent_environment(&[]))
}

/// Entry point of the command line.
#[doc(hidden)]
pub fn main() -> std::process::ExitCode {
    cli::main()
}
