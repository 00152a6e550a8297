//! Programs: their inputs, and checks.

use crate::error::RunError;
use crate::memory_map::MAIN_MEMORY;
use riscv::elf;

/// A program to execute, and its inputs.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Its ELF file.
    pub elf: Vec<u8>,
    /// Its path, which is its first argument.
    pub path: Vec<u8>,
    /// Its other arguments.
    pub arguments: Vec<Vec<u8>>,
    /// Its environment, as `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// The files that it can reach.
    pub access: linux::Access,
}

impl Program {
    /// The arguments of its `main()`: its path, and its other arguments.
    pub(crate) fn given(&self) -> Vec<Vec<u8>> {
        let mut given = vec![self.path.clone()];
        given.extend_from_slice(&self.arguments);
        given
    }
}

/// Checks whether a bare-metal program can be run with its inputs.
pub(crate) fn check_given(image: &elf::Image, program: &Program) -> Result<(), RunError> {
    if image.tohost.is_none() {
        return Err(RunError::Program(format!(
            "the program has no symbol `tohost`, so that it could never end; bare-metal programs \
             are built with `nanoplane build`, and Linux programs begin below {:#x}",
            MAIN_MEMORY.start
        )));
    }
    if !program.environment.is_empty() {
        return Err(RunError::Program(
            "a bare-metal program has no environment: leave --env out".to_string(),
        ));
    }
    if program.access != linux::Access::default() {
        return Err(RunError::Program(
            "a bare-metal program has no files: leave --root, --read-only and --host-files out"
                .to_string(),
        ));
    }
    check_bare_metal(image)
}

/// A program of either kind.
pub(crate) fn load(program: &[u8]) -> Result<elf::Image, RunError> {
    elf::load(program).map_err(|error| {
        RunError::Program(format!(
            "the program is no ELF file that can be run: {error}"
        ))
    })
}

/// Checks whether a program can run without an operating system.
pub(crate) fn check_bare_metal(image: &elf::Image) -> Result<(), RunError> {
    if image.headers.position_independent {
        return Err(RunError::Program(
            "the program is position-independent, and nobody moves a bare-metal program to its \
             place: link it with -no-pie"
                .to_string(),
        ));
    }
    Ok(())
}

/// A program's output, as a suffix of a sentence.
pub(crate) fn said(output: &str) -> String {
    let lines: Vec<String> = output
        .trim()
        .lines()
        .map(|line| elf::printable(line.as_bytes()))
        .collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("; it said: {}", lines.join("\n")),
    }
}
