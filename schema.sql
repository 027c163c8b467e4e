-- The blackboard: all state of remand. Anyone may read these tables with `sqlite3`, and may append to
-- `events` by hand. This is a rejection like any other:
--
--   INSERT INTO events (event_type, target_type, target_id, summary)
--   VALUES ('work_rejected', 'change', 'c1', 'the retry loop never ends when the server answers 503');
--
-- Times are UTC, as text that sorts: 2026-11-16T02:29:53.123Z.
-- Ids: c1 change, w1 work item, j1 rejection, r1 run, v1 review, f1 finding.
--
-- This file is the newest schema, for new blackboards. The numbered steps in src/blackboard/migrations/ migrate
-- older ones to it.

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
    path           TEXT NOT NULL UNIQUE,           -- main checkout
    common_dir     TEXT NOT NULL UNIQUE,           -- .git of the main checkout, shared by all worktrees
    repo           TEXT,                           -- owner/name on the forge
    remote_url     TEXT,                           -- URL for pushes, pinned when the project was added
    default_branch TEXT NOT NULL,
    shadow         INTEGER NOT NULL DEFAULT 0 CHECK (shadow IN (0, 1)), -- from the configuration
    created_at     TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    max_fix_cycles INTEGER CHECK (max_fix_cycles >= 0), -- from the configuration; null: not read since the project was added
    max_fix_cycles_from TEXT,                      -- key of that setting
    shadow_mode    TEXT CHECK (shadow_mode IN ('review', 'dry')), -- mode for shadow; null: dry
    removed_at     TEXT CHECK (removed_at GLOB '????-??-??T??:??:??.???Z') -- time of removal by a person; the row stays for its history
) STRICT;

-- The configuration in force in the daemon. One row, written by `remand run`.
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

-- Stops in force, from `remand stop` to `remand start`: nothing is run, pushed or posted.
CREATE TABLE stops (
    project_id TEXT REFERENCES projects (project_id), -- null: everything
    stopped_by TEXT NOT NULL CHECK (stopped_by <> ''),
    stopped_at TEXT NOT NULL CHECK (stopped_at GLOB '????-??-??T??:??:??.???Z'),
    reason     TEXT,
    at_once    INTEGER NOT NULL CHECK (at_once IN (0, 1))  -- 1: running agents are ended; 0: they may finish
) STRICT;

CREATE UNIQUE INDEX stops_one_each ON stops (coalesce(project_id, ''));

