//! The static token file: one line `token,user,uid,"group,group"` per token.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use insula_core::{CredentialRef, Extra, Proof, TenantBinding};
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use ring::pbkdf2;

use crate::credential::{Credential, Membership, TenantError};

/// Credentials by token.
///
/// Only digests of the tokens are kept. The time of a lookup depends on digests, which an
/// attacker cannot choose byte by byte, and never on the tokens themselves.
#[derive(Clone)]
pub struct TokenFile {
    holders: HashMap<Digest, Holder>,
}

/// The holder of a token.
#[derive(Clone)]
struct Holder {
    credential: Credential,
    /// The token's ID, once it was asked for.
    id: OnceLock<Arc<str>>,
}

/// The work that an ID costs. Static tokens may be short words, and IDs are shown to users who
/// must not find the token by trying words.
const ID_ITERATIONS: NonZeroU32 = NonZeroU32::new(10_000).expect("it is not zero");

/// Bytes of an ID.
const ID_LENGTH: usize = 12;

type Digest = [u8; SHA256_OUTPUT_LEN];

/// Why a token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenFileError {
    /// The file cannot be read.
    #[error(transparent)]
    Read(io::Error),
    /// A line is invalid. Its content is not repeated, because it could be a token.
    #[error("line {line}: {problem}")]
    Line {
        /// The line number, starting at 1.
        line: u64,
        /// The problem with the line.
        problem: LineProblem,
    },
}

/// A problem with a line of a token file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// It is not UTF-8.
    #[error("it is not UTF-8")]
    Encoding,
    /// A quote is neither around a field nor doubled.
    #[error("a quote in it is neither around a field nor doubled")]
    Quote,
    /// There are less than three fields or more than four.
    #[error("it has {0} fields instead of token, user, uid and, in quotes, the groups")]
    Fields(usize),
    /// The token is empty, so any client would hold it.
    #[error("its token is empty")]
    NoToken,
    /// The user is empty.
    #[error("its user is empty")]
    NoUser,
    /// An earlier line has the same token, so its holder would be ambiguous.
    #[error("its token is already used by an earlier line")]
    DuplicateToken,
    /// The tenant it names is invalid or ambiguous.
    #[error(transparent)]
    Tenant(#[from] TenantError),
}

impl TokenFile {
    /// Reads the tokens of a file.
    pub fn load(path: &Path) -> Result<Self, TokenFileError> {
        let bytes = std::fs::read(path).map_err(TokenFileError::Read)?;
        Self::from_bytes(&bytes)
    }

    /// Parses the content of a file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, TokenFileError> {
        let text = str::from_utf8(bytes).map_err(|error| {
            let before = bytes.iter().take(error.valid_up_to());
            let newlines = before.filter(|&&byte| byte == b'\n').count();
            TokenFileError::Line {
                line: newlines as u64 + 1,
                problem: LineProblem::Encoding,
            }
        })?;
        Self::parse(text)
    }

    /// Parses CSV, with quotes around fields that contain commas, and quotes doubled inside
    /// them. Empty lines are skipped, and spaces around groups are trimmed.
    pub fn parse(text: &str) -> Result<Self, TokenFileError> {
        let mut holders = HashMap::new();
        for (line, text) in (1..).zip(text.lines()) {
            if text.is_empty() {
                continue;
            }
            let wrong = |problem| TokenFileError::Line { line, problem };
            let fields = fields(text).map_err(wrong)?;
            let (token, credential) = holder(&fields).map_err(wrong)?;
            let id = OnceLock::new();
            let holder = Holder { credential, id };
            if holders.insert(digest_of(token), holder).is_some() {
                return Err(wrong(LineProblem::DuplicateToken));
            }
        }
        Ok(Self { holders })
    }

    /// Looks up the credential that a token stands for.
    pub fn find(&self, token: &str) -> Option<&Credential> {
        let holder = self.holders.get(&digest_of(token))?;
        Some(&holder.credential)
    }

    /// Returns the ID of a token of the file. It does not change with the file, and the token
    /// cannot be computed from it.
    pub fn id(&self, token: &str) -> Option<Arc<str>> {
        let holder = self.holders.get(&digest_of(token))?;
        let id = holder.id.get_or_init(|| id(token, &holder.credential.user));
        Some(Arc::clone(id))
    }

    /// Whether every token of this file stands for the same credential in another one.
    pub fn is_within(&self, other: &Self) -> bool {
        let kept = |(digest, holder): (&Digest, &Holder)| {
            let found = other.holders.get(digest);
            found.is_some_and(|found| found.credential == holder.credential)
        };
        self.holders.iter().all(kept)
    }
}

