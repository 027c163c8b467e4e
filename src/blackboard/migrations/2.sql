-- From version 1 to 2. A new column stands last among the columns of its table in schema.sql, as ALTER TABLE puts it.

-- The kind of a hold.
ALTER TABLE changes ADD COLUMN hold_kind TEXT CHECK (hold_kind IN ('environment', 'configuration', 'no_agent'));

-- More types of events.
DROP TRIGGER events_known_type;
CREATE TRIGGER events_known_type BEFORE INSERT ON events
WHEN NEW.event_type NOT IN (
    'work_created', 'work_claimed', 'work_completed', 'work_failed', 'work_cancelled', 'work_rejected',
    'work_approved', 'fix_created', 'fix_committed', 'fix_pushed', 'review_requeued', 'review_posted',
    'review_unclear', 'edits_undone', 'permission_denied', 'checkout_changed', 'head_moved', 'escalated', 'instructed',
    'shadowed', 'state_changed', 'run_started', 'run_finished', 'run_lost', 'worktree_made', 'setup_run', 'gate_failed', 'held', 'resumed',
    'feedback_received', 'pr_adopted', 'pr_changed', 'posted', 'message_sent', 'notified', 'skipped', 'pruned', 'reloaded')
BEGIN
    SELECT RAISE(ABORT, 'unknown event_type; the types are listed above CREATE TABLE events (.schema events)');
END;

-- The feedback that the prompt of a run holds, and how much of it. What does not fit goes into another run of the same
-- fix. Every piece is listed, also one for which there was no room (start_byte = end_byte).
CREATE TABLE run_feedback (
    run_id       TEXT NOT NULL REFERENCES runs (run_id),
    piece        TEXT NOT NULL CHECK (piece <> ''), -- j2: the text of a rejection; j2.3: its third finding; g7: a comment; f4: an open finding
    rejection_id TEXT,                             -- the rejection that it belongs to
    finding_id   TEXT,                             -- the finding that it is
    start_byte   INTEGER NOT NULL CHECK (start_byte >= 0), -- of its cleaned text; earlier runs were told what is before
    end_byte     INTEGER NOT NULL CHECK (end_byte >= start_byte),
    total_bytes  INTEGER NOT NULL CHECK (total_bytes >= end_byte),
    PRIMARY KEY (run_id, piece)
) STRICT, WITHOUT ROWID;

-- Why a finding is resolved.
ALTER TABLE findings ADD COLUMN resolution TEXT CHECK (resolution IN ('judged', 'not_raised_again'));
