//! Arguments of `keylane status`.

use std::time::Duration;

use clap::Args;

use super::units::duration;

const EXAMPLES: &str = "\
Examples:
  keylane status
  keylane status --watch
  keylane status -o json | jq -r '.stopped_keys[].key'
  keylane status --watch 5s -o json >> ownership.ndjson

It looks and touches nothing: no row changes, no session is renewed, nobody is expelled. What the words and fields mean:
docs/cli.md.";

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    /// Look again and again, each 2s or as said: redraws a terminal, else appends a JSON line each time
    #[arg(long, env = "KEYLANE_WATCH", hide_env_values = true, value_name = "INTERVAL", num_args = 0..=1, default_missing_value = "2s", value_parser = interval)]
    pub(crate) watch: Option<Duration>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let shortest = Duration::from_millis(100);
    duration(text).and_then(|d| if d >= shortest { Ok(d) } else { Err("at least 100ms".to_owned()) })
}
