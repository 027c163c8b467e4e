//! A review cut into lines that know where they stand: in the reviewer's own words, or inside a fence, a quotation,
//! indented code or a comment. It judges nothing: what a line means is for the other files of this room.

use std::borrow::Cow;

/// Where a line stands. Only what stands in `Body` is the reviewer speaking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Body,
    Fence,
    Quote,
    Code,
    Comment,
}

#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Without zero-width characters, and with every kind of space as a plain one.
    pub(super) text: Cow<'a, str>,
    pub(super) place: Place,
    /// Whether a line break follows: a last line without one may have been cut.
    pub(super) ended: bool,
    start: usize,
}

/// What a fence held, or a JSON object that stood in the body without one.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) info: String,
    pub(super) text: String,
    pub(super) closed: bool,
    /// The line it begins on.
    pub(super) at: usize,
}

#[derive(Debug)]
pub(super) struct Page<'a> {
    pub(super) lines: Vec<Line<'a>>,
    pub(super) blocks: Vec<Block>,
}

impl<'a> Page<'a> {
    pub(super) fn cut(text: &'a str) -> Self {
        let mut page = Self { lines: Vec::new(), blocks: Vec::new() };
        let mut cutter = Cutter { fence: None, comment: false, blank_before: true, in_list: false };
        let mut start = 0;
        for raw in text.split_inclusive('\n') {
            let bare = raw.trim_end_matches('\n').trim_end_matches('\r');
            let line = clean(bare);
            let at = page.lines.len();
            let was_fenced = cutter.fence.is_some();
            let place = cutter.place(&line);
            match (was_fenced, cutter.fence.is_some(), page.blocks.last_mut()) {
                (true, true, Some(block)) => {
                    block.text.push_str(bare);
                    block.text.push('\n');
                }
                (true, false, Some(block)) => block.closed = true,
                (false, true, _) => {
                    let info = after_markers(&line).trim_start_matches(['`', '~']).trim().to_lowercase();
                    page.blocks.push(Block { info, text: String::new(), closed: false, at });
                }
                (false, false, _) | (true, _, None) => {}
            }
            page.lines.push(Line { text: line, place, ended: raw.ends_with('\n'), start });
            start += raw.len();
        }
        page.lift_bare_json(text);
        page
    }

    /// The reviewer's own lines, with their numbers.
    pub(super) fn body(&self) -> impl Iterator<Item = (usize, &Line<'a>)> {
        self.lines.iter().enumerate().filter(|(_, line)| line.place == Place::Body)
    }

    /// Makes a block of each JSON object that stands in the body without a fence. Few are tried: each try may
    /// read to the end of the text, and the whole must stay linear.
    fn lift_bare_json(&mut self, text: &str) {
        const TRIES: usize = 4;
        let mut next = 0;
        for _ in 0..TRIES {
            let opening = self.body().find(|(at, line)| *at >= next && line.text.trim_start().starts_with('{'));
            let Some((at, line)) = opening else { break };
            let rest = text.get(line.start..).unwrap_or_default().trim_start_matches('\u{feff}');
            let mut values = serde_json::Deserializer::from_str(rest).into_iter::<serde_json::Value>();
            let parsed = matches!(values.next(), Some(Ok(serde_json::Value::Object(_))));
            next = at + 1;
            if !parsed {
                continue;
            }
            let object = rest.get(..values.byte_offset()).unwrap_or_default();
            let lines = object.matches('\n').count() + 1;
            for line in self.lines.iter_mut().skip(at).take(lines) {
                line.place = Place::Fence;
            }
            next = at + lines;
            self.blocks.push(Block { info: "json".into(), text: object.into(), closed: true, at });
        }
        self.blocks.sort_by_key(|block| block.at);
    }
}

/// What must be remembered from line to line. Fences and quotations leave the memory of the body as it was, so that
/// taking one out or putting one in never changes how the lines around it are read.
struct Cutter {
    fence: Option<Fence>,
    comment: bool,
    blank_before: bool,
    in_list: bool,
}

struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

impl Cutter {
    fn place(&mut self, line: &str) -> Place {
        if let Some(fence) = &self.fence {
            if fence.closes(line) {
                self.fence = None;
            }
            return Place::Fence;
        }
        let trimmed = line.trim_start();
        if self.comment || trimmed.starts_with("<!--") {
            self.comment = !line.contains("-->");
            return Place::Comment;
        }
        if trimmed.is_empty() {
            self.blank_before = true;
            return Place::Body;
        }
        let indent = columns(line);
        if indent >= 4 && self.blank_before && !self.in_list {
            return Place::Code;
        }
        let inner = after_markers(trimmed);
        if inner.starts_with('>') {
            return Place::Quote;
        }
        self.fence = Fence::opened_by(inner, indent);
        if self.fence.is_some() {
            return Place::Fence;
        }
        self.blank_before = false;
        self.in_list = inner.len() < trimmed.len() || (self.in_list && indent > 0);
        Place::Body
    }
}

impl Fence {
    fn opened_by(line: &str, indent: usize) -> Option<Self> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        // "```x```" on one line is inline code.
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some(Self { mark, length, indent })
    }

    fn closes(&self, line: &str) -> bool {
        let trimmed = line.trim();
        let only_marks = trimmed.chars().all(|c| c == self.mark);
        only_marks && trimmed.len() >= self.length && columns(line) <= self.indent + 3
    }
}

/// The line without the list markers in front (`- `, `* `, `+ `, `1. `, `2) `).
pub(super) fn after_markers(line: &str) -> &str {
    let mut rest = line.trim_start();
    while let Some(after) = marker(rest) {
        rest = after;
    }
    rest
}

fn marker(line: &str) -> Option<&str> {
    let numberless = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = line.len() - numberless.len();
    let after = match digits {
        0 => numberless.strip_prefix(['-', '*', '+', '•'])?,
        1..=9 => numberless.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    after.starts_with([' ', '\t']).then(|| after.trim_start())
}

fn columns(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).map(|c| if c == '\t' { 4 } else { 1 }).sum()
}

/// Drops what nobody sees and makes every space a plain one.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let odd = |c: char| is_invisible(c) || (c.is_whitespace() && !c.is_ascii());
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let plain = |c: char| if c.is_whitespace() && !c.is_ascii() { ' ' } else { c };
    Cow::Owned(text.chars().filter(|c| !is_invisible(*c)).map(plain).collect())
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}
