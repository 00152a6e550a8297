//! The memory image.

use crate::address::AlignedLine;
use crate::{AddressRange, LINE_BYTES, LineAddress, LineData};
use spec::SpecError;
use state::{State, Walker};
use std::cmp::Reverse;
use std::sync::Arc;

const PAGE_LINES: usize = 64;
type Page = [AlignedLine; PAGE_LINES];

/// Number of pages in a table.
const TABLE_PAGES: usize = 512;
/// `None` is a page of zeros that has never been written.
type Table = [Option<Box<Page>>; TABLE_PAGES];

#[derive(Clone, Debug, state::State)]
#[state(fields)]
struct Region {
    #[state(fixed)]
    first_line: u64,
    #[state(fixed)]
    lines: u64,
    /// Tables without written pages are absent: large memories have mostly such tables, and freeing
    /// or saving them would take time.
    #[state(fixed)]
    tables: Vec<Option<Box<Table>>>,
}

impl Region {
    fn new(first_line: u64, lines: u64) -> Region {
        let tables = lines.div_ceil((TABLE_PAGES * PAGE_LINES) as u64);
        Region {
            first_line,
            lines,
            tables: vec![None; tables as usize],
        }
    }

    #[inline]
    fn page(&self, place: usize) -> Option<&Page> {
        let table = self.tables[place / TABLE_PAGES].as_deref()?;
        table[place % TABLE_PAGES].as_deref()
    }

    /// Copies the lines of the image into pages that have been written.
    fn overwrite(&mut self, image: &Image) {
        for place in self.places(|_| true) {
            let first = self.first_line + (place * PAGE_LINES) as u64;
            let lines = self.page_mut(place).into_iter().flatten();
            for (line, own) in (first..).map(LineAddress).zip(lines) {
                own.0 = image.line(line).unwrap_or(own.0);
            }
        }
    }

    #[inline]
    fn page_mut(&mut self, place: usize) -> Option<&mut Page> {
        let table = self.tables[place / TABLE_PAGES].as_deref_mut()?;
        table[place % TABLE_PAGES].as_deref_mut()
    }

    /// Adds a page of zeros, unless the host has no memory left for it.
    #[cold]
    fn add_page(&mut self, place: usize) -> Option<&mut Page> {
        let page = boxed(AlignedLine::ZERO)?;
        let table = &mut self.tables[place / TABLE_PAGES];
        if table.is_none() {
            *table = Some(boxed(None)?);
        }
        Some(table.as_mut()?[place % TABLE_PAGES].insert(page))
    }

    /// Drops the pages for whose addresses `keep` is false, and returns the number left.
    fn retain(&mut self, keep: impl Fn(u64) -> bool) -> u64 {
        let mut left = 0;
        let first = LineAddress(self.first_line).base();
        let page_bytes = (PAGE_LINES * LINE_BYTES) as u64;
        for (number, table) in self.tables.iter_mut().enumerate() {
            for (place, page) in table
                .iter_mut()
                .flat_map(|table| table.iter_mut().enumerate())
            {
                let place = (number * TABLE_PAGES + place) as u64;
                page.take_if(|_| !keep(first + place * page_bytes));
                left += u64::from(page.is_some());
            }
        }
        left
    }

    /// The places of the present pages that are `wanted`, in order.
    fn places(&self, wanted: impl Fn(&Page) -> bool) -> Vec<usize> {
        let tables = self.tables.iter().enumerate();
        let tables = tables.filter_map(|(number, table)| Some((number, table.as_deref()?)));
        let pages = tables.flat_map(|(number, table)| {
            let pages = table.iter().enumerate();
            pages.map(move |(place, page)| (number * TABLE_PAGES + place, page.as_deref()))
        });
        let wanted = pages.filter(|(_, page)| page.is_some_and(&wanted));
        wanted.map(|(place, _)| place).collect()
    }
}

/// Only nonzero contents are walked.
impl State for Region {
    fn walk(&mut self, walker: &mut dyn Walker) {
        self.walk_fields(walker);
        let mut written = self.places(|page| !is_zero(page));
        written.walk(walker);
        if walker.is_restoring() {
            self.tables.fill(None);
        }
        for place in written {
            if place as u64 >= self.lines.div_ceil(PAGE_LINES as u64) {
                walker.refuse(format!("there is no page {place} of memory"));
                return;
            }
            let page = match self.page_mut(place) {
                Some(_) => self.page_mut(place),
                None => self.add_page(place),
            };
            let Some(page) = page else {
                walker.refuse("the host has no memory left for the server's".to_string());
                return;
            };
            page.walk(walker);
        }
    }
}

