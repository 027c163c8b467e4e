//! One line that names the failures in the output of a red gate or set-up. It is only shown to people and agents: no
//! decision depends on it.

use crate::text::joined;

/// Number of failures named before "and N more".
const NAMED: usize = 3;
/// Maximum number of characters of one name, and of the whole line.
const NAME: usize = 160;
const LINE: usize = 300;

/// Finds a failure in one line, given the lines around it.
type Find = fn(&[&str], usize) -> Option<String>;

/// The formats, most specific first. The first one that finds anything names the failures.
const FORMATS: &[Find] = &[
    cargo_test,
    rustc,
    pytest,
    vitest,
    jest,
    go_test,
    rspec,
    phpunit,
    gradle_test,
    tsc,
    eslint,
    compiler,
    gradle_task,
    go_build,
    npm,
    thrown,
];

/// Names the failures; the last non-empty line if no format is known.
pub(crate) fn gate_summary(output: &str) -> String {
    let text = without_colors(output);
    let lines: Vec<&str> = text.lines().collect();
    for find in FORMATS {
        let mut found: Vec<String> = Vec::new();
        for name in (0..lines.len()).filter_map(|at| find(&lines, at)) {
            let name = short(name.trim(), NAME);
            if !name.is_empty() && !found.contains(&name) {
                found.push(name);
            }
        }
        if !found.is_empty() {
            return listed(&found);
        }
    }
    last_line(&lines)
}

fn listed(found: &[String]) -> String {
    let mut line = short(&joined(found.iter().take(NAMED), "; "), LINE);
    if found.len() > NAMED {
        line.push_str(&format!(" and {} more", found.len() - NAMED));
    }
    line
}

/// Returns the last line that is not only the epilogue of a runner.
fn last_line(lines: &[&str]) -> String {
    let is_epilogue = |line: &str| {
        [
            "Node.js v",
            "npm ERR!",
            "npm error",
            "npm notice",
            "error Command failed",
            "info Visit",
            "make: ***",
        ]
        .iter()
        .any(|begin| line.starts_with(begin))
    };
    let lines = || {
        lines
            .iter()
            .rev()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty())
    };
    let line = lines()
        .find(|line| !is_epilogue(line))
        .or_else(|| lines().next());
    line.map_or_else(|| "no output".to_owned(), |line| short(line, 200))
}

/// `test calc::adds ... FAILED`, or `---- calc::adds stdout ----` where the list of tests was cut off.
fn cargo_test(lines: &[&str], at: usize) -> Option<String> {
    let line = line(lines, at);
    let name = line
        .strip_prefix("test ")
        .and_then(|rest| rest.strip_suffix(" ... FAILED"));
    name.or_else(|| line.strip_prefix("---- ")?.strip_suffix(" stdout ----"))
        .map(str::to_owned)
}

/// `error[E0308]: mismatched types`, and the place below it.
fn rustc(lines: &[&str], at: usize) -> Option<String> {
    let text = line(lines, at);
    let message = text
        .strip_prefix("error[")
        .and_then(|rest| rest.split_once("]: "))
        .map(|(_, message)| message);
    let message = message.or_else(|| text.strip_prefix("error: "))?;
    let place = line(lines, at + 1).trim().strip_prefix("--> ")?;
    Some(format!("{place}: {message}"))
}

/// `FAILED tests/test_a.py::test_b - assert 1 == 2`, `ERROR tests/test_a.py - ImportError`.
fn pytest(lines: &[&str], at: usize) -> Option<String> {
    let rest = line(lines, at);
    let rest = rest
        .strip_prefix("FAILED ")
        .or_else(|| rest.strip_prefix("ERROR "))?;
    let name = rest.split(" - ").next().unwrap_or(rest);
    let file = name.split("::").next()?;
    file.ends_with(".py").then(|| name.to_owned())
}

/// ` FAIL  src/a.test.ts > sum > adds`.
fn vitest(lines: &[&str], at: usize) -> Option<String> {
    let name = line(lines, at).trim_start().strip_prefix("FAIL  ")?.trim();
    name.contains(" > ").then(|| name.to_owned())
}

/// `  ● sum › adds`, or `  ● Test suite failed to run`.
fn jest(lines: &[&str], at: usize) -> Option<String> {
    let line = line(lines, at);
    line.strip_prefix("  ● ")
        .filter(|name| *name != "Console" && !name.starts_with("Console "))
        .map(str::to_owned)
}

/// `--- FAIL: TestAdd (0.00s)`, and a subtest, which is indented.
fn go_test(lines: &[&str], at: usize) -> Option<String> {
    let rest = line(lines, at).trim_start().strip_prefix("--- FAIL: ")?;
    rest.split(' ').next().map(str::to_owned)
}

