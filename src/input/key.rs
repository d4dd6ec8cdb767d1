//! A key out of a field: which values are keys, and which bytes they mean.

use bytes::Bytes;
use data_encoding::{BASE64, HEXLOWER_PERMISSIVE};
use keylane_producer::{JobKey, job::MAX_KEY_BYTES};
use serde_json::value::RawValue;

use super::{Fault, Rule};

/// What the text of a key field stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum KeyEncoding {
    /// Its UTF-8 bytes.
    #[default]
    Text,
    /// Bytes as pairs of 0-9 and a-f.
    Hex,
    /// Bytes in base64 with padding (RFC 4648).
    Base64,
}

/// How keys are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRules {
    pub(crate) encoding: KeyEncoding,
    /// Numbers are keys, by their source text.
    pub(crate) numbers: bool,
}

impl KeyRules {
    /// The key that a JSON value gives. `named` is where it was found, for messages.
    pub(crate) fn key_of_json(self, value: &RawValue, named: &str) -> Result<JobKey, Fault> {
        let source = value.get();
        match source.as_bytes().first() {
            Some(b'"') => {
                let text: String = serde_json::from_str(source).map_err(|_| {
                    Fault::new(
                        Rule::KeyNotText,
                        format!("the key at {named} has half of a surrogate pair, which is no text"),
                        "send such keys as hex or base64, with --key-encoding",
                    )
                })?;
                self.key_of_text(&text, named)
            }
            Some(b'n') => Err(Fault::new(
                Rule::KeyNull,
                format!("the key at {named} is null"),
                "give each job the key whose jobs must run in order",
            )),
            Some(b'-' | b'0'..=b'9') if self.numbers => self.key_of_text(source, named),
            Some(b'-' | b'0'..=b'9') => Err(Fault::new(
                Rule::KeyNumber,
                format!("the key at {named} is a number"),
                "write keys as strings, or take a number's source text with --numeric-keys (1 and 1.0 are two keys then)",
            )),
            first => {
                let kind = match first {
                    Some(b'{') => "an object",
                    Some(b'[') => "an array",
                    _ => "true or false",
                };
                Err(Fault::new(
                    Rule::KeyNotText,
                    format!("the key at {named} is {kind}"),
                    "point --key at a string; an array's or object's field has a pointer like /order/id",
                ))
            }
        }
    }

    /// The key that a text gives, decoded.
    pub(crate) fn key_of_text(self, text: &str, named: &str) -> Result<JobKey, Fault> {
        let bytes = match self.encoding {
            KeyEncoding::Text => Bytes::copy_from_slice(text.as_bytes()),
            KeyEncoding::Hex => decoded(HEXLOWER_PERMISSIVE.decode(text.as_bytes()), named, "hex")?,
            KeyEncoding::Base64 => decoded(BASE64.decode(text.as_bytes()), named, "base64 with padding")?,
        };
        let length = bytes.len();
        JobKey::try_from(bytes).map_err(|_| match length {
            0 => Fault::new(
                Rule::KeyEmpty,
                format!("the key at {named} is empty: keys have 1 to {MAX_KEY_BYTES} bytes"),
                "give each job the key whose jobs must run in order",
            ),
            _ => Fault::new(
                Rule::KeyTooLong,
                format!("the key at {named} has {length} bytes: keys have 1 to {MAX_KEY_BYTES} bytes"),
                "use a shorter key, or a hash of it",
            ),
        })
    }
}

fn decoded(bytes: Result<Vec<u8>, data_encoding::DecodeError>, named: &str, form: &str) -> Result<Bytes, Fault> {
    bytes.map(Bytes::from).map_err(|error| {
        Fault::new(
            Rule::KeyNotDecodable,
            format!("the key at {named} is not {form}: {error}"),
            "check --key-encoding: it holds for every line",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(json: &str, rules: KeyRules) -> Result<Vec<u8>, Rule> {
        let value = RawValue::from_string(json.to_owned()).unwrap();
        rules.key_of_json(&value, "/key").map(|k| k.as_bytes().to_vec()).map_err(|f| f.rule)
    }

    fn plain(json: &str) -> Result<Vec<u8>, Rule> {
        key(json, KeyRules::default())
    }

    #[test]
    fn a_string_is_a_key_by_its_decoded_bytes() {
        assert_eq!(plain(r#""a\u00e4\n""#), Ok("aä\n".into()));
        assert_eq!(plain(r#""\u0000""#), Ok(vec![0]));
        assert_eq!(plain(r#"" ""#), Ok(b" ".to_vec()), "white space is a key: nothing is trimmed");
        assert_eq!(plain(r#""hex:00""#), Ok(b"hex:00".to_vec()), "text is text in a file");
    }

    #[test]
    fn each_other_value_has_a_rule_of_its_own() {
        assert_eq!(plain("null"), Err(Rule::KeyNull));
        assert_eq!(plain(r#""""#), Err(Rule::KeyEmpty));
        assert_eq!(plain("7"), Err(Rule::KeyNumber));
        assert_eq!(plain("-0.5e3"), Err(Rule::KeyNumber));
        assert_eq!(plain("true"), Err(Rule::KeyNotText));
        assert_eq!(plain("[1]"), Err(Rule::KeyNotText));
        assert_eq!(plain("{}"), Err(Rule::KeyNotText));
        assert_eq!(plain(r#""\ud800""#), Err(Rule::KeyNotText));
    }

    #[test]
    fn a_key_has_at_most_1024_bytes_once_decoded() {
        assert!(plain(&format!(r#""{}""#, "x".repeat(1_024))).is_ok());
        assert_eq!(plain(&format!(r#""{}""#, "x".repeat(1_025))), Err(Rule::KeyTooLong));
        let hex = KeyRules { encoding: KeyEncoding::Hex, numbers: false };
        assert!(key(&format!(r#""{}""#, "ff".repeat(1_024)), hex).is_ok());
        assert_eq!(key(&format!(r#""{}""#, "ff".repeat(1_025)), hex), Err(Rule::KeyTooLong));
    }

    #[test]
    fn numbers_are_keys_by_their_source_text_when_asked_for() {
        let rules = KeyRules { numbers: true, ..KeyRules::default() };
        assert_eq!(key("9007199254740993", rules), Ok(b"9007199254740993".to_vec()));
        assert_eq!(key("1.0", rules), Ok(b"1.0".to_vec()));
        assert_eq!(key("null", rules), Err(Rule::KeyNull));
    }

    #[test]
    fn binary_keys_come_as_hex_or_base64() {
        let hex = KeyRules { encoding: KeyEncoding::Hex, numbers: false };
        let base64 = KeyRules { encoding: KeyEncoding::Base64, numbers: false };
        let bytes = vec![0, 0, 0, 0, 7, 0xc3, 0x28];
        assert_eq!(key(r#""0000000007c328""#, hex), Ok(bytes.clone()));
        assert_eq!(key(r#""0000000007C328""#, hex), Ok(bytes.clone()));
        assert_eq!(key(r#""AAAAAAfDKA==""#, base64), Ok(bytes));
        assert_eq!(key(r#""abc""#, hex), Err(Rule::KeyNotDecodable));
        assert_eq!(key(r#""AAAAAAfDKA""#, base64), Err(Rule::KeyNotDecodable));
        assert_eq!(key(r#""""#, hex), Err(Rule::KeyEmpty));
    }
}
