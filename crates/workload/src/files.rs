//! Data files named by a description: captures of packets, recorded service times.

use std::collections::BTreeMap;

/// The contents of such files, by the paths in the description.
///
/// Nothing here reads a file. The caller reads the files before the run and may use their contents
/// in the key of the result. The run gets the same bytes, even if a file has changed since or the
/// run is on another host.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    /// Files with these paths and contents.
    pub fn new(contents: BTreeMap<String, Vec<u8>>) -> Files {
        Files(contents)
    }

    /// The contents of a file; an error message if they were not given.
    pub fn get(&self, path: &str) -> Result<&[u8], String> {
        let content = self.0.get(path).map(Vec::as_slice);
        content.ok_or_else(|| format!("{path}: the contents of this file were not given"))
    }
}
