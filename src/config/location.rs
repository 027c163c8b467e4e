//! Locations of the config file, the blackboard and the user's directories.

use std::fmt;
use std::path::{Path, PathBuf};

use super::check::Complaint;
use super::environment::Environment;
use super::error::ConfigError;
use super::parse::Read;
use crate::toml_path::KeyPath;

/// Locations given on the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ConfigLocation {
    /// `--config`
    pub(crate) config: Option<PathBuf>,
    /// `--db`
    pub(crate) db: Option<PathBuf>,
}

/// Origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Default,
    File { path: PathBuf, line: usize },
    Variable(&'static str),
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// Returns the config file. A named one must exist; the one in the default directory may be
/// missing.
pub(super) fn config_file(
    place: &ConfigLocation,
    environment: &Environment,
) -> Result<Option<PathBuf>, ConfigError> {
    if let Some((path, named_by)) = named_file(place, environment) {
        return match path.exists() {
            true => Ok(Some(path)),
            false => Err(ConfigError::NotFound { path, named_by }),
        };
    }
    Ok(usual_file(environment).filter(|path| path.exists()))
}

/// Returns the config file that the user named, and how it was named.
pub(super) fn named_file(
    place: &ConfigLocation,
    environment: &Environment,
) -> Option<(PathBuf, &'static str)> {
    let flag = place.config.clone().map(|path| (path, "--config"));
    let variable = environment.path("REMAND_CONFIG");
    let named = flag.or_else(|| variable.map(|path| (path, "REMAND_CONFIG")));
    named.map(|(path, named_by)| (absolute(path), named_by))
}

pub(super) fn usual_file(environment: &Environment) -> Option<PathBuf> {
    usual_folder(environment, "XDG_CONFIG_HOME", ".config").map(|folder| folder.join("config.toml"))
}

pub(super) fn blackboard(
    place: &ConfigLocation,
    environment: &Environment,
    file: Option<&Path>,
    read: &Read,
) -> Result<(PathBuf, Origin), ConfigError> {
    if let Some(path) = &place.db {
        return Ok((absolute(path.clone()), Origin::Flag("--db")));
    }
    if let Some(path) = environment.path("REMAND_DB") {
        return Ok((absolute(path), Origin::Variable("REMAND_DB")));
    }
    let set = &read.config.blackboard;
    if let (Some(file), Some(line)) = (file, read.lines.get("blackboard"))
        && !set.is_empty()
    {
        let path = resolve(set, Some(file), environment.path("HOME").as_deref());
        let (file, line) = (file.into(), *line);
        return Ok((path, Origin::File { path: file, line }));
    }
    let usual = usual_blackboard(environment).ok_or(ConfigError::NoHome)?;
    Ok((usual, Origin::Default))
}

pub(super) fn usual_blackboard(environment: &Environment) -> Option<PathBuf> {
    usual_folder(environment, "XDG_STATE_HOME", ".local/state")
        .map(|folder| folder.join("blackboard.db"))
}

/// Returns the directory of the user's files at `path` if it exists, as a configured one must.
pub(super) fn folder(
    key: &str,
    set: &str,
    path: Option<&PathBuf>,
) -> Result<Option<PathBuf>, Complaint> {
    match path {
        Some(path) if !set.is_empty() && !path.is_dir() => Err(Complaint {
            keys: vec![KeyPath::dotted(key)],
            title: format!("`{key}`: {} is not a directory", path.display()),
            help: format!("create the directory, or remove `{key}`"),
        }),
        path => Ok(path.filter(|path| path.is_dir()).cloned()),
    }
}
/// Returns a directory of the user's files, even if it does not exist yet: the configured one, or
/// the one next to the config file.
pub(super) fn watched_folder(
    key: &str,
    set: &str,
    file: Option<&Path>,
    home: Option<&Path>,
) -> Option<PathBuf> {
    if set.is_empty() {
        file.and_then(Path::parent).map(|parent| parent.join(key))
    } else {
        Some(resolve(set, file, home))
    }
}

/// Resolves a path from the config file: `~/` is home, a relative path starts at the file's
/// directory.
pub(super) fn resolve(text: &str, file: Option<&Path>, home: Option<&Path>) -> PathBuf {
    let path = match (text.strip_prefix('~'), home) {
        (Some(""), Some(home)) => home.into(),
        (Some(rest), Some(home)) if rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => file
            .and_then(Path::parent)
            .map_or_else(|| PathBuf::from(text), |parent| parent.join(text)),
    };
    absolute(path)
}

/// Returns remand's directory at the platform's usual location. As the XDG specification requires,
/// relative paths in its variables are ignored.
fn usual_folder(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| environment.path(name).filter(|path| path.is_absolute());
    let below_home = if cfg!(target_os = "macos") {
        "Library/Application Support"
    } else {
        below_home
    };
    let parent =
        absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)))?;
    Some(parent.join("remand"))
}

/// Makes a path absolute, because the daemon's children have other working directories.
fn absolute(path: PathBuf) -> PathBuf {
    // This fails for the empty path, or if the working directory is gone: opening the path gives a
    // better error.
    std::path::absolute(&path).unwrap_or(path)
}
