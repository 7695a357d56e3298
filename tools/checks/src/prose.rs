//! Comments and log messages in the field's language.
//!
//! A comment names its actor: the client, the tenant, the leader. Pronouns without one, and
//! comments of one or two words, are counted per 1,000 comment lines. A log message has a noun
//! and at least two words, so that it can be searched for.

use anyhow::Result;

use crate::repository::Repository;
use crate::source::Source;

/// The most comment lines of 1,000 that may use such words.
const MAX_PER_THOUSAND: usize = 3;

/// Words that hide the actor of a sentence.
const PRONOUNS: [&str; 7] = [
    "whoever", "whomever", "nobody", "somebody", "anybody", "whose", "whom",
];

/// Beginnings of clauses that say what something is not instead of what it is.
const NEGATIONS: [&str; 6] = [
    "what is not",
    "what was not",
    "what has not",
    "what does not",
    "what is no",
    "who has not",
];

/// Words that carry no meaning of their own: a log message of these alone names nothing.
const FUNCTION_WORDS: [&str; 72] = [
    "a", "about", "again", "all", "an", "and", "another", "any", "are", "as", "at", "away", "be",
    "been", "before", "by", "can", "cannot", "come", "could", "did", "do", "does", "down",
    "failed", "for", "from", "get", "go", "gone", "got", "had", "has", "have", "here", "in",
    "into", "is", "it", "its", "may", "more", "no", "not", "now", "of", "off", "on", "or", "other",
    "others", "out", "over", "so", "some", "still", "that", "the", "there", "this", "to", "under",
    "up", "was", "were", "what", "who", "will", "with", "without", "would", "yet",
];

const LOG_MACROS: [&str; 5] = ["trace!(", "debug!(", "info!(", "warn!(", "error!("];

/// Checks every Rust file of the repository.
pub fn check(repository: &Repository) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut counted = Vec::new();
    let mut lines = 0;
    for path in repository.below("", ".rs") {
        let source = Source::parse(&repository.read(path)?);
        lines += source.comments.len();
        for (line, comment) in &source.comments {
            if let Some(word) = dialect(comment) {
                counted.push(format!("{path}:{line}: `{word}`"));
            }
        }
        if is_product(path) {
            for message in log_messages(&source) {
                if let Some(why) = poor_message(message) {
                    problems.push(format!("{path}: the log message \"{message}\" {why}"));
                }
            }
        }
    }
    if counted.len() * 1000 > lines * MAX_PER_THOUSAND {
        let summary = format!(
            "{} of {lines} comment lines do not name their actor, at most {MAX_PER_THOUSAND} of \
             1,000 may",
            counted.len()
        );
        problems.extend(counted);
        problems.push(summary);
    }
    Ok(problems)
}

fn is_product(path: &str) -> bool {
    path.starts_with("crates/") && path.contains("/src/")
}

/// The word or clause by which a comment counts, if any.
fn dialect(comment: &str) -> Option<&'static str> {
    let lower = comment.to_lowercase();
    let mut words = lower.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
    let pronoun = words.find_map(|word| PRONOUNS.into_iter().find(|known| *known == word));
    let riddle = || {
        let riddles = ["what.", "where.", "who.", "which.", "when.", "they.", "it."];
        riddles.into_iter().find(|known| *known == lower)
    };
    let negation = || NEGATIONS.into_iter().find(|clause| lower.contains(clause));
    pronoun.or_else(riddle).or_else(negation)
}

/// The messages of `tracing` macros: the last literal that is no field's value.
fn log_messages(source: &Source) -> Vec<&str> {
    let mut messages = Vec::new();
    let code = &source.code;
    for (start, _) in code.match_indices("tracing::") {
        let Some(name) = LOG_MACROS
            .iter()
            .find(|name| code[start + "tracing::".len()..].starts_with(**name))
        else {
            continue;
        };
        let open = start + "tracing::".len() + name.len();
        let end = open + closing(&code[open..]);
        let mut inside = source.strings.iter().filter(|(at, _)| {
            let before = code[..*at].trim_end();
            (open..end).contains(at) && (before.ends_with(',') || before.ends_with('('))
        });
        messages.extend(inside.next_back().map(|(_, message)| message.as_str()));
    }
    messages
}

/// The offset of the parenthesis that closes one opened before the text.
fn closing(text: &str) -> usize {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

fn poor_message(message: &str) -> Option<&'static str> {
    let words: Vec<&str> = message.split_whitespace().collect();
    if words.len() < 2 {
        return Some("has less than two words");
    }
    let is_noun = |word: &&&str| {
        let word = word.trim_matches(|letter: char| !letter.is_alphanumeric());
        let lower = word.to_lowercase();
        lower.len() > 1
            && !FUNCTION_WORDS.contains(&lower.as_str())
            && !lower.ends_with("ed")
            && !lower.ends_with("ing")
    };
    let nouns = words.iter().filter(is_noun).count();
    (nouns == 0).then_some("has no noun")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialect_is_found_by_words_not_by_letters() {
        for (comment, counts) in [
            ("Whoever asks.", true),
            ("The tenant whose quota is full.", true),
            ("What.", true),
            ("Skips what is not served.", true),
            ("The whole list.", false),
            ("Returns what the client asked for.", false),
        ] {
            assert_eq!(dialect(comment).is_some(), counts, "{comment}");
        }
    }

    #[test]
    fn log_messages_need_a_noun_and_two_words() {
        for (message, good) in [
            ("tenant deleted", true),
            ("certificate rotated", true),
            ("is gone", false),
            ("stopped", false),
            ("did not get on", false),
        ] {
            assert_eq!(poor_message(message).is_none(), good, "{message}");
        }
    }

    #[test]
    fn message_of_a_log_macro_is_no_field() {
        let text = r#"tracing::info!(name = "x", path = %f("y"), "store opened");"#;
        let source = Source::parse(text);
        assert_eq!(log_messages(&source), ["store opened"]);
    }
}
