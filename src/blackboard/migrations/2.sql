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
