//! Messages on the wires between the network interface and the cores.

use state::Walker;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A message on its way to or from a core: its context, and its words with the application header
/// first.
#[derive(Clone, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub(crate) struct Words {
    pub context: u16,
    pub words: Vec<u64>,
}

/// Messages between one core and the interface, both ways in the order in which they were sent.
/// The fabric's messages determine when they arrive; this has their contents.
#[derive(Debug, Default, state::State)]
struct CoreWires {
    to_core: VecDeque<Words>,
    from_core: VecDeque<Words>,
}

/// The wires of all cores.
#[derive(Debug, state::State)]
pub struct Mailbox {
    #[state(slice)]
    cores: Vec<CoreWires>,
}

/// The interface and the extensions of all cores have it.
pub type SharedMailbox = Rc<RefCell<Mailbox>>;

impl Mailbox {
    /// Wires to so many cores.
    pub fn shared(cores: usize) -> SharedMailbox {
        Rc::new(RefCell::new(Mailbox {
            cores: (0..cores).map(|_| CoreWires::default()).collect(),
        }))
    }

    pub(crate) fn send_to_core(&mut self, core: usize, message: Words) {
        self.cores[core].to_core.push_back(message);
    }

    pub(crate) fn take_at_core(&mut self, core: usize) -> Option<Words> {
        self.cores[core].to_core.pop_front()
    }

    pub(crate) fn send_from_core(&mut self, core: usize, message: Words) {
        self.cores[core].from_core.push_back(message);
    }

    pub(crate) fn take_from_core(&mut self, core: usize) -> Option<Words> {
        self.cores[core].from_core.pop_front()
    }

    pub(crate) fn walk(&mut self, walker: &mut dyn Walker) {
        state::State::walk(self, walker);
    }
}
