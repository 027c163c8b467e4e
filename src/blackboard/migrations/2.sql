-- From version 1 to 2. In schema.sql a new column is the last one of its table, where ALTER TABLE puts it.

-- Kind of a hold.
ALTER TABLE changes ADD COLUMN hold_kind TEXT CHECK (hold_kind IN ('environment', 'configuration', 'no_agent', 'git_limit', 'git_lock', 'gate_ended'));

-- Detection of a clock that was ahead.
ALTER TABLE changes ADD COLUMN held_at TEXT CHECK (held_at GLOB '????-??-??T??:??:??.???Z');
ALTER TABLE changes ADD COLUMN last_hold TEXT;
ALTER TABLE changes ADD COLUMN hold_repeats INTEGER NOT NULL DEFAULT 0 CHECK (hold_repeats >= 0);
ALTER TABLE changes ADD COLUMN first_hold_at TEXT;

-- Source of the limit on fixes. Changes of version 1 keep theirs: it may have been set by a person.
ALTER TABLE projects ADD COLUMN max_fix_cycles INTEGER CHECK (max_fix_cycles >= 0);
ALTER TABLE projects ADD COLUMN max_fix_cycles_from TEXT;
ALTER TABLE changes ADD COLUMN own_max_fix_cycles INTEGER CHECK (own_max_fix_cycles >= 0);
ALTER TABLE changes ADD COLUMN added_fix_cycles INTEGER NOT NULL DEFAULT 0 CHECK (added_fix_cycles >= 0);
UPDATE changes SET own_max_fix_cycles = max_fix_cycles;

-- Untracked files left by gates.
ALTER TABLE changes ADD COLUMN gate_leftovers TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(gate_leftovers));
CREATE INDEX pulls_ended ON pulls (read_at) WHERE next_read IS NULL;

-- Fetches of a pull request's feedback that timed out.
ALTER TABLE pulls ADD COLUMN slow_reads INTEGER NOT NULL DEFAULT 0 CHECK (slow_reads >= 0);
ALTER TABLE pulls ADD COLUMN kept_pages TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(kept_pages));

-- Author of a pull request, its description, and the issue that it closes. Without its etag a pull request is read
-- completely the next time.
ALTER TABLE pulls ADD COLUMN author_id INTEGER;
ALTER TABLE pulls ADD COLUMN description TEXT CHECK (description IS NULL OR json_valid(description));
ALTER TABLE pulls ADD COLUMN issue TEXT CHECK (issue IS NULL OR json_valid(issue));
UPDATE pulls SET etag = NULL;

-- New event types.
DROP TRIGGER events_known_type;
CREATE TRIGGER events_known_type BEFORE INSERT ON events
WHEN NEW.event_type NOT IN (
    'work_created', 'work_claimed', 'work_completed', 'work_failed', 'work_cancelled', 'work_rejected',
    'work_approved', 'fix_created', 'fix_committed', 'fix_pushed', 'review_requeued', 'review_posted',
    'review_unclear', 'edits_undone', 'permission_denied', 'checkout_changed', 'head_moved', 'escalated', 'instructed',
    'shadowed', 'state_changed', 'run_started', 'run_finished', 'run_lost', 'worktree_made', 'setup_run', 'gate_failed', 'held', 'resumed',
    'feedback_received', 'pr_adopted', 'pr_changed', 'posted', 'message_sent', 'notified', 'skipped', 'pruned', 'reloaded',
    'daemon_ended')
BEGIN
    SELECT RAISE(ABORT, 'unknown event_type; the types are listed above CREATE TABLE events (.schema events)');
END;

-- Feedback in the prompt of a run, and how much of it. Feedback that does not fit goes into another run of the same
-- fix. Every piece is listed, even one that did not fit (start_byte = end_byte).
CREATE TABLE run_feedback (
    run_id       TEXT NOT NULL REFERENCES runs (run_id),
    piece        TEXT NOT NULL CHECK (piece <> ''), -- j2: the text of a rejection; j2.3: its third finding; g7: a comment; f4: an open finding
    rejection_id TEXT,                             -- rejection that it belongs to
    finding_id   TEXT,                             -- finding, if it is one
    start_byte   INTEGER NOT NULL CHECK (start_byte >= 0), -- offset in the sanitized text; earlier runs were given the part before
    end_byte     INTEGER NOT NULL CHECK (end_byte >= start_byte),
    total_bytes  INTEGER NOT NULL CHECK (total_bytes >= end_byte),
    PRIMARY KEY (run_id, piece)
) STRICT, WITHOUT ROWID;

