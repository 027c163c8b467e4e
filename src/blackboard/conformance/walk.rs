//! Random walk: all actors do anything in any order. The rows are consistent after each step, and
//! at the end nothing is left waiting.

use std::time::Duration;

use super::story::{Story, failure, finding, fix_done, more_fixes, review_done};
use crate::blackboard::{self as bb, BoardError, Claimed, Conn};
use crate::change::{Change, HoldKind, OnMaxCycles, State};
use crate::clock::Time;
use crate::finding::Verdict;
use crate::work::{RejectionState, Source};

/// Pseudo-random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn one_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        if list.is_empty() {
            None
        } else {
            list.get(self.below(list.len()))
        }
    }
}

struct Walk {
    story: Story,
    dice: Dice,
    /// Current claims and ended ones: dead holders write too.
    claims: Vec<Claimed>,
    /// State in which changes enter: as work in a worktree, or as a pull request.
    enters: State,
}

const VERDICTS: [Verdict; 6] = [
    Verdict::ChangesRequested,
    Verdict::ChangesRequested,
    Verdict::ChangesRequested,
    Verdict::Approved,
    Verdict::NeedsDiscussion,
    Verdict::Unclear,
];

impl Walk {
    /// Performs one random action. A refused action must change nothing; any other error fails the
    /// test.
    fn step(&mut self) -> &'static str {
        let changes: Vec<Change> = self
            .story
            .engine
            .read(|conn| bb::board(conn, bb::Show::All, 100))
            .into_iter()
            .map(|row| row.change)
            .collect();
        let Some(change) = self.dice.one_of(&changes).cloned() else {
            return self.enter();
        };
        let id = change.change_id.clone();
        match self.dice.below(66) {
            0..=2 if changes.len() < 6 => self.enter(),
            3..=12 => {
                self.claims.extend(self.story.try_claim());
                "claim"
            }
            13..=34 => self.end_a_claim(),
            35..=45 => {
                self.story.beat();
                "beat"
            }
            46 | 47 => {
                self.story
                    .engine
                    .by_hand("work_rejected", ("change", id.as_str()), "no");
                "reject"
            }
            48 if self.dice.below(3) == 0 => {
                self.story
                    .engine
                    .by_hand("work_approved", ("change", id.as_str()), "yes");
                "approve by event"
            }
            49..=51 => self.tried("retry", |conn, now| {
                bb::retry(conn, &id, "ann", now).map(drop)
            }),
            52 => self.tried("refine", |conn, now| {
                bb::refine(conn, &id, Some("so"), "ann", now).map(drop)
            }),
            53 => self.tried("cycles", |conn, now| {
                more_fixes(conn, &id, 1, now).map(drop)
            }),
            54 => self.tried("pause", |conn, now| {
                bb::pause(conn, &id, None, "ann", now).map(drop)
            }),
            55 | 56 => self.tried("resume", |conn, now| {
                bb::resume(conn, &id, "ann", now).map(drop)
            }),
            57 => {
                let open = self.story.open_items(&id);
                let Some(item) = self.dice.one_of(&open).map(|item| item.item_id.clone()) else {
                    return "nothing";
                };
                self.tried("cancel item", |conn, now| {
                    bb::cancel_item(conn, &item, "no", "ann", now).map(drop)
                })
            }
            58 => {
                self.story.pass(Duration::from_secs(20));
                self.tried("resume due", |conn, now| {
                    bb::resume_due(conn, now).map(drop)
                })
            }
            59 if self.dice.below(4) == 0 => self.tried("cancel", |conn, now| {
                bb::cancel_change(conn, &id, None, "ann", now).map(drop)
            }),
            59 => {
                let head: String = change.head.chars().skip(1).chain(['a']).collect();
                self.tried("move head", |conn, now| {
                    bb::review_new_head(conn, &id, &head, "ann", now).map(drop)
                })
            }
            60 | 61 => self.tried("take over", |conn, now| {
                bb::take_over(conn, &id, &bb::Takeover::default(), "ann", now).map(drop)
            }),
            62 | 63 => {
                let given = match self.dice.below(2) {
                    0 => handback(change.head.clone()),
                    _ => handback(change.head.chars().skip(1).chain(['b']).collect()),
                };
                self.tried("hand back", |conn, now| {
                    bb::hand_back(conn, &id, &given, "ann", now).map(drop)
                })
            }
            64 => {
                let open = self.story.engine.read(|conn| bb::open_findings(conn, &id));
                let Some(finding) = self.dice.one_of(&open).map(|open| open.finding_id.clone())
                else {
                    return "nothing";
                };
                self.tried("waive", |conn, now| {
                    bb::waive(conn, &[finding], "so", "ann", now).map(drop)
                })
            }
            65 => match self.dice.below(3) {
                0 => self.tried("skip", |conn, now| {
                    bb::skip(conn, &id, None, "ann", now).map(drop)
                }),
                1 => self.tried("ready", |conn, now| {
                    bb::mark_ready(conn, &id, None, "ann", now).map(drop)
                }),
                _ => self.tried("reopen", |conn, now| {
                    bb::reopen_change(conn, &id, (None, None), "ann", now).map(drop)
                }),
            },
            _ => "nothing",
        }
    }

    fn enter(&mut self) -> &'static str {
        let on_max_cycles = *self.dice.one_of(OnMaxCycles::ALL).unwrap();
        let state = self.enters;
        self.story.change_with(|new| {
            new.bounds.on_max_cycles = on_max_cycles;
            new.state = state;
        });
        if state == State::AwaitingPrFeedback {
            self.story.engine.with_pr(42);
        }
        "enter"
    }

    /// Ends a current or former claim with a random result.
    fn end_a_claim(&mut self) -> &'static str {
        let held = self
            .story
            .engine
            .read(|conn| bb::foreign_claims(conn, "nobody"));
        let live: Vec<Claimed> = self
            .claims
            .iter()
            .filter(|one| held.iter().any(|(claim, _)| *claim == one.claim()))
            .cloned()
            .collect();
        let among = if self.dice.below(5) == 0 {
            &self.claims
        } else {
            &live
        };
        let Some(claimed) = self.dice.one_of(among).cloned() else {
            return "nothing";
        };
        let claim = claimed.claim();
        let id = claimed.change.change_id.clone();
        let verdict = *self.dice.one_of(&VERDICTS).unwrap();
        let text = ["one", "two", "three"][self.dice.below(3)];
        match self.dice.below(8) {
            0 => self.tried("fail", |conn, now| {
                bb::fail(conn, &claim, &failure(), now).map(drop)
            }),
            1 => self.tried("hold", |conn, now| {
                let hold = bb::Hold {
                    kind: HoldKind::Environment,
                    reason: "no network".into(),
                    until: now.plus(Duration::from_secs(10)),
                };
                bb::hold(conn, &claim, &id, &hold, now)
            }),
            2 => self.tried("give back", |conn, now| {
                bb::give_back(conn, &claim, Some(now.plus(Duration::from_secs(5))), now)
            }),
            _ if claimed.item.source == Source::ReviewFix => self.tried("fix", |conn, now| {
                bb::finish_fix(conn, &claim, &fix_done(&claimed.change.head), now).map(drop)
            }),
            _ => self.tried("review", |conn, now| {
                let done = review_done(&claimed.change.head, verdict, &[finding("a.rs", text)]);
                bb::finish_review(conn, &claim, &done, now).map(drop)
            }),
        }
    }

    fn tried(
        &mut self,
        name: &'static str,
        step: impl FnOnce(&Conn, Time) -> bb::Result<()>,
    ) -> &'static str {
        match self.story.step(step) {
            Ok(()) => name,
            Err(
                BoardError::Refused { .. }
                | BoardError::Stale { .. }
                | BoardError::NoSuchMove { .. },
            ) => "refused",
            Err(error) => panic!("{name}: {error:?}"),
        }
    }

    /// Lets everything continue with good reviews: every live change comes to rest.
    fn come_to_rest(&mut self) {
        let live = self
            .story
            .engine
            .read(|conn| bb::board(conn, bb::Show::Live, 100));
        for row in live.iter().filter(|row| row.change.taken_over) {
            let given = handback(row.change.head.clone());
            self.story
                .step(|conn, now| bb::hand_back(conn, &row.change.change_id, &given, "ann", now))
                .unwrap();
        }
        for row in &live {
            self.story
                .step(|conn, now| bb::resume(conn, &row.change.change_id, "ann", now))
                .unwrap();
        }
        for claimed in std::mem::take(&mut self.claims) {
            self.story
                .step(|conn, now| bb::take_from_dead(conn, &claimed.claim(), now))
                .unwrap();
        }
        for _ in 0..200 {
            self.story.pass(Duration::from_secs(30));
            self.story.beat();
            let Some(claimed) = self.story.try_claim() else {
                break;
            };
            let claim = claimed.claim();
            let head = claimed.change.head.clone();
            let ended = self.story.step(|conn, now| {
                if claimed.item.source == Source::ReviewFix {
                    bb::finish_fix(conn, &claim, &fix_done(&head), now)
                } else {
                    bb::finish_review(
                        conn,
                        &claim,
                        &review_done(&head, Verdict::Approved, &[]),
                        now,
                    )
                }
            });
            ended.unwrap();
        }
        for row in live {
            let change = self.story.at(&row.change.change_id);
            let rests = matches!(
                change.state,
                State::ReadyForHumanReview
                    | State::Approved
                    | State::Escalated
                    | State::AwaitingPrFeedback
            );
            assert!(rests, "{} is left {}", change.change_id, change.state);
            let states = self.story.rejection_states(&change.change_id);
            let waits = states
                .iter()
                .any(|state| matches!(state, RejectionState::Pending | RejectionState::InFix));
            assert!(
                !waits,
                "{} is {} with {states:?}",
                change.change_id, change.state
            );
        }
    }
}

fn handback(head: String) -> bb::Handback {
    bb::Handback {
        head,
        commits: 1,
        files: Vec::new(),
        text: None,
    }
}

#[test]
fn whatever_everybody_does_the_rows_agree_and_nothing_waits_for_ever() {
    for seed in 0..6 {
        let mut walk = Walk {
            story: Story::begin(),
            dice: Dice(seed),
            claims: Vec::new(),
            enters: if seed % 2 == 0 {
                State::PendingSelfReview
            } else {
                State::AwaitingPrFeedback
            },
        };
        let mut path = Vec::new();
        for _ in 0..120 {
            path.push(walk.step());
            let found = walk.story.engine.read(bb::check);
            assert_eq!(found, [], "seed {seed}: {path:?}");
        }
        walk.come_to_rest();
        walk.story.check();
    }
}
