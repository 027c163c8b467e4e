//! The gates on the base and on the head of a change, before an agent runs for it. Gates that fail without the change
//! prove nothing about it: no agent could make them pass by doing its task. Gates that fail on the head only are a
//! rejection: no reviewer is needed to find that out.

use super::gate_checkout::{MadeFrom, Tested};
use super::gate_run::{Red, output_end};
use super::gate_summary::gate_summary;
use crate::blackboard::{self as bb, GateRejection};
use crate::clock;
use crate::dispatch::commit::Span;
use crate::dispatch::interrupt::{Interrupt, Result};
use crate::dispatch::task::Task;
use crate::finding::Verdict;
use crate::git::{GateView, Worktree};
use crate::project_settings::{GateIn, RedBase};
use crate::sanitize;
use crate::text::short_sha;
use crate::work::GateResult;

/// Maximum number of bytes of a red gate's output in the reason of a hold.
const OUTPUT: usize = 1_200;

impl Task {
    /// Holds the change when the gates are red on its base and on its head; if they are red on the base only, the
    /// change fixes them.
    pub(crate) async fn base_passes(
        &self,
        worktree: &Worktree,
        base: &str,
        head: &str,
    ) -> Result<()> {
        if !self.tries_gates() {
            return Ok(());
        }
        let (place, bench) = (&worktree.place, self.bench());
        let base_tree = self.git.tree_of(place, base).await?;
        let head_tree = self.git.tree_of(place, head).await?;
        let on_base = bench.known_result(&base_tree);
        let is_fixed = || bench.known_result(&head_tree) == Some(GateResult::Green);
        if on_base == Some(GateResult::Green) || (on_base.is_some() && is_fixed()) {
            return Ok(());
        }
        let repository = self.own_repository();
        repository.ready().await?;
        repository.take(place, &self.change.branch, base).await?;
        let view = GateView {
            branch: &self.change.base,
            ..self.gate_view(place, &repository, base).await?
        };
        let tested = Tested {
            view: &view,
            tree: &base_tree,
            made_from: MadeFrom::Base,
            fix: None,
        };
        let Some(on_base) = bench.gates_on(repository.path(), &tested).await? else {
            return Ok(());
        };
        match self.gates_on_head(place, head, &head_tree, None).await? {
            Some(_) => Err(Interrupt::hold(self.red_without_the_change(base, &on_base))),
            None => Ok(()),
        }
    }

    /// Runs the gates on the base and then on the head; returns the gate that fails on the head only.
    pub(crate) async fn red_on_head_only(
        &self,
        worktree: &Worktree,
        base: &str,
        head: &str,
    ) -> Result<Option<GateRejection>> {
        self.base_passes(worktree, base, head).await?;
        if !self.tries_gates() {
            return Ok(None);
        }
        let tree = self.git.tree_of(&worktree.place, head).await?;
        // A fix of ours has passed them, and a head that is green on a red base was just tested. A known red result has
        // no output, so such a head is tested again.
        if self.bench().known_result(&tree) == Some(GateResult::Green) {
            return Ok(None);
        }
        let place = &worktree.place;
        let red = self.gates_on_head(place, head, &tree, None).await?;
        Ok(red.map(|red| self.rejection_by(&red, base, head)))
    }

    /// Runs the gates on a head that nobody fixed: before its pull request is opened, they must have passed, whatever
    /// the settings say about the base.
    pub(crate) async fn red_before_pull(
        &self,
        worktree: &Worktree,
        base: &str,
        head: &str,
    ) -> Result<Option<GateRejection>> {
        if self.rules.gates.is_empty() || self.tries_gates() {
            return self.red_on_head_only(worktree, base, head).await;
        }
        let place = &worktree.place;
        let red = match self.rules.gate_in {
            GateIn::Checkout => {
                let tree = self.git.tree_of(place, head).await?;
                self.gates_on_head(place, head, &tree, None).await?
            }
            GateIn::Worktree => {
                let id = self.change.change_id.clone();
                let last = self.read(move |conn| {
                    let last = bb::last_run_of_change(conn, &id)?;
                    last.map(|run_id| bb::run(conn, &run_id)).transpose()
                });
                let Some(run) = last.await? else {
                    return Ok(None);
                };
                let span = Span {
                    first: base,
                    run: &run,
                };
                self.gates_in_worktree(span, head).await?
            }
        };
        Ok(red.map(|red| self.rejection_by(&red, base, head)))
    }

    /// Ends the review without a reviewer. In shadow mode this has no effect.
    pub(crate) async fn finish_by_gate(&self, red: GateRejection) -> Result<()> {
        self.check_cancelled()?;
        if self.in_shadow {
            let review = bb::ShadowReview {
                head: red.head,
                base: Some(red.base),
                verdict: Some(Verdict::ChangesRequested),
                summary: Some(red.summary),
                body: Some(red.body),
                trouble: None,
                ..self.no_shadow_review(String::new())
            };
            return self.record_shadow_review(review).await;
        }
        self.record("reject_by_gate", move |conn, claim| {
            bb::reject_by_gate(conn, claim, &red, clock::now())
        })
        .await
    }

    /// True if gates run before an agent starts.
    fn tries_gates(&self) -> bool {
        !self.rules.gates.is_empty()
            && self.rules.red_base != RedBase::Ignore
            && self.rules.gate_in != GateIn::Worktree
    }

    fn rejection_by(&self, red: &Red, base: &str, head: &str) -> GateRejection {
        let summary = format!(
            "the gate `{}` fails on {}: {}",
            red.command,
            short_sha(head),
            gate_summary(&red.output)
        );
        let body = format!(
            "The gate `{}` fails on this branch ({}). It passes on {} ({}), so the change is the cause.\n\nIts \
             output:\n\n{}",
            red.command,
            short_sha(head),
            self.change.base,
            short_sha(base),
            red.output
        );
        GateRejection {
            head: head.to_owned(),
            base: base.to_owned(),
            command: red.command.clone(),
            status: red.status,
            summary,
            body,
        }
    }

    fn red_without_the_change(&self, base: &str, red: &Red) -> String {
        let (name, output) = (&self.change.base, &red.output);
        format!(
            "the gate `{}` also fails on {name} ({}), so no agent was started: {}; fix {name}, `setup` or \
             `gates`, or set red_base = \"ignore\". Its output: {}",
            red.command,
            short_sha(base),
            gate_summary(output),
            sanitize::block(output_end(output, OUTPUT)).trim()
        )
    }
}
