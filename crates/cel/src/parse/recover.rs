//! Error messages and recovery after an unexpected token.
//!
//! Messages and recovery are those of ANTLR, the parser generator of the reference implementation,
//! hence its concepts: the tokens that may follow within a rule, the rules that wait for the
//! current one (`contexts`), and the recovery mode, in which errors are not reported until a token
//! matches.

use super::lexer::{Lexer, Unreadable};
use super::token::{Kind, Set, Token};
use crate::issue::Issue;

/// The maximum number of recovery attempts.
const MAX_ATTEMPTS: usize = 30;

/// The maximum number of tokens that one attempt skips.
const MAX_SKIPPED: usize = 256;

/// The maximum number of reported errors.
const MAX_REPORTS: usize = 100;

/// The tokens of an expression, the position of the parser, and its errors.
pub(crate) struct TokenStream<'a> {
    pub(crate) text: &'a [char],
    lexer: Lexer<'a>,
    tokens: Vec<Token>,
    at: usize,
    pub(crate) issues: Vec<Issue>,
    /// Text between tokens that is not a token.
    unreadable: Vec<Unreadable>,
    /// The tokens that may follow each active rule, innermost last.
    contexts: Vec<Set>,
    /// The state of the grammar.
    pub(crate) state: u8,
    recovering: bool,
    last_index: Option<usize>,
    last_states: u64,
    attempts: usize,
    reports: usize,
    halted: bool,
}

/// The reason why a rule failed.
pub(crate) enum SyntaxError {
    /// The token does not match; these would.
    Mismatch(Set),
    /// The tokens match no alternative.
    NoViable {
        /// The first token of the alternative.
        first: Token,
        /// The token that does not match.
        offending: Token,
    },
    /// Parsing has stopped.
    Halt,
}

impl<'a> TokenStream<'a> {
    pub(crate) fn new(text: &'a [char]) -> Self {
        Self {
            text,
            lexer: Lexer::new(text),
            tokens: Vec::new(),
            at: 0,
            issues: Vec::new(),
            unreadable: Vec::new(),
            contexts: Vec::new(),
            state: 0,
            recovering: false,
            last_index: None,
            last_states: 0,
            attempts: 0,
            reports: 0,
            halted: false,
        }
    }

    /// Returns the token at a distance ahead: 0 is the current one.
    pub(crate) fn ahead(&mut self, distance: usize) -> Token {
        let wanted = self.at + distance;
        while self.tokens.len() <= wanted {
            if let Some(last) = self.tokens.last()
                && last.kind == Kind::End
            {
                return *last;
            }
            if self.halted {
                let end = self.text.len();
                self.tokens.push(Token {
                    kind: Kind::End,
                    start: end,
                    end,
                });
                continue;
            }
            match self.lexer.next() {
                Ok(token) => self.tokens.push(token),
                Err(unreadable) => {
                    let Unreadable { start, end } = unreadable;
                    let found: String = self.text[start..end].iter().collect();
                    self.report(start, format!("token recognition error at: '{found}'"));
                    self.unreadable.push(unreadable);
                }
            }
        }
        self.tokens[wanted]
    }

    /// Returns the kind of the current token.
    pub(crate) fn kind(&mut self) -> Kind {
        self.ahead(0).kind
    }

    /// Returns the characters of a token.
    pub(crate) fn text_of(&self, token: Token) -> String {
        self.text[token.start..token.end].iter().collect()
    }

    /// Enters a rule that these tokens may follow.
    pub(crate) fn enter(&mut self, follow: Set) {
        self.contexts.push(follow);
    }

    /// Leaves a rule that was entered in this state, and recovers from its error.
    pub(crate) fn leave(
        &mut self,
        error: Option<SyntaxError>,
        site: u8,
    ) -> Result<(), SyntaxError> {
        if let Some(error) = error {
            self.report_error(error)?;
            self.recover()?;
        }
        self.contexts.pop();
        self.state = site;
        Ok(())
    }

    /// Consumes a token of this kind. Otherwise an extraneous token is skipped, or a missing one
    /// assumed, if the tokens that follow (`after`) then match.
    pub(crate) fn take(&mut self, kind: Kind, after: Set, state: u8) -> Result<Token, SyntaxError> {
        self.state = state;
        let token = self.ahead(0);
        if token.kind == kind {
            self.matched();
            self.consume();
            return Ok(token);
        }
        self.attempt()?;
        let expected = Set::of(&[kind]);
        if self.ahead(1).kind == kind {
            self.unwanted(token, expected)?;
            self.consume();
            self.matched();
            let token = self.ahead(0);
            self.consume();
            return Ok(token);
        }
        if self.in_context(after).has(token.kind) {
            self.missing(token, expected)?;
            return Ok(Token {
                kind,
                start: token.start,
                end: token.start,
            });
        }
        Err(SyntaxError::Mismatch(expected))
    }

    /// Consumes the current token, which is known to match.
    pub(crate) fn take_any(&mut self) -> Token {
        let token = self.ahead(0);
        self.matched();
        self.consume();
        token
    }

    /// Before a choice: the current token must match, or be one that can be skipped.
    pub(crate) fn sync(&mut self, local: Set, state: u8) -> Result<(), SyntaxError> {
        self.state = state;
        let token = self.ahead(0);
        if self.recovering || local.may_end() || local.has(token.kind) {
            return Ok(());
        }
        let expected = self.in_context(local);
        if expected.has(self.ahead(1).kind) {
            self.unwanted(token, expected)?;
            self.consume();
            self.matched();
            return Ok(());
        }
        Err(SyntaxError::Mismatch(expected))
    }

