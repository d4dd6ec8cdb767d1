//! What can go wrong in a worker, sorted by who must act.

pub use keylane_producer::Detail;

/// One variant for each who must act. Being fenced is [`crate::fence::Fenced`]: it is an answer, not a failure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The call, flag or setting is wrong: the caller acts.
    #[error("{0}")]
    Invalid(Detail),
    /// Not allowed by the machine, the broker or the store: the operator acts.
    #[error("{0}")]
    Refused(Detail),
    /// The queue, key or job that was named is not there.
    #[error("{0}")]
    NotFound(Detail),
    /// Broker or store is away, busy or full: tried again with a bound, then the operator acts.
    #[error("{0}")]
    Unavailable(Detail),
    /// A file, row or record that cannot be read: the operator acts.
    #[error("{0}")]
    Corrupt(Detail),
    /// An invariant of ours broke; the process ends.
    #[error("{0}")]
    Bug(Detail),
}

impl Error {
    /// The detail, whatever the variant.
    pub fn detail(&self) -> &Detail {
        match self {
            Self::Invalid(d)
            | Self::Refused(d)
            | Self::NotFound(d)
            | Self::Unavailable(d)
            | Self::Corrupt(d)
            | Self::Bug(d) => d,
        }
    }

    /// Whether the same call can succeed later without anyone changing it.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

impl From<keylane_producer::Error> for Error {
    fn from(error: keylane_producer::Error) -> Self {
        use keylane_producer::Error as P;
        match error {
            P::Invalid(d) => Self::Invalid(d),
            P::Refused(d) => Self::Refused(d),
            P::NotFound(d) => Self::NotFound(d),
            P::Unavailable(d) => Self::Unavailable(d),
            P::Corrupt(d) => Self::Corrupt(d),
            P::Bug(d) => Self::Bug(d),
        }
    }
}
