-- From version 5 to 6. Tasks: a change that remand implements, and whose pull request it opens.
ALTER TABLE changes ADD COLUMN review TEXT NOT NULL DEFAULT 'before_pr' CHECK (review IN ('before_pr', 'on_pr', 'off'));
ALTER TABLE changes ADD COLUMN auto_review INTEGER NOT NULL DEFAULT 1 CHECK (auto_review IN (0, 1));
ALTER TABLE changes ADD COLUMN opens_pr INTEGER NOT NULL DEFAULT 0 CHECK (opens_pr IN (0, 1));
ALTER TABLE changes ADD COLUMN waits_for TEXT;
ALTER TABLE changes ADD COLUMN auto_address INTEGER NOT NULL DEFAULT 1 CHECK (auto_address IN (0, 1));
ALTER TABLE changes ADD COLUMN skip_tests INTEGER NOT NULL DEFAULT 1 CHECK (skip_tests IN (0, 1));
ALTER TABLE changes ADD COLUMN notify_ready INTEGER NOT NULL DEFAULT 1 CHECK (notify_ready IN (0, 1));
ALTER TABLE changes ADD COLUMN completed_at TEXT CHECK (completed_at GLOB '????-??-??T??:??:??.???Z');
UPDATE changes SET completed_at = coalesce(
        (SELECT max(timestamp) FROM events WHERE events.change_id = changes.change_id AND event_type = 'state_changed'
             AND metadata ->> 'to' = changes.state), updated_at)
    WHERE state IN ('merged', 'closed');
CREATE INDEX changes_waiting ON changes (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX changes_by_worktree ON changes (worktree);
CREATE INDEX changes_ended_worktrees ON changes (completed_at)
    WHERE own_worktree = 1 AND completed_at IS NOT NULL AND setup_done IS NOT 'removed';

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
    'daemon_ended', 'implemented', 'pr_created', 'worktree_removed')
BEGIN
    SELECT RAISE(ABORT, 'unknown event_type; the types are listed above CREATE TABLE events (.schema events)');
END;

-- Files of reviews are removed after their change, too.
ALTER TABLE sweeps RENAME TO sweeps_before;
CREATE TABLE sweeps (
    kind       TEXT NOT NULL CHECK (kind IN ('run', 'prompt', 'review', 'worktree', 'ref')),
    path       TEXT NOT NULL,                      -- of a directory or file, or the name of a ref
    repository TEXT NOT NULL,                      -- of a worktree or a ref; otherwise empty
    proof      TEXT NOT NULL,                      -- proof that it belongs to the change: its file name; the branch of a worktree, or the ref that keeps its commits; the commit of a ref
    change_id  TEXT NOT NULL,                      -- no longer exists
    created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (kind, path, repository)
) STRICT, WITHOUT ROWID;
INSERT INTO sweeps SELECT kind, path, repository, proof, change_id, created_at FROM sweeps_before;
DROP TABLE sweeps_before;

-- Three more codes for the end of a rejection. The list of a column cannot be changed in place.
ALTER TABLE rejections RENAME COLUMN ended_by TO ended_by_5;
ALTER TABLE rejections ADD COLUMN ended_by TEXT CHECK (ended_by IN (
    'superseded', 'needs_person', 'bound_passed', 'not_runnable', 'approved', 'cancelled', 'head_moved',
    'pr_closed', 'pr_merged', 'pushed_while_closed', 'dismissed', 'change_over', 'review_skipped', 'marked_ready',
    'waived'));
UPDATE rejections SET ended_by = ended_by_5;
ALTER TABLE rejections DROP COLUMN ended_by_5;

DROP VIEW board;

ALTER TABLE changes ADD COLUMN taken_over INTEGER NOT NULL DEFAULT 0 CHECK (taken_over IN (0, 1));
ALTER TABLE changes DROP COLUMN paused;
ALTER TABLE changes ADD COLUMN paused INTEGER NOT NULL
    GENERATED ALWAYS AS (paused_by_person OR paused_by_rules OR stopped OR shadow OR taken_over) VIRTUAL;

