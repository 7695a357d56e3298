//! Generated object names.

use uuid::Uuid;

/// Kubernetes' alphabet: no vowels and no look-alikes, so that no words arise.
const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// The longest prefix that leaves room for five characters in a DNS label.
const MAX_PREFIX_LENGTH: usize = 58;

/// Returns the prefix with five random characters.
pub fn generate(prefix: &str) -> String {
    let mut end = prefix.len().min(MAX_PREFIX_LENGTH);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = prefix[..end].to_owned();
    let random = Uuid::new_v4();
    let letters = random.as_bytes()[..5].iter();
    name.extend(letters.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])));
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_name_is_the_prefix_and_five_letters() {
        let name = generate("web-");
        assert_eq!((name.len(), &name[..4]), (9, "web-"));
        assert!(
            name[4..].bytes().all(|byte| ALPHABET.contains(&byte)),
            "{name}"
        );
        assert_eq!(generate(&"x".repeat(80)).len(), 63);
        assert_ne!(generate("a"), generate("a"));
    }
}
