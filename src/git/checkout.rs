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
use super::bytes::{lossy, nul_ended};
use super::command::{GitCommand, utf8};
use super::convert::copy;
use super::fs_nofollow::{FileKind, at, is_inside, path_of, paths_in, thing};
use super::history::check_sha;
use super::setup_product::{Found, Product, ProductState, walk};
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
            let attributes = ("info/attributes", attributes);
            self.make_git_dir(&git_dir, [("config", CONFIG), attributes, ("HEAD", HEAD)])?;
        }
        Ok(())
    }

    /// Recreates a git dir of these files, with the objects of remand's bare clone.
    pub(super) fn make_git_dir(&self, git_dir: &Path, files: [(&str, &str); 3]) -> Result<()> {
        remove_all(git_dir)?;
        for folder in ["refs/heads", "info", "objects/info"] {
            make_folder(&git_dir.join(folder))?;
        }
        let alternates = format!("{}\n", utf8(&self.objects)?);
        let alternates = ("objects/info/alternates", alternates.as_str());
        for (name, text) in [alternates].into_iter().chain(files) {
            let path = git_dir.join(name);
            fs::write(&path, text).map_err(at("write", &path))?;
        }
        Ok(())
    }

    /// Lists everything in the tree.
    async fn found(&self) -> Result<Found> {
        let tree = self.tree();
        blocking(move || walk(&tree)).await
    }

    /// Removes paths from the tree.
    async fn remove(&self, paths: Vec<Vec<u8>>) -> Result<()> {
        let tree = self.tree();
        let remove = move |path: &Vec<u8>| remove_all(&tree.join(path_of(path)));
        blocking(move || paths.iter().try_for_each(remove)).await
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
        let mut found = self.found().await?;
        let folders = folders_of(&entries);
        found.retain(|path, _| !entries.contains_key(path) && !folders.contains(path));
        Ok(Product::new(found))
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
        let making = checkout.clone();
        blocking(move || making.make()).await?;
        crash_point!("checkout.made");
        let entries = self.expected(checkout, commit).await?;
        let found = checkout.found().await?;
        let folders = folders_of(&entries);
        let is_committed = |path: &Vec<u8>| entries.contains_key(path) || folders.contains(path);
        let kept = if product.is_whole(&found, is_committed) {
            Kept::Product
        } else {
            Kept::Stale
        };
        let unknown = unknown(&found, &entries, &folders, product);
        checkout.remove(unknown).await?;
        let repository = checkout.repository();
        self.read_tree(&repository, commit, None).await?;
        let wrong = self.wrong(checkout, &entries, &found).await?;
        if !wrong.is_empty() {
            self.write_files(checkout, &entries, wrong).await?;
            let still = self.differing(checkout, commit).await?;
            if !still.is_empty() {
                return Err(GitError::StillDirty { paths: still });
            }
        }
        let submodules = entries.iter().filter(|(_, entry)| entry.mode == SUBMODULE);
        for (path, _) in submodules {
            make_folder(&checkout.tree().join(path_of(path)))?;
        }
        Ok(kept)
    }

    async fn write_files(
        &self,
        checkout: &Checkout,
        entries: &Entries,
        wrong: Vec<Vec<u8>>,
    ) -> Result<()> {
        checkout.remove(wrong.clone()).await?;
        crash_point!("checkout.write.before");
        let is_converted =
            |path: &Vec<u8>| entries.get(path).is_some_and(|entry| entry.is_converted);
        let (converted, plain): (Vec<_>, Vec<_>) = wrong.into_iter().partition(is_converted);
        if !plain.is_empty() {
            let call = "checkout-index --force --quiet -z --stdin";
            let call = GitCommand::at(&checkout.place(), call);
            let list = nul_ended(plain.iter().map(Vec::as_slice));
            self.run(call.stdin(list)).await?;
        }
        let (from, tree) = (checkout.converted(), checkout.tree());
        let copy = move |path: &Vec<u8>| copy(&from, &tree, path);
        blocking(move || converted.iter().try_for_each(copy)).await?;
        crash_point!("checkout.write.after");
        Ok(())
    }

    /// Returns the paths of a commit whose file in the tree is not byte for byte that of the
    /// commit: changed, of another type or mode, or missing.
    pub(crate) async fn differing(&self, checkout: &Checkout, commit: &str) -> Result<Vec<String>> {
        let entries = self.expected(checkout, commit).await?;
        let found = checkout.found().await?;
        let wrong = self.wrong(checkout, &entries, &found).await?;
        Ok(wrong.iter().map(|path| lossy(path)).collect())
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
        found: &Found,
    ) -> Result<Vec<Vec<u8>>> {
        let mut wrong = Vec::new();
        let (mut files, mut links) = (Vec::new(), Vec::new());
        for (path, entry) in entries.iter().filter(|(_, entry)| entry.mode != SUBMODULE) {
            match found.get(path) {
                Some(found) if entry.mode == LINK && found.kind == FileKind::Link => {
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
                let args = "hash-object --stdin-paths";
                return Err(GitError::output(args, found.as_bytes()));
            }
            let differs = files.iter().zip(hashes);
            let differs = differs.filter(|((_, entry), hash)| entry.blob != *hash);
            wrong.extend(differs.map(|((path, _), _)| (*path).clone()));
        }
        let blobs: Vec<String> = links.iter().map(|(_, entry)| entry.blob.clone()).collect();
        let targets = self.blobs(place, &blobs, 64 * 1024).await?;
        for ((path, _), target) in links.iter().zip(targets) {
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
    found: &Found,
    entries: &Entries,
    folders: &BTreeSet<Vec<u8>>,
    product: &Product,
) -> Vec<Vec<u8>> {
    let is_known = |path: &Vec<u8>, found: &ProductState| {
        let is_folder = found.kind == FileKind::Folder;
        if folders.contains(path) {
            is_folder
        } else if entries.contains_key(path) {
            !is_folder
        } else {
            product.has(path, found)
        }
    };
    let unknown = found.iter().filter(|(path, found)| !is_known(path, found));
    unknown.map(|(path, _)| path.clone()).collect()
}

/// Quotes a line for `hash-object --stdin-paths`, which treats a name that starts with a quotation
/// mark as escaped.
pub(super) fn quoted(path: &[u8]) -> Vec<u8> {
    let is_plain = |b: &u8| !b.is_ascii_control() && *b != b'"' && *b != b'\\';
    if path.iter().all(is_plain) {
        return [path, b"\n"].concat();
    }
    let mut line = b"\"".to_vec();
    for byte in path {
        if is_plain(byte) {
            line.push(*byte);
        } else {
            line.extend_from_slice(format!("\\{byte:03o}").as_bytes());
        }
    }
    line.extend_from_slice(b"\"\n");
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
    for path in paths_in(folder).unwrap_or_default() {
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