/// `N` copies of `value`, if the host has memory for them.
fn boxed<T: Clone, const N: usize>(value: T) -> Option<Box<[T; N]>> {
    let mut values = Vec::new();
    values.try_reserve_exact(N).ok()?;
    values.resize(N, value);
    values.into_boxed_slice().try_into().ok()
}

fn is_zero(page: &Page) -> bool {
    page.iter().all(|line| line.0 == LineData::ZERO)
}

/// Bytes of a page of an [`Image`].
const IMAGE_PAGE_BYTES: u64 = 4096;

/// Initial contents of memory, shared by any number of servers: each has its own copies of the
/// pages that it writes, and reads the others here.
#[derive(Debug, Default)]
pub struct Image {
    pages: Vec<Option<Box<[u8; IMAGE_PAGE_BYTES as usize]>>>,
}

impl Image {
    /// An image of these pages, which are indexed by their address divided by their size.
    pub fn new(pages: Vec<Option<Box<[u8; IMAGE_PAGE_BYTES as usize]>>>) -> Image {
        Image { pages }
    }

    /// Bytes that it takes on the host.
    pub fn bytes(&self) -> usize {
        self.pages.iter().flatten().count() * IMAGE_PAGE_BYTES as usize
    }

    /// The content of a line, if the image has the line's page.
    fn line(&self, line: LineAddress) -> Option<LineData> {
        let address = line.base();
        let page = self.pages.get((address / IMAGE_PAGE_BYTES) as usize)?;
        let (lines, _) = page.as_deref()?.as_chunks();
        let place = address % IMAGE_PAGE_BYTES / LINE_BYTES as u64;
        Some(LineData(lines[place as usize]))
    }
}

/// A checkpoint contains all nonzero memory, whatever its origin.
impl State for Ram {
    fn walk(&mut self, walker: &mut dyn Walker) {
        if walker.is_restoring() {
            self.image = None;
        } else {
            self.copy_image();
        }
        self.walk_fields(walker);
    }
}

/// The bytes of memory: zero until written, and taking memory of the host only from then on.
///
/// It contains the data of the last-level cache and of the memory behind it; a private cache that
/// owns a line may have newer data.
#[derive(Clone, Debug, Default, state::State)]
#[state(fields)]
pub struct Ram {
    /// The largest first, because it is accessed most; the others by address.
    #[state(slice)]
    regions: Vec<Region>,
    /// The contents of pages that have not been written.
    #[state(fixed)]
    image: Option<Arc<Image>>,
    #[state(fixed)]
    ranges: Vec<AddressRange>,
    /// The ranges that belong to the second socket, the largest first.
    #[state(fixed)]
    second_socket: Vec<AddressRange>,
    /// Number of pages that have been written, without those of a checkpoint.
    #[state(fixed)]
    touched_pages: u64,
    #[state(fixed)]
    host_is_full: bool,
}

impl Ram {
    /// Memory at `ranges`, each of whole lines.
    pub fn new(ranges: Vec<AddressRange>) -> Result<Ram, SpecError> {
        let line = LINE_BYTES as u64;
        for (index, range) in ranges.iter().enumerate() {
            let found = format!("{:#x} bytes at {:#x}", range.length, range.start);
            let error = |accepted: &str| Err(SpecError::new("memory range", &found, accepted));
            if range.length == 0
                || !range.start.is_multiple_of(line)
                || !range.length.is_multiple_of(line)
            {
                return error("start and length must be multiples of 64, and the length not zero");
            }
            // 2^48 bytes would already need a gigabyte of tables on the host.
            if range.length > 1 << 44 || range.start.checked_add(range.length).is_none() {
                return error("it must be 16 TiB or smaller and end below 2^64");
            }
            if ranges[..index].iter().any(|other| overlap(range, other)) {
                return error("memory ranges must not overlap");
            }
        }
        let mut regions: Vec<Region> = ranges
            .iter()
            .map(|range| Region::new(range.start / line, range.length / line))
            .collect();
        regions.sort_by_key(|region| Reverse(region.lines));
        if let Some((_, others)) = regions.split_first_mut() {
            others.sort_by_key(|region| region.first_line);
        }
        Ok(Ram {
            regions,
            ranges,
            ..Ram::default()
        })
    }

    /// The same memory, with the lines that begin in `ranges` belonging to the second of two
    /// sockets.
    pub fn with_second_socket(self, mut ranges: Vec<AddressRange>) -> Ram {
        ranges.sort_by_key(|range| Reverse(range.length));
        Ram {
            second_socket: ranges,
            ..self
        }
    }

