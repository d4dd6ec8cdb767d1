//! What a process can still do after it gave its rights up, tried from inside: each try alone in a process of its own, once
//! confined and once not.

#![cfg(feature = "publish")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use std::{
    env, fs, io,
    net::{TcpListener, TcpStream, UdpSocket},
    os::unix::net::{UnixDatagram, UnixStream},
    path::Path,
    process::{Command, Stdio},
};

use keylane_sidecar::publish::confine::confine;
use rustix::{
    net::{AddressFamily, SocketType},
    process::{Pid, Signal, kill_process},
};

const TRY: &str = "KEYLANE_TEST_TRY";
const CONFINED: &str = "KEYLANE_TEST_CONFINED";
const TARGET: &str = "KEYLANE_TEST_TARGET";

/// What there is to try, each with something that was made before, as an attacker who comes later would find it.
struct Tried {
    target: std::net::SocketAddr,
    tcp: rustix::fd::OwnedFd,
    udp: UdpSocket,
    datagram: UnixDatagram,
    other: std::process::Child,
}

type Try = fn(&Tried) -> io::Result<()>;

const TRIES: [(&str, Try); 11] = [
    ("connect", |_| TcpStream::connect(env::var(TARGET).unwrap()).map(drop)),
    ("connect a socket from before", |t| Ok(rustix::net::connect(&t.tcp, &t.target)?)),
    ("send to an address", |t| t.udp.send_to(b"?", t.target).map(drop)),
    ("open a socket", |_| UdpSocket::bind("127.0.0.1:0").map(drop)),
    ("send a message to a path", |t| t.datagram.send_to(b"?", "socket").map(drop)),
    ("connect to a path", |_| UnixStream::connect("stream").map(drop)),
    ("start a program", |_| Command::new("/bin/true").status().map(drop)),
    ("write a file", |_| fs::write("written", "?")),
    ("delete a file", |_| fs::remove_file("there")),
    ("write into another process", |t| write_into(t.other.id())),
    ("signal another process", |t| Ok(kill_process(Pid::from_child(&t.other), Signal::TERM)?)),
];

/// What only Landlock refuses, and what nothing may refuse.
const READS: [(&str, Try); 3] = [
    ("read elsewhere", |_| fs::read("/etc/passwd").map(drop)),
    ("list elsewhere", |_| fs::read_dir("/etc").map(drop)),
    ("read its folder", |_| fs::read("there").map(drop)),
];

fn write_into(pid: u32) -> io::Result<()> {
    fs::OpenOptions::new().write(true).open(format!("/proc/{pid}/comm")).map(drop)
}

/// Not a test by itself: the part that runs in the process which tries.
#[test]
fn tries() {
    let Ok(wanted) = env::var(TRY) else { return };
    let target = env::var(TARGET).unwrap().parse().unwrap();
    let tried = Tried {
        target,
        tcp: rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap(),
        udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
        datagram: UnixDatagram::unbound().unwrap(),
        // It ends with this process, which cannot end it any more.
        other: Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
    };
    if env::var_os(CONFINED).is_some() {
        let confinement = confine(Path::new("."));
        assert!(confinement.seccomp, "this kernel has seccomp");
        println!("\nLANDLOCK {}", confinement.landlock);
    }
    let mut all = TRIES.iter().chain(&READS);
    let (_, attempt) = all.find(|(name, _)| *name == wanted).unwrap();
    // On a thread that is made after it.
    let outcome = std::thread::scope(|scope| scope.spawn(|| attempt(&tried)).join().unwrap());
    match outcome {
        Ok(()) => println!("\nOUTCOME done"),
        Err(error) => println!("\nOUTCOME {}", error.raw_os_error().unwrap_or(0)),
    }
}

/// What came of it, and whether anything reached the target.
fn outcome(name: &str, confined: bool) -> (String, bool) {
    let (outcome, _, reached) = tried(name, confined);
    (outcome, reached)
}

/// What came of it, whether the kernel had Landlock for it, and whether anything reached the target.
fn tried(name: &str, confined: bool) -> (String, bool, bool) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there"), "").unwrap();
    let _datagrams = UnixDatagram::bind(folder.path().join("socket")).unwrap();
    let _streams = std::os::unix::net::UnixListener::bind(folder.path().join("stream")).unwrap();
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let datagrams = UdpSocket::bind(target.local_addr().unwrap()).unwrap();
    target.set_nonblocking(true).unwrap();
    datagrams.set_nonblocking(true).unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "tries", "--nocapture", "--test-threads=1"]).current_dir(folder.path());
    command.env(TRY, name).env(TARGET, target.local_addr().unwrap().to_string());
    if confined {
        command.env(CONFINED, "1");
    }
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout).into_owned();
    let outcome = said.lines().find_map(|line| line.strip_prefix("OUTCOME ").map(str::to_owned));
    let reached = target.accept().is_ok() || datagrams.recv(&mut [0; 8]).is_ok();
    let outcome = outcome.unwrap_or_else(|| panic!("{name}: {said}{}", String::from_utf8_lossy(&ran.stderr)));
    (outcome, said.contains("LANDLOCK true"), reached)
}

#[test]
fn a_confined_process_can_reach_nobody_change_nothing_and_start_nothing() {
    let refused = [libc_eperm(), "13".to_owned()]; // Landlock's word for it
    for (name, _) in TRIES {
        let (outcome, reached) = outcome(name, true);
        assert!(refused.contains(&outcome), "{name}: {outcome}");
        assert!(!reached, "{name}");
    }
}

/// Where the kernel has no Landlock, other files stay readable: the process knows that, and says so.
#[test]
fn what_is_elsewhere_is_closed_by_landlock_alone_and_its_own_folder_stays_open() {
    for name in ["read elsewhere", "list elsewhere"] {
        let (outcome, landlock, _) = tried(name, true);
        assert_eq!(outcome, if landlock { "13" } else { "done" }, "{name}, Landlock: {landlock}");
        assert_eq!(tried(name, false).0, "done", "the twin: {name}");
    }
    let (outcome, landlock, _) = tried("read its folder", true);
    assert_eq!(outcome, "done");
    eprintln!("Landlock on this kernel: {landlock}");
}

/// The twin: the same tries without it are all done.
#[test]
fn twin_without_confinement_each_of_them_is_done() {
    for (name, _) in TRIES {
        let (outcome, reached) = outcome(name, false);
        assert_eq!(outcome, "done", "{name}");
        let reaches = ["connect", "connect a socket from before", "send to an address"].contains(&name);
        assert_eq!(reached, reaches, "{name}");
    }
}

fn libc_eperm() -> String {
    rustix::io::Errno::PERM.raw_os_error().to_string()
}