CREATE TABLE changes (
    change_id      TEXT PRIMARY KEY,
    project_id     TEXT NOT NULL REFERENCES projects (project_id),
    title          TEXT NOT NULL,
    branch         TEXT NOT NULL,
    base           TEXT NOT NULL,                  -- branch that the work will be merged into
    head           TEXT NOT NULL,                  -- commit expected at the tip of the branch
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
    max_fix_cycles INTEGER NOT NULL CHECK (max_fix_cycles >= 0), -- limit in force: its own or the project's number, plus additions
    total_fixes    INTEGER NOT NULL DEFAULT 0 CHECK (total_fixes >= 0), -- all fixes: never resets
    max_total_fixes INTEGER NOT NULL CHECK (max_total_fixes >= 0),
    run_ms         INTEGER NOT NULL DEFAULT 0 CHECK (run_ms >= 0),      -- total time of agents
    max_run_ms     INTEGER NOT NULL CHECK (max_run_ms > 0),
    tokens         INTEGER NOT NULL DEFAULT 0 CHECK (tokens >= 0),
    max_tokens     INTEGER CHECK (max_tokens > 0),                      -- null: unlimited
    cost_micros    INTEGER NOT NULL DEFAULT 0 CHECK (cost_micros >= 0), -- millionths of a dollar
    max_cost_micros INTEGER CHECK (max_cost_micros > 0),
    paused_by_person INTEGER NOT NULL DEFAULT 0 CHECK (paused_by_person IN (0, 1)), -- by a person
    paused_by_rules INTEGER NOT NULL DEFAULT 0 CHECK (paused_by_rules IN (0, 1)),   -- the project's rules no longer select its PR
    stopped        INTEGER NOT NULL DEFAULT 0 CHECK (stopped IN (0, 1)), -- a row of `stops` applies to it
    shadow_word    INTEGER CHECK (shadow_word IN (0, 1)),                -- a person's decision; null: the project's applies
    shadow         INTEGER NOT NULL DEFAULT 0 CHECK (shadow IN (0, 1)),  -- result of both: only observed, nothing is done
    held_until     TEXT CHECK (held_until GLOB '????-??-??T??:??:??.???Z'), -- end of a hold by the environment
    hold_reason    TEXT,
    holds          INTEGER NOT NULL DEFAULT 0 CHECK (holds >= 0),       -- consecutive holds, for the back-off
    final_verdict  TEXT CHECK (final_verdict IN ('APPROVED', 'CHANGES_REQUESTED', 'MAX_CYCLES_REACHED', 'NEEDS_DISCUSSION')),
    human_review_required INTEGER NOT NULL DEFAULT 0 CHECK (human_review_required IN (0, 1)),
    decision       TEXT,                           -- the one thing that a person has to decide
    implementation_item_id TEXT,
    adopted_by     TEXT CHECK (adopted_by IN ('watch', 'discovery')),   -- origin of the PR
    own_worktree   INTEGER NOT NULL DEFAULT 0 CHECK (own_worktree IN (0, 1)), -- created by remand, which may create it again
    setup_done     TEXT,                           -- key of the last completed set-up of the worktree; begun, making, removing, removed: what happens to it
    auto_fix       INTEGER NOT NULL DEFAULT 1 CHECK (auto_fix IN (0, 1)), -- 0: a person reverted one of our fixes
    progress_since TEXT,                           -- time of a person's decision: earlier reviews do not count as "no progress"
    created_at     TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    updated_at     TEXT NOT NULL CHECK (updated_at GLOB '????-??-??T??:??:??.???Z'),
    held_at        TEXT CHECK (held_at GLOB '????-??-??T??:??:??.???Z'), -- start of the last hold: in the future if the clock was set back
    last_hold      TEXT,                           -- kind of the last hold by one of remand's own steps
    hold_repeats   INTEGER NOT NULL DEFAULT 0 CHECK (hold_repeats >= 0), -- consecutive occurrences, with no change in between
    first_hold_at  TEXT,                           -- time of the first one
    own_max_fix_cycles INTEGER CHECK (own_max_fix_cycles >= 0), -- limit set by a person for this change; null: the project's applies
    added_fix_cycles INTEGER NOT NULL DEFAULT 0 CHECK (added_fix_cycles >= 0), -- added by a person to either limit
    gate_leftovers TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(gate_leftovers)), -- untracked files that passing gates left in the user's worktree
    shadow_mode    TEXT CHECK (shadow_mode IN ('review', 'dry')), -- mode for shadow_word; null: dry
    detached       INTEGER NOT NULL DEFAULT 0 CHECK (detached IN (0, 1)), -- HEAD of a worktree created by remand is detached; refs/remand/change/ID keeps its commits
    decision_commands TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(decision_commands)), -- commands in `decision`, most likely first
    hold_kind      TEXT CHECK (hold_kind IN (
        'environment', 'configuration', 'no_agent', 'git_limit', 'git_lock', 'gate_ended', 'pr_unreadable')), -- null: not held, or held by version 1
    review         TEXT NOT NULL DEFAULT 'before_pr' CHECK (review IN ('before_pr', 'on_pr', 'off')), -- stage at which remand's reviewer first reads it
    auto_review    INTEGER NOT NULL DEFAULT 1 CHECK (auto_review IN (0, 1)), -- 0: a person starts each review and each fix
    opens_pr       INTEGER NOT NULL DEFAULT 0 CHECK (opens_pr IN (0, 1)),  -- remand opens its pull request
    waits_for      TEXT,                           -- change that must be merged before this one is started
    auto_address   INTEGER NOT NULL DEFAULT 1 CHECK (auto_address IN (0, 1)), -- 0: feedback on the PR is fixed only when a person says so
    skip_tests     INTEGER NOT NULL DEFAULT 1 CHECK (skip_tests IN (0, 1)),   -- 0: gates and review verify it, and the board shows that
    notify_ready   INTEGER NOT NULL DEFAULT 1 CHECK (notify_ready IN (0, 1)), -- its PR reports when it is ready for a person
    completed_at   TEXT CHECK (completed_at GLOB '????-??-??T??:??:??.???Z'), -- time at which it was merged or closed; null again if reopened
    taken_over     INTEGER NOT NULL DEFAULT 0 CHECK (taken_over IN (0, 1)),   -- a person continues by hand in its worktree
    paused         INTEGER NOT NULL GENERATED ALWAYS AS (paused_by_person OR paused_by_rules OR stopped OR shadow OR taken_over) VIRTUAL,
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
-- Includes ended changes: a pull request may have been watched before.
CREATE INDEX changes_by_pull ON changes (project_id, pr_number) WHERE pr_number IS NOT NULL;
CREATE INDEX changes_held ON changes (held_until) WHERE held_until IS NOT NULL;
CREATE INDEX changes_shadow ON changes (change_id) WHERE shadow;
CREATE INDEX changes_live ON changes (updated_at) WHERE state NOT IN ('merged', 'closed');
CREATE INDEX changes_waiting ON changes (waits_for) WHERE waits_for IS NOT NULL;
CREATE INDEX changes_by_worktree ON changes (worktree);
CREATE INDEX changes_ended_worktrees ON changes (completed_at)
    WHERE own_worktree = 1 AND completed_at IS NOT NULL AND setup_done IS NOT 'removed';

