//! Who uses an identity, in words.

/// How many are named.
const NAMED: usize = 5;

/// Names up to five users, in order, and says how many more there are; for messages. As in
/// `Metal3Cluster team-a/prod, team-b/prod and 3 more`; nobody is `nobody`.
pub fn told(kind: &str, users: &[String]) -> String {
    let mut users: Vec<&str> = users.iter().map(String::as_str).collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() {
        return "nobody".to_owned();
    }
    let more = users.len().saturating_sub(NAMED);
    users.truncate(NAMED);
    let names = users.join(", ");
    let kind = match kind {
        "" => String::new(),
        kind => format!("{kind} "),
    };
    match more {
        0 => format!("{kind}{names}"),
        more => format!("{kind}{names} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c8_up_to_five_are_named_in_order_and_the_rest_counted() {
        let many: Vec<_> = (0..9).rev().map(|one| format!("n/c{one}")).collect();
        for (kind, users, text) in [
            ("Cluster", &many[..0], "nobody"),
            ("Cluster", &many[8..], "Cluster n/c0"),
            ("", &many[7..], "n/c0, n/c1"),
            (
                "Cluster",
                &many[4..],
                "Cluster n/c0, n/c1, n/c2, n/c3, n/c4",
            ),
            (
                "Cluster",
                &many[3..],
                "Cluster n/c0, n/c1, n/c2, n/c3, n/c4 and 1 more",
            ),
            (
                "Cluster",
                &many[..],
                "Cluster n/c0, n/c1, n/c2, n/c3, n/c4 and 4 more",
            ),
        ] {
            assert_eq!(told(kind, users), text);
        }
        let twice = ["n/a".to_owned(), "n/a".to_owned()];
        assert_eq!(told("Cluster", &twice), "Cluster n/a");
    }
}
