//! Arguments of `keylane board`, `keylane timeline` and `keylane narrate`, and the address of a board.

use std::{fmt, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use clap::Args;
use keylane_sidecar::board::ask::Target;

use super::units::duration;
use crate::remote::GivenAddress;

/// Where a board is if nobody says anything.
const DEFAULT_BOARD: &str = "http://127.0.0.1:9470";

const BOARD_EXAMPLES: &str = "\
Examples:
  keylane board --sidecar 127.0.0.1:9465
  keylane board --sidecar 10.0.0.1:9465,10.0.0.2:9465
  keylane board --sidecar keylane-workers.prod.svc:9465 --listen 0.0.0.0:9470

A name stands for all of its addresses. The board only reads: it asks each sidecar for its snapshot, and none of its own routes
changes anything. What it shows and how it decides: docs/board.md.";

const TIMELINE_EXAMPLES: &str = "\
Examples:
  keylane timeline
  keylane timeline --board http://board.prod:9470 --partition 5
  keylane timeline -o json | jq -r 'select(.severity == \"critical\") | .text'";

const NARRATE_EXAMPLES: &str = "\
Examples:
  keylane narrate snapshot.json
  keylane narrate --board http://board.prod:9470
  keylane narrate --model-url https://models.example/v1/chat/completions --model some-model --model-key-file key

No model is asked unless one is named. It is sent the snapshot and a fixed instruction, and what it answers is printed as advice and
read by nothing. Its key comes from --model-key-file or KEYLANE_MODEL_KEY.";

/// Arguments of `board`.
#[derive(Debug, Args)]
#[command(after_help = BOARD_EXAMPLES)]
pub(crate) struct BoardArgs {
    /// Where sidecars are: HOST:PORT, more of them with commas; a name stands for all of its addresses
    #[arg(long, required = true, env = "KEYLANE_SIDECAR", hide_env_values = true, value_name = "HOST:PORT")]
    #[arg(value_delimiter = ',', action = clap::ArgAction::Append)]
    pub(crate) sidecar: Vec<Target>,

    /// Where the page and the answers are
    #[arg(long, env = "KEYLANE_LISTEN", hide_env_values = true, value_name = "ADDRESS:PORT")]
    #[arg(default_value = "127.0.0.1:9470")]
    pub(crate) listen: SocketAddr,

    /// How often every sidecar is asked
    #[arg(long, env = "KEYLANE_EVERY", hide_env_values = true, value_name = "INTERVAL", default_value = "1s")]
    #[arg(value_parser = interval)]
    pub(crate) every: Duration,

    /// After so long without word a worker is silent: what it held is unknown
    #[arg(long, env = "KEYLANE_STALE_AFTER", hide_env_values = true, value_name = "TIME", default_value = "10s")]
    #[arg(value_parser = stale)]
    pub(crate) stale_after: Duration,

    /// After so long it may be gone
    #[arg(long, env = "KEYLANE_LOST_AFTER", hide_env_values = true, value_name = "TIME", default_value = "20s")]
    #[arg(value_parser = stale)]
    pub(crate) lost_after: Duration,
}

/// Arguments of `timeline`.
#[derive(Debug, Args)]
#[command(after_help = TIMELINE_EXAMPLES)]
pub(crate) struct TimelineArgs {
    /// The board
    #[arg(long, env = "KEYLANE_BOARD", hide_env_values = true, value_name = "URL", default_value = DEFAULT_BOARD)]
    pub(crate) board: BoardUrl,

    /// Only what happened to this partition
    #[arg(long, env = "KEYLANE_PARTITION", hide_env_values = true, value_name = "NUMBER")]
    pub(crate) partition: Option<u32>,
}

/// Arguments of `narrate`.
#[derive(Debug, Args)]
#[command(after_help = NARRATE_EXAMPLES)]
pub(crate) struct NarrateArgs {
    /// A snapshot: of a worker, a board, or `-` for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,

    /// The board whose snapshot is told, if no file is named [default: http://127.0.0.1:9470]
    #[arg(long, env = "KEYLANE_BOARD", hide_env_values = true, value_name = "URL")]
    pub(crate) board: Option<BoardUrl>,

    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// Whom `narrate` asks for advice.
#[derive(Debug, Args)]
#[command(next_help_heading = "Advice of a model, off unless one is named")]
pub(crate) struct ModelArgs {
    /// Where chat completions are asked for, as OpenAI's interface has it: https, or http on this machine
    #[arg(long, env = "KEYLANE_MODEL_URL", hide_env_values = true, value_name = "URL", requires = "model")]
    #[arg(value_parser = GivenAddress::of)]
    pub(crate) model_url: Option<GivenAddress>,

    /// The model's name there
    #[arg(long, env = "KEYLANE_MODEL", hide_env_values = true, value_name = "NAME", requires = "model_url")]
    pub(crate) model: Option<String>,

    /// The key for it is in this file
    #[arg(long, env = "KEYLANE_MODEL_KEY_FILE", hide_env_values = true, value_name = "FILE", requires = "model_url")]
    pub(crate) model_key_file: Option<PathBuf>,

    /// Trust the authorities in this PEM file, and no others
    #[arg(long, env = "KEYLANE_MODEL_CA_FILE", hide_env_values = true, value_name = "FILE", requires = "model_url")]
    pub(crate) ca_file: Option<PathBuf>,

    /// It may take so long
    #[arg(long, env = "KEYLANE_MODEL_WITHIN", hide_env_values = true, value_name = "TIME", default_value = "30s")]
    #[arg(value_parser = duration)]
    pub(crate) model_within: Duration,
}

impl NarrateArgs {
    /// The board that was named, or the one of this machine.
    pub(crate) fn board(&self) -> BoardUrl {
        self.board.clone().unwrap_or_else(|| BoardUrl(DEFAULT_BOARD.trim_start_matches("http://").to_owned()))
    }
}

/// A board's address: `http://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BoardUrl(String);

impl BoardUrl {
    /// Host and port.
    pub(crate) fn host(&self) -> &str {
        &self.0
    }
}

impl FromStr for BoardUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let host = text.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.and_then(|host| host.parse::<Target>().ok());
        host.map(|host| Self(host.to_string())).ok_or_else(|| "not http://HOST:PORT".to_owned())
    }
}

impl fmt::Display for BoardUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.0)
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_millis(200), "200ms")
}

fn stale(text: &str) -> Result<Duration, String> {
    at_least(text, Duration::from_secs(1), "1s")
}

fn at_least(text: &str, least: Duration, name: &str) -> Result<Duration, String> {
    duration(text).and_then(|d| if d >= least { Ok(d) } else { Err(format!("at least {name}")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boards_address_is_plain_http_with_a_port() {
        for (text, host) in [("http://127.0.0.1:9470", "127.0.0.1:9470"), ("http://board.prod:80/", "board.prod:80")] {
            assert_eq!(text.parse::<BoardUrl>().unwrap().host(), host);
        }
        for text in ["127.0.0.1:9470", "https://board:443", "http://board", "http://board:9470/v1"] {
            assert!(text.parse::<BoardUrl>().is_err(), "{text}");
        }
    }
}
