//! What a command prints. Every text on its way out is made harmless here, whoever wrote it, so that no command can
//! forget to: colour comes only from the styles named in this file.

use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, presets};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;

use crate::diagnostic::Colour;
use crate::sanitize;

/// Where results go (stdout), and everything else (stderr).
pub(crate) struct Ui {
    stdout: AutoStream<io::Stdout>,
    stderr: AutoStream<io::Stderr>,
    /// Of a terminal; none in a pipe, where nothing is wrapped.
    width: Option<usize>,
    pub(crate) format: Format,
    /// Lines at the bottom that are drawn again and again.
    live: usize,
    /// What is printed is kept, to be compared and drawn as a whole.
    kept: Option<String>,
}

/// For people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// How a piece of a line looks on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextStyle {
    Plain,
    Strong,
    Faint,
    Good,
    Bad,
    Notice,
    /// Something to type.
    Command,
}

/// One line, in pieces.
#[derive(Debug, Clone, Default)]
pub(crate) struct Line(Vec<(TextStyle, String)>);

/// Rows under a heading, aligned.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Ui {
    pub(crate) fn new(format: Format) -> Self {
        Self {
            stdout: AutoStream::auto(io::stdout()),
            stderr: AutoStream::auto(io::stderr()),
            width: width(),
            format,
            live: 0,
            kept: None,
        }
    }

    /// From here on results are kept, until `take` gives them.
    pub(crate) fn keep(&mut self) {
        self.kept = Some(String::new());
    }

    /// What was printed since `keep`.
    pub(crate) fn take(&mut self) -> String {
        self.kept.take().unwrap_or_default()
    }

    /// Draws a picture that was kept over the one before; in a pipe it is printed, with an empty line before the next.
    pub(crate) fn draw(&mut self, picture: &str, is_first: bool) -> io::Result<()> {
        if self.is_screen() {
            // Home; each line clears what stood behind it, the last all that stood below.
            write!(
                self.stdout,
                "{}\u{1b}[H",
                if is_first { "\u{1b}[2J" } else { "" }
            )?;
            for line in picture.lines() {
                write!(self.stdout, "{line}\u{1b}[K\r\n")?;
            }
            write!(self.stdout, "\u{1b}[J")?;
        } else {
            let gap = if is_first || self.is_json() { "" } else { "\n" };
            write!(self.stdout, "{gap}{picture}")?;
        }
        self.stdout.flush()
    }

    /// A terminal that can be drawn on.
    pub(crate) fn is_screen(&self) -> bool {
        self.width.is_some()
            && !self.is_json()
            && self.stdout.current_choice() != ColorChoice::Never
    }

    /// Whoever read our results has gone away, which a program that only waits would never notice.
    pub(crate) fn is_deserted(&self) -> bool {
        let stdout = io::stdout();
        let mut asked = [PollFd::new(&stdout, PollFlags::empty())];
        let now = rustix::event::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::event::poll(&mut asked, Some(&now)).is_ok_and(|found| found > 0)
            && asked
                .iter()
                .any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP))
    }

    /// All results come by here.
    fn put(&mut self, text: std::fmt::Arguments<'_>) -> io::Result<()> {
        match &mut self.kept {
            Some(kept) => {
                kept.push_str(&text.to_string());
                Ok(())
            }
            None => self.stdout.write_fmt(text),
        }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// One line of a result.
    pub(crate) fn line(&mut self, line: impl Into<Line>) -> io::Result<()> {
        let line = line.into().render();
        self.put(format_args!("{line}\n"))
    }

    /// Draws lines at the bottom of a terminal, to be drawn over by the next; in a pipe, or without escape codes,
    /// nothing is drawn.
    pub(crate) fn live(&mut self, lines: &[Line]) -> io::Result<()> {
        self.erase_live()?;
        let Some(width) = self
            .width
            .filter(|_| self.stdout.current_choice() != ColorChoice::Never)
        else {
            return Ok(());
        };
        for line in lines {
            writeln!(
                self.stdout,
                "{}",
                line.cut(width.saturating_sub(1)).render()
            )?;
        }
        self.live = lines.len();
        self.stdout.flush()
    }

    /// Takes what `live` drew away, so that what is printed next stands in its place.
    pub(crate) fn erase_live(&mut self) -> io::Result<()> {
        if self.live > 0 {
            // Up, and clear to the end of the screen.
            write!(self.stdout, "\u{1b}[{}A\u{1b}[J", self.live)?;
            self.live = 0;
        }
        Ok(())
    }

    /// What is being waited for, on one line of stderr that the next one replaces; only on a terminal.
    pub(crate) fn progress(&mut self, text: &str) {
        if !io::stderr().is_terminal() || self.stderr.current_choice() == ColorChoice::Never {
            return;
        }
        let text: String = sanitize::line(text)
            .chars()
            .take(self.width.unwrap_or(80).saturating_sub(1))
            .collect();
        // Nobody who is not there misses it.
        drop(write!(self.stderr, "\r\u{1b}[K{text}").and_then(|()| self.stderr.flush()));
    }

    /// A result that is broken between its words on a terminal, and set in by `indent` columns after the first line.
    pub(crate) fn wrapped(&mut self, head: Line, indent: usize, text: &str) -> io::Result<()> {
        let room = self
            .width
            .map_or(usize::MAX, |width| width.saturating_sub(indent).max(20));
        let mut lines = broken(&sanitize::line(text), room).into_iter();
        self.line(head.plain(lines.next().unwrap_or_default()))?;
        for line in lines {
            self.line(format!("{:indent$}{line}", ""))?;
        }
        Ok(())
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        self.put(format_args!("\n"))
    }

    /// Text of many lines, each set in by `indent` columns.
    pub(crate) fn block(&mut self, text: &str, indent: usize) -> io::Result<()> {
        for line in sanitize::block(text).trim_end().lines() {
            self.put(format_args!(
                "{}\n",
                format!("{:indent$}{line}", "").trim_end()
            ))?;
        }
        Ok(())
    }

    /// A part of a stream: as it is, no newline added.
    pub(crate) fn stream(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(sanitize::block(text).as_bytes())?;
        self.stdout.flush()
    }

    /// Byte for byte, for another program. Only where the person asked for it.
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Of the terminal, if it is one.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.rendered(&table.render(self.width))
    }

    /// A table whose maker has cut its cells to what fits: no cell is broken.
    pub(crate) fn cut_table(&mut self, table: &Table) -> io::Result<()> {
        self.rendered(&table.render(None))
    }

    fn rendered(&mut self, text: &str) -> io::Result<()> {
        let mut lines = text.lines();
        if let Some(heads) = lines.next() {
            self.line(Line::default().faint(heads))?;
        }
        for line in lines {
            self.line(line)?;
        }
        Ok(())
    }

    /// One document.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = sanitize::json(&serde_json::to_string_pretty(value)?);
        self.put(format_args!("{text}\n"))
    }

    /// One document of a stream of them, on one line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = sanitize::json(&serde_json::to_string(value)?);
        writeln!(self.stdout, "{text}")?;
        self.stdout.flush()
    }

    /// Something that is not the result.
    pub(crate) fn note(&mut self, line: impl Into<Line>) -> io::Result<()> {
        let line = line.into().render();
        writeln!(self.stderr, "{line}")
    }

    /// A report that `snippet` drew, in colour where stderr shows colour. It has made the text harmless itself.
    pub(crate) fn snippet(&mut self, draw: impl FnOnce(Colour) -> String) -> io::Result<()> {
        let shows_colour = self.stderr.current_choice() != ColorChoice::Never;
        let text = draw(if shows_colour {
            Colour::Ansi
        } else {
            Colour::Plain
        });
        writeln!(self.stderr, "{}", text.trim_end())
    }

    /// A report with lines of its own (a place in a file), on stderr.
    pub(crate) fn report(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stderr, "{}", sanitize::block(text).trim_end())
    }
}

