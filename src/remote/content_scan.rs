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
            let most = self.limits.max_file_bytes();
            if size > most {
                let what = Wrong::TooBig { bytes: size, most };
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
        let mut blobs = Vec::new();
        for file in files {
            blobs.push(file.blob.clone());
            blobs.extend(has_blob(file.old_mode).then(|| file.old_blob.clone()));
        }
        let (git, place) = (&self.remote.git, &self.remote.place);
        let mut contents = git.blobs(place, &blobs, SCANNED).await?.into_iter();
        let mut objections = Vec::new();
        for file in files {
            let new = contents.next().unwrap_or_default();
            let old = has_blob(file.old_mode).then(|| contents.next());
            let old = old.flatten().unwrap_or_default();
            let mut object = |what| objections.push(Objection::at(self.covered(&file.path), what));
            if file.mode == LINK && !stays_inside(&file.path, &new) {
                object(Wrong::Symlink);
            }
            // The name of a file can leak one, too.
            let hits = [self.hits(&new, &old), self.hits(&file.path, &[])];
            for Hit { kind, line } in hits.into_iter().flatten() {
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
        let new = git.new_commits(place, from, to, FETCHED).await?;
        let new: BTreeSet<String> = new.into_iter().collect();
        for commit in commits
            .into_iter()
            .filter(|commit| new.contains(&commit.sha))
        {
            let text = format!("{}\n{}\n{}", commit.author, commit.subject, commit.body);
            if let Some(Hit { kind, .. }) = self.hits(text.as_bytes(), &[]).pop() {
                let commit = commit.sha;
                let what = Wrong::SecretInMessage { kind, commit };
                objections.push(Objection::to_all(what));
            }
        }
        if new.len() < 2 {
            return Ok(objections);
        }
        let judged: BTreeSet<&String> = net.iter().map(|file| &file.blob).collect();
        let mut carried = git.new_blobs(place, from, to, FETCHED).await?;
        carried.retain(|(blob, _)| !judged.contains(blob));
        for some in carried.chunks(16) {
            let blobs: Vec<String> = some.iter().map(|(blob, _)| blob.clone()).collect();
            let contents = git.blobs(place, &blobs, SCANNED / 4).await?;
            for (content, (_, path)) in contents.iter().zip(some) {
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
        let hit = |kind, at| Hit {
            kind,
            line: line(at),
        };
        let own = self.canaries.find_new(new, old);
        let mut hits: Vec<Hit> = own.into_iter().map(|at| hit(OWN, at)).collect();
        if self.limits.secrets {
            let is_new = |found: &secret_scan::SecretHit| {
                let text = new.get(found.at.clone());
                text.is_some_and(|text| position(old, text).is_none())
            };
            let found = secret_scan::find(new).into_iter().filter(is_new);
            hits.extend(found.map(|found| hit(found.kind, found.at.start)));
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
