-- From version 2 to 3. In schema.sql a new column is the last one of its table, where ALTER TABLE puts it.

-- Commands of a decision, which were only in its sentence: those in backticks.
ALTER TABLE changes ADD COLUMN decision_commands TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(decision_commands));
WITH RECURSIVE pieces (change_id, number, piece, rest) AS (
    SELECT change_id, 0, '', decision || '`' FROM changes WHERE decision IS NOT NULL
    UNION ALL
    SELECT change_id, number + 1, substr(rest, 1, instr(rest, '`') - 1), substr(rest, instr(rest, '`') + 1)
    FROM pieces WHERE rest <> ''
)
UPDATE changes SET decision_commands = (
    SELECT json_group_array(piece ORDER BY number) FROM pieces
    WHERE pieces.change_id = changes.change_id AND number % 2 = 0 AND piece GLOB 'remand *'
)
WHERE decision IS NOT NULL;

-- Codes in addition to sentences. Only this file interprets the sentences of version 2.

-- Reason for the end of a rejection.
ALTER TABLE rejections ADD COLUMN ended_by TEXT CHECK (ended_by IN (
    'superseded', 'needs_person', 'bound_passed', 'not_runnable', 'approved', 'cancelled', 'head_moved',
    'pr_closed', 'pr_merged', 'pushed_while_closed', 'dismissed', 'change_over'));
UPDATE rejections SET ended_by = CASE
        WHEN reason = 'the PR was closed' THEN 'pr_closed'
        WHEN reason = 'the PR was merged' THEN 'pr_merged'
        WHEN reason = 'somebody pushed while the PR was closed' THEN 'pushed_while_closed'
        WHEN reason = 'the review was dismissed' THEN 'dismissed'
        WHEN reason LIKE 'approved by %' THEN 'approved'
        WHEN reason LIKE 'cancelled by %' THEN 'cancelled'
        WHEN reason LIKE '% moved the head to %' THEN 'head_moved'
        WHEN state = 'superseded' THEN 'superseded'
        WHEN state = 'escalated' THEN 'needs_person'
        WHEN EXISTS (SELECT 1 FROM events
            WHERE events.change_id = rejections.change_id AND event_type = 'skipped'
                AND summary = rejections.reason || '; going on as on_max_cycles says') THEN 'bound_passed'
        WHEN EXISTS (SELECT 1 FROM work_items
            WHERE work_items.item_id = rejections.item_id AND status = 'cancelled'
                AND failure_reason = rejections.reason) THEN 'not_runnable'
        ELSE 'change_over'
    END
WHERE state IN ('superseded', 'escalated', 'skipped');

-- Outcome of feedback: a code, and the explanation.
ALTER TABLE feedback ADD COLUMN outcome_reason TEXT;
UPDATE feedback SET outcome_reason = outcome, outcome = CASE
        WHEN outcome LIKE '% requests changes, and that still stands' THEN 'objection_stands'
        WHEN outcome = 'it came with more than a fix can be told' THEN 'left_out'
        WHEN outcome LIKE 'it approves %' OR outcome LIKE 'it is about %' OR outcome LIKE 'it was said before %' THEN 'other_head'
        WHEN outcome = 'it was dismissed' OR outcome = 'it came with a review that was dismissed' THEN 'dismissed'
        WHEN outcome = 'it says nothing' OR outcome = 'it requests changes and does not say which' THEN 'says_nothing'
        WHEN outcome = 'it came with a review that made no work' THEN 'no_work'
        WHEN outcome = 'the change is over' OR outcome LIKE 'the PR is %' THEN 'pr_over'
        ELSE 'not_trusted'
    END
WHERE outcome NOT IN ('rejected', 'approved', 'context', 'ours');

-- Outcome of a proposal: a code, and the explanation.
ALTER TABLE proposals ADD COLUMN reason TEXT;
UPDATE proposals SET reason = outcome, outcome = 'refused' WHERE outcome <> 'done';

-- Kind of the error of a failed read.
ALTER TABLE pulls ADD COLUMN trouble_kind TEXT CHECK (trouble_kind IN (
    'limited', 'no_gh', 'logged_out', 'not_found', 'refused', 'transient', 'broken', 'too_slow', 'not_stored'));
ALTER TABLE discoveries ADD COLUMN trouble_kind TEXT CHECK (trouble_kind IN (
    'limited', 'no_gh', 'logged_out', 'not_found', 'refused', 'transient', 'broken', 'too_slow', 'not_stored'));

-- A change may be held because its pull request could not be read.
ALTER TABLE changes ADD COLUMN new_hold_kind TEXT CHECK (new_hold_kind IN (
    'environment', 'configuration', 'no_agent', 'git_limit', 'git_lock', 'gate_ended', 'pr_unreadable'));
UPDATE changes SET new_hold_kind = hold_kind;
UPDATE changes SET new_hold_kind = 'pr_unreadable'
WHERE held_until IS NOT NULL AND EXISTS (SELECT 1 FROM pulls
    WHERE pulls.change_id = changes.change_id AND substr(pulls.trouble, 1, 1900) = substr(changes.hold_reason, 1, 1900));
ALTER TABLE changes DROP COLUMN hold_kind;
ALTER TABLE changes RENAME COLUMN new_hold_kind TO hold_kind;

-- Findings that do not come from a review, with all columns of a finding. Nothing refers to this table.
CREATE TABLE new_findings (
    finding_id   TEXT PRIMARY KEY,
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    fingerprint  TEXT NOT NULL,
    severity     TEXT NOT NULL CHECK (severity IN ('critical', 'high', 'medium', 'low', 'suggestion')),
    category     TEXT NOT NULL CHECK (category IN (
        'compliance', 'security', 'architecture', 'logic', 'style', 'performance', 'testing', 'documentation')),
    path         TEXT,
    line         INTEGER,
    line_end     INTEGER,
    title        TEXT,
    text         TEXT NOT NULL,
    failure      TEXT,
    suggestion   TEXT,
    raised_by    TEXT NOT NULL DEFAULT 'review' CHECK (raised_by IN ('review', 'person', 'check', 'analysis', 'message')),
    outcome      TEXT NOT NULL CHECK (outcome IN ('open', 'addressed', 'disputed', 'waived', 'resolved')),
    note         TEXT,
    first_review TEXT REFERENCES reviews (review_id),
    last_review  TEXT REFERENCES reviews (review_id),
    resolution   TEXT CHECK (resolution IN ('judged', 'not_raised_again')),
    UNIQUE (change_id, fingerprint)
) STRICT;
INSERT INTO new_findings (finding_id, change_id, fingerprint, severity, category, path, line, text, suggestion,
    outcome, note, first_review, last_review, resolution)
SELECT finding_id, change_id, fingerprint, severity, category, path, line, text, suggestion,
    outcome, note, first_review, last_review, resolution
FROM findings ORDER BY rowid;
DROP TABLE findings;
ALTER TABLE new_findings RENAME TO findings;
CREATE INDEX findings_by_first_review ON findings (first_review);
CREATE INDEX findings_by_last_review ON findings (last_review);
