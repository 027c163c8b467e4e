//! Settings of a user other than the one who runs this process, for a daemon that will run as that
//! user.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::ConfigError;
use super::{ConfigLocation, Loaded, Origin, blackboard_despite_in, load_from, load_in, location};

/// User whose environment decides where settings and blackboard are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SettingsOwner<'a> {
    /// The user of this process.
    Caller,
    /// A user with this home, as a service manager starts them: no variable of remand or XDG is
    /// set.
    User { home: &'a Path },
}

impl SettingsOwner<'_> {
    fn environment(self) -> Environment {
        match self {
            Self::Caller => Environment::of_process(),
            Self::User { home } => Environment {
                vars: [("HOME".to_owned(), home.into())].into(),
            },
        }
    }

    /// Loads the settings. For another user only the named config file is read, since their home
    /// may be on another machine.
    pub(crate) fn load(self, place: &ConfigLocation) -> Result<Loaded, ConfigError> {
        let environment = self.environment();
        match self {
            Self::Caller => load_in(place, &environment),
            Self::User { .. } => load_from(place, &environment, place.config.clone()),
        }
    }

    /// Like `load`, but falls back to the defaults if the config file is broken, with the file's
    /// path and, as far as it can be read, its blackboard.
    pub(crate) fn load_despite(self, place: &ConfigLocation) -> Result<Loaded, ConfigError> {
        let environment = self.environment();
        let mut loaded = load_from(place, &environment, None)?;
        loaded.file = location::config_file(place, &environment)?;
        let blackboard =
            blackboard_despite_in(place, &environment).filter(|path| *path != loaded.blackboard);
        if let (Some(path), Some(blackboard)) = (loaded.file.clone(), blackboard) {
            loaded.blackboard = blackboard;
            loaded.blackboard_from = Origin::File { path, line: 0 };
        }
        Ok(loaded)
    }

    /// Returns the default location of the config file.
    pub(crate) fn usual_file(self) -> Option<PathBuf> {
        location::usual_file(&self.environment())
    }

    /// Returns the default location of the blackboard.
    pub(crate) fn usual_blackboard(self) -> Option<PathBuf> {
        location::usual_blackboard(&self.environment())
    }
}
