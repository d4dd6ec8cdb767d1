//! Where lines come from: a file, which can be read again, or a stream, which cannot.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Seek},
    os::fd::AsFd,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{FlockOperation, flock},
    io::Errno,
};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{
    cli::{EnqueueArgs, InputFormat},
    exit::{Code, Failure},
};

/// How long a read of a stream waits before it looks whether someone asked to stop.
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Whether someone asked to stop: Ctrl-C or a termination signal. The second one ends the process at once.
#[derive(Clone)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn on_signals() -> Result<Self, Failure> {
        let stop = Self(Arc::new(AtomicBool::new(false)));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, Code::Interrupted as i32, stop.0.clone())
                .and_then(|_| signal_hook::flag::register(signal, stop.0.clone()))
                .map_err(|error| Failure::new(Code::Bug, "cannot listen for signals").because(&error))?;
        }
        Ok(stop)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A file or stream that is open.
pub(super) struct Source {
    file: File,
    kind: Kind,
    /// What the user calls it.
    label: String,
    /// By which its checkpoint is found.
    name: Option<String>,
    stop: Stop,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Its length when it was opened.
    File {
        length: u64,
    },
    Stream,
}

impl Source {
    /// Opens what the flags name. A file is locked, so that two imports of it cannot run at once.
    pub(super) fn open(args: &EnqueueArgs, stop: &Stop) -> Result<Self, Failure> {
        let source = match args.file.as_deref().filter(|path| *path != Path::new("-")) {
            None => Self::standard_input(args, stop)?,
            Some(path) => Self::path(path, args, stop)?,
        };
        if source.name.is_none() && (args.resume || args.restart) {
            return Err(Failure::new(
                Code::Usage,
                format!("{source} has no name, so no import of it can be recognised"),
            )
            .remedy("give the import a name with --source NAME, each time the same"));
        }
        Ok(source)
    }

    fn standard_input(args: &EnqueueArgs, stop: &Stop) -> Result<Self, Failure> {
        let cannot = |error: io::Error| Failure::new(Code::Unavailable, "cannot read standard input").because(&error);
        let file = io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?.into();
        let label = "standard input".to_owned();
        Ok(Self { file, kind: Kind::Stream, label, name: args.source.clone(), stop: stop.clone() })
    }

    fn path(path: &Path, args: &EnqueueArgs, stop: &Stop) -> Result<Self, Failure> {
        let label = format!("'{}'", path.display());
        let cannot = |error: io::Error| {
            let code = match error.kind() {
                io::ErrorKind::NotFound => Code::NotFound,
                io::ErrorKind::PermissionDenied => Code::Refused,
                _ => Code::Unavailable,
            };
            Failure::new(code, format!("cannot read {label}")).because(&error)
        };
        let file = File::open(path).map_err(cannot)?;
        let found = file.metadata().map_err(cannot)?;
        if found.is_dir() {
            return Err(Failure::new(Code::BadInput, format!("{label} is a folder")).remedy("name a file in it"));
        }
        if !found.is_file() {
            return Ok(Self { file, kind: Kind::Stream, label, name: args.source.clone(), stop: stop.clone() });
        }
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Failure::new(Code::Unavailable, format!("another process is sending {label} just now"))
                .remedy("wait for it to end; then --resume sends what it left"));
        }
        let absolute = path.canonicalize().map_err(cannot)?;
        let name = match (&args.source, absolute.to_str()) {
            (Some(name), _) => name.clone(),
            (None, Some(path)) => path.to_owned(),
            (None, None) => {
                return Err(Failure::new(Code::BadInput, format!("the path of {label} is not UTF-8"))
                    .remedy("give the import a name with --source NAME"));
            }
        };
        Ok(Self { file, kind: Kind::File { length: found.len() }, label, name: Some(name), stop: stop.clone() })
    }

    /// Whether it can be read more than once.
    pub(super) fn is_file(&self) -> bool {
        self.kind != Kind::Stream
    }

    /// In bytes, if it is known.
    pub(super) fn length(&self) -> Option<u64> {
        match self.kind {
            Kind::File { length } => Some(length),
            Kind::Stream => None,
        }
    }

    /// By which its checkpoint is found.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    pub(super) fn usual_format(&self) -> InputFormat {
        let is_csv = self.label.trim_end_matches('\'').to_ascii_lowercase().ends_with(".csv");
        if is_csv { InputFormat::Csv } else { InputFormat::Ndjson }
    }

    pub(super) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Reads from the start, or a stream from where it is.
    pub(super) fn reader(&self) -> Result<Reader<'_>, Failure> {
        if self.is_file() {
            (&self.file).rewind().map_err(|error| self.unreadable(&error))?;
        }
        Ok(Reader { source: self })
    }

    /// The failure of a read.
    pub(super) fn unreadable(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::InvalidData => Failure::new(Code::BadInput, format!("cannot use {self}: {error}"))
                .remedy("convert the text to UTF-8, and check the format and the names that the flags give"),
            io::ErrorKind::Interrupted => Failure::new(Code::Interrupted, "interrupted"),
            _ => Failure::new(Code::Unavailable, format!("cannot read {self}")).because(error),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.label)
    }
}

/// Reads a source. A stream's read ends with [`io::ErrorKind::Interrupted`] once someone asked to stop.
pub(super) struct Reader<'s> {
    source: &'s Source,
}

impl Reader<'_> {
    /// Whether a read would answer at once.
    pub(super) fn is_ready(&self) -> bool {
        self.source.is_file() || self.poll(Timespec { tv_sec: 0, tv_nsec: 0 }).unwrap_or(true)
    }

    fn poll(&self, limit: Timespec) -> io::Result<bool> {
        let mut fds = [PollFd::new(&self.source.file, PollFlags::IN)];
        match poll(&mut fds, Some(&limit)) {
            Ok(count) => Ok(count > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Reader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.source.is_file() && !self.poll(LOOK_UP)? {
            if self.source.stop.is_asked() {
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        loop {
            match (&self.source.file).read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                answer => return answer,
            }
        }
    }
}
