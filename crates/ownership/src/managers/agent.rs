//! What a program that names no manager is called.

/// So many bytes a manager's name may have.
const MOST: usize = 128;

/// The name of a manager from what the user agent calls itself: what is before the first
/// slash, if it can be printed, as far as there is room. It may be empty.
pub fn name(user_agent: &str) -> String {
    let (program, _) = user_agent.split_once('/').unwrap_or((user_agent, ""));
    let mut name = String::new();
    for letter in program.chars().filter(|letter| is_printable(*letter)) {
        if name.len() + letter.len_utf8() > MOST {
            break;
        }
        name.push(letter);
    }
    name
}

/// Whether Go calls it printable, which Rust does not say of a letter; but it escapes those
/// that are not. Marks it escapes only where a text begins.
fn is_printable(letter: char) -> bool {
    match letter {
        '"' | '\'' | '\\' | '\u{fffd}' => true,
        _ => {
            let mut text = [b'a'; 5];
            let end = 1 + letter.encode_utf8(&mut text[1..]).len();
            let text = std::str::from_utf8(&text[..end]).unwrap_or_default();
            text.escape_debug().count() == 2
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_called_what_the_user_agent_says_before_the_slash() {
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
