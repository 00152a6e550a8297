//! The passage of instructions through a core, in the format of the viewer Konata ("Kanata log file
//! format", version 4).

use fabric::Source;
use pipeline::{Executed, Found, Probe};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::ops::Range;

/// One line of the log, with its cycle and its position among the lines of that cycle.
type Line = Reverse<(u64, u64, String)>;

/// Writes the log of one core, as a probe.
///
/// Each instruction has the stages F (front end), Ds (in the scheduler), Ex (from issue to result)
/// and Cm (waiting to commit). Squashed instructions end flushed.
pub struct PipelineLog<W: Write> {
    out: W,
    /// The cycles whose dispatched instructions are shown; ordered and disjoint.
    windows: Vec<Range<u64>>,
    front_end_cycles: u64,
    /// Lines before which others may still be inserted.
    pending: BinaryHeap<Line>,
    lines: u64,
    shown: u64,
    retired: u64,
    /// The cycle of the last written line, if any.
    cycle: Option<u64>,
    error: Option<io::Error>,
}

impl<W: Write> PipelineLog<W> {
    /// A log of the instructions that are dispatched in the cycles of `windows`, which are ordered
    /// and disjoint, by a core with `front_end_cycles` before dispatch.
    pub fn new(mut out: W, windows: Vec<Range<u64>>, front_end_cycles: u8) -> PipelineLog<W> {
        let error = out.write_all(b"Kanata\t0004\n").err();
        PipelineLog {
            out,
            windows,
            front_end_cycles: front_end_cycles.into(),
            pending: BinaryHeap::new(),
            lines: 0,
            shown: 0,
            retired: 0,
            cycle: None,
            error,
        }
    }

    /// Number of instructions in the log, including squashed ones.
    pub fn instructions(&self) -> u64 {
        self.shown
    }

    /// Writes the remaining lines.
    pub fn finish(&mut self) -> io::Result<()> {
        self.write_before(u64::MAX);
        match self.error.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    fn line(&mut self, cycle: u64, text: String) {
        self.pending.push(Reverse((cycle, self.lines, text)));
        self.lines += 1;
    }

    fn write_before(&mut self, cycle: u64) {
        while let Some(Reverse((at, ..))) = self.pending.peek()
            && *at < cycle
        {
            if let Some(Reverse((at, _, text))) = self.pending.pop() {
                self.write(at, &text);
            }
        }
    }

    fn write(&mut self, at: u64, text: &str) {
        if self.error.is_some() {
            return;
        }
        let moved = match self.cycle {
            None => writeln!(self.out, "C=\t{at}"),
            Some(before) if before < at => writeln!(self.out, "C\t{}", at - before),
            Some(_) => Ok(()),
        };
        self.cycle = Some(at);
        self.error = moved.and_then(|()| writeln!(self.out, "{text}")).err();
    }

    fn shows(&self, cycle: u64) -> bool {
        let next = self.windows.partition_point(|window| window.end <= cycle);
        let window = self.windows.get(next);
        window.is_some_and(|window| window.contains(&cycle))
    }

    fn show(&mut self, executed: &Executed) {
        let number = self.shown;
        self.shown += 1;
        let fetched = executed.dispatched.saturating_sub(self.front_end_cycles);
        self.line(fetched, format!("I\t{number}\t{number}\t0"));
        let text = executed.text();
        let pc = executed.pc;
        self.line(fetched, format!("L\t{number}\t0\t{pc:x}: {text}"));
        if let Some(details) = details(executed) {
            self.line(fetched, format!("L\t{number}\t1\t{details}"));
        }
        // A stage that a squashed instruction had not reached is not shown.
        let ended = executed.ended;
        let stages = [
            ("F", Some(fetched)),
            ("Ds", Some(executed.dispatched)),
            ("Ex", executed.issued),
            ("Cm", executed.completed),
        ];
        for (stage, begins) in stages {
            if let Some(begins) = begins.filter(|&begins| begins < ended) {
                self.line(begins, format!("S\t{number}\t0\t{stage}"));
            }
        }
        let flushed = u8::from(executed.undone);
        self.line(ended, format!("R\t{number}\t{}\t{flushed}", self.retired));
        self.retired += u64::from(!executed.undone);
    }
}

fn details(executed: &Executed) -> Option<String> {
    let mut words = Vec::new();
    words.extend(executed.value.map(|value| format!("result {value:#x}")));
    words.extend(executed.address.map(|address| format!("at {address:#x}")));
    words.extend(executed.found.map(|found| {
        let place = match found {
            Found::DataCache => "the data cache",
            Found::Store => "an older store",
            Found::Line(source) | Found::Awaited(source) => place(source),
        };
        format!("found in {place}")
    }));
    (!words.is_empty()).then(|| words.join(", "))
}

/// The source of a line, in words.
pub(crate) fn place(source: Source) -> &'static str {
    match source {
        Source::SecondLevel => "the second-level cache",
        Source::LastLevel => "the last-level cache",
        Source::Cache => "another cache",
        Source::Memory => "memory",
    }
}

