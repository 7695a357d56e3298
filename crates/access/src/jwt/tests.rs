use proptest::prelude::*;
use rcgen::PublicKeyData;
use ring::rand::SystemRandom;
use ring::signature::{self, EcdsaKeyPair, EcdsaSigningAlgorithm};
use serde_json::json;

use super::*;

/// A public key; its private key has been destroyed.
const RSA: &str = include_str!("tests/rsa.pub.pem");

/// Signatures made with the destroyed key: one line `ALGORITHM HEADER SIGNATURE` per token
/// with this header and [`CLAIMS`], regardless of the algorithm in the header.
const RSA_SIGNATURES: &str = include_str!("tests/rsa.signatures");

/// Signs any message with any key, as an attacker would.
struct Keys {
    p256: rcgen::KeyPair,
    p384: rcgen::KeyPair,
}

impl Keys {
    fn make() -> Self {
        Self {
            p256: rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap(),
            p384: rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap(),
        }
    }

    fn sign(&self, algorithm: Algorithm, message: &str) -> String {
        match algorithm {
            Algorithm::Es256 => sign(
                &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
                &self.p256,
                message,
            ),
            Algorithm::Es384 => sign(
                &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
                &self.p384,
                message,
            ),
            _ => rsa_signature(algorithm, message),
        }
    }

    /// A token with this header, signed with this algorithm regardless of the header.
    fn token(&self, algorithm: Algorithm, header: &Value) -> String {
        let message = message(&header.to_string(), CLAIMS);
        format!("{message}.{}", self.sign(algorithm, &message))
    }

    /// One key per type, with the type as its ID.
    fn jwks(&self) -> Value {
        let (x, y) = self.p256.public_key_raw()[1..].split_at(32);
        let (x3, y3) = self.p384.public_key_raw()[1..].split_at(48);
        let n = rsa_modulus();
        json!({"keys": [
            {"kty": "RSA", "kid": "rsa", "n": n, "e": "AQAB", "use": "sig"},
            {"kty": "EC", "kid": "p256", "crv": "P-256", "x": encode(x), "y": encode(y)},
            {"kty": "EC", "kid": "p384", "crv": "P-384", "x": encode(x3), "y": encode(y3)},
        ]})
    }

    fn set(&self) -> KeySet {
        set(&self.jwks())
    }
}

const CLAIMS: &str = r#"{"iss":"https://issuer.test","sub":"alice"}"#;

fn sign(algorithm: &'static EcdsaSigningAlgorithm, key: &rcgen::KeyPair, message: &str) -> String {
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.serialized_der(), &random).unwrap();
    encode(pair.sign(&random, message.as_bytes()).unwrap())
}

/// The recorded signature of this message.
fn rsa_signature(algorithm: Algorithm, wanted: &str) -> String {
    let of = |line: &'static str| {
        let (name, rest) = line.split_once(' ')?;
        let (header, signature) = rest.split_once(' ')?;
        (name == algorithm.name() && message(header, CLAIMS) == wanted).then_some(signature)
    };
    let found = RSA_SIGNATURES.lines().find_map(of);
    let missing = || panic!("{algorithm} has signed no {wanted}");
    found.unwrap_or_else(missing).to_owned()
}

/// The 2048 bits before the exponent 65537, which ends the key.
fn rsa_modulus() -> String {
    let der = pem::parse(RSA).unwrap();
    let rest = der.contents().strip_suffix(&[2, 3, 1, 0, 1]).unwrap();
    encode(&rest[rest.len() - 256..])
}

fn set(jwks: &Value) -> KeySet {
    KeySet::from_jwks(jwks.to_string().as_bytes()).unwrap()
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn message(header: &str, claims: &str) -> String {
    format!("{}.{}", encode(header), encode(claims))
}

fn key_of(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Es256 => "p256",
        Algorithm::Es384 => "p384",
        _ => "rsa",
    }
}

fn verify(token: &str, keys: &KeySet) -> Result<Claims, Error> {
    Signed::parse(token)?.verify(keys).cloned()
}

