//! `keylane config`: the settings in force and where each comes from; whether a command would take its own. No secret is shown.

mod check;

use clap::{CommandFactory, parser::ValueSource};
use keylane_producer::kafka::codecs;
use serde::Serialize;

use crate::{
    cli::{BrokerUrl, Cli, ConfigArgs, ConfigCommand, Global},
    exit::{Code, Failure},
    output::{Output, Table},
};

pub(crate) fn run(args: &ConfigArgs, global: &Global, output: &mut Output) -> Result<Code, Failure> {
    match &args.command {
        ConfigCommand::Show => show(global, output),
        ConfigCommand::Check(args) => check::run(args, output),
    }
}

fn show(global: &Global, output: &mut Output) -> Result<Code, Failure> {
    let kafka_properties = match &global.broker {
        BrokerUrl::Kafka(servers) => {
            let kafka = global.kafka(servers)?;
            kafka.shown().map(|(name, value)| Property { name: name.to_owned(), value }).collect()
        }
        BrokerUrl::Sqlite(_) => Vec::new(),
    };
    let shown = Shown {
        version: env!("CARGO_PKG_VERSION"),
        codecs: codecs::built_in()?,
        settings: settings(global),
        kafka_properties,
    };
    if output.is_json() {
        output.json(&shown)?;
        return Ok(Code::Done);
    }
    let mut table = Table::new(&["SETTING", "VALUE", "FROM"]);
    for Setting { name, value, from } in &shown.settings {
        table.row(&[name, &value.as_deref().unwrap_or("-"), from]);
    }
    output.table(&table)?;
    output.line("")?;
    if !shown.kafka_properties.is_empty() {
        let mut table = Table::new(&["KAFKA PROPERTY", "VALUE"]);
        for Property { name, value } in &shown.kafka_properties {
            table.row(&[name, value]);
        }
        output.table(&table)?;
        output.line("")?;
    }
    output.line(&format!("keylane {}; compressed records it reads: {}", shown.version, shown.codecs.join(", ")))?;
    Ok(Code::Done)
}

fn settings(global: &Global) -> Vec<Setting> {
    // What is set only by a flag or variable has no default text.
    let count = |n: usize| (n > 0).then(|| n.to_string());
    let file = global.kafka_properties_file().map(|file| file.display().to_string());
    let values = [
        ("broker", Some(global.broker.to_string())),
        ("store", global.store().ok().map(|store| store.to_string())),
        ("queue", Some(global.queue.to_string())),
        ("group", Some(global.group.to_string())),
        // Their names and what may be shown of them stand below.
        ("kafka-property", count(global.kafka_property_count())),
        ("kafka-properties", file),
        ("output", Some(format!("{:?}", global.output).to_lowercase())),
        ("color", Some(format!("{:?}", global.color).to_lowercase())),
        ("quiet", Some(global.quiet.to_string())),
        ("verbose", Some(global.verbose.to_string())),
        ("log-format", Some(format!("{:?}", global.log_format).to_lowercase())),
    ];
    // The command line was good a moment ago.
    let matches = Cli::command().try_get_matches().ok();
    let from = |name: &str| {
        let id = name.replace('-', "_");
        // A global flag stands where it was typed: the innermost command knows.
        let mut place = matches.as_ref();
        let mut found = None;
        while let Some(matches) = place {
            found = matches.try_contains_id(&id).ok().and_then(|_| matches.value_source(&id)).or(found);
            place = matches.subcommand().map(|(_, inner)| inner);
        }
        match found {
            Some(ValueSource::CommandLine) => "flag".to_owned(),
            Some(ValueSource::EnvVariable) => format!("KEYLANE_{}", id.to_uppercase()),
            _ => "default".to_owned(),
        }
    };
    values.into_iter().map(|(name, value)| Setting { from: from(name), name, value }).collect()
}

/// All of it as `-o json` shows it.
#[derive(Serialize)]
struct Shown {
    version: &'static str,
    codecs: Vec<&'static str>,
    settings: Vec<Setting>,
    kafka_properties: Vec<Property>,
}

#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: Option<String>,
    from: String,
}

#[derive(Serialize)]
struct Property {
    name: String,
    value: String,
}
