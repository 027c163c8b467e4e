//! Settings of another user than the one who runs this process, for a daemon that will run as that user.

use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::error::ConfigError;
use super::{ConfigLocation, Loaded, Origin, blackboard_despite_in, load_from, load_in, location};

/// Whose environment decides where settings and blackboard are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SettingsOwner<'a> {
    /// That of this process.
    Caller,
    /// That of a user with this home, as a service starts them: no variable of remand or of the XDG rules is set.
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

    /// Of another user only the named config file is read, since their home may be one of another machine.
    pub(crate) fn load(self, place: &ConfigLocation) -> Result<Loaded, ConfigError> {
        let environment = self.environment();
        match self {
            Self::Caller => load_in(place, &environment),
            Self::User { .. } => load_from(place, &environment, place.config.clone()),
        }
    }

    /// The defaults where the config file is broken, with the file's path and, as far as it can be read, its blackboard.
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

    /// Where the config file is looked for when nobody names one.
    pub(crate) fn usual_file(self) -> Option<PathBuf> {
        location::usual_file(&self.environment())
    }

    /// Where the blackboard is when nobody names one.
    pub(crate) fn usual_blackboard(self) -> Option<PathBuf> {
        location::usual_blackboard(&self.environment())
    }
}
