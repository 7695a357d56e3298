use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::CertificateError;

use super::*;

const HOUR: Duration = Duration::from_secs(3600);

/// Whole seconds, as certificates have them.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// A CA that is valid from an hour before until two hours after now.
fn ca(name: &str) -> CertificateParams {
    let mut parameters = leaf(name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    parameters.extended_key_usages = Vec::new();
    parameters.not_after = (now() + 2 * HOUR).into();
    parameters
}

/// A client certificate that is valid until an hour after now.
fn leaf(name: &str) -> CertificateParams {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.not_before = (now() - HOUR).into();
    parameters.not_after = (now() + HOUR).into();
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    parameters
}

/// A CA with its key.
struct Signer {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

impl Signer {
    fn root(parameters: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let der = parameters.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(parameters, key);
        Self { der, issuer }
    }

    fn under(parameters: CertificateParams, above: &Self) -> Self {
        let key = KeyPair::generate().unwrap();
        let made = parameters.signed_by(&key, &above.issuer).unwrap();
        let issuer = Issuer::new(parameters, key);
        Self {
            der: made.der().clone(),
            issuer,
        }
    }

    fn sign(&self, parameters: &CertificateParams) -> CertificateDer<'static> {
        let key = KeyPair::generate().unwrap();
        let made = parameters.signed_by(&key, &self.issuer).unwrap();
        made.der().clone()
    }
}

fn self_signed(parameters: &CertificateParams) -> CertificateDer<'static> {
    Signer::root(parameters.clone()).der
}

fn trusting(cas: &[&Signer]) -> Clients {
    let cas: Vec<_> = cas.iter().map(|ca| ca.der.clone()).collect();
    Clients::new(&cas).unwrap().unwrap()
}

fn with(
    mut parameters: CertificateParams,
    change: impl FnOnce(&mut CertificateParams),
) -> CertificateParams {
    change(&mut parameters);
    parameters
}