    /// Gives memory the contents of `image` wherever that has pages.
    pub fn begin_with(&mut self, image: Arc<Image>) {
        for region in &mut self.regions {
            region.overwrite(&image);
        }
        self.image = Some(image);
    }

    /// Copies the whole image into its own pages.
    fn copy_image(&mut self) {
        let Some(image) = self.image.clone() else {
            return;
        };
        for (number, page) in (0..).zip(&image.pages) {
            let lines = page
                .as_ref()
                .map_or(0, |_| IMAGE_PAGE_BYTES / LINE_BYTES as u64);
            let first = LineAddress::of(number * IMAGE_PAGE_BYTES).0;
            for line in (first..first + lines).map(LineAddress) {
                if let Some((region, offset)) = self.place(line)
                    && self.regions[region].page(offset / PAGE_LINES).is_none()
                {
                    self.own_page(region, offset / PAGE_LINES);
                }
            }
        }
        self.image = None;
    }

    /// Adds a page with the image's contents, unless the host has no memory left.
    fn own_page(&mut self, region: usize, place: usize) -> Option<&mut Page> {
        let first = self.regions[region].first_line + (place * PAGE_LINES) as u64;
        let Some(page) = self.regions[region].add_page(place) else {
            self.host_is_full = true;
            return None;
        };
        self.touched_pages += 1;
        if let Some(image) = &self.image {
            for (line, own) in (first..).map(LineAddress).zip(page.iter_mut()) {
                own.0 = image.line(line).unwrap_or(LineData::ZERO);
            }
        }
        Some(page)
    }

    /// The socket that `line` belongs to: 0 or 1.
    #[inline]
    pub fn socket_of(&self, line: LineAddress) -> usize {
        let second = &self.second_socket;
        usize::from(second.iter().any(|range| range.contains(line.base())))
    }

    /// The ranges of memory.
    pub fn ranges(&self) -> &[AddressRange] {
        &self.ranges
    }

    #[inline]
    fn place(&self, line: LineAddress) -> Option<(usize, usize)> {
        let (largest, others) = self.regions.split_first()?;
        let offset = line.0.wrapping_sub(largest.first_line);
        if offset < largest.lines {
            return Some((0, offset as usize));
        }
        // The last region that does not begin after the line.
        let index = others.partition_point(|region| region.first_line <= line.0);
        self.place_in(index, line)
    }

    #[inline]
    fn place_in(&self, index: usize, line: LineAddress) -> Option<(usize, usize)> {
        let region = self.regions.get(index)?;
        let offset = line.0.wrapping_sub(region.first_line);
        (offset < region.lines).then_some((index, offset as usize))
    }

    /// Whether `line` is memory.
    #[inline]
    pub fn contains(&self, line: LineAddress) -> bool {
        self.place(line).is_some()
    }

    /// The content of `line`; zeros if there is no memory.
    #[inline]
    pub fn read_line(&self, line: LineAddress) -> LineData {
        self.place(line)
            .and_then(
                |(region, offset)| match self.regions[region].page(offset / PAGE_LINES) {
                    Some(page) => Some(page[offset % PAGE_LINES].0),
                    None => self.image.as_ref()?.line(line),
                },
            )
            .unwrap_or(LineData::ZERO)
    }

    /// Replaces the content of `line`; has no effect if there is no memory.
    #[inline]
    pub fn write_line(&mut self, line: LineAddress, data: &LineData) {
        if let Some((region, offset)) = self.place(line) {
            match self.regions[region].page_mut(offset / PAGE_LINES) {
                Some(page) => page[offset % PAGE_LINES].0 = *data,
                None => self.write_new_page(region, offset, data),
            }
        }
    }

    #[cold]
    fn write_new_page(&mut self, region: usize, offset: usize, data: &LineData) {
        if let Some(page) = self.own_page(region, offset / PAGE_LINES) {
            page[offset % PAGE_LINES].0 = *data;
        }
    }

    /// Whether more than `limit` pages of 4 KiB have been written, or the host had no memory for
    /// one and its writes were lost.
    #[inline]
    pub fn is_beyond(&self, limit: u64) -> bool {
        self.touched_pages > limit || self.host_is_full
    }

    /// Whether the host had no memory for a page.
    pub fn host_is_full(&self) -> bool {
        self.host_is_full
    }

    /// Discards the pages for whose addresses `keep` is false: they are zero again.
    pub fn retain(&mut self, keep: impl Fn(u64) -> bool) {
        let regions = self.regions.iter_mut();
        self.touched_pages = regions.map(|region| region.retain(&keep)).sum();
    }

