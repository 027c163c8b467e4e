//! Scripts that a test writes and then starts.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Writes a shell script through a child: a file that this process has open for writing, or that
/// another test's child inherited for a moment, cannot be executed ("text file busy").
#[expect(clippy::disallowed_methods, reason = "writes the scripts of tests")]
pub(crate) fn write_script(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut writer = Command::new("/bin/sh");
    writer
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped());
    let mut child = writer.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(format!("#!/bin/sh\n{text}\n").as_bytes())
        .unwrap();
    assert!(child.wait().unwrap().success());
}
