-- From version 2 to 3. A new column stands last among the columns of its table in schema.sql, as ALTER TABLE puts it.

-- The commands of a decision, which were only in its sentence: those between backticks.
ALTER TABLE changes ADD COLUMN decision_commands TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(decision_commands));
WITH RECURSIVE pieces (change_id, number, piece, rest) AS (
    SELECT change_id, 0, '', decision || '`' FROM changes WHERE decision IS NOT NULL
    UNION ALL
    SELECT change_id, number + 1, substr(rest, 1, instr(rest, '`') - 1), substr(rest, instr(rest, '`') + 1)
    FROM pieces WHERE rest <> ''
)
UPDATE changes SET decision_commands = (
    SELECT json_group_array(piece ORDER BY number) FROM pieces
    WHERE pieces.change_id = changes.change_id AND number % 2 = 0 AND piece GLOB 'remand *'
)
WHERE decision IS NOT NULL;