/// Returns the error of a chain.
fn wrong(clients: &Clients, chain: &[CertificateDer<'static>]) -> String {
    clients.verify(chain, now()).unwrap_err().to_string()
}

#[test]
fn client_certificate_of_a_trusted_ca_is_accepted_while_it_is_valid() {
    let root = Signer::root(ca("root"));
    let clients = trusting(&[&root]);
    let any = with(leaf("alice"), |of| of.extended_key_usages.clear());
    let both = with(leaf("alice"), |of| {
        of.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
    });
    for parameters in [leaf("alice"), any, both] {
        let chain = [root.sign(&parameters)];
        assert_eq!(clients.verify(&chain, now()), Ok(now() + HOUR));
        assert_eq!(clients.verify(&chain, now() + HOUR), Ok(now() + HOUR));
        clients
            .verify(&chain, now() + HOUR + HOUR / 3600)
            .unwrap_err();
        clients
            .verify(&chain, now() - HOUR - HOUR / 3600)
            .unwrap_err();
    }
}

#[test]
fn untrusted_chains_are_rejected() {
    let root = Signer::root(ca("root"));
    // Of the same name, so that only the signature tells them apart.
    let foreign = Signer::root(ca("root"));
    let clients = trusting(&[&root]);
    let past = with(leaf("alice"), |of| of.not_after = (now() - HOUR / 2).into());
    let future = with(leaf("alice"), |of| {
        of.not_before = (now() + HOUR / 2).into()
    });
    let server = with(leaf("alice"), |of| {
        of.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    let authority = with(leaf("alice"), |of| {
        of.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    });
    let client = Signer::under(leaf("mallory"), &root);
    let name = "the certificate is not trusted: invalid peer certificate: ";
    for (what, chain, expected) in [
        ("of a foreign CA", vec![foreign.sign(&leaf("alice"))], ""),
        (
            "self-signed",
            vec![self_signed(&leaf("alice"))],
            "UnknownIssuer",
        ),
        ("expired", vec![root.sign(&past)], "certificate expired"),
        (
            "not valid yet",
            vec![root.sign(&future)],
            "certificate not valid yet",
        ),
        (
            "for servers",
            vec![root.sign(&server)],
            "certificate does not allow extended key usage",
        ),
        ("a CA", vec![root.sign(&authority)], "CaUsedAsEndEntity"),
        ("the CA itself", vec![root.der.clone()], "CaUsedAsEndEntity"),
        (
            "signed by a client",
            vec![client.sign(&leaf("system:admin")), client.der.clone()],
            "",
        ),
        (
            "of a foreign CA that is shown along",
            vec![foreign.sign(&leaf("alice")), foreign.der.clone()],
            "",
        ),
        (
            "of a foreign CA, with a trusted one shown along",
            vec![foreign.sign(&leaf("alice")), root.der.clone()],
            "",
        ),
    ] {
        let said = wrong(&clients, &chain);
        let said = said.strip_prefix(name);
        assert!(
            said.is_some_and(|said| said.contains(expected)),
            "{what}: {said:?}"
        );
    }
    assert_eq!(wrong(&clients, &[]), "no certificate was shown");
    let nonsense = CertificateDer::from(b"nonsense".to_vec());
    assert_eq!(
        wrong(&clients, std::slice::from_ref(&nonsense)),
        "the certificate cannot be read"
    );
    let mut long = vec![root.sign(&leaf("alice"))];
    long.resize(MAX_CHAIN_LENGTH, root.der.clone());
    assert_eq!(clients.verify(&long, now()), Ok(now() + HOUR));
    long.push(root.der.clone());
    assert_eq!(
        wrong(&clients, &long),
        "more than 10 certificates were shown"
    );
    // Only the leaf must be legible.
    let chain = [root.sign(&leaf("alice")), nonsense];
    assert_eq!(clients.verify(&chain, now()), Ok(now() + HOUR));
}

#[test]
fn chain_with_intermediates_expires_with_its_first_certificate() {
    let root = Signer::root(ca("root"));
    let clients = trusting(&[&root]);
    let between = Signer::under(ca("between"), &root);
    let short = with(ca("short"), |of| of.not_after = (now() + HOUR / 2).into());
    let short = Signer::under(short, &root);
    let past = with(ca("past"), |of| of.not_after = (now() - HOUR / 2).into());
    let past = Signer::under(past, &root);
    let alice = |signer: &Signer| signer.sign(&leaf("alice"));
    let (good, ending, ended) = (&between.der, &short.der, &past.der);
    for (chain, until) in [
        (vec![alice(&between), good.clone()], HOUR),
        (vec![alice(&short), ending.clone()], HOUR / 2),
        // An unrelated certificate does no harm, even an expired one.
        (vec![alice(&between), ended.clone(), good.clone()], HOUR),
    ] {
        assert_eq!(clients.verify(&chain, now()), Ok(now() + until));
    }
    for chain in [
        vec![alice(&between)],
        vec![alice(&past), ended.clone()],
        vec![good.clone(), alice(&between)],
    ] {
        clients.verify(&chain, now()).unwrap_err();
    }
}

#[test]
fn certificates_of_an_expired_ca_are_rejected() {
    let old = Signer::root(with(ca("old"), |of| {
        of.not_after = (now() - HOUR / 2).into()
    }));
    let young = Signer::root(with(ca("young"), |of| {
        of.not_before = (now() + HOUR / 2).into()
    }));
    let ending = Signer::root(with(ca("ending"), |of| {
        of.not_after = (now() + HOUR / 2).into()
    }));
    let clients = trusting(&[&old, &young, &ending]);
    let unknown = Untrusted::Verify(CertificateError::UnknownIssuer.into());
    for signer in [&old, &young] {
        let alone = trusting(&[signer]);
        let chain = [signer.sign(&leaf("alice"))];
        assert_eq!(alone.verify(&chain, now()), Err(unknown.clone()));
        clients.verify(&chain, now()).unwrap_err();
    }
    let chain = [ending.sign(&leaf("alice"))];
    assert_eq!(clients.verify(&chain, now()), Ok(now() + HOUR / 2));
}

#[test]
fn no_certificate_is_requested_without_a_ca_and_an_invalid_ca_is_rejected() {
    assert!(Clients::new(&[]).unwrap().is_none());
    let nonsense = CertificateDer::from(b"nonsense".to_vec());
    let error = Clients::new(&[nonsense]).unwrap_err().to_string();
    assert_eq!(error, "a CA for client certificates cannot be used");
}
