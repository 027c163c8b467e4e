//! The memory and the environment of this process, where the user's tokens are: closed to every other process of the
//! same user, agents first of all.

use std::io;

use rustix::process::{Resource, Rlimit};

use super::{ProcessError, table};

/// From here on no other process can read our memory, our environment or our descriptors, unless it is root's, and no
/// core is left on the disk. A child is as open as any as soon as it is another program. First of all in each of our
/// processes.
pub(crate) fn close_memory() -> Result<(), ProcessError> {
    let closed = table::close_to_others().and_then(|()| no_core());
    closed.map_err(ProcessError::system("close its memory to other processes"))
}

/// For systems where the other does not do it. Inherited: a program that wants a core may allow itself one again.
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
