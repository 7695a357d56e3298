//! Tokens.

/// The kind of a token. Messages list kinds in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    End,
    Equals,
    NotEquals,
    In,
    Less,
    LessEquals,
    GreaterEquals,
    Greater,
    And,
    Or,
    LeftBracket,
    RightBracket,
    LeftBrace,
    RightBrace,
    LeftParen,
    RightParen,
    Dot,
    Comma,
    Minus,
    Exclam,
    Question,
    Colon,
    Plus,
    Star,
    Slash,
    Percent,
    True,
    False,
    Null,
    Float,
    Int,
    Uint,
    String,
    Bytes,
    Ident,
    EscapedIdent,
}

impl Kind {
    /// All kinds, in order.
    const ALL: [Self; 36] = [
        Self::End,
        Self::Equals,
        Self::NotEquals,
        Self::In,
        Self::Less,
        Self::LessEquals,
        Self::GreaterEquals,
        Self::Greater,
        Self::And,
        Self::Or,
        Self::LeftBracket,
        Self::RightBracket,
        Self::LeftBrace,
        Self::RightBrace,
        Self::LeftParen,
        Self::RightParen,
        Self::Dot,
        Self::Comma,
        Self::Minus,
        Self::Exclam,
        Self::Question,
        Self::Colon,
        Self::Plus,
        Self::Star,
        Self::Slash,
        Self::Percent,
        Self::True,
        Self::False,
        Self::Null,
        Self::Float,
        Self::Int,
        Self::Uint,
        Self::String,
        Self::Bytes,
        Self::Ident,
        Self::EscapedIdent,
    ];

    /// Returns the name of the kind in messages.
    fn display(self) -> &'static str {
        match self {
            Self::End => "<EOF>",
            Self::Equals => "'=='",
            Self::NotEquals => "'!='",
            Self::In => "'in'",
            Self::Less => "'<'",
            Self::LessEquals => "'<='",
            Self::GreaterEquals => "'>='",
            Self::Greater => "'>'",
            Self::And => "'&&'",
            Self::Or => "'||'",
            Self::LeftBracket => "'['",
            Self::RightBracket => "']'",
            Self::LeftBrace => "'{'",
            Self::RightBrace => "'}'",
            Self::LeftParen => "'('",
            Self::RightParen => "')'",
            Self::Dot => "'.'",
            Self::Comma => "','",
            Self::Minus => "'-'",
            Self::Exclam => "'!'",
            Self::Question => "'?'",
            Self::Colon => "':'",
            Self::Plus => "'+'",
            Self::Star => "'*'",
            Self::Slash => "'/'",
            Self::Percent => "'%'",
            Self::True => "'true'",
            Self::False => "'false'",
            Self::Null => "'null'",
            Self::Float => "NUM_FLOAT",
            Self::Int => "NUM_INT",
            Self::Uint => "NUM_UINT",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::Ident => "IDENTIFIER",
            Self::EscapedIdent => "ESC_IDENTIFIER",
        }
    }

    /// Returns the function of a binary operator.
    pub(crate) fn operator(self) -> Option<&'static str> {
        Some(match self {
            Self::Equals => "_==_",
            Self::NotEquals => "_!=_",
            Self::In => "@in",
            Self::Less => "_<_",
            Self::LessEquals => "_<=_",
            Self::GreaterEquals => "_>=_",
            Self::Greater => "_>_",
            Self::Plus => "_+_",
            Self::Minus => "_-_",
            Self::Star => "_*_",
            Self::Slash => "_/_",
            Self::Percent => "_%_",
            _ => return None,
        })
    }
}

/// A token: the characters from `start` up to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// A set of kinds, which may also contain the end of the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Set(u64);

impl Set {
    /// The bit for "the rule may end here".
    const NOTHING: u64 = 1 << 63;

    /// Creates a set of kinds.
    pub(crate) const fn of(kinds: &[Kind]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < kinds.len() {
            bits |= 1 << kinds[at] as u8;
            at += 1;
        }
        Self(bits)
    }

    /// The union of two sets.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set with the end of the rule.
    pub(crate) const fn or_nothing(self) -> Self {
        Self(self.0 | Self::NOTHING)
    }

    /// Returns whether the rule may end here.
    pub(crate) const fn may_end(self) -> bool {
        self.0 & Self::NOTHING != 0
    }

    /// The set without the end of the rule.
    pub(crate) const fn words(self) -> Self {
        Self(self.0 & !Self::NOTHING)
    }

    /// Returns whether the set contains a kind.
    pub(crate) const fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }
}

impl std::fmt::Display for Set {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = Kind::ALL
            .into_iter()
            .filter(|kind| self.has(*kind))
            .map(Kind::display)
            .collect();
        match names.as_slice() {
            [one] => f.write_str(one),
            many => write!(f, "{{{}}}", many.join(", ")),
        }
    }
}
