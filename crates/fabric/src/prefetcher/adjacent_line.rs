//! The other line of an aligned pair.

use super::{DemandAccess, Prefetcher};
use crate::LineAddress;

#[derive(Clone, Debug)]
pub(super) struct AdjacentLine;

impl Prefetcher for AdjacentLine {
    fn accessed(&mut self, access: &DemandAccess, wanted: &mut Vec<LineAddress>) {
        if !access.is_hit {
            wanted.push(LineAddress(access.line.0 ^ 1));
        }
    }
}
