//! What is around the loop: the shell, the manual, backups, retention, following along.

mod backup;
mod follow;
mod prune;
mod remnants;
mod shell;
