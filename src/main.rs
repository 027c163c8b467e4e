//! The program. All it does by itself is to tell apart what it was started as.

use std::process::ExitCode;

use rustix::fs::Mode;

fn main() -> ExitCode {
    // Before anything is written: what remand knows and what agents say is for nobody else.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    let mut args = std::env::args_os().skip(1);
    match args.next() {
        Some(first) if first == "__shim" && args.len() == 0 => remand::shim(),
        Some(first) if first == "__gh" => remand::gh(args.collect()),
        _ => remand::main(),
    }
}
