//! Git settings that decide where a push goes and which program supplies a password.
//!
//! The user's settings are respected, so an agent that can write them could have the credentials
//! sent elsewhere.

use std::collections::BTreeSet;

use super::{Remote, Result, url};

/// Keys, or prefixes of keys, as printed by git.
const DECIDE: &[&str] = &[
    "core.alternaterefscommand",
    "core.askpass",
    "core.gitproxy",
    "core.sshcommand",
    "credential.",
    "http.",
    "include.",
    "includeif.",
    "protocol.",
    "remote.",
    "ssh.",
    "url.",
];

/// Settings that affect a push, without their values, which may be secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PushSettings {
    /// Hash of all keys and values, in order.
    pub(crate) fingerprint: String,
    /// Unique keys, sorted.
    pub(crate) keys: Vec<String>,
}

impl Remote {
    /// Reads the user's and the system's configuration, with all included files, as a push would.
    pub(crate) async fn push_settings(&self) -> Result<PushSettings> {
        self.check()?;
        let args = ["config", "--list", "-z", "--show-scope", "--includes"];
        let ended = self.run("config", &args, &[], self.environment()).await?;
        let listed = self.output("config", ended)?;
        let deciding = deciding(&listed);
        let keys = deciding.iter().map(|entry| shown_key(key(entry)));
        let keys: BTreeSet<String> = keys.collect();
        let bytes = deciding.join("\0").into_bytes();
        Ok(PushSettings {
            fingerprint: self.git.id_of(&self.place, bytes).await?,
            keys: keys.into_iter().collect(),
        })
    }
}

/// Parses `scope NUL key LF value NUL`. Entries of scope `command` are remand's own.
fn deciding(listed: &str) -> Vec<&str> {
    let mut fields = listed.split('\0');
    let mut entries = Vec::new();
    while let (Some(scope), Some(entry)) = (fields.next(), fields.next()) {
        let key = key(entry);
        let decides = |name: &&str| key == *name || (name.ends_with('.') && key.starts_with(name));
        if scope != "command" && DECIDE.iter().any(decides) {
            entries.push(entry);
        }
    }
    entries
}

fn key(entry: &str) -> &str {
    entry.split('\n').next().unwrap_or_default()
}

/// Returns a key for display: it may contain a URL, and that a password.
fn shown_key(key: &str) -> String {
    crate::secret_scan::hide(&url::without_userinfo(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_decides_a_push_counts() {
        let listed = "system\0core.editor\nvi\0global\0credential.helper\nstore\0global\0user.name\nAda\0\
            global\0url.https://u:p@h/.insteadof\nx\0command\0http.lowspeedlimit\n100\0local\0core.sshcommand\nssh\0\
            local\0core.sshcommandx\ny\0";
        let found = deciding(listed);
        assert_eq!(
            found,
            [
                "credential.helper\nstore",
                "url.https://u:p@h/.insteadof\nx",
                "core.sshcommand\nssh"
            ]
        );
        assert_eq!(
            shown_key("url.https://u:p@h/.insteadof"),
            "url.https://h/.insteadof"
        );
    }
}
