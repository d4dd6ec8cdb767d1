//! Which compressed records this build can read. Producers choose the codec, so a queue may have all of them, and a build
//! without one would stand still at the first such batch.

use rdkafka::ClientConfig;

use crate::error::{Detail, Error};

/// All that Kafka has.
pub const ALL: [&str; 4] = ["gzip", "snappy", "lz4", "zstd"];

/// Those that this build can read.
///
/// # Errors
/// [`Error::Bug`] if librdkafka does not tell.
pub fn built_in() -> Result<Vec<&'static str>, Error> {
    let cannot = |why: String| Error::Bug(Detail::new("librdkafka does not tell what it was built with").because(why));
    let config = ClientConfig::new().create_native_config().map_err(|e| cannot(e.to_string()))?;
    let features = config.get("builtin.features").map_err(|e| cannot(e.to_string()))?;
    let has = |codec: &&str| features.split(',').any(|feature| feature.trim() == *codec);
    Ok(ALL.into_iter().filter(has).collect())
}

/// Refuses to start without one of them.
///
/// # Errors
/// [`Error::Refused`] names those that are missing.
pub fn check() -> Result<(), Error> {
    missing(&built_in()?)
}

fn missing(built_in: &[&str]) -> Result<(), Error> {
    let missing: Vec<&str> = ALL.into_iter().filter(|codec| !built_in.contains(codec)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Error::Refused(
        Detail::new(format!("this build cannot read records that are compressed with {}", missing.join(", ")))
            .remedy("build it as Cargo.toml says: librdkafka from source, with zlib and zstd"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_build_reads_every_codec() {
        assert_eq!(built_in().unwrap(), ALL);
        check().unwrap();
    }

    #[test]
    fn a_build_without_a_codec_says_which() {
        let refused = missing(&["gzip", "snappy", "lz4"]).unwrap_err();
        assert!(refused.detail().what().contains("compressed with zstd"), "{refused:?}");
    }
}
