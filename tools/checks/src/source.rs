//! Rust source, split into code, comments and string literals.

/// The parts of one Rust file.
#[derive(Debug, Default)]
pub struct Source {
    /// The code: comments are blanked, string literals are emptied. Lines are kept.
    pub code: String,
    /// The comments: line number and text without the slashes.
    pub comments: Vec<(usize, String)>,
    /// The string literals: offset of the opening quote in `code`, and content.
    pub strings: Vec<(usize, String)>,
}

impl Source {
    /// Splits a file.
    pub fn parse(text: &str) -> Self {
        let mut source = Self::default();
        let mut rest = text;
        let mut line = 1;
        while let Some(letter) = rest.chars().next() {
            if rest.starts_with("//") {
                let end = rest.find('\n').unwrap_or(rest.len());
                let comment = rest[..end].trim_start_matches(['/', '!']).trim();
                source.comments.push((line, comment.to_owned()));
                rest = &rest[end..];
            } else if rest.starts_with("/*") {
                let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
                let lines = rest[..end].matches('\n').count();
                source.code.extend(std::iter::repeat_n('\n', lines));
                line += lines;
                rest = &rest[end..];
            } else if let Some(length) = raw_string(rest) {
                let content = rest[..length].trim_start_matches(['b', 'r', '#', '"']);
                let content = content.trim_end_matches(['#', '"']);
                line += source.literal(content);
                rest = &rest[length..];
            } else if letter == '"' {
                let length = string(rest);
                line += source.literal(&rest[1..length.saturating_sub(1).max(1)]);
                rest = &rest[length..];
            } else if let Some(length) = character(rest) {
                source.code.push_str("' '");
                rest = &rest[length..];
            } else {
                if letter == '\n' {
                    line += 1;
                }
                source.code.push(letter);
                rest = &rest[letter.len_utf8()..];
            }
        }
        source
    }

    fn literal(&mut self, content: &str) -> usize {
        self.strings.push((self.code.len(), content.to_owned()));
        self.code.push_str("\"\"");
        let lines = content.matches('\n').count();
        self.code.extend(std::iter::repeat_n('\n', lines));
        lines
    }

    /// The code without modules that are compiled for tests only.
    pub fn product_code(&self) -> String {
        let mut code = self.code.clone();
        while let Some(start) = code.find("#[cfg(test)]") {
            let end = item_end(&code[start..]).map_or(code.len(), |end| start + end);
            code.replace_range(start..end, "");
        }
        code
    }
}

/// The length of the item that the text begins with: up to its `;` or its closing brace.
fn item_end(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            ';' if depth == 0 => return Some(at + 1),
            '{' => depth += 1,
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let end = body.find(&close)?;
    Some(text.len() - body.len() + end + close.len())
}

/// A character literal, which is no lifetime.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let mut letters = body.char_indices();
    let (_, first) = letters.next()?;
    if first == '\\' {
        let (_, _) = letters.next()?;
        let end = body[2..].find('\'')? + 2;
        return Some(end + 2);
    }
    let (at, next) = letters.next()?;
    (next == '\'').then_some(at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_no_code() {
        let text =
            "// one\nlet a = \"// no\"; /// two\nlet b = 'x'; let c: &'a str = r#\"\"q\"#;\n";
        let source = Source::parse(text);
        assert_eq!(
            source.comments,
            [(1, "one".to_owned()), (2, "two".to_owned())]
        );
        assert_eq!(
            source.code,
            "\nlet a = \"\"; \nlet b = ' '; let c: &'a str = \"\";\n"
        );
        assert_eq!(source.strings[0].1, "// no");
    }

    #[test]
    fn test_modules_are_no_product_code() {
        let text = "use a;\n#[cfg(test)]\nmod tests { fn f() { if x { } } }\nuse b;\n";
        let code = Source::parse(text).product_code();
        assert!(code.contains("use a") && code.contains("use b") && !code.contains("fn f"));
    }
}
