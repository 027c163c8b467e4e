//! Checkouts in which gates run: exactly the files of one commit, byte for byte, plus the output of
//! the project's set-up.
//!
//! A gate runs code that an agent wrote, so nothing that a gate can write is trusted. The git dir
//! that creates and verifies the files lies next to the tree, where a confined gate cannot see it,
//! and is rewritten before each use. Its index is read from the commit, and files are compared by
//! the hash of their contents, so file times, index flags, ignore rules, filters and user settings
//! have no effect. The only conversion is the one that a fresh clone makes from attributes in the
//! commit itself (see `convert`). The `.git` that the gate sees is a throw-away repository inside
//! the tree, which this module writes and never reads.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::agent_config_paths::{TreeFile, read_tree};
use super::command::{GitCommand, utf8};
use super::convert::copy;
use super::fs_nofollow::{FileKind, at, is_inside, path_of, thing};
use super::history::check_sha;
use super::setup_product::{Kind, Product, ProductState, walk};
use super::{Git, GitError, Place, Result};
use crate::failpoint::crash_point;
use crate::files;

/// Local configuration, which overrides the user's. The user's attributes do not apply.
const CONFIG: &str = "\
[core]
	repositoryFormatVersion = 0
	bare = false
	fileMode = true
	symlinks = true
	ignoreCase = false
	autocrlf = false
	eol = lf
	attributesFile = /dev/null
	hooksPath = /dev/null
	sparseCheckout = false
	splitIndex = false
	untrackedCache = false
[index]
	sparse = false
[gc]
	auto = 0
[maintenance]
	auto = false
";

/// Disables all conversions: `info/attributes` overrides every `.gitattributes`, so contents are
/// written as they are in the commit.
const AS_COMMITTED: &str = "* -text -ident -filter -working-tree-encoding\n";
/// Attributes for files that are converted as in a fresh clone.
const AS_CLONED: &str = "* -filter\n";

const HEAD: &str = "ref: refs/heads/remand-has-no-branch\n";

pub(super) const LINK: u32 = 0o120_000;
pub(super) const SUBMODULE: u32 = 0o160_000;
const EXECUTABLE: u32 = 0o100_755;

/// Checkout that is kept between gate runs: the files are in `ROOT/tree`, private git dirs next to
/// it.
#[derive(Debug, Clone)]
pub(crate) struct Checkout {
    root: PathBuf,
    /// Objects of remand's bare clone.
    pub(super) objects: PathBuf,
}

/// State of the files in a checkout that do not belong to its commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Exactly the output of the set-up.
    Product,
    /// Output of the set-up has since been changed or removed: the set-up has to run again.
    Stale,
}

/// File of a commit.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) mode: u32,
    /// Hash of the file's content.
    pub(super) blob: String,
    pub(super) is_converted: bool,
}

pub(super) type Entries = BTreeMap<Vec<u8>, Entry>;

impl Checkout {
    pub(crate) fn new(root: &Path, repository: &Path) -> Self {
        Self {
            root: root.to_owned(),
            objects: repository.join("objects"),
        }
    }

    /// Directory of the files, in which gates run.
    pub(crate) fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// Object directory that a gate's git has to read.
    pub(crate) fn objects(&self) -> &Path {
        &self.objects
    }

    /// The tree with the repository that gates see.
    pub(crate) fn seen_by_gates(&self) -> Place {
        Place::with_git_dir(self.tree(), self.tree().join(".git"))
    }

    /// The private git dir without a work tree: commands that need none run without one, so that
    /// files left by a gate have no effect.
    fn repository(&self) -> Place {
        Place::bare(self.place().git_dir)
    }

    /// The tree with the private git dir.
    fn place(&self) -> Place {
        Place::with_git_dir(self.tree(), self.root.join("git"))
    }

    /// Directory in which converted files are created.
    pub(super) fn converted(&self) -> PathBuf {
        self.root.join("converted")
    }

    /// The directory of converted files, with a private git dir that converts.
    pub(super) fn converting(&self) -> Place {
        Place::with_git_dir(self.converted(), self.root.join("git-as-cloned"))
    }

