-- From version 4 to 5. A long history is not searched for the few events that explain a change.
CREATE INDEX events_explaining ON events (change_id, event_type, id)
    WHERE event_type IN ('escalated', 'instructed', 'pr_changed', 'state_changed', 'work_approved');

-- The events of pruned changes are deleted in transactions of their own.
CREATE TABLE pruned_changes (
    change_id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;
