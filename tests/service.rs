//! remand as a service: stopped and started, supervised, installed for systemd and launchd.

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
