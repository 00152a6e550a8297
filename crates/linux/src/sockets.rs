//! Sockets between threads and processes of the program. There is no outside network.

use crate::errno::Errno;
use crate::files::{Kind, MAXIMUM_FILES, O_CLOEXEC, O_NONBLOCK, O_RDWR};
use crate::kernel::{Call, Kernel};
use crate::poll::Ready;
use crate::streams::{PIPE_BYTES, ReadEnd, WriteEnd, stream};
use crate::user::Outcome;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

const AF_UNIX: u16 = 1;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
const SOCK_STREAM: u64 = 1;
const SOCK_DATAGRAM: u64 = 2;
const SOCK_SEQUENCED: u64 = 5;
const MSG_PEEK: u64 = 2;
const MSG_DONTWAIT: u64 = 0x40;
const MSG_WAITALL: u64 = 0x100;
const MSG_NOSIGNAL: u64 = 0x4000;
/// Maximum number of datagrams queued for one reader; their total size is limited to that of a
/// pipe, too.
const MAXIMUM_MAIL: usize = 256;
/// Maximum number of connections that wait to be accepted, over all sockets, and of one socket's
/// backlog. Linux's `net.core.somaxconn`.
const MAXIMUM_BACKLOG: usize = 4096;
/// The maximum transfer of one call; the program's next call continues.
const MAXIMUM_SEND_BYTES: u64 = 1 << 20;
/// The first port for sockets that request none.
const FIRST_OWN_PORT: u16 = 32768;

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Port(u16),
    Path(Vec<u8>),
}

/// Data and connections queued at a socket's address.
#[derive(Debug, Default)]
struct Place {
    listening: bool,
    /// As given to `listen`.
    backlog: usize,
    connections: VecDeque<Connection>,
    /// Sender's name and bytes of each datagram.
    mail: VecDeque<(Vec<u8>, Vec<u8>)>,
    /// Total bytes in `mail`.
    mail_bytes: usize,
    changes: u64,
}

impl Place {
    /// Whether a datagram of `bytes` has to wait.
    fn is_full_for(&self, bytes: usize) -> bool {
        self.mail.len() >= MAXIMUM_MAIL
            || !self.mail.is_empty() && self.mail_bytes + bytes > PIPE_BYTES
    }
}

#[derive(Debug)]
struct Connection {
    input: Option<ReadEnd>,
    output: Option<WriteEnd>,
    /// The names of this end and of the other.
    name: Vec<u8>,
    peer: Vec<u8>,
}

/// A socket.
#[derive(Debug)]
pub(crate) struct Socket {
    family: u16,
    kind: u64,
    place: Rc<RefCell<Place>>,
    /// Its address, in the program's format; empty if it has none.
    name: Vec<u8>,
    connection: Option<Connection>,
    /// The default destination of datagrams.
    peer: Option<(Weak<RefCell<Place>>, Vec<u8>)>,
}

impl Socket {
    fn new(family: u16, kind: u64) -> Socket {
        Socket {
            family,
            kind,
            place: Rc::default(),
            name: Vec::new(),
            connection: None,
            peer: None,
        }
    }

    fn is_stream(&self) -> bool {
        self.kind == SOCK_STREAM
    }

    /// Bytes that can be read.
    pub fn available(&self) -> usize {
        match &self.connection {
            Some(connection) => connection.input.as_ref().map_or(0, ReadEnd::available),
            None => {
                let place = self.place.borrow();
                place.mail.front().map_or(0, |(_, bytes)| bytes.len())
            }
        }
    }

    /// The operations that are possible without waiting.
    pub fn ready(&self) -> Ready {
        let place = self.place.borrow();
        let mut ready = Ready {
            changes: place.changes,
            ..Ready::default()
        };
        if let Some(Connection { input, output, .. }) = &self.connection {
            let ended = input.as_ref().is_none_or(ReadEnd::writer_gone);
            let refused = output.as_ref().is_none_or(WriteEnd::reader_gone);
            let available = input.as_ref().map_or(0, ReadEnd::available);
            ready.input = available > 0 || ended;
            ready.output = refused || output.as_ref().is_some_and(|end| end.room() > 0);
            ready.half_ended = ended;
            ready.ended = ended && refused;
            ready.changes += input.as_ref().map_or(0, ReadEnd::changes);
            ready.changes += output.as_ref().map_or(0, WriteEnd::changes);
        } else if place.listening {
            ready.input = !place.connections.is_empty();
        } else if !self.is_stream() {
            ready.input = !place.mail.is_empty() || self.peer_gone();
            ready.output = true;
        } else {
            ready.output = true;
            ready.ended = true;
        }
        ready
    }

