//! Every TCP byte on the loopback device to and from some ports, as it is on the wire.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use rustix::{
    fd::OwnedFd,
    io::Errno,
    net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket, sockopt},
};

/// Both ports, from and to.
type Way = (u16, u16);
/// By sequence number: the device shows each packet twice.
type Flow = BTreeMap<u32, Vec<u8>>;

pub(crate) struct Capture {
    stop: Arc<AtomicBool>,
    reading: JoinHandle<BTreeMap<Way, Flow>>,
}

impl Capture {
    /// `None` if this user may not: only root and who has `CAP_NET_RAW`. Where all checks run it may.
    pub(crate) fn begin() -> Option<Self> {
        // ETH_P_ALL, in the network's order.
        let all = Protocol::from_raw(NonZeroU32::new(u32::from(3_u16.to_be())).unwrap());
        let packets = match socket(AddressFamily::PACKET, SocketType::RAW, Some(all)) {
            Ok(packets) => packets,
            Err(Errno::PERM) if std::env::var_os("CI").is_none() => {
                eprintln!("not captured on the device: this user has no CAP_NET_RAW");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        sockopt::set_socket_recv_buffer_size_force(&packets, 64 << 20)
            .or_else(|_| sockopt::set_socket_recv_buffer_size(&packets, 64 << 20))
            .unwrap();
        sockopt::set_socket_timeout(&packets, sockopt::Timeout::Recv, Some(Duration::from_millis(100))).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Some(Self { stop, reading: std::thread::spawn(move || read(&packets, &stopped)) })
    }

    /// What went over connections to and from each of these ports, in both directions, each direction by itself.
    pub(crate) fn end(self, ports: &[u16]) -> BTreeMap<u16, Vec<Vec<u8>>> {
        self.stop.store(true, Ordering::Relaxed);
        let flows = self.reading.join().unwrap();
        let of = |port: u16| {
            let there = flows.iter().filter(move |((from, to), _)| *from == port || *to == port);
            there.map(|(_, flow)| flow.values().flatten().copied().collect::<Vec<u8>>()).collect()
        };
        ports.iter().copied().collect::<BTreeSet<_>>().into_iter().map(|port| (port, of(port))).collect()
    }
}

/// Until it is told to stop and nothing more is there.
fn read(packets: &OwnedFd, stop: &AtomicBool) -> BTreeMap<Way, Flow> {
    let mut flows: BTreeMap<Way, Flow> = BTreeMap::new();
    let mut packet = vec![0; 1 << 17];
    loop {
        match recv(packets, &mut packet[..], RecvFlags::empty()) {
            Ok((_, length)) => {
                if let Some((way, sequence, payload)) = tcp(&packet[..length]) {
                    let known = flows.entry(way).or_default().entry(sequence).or_default();
                    if payload.len() > known.len() {
                        *known = payload.to_vec();
                    }
                }
            }
            Err(Errno::AGAIN | Errno::INTR) if stop.load(Ordering::Relaxed) => return flows,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The ports, the sequence number and the payload of an IPv4 packet of TCP that has one.
fn tcp(frame: &[u8]) -> Option<(Way, u32, &[u8])> {
    let packet = frame.get(14..).filter(|_| frame[12..14] == [8, 0])?;
    let (header, length) = (usize::from(packet[0] & 15) * 4, usize::from(u16::from_be_bytes([packet[2], packet[3]])));
    let segment = packet.get(header..length).filter(|_| packet[9] == 6)?;
    let two = |at: usize| u16::from_be_bytes([segment[at], segment[at + 1]]);
    let sequence = u32::from_be_bytes(segment.get(4..8)?.try_into().ok()?);
    let payload = segment.get(usize::from(segment.get(12)? >> 4) * 4..)?;
    (!payload.is_empty()).then_some(((two(0), two(2)), sequence, payload))
}
