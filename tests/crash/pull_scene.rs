//! Scenarios on pull requests: the agents, which do the same when they are run again, and the
//! people.

use crate::support::forge::{Forge, Review};

/// Action of a person on a pull request.
pub(crate) struct Act {
    /// Condition on the row in `changes`, checked once the change has no open work.
    pub(super) when: &'static str,
    pub(super) does: fn(&Forge, i64),
}

/// Scenario.
#[derive(Clone, Copy)]
pub(crate) struct Scene {
    pub(super) reviewer: &'static str,
    pub(super) fixer: &'static str,
    pub(super) settings: &'static str,
    pub(super) worktree: Worktree,
    pub(super) acts: &'static [Act],
    /// Final state of the change.
    pub(super) end: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Worktree {
    Persons,
    Own,
    /// Created by remand for a task, with a branch of its own.
    Task,
}

/// Rejected by remand and fixed; then by a person, in two places, and fixed; approved, merged.
pub(crate) const WHOLE: Scene = Scene {
    reviewer: r#"
if grep -q first work.txt; then says approved "all is there"
else says changes_requested "the first is missing" "$(finding work.txt 1 'the first is missing')"; fi
"#,
    fixer: r#"
cat >/dev/null
if grep -q first work.txt; then
    echo part >>part.txt
    git add part.txt
    git commit -q -m "a part of it" || exit 1
    echo second >>work.txt
else
    echo first >>work.txt
fi
echo done
"#,
    settings: "gates = [[\"grep\", \"-q\", \"first\", \"work.txt\"]]",
    worktree: Worktree::Persons,
    acts: &[
        Act {
            when: "state = 'ready_for_human_review' AND total_fixes = 1",
            does: request_changes,
        },
        Act {
            when: "state = 'ready_for_human_review' AND total_fixes = 2",
            does: approve,
        },
        Act {
            when: "state = 'approved'",
            does: |forge, number| forge.merge(number, "bob"),
        },
    ],
    end: "merged",
};

/// A task: remand implements it, rejects the result before anybody sees it, fixes that, and opens the
/// pull request. From there on, a person rejects it, approves it and merges it.
///
/// Tasks run one after another: each has files of its own, so that no merge makes another one empty.
pub(crate) const TASK: Scene = Scene {
    reviewer: r#"
[ -e .ready ] || exit 9
work="work-$REMAND_CHANGE.txt"
if grep -q first "$work"; then says approved "all is there"
else says changes_requested "the first is missing" "$(finding "$work" 1 'the first is missing')"; fi
"#,
    fixer: r#"
cat >/dev/null
[ -e .ready ] || exit 9
work="work-$REMAND_CHANGE.txt"
if [ "$REMAND_PHASE" = implement ]; then
    echo begun >"$work"
    git add "$work"
    git commit -q -m "a part of the task" || exit 1
    echo loose >"loose-$REMAND_CHANGE.txt"
elif grep -q first "$work"; then
    echo part >>"part-$REMAND_CHANGE.txt"
    git add "part-$REMAND_CHANGE.txt"
    git commit -q -m "a part of it" || exit 1
    echo second >>"$work"
else
    echo first >>"$work"
fi
echo done
"#,
    settings: "red_base = \"hold\"\ngates = [[\"test\", \"!\", \"-e\", \"broken.txt\"]]\nsetup = [\"sh\", \"-c\", \"echo ready >.ready\"]",
    worktree: Worktree::Task,
    acts: &[
        Act {
            when: "state = 'ready_for_human_review' AND total_fixes = 1",
            does: |forge, number| {
                forge.review(
                    number,
                    &Review {
                        by: "bob",
                        body: "Say second, and write a part beside it.",
                        ..Review::default()
                    },
                );
            },
        },
        Act {
            when: "state = 'ready_for_human_review' AND total_fixes = 2",
            does: approve,
        },
        Act {
            when: "state = 'approved'",
            does: |forge, number| forge.merge(number, "bob"),
        },
    ],
    end: "merged",
};

/// In a worktree that remand created and set up; a person pushes while the fix is made.
pub(crate) const OVERTAKEN: Scene = Scene {
    reviewer: r#"
[ -e .ready ] || exit 9
if grep -q first work.txt; then says approved "all is there"
else says changes_requested "the first is missing" "$(finding work.txt 1 'the first is missing')"; fi
"#,
    fixer: r#"
cat >/dev/null
[ -e .ready ] || exit 9
echo first >>work.txt
# In one step, and once.
git --git-dir="$PROMPTS/../remote.git" update-ref refs/heads/feature refs/hidden/theirs refs/hidden/theirs^ 2>/dev/null
echo done
"#,
    settings: "gates = [[\"grep\", \"-q\", \"first\", \"work.txt\"]]\nsetup = [\"sh\", \"-c\", \"echo ready >.ready\"]",
    worktree: Worktree::Own,
    acts: &[],
    end: "ready_for_human_review",
};

/// The fix touches a forbidden path: it is not pushed, and a person is asked.
pub(crate) const FORBIDDEN: Scene = Scene {
    fixer: r#"
cat >/dev/null
echo first >>work.txt
mkdir -p .github/workflows
echo "on: push" >.github/workflows/ci.yml
echo done
"#,
    settings: "",
    acts: &[],
    end: "escalated",
    ..WHOLE
};

/// A person reverts the first fix while the second is made.
pub(crate) const TAKEN_BACK: Scene = Scene {
    reviewer: r#"
if grep -q second work.txt; then says approved "all is there"
elif grep -q first work.txt; then says changes_requested "the second is missing" "$(finding work.txt 2 'the second is missing')"
else says changes_requested "the first is missing" "$(finding work.txt 1 'the first is missing')"; fi
"#,
    fixer: r#"
cat >/dev/null
if grep -q first work.txt; then
    echo second >>work.txt
    theirs() { git --git-dir="$PROMPTS/../remote.git" "$@"; }
    head=$(theirs rev-parse feature) before=$(theirs rev-parse 'refs/hidden/start^{tree}')
    if [ "$(theirs rev-parse 'feature^{tree}')" != "$before" ]; then
        theirs update-ref refs/heads/feature "$(theirs commit-tree "$before" -p "$head" -m 'No, not like this')" "$head"
    fi
else
    echo first >>work.txt
fi
echo done
"#,
    settings: "",
    acts: &[],
    end: "escalated",
    ..WHOLE
};

fn request_changes(forge: &Forge, number: i64) {
    let inline = [
        ("work.txt", 1, "say second here"),
        ("work.txt", 2, "and a part beside it"),
    ];
    forge.review(
        number,
        &Review {
            by: "bob",
            body: "Two things.",
            inline: &inline,
            ..Review::default()
        },
    );
}

fn approve(forge: &Forge, number: i64) {
    forge.review(
        number,
        &Review {
            by: "bob",
            state: "APPROVED",
            body: "Good.",
            ..Review::default()
        },
    );
}