#[test]
fn every_algorithm_verifies_only_its_own_signatures() {
    let keys = Keys::make();
    let (all, none) = (keys.set(), KeySet::default());
    for algorithm in Algorithm::ALL {
        let named = json!({"alg": algorithm.name(), "kid": key_of(algorithm)});
        let nameless = json!({"alg": algorithm.name(), "typ": "JWT"});
        for header in [named, nameless] {
            let token = keys.token(algorithm, &header);
            let signed = Signed::parse(&token).unwrap();
            assert_eq!(signed.algorithm(), algorithm);
            assert_eq!(signed.claimed_issuer(), Some("https://issuer.test"));
            let claims = signed.verify(&all).unwrap();
            assert_eq!(claims.text("sub"), Some("alice"), "{header}");
            assert_eq!(verify(&token, &none), Err(Error::UnknownKey), "{header}");
        }
    }
}

#[test]
fn algorithm_is_determined_by_the_key_and_not_by_the_token() {
    let keys = Keys::make();
    let set = keys.set();
    for signed in Algorithm::ALL {
        for said in Algorithm::ALL.into_iter().filter(|&said| said != signed) {
            let header = json!({"alg": said.name(), "kid": key_of(signed)});
            let expected = match key_of(said) == key_of(signed) {
                true => Error::Signature,
                false => Error::Mismatch,
            };
            let found = verify(&keys.token(signed, &header), &set);
            assert_eq!(found, Err(expected), "{signed} as {said}");
            let header = json!({"alg": said.name()});
            let found = verify(&keys.token(signed, &header), &set);
            assert_eq!(found, Err(Error::UnknownKey), "{signed} as {said}");
        }
    }
    // A key that is restricted to one algorithm.
    let mut jwks = keys.jwks();
    jwks["keys"][0]["alg"] = "PS256".into();
    for (algorithm, expected) in [
        (Algorithm::Ps256, None),
        (Algorithm::Rs256, Some(Error::Mismatch)),
    ] {
        let header = json!({"alg": algorithm.name(), "kid": "rsa"});
        let found = verify(&keys.token(algorithm, &header), &self::set(&jwks));
        assert_eq!(found.err(), expected, "{algorithm}");
    }
}

#[test]
fn every_bit_of_a_token_matters() {
    let keys = Keys::make();
    let set = keys.set();
    for algorithm in Algorithm::ALL {
        let header = json!({"alg": algorithm.name(), "kid": key_of(algorithm)});
        let token = keys.token(algorithm, &header);
        for place in 0..token.len() {
            for other in [b'A', b'B', b'.', b'=', b' ', b'_'] {
                let mut bytes = token.clone().into_bytes();
                if std::mem::replace(&mut bytes[place], other) == other {
                    continue;
                }
                let changed = String::from_utf8(bytes).unwrap();
                assert!(verify(&changed, &set).is_err(), "{changed}");
            }
        }
        for length in 0..token.len() {
            assert!(verify(&token[..length], &set).is_err());
        }
        assert!(verify(&token, &set).is_ok());
    }
}

