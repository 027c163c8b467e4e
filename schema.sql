-- The blackboard. All that remand knows is in these tables; anyone may read them with `sqlite3`, and may
-- append to `events` by hand:
--
--   INSERT INTO events (event_type, target_type, target_id, summary)
--   VALUES ('work_rejected', 'change', 'c1', 'the retry loop never ends when the server answers 503');
--
-- is a rejection like any other. Times are UTC text that sorts: 2026-11-16T02:29:53.123Z.
-- Ids: c1 change, w1 work item, j1 rejection, r1 run, v1 review, f1 finding.
--
-- This file is the newest schema, for a new blackboard. An older one gets here by the numbered steps in
-- src/blackboard/migrations/.

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE migrations (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL
) STRICT;

CREATE TABLE projects (
    project_id     TEXT PRIMARY KEY CHECK (project_id <> ''),
    path           TEXT NOT NULL UNIQUE,           -- the main checkout
    common_dir     TEXT NOT NULL UNIQUE,           -- its .git, which all worktrees share
    repo           TEXT,                           -- owner/name on the forge
    remote_url     TEXT,                           -- the URL that is pushed to, pinned when the project was added
    default_branch TEXT NOT NULL,
    shadow         INTEGER NOT NULL DEFAULT 0 CHECK (shadow IN (0, 1)), -- as the configuration says
    created_at     TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    max_fix_cycles INTEGER CHECK (max_fix_cycles >= 0), -- as the configuration says; null: it was not read since the project was added
    max_fix_cycles_from TEXT,                      -- the setting that says so
    shadow_mode    TEXT CHECK (shadow_mode IN ('review', 'dry')) -- with shadow; null: dry
) STRICT;

-- The configuration in force in the daemon. One row, written by `remand run`.
CREATE TABLE configuration (
    id             INTEGER PRIMARY KEY CHECK (id = 1),
    holder         TEXT NOT NULL,                  -- boot id, pid, start time of the daemon
    file           TEXT,                           -- the config file; null: none
    hash           TEXT NOT NULL,                  -- of the config file, the evaluators and the prompts, as they were loaded
    settings       TEXT NOT NULL CHECK (json_valid(settings) AND json_type(settings) = 'object'), -- every key, its value as TOML
    in_force_since TEXT NOT NULL CHECK (in_force_since GLOB '????-??-??T??:??:??.???Z'),
    changed_hash   TEXT,                           -- of the files as they are now, when that is not in force; null: it is
    changed_kind   TEXT CHECK (changed_kind IN ('invalid', 'needs_reload')),
    changed_reason TEXT,
    changed_since  TEXT CHECK (changed_since GLOB '????-??-??T??:??:??.???Z'),
    requested      INTEGER NOT NULL DEFAULT 0,     -- the event of the newest `remand reload`
    answered       INTEGER NOT NULL DEFAULT 0,     -- the newest one that the daemon answered, and with which event
    answer_event   INTEGER,
    CHECK ((changed_hash IS NULL) = (changed_kind IS NULL)),
    CHECK ((changed_hash IS NULL) = (changed_reason IS NULL)),
    CHECK ((changed_hash IS NULL) = (changed_since IS NULL))
) STRICT;

-- `remand stop`, until `remand start`: nothing is run, pushed or posted.
CREATE TABLE stops (
    project_id TEXT REFERENCES projects (project_id), -- null: everything
    stopped_by TEXT NOT NULL CHECK (stopped_by <> ''),
    stopped_at TEXT NOT NULL CHECK (stopped_at GLOB '????-??-??T??:??:??.???Z'),
    reason     TEXT,
    at_once    INTEGER NOT NULL CHECK (at_once IN (0, 1))  -- agents at work are ended; 0: they may finish
) STRICT;

CREATE UNIQUE INDEX stops_one_each ON stops (coalesce(project_id, ''));

