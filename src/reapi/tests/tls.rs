//! Who is believed: servers by their certificates, and clients by theirs.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::{Running, usual};

/// An authority, and a certificate of its with the key.
fn authority(dir: &std::path::Path, name: &str) -> (String, (String, String)) {
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["127.0.0.1".into()]).unwrap();
    let cert = params.signed_by(&key, &issuer).unwrap().pem();
    let (ca, key) = (issuer.pem(), key.serialize_pem());
    for (end, text) in [("ca", &ca), ("cert", &cert), ("key", &key)] {
        std::fs::write(dir.join(format!("{name}.{end}")), text).unwrap();
    }
    (ca, (cert, key))
}

#[test]
fn a_server_is_believed_by_its_certificate_and_believes_by_the_client_s() {
    let dir = tempfile::tempdir().unwrap();
    let (ca, (cert, key)) = authority(dir.path(), "ours");
    authority(dir.path(), "theirs");
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let little = [b"little".to_vec()];
    let tls = || ServerTlsConfig::new().identity(Identity::from_pem(&cert, &key));
    let plain = Running::with(usual(), Server::builder().tls_config(tls()).unwrap());
    plain.send(&plain.client("grpcs", &[("ca", &path("ours.ca"))]), &little).unwrap();
    for ca in ["theirs.ca", "ours.ca"] {
        let options = [("ca", path(ca)), ("name", "another.host".to_owned())];
        let options: Vec<_> = options.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert!(plain.send(&plain.client("grpcs", &options), &little).is_err(), "{ca}");
    }
    assert!(plain.send(&plain.client("grpcs", &[("ca", &path("theirs.ca"))]), &little).is_err());
    assert!(plain.send(&plain.client("grpc", &[]), &little).is_err(), "not encrypted");

    let both =
        Running::with(usual(), Server::builder().tls_config(tls().client_ca_root(Certificate::from_pem(&ca))).unwrap());
    let of = |name: &str| {
        [("ca", path("ours.ca")), ("cert", path(&format!("{name}.cert"))), ("key", path(&format!("{name}.key")))]
    };
    let client = |name: &str| {
        let options = of(name);
        let options: Vec<_> = options.iter().map(|(name, value)| (*name, value.as_str())).collect();
        both.client("grpcs", &options)
    };
    both.send(&client("ours"), &little).unwrap();
    assert!(both.send(&client("theirs"), &little).is_err());
    assert!(both.send(&both.client("grpcs", &[("ca", &path("ours.ca"))]), &little).is_err(), "without a certificate");
}
