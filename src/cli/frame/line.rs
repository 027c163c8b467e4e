//! A line of styled pieces, and how it is broken to the width of a terminal.

use std::fmt::Display;

use anstyle::{AnsiColor, Style};

use crate::sanitize;
use crate::text::{columns, fitting};

/// Style of a piece of a line on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Notice,
    /// A command to type.
    Command,
}

/// One line of styled pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Vec<(TextStyle, String)>);

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Label of `status` and `show`, padded to its column.
    pub(crate) fn label(label: &str) -> Self {
        Self::new().faint(format!("{label:<11}"))
    }

    pub(crate) fn plain(self, text: impl Display) -> Self {
        self.piece(TextStyle::Plain, text)
    }

    pub(crate) fn strong(self, text: impl Display) -> Self {
        self.piece(TextStyle::Strong, text)
    }

    pub(crate) fn faint(self, text: impl Display) -> Self {
        self.piece(TextStyle::Faint, text)
    }

    pub(crate) fn command(self, text: impl Display) -> Self {
        self.piece(TextStyle::Command, text)
    }

    /// Appends a notice and the command to run.
    pub(crate) fn remedy(self, what: impl Display, command: impl Display) -> Self {
        let line = self.piece(TextStyle::Notice, what).plain(": ");
        line.command(command)
    }

    pub(crate) fn piece(mut self, look: TextStyle, text: impl Display) -> Self {
        self.0.push((look, sanitize::line(&text.to_string())));
        self
    }

    pub(super) fn columns(&self) -> usize {
        self.0.iter().map(|(_, piece)| columns(piece)).sum()
    }

    /// Cuts the line to `width` columns: a line that wraps could not be redrawn.
    pub(super) fn cut(&self, width: usize) -> Self {
        let mut left = width;
        let pieces = self.0.iter().map(|(look, piece)| {
            let piece = fitting(piece, left).to_owned();
            left = left.saturating_sub(columns(&piece));
            (*look, piece)
        });
        Self(pieces.collect())
    }

    /// Breaks the line at spaces into lines of at most `width` columns, all but the first indented.
    /// A command in backticks stays on one line.
    pub(super) fn wrap(&self, width: usize, indent: usize) -> Vec<Self> {
        let (mut lines, mut line) = (Vec::new(), Self::new());
        let (mut column, mut after_space) = (0, false);
        for (look, piece) in &self.0 {
            for word in unbroken(piece).split_inclusive(' ') {
                let word = word.replace(NO_BREAK, " ");
                let width_of_word = columns(word.trim_end());
                if after_space && column > indent && column + width_of_word > width {
                    lines.push(std::mem::take(&mut line));
                    line = Self::new().plain(" ".repeat(indent));
                    column = indent;
                }
                column += columns(&word);
                after_space = word.ends_with(' ');
                line.0.push((*look, word));
            }
        }
        lines.push(line);
        lines
    }

    pub(super) fn render(&self) -> String {
        let mut text = String::new();
        for (look, piece) in &self.0 {
            let style = look.style();
            text.push_str(&format!("{style}{piece}{style:#}"));
        }
        text.trim_end().to_owned()
    }
}

impl From<&str> for Line {
    fn from(text: &str) -> Self {
        Self::default().plain(text)
    }
}

impl From<String> for Line {
    fn from(text: String) -> Self {
        Self::default().plain(text)
    }
}

impl TextStyle {
    pub(super) fn style(self) -> Style {
        match self {
            Self::Plain => Style::new(),
            Self::Strong => Style::new().bold(),
            Self::Faint => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Notice => AnsiColor::Yellow.on_default(),
            Self::Command => AnsiColor::Cyan.on_default(),
        }
    }
}

pub(super) const NO_BREAK: &str = "\u{a0}";

/// Prevents wrapping inside a command in backticks, which people copy.
pub(super) fn unbroken(text: &str) -> String {
    let is_command = |at: usize, part: &str| at % 2 == 1 && part.chars().count() < 60;
    let parts = text.split('`').enumerate().map(|(at, part)| {
        if is_command(at, part) {
            part.replace(' ', NO_BREAK)
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_broken_at_spaces_and_not_inside_a_command() {
        let line = Line::new()
            .piece(TextStyle::Bad, "error:")
            .plain(" ")
            .plain("there is no change `c7` here; `remand list --all` lists them all (ever)");
        let lines: Vec<String> = line
            .wrap(40, 2)
            .iter()
            .map(|line| anstream::adapter::strip_str(&line.render()).to_string())
            .collect();
        assert_eq!(
            lines,
            [
                "error: there is no change `c7` here;",
                "  `remand list --all` lists them all",
                "  (ever)"
            ]
        );
        assert_eq!(Line::new().plain("x".repeat(99)).wrap(40, 2).len(), 1);
    }
}
