//! Every effective setting and its origin, for `config show`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Value;

use super::{Loaded, Origin};
use crate::toml_path::KeyPath;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Dotted key, such as `loop.max_fix_cycles`.
    pub(crate) key: String,
    /// Value as TOML.
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Changed setting; `None` means that it was or is not set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Difference {
    pub(crate) key: String,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
}

/// Returns the differences between two sets of settings, by key. Values are TOML.
pub(crate) fn differences(
    from: &BTreeMap<String, String>,
    to: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let keys = from
        .keys()
        .chain(to.keys().filter(|key| !from.contains_key(*key)));
    keys.filter(|key| from.get(*key) != to.get(*key))
        .map(|key| Difference {
            key: key.clone(),
            from: from.get(key).cloned(),
            to: to.get(key).cloned(),
        })
        .collect()
}

impl Loaded {
    /// Returns every setting by its key, as TOML.
    pub(crate) fn values(&self) -> BTreeMap<String, String> {
        self.explain()
            .into_iter()
            .map(|setting| (setting.key, setting.value))
            .collect()
    }

    /// Returns all settings in the order of `config.toml`. Locations of remand's files are shown as
    /// resolved.
    pub(crate) fn explain(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        // Settings that were read from TOML can be written as TOML.
        let table = toml::Table::try_from(&self.config).unwrap_or_default();
        self.explain_table(&table, &KeyPath::default(), &mut settings);
        settings
    }

    fn explain_table(&self, table: &toml::Table, at: &KeyPath, settings: &mut Vec<Setting>) {
        for (key, value) in table {
            let path = at.key(key);
            if let Value::Table(inner) = value {
                self.explain_table(inner, &path, settings);
            } else {
                settings.push(self.setting(path.to_string(), value));
            }
        }
    }

    pub(super) fn origin_of(&self, key: &str) -> Origin {
        match (key, &self.file, self.lines.get(key)) {
            ("blackboard", _, _) => self.blackboard_from.clone(),
            (_, Some(file), Some(line)) => Origin::File {
                path: file.clone(),
                line: *line,
            },
            _ => Origin::Default,
        }
    }

    fn setting(&self, key: String, value: &Value) -> Setting {
        let place = match key.as_str() {
            "blackboard" => Some(self.blackboard.clone()),
            "evaluators" => self.evaluators.clone(),
            "prompts" => self.prompts.clone(),
            "own_worktrees" => value.as_str().map(|set| self.own_worktrees(set)),
            _ => None,
        };
        let origin = self.origin_of(&key);
        let value = match place {
            Some(path) => Value::String(path.display().to_string()).to_string(),
            None => value.to_string(),
        };
        Setting { key, value, origin }
    }
}