    fn peer_gone(&self) -> bool {
        let peer = self.peer.as_ref();
        self.family == AF_UNIX && peer.is_some_and(|(place, _)| place.strong_count() == 0)
    }
}

/// The sockets by address.
#[derive(Debug, Default)]
pub(crate) struct Network {
    /// By whether the socket is a stream, and by key.
    places: BTreeMap<(bool, Key), Weak<RefCell<Place>>>,
    own_ports: u16,
}

impl Network {
    fn find(&self, stream: bool, key: &Key) -> Option<Rc<RefCell<Place>>> {
        self.places
            .get(&(stream, key.clone()))
            .and_then(Weak::upgrade)
    }

    /// Number of connections that are not accepted yet.
    fn not_accepted(&self) -> usize {
        let places = self.places.values().filter_map(Weak::upgrade);
        places.map(|place| place.borrow().connections.len()).sum()
    }

    /// A free port, if there is one.
    fn free_port(&mut self, stream: bool) -> Result<u16, Errno> {
        const PORTS: u16 = u16::MAX - FIRST_OWN_PORT;
        for _ in 0..PORTS {
            let port = FIRST_OWN_PORT + self.own_ports;
            self.own_ports = (self.own_ports + 1) % PORTS;
            if self.find(stream, &Key::Port(port)).is_none() {
                return Ok(port);
            }
        }
        Err(Errno::ADDRINUSE)
    }
}

/// The address of a port of this server, in the program's format.
fn internet_name(family: u16, port: u16) -> Vec<u8> {
    let mut name = family.to_le_bytes().to_vec();
    name.extend(port.to_be_bytes());
    if family == AF_INET {
        name.extend([127, 0, 0, 1]);
        name.resize(16, 0);
    } else {
        name.resize(8 + 15, 0);
        name.push(1);
        name.resize(28, 0);
    }
    name
}

/// The meaning of an address; `None`: it is not this server's.
fn key(family: u16, address: &[u8]) -> Result<Option<Key>, Errno> {
    let given = address.get(..2).ok_or(Errno::INVAL)?;
    let given = u16::from_le_bytes([given[0], given[1]]);
    if given != family {
        return Err(Errno::AFNOSUPPORT);
    }
    let port = |bytes: &[u8]| Key::Port(u16::from_be_bytes([bytes[0], bytes[1]]));
    match family {
        AF_UNIX => {
            let path = &address[2..];
            let end = path.iter().skip(1).position(|&byte| byte == 0);
            let end = if path.first() == Some(&0) { None } else { end };
            let path = end.map_or(path, |end| &path[..=end]);
            Ok(Some(Key::Path(path.to_vec())))
        }
        AF_INET => {
            let address = address.get(..8).ok_or(Errno::INVAL)?;
            let own = address[4] == 127 || address[4..8] == [0; 4];
            Ok(own.then(|| port(&address[2..4])))
        }
        _ => {
            let address = address.get(..24).ok_or(Errno::INVAL)?;
            let host = &address[8..24];
            let own = host[..15] == [0; 15] && host[15] <= 1
                || host[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255] && host[12] == 127;
            Ok(own.then(|| port(&address[2..4])))
        }
    }
}

const NETWORK_UNREACHABLE: Errno = Errno(101);

impl Kernel {
    pub fn socket(&mut self, family: u64, kind: u64, protocol: u64) -> Outcome {
        let (flags, kind) = (kind & (O_NONBLOCK | O_CLOEXEC), kind & 15);
        let family = family as u16;
        if !matches!(family, AF_UNIX | AF_INET | AF_INET6) {
            return Err(Errno::AFNOSUPPORT.into());
        }
        let known = match (family, kind) {
            (_, SOCK_STREAM) => matches!(protocol, 0 | 6),
            (_, SOCK_DATAGRAM) => matches!(protocol, 0 | 17),
            (AF_UNIX, SOCK_SEQUENCED) => true,
            _ => false,
        };
        if !known {
            return Err(Errno::PROTONOSUPPORT.into());
        }
        let socket = Kind::Socket(Socket::new(family, kind));
        Ok(self.process.files.add(socket, flags | O_RDWR)?)
    }

