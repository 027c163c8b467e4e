//! The loop on pull requests, through the binary, with a strict fake `gh`.

mod advice;
mod apart;
mod default_branch;
mod dismissed;
mod feedback;
mod lag;
mod late;
mod others;
pub(crate) mod pauses;
mod people;
mod portions;
mod posting;
mod private;
mod purpose;
mod reopened;
mod rules;
mod trouble;
mod trust;
