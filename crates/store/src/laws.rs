//! The laws of a store, as tests that every engine passes.
