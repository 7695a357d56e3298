//! Objects from text, by their type.
