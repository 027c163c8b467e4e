//! Conversion of file contents on checkout by attributes of the commit alone: `eol=crlf`, `ident`,
//! `working-tree-encoding`.
//!
//! A fresh clone has these files converted, so a checkout for gates must have them converted too.
//! Filters (`filter=lfs`) are not run: they are commands from a configuration that the commit does
//! not carry.

use std::fs;
use std::path::Path;

use super::bytes::nul_ended;
use super::checkout::{
    Checkout, Entries, Entry, SUBMODULE, blocking, make_folder, quoted, remove_all,
};
use super::command::GitCommand;
use super::fs_nofollow::{at, path_of};
use super::{Git, GitError, Result};

const ATTRIBUTES: [&str; 3] = ["eol", "ident", "working-tree-encoding"];

impl Git {
    /// Sets the hash of each converted entry to that of its converted content, which is in
    /// [`Checkout::converted`] afterwards.
    pub(super) async fn convert(
        &self,
        checkout: &Checkout,
        commit: &str,
        entries: &mut Entries,
    ) -> Result<()> {
        let is_attributes =
            |path: &[u8]| path == b".gitattributes" || path.ends_with(b"/.gitattributes");
        if !entries.keys().any(|path| is_attributes(path)) {
            return Ok(());
        }
        let (folder, place) = (checkout.converted(), checkout.converting());
        blocking(move || remove_all(&folder).and_then(|()| make_folder(&folder))).await?;
        self.read_tree(&place, commit, None).await?;
        let files = entries.iter().filter(|(_, entry)| entry.is_file());
        let list = nul_ended(files.map(|(path, _)| path.as_slice()));
        let call = GitCommand::at(&place, "check-attr --cached --stdin -z").args(ATTRIBUTES);
        let answer = self.bytes(call.env(&no_system()).stdin(list)).await?;
        let converted = read(&answer).ok_or_else(|| GitError::output("check-attr -z", &answer))?;
        if converted.is_empty() {
            return Ok(());
        }
        let list = nul_ended(converted.iter().map(Vec::as_slice));
        // The work tree is empty, so all attributes come from the index.
        let call = GitCommand::at(&place, "checkout-index --force --quiet -z --stdin");
        self.run(call.env(&no_system()).stdin(list)).await?;
        let list = converted.iter().flat_map(|path| quoted(path)).collect();
        let call = GitCommand::at(&place, "hash-object --no-filters --stdin-paths").stdin(list);
        let hashes = self.text(call).await?;
        for (path, hash) in converted.iter().zip(hashes.lines()) {
            if let Some(entry) = entries.get_mut(path) {
                hash.clone_into(&mut entry.blob);
                entry.is_converted = true;
            }
        }
        Ok(())
    }
}

/// Environment that disables system-wide attributes.
fn no_system() -> [(&'static str, String); 1] {
    [("GIT_ATTR_NOSYSTEM", "1".to_owned())]
}

/// Copies a converted file into the tree, where its path is free.
pub(super) fn copy(converted: &Path, tree: &Path, path: &[u8]) -> Result<()> {
    let (from, to) = (converted.join(path_of(path)), tree.join(path_of(path)));
    to.parent().map_or(Ok(()), make_folder)?;
    // This keeps the executable bit.
    fs::copy(&from, &to).map(drop).map_err(at("write", &to))
}

impl Entry {
    fn is_file(&self) -> bool {
        self.mode != SUBMODULE && self.mode != super::checkout::LINK
    }
}

/// Parses `path NUL attribute NUL value NUL`.
fn read(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut fields = bytes.split(|b| *b == 0);
    let mut converted: Vec<Vec<u8>> = Vec::new();
    loop {
        let path = fields.next()?;
        if path.is_empty() {
            return fields.next().is_none().then_some(converted);
        }
        let (name, value) = (fields.next()?, fields.next()?);
        let is_set = match name {
            b"eol" => value == b"crlf",
            _ => value != b"unspecified" && value != b"unset",
        };
        if is_set && converted.last().is_none_or(|last| last != path) {
            converted.push(path.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_convert() {
        let output = b"a\0eol\0crlf\0a\0ident\0set\0b\0eol\0lf\0b\0ident\0unset\0c\0working-tree-encoding\0UTF-16\0";
        assert_eq!(read(output).unwrap(), [b"a".to_vec(), b"c".to_vec()]);
        assert_eq!(read(b""), Some(Vec::new()));
        assert_eq!(read(b"a\0eol\0"), None);
    }
}
