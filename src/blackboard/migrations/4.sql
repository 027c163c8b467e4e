-- From version 3 to 4. A project that a person removed keeps its row, so that its history stays readable.
ALTER TABLE projects ADD COLUMN removed_at TEXT CHECK (removed_at GLOB '????-??-??T??:??:??.???Z');
