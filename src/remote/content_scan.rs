//! Scans what would be pushed: the new contents of each file, and what the commits in between carry
//! along.

use std::collections::BTreeSet;

use super::known_secrets::KnownSecrets;
use super::push_policy::{LINK, SUBMODULE, stays_inside};
use super::{Objection, Remote, Result, Wrong};
use crate::git::NetFile;
use crate::project_settings::PushLimits;
use crate::secret::Secret;
use crate::secret_scan::{self, position};

/// Maximum number of bytes scanned per file.
const SCANNED: u64 = 10 * 1024 * 1024;
/// Maximum number of bytes of contents held at once.
const HELD: u64 = 32 * 1024 * 1024;
/// Kind of the daemon's own secrets.
const OWN: &str = "one of remand's own secrets";

pub(super) struct Judge<'a> {
    remote: &'a Remote,
    limits: &'a PushLimits,
    canaries: KnownSecrets,
}

struct Hit {
    kind: &'static str,
    line: usize,
}

impl<'a> Judge<'a> {
    pub(super) fn new(remote: &'a Remote, limits: &'a PushLimits, known: &[Secret]) -> Self {
        Self {
            remote,
            limits,
            canaries: KnownSecrets::new(known),
        }
    }

    /// Scans the new files against the old ones.
    pub(super) async fn files(&self, files: &[NetFile]) -> Result<Vec<Objection>> {
        let files: Vec<&NetFile> = files.iter().filter(|file| has_blob(file.mode)).collect();
        let new: Vec<String> = files.iter().map(|file| file.blob.clone()).collect();
        let sizes = self.remote.git.blob_sizes(&self.remote.place, &new).await?;
        let mut objections = Vec::new();
        let mut held: Vec<&NetFile> = Vec::new();
        let mut bytes = 0;
        for (file, size) in files.into_iter().zip(sizes) {
            if size > self.limits.max_file_bytes() {
                let what = Wrong::TooBig {
                    bytes: size,
                    most: self.limits.max_file_bytes(),
                };
                objections.push(Objection::at(self.covered(&file.path), what));
            }
            // The old version is of about the same size.
            bytes += 2 * size.min(SCANNED);
            held.push(file);
            if bytes > HELD {
                objections.extend(self.some(&std::mem::take(&mut held)).await?);
                bytes = 0;
            }
        }
        objections.extend(self.some(&held).await?);
        Ok(objections)
    }

    async fn some(&self, files: &[&NetFile]) -> Result<Vec<Objection>> {
        let blobs = files.iter().flat_map(|file| {
            [
                Some(&file.blob),
                has_blob(file.old_mode).then_some(&file.old_blob),
            ]
            .into_iter()
            .flatten()
            .cloned()
        });
        let blobs: Vec<String> = blobs.collect();
        let mut contents = self
            .remote
            .git
            .blobs(&self.remote.place, &blobs, SCANNED)
            .await?
            .into_iter();
        let mut objections = Vec::new();
        for file in files {
            let new = contents.next().unwrap_or_default();
            let old = if has_blob(file.old_mode) {
                contents.next().unwrap_or_default()
            } else {
                Vec::new()
            };
            let mut object = |what| objections.push(Objection::at(self.covered(&file.path), what));
            if file.mode == LINK && !stays_inside(&file.path, &new) {
                object(Wrong::Symlink);
            }
            // The name of a file can leak one, too.
            for Hit { kind, line } in self
                .hits(&new, &old)
                .into_iter()
                .chain(self.hits(&file.path, &[]))
            {
                object(Wrong::Secret { kind, line });
            }
        }
        Ok(objections)
    }

    /// Scans the messages of intermediate commits and the contents that the last commit no longer
    /// has.
    ///
    /// Anything that the remote already has, on any fetched branch, is not checked.
    pub(super) async fn history(
        &self,
        from: &str,
        to: &str,
        net: &[NetFile],
    ) -> Result<Vec<Objection>> {
        let (git, place) = (&self.remote.git, &self.remote.place);
        let mut objections = Vec::new();
        let commits = git.log(place, from, to).await?;
        let new: BTreeSet<String> = git
            .new_commits(place, from, to, FETCHED)
            .await?
            .into_iter()
            .collect();
        for commit in commits.iter().filter(|commit| new.contains(&commit.sha)) {
            let text = format!("{}\n{}\n{}", commit.author, commit.subject, commit.body);
            if let Some(Hit { kind, .. }) = self.hits(text.as_bytes(), &[]).pop() {
                objections.push(Objection::to_all(Wrong::SecretInMessage {
                    kind,
                    commit: commit.sha.clone(),
                }));
            }
        }
        if new.len() < 2 {
            return Ok(objections);
        }
        let judged: BTreeSet<&str> = net.iter().map(|file| file.blob.as_str()).collect();
        let carried = git.new_blobs(place, from, to, FETCHED).await?;
        let carried: Vec<_> = carried
            .into_iter()
            .filter(|(blob, _)| !judged.contains(blob.as_str()))
            .collect();
        for some in carried.chunks(16) {
            let blobs: Vec<String> = some.iter().map(|(blob, _)| blob.clone()).collect();
            for (content, (_, path)) in git
                .blobs(place, &blobs, SCANNED / 4)
                .await?
                .iter()
                .zip(some)
            {
                let Some(Hit { kind, .. }) = self.hits(content, &[]).pop() else {
                    continue;
                };
                let old = git.show_file(place, from, path).await?.unwrap_or_default();
                if !self.hits(content, &old).is_empty() {
                    let path = self.covered(path.as_bytes());
                    objections.push(Objection::at(path, Wrong::SecretInHistory { kind }));
                }
            }
        }
        Ok(objections)
    }

    /// Returns secrets that are in the new contents and not in the old ones.
    fn hits(&self, new: &[u8], old: &[u8]) -> Vec<Hit> {
        let line = |at: usize| 1 + new.iter().take(at).filter(|b| **b == b'\n').count();
        let own = self.canaries.find_new(new, old);
        let mut hits: Vec<Hit> = own
            .into_iter()
            .map(|at| Hit {
                kind: OWN,
                line: line(at),
            })
            .collect();
        if self.limits.secrets {
            let is_new = |found: &secret_scan::SecretHit| {
                new.get(found.at.clone())
                    .is_some_and(|text| position(old, text).is_none())
            };
            let found = secret_scan::find(new).into_iter().filter(is_new);
            hits.extend(found.map(|found| Hit {
                kind: found.kind,
                line: line(found.at.start),
            }));
        }
        hits
    }

    /// Returns a path that is safe to show, even if the name contains the secret.
    pub(super) fn covered(&self, path: &[u8]) -> String {
        if self.hits(path, &[]).is_empty() {
            String::from_utf8_lossy(path).into_owned()
        } else {
            "***".to_owned()
        }
    }
}

/// Prefix of the refs fetched from the remote.
const FETCHED: &str = "refs/remand/remote/";

fn has_blob(mode: u32) -> bool {
    mode != 0 && mode != SUBMODULE
}