-- What a change was asked to do, for changes that remand makes from a task.
CREATE TABLE tasks (
    change_id    TEXT PRIMARY KEY REFERENCES changes (change_id),
    text         TEXT NOT NULL DEFAULT '',         -- description, in addition to the title of the change
    spec         TEXT CHECK (spec IS NULL OR json_valid(spec)),   -- {path, text}: a specification, as read when the task was added
    issue        TEXT CHECK (issue IS NULL OR json_valid(issue)), -- {number, title, body, url, comments: [{author, body}]}, as read when the task was added
    agent        TEXT,                             -- agent for implementation and fixes; null: as configured
    review_agent TEXT,
    model        TEXT,                             -- null: that of the agent
    draft        INTEGER NOT NULL DEFAULT 0 CHECK (draft IN (0, 1)) -- open the pull request as a draft
) STRICT, WITHOUT ROWID;

-- Events: facts, appended and never changed. Only event_type, target_type, target_id and summary are required.
-- Keys of `metadata` (JSON); `?` marks optional ones. Keys may be added, none is renamed or removed.
--   work_created       {source, item_id, idempotency_key?, again?}
--                        again: the item had ended and was reopened
--   work_claimed       {item_id, source, epoch, attempt, holder}
--   work_completed     {item_id, source}
--   work_failed        {item_id, source, reason, wip}
--   work_cancelled     {item_id, reason}
--   work_rejected      {verdict, head, body, raw_verdict?, review_id?, item_id?, findings?, feedback?, left_out?,
--                       left_out_feedback?, said?, supersedes?, supersedes_to?, gate?, base?, begins_round?}
--                        all are optional (by hand, by another program): without them the summary is the feedback.
--                        raw_verdict: verdict as the reviewer gave it; findings: [{id?, severity, category, path, line, line_end?, title?,
--                        text, failure?, suggestion, raised_by, first_review?, context?, feedback_id?, forge_id?}]; feedback: ids of the
--                        comments in it; left_out: number of comments that did not fit; supersedes: it replaces all older rejections,
--                        up to the event supersedes_to; gate: {command, status}, which fails on the head and not on the base
--   work_approved      {verdict, head, base, raw_verdict?, review_id?, item_id?, feedback_id?, not_raised_again?}
--                        not_raised_again: ids of the findings that the review closes
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
--                        actions of an agent that its own rules denied
--   checkout_changed   {run_id, what, more?}
--   head_moved         {from, to, wip?}
--   escalated          {reason, decide, commands, from, bound, item_id, refusal?}
--                        commands: those in decide, most likely first; bound: cycles|total_fixes|time|tokens|money|no_progress|reverted|unreadable|prompt_size; item_id: the failed item;
--                        refusal (a PR was not opened): protected_branch|ruleset|branch_name|push_declined|push_rules|base_branch|branch_taken|
--                        name_conflict|branch_moved|branch_gone|base_gone|nothing_to_merge|already_merged|pull_closed|draft|secret|pull_refused
--   instructed         {action, text, by, added?, at_once?, findings?, command?, changed?}
--                        action: retry, refine, approve, verdict, cancel, pause, resume, post, comment, budget, max_fix_cycles, shadow,
--                        accept_git_settings, reload, stop, start, remove_project, skip, ready, waive, takeover, handback, reopen, edit;
--                        added (for budget): {fixes, run_ms, tokens, cost_micros}; findings (for waive): ids; command (for takeover): resumes the agent's session;
--                        changed (for edit): [{field, from, to}]
--   shadowed           {item_id, source, change_id, agent, model, trouble, worktree?, prompt?, prompt_bytes?,
--                       tokens?, cost_micros?, run_ms?, basis?, run_id?, head?, base?, verdict?, summary?, findings?}
--                        a run that would have started, with its prompt and estimated cost; or a review made in shadow mode
--   state_changed      {from, to, on}
--   run_started        {run_id, item_id, epoch, agent, session, head_before, guidance, part, feedback, plan}
--                        feedback: {in_prompt, later}; plan: {folder, reason, folders, unread}, or null
--   run_finished       {run_id, ended, status, signal, elapsed_ms, wip}
--   run_lost           {run_id, wip, item_id?, lost_in_a_row?}
--   worktree_made      {path, branch, head, restored}
--                        restored: the worktree had existed before, and was missing
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
--                        a reply, a note, a request for review, a rerun of checks
--   message_sent       {message_id, from, to, kind}
--   notified           {channel, notification_id}
--   skipped            {reason, code?, event_id?, item_id?, run_id?, feedback_id?, key?, result?, line?, text?,
--                       pull?, issue?, url?, bound?, wip?, plan?, left_out?, more?, until?, deadline?, stored?,
--                       kind?, cause?, request?}
--                        an action that was not taken; code is the kind of reason, reason describes it
--   pruned             {changes, title, branch, project_id, pr_number, state, head, ended_at, events, items,
--                       rejections, reviews, findings, feedback, intents, messages, notifications, runs, more?}
--   reloaded           {config, kept, cause, request, changed, files, weaker, more?}
--                        changed: [{key, from, to}]; weaker: safeguards that it removes; cause: noticed|signal|request. A file that
--                        was not applied is a `skipped` event of the blackboard
--   daemon_ended       {cause, pid, silent_since, runs}
--                        the previous daemon did not shut down cleanly
--   implemented        {item_id, head_before, head_after, commits, files, more?}
--                        more: number of files that are not listed
--   pr_created         {repo, number, url, head, draft, found}
--                        found: it existed already, from an earlier attempt or opened by somebody else
--   worktree_removed   {path, branch, head, why}
--                        why: ended (its change ended some time ago), requested (by a person)
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
    -- An event cannot be withdrawn: one that is too large to be read would block everything forever.
    CHECK (length(CAST(summary AS BLOB)) + length(CAST(metadata AS BLOB)) <= 16000000)
) STRICT;