CREATE TABLE changes (
    change_id      TEXT PRIMARY KEY,
    project_id     TEXT NOT NULL REFERENCES projects (project_id),
    title          TEXT NOT NULL,
    branch         TEXT NOT NULL,
    base           TEXT NOT NULL,                  -- the branch that the work goes into
    head           TEXT NOT NULL,                  -- the commit that we expect on the branch
    worktree       TEXT NOT NULL,
    host           TEXT NOT NULL,
    pr_number      INTEGER CHECK (pr_number > 0),
    state          TEXT NOT NULL CHECK (state IN (
        'queued', 'implementing', 'pending_self_review', 'self_reviewing', 'self_review_passed',
        'self_review_failed', 'refining', 'pr_created', 'awaiting_pr_feedback', 'reviewing_pr',
        'addressing_feedback', 'ready_for_human_review', 'approved', 'merged', 'closed', 'escalated')),
    escalated_from TEXT CHECK (escalated_from IN (
        'queued', 'pending_self_review', 'self_review_passed', 'self_review_failed', 'pr_created',
        'awaiting_pr_feedback', 'ready_for_human_review', 'approved')),
    on_max_cycles  TEXT NOT NULL DEFAULT 'escalate' CHECK (on_max_cycles IN ('escalate', 'pr_anyway')),
    fix_cycle      INTEGER NOT NULL DEFAULT 0 CHECK (fix_cycle >= 0),   -- fixes done in this round
    max_fix_cycles INTEGER NOT NULL CHECK (max_fix_cycles >= 0), -- what holds: its own or the project's number, and what was added
    total_fixes    INTEGER NOT NULL DEFAULT 0 CHECK (total_fixes >= 0), -- fixes done ever: never resets
    max_total_fixes INTEGER NOT NULL CHECK (max_total_fixes >= 0),
    run_ms         INTEGER NOT NULL DEFAULT 0 CHECK (run_ms >= 0),      -- the agents' time, summed
    max_run_ms     INTEGER NOT NULL CHECK (max_run_ms > 0),
    tokens         INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    max_tokens     INTEGER CHECK (max_tokens > 0),                      -- null: no bound
    cost_micros    INTEGER NOT NULL DEFAULT 0 CHECK (cost_micros >= 0), -- millionths of a dollar
    max_cost_micros INTEGER CHECK (max_cost_micros > 0),
    paused_by_person INTEGER NOT NULL DEFAULT 0 CHECK (paused_by_person IN (0, 1)), -- a person's word
    paused_by_rules INTEGER NOT NULL DEFAULT 0 CHECK (paused_by_rules IN (0, 1)),   -- the project's rules no longer take its PR
    stopped        INTEGER NOT NULL DEFAULT 0 CHECK (stopped IN (0, 1)), -- a row of `stops` is for it
    shadow_word    INTEGER CHECK (shadow_word IN (0, 1)),                -- a person's word; null: the project's counts
    shadow         INTEGER NOT NULL DEFAULT 0 CHECK (shadow IN (0, 1)),  -- what comes of both: only looked at, nothing is done
    paused         INTEGER NOT NULL GENERATED ALWAYS AS (paused_by_person OR paused_by_rules OR stopped OR shadow) VIRTUAL,
    held_until     TEXT CHECK (held_until GLOB '????-??-??T??:??:??.???Z'), -- the environment's, with its end
    hold_reason    TEXT,
    holds          INTEGER NOT NULL DEFAULT 0 CHECK (holds >= 0),       -- holds in a row: the back-off grows
    final_verdict  TEXT CHECK (final_verdict IN ('APPROVED', 'CHANGES_REQUESTED', 'MAX_CYCLES_REACHED', 'NEEDS_DISCUSSION')),
    human_review_required INTEGER NOT NULL DEFAULT 0 CHECK (human_review_required IN (0, 1)),
    decision       TEXT,                           -- the one thing for a person to decide
    implementation_item_id TEXT,
    adopted_by     TEXT CHECK (adopted_by IN ('watch', 'discovery')),   -- how a PR came here
    own_worktree   INTEGER NOT NULL DEFAULT 0 CHECK (own_worktree IN (0, 1)), -- made by remand, which may make it again
    setup_done     TEXT,                           -- what the worktree's set-up was last run for
    auto_fix       INTEGER NOT NULL DEFAULT 1 CHECK (auto_fix IN (0, 1)), -- 0: a person took a fix of ours back
    progress_since TEXT,                           -- reviews before this do not count as "no progress": a person spoke
    created_at     TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    updated_at     TEXT NOT NULL CHECK (updated_at GLOB '????-??-??T??:??:??.???Z'),
    held_at        TEXT CHECK (held_at GLOB '????-??-??T??:??:??.???Z'), -- when the last hold began: in the future, if the clock was set back
    last_hold      TEXT,                           -- the kind of the last hold by a step of remand's own
    hold_repeats   INTEGER NOT NULL DEFAULT 0 CHECK (hold_repeats >= 0), -- how often in a row, with nothing changed in between
    first_hold_at  TEXT,                           -- time of the first of them
    own_max_fix_cycles INTEGER CHECK (own_max_fix_cycles >= 0), -- a person's number for this change; null: the project's counts
    added_fix_cycles INTEGER NOT NULL DEFAULT 0 CHECK (added_fix_cycles >= 0), -- what a person added to either
    gate_leftovers TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(gate_leftovers)), -- untracked files that passing gates left in a worktree of the user's
    shadow_mode    TEXT CHECK (shadow_mode IN ('review', 'dry')), -- a person's, with shadow_word; null: dry
    detached       INTEGER NOT NULL DEFAULT 0 CHECK (detached IN (0, 1)), -- HEAD of a worktree of remand's own is on no branch; refs/remand/change/ID keeps its commits
    decision_commands TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(decision_commands)), -- the commands in `decision`, likeliest first
    hold_kind      TEXT CHECK (hold_kind IN (
        'environment', 'configuration', 'no_agent', 'git_limit', 'git_lock', 'gate_ended', 'pr_unreadable')), -- null: not held, or held by version 1
    CHECK ((state = 'escalated') = (escalated_from IS NOT NULL)),
    CHECK ((held_until IS NULL) = (hold_reason IS NULL)),
    CHECK (fix_cycle <= max_fix_cycles),
    CHECK (total_fixes <= max_total_fixes)
) STRICT;

CREATE UNIQUE INDEX changes_one_live_per_worktree ON changes (worktree) WHERE state NOT IN ('merged', 'closed');
CREATE UNIQUE INDEX changes_one_live_per_branch ON changes (project_id, branch) WHERE state NOT IN ('merged', 'closed');
CREATE UNIQUE INDEX changes_one_live_per_pull ON changes (project_id, pr_number)
    WHERE pr_number IS NOT NULL AND state NOT IN ('merged', 'closed');
CREATE INDEX changes_attached ON changes (change_id) WHERE own_worktree = 1 AND detached = 0;
-- Also those that are over: a pull request may have been watched before.
CREATE INDEX changes_by_pull ON changes (project_id, pr_number) WHERE pr_number IS NOT NULL;
CREATE INDEX changes_held ON changes (held_until) WHERE held_until IS NOT NULL;
CREATE INDEX changes_shadow ON changes (change_id) WHERE shadow;
CREATE INDEX changes_live ON changes (updated_at) WHERE state NOT IN ('merged', 'closed');

