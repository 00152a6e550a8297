//! The next line.

use super::{DemandAccess, Prefetcher};
use crate::LineAddress;

#[derive(Clone, Debug)]
pub(super) struct NextLine;

impl Prefetcher for NextLine {
    fn accessed(&mut self, access: &DemandAccess, wanted: &mut Vec<LineAddress>) {
        if !access.is_hit || access.is_first_use {
            wanted.push(LineAddress(access.line.0 + 1));
        }
    }
}