    fn check(&self, what: &str, address: u64, length: usize) -> Result<(), SpecError> {
        let whole = self.ranges.iter().any(|range| {
            range.contains(address) && length as u64 <= range.length - (address - range.start)
        });
        if whole || length == 0 {
            return Ok(());
        }
        let ranges: Vec<String> = self
            .ranges
            .iter()
            .map(|range| format!("{:#x} to {:#x}", range.start, range.end() - 1))
            .collect();
        Err(SpecError::new(
            format!("{what} of memory"),
            format!("{length} bytes at {address:#x}"),
            format!("memory is at {}", ranges.join(", ")),
        ))
    }

    /// Writes `bytes` at `address`, as if before the machine starts.
    pub fn load(&mut self, address: u64, bytes: &[u8]) -> Result<(), SpecError> {
        self.check("load", address, bytes.len())?;
        let mut address = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = address as usize % LINE_BYTES;
            let (now, later) = rest.split_at(rest.len().min(LINE_BYTES - offset));
            let line = LineAddress::of(address);
            let mut data = self.read_line(line);
            data.0[offset..offset + now.len()].copy_from_slice(now);
            self.write_line(line, &data);
            address = address.wrapping_add(now.len() as u64);
            rest = later;
        }
        Ok(())
    }

    /// Reads `bytes.len()` bytes at `address`.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), SpecError> {
        self.check("read", address, bytes.len())?;
        let mut address = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = address as usize % LINE_BYTES;
            let length = rest.len().min(LINE_BYTES - offset);
            let data = self.read_line(LineAddress::of(address));
            rest[..length].copy_from_slice(&data.0[offset..offset + length]);
            address = address.wrapping_add(length as u64);
            rest = &mut rest[length..];
        }
        Ok(())
    }
}

