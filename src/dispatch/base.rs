//! The gates on the base of a change, before an agent is paid for it. Gates that are red without the change say nothing
//! about it: no agent could make them green by what it is asked for.

use super::checkout::{MadeFrom, Tested};
use super::gate_summary::gate_summary;
use super::gates::Red;
use super::look::short;
use super::rules::{GateIn, RedBase};
use super::stop::Stop;
use super::task::Task;
use crate::git::{GateView, Worktree};
use crate::plain;
use crate::work::GateResult;

/// Maximum number of characters of a red gate's output in the reason of a hold.
const OUTPUT: usize = 1_200;

impl Task {
    /// Holds the change when the gates are red on its base and on its head; red on the base only is what it repairs.
    pub(super) async fn base_passes(&self, worktree: &Worktree, base: &str, head: &str) -> Result<(), Stop> {
        if self.rules.gates.is_empty()
            || self.rules.red_base == RedBase::Ignore
            || self.rules.gate_in == GateIn::Worktree
        {
            return Ok(());
        }
        let (place, bench) = (&worktree.place, self.bench());
        let (base_tree, head_tree) = (self.git.tree_of(place, base).await?, self.git.tree_of(place, head).await?);
        match (bench.known_result(&base_tree), bench.known_result(&head_tree)) {
            (Some(GateResult::Green), _) | (Some(GateResult::Red), Some(GateResult::Green)) => return Ok(()),
            (Some(GateResult::Red) | None, _) => {}
        }
        let repository = self.own_repository();
        repository.ready().await?;
        repository.take(place, &self.change.branch, base).await?;
        let view = GateView { branch: &self.change.base, ..self.gate_view(place, &repository, base).await? };
        let tested = Tested { view: &view, tree: &base_tree, made_from: MadeFrom::Base, run: None };
        let Some(on_base) = bench.gates_on(repository.path(), &tested).await? else { return Ok(()) };
        repository.take(place, &self.change.branch, head).await?;
        let view = self.gate_view(place, &repository, head).await?;
        let made_from = MadeFrom::Change(&self.change.change_id);
        let tested = Tested { view: &view, tree: &head_tree, made_from, run: None };
        match bench.gates_on(repository.path(), &tested).await? {
            Some(_) => Err(Stop::hold(self.red_without_the_change(base, &on_base))),
            None => Ok(()),
        }
    }

    fn red_without_the_change(&self, base: &str, red: &Red) -> String {
        let (name, output) = (&self.change.base, &red.output);
        let from = output.char_indices().rev().nth(OUTPUT).map_or(0, |(at, _)| at);
        format!(
            "the gate `{}` is red on {name} ({}) too, so no agent was started: {}; fix {name}, `setup` or `gates`, or set \
             red_base = \"ignore\". Its output: {}",
            red.command,
            short(base),
            gate_summary(output),
            plain::block(output.get(from..).unwrap_or_default()).trim()
        )
    }
}
