//! How a change and its explanation are printed, by the board, `status`, `why` and `show`.

pub(super) mod print_change;
pub(super) mod redraw;