#[test]
fn header_with_weak_algorithm_critical_members_or_hostile_key_id_is_rejected() {
    let keys = Keys::make();
    let long = "x".repeat(257);
    let with_kid = |kid: Value| json!({"alg": "ES256", "kid": kid});
    for (header, expected) in [
        (json!({"alg": "none"}), Error::Algorithm),
        (json!({"alg": "None"}), Error::Algorithm),
        (json!({"alg": ""}), Error::Algorithm),
        (json!({"alg": null}), Error::Algorithm),
        (json!({"alg": ["ES256"]}), Error::Algorithm),
        (json!({}), Error::Algorithm),
        (json!({"alg": "HS256", "kid": "p256"}), Error::Algorithm),
        (json!({"alg": "HS384"}), Error::Algorithm),
        (json!({"alg": "HS512"}), Error::Algorithm),
        (json!({"alg": "ES512"}), Error::Algorithm),
        (json!({"alg": "es256"}), Error::Algorithm),
        (json!({"alg": "ES256 "}), Error::Algorithm),
        (json!({"alg": "EdDSA"}), Error::Algorithm),
        (json!({"alg": "ES256", "crit": ["exp"]}), Error::Critical),
        (json!({"alg": "ES256", "crit": []}), Error::Critical),
        (json!({"alg": "ES256", "crit": null}), Error::Critical),
        (
            json!({"alg": "ES256", "b64": false, "crit": ["b64"]}),
            Error::Critical,
        ),
        (with_kid(json!("")), Error::KeyId),
        (with_kid(json!(null)), Error::KeyId),
        (with_kid(json!(7)), Error::KeyId),
        (with_kid(json!(["p256"])), Error::KeyId),
        (with_kid(json!("../../dev/null")), Error::KeyId),
        (with_kid(json!("keys/../p256")), Error::KeyId),
        (with_kid(json!("./p256")), Error::KeyId),
        (with_kid(json!("/.ssh")), Error::KeyId),
        (with_kid(json!("https://evil.test/keys")), Error::KeyId),
        (with_kid(json!("file:///etc/passwd")), Error::KeyId),
        (with_kid(json!("C:\\keys")), Error::KeyId),
        (with_kid(json!("%2e%2e%2fkeys")), Error::KeyId),
        (with_kid(json!("p256\u{0}")), Error::KeyId),
        (with_kid(json!("p256 ")), Error::KeyId),
        (with_kid(json!("p256\n")), Error::KeyId),
        (with_kid(json!("p256' OR 1=1")), Error::KeyId),
        (with_kid(json!("schlüssel")), Error::KeyId),
        (with_kid(json!(long)), Error::KeyId),
        // Base64 digests can look like this. The ID is only compared.
        (with_kid(json!("/etc/passwd")), Error::UnknownKey),
        (with_kid(json!("p257")), Error::UnknownKey),
        (with_kid(json!("P256")), Error::UnknownKey),
    ] {
        let token = keys.token(Algorithm::Es256, &header);
        assert_eq!(verify(&token, &keys.set()), Err(expected), "{header}");
    }
    // Keys embedded in a token are ignored.
    let jwk = keys.jwks()["keys"][1].clone();
    let header = json!({"alg": "ES256", "jwk": jwk, "jku": "https://evil.test", "x5u": "x"});
    let token = keys.token(Algorithm::Es256, &header);
    assert_eq!(verify(&token, &Keys::make().set()), Err(Error::UnknownKey));
}

