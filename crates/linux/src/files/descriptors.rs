//! Calls on descriptors, and on files that have only a descriptor.

use super::{HostFile, Kind, MAXIMUM_FILES, O_APPEND, O_CLOEXEC, O_NONBLOCK, O_RDWR, O_WRONLY};
use crate::errno::Errno;
use crate::kernel::{Call, Kernel};
use crate::streams::stream;
use crate::user::Outcome;
use rustix::fs;

impl Kernel {
    pub fn close(&mut self, fd: u64) -> Outcome {
        let entry = self.process.files.table.get_mut(fd as u32 as usize);
        entry.and_then(Option::take).ok_or(Errno::BADF)?;
        self.changed = true;
        Ok(0)
    }

    pub fn close_range(&mut self, first: u64, last: u64, flags: u64) -> Outcome {
        const CLOSE_ON_EXEC: u64 = 4;
        let end = (last as u32 as usize).saturating_add(1);
        for fd in first as u32 as usize..end.min(self.process.files.table.len()) {
            if flags & CLOSE_ON_EXEC != 0 {
                if let Some(entry) = &mut self.process.files.table[fd] {
                    entry.close_on_exec = true;
                }
            } else if self.process.files.table[fd].is_some() {
                self.close(fd as u64)?;
            }
        }
        Ok(0)
    }

    pub fn dup3(&mut self, from: u64, to: u64, flags: u64) -> Outcome {
        let file = self.process.files.get(from)?;
        if from == to {
            return Err(Errno::INVAL.into());
        }
        if to as u32 as usize >= MAXIMUM_FILES {
            return Err(Errno::BADF.into());
        }
        if self.process.files.get(to).is_ok() {
            self.close(to)?;
        }
        Ok(self
            .process
            .files
            .put(file, to as usize, flags & O_CLOEXEC != 0)?)
    }

    pub fn fcntl(&mut self, fd: u64, command: u64, argument: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        match command {
            0 => self.process.files.duplicate(fd, argument, false),
            1030 => self.process.files.duplicate(fd, argument, true),
            1 | 2 => {
                let Some(Some(entry)) = self.process.files.table.get_mut(fd as u32 as usize) else {
                    return Err(Errno::BADF.into());
                };
                if command == 2 {
                    entry.close_on_exec = argument & 1 != 0;
                    return Ok(0);
                }
                Ok(u64::from(entry.close_on_exec))
            }
            3 => Ok(file.borrow().flags),
            4 => {
                const CHANGEABLE: u64 = O_APPEND | O_NONBLOCK;
                let mut file = file.borrow_mut();
                // The host's file may be the caller's terminal, whose mode must not change.
                file.flags = file.flags & !CHANGEABLE | argument & CHANGEABLE;
                Ok(0)
            }
            // Locks: no other process can hold any.
            5..=7 | 36..=38 => Ok(0),
            1031 | 1032 => Ok(crate::streams::PIPE_BYTES as u64),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn ioctl(&mut self, call: &mut Call, fd: u64, request: u64, address: u64) -> Outcome {
        const TCGETS: u64 = 0x5401;
        const TIOCGPGRP: u64 = 0x540f;
        const TIOCSPGRP: u64 = 0x5410;
        const TIOCGWINSZ: u64 = 0x5413;
        const FIONREAD: u64 = 0x541b;
        const FIONBIO: u64 = 0x5421;
        const FIONCLEX: u64 = 0x5450;
        const FIOCLEX: u64 = 0x5451;
        let file = self.process.files.get(fd)?;
        match request & 0xffff_ffff {
            FIOCLEX => return self.fcntl(fd, 2, 1),
            FIONCLEX => return self.fcntl(fd, 2, 0),
            FIONBIO => {
                let on = call.user.u32(address)? != 0;
                let mut file = file.borrow_mut();
                file.flags = file.flags & !O_NONBLOCK | if on { O_NONBLOCK } else { 0 };
                return Ok(0);
            }
            FIONREAD => {
                let available = match &file.borrow().kind {
                    Kind::PipeOut(end) => end.available(),
                    Kind::Socket(socket) => socket.available(),
                    _ => return Err(Errno::NOTTY.into()),
                };
                call.user.write_u32(address, available as u32)?;
                return Ok(0);
            }
            _ => {}
        }
        let file = file.borrow();
        let host = file.host().map_err(|_| Errno::NOTTY)?;
        if !rustix::termios::isatty(host) {
            return Err(Errno::NOTTY.into());
        }
        match request & 0xffff_ffff {
            TIOCGWINSZ => {
                let size = rustix::termios::tcgetwinsize(host)?;
                let fields = [size.ws_row, size.ws_col, size.ws_xpixel, size.ws_ypixel];
                let bytes = fields.iter().flat_map(|field| field.to_le_bytes());
                call.user.write(address, bytes.collect())?;
                Ok(0)
            }
            TCGETS => {
                let modes = rustix::termios::tcgetattr(host)?;
                let fields = [
                    modes.input_modes.bits(),
                    modes.output_modes.bits(),
                    modes.control_modes.bits(),
                    modes.local_modes.bits(),
                ];
                let mut bytes: Vec<u8> = fields
                    .iter()
                    .flat_map(|field| field.to_le_bytes())
                    .collect();
                bytes.resize(36, 0); // line discipline and special characters: none
                call.user.write(address, bytes)?;
                Ok(0)
            }
            TIOCGPGRP => {
                call.user.write_u32(address, self.process.group)?;
                Ok(0)
            }
            // The caller is always in the foreground.
            TIOCSPGRP => Ok(0),
            _ => Err(Errno::INVAL.into()),
        }
    }

    pub fn pipe(&mut self, call: &mut Call, address: u64, flags: u64) -> Outcome {
        call.user.check_write(address, 8)?;
        let (reader, writer) = stream();
        let flags = flags & (O_NONBLOCK | O_CLOEXEC);
        let reader = (Kind::PipeOut(reader), flags);
        let writer = (Kind::PipeIn(writer), flags | O_WRONLY);
        let (from, to) = self.process.files.add_pair(reader, writer)?;
        call.user.write_words(address, &[from | to << 32])?;
        Ok(0)
    }

    pub fn eventfd(&mut self, initial: u64, flags: u64) -> Outcome {
        const SEMAPHORE: u64 = 1;
        let kind = Kind::Event {
            count: initial as u32 as u64,
            semaphore: flags & SEMAPHORE != 0,
            changes: 0,
        };
        Ok(self.process.files.add(kind, flags & !SEMAPHORE | O_RDWR)?)
    }

    pub fn memfd_create(&mut self, flags: u64) -> Outcome {
        const CLOSE_ON_EXEC: u64 = 1;
        let fd = fs::memfd_create("nanoplane", fs::MemfdFlags::CLOEXEC)?;
        let kind = Kind::Host(HostFile {
            fd,
            path: None,
            changeable: true,
        });
        let flags = if flags & CLOSE_ON_EXEC != 0 {
            O_CLOEXEC | O_RDWR
        } else {
            O_RDWR
        };
        Ok(self.process.files.add(kind, flags)?)
    }
}
