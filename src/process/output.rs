//! Output of an agent: the start and the end are kept; the middle of an overlong stream is counted
//! and dropped.
//!
//! A stream is a sequence of files named after the offset of their first byte. The first holds the
//! head; of the others, the last three are kept. Files only grow or are deleted, so a reader needs
//! no lock while the agent runs.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::ProcessError;
use super::run_dir::{if_readable, if_there, meta_of, modified};
use crate::clock::Time;
use crate::files;

const HEAD: u64 = 256 * 1024;
const TAIL: u64 = 1024 * 1024;
const PIECE: u64 = TAIL / 2;
/// Number of pieces kept after the head: two complete ones and the one being written, so never less
/// than the tail.
const PIECES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// Stored output: head, a line with the number of omitted bytes, tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Text, with bytes that are not UTF-8 replaced.
    pub(crate) text: String,
    pub(crate) bytes_seen: u64,
    pub(crate) bytes_left_out: u64,
}

/// Returns the output stored so far; can be called while the run is live.
pub(crate) fn read_output(dir: &Path, stream: Stream) -> Result<Kept, ProcessError> {
    let mut runs = Runs::default();
    let pieces = pieces(dir, stream)?;
    let bytes_seen = pieces.last().map_or(0, |piece| piece.offset + piece.length);
    let tail_from = bytes_seen.saturating_sub(TAIL);
    for piece in &pieces {
        let is_head = piece.offset == 0;
        let from = if is_head {
            0
        } else {
            tail_from.max(piece.offset)
        };
        runs.push(from, &piece.read(from)?);
    }
    Ok(Kept {
        text: runs.text(),
        bytes_seen,
        bytes_left_out: runs.left_out,
    })
}

/// Returns the time of the last byte of a stream; `None` if there is none yet.
pub(crate) fn written_at(dir: &Path, stream: Stream) -> Result<Option<Time>, ProcessError> {
    let Some(piece) = pieces(dir, stream)?.pop() else {
        return Ok(None);
    };
    let millis = |since: Duration| i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    let since = modified(&piece.path)?;
    Ok(since.map(|since| Time::from_millis(millis(since))))
}

/// Reads a stream as it grows: each call returns what is new since the last.
pub(crate) struct Follow {
    dir: PathBuf,
    stream: Stream,
    next: u64,
    /// First bytes of a character whose remaining bytes have not been written yet.
    held: Vec<u8>,
}

impl Follow {
    /// Starts at the first byte that is kept.
    pub(crate) fn new(dir: &Path, stream: Stream) -> Self {
        Self {
            dir: dir.to_owned(),
            stream,
            next: 0,
            held: Vec::new(),
        }
    }

    /// Returns what was written since the last call, with a line for output dropped in between.
    pub(crate) fn more(&mut self) -> Result<String, ProcessError> {
        let mut runs = Runs {
            next: self.next,
            ..Runs::default()
        };
        runs.bytes.append(&mut self.held);
        for piece in pieces(&self.dir, self.stream)? {
            if piece.offset + piece.length > self.next {
                let from = self.next.max(piece.offset);
                runs.push(from, &piece.read(from)?);
                self.next = runs.next;
            }
        }
        self.held = runs
            .bytes
            .split_off(runs.bytes.len() - unfinished(&runs.bytes));
        Ok(runs.text())
    }
}

/// The shim's side: accepts all output and stores the part worth keeping. Never fails: an agent
/// must not hang or die because the disk is full.
pub(super) struct Keeper {
    dir: PathBuf,
    stream: Stream,
    seen: u64,
    current: Option<File>,
    /// Number of bytes that the current file can still take.
    room: u64,
    tail: VecDeque<u64>,
    trouble: Option<io::Error>,
}

impl Keeper {
    pub(super) fn new(dir: &Path, stream: Stream) -> Self {
        let dir = dir.to_owned();
        Self {
            dir,
            stream,
            seen: 0,
            current: None,
            room: 0,
            tail: VecDeque::new(),
            trouble: None,
        }
    }

    pub(super) fn seen(&self) -> u64 {
        self.seen
    }

