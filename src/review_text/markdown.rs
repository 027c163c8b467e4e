//! Splits a review into lines that know their context: the reviewer's own words, or inside a fence,
//! a quotation, indented code or a comment.
//!
//! It does not interpret lines: that is left to the other files of this module.

use std::borrow::Cow;

use super::html::{self, Closings, Element, Opening};
use super::json::{self, Node};
use crate::text::joined;

/// Context of a line. Only lines in `Body` are the reviewer's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    Body,
    Fence,
    /// Also in `<blockquote>` and similar elements.
    Quote,
    Code,
    Comment,
    /// In `<details>`: a place for findings, not for a verdict.
    Folded,
    /// In `<pre>` and similar elements.
    Html,
}

#[derive(Debug)]
pub(super) struct TextLine<'a> {
    /// Text without zero-width characters, and with every kind of space as a plain one.
    pub(super) text: Cow<'a, str>,
    pub(super) place: BlockKind,
    /// Set if a line break follows: a last line without one may have been cut.
    pub(super) ended: bool,
}

/// Origin of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A fence or an object in the body.
    Body,
    /// In indented code or inside HTML: its findings count, but it approves nothing.
    Aside,
    Quoted,
}

/// Content of a fence, or a JSON object in the body without one.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) info: String,
    pub(super) text: String,
    pub(super) closed: bool,
    pub(super) origin: Origin,
    /// Line on which it starts.
    pub(super) at: usize,
}

#[derive(Debug, Default)]
pub(super) struct Document<'a> {
    pub(super) lines: Vec<TextLine<'a>>,
    pub(super) blocks: Vec<Block>,
    /// Set if not all of the text could be searched for JSON.
    pub(super) gave_up: bool,
}

impl<'a> Document<'a> {
    pub(super) fn cut(text: &'a str) -> Self {
        let mut page = Self::default();
        let raw_lines: Vec<&str> = text.split_inclusive('\n').collect();
        let bare = |raw: &'a str| raw.trim_end_matches('\n').trim_end_matches('\r');
        let mut closings = Closings::default();
        for (at, raw) in raw_lines.iter().enumerate() {
            closings.see(&clean(bare(raw)), at);
        }
        let mut cutter = Cutter::default();
        for (at, raw) in raw_lines.iter().enumerate() {
            let line = clean(bare(raw));
            let was_fenced = cutter.fence.is_some();
            let place = cutter.place(&line, at, &closings);
            match (was_fenced, cutter.fence.is_some(), page.blocks.last_mut()) {
                (true, true, Some(block)) => {
                    block.text.push_str(bare(raw));
                    block.text.push('\n');
                }
                (true, false, Some(block)) => block.closed = true,
                (false, true, _) => {
                    let info = after_markers(&line)
                        .trim_start_matches(['`', '~'])
                        .trim()
                        .to_lowercase();
                    let around = cutter.element.map(|element| element.place);
                    page.blocks.push(Block {
                        info,
                        text: String::new(),
                        closed: false,
                        origin: origin(around.unwrap_or(BlockKind::Body)),
                        at,
                    });
                }
                (false, false, _) | (true, _, None) => {}
            }
            page.lines.push(TextLine {
                text: line,
                place,
                ended: raw.ends_with('\n'),
            });
        }
        page.lift_bare_json();
        page
    }

    /// Returns the reviewer's own lines, with their numbers.
    pub(super) fn body(&self) -> impl Iterator<Item = (usize, &TextLine<'a>)> {
        self.lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.place == BlockKind::Body)
    }

    /// Turns each JSON object, and each list of objects, outside of fences and quotations into a
    /// block.
    fn lift_bare_json(&mut self) {
        let may_hold = |line: &TextLine<'_>| {
            !matches!(
                line.place,
                BlockKind::Fence | BlockKind::Quote | BlockKind::Comment
            )
        };
        let mut first = 0;
        while first < self.lines.len() {
            let lines = self.lines.iter().skip(first);
            let length = lines.take_while(|line| may_hold(line)).count();
            self.lift_from(first, length);
            first += length.max(1);
        }
        self.blocks.sort_by_key(|block| block.at);
    }

    fn lift_from(&mut self, first: usize, length: usize) {
        let lines = self.lines.iter().skip(first).take(length);
        let region = joined(lines.map(|line| &line.text), "\n");
        if !region.contains('{') {
            return;
        }
        let found = json::find(&region);
        self.gave_up |= found.gave_up;
        let (mut at, mut counted) = (first, 0);
        let values = found.values.iter();
        for value in values.filter(|value| holds_object(&value.node)) {
            let before = region.get(..value.start).unwrap_or_default();
            let passed = before.get(counted..).unwrap_or_default();
            at += passed.matches('\n').count();
            counted = value.start;
            let text = region.get(value.start..value.end).unwrap_or_default();
            let line = self.lines.get(at);
            let place = line.map_or(BlockKind::Body, |line| line.place);
            let own_line = before.rsplit('\n').next().unwrap_or_default();
            if after_markers(own_line).is_empty() {
                let lines = text.matches('\n').count() + 1;
                for line in self.lines.iter_mut().skip(at).take(lines) {
                    line.place = BlockKind::Fence;
                }
            }
            self.blocks.push(Block {
                info: "json".into(),
                text: text.into(),
                closed: true,
                origin: origin(place),
                at,
            });
        }
    }
}

