//! What the flags say a job is made of.

use std::str::FromStr;

use keylane_producer::Headers;

use super::source::Source;
use crate::{
    cli::{EnqueueArgs, InputFormat},
    exit::{Code, Failure},
    input::{CsvRecipe, JsonRecipe, KeyEncoding, KeyRules, Pointer, Recipe},
};

pub(super) fn from_flags(args: &EnqueueArgs, source: &Source) -> Result<Recipe, Failure> {
    let rules = KeyRules { encoding: args.key_encoding, numbers: args.numeric_keys };
    if rules.numbers && rules.encoding != KeyEncoding::Text {
        return Err(Failure::new(Code::Usage, "--numeric-keys goes with --key-encoding text only"));
    }
    let fixed_headers = fixed_headers(args)?;
    match args.format.unwrap_or_else(|| source.usual_format()) {
        InputFormat::Ndjson => Ok(Recipe::Json(JsonRecipe {
            key: pointer("key", args.key.as_deref().unwrap_or("/key"))?,
            rules,
            payload: args.payload.as_deref().map(|text| pointer("payload", text)).transpose()?,
            id: args.id.as_deref().map(|text| pointer("id", text)).transpose()?,
            headers: args.headers.clone(),
            fixed_headers,
        })),
        InputFormat::Csv if args.headers.is_some() => {
            Err(Failure::new(Code::Usage, "--headers goes with NDJSON only").remedy("use --header NAME=VALUE"))
        }
        InputFormat::Csv if rules.numbers => Err(Failure::new(Code::Usage, "--numeric-keys goes with NDJSON only")
            .remedy("CSV has no numbers: leave it out")),
        InputFormat::Csv => Ok(Recipe::Csv(CsvRecipe {
            key: args.key.clone().unwrap_or_else(|| "key".to_owned()),
            rules,
            payload: args.payload.clone(),
            id: args.id.clone(),
            fixed_headers,
        })),
    }
}

/// The headers of every job.
pub(super) fn fixed_headers(args: &EnqueueArgs) -> Result<Headers, Failure> {
    let mut headers = Headers::default();
    for (name, value) in &args.header {
        headers.push(name.clone(), Some(value.clone().into()))?;
    }
    Ok(headers)
}

fn pointer(flag: &str, text: &str) -> Result<Pointer, Failure> {
    Pointer::from_str(text).map_err(|what| Failure::new(Code::Usage, format!("--{flag} '{text}': {what}")))
}
