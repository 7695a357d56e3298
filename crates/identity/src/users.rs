//! Who uses an identity, in words.

/// Names up to five users, in order, and says how many more there are; for messages.
pub fn told(kind: &str, users: &[String]) -> String {
    todo!("{kind}{users:?}")
}
