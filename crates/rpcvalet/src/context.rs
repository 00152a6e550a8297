//! The context table: a node's knowledge of each context (Novakovic et al., ASPLOS 2014).
//!
//! A *context* is a global address space. Each participating node has registered a *segment* with
//! it, a part of its memory; an address is a node's number and an offset in that node's segment. A
//! one-sided operation names context, node and offset, and the node at the other end looks the
//! context up here, and answers accesses outside the segment with an error. An access in one
//! context therefore never reaches memory of another.

use crate::domain::Domain;
use crate::header::{Header, MAX_BLOCK, MAX_CONTEXTS, Status};
use fabric::LINE_BYTES;
use std::cell::RefCell;
use std::rc::Rc;

const LINE: u64 = LINE_BYTES as u64;

/// The largest segment: offsets in blocks must fit into a header.
pub const MAX_SEGMENT_BYTES: u64 = (MAX_BLOCK as u64 + 1) * LINE;

/// The result of registering a segment: `enum sonuma_error` in `guest/include/sonuma.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// The segment is registered.
    Done = 0,
    /// The context already has a segment.
    AlreadyOpen = 1,
    /// The segment is empty.
    Empty = 2,
    /// It does not begin and end at cache-line boundaries.
    Misaligned = 3,
    /// It is larger than the largest offset.
    TooLarge = 4,
    /// Part of it is not memory.
    NotInMemory = 5,
    /// Part of it belongs to another context.
    Overlaps = 6,
}

/// A node's part of a context: base and bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, state::State, state::Plain)]
pub struct Segment {
    /// The address of its first byte.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// This node's knowledge of a context.
#[derive(Clone, Debug, state::State)]
pub struct Context {
    /// Other nodes that can be addressed.
    #[state(fixed)]
    pub nodes: u32,
    /// This node's segment: base and bound as written by the program.
    pub segment: Segment,
    /// Whether the segment is registered, that is, the context is open.
    pub is_open: bool,
    /// The result of its last registration.
    pub registered: u64,
    /// Its messaging domain, if it has one.
    #[state(inside)]
    pub domain: Option<Domain>,
}

/// All contexts of a node, by number.
#[derive(Clone, Debug, state::State)]
pub struct ContextTable {
    #[state(slice)]
    contexts: Vec<Context>,
}

/// The table, shared by all parts of the network interface.
pub type SharedContexts = Rc<RefCell<ContextTable>>;

impl ContextTable {
    /// A table with these domains, each in the context of its number. Contexts without a domain
    /// have `nodes` nodes.
    pub fn new(domains: Vec<Domain>, nodes: u32) -> ContextTable {
        let mut domains = domains.into_iter();
        let context = || {
            let domain = domains.next();
            Context {
                nodes: domain.as_ref().map_or(nodes, |domain| domain.nodes),
                segment: Segment::default(),
                is_open: false,
                registered: 0,
                domain,
            }
        };
        ContextTable {
            contexts: std::iter::repeat_with(context).take(MAX_CONTEXTS).collect(),
        }
    }

    /// The context of this number, if the table is that large.
    pub fn get(&self, context: usize) -> Option<&Context> {
        self.contexts.get(context)
    }

    /// The messaging domain of a context, if it has one.
    pub fn domain(&self, context: u8) -> Option<&Domain> {
        self.contexts.get(usize::from(context))?.domain.as_ref()
    }

    /// The same, for modification.
    pub fn domain_mut(&mut self, context: u8) -> Option<&mut Domain> {
        self.contexts.get_mut(usize::from(context))?.domain.as_mut()
    }

    /// All messaging domains, and the numbers of their contexts.
    pub fn domains(&self) -> impl Iterator<Item = (usize, &Domain)> {
        let domains = self.contexts.iter().enumerate();
        domains.filter_map(|(context, one)| Some((context, one.domain.as_ref()?)))
    }

    /// The context of this number, for modification.
    pub fn get_mut(&mut self, context: usize) -> Option<&mut Context> {
        self.contexts.get_mut(context)
    }

    /// The number of a message's slot among those of all domains, if it has one.
    pub fn place(&self, header: Header) -> Option<u64> {
        let domain = self.domain(header.context)?;
        Some(domain.first_place + domain.place(header.node, header.slot)?)
    }