CREATE INDEX events_by_type ON events (event_type, id);
CREATE INDEX events_by_change ON events (change_id, id) WHERE change_id IS NOT NULL;
CREATE INDEX events_by_target ON events (target_type, target_id, id);
-- Types that explain a change, and that its history may have few of.
CREATE INDEX events_explaining ON events (change_id, event_type, id)
    WHERE event_type IN ('escalated', 'instructed', 'pr_changed', 'state_changed', 'work_approved');

-- A trigger instead of a CHECK, since the list grows with each version, and for a helpful message.
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

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'events are facts: append another one, never change one');
END;

-- Only `remand prune` deletes events; it marks its transaction with a row in counters.
CREATE TRIGGER events_never_vanish BEFORE DELETE ON events
WHEN NOT EXISTS (SELECT 1 FROM counters WHERE name = 'pruning')
BEGIN
    SELECT RAISE(ABORT, 'events are facts: they are never deleted (remand prune removes whole finished changes)');
END;

CREATE TABLE work_items (
    item_id      TEXT PRIMARY KEY,
    project_id   TEXT NOT NULL REFERENCES projects (project_id),
    change_id    TEXT REFERENCES changes (change_id),
    rejection_id TEXT,                             -- newest rejection of a review_fix
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
    claimed_by   TEXT,                             -- boot id, pid and start time of the process that holds the lease
    epoch        INTEGER NOT NULL DEFAULT 0 CHECK (epoch >= 0),   -- incremented by every claim; fences all writes
    attempt      INTEGER NOT NULL DEFAULT 0 CHECK (attempt >= 0), -- number of attempts; one interrupted by a restart does not count
    lease_expires_at TEXT CHECK (lease_expires_at GLOB '????-??-??T??:??:??.???Z'),
    not_before   TEXT CHECK (not_before GLOB '????-??-??T??:??:??.???Z'),
    created_at   TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    completed_at TEXT CHECK (completed_at GLOB '????-??-??T??:??:??.???Z'),
    failure_reason TEXT,
    gate_rounds  INTEGER NOT NULL DEFAULT 0 CHECK (gate_rounds >= 0),
    lost_runs    INTEGER NOT NULL DEFAULT 0 CHECK (lost_runs >= 0),   -- consecutive
    asked_again  INTEGER NOT NULL DEFAULT 0 CHECK (asked_again IN (0, 1)),
    metadata     TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(metadata) AND json_type(metadata) = 'object'),
    CHECK ((status = 'claimed') = (claimed_by IS NOT NULL)),
    CHECK ((status = 'claimed') = (lease_expires_at IS NOT NULL)),
    CHECK ((status IN ('completed', 'failed', 'cancelled')) = (completed_at IS NOT NULL)),
    CHECK (status <> 'failed' OR failure_reason IS NOT NULL),
    CHECK (source NOT IN ('code_review', 'review_fix') OR (change_id IS NOT NULL AND worktree IS NOT NULL)),
    CHECK ((source = 'review_fix') = (rejection_id IS NOT NULL))
) STRICT;

