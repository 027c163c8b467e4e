//! Finds processes that have a file below a directory open for writing: none may while an agent is
//! at work there.

use std::path::{Path, PathBuf};

/// Process with a file open for writing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Writer {
    pub(crate) pid: i32,
    /// Program name, as reported by the system.
    pub(crate) name: String,
    /// The file, relative to the directory.
    pub(crate) path: PathBuf,
}

/// Lists the user's processes that may write below a directory now, except this one.
///
/// Processes that only have it as working directory (a shell) are not included, nor are those whose
/// files the system does not show.
#[cfg(target_os = "linux")]
pub(crate) fn writers(folder: &Path) -> Vec<Writer> {
    use std::fs;
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    let Ok(processes) = fs::read_dir("/proc") else {
        return found;
    };
    for process in processes.flatten() {
        let pid = process.file_name().to_string_lossy().into_owned();
        let Ok(number) = pid.parse::<i32>() else {
            continue;
        };
        // A process whose files are not readable is another user's.
        let Ok(files) = fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        if pid == own {
            continue;
        }
        for file in files.flatten() {
            let Ok(target) = fs::read_link(file.path()) else {
                continue;
            };
            let Ok(path) = target.strip_prefix(folder) else {
                continue;
            };
            let info = fs::read_to_string(process.path().join("fdinfo").join(file.file_name()))
                .unwrap_or_default();
            if is_writing(&info) && target.is_file() {
                let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
                found.push(Writer {
                    pid: number,
                    name: name.trim_end().to_owned(),
                    path: path.to_owned(),
                });
            }
        }
    }
    found
}

/// Always empty: without `/proc` this cannot be determined.
#[cfg(not(target_os = "linux"))]
pub(crate) fn writers(_folder: &Path) -> Vec<Writer> {
    Vec::new()
}

/// Parses `flags:`, those of open(2) in octal; the last two bits are the access mode.
#[cfg(target_os = "linux")]
fn is_writing(info: &str) -> bool {
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| flags & 0o3 != 0)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn how_a_file_was_opened() {
        assert!(!is_writing("pos:\t0\nflags:\t0100000\nmnt_id:\t25\n"));
        assert!(is_writing("pos:\t0\nflags:\t0100001\n"));
        assert!(is_writing("pos:\t0\nflags:\t02100002\n"));
        assert!(!is_writing(""));
    }
}
