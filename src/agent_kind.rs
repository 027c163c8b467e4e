//! Kinds of agents, as named in the settings. Only `agent` knows how each kind is run.

use crate::closed_enum::closed_enum;

closed_enum! {
    /// Protocol between remand and an agent.
    "kind" AgentKind {
        Command = "command",
        Claude = "claude",
    }
}
