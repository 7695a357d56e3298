//! Objects as rows of a table.