-- Facts, appended, never changed. A person needs to give only event_type, target_type, target_id, summary.
-- Keys of `metadata` (JSON), `?`: not always there. Keys may be added, none is renamed or removed.
--   work_created       {source, item_id, idempotency_key?, again?}
--                        again: it had ended and was reopened
--   work_claimed       {item_id, source, epoch, attempt, holder}
--   work_completed     {item_id, source}
--   work_failed        {item_id, source, reason, wip}
--   work_cancelled     {item_id, reason}
--   work_rejected      {verdict, head, body, raw_verdict?, review_id?, item_id?, findings?, feedback?, left_out?,
--                       left_out_feedback?, said?, supersedes?, supersedes_to?, gate?, base?, begins_round?}
--                        a bare one (by hand, by another program) may have none: its summary is the feedback.
--                        raw_verdict: what the review itself says; findings: [{id?, severity, category, path, line, line_end?, title?,
--                        text, failure?, suggestion, raised_by, first_review?, context?, feedback_id?, forge_id?}]; feedback: ids of the
--                        comments in it; left_out: how many found no room in it; supersedes: it stands for all older rejections, up to
--                        the event supersedes_to; gate: {command, status}, red on the head and not on the base
--   work_approved      {verdict, head, base, raw_verdict?, review_id?, item_id?, feedback_id?, not_raised_again?}
--                        not_raised_again: ids of the findings that it closes
--   fix_created        {item_id, rejections, fix_cycle, max_fix_cycles, context}
--                        context: [{rejection_id, by, summary, findings, severity, paths}], one per rejection
--   fix_committed      {item_id, head_before, head_after, commits, files, fix_cycle, answers, more?}
--   fix_pushed         {item_id, head_before, head_after, commits, files, fix_cycle, answers, remote, branch, more?}
--                        answers: [{id, outcome, reason}]; more: number of files that are not listed
--   review_requeued    {item_id, fix_cycle, head}
--   review_posted      {review_id, url, as}
--                        as: request_changes, comment (a review), issue_comment
--   review_unclear     {item_id, run_id, reason, missing}
--   edits_undone       {wip, run_id?, moved_aside?, paths?, more?, to?}
--   permission_denied  {run_id, denied, more?}
--                        what an agent wanted to do and its own rules did not allow
--   checkout_changed   {run_id, what, more?}
--   head_moved         {from, to, wip?}
--   escalated          {reason, decide, commands, from, bound, item_id}
--                        commands: those in decide, likeliest first; bound: cycles|total_fixes|time|tokens|money|no_progress|reverted|unreadable|prompt_size; item_id: what failed
--   instructed         {action, text, by, added?, at_once?}
--                        action: retry, refine, approve, verdict, cancel, pause, resume, post, comment, budget, max_fix_cycles, shadow,
--                        accept_git_settings, reload, stop, start; added (of budget): {fixes, run_ms, tokens, cost_micros}
--   shadowed           {item_id, source, change_id, agent, model, trouble, worktree?, prompt?, prompt_bytes?,
--                       tokens?, cost_micros?, run_ms?, basis?, run_id?, head?, base?, verdict?, summary?, findings?}
--                        what would have run, with its prompt and estimated cost; or a review that was made in shadow
--   state_changed      {from, to, on}
--   run_started        {run_id, item_id, epoch, agent, session, head_before, guidance, part, feedback, plan}
--                        feedback: {in_prompt, later}; plan: {folder, reason, folders, unread}, or null
--   run_finished       {run_id, ended, status, signal, elapsed_ms, wip}
--   run_lost           {run_id, wip, item_id?, lost_in_a_row?}
--   worktree_made      {path, branch, head, restored}
--                        restored: it had been made before, and vanished
--   setup_run          {place, path, command, result, status, elapsed_ms}
--                        place: worktree|checkout; result: done|failed|timed_out|not_started
--   gate_failed        {run_id, command, status, round, output}
--   held               {reason, until, kind?}
--   resumed            {reason, held_for?}
--   feedback_received  {feedback_id, author, kind, trust?, why?, url?}
--   pr_adopted         {repo, number, by, head, url}
--   pr_changed         {what, feedback_id?, event_id?}
--                        what: merged|closed|reopened|retargeted|unwanted|wanted|dismissed
--   posted             {key, kind, url}
--                        a reply, a note, a request for review
--   message_sent       {message_id, from, to, kind}
--   notified           {channel, notification_id}
--   skipped            {reason, code?, event_id?, item_id?, run_id?, feedback_id?, key?, result?, line?, text?,
--                       pull?, issue?, url?, bound?, wip?, plan?, left_out?, more?, until?, deadline?, stored?,
--                       kind?, cause?, request?}
--                        something was not done; code says which kind of thing, reason says why in words
--   pruned             {changes, title, branch, project_id, pr_number, state, head, ended_at, events, items,
--                       rejections, reviews, findings, feedback, intents, messages, notifications, runs, more?}
--   reloaded           {config, kept, cause, request, changed, files, weaker, more?}
--                        changed: [{key, from, to}]; weaker: safeguards that it drops; cause: noticed|signal|request. A file that was
--                        not applied is a `skipped` of the blackboard
--   daemon_ended       {cause, pid, silent_since, runs}
--                        the daemon before this one did not stop in order
CREATE TABLE events (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    timestamp   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                CHECK (timestamp GLOB '????-??-??T??:??:??.???Z' AND timestamp IS strftime('%Y-%m-%dT%H:%M:%fZ', timestamp)),
    event_type  TEXT NOT NULL,
    actor_id    TEXT NOT NULL DEFAULT 'operator' CHECK (actor_id <> ''),
    target_type TEXT NOT NULL CHECK (target_type IN (
        'change', 'work_item', 'run', 'project', 'event', 'evaluator', 'blackboard')),
    target_id   TEXT NOT NULL,
    change_id   TEXT REFERENCES changes (change_id),
    summary     TEXT NOT NULL,
    metadata    TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    -- An event can't be taken back: one that is too big to be read would stand in everybody's way for ever.
    CHECK (length(CAST(summary AS BLOB)) + length(CAST(metadata AS BLOB)) <= 16000000)
) STRICT;

