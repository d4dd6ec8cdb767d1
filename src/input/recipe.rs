//! How a line or a row becomes a job.

use bytes::Bytes;
use keylane_producer::{Headers, Job, JobId, JobKey, job::MAX_PAYLOAD_BYTES};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Fault, Pointer, Rule, key::KeyRules};

/// Which parts of a document or a row are what.
#[derive(Clone, Debug)]
pub(crate) enum Recipe {
    Json(JsonRecipe),
    Csv(CsvRecipe),
}

/// NDJSON: parts by pointer.
#[derive(Clone, Debug)]
pub(crate) struct JsonRecipe {
    pub(crate) key: Pointer,
    pub(crate) rules: KeyRules,
    /// `None`: the whole line.
    pub(crate) payload: Option<Pointer>,
    pub(crate) id: Option<Pointer>,
    /// An object whose fields are headers.
    pub(crate) headers: Option<Pointer>,
    /// Of every job.
    pub(crate) fixed_headers: Headers,
}

/// CSV: parts by column name.
#[derive(Clone, Debug)]
pub(crate) struct CsvRecipe {
    pub(crate) key: String,
    pub(crate) rules: KeyRules,
    /// `None`: a JSON object of all columns.
    pub(crate) payload: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) fixed_headers: Headers,
}

impl JsonRecipe {
    /// The job of a line that is not blank.
    pub(crate) fn job(&self, line: &[u8]) -> Result<Job, Fault> {
        let document = std::str::from_utf8(line).map_err(|error| {
            Fault::new(
                Rule::NotUtf8,
                format!("not UTF-8 at byte {}", error.valid_up_to() + 1),
                "convert the text to UTF-8; binary belongs in base64",
            )
        })?;
        let key = self.key_in(document)?;
        let payload = match &self.payload {
            None => line,
            Some(pointer) => {
                required(pointer, document, Rule::PayloadMissing, "point --payload at a field that each line has")?
                    .get()
                    .as_bytes()
            }
        };
        let mut job = sized(key, payload)?;
        if let Some(pointer) = &self.id {
            job.id = id_in(required(pointer, document, Rule::BadId, "leave out --id to get a fresh id for each job")?)?;
        }
        job.headers = self.fixed_headers.clone();
        if let Some(value) = self.headers.as_ref().map(|p| p.value_in(document)).transpose()?.flatten() {
            add_headers(&mut job.headers, value)?;
        }
        Ok(job)
    }

    fn key_in(&self, document: &str) -> Result<JobKey, Fault> {
        let value = required(&self.key, document, Rule::KeyMissing, "name the key's place with --key /name/of/field")?;
        self.rules.key_of_json(value, &self.key.to_string())
    }
}

fn required<'a>(pointer: &Pointer, document: &'a str, rule: Rule, remedy: &'static str) -> Result<&'a RawValue, Fault> {
    pointer.value_in(document)?.ok_or_else(|| Fault::new(rule, format!("no value at {pointer}"), remedy))
}

fn sized(key: JobKey, payload: &[u8]) -> Result<Job, Fault> {
    let length = payload.len();
    let too_long = || {
        Fault::new(
            Rule::PayloadTooLong,
            format!("payload has {length} bytes: the limit is {MAX_PAYLOAD_BYTES}"),
            "keep the body elsewhere and enqueue a reference to it",
        )
    };
    if length > MAX_PAYLOAD_BYTES {
        return Err(too_long());
    }
    Job::new(key, Some(Bytes::copy_from_slice(payload))).map_err(|_| too_long())
}

const ID_REMEDY: &str = "ids have 1 to 64 letters, digits, '-', '_' or ':'; leave out --id to get fresh ones";

fn id_in(value: &RawValue) -> Result<JobId, Fault> {
    let text: String = serde_json::from_str(value.get())
        .map_err(|_| Fault::new(Rule::BadId, "the job id is not a string", ID_REMEDY))?;
    id_of(&text)
}

fn id_of(text: &str) -> Result<JobId, Fault> {
    text.parse().map_err(|e: keylane_producer::Error| Fault::new(Rule::BadId, e.detail().what(), ID_REMEDY))
}