    /// Creates the directories and recreates the private git dirs.
    fn make(&self) -> Result<()> {
        make_folder(&self.root)?;
        for folder in [self.tree(), self.converted()] {
            if thing(&folder)? != FileKind::Folder {
                remove_all(&folder)?;
            }
            make_folder(&folder)?;
        }
        remove_all(&self.seen_by_gates().git_dir)?;
        for (git_dir, attributes) in [
            (self.place().git_dir, AS_COMMITTED),
            (self.converting().git_dir, AS_CLONED),
        ] {
            remove_all(&git_dir)?;
            self.make_git_dir(&git_dir, attributes)?;
        }
        Ok(())
    }

    fn make_git_dir(&self, git_dir: &Path, attributes: &str) -> Result<()> {
        for folder in ["refs", "info", "objects/info"] {
            make_folder(&git_dir.join(folder))?;
        }
        let alternates = format!("{}\n", utf8(&self.objects)?);
        for (name, text) in [
            ("config", CONFIG),
            ("info/attributes", attributes),
            ("objects/info/alternates", &alternates),
            ("HEAD", HEAD),
        ] {
            let path = git_dir.join(name);
            fs::write(&path, text).map_err(at("write", &path))?;
        }
        Ok(())
    }

    /// Removes all files, tracked or not. The next [`Git::check_out`] writes them again.
    pub(crate) async fn clear(&self) -> Result<()> {
        let tree = self.tree();
        blocking(move || remove_all(&tree)).await?;
        crash_point!("checkout.cleared");
        Ok(())
    }

    /// Lists the output of the set-up: everything in the tree that is not in the checked-out
    /// commit.
    pub(crate) async fn product(&self, git: &Git, commit: &str) -> Result<Product> {
        let entries = git.entries(&self.repository(), commit).await?;
        let tree = self.tree();
        let found = blocking(move || walk(&tree)).await?;
        let folders = folders_of(&entries);
        let is_other = |path: &Vec<u8>| !entries.contains_key(path) && !folders.contains(path);
        Ok(Product::new(
            found
                .into_iter()
                .filter(|(path, _)| is_other(path))
                .collect(),
        ))
    }
}

impl Git {
    /// Makes the tree match a commit exactly.
    ///
    /// Files that are neither in the commit nor in `product` are removed. Files that are already
    /// correct are not rewritten, so that their times stay the same.
    pub(crate) async fn check_out(
        &self,
        checkout: &Checkout,
        commit: &str,
        product: &Product,
    ) -> Result<Kept> {
        check_sha(commit)?;
        let (making, place) = (checkout.clone(), checkout.place());
        blocking(move || making.make()).await?;
        crash_point!("checkout.made");
        let entries = self.expected(checkout, commit).await?;
        let tree = place.path.clone();
        let found = blocking(move || walk(&tree)).await?;
        let folders = folders_of(&entries);
        let kept = if product.is_whole(&found, |path| {
            entries.contains_key(path) || folders.contains(path)
        }) {
            Kept::Product
        } else {
            Kept::Stale
        };
        let unknown = unknown(&found, &entries, &folders, product);
        let tree = place.path.clone();
        blocking(move || {
            unknown
                .iter()
                .try_for_each(|path| remove_all(&tree.join(path_of(path))))
        })
        .await?;
        self.bytes(GitCommand::at(&checkout.repository(), "read-tree").arg(commit))
            .await?;
        let wrong = self.wrong(checkout, &entries, &found).await?;
        if !wrong.is_empty() {
            self.write_files(checkout, &entries, wrong).await?;
            let still = self.differing(checkout, commit).await?;
            if !still.is_empty() {
                return Err(GitError::StillDirty { paths: still });
            }
        }
        for path in entries
            .iter()
            .filter(|(_, entry)| entry.mode == SUBMODULE)
            .map(|(path, _)| path)
        {
            make_folder(&place.path.join(path_of(path)))?;
        }
        Ok(kept)
    }

    async fn write_files(
        &self,
        checkout: &Checkout,
        entries: &Entries,
        wrong: Vec<Vec<u8>>,
    ) -> Result<()> {
        let place = checkout.place();
        let (tree, paths) = (place.path.clone(), wrong.clone());
        blocking(move || {
            paths
                .iter()
                .try_for_each(|path| remove_all(&tree.join(path_of(path))))
        })
        .await?;
        crash_point!("checkout.write.before");
        let is_converted =
            |path: &Vec<u8>| entries.get(path).is_some_and(|entry| entry.is_converted);
        let (converted, plain): (Vec<_>, Vec<_>) = wrong.into_iter().partition(is_converted);
        if !plain.is_empty() {
            let list = plain
                .iter()
                .flat_map(|path| path.iter().copied().chain([0]))
                .collect();
            self.bytes(
                GitCommand::at(&place, "checkout-index --force --quiet -z --stdin").stdin(list),
            )
            .await?;
        }
        let (from, tree) = (checkout.converted(), place.path);
        blocking(move || {
            converted
                .iter()
                .try_for_each(|path| copy(&from, &tree, path))
        })
        .await?;
        crash_point!("checkout.write.after");
        Ok(())
    }