    /// Registers the segment that the program has written for a context, which is then open.
    pub fn register(&mut self, context: usize, in_memory: impl Fn(u64) -> bool) -> Registered {
        let Some(Context {
            segment: Segment { start, bytes },
            is_open,
            ..
        }) = self.contexts.get(context).cloned()
        else {
            return Registered::Done;
        };
        // `None`: it wraps around the end of the address space.
        let last = start.checked_add(bytes.saturating_sub(1));
        let is_disjoint = |last: u64| {
            self.contexts.iter().filter(|one| one.is_open).all(|one| {
                let Segment {
                    start: other,
                    bytes,
                } = one.segment;
                last < other || start >= other + bytes
            })
        };
        let found = match last {
            _ if is_open => Registered::AlreadyOpen,
            _ if bytes == 0 => Registered::Empty,
            _ if !start.is_multiple_of(LINE) || !bytes.is_multiple_of(LINE) => {
                Registered::Misaligned
            }
            _ if bytes > MAX_SEGMENT_BYTES => Registered::TooLarge,
            Some(last) if !in_memory(start) || !in_memory(last) => Registered::NotInMemory,
            None => Registered::NotInMemory,
            Some(last) if !is_disjoint(last) => Registered::Overlaps,
            Some(_) => Registered::Done,
        };
        let context = &mut self.contexts[context];
        context.registered = found as u64;
        context.is_open |= found == Registered::Done;
        found
    }

    /// The address of the block that a one-sided operation of another node refers to.
    pub fn address(&self, header: Header) -> Result<u64, Status> {
        let context = self.contexts.get(usize::from(header.context));
        let context = context.filter(|one| one.is_open);
        let Segment { start, bytes } = context.ok_or(Status::NoContext)?.segment;
        let offset = u64::from(header.block()) * LINE;
        // Segments end at a line boundary.
        if offset < bytes {
            Ok(start + offset)
        } else {
            Err(Status::OutsideSegment)
        }
    }

    /// The block number of this address in a context's segment.
    pub fn block(&self, context: u8, address: u64) -> u32 {
        let start = self.contexts[usize::from(context)].segment.start;
        (address.saturating_sub(start) / LINE) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Kind;

    fn table() -> ContextTable {
        ContextTable::new(Vec::new(), 10)
    }

    fn register(table: &mut ContextTable, context: usize, start: u64, bytes: u64) -> Registered {
        if !table.contexts[context].is_open {
            table.contexts[context].segment = Segment { start, bytes };
        }
        table.register(context, |address| address < 1 << 40)
    }

    fn address(table: &ContextTable, context: u8, block: u32) -> Result<u64, Status> {
        let header = Header::decode(Kind::Read as u64).unwrap().at_block(block);
        table.address(Header { context, ..header })
    }

    #[test]
    fn a_segment_has_a_base_and_a_bound() {
        let mut table = table();
        assert_eq!(address(&table, 3, 0), Err(Status::NoContext));
        assert_eq!(register(&mut table, 3, 0x1000, 128), Registered::Done);
        assert_eq!(address(&table, 3, 0), Ok(0x1000));
        assert_eq!(address(&table, 3, 1), Ok(0x1040));
        assert_eq!(table.block(3, 0x1040), 1);
        assert_eq!(address(&table, 3, 2), Err(Status::OutsideSegment));
        // The largest offset in a header does not wrap around.
        assert_eq!(address(&table, 3, MAX_BLOCK), Err(Status::OutsideSegment));
        assert_eq!(address(&table, 2, 0), Err(Status::NoContext));
    }

    #[test]
    fn what_cannot_be_registered_leaves_the_context_closed() {
        for (start, bytes, expected) in [
            (0x1000, 0, Registered::Empty),
            (0x1010, 64, Registered::Misaligned),
            (0x1000, 100, Registered::Misaligned),
            (0x1000, MAX_SEGMENT_BYTES + 64, Registered::TooLarge),
            (1 << 40, 64, Registered::NotInMemory),
            ((1 << 40) - 64, 128, Registered::NotInMemory),
            (u64::MAX - 63, 128, Registered::NotInMemory),
        ] {
            let mut table = table();
            let found = register(&mut table, 0, start, bytes);
            assert_eq!(found, expected, "{bytes} bytes at {start:#x}");
            assert_eq!(address(&table, 0, 0), Err(Status::NoContext));
        }
    }

    /// Two contexts never share a byte, whatever is registered.
    #[test]
    fn segments_are_disjoint() {
        let mut table = table();
        assert_eq!(register(&mut table, 0, 0x1000, 0x100), Registered::Done);
        assert_eq!(
            register(&mut table, 0, 0x1000, 0x100),
            Registered::AlreadyOpen
        );
        for (start, bytes) in [(0x1000, 64), (0x10c0, 128), (0xfc0, 128), (0x800, 0x1000)] {
            assert_eq!(register(&mut table, 1, start, bytes), Registered::Overlaps);
        }
        assert_eq!(register(&mut table, 1, 0x1100, 64), Registered::Done);
        assert_eq!(register(&mut table, 2, 0xfc0, 64), Registered::Done);
        let mut seen = std::collections::BTreeSet::new();
        for context in 0..16 {
            let blocks = (0..1000).filter_map(|block| address(&table, context, block).ok());
            assert!(blocks.into_iter().all(|address| seen.insert(address)));
        }
        assert_eq!(seen.len(), 4 + 1 + 1);
    }
}