/// Adds an object's fields as headers. A null object has none; a null field is a null value.
fn add_headers(headers: &mut Headers, object: &RawValue) -> Result<(), Fault> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(String, Option<String>)>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object of strings")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut pairs = Vec::new();
            while let Some(pair) = map.next_entry()? {
                pairs.push(pair);
            }
            Ok(pairs)
        }
    }
    if object.get() == "null" {
        return Ok(());
    }
    let bad =
        |what: String| Fault::new(Rule::BadHeaders, what, "headers are an object of strings or nulls, 32 KiB in all");
    let pairs = serde_json::Deserializer::from_str(object.get())
        .deserialize_map(Pairs)
        .map_err(|_| bad("the headers are not an object of strings".to_owned()))?;
    for (name, value) in pairs {
        headers.push(name, value.map(Bytes::from)).map_err(|e| bad(e.detail().what().to_owned()))?;
    }
    Ok(())
}

/// A [`CsvRecipe`] whose columns were found in a header row.
#[derive(Clone, Debug)]
pub(crate) struct BoundCsvRecipe {
    recipe: CsvRecipe,
    names: Vec<String>,
    key: usize,
    payload: Option<usize>,
    id: Option<usize>,
}

impl CsvRecipe {
    /// Finds the columns.
    ///
    /// # Errors
    /// What is wrong with the header row, and the columns that are there.
    pub(crate) fn bind(self, names: Vec<String>) -> Result<BoundCsvRecipe, String> {
        if let Some(twice) = names.iter().enumerate().find_map(|(at, n)| names[..at].contains(n).then_some(n)) {
            return Err(format!(
                "the header row has the column '{twice}' twice: a payload's fields need names of their own"
            ));
        }
        let place = |column: &str| {
            names
                .iter()
                .position(|n| n == column)
                .ok_or_else(|| format!("the header row has no column '{column}': its columns are {}", names.join(", ")))
        };
        let key = place(&self.key)?;
        let payload = self.payload.as_deref().map(place).transpose()?;
        let id = self.id.as_deref().map(place).transpose()?;
        Ok(BoundCsvRecipe { recipe: self, key, payload, id, names })
    }
}

impl BoundCsvRecipe {
    /// The job of a row.
    pub(crate) fn job(&self, fields: &[&str]) -> Result<Job, Fault> {
        if fields.len() != self.names.len() {
            return Err(Fault::new(
                Rule::WrongFieldCount,
                format!("the row has {} fields, the header row {}", fields.len(), self.names.len()),
                "a field with a comma or a line break in it is written in double quotes",
            ));
        }
        let key = self.recipe.rules.key_of_text(fields[self.key], &format!("column '{}'", self.names[self.key]))?;
        let mut job = match self.payload {
            Some(column) => sized(key, fields[column].as_bytes())?,
            None => sized(key, self.object(fields).as_bytes())?,
        };
        if let Some(column) = self.id {
            job.id = id_of(fields[column])?;
        }
        job.headers = self.recipe.fixed_headers.clone();
        Ok(job)
    }

    /// The row as a JSON object of strings, in the order of the columns.
    fn object(&self, fields: &[&str]) -> String {
        let pairs = self.names.iter().zip(fields);
        let members: Vec<String> = pairs.map(|(name, field)| format!("{}:{}", quoted(name), quoted(field))).collect();
        format!("{{{}}}", members.join(","))
    }
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("a string is always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe() -> JsonRecipe {
        JsonRecipe {
            key: "/key".parse().unwrap(),
            rules: KeyRules::default(),
            payload: None,
            id: None,
            headers: None,
            fixed_headers: Headers::default(),
        }
    }

    fn pointer(text: &str) -> Option<Pointer> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn the_payload_is_the_line_byte_for_byte() {
        let line = b" {\"key\" : \"k\",\t\"n\":1.50}  ";
        assert_eq!(recipe().job(line).unwrap().payload.unwrap(), &line[..]);
    }

