//! From Go's syntax to that of the engine.

/// How deep groups may be, and how often something may be repeated.
const DEPTH: usize = 1000;
const REPEAT: u32 = 1000;

/// The same expression in the engine's syntax; or what is wrong with it, in Go's words.
pub(super) fn translate(pattern: &str) -> Result<String, String> {
    let mut translator = Translator {
        pattern,
        rest: pattern,
        made: String::with_capacity(pattern.len() + 8),
        groups: Vec::new(),
        last: Last::Nothing,
    };
    while !translator.rest.is_empty() {
        translator.next()?;
    }
    if !translator.groups.is_empty() {
        return Err(format!("missing closing ): `{pattern}`"));
    }
    Ok(translator.made)
}

struct Translator<'p> {
    pattern: &'p str,
    rest: &'p str,
    made: String,
    /// Where the groups that are open began.
    groups: Vec<usize>,
    last: Last<'p>,
}

/// What the next operator would repeat.
#[derive(Clone, Copy)]
enum Last<'p> {
    Nothing,
    Something,
    /// Another operator, which is not to be repeated.
    Repeated(&'p str),
}

impl<'p> Translator<'p> {
    fn next(&mut self) -> Result<(), String> {
        let Some(first) = self.rest.chars().next() else {
            return Ok(());
        };
        match first {
            '(' => self.open(),
            ')' => self.close(),
            '[' => self.class(),
            '\\' => self.escape(),
            '*' | '+' | '?' => self.repeat(1),
            '{' => match counted(self.rest) {
                Some((length, least, most)) => {
                    let most = most.unwrap_or(least);
                    if least > REPEAT || most > REPEAT || least > most {
                        let operator = &self.rest[..length];
                        return Err(format!("invalid repeat count: `{operator}`"));
                    }
                    self.repeat(length)
                }
                None => {
                    self.take(1, "\\{");
                    Ok(())
                }
            },
            '}' | ']' => {
                let escaped = format!("\\{first}");
                self.take(1, &escaped);
                Ok(())
            }
            '|' => {
                self.take(1, "|");
                self.last = Last::Nothing;
                Ok(())
            }
            // Spaces and `#` mean themselves: there is no mode in which they do not.
            other => {
                self.take(other.len_utf8(), other.encode_utf8(&mut [0; 4]));
                Ok(())
            }
        }
    }

    fn take(&mut self, length: usize, made: &str) {
        self.made.push_str(made);
        self.rest = &self.rest[length..];
        self.last = Last::Something;
    }

    fn open(&mut self) -> Result<(), String> {
        if self.groups.len() == DEPTH {
            return Err("expression nests too deeply".to_owned() + &format!(": `{}`", self.pattern));
        }
        self.groups.push(self.made.len());
        let Some(after) = self.rest.strip_prefix("(?") else {
            self.take(1, "(");
            self.last = Last::Nothing;
            return Ok(());
        };
        if after.starts_with("P<") || after.starts_with('<') {
            return self.name(after);
        }
        let end = after.find([':', ')']);
        let flags = end
            .map(|end| &after[..end])
            .filter(|flags| are_flags(flags));
        let Some(flags) = flags else {
            return Err(self.bad_group(after));
        };
        let length = 2 + flags.len() + 1;
        let group = self.rest[..length].to_owned();
        if group.ends_with(')') {
            if flags.is_empty() {
                return Err(format!("missing argument to repetition operator: `?`"));
            }
            self.groups.pop();
        }
        self.take(length, &group);
        self.last = Last::Nothing;
        Ok(())
    }

    fn name(&mut self, after: &str) -> Result<(), String> {
        let start = after.find('<').map_or(0, |at| at + 1);
        let Some(end) = after.find('>') else {
            return Err(format!("invalid named capture: `{}`", self.rest));
        };
        let name = &after[start..end];
        let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(word) {
            return Err(format!(
                "invalid named capture: `{}`",
                &self.rest[..end + 3]
            ));
        }
        // Go lets a name begin with a digit.
        let group = format!("(?P<_{name}>");
        if self.made.contains(&group) {
            return Err(format!("duplicate capture group name: `{name}`"));
        }
        self.take(2 + end + 1, &group);
        self.last = Last::Nothing;
        Ok(())
    }

    fn bad_group(&self, after: &str) -> String {
        let shown = |length: usize| {
            let end = self
                .rest
                .char_indices()
                .nth(length)
                .map_or(self.rest.len(), |at| at.0);
            self.rest[..end].to_owned()
        };
        if after.is_empty() {
            return format!("missing argument to repetition operator: `?`");
        }
        if after.starts_with(['=', '!']) {
            return format!("invalid or unsupported Perl syntax: `{}`", shown(3));
        }
        let flags = after
            .bytes()
            .take_while(|byte| b"imsU-".contains(byte))
            .count();
        if flags == after.len() {
            return format!("missing closing ): `{}`", self.pattern);
        }
        format!(
            "invalid or unsupported Perl syntax: `{}`",
            shown(2 + flags + 1)
        )
    }

