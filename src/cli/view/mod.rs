//! Printing of a change and its explanation, for the board, `status`, `why` and `show`.

pub(super) mod print_change;
pub(super) mod redraw;
pub(super) mod review_row;