CREATE VIEW board AS
SELECT
    CASE
        WHEN state = 'escalated' THEN 'Needs you'
        WHEN state = 'queued' THEN 'Backlog'
        WHEN state IN ('implementing', 'refining', 'addressing_feedback', 'self_review_failed') THEN 'In progress'
        WHEN state IN ('pending_self_review', 'self_reviewing', 'awaiting_pr_feedback', 'reviewing_pr') THEN 'Code review'
        WHEN state = 'approved' OR (state = 'ready_for_human_review' AND NOT skip_tests) THEN 'Verified'
        WHEN state IN ('self_review_passed', 'pr_created', 'ready_for_human_review') THEN 'Waiting approval'
        ELSE 'Done'
    END AS board_column,
    change_id, title, project_id, branch, state,
    'fix ' || fix_cycle || '/' || max_fix_cycles AS cycle,
    final_verdict,
    CASE
        WHEN stopped THEN (SELECT 'stopped by ' || stopped_by || coalesce(': ' || reason, '') FROM stops
            WHERE stops.project_id IS NULL OR stops.project_id = changes.project_id ORDER BY stops.project_id IS NOT NULL LIMIT 1)
        WHEN taken_over THEN 'taken over'
        WHEN shadow AND NOT (paused_by_person OR paused_by_rules) THEN 'shadow'
        WHEN paused THEN 'paused'
        WHEN held_until IS NOT NULL THEN 'held until ' || held_until || ': ' || hold_reason
    END AS waiting,
    decision, updated_at
FROM changes
ORDER BY state <> 'escalated', updated_at DESC;

-- Checks of pull requests.
ALTER TABLE pulls ADD COLUMN checks TEXT NOT NULL DEFAULT 'none' CHECK (checks IN ('none', 'pending', 'passing', 'failing'));
ALTER TABLE pulls ADD COLUMN checks_trouble TEXT;
CREATE TABLE checks (
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    kind         TEXT NOT NULL CHECK (kind IN ('run', 'status', 'missing')),
    name         TEXT NOT NULL,
    app          TEXT NOT NULL,
    head         TEXT NOT NULL,
    forge_id     INTEGER,
    required     INTEGER NOT NULL DEFAULT 0 CHECK (required IN (0, 1)),
    counts       INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)),
    state        TEXT NOT NULL CHECK (state IN ('passing', 'pending', 'failing', 'stopped')),
    detail       TEXT NOT NULL,
    url          TEXT,
    started_at   TEXT,
    completed_at TEXT,
    seen_at      TEXT NOT NULL CHECK (seen_at GLOB '????-??-??T??:??:??.???Z'),
    red_since    TEXT CHECK (red_since GLOB '????-??-??T??:??:??.???Z'),
    may_rerun    INTEGER NOT NULL DEFAULT 0 CHECK (may_rerun IN (0, 1)),
    rerun        TEXT CHECK (rerun IN ('open', 'done', 'refused')),
    rerun_at     TEXT CHECK (rerun_at GLOB '????-??-??T??:??:??.???Z'),
    reran_id     INTEGER,
    evidence     TEXT CHECK (evidence IN ('wanted', 'read')),
    on_base      TEXT CHECK (on_base IN ('passing', 'pending', 'failing', 'stopped')),
    log          TEXT,
    log_trouble  TEXT,
    answer       TEXT CHECK (answer IN ('rejected', 'not_ours', 'reported')),
    PRIMARY KEY (change_id, kind, app, name)
) STRICT, WITHOUT ROWID;

-- A new kind of intent.
CREATE TABLE new_intents (
    key        TEXT PRIMARY KEY,
    kind       TEXT NOT NULL CHECK (kind IN ('push', 'review', 'answer', 'note', 'ask', 'rerun')),
    change_id  TEXT NOT NULL REFERENCES changes (change_id),
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    marker     TEXT,
    epoch      INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    not_before TEXT CHECK (not_before GLOB '????-??-??T??:??:??.???Z'),
    claimed_by TEXT,
    tries      INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    trouble    TEXT,
    result     TEXT,
    forge_id   TEXT,
    done_at    TEXT,
    CHECK ((result IS NULL) = (done_at IS NULL))
) STRICT;
INSERT INTO new_intents (key, kind, change_id, payload, marker, epoch, created_at, not_before, claimed_by, tries, trouble, result, forge_id, done_at)
SELECT key, kind, change_id, payload, marker, epoch, created_at, not_before, claimed_by, tries, trouble, result, forge_id, done_at
FROM intents ORDER BY rowid;
DROP TABLE intents;
ALTER TABLE new_intents RENAME TO intents;
CREATE INDEX intents_open ON intents (created_at) WHERE done_at IS NULL AND kind <> 'push';
CREATE INDEX intents_open_pushes ON intents (created_at) WHERE done_at IS NULL AND kind = 'push';
CREATE INDEX intents_by_change ON intents (change_id, kind);
CREATE UNIQUE INDEX intents_forge_id ON intents (change_id, forge_id) WHERE forge_id IS NOT NULL;
