-- From version 1 to 2. A new column stands last among the columns of its table in schema.sql, as ALTER TABLE puts it.

-- The kind of a hold.
ALTER TABLE changes ADD COLUMN hold_kind TEXT CHECK (hold_kind IN ('environment', 'configuration', 'no_agent'));
