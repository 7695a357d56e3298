//! Helm, with a chart that has one of each.
