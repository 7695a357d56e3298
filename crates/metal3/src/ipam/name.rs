//! The names of address objects.

use super::range::Address;

/// Returns the name of the object for an address: a prefix, and the address with dashes. Dashes at
/// the end, as after `2001:db8::`, are cut off.
pub fn address_name(prefix: &str, address: Address) -> String {
    let address = address.to_string().replace([':', '.'], "-");
    let name = format!("{prefix}-{address}");
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_dashes_for_dots_and_colons() {
        for (address, expected) in [
            ("192.168.0.10", "pool-192-168-0-10"),
            ("2001:db8::10", "pool-2001-db8--10"),
            ("2001:db8::", "pool-2001-db8"),
            ("::1", "pool---1"),
            ("::", "pool"),
            ("2001:DB8:0:0:0:0:0:1", "pool-2001-db8--1"),
        ] {
            let address = Address::parse(address).unwrap();
            assert_eq!(address_name("pool", address), expected);
        }
    }
}
