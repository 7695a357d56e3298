//! Parsing of paths.

use insula_kinds::Value;

use super::{End, Filter, Operator, Slice, Step};

/// Maximum nesting of paths in filters. The grammar hardly allows two.
const MAX_DEPTH: usize = 8;

/// Why a path is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSONPath: {0}")]
pub struct PathError(String);

/// Parses the steps up to the end of the text or an unmatched closing brace.
pub(super) fn parse(text: &str) -> Result<Vec<Step>, PathError> {
    action(text, 0)
}

fn action(text: &str, depth: usize) -> Result<Vec<Step>, PathError> {
    if depth > MAX_DEPTH {
        return fail("nested too deep");
    }
    let mut parser = Parser {
        rest: text,
        steps: Vec::new(),
        depth,
    };
    while parser.step()? {}
    Ok(parser.steps)
}

fn fail<T>(why: impl Into<String>) -> Result<T, PathError> {
    Err(PathError(why.into()))
}

struct Parser<'a> {
    rest: &'a str,
    steps: Vec<Step>,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Parses one step; returns false at the end.
    fn step(&mut self) -> Result<bool, PathError> {
        let Some(letter) = self.rest.chars().next() else {
            return Ok(false);
        };
        if self.rest.starts_with("[?(") {
            return self.filter().map(|()| true);
        }
        if self.rest.starts_with("..") {
            return self.descend().map(|()| true);
        }
        match letter {
            '}' => return Ok(false),
            // These refer to the current value, which is implied.
            ' ' | '@' | '$' => self.skip(1),
            '[' => self.brackets()?,
            '"' | '\'' => self.quoted(letter)?,
            '.' => {
                self.skip(1);
                self.member();
            }
            '+' | '-' => self.number()?,
            digit if digit.is_numeric() => self.number()?,
            letter if letter == '_' || letter.is_alphabetic() => self.word(),
            '\r' | '\n' => return fail("unexpected line break"),
            other => return fail(format!("unexpected {other:?}")),
        }
        Ok(true)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    /// Takes the first bytes of the rest. They must end at a character boundary.
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        taken
    }

    fn member(&mut self) {
        let end = unescaped_end(self.rest);
        let name = self.take(end);
        self.steps.push(match name {
            "*" => Step::Each,
            name => Step::Member(name.replace('\\', "")),
        });
    }

    fn descend(&mut self) -> Result<(), PathError> {
        if self.steps.last() == Some(&Step::Descend) {
            return fail("two descents in a row");
        }
        self.skip(2);
        self.steps.push(Step::Descend);
        let next = self.rest.chars().next();
        if next.is_some_and(|letter| letter == '_' || letter.is_alphanumeric()) {
            self.member();
        }
        Ok(())
    }

    fn word(&mut self) {
        let end = self.rest.find(is_end).unwrap_or(self.rest.len());
        let word = self.take(end);
        self.steps.push(match word {
            "true" => Step::Scalar(Value::Bool(true)),
            "false" => Step::Scalar(Value::Bool(false)),
            _ => Step::Unknown,
        });
    }

    fn number(&mut self) -> Result<(), PathError> {
        let signed = self.rest.strip_prefix(['+', '-']).unwrap_or(self.rest);
        let sign = self.rest.len() - signed.len();
        let digits = signed.find(|letter: char| letter != '.' && !letter.is_numeric());
        let text = self.take(sign + digits.unwrap_or(signed.len()));
        let number = match text.parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => match text.parse::<f64>() {
                Ok(double) => Value::from(double),
                Err(_) => return fail(format!("invalid number: {text}")),
            },
        };
        self.steps.push(Step::Scalar(number));
        Ok(())
    }

    fn quoted(&mut self, quote: char) -> Result<(), PathError> {
        let Some(end) = closing(self.rest, quote) else {
            return fail("unterminated string");
        };
        let text = self.take(end + 1);
        // Quotes are one byte each.
        let inner = text.get(1..end).unwrap_or_default();
        self.steps.push(Step::Text(unquote(inner, quote)?.into()));
        Ok(())
    }

    /// `[...]` without a filter.
    fn brackets(&mut self) -> Result<(), PathError> {
        let inner = match self.rest.find([']', '\n']) {
            Some(end) if self.rest[end..].starts_with(']') => {
                let text = self.take(end + 1);
                text.get(1..end).unwrap_or_default()
            }
            _ => return fail("unclosed brackets"),
        };
        if inner.contains(',') {
            let parts = inner.split(',').map(|part| {
                let part = part.trim_matches(' ');
                action(&format!("[{part}]"), self.depth + 1)
            });
            let parts = parts.collect::<Result<_, _>>()?;
            self.steps.push(Step::Union(parts));
            return Ok(());
        }
        if let Some(key) = key(inner) {
            // A key is parsed as a path; dots belong to a name only if escaped.
            let steps = action(&format!(".{key}"), self.depth + 1)?;
            self.steps.extend(steps);
            return Ok(());
        }
        self.steps.push(Step::Slice(slice(inner)?));
        Ok(())
    }

    fn filter(&mut self) -> Result<(), PathError> {
        self.skip("[?(".len());
        let Some(end) = filter_end(self.rest) else {
            return fail("unclosed filter");
        };
        let text = self.take(end);
        self.skip(1);
        match self.rest.strip_prefix(']') {
            Some(rest) => self.rest = rest,
            None => return fail("filter without closing bracket"),
        }
        let deeper = self.depth + 1;
        let filter = match comparison(text) {
            None => Filter {
                left: action(text, deeper)?,
                right: None,
            },
            Some((left, operator, right)) => Filter {
                left: action(left, deeper)?,
                right: Some((operator, action(right, deeper)?)),
            },
        };
        self.steps.push(Step::Filter(filter));
        Ok(())
    }
}

