//! Streams: requests for ascending or descending lines of a page, as Intel's Optimization Reference
//! Manual describes the "streamer" of the second-level cache (Sandy Bridge, "Data Prefetch to the
//! L2 and Last Level Cache").
//!
//! The manual does not say when a stream is detected: here with the third line, if its step has the
//! same direction as the one before.

use super::{DemandAccess, PAGE_LINES, Prefetcher};
use crate::LineAddress;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The table of the prefetcher `streamer`.
///
/// Defaults: Intel's Optimization Reference Manual: 32 streams, one for each page; two lines for
/// each look-up; up to 20 lines ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamerSpec {
    /// The number of pages that it tracks. Another page takes the place of the one that was used
    /// longest ago.
    #[schemars(range(min = 1, max = 1024))]
    pub streams: u32,
    /// The maximum number of lines fetched at each look-up.
    #[schemars(range(min = 1, max = 16))]
    pub degree: u32,
    /// The maximum distance of a stream's prefetches ahead of the look-up, in lines.
    #[schemars(range(min = 1, max = 63))]
    pub distance: u32,
}

impl Default for StreamerSpec {
    fn default() -> StreamerSpec {
        StreamerSpec {
            streams: 32,
            degree: 2,
            distance: 20,
        }
    }
}

#[derive(Clone, Copy, Debug, state::State, state::Plain)]
struct Stream {
    page: u64,
    /// The line of the page that was looked up last.
    last: u64,
    ascends: bool,
    /// Whether the last two steps had the same direction.
    is_detected: bool,
    /// Whether there has been a step.
    has_moved: bool,
    /// The farthest line that has been fetched.
    fetched: u64,
}

#[derive(Clone, Debug, state::State)]
pub(super) struct Streamer {
    #[state(fixed)]
    spec: StreamerSpec,
    /// Most recently used first.
    streams: Vec<Stream>,
}

impl Streamer {
    pub(super) fn new(spec: StreamerSpec) -> Streamer {
        Streamer {
            spec,
            streams: Vec::with_capacity(spec.streams as usize),
        }
    }
}

impl Stream {
    fn step(&mut self, to: u64) {
        let ascends = to > self.last;
        let goes_on = self.has_moved && ascends == self.ascends;
        if !goes_on {
            self.fetched = to;
        }
        self.is_detected = goes_on;
        self.has_moved = true;
        self.ascends = ascends;
        self.last = to;
    }

    /// The line after the farthest fetched one, or after the last look-up, if it is not too far
    /// ahead.
    fn next(&mut self, distance: u64) -> Option<u64> {
        let next = if self.ascends {
            self.fetched.max(self.last) + 1
        } else {
            self.fetched.min(self.last).checked_sub(1)?
        };
        let is_near = next < PAGE_LINES && next.abs_diff(self.last) <= distance;
        self.fetched = if is_near { next } else { self.fetched };
        is_near.then_some(next)
    }
}

impl Prefetcher for Streamer {
    fn accessed(&mut self, access: &DemandAccess, wanted: &mut Vec<LineAddress>) {
        let (page, line) = (access.line.0 / PAGE_LINES, access.line.0 % PAGE_LINES);
        let found = self.streams.iter().position(|stream| stream.page == page);
        let Some(index) = found else {
            self.streams.truncate(self.spec.streams as usize - 1);
            let stream = Stream {
                page,
                last: line,
                ascends: false,
                is_detected: false,
                has_moved: false,
                fetched: line,
            };
            self.streams.insert(0, stream);
            return;
        };
        self.streams[..=index].rotate_right(1);
        let stream = &mut self.streams[0];
        if line == stream.last {
            return;
        }
        stream.step(line);
        if stream.is_detected {
            for _ in 0..self.spec.degree {
                let next = stream.next(self.spec.distance.into());
                wanted.extend(next.map(|next| LineAddress(page * PAGE_LINES + next)));
            }
        }
    }

    /// The stream continues with it at the next look-up.
    fn refused(&mut self, line: LineAddress) {
        if let Some(stream) = self.streams.first_mut() {
            let line = line.0 % PAGE_LINES;
            stream.fetched = if stream.ascends { line - 1 } else { line + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(streamer: &mut Streamer, lines: &[u64]) -> Vec<Vec<u64>> {
        let looked_up = lines.iter().map(|&line| {
            let mut wanted = Vec::new();
            let access = DemandAccess {
                line: LineAddress(line),
                is_hit: true,
                is_first_use: false,
                load: None,
            };
            streamer.accessed(&access, &mut wanted);
            wanted.into_iter().map(|line| line.0).collect()
        });
        looked_up.collect()
    }

    /// From the third line on, two lines are fetched, until they are three ahead; the page has 64
    /// lines.
    #[test]
    fn an_ascending_stream_is_fetched_up_to_the_distance() {
        let spec = StreamerSpec {
            distance: 3,
            ..StreamerSpec::default()
        };
        let found = fetched(&mut Streamer::new(spec), &[56, 57, 58, 59, 60, 61, 62, 63]);
        let expected: [&[u64]; 8] = [&[], &[], &[59, 60], &[61, 62], &[63], &[], &[], &[]];
        assert_eq!(found, expected);
    }

    /// Lines that are not fetched for want of a register are requested again.
    #[test]
    fn a_stream_has_no_gaps() {
        let mut streamer = Streamer::new(StreamerSpec::default());
        assert_eq!(fetched(&mut streamer, &[0, 1, 2])[2], [3, 4]);
        streamer.refused(LineAddress(4));
        assert_eq!(fetched(&mut streamer, &[3]), [[4, 5]]);
    }

    /// Lines 70 to 64 are the lowest seven of page 1. A change of direction starts a new stream.
    #[test]
    fn a_descending_stream_ends_with_its_page() {
        let mut streamer = Streamer::new(StreamerSpec::default());
        let found = fetched(&mut streamer, &[70, 69, 68, 67, 66, 67, 68]);
        let expected: [&[u64]; 7] = [&[], &[], &[67, 66], &[65, 64], &[], &[], &[69, 70]];
        assert_eq!(found, expected);
    }

    /// Two alternating pages are two streams; in a table of one each evicts the other.
    #[test]
    fn each_page_has_its_stream() {
        let lines = [0, 64, 1, 65, 2, 66];
        let two = fetched(&mut Streamer::new(StreamerSpec::default()), &lines);
        let expected: [&[u64]; 6] = [&[], &[], &[], &[], &[3, 4], &[67, 68]];
        assert_eq!(two, expected);
        let spec = StreamerSpec {
            streams: 1,
            ..StreamerSpec::default()
        };
        let one = fetched(&mut Streamer::new(spec), &lines);
        assert_eq!(one, [[0_u64; 0]; 6]);
    }
}
