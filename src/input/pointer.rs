//! A JSON pointer (RFC 6901), and finding what it points at without parsing anything else.
//!
//! The document is walked once, to its end, so that faulty JSON and a name that is there twice are both seen. Values off
//! the way are passed over by the parser's own iterative scan: their depth costs no stack.

use std::{fmt, str::FromStr};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{Fault, Rule};

/// Most steps of a pointer: each is one level of the parser's stack, which stops at 128.
const MAX_STEPS: usize = 100;

/// Where in a document a value is, for instance `/customer/id`. The empty one is the document itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer {
    text: String,
    steps: Vec<String>,
}

/// What lies at a pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Found<'a> {
    /// The value, as the source writes it.
    Value(&'a RawValue),
    /// Nothing.
    Missing,
    /// The object at this many steps has the next name twice.
    Twice { steps: usize },
}

impl FromStr for Pointer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix('/') else {
            return if text.is_empty() {
                Ok(Self { text: String::new(), steps: Vec::new() })
            } else {
                Err(format!("a JSON pointer begins with '/': write '/{text}'"))
            };
        };
        let steps: Result<Vec<String>, String> = rest.split('/').map(unescape).collect();
        let steps = steps?;
        if steps.len() > MAX_STEPS {
            return Err(format!("a JSON pointer has at most {MAX_STEPS} steps: this one has {}", steps.len()));
        }
        Ok(Self { text: text.to_owned(), steps })
    }
}

fn unescape(step: &str) -> Result<String, String> {
    let mut parts = step.split('~');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (sign, rest) = match (part.strip_prefix('0'), part.strip_prefix('1')) {
            (Some(rest), _) => ('~', rest),
            (_, Some(rest)) => ('/', rest),
            _ => return Err("in a JSON pointer '~' is written '~0' and '/' in a name '~1'".to_owned()),
        };
        plain.push(sign);
        plain.push_str(rest);
    }
    Ok(plain)
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.text.is_empty() { "the whole line" } else { &self.text })
    }
}

impl Pointer {
    /// Walks the document.
    ///
    /// # Errors
    /// A [`Fault`] if it is not JSON, or a name on the way is there twice. `Ok(None)`: nothing is there.
    pub(crate) fn value_in<'a>(&self, document: &'a str) -> Result<Option<&'a RawValue>, Fault> {
        match self.find(document).map_err(|e| not_json(document, &e))? {
            Found::Value(value) => Ok(Some(value)),
            Found::Missing => Ok(None),
            Found::Twice { steps } => Err(Fault::new(
                Rule::FieldTwice,
                format!("the field '{}' is there twice on the way to {self}", self.steps[steps]),
                "leave one of them: which one counts is not for us to guess",
            )),
        }
    }

    fn find<'a>(&self, document: &'a str) -> Result<Found<'a>, serde_json::Error> {
        let mut parser = serde_json::Deserializer::from_str(document);
        let found = Walk { steps: &self.steps, done: 0 }.deserialize(&mut parser)?;
        parser.end()?;
        Ok(found)
    }
}

fn not_json(document: &str, error: &serde_json::Error) -> Fault {
    let remedy = if document.contains('\u{feff}') {
        "a byte order mark in the middle comes from joined files: take it out"
    } else {
        "one JSON document a line; 'jq -c .' makes them from other layouts"
    };
    // The parser counts lines within its text, which has one: only the column tells something.
    let text = error.to_string();
    let reason = text.split(" at line ").next().unwrap_or(&text);
    Fault::new(Rule::NotJson, format!("not JSON: {reason} at column {}", error.column()), remedy)
}

/// The names of a document's fields, up to `limit`: a hint for whoever pointed at the wrong one.
pub(crate) fn field_names(document: &str, limit: usize) -> Vec<String> {
    struct Names(usize);
    impl<'de> Visitor<'de> for Names {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
            let mut names = Vec::new();
            while let Some((name, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                if names.len() < self.0 {
                    names.push(name);
                }
            }
            Ok(names)
        }
    }
    serde_json::Deserializer::from_str(document).deserialize_map(Names(limit)).unwrap_or_default()
}

/// One level of the way.
#[derive(Clone, Copy)]
struct Walk<'p> {
    steps: &'p [String],
    done: usize,
}

impl Walk<'_> {
    fn deeper(self) -> Self {
        Self { done: self.done + 1, ..self }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Found<'de>;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<Found<'de>, D::Error> {
        if self.done == self.steps.len() {
            let value: &'de RawValue = serde::Deserialize::deserialize(parser)?;
            return Ok(Found::Value(value));
        }
        parser.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Found<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found<'de>, A::Error> {
        let mut found = None;
        while let Some(is_next_step) = map.next_key_seed(Is(&self.steps[self.done]))? {
            if !is_next_step {
                map.next_value::<IgnoredAny>()?;
            } else if found.is_some() {
                map.next_value::<IgnoredAny>()?;
                found = Some(Found::Twice { steps: self.done });
            } else {
                found = Some(map.next_value_seed(self.deeper())?);
            }
        }
        Ok(found.unwrap_or(Found::Missing))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Found<'de>, A::Error> {
        let step = &self.steps[self.done];
        let is_index = step == "0" || !step.starts_with('0');
        let index: Option<usize> = step.parse().ok().filter(|_| is_index && step.bytes().all(|b| b.is_ascii_digit()));
        let mut found = Found::Missing;
        for at in 0_usize.. {
            if Some(at) == index {
                let Some(value) = seq.next_element_seed(self.deeper())? else { break };
                found = value;
            } else if seq.next_element::<IgnoredAny>()?.is_none() {
                break;
            }
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Found<'de>, E> {
        Ok(Found::Missing)
    }
    fn visit_i64<E>(self, _: i64) -> Result<Found<'de>, E> {
        Ok(Found::Missing)
    }
    fn visit_u64<E>(self, _: u64) -> Result<Found<'de>, E> {
        Ok(Found::Missing)
    }
    fn visit_f64<E>(self, _: f64) -> Result<Found<'de>, E> {
        Ok(Found::Missing)
    }
    fn visit_str<E>(self, _: &str) -> Result<Found<'de>, E> {
        Ok(Found::Missing)
    }
    fn visit_unit<E>(self) -> Result<Found<'de>, E> {
        Ok(Found::Missing)
    }
}

/// Whether a field's name is this one. Read as bytes: a lone surrogate in some other name is none of our business.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, parser: D) -> Result<bool, D::Error> {
        parser.deserialize_bytes(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }
    fn visit_bytes<E>(self, name: &[u8]) -> Result<bool, E> {
        Ok(name == self.0.as_bytes())
    }
    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests;
