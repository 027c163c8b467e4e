//! Output of commands. All text is sanitized here, whoever wrote it, so that no command can forget
//! to do so: colour comes only from the styles named in this file.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal as _, Write as _};

use anstream::{AutoStream, ColorChoice};
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table as Grid, presets};
use rustix::event::{PollFd, PollFlags};
use serde::Serialize;

pub(crate) use super::line::{Line, TextStyle};
use super::line::{NO_BREAK, unbroken};
use crate::diagnostic::Colour;
use crate::text::columns;
use crate::{config, sanitize};

/// Output for results (stdout) and everything else (stderr).
pub(crate) struct Ui {
    stdout: AutoStream<io::Stdout>,
    stderr: AutoStream<io::Stderr>,
    /// Width of the terminal; `None` in a pipe, where nothing is wrapped.
    width: Option<usize>,
    /// Columns at which text and tables wrap: the width, unless `wrap_in_pipe` was called.
    wrap: Option<usize>,
    pub(crate) format: Format,
    /// Number of lines at the bottom that are redrawn.
    live: usize,
    /// Output that is buffered, to be compared and drawn as a whole.
    kept: Option<String>,
    /// True while the buffered output is fitted to the screen.
    fits_screen: bool,
}

/// Number of columns of text that is wrapped even without a terminal.
const PIPE_WIDTH: usize = 80;

/// Number of lines of a terminal that does not report it.
const DEFAULT_HEIGHT: usize = 24;

/// Output format, for people or for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Text,
    Json,
}