/// Reports whether the character ends a name.
fn is_end(letter: char) -> bool {
    matches!(
        letter,
        ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}'
    )
}

fn unescaped_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            letter if is_end(letter) => return at,
            _ => {}
        }
    }
    text.len()
}

/// The position of the closing quote.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut before = quote;
    for (at, letter) in text.char_indices().skip(1) {
        match letter {
            '\n' => return None,
            letter if letter == quote && before != '\\' => return Some(at),
            _ => before = letter,
        }
    }
    None
}

/// The position of the closing parenthesis of a filter, after its string if it has one.
fn filter_end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut closed = false;
    let mut before = '(';
    for (at, letter) in text.char_indices() {
        match letter {
            '\n' => return None,
            '"' | '\'' => match quote {
                None => quote = Some(letter),
                Some(quote) => closed |= before != '\\' && letter == quote,
            },
            ')' if quote.is_some() == closed => return Some(at),
            _ => {}
        }
        before = letter;
    }
    None
}

/// Splits a comparison into its sides and operator.
fn comparison(text: &str) -> Option<(&str, Operator, &str)> {
    const SIGNS: [char; 4] = ['!', '<', '>', '='];
    let at = text.find(SIGNS).filter(|at| *at > 0)?;
    let (left, rest) = text.split_at(at);
    let right = rest.trim_start_matches(SIGNS);
    let signs = rest.len() - right.len();
    // The right side must not be empty; if need be, it takes the last operator character.
    let signs = if right.is_empty() { signs - 1 } else { signs };
    if signs == 0 {
        return None;
    }
    let (signs, right) = rest.split_at(signs);
    let operator = match signs {
        "==" => Operator::Equal,
        "!=" => Operator::NotEqual,
        "<" => Operator::Less,
        "<=" => Operator::LessOrEqual,
        ">" => Operator::Greater,
        ">=" => Operator::GreaterOrEqual,
        _ => Operator::Unknown,
    };
    Some((left, operator, right))
}

fn key(text: &str) -> Option<&str> {
    let key = text.strip_prefix('\'')?.strip_suffix('\'')?;
    (!key.contains('\'')).then_some(key)
}

fn slice(text: &str) -> Result<Slice, PathError> {
    let text = if text == "*" { ":" } else { text };
    let bad = || PathError(format!("invalid index: {text}"));
    let parts: Vec<&str> = text.split(':').collect();
    let index = |at: usize| match parts.get(at).copied().unwrap_or_default() {
        "" => Ok(None),
        // Go accepts a plus sign, but the grammar does not.
        plus if plus.starts_with('+') => Err(bad()),
        number => number.parse::<i64>().map(Some).map_err(|_| bad()),
    };
    if parts.len() > 3 {
        return Err(bad());
    }
    let from = index(0)?;
    let to = match (parts.len(), index(1)?) {
        (1, _) => End::Next(from.unwrap_or(0).saturating_add(1)),
        (_, Some(to)) => End::At(to),
        (_, None) => End::Open,
    };
    Ok(Slice {
        from,
        to,
        by: index(2)?,
    })
}

/// Unquotes a string as Go does.
fn unquote(text: &str, quote: char) -> Result<String, PathError> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter == quote {
            return fail("unescaped quote in a string");
        }
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        let escaped = letters.next();
        let letter = match escaped {
            Some('a') => Some('\x07'),
            Some('b') => Some('\x08'),
            Some('f') => Some('\x0c'),
            Some('n') => Some('\n'),
            Some('r') => Some('\r'),
            Some('t') => Some('\t'),
            Some('v') => Some('\x0b'),
            Some('\\') => Some('\\'),
            Some(other) if other == quote => Some(quote),
            Some('x') => hexadecimal(&mut letters, 2).filter(char::is_ascii),
            Some('u') => hexadecimal(&mut letters, 4),
            Some('U') => hexadecimal(&mut letters, 8),
            _ => None,
        };
        match letter {
            Some(letter) => plain.push(letter),
            None => return fail("unknown escape in a string"),
        }
    }
    Ok(plain)
}

fn hexadecimal(letters: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let mut number = 0u32;
    for _ in 0..digits {
        let digit = letters.next()?.to_digit(16)?;
        number = number.checked_mul(16)?.checked_add(digit)?;
    }
    char::from_u32(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_never_panics() {
        let alphabet = [
            '.', '[', ']', '\'', '"', '\\', '?', '(', ')', '@', '=', ':', 'é', '-', '}', '*', ',',
        ];
        // All texts of four of these characters.
        for first in alphabet {
            for second in alphabet {
                for third in alphabet {
                    for fourth in alphabet {
                        let text: String = [first, second, third, fourth].iter().collect();
                        parse(&text).ok();
                        parse(&format!(".a{text}")).ok();
                        parse(&format!("[?({text})]")).ok();
                    }
                }
            }
        }
    }

    #[test]
    fn unbounded_nesting_is_rejected() {
        assert!(parse(&"[?(".repeat(1000)).is_err());
        assert!(parse(&"[?(')'".repeat(1000)).is_err());
        assert!(action(".a", MAX_DEPTH + 1).is_err());
    }
}
