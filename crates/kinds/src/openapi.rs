//! The schemas of what is served.
