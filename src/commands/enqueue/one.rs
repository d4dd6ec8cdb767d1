//! One job from the command line.

use std::{
    fs::File,
    io::{self, Read},
};

use bytes::Bytes;
use keylane_producer::{Job, JobKey, job::MAX_PAYLOAD_BYTES};

use super::{import::ReceiptShown, open, recipe::fixed_headers};
use crate::{
    cli::{EnqueueArgs, Global},
    exit::{Code, Failure},
    output::Output,
};

pub(super) fn send(key: &JobKey, args: &EnqueueArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let mut job = Job::new(key.clone(), args.body.as_deref().map(body).transpose()?)?;
    job.headers = fixed_headers(args)?;
    let sent = open(args, global)?.send(vec![job]).map_err(|error| {
        let rest_is_absent = error.rest_is_absent;
        let failure = Failure::from(error.cause);
        if rest_is_absent { failure } else { failure.while_doing("nobody knows whether the job is on the queue") }
    })?;
    let (id, receipt) = sent.first().expect("a job that was sent has a receipt");
    if output.is_json() || args.receipts {
        output.json(&ReceiptShown::new(id, key, receipt))?;
    } else if !global.quiet {
        let (partition, offset) = (receipt.partition, receipt.offset);
        output
            .line(&format!("sent 1 job to queue '{}', partition {partition}, offset {offset}: {id}", global.queue))?;
    }
    Ok(Code::Done)
}

/// The text, `@FILE`, or `-` for standard input. Never more in memory than a payload may have.
fn body(text: &str) -> Result<Bytes, Failure> {
    let limit = MAX_PAYLOAD_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = match text.strip_prefix('@') {
        Some(path) => File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
        None if text == "-" => io::stdin().lock().take(limit).read_to_end(&mut bytes),
        None => return Ok(Bytes::copy_from_slice(text.as_bytes())),
    };
    read.map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound => Code::NotFound,
            io::ErrorKind::PermissionDenied => Code::Refused,
            _ => Code::Unavailable,
        };
        let named = text.strip_prefix('@').map_or_else(|| "standard input".to_owned(), |path| format!("'{path}'"));
        Failure::new(code, format!("cannot read the body from {named}")).because(&error)
    })?;
    if bytes.len() as u64 == limit {
        return Err(Failure::new(
            Code::BadInput,
            format!("the body has more than {MAX_PAYLOAD_BYTES} bytes, the limit"),
        )
        .remedy("keep the body elsewhere and enqueue a reference to it"));
    }
    Ok(bytes.into())
}