impl fmt::Debug for TokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenFile(****)")
    }
}

fn id(token: &str, user: &str) -> Arc<str> {
    let mut bytes = [0; ID_LENGTH];
    let salt = format!("insula static token of {user}");
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    let (salt, token) = (salt.as_bytes(), token.as_bytes());
    pbkdf2::derive(algorithm, ID_ITERATIONS, salt, token, &mut bytes);
    format!("static-{}", crate::hexadecimal(&bytes)).into()
}

fn digest_of(token: &str) -> Digest {
    let mut bytes = [0; SHA256_OUTPUT_LEN];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

/// Reads the token of a line and the credential that it stands for.
fn holder(fields: &[String]) -> Result<(&str, Credential), LineProblem> {
    let (token, user, uid, groups) = match fields {
        [token, user, uid] => (token, user, uid, ""),
        [token, user, uid, groups] => (token, user, uid, groups.as_str()),
        // Unquoted groups become extra fields. Kubernetes keeps the first of them, which could
        // lose the tenant.
        _ => return Err(LineProblem::Fields(fields.len())),
    };
    if token.is_empty() {
        return Err(LineProblem::NoToken);
    }
    if user.is_empty() {
        return Err(LineProblem::NoUser);
    }
    let groups = groups.split(',').map(str::trim);
    let membership = Membership::from_groups(groups.filter(|group| !group.is_empty()))?;
    let credential = Credential {
        user: user.clone(),
        uid: Some(uid.clone()).filter(|uid| !uid.is_empty()),
        groups: membership.groups,
        extra: Extra::new(),
        tenant: membership.tenant,
        tenant_binding: TenantBinding::Name,
        proof: Proof::StaticToken,
        reference: CredentialRef::default(),
    };
    Ok((token, credential))
}

/// Splits a line into fields. Quotes are checked as strictly as in Kubernetes: an unclosed
/// quote would hide all following tokens.
fn fields(line: &str) -> Result<Vec<String>, LineProblem> {
    let mut fields = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let (field, after) = match text.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => plain_field(text)?,
        };
        fields.push(field);
        rest = after;
    }
    Ok(fields)
}

type FieldAndRest<'a> = (String, Option<&'a str>);

fn plain_field(text: &str) -> Result<FieldAndRest<'_>, LineProblem> {
    let (field, rest) = match text.split_once(',') {
        Some((field, rest)) => (field, Some(rest)),
        None => (text, None),
    };
    if field.contains('"') {
        return Err(LineProblem::Quote);
    }
    Ok((field.to_owned(), rest))
}

fn quoted_field(mut text: &str) -> Result<FieldAndRest<'_>, LineProblem> {
    let mut field = String::new();
    loop {
        let (part, rest) = text.split_once('"').ok_or(LineProblem::Quote)?;
        field.push_str(part);
        if rest.is_empty() {
            return Ok((field, None));
        }
        if let Some(rest) = rest.strip_prefix(',') {
            return Ok((field, Some(rest)));
        }
        text = rest.strip_prefix('"').ok_or(LineProblem::Quote)?;
        field.push('"');
    }
}

#[cfg(test)]
mod tests {
    use insula_core::{NotATenantName, Space};

    use super::*;

    const FILE: &str = "\
s3cret,alice,42,\"dev, ops,tenant:t1\"\r
\"quo\"\"ted,token\",bob,\"\"

admin,root,1,\"system:masters,tenant:system\"
plain,carol,7,dev";

