//! One request to a host of somebody else's, with bounds.
//!
//! 1. `https`, and its certificate is checked; plain `http` to this machine only, whatever a name stands for.
//! 2. All of it has one limit of time, from the look-up of the name on; of an answer no more is read than was asked for.
//! 3. A redirect is an answer like others: nothing is followed.
//! 4. An address may hold a secret in its path or query, and a bearer is one: neither is shown, in no log and no error.

mod address;
mod secret;

use std::{net::SocketAddr, path::Path, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Method, Request, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use openssl::ssl::{SslConnector, SslMethod};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_openssl::SslStream;

pub(crate) use address::{Address, GivenAddress};
pub(crate) use secret::Secret;

use crate::exit::{Code, Failure};

/// Of an answer's head.
const LARGEST_HEAD: usize = 16 << 10;

/// What is sent.
pub(crate) struct Sent {
    pub(crate) method: Method,
    /// JSON.
    pub(crate) body: Vec<u8>,
    pub(crate) bearer: Option<Secret>,
}

/// What is read of the answer.
#[derive(Clone, Copy)]
pub(crate) enum Read {
    /// Its status.
    Status,
    /// And a body of at most so many bytes.
    Body(usize),
}

/// What came back.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Empty if it was not to be read.
    pub(crate) body: Bytes,
}

/// Why nothing did. None of it has a word of the other side, or of the address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("no answer in time")]
    Late,
    #[error("its name is not known")]
    Name,
    #[error("plain http goes to this machine only, and that name is of another one")]
    Elsewhere,
    #[error("cannot connect")]
    Connect(#[source] std::io::Error),
    #[error("no TLS with a certificate that is trusted")]
    Tls,
    #[error("no answer by HTTP")]
    Http,
    #[error("the answer is longer than is read, or broke off")]
    Body,
}

/// Whoever asks.
#[derive(Clone)]
pub(crate) struct Remote {
    tls: SslConnector,
}

impl Remote {
    /// Who trusts the system's authorities, or those of this file alone.
    pub(crate) fn trusting(ca_file: Option<&Path>) -> Result<Self, Failure> {
        let failed = |error: openssl::error::ErrorStack| {
            Failure::new(Code::BadInput, "cannot set up TLS").because(&error).remedy("check --ca-file: a PEM file")
        };
        let mut builder = SslConnector::builder(SslMethod::tls_client()).map_err(failed)?;
        match ca_file {
            Some(file) => builder.set_ca_file(file).map_err(failed)?,
            None => {
                let found = openssl_probe::probe();
                if found.cert_file.is_some() {
                    builder.load_verify_locations(found.cert_file.as_deref(), None).map_err(failed)?;
                }
            }
        }
        Ok(Self { tls: builder.build() })
    }

    /// Sends this there.
    pub(crate) async fn send(
        &self,
        to: &Address,
        sent: Sent,
        read: Read,
        within: Duration,
    ) -> Result<Answer, NoAnswer> {
        timeout(within, async {
            let stream = connect(to).await?;
            if !to.is_tls() {
                return exchange(stream, to, sent, read).await;
            }
            let ssl = self.tls.configure().and_then(|c| c.into_ssl(to.host())).map_err(|_| NoAnswer::Tls)?;
            let mut stream = SslStream::new(ssl, stream).map_err(|_| NoAnswer::Tls)?;
            std::pin::Pin::new(&mut stream).connect().await.map_err(|_| NoAnswer::Tls)?;
            exchange(stream, to, sent, read).await
        })
        .await
        .unwrap_or(Err(NoAnswer::Late))
    }
}

async fn connect(to: &Address) -> Result<TcpStream, NoAnswer> {
    let found = tokio::net::lookup_host((to.host(), to.port())).await.map_err(|_| NoAnswer::Name)?;
    let all: Vec<SocketAddr> = found.collect();
    let allowed: Vec<SocketAddr> = all.iter().copied().filter(|at| to.is_tls() || at.ip().is_loopback()).collect();
    if allowed.is_empty() {
        return Err(if all.is_empty() { NoAnswer::Name } else { NoAnswer::Elsewhere });
    }
    TcpStream::connect(allowed.as_slice()).await.map_err(NoAnswer::Connect)
}

async fn exchange<S>(stream: S, to: &Address, sent: Sent, read: Read) -> Result<Answer, NoAnswer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut client = http1::Builder::new();
    let handshake = client.max_buf_size(LARGEST_HEAD).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| NoAnswer::Http)?;
    let mut request = Request::builder()
        .method(sent.method)
        .uri(to.target())
        .header(header::HOST, to.authority())
        .header(header::USER_AGENT, concat!("keylane/", env!("CARGO_PKG_VERSION")))
        .header(header::CONTENT_TYPE, "application/json")
        .header(header::CONNECTION, "close");
    if let Some(bearer) = &sent.bearer {
        request = request.header(header::AUTHORIZATION, bearer.header());
    }
    let request = request.body(Full::new(Bytes::from(sent.body))).map_err(|_| NoAnswer::Http)?;
    let answered = async {
        let answer = sender.send_request(request).await.map_err(|_| NoAnswer::Http)?;
        let status = answer.status().as_u16();
        let body = match read {
            Read::Status => Bytes::new(),
            Read::Body(most) => {
                Limited::new(answer.into_body(), most).collect().await.map_err(|_| NoAnswer::Body)?.to_bytes()
            }
        };
        Ok(Answer { status, body })
    };
    tokio::pin!(answered);
    tokio::pin!(connection);
    tokio::select! {
        answer = &mut answered => answer,
        ended = &mut connection => match ended {
            Ok(()) => answered.await,
            Err(_) => Err(NoAnswer::Http),
        },
    }
}
