//! The command line: parses arguments, queries the blackboard, prints. It makes no decisions about
//! changes and runs no agent. The decision of a person becomes an event or a step on the
//! blackboard, like every other decision.
//!
//! One file per command, with its arguments and one function. Doc comments on arguments are the
//! help.

mod add;
mod approve;
mod backup;
mod board;
mod budget;
mod check;
mod completions;
mod decisions;
mod demo;
mod diff;
mod doctor;
mod evaluators;
mod events;
mod frame;
mod help;
mod init;
mod item;
mod log;
mod man;
mod narration;
mod operator;
mod project;
mod prompts;
mod prune;
mod read_review;
mod reject;
mod reload;
mod review;
mod run;
mod service;
mod settings;
mod shadow;
mod show;
mod stats;
mod status;
mod stop;
mod takeover;
mod verdict;
mod view;
mod wait;
mod watch;
mod why;
mod worktrees;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, FromArgMatches as _, Parser, Subcommand};

use frame::{CommandContext, ExitCode, Format, Ui};

use crate::config::ConfigLocation;
use crate::process;

/// Sends rejected work back to a coding agent until it passes review or a limit is reached
///
/// Without a command, prints the board: all open changes and what each is waiting for.
#[derive(Debug, Parser)]
#[command(name = "remand", version, after_help = FIRST_STEPS, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    global: Global,

    #[command(subcommand)]
    command: Option<Command>,
}

const FIRST_STEPS: &str = "\
First steps:
  remand demo                           show the whole loop, offline, in about ten seconds
  remand init                           write a config file and add a repository
  remand doctor                         check that everything needed is installed
  remand watch ada/website#42           review and fix a PR until it passes
  remand review                         the same for the current worktree, without a PR
  remand run                            start the daemon (or `remand tick`, once)
  remand why ada/website#42             explain what it is waiting for

Exit codes: 0 done, 1 failed, 2 usage, 3 configuration, 4 not found, 5 held or needs a person.";

#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
struct Global {
    /// Config file [default: $REMAND_CONFIG, or remand/config.toml in $XDG_CONFIG_HOME]
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Database file [default: $REMAND_DB, or the setting `blackboard`]
    #[arg(long, global = true, value_name = "FILE")]
    db: Option<PathBuf>,

    /// Print JSON; the format is described in docs/json.md
    #[arg(long, global = true)]
    json: bool,

    /// Print more log messages; repeat for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Tick(run::TickArgs),
    Work(run::WorkArgs),
    Demo(demo::DemoArgs),
    Init(init::InitArgs),
    Doctor(doctor::DoctorArgs),
    Reload(reload::ReloadArgs),
    #[command(subcommand)]
    Project(project::ProjectCommand),
    Add(add::AddArgs),
    Wait(wait::WaitArgs),
    Review(review::ReviewArgs),
    Watch(watch::WatchArgs),
    Reject(reject::RejectArgs),
    Approve(approve::ApproveArgs),
    List(board::ListArgs),
    Status(status::StatusArgs),
    Show(show::ShowArgs),
    Why(why::WhyArgs),
    Events(events::EventsArgs),
    Log(log::LogArgs),
    Diff(diff::DiffArgs),
    Worktrees(worktrees::WorktreesArgs),
    Retry(operator::RetryArgs),
    Refine(operator::RefineArgs),
    Budget(budget::BudgetArgs),
    Cycles(budget::CyclesArgs),
    Verdict(verdict::VerdictArgs),
    Comment(operator::CommentArgs),
    Stop(stop::StopArgs),
    Start(stop::StartArgs),
    Pause(operator::PauseArgs),
    Resume(operator::ResumeArgs),
    Post(operator::PostArgs),
    Skip(decisions::SkipArgs),
    Ready(decisions::ReadyArgs),
    Waive(decisions::WaiveArgs),
    Reopen(decisions::ReopenArgs),
    Takeover(takeover::TakeoverArgs),
    Handback(takeover::HandbackArgs),
    Shadow(shadow::ShadowArgs),
    Stats(stats::StatsArgs),
    Cancel(operator::CancelArgs),
    #[command(subcommand)]
    Item(item::ItemCommand),
    ReadReview(read_review::ReadReviewArgs),
    Backup(backup::BackupArgs),
    Prune(prune::PruneArgs),
    #[command(subcommand)]
    Service(service::ServiceCommand),
    Check(check::CheckArgs),
    #[command(subcommand)]
    Config(settings::ConfigCommand),
    #[command(subcommand)]
    Evaluators(evaluators::EvaluatorsCommand),
    #[command(subcommand)]
    Prompts(prompts::PromptsCommand),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    Help(help::HelpArgs),
}

/// Runs the whole program, except for the shim.
pub(crate) fn main() -> std::process::ExitCode {
    if let Err(error) = process::close_memory() {
        return frame::error::report(&mut Ui::new(Format::Text), &error.into()).into();
    }
    let parsed = help::command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            // Help goes to stdout with exit code 0, a usage error to stderr with 2. A closed pipe
            // is ignored.
            drop(error.print());
            return if error.use_stderr() {
                ExitCode::Usage
            } else {
                ExitCode::Done
            }
            .into();
        }
    };
    let format = if cli.global.json {
        Format::Json
    } else {
        Format::Text
    };
    let place = ConfigLocation {
        config: cli.global.config,
        db: cli.global.db,
    };
    let mut ctx = CommandContext::new(Ui::new(format), place, cli.global.verbose);
    let code = match obey(cli.command, &mut ctx) {
        Ok(code) => code,
        Err(error) => frame::error::report(&mut ctx.out, &error),
    };
    if ctx.knows_nothing() {
        let has_config = ctx.settings().is_ok_and(|settings| settings.file.is_some());
        let begin = match has_config {
            true => "add a repository with `remand project add PATH`",
            false => {
                "run `remand init` to get started, or add a repository with `remand project add PATH`"
            }
        };
        // A closed stderr is ignored.
        drop(
            ctx.out
                .note(format!("hint: there are no projects yet: {begin}")),
        );
    }
    code.into()
}