impl<W: Write> Probe for PipelineLog<W> {
    fn executed(&mut self, executed: &Executed) {
        if self.shows(executed.dispatched) && self.error.is_none() {
            self.show(executed);
        }
        if !executed.undone {
            // All later instructions are dispatched later.
            self.write_before(executed.dispatched.saturating_sub(self.front_end_cycles));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executed(pc: u64, dispatched: u64) -> Executed {
        Executed {
            dispatched,
            issued: Some(dispatched + 1),
            completed: Some(dispatched + 2),
            ended: dispatched + 3,
            value: Some(7),
            ..Executed::committed(pc, riscv::decode(0x0015_0513)) // addi a0, a0, 1
        }
    }

    fn log(windows: Vec<Range<u64>>, all: &[Executed]) -> String {
        let mut text = Vec::new();
        let mut log = PipelineLog::new(&mut text, windows, 2);
        for executed in all {
            log.executed(executed);
        }
        log.finish().expect("memory can be written");
        String::from_utf8(text).expect("the log is text")
    }

    fn everything() -> Vec<Range<u64>> {
        let always = 0..u64::MAX;
        vec![always]
    }

    #[test]
    fn stages_begin_where_the_core_says() {
        // Fetched two cycles before its dispatch in cycle 12.
        let text = log(everything(), &[executed(0x8000_0000, 12)]);
        let expected = "Kanata\t0004\nC=\t10\nI\t0\t0\t0\n\
             L\t0\t0\t80000000: addi a0, a0, 1\nL\t0\t1\tresult 0x7\nS\t0\t0\tF\n\
             C\t2\nS\t0\t0\tDs\nC\t1\nS\t0\t0\tEx\nC\t1\nS\t0\t0\tCm\nC\t1\nR\t0\t0\t0\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_was_undone_is_flushed_and_takes_no_number_of_the_retired() {
        let undone = Executed {
            undone: true,
            issued: None,
            completed: None,
            ended: 13,
            ..executed(4, 12)
        };
        let text = log(everything(), &[undone, executed(8, 13)]);
        assert!(text.contains("\nR\t0\t0\t1\n"), "{text}");
        assert!(text.contains("\nR\t1\t0\t0\n"), "{text}");
        assert!(!text.contains("S\t0\t0\tEx"), "{text}");
    }

    #[test]
    fn lines_are_in_the_order_of_their_cycles() {
        // The first instruction waits long for its result; the second is on a wrong path meanwhile
        // and is reported first.
        let slow = Executed {
            completed: Some(60),
            ended: 61,
            ..executed(0, 10)
        };
        let undone = Executed {
            undone: true,
            ended: 40,
            ..executed(4, 11)
        };
        let text = log(everything(), &[undone, slow, executed(8, 50)]);
        let retired: Vec<&str> = text.lines().filter(|line| line.starts_with('R')).collect();
        assert_eq!(retired, ["R\t0\t0\t1", "R\t2\t1\t0", "R\t1\t0\t0"]);
        assert!(!text.contains("C\t-"), "{text}");
    }

    #[test]
    fn what_is_undone_before_an_older_instruction_ends_does_not_end_a_cycle() {
        // A branch that is dispatched in cycle 50 ends after those that it has mispredicted.
        let undone = |pc, dispatched| Executed {
            undone: true,
            ended: 62,
            ..executed(pc, dispatched)
        };
        let text = log(
            everything(),
            &[undone(4, 55), undone(8, 59), executed(0, 50)],
        );
        let begun: Vec<&str> = text.lines().filter(|line| line.starts_with('I')).collect();
        assert_eq!(begun, ["I\t2\t2\t0", "I\t0\t0\t0", "I\t1\t1\t0"]);
        assert!(text.starts_with("Kanata\t0004\nC=\t48\n"), "{text}");
    }

    #[test]
    fn only_what_is_dispatched_in_a_window_is_shown() {
        let all: Vec<Executed> = (0..100).map(|cycle| executed(cycle * 4, cycle)).collect();
        let text = log(vec![10..12, 50..51], &all);
        let shown = text.lines().filter(|line| line.starts_with('I')).count();
        assert_eq!(shown, 3);
    }
}