/// Whether two ranges have an address in common.
pub(crate) fn overlap(one: &AddressRange, other: &AddressRange) -> bool {
    one.length > 0 && other.length > 0 && (one.contains(other.start) || other.contains(one.start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, length: u64) -> AddressRange {
        AddressRange { start, length }
    }

    #[test]
    fn bytes_come_back_across_lines_and_pages() {
        let mut ram = Ram::new(vec![range(0x1000, 0x3000), range(0x8000_0000, 0x1_0000)]).unwrap();
        let bytes: Vec<u8> = (0..9000).map(|index| (index % 251) as u8).collect();
        ram.load(0x8000_0ff1, &bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        ram.read(0x8000_0ff1, &mut back).unwrap();
        assert_eq!(back, bytes);
        let mut before = [1; 1];
        ram.read(0x8000_0ff0, &mut before).unwrap();
        assert_eq!(before, [0]);
        assert!(ram.contains(LineAddress::of(0x1000)));
        assert!(!ram.contains(LineAddress::of(0xfff)));
        assert!(!ram.contains(LineAddress::of(0x4000)));
    }

    #[test]
    fn each_region_has_its_lines_and_nothing_is_between() {
        // The largest is in the middle, and the sizes of the others are not in order of address.
        let ranges = [
            range(0x1000, 0x80),
            range(0x2000, 0x40),
            range(0x3000, 0x1000),
            range(0x4000, 0xc0),
            range(0x6000, 0x40),
        ];
        let mut ram = Ram::new(ranges.to_vec()).unwrap();
        let lines = |range: &AddressRange| [range.start, range.end() - 64].map(LineAddress::of);
        let all = ranges.iter().flat_map(lines).chain([LineAddress(0)]);
        for line in all.clone() {
            let mut data = LineData::ZERO;
            data.write(0, 8, line.base());
            ram.write_line(line, &data);
        }
        for line in all {
            let is_memory = ranges.iter().any(|range| range.contains(line.base()));
            assert_eq!(ram.contains(line), is_memory);
            let expected = if is_memory { line.base() } else { 0 };
            assert_eq!(ram.read_line(line).read(0, 8), expected);
        }
        for outside in [
            0xfc0, 0x1080, 0x1fc0, 0x2040, 0x2fc0, 0x40c0, 0x5fc0, 0x6040,
        ] {
            assert!(!ram.contains(LineAddress::of(outside)), "{outside:#x}");
        }
        assert!(!Ram::default().contains(LineAddress(0)));
    }

    /// Two servers begin with the same image, one page of which ends inside a page of memory. Each
    /// keeps its own writes; earlier contents are overwritten where the image has pages.
    #[test]
    fn servers_share_an_image_and_write_pages_of_their_own() {
        let mut pages: Vec<Option<Box<[u8; 4096]>>> = vec![None; 5];
        pages[1] = Some(Box::new([1; 4096]));
        pages[2] = Some(Box::new([2; 4096]));
        let image = Arc::new(Image::new(pages));
        let memory = || Ram::new(vec![range(0x1040, 0x3000)]).unwrap();
        let word = |ram: &Ram, address| ram.read_line(LineAddress::of(address)).read(0, 8);
        let (ones, twos) = (0x0101_0101_0101_0101, 0x0202_0202_0202_0202);
        let (mut one, mut other) = (memory(), memory());
        one.load(0x1fc0, &[9; 0x100]).unwrap();
        one.load(0x3000, &[9; 8]).unwrap();
        one.begin_with(image.clone());
        other.begin_with(image);
        other.load(0x2000, &[7; 8]).unwrap();
        for (address, of_one, of_other) in [
            (0x1000, 0, 0),
            (0x1040, ones, ones),
            (0x1fc0, ones, ones),
            (0x2000, twos, 0x0707_0707_0707_0707),
            (0x2040, twos, twos),
            (0x3000, 0x0909_0909_0909_0909, 0),
        ] {
            assert_eq!(word(&one, address), of_one, "{address:#x}");
            assert_eq!(word(&other, address), of_other, "{address:#x}");
        }
        // A checkpoint contains everything; restoring it needs no image.
        let bytes = state::Writer::write(&mut other).unwrap();
        assert!(other.image.is_none());
        let mut restored = memory();
        restored.begin_with(Arc::new(Image::new(vec![Some(Box::new([5; 4096])); 5])));
        state::Reader::read(&mut restored, &bytes).unwrap();
        for address in (0x1040..0x4040).step_by(64) {
            assert_eq!(word(&restored, address), word(&other, address));
        }
        assert_eq!(word(&restored, 0x2fc0), twos);
    }

    #[test]
    fn pages_that_are_written_are_counted_until_they_are_dropped() {
        let mut ram = Ram::new(vec![range(0x1000, 0x3000), range(0x8000_0000, 1 << 30)]).unwrap();
        assert!(!ram.is_beyond(0));
        for address in [0x1000, 0x1fc0, 0x8000_0000, 0x8000_1000, 0xbfff_ffc0] {
            ram.load(address, &[1]).unwrap();
        }
        // The first two are in one page.
        assert!(ram.is_beyond(3) && !ram.is_beyond(4));
        ram.retain(|page| ![0x1000, 0x8000_1000].contains(&page));
        assert!(ram.is_beyond(1) && !ram.is_beyond(2));
        let found = [0x1000, 0x8000_0000, 0x8000_1000, 0xbfff_ffc0].map(|address| {
            let mut byte = [0; 1];
            ram.read(address, &mut byte).unwrap();
            byte[0]
        });
        assert_eq!(found, [0, 1, 0, 1]);
    }

    /// Holds for every order in which pages were written, and for every previous content of the
    /// restored memory.
    #[test]
    fn what_is_saved_is_what_is_not_zero() {
        let saved = |addresses: &[u64]| {
            let mut ram = Ram::new(vec![range(0x8000_0000, 1 << 34)]).unwrap();
            for &address in addresses {
                ram.load(address, &address.to_le_bytes()).unwrap();
            }
            ram.load(0x9000_0000, &[0; 64]).unwrap();
            let bytes = state::Writer::write(&mut ram).unwrap();
            (ram, bytes)
        };
        let (first, last) = (0x8000_0040, 0x8000_0000 + (1 << 34) - 64);
        let (_, bytes) = saved(&[first, last]);
        assert_eq!(bytes, saved(&[last, first]).1);
        let (mut other, _) = saved(&[0x8000_1000, last + 8]);
        state::Reader::read(&mut other, &bytes).unwrap();
        assert_eq!(state::Writer::write(&mut other).unwrap(), bytes);
        let content = |address| {
            let mut word = [0; 8];
            other.read(address, &mut word).unwrap();
            u64::from_le_bytes(word)
        };
        let found = [first, last, 0x8000_1000, last + 8].map(content);
        assert_eq!(found, [first, last, 0, 0]);
    }

    #[test]
    fn what_is_not_memory_gets_a_sentence() {
        let mut ram = Ram::new(vec![range(0x1000, 0x1000)]).unwrap();
        assert_eq!(
            ram.load(0x1fff, &[1, 2]).unwrap_err().to_string(),
            "load of memory is 2 bytes at 0x1fff; memory is at 0x1000 to 0x1fff"
        );
        assert!(Ram::new(vec![range(0, 0x1000), range(0xfc0, 64)]).is_err());
        assert!(Ram::new(vec![range(1, 0x1000)]).is_err());
        assert!(Ram::new(vec![range(0, 0)]).is_err());
    }
}