/// True if the command is read-only: an invalid setting must not hide the board.
fn only_looks(command: Option<&Command>) -> bool {
    matches!(
        command,
        None | Some(
            Command::List(_)
                | Command::Status(_)
                | Command::Show(_)
                | Command::Why(_)
                | Command::Events(_)
                | Command::Log(_)
                | Command::Stats(_)
        )
    )
}

fn obey(command: Option<Command>, ctx: &mut CommandContext) -> Result<ExitCode> {
    if only_looks(command.as_ref()) {
        stop::whatever_the_settings_say(ctx)?;
    }
    match command {
        None => board::list(&board::ListArgs::default(), ctx),
        Some(Command::Run(args)) => run::run(&args, ctx),
        Some(Command::Tick(args)) => run::tick(&args, ctx),
        Some(Command::Work(args)) => run::work(&args, ctx),
        Some(Command::Demo(args)) => demo::demo(&args, ctx),
        Some(Command::Init(args)) => init::init(&args, ctx),
        Some(Command::Doctor(args)) => doctor::doctor(&args, ctx),
        Some(Command::Reload(args)) => reload::reload(&args, ctx),
        Some(Command::Project(command)) => project::project(command, ctx),
        Some(Command::Add(args)) => add::add(&args, ctx),
        Some(Command::Wait(args)) => wait::wait(&args, ctx),
        Some(Command::Review(args)) => review::review(&args, ctx),
        Some(Command::Watch(args)) => watch::watch(&args, ctx),
        Some(Command::Reject(args)) => reject::reject(&args, ctx),
        Some(Command::Approve(args)) => approve::approve(&args, ctx),
        Some(Command::List(args)) => board::list(&args, ctx),
        Some(Command::Status(args)) => status::status(&args, ctx),
        Some(Command::Show(args)) => show::show(&args, ctx),
        Some(Command::Why(args)) => why::why(&args, ctx),
        Some(Command::Events(args)) => events::events(&args, ctx),
        Some(Command::Log(args)) => log::log(&args, ctx),
        Some(Command::Diff(args)) => diff::diff(&args, ctx),
        Some(Command::Worktrees(args)) => worktrees::worktrees(&args, ctx),
        Some(Command::Retry(args)) => operator::retry(&args, ctx),
        Some(Command::Refine(args)) => operator::refine(&args, ctx),
        Some(Command::Budget(args)) => budget::budget(&args, ctx),
        Some(Command::Cycles(args)) => budget::cycles(&args, ctx),
        Some(Command::Verdict(args)) => verdict::verdict(&args, ctx),
        Some(Command::Comment(args)) => operator::comment(&args, ctx),
        Some(Command::Stop(args)) => stop::stop(&args, ctx),
        Some(Command::Start(args)) => stop::start(&args, ctx),
        Some(Command::Pause(args)) => operator::pause(&args, ctx),
        Some(Command::Resume(args)) => operator::resume(&args, ctx),
        Some(Command::Post(args)) => operator::post(&args, ctx),
        Some(Command::Skip(args)) => decisions::skip(&args, ctx),
        Some(Command::Ready(args)) => decisions::ready(&args, ctx),
        Some(Command::Waive(args)) => decisions::waive(&args, ctx),
        Some(Command::Reopen(args)) => decisions::reopen(&args, ctx),
        Some(Command::Takeover(args)) => takeover::takeover(&args, ctx),
        Some(Command::Handback(args)) => takeover::handback(&args, ctx),
        Some(Command::Shadow(args)) => shadow::shadow(&args, ctx),
        Some(Command::Stats(args)) => stats::stats(&args, ctx),
        Some(Command::Cancel(args)) => operator::cancel(&args, ctx),
        Some(Command::Item(command)) => item::item(command, ctx),
        Some(Command::ReadReview(args)) => read_review::read_review(&args, ctx),
        Some(Command::Backup(args)) => backup::backup(&args, ctx),
        Some(Command::Prune(args)) => prune::prune(&args, ctx),
        Some(Command::Service(command)) => service::service(&command, ctx),
        Some(Command::Check(args)) => check::check(&args, ctx),
        Some(Command::Config(command)) => settings::settings(command, ctx),
        Some(Command::Evaluators(command)) => evaluators::evaluators(command, ctx),
        Some(Command::Prompts(command)) => prompts::prompts(command, ctx),
        Some(Command::Completions(args)) => completions::completions(&args, ctx),
        Some(Command::Man(args)) => man::man(&args, ctx),
        Some(Command::Help(args)) => help::help(&args, ctx),
    }
}

/// Argument that names a change, shared by most commands.
#[derive(Debug, Clone, Args)]
pub(crate) struct Named {
    /// Change: id (c1), branch, worktree path, or PR (owner/repo#42, URL, or 42)
    #[arg(value_name = "CHANGE")]
    pub(crate) change: String,
}
