//! The files that the settings come from, as they are on disk: the config file, the evaluators and
//! the prompts.
//!
//! Detects whether they still match what was loaded; it never parses them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::fingerprint::fnv;

/// Maximum number of bytes compared per file: far more than any settings.
const CAP: u64 = 16 * 1024 * 1024;

/// Locations of the files, whether they exist or not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    pub(super) config: Option<PathBuf>,
    pub(super) evaluators: Option<PathBuf>,
    pub(super) prompts: Option<PathBuf>,
}

/// The files and their contents, by name: `config.toml`, `prompts/fix.md`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sources {
    files: BTreeMap<String, Content>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    Text {
        hash: u128,
        is_blank: bool,
    },
    /// Not part of the settings (a program next to the evaluators): only its presence counts.
    Other,
    /// Pipe, device or directory: reading it could block forever.
    Special,
    Unreadable(io::ErrorKind),
}

/// Result of `stat` for each file: enough to know that nothing was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stats(Vec<(String, Option<[i64; 7]>)>);

impl Watched {
    /// Reads the metadata of all files, but no contents.
    pub(crate) fn stats(&self) -> Stats {
        Stats(
            self.files()
                .into_iter()
                .map(|(name, path, _)| (name, fs::metadata(path).ok().map(|meta| of_file(&meta))))
                .collect(),
        )
    }

    /// Reads all files.
    pub(crate) fn read(&self) -> Sources {
        let content = |(name, path, is_read): (String, PathBuf, bool)| {
            let content = if is_read {
                Content::read(&path)
            } else {
                Content::Other
            };
            (name, content)
        };
        Sources {
            files: self.files().into_iter().map(content).collect(),
        }
    }

    /// Like `read`, for a config file whose text has already been read: the parsed and the compared
    /// bytes are the same.
    pub(super) fn read_beside(&self, config_text: Option<&str>) -> Sources {
        let mut sources = self.read();
        if let (Some(name), Some(text)) = (self.config.as_deref().map(name_of), config_text)
            && sources.files.get(&name) != Some(&Content::Special)
        {
            sources.files.insert(name, Content::of(text.as_bytes()));
        }
        sources
    }

    /// Lists names, paths, and whether the content counts.
    fn files(&self) -> Vec<(String, PathBuf, bool)> {
        let mut files = Vec::new();
        if let Some(path) = self
            .config
            .as_ref()
            .filter(|path| path.symlink_metadata().is_ok())
        {
            files.push((name_of(path), path.clone(), true));
        }
        for (folder, path) in [("evaluators", &self.evaluators), ("prompts", &self.prompts)] {
            let Some(path) = path else { continue };
            match fs::read_dir(path) {
                Ok(entries) => files.extend(entries.flatten().filter_map(|entry| {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    let is_read = folder == "prompts" || name.ends_with(".toml");
                    (!name.starts_with('.'))
                        .then(|| (format!("{folder}/{name}"), entry.path(), is_read))
                })),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(_) => files.push((folder.to_owned(), path.clone(), true)),
            }
        }
        files.sort();
        files
    }
}

impl Sources {
    /// Returns a hash that is the same for the same files in every build.
    pub(crate) fn fingerprint(&self) -> String {
        let mut all = Vec::new();
        for (name, content) in &self.files {
            all.extend_from_slice(name.as_bytes());
            all.push(0);
            let word = match content {
                Content::Text { hash, .. } => format!("{hash:032x}"),
                Content::Other => "other".to_owned(),
                Content::Special => "special".to_owned(),
                Content::Unreadable(kind) => kind.to_string(),
            };
            all.extend_from_slice(word.as_bytes());
            all.push(0);
        }
        format!("{:032x}", fnv(&all))
    }

    /// Returns the names of files that differ.
    pub(crate) fn changed_since(&self, old: &Self) -> Vec<String> {
        let names = self.files.keys().chain(
            old.files
                .keys()
                .filter(|name| !self.files.contains_key(*name)),
        );
        names
            .filter(|name| self.files.get(*name) != old.files.get(*name))
            .cloned()
            .collect()
    }

    /// Returns files that had text and are blank now.
    pub(super) fn emptied_since(&self, old: &Self) -> Vec<String> {
        let is_blank = |content: Option<&Content>| {
            matches!(content, Some(Content::Text { is_blank: true, .. }))
        };
        let had_text = |name: &str| {
            matches!(
                old.files.get(name),
                Some(Content::Text {
                    is_blank: false,
                    ..
                })
            )
        };
        self.files
            .keys()
            .filter(|name| is_blank(self.files.get(*name)) && had_text(name))
            .cloned()
            .collect()
    }

