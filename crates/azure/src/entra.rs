//! Tokens of Microsoft Entra ID and of managed identities.
//!
//! | module | content |
//! |---|---|
//! | [`account`] | an account: the contents of a Secret, parsed |
//! | [`shape`] | the contents that a Secret must have |
//! | [`cloud`] | the endpoints of the clouds |
//! | [`tokens`] | the token of an account, cached and renewed |
//! | [`token_request`] | requests for tokens, and their responses |
//! | [`metadata_service`] | tokens of managed identities |
//! | [`assertion`] | assertions that take the place of a secret |
//! | [`certificate`] | client certificates with their keys, as PEM or PKCS#12 |
//! | `pkcs12` | files of PKCS#12 |
//! | [`error`] | why there is no token |
//! | [`base_url`] | base URLs of servers, and URLs below them |

pub mod account;
pub mod assertion;
pub mod base_url;
pub mod certificate;
pub mod cloud;
pub mod error;
pub mod metadata_service;
mod pkcs12;
pub mod shape;
pub mod token_request;
pub mod tokens;

pub use account::{Account, Proof};
pub use assertion::{Assertion, AssertionError, AssertionFor, Assertions, TokenFile};
pub use base_url::{BaseUrl, Cleartext};
pub use cloud::Cloud;
pub use error::TokenError;
pub use shape::AccountShape;
pub use tokens::{Token, Tokens};
