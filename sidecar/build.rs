//! Makes the constants of `src/metrics/catalogue.rs` from `metrics.toml`.

use std::{env, error::Error, fs, path::Path};

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
        text += &format!(
            "#[doc = {:?}]\npub const {constant}: Metric = Metric {{ name: {:?}, kind: Kind::{kind}, labels: &{:?}, \
             source: &{:?}, help: {:?}, buckets: &{:?} }};\n",
            metric.help, metric.name, metric.labels, metric.source, metric.help, metric.buckets,
        );
        names += &format!("{constant}, ");
    }
    text += &format!("/// All of them.\npub const ALL: &[Metric] = &[{names}];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("catalogue.rs"), text)?;
    Ok(())
}
