//! remand as something that runs all the time: stopped and started, watched over, set up for systemd and launchd.

mod changed;
mod journal;
mod notify;
mod outside;
mod reload;
mod running;
mod seen;
mod stops;
pub(crate) mod supervisor;
mod units;
mod upgrade;
mod whose;
