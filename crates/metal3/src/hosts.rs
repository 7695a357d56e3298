//! Which host a machine gets, and which states a host has.
