//! `remand completions`: prints a completion script for a shell.

use anyhow::Result;
use clap::{Args, CommandFactory as _};
use clap_complete::Shell;
use serde_json::json;

use super::Cli;
use crate::cli::frame::{CommandContext, ExitCode};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "How to install it:\n\
\x20 bash        remand completions bash > ~/.local/share/bash-completion/completions/remand\n\
\x20 zsh         remand completions zsh > ~/.zfunc/_remand      (fpath+=~/.zfunc before compinit)\n\
\x20 fish        remand completions fish > ~/.config/fish/completions/remand.fish\n\
\x20 elvish      eval (remand completions elvish | slurp)       (in rc.elv)\n\
\x20 powershell  remand completions powershell | Out-String | Invoke-Expression   (in $PROFILE)")]
pub(crate) struct CompletionsArgs {
    /// Shell to print the script for
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

pub(crate) fn completions(args: &CompletionsArgs, ctx: &mut CommandContext) -> Result<ExitCode> {
    // Written to memory first: the generators panic on write errors, and a pipe may be closed.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "remand", &mut script);
    let text = String::from_utf8(script)?;
    let value = json!({ "shell": args.shell.to_string(), "text": text });
    ctx.show(&value, |ctx, _| Ok(ctx.out.raw(&text)?))
}
