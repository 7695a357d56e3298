//! The JSON of objects without the fields of their metadata that objects of other clusters do not
//! have: `tenant` and `selfLink`.

use insula_kinds::scan::Members;

/// Whether objects are shown with `metadata.tenant` and `metadata.selfLink`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TenantFields {
    /// With both.
    #[default]
    Full,
    /// With neither.
    None,
}

/// The fields.
pub const TENANT_FIELDS: [&str; 2] = ["tenant", "selfLink"];

/// Appends the JSON of an object from the offset `from` on, without the fields. `metadata_at` is
/// the offset of its metadata.
pub(crate) fn copy_without(json: &[u8], from: usize, metadata_at: usize, out: &mut Vec<u8>) {
    out.reserve(json.len().saturating_sub(from));
    // What begins here is not copied yet.
    let mut rest = from;
    for (name, value) in Members::new(json, metadata_at) {
        if !TENANT_FIELDS.iter().any(|field| field.as_bytes() == name) {
            continue;
        }
        let (start, end) = (value.start - name.len() - r#""":"#.len(), value.end);
        // With the member goes the comma before it or, if that is gone or never was, the one
        // behind it.
        let has_comma_before = start > rest && json[start - 1] == b',';
        let (start, end) = match (has_comma_before, json.get(end)) {
            (true, _) => (start - 1, end),
            (false, Some(b',')) => (start, end + 1),
            (false, _) => (start, end),
        };
        out.extend_from_slice(json.get(rest..start).unwrap_or_default());
        rest = end;
    }
    out.extend_from_slice(json.get(rest..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(metadata: &str) -> String {
        let json = format!(r#"{{"kind":"K","metadata":{metadata},"tenant":"x"}}"#);
        let at = json.find(metadata).unwrap();
        let mut out = Vec::new();
        copy_without(json.as_bytes(), 0, at, &mut out);
        let out = String::from_utf8(out).unwrap();
        let metadata = out.strip_prefix(r#"{"kind":"K","metadata":"#).unwrap();
        metadata
            .strip_suffix(r#","tenant":"x"}"#)
            .unwrap()
            .to_owned()
    }

    #[test]
    fn fields_are_removed_wherever_they_are() {
        for (metadata, expected) in [
            (
                r#"{"name":"a","selfLink":"/x","uid":"u","tenant":"t"}"#,
                r#"{"name":"a","uid":"u"}"#,
            ),
            (
                r#"{"selfLink":"/x","tenant":"t","uid":"u"}"#,
                r#"{"uid":"u"}"#,
            ),
            (
                r#"{"tenant":"t","uid":"u","selfLink":"/x"}"#,
                r#"{"uid":"u"}"#,
            ),
            (
                r#"{"uid":"u","tenant":"t","selfLink":"/x"}"#,
                r#"{"uid":"u"}"#,
            ),
            (
                r#"{"uid":"u","tenant":"t","selfLink":"/x","a":1}"#,
                r#"{"uid":"u","a":1}"#,
            ),
            (r#"{"tenant":"t","selfLink":"/x"}"#, "{}"),
            (r#"{"tenant":"t"}"#, "{}"),
            ("{}", "{}"),
            ("null", "null"),
        ] {
            assert_eq!(without(metadata), expected, "{metadata}");
        }
    }

    #[test]
    fn equal_names_elsewhere_stay() {
        let metadata = r#"{"labels":{"tenant":"t","selfLink":"s"},"annotations":{"a":",\"tenant\":\"t\""},"managedFields":[{"tenant":1}],"Tenant":"t"}"#;
        assert_eq!(without(metadata), metadata);
    }

    #[test]
    fn copy_begins_at_the_offset() {
        let json = br#"{"kind":"K","metadata":{"tenant":"t","uid":"u"},"a":1}"#;
        let mut out = Vec::new();
        copy_without(json, 12, 23, &mut out);
        assert_eq!(out, br#""metadata":{"uid":"u"},"a":1}"#);
    }
}
