//! The default manager name from the user agent.

use insula_gotext::quote::is_printable;

/// The maximum length of a manager name in bytes.
const MAX_NAME_LENGTH: usize = 128;

/// Returns the manager name of a user agent: the text before the first slash, without unprintable
/// characters and cut to the maximum length. It may be empty.
pub fn name(user_agent: &str) -> String {
    let (program, _) = user_agent.split_once('/').unwrap_or((user_agent, ""));
    let mut name = String::new();
    for letter in program.chars().filter(|letter| is_printable(*letter)) {
        if name.len() + letter.len_utf8() > MAX_NAME_LENGTH {
            break;
        }
        name.push(letter);
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_name_is_the_user_agent_up_to_the_slash() {
        let long = "é".repeat(100);
        for (agent, is) in [
            ("my-ctl/v1.2 (linux/amd64)", "my-ctl"),
            ("curl", "curl"),
            ("", ""),
            ("/x", ""),
            ("a b\t\u{1}c\u{7f}\u{a0}d/1", "a bcd"),
            ("\"q\\'\u{301}é\u{200b}\u{e000}日/1", "\"q\\'\u{301}é日"),
            (&long, &"é".repeat(64)),
            (&format!("a{long}"), &format!("a{}", "é".repeat(63))),
        ] {
            assert_eq!(name(agent), is, "{agent}");
        }
    }
}