    /// Before the next iteration of a repetition: tokens that do not match are skipped.
    pub(crate) fn sync_again(&mut self, local: Set, state: u8) -> Result<(), SyntaxError> {
        self.state = state;
        let token = self.ahead(0);
        if self.recovering || local.may_end() || local.has(token.kind) {
            return Ok(());
        }
        let expected = self.in_context(local);
        self.unwanted(token, expected)?;
        let until = expected.or(self.recovery());
        while self.kind() != Kind::End && !until.has(self.kind()) {
            self.consume();
        }
        Ok(())
    }

    fn in_context(&self, local: Set) -> Set {
        let mut all = local.words();
        let mut following = local;
        for context in self.contexts.iter().rev() {
            if !following.may_end() {
                return all;
            }
            following = *context;
            all = all.or(following.words());
        }
        if following.may_end() {
            all.or(Set::of(&[Kind::End]))
        } else {
            all
        }
    }

    fn recovery(&self) -> Set {
        self.contexts
            .iter()
            .fold(Set::of(&[]), |all, context| all.or(context.words()))
    }

    fn recover(&mut self) -> Result<(), SyntaxError> {
        self.attempt()?;
        let mut skipped = 0;
        let state = 1 << u64::from(self.state);
        if self.last_index == Some(self.at) && self.last_states & state != 0 {
            skipped += 1;
            self.consume();
        }
        self.last_index = Some(self.at);
        self.last_states |= state;
        let until = self.recovery();
        while self.kind() != Kind::End && !until.has(self.kind()) {
            if skipped == MAX_SKIPPED {
                let message =
                    format!("error recovery token lookahead limit exceeded: {MAX_SKIPPED}");
                self.issues.push(Issue {
                    offset: None,
                    message,
                });
                return Err(SyntaxError::Halt);
            }
            skipped += 1;
            self.consume();
        }
        Ok(())
    }

    fn attempt(&mut self) -> Result<(), SyntaxError> {
        self.attempts += 1;
        if self.attempts > MAX_ATTEMPTS {
            let message = format!("error recovery attempt limit exceeded: {MAX_ATTEMPTS}");
            let place = self.ahead(0).start;
            self.report(place, message);
            return Err(SyntaxError::Halt);
        }
        Ok(())
    }

    fn report_error(&mut self, error: SyntaxError) -> Result<(), SyntaxError> {
        if matches!(error, SyntaxError::Halt) {
            return Err(error);
        }
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        match error {
            SyntaxError::Mismatch(expected) => {
                let token = self.ahead(0);
                let message = format!("mismatched input {} expecting {expected}", self.show(token));
                self.report(token.start, message)
            }
            SyntaxError::NoViable { first, offending } => {
                let message = self.no_viable(first, offending);
                self.report(offending.start, message)
            }
            SyntaxError::Halt => {}
        }
        self.go_on()
    }

    fn unwanted(&mut self, token: Token, expected: Set) -> Result<(), SyntaxError> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let message = format!("extraneous input {} expecting {expected}", self.show(token));
        self.report(token.start, message);
        self.go_on()
    }

    fn missing(&mut self, token: Token, expected: Set) -> Result<(), SyntaxError> {
        if self.recovering {
            return Ok(());
        }
        self.recovering = true;
        let message = format!("missing {expected} at {}", self.show(token));
        self.report(token.start, message);
        self.go_on()
    }

    fn no_viable(&self, first: Token, offending: Token) -> String {
        let text: String = match first.kind {
            Kind::End => "<EOF>".to_owned(),
            _ => (first.start..offending.end)
                .filter(|at| {
                    !self
                        .unreadable
                        .iter()
                        .any(|it| (it.start..it.end).contains(at))
                })
                .map(|at| self.text[at])
                .collect(),
        };
        // A reserved word behind a single character is reported as the word.
        if let Some(word @ ("true" | "false" | "null")) = text.get(1..) {
            return format!("mismatched input '{word}' expecting IDENTIFIER");
        }
        format!("no viable alternative at input {}", quote(&text))
    }

    fn show(&self, token: Token) -> String {
        match token.kind {
            Kind::End => "'<EOF>'".to_owned(),
            _ => quote(&self.text_of(token)),
        }
    }

    fn report(&mut self, place: usize, message: String) {
        if self.halted {
            return;
        }
        self.reports += 1;
        let message = if self.reports > MAX_REPORTS {
            self.halted = true;
            format!("Syntax error: More than {MAX_REPORTS} syntax errors")
        } else {
            format!("Syntax error: {message}")
        };
        self.issues.push(Issue {
            offset: Some(place),
            message,
        });
    }

    fn go_on(&self) -> Result<(), SyntaxError> {
        if self.halted {
            Err(SyntaxError::Halt)
        } else {
            Ok(())
        }
    }

    fn matched(&mut self) {
        self.recovering = false;
        self.last_index = None;
        self.last_states = 0;
    }

    fn consume(&mut self) {
        if self.kind() != Kind::End {
            self.at += 1;
        }
    }
}

/// Quotes text as ANTLR's messages do.
fn quote(text: &str) -> String {
    let shown = text
        .replace('\t', "\\t")
        .replace('\n', "\\n")
        .replace('\r', "\\r");
    format!("'{shown}'")
}
