//! Names of machines at their provider, from the template `naming.template`.

use ring::digest::{SHA256, digest};

/// The values for a name template.
#[derive(Clone, Copy, Debug)]
pub struct TemplateValues<'a> {
    /// The name of the Cluster.
    pub cluster: &'a str,
    /// The name of the Machine.
    pub machine: &'a str,
    /// The UID of the machine, which differs between successive machines of the same name.
    pub uid: &'a str,
}

/// Why a template is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A part has no end.
    #[error("naming.template has a {{{{ that is not closed")]
    Unclosed,
    /// A part is unknown.
    #[error("naming.template has {0:?}, which is none of .cluster.name, .machine.name and .random")]
    Unknown(String),
    /// The name is invalid.
    #[error("naming.template makes {0:?}, which is no name of at most 63 letters, digits, - and .")]
    Invalid(String),
}

/// The maximum length of a host name.
const MAX_LENGTH: usize = 63;
/// The alphabet of Kubernetes' random suffixes: no vowels and no similar characters.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;

/// Expands a template; without one, returns the name of the machine.
///
/// # Errors
///
/// If the template or the name that it makes is invalid.
pub fn name(template: Option<&str>, values: TemplateValues<'_>) -> Result<String, NameError> {
    let Some(mut rest) = template.filter(|template| !template.is_empty()) else {
        return Ok(values.machine.to_owned());
    };
    let mut made = String::new();
    while let Some((before, after)) = rest.split_once("{{") {
        let (inside, behind) = after.split_once("}}").ok_or(NameError::Unclosed)?;
        made.push_str(before);
        made.push_str(&part(inside.trim().trim_matches('-').trim(), values)?);
        rest = behind;
    }
    made.push_str(rest);
    match is_valid(&made) {
        true => Ok(made),
        false => Err(NameError::Invalid(made)),
    }
}

fn part(inside: &str, values: TemplateValues<'_>) -> Result<String, NameError> {
    Ok(match inside {
        ".cluster.name" => values.cluster.to_owned(),
        ".machine.name" => values.machine.to_owned(),
        ".random" => suffix(values.uid),
        other => return Err(NameError::Unknown(other.to_owned())),
    })
}

/// Derives a suffix from the UID. It is always the same for one machine, so that a restarted
/// operator does not create a second one.
fn suffix(uid: &str) -> String {
    let digest = digest(&SHA256, uid.as_bytes());
    let letters = digest.as_ref().iter().take(SUFFIX_LENGTH);
    let letters = letters.map(|byte| ALPHABET[usize::from(*byte) % ALPHABET.len()]);
    letters.map(char::from).collect()
}

fn is_valid(name: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    (1..=MAX_LENGTH).contains(&name.len())
        && name.split('.').all(|label| {
            let ends = [label.bytes().next(), label.bytes().next_back()];
            ends.into_iter().all(|end| end.is_some_and(alphanumeric))
                && label.bytes().all(|byte| alphanumeric(byte) || byte == b'-')
        })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PARTS: TemplateValues<'_> = TemplateValues {
        cluster: "prod",
        machine: "prod-md-7",
        uid: "b5a1f2c0-0000-4000-8000-000000000001",
    };

    #[test]
    fn name_is_expanded_from_its_template() {
        let random = suffix(PARTS.uid);
        assert_eq!(random.len(), 5);
        let with_random = format!("prod-{random}");
        let unknown = |text: &str| Err(NameError::Unknown(text.to_owned()));
        let unfit = |text: &str| Err(NameError::Invalid(text.to_owned()));
        let long = "a".repeat(64);
        for (template, expected) in [
            (None, Ok("prod-md-7")),
            (Some(""), Ok("prod-md-7")),
            (Some("{{ .machine.name }}"), Ok("prod-md-7")),
            (Some("{{.cluster.name}}-{{ .random }}"), Ok(&*with_random)),
            (
                Some("{{- .cluster.name -}}-{{ .random }}"),
                Ok(&*with_random),
            ),
            (Some("vm.{{ .machine.name }}.x"), Ok("vm.prod-md-7.x")),
            (Some("fixed"), Ok("fixed")),
            (Some("{{ .machine.name"), Err(NameError::Unclosed)),
            (Some("{{ .secret }}"), unknown(".secret")),
            (Some("{{ }}"), unknown("")),
            (Some("Upper"), unfit("Upper")),
            (Some("-{{ .machine.name }}"), unfit("-prod-md-7")),
            (Some("a..b"), unfit("a..b")),
            (Some("a}}"), unfit("a}}")),
            (Some(&*long), unfit(&long)),
        ] {
            let expected = expected.map(str::to_owned);
            assert_eq!(name(template, PARTS), expected, "{template:?}");
        }
    }

    #[test]
    fn suffix_is_deterministic() {
        assert_eq!(suffix("a"), suffix("a"));
        assert_ne!(suffix("a"), suffix("b"));
    }

    #[test]
    fn invalid_templates_have_readable_errors() {
        for (template, expected) in [
            ("{{", "naming.template has a {{ that is not closed"),
            (
                "{{ .x }}",
                "naming.template has \".x\", which is none of .cluster.name, .machine.name and .random",
            ),
            (
                "_",
                "naming.template makes \"_\", which is no name of at most 63 letters, digits, - and .",
            ),
        ] {
            let error = name(Some(template), PARTS).expect_err("no name");
            assert_eq!(error.to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn every_expanded_name_is_valid(template in "[a-z{}. -]{0,40}|\\PC{0,20}") {
            if let Ok(name) = name(Some(&template), PARTS) {
                prop_assert!(is_valid(&name));
            }
        }
    }
}
