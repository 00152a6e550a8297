//! A second network interface of a server, on the link of the first.

use crate::packet::Packet;
use fabric::{AgentContext, AgentId, Time};
use state::{State, Walker};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The path between two network interfaces of a server with one link.
///
/// The *first* interface is at the link. It hands over the packets that it does not take itself,
/// and takes packets of the *second* one, whenever it decides that the link is free for them. The
/// second one has neither link nor MAC. Both are agents of one fabric, and wake each other by the
/// timers that they have named; the path itself takes no time.
#[derive(Clone)]
pub struct SecondPath(Rc<RefCell<Passage>>);

/// Packets on the path, each way in the order in which they were given.
#[derive(state::State)]
struct Passage {
    /// Each interface's agent, and the token of its timer for packets that wait for it.
    #[state(fixed)]
    first: (AgentId, u64),
    #[state(fixed)]
    second: (AgentId, u64),
    inward: VecDeque<Packet>,
    outward: VecDeque<Waiting>,
}

/// A packet that waits for the link.
#[derive(Clone, Debug, Default, state::State, state::Plain)]
struct Waiting {
    packet: Packet,
    /// It is not sent before.
    not_before: Time,
    /// The token of the second interface's timer for its departure.
    left: u64,
}

impl SecondPath {
    /// A path between two agents.
    pub fn new(first: AgentId, second: AgentId) -> SecondPath {
        SecondPath(Rc::new(RefCell::new(Passage {
            first: (first, 0),
            second: (second, 0),
            inward: VecDeque::new(),
            outward: VecDeque::new(),
        })))
    }

    /// The first interface names its timer for packets of the second that wait for the link.
    pub fn wake_first_with(&self, token: u64) {
        self.0.borrow_mut().first.1 = token;
    }

    /// The second interface names its timer for packets that have come: one call for each.
    pub fn wake_second_with(&self, token: u64) {
        self.0.borrow_mut().second.1 = token;
    }

    /// The first interface hands over a packet from the network.
    pub fn hand_over(&self, context: &mut AgentContext<'_>, packet: Packet) {
        let mut passage = self.0.borrow_mut();
        passage.inward.push_back(packet);
        let (agent, token) = passage.second;
        context.wake_other(agent, context.now(), token);
    }

    /// The second interface takes the packet for which it has been woken.
    pub fn take(&self) -> Option<Packet> {
        self.0.borrow_mut().inward.pop_front()
    }

    /// The second interface has a packet to send, from `not_before` on. When its last bit has left,
    /// the interface's timer `left` is called.
    pub fn offer(
        &self,
        context: &mut AgentContext<'_>,
        packet: Packet,
        not_before: Time,
        left: u64,
    ) {
        let mut passage = self.0.borrow_mut();
        passage.outward.push_back(Waiting {
            packet,
            not_before,
            left,
        });
        let (agent, token) = passage.first;
        context.wake_other(agent, not_before, token);
    }

    /// The link is free for the next packet of the second interface: returns it, if there is one.
    pub fn next_packet(&self, now: Time) -> Option<(Packet, u64)> {
        let mut passage = self.0.borrow_mut();
        let next = passage.outward.pop_front_if(|one| one.not_before <= now)?;
        Some((next.packet, next.left))
    }

    /// The last bit of a packet of the second interface leaves at `at`; `left` came with it.
    pub fn leaves(&self, context: &mut AgentContext<'_>, at: Time, left: u64) {
        let (agent, _) = self.0.borrow().second;
        context.wake_other(agent, at, left);
    }
}

/// The packets on the path: a part of the state of the first interface, and not of the second one.
impl State for SecondPath {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.0.borrow_mut().walk(walker);
    }
}
