//! A diff as far as comments on its lines need it: which lines of which files are in it, and what stands above them.

use super::state::Side;

/// Where a comment may stand.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    NoPath,
    NoLine,
    /// The lines of its hunk, down to its own.
    Found(String),
}

pub(super) fn place(diff: &str, path: &str, line: i64, side: Side) -> Place {
    let mut found = Place::NoPath;
    let mut is_in_file = false;
    let mut hunk: Option<Hunk> = None;
    for text in diff.lines() {
        if text.starts_with("diff --git ") {
            (is_in_file, hunk) = (false, None);
        } else if hunk.is_none() && is_name(text, path) {
            (is_in_file, found) = (true, Place::NoLine);
        } else if text.starts_with("@@ ") {
            hunk = Hunk::begin(text);
        } else if let Some(hunk) = &mut hunk
            && hunk.take(text, line, side)
            && is_in_file
        {
            return Place::Found(std::mem::take(&mut hunk.text));
        }
    }
    found
}

/// `+++ b/path`, or `--- a/path` of a file that is gone. A name with a blank in it has a tab behind it.
fn is_name(text: &str, path: &str) -> bool {
    let name = text
        .strip_prefix("+++ b/")
        .or_else(|| text.strip_prefix("--- a/"));
    name.is_some_and(|name| name.trim_end_matches('\t') == path)
}

struct Hunk {
    text: String,
    old: i64,
    new: i64,
}

impl Hunk {
    /// `@@ -1,3 +1,4 @@ …`.
    fn begin(text: &str) -> Option<Self> {
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

    /// Whether this is the line that is looked for.
    fn take(&mut self, text: &str, line: i64, side: Side) -> bool {
        if text.starts_with('\\') {
            return false;
        }
        self.text.push('\n');
        self.text.push_str(text);
        let (is_old, is_new) = (!text.starts_with('+'), !text.starts_with('-'));
        let is_it = match side {
            Side::Left => is_old && self.old == line,
            Side::Right => is_new && self.new == line,
        };
        self.old += i64::from(is_old);
        self.new += i64::from(is_new);
        is_it
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
    fn a_comment_stands_where_the_diff_is() {
        let found = |text: &str| Place::Found(text.to_owned());
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
            ("a.txt", 21, Side::Left, Place::NoLine),
            ("a.txt", 10, Side::Right, Place::NoLine),
            ("gone", 1, Side::Left, found("@@ -1 +0,0 @@\n-x")),
            ("gone", 1, Side::Right, Place::NoLine),
            ("c.txt", 1, Side::Right, Place::NoPath),
        ] {
            assert_eq!(
                place(DIFF, path, line, side),
                expected,
                "{path}:{line} {side:?}"
            );
        }
    }
}