    #[test]
    fn each_token_finds_its_own_credential() {
        let tokens = TokenFile::parse(FILE).unwrap();
        let found = |token| {
            let credential = tokens.find(token)?;
            assert_eq!(credential.proof, Proof::StaticToken);
            let uid = credential.uid.as_deref();
            let groups = credential.groups.join("|");
            Some((
                credential.user.as_str(),
                uid,
                groups,
                credential.tenant.clone(),
            ))
        };
        let t1 = Some(Space::parse("t1").unwrap());
        let masters = "system:masters".to_owned();
        let dev = || "dev".to_owned();
        for (token, expected) in [
            (
                "s3cret",
                Some(("alice", Some("42"), "dev|ops".to_owned(), t1)),
            ),
            ("quo\"ted,token", Some(("bob", None, String::new(), None))),
            (
                "admin",
                Some(("root", Some("1"), masters, Some(Space::System))),
            ),
            ("plain", Some(("carol", Some("7"), dev(), None))),
            ("", None),
            ("s3cre", None),
            ("s3cret ", None),
            ("alice", None),
        ] {
            assert_eq!(found(token), expected, "{token}");
        }
    }

    #[test]
    fn id_of_a_token_survives_changes_of_the_file_and_differs_by_token_and_user() {
        let tokens = TokenFile::parse(FILE).unwrap();
        let id = tokens.id("s3cret").unwrap();
        assert_eq!(id.len(), "static-".len() + 24, "{id}");
        assert!(!id.contains("s3cret"));
        assert_eq!(tokens.id("unknown"), None);
        let moved = TokenFile::parse("x,y,z\ns3cret,alice,other,\"tenant:t9\"").unwrap();
        assert_eq!(moved.id("s3cret"), Some(id.clone()));
        assert_ne!(tokens.id("plain"), Some(id.clone()));
        let other = TokenFile::parse("s3cret,mallory,1").unwrap();
        assert_ne!(other.id("s3cret"), Some(id));
    }

    #[test]
    fn file_is_within_another_if_that_has_all_its_lines_unchanged() {
        let parse = |text: &str| TokenFile::parse(text).unwrap();
        let old = parse("a,alice,1\nb,bob,2,dev");
        for (new, within) in [
            ("a,alice,1\nb,bob,2,dev", true),
            ("c,carol,3\nb,bob,2,dev\na,alice,1", true),
            ("a,alice,1", false),
            ("a,alice,1\nb,bob,2,ops", false),
            ("", false),
        ] {
            assert_eq!(old.is_within(&parse(new)), within, "{new}");
        }
    }

    #[test]
    fn error_names_the_line_and_never_the_token() {
        let name = LineProblem::Tenant(TenantError::InvalidName(NotATenantName));
        for (line, problem) in [
            ("s3cret,alice", LineProblem::Fields(2)),
            ("s3cret", LineProblem::Fields(1)),
            ("s3cret,alice,42,dev,tenant:t1", LineProblem::Fields(5)),
            (",alice,42", LineProblem::NoToken),
            ("s3cret,,42", LineProblem::NoUser),
            ("s3cret,alice,42,\"dev", LineProblem::Quote),
            ("s3cret,alice,42,\"dev\"x", LineProblem::Quote),
            ("s3\"cret,alice,42", LineProblem::Quote),
            ("first,alice,42", LineProblem::DuplicateToken),
            ("s3cret,alice,42,tenant:", name),
            ("s3cret,alice,42,\" tenant:all\"", name),
            (
                "s3cret,alice,42,\"tenant:a,tenant:b\"",
                LineProblem::Tenant(TenantError::Multiple),
            ),
        ] {
            let error = TokenFile::parse(&format!("first,bob,1\n\n{line}\n")).unwrap_err();
            let expected = format!("line 3: {problem}");
            assert_eq!(error.to_string(), expected, "{line}");
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("cret"), "{text}");
            }
        }
    }

    #[test]
    fn file_errors_are_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.csv");
        let missing = TokenFile::load(&path).unwrap_err();
        assert!(matches!(missing, TokenFileError::Read(_)), "{missing:?}");
        std::fs::write(&path, FILE).unwrap();
        assert!(TokenFile::load(&path).unwrap().find("plain").is_some());
        std::fs::write(&path, b"a,b,c\nx,\xff,z\n").unwrap();
        let error = TokenFile::load(&path).unwrap_err();
        assert_eq!(error.to_string(), "line 2: it is not UTF-8");
    }

    #[test]
    fn tokens_are_not_printed() {
        let tokens = TokenFile::parse(FILE).unwrap();
        assert_eq!(format!("{tokens:?}"), "TokenFile(****)");
    }
}
