//! The contents of metadata and network data Secrets.
