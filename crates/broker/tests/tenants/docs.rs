//! Documentation of reasons.

use std::path::Path;

/// Reads a file of the repository.
fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(path)).unwrap()
}

/// Returns the words in a piece of source that begin with a capital: reasons.
fn words(source: &str) -> Vec<&str> {
    let texts = source.split('"').skip(1).step_by(2);
    let is_reason = |text: &&str| {
        text.starts_with(|sign: char| sign.is_ascii_uppercase())
            && text.chars().all(|sign| sign.is_ascii_alphabetic())
    };
    texts.filter(is_reason).collect()
}

#[test]
fn every_tenant_reason_is_documented() {
    let page = read("docs/brokers.md");
    let mut reasons = 0;
    for (file, from, to) in [
        ("problem.rs", "fn reason(", "fn resolves_itself("),
        ("status.rs", "fn describe(", "#[cfg(test)]"),
        ("remove.rs", "let reason = match", "DeletionProgress {"),
    ] {
        let source = read(&format!("crates/broker/src/operator/{file}"));
        let begin = source.find(from).unwrap();
        let part = source[begin..].split(to).next().unwrap();
        for reason in words(part) {
            reasons += 1;
            let documented = page.lines().any(|line| {
                let cell = line
                    .strip_prefix("| ")
                    .and_then(|line| line.split(" |").next());
                cell.is_some_and(|cell| cell.contains(&format!("`{reason}`")))
            });
            assert!(documented, "docs/brokers.md does not document {reason}");
        }
    }
    assert!(reasons >= 17, "they are found: {reasons}");
}
