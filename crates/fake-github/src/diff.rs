//! Finds the lines of a diff that comments can be attached to.

use crate::state::Side;

/// The result of looking for a line in a diff.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineInDiff {
    NoPath,
    NoLine,
    /// The hunk from its header to the line.
    Found(String),
}

pub(crate) fn find_line(diff: &str, path: &str, line: i64, side: Side) -> LineInDiff {
    let mut found = LineInDiff::NoPath;
    let mut is_in_file = false;
    let mut hunk: Option<Hunk> = None;
    for text in diff.lines() {
        if text.starts_with("diff --git ") {
            (is_in_file, hunk) = (false, None);
        } else if hunk.is_none() && is_file_header(text, path) {
            (is_in_file, found) = (true, LineInDiff::NoLine);
        } else if text.starts_with("@@ ") {
            hunk = Hunk::parse_header(text);
        } else if let Some(hunk) = &mut hunk
            && hunk.push(text, line, side)
            && is_in_file
        {
            return LineInDiff::Found(std::mem::take(&mut hunk.text));
        }
    }
    found
}

/// True for the line `+++ b/path`, or `--- a/path` of a deleted file. git adds a tab to a path that contains a space.
fn is_file_header(text: &str, path: &str) -> bool {
    let name = text
        .strip_prefix("+++ b/")
        .or_else(|| text.strip_prefix("--- a/"));
    name.is_some_and(|name| name.trim_end_matches('\t') == path)
}

struct Hunk {
    text: String,
    /// Number of the next line in the old file.
    old: i64,
    /// Number of the next line in the new file.
    new: i64,
}

impl Hunk {
    /// Parses `@@ -1,3 +1,4 @@ …`.
    fn parse_header(text: &str) -> Option<Self> {
        let mut words = text.split(' ').skip(1);
        let mut start = |sign: char| {
            words
                .next()?
                .strip_prefix(sign)?
                .split(',')
                .next()?
                .parse::<i64>()
                .ok()
        };
        Some(Self {
            text: text.to_owned(),
            old: start('-')?,
            new: start('+')?,
        })
    }

    /// Appends a line, and returns whether it is the one with this number on this side.
    fn push(&mut self, text: &str, line: i64, side: Side) -> bool {
        if text.starts_with('\\') {
            return false;
        }
        self.text.push('\n');
        self.text.push_str(text);
        let (is_old, is_new) = (!text.starts_with('+'), !text.starts_with('-'));
        let is_match = match side {
            Side::Left => is_old && self.old == line,
            Side::Right => is_new && self.new == line,
        };
        self.old += i64::from(is_old);
        self.new += i64::from(is_new);
        is_match
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,3 @@
 one
-two
+++ b/c.txt
 three
@@ -20 +20,2 @@ over there
 twenty
+more
diff --git a/gone b/gone
deleted file mode 100644
--- a/gone
+++ /dev/null
@@ -1 +0,0 @@
-x
";

    #[test]
    fn a_line_is_found_only_inside_the_diff() {
        let found = |text: &str| LineInDiff::Found(text.to_owned());
        let hunk = "@@ -1,3 +1,3 @@\n one\n-two";
        for (path, line, side, expected) in [
            ("a.txt", 2, Side::Left, found(hunk)),
            (
                "a.txt",
                2,
                Side::Right,
                found(&format!("{hunk}\n+++ b/c.txt")),
            ),
            (
                "a.txt",
                21,
                Side::Right,
                found("@@ -20 +20,2 @@ over there\n twenty\n+more"),
            ),
            ("a.txt", 21, Side::Left, LineInDiff::NoLine),
            ("a.txt", 10, Side::Right, LineInDiff::NoLine),
            ("gone", 1, Side::Left, found("@@ -1 +0,0 @@\n-x")),
            ("gone", 1, Side::Right, LineInDiff::NoLine),
            ("c.txt", 1, Side::Right, LineInDiff::NoPath),
        ] {
            assert_eq!(
                find_line(DIFF, path, line, side),
                expected,
                "{path}:{line} {side:?}"
            );
        }
    }
}
