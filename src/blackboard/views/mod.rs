//! Read-only views for people: the board, pages of events, spend.

pub(super) mod board_view;
pub(super) mod lookup;
pub(super) mod spend;
