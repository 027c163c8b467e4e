//! File with the login variables of agents, which the unit reads.

use std::path::Path;

use anyhow::Result;

use super::{read, write};
use crate::cli::frame::CommandError;

/// Writes these variables to the file, which only its owner can read. Other lines are kept.
pub(super) fn write_logins(file: &Path, logins: &[(String, String)]) -> Result<()> {
    let before = read(file)?.unwrap_or_default();
    let is_kept = |line: &&str| {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        !logins.iter().any(|(login, _)| login == name)
    };
    let mut lines: Vec<String> = before.lines().filter(is_kept).map(str::to_owned).collect();
    for (name, value) in logins {
        lines.push(format!("{name}={}", quoted(name, value)?));
    }
    write(file, &format!("{}\n", lines.join("\n")), 0o600)
}

/// Quotes a value for an environment file of systemd.
fn quoted(name: &str, value: &str) -> Result<String> {
    if value.chars().any(char::is_control) {
        return CommandError::new(format!(
            "{name} contains a control character, which is not allowed in an environment file"
        ))
        .fail_with_hint("unset it, or install without --with-logins");
    }
    let mut quoted = String::from("\"");
    for letter in value.chars() {
        if matches!(letter, '"' | '\\' | '$' | '`') {
            quoted.push('\\');
        }
        quoted.push(letter);
    }
    quoted.push('"');
    Ok(quoted)
}
