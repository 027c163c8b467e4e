//! What SQLite alone must do: the words of the schema, plans, the doors, broken files, power that goes off.

mod fixture;
