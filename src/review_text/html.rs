//! HTML elements in a review that quote, hide or fold their content, as fences and quotations do in
//! Markdown.

use super::markdown::BlockKind;

/// Elements, and how their content is read.
const ELEMENTS: &[(&str, BlockKind)] = &[
    ("blockquote", BlockKind::Quote),
    ("code", BlockKind::Html),
    ("del", BlockKind::Quote),
    ("details", BlockKind::Folded),
    ("kbd", BlockKind::Html),
    ("pre", BlockKind::Html),
    ("q", BlockKind::Quote),
    ("s", BlockKind::Quote),
    ("samp", BlockKind::Html),
    ("script", BlockKind::Html),
    ("strike", BlockKind::Quote),
    ("style", BlockKind::Html),
    ("template", BlockKind::Html),
    ("textarea", BlockKind::Html),
    ("title", BlockKind::Html),
    ("xmp", BlockKind::Html),
];

/// Element that is open at the end of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Element {
    name: &'static str,
    pub(super) place: BlockKind,
    depth: usize,
}

/// The last line that closes each element, and the last that closes a comment.
#[derive(Debug, Default)]
pub(super) struct Closings {
    elements: Vec<(&'static str, usize)>,
    comment: Option<usize>,
}

/// Element that a line of the body opens.
#[derive(Debug, Clone, Copy)]
pub(super) enum Opening {
    /// The line starts with the tag, so all of it belongs to the element, which may end on the same
    /// line.
    AtStart(BlockKind, Option<Element>),
    /// The element starts on the next line.
    Behind(Element),
    CommentBehind,
}

#[derive(Debug, Clone, Copy)]
struct Tag {
    name: &'static str,
    place: BlockKind,
    closes: bool,
    at: usize,
}

impl Tag {
    fn depth_after(&self, depth: usize) -> usize {
        if self.closes {
            depth.saturating_sub(1)
        } else {
            depth + 1
        }
    }
}

impl Closings {
    pub(super) fn see(&mut self, line: &str, at: usize) {
        if line.contains("-->") {
            self.comment = Some(at);
        }
        for tag in tags(line).into_iter().filter(|tag| tag.closes) {
            self.elements.retain(|(name, _)| *name != tag.name);
            self.elements.push((tag.name, at));
        }
    }

    fn closes_after(&self, name: &str, at: usize) -> bool {
        let mut elements = self.elements.iter();
        elements.any(|(known, last)| *known == name && *last > at)
    }
}

/// Returns the element that the line opens. A tag in the middle of a line is often only a mention
/// of HTML: it counts if it is closed later.
pub(super) fn opened_by(
    line: &str,
    inner: &str,
    at: usize,
    closings: &Closings,
) -> Option<Opening> {
    let tags = tags(line);
    let starts = line.len() - inner.len();
    let first = tags.first().filter(|tag| tag.at == starts && !tag.closes);
    if let Some(tag) = first {
        return Some(Opening::AtStart(tag.place, left_open(&tags, *tag)));
    }
    let mut opening = tags.iter().filter(|tag| !tag.closes);
    let behind = opening
        .find_map(|tag| left_open(&tags, *tag).filter(|_| closings.closes_after(tag.name, at)));
    if let Some(element) = behind {
        return Some(Opening::Behind(element));
    }
    let parts = outside_code(line).into_iter();
    let comment = parts
        .filter_map(|(_, part)| part.rfind("<!--").map(|open| (part, open)))
        .next_back();
    let is_open =
        comment.is_some_and(|(part, open)| !part.get(open..).unwrap_or_default().contains("-->"));
    (is_open && closings.comment.is_some_and(|last| last > at)).then_some(Opening::CommentBehind)
}

impl Element {
    /// Returns the element after one more line of it; `None` if that line closes it.
    pub(super) fn after(self, line: &str) -> Option<Self> {
        let mut depth = self.depth;
        for tag in tags(line).into_iter().filter(|tag| tag.name == self.name) {
            depth = tag.depth_after(depth);
            if depth == 0 {
                return None;
            }
        }
        Some(Self { depth, ..self })
    }