/// `rspec ./spec/calc_spec.rb:5 # Calc adds`.
fn rspec(lines: &[&str], at: usize) -> Option<String> {
    let (place, name) = line(lines, at).strip_prefix("rspec ")?.split_once(" # ")?;
    Some(format!(
        "{name} ({})",
        place.trim().trim_start_matches("./")
    ))
}

/// `1) CalcTest::testAdd`, below "There was 1 failure:".
fn phpunit(lines: &[&str], at: usize) -> Option<String> {
    let (number, name) = line(lines, at).split_once(") ")?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    let is_name = name.contains("::")
        && !name
            .split(" with data set")
            .next()
            .is_some_and(|name| name.contains(' '));
    (is_number && is_name).then(|| name.to_owned())
}

/// `CalcTest > adds() FAILED`.
fn gradle_test(lines: &[&str], at: usize) -> Option<String> {
    let name = line(lines, at).strip_suffix(" FAILED")?;
    (name.contains(" > ") && !name.starts_with("> Task")).then(|| name.to_owned())
}

/// `> Task :compileJava FAILED`.
fn gradle_task(lines: &[&str], at: usize) -> Option<String> {
    let task = line(lines, at)
        .strip_prefix("> Task ")?
        .strip_suffix(" FAILED")?;
    Some(format!("task {task}"))
}

/// `src/a.ts(3,5): error TS2322: message`, and `src/a.ts:3:5 - error TS2322: message`.
fn tsc(lines: &[&str], at: usize) -> Option<String> {
    let (place, message) = line(lines, at).split_once("error TS")?;
    let place = place.trim_end_matches([' ', '-', ':']).trim_end();
    let message = message
        .split_once(": ")
        .map_or(message, |(_, message)| message);
    let place = match place
        .strip_suffix(')')
        .and_then(|place| place.rsplit_once('('))
    {
        Some((file, numbers)) => format!("{file}:{}", numbers.replace(',', ":")),
        None => place.to_owned(),
    };
    Some(if place.is_empty() {
        message.to_owned()
    } else {
        format!("{place}: {message}")
    })
}

/// `  1:7  error  message  rule`, below the path of its file.
fn eslint(lines: &[&str], at: usize) -> Option<String> {
    let text = line(lines, at).strip_prefix("  ")?.trim_start();
    let (place, rest) = text.split_once("  ")?;
    let is_place = place
        .split(':')
        .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()));
    let message = rest
        .trim_start()
        .strip_prefix("error ")
        .filter(|_| is_place && place.contains(':'))?;
    let above = lines.get(..at)?.iter().rev();
    let file = above
        .take_while(|line| !line.is_empty())
        .last()
        .map(|line| line.trim())
        .unwrap_or_default();
    let words: Vec<&str> = message
        .split("  ")
        .map(str::trim)
        .filter(|word| !word.is_empty())
        .collect();
    Some(format!(
        "{file}:{place}: {}",
        words.first().copied().unwrap_or_default()
    ))
}