-- Items that are not due yet are not in the ready index: every claim would have to skip delayed rows of high priority.
-- Ids are numbers after a letter: w9 comes before w10.
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
CREATE UNIQUE INDEX items_one_open_pull_per_change ON work_items (change_id)
    WHERE source = 'pull_request' AND status IN ('available', 'claimed', 'blocked');
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
        'pr_closed', 'pr_merged', 'pushed_while_closed', 'dismissed', 'change_over', 'review_skipped', 'marked_ready',
        'waived')), -- set if superseded, escalated or skipped
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
    pid         INTEGER,                           -- pid of the shim, with its start time and boot id
    start_time  INTEGER,
    boot_id     TEXT,
    dir         TEXT NOT NULL,                     -- directory with prompt, output and exit.json
    head_before TEXT NOT NULL,
    head_after  TEXT,
    started_at  TEXT NOT NULL CHECK (started_at GLOB '????-??-??T??:??:??.???Z'),
    ended_at    TEXT CHECK (ended_at GLOB '????-??-??T??:??:??.???Z'),
    ended       TEXT CHECK (ended IN ('agent', 'idle_limit', 'total_limit', 'daemon_gone', 'stopped', 'lost', 'not_started')),
    exit_status INTEGER,
    signal      INTEGER,
    gates       TEXT CHECK (gates IN ('green', 'red')),
    gate_output TEXT,
    rebased_onto TEXT,                             -- commit onto which its commits were replayed, because the remote had moved
    refused     TEXT,                              -- reason why its work is not used, once that was decided
    discarded   INTEGER NOT NULL DEFAULT 0 CHECK (discarded IN (0, 1)), -- its work is on a wip ref, not on the branch
    tokens      INTEGER,
    cost_micros INTEGER,
    gate_rules  TEXT,                              -- gates that produced the result in `gates`, as JSON
    CHECK ((ended_at IS NULL) = (ended IS NULL)),
    CHECK (head_after IS NULL OR ended = 'agent'),
    CHECK (gates IS NULL OR head_after IS NOT NULL)
) STRICT;

CREATE INDEX runs_by_item ON runs (item_id, started_at);
CREATE INDEX runs_by_change ON runs (change_id, started_at);
CREATE INDEX runs_by_agent ON runs (agent, started_at);
CREATE INDEX runs_by_end ON runs (ended_at, cost_micros) WHERE cost_micros IS NOT NULL;
CREATE UNIQUE INDEX runs_one_open_per_worktree ON runs (worktree) WHERE ended_at IS NULL;

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

