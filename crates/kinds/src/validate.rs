//! What is wrong with an object.
