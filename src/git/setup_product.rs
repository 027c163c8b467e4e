//! Files that a set-up created in a checkout, and whether they are unchanged.
//!
//! A gate can write everywhere in its checkout. A file that it changed has another change time
//! (`ctime`), which no program can set, so neither the contents nor copies of a set-up's files have
//! to be kept.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Result;
use super::bytes::split_once;
use super::fs_nofollow::{FileKind, at, replace_durably};
use crate::files;
use crate::text::joined;

/// File at a path, without following symlinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProductState {
    pub(super) kind: FileKind,
    mode: u32,
    links: u64,
    stamp: Stamp,
}

/// Inode, size and times of a file, of which one differs after every change.
type Stamp = [i128; 6];

/// Everything below a directory, by relative path.
pub(super) type Found = BTreeMap<Vec<u8>, ProductState>;

/// Files and directories that a set-up created.
#[derive(Debug, Clone, Default)]
pub(crate) struct Product {
    /// Paths with their stamps. A directory has none: files created or removed in it are detected
    /// on their own.
    paths: BTreeMap<Vec<u8>, Option<Stamp>>,
}

impl ProductState {
    /// Returns true for a regular file with this executable bit, one name only, and no special
    /// bits.
    pub(super) fn is_plain_file(&self, executable: bool) -> bool {
        let is_executable = self.mode & 0o100 != 0;
        matches!(self.kind, FileKind::File { .. })
            && self.links == 1
            && self.mode & 0o7000 == 0
            && is_executable == executable
    }

    fn of(meta: &Metadata) -> Self {
        Self {
            kind: FileKind::of(meta),
            mode: meta.mode() & 0o7777,
            links: meta.nlink(),
            stamp: [
                meta.ino().into(),
                meta.size().into(),
                meta.mtime().into(),
                meta.mtime_nsec().into(),
                meta.ctime().into(),
                meta.ctime_nsec().into(),
            ],
        }
    }

    fn stamp(&self) -> Option<Stamp> {
        (self.kind != FileKind::Folder).then_some(self.stamp)
    }
}

/// Lists everything below a directory except its `.git`, with relative paths.
pub(super) fn walk(top: &Path) -> Result<Found> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let full = top.join(&folder);
        for name in files::names(&full).map_err(at("read", &full))? {
            let path = folder.join(name);
            if path == Path::new(".git") {
                continue;
            }
            let full = top.join(&path);
            let one = ProductState::of(&full.symlink_metadata().map_err(at("inspect", &full))?);
            found.insert(path.as_os_str().as_bytes().to_vec(), one);
            if one.kind == FileKind::Folder {
                folders.push(path);
            }
        }
    }
    Ok(found)
}

impl Product {
    pub(super) fn new(found: Found) -> Self {
        let found = found.into_iter();
        Self {
            paths: found.map(|(path, state)| (path, state.stamp())).collect(),
        }
    }

    #[cfg(test)]
    pub(super) fn is_nothing(&self) -> bool {
        self.paths.is_empty()
    }

    pub(super) fn has(&self, path: &[u8], found: &ProductState) -> bool {
        self.paths.get(path) == Some(&found.stamp())
    }

    /// Returns true if everything is there unchanged, except for paths that a commit occupies.
    pub(super) fn is_whole(&self, found: &Found, is_committed: impl Fn(&Vec<u8>) -> bool) -> bool {
        let is_there = |path: &Vec<u8>| found.get(path).is_some_and(|found| self.has(path, found));
        let mut paths = self.paths.keys();
        paths.all(|path| is_committed(path) || is_there(path))
    }

    /// Stores the list with the key for which the set-up was run.
    pub(crate) fn store(&self, file: &Path, key: &str) -> Result<()> {
        let mut bytes = key.as_bytes().to_vec();
        bytes.push(0);
        for (path, stamp) in &self.paths {
            let numbers = joined(stamp.iter().flatten(), " ");
            bytes.extend([numbers.as_bytes(), b"\t", path, b"\0"].concat());
        }
        replace_durably(file, &bytes)
    }

    /// Loads the stored list with its key; `None` if there is none or it is unreadable, and then
    /// the set-up runs again.
    pub(crate) fn load(file: &Path) -> Option<(String, Self)> {
        let bytes = files::read(file, files::RECORD).ok()?;
        let mut records = bytes.strip_suffix(b"\0")?.split(|b| *b == 0);
        let key = String::from_utf8(records.next()?.to_vec()).ok()?;
        let paths = records.map(read_record).collect::<Option<_>>()?;
        Some((key, Self { paths }))
    }

    /// Deletes the stored list, so that a set-up that is interrupted from now on runs again.
    pub(crate) fn forget(file: &Path) -> Result<()> {
        super::fs_nofollow::remove(file)
    }
}

fn read_record(record: &[u8]) -> Option<(Vec<u8>, Option<Stamp>)> {
    let (numbers, path) = split_once(record, b'\t')?;
    let numbers = std::str::from_utf8(numbers).ok()?.split_whitespace();
    let numbers: Vec<i128> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
    let stamp = match numbers.as_slice() {
        [] => None,
        numbers => Some(numbers.try_into().ok()?),
    };
    Some((path.to_vec(), stamp))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_was_stored_is_read_and_every_change_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (tree, file) = (folder.path().join("tree"), folder.path().join("product"));
        fs::create_dir_all(tree.join("modules/empty")).unwrap();
        fs::write(tree.join("modules/a\tb\n"), "one").unwrap();
        std::os::unix::fs::symlink("a", tree.join("modules/link")).unwrap();
        let found = walk(&tree).unwrap();
        Product::new(found.clone()).store(&file, "key").unwrap();
        let (key, product) = Product::load(&file).unwrap();
        assert_eq!(key, "key");
        assert!(product.is_whole(&found, |_| false));
        let before = fs::metadata(tree.join("modules/a\tb\n"))
            .unwrap()
            .modified()
            .unwrap();
        fs::write(tree.join("modules/a\tb\n"), "two").unwrap();
        fs::File::open(tree.join("modules/a\tb\n"))
            .unwrap()
            .set_modified(before)
            .unwrap();
        let found = walk(&tree).unwrap();
        assert!(
            !product.is_whole(&found, |_| false),
            "same size and time, another content"
        );
        assert!(
            product.is_whole(&found, |path| path.ends_with(b"\n")),
            "the commit has it in its place"
        );
        fs::write(&file, "key\0 1 2\tcut").unwrap();
        assert!(Product::load(&file).is_none());
    }
}
