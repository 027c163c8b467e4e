//! The remand binary. It only selects the entry point for its arguments.

use std::process::ExitCode;

use rustix::fs::Mode;

fn main() -> ExitCode {
    // Set before anything is written: remand's data and the output of agents are private.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == "__shim" && args.len() == 0 => remand::shim(),
        Some(first) if first == "__gh" => remand::gh(args.collect()),
        _ => remand::main(),
    }
}