    /// Returns a file that must not be opened.
    pub(crate) fn special(&self) -> Option<&str> {
        self.files
            .iter()
            .find(|(_, content)| **content == Content::Special)
            .map(|(name, _)| name.as_str())
    }
}

impl Content {
    fn read(path: &Path) -> Self {
        let read = || -> io::Result<Option<Vec<u8>>> {
            // A pipe in place of a settings file must not block.
            let flags = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or(0);
            if !fs::metadata(path)?.is_file() {
                return Ok(None);
            }
            let file = OpenOptions::new()
                .read(true)
                .custom_flags(flags)
                .open(path)?;
            if !file.metadata()?.is_file() {
                return Ok(None);
            }
            let mut bytes = Vec::new();
            file.take(CAP).read_to_end(&mut bytes)?;
            Ok(Some(bytes))
        };
        match read() {
            Ok(Some(bytes)) => Self::of(&bytes),
            Ok(None) => Self::Special,
            Err(error) => Self::Unreadable(error.kind()),
        }
    }

    fn of(bytes: &[u8]) -> Self {
        let bytes = bytes
            .get(..usize::try_from(CAP).unwrap_or(usize::MAX))
            .unwrap_or(bytes);
        Self::Text {
            hash: fnv(bytes),
            is_blank: bytes.iter().all(u8::is_ascii_whitespace),
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

fn of_file(meta: &fs::Metadata) -> [i64; 7] {
    let number = |n: u64| i64::from_ne_bytes(n.to_ne_bytes());
    [
        number(meta.dev()),
        number(meta.ino()),
        number(meta.size()),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(folder: &Path) -> Watched {
        Watched {
            config: Some(folder.join("config.toml")),
            evaluators: Some(folder.join("evaluators")),
            prompts: Some(folder.join("prompts")),
        }
    }

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv(b"foobar"), 0x343e_1662_793c_64bf_6f0d_3597_ba44_6f18);
    }

    #[test]
    fn every_file_of_the_settings_counts_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let watched = watched(folder.path());
        let mut seen = vec![watched.read()];
        let mut changes = |what: &str, files: &[&str]| {
            let (now, last) = (watched.read(), seen.last().unwrap().clone());
            assert_eq!(now.changed_since(&last), files, "{what}");
            assert_eq!(
                now.fingerprint() == last.fingerprint(),
                files.is_empty(),
                "{what}"
            );
            seen.push(now);
        };
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("config.toml", "agent = \"a\"\n");
        changes("a file where none was", &["config.toml"]);
        fs::create_dir(folder.path().join("evaluators")).unwrap();
        changes("an empty folder", &[]);
        write("evaluators/mine.toml", "kind = \"command\"\n");
        write("evaluators/run.sh", "#!/bin/sh\n");
        changes(
            "an evaluator and its program",
            &["evaluators/mine.toml", "evaluators/run.sh"],
        );
        write("evaluators/run.sh", "#!/bin/sh\nexit 1\n");
        write("evaluators/.mine.toml.swp", "x");
        changes("the program and an editor's file", &[]);
        fs::create_dir(folder.path().join("prompts")).unwrap();
        write("prompts/fix.md", "Fix it.\n");
        changes("a prompt", &["prompts/fix.md"]);
        fs::remove_file(folder.path().join("config.toml")).unwrap();
        changes("a file that is gone", &["config.toml"]);
    }

    #[test]
    fn an_edit_of_the_same_length_and_time_is_seen_without_reading() {
        let folder = tempfile::tempdir().unwrap();
        let watched = watched(folder.path());
        let path = folder.path().join("config.toml");
        fs::write(&path, "slots = 1\n").unwrap();
        let (before, time) = (
            watched.stats(),
            fs::metadata(&path).unwrap().modified().unwrap(),
        );
        assert_eq!(watched.stats(), before);
        fs::write(folder.path().join("new"), "slots = 2\n").unwrap();
        fs::rename(folder.path().join("new"), &path).unwrap();
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(time)
            .unwrap();
        assert_ne!(watched.stats(), before);
    }

    #[test]
    fn a_pipe_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let watched = watched(folder.path());
        fs::create_dir(folder.path().join("prompts")).unwrap();
        let pipe = folder.path().join("prompts/fix.md");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(watched.read().special(), Some("prompts/fix.md"));
    }
}
