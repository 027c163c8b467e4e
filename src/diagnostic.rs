//! Renders a problem in a text file the way compilers do: file, line, column, the source line and a
//! label. Text in, text out: this module reads no files and prints nothing.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, normalize_untrusted_str};

/// Problem in a file that a person wrote and can fix: what is wrong, where, and what would be
/// right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) title: String,
    /// Byte range in the source. Without one there is no source line to show, and the label becomes
    /// a note.
    pub(crate) span: Option<Range<usize>>,
    /// Text shown under the marked range.
    pub(crate) label: Option<String>,
    pub(crate) help: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Plain,
    Ansi,
}

impl Problem {
    pub(crate) fn new(title: impl Into<String>, span: Option<Range<usize>>) -> Self {
        Self {
            title: title.into(),
            span,
            label: None,
            help: None,
        }
    }

    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a label with the word that was probably meant, if there is a close match.
    pub(crate) fn did_you_mean(self, word: &str, known: &[&str]) -> Self {
        match nearest(word, known.iter().copied()) {
            Some(near) => self.label(format!("did you mean `{near}`?")),
            None => self,
        }
    }

    /// Renders the report for a file that is not printed on a terminal.
    pub(crate) fn report(&self, file: &str, source: &str) -> String {
        self.render(file, source, Colour::Plain)
    }
    /// Renders the whole report, without a trailing newline.
    pub(crate) fn render(&self, file: &str, source: &str, colour: Colour) -> String {
        let source = visible(source);
        let label = self.label.as_deref().map(clean);
        let mut group = Group::with_title(Level::ERROR.primary_title(clean(&self.title)));
        if let Some(span) = &self.span {
            let mark = AnnotationKind::Primary
                .span(within(&source, span))
                .label(label);
            let lines = Snippet::source(source.as_str()).path(clean(file));
            group = group.element(lines.annotation(mark));
        } else {
            group = group.elements(label.map(|text| Level::NOTE.message(text)));
        }
        let help = self.help.as_deref();
        group = group.elements(help.map(|text| Level::HELP.message(clean(text))));
        match colour {
            Colour::Plain => Renderer::plain(),
            Colour::Ansi => Renderer::styled(),
        }
        .render(&[group])
    }
}

/// Origin of a definition that a person may replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    Stock,
    File(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stock => f.write_str("stock"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// Returns line and column, both from 1, of a byte of the source. The column counts characters.
pub(crate) fn line_column(source: &str, offset: usize) -> (usize, usize) {
    let before = source
        .get(..source.floor_char_boundary(offset))
        .unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let last = before.rsplit('\n').next().unwrap_or_default();
    (line, last.chars().count() + 1)
}

/// Returns the word that was probably meant: the nearest one, if it is close enough.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    known
        .into_iter()
        .map(|candidate| (strsim::levenshtein(word, candidate), candidate))
        .filter(|(edits, candidate)| *edits <= 1 + candidate.chars().count() / 4)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// Removes escape sequences, which must not reach a terminal: any of the text may come from files
/// that others wrote.
fn clean(text: &str) -> String {
    normalize_untrusted_str(&visible(text))
}

/// Replaces control characters between U+0080 and U+009F, which some terminals obey.
///
/// The renderer handles ASCII control characters and those of bidirectional text, but lets these
/// through. The replacement has the same number of bytes, so that spans remain valid.
fn visible(text: &str) -> String {
    text.replace(|c| ('\u{80}'..='\u{9f}').contains(&c), "\u{b7}")
}

/// Moves a span into the source and to character boundaries, as the renderer requires.
fn within(source: &str, span: &Range<usize>) -> Range<usize> {
    let start = source.floor_char_boundary(span.start);
    start..source.floor_char_boundary(span.end).max(start)
}

/// Returns the title of a rendered report: its first line, without the source below it.
pub(crate) fn title(report: &str) -> &str {
    let line = report
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or(report)
        .trim();
    line.strip_prefix("error: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, problem: &Problem) -> String {
        problem.render("x.toml", source, Colour::Plain)
    }

    #[test]
    fn the_place_is_marked() {
        let problem = Problem::new("`b` has a wrong value", Some(10..15))
            .label("not a number")
            .help("leave it out for 2");
        insta::assert_snapshot!(render("a = 1\nb = \"two\"\n", &problem), @r#"
        error: `b` has a wrong value
         --> x.toml:2:5
          |
        2 | b = "two"
          |     ^^^^^ not a number
          |
          = help: leave it out for 2
        "#);
    }

    #[test]
    fn without_a_place_the_label_is_a_note() {
        let problem = Problem::new("`b` is too large", None).label("at most 3");
        insta::assert_snapshot!(render("", &problem), @"
        error: `b` is too large
         |
         = note: at most 3
        ");
    }

    #[test]
    fn colour_only_when_asked_and_never_from_the_file() {
        let problem = Problem::new("bad \u{1b}[31mkey", Some(0..99)).label("\u{1b}]0;x\u{7}");
        let source = "k\u{1b}[2J = \u{9b}1";
        assert!(
            !render(source, &problem)
                .chars()
                .any(|c| c.is_control() && c != '\n')
        );
        let coloured = Problem::new("t", Some(0..1)).render("x", "k", Colour::Ansi);
        assert!(coloured.contains('\u{1b}'));
    }

    #[test]
    fn a_span_outside_of_the_source_or_through_a_character_is_drawn_in() {
        for (start, end) in [(0, 0), (1, 2), (2, 2), (3, 1), (7, 900)] {
            let span = std::iter::once(start..end).next();
            assert!(render("é\nüber = 1", &Problem::new("t", span)).contains("error: t"));
        }
        assert!(render("", &Problem::new("t", Some(0..0))).contains("error: t"));
    }

    #[test]
    fn lines_and_columns_count_from_one() {
        let cases = [
            (0, (1, 1)),
            (1, (1, 1)),
            (2, (1, 2)),
            (3, (2, 1)),
            (4, (2, 2)),
            (99, (2, 3)),
        ];
        for (offset, expected) in cases {
            assert_eq!(line_column("é\nab", offset), expected, "{offset}");
        }
    }

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["max_fix_cycles", "max_run_s", "slots"];
        assert_eq!(nearest("max_fix_cycels", known), Some("max_fix_cycles"));
        assert_eq!(
            nearest("solts", known),
            Some("slots"),
            "two letters in the wrong order"
        );
        assert_eq!(nearest("slot", known), Some("slots"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest("", known), None);
    }
}