fn holds_object(node: &Node) -> bool {
    matches!(node, Node::Object(_)) || node.items().iter().any(holds_object)
}

fn origin(place: BlockKind) -> Origin {
    match place {
        BlockKind::Body | BlockKind::Fence => Origin::Body,
        BlockKind::Code | BlockKind::Folded | BlockKind::Html => Origin::Aside,
        BlockKind::Quote | BlockKind::Comment => Origin::Quoted,
    }
}

/// State that is carried from line to line. Fences and quotations leave the state of the body
/// unchanged, so that adding or removing one never changes how the lines around it are read.
#[derive(Default)]
struct Cutter {
    fence: Option<Fence>,
    element: Option<Element>,
    comment: bool,
    /// Set if the line before is not blank.
    text_before: bool,
    in_list: bool,
}

struct Fence {
    mark: char,
    length: usize,
    indent: usize,
}

impl Cutter {
    fn place(&mut self, line: &str, at: usize, closings: &Closings) -> BlockKind {
        if let Some(fence) = &self.fence {
            if fence.closes(line) {
                self.fence = None;
            }
            return BlockKind::Fence;
        }
        let trimmed = line.trim_start();
        if self.comment || (self.element.is_none() && trimmed.starts_with("<!--")) {
            self.comment = !line.contains("-->");
            return BlockKind::Comment;
        }
        let indent = columns(line);
        let inner = after_markers(trimmed);
        if let Some(element) = self.element {
            if element.holds_markdown() {
                self.fence = Fence::opened_by(inner, indent);
            }
            if self.fence.is_some() {
                return BlockKind::Fence;
            }
            self.element = element.after(line);
            return element.place;
        }
        if trimmed.is_empty() {
            self.text_before = false;
            return BlockKind::Body;
        }
        if indent >= 4 && !self.text_before && !self.in_list {
            return BlockKind::Code;
        }
        if inner.starts_with('>') {
            return BlockKind::Quote;
        }
        self.fence = Fence::opened_by(inner, indent);
        if self.fence.is_some() {
            return BlockKind::Fence;
        }
        match html::opened_by(line, inner, at, closings) {
            Some(Opening::AtStart(place, element)) => {
                self.element = element;
                return place;
            }
            Some(Opening::Behind(element)) => self.element = Some(element),
            Some(Opening::CommentBehind) => self.comment = true,
            None => {}
        }
        self.text_before = true;
        self.in_list = inner.len() < trimmed.len() || (self.in_list && indent > 0);
        BlockKind::Body
    }
}

impl Fence {
    fn opened_by(line: &str, indent: usize) -> Option<Self> {
        let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        // "```x```" on one line is inline code.
        (length >= 3 && !(mark == '`' && info.contains('`'))).then_some(Self {
            mark,
            length,
            indent,
        })
    }

    fn closes(&self, line: &str) -> bool {
        let trimmed = line.trim();
        let only_marks = trimmed.chars().all(|c| c == self.mark);
        only_marks && trimmed.len() >= self.length && columns(line) <= self.indent + 3
    }
}

/// Removes leading list markers (`- `, `* `, `+ `, `1. `, `2) `) from a line.
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
    line.chars()
        .take_while(|c| c.is_whitespace())
        .map(|c| if c == '\t' { 4 } else { 1 })
        .sum()
}

/// Removes invisible characters and turns every space into a plain one.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    let odd = |c: char| is_invisible(c) || (c.is_whitespace() && !c.is_ascii());
    if !text.contains(odd) {
        return Cow::Borrowed(text);
    }
    let plain = |c: char| {
        if c.is_ascii() || !c.is_whitespace() {
            c
        } else {
            ' '
        }
    };
    let visible = text.chars().filter(|c| !is_invisible(*c));
    Cow::Owned(visible.map(plain).collect())
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{2069}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
}