/// `src/a.c:3:5: error: message`, as most compilers and linters write it; `./a.go:3:5: message`.
fn compiler(lines: &[&str], at: usize) -> Option<String> {
    let text = line(lines, at).trim_start();
    let mut parts = text.splitn(3, ':');
    let (file, number, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_file = !file.is_empty() && !file.contains([' ', '(']) && file.contains('.');
    let (column, message) = rest.split_once(": ").unwrap_or(("", rest));
    let has_error = message.trim_start().starts_with("error") || column.trim() == "error";
    let is_go = file.ends_with(".go") && is_number(column);
    (is_file && is_number(number) && (has_error || is_go)).then(|| text.to_owned())
}

/// `FAIL    example.org/calc [build failed]`.
fn go_build(lines: &[&str], at: usize) -> Option<String> {
    let rest = line(lines, at).strip_prefix("FAIL\t")?;
    Some(rest.replace('\t', " "))
}

/// `npm error code EUSAGE`, and the first message below it. A failing npm script has no such code, and is named by its
/// own output.
fn npm(lines: &[&str], at: usize) -> Option<String> {
    let text = |line: &str| {
        line.strip_prefix("npm error")
            .or_else(|| line.strip_prefix("npm ERR!"))
            .map(str::to_owned)
    };
    if line(lines, at).starts_with("Unknown command: \"") {
        return Some(line(lines, at).to_owned());
    }
    let code = text(line(lines, at))?;
    let code = code
        .strip_prefix(" code ")
        .filter(|code| code.starts_with('E') && *code != "ELIFECYCLE")?;
    let is_detail = |text: &str| {
        ["errno ", "syscall ", "path ", "dest "]
            .iter()
            .any(|begin| text.starts_with(begin))
    };
    let below = lines.get(at + 1..)?.iter().map_while(|line| text(line));
    let message = below
        .map(|text| text.trim().to_owned())
        .find(|text| !text.is_empty() && !is_detail(text))?;
    Some(format!("{code}: {message}"))
}

/// `Error: Cannot find module 'express'`: an exception that ended a program.
fn thrown(lines: &[&str], at: usize) -> Option<String> {
    let text = line(lines, at).trim();
    let (kind, _) = text.split_once(": ")?;
    // Node adds a code: `AssertionError [ERR_ASSERTION]: …`.
    let kind = kind.split_once(" [").map_or(kind, |(kind, _)| kind);
    let name = kind.rsplit(['.', ' ']).next().unwrap_or(kind);
    let is_kind = name.chars().next().is_some_and(char::is_uppercase) && !kind.contains("npm");
    let is_thrown = ["Error", "Exception"].iter().any(|end| name.ends_with(end));
    if !(is_kind && is_thrown && name.chars().all(|c| c.is_alphanumeric() || c == '_')) {
        return None;
    }
    let below = lines.get(at + 1..).unwrap_or_default();
    let next = below
        .iter()
        .map(|line| line.trim())
        .find(|line| !line.is_empty());
    match next.filter(|next| text.ends_with(':') && !next.starts_with("at ")) {
        Some(next) => Some(format!("{text} {next}")),
        None => Some(text.to_owned()),
    }
}

fn line<'a>(lines: &[&'a str], at: usize) -> &'a str {
    lines.get(at).copied().unwrap_or_default().trim_end()
}

/// Removes the escape sequences that set colours.
fn without_colors(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if chars.next() == Some('[') {
            // Up to and including the letter that ends the sequence.
            chars.by_ref().find(|c| ('@'..='~').contains(c));
        }
    }
    plain
}

fn short(text: &str, most: usize) -> String {
    let mut line: String = text.chars().take(most).collect();
    if line.len() < text.len() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::gate_summary;

    #[test]
    fn what_no_format_finds_is_the_last_line_that_says_anything() {
        assert_eq!(gate_summary(""), "no output");
        assert_eq!(gate_summary("one\ntwo\n\n"), "two");
        assert_eq!(
            gate_summary("it is wrong\nNode.js v20.20.2\n"),
            "it is wrong"
        );
        assert_eq!(gate_summary("Node.js v20.20.2\n"), "Node.js v20.20.2");
        let crash = "node:internal/modules/cjs/loader:1143\n  throw err;\n  ^\n\nError: Cannot find module 'express'\nRequire stack:\n- /x/a.js\n    at Module._load (node:internal)\n\nNode.js v20.20.2\n";
        assert_eq!(gate_summary(crash), "Error: Cannot find module 'express'");
        let assertion = "node:assert:90\n  throw new AssertionError(obj);\n  ^\n\nAssertionError [ERR_ASSERTION]: Expected values to be strictly equal:\n\n45 !== 40\n\n    at Object.<anonymous> (/x/t.js:1:30)\n  operator: 'strictEqual'\n}\n\nNode.js v20.20.2\n";
        assert_eq!(
            gate_summary(assertion),
            "AssertionError [ERR_ASSERTION]: Expected values to be strictly equal: 45 !== 40"
        );
        assert_eq!(
            gate_summary("Unknown command: \"tset\"\n\nDid you mean this?\n  npm help\n"),
            "Unknown command: \"tset\""
        );
        assert_eq!(
            gate_summary("cc -c a.c\na.c:3:5: error: unknown type\nmake: *** [a.o] Error 1\n"),
            "a.c:3:5: error: unknown type"
        );
        assert_eq!(
            gate_summary("# x\n./a.go:3:2: undefined: y\nFAIL\tx [build failed]\n"),
            "./a.go:3:2: undefined: y"
        );
        let red = "error[E0425]: cannot find value `x`\n --> src/lib.rs:2:5\n  |\nerror: could not compile `a` (lib)\n";
        assert_eq!(gate_summary(red), "src/lib.rs:2:5: cannot find value `x`");
        let many = (1..=5)
            .map(|n| format!("test t{n} ... FAILED\n"))
            .collect::<String>();
        assert_eq!(gate_summary(&many), "t1; t2; t3 and 2 more");
        assert_eq!(
            gate_summary("\u{1b}[31m  ● sum › adds\u{1b}[0m\n"),
            "sum › adds"
        );
    }
}