    /// Calls a function with a socket, and with whether the socket is nonblocking.
    fn with_socket<T>(
        &self,
        fd: u64,
        act: impl FnOnce(&mut Socket, bool) -> Outcome<T>,
    ) -> Outcome<T> {
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        let nonblocking = file.is_nonblocking();
        match &mut file.kind {
            Kind::Socket(socket) => act(socket, nonblocking),
            _ => Err(Errno::NOTSOCK.into()),
        }
    }

    pub fn socketpair(&mut self, call: &mut Call, family: u64, kind: u64, address: u64) -> Outcome {
        let (flags, kind) = (kind & (O_NONBLOCK | O_CLOEXEC), kind & 15);
        if family as u16 != AF_UNIX {
            return Err(Errno::OPNOTSUPP.into());
        }
        call.user.check_write(address, 8)?;
        let mut one = Socket::new(AF_UNIX, kind);
        let mut other = Socket::new(AF_UNIX, kind);
        let name = AF_UNIX.to_le_bytes().to_vec();
        match kind {
            SOCK_STREAM => {
                let (first, second) = connection(name.clone(), name);
                one.connection = Some(first);
                other.connection = Some(second);
            }
            SOCK_DATAGRAM | SOCK_SEQUENCED => {
                one.peer = Some((Rc::downgrade(&other.place), name.clone()));
                other.peer = Some((Rc::downgrade(&one.place), name));
            }
            _ => return Err(Errno::PROTONOSUPPORT.into()),
        }
        let flags = flags | O_RDWR;
        let (one, other) = (Kind::Socket(one), Kind::Socket(other));
        let (one, other) = self.process.files.add_pair((one, flags), (other, flags))?;
        call.user.write_words(address, &[one | other << 32])?;
        Ok(0)
    }

    /// Binds a socket to an address.
    fn settle(&mut self, socket: &mut Socket, wanted: Key) -> Result<(), Errno> {
        let stream = socket.is_stream();
        let key = match wanted {
            Key::Port(0) => Key::Port(self.network.free_port(stream)?),
            other => other,
        };
        if self.network.find(stream, &key).is_some() {
            return Err(Errno::ADDRINUSE);
        }
        socket.name = match &key {
            Key::Port(port) => internet_name(socket.family, *port),
            Key::Path(path) => {
                let mut name = AF_UNIX.to_le_bytes().to_vec();
                name.extend(path);
                name
            }
        };
        let place = Rc::downgrade(&socket.place);
        let places = &mut self.network.places;
        if places.len() >= MAXIMUM_FILES {
            places.retain(|_, place| place.strong_count() > 0);
        }
        places.insert((stream, key), place);
        Ok(())
    }

    pub fn bind(&mut self, call: &mut Call, fd: u64, address: u64, length: u64) -> Outcome {
        let address = call.user.bytes(address, length.min(128))?;
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        let Kind::Socket(socket) = &mut file.kind else {
            return Err(Errno::NOTSOCK.into());
        };
        if !socket.name.is_empty() {
            return Err(Errno::INVAL.into());
        }
        let wanted = key(socket.family, &address)?.ok_or(Errno::ADDRNOTAVAIL)?;
        self.settle(socket, wanted)?;
        Ok(0)
    }

    pub fn listen(&mut self, fd: u64, backlog: u64) -> Outcome {
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        let Kind::Socket(socket) = &mut file.kind else {
            return Err(Errno::NOTSOCK.into());
        };
        if !socket.is_stream() {
            return Err(Errno::OPNOTSUPP.into());
        }
        if socket.name.is_empty() {
            if socket.family == AF_UNIX {
                return Err(Errno::DESTADDRREQ.into());
            }
            self.settle(socket, Key::Port(0))?;
        }
        let mut place = socket.place.borrow_mut();
        place.listening = true;
        // A negative number means a large one.
        place.backlog = (backlog as u32 as usize).min(MAXIMUM_BACKLOG);
        drop(place);
        self.changed = true;
        Ok(0)
    }

