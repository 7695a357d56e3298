//! Netmasks of prefix lengths.

use crate::data::sources::RenderError;
use crate::ipam::range::{Address, Family};

/// Returns the netmask of a prefix length as an address; an empty text if there is none.
pub(super) fn netmask(family: Family, prefix: Option<i32>) -> Result<String, RenderError> {
    let Some(prefix) = prefix else {
        return Ok(String::new());
    };
    let max = family.bits();
    let host_bits = u32::try_from(prefix)
        .ok()
        .and_then(|bits| max.checked_sub(bits));
    let Some(host_bits) = host_bits else {
        return Err(RenderError::InvalidPrefix { prefix, max });
    };
    let all = u128::MAX >> (128 - max);
    let number = match host_bits {
        128 => 0,
        host_bits => all >> host_bits << host_bits,
    };
    Ok(Address { family, number }.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netmasks_have_the_form_of_their_family() {
        for (family, prefix, expected) in [
            (Family::Ipv4, Some(0), "0.0.0.0"),
            (Family::Ipv4, Some(1), "128.0.0.0"),
            (Family::Ipv4, Some(20), "255.255.240.0"),
            (Family::Ipv4, Some(24), "255.255.255.0"),
            (Family::Ipv4, Some(32), "255.255.255.255"),
            (Family::Ipv4, None, ""),
            (Family::Ipv6, Some(0), "::"),
            (Family::Ipv6, Some(1), "8000::"),
            (Family::Ipv6, Some(56), "ffff:ffff:ffff:ff00::"),
            (Family::Ipv6, Some(64), "ffff:ffff:ffff:ffff::"),
            (Family::Ipv6, Some(96), "ffff:ffff:ffff:ffff:ffff:ffff::"),
            (
                Family::Ipv6,
                Some(128),
                "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            ),
            (Family::Ipv6, None, ""),
        ] {
            assert_eq!(netmask(family, prefix).unwrap(), expected);
        }
        for (family, prefix, max) in [
            (Family::Ipv4, 33, 32),
            (Family::Ipv4, -1, 32),
            (Family::Ipv6, 129, 128),
        ] {
            let invalid = RenderError::InvalidPrefix { prefix, max };
            assert_eq!(netmask(family, Some(prefix)), Err(invalid));
        }
    }
}