    /// Returns true if Markdown inside still forms fences.
    pub(super) fn holds_markdown(self) -> bool {
        self.place != BlockKind::Html
    }
}

fn left_open(tags: &[Tag], first: Tag) -> Option<Element> {
    let same = tags
        .iter()
        .filter(|tag| tag.name == first.name && tag.at >= first.at);
    let depth = same.fold(0, |depth, tag| tag.depth_after(depth));
    (depth > 0).then_some(Element {
        name: first.name,
        place: first.place,
        depth,
    })
}

/// Removes tags from a line that only uses HTML for formatting.
pub(super) fn without_tags(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('<') {
        text.push_str(before);
        let is_tag = after.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'));
        match after.split_once('>').filter(|_| is_tag) {
            Some((_, behind)) => rest = behind,
            None => {
                text.push('<');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

fn tags(line: &str) -> Vec<Tag> {
    if !line.contains('<') {
        return Vec::new();
    }
    let mut tags = Vec::new();
    for (offset, part) in outside_code(line) {
        for (at, _) in part.match_indices('<') {
            let escaped = part.get(..at).is_some_and(|before| before.ends_with('\\'));
            let after = part.get(at + 1..).unwrap_or_default();
            let name_on = after.strip_prefix('/').unwrap_or(after);
            let rest = name_on.trim_start_matches(|c: char| c.is_ascii_alphanumeric());
            let name = name_on
                .get(..name_on.len() - rest.len())
                .unwrap_or_default();
            let ends = rest.is_empty()
                || rest.starts_with(|c: char| c.is_whitespace() || matches!(c, '>' | '/'));
            let known = ELEMENTS
                .iter()
                .find(|(known, _)| known.eq_ignore_ascii_case(name));
            if let Some((name, place)) = known.filter(|_| ends && !escaped) {
                tags.push(Tag {
                    name,
                    place: *place,
                    closes: after.starts_with('/'),
                    at: offset + at,
                });
            }
        }
    }
    tags
}

/// Returns the parts of a line that are not in backticks, with their positions.
fn outside_code(line: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let (mut from, mut look) = (0, 0);
    while let Some(ahead) = line.get(look..).and_then(|rest| rest.find('`')) {
        let open = look + ahead;
        let ticks = line
            .get(open..)
            .unwrap_or_default()
            .chars()
            .take_while(|c| *c == '`')
            .count();
        let body = line.get(open + ticks..).unwrap_or_default();
        let Some(end) = closing_ticks(body, ticks) else {
            break;
        };
        parts.push((from, line.get(from..open).unwrap_or_default()));
        from = open + ticks + end + ticks;
        look = from;
    }
    parts.push((from, line.get(from..).unwrap_or_default()));
    parts
}

fn closing_ticks(text: &str, length: usize) -> Option<usize> {
    let mut at = 0;
    while let Some(ahead) = text.get(at..)?.find('`') {
        let start = at + ahead;
        let run = text.get(start..)?.chars().take_while(|c| *c == '`').count();
        if run == length {
            return Some(start);
        }
        at = start + run;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Vec<String> {
        tags(line)
            .iter()
            .map(|tag| {
                format!(
                    "{}{}@{}",
                    if tag.closes { "/" } else { "" },
                    tag.name,
                    tag.at
                )
            })
            .collect()
    }

    #[test]
    fn tags_outside_of_code() {
        assert_eq!(
            names("a <PRE class=x>b</pre> `<pre>` ``a ` <q>`` <q"),
            ["pre@2", "/pre@16", "q@43"]
        );
        assert_eq!(
            names("<prefix> <sub> < pre> \\<pre> <p>"),
            Vec::<String>::new()
        );
        assert_eq!(names("an odd ` tick <pre>"), ["pre@14"]);
    }

    #[test]
    fn tags_are_taken_off() {
        assert_eq!(
            without_tags("<b>Verdict: <i class=\"a\">x</i></b> 1 < 2 > <"),
            "Verdict: x 1 < 2 > <"
        );
    }
}
