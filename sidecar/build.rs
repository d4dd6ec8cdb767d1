//! Makes the constants of `src/metrics/catalogue.rs` from `metrics.toml`.

use std::{collections::BTreeMap, env, error::Error, fs, path::Path};

use serde::Deserialize;

#[derive(Deserialize)]
struct Catalogue {
    metric: Vec<Metric>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Metric {
    name: String,
    kind: String,
    #[serde(rename = "unit")]
    _unit: String,
    labels: Vec<String>,
    /// Of a label that takes words: which.
    #[serde(default)]
    values: BTreeMap<String, Vec<String>>,
    source: Vec<String>,
    help: String,
    #[serde(default)]
    buckets: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=metrics.toml");
    let catalogue: Catalogue = toml::from_str(&fs::read_to_string("metrics.toml")?)?;
    let mut text = String::new();
    let mut names = String::new();
    for metric in &catalogue.metric {
        let constant = metric.name.to_uppercase();
        let kind = match metric.kind.as_str() {
            "counter" => "Counter",
            "gauge" => "Gauge",
            "histogram" => "Histogram",
            other => return Err(format!("{}: a metric of kind '{other}'", metric.name).into()),
        };
        let words: Vec<_> = metric.labels.iter().map(|l| metric.values.get(l).map_or(&[][..], Vec::as_slice)).collect();
        for (label, words) in metric.labels.iter().zip(&words) {
            let is_name = matches!(label.as_str(), "topic" | "group" | "partition");
            if metric.source.iter().any(|source| source == "worker") && is_name != words.is_empty() {
                return Err(format!("{}: a worker's label '{label}' is a name or has values", metric.name).into());
            }
        }
        let words: String = words.iter().map(|words| format!("&{words:?}, ")).collect();
        text += &format!(
            "#[doc = {:?}]\npub const {constant}: Metric = Metric {{ name: {:?}, kind: Kind::{kind}, labels: &{:?}, \
             words: &[{words}], source: &{:?}, help: {:?}, buckets: &{:?} }};\n",
            metric.help, metric.name, metric.labels, metric.source, metric.help, metric.buckets,
        );
        names += &format!("{constant}, ");
    }
    text += &format!("/// All of them.\npub const ALL: &[Metric] = &[{names}];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("catalogue.rs"), text)?;
    Ok(())
}