/// Aligned rows under a heading.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    heads: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Ui {
    pub(crate) fn new(format: Format) -> Self {
        let width = width();
        Self {
            stdout: AutoStream::auto(io::stdout()),
            stderr: AutoStream::auto(io::stderr()),
            width,
            wrap: width,
            format,
            live: 0,
            kept: None,
            fits_screen: false,
        }
    }

    /// Wraps text and tables at 80 columns if there is no terminal.
    pub(crate) fn wrap_in_pipe(&mut self) {
        self.wrap = self.wrap.or(Some(PIPE_WIDTH));
    }

    /// True if a person watches a terminal: neither results nor messages are redirected.
    pub(crate) fn is_watched(&self) -> bool {
        self.width.is_some() && !self.is_json() && io::stderr().is_terminal()
    }

    /// Starts the next line at the left edge: the terminal shows `^C` there.
    pub(crate) fn return_to_left(&mut self) -> io::Result<()> {
        if self.is_screen() {
            self.raw("\r\u{1b}[K")?;
        }
        Ok(())
    }

    /// Starts to buffer results, until `take` returns them.
    pub(crate) fn keep(&mut self) {
        self.kept = Some(String::new());
        self.fits_screen = false;
    }

    /// Like `keep`, for a screen that is redrawn: its lines are broken and cut to its width.
    pub(crate) fn keep_for_screen(&mut self) {
        self.keep();
        self.fits_screen = self.is_screen();
    }

    /// Number of lines left on a screen that is redrawn; `None` elsewhere.
    pub(crate) fn room(&self) -> Option<usize> {
        let kept = self.kept.as_ref().filter(|_| self.fits_screen)?;
        let height = height().unwrap_or(DEFAULT_HEIGHT);
        Some(height.saturating_sub(kept.lines().count()))
    }

    /// Returns the output since `keep`.
    pub(crate) fn take(&mut self) -> String {
        self.kept.take().unwrap_or_default()
    }

    /// Draws buffered output over the previous one; in a pipe, prints it, with blank lines between.
    pub(crate) fn draw(&mut self, picture: &str, is_first: bool) -> io::Result<()> {
        if self.is_screen() {
            let height = height().unwrap_or(DEFAULT_HEIGHT);
            let lines = fit(picture, height);
            // Cleared before drawing: after a full-width line, a clear would erase its last column.
            let drawn = lines.join("\r\n");
            let clear = if is_first { "\u{1b}[2J" } else { "" };
            // A trailing line break would scroll a full screen.
            let below = if lines.len() < height {
                "\r\n\u{1b}[J"
            } else {
                ""
            };
            // Not through `stdout`, which removes all escape codes where colours are not wanted.
            let drawn = if self.stdout.current_choice() == ColorChoice::Never {
                anstream::adapter::strip_str(&drawn).to_string()
            } else {
                drawn
            };
            let drawn = drawn.replace("\r\n", "\r\n\u{1b}[2K");
            return self.raw(&format!("{clear}\u{1b}[H\u{1b}[2K{drawn}{below}"));
        } else {
            let gap = if is_first || self.is_json() { "" } else { "\n" };
            write!(self.stdout, "{gap}{picture}")?;
        }
        self.stdout.flush()
    }

    /// Updates the size of the terminal.
    pub(crate) fn measure(&mut self) {
        self.width = width();
        self.wrap = self.width;
    }

    /// True if stdout is a terminal that can be drawn on.
    pub(crate) fn is_screen(&self) -> bool {
        self.width.is_some() && !self.is_json() && !config::is_dumb_terminal()
    }

    /// True if the reader of stdout has exited, which a waiting program would never notice.
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

    /// Writes or buffers a result; all results pass through here.
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

    /// Prints one line of a result.
    pub(crate) fn line(&mut self, line: impl Into<Line>) -> io::Result<()> {
        let line = line.into();
        // A screen that is redrawn does not wrap: what is too long would overwrite its last column.
        let Some(width) = self
            .width
            .filter(|_| self.kept.is_some() && self.fits_screen)
        else {
            return self.put(format_args!("{}\n", line.render()));
        };
        for part in line.wrap(width, 2) {
            self.put(format_args!("{}\n", part.cut(width).render()))?;
        }
        Ok(())
    }

    /// Prints a line of a result, broken at spaces on a terminal, all but the first part indented.
    pub(crate) fn paragraph(&mut self, line: impl Into<Line>, indent: usize) -> io::Result<()> {
        for line in line.into().wrap(self.wrap.unwrap_or(usize::MAX), indent) {
            self.line(line)?;
        }
        Ok(())
    }

    /// Draws lines at the bottom of a terminal, which the next call replaces; in a pipe, or without
    /// escape codes, nothing is drawn.
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

    /// Erases the lines that `live` drew, so that the next output takes their place.
    pub(crate) fn erase_live(&mut self) -> io::Result<()> {
        if self.live > 0 {
            // Moves up, and clears to the end of the screen.
            write!(self.stdout, "\u{1b}[{}A\u{1b}[J", self.live)?;
            self.live = 0;
        }
        Ok(())
    }

    /// Shows progress on one line of stderr that the next call replaces; only on a terminal.
    pub(crate) fn progress(&mut self, text: &str) {
        if !io::stderr().is_terminal() || self.stderr.current_choice() == ColorChoice::Never {
            return;
        }
        let text: String = sanitize::line(text)
            .chars()
            .take(self.width.unwrap_or(80).saturating_sub(1))
            .collect();
        // Without a reader, an error does not matter.
        drop(write!(self.stderr, "\r\u{1b}[K{text}").and_then(|()| self.stderr.flush()));
    }

    /// Prints a result wrapped on a terminal, with all but the first line indented by `indent`.
    pub(crate) fn wrapped(&mut self, head: Line, indent: usize, text: &str) -> io::Result<()> {
        self.hanging(head, indent, TextStyle::Plain, text)
    }

    /// Like `wrapped`, in a style, after a head that may be longer than the indent.
    pub(crate) fn hanging(
        &mut self,
        head: Line,
        indent: usize,
        style: TextStyle,
        text: &str,
    ) -> io::Result<()> {
        let width = self.wrap.unwrap_or(usize::MAX).max(indent + 20);
        let text = unbroken(&sanitize::line(text));
        let before = " ".repeat(head.columns().min(width.saturating_sub(10)));
        let next = " ".repeat(indent);
        let options = textwrap::Options::new(width)
            .initial_indent(&before)
            .subsequent_indent(&next)
            .break_words(false)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        let mut lines = textwrap::wrap(&text, options).into_iter();
        let first = lines.next().unwrap_or_default();
        let first = first.strip_prefix(before.as_str()).unwrap_or_default();
        self.line(head.piece(style, first.replace(NO_BREAK, " ")))?;
        for line in lines {
            let line = line.trim_start().replace(NO_BREAK, " ");
            self.line(Line::new().plain(&next).piece(style, line))?;
        }
        Ok(())
    }

    /// Prints the result of a check that found no problem.
    pub(crate) fn ok(&mut self, text: impl Display) -> io::Result<()> {
        let line = Line::new().piece(TextStyle::Good, "ok").plain("  ");
        self.line(line.plain(text))
    }

    pub(crate) fn blank(&mut self) -> io::Result<()> {
        self.put(format_args!("\n"))
    }

    /// Prints multi-line text, each line indented by `indent` columns.
    pub(crate) fn block(&mut self, text: &str, indent: usize) -> io::Result<()> {
        for line in sanitize::block(text).trim_end().lines() {
            self.put(format_args!(
                "{}\n",
                format!("{:indent$}{line}", "").trim_end()
            ))?;
        }
        Ok(())
    }

    /// Prints a question, broken at spaces on a terminal, without a newline after it.
    pub(crate) fn prompt(&mut self, question: &str) -> io::Result<()> {
        let width = self.wrap.unwrap_or(usize::MAX);
        let asked = textwrap::wrap(question, textwrap::Options::new(width).break_words(false));
        let space = if question.ends_with(' ') { " " } else { "" };
        self.stream(&format!("{}{space}", asked.join("\n").trim_end()))
    }

    /// Prints a part of a stream, without adding a newline.
    pub(crate) fn stream(&mut self, text: &str) -> io::Result<()> {
        self.stdout.write_all(sanitize::block(text).as_bytes())?;
        self.stdout.flush()
    }

    /// Prints text byte for byte for another program, only if the user asked for it.
    pub(crate) fn raw(&mut self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }

    /// Width of the terminal, if stdout is one.
    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    pub(crate) fn table(&mut self, table: &Table) -> io::Result<()> {
        self.rendered(&table.render(self.wrap))
    }

    /// Prints a table whose cells were already cut to fit: no cell is wrapped.
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

    /// Prints one JSON document.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = sanitize::json(&serde_json::to_string_pretty(value)?);
        self.put(format_args!("{text}\n"))
    }

    /// Prints one JSON document of a stream, on one line.
    pub(crate) fn json_line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let text = sanitize::json(&serde_json::to_string(value)?);
        writeln!(self.stdout, "{text}")?;
        self.stdout.flush()
    }

    /// Prints a warning about a likely mistake that does not stop the command.
    pub(crate) fn warning(&mut self, text: impl Display) -> io::Result<()> {
        self.marked(TextStyle::Notice, "warning:", text)
    }

    pub(crate) fn error(&mut self, text: impl Display) -> io::Result<()> {
        self.marked(TextStyle::Bad, "error:", text)
    }

    pub(crate) fn hint(&mut self, text: impl Display) -> io::Result<()> {
        self.marked(TextStyle::Command, "hint:", text)
    }

    fn marked(&mut self, style: TextStyle, mark: &str, text: impl Display) -> io::Result<()> {
        self.note(Line::new().piece(style, mark).plain(" ").plain(text))
    }

    /// Prints a line that is not part of the result.
    pub(crate) fn note(&mut self, line: impl Into<Line>) -> io::Result<()> {
        let line = line.into();
        if self.kept.is_some() && self.is_screen() {
            // Drawing would overwrite it on stderr.
            return self.line(line);
        }
        let width = self.width.filter(|_| io::stderr().is_terminal());
        for line in line.wrap(width.unwrap_or(usize::MAX), 2) {
            writeln!(self.stderr, "{}", line.render())?;
        }
        Ok(())
    }

    /// Prints a report that `snippet` drew and sanitized, in colour if stderr has colour.
    pub(crate) fn snippet(&mut self, draw: impl FnOnce(Colour) -> String) -> io::Result<()> {
        let shows_colour = self.stderr.current_choice() != ColorChoice::Never;
        let text = draw(if shows_colour {
            Colour::Ansi
        } else {
            Colour::Plain
        });
        writeln!(self.stderr, "{}", text.trim_end())
    }

    /// Prints a multi-line report (a location in a file) on stderr.
    pub(crate) fn report(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.stderr, "{}", sanitize::block(text).trim_end())
    }
}

