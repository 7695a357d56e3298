//! The two forms of a certificate with an ECDSA signature.
//!
//! If (r, s) is a valid signature, so is (r, n - s), where n is the order of the curve. Anyone can
//! compute one from the other, so the holder of a certificate has two, with two fingerprints. The
//! other algorithms and encodings that are accepted have one form only.

use yasna::models::ObjectIdentifier;
use yasna::{ASN1Result, parse_der};

/// The prefix of the algorithms of ECDSA signatures: `ansi-X9-62 signatures`.
const ECDSA: [u64; 5] = [1, 2, 840, 10045, 4];

/// The order of P-256.
const P256: [u8; 32] = [
    0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xbc, 0xe6, 0xfa, 0xad, 0xa7, 0x17, 0x9e, 0x84, 0xf3, 0xb9, 0xca, 0xc2, 0xfc, 0x63, 0x25, 0x51,
];

/// The order of P-384.
const P384: [u8; 48] = [
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
    0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xc7, 0x63, 0x4d, 0x81, 0xf4, 0x37, 0x2d, 0xdf,
    0x58, 0x1a, 0x0d, 0xb2, 0x48, 0xb0, 0xa7, 0x7a, 0xec, 0xec, 0x19, 0x6a, 0xcc, 0xc5, 0x29, 0x73,
];

/// Returns the certificate with the other form of its signature, if it is an ECDSA one.
pub fn twin(der: &[u8]) -> Option<Vec<u8>> {
    let parts = parse_der(der, |reader| {
        reader.collect_sequence_of(|reader| reader.read_der())
    });
    let [body, algorithm, signature] = <[Vec<u8>; 3]>::try_from(parts.ok()?).ok()?;
    let (bytes, _) = parse_der(&signature, |reader| reader.read_bitvec_bytes()).ok()?;
    if !is_ecdsa(&algorithm) {
        return None;
    }
    let signature = other_signature(&bytes)?;
    Some(yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_der(&body);
            writer.next().write_der(&algorithm);
            let bits = signature.len() * 8;
            writer.next().write_bitvec_bytes(&signature, bits);
        });
    }))
}

fn is_ecdsa(algorithm: &[u8]) -> bool {
    let read: ASN1Result<ObjectIdentifier> = parse_der(algorithm, |reader| {
        reader.read_sequence(|reader| {
            let id = reader.next().read_oid()?;
            reader.read_optional(|reader| reader.read_der())?;
            Ok(id)
        })
    });
    read.is_ok_and(|id| id.components().starts_with(&ECDSA))
}

fn other_signature(signature: &[u8]) -> Option<Vec<u8>> {
    let numbers = parse_der(signature, |reader| {
        reader.collect_sequence_of(|reader| reader.read_bigint_bytes())
    });
    let [(r, true), (s, true)] = <[(Vec<u8>, bool); 2]>::try_from(numbers.ok()?).ok()? else {
        return None;
    };
    let (r, s) = (without_zeros(&r), without_zeros(&s));
    // The curve is that of the CA. Numbers of P-384 have at most 256 bits with a probability of
    // 2^-256, and the holder cannot choose them.
    let order: &[u8] = match r.len().max(s.len()) {
        ..=32 => &P256,
        33..=48 => &P384,
        _ => return None,
    };
    let other = difference(order, s)?;
    Some(yasna::construct_der(|writer| {
        writer.write_sequence(|writer| {
            writer.next().write_bigint_bytes(r, true);
            writer.next().write_bigint_bytes(&other, true);
        });
    }))
}

fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// Subtracts big-endian numbers; `None` if the result is negative.
fn difference(a: &[u8], b: &[u8]) -> Option<Vec<u8>> {
    let mut result = a.to_vec();
    let mut borrow = 0;
    let subtrahend = b.iter().rev().copied().chain(std::iter::repeat(0));
    for (digit, byte) in result.iter_mut().rev().zip(subtrahend) {
        let value = i16::from(*digit) - i16::from(byte) - borrow;
        borrow = i16::from(value < 0);
        *digit = value.rem_euclid(256) as u8;
    }
    (borrow == 0 && b.len() <= a.len()).then_some(result)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384};
    use rcgen::{PKCS_ED25519, SignatureAlgorithm};
    use x509_parser::asn1_rs::FromDer;
    use x509_parser::certificate::X509Certificate;

    use super::*;

    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let parameters = CertificateParams::default();
        parameters.self_signed(&key).unwrap().der().to_vec()
    }

    /// Whether the certificate's own key signed it, with the algorithms that ring accepts.
    fn is_self_signed(der: &[u8], algorithm: &'static dyn ring::signature::VerificationAlgorithm) {
        let (_, certificate) = X509Certificate::from_der(der).unwrap();
        let key = &certificate.public_key().subject_public_key.data;
        let parts = parse_der(der, |reader| {
            reader.collect_sequence_of(|reader| reader.read_der())
        });
        let body = &parts.unwrap()[0];
        let key = ring::signature::UnparsedPublicKey::new(algorithm, key);
        key.verify(body, &certificate.signature_value.data).unwrap();
    }

    #[test]
    fn twin_of_a_certificate_is_valid_and_has_the_first_as_its_twin() {
        use ring::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA384_ASN1};
        // Signatures are random, and so is the number of leading zeros of theirs.
        for _ in 0..200 {
            let first = certificate(&PKCS_ECDSA_P256_SHA256);
            let second = twin(&first).unwrap();
            assert_ne!(first, second);
            is_self_signed(&first, &ECDSA_P256_SHA256_ASN1);
            is_self_signed(&second, &ECDSA_P256_SHA256_ASN1);
            assert_eq!(twin(&second), Some(first));
        }
        let first = certificate(&PKCS_ECDSA_P384_SHA384);
        let second = twin(&first).unwrap();
        is_self_signed(&second, &ECDSA_P384_SHA384_ASN1);
        assert_eq!(twin(&second), Some(first));
    }

    #[test]
    fn certificate_with_another_signature_has_no_twin() {
        assert_eq!(twin(&certificate(&PKCS_ED25519)), None);
        assert_eq!(twin(b"nonsense"), None);
        assert_eq!(other_signature(b"nonsense"), None);
    }

    #[test]
    fn numbers_are_subtracted_with_borrow() {
        assert_eq!(difference(&[1, 0, 0], &[1]), Some(vec![0, 255, 255]));
        assert_eq!(difference(&[2, 5], &[2, 5]), Some(vec![0, 0]));
        assert_eq!(difference(&[2, 5], &[2, 6]), None);
        assert_eq!(difference(&[2, 5], &[1, 0, 0]), None);
    }
}