    /// Returns the paths of a commit whose file in the tree is not byte for byte that of the
    /// commit: changed, of another type or mode, or missing.
    pub(crate) async fn differing(&self, checkout: &Checkout, commit: &str) -> Result<Vec<String>> {
        let entries = self.expected(checkout, commit).await?;
        let tree = checkout.tree();
        let found = blocking(move || walk(&tree)).await?;
        let wrong = self.wrong(checkout, &entries, &found).await?;
        Ok(wrong
            .iter()
            .map(|path| String::from_utf8_lossy(path).into_owned())
            .collect())
    }

    /// Lists the files of a commit whose names match, in a form that is only meant for comparison:
    /// see [`Git::listed_files`].
    pub(crate) async fn checked_out_files(
        &self,
        checkout: &Checkout,
        names: &[String],
    ) -> Result<Vec<u8>> {
        self.listed_files(&checkout.repository(), names).await
    }

    /// Returns the files that the tree must contain.
    async fn expected(&self, checkout: &Checkout, commit: &str) -> Result<Entries> {
        let mut entries = self.entries(&checkout.repository(), commit).await?;
        self.convert(checkout, commit, &mut entries).await?;
        Ok(entries)
    }

    async fn entries(&self, place: &Place, commit: &str) -> Result<Entries> {
        check_sha(commit)?;
        let call = GitCommand::at(place, "ls-tree -r -z --full-tree");
        read_entries(&self.bytes(call.arg(commit)).await?)
    }

    async fn wrong(
        &self,
        checkout: &Checkout,
        entries: &Entries,
        found: &BTreeMap<Vec<u8>, ProductState>,
    ) -> Result<Vec<Vec<u8>>> {
        let mut wrong = Vec::new();
        let (mut files, mut links) = (Vec::new(), Vec::new());
        for (path, entry) in entries.iter().filter(|(_, entry)| entry.mode != SUBMODULE) {
            match found.get(path) {
                Some(found) if entry.mode == LINK && found.kind == Kind::Link => {
                    links.push((path, entry));
                }
                Some(found)
                    if entry.mode != LINK && found.is_plain_file(entry.mode == EXECUTABLE) =>
                {
                    files.push((path, entry));
                }
                Some(_) | None => wrong.push(path.clone()),
            }
        }
        let (place, tree) = (&checkout.repository(), checkout.tree());
        let full = |path: &[u8]| quoted(tree.join(path_of(path)).as_os_str().as_bytes());
        let list: Vec<u8> = files.iter().flat_map(|(path, _)| full(path)).collect();
        if !files.is_empty() {
            let call = GitCommand::at(place, "hash-object --no-filters --stdin-paths").stdin(list);
            let hashes = self.text(call).await?;
            let hashes: Vec<&str> = hashes.lines().collect();
            if hashes.len() != files.len() {
                let found = format!("{} lines for {} files", hashes.len(), files.len());
                return Err(GitError::Output {
                    args: "hash-object --stdin-paths".to_owned(),
                    found,
                });
            }
            let differs = files
                .iter()
                .zip(hashes)
                .filter(|((_, entry), hash)| entry.blob != *hash);
            wrong.extend(differs.map(|((path, _), _)| (*path).clone()));
        }
        let blobs: Vec<String> = links.iter().map(|(_, entry)| entry.blob.clone()).collect();
        for ((path, _), target) in links
            .iter()
            .zip(self.blobs(place, &blobs, 64 * 1024).await?)
        {
            let here = fs::read_link(tree.join(path_of(path)));
            if !here.is_ok_and(|here| here.as_os_str().as_bytes() == target) {
                wrong.push((*path).clone());
            }
        }
        Ok(wrong)
    }
}