CREATE INDEX events_by_type ON events (event_type, id);
CREATE INDEX events_by_change ON events (change_id, id) WHERE change_id IS NOT NULL;
CREATE INDEX events_by_target ON events (target_type, target_id, id);

-- A trigger and not a CHECK, since the list grows with versions, and for the message's sake.
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

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are facts: append another one, never change one');
END;

-- Only `remand prune` deletes, and says so in its own transaction by a row in counters.
CREATE TRIGGER events_never_vanish BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM counters WHERE name = 'pruning')
BEGIN
    SELECT RAISE(ABORT, 'events are facts: they are never deleted (remand prune removes whole finished changes)');
END;

CREATE TABLE work_items (
    item_id      TEXT PRIMARY KEY,
    project_id   TEXT NOT NULL REFERENCES projects (project_id),
    change_id    TEXT REFERENCES changes (change_id),
    rejection_id TEXT,                             -- the newest rejection in a review_fix
    title        TEXT NOT NULL,
    description  TEXT NOT NULL DEFAULT '',
    source       TEXT NOT NULL CHECK (source IN (
        'github', 'specflow', 'manual', 'code_review', 'review_fix', 'pull_request', 'feedback_analysis')),
    source_ref   TEXT,
    status       TEXT NOT NULL DEFAULT 'available' CHECK (status IN (
        'available', 'claimed', 'completed', 'failed', 'blocked', 'cancelled')),
    priority     TEXT NOT NULL DEFAULT 'P2' CHECK (priority IN ('P1', 'P2', 'P3')),
    idempotency_key TEXT NOT NULL UNIQUE,
    fix_cycle    INTEGER NOT NULL DEFAULT 0 CHECK (fix_cycle >= 0),
    host         TEXT,
    worktree     TEXT,
    claimed_by   TEXT,                             -- boot id, pid, start time of the process that holds the lease
    epoch        INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),   -- rises with every claim and fences all writes
    attempt      INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0), -- what failures spend; a restart gives it back
    lease_expires_at TEXT CHECK (lease_expires_at GLOB '????-??-??T??:??:??.???Z'),
    not_before   TEXT CHECK (not_before GLOB '????-??-??T??:??:??.???Z'),
    created_at   TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    completed_at TEXT CHECK (completed_at GLOB '????-??-??T??:??:??.???Z'),
    failure_reason TEXT,
    gate_rounds  INTEGER NOT NULL DEFAULT 0 CHECK (gate_rounds >= 0),
    lost_runs    INTEGER NOT NULL DEFAULT 0 CHECK (lost_runs >= 0),   -- in a row
    asked_again  INTEGER NOT NULL DEFAULT 0 CHECK (asked_again IN (0, 1)),
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    CHECK ((status = 'claimed') = (claimed_by IS NOT NULL)),
    CHECK ((status = 'claimed') = (lease_expires_at IS NOT NULL)),
    CHECK ((status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)),
    CHECK (status <> 'failed' OR failure_reason IS NOT NULL),
    CHECK (source NOT IN ('code_review', 'review_fix') OR (change_id IS NOT NULL AND worktree IS NOT NULL)),
    CHECK ((source = 'review_fix') = (rejection_id IS NOT NULL))
) STRICT;

-- What is not due yet stays out of the ready index: delayed rows of high priority would be stepped over by every claim.
-- Ids are numbers behind a letter: w9 comes before w10.
CREATE INDEX items_ready ON work_items (source, priority, created_at, length(item_id), item_id)
    WHERE status = 'available' AND not_before IS NULL;
CREATE INDEX items_delayed ON work_items (not_before) WHERE status = 'available' AND not_before IS NOT NULL;
CREATE INDEX items_claimed ON work_items (lease_expires_at) WHERE status = 'claimed';
CREATE INDEX items_by_change ON work_items (change_id, status) WHERE change_id IS NOT NULL;
CREATE INDEX items_open ON work_items (priority, created_at) WHERE status IN ('available', 'claimed', 'blocked');
CREATE UNIQUE INDEX items_one_open_fix_per_change ON work_items (change_id)
    WHERE source = 'review_fix' AND status IN ('available', 'claimed', 'blocked');
CREATE UNIQUE INDEX items_one_open_review_per_change ON work_items (change_id)
    WHERE source = 'code_review' AND status IN ('available', 'claimed', 'blocked');
CREATE UNIQUE INDEX items_one_claimed_per_worktree ON work_items (worktree) WHERE status = 'claimed' AND worktree IS NOT NULL;
CREATE UNIQUE INDEX items_one_fix_per_rejection ON work_items (rejection_id) WHERE rejection_id IS NOT NULL;

CREATE TABLE rejections (
    rejection_id TEXT PRIMARY KEY,
    event_id     INTEGER NOT NULL UNIQUE REFERENCES events (id),
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    state        TEXT NOT NULL CHECK (state IN ('pending', 'in_fix', 'fixed', 'superseded', 'escalated', 'skipped')),
    item_id      TEXT REFERENCES work_items (item_id),
    by_person    INTEGER NOT NULL CHECK (by_person IN (0, 1)),
    reason       TEXT,
    ended_by     TEXT CHECK (ended_by IN (
        'superseded', 'needs_person', 'bound_passed', 'not_runnable', 'approved', 'cancelled', 'head_moved',
        'pr_closed', 'pr_merged', 'pushed_while_closed', 'dismissed', 'change_over')), -- of one that is superseded, escalated or skipped
    CHECK (state NOT IN ('in_fix', 'fixed') OR item_id IS NOT NULL),
    CHECK (state NOT IN ('superseded', 'escalated', 'skipped') OR reason IS NOT NULL)
) STRICT;