#[test]
fn public_key_is_not_accepted_as_an_hmac_secret() {
    let keys = Keys::make();
    let public = keys.p256.public_key_raw();
    let secrets = [
        public.to_vec(),
        keys.p256.public_key_pem().into_bytes(),
        keys.jwks().to_string().into_bytes(),
        Vec::new(),
    ];
    for secret in secrets {
        let message = message(r#"{"alg":"HS256","kid":"p256"}"#, CLAIMS);
        let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &secret);
        let tag = ring::hmac::sign(&secret, message.as_bytes());
        for signature in [encode(tag), String::new()] {
            let token = format!("{message}.{signature}");
            assert_eq!(verify(&token, &keys.set()), Err(Error::Algorithm));
        }
    }
    // Invalid signatures: zeros, ones, too short, too long, DER.
    for (length, fill) in [
        (0, 0),
        (63, 1),
        (64, 0),
        (64, 1),
        (64, 255),
        (65, 0),
        (72, 48),
    ] {
        let message = message(r#"{"alg":"ES256","kid":"p256"}"#, CLAIMS);
        let token = format!("{message}.{}", encode(vec![fill; length]));
        assert_eq!(verify(&token, &keys.set()), Err(Error::Signature));
    }
}

#[test]
fn token_has_exactly_one_spelling() {
    let keys = Keys::make();
    let header = r#"{"alg":"ES256"}"#;
    let sign = |message: &str| keys.sign(Algorithm::Es256, message);
    let good = message(header, CLAIMS);
    let signature = sign(&good);
    let (head, body) = good.split_once('.').unwrap();
    // 43 bytes: the last character has four unused bits.
    let spare = format!("{}R", body.strip_suffix('Q').unwrap());
    let twice = message(r#"{"alg":"none","alg":"ES256"}"#, CLAIMS);
    let twice_in_claims = message(header, r#"{"sub":"alice","sub":"root"}"#);
    let list = message(header, r#"["sub","alice"]"#);
    let long = message(header, &format!(r#"{{"a":"{}"}}"#, "x".repeat(12 << 10)));
    let longest = message(header, &format!(r#"{{"a":"{}"}}"#, "x".repeat(11 << 10)));
    for (token, expected) in [
        (format!("{good}.{signature}"), None),
        (format!("{longest}.{}", sign(&longest)), None),
        (format!("{long}.{}", sign(&long)), Some(Error::Size)),
        (String::new(), Some(Error::Parts)),
        (good.clone(), Some(Error::Parts)),
        (format!("{good}."), Some(Error::UnknownKey)),
        (format!("{good}.{signature}."), Some(Error::Parts)),
        (format!("{good}..{signature}"), Some(Error::Parts)),
        (format!(".{good}.{signature}"), Some(Error::Parts)),
        (format!("{good}.{signature}.x.y"), Some(Error::Parts)),
        ("..".to_owned(), Some(Error::Json)),
        (".".to_owned(), Some(Error::Parts)),
        (format!("{good}.{signature}="), Some(Error::Encoding)),
        (format!("{good}.{signature}=="), Some(Error::Encoding)),
        (format!("{good}.{signature} "), Some(Error::Encoding)),
        (format!(" {good}.{signature}"), Some(Error::Encoding)),
        (format!("{good}.{signature}\n"), Some(Error::Encoding)),
        (format!("{good}.{signature}\u{0}"), Some(Error::Encoding)),
        (format!("{good}.{signature}ä"), Some(Error::Encoding)),
        (format!("{good}.+/"), Some(Error::Encoding)),
        (format!("{head}.{spare}.{signature}"), Some(Error::Encoding)),
        (format!("{twice}.{}", sign(&twice)), Some(Error::Json)),
        (
            format!("{twice_in_claims}.{}", sign(&twice_in_claims)),
            Some(Error::Json),
        ),
        (format!("{list}.{}", sign(&list)), Some(Error::Json)),
    ] {
        assert_eq!(verify(&token, &keys.set()).err(), expected, "{token}");
    }
}

#[test]
fn only_keys_for_verification_are_taken_from_a_set() {
    let keys = Keys::make();
    let good = keys.jwks();
    let rsa = &good["keys"][0];
    let ec = &good["keys"][1];
    let with = |key: &Value, member: &str, value: Value| {
        let mut key = key.clone();
        key[member] = value;
        key
    };
    for (key, expected) in [
        (rsa.clone(), true),
        (ec.clone(), true),
        (
            with(rsa, "n", json!(format!("AA{}", "A".repeat(340)))),
            false,
        ),
        (with(rsa, "n", json!(encode([0xff; 128]))), false),
        (with(rsa, "n", json!(encode([0xff; 1025]))), false),
        (
            with(rsa, "n", json!(encode([&[0][..], &[0xff; 256]].concat()))),
            true,
        ),
        (with(rsa, "n", json!(null)), false),
        (with(rsa, "e", json!("")), false),
        (with(rsa, "e", json!("AQAB=")), false),
        (with(rsa, "e", json!(encode([1; 6]))), false),
        (with(rsa, "use", json!("enc")), false),
        (with(rsa, "alg", json!("RS512")), true),
        (with(rsa, "alg", json!("RSA-OAEP")), false),
        (with(rsa, "alg", json!("HS256")), false),
        (with(rsa, "alg", json!("ES256")), false),
        (with(rsa, "key_ops", json!(["verify"])), true),
        (with(rsa, "key_ops", json!(["encrypt"])), false),
        (with(rsa, "x5c", json!(["whatever"])), true),
        (with(ec, "crv", json!("P-384")), false),
        (with(ec, "crv", json!("P-521")), false),
        (with(ec, "crv", json!("secp256k1")), false),
        (with(ec, "x", json!(encode([1; 31]))), false),
        (with(ec, "y", json!(encode([1; 33]))), false),
        (with(ec, "kty", json!("OKP")), false),
        (with(ec, "kty", json!("oct")), false),
        (json!({"kty": "oct", "k": "c2VjcmV0", "kid": "p256"}), false),
        (json!({"kid": "p256"}), false),
        (json!("p256"), false),
        (json!(null), false),
    ] {
        let read = set(&json!({"keys": [key, ec]}));
        assert_eq!(read.keys().len(), 1 + usize::from(expected), "{key}");
    }
    for (text, expected) in [
        ("", KeySetError::Malformed),
        ("[]", KeySetError::Malformed),
        ("{}", KeySetError::Malformed),
        (r#"{"keys":{}}"#, KeySetError::Malformed),
        (r#"{"keys":[],"keys":[]}"#, KeySetError::Malformed),
        ("<html>", KeySetError::Malformed),
        (
            &json!({"keys": vec![ec.clone(); 65]}).to_string(),
            KeySetError::TooManyKeys,
        ),
    ] {
        assert_eq!(KeySet::from_jwks(text.as_bytes()), Err(expected), "{text}");
    }
    assert_eq!(set(&json!({"keys": []})), KeySet::default());
}

#[test]
fn all_keys_with_the_same_id_are_tried() {
    let (old, new) = (Keys::make(), Keys::make());
    let mut keys = old.jwks()["keys"].as_array().unwrap().clone();
    keys.extend(new.jwks()["keys"].as_array().unwrap().clone());
    for key in &mut keys {
        key["kid"] = "one".into();
    }
    let set = set(&json!({"keys": keys}));
    for (signer, algorithm) in [
        (&old, Algorithm::Es256),
        (&new, Algorithm::Es256),
        (&new, Algorithm::Rs256),
    ] {
        let header = json!({"alg": algorithm.name(), "kid": "one"});
        assert!(verify(&signer.token(algorithm, &header), &set).is_ok());
    }
    let stranger = Keys::make().token(Algorithm::Es256, &json!({"alg": "ES256", "kid": "one"}));
    assert_eq!(verify(&stranger, &set), Err(Error::Signature));
}

#[test]
fn published_key_verifies_tokens_of_its_signer_only() {
    let key = rcgen::KeyPair::generate().unwrap();
    let signer = Signer::new(key.serialized_der()).unwrap();
    let claims = json!({"sub": "alice", "exp": 7});
    let token = signer.sign(&claims).unwrap();
    let own: KeySet = [signer.public().clone()].into_iter().collect();
    let jwks = serde_json::to_value(own.to_jwks()).unwrap();
    for keys in [own, set(&jwks)] {
        let read = verify(&token, &keys).unwrap();
        assert_eq!(read.text("sub"), Some("alice"));
        assert_eq!(read.times().unwrap().expires, Some(7));
    }
    let other = rcgen::KeyPair::generate().unwrap();
    let other = PublicKey::from_der(&other.subject_public_key_info()).unwrap();
    let others: KeySet = [other].into_iter().collect();
    assert_eq!(verify(&token, &others), Err(Error::UnknownKey));
    assert_eq!(format!("{signer:?}"), "Signer(****)");
    let wrong = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
    for bad in [&[][..], b"key", wrong.serialized_der()] {
        assert_eq!(Signer::new(bad).err(), Some(NotASigningKey));
    }
}

#[test]
fn key_ids_and_published_keys_match_kubernetes() {
    let keys = Keys::make();
    for (pem, members) in [
        (
            &*keys.p256.public_key_pem(),
            r#"{"use":"sig","kty":"EC","kid":"#,
        ),
        (
            &*keys.p384.public_key_pem(),
            r#"{"use":"sig","kty":"EC","kid":"#,
        ),
        (RSA, r#"{"use":"sig","kty":"RSA","kid":"#),
    ] {
        let der = pem::parse(pem).unwrap().into_contents();
        let key = PublicKey::from_pem(pem).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, &der);
        assert_eq!(key.id(), Some(&*encode(digest)));
        let published = serde_json::to_string(&key.to_jwk()).unwrap();
        assert!(published.starts_with(members), "{published}");
        let read = set(&json!({"keys": [key.to_jwk()]}));
        assert_eq!(read.to_jwks().keys, [key.to_jwk()]);
    }
    let jwk = |der: &[u8]| {
        let key = PublicKey::from_der(der).unwrap();
        serde_json::to_value(key.to_jwk()).unwrap()
    };
    let rsa = pem::parse(RSA).unwrap().into_contents();
    let [p256, p384] = [&keys.p256, &keys.p384].map(PublicKeyData::subject_public_key_info);
    let published = keys.jwks();
    for (found, expected, algorithm) in [
        (jwk(&rsa), &published["keys"][0], "RS256"),
        (jwk(&p256), &published["keys"][1], "ES256"),
        (jwk(&p384), &published["keys"][2], "ES384"),
    ] {
        for member in ["kty", "crv", "x", "y", "n", "e"] {
            assert_eq!(found[member], expected[member], "{member}");
        }
        assert_eq!(found["alg"], algorithm);
    }
    assert_eq!(jwk(&rsa)["e"], "AQAB");
    let longer = [&p256[..], &[0]].concat();
    for bad in [&[][..], b"key", &p256[..p256.len() - 1], &longer] {
        assert_eq!(PublicKey::from_der(bad), Err(NotAPublicKey));
    }
    let private = keys.p256.serialize_pem();
    assert_eq!(PublicKey::from_pem(&private), Err(NotAPublicKey));
}

/// With the exponent 1, a signature equals its padded message, so anyone can forge it.
#[test]
fn rsa_key_with_a_trivial_exponent_verifies_nothing() {
    let keys = Keys::make();
    let message = message(r#"{"alg":"RS256","kid":"rsa"}"#, CLAIMS);
    let digest = ring::digest::digest(&ring::digest::SHA256, message.as_bytes());
    let head = [
        0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01,
        0x05, 0x00, 0x04, 0x20,
    ];
    let padded = [&[0, 1], &[0xff; 202][..], &[0], &head, digest.as_ref()].concat();
    assert_eq!(padded.len(), 256);
    let token = format!("{message}.{}", encode(padded));
    for exponent in [&[1][..], &[2], &[0, 0, 1]] {
        let mut jwks = keys.jwks();
        jwks["keys"][0]["e"] = encode(exponent).into();
        assert_eq!(verify(&token, &set(&jwks)), Err(Error::Signature));
    }
}

/// Examples A.2 and A.3 of RFC 7515: tokens from an independent implementation.
#[test]
fn examples_of_the_standard_verify() {
    let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19\
                  yb290Ijp0cnVlfQ";
    let rsa = json!({"kty": "RSA", "e": "AQAB", "n":
        "ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt\
         0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXn\
         dS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5Ih\
         lJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"});
    let ec = json!({"kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    for (head, signature, algorithm) in [
        (
            "eyJhbGciOiJSUzI1NiJ9",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt\
             _O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLI\
             ARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOP\
             qvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe7\
             7Rw",
            Algorithm::Rs256,
        ),
        (
            "eyJhbGciOiJFUzI1NiJ9",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU\
             1Q",
            Algorithm::Es256,
        ),
    ] {
        let token = format!("{head}.{claims}.{signature}");
        assert_eq!(Signed::parse(&token).unwrap().algorithm(), algorithm);
        let claims = verify(&token, &set(&json!({"keys": [rsa, ec]}))).unwrap();
        assert_eq!(claims.text("iss"), Some("joe"));
        assert_eq!(claims.times().unwrap().expires, Some(1_300_819_380));
    }
}

#[test]
fn errors_do_not_contain_the_token() {
    let keys = Keys::make();
    let token = keys.token(Algorithm::Es256, &json!({"alg": "ES256"}));
    let signed = Signed::parse(&token).unwrap();
    assert_eq!(format!("{signed:?}"), "Signed(****)");
    let said = Error::KeyId.to_string();
    assert_eq!(said, "the token's key id is not acceptable");
}

proptest! {
    #[test]
    fn arbitrary_tokens_are_rejected(
        text in ".{0,200}",
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..5),
        header in r#"\{("alg":"(ES256|RS256|PS256|none)")?(,"kid":"[a-z/.]{0,9}")?(,"crit":\[\])?\}"#,
    ) {
        let set = self::set(&json!({"keys": []}));
        prop_assert!(verify(&text, &set).is_err());
        let parts: Vec<String> = parts.iter().map(encode).collect();
        prop_assert!(verify(&parts.join("."), &set).is_err());
        let token = format!("{}.{}.{}", encode(&header), encode(CLAIMS), parts.join(""));
        prop_assert!(verify(&token, &set).is_err());
    }

    #[test]
    fn arbitrary_keys_verify_nothing(
        n in proptest::collection::vec(any::<u8>(), 200..300),
        e in proptest::collection::vec(any::<u8>(), 0..7),
        x in proptest::collection::vec(any::<u8>(), 32),
        signature in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let point = encode(&x);
        let set = self::set(&json!({"keys": [
            {"kty": "RSA", "n": encode(&n), "e": encode(&e)},
            {"kty": "EC", "crv": "P-256", "x": point, "y": point},
        ]}));
        for algorithm in Algorithm::ALL {
            let header = json!({"alg": algorithm.name()}).to_string();
            let token = format!("{}.{}", message(&header, CLAIMS), encode(&signature));
            prop_assert_eq!(verify(&token, &set), Err(Error::UnknownKey));
        }
        prop_assert!(PublicKey::from_der(&n).is_err());
    }
}