    /// Returns the first error that prevented output from being stored.
    pub(super) fn trouble(&self) -> Option<&io::Error> {
        self.trouble.as_ref()
    }

    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.room == 0 {
                self.begin_piece();
            }
            let room = usize::try_from(self.room).unwrap_or(usize::MAX);
            let fits = bytes.len().min(room);
            let (now, later) = bytes.split_at(fits);
            if let Some(file) = &mut self.current
                && let Err(error) = file.write_all(now)
            {
                self.trouble.get_or_insert(error);
                // The contents of the file no longer match its offsets: the next byte starts a new
                // one.
                self.current = None;
            }
            let taken = u64::try_from(fits).unwrap_or(u64::MAX);
            self.seen += taken;
            self.room = if self.current.is_some() {
                self.room - taken
            } else {
                0
            };
            bytes = later;
        }
    }

    fn begin_piece(&mut self) {
        self.room = if self.seen == 0 { HEAD } else { PIECE };
        let path = piece_path(&self.dir, self.stream, self.seen);
        let created = files::create_private(&path);
        self.current = created
            .map_err(|error| self.trouble.get_or_insert(error))
            .ok();
        if self.seen == 0 {
            return;
        }
        self.tail.push_back(self.seen);
        if self.tail.len() > PIECES
            && let Some(old) = self.tail.pop_front()
            && let Err(error) = fs::remove_file(piece_path(&self.dir, self.stream, old))
        {
            self.trouble.get_or_insert(error);
        }
    }
}

struct Piece {
    path: PathBuf,
    offset: u64,
    length: u64,
}

impl Piece {
    /// Reads from an offset of the stream to the end of this piece; nothing if it was deleted
    /// meanwhile.
    fn read(&self, from: u64) -> Result<Vec<u8>, ProcessError> {
        let skip = from.saturating_sub(self.offset);
        let read = || {
            let mut bytes = Vec::new();
            let mut file = files::open(&self.path)?;
            file.seek(SeekFrom::Start(skip))?;
            let mut file = file.take(self.length.saturating_sub(skip));
            file.read_to_end(&mut bytes).map(|_| bytes)
        };
        Ok(if_readable(&self.path, read())?.unwrap_or_default())
    }
}

/// Bytes assembled from pieces, with a line where some are missing.
#[derive(Default)]
struct Runs {
    bytes: Vec<u8>,
    next: u64,
    left_out: u64,
}

impl Runs {
    fn push(&mut self, from: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if from > self.next {
            let missing = from - self.next;
            self.left_out += missing;
            self.bytes
                .extend_from_slice(format!("\n[{missing} bytes left out]\n").as_bytes());
        }
        self.bytes.extend_from_slice(bytes);
        self.next = from + u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Returns the number of bytes at the end that start a character without completing it.
fn unfinished(bytes: &[u8]) -> usize {
    for (back, byte) in bytes.iter().rev().take(3).enumerate() {
        let length = match byte {
            0b1100_0000..=0b1101_1111 => 2,
            0b1110_0000..=0b1110_1111 => 3,
            0b1111_0000..=0b1111_0111 => 4,
            0b1000_0000..=0b1011_1111 => continue,
            0..=0b0111_1111 | 0b1111_1000..=0b1111_1111 => return 0,
        };
        return if length > back + 1 { back + 1 } else { 0 };
    }
    0
}

/// Lists the pieces in stream order.
fn pieces(dir: &Path, stream: Stream) -> Result<Vec<Piece>, ProcessError> {
    let mut pieces = Vec::new();
    let entries = if_there(fs::read_dir(dir)).map_err(ProcessError::file("list", dir))?;
    for entry in entries.into_iter().flatten() {
        let entry = entry.map_err(ProcessError::file("list", dir))?;
        let (path, name) = (entry.path(), entry.file_name());
        let offset = name
            .to_str()
            .and_then(|name| name.strip_prefix(stream.prefix()))
            .and_then(|n| n.parse().ok());
        let Some(offset) = offset else { continue };
        if let Some(meta) = meta_of(&path)? {
            // No keeper writes a larger one: it was put there by someone else.
            let length = meta.len().min(TAIL);
            pieces.push(Piece {
                path,
                offset,
                length,
            });
        }
    }
    pieces.sort_by_key(|piece| piece.offset);
    // A keeper keeps only the first and the last ones, plus one while it drops one.
    let surplus = pieces.len().saturating_sub(PIECES + 2);
    if surplus > 0 {
        pieces.drain(1..=surplus);
    }
    Ok(pieces)
}

impl Stream {
    fn prefix(self) -> &'static str {
        match self {
            Self::Stdout => "stdout.",
            Self::Stderr => "stderr.",
        }
    }
}

fn piece_path(dir: &Path, stream: Stream, offset: u64) -> PathBuf {
    dir.join(format!("{}{offset}", stream.prefix()))
}

#[cfg(test)]
#[path = "output_tests.rs"]
mod tests;
