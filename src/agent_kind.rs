//! The kinds of agents, as settings name them. How each kind is run is known by `agent` alone.

use crate::closed_enum::closed_enum;

closed_enum! {
    /// The protocol between remand and an agent.
    "kind" AgentKind {
        Command = "command",
        Claude = "claude",
    }
}
