//! What a server that is alone and the clients around it keep together: the packets on the cable
//! between them, and what is measured of requests.

use fabric::Time;
use network::packet::Packet;
use queues::SharedLedger;
use state::Walker;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Packets on the cable, each way in the order in which they were sent, and instruments. When a
/// packet arrives is told by what the fabric carries.
#[derive(Debug, state::State)]
pub(crate) struct Cable {
    pub to_server: VecDeque<Packet>,
    pub to_clients: VecDeque<Packet>,
    /// By the tag of each reply that is under way: when its core has written its last word, and
    /// when the same core had done so before, and its number.
    pub written: BTreeMap<u64, (Time, Time, u16)>,
    /// When each core has written its last reply.
    #[state(slice)]
    cores_wrote_at: Vec<Time>,
    #[state(fixed)]
    ledger: SharedLedger,
}

/// The interface and the clients have it.
pub(crate) type SharedCable = Rc<RefCell<Cable>>;

impl Cable {
    /// An empty one of a server with so many cores.
    pub fn shared(cores: usize, ledger: SharedLedger) -> SharedCable {
        Rc::new(RefCell::new(Cable {
            to_server: VecDeque::new(),
            to_clients: VecDeque::new(),
            written: BTreeMap::new(),
            cores_wrote_at: vec![Time::ZERO; cores],
            ledger,
        }))
    }

    /// The first word of a request, whose tag is its slot, is at a core: its service begins.
    pub fn given(&self, slot: u64, at: Time) {
        self.ledger.borrow_mut().given(slot as usize, at);
    }

    /// A core has written the last word of the reply with this tag.
    pub fn wrote(&mut self, core: usize, tag: u64, at: Time) {
        let before = std::mem::replace(&mut self.cores_wrote_at[core], at);
        self.written.insert(tag, (at, before, core as u16));
    }

    pub fn walk(&mut self, walker: &mut dyn Walker) {
        state::State::walk(self, walker);
    }
}