    fn close(&mut self) -> Result<(), String> {
        if self.groups.pop().is_none() {
            return Err(format!("unexpected ): `{}`", self.pattern));
        }
        self.take(1, ")");
        Ok(())
    }

    fn repeat(&mut self, length: usize) -> Result<(), String> {
        let lazy = self.rest[length..].starts_with('?');
        let length = length + usize::from(lazy);
        let operator = &self.rest[..length];
        match self.last {
            Last::Nothing => {
                return Err(format!(
                    "missing argument to repetition operator: `{operator}`"
                ));
            }
            Last::Repeated(before) => {
                return Err(format!(
                    "invalid nested repetition operator: `{before}{operator}`"
                ));
            }
            Last::Something => {}
        }
        self.take(length, operator);
        self.last = Last::Repeated(operator);
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let mut letters = self.rest.chars();
        letters.next();
        let Some(letter) = letters.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        match letter {
            'Q' => {
                let quoted = &self.rest[2..];
                let (quoted, length) = match quoted.find("\\E") {
                    Some(end) => (&quoted[..end], 2 + end + 2),
                    None => (quoted, self.rest.len()),
                };
                let escaped = regex::escape(quoted);
                self.take(length, &escaped);
            }
            'A' | 'z' => {
                let anchor = &self.rest[..2];
                self.take(2, anchor);
            }
            'b' => self.take(2, "(?-u:\\b)"),
            'B' => self.take(2, "(?-u:\\B)"),
            _ => {
                let (length, made) = member(self.rest, false)?;
                self.take(length, &made);
            }
        }
        Ok(())
    }

    fn class(&mut self) -> Result<(), String> {
        let whole = self.rest;
        let mut rest = &whole[1..];
        let mut made = "[".to_owned();
        if let Some(after) = rest.strip_prefix('^') {
            made.push('^');
            rest = after;
        }
        let mut first = true;
        loop {
            let missing = || format!("missing closing ]: `{whole}`");
            let letter = rest.chars().next().ok_or_else(missing)?;
            if letter == ']' && !first {
                break;
            }
            first = false;
            if let Some(name) = named(rest) {
                let (length, class) = name?;
                made.push_str(&class);
                rest = &rest[length..];
                continue;
            }
            let (length, low) = class_member(rest, letter)?;
            let after = &rest[length..];
            // A dash between two members makes a range, at the end it is one itself.
            let high = after
                .strip_prefix('-')
                .filter(|after| !after.starts_with(']'));
            let Some(high) = high.filter(|high| !high.is_empty()) else {
                made.push_str(&low);
                rest = after;
                continue;
            };
            let letter = high.chars().next().ok_or_else(missing)?;
            let (more, high_member) = class_member(high, letter)?;
            let range = &rest[..length + 1 + more];
            if !is_single(&low) || !is_single(&high_member) {
                return Err(format!("invalid character class range: `{range}`"));
            }
            made.push_str(&format!("{low}-{high_member}"));
            if regex::Regex::new(&format!("[{low}-{high_member}]")).is_err() {
                return Err(format!("invalid character class range: `{range}`"));
            }
            rest = &high[more..];
        }
        made.push(']');
        let length = whole.len() - rest.len() + 1;
        self.take(length, &made);
        Ok(())
    }
}

/// A member of a class: a character or an escape.
fn class_member(rest: &str, letter: char) -> Result<(usize, String), String> {
    if letter == '\\' {
        return member(rest, true);
    }
    Ok((
        letter.len_utf8(),
        regex::escape(letter.encode_utf8(&mut [0; 4])),
    ))
    .map(|(length, text)| (length, guard(letter, text)))
}

/// What would be an operator in the engine's classes means itself.
fn guard(letter: char, text: String) -> String {
    match letter {
        '&' | '~' | '-' => format!("\\{letter}"),
        _ => text,
    }
}

/// Whether it stands for one character, and so can be an end of a range.
fn is_single(member: &str) -> bool {
    !member.starts_with('[') && !member.starts_with("\\p") && !member.starts_with("\\P")
}

/// `[:alpha:]`; none if it is no such thing.
fn named(rest: &str) -> Option<Result<(usize, String), String>> {
    let inner = rest.strip_prefix("[:")?;
    let end = inner.find(":]")?;
    let name = inner[..end].strip_prefix('^').unwrap_or(&inner[..end]);
    let known = [
        "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
        "space", "upper", "word", "xdigit",
    ];
    let length = 2 + end + 2;
    let text = &rest[..length];
    Some(if known.contains(&name) {
        Ok((length, text.to_owned()))
    } else {
        Err(format!("invalid character class range: `{text}`"))
    })
}

