-- From version 5 to 6. Tasks: a change that remand implements, and whose pull request it opens.
ALTER TABLE changes ADD COLUMN review TEXT NOT NULL DEFAULT 'before_pr' CHECK (review IN ('before_pr', 'on_pr', 'off'));
ALTER TABLE changes ADD COLUMN auto_review INTEGER NOT NULL DEFAULT 1 CHECK (auto_review IN (0, 1));
ALTER TABLE changes ADD COLUMN opens_pr INTEGER NOT NULL DEFAULT 0 CHECK (opens_pr IN (0, 1));
ALTER TABLE changes ADD COLUMN waits_for TEXT;
CREATE INDEX changes_waiting ON changes (waits_for) WHERE waits_for IS NOT NULL;

CREATE TABLE tasks (
    change_id    TEXT PRIMARY KEY REFERENCES changes (change_id),
    text         TEXT NOT NULL DEFAULT '',
    spec         TEXT CHECK (spec IS NULL OR json_valid(spec)),
    issue        TEXT CHECK (issue IS NULL OR json_valid(issue)),
    agent        TEXT,
    review_agent TEXT,
    model        TEXT,
    draft        INTEGER NOT NULL DEFAULT 0 CHECK (draft IN (0, 1))
) STRICT, WITHOUT ROWID;

-- Nothing has run items of these sources so far. Two open ones of a change would be refused from now on.
CREATE UNIQUE INDEX items_one_open_pull_per_change ON work_items (change_id)
    WHERE source = 'pull_request' AND status IN ('available', 'claimed', 'blocked');

DROP TRIGGER events_known_type;
CREATE TRIGGER events_known_type BEFORE INSERT ON events
WHEN NEW.event_type NOT IN (
    'work_created', 'work_claimed', 'work_completed', 'work_failed', 'work_cancelled', 'work_rejected',
    'work_approved', 'fix_created', 'fix_committed', 'fix_pushed', 'review_requeued', 'review_posted',
    'review_unclear', 'edits_undone', 'permission_denied', 'checkout_changed', 'head_moved', 'escalated', 'instructed',
    'shadowed', 'state_changed', 'run_started', 'run_finished', 'run_lost', 'worktree_made', 'setup_run', 'gate_failed', 'held', 'resumed',
    'feedback_received', 'pr_adopted', 'pr_changed', 'posted', 'message_sent', 'notified', 'skipped', 'pruned', 'reloaded',
    'daemon_ended', 'implemented', 'pr_created')
BEGIN
    SELECT RAISE(ABORT, 'unknown event_type; the types are listed above CREATE TABLE events (.schema events)');
END;
