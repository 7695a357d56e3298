//! Files of all formats, and assertions that verify.

use proptest::prelude::*;
use ring::signature::{RSA_PSS_2048_8192_SHA256, UnparsedPublicKey};
use serde_json::Value;

use super::*;

const AES_256: &[u8] = include_bytes!("data/aes256.p12");
const ENCRYPTED_KEY: &[u8] = include_bytes!("data/encrypted-key.der");
/// The SHA-256 digest of the certificate, in base64.
const THUMBPRINT: &str = "yz2NxMFMXYTWAvO_5G_sV8DrMG1K8ak2X1c2M4ZK7os";

fn parse(file: &[u8], password: &str) -> Result<String, InvalidCertificate> {
    let parsed = ClientCertificate::parse(file, Some(&Hidden::new(password)));
    parsed.map(|certificate| certificate.thumbprint)
}

fn pem(tag: &str, contents: &[u8]) -> String {
    pem::encode(&pem::Pem::new(tag, contents))
}

/// Returns the certificates and the key of the test file.
fn parts() -> (Vec<Vec<u8>>, Hidden) {
    let parts = pkcs12::read(AES_256, "insula").unwrap();
    (parts.certificates, parts.keys.into_iter().next().unwrap())
}

/// Returns the key in PKCS#1 that a key in PKCS#8 contains.
fn pkcs1(pkcs8: &[u8]) -> Vec<u8> {
    let read = yasna::parse_der(pkcs8, |reader| {
        reader.read_sequence(|reader| {
            reader.next().read_u8()?;
            reader.next().read_der()?;
            let key = reader.next().read_bytes()?;
            reader.read_optional(|attributes| attributes.read_der())?;
            Ok(key)
        })
    });
    read.unwrap()
}

#[test]
fn files_of_all_algorithms_are_read() {
    for (name, file, password) in [
        ("aes256", AES_256, "insula"),
        ("legacy", include_bytes!("data/legacy.p12"), "insula"),
        (
            "triple-des",
            include_bytes!("data/triple-des.p12"),
            "insula",
        ),
        (
            "aes128-sha512",
            include_bytes!("data/aes128-sha512.p12"),
            "insulä",
        ),
        ("no-password", include_bytes!("data/no-password.p12"), ""),
    ] {
        assert_eq!(parse(file, password), Ok(THUMBPRINT.to_owned()), "{name}");
        let encoded = BASE64_STANDARD.encode(file);
        let (start, end) = encoded.split_at(64);
        let lines = format!("{start}\n{end}\n");
        assert_eq!(
            parse(lines.as_bytes(), password),
            Ok(THUMBPRINT.to_owned()),
            "{name}"
        );
        let wrong = parse(file, "other").unwrap_err();
        assert_eq!(wrong, InvalidCertificate::WrongPassword, "{name}");
    }
    let no_password = include_bytes!("data/no-password.p12");
    let parsed = ClientCertificate::parse(no_password, None).map(|parsed| parsed.thumbprint);
    assert_eq!(parsed, Ok(THUMBPRINT.to_owned()));
}

#[test]
fn pem_of_key_and_certificates_in_any_order_is_read() {
    let (certificates, key) = parts();
    let certificates: String = certificates
        .iter()
        .rev()
        .map(|der| pem("CERTIFICATE", der))
        .collect();
    let plain = pem("PRIVATE KEY", key.reveal());
    let pkcs1 = pem("RSA PRIVATE KEY", &pkcs1(key.reveal()));
    let encrypted = pem("ENCRYPTED PRIVATE KEY", ENCRYPTED_KEY);
    for (file, password) in [
        (format!("{plain}{certificates}"), ""),
        (format!("a comment\n{certificates}\n{plain}\n"), ""),
        (format!("{certificates}{pkcs1}"), ""),
        (format!("{certificates}{encrypted}"), "insula"),
    ] {
        assert_eq!(parse(file.as_bytes(), password), Ok(THUMBPRINT.to_owned()));
    }
    let wrong = parse(format!("{certificates}{encrypted}").as_bytes(), "other");
    assert_eq!(wrong, Err(InvalidCertificate::WrongPassword));
}

#[test]
fn unusable_files_are_refused_with_the_reason() {
    let (certificates, key) = parts();
    let certificate = pem("CERTIFICATE", &certificates[0]);
    let other = rcgen::KeyPair::generate().unwrap().serialize_der();
    let other = pem("PRIVATE KEY", &other);
    let key = pem("PRIVATE KEY", key.reveal());
    let iterations = include_bytes!("data/iterations.p12");
    for (file, expected) in [
        (b"text".to_vec(), InvalidCertificate::UnknownFormat),
        (Vec::new(), InvalidCertificate::UnknownFormat),
        (certificate.clone().into_bytes(), InvalidCertificate::NoKey),
        (
            include_bytes!("data/no-key.p12").to_vec(),
            InvalidCertificate::NoKey,
        ),
        (key.into_bytes(), InvalidCertificate::NoCertificate),
        (
            format!("{certificate}{other}").into_bytes(),
            InvalidCertificate::UnsupportedKey,
        ),
        // Deriving its keys would take a minute.
        (
            iterations.to_vec(),
            InvalidCertificate::UnsupportedEncryption,
        ),
        (
            AES_256[..AES_256.len() / 2].to_vec(),
            InvalidCertificate::Damaged,
        ),
        (vec![b'a'; MAX_BYTES + 1], InvalidCertificate::TooLarge),
        (b"-----BEGIN X-----".to_vec(), InvalidCertificate::NoKey),
    ] {
        let length = file.len();
        assert_eq!(parse(&file, "insula"), Err(expected), "{length} bytes");
    }
}

#[test]
fn assertion_is_signed_with_the_key_of_the_certificate() {
    let certificate = ClientCertificate::parse(AES_256, Some(&Hidden::new("insula"))).unwrap();
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let url = "https://login.example/t/oauth2/v2.0/token";
    let assertion = certificate.assertion(url, "client", now).unwrap();
    let (signed, signature) = assertion.text().unwrap().rsplit_once('.').unwrap();
    let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
    let public = certificate.key.public().as_ref();
    UnparsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, public)
        .verify(signed.as_bytes(), &decode(signature))
        .unwrap();
    let (header, claims) = signed.split_once('.').unwrap();
    let header: Value = serde_json::from_slice(&decode(header)).unwrap();
    assert_eq!(
        header,
        json!({"alg": "PS256", "typ": "JWT", "x5t#S256": THUMBPRINT})
    );
    let mut claims: Value = serde_json::from_slice(&decode(claims)).unwrap();
    let id = claims.as_object_mut().unwrap().remove("jti").unwrap();
    assert!(uuid::Uuid::parse_str(id.as_str().unwrap()).is_ok());
    let expected = json!({
        "aud": url, "iss": "client", "sub": "client",
        "nbf": 1_699_999_700, "iat": 1_700_000_000, "exp": 1_700_000_600,
    });
    assert_eq!(claims, expected);
    let again = certificate.assertion(url, "client", now).unwrap();
    assert_ne!(again, assertion);
    assert_eq!(format!("{certificate:?}"), "ClientCertificate { .. }");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn damaged_files_are_refused(at in 0..AES_256.len(), value in any::<u8>(), length in 0..AES_256.len()) {
        let mut file = AES_256.to_vec();
        file[at] = value;
        if let Ok(thumbprint) = parse(&file, "insula") {
            // The byte is equal, or in an attribute that nothing depends on.
            prop_assert_eq!(thumbprint, THUMBPRINT);
        }
        prop_assert!(parse(&AES_256[..length], "insula").is_err());
    }
}
