use std::sync::Arc;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::ring;
use rustls::pki_types::{ServerName, UnixTime};

use super::*;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

fn names() -> Vec<String> {
    vec!["s.ns.svc".to_owned(), "127.0.0.1".to_owned()]
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

/// Verifies the serving certificate as an API server does that has this bundle.
fn verify(material: &Material, bundle: &str, now: SystemTime) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    for ca in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(ca.expect("a certificate")).expect("a CA");
    }
    let provider = Arc::new(ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = verifier.build().expect("a verifier");
    let leaf = CertificateDer::from_pem_slice(material.certificate.as_bytes());
    let leaf = leaf.expect("a certificate");
    let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH).expect("a time");
    let time = UnixTime::since_unix_epoch(since_epoch);
    for name in names() {
        let name = ServerName::try_from(name).expect("a name");
        let verified = verifier.verify_server_cert(&leaf, &[], &name, &[], time);
        verified.map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn authorities(material: &Material) -> usize {
    material.ca_bundle.matches("BEGIN").count()
}

fn create_at(now: SystemTime) -> Material {
    let material = rotate(None, &names(), now).expect("a certificate");
    material.expect("it is created")
}

fn rotate_at(material: &Material, now: SystemTime) -> Option<Material> {
    rotate(Some(material), &names(), now).expect("a certificate")
}

#[test]
fn certificate_is_valid_at_once_and_stays_for_two_months() {
    let material = create_at(start());
    verify(&material, &material.ca_bundle, start()).expect("it is valid");
    // Clocks of API servers may be slow.
    verify(&material, &material.ca_bundle, start() - HOUR / 2).expect("it is valid");
    assert_eq!(authorities(&material), 1);
    for days in [0, 1, 59] {
        assert_eq!(rotate_at(&material, start() + DAY * days), None, "{days}");
    }
    let renewed = rotate_at(&material, start() + DAY * 60).expect("it is renewed");
    assert_eq!(renewed.ca_bundle, material.ca_bundle);
    assert_eq!(renewed.ca_key, material.ca_key);
    assert_ne!(renewed.certificate, material.certificate);
    assert_ne!(renewed.key, material.key);
}

#[test]
fn rotation_is_seamless_for_api_servers_with_a_bundle_of_yesterday_or_tomorrow() {
    let mut now = start();
    let mut material = create_at(now);
    // The bundles and certificates of the last day, the oldest first.
    let mut history = std::collections::VecDeque::from([material.clone()]);
    let (mut certificates, mut bundles, mut most) = (0, 0, 0);
    let step = HOUR * 12;
    while now < start() + DAY * 365 * 3 {
        now += step;
        if let Some(next) = rotate_at(&material, now) {
            certificates += u32::from(next.certificate != material.certificate);
            bundles += u32::from(next.ca_bundle != material.ca_bundle);
            material = next;
            let again = rotate_at(&material, now);
            assert_eq!(again, None, "a second check changes nothing");
        }
        verify(&material, &material.ca_bundle, now).expect("it is valid");
        most = most.max(authorities(&material));
        history.push_back(material.clone());
        if history.len() > 3 {
            history.pop_front();
        }
        for earlier in history.iter().filter(|earlier| **earlier != material) {
            verify(&material, &earlier.ca_bundle, now).expect("an older bundle accepts it");
            verify(earlier, &material.ca_bundle, now).expect("an older replica is accepted");
        }
    }
    assert_eq!((certificates, bundles, most), (21, 7, 2));
}

#[test]
fn ca_is_published_a_day_before_it_signs() {
    let first = create_at(start());
    let mut material = first.clone();
    // The serving certificate is renewed until the CA has 120 days left.
    for days in [60, 120, 180, 240] {
        material = rotate_at(&material, start() + DAY * days).expect("it is renewed");
    }
    let at = start() + DAY * 245;
    let published = rotate_at(&material, at).expect("the CA is renewed");
    assert_eq!(published.certificate, material.certificate);
    assert_ne!(published.ca_key, material.ca_key);
    assert!(published.ca_bundle.ends_with(&first.ca_bundle));
    assert_eq!(authorities(&published), 2);
    verify(&published, &first.ca_bundle, at).expect("the old CA signed it");
    assert_eq!(rotate_at(&published, at + DAY - HOUR), None);
    let signed = rotate_at(&published, at + DAY).expect("the new CA signs");
    assert_eq!(signed.ca_bundle, published.ca_bundle);
    assert!(verify(&signed, &first.ca_bundle, at + DAY).is_err());
    verify(&signed, &signed.ca_bundle, at + DAY).expect("the new CA signed it");
    // The old CA leaves the bundle when it expires.
    let mut last = signed;
    for days in [306, 364] {
        if let Some(next) = rotate_at(&last, start() + DAY * days) {
            last = next;
        }
        assert_eq!(authorities(&last), 2);
    }
    let pruned = rotate_at(&last, start() + DAY * 365).expect("the old CA has expired");
    assert_eq!(authorities(&pruned), 1);
    assert_eq!(pruned.certificate, last.certificate);
}

#[test]
fn unusable_material_is_replaced_at_once_and_old_cas_stay_trusted() {
    let material = create_at(start());
    let other = create_at(start());
    let at = start() + HOUR;
    let with = |change: fn(&mut Material, &Material)| {
        let mut broken = material.clone();
        change(&mut broken, &other);
        let repaired = rotate_at(&broken, at).expect("it is repaired");
        verify(&repaired, &repaired.ca_bundle, at).expect("it is usable");
        assert_eq!(rotate_at(&repaired, at), None);
        repaired
    };
    // The certificate is reissued with the same CA.
    for change in [
        (|broken, _| broken.certificate.clear()) as fn(&mut Material, &Material),
        |broken, _| broken.key.clear(),
        |broken, other| broken.key.clone_from(&other.key),
        |broken, other| {
            broken.certificate.clone_from(&other.certificate);
            broken.key.clone_from(&other.key);
        },
    ] {
        let repaired = with(change);
        assert_eq!(repaired.ca_bundle, material.ca_bundle);
    }
    // The CA cannot sign any more: a new one is added.
    for change in [
        (|broken, _| broken.ca_key.clear()) as fn(&mut Material, &Material),
        |broken, other| broken.ca_key.clone_from(&other.ca_key),
    ] {
        let repaired = with(change);
        assert!(repaired.ca_bundle.ends_with(&material.ca_bundle));
        assert_eq!(authorities(&repaired), 2);
    }
    let repaired = with(|broken, _| broken.ca_bundle = "nonsense".to_owned());
    assert_eq!(authorities(&repaired), 1);
}

#[test]
fn certificate_is_reissued_for_other_names_and_after_a_long_pause() {
    let material = create_at(start());
    let more = [names(), vec!["t.ns.svc".to_owned()]].concat();
    let reissued = rotate(Some(&material), &more, start() + HOUR);
    let reissued = reissued.expect("a certificate").expect("it is reissued");
    assert_eq!(reissued.ca_bundle, material.ca_bundle);
    // Fewer names are no reason.
    assert_eq!(rotate_at(&reissued, start() + HOUR), None);
    for (days, cas) in [(100, 1), (300, 2), (500, 1)] {
        let at = start() + DAY * days;
        let next = rotate_at(&material, at).expect("the certificate has expired");
        verify(&next, &next.ca_bundle, at).expect("it is valid");
        assert_eq!(authorities(&next), cas, "{days}");
    }
}
