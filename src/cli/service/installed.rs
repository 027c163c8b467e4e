//! Units installed on this machine, for this user and system-wide.

use std::path::{Path, PathBuf};

use super::{RUN_AS, read, target};
use crate::config::{self, ConfigLocation, SettingsOwner};
use crate::daemon;
use crate::service_unit::{self, Installed, Kind};
use crate::text::prefixed;

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

/// Kind of unit that this system uses.
pub(super) const NATIVE: Kind = if cfg!(target_os = "macos") {
    Kind::Launchd
} else {
    Kind::Systemd
};

impl FoundUnit {
    /// Returns the installed unit. One that cannot be read counts as missing.
    pub(crate) fn of(owner: Owner) -> Option<Self> {
        let file = file(NATIVE, owner, None)?;
        let text = read(&file).ok()??;
        Some(Self {
            kind: NATIVE,
            owner,
            says: service_unit::installed(NATIVE, &text),
            file,
        })
    }

    /// Blackboard that its daemon uses.
    fn blackboard(&self) -> Option<PathBuf> {
        if self.says.db.is_some() {
            return self.says.db.clone();
        }
        let place = ConfigLocation {
            config: self.says.config.clone(),
            db: None,
        };
        let home = target::home_of(self.says.user.as_deref()?, None)?;
        Some(
            SettingsOwner::User { home: &home }
                .load(&place)
                .ok()?
                .blackboard,
        )
    }

    /// Command that lets the daemon write to projects added after the service was installed.
    fn install_again(&self) -> String {
        let run_as = self.says.user.as_ref().filter(|user| *user != RUN_AS);
        let run_as = prefixed(" --run-as ", run_as);
        format!("sudo remand service install --system{run_as}")
    }

    pub(crate) fn restart_command(&self) -> String {
        match (self.kind, self.owner) {
            (Kind::Systemd, Owner::User) => "systemctl --user restart remand.service".to_owned(),
            (Kind::Systemd, Owner::Machine) => "sudo systemctl restart remand.service".to_owned(),
            (Kind::Launchd, Owner::User) => {
                format!(
                    "launchctl kickstart -k gui/{}/remand",
                    rustix::process::getuid().as_raw()
                )
            }
            (Kind::Launchd, Owner::Machine) => {
                "sudo launchctl kickstart -k system/remand".to_owned()
            }
        }
    }
}

/// Path of a unit, installed or not. `None` if there is no home directory.
pub(super) fn file(kind: Kind, owner: Owner, root: Option<&Path>) -> Option<PathBuf> {
    let below = |path: &str| root.unwrap_or(Path::new("/")).join(path);
    Some(match (kind, owner) {
        (Kind::Systemd, Owner::User) => config::config_home()?.join("systemd/user/remand.service"),
        (Kind::Systemd, Owner::Machine) if root.is_some() => {
            below("etc/systemd/system/remand.service")
        }
        (Kind::Systemd, Owner::Machine) => config::machine_units().join("remand.service"),
        (Kind::Launchd, Owner::User) => config::home()?.join("Library/LaunchAgents/remand.plist"),
        (Kind::Launchd, Owner::Machine) => below("Library/LaunchDaemons/remand.plist"),
    })
}

/// A system daemon that uses a blackboard other than that of the current command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    user: String,
    blackboard: PathBuf,
}

impl Elsewhere {
    /// Returns `None` while a daemon runs on `blackboard`: then that is the one the user means.
    pub(crate) fn than(blackboard: &Path) -> Option<Self> {
        if daemon::holder(blackboard).is_some() {
            return None;
        }
        let unit = FoundUnit::of(Owner::Machine).filter(|unit| unit.says.is_ours)?;
        let other = unit.blackboard().filter(|other| other != blackboard)?;
        Some(Self {
            user: unit.says.user.unwrap_or_else(|| "root".to_owned()),
            blackboard: other,
        })
    }

    pub(crate) fn sentence(&self) -> String {
        let Self { user, blackboard } = self;
        format!(
            "the system service runs as `{user}` and uses {}",
            blackboard.display()
        )
    }

    pub(crate) fn remedy(&self) -> String {
        format!(
            "use that one with `{}`",
            target::on_blackboard(&self.user, &self.blackboard, "")
        )
    }
}

/// Returns the system unit, if remand wrote it and its daemon uses this blackboard.
fn bounded_unit(blackboard: &Path) -> Option<FoundUnit> {
    let unit = FoundUnit::of(Owner::Machine)
        .filter(|unit| unit.says.is_ours && unit.kind == Kind::Systemd)?;
    (unit.blackboard()? == blackboard).then_some(unit)
}

/// Hint for a project that this daemon cannot write to, if the system unit started it.
pub(crate) fn write_remedy(blackboard: &Path) -> Option<String> {
    config::supervision().socket?;
    let unit = bounded_unit(blackboard)?;
    Some(format!(
        "run `{}` and `{}` to make projects added after the installation writable",
        unit.install_again(),
        unit.restart_command()
    ))
}

/// Warning and hint when adding a project that the installed unit does not let its daemon write to.
pub(crate) fn outside_of_unit(blackboard: &Path, repository: &Path) -> Option<(String, String)> {
    let unit = bounded_unit(blackboard)?;
    let is_inside = |outer: &PathBuf| repository.starts_with(outer);
    if unit.says.writable.iter().any(is_inside) || repository.starts_with(target::STATE) {
        return None;
    }
    let what = format!(
        "the installed service cannot write to {} yet",
        repository.display()
    );
    Some((
        what,
        format!(
            "run `{}`, then `{}`",
            unit.install_again(),
            unit.restart_command()
        ),
    ))
}
