//! Objects of typical shape and size, and their paths.

use bytes::Bytes;

/// The length of the value in each object.
const VALUE: usize = 1024;
/// The label of every tenth object.
pub const TENTH: &str = "bench=tenth";

/// Returns the path of the `ConfigMaps` of a namespace.
pub fn collection(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

pub fn name(n: usize) -> String {
    format!("object-{n:06}")
}

/// Returns an object as a client sends it, with its resource version if it has one.
pub fn configmap(n: usize, version: Option<u64>, stamp: &str) -> Bytes {
    let label = if n.is_multiple_of(10) {
        "tenth"
    } else {
        "other"
    };
    let version = version.map_or_else(String::new, |version| {
        format!(",\"resourceVersion\":\"{version}\"")
    });
    Bytes::from(format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"{}\",\
         \"labels\":{{\"bench\":\"{label}\"}}{version}}},\
         \"data\":{{\"stamp\":\"{stamp}\",\"value\":\"{}\"}}}}",
        name(n),
        value(n as u64)
    ))
}

/// Returns a merge patch of one short value.
pub fn patch(n: usize) -> Bytes {
    Bytes::from(format!("{{\"data\":{{\"stamp\":\"patched-{n:06}\"}}}}"))
}

pub fn namespace(name: &str) -> Bytes {
    Bytes::from(format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{{\"name\":\"{name}\"}}}}"
    ))
}

pub fn tenant(name: &str) -> Bytes {
    Bytes::from(format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Tenant\",\"metadata\":{{\"name\":\"{name}\"}}}}"
    ))
}

/// Returns a tenant with a broker.
pub fn broker_tenant(name: &str) -> Bytes {
    Bytes::from(format!(
        "{{\"apiVersion\":\"submariner.io/v1alpha1\",\"kind\":\"Tenant\",\
         \"metadata\":{{\"name\":\"{name}\"}}}}"
    ))
}

/// Returns the members of an object in a response: 1.4 KB.
pub fn stored(n: usize) -> String {
    format!(
        "\"metadata\":{{\"name\":\"{}\",\"namespace\":\"bench\",\
         \"uid\":\"6b1f1c0e-5d0c-4f6e-9d0a-0123456789ab\",\"resourceVersion\":\"1000\",\
         \"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{{\"bench\":\"other\"}},\
         \"managedFields\":[{{\"manager\":\"insula-bench\",\"operation\":\"Update\",\
         \"apiVersion\":\"v1\",\"time\":\"2026-01-01T00:00:00Z\",\"fieldsType\":\"FieldsV1\",\
         \"fieldsV1\":{{\"f:data\":{{\".\":{{}},\"f:stamp\":{{}},\"f:value\":{{}}}}}}}}]}},\
         \"data\":{{\"stamp\":\"-\",\"value\":\"{}\"}}",
        name(n),
        value(n as u64)
    )
}

/// Returns an object of a tenant as the store holds it, without a value: a million take room.
pub fn small(n: usize, tenant: &str) -> Bytes {
    let name = name(n);
    Bytes::from(format!(
        "{{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{{\"name\":\"{name}\",\
         \"namespace\":\"default\",\"tenant\":\"{tenant}\",\"selfLink\":\"/api/v1/tenants/{tenant}/\
         namespaces/default/configmaps/{name}\",\"uid\":\"6b1f1c0e-5d0c-4f6e-9d0a-{n:012}\",\
         \"creationTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{{\"bench\":\"other\"}}}},\
         \"data\":{{\"stamp\":\"-\"}}}}"
    ))
}

/// Returns incompressible text, different for each seed.
fn value(seed: u64) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut value = String::with_capacity(VALUE);
    while value.len() < VALUE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let letters = (0..10).map(|sixth| LETTERS[(state >> (sixth * 6)) as usize & 63] as char);
        value.extend(letters.take(VALUE - value.len()));
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_have_the_documented_size() {
        assert_eq!(value(7).len(), VALUE);
        assert_ne!(value(7), value(8));
        let listed = stored(7).len();
        assert!((1350..1500).contains(&listed), "{listed}");
        let sent = configmap(7, Some(3), "-").len();
        assert!((1100..1300).contains(&sent), "{sent}");
    }
}