/// Parses `ls-tree`. Rejects the whole output if a path leads out of the tree or into a `.git`.
fn read_entries(bytes: &[u8]) -> Result<Entries> {
    let entry = |TreeFile { path, blob }| {
        let is_git = |part: &[u8]| part.eq_ignore_ascii_case(b".git");
        if !is_inside(&path_of(&path)) || path.split(|b| *b == b'/').any(is_git) {
            return Err(GitError::output("ls-tree -r -z", &path));
        }
        let entry = Entry {
            mode: blob.mode,
            blob: blob.sha,
            is_converted: false,
        };
        Ok((path, entry))
    };
    read_tree(bytes)?.into_iter().map(entry).collect()
}

/// Returns the directories of the files and submodules of a commit.
fn folders_of(entries: &Entries) -> BTreeSet<Vec<u8>> {
    let mut folders = BTreeSet::new();
    for (path, entry) in entries {
        for (at, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
            folders.extend(path.get(..at).map(<[u8]>::to_vec));
        }
        if entry.mode == SUBMODULE {
            folders.insert(path.clone());
        }
    }
    folders
}

/// Returns paths to remove: those that belong neither to the commit nor to the set-up, or whose
/// type differs from that in the commit.
fn unknown(
    found: &BTreeMap<Vec<u8>, ProductState>,
    entries: &Entries,
    folders: &BTreeSet<Vec<u8>>,
    product: &Product,
) -> Vec<Vec<u8>> {
    let is_known = |path: &Vec<u8>, found: &ProductState| {
        let is_folder = found.kind == Kind::Folder;
        if folders.contains(path) {
            return is_folder;
        }
        if entries.contains_key(path) {
            !is_folder
        } else {
            product.has(path, found)
        }
    };
    found
        .iter()
        .filter(|(path, found)| !is_known(path, found))
        .map(|(path, _)| path.clone())
        .collect()
}

/// Quotes a line for `hash-object --stdin-paths`, which treats a name that starts with a quotation
/// mark as escaped.
pub(super) fn quoted(path: &[u8]) -> Vec<u8> {
    let is_plain = |b: &u8| !b.is_ascii_control() && *b != b'"' && *b != b'\\';
    let mut line = Vec::with_capacity(path.len() + 1);
    if path.iter().all(is_plain) {
        line.extend_from_slice(path);
    } else {
        line.push(b'"');
        for byte in path {
            if is_plain(byte) {
                line.push(*byte);
            } else {
                line.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
        }
        line.push(b'"');
    }
    line.push(b'\n');
    line
}

pub(super) fn make_folder(path: &Path) -> Result<()> {
    files::make_private_dir(path).map_err(at("make", path))
}

/// Removes a path recursively, including read-only directories, which package caches have.
pub(super) fn remove_all(path: &Path) -> Result<()> {
    let removed = match thing(path)? {
        FileKind::Absent => return Ok(()),
        FileKind::Folder => fs::remove_dir_all(path).or_else(|_| {
            open_up(path);
            fs::remove_dir_all(path)
        }),
        FileKind::File { .. } | FileKind::Link | FileKind::Other => {
            fs::remove_file(path).or_else(|_| {
                path.parent().into_iter().for_each(open_folder);
                fs::remove_file(path)
            })
        }
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes directories writable. Failures are reported by the removal that follows.
fn open_up(folder: &Path) {
    open_folder(folder);
    for path in files::names(folder)
        .into_iter()
        .flatten()
        .map(|name| folder.join(name))
    {
        if path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            open_up(&path);
        }
    }
}

fn open_folder(folder: &Path) {
    fs::set_permissions(folder, Permissions::from_mode(0o700)).ok();
}

/// Runs blocking disk operations outside the threads of the async runtime.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(GitError::File {
            action: "prepare",
            path: PathBuf::from("a checkout"),
            source: io::Error::other(error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere_are_refused() {
        let record = |path: &str| format!("100644 blob {}\t{path}\0", "a".repeat(40)).into_bytes();
        assert_eq!(read_entries(&record("a/b c")).unwrap().len(), 1);
        for path in [
            "../x",
            "/etc/x",
            "a/../../x",
            ".git/config",
            "a/.GIT/hooks/x",
            "",
        ] {
            assert!(read_entries(&record(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_name_is_one_line() {
        assert_eq!(quoted(b"a b.txt"), b"a b.txt\n");
        assert_eq!(quoted(b"a\n\"b\\"), b"\"a\\012\\042b\\134\"\n");
    }
}
