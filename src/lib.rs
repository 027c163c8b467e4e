//! remand sends rejected work back to an agent that can fix it, a bounded number of times, and to a
//! person when that is not enough. `docs/architecture.md` is the map of the rooms below.

mod agent;
mod blackboard;
mod change;
mod cli;
mod clock;
mod config;
mod crash;
mod daemon;
mod demo;
mod dispatch;
mod doctor;
mod evaluator;
mod event;
mod files;
mod finding;
mod fingerprint;
mod forge;
mod git;
mod github;
mod heartbeat;
mod intake;
mod keypath;
mod plain;
mod process;
mod prompt;
mod proposal;
mod pull;
mod remote;
mod review;
mod sandbox;
mod secret;
mod snippet;
mod state;
mod unit;
mod wake;
mod words;
mod work;

/// The body of `remand __shim`, which remand starts for itself.
#[doc(hidden)]
pub fn shim() -> std::process::ExitCode {
    process::shim_main()
}

/// The body of `remand __gh FILE …`, a stand-in for the `gh` command and for GitHub behind it.
#[doc(hidden)]
pub fn gh(args: Vec<std::ffi::OsString>) -> std::process::ExitCode {
    forge::gh_main(args, config::agent_environment(&[]))
}

/// The command line.
#[doc(hidden)]
pub fn main() -> std::process::ExitCode {
    cli::main()
}
