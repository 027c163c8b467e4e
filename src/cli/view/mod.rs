//! How a change is explained and shown, for the board, `status`, `why` and `show`.

pub(super) mod board_cell;
pub(super) mod change_view;
pub(super) mod event_filter;
pub(super) mod explain;
pub(super) mod facts;
pub(super) mod redraw;
pub(super) mod unwatched_pr;