CREATE INDEX rejections_pending ON rejections (change_id, event_id) WHERE state = 'pending';
CREATE INDEX rejections_by_change ON rejections (change_id, state);
CREATE INDEX rejections_by_item ON rejections (item_id) WHERE item_id IS NOT NULL;

CREATE TABLE runs (
    run_id      TEXT PRIMARY KEY,
    item_id     TEXT NOT NULL REFERENCES work_items (item_id),
    change_id   TEXT NOT NULL REFERENCES changes (change_id),
    worktree    TEXT NOT NULL,
    epoch       INTEGER NOT NULL,
    agent       TEXT NOT NULL,
    model       TEXT,
    session     TEXT,
    pid         INTEGER,                           -- the shim's, with its start time and boot id
    start_time  INTEGER,
    boot_id     TEXT,
    dir         TEXT NOT NULL,                     -- prompt, output and exit.json
    head_before TEXT NOT NULL,
    head_after  TEXT,
    started_at  TEXT NOT NULL CHECK (started_at GLOB '????-??-??T??:??:??.???Z'),
    ended_at    TEXT CHECK (ended_at GLOB '????-??-??T??:??:??.???Z'),
    ended       TEXT CHECK (ended IN ('agent', 'idle_limit', 'total_limit', 'daemon_gone', 'stopped', 'lost', 'not_started')),
    exit_status INTEGER,
    signal      INTEGER,
    gates       TEXT CHECK (gates IN ('green', 'red')),
    gate_output TEXT,
    rebased_onto TEXT,                             -- the remote had moved: where its commits were replayed
    refused     TEXT,                              -- why its work is not used, once that was judged
    discarded   INTEGER NOT NULL DEFAULT 0 CHECK (discarded IN (0, 1)), -- its work is on a wip ref, not on the branch
    tokens      INTEGER,
    cost_micros INTEGER,
    gate_rules  TEXT,                              -- the gates that `gates` is the result of, as JSON
    CHECK ((ended_at IS NULL) = (ended IS NULL)),
    CHECK (head_after IS NULL OR ended = 'agent'),
    CHECK (gates IS NULL OR head_after IS NOT NULL)
) STRICT;

CREATE INDEX runs_by_item ON runs (item_id, started_at);
CREATE INDEX runs_by_change ON runs (change_id, started_at);
CREATE INDEX runs_by_agent ON runs (agent, started_at);
CREATE INDEX runs_by_end ON runs (ended_at, cost_micros) WHERE cost_micros IS NOT NULL;
CREATE UNIQUE INDEX runs_one_open_per_worktree ON runs (worktree) WHERE ended_at IS NULL;

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

