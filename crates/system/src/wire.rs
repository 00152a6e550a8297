//! The link of a server.

use fabric::{AgentId, Fabric};
use network::rack::Interface;

/// The location of a server's network interface.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Its agent.
    pub agent: AgentId,
    find: fn(&mut Fabric, AgentId) -> Option<&mut dyn Interface>,
}

impl Wire {
    /// The interface that is agent `agent`, a `T`.
    pub fn of<T: Interface + 'static>(agent: AgentId) -> Wire {
        Wire {
            agent,
            find: |fabric, agent| {
                let interface = fabric.agent_mut::<T>(agent)?;
                Some(interface)
            },
        }
    }

    /// The interface; `None` if the agent is something else.
    pub fn interface<'a>(&self, fabric: &'a mut Fabric) -> Option<&'a mut dyn Interface> {
        (self.find)(fabric, self.agent)
    }
}
