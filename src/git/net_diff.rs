//! Net difference between two commits, with contents, for checks that must read them.

use super::bytes::{lossy, split_once};
use super::command::GitCommand;
use super::history::{check_sha, check_shas};
use super::{Git, GitError, Place, Result};

/// Path at which two commits differ. Renames are not detected: they are a removal and an addition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NetFile {
    pub(crate) path: Vec<u8>,
    /// Mode as recorded by git; 0 if there is no file.
    pub(crate) old_mode: u32,
    pub(crate) mode: u32,
    pub(crate) old_blob: String,
    pub(crate) blob: String,
}

/// Maximum number of bytes of contents requested in one call.
const BATCH: u64 = 16 * 1024 * 1024;

impl NetFile {
    /// Returns true if the path has content: it is neither removed nor a submodule.
    pub(crate) fn has_blob(&self) -> bool {
        self.mode != 0 && self.mode != 0o160_000
    }

    /// Path for display. Bytes that are not UTF-8 are replaced by `�`.
    pub(crate) fn display_path(&self) -> String {
        lossy(&self.path)
    }
}

impl Git {
    pub(crate) async fn net_files(
        &self,
        place: &Place,
        from: &str,
        to: &str,
    ) -> Result<Vec<NetFile>> {
        check_shas([from, to])?;
        let call = GitCommand::at(place, "diff-tree -r --raw -z --no-renames --full-index --ignore-submodules=none --end-of-options")
            .arg(from)
            .arg(to);
        let bytes = self.bytes(call).await?;
        read(&bytes).ok_or_else(|| GitError::output("diff-tree --raw -z", &bytes))
    }

    /// Lists commits that `to` has and that neither `from` nor any ref below `known` (a full name
    /// that ends with a slash) has.
    pub(crate) async fn new_commits(
        &self,
        place: &Place,
        from: &str,
        to: &str,
        known: &str,
    ) -> Result<Vec<String>> {
        let call = GitCommand::at(place, "rev-list");
        self.lines(beyond(call, from, to, known)?).await
    }

    /// Lists the blobs introduced by those commits, each with one of its paths, including blobs
    /// that a later commit removed.
    pub(crate) async fn new_blobs(
        &self,
        place: &Place,
        from: &str,
        to: &str,
        known: &str,
    ) -> Result<Vec<(String, String)>> {
        let call = "rev-list --objects --filter=object:type=blob --filter-provided-objects";
        let call = beyond(GitCommand::at(place, call), from, to, known)?;
        let output = lossy(&self.bytes(call).await?);
        let blob = |line: &str| {
            let (sha, path) = line.split_once(' ').unwrap_or((line, ""));
            check_sha(sha).map(|()| (sha.to_owned(), path.to_owned()))
        };
        output.lines().map(blob).collect()
    }

    /// Returns the size of each blob, in the order given.
    pub(crate) async fn blob_sizes(&self, place: &Place, blobs: &[String]) -> Result<Vec<u64>> {
        let call = GitCommand::at(place, "cat-file")
            .arg("--batch-check=%(objecttype) %(objectsize)")
            .stdin(lines(blobs)?);
        let output = self.text(call).await?;
        let size = |line: &str| line.strip_prefix("blob ")?.parse().ok();
        let sizes: Option<Vec<u64>> = output.lines().map(size).collect();
        sizes
            .filter(|sizes| sizes.len() == blobs.len())
            .ok_or_else(|| GitError::output("cat-file --batch-check", output.as_bytes()))
    }

    /// Returns the content of each blob, in the order given, cut at `cap`.
    pub(crate) async fn blobs(
        &self,
        place: &Place,
        blobs: &[String],
        cap: u64,
    ) -> Result<Vec<Vec<u8>>> {
        let sizes = self.blob_sizes(place, blobs).await?;
        let mut contents = Vec::with_capacity(blobs.len());
        let mut batch: Vec<(String, u64)> = Vec::new();
        for (blob, size) in blobs.iter().zip(sizes) {
            let held: u64 = batch.iter().map(|(_, size)| size).sum();
            if size > cap {
                contents.extend(self.batch(place, &std::mem::take(&mut batch)).await?);
                let call = GitCommand::at(place, "cat-file blob").arg(blob);
                let call = call.cap(usize::try_from(cap).unwrap_or(usize::MAX));
                contents.push(self.head(call).await?.0);
                continue;
            }
            if held + size > BATCH {
                contents.extend(self.batch(place, &std::mem::take(&mut batch)).await?);
            }
            batch.push((blob.clone(), size));
        }
        contents.extend(self.batch(place, &batch).await?);
        Ok(contents)
    }

    async fn batch(&self, place: &Place, batch: &[(String, u64)]) -> Result<Vec<Vec<u8>>> {
        let names: Vec<String> = batch.iter().map(|(blob, _)| blob.clone()).collect();
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let call = GitCommand::at(place, "cat-file --batch=%(objectsize)");
        let output = self.bytes(call.stdin(lines(&names)?)).await?;
        let mut rest = output.as_slice();
        let mut contents = Vec::with_capacity(names.len());
        while contents.len() < names.len() {
            let (content, after) =
                read_content(rest).ok_or_else(|| GitError::output("cat-file --batch", rest))?;
            contents.push(content.to_vec());
            rest = after;
        }
        Ok(contents)
    }
}

fn beyond(call: GitCommand, from: &str, to: &str, known: &str) -> Result<GitCommand> {
    check_shas([from, to])?;
    Ok(call
        .arg(to)
        .arg(format!("^{from}"))
        .arg("--not")
        .arg(format!("--glob={known}*")))
}

fn lines(blobs: &[String]) -> Result<Vec<u8>> {
    let mut text = String::new();
    for blob in blobs {
        check_sha(blob)?;
        text.push_str(blob);
        text.push('\n');
    }
    Ok(text.into_bytes())
}

/// Parses `SIZE LF bytes LF`.
fn read_content(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = split_once(bytes, b'\n')?;
    let size = std::str::from_utf8(size).ok()?.parse().ok()?;
    let (content, rest) = rest.split_at_checked(size)?;
    Some((content, rest.strip_prefix(b"\n")?))
}

/// Parses `:mode mode id id letter NUL path NUL`.
fn read(bytes: &[u8]) -> Option<Vec<NetFile>> {
    let mut fields = bytes.split(|b| *b == 0);
    let mut files = Vec::new();
    loop {
        let raw = fields.next()?;
        if raw.is_empty() {
            return fields.next().is_none().then_some(files);
        }
        let raw = std::str::from_utf8(raw).ok()?.strip_prefix(':')?;
        let [old_mode, mode, old_blob, blob, _letter] = raw.split(' ').collect::<Vec<_>>()[..]
        else {
            return None;
        };
        files.push(NetFile {
            path: fields.next().filter(|path| !path.is_empty())?.to_vec(),
            old_mode: u32::from_str_radix(old_mode, 8).ok()?,
            mode: u32::from_str_radix(mode, 8).ok()?,
            old_blob: old_blob.to_owned(),
            blob: blob.to_owned(),
        });
    }
}