/// Maximum number of characters per cell: an event may hold megabytes, and JSON has all of it.
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

    /// Renders the table, wrapping long cells to fit `width`; without a width, nothing wraps.
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

    /// Keeps ids, states and times unwrapped as long as other columns can shrink.
    fn keep_short_columns(&self, grid: &mut Grid, width: u16) {
        let widest = |at: usize| {
            let cells = self
                .rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|cell| columns(cell));
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

/// Cuts output to the height of a screen; the last line has the number of lines left out.
fn fit(picture: &str, height: usize) -> Vec<Cow<'_, str>> {
    let mut lines: Vec<Cow<'_, str>> = picture.lines().map(Cow::from).collect();
    let height = height.max(1);
    if lines.len() > height {
        let more = lines.len() - (height - 1);
        lines.truncate(height - 1);
        lines.push(format!("… {more} more {}", if more == 1 { "line" } else { "lines" }).into());
    }
    lines
}

/// Number of lines of the terminal on stdout.
fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    Some(usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

/// Number of columns of the terminal on stdout.
fn width() -> Option<usize> {
    if !io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(io::stdout())
        .ok()
        .map(|size| usize::from(size.ws_col));
    Some(
        size.filter(|columns| *columns > 0)
            .or_else(config::columns)
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
    fn a_picture_is_never_taller_than_the_screen() {
        let picture = "1\n2\n3\n4\n";
        assert_eq!(fit(picture, 4), ["1", "2", "3", "4"]);
        assert_eq!(fit(picture, 3), ["1", "2", "… 2 more lines"]);
        assert_eq!(fit(picture, 1), ["… 4 more lines"]);
    }

    #[test]
    fn a_command_is_not_broken() {
        let text = unbroken("type `remand why c1` and wait");
        assert_eq!(text, "type `remand\u{a0}why\u{a0}c1` and wait");
    }

    #[test]
    fn only_our_own_colour_is_in_a_line() {
        let line = Line::default().strong("bold").plain(" \u{1b}[31m\nnot red");
        assert_eq!(line.render(), "\u{1b}[1mbold\u{1b}[0m ␛[31m⏎not red");
    }
}
