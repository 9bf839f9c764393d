//! The server's address, and the rule that TLS with a verified certificate is required beyond this
//! machine.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::sync::SyncError;

/// Maximum time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A parsed address.
#[derive(Debug, Clone)]
pub struct Address {
    /// Host, login and database.
    pub config: Config,
    /// The server, for messages.
    pub host: String,
    /// Certificates to trust instead of the system's.
    roots: Option<PathBuf>,
    /// True if the connection is encrypted and the certificate verified.
    pub is_encrypted: bool,
}

impl Address {
    /// Parses `postgres://user:password@host/database?…`, with libpq's sslmode and sslrootcert.
    pub fn parse(url: &str) -> Result<Self, SyncError> {
        let wrong = |reason: String| SyncError::Address(reason);
        if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
            return Err(wrong("it must begin with postgres://".into()));
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_owned()),
                Some(("sslrootcert", value)) => roots = Some(PathBuf::from(decoded(value))),
                _ => rest.push(pair),
            }
        }
        let mut config = Config::from_str(&format!("{base}?{}", rest.join("&"))).map_err(|error| {
            let reason =
                std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            wrong(reason)
        })?;
        if config.get_hosts().is_empty() {
            return Err(wrong("it names no host".into()));
        }
        if config.get_user().is_none() {
            return Err(wrong("it names no user, as in postgres://user:password@host/database".into()));
        }
        let is_local = config.get_hosts().iter().all(is_on_this_machine);
        let is_encrypted = match (mode.as_deref(), is_local) {
            (Some("verify-full" | "verify-ca" | "require"), _) | (None, false) => true,
            (None | Some("disable" | "allow" | "prefer"), true) => false,
            (Some(mode @ ("disable" | "allow" | "prefer")), false) => {
                return Err(wrong(format!(
                    "sslmode={mode} would send memories unencrypted to another machine; remove it"
                )));
            }
            (Some(other), _) => return Err(wrong(format!("unknown sslmode={other}"))),
        };
        config
            .ssl_mode(if is_encrypted { SslMode::Require } else { SslMode::Disable })
            .connect_timeout(CONNECT_TIMEOUT)
            .application_name("claude-mem");
        let host = config.get_hosts().iter().map(host_name).collect::<Vec<_>>().join(", ");
        Ok(Self { config, host, roots, is_encrypted })
    }

    /// Returns the TLS settings: the certificate must be valid for the host's name.
    pub fn tls(&self) -> Result<ClientConfig, SyncError> {
        let wrong = |reason: String| SyncError::Address(reason);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(|error| wrong(error.to_string()))?;
        let Some(path) = &self.roots else {
            let builder = builder.with_platform_verifier().map_err(|error| wrong(error.to_string()))?;
            return Ok(builder.with_no_client_auth());
        };
        let unreadable = |reason: String| wrong(format!("sslrootcert={}: {reason}", path.display()));
        let mut roots = RootCertStore::empty();
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            roots.add(certificate).map_err(|error| unreadable(error.to_string()))?;
        }
        if roots.is_empty() {
            return Err(unreadable("it contains no certificate".into()));
        }
        Ok(builder.with_root_certificates(roots).with_no_client_auth())
    }
}

/// Returns the address without user and password, for somebody else's invitation.
pub fn without_login(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) if url.has_host() => {
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.into()
        }
        _ => url.to_owned(),
    }
}

fn decoded(value: &str) -> String {
    let url = Url::parse(&format!("x://h/?v={value}"));
    url.ok().and_then(|url| url.query_pairs().next().map(|(_, value)| value.into_owned())).unwrap_or_default()
}

fn is_on_this_machine(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_needs_tls() {
        let is_encrypted = |url: &str| Address::parse(url).map(|address| address.is_encrypted);
        assert!(is_encrypted("postgres://me@db.example/mem").unwrap());
        assert!(is_encrypted("postgresql://me:x@10.0.0.1:6432/mem?sslmode=require").unwrap());
        assert!(
            is_encrypted("postgres://me@localhost/mem?sslmode=verify-full&sslrootcert=%2Ftmp%2Fca.pem")
                .unwrap()
        );
        assert!(!is_encrypted("postgres://me@127.0.0.1/mem").unwrap());
        assert!(!is_encrypted("postgres://me@%2Frun%2Fpostgresql/mem").unwrap());
        assert!(!is_encrypted("postgres:///mem?host=/run/postgresql&user=me").unwrap());
    }

    #[test]
    fn unusable_addresses_are_refused_with_the_reason() {
        let cases = [
            ("mysql://me@db/mem", "postgres://"),
            ("postgres://me@db/mem?sslmode=disable", "unencrypted"),
            ("postgres://db/mem", "user"),
            ("postgres:///mem?user=me", "host"),
            ("postgres://me@db/mem?sslmode=maybe", "unknown"),
        ];
        for (url, word) in cases {
            let error = Address::parse(url).unwrap_err().to_string();
            assert!(error.contains(word), "{url}: {error}");
        }
        let address = Address::parse("postgres://me@db/mem?sslrootcert=/nowhere.pem").unwrap();
        assert!(address.tls().unwrap_err().to_string().contains("/nowhere.pem"));
    }

    #[test]
    fn an_invitation_for_another_person_has_no_login() {
        assert_eq!(
            without_login("postgres://me:secret@db:5433/mem?sslmode=require"),
            "postgres://db:5433/mem?sslmode=require"
        );
    }
}
