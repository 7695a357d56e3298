//! Primary expressions: names, calls, lists, maps, structs, literals.

use super::{EXPR, LITERAL, MEMBER, NAME, NOTHING, OPT_EXPR, Parser, Part, Rule, SUFFIX};
use crate::ast::{Entry, Expr, Literal, Node};
use crate::identifier::RESERVED;
use crate::parse::literal::{double, integer, unquote, unsigned};
use crate::parse::recover::SyntaxError;
use crate::parse::token::{Kind, Set, Token};

/// The elements of a list.
#[derive(Default)]
struct Elements {
    elements: Vec<Expr>,
    optional: Vec<usize>,
    height: usize,
}

impl Parser<'_> {
    pub(super) fn primary(&mut self, site: u8) -> Rule {
        self.words.enter(SUFFIX.or_nothing());
        let result = self.primary_body();
        self.finish(result, site)
    }

    fn primary_body(&mut self) -> Rule {
        self.words.sync(MEMBER, 31)?;
        let first = self.words.ahead(0);
        match first.kind {
            Kind::Ident => self.named(0),
            Kind::Dot => {
                let second = self.words.ahead(1);
                if second.kind != Kind::Ident {
                    return Err(SyntaxError::NoViable {
                        first,
                        offending: second,
                    });
                }
                self.named(1)
            }
            Kind::LeftParen => self.nested(),
            Kind::LeftBracket => self.list(),
            Kind::LeftBrace => self.map(),
            Kind::Minus => {
                let second = self.words.ahead(1);
                if !matches!(second.kind, Kind::Int | Kind::Float) {
                    return Err(SyntaxError::NoViable {
                        first,
                        offending: second,
                    });
                }
                Ok(self.literal())
            }
            kind if LITERAL.has(kind) => Ok(self.literal()),
            _ => Err(SyntaxError::NoViable {
                first,
                offending: first,
            }),
        }
    }

    /// Parses an expression that begins with a name, `dots` tokens ahead.
    fn named(&mut self, dots: usize) -> Rule {
        let first = self.words.ahead(0);
        if self.is_struct(dots) {
            return self.structure(dots);
        }
        if dots > 0 {
            self.words.take_any();
        }
        let token = self.words.take_any();
        let name = self.words.text_of(token);
        let reserved = RESERVED.contains(&name.as_str());
        let qualified = if dots > 0 {
            format!(".{name}")
        } else {
            name.clone()
        };
        if self.words.kind() == Kind::LeftParen {
            let open = self.words.take_any();
            let id = if reserved {
                0
            } else {
                self.build.id(open.start)
            };
            let (args, height) = self.arguments(32)?;
            let expr = match reserved {
                true => self.reserved(first, &name),
                false => self.call_or_macro(id, &qualified, None, args),
            };
            return Ok(Part { expr, height });
        }
        let expr = match reserved {
            true => self.reserved(first, &name),
            false => self.node(token.start, Node::Ident(qualified.into())),
        };
        Ok(Part { expr, height: 0 })
    }

    fn reserved(&mut self, first: Token, name: &str) -> Expr {
        self.build
            .report(first.start, format!("reserved identifier: {name}"))
    }

    fn is_struct(&mut self, dots: usize) -> bool {
        let mut at = dots + 1;
        while self.words.ahead(at).kind == Kind::Dot && self.words.ahead(at + 1).kind == Kind::Ident
        {
            at += 2;
        }
        self.words.ahead(at).kind == Kind::LeftBrace
    }

    fn structure(&mut self, dots: usize) -> Rule {
        let mut name = String::new();
        if dots > 0 {
            self.words.take_any();
            name.push('.');
        }
        while self.words.kind() != Kind::LeftBrace {
            let token = self.words.take_any();
            name.push_str(&self.words.text_of(token));
        }
        let open = self.words.take_any();
        let id = self.build.id(open.start);
        let mut found = (Vec::new(), 0);
        let begin = NAME.or(Set::of(&[Kind::Question]));
        self.words
            .sync(begin.or(Set::of(&[Kind::Comma, Kind::RightBrace])), 33)?;
        if begin.has(self.words.kind()) {
            self.words.enter(Set::of(&[Kind::Comma, Kind::RightBrace]));
            let result = self.fields(begin, &mut found);
            self.words.leave(result.err(), 34)?;
        }
        self.close(Kind::RightBrace, 35)?;
        let node = Node::Struct {
            name: name.into(),
            entries: found.0,
        };
        Ok(Part {
            expr: Expr { id, node },
            height: found.1,
        })
    }

    fn fields(&mut self, begin: Set, found: &mut (Vec<Entry>, usize)) -> Result<(), SyntaxError> {
        loop {
            self.words.enter(Set::of(&[Kind::Colon]));
            let optional = self.words.kind() == Kind::Question;
            if optional {
                self.words.take_any();
            }
            let result = self.name(NOTHING, 36);
            let (name, error) = match result {
                Ok(name) => (name, None),
                Err(error) => (None, Some(error)),
            };
            self.words.leave(error, 37)?;
            let colon = self.words.take(Kind::Colon, EXPR, 38)?;
            let id = self.build.id(colon.start);
            let value = self.expr(Set::of(&[Kind::Comma]).or_nothing(), 39)?;
            found.1 = found.1.max(value.height);
            let name = name.map_or_else(|| "".into(), |(_, name)| name);
            let key = Expr {
                id,
                node: Node::Literal(Literal::String(name)),
            };
            found.0.push(Entry {
                id,
                key,
                value: value.expr,
                optional,
            });
            if !self.another(begin) {
                return Ok(());
            }
        }
    }

    fn nested(&mut self) -> Rule {
        self.words.take_any();
        let part = self.expr(Set::of(&[Kind::RightParen]), 40)?;
        self.words.take(Kind::RightParen, NOTHING, 41)?;
        Ok(part)
    }

    fn list(&mut self) -> Rule {
        let open = self.words.take_any();
        let id = self.build.id(open.start);
        self.words
            .sync(OPT_EXPR.or(Set::of(&[Kind::Comma, Kind::RightBracket])), 42)?;
        let mut found = Elements::default();
        if OPT_EXPR.has(self.words.kind()) {
            self.words
                .enter(Set::of(&[Kind::Comma, Kind::RightBracket]));
            let result = self.elements(&mut found);
            self.words.leave(result.err(), 43)?;
        }
        self.close(Kind::RightBracket, 44)?;
        let Elements {
            elements,
            optional,
            height,
        } = found;
        Ok(Part {
            expr: Expr {
                id,
                node: Node::List { elements, optional },
            },
            height,
        })
    }

    fn elements(&mut self, found: &mut Elements) -> Result<(), SyntaxError> {
        loop {
            let (part, optional) = self.opt_expr(Set::of(&[Kind::Comma]).or_nothing(), 45)?;
            if optional {
                found.optional.push(found.elements.len());
            }
            found.elements.push(part.expr);
            found.height = found.height.max(part.height);
            if !self.another(OPT_EXPR) {
                return Ok(());
            }
        }
    }

    fn map(&mut self) -> Rule {
        let open = self.words.take_any();
        let id = self.build.id(open.start);
        let mut found = (Vec::new(), 0);
        self.words
            .sync(OPT_EXPR.or(Set::of(&[Kind::Comma, Kind::RightBrace])), 46)?;
        if OPT_EXPR.has(self.words.kind()) {
            self.words.enter(Set::of(&[Kind::Comma, Kind::RightBrace]));
            let result = self.entries(&mut found);
            self.words.leave(result.err(), 47)?;
        }
        self.close(Kind::RightBrace, 48)?;
        Ok(Part {
            expr: Expr {
                id,
                node: Node::Map(found.0),
            },
            height: found.1,
        })
    }

    fn entries(&mut self, found: &mut (Vec<Entry>, usize)) -> Result<(), SyntaxError> {
        loop {
            // The entry is numbered before its key, though its position is that of the colon.
            let id = self.build.id(0);
            let (key, optional) = self.opt_expr(Set::of(&[Kind::Colon]), 49)?;
            let colon = self.words.take(Kind::Colon, EXPR, 50)?;
            self.build.set_position(id, colon.start);
            let value = self.expr(Set::of(&[Kind::Comma]).or_nothing(), 51)?;
            found.1 = found.1.max(key.height).max(value.height);
            found.0.push(Entry {
                id,
                key: key.expr,
                value: value.expr,
                optional,
            });
            if !self.another(OPT_EXPR) {
                return Ok(());
            }
        }
    }

    fn opt_expr(&mut self, follow: Set, site: u8) -> Result<(Part, bool), SyntaxError> {
        self.words.enter(follow);
        let optional = self.words.sync(OPT_EXPR, 52).map(|()| {
            let optional = self.words.kind() == Kind::Question;
            if optional {
                self.words.take_any();
            }
            optional
        });
        let (optional, result) = match optional {
            Ok(optional) => (optional, self.expr(NOTHING, 53)),
            Err(error) => (false, Err(error)),
        };
        Ok((self.finish(result, site)?, optional))
    }

    /// Skips a comma that another element follows.
    fn another(&mut self, begin: Set) -> bool {
        let more = self.words.kind() == Kind::Comma && begin.has(self.words.ahead(1).kind);
        if more {
            self.words.take_any();
        }
        more
    }

    /// Skips the end of a list, with or without a trailing comma.
    fn close(&mut self, kind: Kind, state: u8) -> Result<(), SyntaxError> {
        self.words.sync(Set::of(&[Kind::Comma, kind]), state)?;
        if self.words.kind() == Kind::Comma {
            self.words.take_any();
        }
        self.words.take(kind, NOTHING, 54).map(|_| ())
    }

    fn literal(&mut self) -> Part {
        let first = self.words.take_any();
        let negative = first.kind == Kind::Minus;
        let token = if negative {
            self.words.take_any()
        } else {
            first
        };
        let text = self.words.text_of(token);
        let value = match token.kind {
            Kind::True => Ok(Literal::Bool(true)),
            Kind::False => Ok(Literal::Bool(false)),
            Kind::Int => integer(&text, negative).ok_or("invalid int literal"),
            Kind::Uint => unsigned(&text).ok_or("invalid uint literal"),
            Kind::Float => double(&text, negative).ok_or("invalid double literal"),
            Kind::String => unquote(&text, false)
                .map(|bytes| Literal::String(String::from_utf8_lossy(&bytes).into_owned().into())),
            Kind::Bytes => unquote(&text[1..], true).map(|bytes| Literal::Bytes(bytes.into())),
            _ => Ok(Literal::Null),
        };
        let expr = match value {
            Ok(value) => self.node(first.start, Node::Literal(value)),
            Err(message) => self.build.report(first.start, message),
        };
        Part { expr, height: 0 }
    }
}