impl Line {
    pub(crate) fn plain(self, text: impl AsRef<str>) -> Self {
        self.piece(TextStyle::Plain, text)
    }

    pub(crate) fn strong(self, text: impl AsRef<str>) -> Self {
        self.piece(TextStyle::Strong, text)
    }

    pub(crate) fn faint(self, text: impl AsRef<str>) -> Self {
        self.piece(TextStyle::Faint, text)
    }

    pub(crate) fn command(self, text: impl AsRef<str>) -> Self {
        self.piece(TextStyle::Command, text)
    }

    pub(crate) fn piece(mut self, look: TextStyle, text: impl AsRef<str>) -> Self {
        self.0.push((look, sanitize::line(text.as_ref())));
        self
    }

    /// As much of it as fits into so many columns: a line that wraps could not be drawn over.
    fn cut(&self, width: usize) -> Self {
        let mut left = width;
        let pieces = self.0.iter().map(|(look, piece)| {
            let piece: String = piece.chars().take(left).collect();
            left = left.saturating_sub(piece.chars().count());
            (*look, piece)
        });
        Self(pieces.collect())
    }

    fn render(&self) -> String {
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
    fn style(self) -> Style {
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

/// Characters of a cell: an event may hold megabytes, and JSON has all of them.
const CELL_CAP: usize = 2_000;

impl Table {
    pub(crate) fn new(heads: &[&'static str]) -> Self {
        Self {
            heads: heads.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        self.rows.push(
            cells
                .into_iter()
                .map(|cell| sanitize::line(&sanitize::cap(cell.as_ref(), CELL_CAP)))
                .collect(),
        );
    }

    /// Within `width` columns by breaking the long cells, or without breaking anything.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING)
            .set_header(self.heads.clone());
        grid.add_rows(self.rows.clone());
        let last = self.heads.len().saturating_sub(1);
        for (at, column) in grid.column_iter_mut().enumerate() {
            column
                .set_padding((0, if at == last { 0 } else { 2 }))
                .set_cell_alignment(CellAlignment::Left);
        }
        match width.and_then(|width| u16::try_from(width).ok()) {
            Some(width) => {
                grid.set_content_arrangement(ContentArrangement::Dynamic)
                    .set_width(width);
                self.keep_short_columns(&mut grid, width);
            }
            None => {
                grid.set_content_arrangement(ContentArrangement::Disabled);
            }
        }
        grid.lines()
            .map(|line| line.trim_end().to_owned())
            .collect::<Vec<_>>()
            .join("\n")
    }

    /// Ids, states and times are never broken as long as there is room for something else.
    fn keep_short_columns(&self, grid: &mut Grid, width: u16) {
        let widest = |at: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|cell| cell.chars().count());
            cells
                .chain(self.heads.get(at).map(|head| head.len()))
                .max()
                .unwrap_or(0)
        };
        let short: Vec<(usize, u16)> = (0..self.heads.len())
            .filter_map(|at| {
                Some((
                    at,
                    u16::try_from(widest(at)).ok().filter(|wide| *wide <= 24)?,
                ))
            })
            .collect();
        let taken: u16 = short.iter().map(|(_, wide)| wide + 2).sum();
        if taken + 20 > width {
            return;
        }
        for (at, _) in short {
            if let Some(column) = grid.column_mut(at) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
    }
}

/// Lines of at most `room` characters; a word that is longer has its own.
fn broken(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= room => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) | None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Columns of the terminal that the result goes to.
fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col));
    Some(
        size.filter(|columns| *columns > 0)
            .or_else(crate::config::columns)
            .unwrap_or(80)
            .max(40),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["CHANGE", "TITLE", "SINCE"]);
        table.row([
            "c1",
            "a title that is rather long and has to be broken somewhere",
            "3 min ago",
        ]);
        table.row(["c2", "short\u{1b}[31m", "now"]);
        table
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let text = table().render(Some(44));
        assert!(
            text.lines().all(|line| line.chars().count() <= 44),
            "{text}"
        );
        insta::assert_snapshot!(text, @"
        CHANGE  TITLE                      SINCE
        c1      a title that is rather     3 min ago
                long and has to be broken
                somewhere
        c2      short␛[31m                 now
        ");
    }

    #[test]
    fn a_table_in_a_pipe_is_not_broken() {
        insta::assert_snapshot!(table().render(None), @"
        CHANGE  TITLE                                                       SINCE
        c1      a title that is rather long and has to be broken somewhere  3 min ago
        c2      short␛[31m                                                  now
        ");
    }

    #[test]
    fn text_is_broken_between_words() {
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("a-very-long-word b", 4), ["a-very-long-word", "b"]);
        assert_eq!(broken("one two", usize::MAX), ["one two"]);
    }

    #[test]
    fn only_our_own_colour_is_in_a_line() {
        let line = Line::default().strong("bold").plain(" \u{1b}[31m\nnot red");
        assert_eq!(line.render(), "\u{1b}[1mbold\u{1b}[0m ␛[31m⏎not red");
    }
}
