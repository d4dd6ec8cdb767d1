//! Tokens for clients that nobody polls: rust-rdkafka sets a token only from its own poll, so an admin client and one that
//! only asks for offsets would never log in.

use std::{
    ffi::{CStr, CString},
    ptr,
};

use rdkafka::{bindings as native, client::Client, types::RDKafkaRespErr};

use super::KafkaContext;

/// Gives the client the token that is there now, or the reason why there is none.
#[expect(unsafe_code, reason = "rust-rdkafka sets a token only from its own poll")]
pub fn give(client: &Client<KafkaContext>) {
    let mut said = [0_u8; 256];
    let token = client.context().token().map_err(|error| error.detail().chain());
    let ready = token.and_then(|token| {
        let name = CString::new(token.principal_name).map_err(|_| "its name has a zero byte".to_owned())?;
        let text = CString::new(token.token).map_err(|_| "it has a zero byte".to_owned())?;
        Ok((text, name, token.lifetime_ms))
    });
    // SAFETY: the client lives, and all texts are C strings that live during the call.
    unsafe {
        let failure = match &ready {
            Ok((text, name, lifetime)) => {
                let answer = native::rd_kafka_oauthbearer_set_token(
                    client.native_ptr(),
                    text.as_ptr(),
                    *lifetime,
                    name.as_ptr(),
                    ptr::null_mut(),
                    0,
                    said.as_mut_ptr().cast(),
                    said.len(),
                );
                if answer == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
                    return;
                }
                CStr::from_bytes_until_nul(&said).unwrap_or_default().to_owned()
            }
            Err(why) => CString::new(why.as_str()).unwrap_or_default(),
        };
        native::rd_kafka_oauthbearer_set_token_failure(client.native_ptr(), failure.as_ptr());
    }
}

/// The same, if this client logs in by tokens.
pub(crate) fn give_if_wanted(client: &Client<KafkaContext>) {
    if client.context().logs_in_by_token() {
        give(client);
    }
}
