//! Call chains.

use crate::program::SharedProgram;
use pipeline::Executed;
use riscv::Class;
use std::collections::HashMap;

/// Calls nested more deeply than this are attributed to their caller.
const DEEPEST: usize = 256;

const RETURN_ADDRESS: u8 = 1;
const ALTERNATE_LINK: u8 = 5;

fn is_link(register: u8) -> bool {
    register == RETURN_ADDRESS || register == ALTERNATE_LINK
}

/// A chain of calls: the last of them, and the chain before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    caller: usize,
    name: usize,
}

/// The empty chain.
pub const ROOT: usize = 0;

/// The calls of one hart, and all chains of calls so far, as the nodes of a tree.
///
/// Calls and returns are recognized by the registers that jumps use ("Control Transfer
/// Instructions", the hints for return-address stacks).
pub struct CallTree {
    program: SharedProgram,
    names: Vec<String>,
    name_numbers: HashMap<String, usize>,
    nodes: Vec<Node>,
    node_numbers: HashMap<Node, usize>,
    /// The calls that have not returned: the caller and the return address.
    calls: Vec<(usize, u64)>,
    /// Whether the last instruction was a return.
    returns: bool,
}

impl CallTree {
    pub fn new(program: SharedProgram) -> CallTree {
        CallTree {
            program,
            names: vec![String::new()],
            name_numbers: HashMap::new(),
            nodes: vec![Node { caller: 0, name: 0 }],
            node_numbers: HashMap::new(),
            calls: Vec::new(),
            returns: false,
        }
    }

    fn node(&mut self, caller: usize, name: &str) -> usize {
        let name = match self.name_numbers.get(name) {
            Some(&number) => number,
            None => {
                let number = self.names.len();
                self.names.push(name.to_string());
                self.name_numbers.insert(name.to_string(), number);
                number
            }
        };
        let node = Node { caller, name };
        let next = self.nodes.len();
        let number = *self.node_numbers.entry(node).or_insert(next);
        if number == next {
            self.nodes.push(node);
        }
        number
    }

    /// The node of the function at `pc`, in the current chain of calls.
    pub fn function(&mut self, pc: u64) -> usize {
        let place = self.program.borrow_mut().place(pc);
        let mut node = self.calls.last().map_or(ROOT, |&(caller, _)| caller);
        for name in &place.functions {
            node = self.node(node, name);
        }
        node
    }

    /// The node of the line at `pc` in `function`, or of the function itself if the line is
    /// unknown.
    pub fn line(&mut self, function: usize, pc: u64) -> usize {
        let place = self.program.borrow_mut().place(pc);
        match &place.line {
            Some(line) => self.node(function, line),
            None => function,
        }
    }

    /// Handles the next instruction in program order; returns the node of its function.
    pub fn executed(&mut self, executed: &Executed) -> usize {
        let (pc, i) = (executed.pc, &executed.instruction);
        if std::mem::take(&mut self.returns)
            && let Some(place) = self.calls.iter().rposition(|&(_, back)| back == pc)
        {
            self.calls.truncate(place);
        }
        let function = self.function(pc);
        if matches!(i.class, Class::Jump | Class::JumpRegister) {
            if is_link(i.rd) {
                if self.calls.len() < DEEPEST {
                    self.calls.push((function, i.next(pc)));
                }
            } else {
                self.returns = i.class == Class::JumpRegister && is_link(i.rs1);
            }
        }
        function
    }

    /// The names on the path from below `above`, which must lead to `node`, down to it.
    pub fn path(&self, above: usize, node: usize) -> Vec<&str> {
        let mut names = Vec::new();
        let mut at = node;
        while at != above && at != ROOT {
            names.push(self.names[self.nodes[at].name].as_str());
            at = self.nodes[at].caller;
        }
        names.reverse();
        names
    }

    /// The longest common prefix of two chains, and the number of calls by which `a` is longer.
    pub fn common(&self, a: usize, b: usize) -> (usize, usize) {
        let chain = |mut at: usize| {
            let mut chain = vec![at];
            while at != ROOT {
                at = self.nodes[at].caller;
                chain.push(at);
            }
            chain.reverse();
            chain
        };
        let (a, b) = (chain(a), chain(b));
        let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
        (a[same - 1], a.len() - same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use riscv::elf::{Headers, Image};

    /// A call that is repeated belongs to the same node of the profile.
    #[test]
    fn a_function_has_a_node_for_each_of_its_callers() {
        let image = Image {
            entry: 0,
            segments: Vec::new(),
            headers: Headers::default(),
            symbols: Vec::new(),
            tohost: None,
            fromhost: None,
        };
        let mut tree = CallTree::new(crate::Program::shared(&image, &[]));
        let main = tree.node(ROOT, "main");
        let hash = tree.node(main, "hash");
        assert_eq!(tree.node(main, "hash"), hash);
        let other = tree.node(hash, "hash");
        assert!(![main, hash].contains(&other));
        assert_eq!(tree.path(ROOT, other), ["main", "hash", "hash"]);
    }
}
