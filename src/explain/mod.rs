//! Explains why a change, an item or a pull request is where it is, and what a person can type: one
//! type for the board, `status`, `why`, and everything else that shows it. Facts are gathered from
//! the blackboard first; the explanation is made from them alone. Nothing is printed here.

mod because;
mod change;
mod change_view;
mod checks;
mod explanation;
mod facts;
mod history;
mod note;
mod ready;
mod records;
mod shadow;
mod unwatched_pr;

pub(crate) use because::Because;
pub(crate) use change_view::ChangeView;
pub(crate) use explanation::Explanation;
pub(crate) use facts::{Around, Daemon, pr_name};
pub(crate) use history::led_here;
pub(crate) use note::{not_in_force_command, stop_command, stop_sentence};
pub(crate) use records::{event, feedback, finding, item, project, rejection, review, run};
pub(crate) use unwatched_pr::UnwatchedPr;
