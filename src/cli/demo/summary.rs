//! The end of the demo: the result of each pull request, and commands to try next.

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::cli::frame::ui::{Line, TextStyle, Ui};
use crate::demo::{Ends, PARTS, Part, REPO, Remark, Stage};
use crate::text::prefixed;

/// Prints each pull request with its state on the remote and on the fake GitHub.
pub(super) async fn pages(out: &mut Ui, stage: &Stage, ends: &[Option<bool>]) -> Result<()> {
    for (part, ended) in PARTS.iter().zip(ends) {
        let (look, end) = match ended {
            Some(true) => end(part),
            Some(false) | None => (TextStyle::Bad, "did not end as expected".to_owned()),
        };
        out.blank()?;
        let head = Line::new().strong(format!("{REPO}#{}  {}", part.number, part.title));
        out.paragraph(head.plain(": ").piece(look, end), 2)?;
        list(out, "remote", stage.pushed(part).await?)?;
        list(
            out,
            "posted",
            stage.said_on(part).await?.iter().map(one_line).collect(),
        )?;
    }
    Ok(())
}

fn list(out: &mut Ui, what: &str, lines: Vec<String>) -> Result<()> {
    for (at, line) in lines.into_iter().enumerate() {
        let what = if at == 0 { what } else { "" };
        out.paragraph(Line::new().faint(format!("  {what:<6}  ")).plain(line), 10)?;
    }
    Ok(())
}

fn end(part: &Part) -> (TextStyle, String) {
    match part.ends {
        Ends::Passed(_) => (
            TextStyle::Good,
            "rejected by the reviewer, fixed, passed; waiting for a person to approve it".into(),
        ),
        Ends::Approved(_) => (
            TextStyle::Good,
            "passed, sent back by a person, fixed, approved by that person".into(),
        ),
        Ends::Opened(_) => (
            TextStyle::Good,
            "from a task: implemented, rejected by the reviewer, fixed, passed, opened".into(),
        ),
        Ends::Escalated(n) => (
            TextStyle::Bad,
            format!("still rejected after {n} fixes, escalated to a person"),
        ),
    }
}

fn one_line(said: &Remark) -> String {
    let place = prefixed(" at ", said.place.as_ref());
    format!("{} {}{place}: {}", said.by, said.how, said.text)
}

pub(super) fn words(out: &mut Ui, folder: &Path, is_kept: bool) -> Result<()> {
    out.blank()?;
    let command = |text: String| Line::new().plain("  ").command(text);
    if is_kept {
        // People who run the demo may not have installed remand.
        let remand =
            std::env::current_exe().context("cannot determine the path of this program")?;
        let remand = remand.display();
        out.line("Everything was kept. To inspect it:")?;
        for line in [
            format!("cd {}", folder.display()),
            format!("{remand} --db blackboard.db why ada/calc#3"),
            format!("{remand} --db blackboard.db diff ada/calc#2 --cycle 1"),
            "sqlite3 blackboard.db \"SELECT timestamp, event_type, summary FROM timeline WHERE change_id = 'c2'\""
                .to_owned(),
            "git -C remote.git log -p main..greeting".to_owned(),
        ] {
            out.line(command(line))?;
        }
    } else {
        let kept = "Everything has been deleted. `remand demo --keep` keeps it and shows how to inspect it with `remand \
                    why`, `remand diff`, sqlite3 and git.";
        out.paragraph(kept, 0)?;
    }
    out.blank()?;
    out.line("To use it with your own repository and agent:")?;
    for line in [
        "cd ~/src/yours",
        "remand init --shadow        # asks for the agent and the tests",
        "remand doctor               # shows what is missing",
        "remand watch you/yours#42   # or, in a worktree without a PR: remand review",
        "remand run                  # starts the daemon; in shadow it only reviews",
    ] {
        out.line(command(line.to_owned()))?;
    }
    Ok(())
}