    pub fn accept(
        &mut self,
        call: &mut Call,
        fd: u64,
        address: u64,
        length: u64,
        flags: u64,
    ) -> Outcome {
        let room = match address {
            0 => 0,
            _ => call.user.u32(length)?,
        };
        let (family, taken) = self.with_socket(fd, |socket, nonblocking| {
            let mut place = socket.place.borrow_mut();
            if !place.listening {
                return Err(Errno::INVAL.into());
            }
            match place.connections.pop_front() {
                Some(taken) => Ok((socket.family, taken)),
                None => Err(Self::would_wait(call, nonblocking)),
            }
        })?;
        write_name(call, &taken.peer, address, length, room)?;
        let mut socket = Socket::new(family, SOCK_STREAM);
        socket.name.clone_from(&taken.name);
        socket.connection = Some(taken);
        self.changed = true;
        let flags = flags & (O_NONBLOCK | O_CLOEXEC);
        Ok(self
            .process
            .files
            .add(Kind::Socket(socket), flags | O_RDWR)?)
    }

    pub fn connect(&mut self, call: &mut Call, fd: u64, address: u64, length: u64) -> Outcome {
        let address = call.user.bytes(address, length.min(128))?;
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        let nonblocking = file.is_nonblocking();
        let Kind::Socket(socket) = &mut file.kind else {
            return Err(Errno::NOTSOCK.into());
        };
        let stream = socket.is_stream();
        if stream && socket.connection.is_some() {
            return Err(Errno::ISCONN.into());
        }
        let wanted = key(socket.family, &address)?.ok_or(NETWORK_UNREACHABLE)?;
        let found = self.network.find(stream, &wanted);
        let place = found.ok_or(Errno::CONNREFUSED)?;
        if !stream {
            if socket.name.is_empty() && socket.family != AF_UNIX {
                self.settle(socket, Key::Port(0))?;
            }
            socket.peer = Some((Rc::downgrade(&place), address));
            return Ok(0);
        }
        if !place.borrow().listening {
            return Err(Errno::CONNREFUSED.into());
        }
        // As in Linux, one more than the backlog.
        let waiting = place.borrow().connections.len();
        if waiting > place.borrow().backlog || self.network.not_accepted() >= MAXIMUM_BACKLOG {
            return Err(Self::would_wait(call, nonblocking));
        }
        let own = match socket.family {
            AF_UNIX => AF_UNIX.to_le_bytes().to_vec(),
            family if socket.name.is_empty() => {
                internet_name(family, self.network.free_port(true)?)
            }
            _ => socket.name.clone(),
        };
        let (client, server) = connection(own.clone(), address);
        socket.name = own;
        socket.connection = Some(client);
        let mut place = place.borrow_mut();
        place.connections.push_back(server);
        place.changes += 1;
        self.changed = true;
        Ok(0)
    }

    pub fn socket_name(
        &mut self,
        call: &mut Call,
        fd: u64,
        address: u64,
        length: u64,
        of_peer: bool,
    ) -> Outcome {
        let room = call.user.u32(length)?;
        let name = self.with_socket(fd, |socket, _| {
            if !of_peer {
                let unnamed = socket.family.to_le_bytes().to_vec();
                return Ok(if socket.name.is_empty() {
                    unnamed
                } else {
                    socket.name.clone()
                });
            }
            let peer = match (&socket.connection, &socket.peer) {
                (Some(connection), _) => Some(connection.peer.clone()),
                (None, Some((_, name))) => Some(name.clone()),
                (None, None) => None,
            };
            peer.ok_or(Errno::NOTCONN.into())
        })?;
        write_name(call, &name, address, length, room)?;
        Ok(0)
    }

    /// `sendto`; `to`: an address and its length.
    pub fn send(
        &mut self,
        slot: usize,
        call: &mut Call,
        fd: u64,
        buffers: &[(u64, u64)],
        flags: u64,
        to: (u64, u64),
    ) -> Outcome {
        let bytes = call.user.gather(buffers, MAXIMUM_SEND_BYTES)?;
        let to = match to {
            (0, _) => None,
            (address, length) => Some(call.user.bytes(address, length.min(128))?),
        };
        let file = self.process.files.get(fd)?;
        let mut file = file.borrow_mut();
        let nonblocking = file.is_nonblocking() || flags & MSG_DONTWAIT != 0;
        let Kind::Socket(socket) = &mut file.kind else {
            return Err(Errno::NOTSOCK.into());
        };
        if socket.is_stream() {
            let Some(connection) = &socket.connection else {
                return Err(Errno::NOTCONN.into());
            };
            let open = connection.output.as_ref().filter(|end| !end.reader_gone());
            return match open {
                Some(end) => self.pour(slot, call, end, &bytes, nonblocking),
                None if flags & MSG_NOSIGNAL != 0 => Err(Errno::PIPE.into()),
                None => Err(self.broken_pipe(slot)),
            };
        }
        if bytes.len() > PIPE_BYTES {
            return Err(Errno::MSGSIZE.into());
        }
        if socket.name.is_empty() && socket.family != AF_UNIX {
            self.settle(socket, Key::Port(0))?;
        }
        let place = match (to, &socket.peer) {
            (Some(address), _) => {
                let wanted = key(socket.family, &address)?.ok_or(NETWORK_UNREACHABLE)?;
                self.network.find(false, &wanted)
            }
            (None, Some((peer, _))) => peer.upgrade(),
            (None, None) => return Err(Errno::DESTADDRREQ.into()),
        };
        let length = bytes.len() as u64;
        let Some(place) = place else {
            // There is no receiver: the datagram is lost, and the sender on the same host is
            // notified.
            return Err(Errno::CONNREFUSED.into());
        };
        if place.borrow().is_full_for(bytes.len()) {
            return Err(Self::would_wait(call, nonblocking));
        }
        let mut place = place.borrow_mut();
        place.mail_bytes += bytes.len();
        place.mail.push_back((socket.name.clone(), bytes));
        place.changes += 1;
        self.changed = true;
        Ok(length)
    }

