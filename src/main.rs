//! The program. All it does by itself is to tell a shim from everything else.

use std::process::ExitCode;

use rustix::fs::Mode;

fn main() -> ExitCode {
    // Before anything is written: what remand knows and what agents say is for nobody else.
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
    if std::env::args_os().skip(1).eq(["__shim"]) {
        return remand::shim();
    }
    remand::main()
}
