//! Certificates made for one server or cluster, on 127.0.0.1.

use std::{fs, path::Path, path::PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

/// Where they are.
pub struct Certificates {
    /// The certificate of the authority that signed the servers', as PEM.
    pub ca: PathBuf,
    /// Of one that signed nothing here.
    pub other_ca: PathBuf,
    /// The servers' private key and certificate, as PEM in one file.
    pub key_store: PathBuf,
}

impl Certificates {
    /// Makes them.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn make(folder: &Path) -> Result<Self> {
        let files = Self {
            ca: folder.join("ca.pem"),
            other_ca: folder.join("other-ca.pem"),
            key_store: folder.join("server.pem"),
        };
        let issuer = authority(&files.ca)?;
        authority(&files.other_ca)?;
        let key = KeyPair::generate()?;
        let server = CertificateParams::new(["127.0.0.1".into(), "localhost".into()])?.signed_by(&key, &issuer)?;
        fs::write(&files.key_store, key.serialize_pem() + &server.pem()).context("cannot write the servers' key")?;
        Ok(files)
    }
}

fn authority(file: &Path) -> Result<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::new([])?;
    params.distinguished_name.push(DnType::CommonName, "Keylane's tests");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    fs::write(file, params.self_signed(&key)?.pem()).context("cannot write a CA certificate")?;
    Ok(Issuer::new(params, key))
}
