//! `execve`: a process executes another program.

use crate::errno::Errno;
use crate::files::AT_FDCWD;
use crate::kernel::{Call, Effect, Kernel};
use crate::load::{LoadError, MAXIMUM_ARGUMENT_BYTES, Start, build};
use crate::process::name_of;
use crate::stub::{self, Answer};
use crate::user::Outcome;
use std::cell::RefCell;
use std::rc::Rc;

/// A script's interpreter may be a script in turn; Linux's `BINPRM_MAX_RECURSION` limits the depth.
const MAX_INTERPRETERS: usize = 4;
/// The longest first line of a script: Linux's `BINPRM_BUF_SIZE`.
pub(crate) const SCRIPT_LINE_BYTES: usize = 256;
/// The magic number at the start of an executable file.
pub(crate) const ELF: &[u8] = b"\x7fELF";

impl Kernel {
    /// `execveat`: the directory of the path, the path, arguments and environment, flags.
    pub fn execve(
        &mut self,
        slot: usize,
        call: &mut Call,
        directory: u64,
        [path, arguments, environment]: [u64; 3],
        flags: u64,
    ) -> Outcome {
        let path = call.user.string(path)?;
        let mut room = MAXIMUM_ARGUMENT_BYTES;
        let mut arguments = strings(call, arguments, &mut room)?;
        let environment = strings(call, environment, &mut room)?;
        let mut file = self.open_program(directory, &path, flags)?;
        let mut name = path;
        for depth in 0.. {
            let Some(line) = file.bytes.strip_prefix(b"#!") else {
                break;
            };
            if depth == MAX_INTERPRETERS {
                return Err(Errno::LOOP.into());
            }
            let (interpreter, option) = interpreter(line).ok_or(Errno::NOEXEC)?;
            if !arguments.is_empty() {
                arguments.remove(0);
            }
            let before = [interpreter.clone()]
                .into_iter()
                .chain(option)
                .chain([name]);
            arguments.splice(0..0, before);
            file = self.open_program(AT_FDCWD as u64, &interpreter, 0)?;
            name = interpreter;
        }
        if !file.bytes.starts_with(ELF) {
            return Err(Errno::NOEXEC.into());
        }
        let image = riscv::elf::load(&file.bytes).map_err(|error| {
            self.tell_once(format!(
                "{} cannot be executed: {error}; the call returns ENOEXEC",
                String::from_utf8_lossy(&name)
            ));
            Errno::NOEXEC
        })?;
        let random = self.random_bytes(16);
        let start = Start {
            arguments: &arguments,
            environment: &environment,
            path: &name,
            random: &random,
        };
        let mut program = build(image, &start, &self.frames).map_err(|error| {
            if matches!(error, LoadError::TooManyArguments { .. }) {
                return Errno::TOOBIG;
            }
            self.tell_once(format!(
                "{} cannot be executed: {error}; the call returns ENOMEM",
                String::from_utf8_lossy(&name)
            ));
            Errno::NOMEM
        })?;

        // From here on, the call can no longer fail.
        call.jobs.append(&mut program.space.jobs());
        for write in program.contents {
            call.user.write_physical(write);
        }
        call.user
            .write_saved(stub::save_area(slot), program.registers);
        let space = Rc::new(RefCell::new(program.space));
        self.kill_others(slot);
        self.give_memory_back();
        self.thread(slot).space = space.clone();
        self.thread(slot).signal_stack = crate::threads::NO_STACK;
        self.thread(slot).clear_at_end = 0;
        // A thread other than the first takes the first one's place.
        self.thread(slot).id = self.process.id;
        self.process.space = space;
        self.process.name = name_of(name.rsplit(|&byte| byte == b'/').next().unwrap_or_default());
        for action in &mut self.process.actions {
            const SIG_IGNORE: u64 = 1;
            let ignores = action[0] == SIG_IGNORE;
            *action = [u64::from(ignores), 0, 0];
        }
        self.process.files.executes(file.place);
        self.changed = true;
        self.effects.push(Effect::Executed(slot));
        Ok(Answer::RELOAD)
    }
}

/// The strings whose addresses are in a zero-terminated array. The strings and addresses are
/// charged against `room`.
fn strings(call: &mut Call, array: u64, room: &mut u64) -> Outcome<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    if array == 0 {
        return Ok(found);
    }
    loop {
        let [at] = call
            .user
            .words(array.wrapping_add(8 * found.len() as u64))?;
        if at == 0 {
            return Ok(found);
        }
        let string = call.user.long_string(at)?;
        let left = room.checked_sub(string.len() as u64 + 9);
        *room = left.ok_or(Errno::TOOBIG)?;
        found.push(string);
    }
}

/// The interpreter that the first line of a script names after `#!`, and its optional argument.
fn interpreter(script: &[u8]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let line = script.split(|&byte| byte == b'\n').next()?;
    let line = line.get(..SCRIPT_LINE_BYTES).unwrap_or(line).trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace);
    let (path, rest) = line.split_at(end.unwrap_or(line.len()));
    let option = rest.trim_ascii();
    let option = (!option.is_empty()).then(|| option.to_vec());
    (!path.is_empty()).then(|| (path.to_vec(), option))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter_and_one_argument() {
        let of = |line: &str| {
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
            interpreter(line.as_bytes()).map(|(path, option)| (text(path), option.map(text)))
        };
        assert_eq!(of("/bin/sh\necho"), Some(("/bin/sh".into(), None)));
        assert_eq!(
            of(" /usr/bin/env  -S a b \n"),
            Some(("/usr/bin/env".into(), Some("-S a b".into())))
        );
        assert_eq!(of("\n/bin/sh"), None);
    }
}
