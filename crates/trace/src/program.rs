//! The source-level meaning of a program's addresses.

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian};
use object::{Object, ObjectSection};
use riscv::elf::{Image, printable};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

type Reader = EndianRcSlice<LittleEndian>;

/// The source location of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The function and, if the program has debug information, the functions inlined there,
    /// innermost last.
    pub functions: Vec<String>,
    /// File and line, as in `echo.c:12`, if the program has debug information.
    pub line: Option<String>,
}

/// A program that several probes use.
pub type SharedProgram = Rc<RefCell<Program>>;

/// A program's symbols and debug information.
pub struct Program {
    image: Image,
    lines: Option<Context<Reader>>,
    /// The offset of the program's addresses from those in its file.
    moved_by: u64,
    places: HashMap<u64, Rc<Place>>,
}

impl Program {
    /// `image` is the loaded part of the ELF file `bytes`. If debug information is missing or
    /// unreadable, there are only functions.
    pub fn new(image: &Image, bytes: &[u8]) -> Program {
        Program {
            image: image.clone(),
            lines: debug_information(bytes),
            moved_by: object::File::parse(bytes)
                .map_or(0, |file| image.entry.wrapping_sub(file.entry())),
            places: HashMap::new(),
        }
    }

    /// The same, for several probes.
    pub fn shared(image: &Image, bytes: &[u8]) -> SharedProgram {
        Rc::new(RefCell::new(Program::new(image, bytes)))
    }

    /// The location of `pc`.
    pub fn place(&mut self, pc: u64) -> Rc<Place> {
        if let Some(place) = self.places.get(&pc) {
            return place.clone();
        }
        let place = Rc::new(self.look_up(pc));
        self.places.insert(pc, place.clone());
        place
    }

    fn look_up(&self, pc: u64) -> Place {
        let function = match self.image.function_at(pc) {
            Some((name, _)) => rustc_demangled(name),
            None => format!("{pc:#x}"),
        };
        let mut functions = vec![function];
        let mut line = None;
        let frames = self
            .lines
            .as_ref()
            .map(|lines| lines.find_frames(pc.wrapping_sub(self.moved_by)));
        if let Some(Ok(mut frames)) = frames.map(addr2line::LookupResult::skip_all_loads) {
            let mut inner = Vec::new();
            while let Ok(Some(frame)) = frames.next() {
                if line.is_none()
                    && let Some(location) = frame.location
                    && let (Some(file), Some(number)) = (location.file, location.line)
                {
                    let name = file.rsplit('/').next().unwrap_or(file);
                    line = Some(format!("{}:{number}", printable(name.as_bytes())));
                }
                let name = frame.function.as_ref().map(|name| name.demangle());
                inner.push(match name {
                    Some(Ok(name)) => printable(name.as_bytes()),
                    _ => "?".to_string(),
                });
            }
            // The outermost one is the function itself.
            inner.pop();
            functions.extend(inner.into_iter().rev());
        }
        Place { functions, line }
    }
}

fn rustc_demangled(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

fn debug_information(bytes: &[u8]) -> Option<Context<Reader>> {
    let file = object::File::parse(bytes).ok()?;
    let section = |id: gimli::SectionId| -> Result<Reader, gimli::Error> {
        let data = file
            .section_by_name(id.name())
            .and_then(|section| section.data().ok())
            .unwrap_or_default();
        Ok(EndianRcSlice::new(data.into(), LittleEndian))
    };
    file.section_by_name(".debug_info")?;
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}
