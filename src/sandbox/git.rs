//! Confines git in a repository that an agent can write: such a repository can name commands that
//! git starts.
//!
//! They run with the view of an agent, without its state and its network, and are terminated
//! together with git.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::bubblewrap::{self, Arguments};
use super::{Backend, Bubblewrap, Network, Sandbox, Unconfined};
use crate::process::{self, Short};
use crate::sandbox_settings::Mounts;

/// Paths that one git call needs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct GitReach {
    pub(crate) worktree: PathBuf,
    pub(crate) repository: PathBuf,
    pub(crate) write: Vec<PathBuf>,
    pub(crate) read: Vec<PathBuf>,
}

impl Sandbox {
    /// Returns true if git runs unconfined because there is no sandbox.
    pub(crate) async fn is_open(&self) -> Result<bool, String> {
        let way = self.way().await.map_err(Unconfined::to_string)?;
        Ok(matches!(way, Backend::Open(_)))
    }

    /// Returns the same git call, confined.
    pub(crate) async fn confine_git(
        &self,
        mut short: Short,
        reach: &GitReach,
    ) -> Result<Short, String> {
        let path = short.env.get(std::ffi::OsStr::new("PATH")).cloned();
        let Some(found) = process::find(&short.program, path.as_deref(), &short.cwd) else {
            // Starting it gives a better error for the missing program than a sandbox does.
            return Ok(short);
        };
        let words: Vec<OsString> = match self.way().await.map_err(Unconfined::to_string)? {
            Backend::Open(_) => return Ok(short),
            Backend::Wrapper(words) => {
                for (name, path) in [
                    ("REMAND_WORKTREE", &reach.worktree),
                    ("REMAND_REPOSITORY", &reach.repository),
                ] {
                    short.env.insert(name.into(), path.into());
                }
                short.env.insert("REMAND_PHASE".into(), "git".into());
                words.iter().map(OsString::from).collect()
            }
            Backend::Bubblewrap(bubblewrap) => {
                let programs = bubblewrap::programs(&found, path.as_deref());
                let words = words(bubblewrap, &self.settings.mounts, &programs, reach);
                let words = words.before(&short.cwd, Vec::new()).into_iter();
                words.map(OsString::from).collect()
            }
        };
        let mut words = words.into_iter();
        let Some(first) = words.next() else {
            return Ok(short);
        };
        let own = std::iter::once(found.into_os_string()).chain(std::mem::take(&mut short.args));
        short.args = words.chain(own).collect();
        short.program = first;
        short.is_wrapped = true;
        Ok(short)
    }
}

fn words(
    bubblewrap: &Bubblewrap,
    sight: &Mounts,
    programs: &[PathBuf],
    reach: &GitReach,
) -> Arguments {
    let network = if bubblewrap.can_cut_network {
        Network::Cut
    } else {
        Network::Shared
    };
    let mut words = Arguments::new(&bubblewrap.program, bubblewrap::cut(network));
    // Neither `--die-with-parent` nor `--new-session`: the former is tied to the thread that
    // started it, and with the latter the process that holds the namespace would leave the group,
    // which is killed when the call ends.
    let sight = Mounts {
        write: Vec::new(),
        ..sight.clone()
    };
    words.hide_and_show(&sight, programs);
    let mut mounts: Vec<(&PathBuf, &str)> = Vec::new();
    mounts.extend(reach.read.iter().map(|path| (path, "--ro-bind-try")));
    mounts.extend(reach.write.iter().map(|path| (path, "--bind-try")));
    // A directory comes before its contents.
    mounts.sort();
    mounts.dedup();
    let is_inside = |path: &Path| {
        let mut write = reach.write.iter();
        write.any(|outer| path.starts_with(outer) && path != outer)
    };
    for (path, word) in mounts.into_iter().filter(|(path, _)| !is_inside(path)) {
        words.show(word, path);
    }
    words
}
