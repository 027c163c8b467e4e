//! Chooses how much of the feedback goes into one prompt. Pure: sizes in, ends out.
//!
//! Text that does not fit is left for another run of the same fix, so nothing is dropped here. The
//! order decides what a fix is given first if even the last run has no room for everything.

use crate::finding::Severity;

/// Size of the fence and heading of one text.
pub(super) const FRAME: usize = 256;

/// Order in which texts are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// A person's comment for this fix, newest first.
    Guidance(std::cmp::Reverse<usize>),
    /// The text of a review itself, newest first.
    Body(std::cmp::Reverse<usize>),
    /// One finding: worst first, then by the newest review.
    Finding(Severity, std::cmp::Reverse<usize>, usize),
}

/// Text that waits to be included in a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    pub(super) rank: Rank,
    /// Number of bytes that earlier prompts contained.
    pub(super) start: usize,
    pub(super) total: usize,
}

/// Returns the end of each text in this prompt, in the order of `waiting`. The end equals the start
/// if the text does not fit.
///
/// Texts are included whole. Only one that is larger than a whole prompt is split, so that it
/// cannot wait forever. A text larger than a quarter of the limit comes after all shorter ones:
/// four long reviews must not crowd out a short one.
pub(super) fn portion(waiting: &[Waiting], limit: usize) -> Vec<usize> {
    let mut order: Vec<(usize, &Waiting)> = waiting.iter().enumerate().collect();
    order.sort_by_key(|(_, text)| (text.total > limit / 4, text.rank));
    let mut ends: Vec<usize> = waiting.iter().map(|text| text.start).collect();
    let mut room = limit;
    for (at, text) in order {
        let left = text.total.saturating_sub(text.start);
        if left == 0 {
            continue;
        }
        let cost = left + FRAME;
        let taken = if cost <= room {
            left
        } else if cost > limit && room > limit / 2 {
            room.saturating_sub(FRAME)
        } else {
            continue;
        };
        room = room.saturating_sub(taken + FRAME);
        if let Some(end) = ends.get_mut(at) {
            *end += taken;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;

    use proptest::prelude::*;

    use super::*;

    fn body(n: usize, total: usize) -> Waiting {
        Waiting {
            rank: Rank::Body(Reverse(n)),
            start: 0,
            total,
        }
    }

    fn finding(n: usize, severity: Severity, total: usize) -> Waiting {
        Waiting {
            rank: Rank::Finding(severity, Reverse(0), n),
            start: 0,
            total,
        }
    }

    #[test]
    fn the_reviews_own_text_and_the_worst_findings_come_first() {
        let waiting = [
            finding(0, Severity::Low, 900),
            finding(1, Severity::Critical, 900),
            body(0, 900),
        ];
        assert_eq!(portion(&waiting, 4_000), [900, 900, 900]);
        assert_eq!(portion(&waiting, 3_700), [900, 900, 900].map(|n| n));
        let waiting = waiting.map(|text| Waiting { total: 900, ..text });
        assert_eq!(portion(&waiting, 2_400), [0, 900, 900]);
        assert_eq!(portion(&waiting, 1_200), [0, 0, 900]);
    }

    #[test]
    fn a_short_review_is_not_crowded_out_by_long_ones() {
        let mut waiting: Vec<Waiting> = (1..=4).map(|n| body(n, 60_000)).collect();
        waiting.push(body(0, 40));
        assert_eq!(portion(&waiting, 100_000), [0, 0, 0, 60_000, 40]);
    }

    #[test]
    fn only_a_text_that_is_larger_than_a_prompt_is_split() {
        let whole = body(0, 3_000);
        assert_eq!(portion(&[body(1, 2_000), whole], 4_000), [2_000, 0]);
        let huge = body(0, 10_000);
        assert_eq!(portion(&[huge], 4_000), [4_000 - FRAME]);
        let rest = Waiting {
            start: 4_000 - FRAME,
            ..huge
        };
        assert_eq!(portion(&[rest], 4_000), [2 * (4_000 - FRAME)]);
    }

    proptest! {
        #[test]
        fn every_portion_fits_and_makes_progress(sizes in prop::collection::vec(0usize..20_000, 1..40)) {
            let limit = 4_000;
            let mut waiting: Vec<Waiting> = sizes.iter().enumerate().map(|(n, size)| finding(n, Severity::Medium, *size)).collect();
            for _ in 0..=sizes.iter().sum::<usize>() / (limit / 2 - FRAME) + 1 {
                let ends = portion(&waiting, limit);
                let told: usize = waiting.iter().zip(&ends).map(|(text, end)| end - text.start).filter(|n| *n > 0).map(|n| n + FRAME).sum();
                let left: usize = waiting.iter().map(|text| text.total - text.start).sum();
                prop_assert!(told <= limit && (told > 0 || left == 0));
                for (text, end) in waiting.iter_mut().zip(ends) {
                    prop_assert!(end <= text.total);
                    text.start = end;
                }
            }
            prop_assert!(waiting.iter().all(|text| text.start == text.total));
        }
    }
}
