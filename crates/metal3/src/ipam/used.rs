//! A set of addresses that finds free ones fast.

use std::collections::BTreeMap;

use super::range::{Address, Family, Range};

/// A set of addresses, kept as disjoint intervals that do not touch. The next free address is
/// found in logarithmic time, however large the subnet is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsedAddresses {
    /// The last number of each interval, by family and first number.
    intervals: BTreeMap<(Family, u128), u128>,
}

impl UsedAddresses {
    /// Returns whether the set has an address.
    pub fn contains(&self, address: Address) -> bool {
        self.interval_of(address).is_some()
    }

    /// Adds an address. Returns whether it was new.
    pub fn insert(&mut self, address: Address) -> bool {
        if self.contains(address) {
            return false;
        }
        let Address { family, number } = address;
        let before = number
            .checked_sub(1)
            .map(|number| Address { family, number });
        let first = before.and_then(|before| self.interval_of(before));
        let first = first.map_or(number, |(first, _)| first);
        let after = number.checked_add(1);
        let joined = after.and_then(|after| self.intervals.remove(&(family, after)));
        self.intervals
            .insert((family, first), joined.unwrap_or(number));
        true
    }

    /// Returns the first free address of a range, from an offset on.
    pub fn next_free(&self, range: &Range, offset: u128) -> Option<Address> {
        let family = range.family;
        let number = range.first.checked_add(offset)?;
        let number = match self.interval_of(Address { family, number }) {
            // Intervals do not touch, so the next number is free.
            Some((_, last)) => last.checked_add(1)?,
            None => number,
        };
        (number <= range.last).then_some(Address { family, number })
    }

    /// Returns the interval that an address is in.
    fn interval_of(&self, address: Address) -> Option<(u128, u128)> {
        let Address { family, number } = address;
        let mut before = self.intervals.range((family, 0)..=(family, number));
        let (&(_, first), &last) = before.next_back()?;
        (number <= last).then_some((first, last))
    }
}

impl Extend<Address> for UsedAddresses {
    fn extend<I: IntoIterator<Item = Address>>(&mut self, addresses: I) {
        for address in addresses {
            self.insert(address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn set_agrees_with_a_plain_one(
            numbers in prop::collection::vec((any::<bool>(), 0..40_u8), 0..60),
            first in 0..40_u8, length in 0..40_u8, offset in 0..45_u8,
            at_end in any::<bool>(),
        ) {
            // Also where numbers overflow.
            let number = |small: u8| match at_end {
                true => u128::MAX - 39 + u128::from(small),
                false => u128::from(small),
            };
            let mut used = UsedAddresses::default();
            let mut plain = BTreeSet::new();
            for (is_ipv6, small) in numbers {
                let family = if is_ipv6 { Family::Ipv6 } else { Family::Ipv4 };
                let address = Address { family, number: number(small) };
                prop_assert_eq!(used.insert(address), plain.insert(address));
            }
            let last = number(first.saturating_add(length).min(39));
            let range = Range { family: Family::Ipv6, first: number(first), last };
            for small in 0..40 {
                for family in [Family::Ipv4, Family::Ipv6] {
                    let address = Address { family, number: number(small) };
                    prop_assert_eq!(used.contains(address), plain.contains(&address));
                }
            }
            let from = range.first.checked_add(u128::from(offset));
            let free = from.into_iter().flat_map(|from| from..=range.last).find(|&number| {
                !plain.contains(&Address { family: Family::Ipv6, number })
            });
            let found = used.next_free(&range, u128::from(offset));
            prop_assert_eq!(found.map(|address| address.number), free);
        }
    }
}
