//! Summaries of an identity's users.

/// The maximum number of users in a summary.
const MAX_NAMED: usize = 5;

/// Summarizes users for messages: up to five names in order and the number of others, such as
/// `Metal3Cluster team-a/prod, team-b/prod and 3 more`. An empty list has a fixed
/// text.
pub fn summarize(kind: &str, users: &[String]) -> String {
    let mut users: Vec<&str> = users.iter().map(String::as_str).collect();
    users.sort_unstable();
    users.dedup();
    if users.is_empty() {
        return "no object".to_owned();
    }
    let more = users.len().saturating_sub(MAX_NAMED);
    users.truncate(MAX_NAMED);
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
    fn c8_summary_names_five_users_and_counts_the_rest() {
        let many: Vec<_> = (0..9).rev().map(|one| format!("n/c{one}")).collect();
        for (kind, users, text) in [
            ("Cluster", &many[..0], "no object"),
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
            assert_eq!(summarize(kind, users), text);
        }
        let twice = ["n/a".to_owned(), "n/a".to_owned()];
        assert_eq!(summarize("Cluster", &twice), "Cluster n/a");
    }
}
