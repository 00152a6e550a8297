//! The link of a server.

use fabric::{AgentId, Fabric};
use network::rack::Interface;

/// Where the network interface of a server is found, whatever it is.
#[derive(Clone, Copy, Debug)]
pub struct Wire {
    /// Its agent.
    pub agent: AgentId,
    find: fn(&mut Fabric, AgentId) -> Option<&mut dyn Interface>,
}

impl Wire {
    /// The interface is agent `agent`, a `T`.
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
