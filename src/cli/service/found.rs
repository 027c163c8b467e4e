//! The units that are installed on this machine, for this user and for the machine.

use std::path::PathBuf;

use super::read;
use crate::config;
use crate::unit::{self, Installed, Kind};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    User,
    Machine,
}

/// An installed unit or property list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundUnit {
    pub(crate) kind: Kind,
    pub(crate) owner: Owner,
    pub(crate) file: PathBuf,
    pub(crate) says: Installed,
}

/// The kind that this system uses.
pub(super) const NATIVE: Kind = if cfg!(target_os = "macos") { Kind::Launchd } else { Kind::Systemd };

impl FoundUnit {
    /// The unit that is there. One that can't be read counts as missing.
    pub(crate) fn of(owner: Owner) -> Option<Self> {
        let file = file(NATIVE, owner)?;
        let text = read(&file).ok()??;
        Some(Self { kind: NATIVE, owner, says: unit::installed(NATIVE, &text), file })
    }

    pub(crate) fn restart_command(&self) -> String {
        match (self.kind, self.owner) {
            (Kind::Systemd, Owner::User) => "systemctl --user restart remand.service".to_owned(),
            (Kind::Systemd, Owner::Machine) => "sudo systemctl restart remand.service".to_owned(),
            (Kind::Launchd, Owner::User) => {
                format!("launchctl kickstart -k gui/{}/remand", rustix::process::getuid().as_raw())
            }
            (Kind::Launchd, Owner::Machine) => "sudo launchctl kickstart -k system/remand".to_owned(),
        }
    }
}

fn file(kind: Kind, owner: Owner) -> Option<PathBuf> {
    Some(match (kind, owner) {
        (Kind::Systemd, Owner::User) => config::config_home()?.join("systemd/user/remand.service"),
        (Kind::Systemd, Owner::Machine) => config::machine_units().join("remand.service"),
        (Kind::Launchd, Owner::User) => config::home()?.join("Library/LaunchAgents/remand.plist"),
        (Kind::Launchd, Owner::Machine) => "/Library/LaunchDaemons/remand.plist".into(),
    })
}
