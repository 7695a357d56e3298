//! The index of a machine among those of one template.

use std::collections::BTreeSet;

/// Returns the smallest index that is not in use.
pub fn smallest_free(used: impl IntoIterator<Item = u32>) -> u32 {
    let used: BTreeSet<_> = used.into_iter().collect();
    // The n-th of the sorted indexes is n as long as there is no gap.
    let gap = (0..).zip(&used).find(|(at, used)| at != *used);
    gap.map_or(used.len() as u32, |(at, _)| at)
}

/// Returns the name of the object with the data of an index.
pub fn data_name(template: &str, index: u32) -> String {
    format!("{template}-{index}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gaps_are_filled_from_below() {
        for (used, expected) in [
            (&[][..], 0),
            (&[0], 1),
            (&[1], 0),
            (&[0, 1, 2], 3),
            (&[2, 0, 2, 5], 1),
            (&[u32::MAX], 0),
        ] {
            assert_eq!(smallest_free(used.iter().copied()), expected, "{used:?}");
        }
        assert_eq!(data_name("workers", 3), "workers-3");
    }

    proptest! {
        #[test]
        fn index_is_free_and_no_smaller_one_is(used in prop::collection::vec(0..20_u32, 0..40)) {
            let index = smallest_free(used.iter().copied());
            prop_assert!(!used.contains(&index));
            prop_assert!((0..index).all(|smaller| used.contains(&smaller)));
        }
    }
}
