//! Protects the memory and environment of this process, which hold the user's tokens, from all
//! other processes of the same user, above all agents.

use std::io;

use rustix::process::{Resource, Rlimit};

use super::{ProcessError, table};

/// Closes this process to other processes.
///
/// No process except root's can read its memory, environment or descriptors from now on, and no
/// core dump is written. A child becomes accessible again as soon as it executes another program.
/// Must be called first in each of remand's processes.
pub(crate) fn close_memory() -> Result<(), ProcessError> {
    let closed = table::close_to_others().and_then(|()| no_core());
    closed.map_err(ProcessError::system("protect this process's memory"))
}

/// Disables core dumps, for systems where the other call does not. Inherited: a program that wants
/// core dumps may enable them again.
fn no_core() -> io::Result<()> {
    let allowed = rustix::process::getrlimit(Resource::Core);
    rustix::process::setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            ..allowed
        },
    )?;
    Ok(())
}
