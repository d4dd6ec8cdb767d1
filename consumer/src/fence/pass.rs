//! The fence as a handler's own transaction shows it to `keylane.admit`: one text for one job under one claim.
//!
//! 1. It has the job's place and a digest, none of the token's numbers. The digest is made of them, of the nonce in the
//!    owner's name and of the job's offset: it opens nothing but this job, and nobody can make it who has not read the row.
//! 2. It goes to a child's standard input, or in a header to a handler on this machine, and nowhere else. `Debug` prints
//!    `[fence]`, there is no `Display`, and what a handler says goes through [`redacted`].
//!
//! `store/postgres/schema/admit.sql` is the other side.

use std::{borrow::Cow, fmt};

use data_encoding::BASE64URL_NOPAD;
use keylane_producer::{Offset, Partition};
use openssl::sha::sha224;

use super::{FenceToken, Owner};

/// Begins the text, so that nobody takes it for a number, and who sees it somewhere knows what it is.
const PREFIX: &str = "keylane-fence-v1:";

/// What a store gives out with a claim, if handlers' own transactions can pass its fence.
#[derive(Clone)]
pub struct Pass {
    scope: i64,
    partition: Partition,
    secret: [u8; 28],
}

impl Pass {
    /// For a claim that the store just granted. `scope` names queue and group in the store.
    ///
    /// Only a store adapter does this.
    pub(crate) fn minted(scope: i64, partition: Partition, token: FenceToken, owner: &Owner) -> Self {
        let FenceToken { epoch, generation, claim } = token;
        let text = format!("{scope} {partition} {epoch} {} {claim} {}", generation.get(), owner.as_str());
        Self { scope, partition, secret: sha224(text.as_bytes()) }
    }

    /// For one job.
    pub(crate) fn of_job(&self, offset: Offset) -> JobPass {
        let place = offset.0.to_be_bytes();
        let digest = sha224(&[&self.secret[..], &place].concat());
        let bytes = [&self.scope.to_be_bytes()[..], &self.partition.0.to_be_bytes(), &place, &digest].concat();
        JobPass(format!("{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes)).into())
    }
}

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[fence]")
    }
}

/// For one job under one claim: what `keylane.admit` wants. Treat it as a password: `docs/postgres.md` says how far it may travel.
pub struct JobPass(Box<str>);

impl JobPass {
    /// The text. Whoever takes it says so on purpose.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for JobPass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[fence]")
    }
}

/// The text with `[fence]` in place of every pass in it, also of one that was cut.
pub fn redacted(text: &str) -> Cow<'_, str> {
    let Some(mut at) = text.find(PREFIX) else { return text.into() };
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    loop {
        clean.push_str(&rest[..at]);
        clean.push_str("[fence]");
        // With the colon: right behind a prefix, another one is part of what is hidden.
        rest = rest[at..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "-_:".contains(c));
        match rest.find(PREFIX) {
            Some(next) => at = next,
            None => break,
        }
    }
    clean.push_str(rest);
    clean.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fence::{Generation, MemberId};

    fn pass(claim: u64, owner: &Owner, partition: u32) -> Pass {
        Pass::minted(7, Partition(partition), FenceToken::minted(1, Generation::new(5).unwrap(), claim), owner)
    }

    #[test]
    fn a_pass_is_of_one_job_under_one_claim_and_no_number() {
        let member = MemberId::new("m").unwrap();
        let (one, two) = (Owner::fresh(&member), Owner::fresh(&member));
        let text = |pass: Pass, offset| pass.of_job(Offset(offset)).reveal().to_owned();
        let base = text(pass(9, &one, 3), 41);
        assert_eq!(base, text(pass(9, &one, 3), 41));
        for other in [
            text(pass(9, &one, 3), 42),
            text(pass(9, &one, 4), 41),
            text(pass(8, &one, 3), 41),
            text(pass(9, &two, 3), 41),
        ] {
            // The last 28 bytes are the digest.
            assert_ne!(base[base.len() - 37..], other[other.len() - 37..]);
        }
        assert!(base.starts_with("keylane-fence-v1:") && base.len() == PREFIX.len() + 64, "{base}");
    }

    #[test]
    fn debug_shows_neither_kind_of_pass() {
        let pass = pass(9, &Owner::fresh(&MemberId::new("m").unwrap()), 3);
        assert_eq!(format!("{pass:?} {:?}", pass.of_job(Offset(1))), "[fence] [fence]");
    }

    #[test]
    fn what_is_redacted_holds_no_part_of_a_pass() {
        let pass = pass(9, &Owner::fresh(&MemberId::new("m").unwrap()), 3).of_job(Offset(1));
        let whole = pass.reveal();
        assert_eq!(redacted(&format!("a {whole}\" b {whole}")), "a [fence]\" b [fence]");
        assert_eq!(redacted(&format!("{}…", &whole[..40])), "[fence]…");
        assert_eq!(redacted(&format!("{PREFIX}{whole}.")), "[fence].");
        assert_eq!(redacted("nothing keylane-fen"), "nothing keylane-fen");
    }
}