-- Runs that would have started for changes in shadow mode, one per item. The cost is estimated; null: unknown.
CREATE TABLE shadows (
    item_id      TEXT PRIMARY KEY REFERENCES work_items (item_id),
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    agent        TEXT,                             -- null: none is configured
    model        TEXT,
    worktree     TEXT NOT NULL,
    prompt       TEXT,                             -- file with the prompt; null: see trouble
    prompt_bytes INTEGER,
    trouble      TEXT,                             -- reason why there is no prompt
    tokens       INTEGER,
    cost_micros  INTEGER,
    run_ms       INTEGER,
    basis        TEXT NOT NULL,                    -- data behind the estimate
    made_at      TEXT NOT NULL CHECK (made_at GLOB '????-??-??T??:??:??.???Z'),
    CHECK ((prompt IS NULL) = (trouble IS NOT NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX shadows_by_change ON shadows (change_id);

-- Reviews of changes in shadow mode, one per item: stored, with no further effect.
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

CREATE TABLE reviews (
    review_id   TEXT PRIMARY KEY,
    change_id   TEXT NOT NULL REFERENCES changes (change_id),
    item_id     TEXT NOT NULL UNIQUE REFERENCES work_items (item_id),
    cycle       INTEGER NOT NULL,
    head        TEXT NOT NULL,                     -- head to lines are the receipt: the input of the reviewer
    base        TEXT NOT NULL,
    tree        TEXT NOT NULL,
    files       TEXT NOT NULL CHECK (json_valid(files) AND json_type(files) = 'array'),
    lines       INTEGER NOT NULL,
    verdict     TEXT NOT NULL CHECK (verdict IN ('approved', 'changes_requested', 'needs_discussion', 'unclear')),
    raw_verdict TEXT CHECK (raw_verdict IN ('approved', 'changes_requested', 'needs_discussion', 'unclear')),
    dialect     TEXT NOT NULL,
    reason      TEXT NOT NULL,                     -- explanation of how the text was interpreted
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
    failure      TEXT,                             -- input or sequence of events that makes the code fail
    suggestion   TEXT,
    raised_by    TEXT NOT NULL DEFAULT 'review' CHECK (raised_by IN ('review', 'person', 'check', 'analysis', 'message')),
    outcome      TEXT NOT NULL CHECK (outcome IN ('open', 'addressed', 'disputed', 'waived', 'resolved')),
    note         TEXT,                             -- reason given by the fixing agent or by a person
    first_review TEXT REFERENCES reviews (review_id), -- null: not from a review
    last_review  TEXT REFERENCES reviews (review_id),
    resolution   TEXT CHECK (resolution IN ('judged', 'not_raised_again')), -- judged by id, or not raised again by a later review
    UNIQUE (change_id, fingerprint)
) STRICT;

-- Without these indexes, deleting a review scans all findings. The same applies below.
CREATE INDEX findings_by_first_review ON findings (first_review);
CREATE INDEX findings_by_last_review ON findings (last_review);

-- Feedback by people and other programs on a change. The text is as it was when first read: a later edit does not
-- reach a prompt. On a PR `forge_id` is its kind and number there (`review:77`).
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
    commit_sha  TEXT,                              -- commit that it is about
    path        TEXT,
    line        INTEGER,
    hunk        TEXT,
    review      INTEGER,                           -- number on the forge of the review that a comment belongs to
    in_reply_to INTEGER,
    url         TEXT,
    body        TEXT NOT NULL,
    created_at  TEXT,
    updated_at  TEXT NOT NULL,                     -- time on the forge when it was first read
    edited_at   TEXT,                              -- time of an edit that was noticed later
    taken_in    TEXT NOT NULL,
    judged_at   TEXT,                              -- time of the evaluator's decision
    outcome     TEXT,                              -- code: rejected, approved, context (for the next fix), ours, or why it has no effect
    event_id    INTEGER REFERENCES events (id),    -- event that it became
    used_in     TEXT REFERENCES work_items (item_id), -- fix that was given it
    outcome_reason TEXT,                           -- explanation of the outcome, if there is more to say
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
    acted_on    TEXT CHECK (acted_on IN ('open', 'closed', 'merged')), -- state that the change was last moved for
    draft       INTEGER NOT NULL CHECK (draft IN (0, 1)),
    author      TEXT,
    head_ref    TEXT NOT NULL,
    head_sha    TEXT NOT NULL,
    head_since  TEXT CHECK (head_since GLOB '????-??-??T??:??:??.???Z'), -- date of the head commit; null: not requested
    opened_at   TEXT CHECK (opened_at GLOB '????-??-??T??:??:??.???Z'),
    base_ref    TEXT NOT NULL,
    labels      TEXT NOT NULL CHECK (json_valid(labels) AND json_type(labels) = 'array'),
    url         TEXT NOT NULL,
    passed_over TEXT,                              -- reason why the project's rules do not (or no longer) select it
    etag        TEXT,
    marks       TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(marks)),  -- state of each page of its lists
    is_judged   INTEGER NOT NULL DEFAULT 1 CHECK (is_judged IN (0, 1)), -- 0: not yet judged by an evaluator
    read_at     TEXT CHECK (read_at GLOB '????-??-??T??:??:??.???Z'),
    read_after  INTEGER NOT NULL DEFAULT 0,        -- newest event when that read started: clocks may be wrong
    next_read   TEXT CHECK (next_read GLOB '????-??-??T??:??:??.???Z'), -- null: no longer read
    failures    INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),     -- consecutive failed reads
    trouble     TEXT,                              -- error of the last read
    slow_reads  INTEGER NOT NULL DEFAULT 0 CHECK (slow_reads >= 0),   -- consecutive fetches that timed out
    kept_pages  TEXT NOT NULL DEFAULT '{}' CHECK (json_valid(kept_pages)), -- pages that such a fetch had read
    author_id   INTEGER,                           -- account of the author; null: deleted, or not read yet
    description TEXT CHECK (description IS NULL OR json_valid(description)), -- {text, trust, reason}: description by the author; agents get it if trust is may_make_work
    issue       TEXT CHECK (issue IS NULL OR json_valid(issue)),    -- issue that it closes: {state: read, number, title, body, trust, reason, etag} or {state: unread, number, reason, is_lasting}
    trouble_kind TEXT CHECK (trouble_kind IN (
        'limited', 'no_gh', 'logged_out', 'not_found', 'refused', 'transient', 'broken', 'too_slow', 'not_stored')),
    checks      TEXT NOT NULL DEFAULT 'none' CHECK (checks IN ('none', 'pending', 'passing', 'failing')), -- of the head, as far as they count
    checks_trouble TEXT,                           -- reason why they cannot be read
    PRIMARY KEY (project_id, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX pulls_due ON pulls (next_read) WHERE next_read IS NOT NULL;
CREATE INDEX pulls_ended ON pulls (read_at) WHERE next_read IS NULL;
CREATE INDEX pulls_open ON pulls (project_id, number) WHERE state = 'open';
CREATE INDEX pulls_unjudged ON pulls (change_id) WHERE is_judged = 0;
CREATE UNIQUE INDEX pulls_by_change ON pulls (change_id) WHERE change_id IS NOT NULL;

-- Checks of the head of each watched pull request: the newest check run of each name and app, and each commit status.
CREATE TABLE checks (
    change_id    TEXT NOT NULL REFERENCES changes (change_id),
    kind         TEXT NOT NULL CHECK (kind IN ('run', 'status', 'missing')),           -- missing: required, and not reported for this commit
    name         TEXT NOT NULL,
    app          TEXT NOT NULL,                   -- slug of the app; empty for a status
    head         TEXT NOT NULL,
    forge_id     INTEGER,                       -- number of the check run or status
    required     INTEGER NOT NULL DEFAULT 0 CHECK (required IN (0, 1)),
    counts       INTEGER NOT NULL DEFAULT 0 CHECK (counts IN (0, 1)), -- its result matters: required, or optional_checks = "fix"
    state        TEXT NOT NULL CHECK (state IN ('passing', 'pending', 'failing', 'stopped')),
    detail       TEXT NOT NULL,                   -- the forge's own word
    url          TEXT,
    started_at   TEXT,
    completed_at TEXT,
    seen_at      TEXT NOT NULL CHECK (seen_at GLOB '????-??-??T??:??:??.???Z'), -- first seen, or first missed, for this commit
    red_since    TEXT CHECK (red_since GLOB '????-??-??T??:??:??.???Z'),
    may_rerun    INTEGER NOT NULL DEFAULT 0 CHECK (may_rerun IN (0, 1)), -- from the settings
    rerun        TEXT CHECK (rerun IN ('open', 'done', 'refused')),  -- request to run it again, once per check and commit
    rerun_at     TEXT CHECK (rerun_at GLOB '????-??-??T??:??:??.???Z'),
    reran_id     INTEGER,                       -- check run that was run again
    evidence     TEXT CHECK (evidence IN ('wanted', 'read')),      -- request for its result on the merge base and its log
    on_base      TEXT CHECK (on_base IN ('passing', 'pending', 'failing', 'stopped')), -- null: unknown
    log          TEXT,                          -- end of the failing step, at most 64 KiB, without secrets
    log_trouble  TEXT,                          -- reason why there is none
    answer       TEXT CHECK (answer IN ('rejected', 'not_ours', 'reported')),
    PRIMARY KEY (change_id, kind, app, name)
) STRICT, WITHOUT ROWID;

-- Pull requests of pruned changes: the project's rules do not adopt them again, but a person may.
CREATE TABLE pruned_pulls (
    project_id TEXT NOT NULL REFERENCES projects (project_id),
    number     INTEGER NOT NULL CHECK (number > 0),
    change_id  TEXT NOT NULL,                      -- no longer exists
    pruned_at  TEXT NOT NULL CHECK (pruned_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (project_id, number)
) STRICT, WITHOUT ROWID;

-- Pruned changes of which events remain. These are deleted in the order of all events, in many small transactions;
-- until then they refer to a change that no longer exists.
CREATE TABLE pruned_changes (
    change_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Files, worktrees and refs to remove after their change was pruned. A row is deleted once that is done.
CREATE TABLE sweeps (
    kind       TEXT NOT NULL CHECK (kind IN ('run', 'prompt', 'review', 'worktree', 'ref')),
    path       TEXT NOT NULL,                      -- of a directory or file, or the name of a ref
    repository TEXT NOT NULL,                      -- of a worktree or a ref; otherwise empty
    proof      TEXT NOT NULL,                      -- proof that it belongs to the change: its file name; the branch of a worktree, or the ref that keeps its commits; the commit of a ref
    change_id  TEXT NOT NULL,                      -- no longer exists
    created_at TEXT NOT NULL CHECK (created_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (kind, path, repository)
) STRICT, WITHOUT ROWID;

-- Discovery of pull requests that a project's rules select.
CREATE TABLE discoveries (
    project_id TEXT PRIMARY KEY REFERENCES projects (project_id),
    read_at    TEXT,
    next_read  TEXT CHECK (next_read GLOB '????-??-??T??:??:??.???Z'),
    failures   INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
    trouble    TEXT,
    marks      TEXT CHECK (json_valid(marks)),     -- pages when nothing on them was left to do, and the rules in force then
    trouble_kind TEXT CHECK (trouble_kind IN (
        'limited', 'no_gh', 'logged_out', 'not_found', 'refused', 'transient', 'broken', 'too_slow', 'not_stored'))
) STRICT;

-- Permissions on a repository, as last reported by the forge.
CREATE TABLE permissions (
    repo       TEXT NOT NULL,
    author_id  INTEGER NOT NULL,
    login      TEXT NOT NULL,
    permission TEXT NOT NULL CHECK (permission IN ('admin', 'maintain', 'write', 'triage', 'read', 'none')),
    asked_at   TEXT NOT NULL CHECK (asked_at GLOB '????-??-??T??:??:??.???Z'),
    PRIMARY KEY (repo, author_id)
) STRICT, WITHOUT ROWID;

-- Git settings that affect a push (credential helpers, url.*, core.sshCommand, …), by a hash of their keys and values.
-- Credentials are used only with trusted ones: seen when no agent could have changed them, or accepted by a person.
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

-- Rate limit of the forge, as last reported. One row.
CREATE TABLE rate (
    id        INTEGER PRIMARY KEY CHECK (id = 1),
    allowed   INTEGER NOT NULL,                    -- calls per hour
    remaining INTEGER NOT NULL,
    resets_at TEXT NOT NULL,
    seen_at   TEXT NOT NULL
) STRICT;

-- Effects outside of remand, recorded before they happen: `push:ITEM:SHA`, or a post. After a crash the remote or the
-- forge is checked first. `marker` is part of each post, so that it can be found there again.
-- Keys of `payload` (JSON), by kind; `?` marks optional ones. Keys may be added, none is renamed or removed.
--   push     {item_id, branch, from, to}
--              from: commit on the remote before the push; to: the pushed commit
--   review   {review_id, findings}
--              findings: as in the event work_rejected
--   answer   {comment?, answer, reason, sha, path, line, text}
--              comment: number of the comment that it replies to; answer: fixed|cannot_fix|disagree, by the agent, with its reason;
--              path, line, text: the finding; sha: the commit of the fix
--   note     {what, cycle?, sha?, done?, answered?, left_out?, kind?, head?, is_unfinished?, is_unapproved?, is_unfixed?}
--              what: fixed, with cycle, sha, done (a list with the keys of answer), answered (number of comments that got their
--              own reply) and left_out (feedback that was given to no run, or not completely); or ready, with head, the commit that is
--              ready for a person, is_unfinished (all fixes were used up), is_unapproved (no review approved it) and is_unfixed
--              (no fix was made); or escalated, with kind: a value of
--              `bound` in the event escalated, discussion, or the source of the failed item; null: something else
--   ask      {logins}
--   rerun    {head, checks, names, call}
--              checks: numbers of the check runs of this commit that run again; call: {how, number}; how: check_run, job or
--              failed_jobs (of a workflow run)
CREATE TABLE intents (
    key        TEXT PRIMARY KEY,
    kind       TEXT NOT NULL CHECK (kind IN ('push', 'review', 'answer', 'note', 'ask', 'rerun')),
    change_id  TEXT NOT NULL REFERENCES changes (change_id),
    payload    TEXT NOT NULL CHECK (json_valid(payload)),
    marker     TEXT,
    epoch      INTEGER NOT NULL,
    created_at TEXT NOT NULL,
    not_before TEXT CHECK (not_before GLOB '????-??-??T??:??:??.???Z'),
    claimed_by TEXT,                               -- boot id, pid and start time of the process that is posting it
    tries      INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    trouble    TEXT,                               -- error of the last attempt
    result     TEXT,                               -- done, refused, given_up, or the result of a push or a review; null: open
    forge_id   TEXT,                               -- kind and number on the forge: review:77
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
    cursor   INTEGER NOT NULL DEFAULT 0,           -- newest event that was turned into rows
    last_run TEXT,
    next_run TEXT
) STRICT;

-- Proposals of command evaluators, each applied once per key. A prune deletes those whose item is deleted, and old
-- refused ones; the others stay, since without them the same would be done a second time.
CREATE TABLE proposals (
    evaluator TEXT NOT NULL,
    key       TEXT NOT NULL,                       -- as given by the evaluator
    outcome   TEXT NOT NULL,                       -- done, or refused, in which case it may be proposed again
    made_at   TEXT NOT NULL CHECK (made_at GLOB '????-??-??T??:??:??.???Z'),
    reason    TEXT,                                -- reason for a refusal
    PRIMARY KEY (evaluator, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX proposals_told ON proposals (made_at) WHERE outcome <> 'done';

-- Command evaluators whose last passes failed: nothing of these was applied, and retries are increasingly delayed.
CREATE TABLE evaluator_troubles (
    name      TEXT PRIMARY KEY,
    failures  INTEGER NOT NULL CHECK (failures > 0), -- consecutive
    reason    TEXT NOT NULL,                       -- error of the last one
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

-- Views for people who use sqlite3.

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