    #[test]
    fn a_pointed_payload_is_the_source_text_of_the_value_whatever_it_is() {
        let recipe = JsonRecipe { payload: pointer("/p"), ..recipe() };
        for source in ["{ \"a\" : 1.0 }", "\"te\\u0078t\"", "null", "[1, 2]"] {
            let line = format!("{{\"key\":\"k\",\"p\":{source}}}");
            assert_eq!(recipe.job(line.as_bytes()).unwrap().payload.unwrap(), source.as_bytes());
        }
        assert_eq!(recipe.job(br#"{"key":"k"}"#).unwrap_err().rule, Rule::PayloadMissing);
    }

    #[test]
    fn a_line_that_is_not_utf_8_is_named_by_its_byte() {
        let fault = recipe().job(b"{\"key\":\"\xff\"}").unwrap_err();
        assert_eq!(fault.rule, Rule::NotUtf8);
        assert!(fault.what.contains("byte 9"), "{fault}");
    }

    #[test]
    fn a_payload_above_the_limit_is_refused_and_the_limit_itself_is_not() {
        let line = |filler: usize| format!(r#"{{"key":"k","f":"{}"}}"#, "x".repeat(filler));
        let frame = line(0).len();
        assert!(recipe().job(line(MAX_PAYLOAD_BYTES - frame).as_bytes()).is_ok());
        let fault = recipe().job(line(MAX_PAYLOAD_BYTES - frame + 1).as_bytes()).unwrap_err();
        assert_eq!(fault.rule, Rule::PayloadTooLong);
    }

    #[test]
    fn ids_come_from_the_line_when_asked_for() {
        let recipe = JsonRecipe { id: pointer("/id"), ..recipe() };
        assert_eq!(recipe.job(br#"{"key":"k","id":"order-7"}"#).unwrap().id.as_str(), "order-7");
        for line in [r#"{"key":"k"}"#, r#"{"key":"k","id":7}"#, r#"{"key":"k","id":"a b"}"#] {
            assert_eq!(recipe.job(line.as_bytes()).unwrap_err().rule, Rule::BadId, "{line}");
        }
    }

    #[test]
    fn headers_are_the_fixed_ones_and_then_the_line_s() {
        let mut fixed = Headers::default();
        fixed.push("from", Some("batch".into())).unwrap();
        let recipe = JsonRecipe { headers: pointer("/h"), fixed_headers: fixed, ..recipe() };
        let headers = |line: &str| {
            let job = recipe.job(line.as_bytes())?;
            Ok(job.headers.iter().map(|(n, v)| (n.clone(), v.cloned())).collect::<Vec<_>>())
        };
        let from = (Bytes::from("from"), Some(Bytes::from("batch")));
        let line = r#"{"key":"k","h":{"a":"1","none":null}}"#;
        let all = vec![from.clone(), (Bytes::from("a"), Some(Bytes::from("1"))), (Bytes::from("none"), None)];
        assert_eq!(headers(line), Ok(all));
        assert_eq!(headers(r#"{"key":"k"}"#), Ok(vec![from.clone()]));
        assert_eq!(headers(r#"{"key":"k","h":null}"#), Ok(vec![from]));
        for bad in [r#"[]"#, r#"{"a":1}"#, r#"{"keylane-id":"x"}"#, r#"{"":"x"}"#] {
            let line = format!(r#"{{"key":"k","h":{bad}}}"#);
            assert_eq!(headers(&line).map_err(|f: Fault| f.rule), Err(Rule::BadHeaders), "{bad}");
        }
    }

    fn csv(columns: &[&str]) -> Result<BoundCsvRecipe, String> {
        let fixed_headers = Headers::default();
        CsvRecipe { key: "key".into(), rules: KeyRules::default(), payload: None, id: None, fixed_headers }
            .bind(columns.iter().map(|&c| c.to_owned()).collect())
    }

    #[test]
    fn a_row_becomes_an_object_in_the_order_of_its_columns() {
        let job = csv(&["z", "key", "a"]).unwrap().job(&["1", "k", "say \"hi\"\n"]).unwrap();
        assert_eq!(job.payload.unwrap(), &br#"{"z":"1","key":"k","a":"say \"hi\"\n"}"#[..]);
        assert_eq!(job.key.as_bytes(), b"k");
    }

    #[test]
    fn header_rows_that_cannot_be_used_are_refused() {
        assert!(csv(&["a", "b"]).unwrap_err().contains("no column 'key': its columns are a, b"));
        assert!(csv(&["key", "b", "b"]).unwrap_err().contains("'b' twice"));
    }

    #[test]
    fn rows_with_another_number_of_fields_or_no_key_are_faults() {
        let recipe = csv(&["key", "a"]).unwrap();
        assert_eq!(recipe.job(&["k"]).unwrap_err().rule, Rule::WrongFieldCount);
        assert_eq!(recipe.job(&["k", "1", "2"]).unwrap_err().rule, Rule::WrongFieldCount);
        assert_eq!(recipe.job(&["", "1"]).unwrap_err().rule, Rule::KeyEmpty);
    }
}
