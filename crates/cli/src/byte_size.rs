//! Sizes in bytes on the command line.

/// The units in bytes.
const UNITS: [(&str, usize); 3] = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30)];

/// Parses `1000000`, `512Ki`, `64Mi` and `1Gi`. Zero is not allowed.
pub fn parse(text: &str) -> Result<usize, String> {
    bytes(text).ok_or_else(|| {
        "a size is a positive number of bytes, or one with Ki, Mi or Gi, such as 64Mi".to_owned()
    })
}

fn bytes(text: &str) -> Option<usize> {
    let unit = UNITS.iter().find(|(name, _)| text.ends_with(name));
    let (number, unit) = match unit {
        Some((name, unit)) => (text.strip_suffix(name)?, *unit),
        None => (text, 1),
    };
    // A sign is no part of a size.
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number: usize = number.parse().ok().filter(|_| is_number)?;
    number.checked_mul(unit).filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_a_binary_unit_or_none() {
        for (text, wanted) in [
            ("1", Some(1)),
            ("512Ki", Some(512 << 10)),
            ("64Mi", Some(64 << 20)),
            ("1Gi", Some(1 << 30)),
            ("0", None),
            ("0Mi", None),
            ("", None),
            ("Mi", None),
            ("+1", None),
            ("1.5Gi", None),
            ("64M", None),
            ("99999999999999999999Gi", None),
        ] {
            assert_eq!(parse(text).ok(), wanted, "{text}");
        }
    }
}