    /// `recvfrom`; `from`: the addresses for the sender's address and its length.
    pub fn receive(
        &mut self,
        call: &mut Call,
        fd: u64,
        buffers: &[(u64, u64)],
        flags: u64,
        from: (u64, u64),
    ) -> Outcome {
        let mut most = 0_u64;
        for &(address, length) in buffers {
            call.user.check_write(address, length)?;
            most = most.saturating_add(length);
        }
        let most = most.min(PIPE_BYTES as u64) as usize;
        let room = match from {
            (0, _) => 0,
            (_, length) => call.user.u32(length)?,
        };
        let peek = flags & MSG_PEEK != 0;
        let (sender, bytes) = self.with_socket(fd, |socket, nonblocking| {
            let nonblocking = nonblocking || flags & MSG_DONTWAIT != 0;
            if socket.is_stream() {
                let Some(connection) = &socket.connection else {
                    return Err(Errno::NOTCONN.into());
                };
                let Some(input) = &connection.input else {
                    return Ok((Vec::new(), Vec::new()));
                };
                let whole = flags & MSG_WAITALL != 0 && !input.writer_gone();
                if whole && input.available() < most {
                    return Err(Self::would_wait(call, nonblocking));
                }
                let read = input.read(most, peek);
                let read = read.ok_or_else(|| Self::would_wait(call, nonblocking))?;
                return Ok((connection.peer.clone(), read));
            }
            let gone = socket.peer_gone();
            let mut place = socket.place.borrow_mut();
            let letter = if peek {
                place.mail.front().cloned()
            } else {
                place.mail.pop_front()
            };
            match letter {
                Some((sender, mut bytes)) => {
                    if !peek {
                        place.mail_bytes -= bytes.len();
                    }
                    bytes.truncate(most);
                    place.changes += 1;
                    Ok((sender, bytes))
                }
                None if gone => Ok((Vec::new(), Vec::new())),
                None => Err(Self::would_wait(call, nonblocking)),
            }
        })?;
        self.changed = true;
        call.user.scatter(buffers, &bytes)?;
        write_name(call, &sender, from.0, from.1, room)?;
        Ok(bytes.len() as u64)
    }

    pub fn send_message(
        &mut self,
        slot: usize,
        call: &mut Call,
        fd: u64,
        message: u64,
        flags: u64,
    ) -> Outcome {
        let [name, name_bytes, vectors, count, _, control_bytes, _] = call.user.words(message)?;
        if control_bytes != 0 {
            self.tell_once(
                "the program sends a control message (sendmsg), which is not implemented; the call \
                 returns EOPNOTSUPP"
                    .to_string(),
            );
            return Err(Errno::OPNOTSUPP.into());
        }
        let buffers = call.user.vectors(vectors, count)?;
        let to = (name, name_bytes as u32 as u64);
        self.send(slot, call, fd, &buffers, flags, to)
    }

    pub fn receive_message(
        &mut self,
        call: &mut Call,
        fd: u64,
        message: u64,
        flags: u64,
    ) -> Outcome {
        let [name, _, vectors, count, ..] = call.user.words::<7>(message)?;
        let buffers = call.user.vectors(vectors, count)?;
        call.user.check_write(message, 56)?;
        let received = self.receive(call, fd, &buffers, flags, (name, message + 8))?;
        // No control message, no flags.
        call.user.write_words(message + 40, &[0])?;
        call.user.write_u32(message + 48, 0)?;
        Ok(received)
    }