/// An escape that stands for characters.
fn member(rest: &str, in_class: bool) -> Result<(usize, String), String> {
    let mut letters = rest.chars();
    letters.next();
    let Some(letter) = letters.next() else {
        return Err("trailing backslash at end of expression: ``".to_owned());
    };
    let made = match letter {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => "[\\t\\n\\x0c\\r ]",
        'S' => "[^\\t\\n\\x0c\\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        'a' => "\\x07",
        'f' => "\\x0c",
        't' => "\\t",
        'n' => "\\n",
        'r' => "\\r",
        'v' => "\\x0b",
        'p' | 'P' => return property(rest),
        'x' => return hexadecimal(rest),
        '0'..='7' => return octal(rest, letter),
        _ if letter == ' ' || letter.is_ascii_control() => {
            return Ok((2, format!("\\x{{{:x}}}", letter as u32)));
        }
        _ if letter.is_ascii_punctuation() => {
            let escaped = format!("\\{letter}");
            return Ok((
                2,
                if in_class {
                    escaped
                } else {
                    regex::escape(&letter.to_string())
                },
            ))
            .map(|(length, text)| (length, guard(letter, text)));
        }
        _ => {
            let end = 1 + letter.len_utf8();
            return Err(format!("invalid escape sequence: `{}`", &rest[..end]));
        }
    };
    Ok((2, made.to_owned()))
}

fn property(rest: &str) -> Result<(usize, String), String> {
    let after = &rest[2..];
    let length = match after.chars().next() {
        Some('{') => after.find('}').map(|end| 2 + end + 1),
        Some(letter) => Some(2 + letter.len_utf8()),
        None => None,
    };
    let wrong = |text: &str| format!("invalid character class range: `{text}`");
    let length = length.ok_or_else(|| wrong(rest))?;
    let text = &rest[..length];
    // Go spells negation in two ways, the engine in one.
    let made = text.replace("{^", "{");
    let made = if made.len() < text.len() {
        let flipped = if made.starts_with("\\p") {
            "\\P"
        } else {
            "\\p"
        };
        format!("{flipped}{}", &made[2..])
    } else {
        made
    };
    if regex::Regex::new(&made).is_err() {
        return Err(wrong(text));
    }
    Ok((length, made))
}

fn hexadecimal(rest: &str) -> Result<(usize, String), String> {
    let after = &rest[2..];
    let wrong = |length: usize| {
        let end = rest
            .char_indices()
            .nth(length)
            .map_or(rest.len(), |at| at.0);
        format!("invalid escape sequence: `{}`", &rest[..end])
    };
    let (digits, length) = match after.strip_prefix('{') {
        Some(inner) => {
            let end = inner.find('}').ok_or_else(|| wrong(rest.len()))?;
            (&inner[..end], 3 + end + 1)
        }
        None => (after.get(..2).ok_or_else(|| wrong(4))?, 4),
    };
    let hex = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| hex);
    let letter = code.and_then(char::from_u32).ok_or_else(|| wrong(length))?;
    Ok((length, format!("\\x{{{:x}}}", letter as u32)))
}

/// Up to three digits; a single one other than zero would refer back, which RE2 does not.
fn octal(rest: &str, letter: char) -> Result<(usize, String), String> {
    let digits = &rest[1..];
    let length = digits
        .bytes()
        .take(3)
        .take_while(|byte| (b'0'..=b'7').contains(byte))
        .count();
    if letter != '0' && length == 1 {
        return Err(format!("invalid escape sequence: `{}`", &rest[..2]));
    }
    let code = u32::from_str_radix(&digits[..length], 8).unwrap_or(0);
    Ok((1 + length, format!("\\x{{{code:x}}}")))
}

fn are_flags(flags: &str) -> bool {
    let (on, off) = flags.split_once('-').unwrap_or((flags, "i"));
    let known = |flags: &str| flags.bytes().all(|flag| b"imsU".contains(&flag));
    known(on) && known(off) && !off.is_empty()
}

/// The length of `{2}`, `{2,}` or `{2,3}`, and its numbers; none if it is no such thing.
fn counted(rest: &str) -> Option<(usize, u32, Option<u32>)> {
    let inner = &rest[1..rest.find('}')?];
    let (least, most) = inner.split_once(',').unwrap_or((inner, inner));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(least) || !(most.is_empty() || digits(most)) {
        return None;
    }
    // What does not fit is too much anyway.
    let number = |text: &str| text.parse::<u32>().unwrap_or(u32::MAX);
    let most = (!most.is_empty()).then(|| number(most));
    Some((inner.len() + 2, number(least), most))
}
