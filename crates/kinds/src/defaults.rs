//! What an object gets that nobody wrote.