    pub fn set_socket_option(&mut self, fd: u64) -> Outcome {
        self.with_socket(fd, |_, _| Ok(0))
    }

    /// `getsockopt`: level, option, value, its length.
    pub fn socket_option(
        &mut self,
        call: &mut Call,
        fd: u64,
        [level, option, address, length]: [u64; 4],
    ) -> Outcome {
        const SOCKET_LEVEL: u64 = 1;
        let room = call.user.u32(length)?;
        let value = self.with_socket(fd, |socket, _| {
            Ok(match (level, option) {
                (SOCKET_LEVEL, 3) => socket.kind as u32,
                (SOCKET_LEVEL, 7 | 8) => PIPE_BYTES as u32,
                (SOCKET_LEVEL, 30) => u32::from(socket.place.borrow().listening),
                (SOCKET_LEVEL, 39) => u32::from(socket.family),
                (SOCKET_LEVEL, 17) => return Err(Errno::NOPROTOOPT.into()),
                _ => 0,
            })
        })?;
        let bytes = value.to_le_bytes();
        let told = room.min(4);
        call.user.write(address, bytes[..told as usize].to_vec())?;
        call.user.write_u32(length, told)?;
        Ok(0)
    }

    pub fn shutdown(&mut self, fd: u64, how: u64) -> Outcome {
        self.with_socket(fd, |socket, _| {
            let connection = socket.connection.as_mut().ok_or(Errno::NOTCONN)?;
            if how > 2 {
                return Err(Errno::INVAL.into());
            }
            if how != 1 {
                connection.input = None;
            }
            if how != 0 {
                connection.output = None;
            }
            Ok(0)
        })?;
        self.changed = true;
        Ok(0)
    }
}

/// Both ends of a connection; `client` and `server` are their names.
fn connection(client: Vec<u8>, server: Vec<u8>) -> (Connection, Connection) {
    let (to_server, from_client) = (stream(), stream());
    let (server_input, client_output) = to_server;
    let (client_input, server_output) = from_client;
    (
        Connection {
            input: Some(client_input),
            output: Some(client_output),
            name: client.clone(),
            peer: server.clone(),
        },
        Connection {
            input: Some(server_input),
            output: Some(server_output),
            name: server,
            peer: client,
        },
    )
}

/// Writes an address, truncated to the available room.
fn write_name(call: &mut Call, name: &[u8], address: u64, length: u64, room: u32) -> Outcome<()> {
    if address == 0 {
        return Ok(());
    }
    let told = name.len().min(room as usize);
    call.user.write(address, name[..told].to_vec())?;
    call.user.write_u32(length, name.len() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_server_are_known() {
        let inet = |host: [u8; 4]| {
            let mut address = vec![2, 0, 0x1f, 0x90];
            address.extend(host);
            address.resize(16, 0);
            key(AF_INET, &address)
        };
        assert_eq!(inet([127, 0, 0, 1]), Ok(Some(Key::Port(8080))));
        assert_eq!(inet([0, 0, 0, 0]), Ok(Some(Key::Port(8080))));
        assert_eq!(inet([10, 0, 0, 1]), Ok(None));
        let own = internet_name(AF_INET6, 8080);
        assert_eq!(key(AF_INET6, &own), Ok(Some(Key::Port(8080))));
        assert_eq!(key(AF_INET, &own), Err(Errno::AFNOSUPPORT));
        assert_eq!(key(AF_INET, &[2, 0, 1]), Err(Errno::INVAL));
        assert_eq!(
            key(AF_UNIX, b"\x01\0/tmp/s\0rest"),
            Ok(Some(Key::Path(b"/tmp/s".to_vec())))
        );
    }

    #[test]
    fn a_port_is_given_once() {
        let mut network = Network::default();
        let place: Rc<RefCell<Place>> = Rc::default();
        let first = network.free_port(true).unwrap();
        let key = (true, Key::Port(first + 1));
        network.places.insert(key, Rc::downgrade(&place));
        assert_eq!(network.free_port(true), Ok(first + 2));
        for port in FIRST_OWN_PORT..u16::MAX {
            let key = (true, Key::Port(port));
            network.places.insert(key, Rc::downgrade(&place));
        }
        assert_eq!(network.free_port(true), Err(Errno::ADDRINUSE));
    }
}