-- Reason why a finding is resolved.
ALTER TABLE findings ADD COLUMN resolution TEXT CHECK (resolution IN ('judged', 'not_raised_again'));

-- The configuration in force, and the gates that produced the result of a run.
CREATE TABLE configuration (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    holder         TEXT NOT NULL,                  -- boot id, pid and start time of the daemon
    file           TEXT,                           -- config file; null: none
    hash           TEXT NOT NULL,                  -- hash of config file, evaluators and prompts as loaded
    settings       TEXT NOT NULL CHECK (json_valid(settings) AND json_type(settings) = 'object'), -- all keys, with values as TOML
    in_force_since TEXT NOT NULL CHECK (in_force_since GLOB '????-??-??T??:??:??.???Z'),
    changed_hash   TEXT,                           -- hash of the present files if they are not in force; null: they are
    changed_kind   TEXT CHECK (changed_kind IN ('invalid', 'needs_reload')),
    changed_reason TEXT,
    changed_since  TEXT CHECK (changed_since GLOB '????-??-??T??:??:??.???Z'),
    requested      INTEGER NOT NULL DEFAULT 0,     -- event of the newest `remand reload`
    answered       INTEGER NOT NULL DEFAULT 0,     -- newest request that the daemon answered, with `answer_event`
    answer_event   INTEGER,
    CHECK ((changed_hash IS NULL) = (changed_kind IS NULL)),
    CHECK ((changed_hash IS NULL) = (changed_reason IS NULL)),
    CHECK ((changed_hash IS NULL) = (changed_since IS NULL))
) STRICT;
ALTER TABLE runs ADD COLUMN gate_rules TEXT;

-- Git settings that a push may be made with.
CREATE TABLE git_settings (
    fingerprint TEXT PRIMARY KEY CHECK (length(fingerprint) >= 40),
    state       TEXT NOT NULL CHECK (state IN ('trusted', 'asked')),
    keys        TEXT NOT NULL CHECK (json_valid(keys)), -- without the values, which may be secrets
    asked_at_change TEXT,                          -- change whose escalation asks a person
    accepted_by TEXT,                              -- null: no person was needed
    first_seen_at TEXT NOT NULL CHECK (first_seen_at GLOB '????-??-??T??:??:??.???Z'),
    seen_at     TEXT NOT NULL CHECK (seen_at GLOB '????-??-??T??:??:??.???Z'), -- last time that they were in force
    seen_run    INTEGER NOT NULL,                  -- all runs up to this number had ended at that time
    question    INTEGER,                           -- incremented by each question to a person
    CHECK (state = 'trusted' OR asked_at_change IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- Money spent per day.
CREATE INDEX runs_by_end ON runs (ended_at, cost_micros) WHERE cost_micros IS NOT NULL;

-- Reviews in shadow mode.
ALTER TABLE projects ADD COLUMN shadow_mode TEXT CHECK (shadow_mode IN ('review', 'dry'));
ALTER TABLE changes ADD COLUMN shadow_mode TEXT CHECK (shadow_mode IN ('review', 'dry'));
CREATE TABLE shadow_reviews (
    item_id      TEXT PRIMARY KEY REFERENCES work_items (item_id),
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    run_id       TEXT REFERENCES runs (run_id),    -- null: no agent ran
    agent        TEXT,
    model        TEXT,
    head         TEXT NOT NULL,                    -- reviewed commit
    base         TEXT,
    verdict      TEXT CHECK (verdict IN ('approved', 'changes_requested', 'needs_discussion', 'unclear')),
    summary      TEXT,
    body         TEXT,
    findings     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(findings) AND json_type(findings) = 'array'),
    trouble      TEXT,                             -- reason why there is no review
    made_at      TEXT NOT NULL CHECK (made_at GLOB '????-??-??T??:??:??.???Z'),
    CHECK ((verdict IS NULL) = (trouble IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX shadow_reviews_by_change ON shadow_reviews (change_id);
CREATE INDEX shadow_reviews_by_run ON shadow_reviews (run_id) WHERE run_id IS NOT NULL;

-- A worktree created by remand is detached, so that it locks no branch.
ALTER TABLE changes ADD COLUMN detached INTEGER NOT NULL DEFAULT 0 CHECK (detached IN (0, 1));
CREATE INDEX changes_attached ON changes (change_id) WHERE own_worktree = 1 AND detached = 0;