-- What would have run for changes in shadow, an item each. What it would have cost is estimated; null: it can't be told.
CREATE TABLE shadows (
    item_id      TEXT PRIMARY KEY REFERENCES work_items (item_id),
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    agent        TEXT,                             -- null: none is configured
    model        TEXT,
    worktree     TEXT NOT NULL,
    prompt       TEXT,                             -- the file with its prompt; null: see trouble
    prompt_bytes INTEGER,
    trouble      TEXT,                             -- why there is no prompt
    tokens       INTEGER,
    cost_micros  INTEGER,
    run_ms       INTEGER,
    basis        TEXT NOT NULL,                    -- what the estimate is made from
    made_at      TEXT NOT NULL CHECK (made_at GLOB '????-??-??T??:??:??.???Z'),
    CHECK ((prompt IS NULL) = (trouble IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX shadows_by_change ON shadows (change_id);

-- Reviews of changes in shadow: stored, and nothing follows from them. One per item.
CREATE TABLE shadow_reviews (
    item_id      TEXT PRIMARY KEY REFERENCES work_items (item_id),
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    run_id       TEXT REFERENCES runs (run_id),    -- null: no agent ran
    agent        TEXT,
    model        TEXT,
    head         TEXT NOT NULL,                    -- the commit that was reviewed
    base         TEXT,
    verdict      TEXT CHECK (verdict IN ('approved', 'changes_requested', 'needs_discussion', 'unclear')),
    summary      TEXT,
    body         TEXT,
    findings     TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(findings) AND json_type(findings) = 'array'),
    trouble      TEXT,                             -- why there is no review
    made_at      TEXT NOT NULL CHECK (made_at GLOB '????-??-??T??:??:??.???Z'),
    CHECK ((verdict IS NULL) = (trouble IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX shadow_reviews_by_change ON shadow_reviews (change_id);
CREATE INDEX shadow_reviews_by_run ON shadow_reviews (run_id) WHERE run_id IS NOT NULL;

CREATE TABLE reviews (
    review_id   TEXT PRIMARY KEY,
    change_id   TEXT NOT NULL REFERENCES changes (change_id),
    item_id     TEXT NOT NULL UNIQUE REFERENCES work_items (item_id),
    cycle       INTEGER NOT NULL,
    head        TEXT NOT NULL,                     -- the receipt: what the reviewer was given
    base        TEXT NOT NULL,
    tree        TEXT NOT NULL,
    files       TEXT NOT NULL CHECK (json_valid(files) AND json_type(files) = 'array'),
    lines       INTEGER NOT NULL,
    verdict     TEXT NOT NULL CHECK (verdict IN ('approved', 'changes_requested', 'needs_discussion', 'unclear')),
    raw_verdict TEXT CHECK (raw_verdict IN ('approved', 'changes_requested', 'needs_discussion', 'unclear')),
    dialect     TEXT NOT NULL,
    reason      TEXT NOT NULL,                     -- why the text was read so
    summary     TEXT,
    body        TEXT NOT NULL,
    blocking    TEXT NOT NULL CHECK (json_valid(blocking) AND json_type(blocking) = 'array'), -- fingerprints
    agent       TEXT NOT NULL,
    model       TEXT,
    created_at  TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z')
) STRICT;

CREATE INDEX reviews_by_change ON reviews (change_id, created_at);

CREATE TABLE findings (
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
    failure      TEXT,                             -- the input or the sequence of events that makes it fail
    suggestion   TEXT,
    raised_by    TEXT NOT NULL DEFAULT 'review' CHECK (raised_by IN ('review', 'person', 'check', 'analysis', 'message')),
    outcome      TEXT NOT NULL CHECK (outcome IN ('open', 'addressed', 'disputed', 'waived', 'resolved')),
    note         TEXT,                             -- the fixer's reason, a person's word
    first_review TEXT REFERENCES reviews (review_id), -- null: it is not from a review
    last_review  TEXT REFERENCES reviews (review_id),
    resolution   TEXT CHECK (resolution IN ('judged', 'not_raised_again')), -- why it is resolved: by id, or a later review passed over it
    UNIQUE (change_id, fingerprint)
) STRICT;

-- Without these the removal of each review walks through all findings; so below.
CREATE INDEX findings_by_first_review ON findings (first_review);
CREATE INDEX findings_by_last_review ON findings (last_review);

-- What people and other programs say about a change. The text is as it was when it was taken in: an edit later does
-- not reach a prompt. On a PR `forge_id` is its kind and number there (`review:77`).
CREATE TABLE feedback (
    feedback_id TEXT PRIMARY KEY,
    change_id   TEXT NOT NULL REFERENCES changes (change_id),
    forge_id    TEXT NOT NULL,
    author      TEXT NOT NULL,
    author_id   INTEGER,
    trust       TEXT NOT NULL CHECK (trust IN ('may_make_work', 'shown_only', 'ours')),
    trust_reason TEXT,
    is_person   INTEGER NOT NULL DEFAULT 1 CHECK (is_person IN (0, 1)),
    kind        TEXT NOT NULL CHECK (kind IN ('review', 'review_comment', 'issue_comment', 'person')),
    state       TEXT CHECK (state IN ('APPROVED', 'CHANGES_REQUESTED', 'COMMENTED', 'DISMISSED', 'PENDING')),
    commit_sha  TEXT,                              -- what it is about
    path        TEXT,
    line        INTEGER,
    hunk        TEXT,
    review      INTEGER,                           -- the forge's number of the review that a comment came with
    in_reply_to INTEGER,
    url         TEXT,
    body        TEXT NOT NULL,
    created_at  TEXT,
    updated_at  TEXT NOT NULL,                     -- as the forge had it when it was taken in
    edited_at   TEXT,                              -- seen to have been edited since
    taken_in    TEXT NOT NULL,
    judged_at   TEXT,                              -- an evaluator has decided what comes of it
    outcome     TEXT,                              -- a code: rejected, approved, context (for the next fix), ours, or why nothing
    event_id    INTEGER REFERENCES events (id),    -- the event that it became
    used_in     TEXT REFERENCES work_items (item_id), -- the fix that was given it
    outcome_reason TEXT,                           -- the outcome in words, where there is more to say
    UNIQUE (change_id, forge_id),
    CHECK ((judged_at IS NULL) = (outcome IS NULL))
) STRICT;

CREATE INDEX feedback_by_change ON feedback (change_id, taken_in);
CREATE INDEX feedback_by_use ON feedback (used_in) WHERE used_in IS NOT NULL;
CREATE INDEX feedback_by_event ON feedback (event_id) WHERE event_id IS NOT NULL;
CREATE INDEX feedback_unjudged ON feedback (change_id) WHERE judged_at IS NULL AND kind <> 'person';

-- Pull requests that were seen, adopted or not: `remand why owner/repo#7` answers from here.
CREATE TABLE pulls (
    project_id  TEXT NOT NULL REFERENCES projects (project_id),
    number      INTEGER NOT NULL CHECK (number > 0),
    change_id   TEXT REFERENCES changes (change_id), -- null: not adopted
    title       TEXT NOT NULL,
    state       TEXT NOT NULL CHECK (state IN ('open', 'closed', 'merged')),
    acted_on    TEXT CHECK (acted_on IN ('open', 'closed', 'merged')), -- the state that the change was last moved by
    draft       INTEGER NOT NULL CHECK (draft IN (0, 1)),
    author      TEXT,
    head_ref    TEXT NOT NULL,
    head_sha    TEXT NOT NULL,
    head_since  TEXT CHECK (head_since GLOB '????-??-??T??:??:??.???Z'), -- its commit's date; null: not asked for
    opened_at   TEXT CHECK (opened_at GLOB '????-??-??T??:??:??.???Z'),
    base_ref    TEXT NOT NULL,
    labels      TEXT NOT NULL CHECK (json_valid(labels) AND json_type(labels) = 'array'),
    url         TEXT NOT NULL,
    passed_over TEXT,                              -- why the project's rules do not (or no longer) take it
    etag        TEXT,
    marks       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(marks)),  -- what is known of each page of its lists
    is_judged   INTEGER NOT NULL DEFAULT 1 CHECK (is_judged IN (0, 1)), -- 0: an evaluator has yet to look at it
    read_at     TEXT CHECK (read_at GLOB '????-??-??T??:??:??.???Z'),
    read_after  INTEGER NOT NULL DEFAULT 0,        -- the newest event when that read began: clocks may be off
    next_read   TEXT CHECK (next_read GLOB '????-??-??T??:??:??.???Z'), -- null: not read any more
    failures    INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),     -- reads in a row that failed
    trouble     TEXT,                              -- why the last read failed
    slow_reads  INTEGER NOT NULL DEFAULT 0 CHECK (slow_reads >= 0),   -- fetches in a row that ran out of time
    kept_pages  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(kept_pages)), -- the pages that such a fetch had read
    author_id   INTEGER,                           -- the author's account; null: gone, or not read yet
    description TEXT CHECK (description IS NULL OR json_valid(description)), -- {text, trust, reason}: what the author wrote; agents get it if trust is may_make_work
    issue       TEXT CHECK (issue IS NULL OR json_valid(issue)),    -- the issue that it closes: {state: read, number, title, body, trust, reason, etag} or {state: unread, number, reason, is_lasting}
    trouble_kind TEXT CHECK (trouble_kind IN (
        'limited', 'no_gh', 'logged_out', 'not_found', 'refused', 'transient', 'broken', 'too_slow', 'not_stored')),
    PRIMARY KEY (project_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX pulls_due ON pulls (next_read) WHERE next_read IS NOT NULL;
CREATE INDEX pulls_ended ON pulls (read_at) WHERE next_read IS NULL;
CREATE INDEX pulls_open ON pulls (project_id, number) WHERE state = 'open';
CREATE INDEX pulls_unjudged ON pulls (change_id) WHERE is_judged = 0;
CREATE UNIQUE INDEX pulls_by_change ON pulls (change_id) WHERE change_id IS NOT NULL;

-- Pull requests of changes that were pruned: the project's rules do not take them over anew, a person may.
CREATE TABLE pruned_pulls (
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    number     INTEGER NOT NULL CHECK (number > 0),
    change_id  TEXT NOT NULL,                      -- which is not there any more
    pruned_at  TEXT NOT NULL CHECK (pruned_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (project_id, number)
) STRICT, WITHOUT ROWID;

-- What is to be removed from the disk and from repositories after its change was pruned: a row goes when it has gone.
CREATE TABLE sweeps (
    kind       TEXT NOT NULL CHECK (kind IN ('run', 'prompt', 'worktree', 'ref')),
    path       TEXT NOT NULL,                      -- of a folder or file; of a ref its name
    repository TEXT NOT NULL,                      -- of a worktree or a ref; else empty
    proof      TEXT NOT NULL,                      -- that it is the change's: its file name; of a worktree its branch or the ref that keeps its commits, of a ref the commit
    change_id  TEXT NOT NULL,                      -- which is not there any more
    created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (kind, path, repository)
) STRICT, WITHOUT ROWID;

-- The look for pull requests that a project's rules take.
CREATE TABLE discoveries (
    project_id TEXT PRIMARY KEY REFERENCES projects (project_id),
    read_at    TEXT,
    next_read  TEXT CHECK (next_read GLOB '????-??-??T??:??:??.???Z'),
    failures   INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    trouble    TEXT,
    marks      TEXT CHECK (json_valid(marks)),     -- the pages when nothing on them was left to do, and by which rules
    trouble_kind TEXT CHECK (trouble_kind IN (
        'limited', 'no_gh', 'logged_out', 'not_found', 'refused', 'transient', 'broken', 'too_slow', 'not_stored'))
) STRICT;

-- Who may write to a repository, as the forge last said.
CREATE TABLE permissions (
    repo       TEXT NOT NULL,
    author_id  INTEGER NOT NULL,
    login      TEXT NOT NULL,
    permission TEXT NOT NULL CHECK (permission IN ('admin', 'maintain', 'write', 'triage', 'read', 'none')),
    asked_at   TEXT NOT NULL CHECK (asked_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (repo, author_id)
) STRICT, WITHOUT ROWID;

-- Settings of git that decide a push (credential helpers, url.*, core.sshCommand, …), by a hash of their keys and values.
-- Credentials are used only with trusted ones: seen when no agent could have changed them, or accepted by a person.
CREATE TABLE git_settings (
    fingerprint TEXT PRIMARY KEY CHECK (length(fingerprint) >= 40),
    state       TEXT NOT NULL CHECK (state IN ('trusted', 'asked')),
    keys        TEXT NOT NULL CHECK (json_valid(keys)), -- without the values, which may be secrets
    asked_at_change TEXT,                          -- the change whose escalation asks a person
    accepted_by TEXT,                              -- null: no person was needed
    first_seen_at TEXT NOT NULL CHECK (first_seen_at GLOB '????-??-??T??:??:??.???Z'),
    seen_at     TEXT NOT NULL CHECK (seen_at GLOB '????-??-??T??:??:??.???Z'), -- in force then
    seen_run    INTEGER NOT NULL,                  -- all runs up to this number had ended then
    question    INTEGER,                           -- rises with each question to a person
    CHECK (state = 'trusted' OR asked_at_change IS NOT NULL)
) STRICT, WITHOUT ROWID;

-- The forge's budget of calls, as it was last seen. One row.
CREATE TABLE rate (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    allowed   INTEGER NOT NULL,                    -- calls an hour
    remaining INTEGER NOT NULL,
    resets_at TEXT NOT NULL,
    seen_at   TEXT NOT NULL
) STRICT;

-- What is going to be done outside, written down before it is done: `push:ITEM:SHA`, or something to post. After a crash
-- the outside is looked at first. `marker` stands in what we post, so that it is found there again.
CREATE TABLE intents (
    key        TEXT PRIMARY KEY,
    kind       TEXT NOT NULL CHECK (kind IN ('push', 'review', 'answer', 'note', 'ask')),
    change_id  TEXT NOT NULL REFERENCES changes (change_id),
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    marker     TEXT,
    epoch      INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    not_before TEXT CHECK (not_before GLOB '????-??-??T??:??:??.???Z'),
    claimed_by TEXT,                               -- boot id, pid, start time of the process that is posting it
    tries      INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    trouble    TEXT,                               -- why the last try failed
    result     TEXT,                               -- done, given_up, or what came of a push
    forge_id   TEXT,                               -- what it became there: review:77
    done_at    TEXT,
    CHECK ((result IS NULL) = (done_at IS NULL))
) STRICT;

CREATE INDEX intents_open ON intents (created_at) WHERE done_at IS NULL AND kind <> 'push';
CREATE INDEX intents_open_pushes ON intents (created_at) WHERE done_at IS NULL AND kind = 'push';
CREATE INDEX intents_by_change ON intents (change_id, kind);
CREATE UNIQUE INDEX intents_forge_id ON intents (change_id, forge_id) WHERE forge_id IS NOT NULL;

CREATE TABLE messages (
    message_id   TEXT PRIMARY KEY,
    change_id    TEXT REFERENCES changes (change_id),
    sender       TEXT NOT NULL,
    recipient    TEXT NOT NULL,
    kind         TEXT NOT NULL CHECK (kind IN (
        'question', 'answer', 'info', 'request', 'changes_requested', 'approved', 'needs_review')),
    body         TEXT NOT NULL,
    created_at   TEXT NOT NULL,
    processed_at TEXT
) STRICT;

CREATE INDEX messages_by_change ON messages (change_id) WHERE change_id IS NOT NULL;

CREATE TABLE evaluators (
    name     TEXT PRIMARY KEY,
    cursor   INTEGER NOT NULL DEFAULT 0,           -- the newest event that was moved into rows
    last_run TEXT,
    next_run TEXT
) STRICT;

-- What command evaluators proposed, each once by its key. A prune takes those whose item goes, and old ones that were
-- only told why not; the others stay, since without them the same would be done a second time.
CREATE TABLE proposals (
    evaluator TEXT NOT NULL,
    key       TEXT NOT NULL,                       -- as the evaluator gave it
    outcome   TEXT NOT NULL,                       -- done, or refused: then it may be proposed again
    made_at   TEXT NOT NULL CHECK (made_at GLOB '????-??-??T??:??:??.???Z'),
    reason    TEXT,                                -- why it was refused
    PRIMARY KEY (evaluator, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX proposals_told ON proposals (made_at) WHERE outcome <> 'done';

-- Command evaluators whose last passes failed: nothing of these was applied, and they are run again later and later.
CREATE TABLE evaluator_troubles (
    name      TEXT PRIMARY KEY,
    failures  INTEGER NOT NULL CHECK (failures > 0), -- in a row
    reason    TEXT NOT NULL,                       -- why the last one failed
    since     TEXT NOT NULL CHECK (since GLOB '????-??-??T??:??:??.???Z'),
    try_again TEXT NOT NULL CHECK (try_again GLOB '????-??-??T??:??:??.???Z')
) STRICT, WITHOUT ROWID;

CREATE TABLE notifications (
    notification_id TEXT PRIMARY KEY,
    change_id  TEXT REFERENCES changes (change_id),
    channel    TEXT NOT NULL,
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    created_at TEXT NOT NULL,
    sent_at    TEXT
) STRICT;

CREATE INDEX notifications_by_change ON notifications (change_id) WHERE change_id IS NOT NULL;

-- For people with sqlite3.

CREATE VIEW board AS
SELECT
    CASE
        WHEN state = 'escalated' THEN 'Needs you'
        WHEN state = 'queued' THEN 'Backlog'
        WHEN state IN ('implementing', 'refining', 'addressing_feedback', 'self_review_failed') THEN 'In progress'
        WHEN state IN ('pending_self_review', 'self_reviewing', 'awaiting_pr_feedback', 'reviewing_pr') THEN 'Code review'
        WHEN state IN ('self_review_passed', 'pr_created', 'ready_for_human_review') THEN 'Waiting approval'
        WHEN state = 'approved' THEN 'Verified'
        ELSE 'Done'
    END AS board_column,
    change_id, title, project_id, branch, state,
    'fix ' || fix_cycle || '/' || max_fix_cycles AS cycle,
    final_verdict,
    CASE
        WHEN stopped THEN (SELECT 'stopped by ' || stopped_by || coalesce(': ' || reason, '') FROM stops
            WHERE stops.project_id IS NULL OR stops.project_id = changes.project_id ORDER BY stops.project_id IS NOT NULL LIMIT 1)
        WHEN shadow AND NOT (paused_by_person OR paused_by_rules) THEN 'shadow'
        WHEN paused THEN 'paused'
        WHEN held_until IS NOT NULL THEN 'held until ' || held_until || ': ' || hold_reason
    END AS waiting,
    decision, updated_at
FROM changes
ORDER BY state <> 'escalated', updated_at DESC;

CREATE VIEW open_work AS
SELECT item_id, source, status, priority, change_id, fix_cycle, attempt, not_before, lease_expires_at, title
FROM work_items
WHERE status IN ('available', 'claimed', 'blocked')
ORDER BY priority, created_at, item_id;

CREATE VIEW timeline AS
SELECT e.id, e.timestamp, coalesce(e.change_id, j.change_id) AS change_id, e.event_type, e.actor_id, e.summary
FROM events e LEFT JOIN rejections j ON j.event_id = e.id
ORDER BY e.id;

CREATE VIEW spend AS
SELECT change_id, title, total_fixes, max_total_fixes,
    round(run_ms / 1000.0, 1) AS run_s, max_run_ms / 1000 AS max_run_s,
    tokens, max_tokens, cost_micros / 1e6 AS cost_usd, max_cost_micros / 1e6 AS max_cost_usd,
    (SELECT count(*) FROM runs WHERE runs.change_id = changes.change_id) AS runs
FROM changes
ORDER BY change_id;
